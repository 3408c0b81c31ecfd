//! CSV and TSV files: the names and kinds of the columns are read once, then chunks of rows are parsed in parallel.

use std::path::Path;
use std::sync::Arc;

use memchr::{memchr, memchr_iter};

use super::chunk::{Chunk, without_mark};
use super::guess::Guess;
use super::input::{Compression, Input};
use super::part::check_names;
use super::row::{Fault, Token, row, skip_blank, token};
use super::text::{BadRow, RowParser, TextFile, TextFormat, TextPart, field};
use super::token::{EXACT, Notation, shown};
use super::{Decimal, Delimiter};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Column, Field, Kind, Segment, TextBuilder};

/// What to do with a column of numbers written for readers.
pub(crate) const READ_AS_NUMBERS: &str = "read the column as numbers";

/// The kinds of the columns are guessed from this many rows.
const ROWS_LOOKED_AT: u64 = 10_000;

/// Delimiter and decimal separator are detected from this many rows.
const ROWS_TRIED: usize = 100;

/// How the text is written, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct Dialect {
    /// The character between fields; `None` to detect it.
    pub delimiter: Option<Delimiter>,
    /// `None` to detect it.
    pub decimal: Option<Decimal>,
    /// Words for missing values, besides the usual ones.
    pub missing: Arc<[String]>,
    /// True if the first row contains the names of the columns.
    pub has_header: bool,
    /// Bytes read at a time.
    pub chunk: usize,
    /// True if rows with too few or too many fields are skipped.
    pub lenient: bool,
}

/// How the text is written.
#[derive(Clone, Debug)]
struct Style {
    /// The byte between fields.
    delimiter: u8,
    notation: Notation,
    has_header: bool,
    lenient: bool,
}

impl Style {
    /// The style of a text that begins with these bytes.
    fn detect(dialect: &Dialect, bytes: &[u8], at: usize) -> Style {
        let delimiter = dialect.delimiter.unwrap_or_else(|| detect_delimiter(bytes, at)) as u8;
        let decimal = dialect.decimal.unwrap_or_else(|| detect_decimal(bytes, at, delimiter));
        let notation = Notation { decimal, missing: dialect.missing.clone() };
        Style { delimiter, notation, has_header: dialect.has_header, lenient: dialect.lenient }
    }
}

/// The first delimiter that splits the first rows into the same number of fields, and into more than one.
fn detect_delimiter(bytes: &[u8], start: usize) -> Delimiter {
    let splits = |delimiter: &Delimiter| {
        let (mut at, mut width) = (start, 0);
        for tried in 0..ROWS_TRIED {
            match row(bytes, at, *delimiter as u8) {
                Ok(Some((tokens, next))) if tried == 0 || tokens.len() == width => {
                    (width, at) = (tokens.len(), next);
                }
                Ok(None) => break,
                _ => return false,
            }
        }
        width > 1
    };
    let candidates = [Delimiter::Comma, Delimiter::Semicolon, Delimiter::Tab, Delimiter::Pipe];
    candidates.into_iter().find(splits).unwrap_or(Delimiter::Comma)
}

/// A comma, if fields look like numbers with a decimal comma and none like one with a point. Where commas separate the fields, such a
/// field has to be quoted; it is then rather a number like `1,200`.
fn detect_decimal(bytes: &[u8], mut at: usize, delimiter: u8) -> Decimal {
    if delimiter == b',' {
        return Decimal::Point;
    }
    let (mut commas, mut points) = (0, 0);
    for _ in 0..ROWS_TRIED {
        let Ok(Some((tokens, next))) = row(bytes, at, delimiter) else { break };
        for token in &tokens {
            match decimal_of(&token.text) {
                Some(b',') => commas += 1,
                Some(_) => points += 1,
                None => {}
            }
        }
        at = next;
    }
    if commas > 0 && points == 0 { Decimal::Comma } else { Decimal::Point }
}

/// The decimal separator of a field, if it is a number with a fraction: a single comma or point between digits, or the last of them. A
/// point before three digits may separate thousands.
fn decimal_of(text: &[u8]) -> Option<u8> {
    let is_digit_or_separator = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',');
    // A sign, a currency or a percent sign may stand on either side, separated by a space.
    let start = text.iter().position(u8::is_ascii_digit)?;
    let end = text.iter().rposition(u8::is_ascii_digit)? + 1;
    let is_around = |byte: &u8| !byte.is_ascii_alphanumeric() && !is_digit_or_separator(byte);
    if !(text[..start].iter().all(is_around) && text[end..].iter().all(is_around)) {
        return None;
    }
    let text = &text[start..end];
    let last = text.iter().rposition(|byte| matches!(byte, b'.' | b','))?;
    let is_single = !text[..last].contains(&text[last]);
    let may_be_thousands = text[last] == b'.' && text.len() - last == 4;
    (text.iter().all(is_digit_or_separator) && is_single && !may_be_thousands && text.len() > 1)
        .then_some(text[last])
}

