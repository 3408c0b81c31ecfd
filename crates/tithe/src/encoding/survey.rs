//! The first pass over all rows: learns the encoding (moments, levels, label values), finds unusable values, and selects rows uniformly
//! for the clustering.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::moments::{MomentSums, Moments, sweep};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::base::math::vectorized;
use crate::base::rng::{Purpose, Seed};
use crate::data::block::{Block, Column, Field, INEXACT, Kind, MISSING_CODE, RowSet, Segment, row_name};
use crate::data::fingerprint::{Fingerprint, RowHasher, STRIP};
use crate::data::table::Table;
use crate::encoding::{Coding, Encoding, Feature, Label, LabelValue, Standardize, Unseen, unseen_level};
use crate::engine::parts::{part_ranges, process_parts};
use crate::engine::pass::Pass;
use crate::engine::{Engine, Missing};
use crate::reservoir::slots::{Picked, Racer, Races, Slots};

/// Settings of the encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct EncodingSettings {
    /// Add an intercept.
    pub intercept: bool,
    /// Which columns are centred and scaled.
    pub standardize: Standardize,
    /// The positive value of the label; needed only if the label is text.
    pub positive: Option<String>,
    /// The largest number of levels of a text column.
    pub max_levels: usize,
    #[doc(hidden)]
    /// A known encoding to use instead of learning one; the data must fit it.
    pub known: Option<Encoding>,
    /// The treatment of levels that did not occur when the encoding was learnt.
    pub unseen: Unseen,
}

impl Default for EncodingSettings {
    fn default() -> EncodingSettings {
        EncodingSettings {
            intercept: true,
            standardize: Standardize::default(),
            positive: None,
            max_levels: 100,
            known: None,
            unseen: Unseen::Error,
        }
    }
}

impl EncodingSettings {
    #[doc(hidden)]
    /// Returns an error if a setting contradicts a known encoding, which is used unchanged.
    pub fn check_against(
        &self,
        known: &Encoding,
        label: Option<&str>,
        features: Option<&[String]>,
        exclude: &[String],
    ) -> Result<()> {
        let is_feature = |name: &String| known.features.iter().any(|feature| feature.column == *name);
        let is_other = |feature: &Feature| match self.standardize {
            Standardize::Numeric => false,
            Standardize::All => {
                !matches!(feature.coding, Coding::Number { .. }) && feature.coding.is_standardized()
            }
            Standardize::None => feature.coding.is_standardized(),
        };
        let others = |named: &[String]| named.len() != known.features.len() || !named.iter().all(is_feature);
        let contradictions = [
            (Setting::Label, label.is_some_and(|label| label != known.label.column)),
            (
                Setting::Positive,
                self.positive.as_ref().is_some_and(|word| !is_named(&known.label.positive, word)),
            ),
            (Setting::Features, features.is_some_and(others)),
            (Setting::Exclude, exclude.iter().any(is_feature)),
            (Setting::Intercept, !self.intercept && known.intercept),
            (Setting::Standardize, known.features.iter().any(is_other)),
        ];
        match contradictions.iter().find(|(_, found)| *found) {
            Some((setting, _)) => {
                Err(Error::setting(*setting, "contradicts the given encoding, which is used as it is"))
            }
            None => Ok(()),
        }
    }
}

/// The survey as a pass.
#[derive(Serialize, Deserialize)]
pub(crate) struct Survey {
    /// The number of features; they are the first columns.
    features: usize,
    max_levels: usize,
    races: Races,
    seed: Seed,
}

/// The state of the pass for some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Found {
    rows_read: u64,
    rows: u64,
    columns: Vec<ColumnFound>,
    picks: Slots,
    fingerprint: Fingerprint,
}

#[derive(Default, Serialize, Deserialize)]
struct ColumnFound {
    unusable: UnusableValues,
    moments: Moments,
    levels: Levels,
    numbers: Numbers,
    not_positive: Option<(u64, f64)>,
}

/// The unusable values of a column.
#[derive(Default, Serialize, Deserialize)]
struct UnusableValues {
    missing: u64,
    infinite: u64,
    inexact: u64,
    /// The first row with such a value; its values are there only for the first column that has any.
    first: Option<RowSet>,
}

/// The total weight of the rows with a value, and the position of the first of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Seen {
    mass: f64,
    first: u64,
}

/// The levels of a text column, up to a limit.
#[derive(Default, Serialize, Deserialize)]
struct Levels {
    seen: BTreeMap<String, Seen>,
    too_many: bool,
}

/// The distinct numbers of the label, each with its number of rows. More than two are an error, so only [`NUMBERS_KEPT`] are stored.
#[derive(Default, Serialize, Deserialize)]
struct Numbers(Vec<(f64, Seen)>);

const NUMBERS_KEPT: usize = 4;

/// The number of columns that a message shows of a row with an unusable value.
const ROW_SHOWN: usize = 8;

