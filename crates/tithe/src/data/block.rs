//! Rows in memory: columns of numbers or of text codes, in blocks of a fixed number of rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use hashbrown::HashMap;

/// A missing value in a column of numbers: a NaN with a payload, like `NA` in R.
pub const MISSING: f64 = f64::from_bits(0x7ff8_0000_0000_0001);
/// An integer beyond ±2⁵³, which `f64` cannot represent exactly: a NaN with another payload.
pub const INEXACT: f64 = f64::from_bits(0x7ff8_0000_0000_0002);
/// A missing value in a column of text.
pub const MISSING_CODE: u32 = u32::MAX;

/// True for a missing number: any NaN but [`INEXACT`].
#[inline(always)]
pub(crate) fn is_missing(value: f64) -> bool {
    value.is_nan() && value.to_bits() != INEXACT.to_bits()
}

/// The kind of values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Numbers.
    Number,
    /// True or false, stored as 1 and 0.
    Boolean,
    /// Text, one of a set of levels.
    Text,
    /// Dates or times, read as seconds since 1970-01-01, or as the text that they are in; their parts are features.
    Time,
    /// Values that cannot be used (durations, lists, bytes); reading such a column is an error.
    Unsupported,
}

/// A column of the input: its name, the kind of its values, and its type in output files.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in the input.
    pub name: String,
    /// The kind of its values.
    pub kind: Kind,
    /// Its Arrow type in the input (`Float64`, `Boolean` or `Utf8` for formats without types).
    pub data_type: DataType,
}

/// The values of one column.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(from = "PlainColumn", into = "PlainColumn")]
pub enum Column {
    /// Numbers and booleans, including the markers [`MISSING`] and [`INEXACT`].
    Number(ScalarBuffer<f64>),
    /// Text: each row's position in `levels`, or [`MISSING_CODE`].
    Text {
        /// One code per row.
        codes: ScalarBuffer<u32>,
        /// The distinct levels, in any order.
        levels: Arc<Vec<String>>,
    },
}

impl Column {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Number(values) => values.len(),
            Column::Text { codes, .. } => codes.len(),
        }
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate size in memory.
    fn bytes(&self) -> usize {
        match self {
            Column::Number(values) => values.len() * 8,
            Column::Text { codes, levels } => {
                codes.len() * 4 + levels.iter().map(|level| level.len() + 24).sum::<usize>()
            }
        }
    }

    fn slice(&self, rows: Range<usize>) -> Column {
        match self {
            Column::Number(values) => Column::Number(values.slice(rows.start, rows.len())),
            Column::Text { codes, levels } => {
                Column::Text { codes: codes.slice(rows.start, rows.len()), levels: levels.clone() }
            }
        }
    }

    /// Concatenates columns; for text, the result has the levels of all parts.
    fn concat(parts: &[&Column]) -> Column {
        match parts[0] {
            Column::Number(_) => {
                let mut all = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
                for part in parts {
                    if let Column::Number(values) = part {
                        all.extend_from_slice(values);
                    }
                }
                Column::Number(all.into())
            }
            Column::Text { levels: first, .. } => {
                let texts = || {
                    parts.iter().filter_map(|part| match part {
                        Column::Text { codes, levels } => Some((codes, levels)),
                        Column::Number(_) => None,
                    })
                };
                // Parts of one block share their levels.
                if texts().all(|(_, levels)| Arc::ptr_eq(levels, first)) {
                    let codes = texts().map(|(codes, _)| &codes[..]).collect::<Vec<_>>().concat();
                    return Column::Text { codes: codes.into(), levels: first.clone() };
                }
                let mut all = TextBuilder::default();
                for (codes, levels) in texts() {
                    let renumbered: Vec<u32> = levels.iter().map(|level| all.code(level)).collect();
                    all.codes.extend(
                        codes
                            .iter()
                            .map(|&code| renumbered.get(code as usize).copied().unwrap_or(MISSING_CODE)),
                    );
                }
                all.finish()
            }
        }
    }

    pub(crate) fn take(&self, rows: &[usize]) -> Column {
        match self {
            Column::Number(values) => Column::Number(rows.iter().map(|&row| values[row]).collect()),
            Column::Text { codes, levels } => {
                Column::Text { codes: rows.iter().map(|&row| codes[row]).collect(), levels: levels.clone() }
            }
        }
    }

    /// The value of a row as text for messages.
    pub(crate) fn show(&self, row: usize) -> String {
        match self {
            Column::Number(values) if values[row].to_bits() == INEXACT.to_bits() => "beyond 2^53".to_string(),
            Column::Number(values) if values[row].is_nan() => "missing".to_string(),
            Column::Number(values) => values[row].to_string(),
            Column::Text { codes, levels } => match levels.get(codes[row] as usize) {
                Some(level) => format!("'{level}'"),
                None => "missing".to_string(),
            },
        }
    }

    /// True if the value of a row is missing.
    pub(crate) fn is_missing(&self, row: usize) -> bool {
        match self {
            Column::Number(values) => is_missing(values[row]),
            Column::Text { codes, .. } => codes[row] == MISSING_CODE,
        }
    }

    /// True if the value of a row is neither missing, infinite nor inexact.
    pub(crate) fn is_usable(&self, row: usize) -> bool {
        match self {
            Column::Number(values) => values[row].is_finite(),
            Column::Text { codes, .. } => codes[row] != MISSING_CODE,
        }
    }
}

