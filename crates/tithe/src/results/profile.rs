//! A profile of a table: what each column contains, and which columns a model cannot use as they are.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use serde::Serialize;

use crate::base::error::{ErrorKind, Result};
use crate::base::progress::{Event, Observer};
use crate::base::rng::mix64;
use crate::data::block::{Column, Field, INEXACT, Kind, Segment};
use crate::data::source::Source;

/// Distinct values are counted up to this many per column.
const DISTINCT_KEPT: usize = 10_000;
/// Rows from which correlations are computed: the first of them, and then every second, fourth, … row.
const ROWS_CORRELATED: usize = 4_000;
/// Columns are reported as collinear from this correlation on.
const COLLINEAR: f64 = 0.995;
/// A level is reported as separating if it has at least this many rows, all of one class.
const SEPARATING_ROWS: u64 = 3;

/// A profile of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// Number of rows.
    pub rows: u64,
    /// Number of rows with a missing or infinite value, or an integer too large to be exact, in some column that can be read.
    pub incomplete_rows: u64,
    /// The columns, in order.
    pub columns: Vec<ColumnProfile>,
    /// Pairs of columns of numbers whose correlation is almost 1 or −1.
    pub collinear: Vec<Collinear>,
}

/// Two columns of numbers that are almost linear functions of each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Collinear {
    /// The first column.
    pub first: String,
    /// The second column.
    pub second: String,
    /// Their correlation.
    pub correlation: f64,
}

/// What a column contains.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnProfile {
    /// Its name.
    pub name: String,
    /// Its kind: number, boolean, text or unsupported.
    pub kind: String,
    /// Its type in the file.
    pub data_type: String,
    /// Number of missing values.
    pub missing: u64,
    /// Number of infinite values, and of integers too large to be exact.
    pub unusable: u64,
    /// Number of distinct values; `None` if there are more than 10,000.
    pub distinct: Option<usize>,
    /// Of numbers: smallest value, largest value, mean, standard deviation and skewness.
    pub numbers: Option<NumberProfile>,
    /// The most frequent levels of text, at most ten, with their numbers of rows.
    pub levels: Vec<(String, u64)>,
    /// What to consider before the column is used.
    pub findings: Vec<ColumnFinding>,
}

/// The distribution of a column of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NumberProfile {
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// Skewness: the mean of the third power of the standardised values.
    pub skewness: f64,
}

/// How the parts of a column of dates become features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DateUse {
    /// Without being named.
    Detected,
    /// If the column is named as one of dates.
    Named,
    /// Not at all: they are written in a way that is ambiguous or not known.
    Unreadable,
}

/// Something about a column that matters for a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "finding")]
pub enum ColumnFinding {
    /// Values of this type cannot be used.
    Unsupported,
    /// All values are missing.
    Empty,
    /// All values are equal.
    Constant,
    /// All values are those of another column.
    Copy {
        /// The other column.
        of: String,
    },
    /// Whole numbers that count the rows.
    Index,
    /// Almost every row has a value of its own.
    Identifier,
    /// Dates or times.
    Dates {
        /// One of them, or their type.
        example: String,
        /// How their parts become features.
        used: DateUse,
    },
    /// Text whose values are all numbers written for readers.
    LooksNumeric {
        /// One of them.
        example: String,
    },
    /// More levels than a text column may have.
    ManyLevels {
        /// With this many rows at least per level, there are not too many; `None` if no number does that.
        least: Option<u64>,
    },
    /// Whole numbers that rather name something, such as postcodes: many rows per value, and no order that is evident.
    Codes,
    /// A long tail: a few values lie many standard deviations from the mean.
    Skewed,
    /// All rows with this level have the same label, so that the level separates the classes.
    Separates {
        /// The level.
        level: String,
        /// Number of its rows.
        rows: u64,
        /// Their label.
        label: String,
    },
}