/// The result of the survey.
#[derive(Clone)]
pub struct Learnt {
    /// The encoding.
    pub encoding: Encoding,
    /// The number of rows in the input.
    pub rows_read: u64,
    /// The number of rows in use; the others were dropped because of an unusable value.
    pub rows: u64,
    /// The sum of the weights of the rows in use.
    pub mass: f64,
    /// The fingerprint of the rows in use.
    pub fingerprint: Fingerprint,
    /// Rows selected in proportion to their weights: 1,000 selections per cluster.
    pub picks: Picked,
    /// The first of these, at most 2.5 % of the data, for the clustering.
    pub clustering_picks: Picked,
    /// The mean and standard deviation of each feature of numbers.
    pub moments: Vec<Option<(f64, f64)>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Runs the survey: learns the encoding, and selects rows for a clustering with `clusters` centres.
pub fn survey(
    engine: &impl Engine,
    settings: &EncodingSettings,
    clusters: usize,
    seed: Seed,
) -> Result<Learnt> {
    let table = engine.table();
    let features = table.features().len();
    let pass = Survey { features, max_levels: settings.max_levels, races: Races::new(1000 * clusters), seed };
    let found = engine.run(&pass)?.ok_or_else(|| no_rows(nothing_in(table)))?;
    let row_name = |row| engine.row_name(row);
    let checked = check(table, &found, engine.missing(), &row_name);
    let (encoding, warnings) = match &settings.known {
        Some(known) => {
            checked?;
            (fitting(known, settings.unseen, table, &found, &row_name)?, Vec::new())
        }
        None => learn(table, &found, settings, checked, &row_name)?,
    };
    encoding.distinct_names()?;
    let moments = table.features().iter().zip(&found.columns).map(|(field, column)| {
        let Moments { mass, mean, squares, .. } = column.moments;
        (field.kind == Kind::Number).then(|| (mean, (squares / mass).sqrt()))
    });
    let moments = moments.collect();
    // L = min(1000k, 0.025 N), but at least 20 rows per cluster if N is small.
    let wanted = (found.rows / 40).max(20 * clusters as u64) as usize;
    let mass = found.picks.total;
    let finish = |slots: Slots| slots.finish().ok_or_else(|| no_rows(nothing_in(table)));
    let fewer = (wanted < pass.races.slots()).then(|| {
        let mut fewer = found.picks.clone();
        fewer.truncate(wanted);
        fewer
    });
    let picks = finish(found.picks)?;
    let clustering_picks = fewer.map_or_else(|| Ok(picks.clone()), finish)?;
    Ok(Learnt {
        encoding,
        rows_read: found.rows_read,
        rows: found.rows,
        mass,
        fingerprint: found.fingerprint,
        picks,
        clustering_picks,
        moments,
        warnings,
    })
}

/// Checks rows before they are added to a stream: all values are usable and, if the encoding is known, it has their levels and labels.
pub(crate) fn check_rows(
    table: &Table,
    block: &Block,
    known: Option<&Encoding>,
    settings: &EncodingSettings,
    missing: Missing,
) -> Result<()> {
    if block.len == 0 {
        return Ok(());
    }
    let pass = Survey {
        features: table.features().len(),
        max_levels: settings.max_levels,
        races: Races::new(0),
        seed: Seed(0),
    };
    let found = pass.visit(&mut pass.worker(), block)?;
    check(table, &found, missing, &row_name)?;
    let Some(known) = known else { return Ok(()) };
    let encoding = fitting(known, settings.unseen, table, &found, &row_name)?;
    encoding.encoder(block).map(|_| ())
}

fn no_rows(what: impl Into<String>) -> Error {
    ErrorKind::NoRows { what: what.into() }.into()
}

fn nothing_in(table: &Table) -> String {
    match &table.source().files()[..] {
        [file] => format!("'{}' has no rows", file.display()),
        _ => "the data has no rows".to_string(),
    }
}

impl Pass for Survey {
    const ID: &'static str = "survey";
    const LABEL: &'static str = "surveying the columns";
    type State = Found;
    type Worker = Racer;

    fn worker(&self) -> Racer {
        self.races.racer()
    }

    fn visit(&self, racer: &mut Racer, block: &Block) -> Result<Found> {
        let features = self.features;
        let weights = match block.columns.get(features + 1) {
            Some(Column::Number(weights)) => Some(&weights[..]),
            _ => None,
        };
        let mut rng = self.seed.stream(Purpose::ClusteringRows, block.stream);
        let picks = match weights {
            None => racer.race_uniform(block, &mut rng),
            // `check` reports unusable weights later; until then they must not break the race.
            Some(weights) => {
                let usable = weights.iter().all(|weight| *weight > 0.0 && weight.is_finite());
                racer.race(block, if usable { weights } else { &[] }, &mut rng)
            }
        };
        let hasher = RowHasher::new(block);
        let parts = part_ranges(block.len.div_ceil(STRIP)).collect();
        let swept = process_parts(parts, |strips| Swept::of(block, strips, weights, &hasher, features));
        let mut all = Swept::nothing(features);
        swept.into_iter().for_each(|swept| all.merge(swept));
        let Swept { moments, fingerprint } = all;
        let mut columns: Vec<ColumnFound> = block
            .columns
            .iter()
            .enumerate()
            .map(|(c, column)| match column {
                Column::Number(values) if c < features => number_feature(block, values, moments[c]),
                Column::Number(values) if c == features => number_label(block, values),
                Column::Number(values) => weight_column(block, values),
                Column::Text { codes, levels } => {
                    self.text(block, codes, levels, weights, self.levels_kept(c))
                }
            })
            .collect();
        // A message shows the row of the first such column only; a row of 100,000 columns is not kept for each of them.
        if let Some(first) = columns.iter_mut().find_map(|column| column.unusable.first.as_mut())
            && let Some(row) = first.positions.first().and_then(|position| block.find(*position))
        {
            *first = RowSet::copy(block, &[row]);
        }
        Ok(Found { rows_read: block.rows_read as u64, rows: block.len as u64, columns, picks, fingerprint })
    }

