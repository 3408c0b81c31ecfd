//! NDJSON files: one JSON object per line, whose keys are the columns; the keys of an object in it follow its own key and a dot.

use std::hash::RandomState;
use std::path::Path;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::OpenOptions;
use super::chunk::{Chunk, without_mark};
use super::guess::Guess;
use super::input::{Compression, Input};
use super::text::{BadRow, RowParser, TextFile, TextFormat, TextPart, field};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Column, Field, INEXACT, Kind, MISSING, Segment, TextBuilder};

/// Names and kinds of the columns are taken from this many rows.
const ROWS_LOOKED_AT: usize = 10_000;
/// Integers larger than this are not exact as `f64`.
const EXACT: u64 = super::token::EXACT as u64;

/// The format of a file of JSON objects.
pub(super) struct Ndjson {
    refuse_late_keys: bool,
    /// For each column of text whose values are all dates, whether they have times of day.
    looks_like_dates: Vec<Option<bool>>,
}

impl Ndjson {
    /// Reads the first rows: the columns are the keys of the first row in order of their names, then the keys that only
    /// later rows have.
    pub fn open(
        input: Arc<Input>,
        compression: Compression,
        chunk: usize,
        options: &OpenOptions,
    ) -> Result<TextPart<Ndjson>> {
        let file = TextFile { input, compression, chunk, quoting: false };
        let path = file.path();
        let mut chunks = file.chunks()?;
        let mut names: Vec<String> = Vec::new();
        let mut positions: HashMap<String, usize, RandomState> = HashMap::default();
        let mut seen: Vec<Seen> = Vec::new();
        let mut rows = 0;
        while rows < ROWS_LOOKED_AT
            && let Some(chunk) = chunks.next()?
        {
            for line in lines(chunk.bytes()).take(ROWS_LOOKED_AT - rows) {
                rows += 1;
                let object = match object(path, rows as u64 - 1, line) {
                    Err(_) if options.lenient => continue,
                    object => object?,
                };
                for (name, value) in object {
                    if let Some(&at) = positions.get(&name) {
                        seen[at].add(&value);
                        continue;
                    }
                    let mut first = Seen::default();
                    first.add(&value);
                    positions.insert(name.clone(), names.len());
                    names.push(name);
                    seen.push(first);
                }
            }
        }
        if names.is_empty() {
            return Err(Error::malformed(path, "is empty"));
        }
        let fields = names.into_iter().zip(&seen).map(|(name, seen)| field(name, seen.kind())).collect();
        let undecided = seen.iter().map(Seen::is_undecided).collect();
        let looks_like_dates = seen.iter().map(Seen::looks_like_dates).collect();
        let format = Ndjson { refuse_late_keys: options.refuse_late_keys, looks_like_dates };
        Ok(TextPart { file, format, fields, undecided })
    }
}

impl TextFormat for Ndjson {
    type Parser = Plan;

    fn looks_like_dates(&self, column: usize) -> Option<bool> {
        *self.looks_like_dates.get(column)?
    }

    fn set_formatted(&mut self, column: usize, is_formatted: bool) -> bool {
        self.looks_like_dates[column] = None;
        !is_formatted
    }

    fn parser(&self, file: &TextFile, fields: &[Field], columns: &[usize]) -> Plan {
        Plan {
            input: file.input.clone(),
            fields: columns.iter().map(|&column| fields[column].clone()).collect(),
            known: self.refuse_late_keys.then(|| fields.iter().map(|field| field.name.clone()).collect()),
        }
    }
}

/// The kinds of the first values of a column.
#[derive(Clone, Copy, Default)]
struct Seen {
    guess: Guess,
    has_others: bool,
}