/// Builds a column of text; levels are numbered in order of appearance.
#[derive(Default)]
pub struct TextBuilder {
    codes: Vec<u32>,
    levels: Vec<String>,
    numbers: HashMap<String, u32, std::hash::RandomState>,
}

impl TextBuilder {
    /// Adds a row.
    pub fn push(&mut self, level: Option<&str>) {
        let code = level.map_or(MISSING_CODE, |level| self.code(level));
        self.codes.push(code);
    }

    /// Adds a row by its code from [`TextBuilder::code`], or by [`MISSING_CODE`].
    pub(crate) fn push_code(&mut self, code: u32) {
        self.codes.push(code);
    }

    /// The code of a level; a new level is added.
    pub(crate) fn code(&mut self, level: &str) -> u32 {
        if let Some(&code) = self.numbers.get(level) {
            return code;
        }
        let code = self.levels.len() as u32;
        self.levels.push(level.to_string());
        self.numbers.insert(level.to_string(), code);
        code
    }

    /// The column.
    pub fn finish(self) -> Column {
        Column::Text { codes: self.codes.into(), levels: Arc::new(self.levels) }
    }
}

/// The serialised form of [`Column`].
#[derive(serde::Serialize, serde::Deserialize)]
enum PlainColumn {
    Number(Vec<f64>),
    Text(Vec<u32>, Vec<String>),
}

impl From<Column> for PlainColumn {
    fn from(column: Column) -> PlainColumn {
        match column {
            Column::Number(values) => PlainColumn::Number(values.to_vec()),
            // Selected rows share the levels of all rows; only the levels that occur are serialised.
            Column::Text { codes, levels } => {
                let mut own = TextBuilder::default();
                codes.iter().for_each(|&code| own.push(levels.get(code as usize).map(String::as_str)));
                PlainColumn::Text(own.codes, own.levels)
            }
        }
    }
}

impl From<PlainColumn> for Column {
    fn from(column: PlainColumn) -> Column {
        match column {
            PlainColumn::Number(values) => Column::Number(values.into()),
            PlainColumn::Text(codes, levels) => {
                Column::Text { codes: codes.into(), levels: Arc::new(levels) }
            }
        }
    }
}

/// Before the rows of the partitions are counted, partition p has provisional positions from p·2⁴⁰ on.
pub(crate) const PROVISIONAL: u32 = 40;

/// The name of the row at a position, for messages.
pub(crate) fn row_name(position: u64) -> String {
    let row = position % (1 << PROVISIONAL) + 1;
    match position >> PROVISIONAL {
        0 => format!("row {row}"),
        partition => format!("row {row} of partition {partition}"),
    }
}

