//! Dates and times: reads them, and offers their parts (`signup.month`, `signup.weekday`, …) as columns of a source.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::DataType;

use super::{Scan, Source, Unit};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Column, Field, Kind, MISSING, Segment, TextBuilder};

/// Seconds per day.
const DAY: f64 = 86_400.0;
/// Days from 1970-01-01 to 2000-01-01.
const DAYS_TO_2000: f64 = 10_957.0;

/// A part of a date that can be a column of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatePart {
    /// A number.
    Year,
    /// Text from `01` to `12`.
    Month,
    /// Text: `Mon`, `Tue`, ….
    Weekday,
    /// Text from `00` to `23`.
    Hour,
    /// Days since 2000-01-01, with fractions for times.
    Days,
}

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl DatePart {
    const ALL: [DatePart; 5] =
        [DatePart::Days, DatePart::Year, DatePart::Month, DatePart::Weekday, DatePart::Hour];

    /// The parts that are used unless others are named: a year would repeat what the days say.
    fn usual(has_time: bool) -> &'static [DatePart] {
        let parts = &[DatePart::Days, DatePart::Month, DatePart::Weekday, DatePart::Hour];
        if has_time { parts } else { &parts[..3] }
    }

    fn name(self) -> &'static str {
        match self {
            DatePart::Year => "year",
            DatePart::Month => "month",
            DatePart::Weekday => "weekday",
            DatePart::Hour => "hour",
            DatePart::Days => "days",
        }
    }

    fn field(self, column: &str) -> Field {
        let (kind, data_type) = match self {
            DatePart::Year | DatePart::Days => (Kind::Number, DataType::Float64),
            DatePart::Month | DatePart::Weekday | DatePart::Hour => (Kind::Text, DataType::Utf8),
        };
        Field { name: format!("{column}.{}", self.name()), kind, data_type }
    }

    /// The part of a time in seconds since 1970, as a column.
    fn of(self, seconds: &[f64]) -> Column {
        let days = |time: f64| (time / DAY).floor();
        let number = |part: fn(f64) -> f64| {
            let value = |time: &f64| if time.is_nan() { MISSING } else { part(*time) };
            Column::Number(seconds.iter().map(value).collect())
        };
        let text = |levels: &[String], code: &dyn Fn(f64) -> usize| {
            let mut builder = TextBuilder::default();
            for time in seconds {
                let level = if time.is_nan() { None } else { levels.get(code(*time)) };
                builder.push(level.map(String::as_str));
            }
            builder.finish()
        };
        let two_digits = |last: usize| (0..=last).map(|n| format!("{n:02}")).collect::<Vec<_>>();
        match self {
            DatePart::Days => number(|time| time / DAY - DAYS_TO_2000),
            DatePart::Year => number(|time| civil((time / DAY).floor() as i64).0 as f64),
            DatePart::Month => text(&two_digits(12), &|time| civil(days(time) as i64).1 as usize),
            // 1970-01-01 was a Thursday.
            DatePart::Weekday => {
                text(&WEEKDAYS.map(str::to_string), &|time| (days(time) as i64 + 3).rem_euclid(7) as usize)
            }
            DatePart::Hour => text(&two_digits(23), &|time| ((time - DAY * days(time)) / 3600.0) as usize),
        }
    }
}

/// Year, month and day of a day counted from 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil`].
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// A date or time as text: seconds since 1970-01-01, and whether it has a time of day. Read are `2024-02-29`, `2024/02/29` and
/// `29.02.2024`, each also with a time such as `T13:45`, ` 13:45:10.5`, and with `Z` or an offset like `+01:00`, which is converted to UTC.
pub(crate) fn parse(text: &str) -> Option<(f64, bool)> {
    let text = text.trim();
    let (date, time) = match text.find(['T', ' ']) {
        Some(at) => (&text[..at], Some(text[at + 1..].trim_start())),
        None => (text, None),
    };
    let separator = date.bytes().find(|byte| !byte.is_ascii_digit())?;
    let mut parts = date.split(separator as char);
    let (first, second, third) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let (year, month, day) = match separator {
        b'-' | b'/' => (first, second, third),
        b'.' => (third, second, first),
        _ => return None,
    };
    if year.len() != 4 {
        return None;
    }
    let (year, month, day) = (digits(year)?, digits(month)?, digits(day)?);
    let number = day_number(year, month, day);
    if civil(number) != (year, month, day) {
        return None;
    }
    let seconds = time.map_or(Some(0.0), time_of_day)?;
    Some((number as f64 * DAY + seconds, time.is_some()))
}