impl Seen {
    fn add(&mut self, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(_) => self.guess.truth(),
            Value::Number(_) => self.guess.number(),
            Value::String(text) => self.guess.text(text.as_bytes()),
            Value::Array(_) | Value::Object(_) => self.has_others = true,
        }
    }

    fn kind(self) -> Kind {
        if self.has_others { Kind::Unsupported } else { self.guess.kind() }
    }

    fn looks_like_dates(&self) -> Option<bool> {
        self.guess.looks_like_dates().filter(|_| !self.has_others)
    }

    fn is_undecided(&self) -> bool {
        !self.has_others && self.guess.is_undecided()
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    without_mark(bytes).split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

/// A JSON object in which every key occurs once; otherwise the last value would silently win.
pub struct UniqueKeys(pub Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<UniqueKeys, D::Error> {
        struct Reading;

        impl<'de> Visitor<'de> for Reading {
            type Value = UniqueKeys;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut entries: A,
            ) -> std::result::Result<UniqueKeys, A::Error> {
                let mut object = Map::new();
                while let Some((key, value)) = entries.next_entry::<String, Value>()? {
                    if object.contains_key(&key) {
                        return Err(A::Error::custom(format!("'{key}' has two values")));
                    }
                    object.insert(key, value);
                }
                Ok(UniqueKeys(object))
            }
        }

        deserializer.deserialize_map(Reading)
    }
}

fn object(path: &Path, row: u64, line: &[u8]) -> Result<Map<String, Value>> {
    let parsed = serde_json::from_slice(line).map(|UniqueKeys(object)| object);
    let flat = parsed.and_then(|object| match object.values().any(Value::is_object) {
        true => flattened(object),
        false => Ok(object),
    });
    flat.map_err(|error| {
        let what = format!("is not a JSON object ({error})");
        let help = Some("write one flat JSON object per line".into());
        ErrorKind::Cell { path: path.to_path_buf(), row, column: None, what, help }.into()
    })
}

/// The object with the entries of the objects in it: `{"a": {"b": 1}}` is `{"a.b": 1}`.
fn flattened(object: Map<String, Value>) -> serde_json::Result<Map<String, Value>> {
    let mut flat = Map::new();
    // The parser bounds the depth.
    for (key, value) in object {
        let entries: Vec<(String, Value)> = match value {
            Value::Object(inner) => {
                flattened(inner)?.into_iter().map(|(own, value)| (format!("{key}.{own}"), value)).collect()
            }
            value => vec![(key, value)],
        };
        for (key, value) in entries {
            if flat.contains_key(&key) {
                return Err(serde::de::Error::custom(format!("'{key}' has two values")));
            }
            flat.insert(key, value);
        }
    }
    Ok(flat)
}

/// Which columns are read; shared by all units of a scan.
pub(super) struct Plan {
    input: Arc<Input>,
    fields: Vec<Field>,
    /// The names of all columns, if a key that is not among them is an error.
    known: Option<HashSet<String, RandomState>>,
}

/// A value as its column's kind stores it.
enum Cell {
    Number(f64),
    Text(Option<String>),
}

enum Builder {
    Number(Vec<f64>),
    Text(TextBuilder),
}

impl RowParser for Plan {
    fn path(&self) -> &Path {
        self.input.path()
    }

    fn parse(
        &self,
        chunk: &Chunk,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
        mut bad: BadRow<'_>,
    ) -> Result<()> {
        let mut builders: Vec<Builder> = self
            .fields
            .iter()
            .map(|field| match field.kind {
                Kind::Text => Builder::Text(TextBuilder::default()),
                _ => Builder::Number(Vec::new()),
            })
            .collect();
        let mut len = 0;
        for (row, line) in lines(chunk.bytes()).enumerate() {
            match self.cells(row as u64, line) {
                Ok(cells) => {
                    len += 1;
                    for (builder, cell) in builders.iter_mut().zip(cells) {
                        match (builder, cell) {
                            (Builder::Number(values), Cell::Number(value)) => values.push(value),
                            (Builder::Text(text), Cell::Text(level)) => text.push(level.as_deref()),
                            (Builder::Number(values), Cell::Text(_)) => values.push(MISSING),
                            (Builder::Text(text), Cell::Number(_)) => text.push(None),
                        }
                    }
                }
                Err(error) => bad.handle(error)?,
            }
        }
        if len == 0 {
            return Ok(());
        }
        let columns = builders.into_iter().map(|builder| match builder {
            Builder::Number(values) => Column::Number(values.into()),
            Builder::Text(text) => text.finish(),
        });
        emit(Segment { columns: columns.collect(), len })
    }
}