/// The format of a file of delimited text.
pub(super) struct Delimited {
    style: Style,
    /// Where the first row after the header begins.
    data_start: u64,
    /// For each column of text whose values are all numbers written for readers, one of them.
    looks_numeric: Vec<Option<String>>,
    /// For each column of text whose values are all dates, whether they have times of day.
    looks_like_dates: Vec<Option<bool>>,
    /// For each column, whether it is read as numbers written for readers.
    formatted: Vec<bool>,
}

impl Delimited {
    /// Reads the header and the first rows.
    pub fn open(
        input: Arc<Input>,
        compression: Compression,
        dialect: Dialect,
    ) -> Result<TextPart<Delimited>> {
        let file = TextFile { input, compression, chunk: dialect.chunk, quoting: true };
        let path = file.path();
        let mut chunks = file.chunks()?;
        let mut next_chunk = || chunks.next();
        let mut first = next_chunk()?.ok_or_else(|| Error::malformed(path, "is empty"))?;
        let mark = first.bytes().len() - without_mark(first.bytes()).len();
        // Blank lines may come before the header, even a whole chunk of them.
        let (mut chunk_start, mut from) = (0, mark);
        while skip_blank(first.bytes(), from) == first.bytes().len() {
            chunk_start += first.bytes().len() as u64;
            first = next_chunk()?.ok_or_else(|| Error::malformed(path, "is empty"))?;
            from = 0;
        }
        let style = Style::detect(&dialect, first.bytes(), from);
        let (header, next) = row(first.bytes(), from, style.delimiter)
            .map_err(|fault| Error::malformed(path, format!("in its first line {}", fault.what())))?
            .unwrap_or_default();
        if first.is_cut {
            return Err(Error::malformed(path, "its first line does not end"));
        }
        let names = column_names(path, &header, style.has_header)?;
        let start = if dialect.has_header { next } else { from };

        let mut guesses = vec![Guess::default(); names.len()];
        let mut samples = vec![None; names.len()];
        let mut rows = 0;
        let mut chunk = Some(first);
        from = start;
        while let Some(now) = chunk
            && rows < ROWS_LOOKED_AT
        {
            let seen = Seen { guesses: &mut guesses, samples: &mut samples };
            rows = guess(path, &style, now.bytes(), from, rows, seen)?;
            from = 0;
            chunk = next_chunk()?;
        }
        let fields = names.into_iter().zip(&guesses).map(|(name, guess)| field(name, guess.kind())).collect();
        let undecided = guesses.iter().map(Guess::is_undecided).collect();
        let looks_numeric =
            samples.into_iter().zip(&guesses).map(|(sample, guess)| sample.filter(|_| guess.looks_numeric()));
        let format = Delimited {
            style,
            data_start: chunk_start + start as u64,
            formatted: vec![false; guesses.len()],
            looks_numeric: looks_numeric.collect(),
            looks_like_dates: guesses.iter().map(|guess| guess.looks_like_dates()).collect(),
        };
        Ok(TextPart { file, format, fields, undecided })
    }
}

/// The names of the columns: the header's, or x1, x2, … without a header.
fn column_names(path: &Path, first_row: &[Token], has_header: bool) -> Result<Vec<String>> {
    let names: Vec<String> = if has_header {
        first_row.iter().enumerate().map(|(at, name)| column_name(path, at, name)).collect::<Result<_>>()?
    } else {
        (1..=first_row.len()).map(|number| format!("x{number}")).collect()
    };
    if let [only] = &names[..]
        && only.contains(';')
    {
        return Err(ErrorKind::Malformed {
            path: path.to_path_buf(),
            what: "its fields seem to be separated by semicolons".to_string(),
            help: Some(Remedy::example("say so", Setting::Delimiter, "semicolon").into()),
        }
        .into());
    }
    let help = Help::from([
        "rename one of them".into(),
        Remedy::example("say if the file has no header", Setting::Header, false),
    ]);
    check_names(path, &names, Some(help))?;
    Ok(names)
}

impl TextFormat for Delimited {
    type Parser = Plan;