/// Profiles all rows of a source; `label` is the column with the two classes, if it is known.
///
/// # Errors
/// If the data cannot be read, or there is no such label.
pub fn profile(
    source: &dyn Source,
    label: Option<&str>,
    max_levels: usize,
    observer: &dyn Observer,
) -> Result<Profile> {
    let fields = source.fields();
    if let Some(label) = label
        && fields.iter().all(|field| field.name != label)
    {
        let names = fields.iter().map(|field| field.name.as_str());
        return Err(crate::base::error::Error::unknown_column("to use as label", label, names));
    }
    let columns: Vec<usize> = (0..fields.len()).filter(|&c| fields[c].kind != Kind::Unsupported).collect();
    let label = columns.iter().position(|&c| Some(fields[c].name.as_str()) == label);
    let mut seen = Seen::new(columns.len(), label);
    observer.event(Event::PassStarted { name: "profiling the columns", rows: source.rows() });
    let mut scan = source.scan(&columns)?;
    let (mut file, mut row) = (std::path::PathBuf::new(), 0);
    while let Some(unit) = scan.next_unit()? {
        if file != unit.file() {
            (file, row) = (unit.file().to_path_buf(), 0);
        }
        let start = row;
        let decoded = unit.decode(&mut |segment| {
            if observer.cancelled() {
                return Err(ErrorKind::Cancelled.into());
            }
            row += segment.len as u64;
            seen.add(&segment);
            observer.event(Event::RowsDone(segment.len as u64));
            Ok(())
        });
        decoded.map_err(|error| error.moved_down(start))?;
    }
    observer.event(Event::PassFinished);
    Ok(seen.finish(source, &columns, max_levels))
}

/// What was seen of all columns.
struct Seen {
    rows: u64,
    incomplete_rows: u64,
    columns: Vec<SeenColumn>,
    label: Option<usize>,
    /// The numbers of some rows, for correlations.
    kept: Vec<Vec<f64>>,
    /// Every so many rows are kept.
    stride: u64,
}

/// What was seen of a column.
#[derive(Default)]
struct SeenColumn {
    missing: u64,
    unusable: u64,
    numbers: Numbers,
    /// Distinct numbers by their bits, with their numbers of rows.
    distinct: HashMap<u64, u64, BuildHasherDefault<DefaultHasher>>,
    levels: HashMap<String, Level, BuildHasherDefault<DefaultHasher>>,
    too_many: bool,
    /// A hash of all values in their order.
    hash: u64,
}

/// A level of text, or a label.
#[derive(Default)]
struct Level {
    rows: u64,
    /// The label of its first row, and whether all its rows have it.
    label: Option<String>,
    is_mixed: bool,
}

/// Sums of powers, updated value by value (Pébay 2008), so that no large numbers cancel.
#[derive(Clone, Copy)]
struct Numbers {
    count: f64,
    mean: f64,
    second: f64,
    third: f64,
    min: f64,
    max: f64,
    are_whole: bool,
    /// True as long as each value is one more than the value before it.
    counts_rows: bool,
    last: f64,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            count: 0.0,
            mean: 0.0,
            second: 0.0,
            third: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            are_whole: true,
            counts_rows: true,
            last: f64::NAN,
        }
    }
}

impl Numbers {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let n = self.count;
        let delta = value - self.mean;
        let step = delta / n;
        let term = delta * step * (n - 1.0);
        self.third += term * step * (n - 2.0) - 3.0 * step * self.second;
        self.second += term;
        self.mean += step;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.are_whole &= value.fract() == 0.0;
        self.counts_rows &= n == 1.0 || value == self.last + 1.0;
        self.last = value;
    }

    fn profile(&self) -> NumberProfile {
        let variance = self.second / self.count;
        NumberProfile {
            min: self.min,
            max: self.max,
            mean: self.mean,
            sd: variance.sqrt(),
            skewness: if variance > 0.0 {
                self.third / self.count / (variance * variance.sqrt())
            } else {
                0.0
            },
        }
    }
}

impl Seen {
    fn new(columns: usize, label: Option<usize>) -> Seen {
        let columns = (0..columns).map(|_| SeenColumn::default()).collect();
        Seen { rows: 0, incomplete_rows: 0, columns, label, kept: Vec::new(), stride: 1 }
    }

