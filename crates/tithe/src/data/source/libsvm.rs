//! LIBSVM / SVMlight files: lines of `label index:value …` without the zeros, read into dense columns.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::DataType;
use memchr::{memchr, memchr_iter, memrchr};

use super::chunk::{Chunk, without_mark};
use super::input::{Compression, Input};
use super::part::{Indices, Part, check_columns};
use super::text::{BadRow, Chunks, RowParser, TextFile, TextUnit};
use super::token::{number, shown};
use super::{Scan, Unit};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Column, Field, Kind, Segment, TextBuilder};

/// The largest number of features: once read, columns are dense.
const MOST_FEATURES: u32 = 20_000;
/// Values per segment: limits the memory that files with many columns need.
const SEGMENT_VALUES: usize = 4 << 20;

/// A LIBSVM file that was read once for its size.
pub(super) struct Libsvm {
    file: TextFile,
    fields: Vec<Field>,
    found: Option<Indices>,
    indices: Indices,
    /// Number of rows in each chunk.
    rows: Arc<Vec<u64>>,
}

impl Libsvm {
    /// Reads the file to count its rows and to find the range of its feature indices.
    pub fn open(input: Arc<Input>, compression: Compression, chunk: usize) -> Result<Libsvm> {
        let file = TextFile { input, compression, chunk, quoting: false };
        let mut chunks = file.chunks()?;
        let mut found: Option<Indices> = None;
        let mut rows = Vec::new();
        while let Some(chunk) = chunks.next()? {
            let mut count = 0;
            for line in lines(chunk.bytes()) {
                count += 1;
                let range = first_index(line).zip(last_index(line));
                if let Some((first, last)) = range {
                    let so_far = found.get_or_insert(Indices { first, last });
                    *so_far = Indices { first: so_far.first.min(first), last: so_far.last.max(last) };
                }
            }
            rows.push(count);
        }
        if rows.is_empty() {
            return Err(Error::malformed(file.path(), "is empty"));
        }
        let mut part = Libsvm {
            file,
            fields: Vec::new(),
            found,
            indices: Indices { first: 1, last: 0 },
            rows: Arc::new(rows),
        };
        part.widen(found.unwrap_or(part.indices));
        Ok(part)
    }
}

/// The range of feature indices of all files together, counted from 0 or 1 as the user says.
pub(super) fn common_indices(
    path: &Path,
    parts: impl Iterator<Item = Indices>,
    zero_based: Option<bool>,
    at_least: Option<u32>,
) -> Result<Indices> {
    let all = parts.reduce(|a, b| Indices { first: a.first.min(b.first), last: a.last.max(b.last) });
    let last = all.map_or(0, |all| all.last).max(at_least.unwrap_or(0));
    let has_zero = all.is_some_and(|all| all.first == 0);
    let refused = |what: String, help: Help| -> Error {
        ErrorKind::Malformed { path: path.to_path_buf(), what, help: Some(help) }.into()
    };
    if has_zero && zero_based == Some(false) {
        return Err(refused(
            "feature index 0 occurs, but indices begin at 1".to_string(),
            Remedy::set(Setting::ZeroBased, true).into(),
        ));
    }
    let first = if zero_based.unwrap_or(has_zero) { 0 } else { 1 };
    let features = u64::from(last) + 1 - u64::from(first);
    if features > u64::from(MOST_FEATURES) {
        return Err(refused(
            format!("has {features} features; the maximum is {MOST_FEATURES}"),
            "reduce them first, for example by hashing or by leaving out rare ones".into(),
        ));
    }
    Ok(Indices { first, last })
}

impl Part for Libsvm {
    fn file(&self) -> &Path {
        self.file.path()
    }

    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows.iter().sum())
    }

    fn indices(&self) -> Option<Indices> {
        self.found
    }

    fn is_sparse(&self) -> bool {
        true
    }

    fn widen(&mut self, indices: Indices) {
        let number = |name| Field { name, kind: Kind::Number, data_type: DataType::Float64 };
        let features = (indices.first..=indices.last).take(MOST_FEATURES as usize + 1);
        self.fields = std::iter::once("label".to_string())
            .chain(features.map(|index| format!("x{index}")))
            .map(number)
            .collect();
        self.indices = indices;
    }

    fn read_as_text(&mut self, column: usize) -> Result<()> {
        self.fields[column].kind = Kind::Text;
        self.fields[column].data_type = DataType::Utf8;
        Ok(())
    }

    fn scan(&self, columns: &[usize], first_row: Option<u64>) -> Result<Box<dyn Scan>> {
        self.scan_chunks(columns, self.file.chunks()?, Some(self.rows.clone()), first_row)
    }

    fn scan_once(&self, columns: &[usize], reader: Box<dyn Read + Send>) -> Result<Box<dyn Scan>> {
        self.scan_chunks(columns, self.file.chunks_of(reader), None, Some(0))
    }
}