    fn data_start(&self) -> u64 {
        self.data_start
    }

    fn looks_numeric(&self, column: usize) -> Option<&str> {
        self.looks_numeric.get(column)?.as_deref()
    }

    fn looks_like_dates(&self, column: usize) -> Option<bool> {
        *self.looks_like_dates.get(column)?
    }

    fn set_formatted(&mut self, column: usize, is_formatted: bool) -> bool {
        self.formatted[column] = is_formatted;
        self.looks_numeric[column] = None;
        self.looks_like_dates[column] = None;
        true
    }

    fn parser(&self, file: &TextFile, fields: &[Field], columns: &[usize]) -> Plan {
        let mut used = vec![Use::Skip; fields.len()];
        let mut numbers = 0;
        let mut texts = 0;
        for &column in columns {
            if used[column] == Use::Skip {
                let (slot, count): (fn(usize) -> Use, _) = match fields[column].kind {
                    _ if self.formatted[column] => (Use::Formatted, &mut numbers),
                    Kind::Text => (Use::Text, &mut texts),
                    Kind::Boolean => (Use::Boolean, &mut numbers),
                    _ => (Use::Number, &mut numbers),
                };
                used[column] = slot(*count);
                *count += 1;
            }
        }
        Plan {
            input: file.input.clone(),
            style: self.style.clone(),
            names: fields.iter().map(|field| field.name.clone()).collect(),
            order: columns.iter().map(|&column| used[column]).collect(),
            used,
            numbers,
            texts,
        }
    }
}

fn column_name(path: &Path, at: usize, token: &Token) -> Result<String> {
    let name = std::str::from_utf8(&token.text).map_err(|_| not_utf8(path))?.trim();
    Ok(if name.is_empty() { format!("column{}", at + 1) } else { name.to_string() })
}

fn not_utf8(path: &Path) -> Error {
    ErrorKind::Malformed {
        path: path.to_path_buf(),
        what: "the names of its columns are not UTF-8".to_string(),
        help: Some("convert the file to UTF-8".into()),
    }
    .into()
}

fn guess_from(guess: &mut Guess, sample: &mut Option<String>, text: &[u8], notation: &Notation) {
    if notation.is_missing(text) {
    } else if notation.number(text).is_some() {
        guess.number();
    } else if notation.boolean(text).is_some() {
        guess.truth();
    } else if notation.formatted(text).is_some() {
        guess.formatted();
        sample.get_or_insert_with(|| shown(text));
    } else {
        guess.text(text);
    }
}

/// What was seen of each column.
struct Seen<'a> {
    guesses: &'a mut [Guess],
    /// A number written for readers.
    samples: &'a mut [Option<String>],
}

/// Guesses the kinds of the columns from the rows of a chunk, until enough rows were read; `rows` were read before.
fn guess(
    path: &Path,
    style: &Style,
    bytes: &[u8],
    mut at: usize,
    mut rows: u64,
    seen: Seen<'_>,
) -> Result<u64> {
    let width = seen.guesses.len();
    while rows < ROWS_LOOKED_AT {
        let next = match row(bytes, at, style.delimiter) {
            Err(_) if style.lenient => {
                at = line_end(bytes, at);
                continue;
            }
            next => next.map_err(|fault| quote_error(path, rows, None, fault))?,
        };
        let Some((tokens, next)) = next else { break };
        if tokens.len() != width {
            if style.lenient {
                at = next;
                continue;
            }
            return Err(ragged(path, rows, tokens.len(), width, style));
        }
        for ((guess, sample), token) in seen.guesses.iter_mut().zip(&mut *seen.samples).zip(&tokens) {
            guess_from(guess, sample, &token.text, &style.notation);
        }
        rows += 1;
        at = next;
    }
    Ok(rows)
}

fn cell(path: &Path, row: u64, column: Option<&str>, what: String, help: Option<Help>) -> Error {
    let column = column.map(str::to_string);
    ErrorKind::Cell { path: path.to_path_buf(), row, column, what, help }.into()
}

fn ragged(path: &Path, row: u64, found: usize, expected: usize, style: &Style) -> Error {
    let fields = if found == 1 { "field" } else { "fields" };
    let rule = if style.has_header { "header" } else { "first row" };
    cell(path, row, None, format!("has {found} {fields} where the {rule} has {expected}"), None)
}

fn quote_error(path: &Path, row: u64, column: Option<&str>, fault: Fault) -> Error {
    cell(path, row, column, fault.what().to_string(), Some(fault.help().into()))
}