/// Consecutive rows as a source decoded them, of any number.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Segment {
    /// The requested columns, in the requested order.
    pub columns: Vec<Column>,
    /// Number of rows.
    pub len: usize,
}

impl Segment {
    /// Some of the rows, without a copy.
    pub fn slice(&self, rows: Range<usize>) -> Segment {
        Segment {
            columns: self.columns.iter().map(|column| column.slice(rows.clone())).collect(),
            len: rows.len(),
        }
    }

    /// Copies the numbers, so that a larger buffer that contains them can be freed.
    pub(crate) fn detached(mut self) -> Segment {
        for column in &mut self.columns {
            if let Column::Number(values) = column {
                *values = values.to_vec().into();
            }
        }
        self
    }

    /// Concatenates segments; a single one is returned without a copy.
    pub(crate) fn concat(mut parts: Vec<Segment>) -> Segment {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let width = parts.first().map_or(0, |part| part.columns.len());
        Segment {
            columns: (0..width)
                .map(|c| Column::concat(&parts.iter().map(|part| &part.columns[c]).collect::<Vec<_>>()))
                .collect(),
            len: parts.iter().map(|part| part.len).sum(),
        }
    }
}

/// A block of B consecutive rows of the input, `index·B` to `(index+1)·B`, without dropped rows.
#[derive(Clone, Debug)]
pub struct Block {
    /// The number of the block. States are merged in this order.
    pub index: u64,
    /// The index of its random streams, unique among all blocks of the input.
    pub stream: u64,
    /// The columns in use, in the order of the [`Table`](crate::data::table::Table).
    pub columns: Vec<Column>,
    /// Number of rows.
    pub len: usize,
    /// The number of rows of the input in this block, including dropped rows.
    pub rows_read: usize,
    /// Position of the block's first row in the input.
    first_row: u64,
    /// The positions of the rows relative to `first_row`, if rows were dropped.
    kept: Option<Vec<u32>>,
}

impl Block {
    /// A block with all rows of a segment.
    pub(crate) fn new(index: u64, first_row: u64, segment: Segment) -> Block {
        Block {
            index,
            stream: index,
            len: segment.len,
            rows_read: segment.len,
            columns: segment.columns,
            first_row,
            kept: None,
        }
    }

    /// The block without the rows in which any value is missing, infinite or inexact.
    pub(crate) fn without_unusable_rows(self) -> Block {
        self.kept(|block, row| block.columns.iter().all(|column| column.is_usable(row)))
    }

    /// The block without the rows in which a value from column `first` on is missing.
    pub(crate) fn without_missing_from(self, first: usize) -> Block {
        self.kept(|block, row| block.columns.iter().skip(first).all(|column| !column.is_missing(row)))
    }

    /// The rows for which `is_kept` is true.
    fn kept(self, is_kept: impl Fn(&Block, usize) -> bool) -> Block {
        let usable: Vec<usize> = (0..self.len).filter(|&row| is_kept(&self, row)).collect();
        if usable.len() == self.len {
            return self;
        }
        Block {
            columns: self.columns.iter().map(|column| column.take(&usable)).collect(),
            len: usable.len(),
            kept: Some(usable.iter().map(|&row| row as u32).collect()),
            ..self
        }
    }

    /// The same block as part `part` of the input. Blocks of other parts have the same `index`, so its random streams depend on the part.
    pub(crate) fn of_part(self, part: u64) -> Block {
        // Block 0 of part p has the streams of block p of undivided input.
        Block { stream: self.index << 32 | part, ..self }
    }

    /// 0-based position in the input of row `row` of the block.
    pub fn position(&self, row: usize) -> u64 {
        self.first_row + self.kept.as_ref().map_or(row as u64, |kept| u64::from(kept[row]))
    }

    /// The row of the block at a position of the input, if the block has it.
    pub(crate) fn find(&self, position: u64) -> Option<usize> {
        let offset = position.checked_sub(self.first_row)?;
        match &self.kept {
            Some(kept) => kept.binary_search(&u32::try_from(offset).ok()?).ok(),
            None => usize::try_from(offset).ok().filter(|&row| row < self.len),
        }
    }