impl Libsvm {
    fn scan_chunks(
        &self,
        columns: &[usize],
        chunks: Chunks,
        rows: Option<Arc<Vec<u64>>>,
        first_row: Option<u64>,
    ) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        let mut slots = vec![None; self.fields.len()];
        let mut width = 0;
        for &column in columns {
            slots[column].get_or_insert_with(|| {
                width += 1;
                width - 1
            });
        }
        let plan = Plan {
            input: self.file.input.clone(),
            indices: self.indices,
            order: columns
                .iter()
                .filter_map(|&column| Some((slots[column]?, self.fields[column].kind)))
                .collect(),
            slots,
            width,
        };
        Ok(Box::new(LibsvmScan { chunks, plan: Arc::new(plan), rows, chunk: 0, next_row: first_row }))
    }
}

/// The lines that are not empty, without comments.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = without_mark(bytes);
    let has_comments = memchr(b'#', bytes).is_some();
    let ends = memchr_iter(b'\n', bytes).chain(std::iter::once(bytes.len()));
    let mut start = 0;
    ends.filter_map(move |end| {
        let mut line = &bytes[start.min(end)..end];
        start = end + 1;
        if has_comments && let Some(comment) = memchr(b'#', line) {
            line = &line[..comment];
        }
        let line = line.trim_ascii();
        (!line.is_empty()).then_some(line)
    })
}

/// The index of the first feature of a line, if there is one that can be read.
fn first_index(line: &[u8]) -> Option<u32> {
    tokens(line)
        .skip(1)
        .find(|token| !is_query(token))
        .and_then(|token| index_and_value(token))
        .map(|(index, _)| index)
}

/// The index of the last feature of a line: the largest, as they increase (which decoding checks).
fn last_index(line: &[u8]) -> Option<u32> {
    let colon = memrchr(b':', line)?;
    let start =
        line[..colon].iter().rposition(|byte| byte.is_ascii_whitespace()).map_or(0, |space| space + 1);
    parse_index(&line[start..colon])
}

fn tokens(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|token| !token.is_empty())
}

/// True for SVMlight's query number, which is ignored.
fn is_query(token: &[u8]) -> bool {
    token.starts_with(b"qid:")
}

fn index_and_value(token: &[u8]) -> Option<(u32, &[u8])> {
    let colon = memchr(b':', token)?;
    Some((parse_index(&token[..colon])?, &token[colon + 1..]))
}

fn parse_index(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

/// True if the complete lines at the beginning of a file look like this format.
pub(super) fn looks_like(head: &[u8]) -> bool {
    let complete = memrchr(b'\n', head).unwrap_or_else(|| memrchr(b' ', head).unwrap_or(head.len()));
    let mut features = 0;
    for line in lines(&head[..complete]).take(20) {
        let mut tokens = tokens(line);
        if tokens.next().is_none_or(|label| fast_float2::parse::<f64, _>(label).is_err()) {
            return false;
        }
        for token in tokens {
            let is_feature = index_and_value(token).is_some_and(|(_, value)| number(value).is_some());
            if !is_feature && !is_query(token) {
                return false;
            }
            features += 1;
        }
    }
    features > 0
}

/// Which columns are read, and where their values go; shared by all units of a scan.
struct Plan {
    input: Arc<Input>,
    indices: Indices,
    /// For each column of the file (the label first): its position among those that are read.
    slots: Vec<Option<usize>>,
    /// Position and kind of each requested column.
    order: Vec<(usize, Kind)>,
    width: usize,
}

struct LibsvmScan {
    chunks: Chunks,
    plan: Arc<Plan>,
    /// Number of rows in each chunk, if they were counted before.
    rows: Option<Arc<Vec<u64>>>,
    chunk: usize,
    next_row: Option<u64>,
}

impl Scan for LibsvmScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let chunk = self.chunks.next()?;
        let expected = match &self.rows {
            Some(rows) => rows.get(self.chunk).copied(),
            None => chunk.as_ref().map(|chunk| lines(chunk.bytes()).count() as u64),
        };
        self.chunk += 1;
        match (chunk, expected) {
            (Some(chunk), Some(expected)) => {
                let first_row = self.next_row;
                self.next_row = first_row.map(|row| row + expected);
                let parser = Arc::new(Counted { plan: self.plan.clone(), expected });
                Ok(Some(Box::new(TextUnit { chunk, parser, first_row })))
            }
            (None, None) => Ok(None),
            _ => Err(changed(self.plan.input.path())),
        }
    }
}

fn changed(path: &Path) -> Error {
    Error::malformed(path, "was changed while it was being read")
}

/// Parses a chunk that must have the expected number of rows.
struct Counted {
    plan: Arc<Plan>,
    expected: u64,
}