/// What a column of the file is used for: its position among the columns of numbers or of text.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    Skip,
    Number(usize),
    /// Numbers written for readers.
    Formatted(usize),
    Boolean(usize),
    Text(usize),
}

/// Which columns are read, and where their values go; shared by all units of a scan.
pub(super) struct Plan {
    input: Arc<Input>,
    style: Style,
    names: Vec<String>,
    /// For each column of the file.
    used: Vec<Use>,
    /// For each requested column.
    order: Vec<Use>,
    numbers: usize,
    texts: usize,
}

impl RowParser for Plan {
    fn path(&self) -> &Path {
        self.input.path()
    }

    fn parse(
        &self,
        chunk: &Chunk,
        emit: &mut dyn FnMut(Segment) -> Result<()>,
        bad: BadRow<'_>,
    ) -> Result<()> {
        let (mut bytes, mut rows) = (chunk.bytes(), 0);
        let report = match bad {
            BadRow::Fail => return emit_rows(self.parse_bytes(chunk.has_quotes, bytes)?, emit),
            BadRow::Report(report) => report,
        };
        // Bad rows are rare: after each one, the rest of the chunk is parsed again.
        loop {
            let error = match self.parse_bytes(chunk.has_quotes, bytes) {
                Ok(segment) => return emit_rows(segment, emit),
                Err(error) => error,
            };
            let ErrorKind::Cell { row: wrong, .. } = error.kind() else { return Err(error) };
            let wrong = *wrong;
            let Some((start, end)) = self.extent(bytes, wrong) else { return Err(error.moved_down(rows)) };
            emit_rows(self.parse_bytes(chunk.has_quotes, &bytes[..start])?, emit)?;
            report(error.moved_down(rows));
            rows += wrong + 1;
            bytes = &bytes[end..];
        }
    }
}

/// Passes rows on, unless there are none.
fn emit_rows(rows: Segment, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
    if rows.len > 0 { emit(rows) } else { Ok(()) }
}

/// Where the line that begins at `at` ends; quotes are not taken into account.
fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length + 1)
}

impl Plan {
    fn parse_bytes(&self, has_quotes: bool, bytes: &[u8]) -> Result<Segment> {
        match (has_quotes, self.style.delimiter) {
            (false, b',') => self.parse_rows::<false, b','>(bytes),
            (true, b',') => self.parse_rows::<true, b','>(bytes),
            (false, b';') => self.parse_rows::<false, b';'>(bytes),
            (true, b';') => self.parse_rows::<true, b';'>(bytes),
            (false, b'|') => self.parse_rows::<false, b'|'>(bytes),
            (true, b'|') => self.parse_rows::<true, b'|'>(bytes),
            (false, _) => self.parse_rows::<false, b'\t'>(bytes),
            (true, _) => self.parse_rows::<true, b'\t'>(bytes),
        }
    }

    /// Where row number `wanted` begins and ends; `None` if a row before it cannot be read. A row that cannot be read
    /// itself ends with its line.
    fn extent(&self, bytes: &[u8], wanted: u64) -> Option<(usize, usize)> {
        let delimiter = self.style.delimiter;
        let mut at = skip_blank(bytes, 0);
        for _ in 0..wanted {
            let (_, next) = row(bytes, at, delimiter).ok()??;
            at = skip_blank(bytes, next);
        }
        let end = match row(bytes, at, delimiter) {
            Ok(Some((_, next))) => next,
            _ => line_end(bytes, at),
        };
        Some((at, end))
    }