    fn merge(&self, found: &mut Found, next: Found) {
        found.rows_read += next.rows_read;
        found.rows += next.rows;
        found.picks.merge(next.picks);
        found.fingerprint.merge(next.fingerprint);
        for (c, (ours, theirs)) in found.columns.iter_mut().zip(next.columns).enumerate() {
            ours.unusable.merge(theirs.unusable);
            ours.moments.merge(theirs.moments);
            ours.levels.merge(theirs.levels, self.levels_kept(c));
            theirs.numbers.0.into_iter().for_each(|(value, seen)| ours.numbers.add(value, seen));
            ours.not_positive = ours.not_positive.or(theirs.not_positive);
        }
    }

    fn relocate(&self, found: &mut Found, place: &dyn Fn(u64) -> u64) {
        found.picks.relocate(place);
        for column in &mut found.columns {
            column.unusable.first.iter_mut().for_each(|row| row.relocate(place));
            column.not_positive = column.not_positive.map(|(position, value)| (place(position), value));
            let numbers = column.numbers.0.iter_mut().map(|(_, seen)| seen);
            numbers.chain(column.levels.seen.values_mut()).for_each(|seen| seen.first = place(seen.first));
        }
    }
}

/// Moments and fingerprint of some rows.
struct Swept {
    moments: Vec<Moments>,
    fingerprint: Fingerprint,
}

impl Swept {
    fn nothing(columns: usize) -> Swept {
        Swept { moments: vec![Moments::default(); columns], fingerprint: Fingerprint::default() }
    }

    /// Moments and fingerprint of some strips of a block. A strip's hashes stay in the cache while its columns are read one after the
    /// other.
    fn of(
        block: &Block,
        strips: Range<usize>,
        weights: Option<&[f64]>,
        hasher: &RowHasher<'_>,
        features: usize,
    ) -> Swept {
        let mut sums: Vec<MomentSums> = vec![MomentSums::default(); features];
        let mut fingerprint = Fingerprint::default();
        for strip in strips {
            let rows = strip * STRIP..block.len.min((strip + 1) * STRIP);
            fingerprint.merge(sweep(block, rows, weights, hasher, &mut sums));
        }
        let moments = sums.iter().map(MomentSums::moments).collect();
        Swept { moments, fingerprint }
    }

    fn merge(&mut self, next: Swept) {
        self.moments.iter_mut().zip(next.moments).for_each(|(ours, theirs)| ours.merge(theirs));
        self.fingerprint.merge(next.fingerprint);
    }
}

impl Survey {
    /// The number of levels to store of a column: all that a feature may have, a few of the label.
    fn levels_kept(&self, column: usize) -> usize {
        if column < self.features { self.max_levels } else { NUMBERS_KEPT }
    }