impl RowParser for Counted {
    fn path(&self) -> &Path {
        self.plan.input.path()
    }

    fn parse(
        &self,
        chunk: &Chunk,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
        mut bad: BadRow<'_>,
    ) -> Result<()> {
        let plan = &*self.plan;
        let most = (SEGMENT_VALUES / plan.width.max(1)).clamp(1, 65_536).min(self.expected as usize);
        let mut columns = vec![vec![0.0; most]; plan.width];
        let (mut row, mut filled) = (0, 0);
        for line in lines(chunk.bytes()) {
            if filled == most {
                let full = std::mem::replace(&mut columns, vec![vec![0.0; most]; plan.width]);
                emit(plan.segment(full, filled))?;
                filled = 0;
            }
            if row == self.expected {
                return Err(changed(plan.input.path()));
            }
            row += 1;
            match plan.parse(line, row - 1, filled, &mut columns) {
                Ok(()) => filled += 1,
                Err(error) => {
                    bad.handle(error)?;
                    columns.iter_mut().for_each(|column| column[filled] = 0.0);
                }
            }
        }
        if row != self.expected {
            return Err(changed(plan.input.path()));
        }
        if filled > 0 { emit(plan.segment(columns, filled)) } else { Ok(()) }
    }
}

impl Plan {
    /// Parses a line into row `filled` of the columns, which contains zeros.
    fn parse(&self, line: &[u8], row: u64, filled: usize, columns: &mut [Vec<f64>]) -> Result<()> {
        let mut tokens = tokens(line);
        let label = tokens.next().unwrap_or_default();
        let value = number(label).ok_or_else(|| self.not_a_number(row, "label".to_string(), label))?;
        if let Some(slot) = self.slots[0] {
            columns[slot][filled] = value;
        }
        let mut last = None;
        let mut is_outside = false;
        for token in tokens {
            let Some((index, text)) = index_and_value(token) else {
                if is_query(token) {
                    continue;
                }
                return Err(self.wrong(row, None, format!("'{}' is not index:value", shown(token))));
            };
            if last.is_some_and(|last| index <= last) {
                let what = if last == Some(index) {
                    format!("feature index {index} occurs twice")
                } else {
                    format!("feature index {index} comes after {}; indices must increase", last.unwrap_or(0))
                };
                return Err(self.wrong(row, None, what));
            }
            last = Some(index);
            let value = number(text).ok_or_else(|| self.not_a_number(row, format!("x{index}"), text))?;
            match index.checked_sub(self.indices.first).and_then(|at| self.slots.get(at as usize + 1)) {
                Some(Some(slot)) => columns[*slot][filled] = value,
                Some(None) => {}
                // Either the indices of this line do not increase, which the next indices will show, ...
                None => is_outside = true,
            }
        }
        // ... or the row has a feature that did not occur when the file was read first.
        if !is_outside {
            return Ok(());
        }
        let what = format!("feature index {} is larger than all in the first rows", last.unwrap_or(0));
        Err(self.wrong(row, None, what))
    }

    fn segment(&self, columns: Vec<Vec<f64>>, len: usize) -> Segment {
        let columns: Vec<Column> = columns
            .into_iter()
            .map(|mut values| {
                values.truncate(len);
                Column::Number(values.into())
            })
            .collect();
        let columns = self.order.iter().map(|&(slot, kind)| match (&columns[slot], kind) {
            (Column::Number(values), Kind::Text) => {
                let mut text = TextBuilder::default();
                for value in values.iter() {
                    text.push((!value.is_nan()).then(|| value.to_string()).as_deref());
                }
                text.finish()
            }
            (column, _) => column.clone(),
        });
        Segment { columns: columns.collect(), len }
    }

    fn not_a_number(&self, row: u64, column: String, text: &[u8]) -> Error {
        self.wrong(row, Some(column), format!("'{}' is not a number", shown(text)))
    }