    /// Approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        let positions = self.kept.as_ref().map_or(0, |kept| kept.len() * size_of::<u32>());
        positions + self.columns.iter().map(Column::bytes).sum::<usize>()
    }
}

/// Rows copied out of blocks, with their positions in the input.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct RowSet {
    /// Their columns, as in a block.
    pub segment: Segment,
    /// 0-based positions in the input.
    pub positions: Vec<u64>,
}

impl RowSet {
    /// Copies some rows of a block.
    pub(crate) fn copy(block: &Block, rows: &[usize]) -> RowSet {
        RowSet {
            segment: Segment {
                columns: block.columns.iter().map(|column| column.take(rows)).collect(),
                len: rows.len(),
            },
            positions: rows.iter().map(|&row| block.position(row)).collect(),
        }
    }

    /// Replaces the position of each row by `place(position)`.
    pub(crate) fn relocate(&mut self, place: &dyn Fn(u64) -> u64) {
        self.positions.iter_mut().for_each(|position| *position = place(*position));
    }

    /// Some of the rows, in the given order.
    pub(crate) fn take(&self, rows: &[usize]) -> RowSet {
        RowSet {
            segment: Segment {
                columns: self.segment.columns.iter().map(|column| column.take(rows)).collect(),
                len: rows.len(),
            },
            positions: rows.iter().map(|&row| self.positions[row]).collect(),
        }
    }

    /// Removes the columns from `width` on.
    pub(crate) fn without_columns_from(mut self, width: usize) -> RowSet {
        self.segment.columns.truncate(width);
        self
    }

    /// Concatenates row sets.
    pub(crate) fn concat(parts: Vec<RowSet>) -> RowSet {
        RowSet {
            positions: parts.iter().map(|part| &part.positions[..]).collect::<Vec<_>>().concat(),
            segment: Segment::concat(parts.into_iter().map(|part| part.segment).collect()),
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The rows as one block.
    pub fn block(&self) -> Block {
        Block::new(0, 0, self.segment.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(levels: &[Option<&str>]) -> Column {
        let mut builder = TextBuilder::default();
        levels.iter().for_each(|level| builder.push(*level));
        builder.finish()
    }

    fn read_text(column: &Column) -> Vec<Option<String>> {
        match column {
            Column::Text { codes, levels } => {
                codes.iter().map(|&code| levels.get(code as usize).cloned()).collect()
            }
            Column::Number(_) => panic!("numbers"),
        }
    }

    #[test]
    fn text_with_different_levels_is_concatenated() {
        let a = text(&[Some("x"), None, Some("y")]);
        let b = text(&[Some("y"), Some("z")]);
        let joined = Column::concat(&[&a, &b]);
        let expected: Vec<Option<String>> =
            [Some("x"), None, Some("y"), Some("y"), Some("z")].map(|level| level.map(str::to_string)).into();
        assert_eq!(read_text(&joined), expected);
        let parts_of_one = Column::concat(&[&joined.take(&[0, 1]), &joined.take(&[2, 3, 4])]);
        assert_eq!(read_text(&parts_of_one), expected);
        let levels = |column: &Column| match column {
            Column::Text { levels, .. } => Arc::as_ptr(levels),
            Column::Number(_) => std::ptr::null(),
        };
        assert_eq!(levels(&parts_of_one), levels(&joined), "shared levels are reused");
    }

    #[test]
    fn dropped_rows_keep_their_positions() {
        let numbers = Column::Number(vec![1.0, MISSING, 3.0, f64::INFINITY, 5.0].into());
        let words = text(&[Some("a"), Some("a"), Some("a"), Some("a"), None]);
        let block =
            Block::new(2, 100, Segment { columns: vec![numbers, words], len: 5 }).without_unusable_rows();
        assert_eq!((block.len, block.rows_read), (2, 5));
        assert_eq!((block.position(0), block.position(1)), (100, 102));
    }

    #[test]
    fn the_markers_are_different_nans() {
        assert!(MISSING.is_nan() && INEXACT.is_nan());
        assert_ne!(MISSING.to_bits(), INEXACT.to_bits());
    }
}