    fn add(&mut self, segment: &Segment) {
        let label = self.label.map(|at| &segment.columns[at]);
        for (seen, column) in self.columns.iter_mut().zip(&segment.columns) {
            seen.add(column, label);
        }
        for row in 0..segment.len {
            let is_complete = segment.columns.iter().all(|column| column.is_usable(row));
            self.incomplete_rows += u64::from(!is_complete);
            if is_complete && (self.rows + row as u64).is_multiple_of(self.stride) {
                self.keep(segment, row);
            }
        }
        self.rows += segment.len as u64;
    }

    /// Keeps a row; if there are too many, every second one.
    fn keep(&mut self, segment: &Segment, row: usize) {
        let value = |column: &Column| match column {
            Column::Number(values) => values[row],
            Column::Text { .. } => f64::NAN,
        };
        self.kept.push(segment.columns.iter().map(value).collect());
        if self.kept.len() > ROWS_CORRELATED {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride *= 2;
        }
    }

    fn finish(self, source: &dyn Source, columns: &[usize], max_levels: usize) -> Profile {
        let fields = source.fields();
        let mut profiles: Vec<ColumnProfile> = fields
            .iter()
            .map(|field| ColumnProfile {
                name: field.name.clone(),
                kind: kind_name(field.kind).to_string(),
                data_type: field.data_type.to_string(),
                missing: 0,
                unusable: 0,
                distinct: None,
                numbers: None,
                levels: Vec::new(),
                findings: Vec::from_iter(
                    (field.kind == Kind::Unsupported).then_some(ColumnFinding::Unsupported),
                ),
            })
            .collect();
        for (at, &c) in columns.iter().enumerate() {
            let copied = (0..at).find(|&other| self.columns[other].is_copy(&self.columns[at], self.rows));
            let seen = &self.columns[at];
            let profile = &mut profiles[c];
            seen.describe(profile, &fields[c], self.rows, max_levels);
            for finding in &mut profile.findings {
                if let ColumnFinding::Dates { used, .. } = finding
                    && (fields[c].kind == Kind::Time || source.looks_like_dates(c).is_some())
                {
                    *used = DateUse::Detected;
                }
            }
            if let Some(other) = copied {
                profile.findings.push(ColumnFinding::Copy { of: fields[columns[other]].name.clone() });
            }
            if let Some(example) = source.looks_numeric(c) {
                // As numbers they are neither.
                let is_level = |finding: &ColumnFinding| {
                    matches!(finding, ColumnFinding::Identifier | ColumnFinding::ManyLevels { .. })
                };
                profile.findings.retain(|finding| !is_level(finding));
                profile.findings.push(ColumnFinding::LooksNumeric { example });
            }
            if self.label != Some(at) && seen.levels.len() <= max_levels {
                // A date or an identifier separates only because it is rare.
                if profile.findings.is_empty() {
                    profile.findings.extend(seen.separating());
                }
            }
        }
        Profile {
            rows: self.rows,
            incomplete_rows: self.incomplete_rows,
            collinear: self.collinear(fields, columns),
            columns: profiles,
        }
    }

    /// Pairs of columns with a correlation near 1 or −1 among the rows kept; copies are not repeated.
    fn collinear(&self, fields: &[Field], columns: &[usize]) -> Vec<Collinear> {
        let n = self.kept.len() as f64;
        let standardized: Vec<Option<Vec<f64>>> = (0..columns.len())
            .map(|at| {
                let mean = self.kept.iter().map(|row| row[at]).sum::<f64>() / n;
                let squares = self.kept.iter().map(|row| (row[at] - mean).powi(2)).sum::<f64>();
                let norm = squares.sqrt();
                (norm > 0.0 && norm.is_finite())
                    .then(|| self.kept.iter().map(|row| (row[at] - mean) / norm).collect())
            })
            .collect();
        let mut found = Vec::new();
        for (b, second) in standardized.iter().enumerate() {
            for (a, first) in standardized[..b].iter().enumerate() {
                let (Some(first), Some(second)) = (first, second) else { continue };
                let correlation: f64 = first.iter().zip(second).map(|(x, y)| x * y).sum();
                let is_copy = self.columns[a].is_copy(&self.columns[b], self.rows);
                if correlation.abs() >= COLLINEAR
                    && !is_copy
                    && self.label != Some(a)
                    && self.label != Some(b)
                {
                    found.push(Collinear {
                        first: fields[columns[a]].name.clone(),
                        second: fields[columns[b]].name.clone(),
                        correlation,
                    });
                }
            }
        }
        found
    }
}