    fn wrong(&self, row: u64, column: Option<String>, what: String) -> Error {
        ErrorKind::Cell { path: self.input.path().to_path_buf(), row, column, what, help: None }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(text: &str, chunk: usize) -> Result<Libsvm> {
        let input = Input::from_reader("a.svm", text.as_bytes(), 1 << 20)?;
        let mut part = Libsvm::open(Arc::new(input), Compression::Plain, chunk)?;
        let indices = common_indices(part.file(), part.indices().into_iter(), None, None)?;
        part.widen(indices);
        Ok(part)
    }

    fn read(part: &Libsvm, columns: &[usize]) -> Result<Vec<Vec<f64>>> {
        let mut scan = part.scan(columns, Some(0))?;
        let mut all: Vec<Vec<f64>> = Vec::new();
        while let Some(unit) = scan.next_unit()? {
            let before = all.len() as u64;
            assert_eq!(unit.first_row(), Some(before));
            let decoded = unit.decode(&mut |segment| {
                for row in 0..segment.len {
                    all.push(
                        segment
                            .columns
                            .iter()
                            .map(|column| match column {
                                Column::Number(values) => values[row],
                                Column::Text { .. } => f64::NAN,
                            })
                            .collect(),
                    );
                }
                Ok(())
            });
            decoded.map_err(|error| error.moved_down(before))?;
        }
        Ok(all)
    }

    fn error(text: &str) -> String {
        match open(text, 1 << 16).and_then(|part| read(&part, &[0])) {
            Ok(rows) => panic!("{rows:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn zeros_are_restored() {
        let text = "+1 1:0.5 3:-2 # a:b\r\n-1 qid:7 2:1e2\n\n# nothing\n1\n0\t3:4";
        for chunk in [1, 10, 1 << 16] {
            let part = open(text, chunk).unwrap();
            let names: Vec<&str> = part.fields.iter().map(|field| field.name.as_str()).collect();
            assert_eq!(names, ["label", "x1", "x2", "x3"]);
            assert_eq!(part.rows(), Some(4));
            assert_eq!(
                read(&part, &[0, 1, 2, 3]).unwrap(),
                [[1.0, 0.5, 0.0, -2.0], [-1.0, 0.0, 100.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 4.0]]
            );
            assert_eq!(read(&part, &[3, 0]).unwrap()[0], [-2.0, 1.0]);
        }
    }

    #[test]
    fn index_zero_makes_it_zero_based() {
        let part = open("1 0:5 2:6\n", 100).unwrap();
        assert_eq!(part.fields.len(), 4);
        assert_eq!(part.fields[1].name, "x0");
        assert_eq!(read(&part, &[1, 2, 3]).unwrap(), [[5.0, 0.0, 6.0]]);
        let range = |found: &[(u32, u32)], zero_based, at_least| {
            let found = found.iter().map(|&(first, last)| Indices { first, last });
            common_indices(Path::new("a.svm"), found, zero_based, at_least)
                .map(|range| (range.first, range.last))
        };
        assert_eq!(range(&[(3, 7), (1, 2)], None, None).unwrap(), (1, 7));
        assert_eq!(range(&[(3, 7)], Some(true), None).unwrap(), (0, 7));
        assert_eq!(range(&[(3, 7), (0, 2)], None, Some(9)).unwrap(), (0, 9));
        assert_eq!(range(&[], None, None).unwrap(), (1, 0));
        assert_eq!(
            range(&[(0, 7)], Some(false), None).unwrap_err().to_string(),
            "'a.svm': feature index 0 occurs, but indices begin at 1"
        );
        assert_eq!(range(&[(1, 20_000)], None, None).unwrap(), (1, 20_000));
        let error = range(&[(1, 20_001)], None, None).unwrap_err();
        assert_eq!(error.to_string(), "'a.svm': has 20001 features; the maximum is 20000");
        assert!(error.help().is_some());
    }

    #[test]
    fn every_error_says_where_and_what() {
        assert_eq!(error(""), "'a.svm': is empty");
        assert_eq!(error("1 1:2\nx 1:2\n"), "'a.svm', row 2, column 'label': 'x' is not a number");
        assert_eq!(error("1 2:abc\n"), "'a.svm', row 1, column 'x2': 'abc' is not a number");
        assert_eq!(error("1 2:1 two\n"), "'a.svm', row 1: 'two' is not index:value");
        assert_eq!(
            error("1 7:1 3:1\n"),
            "'a.svm', row 1: feature index 3 comes after 7; indices must increase"
        );
        assert_eq!(error("1 7:1 7:1\n"), "'a.svm', row 1: feature index 7 occurs twice");
    }

    proptest! {
        #[test]
        fn the_same_rows_come_out_whatever_the_chunks(
            rows in proptest::collection::vec((any::<bool>(), proptest::collection::btree_map(1u32..30, -1e9..1e9, 0..8)), 1..40),
            chunk in 1usize..300,
        ) {
            let last = rows.iter().filter_map(|(_, row)| row.keys().max()).max().copied().unwrap_or(0);
            let mut text = String::new();
            let mut expected = Vec::new();
            for (label, row) in &rows {
                text += if *label { "+1" } else { "-1" };
                let mut dense = vec![0.0; last as usize + 1];
                dense[0] = if *label { 1.0 } else { -1.0 };
                for (index, value) in row {
                    text += &format!(" {index}:{value}");
                    dense[*index as usize] = *value;
                }
                text += "\n";
                expected.push(dense);
            }
            let part = open(&text, chunk).unwrap();
            prop_assert_eq!(read(&part, &(0..=last as usize).collect::<Vec<_>>()).unwrap(), expected);
        }
    }
}