    fn text(
        &self,
        block: &Block,
        codes: &[u32],
        levels: &[String],
        weights: Option<&[f64]>,
        limit: usize,
    ) -> ColumnFound {
        let mut found = ColumnFound::default();
        let mut by_code: Vec<(f64, Option<usize>)> = vec![(0.0, None); levels.len()];
        for (row, &code) in codes.iter().enumerate() {
            match by_code.get_mut(code as usize) {
                Some((mass, first)) => {
                    *mass += weights.map_or(1.0, |weights| weights[row]);
                    first.get_or_insert(row);
                }
                None => found.unusable.add(block, row, MISSING_CODE == code, false),
            }
        }
        for (level, (mass, first)) in levels.iter().zip(by_code) {
            if let Some(row) = first {
                found.levels.add(level, Seen { mass, first: block.position(row) }, limit);
            }
        }
        found
    }
}

fn number_feature(block: &Block, values: &[f64], moments: Moments) -> ColumnFound {
    let unusable = if moments.squares.is_finite() {
        UnusableValues::default()
    } else {
        UnusableValues::of(block, values)
    };
    ColumnFound { unusable, moments, ..ColumnFound::default() }
}

fn number_label(block: &Block, values: &[f64]) -> ColumnFound {
    let mut numbers = Numbers::default();
    let mut unusable = UnusableValues::default();
    // Usually all rows have one of the first two values, so a vectorised count is enough.
    for (row, &value) in values.iter().enumerate() {
        if numbers.0.len() == 2 {
            break;
        }
        if !numbers.0.iter().any(|(known, _)| *known == value) && value.is_finite() {
            numbers.0.push((value, Seen { mass: 0.0, first: block.position(row) }));
        }
    }
    let value = |at: usize| numbers.0.get(at).map_or(f64::NAN, |(value, _)| *value);
    let (one, other) = (value(0), value(1));
    let (ones, others) = vectorized(
        #[inline(always)]
        || {
            let (mut ones, mut others) = (0u64, 0u64);
            for value in values {
                ones += u64::from(*value == one);
                others += u64::from(*value == other);
            }
            (ones, others)
        },
    );
    numbers.0.iter_mut().zip([ones, others]).for_each(|((_, seen), count)| seen.mass = count as f64);
    if ones + others != values.len() as u64 {
        unusable = UnusableValues::of(block, values);
        numbers = Numbers::default();
        for (row, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            numbers.add(*value, Seen { mass: 1.0, first: block.position(row) });
        }
    }
    ColumnFound { numbers, unusable, ..ColumnFound::default() }
}

fn weight_column(block: &Block, values: &[f64]) -> ColumnFound {
    let row = values.iter().position(|value| *value <= 0.0);
    ColumnFound {
        unusable: UnusableValues::of(block, values),
        not_positive: row.map(|row| (block.position(row), values[row])),
        ..ColumnFound::default()
    }
}

impl UnusableValues {
    fn of(block: &Block, values: &[f64]) -> UnusableValues {
        let mut unusable = UnusableValues::default();
        for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_finite()) {
            let inexact = value.to_bits() == INEXACT.to_bits();
            unusable.add(block, row, value.is_nan() && !inexact, inexact);
        }
        unusable
    }

    fn add(&mut self, block: &Block, row: usize, missing: bool, inexact: bool) {
        self.missing += u64::from(missing);
        self.inexact += u64::from(inexact);
        self.infinite += u64::from(!missing && !inexact);
        let position = || vec![block.position(row)];
        let nothing = || Segment { columns: Vec::new(), len: 1 };
        self.first.get_or_insert_with(|| RowSet { segment: nothing(), positions: position() });
    }

    fn merge(&mut self, next: UnusableValues) {
        self.missing += next.missing;
        self.infinite += next.infinite;
        self.inexact += next.inexact;
        self.first = self.first.take().or(next.first);
    }

    fn describe(&self, column: &str, row_name: impl Fn(u64) -> String) -> Option<String> {
        let kinds = [
            (self.missing, "missing"),
            (self.infinite, "infinite"),
            (self.inexact, "integers beyond 2^53, which are not exact"),
        ];
        let counts: Vec<String> = kinds
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        let row = row_name(*self.first.as_ref()?.positions.first()?);
        Some(format!("'{column}' ({}, the first in {row})", counts.join(", ")))
    }
}

impl Seen {
    fn merge(&mut self, other: Seen) {
        self.mass += other.mass;
        self.first = self.first.min(other.first);
    }
}

impl Levels {
    fn add(&mut self, level: &str, seen: Seen, limit: usize) {
        if let Some(known) = self.seen.get_mut(level) {
            known.merge(seen);
        } else if self.seen.len() < limit {
            self.seen.insert(level.to_string(), seen);
        } else {
            self.too_many = true;
        }
    }

    fn merge(&mut self, next: Levels, limit: usize) {
        self.too_many |= next.too_many;
        next.seen.into_iter().for_each(|(level, seen)| self.add(&level, seen, limit));
    }
}

impl Numbers {
    fn add(&mut self, value: f64, seen: Seen) {
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| *known == value) {
            known.merge(seen);
        } else if self.0.len() < NUMBERS_KEPT {
            self.0.push((value, seen));
        }
    }
}

/// Returns an error if the data has unusable values; one message lists all columns that have any.
fn check(table: &Table, found: &Found, missing: Missing, row_name: &dyn Fn(u64) -> String) -> Result<()> {
    if found.rows == 0 && found.rows_read > 0 {
        return Err(no_rows(format!(
            "all {} rows were dropped: each has a missing, infinite or inexact value",
            found.rows_read
        )));
    }
    let unusable: Vec<String> = table
        .fields()
        .iter()
        .zip(&found.columns)
        .filter_map(|(field, column)| column.unusable.describe(&field.name, row_name))
        .collect();
    if missing == Missing::Error && !unusable.is_empty() {
        let mut what = format!("values that cannot be used in {}", unusable.join(", "));
        // A row that is not in a file is identified by its values.
        if table.source().files().is_empty()
            && let Some((at, row)) =
                found.columns.iter().zip(0..).find_map(|(c, at)| Some((at, c.unusable.first.as_ref()?)))
        {
            what = format!("{what}; {}", shown(table.fields(), row, at));
        }
        return Err(ErrorKind::Missing { what }.into());
    }
    for (field, column) in table.features().iter().zip(&found.columns) {
        let Moments { mass, squares, .. } = column.moments;
        if field.kind == Kind::Number && mass > 0.0 && !(squares / mass).is_finite() {
            return Err(too_large(field.name.clone()));
        }
    }
    for (field, column) in table.fields().iter().zip(&found.columns) {
        if let Some((position, value)) = column.not_positive {
            return Err(ErrorKind::Column {
                column: field.name.clone(),
                what: format!(
                    "the weight in {} is {value}, but weights must be positive",
                    row_name(position)
                ),
                help: Some("leave such rows out of the data".into()),
            }
            .into());
        }
    }
    if let Some(weight) = table.weight()
        && !(found.picks.total * found.picks.total).is_finite()
    {
        return Err(ErrorKind::Column {
            column: weight.name.clone(),
            what: "the sum of the weights is too large to be squared".to_string(),
            help: Some("use smaller weights".into()),
        }
        .into());
    }
    Ok(())
}