fn digits(text: &str) -> Option<i64> {
    let is_number = matches!(text.len(), 1..=4) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Seconds since midnight UTC.
fn time_of_day(text: &str) -> Option<f64> {
    let at = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let (time, zone) = (text[..at].trim_end(), &text[at..]);
    let mut parts = time.split(':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let second = match parts.next() {
        Some(text) if text.bytes().next()?.is_ascii_digit() => text.parse::<f64>().ok()?,
        Some(_) => return None,
        None => 0.0,
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || !(0.0..=60.0).contains(&second) {
        return None;
    }
    let offset = match zone.as_bytes() {
        [] | [b'Z'] => 0,
        [sign @ (b'+' | b'-'), ..] => {
            let ahead = zone[1..].replace(':', "");
            let (hours, minutes) = match ahead.len() {
                2 => (digits(&ahead)?, 0),
                4 => (digits(&ahead[..2])?, digits(&ahead[2..])?),
                _ => return None,
            };
            let seconds = 3600 * hours + 60 * minutes;
            if *sign == b'+' { seconds } else { -seconds }
        }
        _ => return None,
    };
    Some((3600 * hour + 60 * minute - offset) as f64 + second)
}

/// True if this is the name of a part of a column.
pub(crate) fn is_part_of(name: &str, column: &str) -> bool {
    let part = name.strip_prefix(column).and_then(|rest| rest.strip_prefix('.'));
    part.is_some_and(|part| DatePart::ALL.iter().any(|known| known.name() == part))
}

/// Whether a column holds dates, and then whether they have times of day.
fn resolution(source: &dyn Source, column: usize) -> Option<bool> {
    let field = source.fields().get(column)?;
    match (field.kind, &field.data_type) {
        (Kind::Time, DataType::Date32) => Some(false),
        (Kind::Time, _) => Some(true),
        (Kind::Text, _) => source.looks_like_dates(column),
        _ => None,
    }
}

/// A source that offers the parts of its dates as further columns: the usual parts of all dates but those that are `kept` as they are, and
/// the parts that are named, such as `signup.year`. Columns of text are dates if all their first values are, or if `dates` names them; their
/// kind becomes [`Kind::Time`].
///
/// # Errors
/// If a named column is not there, or has neither dates nor text.
pub(crate) fn with_parts(
    source: Box<dyn Source>,
    dates: &[String],
    kept: &[&str],
    named: &[String],
) -> Result<Box<dyn Source>> {
    let mut fields = source.fields().to_vec();
    let inner = fields.len();
    let mut parts: Vec<(usize, DatePart)> = Vec::new();
    let add = |fields: &mut Vec<Field>, parts: &mut Vec<(usize, DatePart)>, column: usize, part: DatePart| {
        let field = part.field(&fields[column].name);
        if !fields.iter().any(|other| other.name == field.name) {
            parts.push((column, part));
            fields.push(field);
        }
    };
    for name in dates {
        let Some(column) = fields[..inner].iter().position(|field| field.name == *name) else {
            let names = fields.iter().map(|field| field.name.as_str());
            return Err(Error::unknown_column("to read as dates", name, names));
        };
        if !matches!(fields[column].kind, Kind::Text | Kind::Time) {
            let what =
                "has no dates: dates are text such as 2024-02-29, or have a type of their own".to_string();
            return Err(ErrorKind::Column { column: name.clone(), what, help: None }.into());
        }
    }
    for column in 0..inner {
        let name = fields[column].name.clone();
        let is_named = dates.contains(&name);
        let found = resolution(&*source, column).or(is_named.then_some(true));
        let Some(has_time) = found.filter(|_| is_named || !kept.contains(&name.as_str())) else { continue };
        fields[column].kind = Kind::Time;
        for part in DatePart::usual(has_time) {
            add(&mut fields, &mut parts, column, *part);
        }
    }
    for name in named {
        let Some((column, part)) = name.rsplit_once('.') else { continue };
        let part = DatePart::ALL.into_iter().find(|known| known.name() == part);
        let is_date = |field: &Field| field.name == column && matches!(field.kind, Kind::Time | Kind::Text);
        if let (Some(part), Some(column)) = (part, fields[..inner].iter().position(is_date)) {
            add(&mut fields, &mut parts, column, part);
        }
    }
    if parts.is_empty() {
        return Ok(source);
    }
    Ok(Box::new(WithParts { inner: source, fields, parts: parts.into() }))
}

/// A source with parts of dates after its own columns.
struct WithParts {
    inner: Box<dyn Source>,
    fields: Vec<Field>,
    /// The column of the dates, and the part of them.
    parts: Arc<[(usize, DatePart)]>,
}

impl Source for WithParts {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        self.inner.rows()
    }

    fn first_row(&self) -> u64 {
        self.inner.first_row()
    }

    fn part(&self) -> Option<u64> {
        self.inner.part()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.inner.files()
    }

    fn is_sparse(&self) -> bool {
        self.inner.is_sparse()
    }

    fn looks_numeric(&self, column: usize) -> Option<String> {
        self.inner.looks_numeric(column)
    }

    fn computed_from(&self, column: usize) -> Option<&str> {
        let own = self.fields.len() - self.parts.len();
        match column.checked_sub(own) {
            Some(part) => self.parts.get(part).map(|(column, _)| self.fields[*column].name.as_str()),
            None => self.inner.computed_from(column),
        }
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        let own = self.fields.len() - self.parts.len();
        let base = |column: usize| match column.checked_sub(own) {
            Some(part) => self.parts.get(part).map_or(column, |(column, _)| *column),
            None => column,
        };
        // Each column of the source is read once, however many of its parts are wanted.
        let mut read: Vec<usize> = Vec::new();
        let mut picks = Vec::with_capacity(columns.len());
        for &column in columns {
            let wanted = base(column);
            let at = read.iter().position(|known| *known == wanted).unwrap_or_else(|| {
                read.push(wanted);
                read.len() - 1
            });
            let part = column.checked_sub(own).and_then(|part| self.parts.get(part)).map(|(_, part)| *part);
            picks.push(Pick { at, part, column: self.fields[wanted].name.clone() });
        }
        Ok(Box::new(PartsScan { inner: self.inner.scan(&read)?, picks: picks.into() }))
    }
}

/// A column to return: the column read at this place, or a part of it.
struct Pick {
    at: usize,
    part: Option<DatePart>,
    /// The name of the column that is read.
    column: String,
}

struct PartsScan {
    inner: Box<dyn Scan>,
    picks: Arc<[Pick]>,
}

impl Scan for PartsScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let unit = self.inner.next_unit()?;
        Ok(unit.map(|inner| -> Box<dyn Unit> { Box::new(PartsUnit { inner, picks: self.picks.clone() }) }))
    }
}