impl SeenColumn {
    fn add(&mut self, column: &Column, label: Option<&Column>) {
        match column {
            Column::Number(values) => {
                for &value in values.iter() {
                    self.hash = mix64(self.hash ^ value.to_bits());
                    if value.to_bits() == INEXACT.to_bits() || value.is_infinite() {
                        self.unusable += 1;
                    } else if value.is_nan() {
                        self.missing += 1;
                    } else {
                        self.numbers.add(value);
                        if self.distinct.len() < DISTINCT_KEPT || self.distinct.contains_key(&value.to_bits())
                        {
                            *self.distinct.entry(value.to_bits()).or_default() += 1;
                        } else {
                            self.too_many = true;
                        }
                    }
                }
            }
            Column::Text { codes, levels } => {
                let hasher = BuildHasherDefault::<DefaultHasher>::default();
                let hashes: Vec<u64> = levels.iter().map(|level| hasher.hash_one(level)).collect();
                for (row, &code) in codes.iter().enumerate() {
                    self.hash = mix64(self.hash ^ hashes.get(code as usize).copied().unwrap_or(1));
                    let Some(level) = levels.get(code as usize) else {
                        self.missing += 1;
                        continue;
                    };
                    if !self.levels.contains_key(level) {
                        if self.levels.len() == DISTINCT_KEPT {
                            self.too_many = true;
                            continue;
                        }
                        self.levels.insert(level.clone(), Level::default());
                    }
                    if let Some(seen) = self.levels.get_mut(level) {
                        seen.add(label.map(|label| label.show(row)));
                    }
                }
            }
        }
    }

    /// True if another column has the same values in the same order.
    fn is_copy(&self, other: &SeenColumn, rows: u64) -> bool {
        let varies = self.distinct.len() + self.levels.len() > 1;
        let counts = |column: &SeenColumn| (column.missing, column.distinct.len(), column.levels.len());
        rows > 0 && varies && self.hash == other.hash && counts(self) == counts(other)
    }

    fn describe(&self, profile: &mut ColumnProfile, field: &Field, rows: u64, max_levels: usize) {
        let distinct = self.distinct.len() + self.levels.len();
        profile.missing = self.missing;
        profile.unusable = self.unusable;
        profile.distinct = (!self.too_many).then_some(distinct);
        let there = rows - self.missing - self.unusable;
        if field.kind == Kind::Number && there > 0 {
            profile.numbers = Some(self.numbers.profile());
        }
        let mut levels: Vec<(&String, u64)> =
            self.levels.iter().map(|(level, seen)| (level, seen.rows)).collect();
        levels.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        profile.levels = levels.iter().take(10).map(|(level, rows)| ((*level).clone(), *rows)).collect();
        if rows > 0 && there == 0 {
            profile.findings.push(ColumnFinding::Empty);
        } else if distinct == 1 && !self.too_many {
            profile.findings.push(ColumnFinding::Constant);
        } else if field.kind == Kind::Time {
            let example = field.data_type.to_string();
            profile.findings.push(ColumnFinding::Dates { example, used: DateUse::Detected });
        } else if field.kind == Kind::Number {
            profile.findings.extend(self.about_numbers(there));
        } else if field.kind == Kind::Text {
            let is_distinct = self.too_many || distinct as f64 > 0.9 * there as f64;
            let dates = levels.iter().filter(|(level, _)| looks_like_date(level)).count();
            if dates as f64 > 0.9 * levels.len() as f64 {
                let example = levels[0].0.clone();
                let is_read = crate::data::source::dates::parse(&example).is_some();
                let used = if is_read { DateUse::Named } else { DateUse::Unreadable };
                profile.findings.push(ColumnFinding::Dates { example, used });
            } else if is_distinct && there > 20 {
                profile.findings.push(ColumnFinding::Identifier);
            } else if distinct > max_levels || self.too_many {
                profile.findings.push(ColumnFinding::ManyLevels { least: least_rows(&levels, max_levels) });
            }
        }
    }