/// The values of a row as text, for the columns near column `at`.
fn shown(fields: &[Field], row: &RowSet, at: usize) -> String {
    let start = at.saturating_sub(ROW_SHOWN / 2).min(fields.len().saturating_sub(ROW_SHOWN));
    let shown = (start..fields.len().min(start + ROW_SHOWN))
        .filter_map(|c| Some(format!("{} = {}", fields[c].name, row.segment.columns.get(c)?.show(0))));
    format!(
        "row {} has {}",
        row.positions.first().map_or(0, |row| row + 1),
        shown.collect::<Vec<_>>().join(", ")
    )
}

/// Learns the encoding. Problems of all columns are reported together, after those that were found before.
fn learn(
    table: &Table,
    found: &Found,
    settings: &EncodingSettings,
    checked: Result<()>,
    row_name: &dyn Fn(u64) -> String,
) -> Result<(Encoding, Vec<String>)> {
    if found.rows == 0 {
        checked?;
        return Err(no_rows(nothing_in(table)));
    }
    let mut problems: Vec<Error> = checked.err().into_iter().collect();
    let mut warnings = Vec::new();
    let center =
        settings.standardize != Standardize::None && settings.intercept && !table.source().is_sparse();
    let mut features = Vec::with_capacity(table.features().len());
    for (field, column) in table.features().iter().zip(&found.columns) {
        match feature(field, column, settings, center, &mut warnings) {
            Ok(feature) => features.push(feature),
            Err(problem) => problems.push(problem),
        }
    }
    let label = label(table.label(), &found.columns[table.features().len()], settings, row_name);
    let label = match (label, problems.is_empty()) {
        (Ok(label), true) => label,
        (label, _) => {
            problems.extend(label.err());
            return Err(Error::of_all(problems).unwrap_or_else(|| no_rows(nothing_in(table))));
        }
    };
    let is_feature = |name: &str| features.iter().any(|feature: &Feature| feature.column == name);
    if is_feature("weight") && is_feature("row") {
        let what = "columns 'weight' and 'row' are used as features";
        let remedy = "if this is a coreset, name 'weight' as the weight and exclude 'row'";
        warnings.push(format!("{what}: {remedy}"));
    }
    let weight = table.weight().map(|field| field.name.clone());
    let unseen = settings.unseen;
    let encoding = Encoding { label, weight, intercept: settings.intercept, features, unseen };
    if encoding.dim() == 0 {
        let what = "leaves no coefficient, because every feature is constant";
        return Err(Error::setting(Setting::Intercept, what));
    }
    Ok((encoding, warnings))
}

/// The known encoding, if the data has its columns, levels and label values.
fn fitting(
    known: &Encoding,
    unseen: Unseen,
    table: &Table,
    found: &Found,
    row_name: &dyn Fn(u64) -> String,
) -> Result<Encoding> {
    let expected = known.features.iter().map(|feature| &feature.column).chain([&known.label.column]);
    let there = table.features().iter().chain([table.label()]);
    for (name, field) in expected.clone().zip(there) {
        if *name != field.name {
            let what = format!("is at the position of the encoding's column '{name}'");
            return Err(ErrorKind::Column { column: field.name.clone(), what, help: None }.into());
        }
    }
    if expected.count() != table.features().len() + 1 {
        let what =
            format!("has {} features, but the data has {}", known.features.len(), table.features().len());
        return Err(Error::setting(Setting::Encoding, what));
    }
    for (feature, ColumnFound { moments: Moments { mass, mean, squares, .. }, .. }) in
        known.features.iter().zip(&found.columns)
    {
        if let (true, Some((center, scale))) = (*mass > 0.0, feature.coding.transform().next()) {
            let far = ((mean - center).abs() + (squares / mass).sqrt()) / scale;
            // Text columns have mass 0.
            if !(far * far * mass).is_finite() {
                return Err(too_large(feature.column.clone()));
            }
        }
    }
    let classes = [&known.label.negative, &known.label.positive];
    let values = label_values(table.label(), &found.columns[known.features.len()])?;
    if let Some((third, seen)) = values.iter().find(|(value, _)| !classes.contains(&value)) {
        let what = format!(
            "the label has the value '{third}' in {}, but the encoding has '{}' and '{}'",
            row_name(seen.first),
            classes[0],
            classes[1]
        );
        return Err(ErrorKind::Column { column: known.label.column.clone(), what, help: None }.into());
    }
    let unseen = if unseen == Unseen::Error { known.unseen } else { unseen };
    if unseen == Unseen::Error {
        let strangers = known.features.iter().zip(&found.columns).flat_map(|(feature, column)| {
            let levels = column.levels.seen.iter().filter(|(level, _)| !feature.knows(level));
            levels.map(|(level, seen)| (seen.first, level, &feature.column))
        });
        if let Some((first, level, column)) = strangers.min() {
            return Err(unseen_level(column, level, &row_name(first)));
        }
    }
    Ok(Encoding { weight: table.weight().map(|field| field.name.clone()), unseen, ..known.clone() })
}