struct PartsUnit {
    inner: Box<dyn Unit>,
    picks: Arc<[Pick]>,
}

/// The columns that are wanted of a segment; `first_row` is its first row within the unit.
fn picked(picks: &[Pick], segment: &Segment, file: &Path, first_row: u64) -> Result<Segment> {
    let mut times: Vec<(usize, Vec<f64>)> = Vec::new();
    let mut columns = Vec::with_capacity(picks.len());
    for pick in picks {
        let Some(part) = pick.part else {
            columns.push(segment.columns[pick.at].clone());
            continue;
        };
        let known = times.iter().position(|(at, _)| *at == pick.at);
        let at = match known {
            Some(at) => at,
            None => {
                let seconds = seconds(&segment.columns[pick.at], &pick.column, file, first_row)?;
                times.push((pick.at, seconds));
                times.len() - 1
            }
        };
        columns.push(part.of(&times[at].1));
    }
    Ok(Segment { columns, len: segment.len })
}

/// The times of a column, in seconds since 1970-01-01; NaN if missing.
fn seconds(column: &Column, name: &str, file: &Path, first_row: u64) -> Result<Vec<f64>> {
    let (codes, levels) = match column {
        Column::Number(values) => return Ok(values.to_vec()),
        Column::Text { codes, levels } => (codes, levels),
    };
    let parsed: Vec<Option<f64>> = levels.iter().map(|level| parse(level).map(|(time, _)| time)).collect();
    let time = |(row, code): (usize, &u32)| match parsed.get(*code as usize) {
        None => Ok(MISSING),
        Some(Some(time)) => Ok(*time),
        Some(None) => Err(ErrorKind::Cell {
            path: file.to_path_buf(),
            row: first_row + row as u64,
            column: Some(name.to_string()),
            what: format!("'{}' is not a date", levels[*code as usize]),
            help: Some(Help::from([
                "repair the value".into(),
                Remedy::example("keep the column as text", Setting::Text, name),
            ])),
        }
        .into()),
    };
    codes.iter().enumerate().map(time).collect()
}

impl Unit for PartsUnit {
    fn first_row(&self) -> Option<u64> {
        self.inner.first_row()
    }

    fn file(&self) -> &Path {
        self.inner.file()
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        let PartsUnit { inner, picks } = *self;
        let (file, mut rows) = (inner.file().to_path_buf(), 0);
        inner.decode(&mut |segment| {
            let picked = picked(&picks, &segment, &file, rows)?;
            rows += segment.len as u64;
            emit(picked)
        })
    }