    /// Parses rows. For a plain number, value and end are found in one step; all other fields are read by [`token`].
    fn parse_rows<const QUOTING: bool, const DELIMITER: u8>(&self, bytes: &[u8]) -> Result<Segment> {
        let most_rows = memchr_iter(b'\n', bytes).count() + 1;
        let mut numbers: Vec<Vec<f64>> = (0..self.numbers).map(|_| Vec::with_capacity(most_rows)).collect();
        let mut texts: Vec<TextBuilder> = (0..self.texts).map(|_| TextBuilder::default()).collect();
        let width = self.used.len();
        let notation = &self.style.notation;
        let is_plain = notation.is_plain();
        let mut rows = 0;
        let mut at = skip_blank(bytes, 0);
        while at < bytes.len() {
            for (column, used) in self.used.iter().enumerate() {
                let end = match *used {
                    Use::Number(slot) => {
                        match is_plain.then(|| plain_number::<DELIMITER>(bytes, at)).flatten() {
                            Some((value, end)) => {
                                numbers[slot].push(value);
                                end
                            }
                            None => {
                                let token = self.token::<QUOTING, DELIMITER>(bytes, at, rows, column)?;
                                let value = notation.number(&token.text).ok_or_else(|| {
                                    self.wrong_kind(rows, column, &token.text, "is not a number")
                                })?;
                                numbers[slot].push(value);
                                token.end
                            }
                        }
                    }
                    Use::Formatted(slot) => {
                        let token = self.token::<QUOTING, DELIMITER>(bytes, at, rows, column)?;
                        let value = notation
                            .formatted(&token.text)
                            .ok_or_else(|| self.wrong_kind(rows, column, &token.text, "is not a number"))?;
                        numbers[slot].push(value);
                        token.end
                    }
                    Use::Boolean(slot) => {
                        let token = self.token::<QUOTING, DELIMITER>(bytes, at, rows, column)?;
                        let value = notation.boolean(&token.text).ok_or_else(|| {
                            self.wrong_kind(rows, column, &token.text, "is neither true nor false")
                        })?;
                        numbers[slot].push(value);
                        token.end
                    }
                    Use::Text(slot) => {
                        let token = self.token::<QUOTING, DELIMITER>(bytes, at, rows, column)?;
                        let is_missing = !token.is_quoted && notation.is_missing(&token.text);
                        let text = std::str::from_utf8(&token.text).map_err(|_| {
                            let help = "convert the file to UTF-8".into();
                            let what = format!("'{}' is not UTF-8", shown(&token.text));
                            cell(self.input.path(), rows, Some(&self.names[column]), what, Some(help))
                        })?;
                        texts[slot].push((!is_missing).then_some(text));
                        token.end
                    }
                    Use::Skip => self.token::<QUOTING, DELIMITER>(bytes, at, rows, column)?.end,
                };
                let is_delimited = bytes.get(end) == Some(&DELIMITER);
                if is_delimited != (column + 1 < width) {
                    return Err(self.ragged(bytes, end, rows, column + 1));
                }
                at = end + 1;
            }
            rows += 1;
            at = skip_blank(bytes, at.min(bytes.len()));
        }
        let numbers: Vec<Column> = numbers.into_iter().map(|values| Column::Number(values.into())).collect();
        let texts: Vec<Column> = texts.into_iter().map(TextBuilder::finish).collect();
        let columns = self.order.iter().filter_map(|used| match *used {
            Use::Number(slot) | Use::Formatted(slot) | Use::Boolean(slot) => Some(numbers[slot].clone()),
            Use::Text(slot) => Some(texts[slot].clone()),
            Use::Skip => None,
        });
        Ok(Segment { columns: columns.collect(), len: rows as usize })
    }

    fn token<'a, const QUOTING: bool, const DELIMITER: u8>(
        &self,
        bytes: &'a [u8],
        at: usize,
        row: u64,
        column: usize,
    ) -> Result<Token<'a>> {
        token(bytes, at, DELIMITER, QUOTING)
            .map_err(|fault| quote_error(self.input.path(), row, Some(&self.names[column]), fault))
    }

    #[cold]
    fn wrong_kind(&self, row: u64, column: usize, text: &[u8], what: &str) -> Error {
        let name = &self.names[column];
        let mut help = Help::from(["repair the value".into(), Remedy::ReadAsText(Some(name.to_string()))]);
        if self.style.notation.formatted(text).is_some() {
            help = Help::from([Remedy::example(READ_AS_NUMBERS, Setting::Numbers, name.as_str())]);
        }
        let what = format!("'{}' {what}", shown(text));
        cell(self.input.path(), row, Some(name), what, Some(help))
    }

    /// A row with too few or too many fields: `found` of them end at `end`.
    #[cold]
    fn ragged(&self, bytes: &[u8], end: usize, row: u64, found: usize) -> Error {
        let delimiter = self.style.delimiter;
        let mut total = found;
        let mut end = end;
        while bytes.get(end) == Some(&delimiter) {
            total += 1;
            match token(bytes, end + 1, delimiter, true) {
                Ok(token) => end = token.end,
                Err(fault) => return quote_error(self.input.path(), row, None, fault),
            }
        }
        ragged(self.input.path(), row, total, self.used.len(), &self.style)
    }
}

/// An ordinary number that begins at `at` and fills its field, and where the field ends.
#[inline(always)]
fn plain_number<const DELIMITER: u8>(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    let (value, length) = fast_float2::parse_partial::<f64, _>(&bytes[at..]).ok()?;
    let end = at + length;
    let end = match bytes[end..] {
        [] | [b'\n', ..] => end,
        [byte, ..] if byte == DELIMITER => end,
        [b'\r'] | [b'\r', b'\n', ..] => end + 1,
        _ => return None,
    };
    // Missing values, infinities and inexact integers take the slow path.
    (value.abs() < EXACT).then_some((value, end))
}