fn too_large(column: String) -> Error {
    ErrorKind::Column {
        column,
        what: "has values too large to be squared".to_string(),
        help: Some("use a larger unit".into()),
    }
    .into()
}

fn feature(
    field: &Field,
    found: &ColumnFound,
    settings: &EncodingSettings,
    is_centred: bool,
    warnings: &mut Vec<String>,
) -> Result<Feature> {
    let column = field.name.clone();
    let constant = |warnings: &mut Vec<String>| {
        warnings.push(format!(
            "column '{column}' is constant: it is kept, but the data contains no information about its coefficient"
        ));
    };
    // A constant other than 0 is an intercept, if the model has no other.
    let is_intercept = |mean: f64| !settings.intercept && mean != 0.0;
    let coding = match field.kind {
        Kind::Boolean => {
            if found.moments.squares == 0.0 && !is_intercept(found.moments.mean) {
                constant(warnings);
            }
            match settings.standardize {
                Standardize::Numeric => {
                    Coding::Indicator { center: if is_centred { found.moments.mean } else { 0.0 } }
                }
                Standardize::All | Standardize::None => Coding::Boolean,
            }
        }
        Kind::Number => {
            let Moments { mass, mean, squares, has_other_values } = found.moments;
            let sd = (squares / mass).sqrt();
            if sd == 0.0 && !is_intercept(mean) {
                constant(warnings);
            }
            let center = if is_centred { mean } else { 0.0 };
            match settings.standardize {
                Standardize::Numeric if !has_other_values => Coding::Indicator { center },
                Standardize::Numeric | Standardize::All if sd > 0.0 => Coding::Number { center, scale: sd },
                _ => Coding::Number { center, scale: 1.0 },
            }
        }
        Kind::Text => levels(&column, found, settings, is_centred, warnings)?,
        Kind::Unsupported => return Err(unsupported(field)),
    };
    Ok(Feature { column, coding })
}

/// The coding of a text column. The reference is the most frequent level; of equally frequent ones the first alphabetically.
fn levels(
    column: &str,
    found: &ColumnFound,
    settings: &EncodingSettings,
    is_centred: bool,
    warnings: &mut Vec<String>,
) -> Result<Coding> {
    if found.levels.too_many {
        return Err(ErrorKind::Column {
            column: column.to_string(),
            what: format!("has more than {} levels", settings.max_levels),
            help: Some(Help::from([
                Remedy::ExcludeColumn(Some(column.to_string())),
                "group its levels".into(),
                Remedy::RaiseLimit(Setting::MaxLevels),
            ])),
        }
        .into());
    }
    let seen = &found.levels.seen;
    let most_frequent = seen.iter().rev().max_by(|a, b| a.1.mass.total_cmp(&b.1.mass));
    let reference = most_frequent.map_or(String::new(), |(level, _)| level.clone());
    let levels: Vec<String> = seen.keys().filter(|level| **level != reference).cloned().collect();
    if levels.is_empty() {
        warnings.push(format!("column '{column}' has only the level '{reference}': it has no coefficient"));
    }
    let total: f64 = seen.values().map(|seen| seen.mass).sum();
    let mean = |level: &String| seen.get(level).map_or(0.0, |seen| seen.mass / total);
    let centers = match settings.standardize {
        Standardize::Numeric if is_centred => levels.iter().map(mean).collect(),
        _ => Vec::new(),
    };
    Ok(Coding::Levels { reference, levels, centers })
}

fn unsupported(field: &Field) -> Error {
    let what = format!("holds {}, which cannot be used", field.data_type);
    ErrorKind::Column { column: field.name.clone(), what, help: None }.into()
}

/// The values of the label, sorted; at most [`NUMBERS_KEPT`].
fn label_values(field: &Field, found: &ColumnFound) -> Result<Vec<(LabelValue, Seen)>> {
    let numbers = found.numbers.0.iter();
    let levels = found.levels.seen.iter();
    let mut values: Vec<_> = match field.kind {
        Kind::Boolean => numbers.map(|(v, seen)| (LabelValue::Boolean(*v != 0.0), *seen)).collect(),
        Kind::Number => numbers.map(|(v, seen)| (LabelValue::Number(*v), *seen)).collect(),
        Kind::Text => levels.map(|(level, seen)| (LabelValue::Text(level.clone()), *seen)).collect(),
        Kind::Unsupported => return Err(unsupported(field)),
    };
    values.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
    Ok(values)
}