    fn about_numbers(&self, there: u64) -> Option<ColumnFinding> {
        let NumberProfile { min, mean, sd, max, skewness } = self.numbers.profile();
        let distinct = self.distinct.len() as f64;
        let is_distinct = self.too_many && there <= 2 * DISTINCT_KEPT as u64 || distinct >= there as f64;
        let Numbers { are_whole, counts_rows, .. } = self.numbers;
        // A permutation of consecutive numbers.
        let fills_range = are_whole && is_distinct && max - min + 1.0 == there as f64;
        if there > 20 && (counts_rows || fills_range) {
            Some(ColumnFinding::Index)
        } else if there > 20 && are_whole && is_distinct && min >= 0.0 && max > 10.0 * there as f64 {
            Some(ColumnFinding::Identifier)
        } else if are_whole
            && (1e4..1e6).contains(&max)
            && min >= 1000.0
            && distinct * 3.0 < there as f64
            && there > 100
        {
            Some(ColumnFinding::Codes)
        } else if skewness.abs() > 5.0 && (max - mean).max(mean - min) > 10.0 * sd {
            Some(ColumnFinding::Skewed)
        } else {
            None
        }
    }

    /// Levels whose rows all have one label.
    fn separating(&self) -> Vec<ColumnFinding> {
        let mut found: Vec<ColumnFinding> = self
            .levels
            .iter()
            .filter(|(_, seen)| !seen.is_mixed && seen.rows >= SEPARATING_ROWS)
            .filter_map(|(level, seen)| {
                let label = seen.label.clone()?;
                Some(ColumnFinding::Separates { level: level.clone(), rows: seen.rows, label })
            })
            .collect();
        found.sort_by(|a, b| format!("{a:?}").cmp(&format!("{b:?}")));
        found
    }
}

impl Level {
    fn add(&mut self, label: Option<String>) {
        self.rows += 1;
        match (&self.label, label) {
            (None, label) => self.label = label,
            (Some(known), Some(label)) => self.is_mixed |= *known != label,
            (Some(_), None) => {}
        }
    }
}

/// The least number of rows of a level, of a few round numbers, that leaves at least two and at most half of the levels that are allowed.
fn least_rows(levels: &[(&String, u64)], max_levels: usize) -> Option<u64> {
    [5, 10, 20, 50, 100, 200, 500, 1000, 5000, 20_000].into_iter().find(|least| {
        let frequent = levels.iter().filter(|(_, rows)| rows >= least).count();
        (2..=max_levels / 2).contains(&frequent)
    })
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::Text => "text",
        Kind::Time => "date",
        Kind::Unsupported => "unsupported",
    }
}