#[cfg(test)]
mod tests {
    use super::super::part::Part;
    use super::*;
    use proptest::prelude::*;

    fn open(text: &[u8], delimiter: u8, has_header: bool, chunk: usize) -> Result<TextPart<Delimited>> {
        let input = Input::from_reader("a.csv", text, 1 << 20)?;
        Delimited::open(
            Arc::new(input),
            Compression::Plain,
            Dialect {
                delimiter: Some(if delimiter == b',' { Delimiter::Comma } else { Delimiter::Tab }),
                decimal: None,
                missing: Arc::new([]),
                has_header,
                chunk,
                lenient: false,
            },
        )
    }

    /// All rows as text, the way the engine reads them: errors count from the start of the file.
    fn read(part: &TextPart<Delimited>, columns: &[usize]) -> Result<Vec<Vec<String>>> {
        let mut scan = part.scan(columns, Some(0))?;
        let mut all = Vec::new();
        while let Some(unit) = scan.next_unit()? {
            let before = all.len() as u64;
            let decoded = unit.decode(&mut |segment| {
                assert_eq!(segment.columns.len(), columns.len());
                for row in 0..segment.len {
                    all.push(segment.columns.iter().map(|column| shown_cell(column, row)).collect());
                }
                Ok(())
            });
            decoded.map_err(|error| error.moved_down(before))?;
        }
        Ok(all)
    }

    fn shown_cell(column: &Column, row: usize) -> String {
        match column {
            Column::Number(values) => match values[row].to_bits() {
                bits if bits == crate::data::block::MISSING.to_bits() => "missing".to_string(),
                bits if bits == crate::data::block::INEXACT.to_bits() => "inexact".to_string(),
                _ => format!("{:?}", values[row]),
            },
            Column::Text { codes, levels } => {
                levels.get(codes[row] as usize).map_or("missing".to_string(), |level| format!("'{level}'"))
            }
        }
    }

    fn read_all(text: &str) -> Vec<Vec<String>> {
        let part = open(text.as_bytes(), b',', true, 1 << 16).unwrap();
        read(&part, &(0..part.fields.len()).collect::<Vec<_>>()).unwrap()
    }

    fn error(text: &str) -> String {
        let part = match open(text.as_bytes(), b',', true, 1 << 16) {
            Ok(part) => part,
            Err(error) => return error.to_string(),
        };
        read(&part, &(0..part.fields.len()).collect::<Vec<_>>()).unwrap_err().to_string()
    }

    /// The error for a row that comes after the rows from which the kinds were guessed.
    fn error_late(row: &str) -> (String, Option<String>) {
        let text = "a,b,c\n".to_string() + &"1,true,x\n".repeat(ROWS_LOOKED_AT as usize) + row;
        let part = open(text.as_bytes(), b',', true, 1 << 12).unwrap();
        let error = read(&part, &[0, 1, 2]).unwrap_err();
        (error.to_string(), error.help().map(|help| help.to_string()))
    }

    #[test]
    fn kinds_are_guessed_from_the_first_rows() {
        let part = open(
            b"n,b,t,mixed,none,quoted\n1,TRUE,x,1,NA,\"1.5\"\n,false,,true,,\"NA\"\n-2e3,NA,y,,null,\"\"\n",
            b',',
            true,
            1 << 16,
        )
        .unwrap();
        let kinds: Vec<Kind> = part.fields.iter().map(|field| field.kind).collect();
        use Kind::{Boolean, Number, Text};
        assert_eq!(kinds, [Number, Boolean, Text, Text, Number, Number]);
        assert_eq!(part.undecided, [false, false, false, false, true, false]);
        assert_eq!(
            read(&part, &[0, 1, 2, 5]).unwrap(),
            [
                ["1.0", "1.0", "'x'", "1.5"],
                ["missing", "0.0", "missing", "missing"],
                ["-2000.0", "missing", "'y'", "missing"]
            ]
        );
    }