fn label(
    field: &Field,
    found: &ColumnFound,
    settings: &EncodingSettings,
    row_name: &dyn Fn(u64) -> String,
) -> Result<Label> {
    let seen = label_values(field, found)?;
    let refuse = |what: String, help: Help| -> Result<Label> {
        Err(ErrorKind::Column { column: field.name.clone(), what, help: Some(help) }.into())
    };
    let listed =
        seen.iter().take(NUMBERS_KEPT).map(|(value, _)| format!("'{value}'")).collect::<Vec<_>>().join(", ");
    let [(first, _), (second, _)] = &seen[..] else {
        return match &seen[..] {
            [] => refuse(
                "the label has no value".to_string(),
                Remedy::using("name another column", Setting::Label).into(),
            ),
            [_] => refuse(
                format!("the label has only the value {listed}; a model needs both classes"),
                [Remedy::using("name another column", Setting::Label), "use data with both classes".into()]
                    .into(),
            ),
            more => refuse(too_many_classes(&listed, more, row_name), KEEP_TWO_CLASSES.into()),
        };
    };
    if found.levels.too_many {
        return refuse(too_many_classes(&listed, &seen, row_name), KEEP_TWO_CLASSES.into());
    }
    let positive_is_second = match &settings.positive {
        Some(wanted) if is_named(first, wanted) => false,
        Some(wanted) if is_named(second, wanted) => true,
        Some(wanted) => {
            return refuse(
                format!("the label's values are {listed}; none is '{wanted}'"),
                Remedy::example("name one of them", Setting::Positive, second.to_string()).into(),
            );
        }
        None if field.kind == Kind::Text => match larger(first, second) {
            Some(larger) => larger == 1,
            None => {
                return refuse(
                    format!("the label's values are {listed}, and it is not clear which one is positive"),
                    Remedy::example("name it", Setting::Positive, second.to_string()).into(),
                );
            }
        },
        None => true,
    };
    let (negative, positive) = if positive_is_second { (first, second) } else { (second, first) };
    Ok(Label { column: field.name.clone(), negative: negative.clone(), positive: positive.clone() })
}

const KEEP_TWO_CLASSES: &str =
    "a label has two classes: keep the rows of two, or make a column that is true for one of them";

/// Describes a label with more than two values. If there are three, the rarest is often a typing error, so its first row
/// is named.
fn too_many_classes(listed: &str, seen: &[(LabelValue, Seen)], row_name: &dyn Fn(u64) -> String) -> String {
    let rarest = match seen {
        [_, _, _] => seen.iter().min_by(|a, b| a.1.mass.total_cmp(&b.1.mass)),
        _ => None,
    };
    let more = match rarest {
        Some((value, seen)) => format!("; the rarest, '{value}', first appears in {}", row_name(seen.first)),
        None => ", …".to_string(),
    };
    format!("the label has more than two values: {listed}{more}")
}

/// The index of the larger of two labels, if they are text that represents numbers or booleans.
fn larger(first: &LabelValue, second: &LabelValue) -> Option<usize> {
    let (first, second) = (first.to_string(), second.to_string());
    if (&first[..], &second[..]) == ("false", "true") {
        return Some(1);
    }
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let (first, second) = (number(&first)?, number(&second)?);
    (first != second).then_some(usize::from(second > first))
}