    fn decode_leniently(
        self: Box<Self>,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
        bad: &mut dyn FnMut(Error),
    ) -> Result<()> {
        let PartsUnit { inner, picks } = *self;
        let (file, mut rows) = (inner.file().to_path_buf(), 0);
        let mut strange = Vec::new();
        inner.decode_leniently(
            &mut |mut segment| {
                // Rows whose dates cannot be read are left out one by one.
                loop {
                    match picked(&picks, &segment, &file, 0) {
                        Ok(picked) => {
                            rows += segment.len as u64;
                            return emit(picked);
                        }
                        Err(error) => {
                            let ErrorKind::Cell { row, .. } = error.kind() else { return Err(error) };
                            let row = *row as usize;
                            let kept: Vec<usize> = (0..segment.len).filter(|other| *other != row).collect();
                            strange.push(error.moved_down(rows));
                            let columns = segment.columns.iter().map(|column| column.take(&kept)).collect();
                            segment = Segment { columns, len: kept.len() };
                        }
                    }
                }
            },
            bad,
        )?;
        strange.into_iter().for_each(bad);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::source::{Input, OpenOptions, open_inputs};

    fn table(text: &str) -> Box<dyn Source> {
        let input = Input::from_reader("a.csv", text.as_bytes(), 1 << 20).expect("an input");
        open_inputs(vec![input], &OpenOptions::default()).expect("a source")
    }

    fn names(source: &dyn Source) -> Vec<&str> {
        source.fields().iter().map(|field| field.name.as_str()).collect()
    }

    /// The rows of some columns, as text.
    fn rows(source: &dyn Source, columns: &[usize]) -> Result<Vec<String>> {
        let mut rows = Vec::new();
        let mut scan = source.scan(columns)?;
        while let Some(unit) = scan.next_unit()? {
            unit.decode(&mut |segment| {
                let shown = |row| segment.columns.iter().map(|column| column.show(row)).collect::<Vec<_>>();
                rows.extend((0..segment.len).map(|row| shown(row).join(" ")));
                Ok(())
            })?;
        }
        Ok(rows)
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (-800_000..800_000).step_by(97) {
            let (year, month, day) = civil(days);
            assert_eq!(day_number(year, month, day), days);
        }
        assert_eq!((civil(0), civil(-1), civil(19_782)), ((1970, 1, 1), (1969, 12, 31), (2024, 2, 29)));
    }

    #[test]
    fn dates_and_times_are_read() {
        let day = 19_782.0 * DAY;
        for (text, expected) in [
            ("2024-02-29", Some((day, false))),
            (" 2024/2/29 ", Some((day, false))),
            ("29.02.2024", Some((day, false))),
            ("2024-02-29T13:45:10.5Z", Some((day + 49_510.5, true))),
            ("2024-02-29 00:30+01:00", Some((day - 1800.0, true))),
            ("29.02.2024 23:59:59", Some((day + 86_399.0, true))),
            ("2024-02-30", None),
            ("2023-02-29", None),
            ("02/29/2024", None),
            ("29/02/2024", None),
            ("2024-02", None),
            ("2024-02-29T", None),
            ("2024-02-29T24:00", None),
            ("2024-02-29T1e1:00", None),
            ("1.2.3", None),
            ("192.168.1.2024", None),
            ("", None),
            ("ä-ö-ü", None),
            ("2024-02-29Tü", None),
            ("2024-02-29T10:00+ü1", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn dates_become_their_parts() {
        let source = table("id,at,y\n1,2024-02-29,0\n2,,1\n3,1969-12-31,1\n");
        let source = with_parts(source, &[], &[], &["at.year".to_string()]).expect("parts");
        assert_eq!(names(&*source), ["id", "at", "y", "at.days", "at.month", "at.weekday", "at.year"]);
        assert_eq!(source.fields()[1].kind, Kind::Time);
        let parts = rows(&*source, &[3, 4, 5, 6, 0, 4]).expect("rows");
        let expected = [
            "8825 '02' 'Thu' 2024 1 '02'",
            "missing missing missing missing 2 missing",
            "-10958 '12' 'Wed' 1969 3 '12'",
        ];
        assert_eq!(parts, expected);
        let times = with_parts(table("at,y\n2024-01-01 07:10,1\n2024-01-01 23:00,0\n"), &[], &[], &[]);
        let times = times.expect("parts");
        assert_eq!(names(&*times), ["at", "y", "at.days", "at.month", "at.weekday", "at.hour"]);
        assert_eq!(rows(&*times, &[5]).expect("rows"), ["'07'", "'23'"]);
        let kept = with_parts(table("at,y\n2024-01-01,1\n"), &[], &["at"], &[]).expect("a source");
        assert_eq!(names(&*kept), ["at", "y"]);
    }

    #[test]
    fn a_value_that_is_not_a_date_is_named() {
        let mut text = "at,y\n".to_string();
        (0..12_000).for_each(|row| text += &format!("2024-01-{:02},{}\n", row % 28 + 1, row % 2));
        text += "soon,1\n";
        let source = with_parts(table(&text), &[], &[], &[]).expect("parts");
        let error = rows(&*source, &[2]).expect_err("an error").to_string();
        assert_eq!(error, "'a.csv', row 12001, column 'at': 'soon' is not a date");
    }
}