    #[test]
    fn line_ends_marks_and_spaces() {
        let expected = [["1.0", "'x'"], ["2.0", "'y z'"]];
        for text in [
            "a,b\n1,x\n2,y z\n",
            "a,b\n1,x\n2,y z",
            "a,b\r\n1,x\r\n2,y z\r\n",
            "a,b\r\n1,x\r\n2,y z\r",
            "\u{feff}a,b\n1,x\n2,y z\n\n\n",
            "\n\na , b\n 1 , x \n\n\t2\t,y z\n\r\n",
            "\"a\",\"b\"\n\"1\",\"x\"\n 2 , \"y z\" \n",
        ] {
            assert_eq!(read_all(text), expected, "{text:?}");
            let part = open(text.as_bytes(), b',', true, 3).unwrap();
            assert_eq!(part.fields[0].name, "a");
            assert_eq!(read(&part, &[0, 1]).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn special_numbers() {
        let text = "a\n9007199254740993\ninf\n-Infinity\nNaN\n1e999\n+3\n9007199254740992\n";
        assert_eq!(
            read_all(text).concat(),
            ["inexact", "inf", "-inf", "missing", "inf", "3.0", "9007199254740992.0"]
        );
    }

    #[test]
    fn only_unquoted_text_can_be_missing() {
        let text = "a,b\nNA,u\n\"NA\",\"\"\nword,null\n";
        assert_eq!(read_all(text), [["missing", "'u'"], ["'NA'", "''"], ["'word'", "missing"]]);
    }

    #[test]
    fn columns_are_read_in_any_order() {
        let part = open(b"a,b,c\n1,x,3\n4,y,6\n", b',', true, 8).unwrap();
        assert_eq!(read(&part, &[2, 0]).unwrap(), [["3.0", "1.0"], ["6.0", "4.0"]]);
        assert_eq!(read(&part, &[1, 1]).unwrap(), [["'x'", "'x'"], ["'y'", "'y'"]]);
        assert_eq!(read(&part, &[]).unwrap().len(), 2);
    }

    #[test]
    fn tabs_and_no_header() {
        let part = open(b"1\ta, b\n2\t\"c\td\"\n", b'\t', false, 1 << 16).unwrap();
        let names: Vec<&str> = part.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["x1", "x2"]);
        assert_eq!(read(&part, &[0, 1]).unwrap(), [["1.0", "'a, b'"], ["2.0", "'c\td'"]]);
    }

    #[test]
    fn a_header_without_rows_is_valid_and_an_empty_file_is_an_error() {
        assert!(read_all("a,b").is_empty());
        assert!(read_all("a,b\r\n").is_empty());
        assert_eq!(error(""), "'a.csv': is empty");
        assert_eq!(error("\u{feff}\n\n"), "'a.csv': is empty");
    }

    #[test]
    fn empty_names_are_filled_and_duplicates_are_rejected() {
        let part = open(b",b,\n1,2,3\n", b',', true, 1 << 16).unwrap();
        let names: Vec<&str> = part.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["column1", "b", "column3"]);
        assert_eq!(error("a;b\n1;2,5\n"), "'a.csv': its fields seem to be separated by semicolons");
        assert_eq!(error("a,b, a\n1,2,3\n"), "'a.csv': two columns are named 'a'");
        // 0xFF alone is a letter of Windows-1252; 0x81 is a byte of neither encoding.
        let not_utf8 = open(b"a,\x81\n1,2\n", b',', true, 1 << 16).err().unwrap();
        assert_eq!(not_utf8.to_string(), "'a.csv': the names of its columns are not UTF-8");
    }

    #[test]
    fn every_error_says_where_and_what() {
        assert_eq!(error("a,b\n1,2\n1\n"), "'a.csv', row 2: has 1 field where the header has 2");
        assert_eq!(error("a,b\n1,2,3,4\n"), "'a.csv', row 1: has 4 fields where the header has 2");
        assert_eq!(
            error("a,b\n1,\"x\n"),
            "'a.csv', row 1: a quoted field that begins here has no closing quote"
        );
        assert_eq!(
            error("a,\"b\n1,2\n"),
            "'a.csv': in its first line a quoted field that begins here has no closing quote"
        );

        let (message, help) = error_late("12x,false,y\n");
        assert_eq!(message, "'a.csv', row 10001, column 'a': '12x' is not a number");
        assert_eq!(help.as_deref(), Some("repair the value, or read the column as text with text=a"));
        let (message, help) = error_late("3,\"mayb,e\",y\n");
        assert_eq!(message, "'a.csv', row 10001, column 'b': 'mayb,e' is neither true nor false");
        assert_eq!(help.as_deref(), Some("repair the value, or read the column as text with text=b"));
        assert_eq!(error_late("3\n").0, "'a.csv', row 10001: has 1 field where the header has 3");
        assert_eq!(
            error_late("3,true,y,z,\"1,2\"\n").0,
            "'a.csv', row 10001: has 5 fields where the header has 3"
        );
        assert_eq!(
            error_late("3,true,5\" pipe\n").0,
            "'a.csv', row 10001, column 'c': there is a quote in the middle of a field that is not quoted"
        );
        assert_eq!(
            error_late("3,true,\"a\"b\n").0,
            "'a.csv', row 10001, column 'c': there is text between a closing quote and the next delimiter"
        );
        assert_eq!(
            error_late("3,true,\"a\n1,true,b\n").0,
            "'a.csv', row 10001, column 'c': a quoted field that begins here has no closing quote"
        );
    }

    #[test]
    fn text_that_is_not_utf8_is_refused_where_it_is_used() {
        let part = open(b"a,b\n1,x\n2,\x81\n", b',', true, 1 << 16).unwrap();
        assert_eq!(read(&part, &[0]).unwrap(), [["1.0"], ["2.0"]]);
        let error = read(&part, &[1]).unwrap_err();
        assert_eq!(error.to_string(), "'a.csv', row 2, column 'b': '\u{fffd}' is not UTF-8");
    }

    #[derive(Clone, Debug)]
    struct Line {
        number: Option<f64>,
        text: String,
        truth: bool,
        is_quoted: [bool; 3],
        blank_before: bool,
    }

    fn line() -> impl Strategy<Value = Line> {
        (
            proptest::option::weighted(0.9, proptest::num::f64::NORMAL | proptest::num::f64::ZERO),
            "[a-zé,\"\n\r ]{0,6}",
            any::<bool>(),
            any::<[bool; 3]>(),
            proptest::bool::weighted(0.1),
        )
            .prop_map(|(number, text, truth, is_quoted, blank_before)| Line {
                number,
                text,
                truth,
                is_quoted,
                blank_before,
            })
    }

    fn write(lines: &[Line], may_quote: bool, crlf: bool, final_newline: bool) -> String {
        let newline = if crlf { "\r\n" } else { "\n" };
        let quote = |text: &str, wanted: bool| {
            if wanted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
        };
        let rows: Vec<String> = lines
            .iter()
            .map(|line| {
                let number = line.number.map_or("NA".to_string(), |number| format!("{number:?}"));
                [
                    if line.blank_before { newline } else { "" }.to_string(),
                    quote(&number, may_quote && line.is_quoted[0]) + ",",
                    quote(&line.text, may_quote) + ",",
                    quote(&line.truth.to_string(), may_quote && line.is_quoted[2]),
                ]
                .concat()
            })
            .collect();
        let header = format!("number,text,truth{newline}");
        header + &rows.join(newline) + if final_newline { newline } else { "" }
    }

    proptest! {
        #[test]
        fn the_same_rows_come_out_whatever_the_chunks(
            mut lines in proptest::collection::vec(line(), 1..40),
            may_quote: bool,
            crlf: bool,
            final_newline: bool,
            chunk in 1usize..300,
        ) {
            if !may_quote {
                for line in &mut lines {
                    line.text.retain(|c| c.is_alphabetic());
                    line.text.insert(0, 'w');
                }
            }
            let text = write(&lines, may_quote, crlf, final_newline);
            let mut part = open(text.as_bytes(), b',', true, chunk).unwrap();
            part.decide(0, Kind::Number);
            part.decide(1, Kind::Text);
            part.decide(2, Kind::Boolean);
            let expected: Vec<Vec<String>> = lines
                .iter()
                .map(|line| {
                    let number = line.number.map_or("missing".to_string(), |number| format!("{number:?}"));
                    vec![number, format!("'{}'", line.text), format!("{:?}", f64::from(line.truth))]
                })
                .collect();
            prop_assert_eq!(read(&part, &[0, 1, 2]).unwrap(), expected, "{}", text);
        }

        #[test]
        fn any_bytes_end_in_rows_or_an_error(bytes in "[ab01,\"\n\r.\t -]{0,60}", chunk in 1usize..20) {
            let outcome = |chunk| {
                let part = open(bytes.as_bytes(), b',', true, chunk)?;
                read(&part, &(0..part.fields.len()).collect::<Vec<_>>())
            };
            let (small, large) = (outcome(chunk), outcome(1 << 16));
            match (small, large) {
                (Ok(small), Ok(large)) => prop_assert_eq!(small, large),
                (Err(_), Err(_)) => {}
                (small, large) => prop_assert!(false, "{:?} in small chunks, {:?} in a large one", small, large),
            }
        }
    }
}