/// True if the user's text denotes the value: `1`, `1.0` and `+1` are the same number.
fn is_named(value: &LabelValue, wanted: &str) -> bool {
    match value {
        LabelValue::Number(number) => wanted.trim().parse::<f64>().is_ok_and(|wanted| wanted == *number),
        LabelValue::Boolean(truth) => wanted.trim().eq_ignore_ascii_case(&truth.to_string()),
        LabelValue::Text(text) => text == wanted,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::data::block::{Segment, TextBuilder};

    #[test]
    fn labels_that_represent_numbers_are_ordered() {
        let larger = |first: &str, second: &str| {
            larger(&LabelValue::Text(first.to_string()), &LabelValue::Text(second.to_string()))
        };
        assert_eq!(
            [larger("0", "1"), larger("-1", "1"), larger("10", "9"), larger("false", "true")],
            [Some(1), Some(1), Some(0), Some(1)]
        );
        for (first, second) in [("no", "yes"), ("1", "nan"), ("1", "1.0"), ("1", "true"), ("inf", "1")] {
            assert_eq!(larger(first, second), None, "{first} {second}");
        }
    }

    pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let uniform = crate::base::rng::CounterRng::new(&mut Seed(seed).stream(Purpose::Generate, 0));
        (0..count as u64).map(|index| uniform.unit(index) * 3.0 - 1.0).collect()
    }

    #[test]
    fn the_fingerprint_is_that_of_the_rows_for_any_columns() {
        let len = 2500;
        let text = || {
            let mut text = TextBuilder::default();
            (0..len).for_each(|row| text.push(Some(["a", "b", "c"][row % 3])));
            text.finish()
        };
        let number = |seed: u64| Column::Number(numbers(len, seed).into());
        for features in [vec![number(1)], vec![number(1), number(2)], vec![number(1), text(), number(2)]] {
            for weighted in [false, true] {
                let count = features.len();
                let mut columns = features.clone();
                columns.push(Column::Number((0..len).map(|row| (row % 2) as f64).collect()));
                columns.extend(weighted.then(|| Column::Number(vec![2.0; len].into())));
                let block = Block::new(0, 0, Segment { columns, len });
                let pass = Survey { features: count, max_levels: 10, races: Races::new(20), seed: Seed(3) };
                let found = pass.visit(&mut pass.worker(), &block).expect("a state");
                assert_eq!(found.fingerprint, Fingerprint::of(&block));
            }
        }
    }

    /// A block of several parts, the last of them short. Its column of numbers is increasing, so that the parts have different means.
    #[test]
    fn the_survey_of_a_block_does_not_depend_on_the_threads() {
        let len = 5 * STRIP + 3;
        let rising: Vec<f64> = numbers(len, 1).iter().zip(0..).map(|(x, row)| x + f64::from(row)).collect();
        let mut text = TextBuilder::default();
        (0..len).for_each(|row| text.push(Some(["a", "b", "c"][row % 3])));
        let label = Column::Number((0..len).map(|row| (row % 2) as f64).collect());
        let columns = vec![Column::Number(rising.clone().into()), text.finish(), label];
        let all_weights: Vec<f64> = numbers(len, 2).iter().map(|x| x + 1.5).collect();
        for weights in [None, Some(&all_weights)] {
            let mut columns = columns.clone();
            columns.extend(weights.map(|weights| Column::Number(weights.clone().into())));
            let block = Block::new(0, 1000, Segment { columns, len });
            let surveyed = || {
                let pass = Survey { features: 2, max_levels: 10, races: Races::new(500), seed: Seed(3) };
                pass.visit(&mut pass.worker(), &block).expect("a state")
            };
            let found = surveyed();
            for threads in [1, 2, 5] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                let bytes = |found: &Found| rmp_serde::to_vec(found).expect("bytes");
                assert_eq!(bytes(&pool.install(surveyed)), bytes(&found), "{threads} threads");
            }
            let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
            let sum = |of: &dyn Fn(f64) -> f64| -> f64 {
                rising.iter().enumerate().map(|(row, x)| weight(row) * of(*x)).sum()
            };
            let mean = sum(&|x| x) / sum(&|_| 1.0);
            let squares = sum(&|x| (x - mean).powi(2));
            let Moments { mean: our_mean, squares: our_squares, .. } = found.columns[0].moments;
            assert!((our_mean / mean - 1.0).abs() < 1e-12, "{our_mean} against {mean}");
            assert!((our_squares / squares - 1.0).abs() < 1e-12, "{our_squares} against {squares}");
            let picked = found.picks.finish().expect("rows");
            let rows: Vec<usize> = picked.rows.positions.iter().map(|place| *place as usize - 1000).collect();
            assert!(rows.is_sorted() && rows[0] < STRIP && rows[rows.len() - 1] > 4 * STRIP);
            let expected = RowSet::copy(&block, &rows);
            for (at, row) in rows.into_iter().enumerate() {
                let shown = |set: &RowSet| -> Vec<String> {
                    set.segment.columns.iter().map(|column| column.show(at)).collect()
                };
                assert_eq!(shown(&picked.rows), shown(&expected));
                assert_eq!(picked.shares[at], weight(row));
            }
        }
    }

    #[test]
    fn labels_are_counted_as_by_a_plain_loop() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        for values in [
            &[][..],
            &[1.0; 5],
            &[0.0, 1.0, 1.0, -0.0],
            &[2.0, 1.0, 3.0, 1.0],
            &[nan, 1.0, 0.0, 0.0],
            &[1.0, 1.0, infinite],
            &[nan, nan],
        ] {
            let column = Column::Number(values.to_vec().into());
            let block = Block::new(0, 10, Segment { columns: vec![column], len: values.len() });
            let found = number_label(&block, values);
            let mut plain = Numbers::default();
            for (row, value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                plain.add(*value, Seen { mass: 1.0, first: block.position(row) });
            }
            let as_tuples = |numbers: &Numbers| -> Vec<(f64, f64, u64)> {
                numbers.0.iter().map(|(value, seen)| (*value, seen.mass, seen.first)).collect()
            };
            assert_eq!(as_tuples(&found.numbers), as_tuples(&plain), "{values:?}");
            assert_eq!(found.unusable.missing, values.iter().filter(|value| value.is_nan()).count() as u64);
            assert_eq!(
                found.unusable.infinite,
                values.iter().filter(|value| value.is_infinite()).count() as u64
            );
        }
    }
}