/// True for text such as `2024-02-29`, `29.02.2024`, `2/29/24 13:45` or `2024-02-29T13:45:00Z`.
fn looks_like_date(text: &str) -> bool {
    let date = text.split(['T', ' ']).next().unwrap_or_default();
    ['-', '/', '.'].into_iter().any(|separator| {
        let parts: Vec<&str> = date.split(separator).collect();
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        parts.len() == 3 && parts.iter().all(is_number) && {
            let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
            matches!(lengths[..], [4, 1..=2, 1..=2] | [1..=2, 1..=2, 2 | 4])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::progress::Silent;
    use crate::data::source::Input;
    use crate::data::source::{OpenOptions, open_inputs};

    fn of(text: &str, label: Option<&str>) -> Profile {
        let input = Input::from_reader("data.csv", text.as_bytes(), 1 << 20).expect("an input");
        let source = open_inputs(vec![input], &OpenOptions::default()).expect("a source");
        profile(&*source, label, 100, &Silent).expect("a profile")
    }

    fn messy() -> String {
        let mut text = "id,constant,x,double,copy,when,plan,rate,y\n".to_string();
        for row in 0..300 {
            let x = f64::from(row * 7919 % 1000) / 10.0;
            let plan = ["a", "b", "rare"][if row % 60 == 7 { 2 } else { row as usize % 2 }];
            let y = if plan == "rare" { 1 } else { u8::from(row * 31 % 17 < 8) };
            let missing = if row % 50 == 3 { String::new() } else { format!("{} %", row % 7) };
            text += &format!(
                "{},5,{x},{},{x},2024-0{}-1{},{plan},{missing},{y}\n",
                row + 1,
                2.0 * x + 1.0,
                1 + row % 9,
                row % 10
            );
        }
        text
    }

    #[test]
    fn a_messy_table_is_described() {
        let profile = of(&messy(), Some("y"));
        assert_eq!((profile.rows, profile.incomplete_rows), (300, 6));
        let findings = |name: &str| {
            let column = profile.columns.iter().find(|column| column.name == name).expect("a column");
            column.findings.clone()
        };
        assert_eq!(findings("id"), [ColumnFinding::Index]);
        assert_eq!(findings("constant"), [ColumnFinding::Constant]);
        assert_eq!(findings("x"), []);
        assert_eq!(findings("copy"), [ColumnFinding::Copy { of: "x".into() }]);
        assert!(matches!(findings("when")[..], [ColumnFinding::Dates { .. }]), "{:?}", findings("when"));
        let separates = ColumnFinding::Separates { level: "rare".into(), rows: 5, label: "1".into() };
        assert_eq!(findings("plan"), [separates]);
        assert!(findings("rate").contains(&ColumnFinding::LooksNumeric { example: "0 %".into() }));
        let collinear: Vec<(&str, &str)> =
            profile.collinear.iter().map(|pair| (&pair.first[..], &pair.second[..])).collect();
        assert_eq!(collinear, [("x", "double"), ("double", "copy")]);
        let rate = profile.columns.iter().find(|column| column.name == "rate").expect("a column");
        assert_eq!((rate.missing, rate.distinct), (6, Some(7)));
    }

    #[test]
    fn moments_are_those_of_a_plain_loop() {
        let values: Vec<f64> = (0..200).map(|row| f64::from(row * row % 97) + 1e6).collect();
        let mut numbers = Numbers::default();
        values.iter().for_each(|value| numbers.add(*value));
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let power = |p: i32| values.iter().map(|value| (value - mean).powi(p)).sum::<f64>() / n;
        let found = numbers.profile();
        assert!((found.mean - mean).abs() < 1e-6 && (found.sd / power(2).sqrt() - 1.0).abs() < 1e-9);
        assert!((found.skewness - power(3) / power(2).powf(1.5)).abs() < 1e-9, "{}", found.skewness);
    }

    #[test]
    fn dates_are_recognised() {
        for text in ["2024-02-29", "29.02.2024", "2/29/24 13:45", "2024-02-29T13:45:00Z", "1.2.99"] {
            assert!(looks_like_date(text), "{text}");
        }
        for text in ["12-34", "1.2.3.4", "192.168.1.1", "A-1-2024", "2024", "1-2-3", ""] {
            assert!(!looks_like_date(text), "{text}");
        }
    }

    #[test]
    fn rows_are_kept_evenly() {
        let rows: String = (0..20_000).map(|row| format!("{},{}\n", row % 911, 20_000 - row % 911)).collect();
        let found = of(&format!("a,b\n{rows}"), None);
        assert_eq!(found.collinear.len(), 1);
        assert!((found.collinear[0].correlation + 1.0).abs() < 1e-9);
    }
}