impl Plan {
    /// The values of a line; an absent key is a missing value.
    fn cells(&self, row: u64, line: &[u8]) -> Result<Vec<Cell>> {
        let object = object(self.input.path(), row, line)?;
        if let Some(known) = &self.known
            && let Some(new) = object.keys().find(|key| !known.contains(*key))
        {
            return Err(ErrorKind::Cell {
                path: self.input.path().to_path_buf(),
                row,
                column: Some(new.clone()),
                what: format!("none of the first {ROWS_LOOKED_AT} rows has this key"),
                help: Some(Help::from([
                    Remedy::using("name the columns to use", Setting::Features),
                    "move this row to the top".into(),
                ])),
            }
            .into());
        }
        self.fields.iter().map(|field| self.cell(row, field, object.get(&field.name))).collect()
    }

    fn cell(&self, row: u64, field: &Field, value: Option<&Value>) -> Result<Cell> {
        let wrong = |value: &Value, what: &str| -> Error {
            let what = format!("'{value}' {what}");
            let column = Some(field.name.clone());
            ErrorKind::Cell { path: self.input.path().to_path_buf(), row, column, what, help: None }.into()
        };
        Ok(match (field.kind, value) {
            (Kind::Text, None | Some(Value::Null)) => Cell::Text(None),
            (Kind::Text, Some(Value::String(text))) => Cell::Text(Some(text.clone())),
            (Kind::Text, Some(value @ (Value::Number(_) | Value::Bool(_)))) => {
                Cell::Text(Some(value.to_string()))
            }
            (Kind::Text, Some(value)) => return Err(wrong(value, "is not text")),
            (_, None | Some(Value::Null)) => Cell::Number(MISSING),
            (Kind::Number, Some(Value::Number(number))) => {
                let integer = number.as_u64().or(number.as_i64().map(i64::unsigned_abs));
                let is_inexact = integer.is_some_and(|integer| integer > EXACT);
                Cell::Number(if is_inexact { INEXACT } else { number.as_f64().unwrap_or(MISSING) })
            }
            (Kind::Boolean, Some(Value::Bool(truth))) => Cell::Number(f64::from(u8::from(*truth))),
            (Kind::Boolean, Some(value)) => return Err(wrong(value, "is neither true nor false")),
            (_, Some(value)) => return Err(wrong(value, "is not a number")),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::part::Part;
    use super::*;

    fn open(text: &str) -> Result<TextPart<Ndjson>> {
        let input = Input::from_reader("a.ndjson", text.as_bytes(), 1 << 20)?;
        Ndjson::open(Arc::new(input), Compression::Plain, 64, &OpenOptions::default())
    }

    #[test]
    fn keys_become_columns() {
        let text = "{\"b\":1,\"a\":\"x\"}\n\n{\"a\":null,\"c\":true,\"b\":2.5}\r\n{\"a\":\"y\",\"b\":null}\n";
        let part = open(text).expect("a file");
        let names: Vec<&str> = part.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let mut scan = part.scan(&[1, 0, 2], None).expect("a scan");
        let mut numbers: Vec<f64> = Vec::new();
        let mut rows = 0;
        while let Some(unit) = scan.next_unit().expect("a unit") {
            unit.decode(&mut |segment| {
                rows += segment.len;
                if let Column::Number(values) = &segment.columns[0] {
                    numbers.extend_from_slice(values);
                }
                Ok(())
            })
            .expect("rows");
        }
        assert_eq!(rows, 3);
        assert_eq!(numbers[..2], [1.0, 2.5]);
        assert_eq!(numbers[2].to_bits(), MISSING.to_bits());
    }

    #[test]
    fn a_row_without_end_is_not_skipped() {
        let part = open("{\"a\":1}\n").expect("a file");
        let reader = std::io::repeat(b'x').take(100 << 20);
        let mut scan = part.scan_once(&[0], Box::new(reader)).expect("a scan");
        let unit = scan.next_unit().expect("a chunk").expect("a unit");
        let error =
            unit.decode_leniently(&mut |_| Ok(()), &mut |_| panic!("left out")).expect_err("an error");
        assert_eq!(error.to_string(), "'a.ndjson', row 1: the row does not end");
    }

    #[test]
    fn a_line_that_is_not_an_object_is_named() {
        let error = open("{\"a\":1}\n[1]\n").err().expect("an error").to_string();
        assert!(error.starts_with("'a.ndjson', row 2: is not a JSON object"), "{error}");
    }
}
