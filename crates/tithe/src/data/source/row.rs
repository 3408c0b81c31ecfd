//! Splits rows of delimited text (RFC 4180) into fields.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// One field of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    /// Its text without surrounding spaces, without quotes, and with doubled quotes replaced by single ones.
    pub text: Cow<'a, [u8]>,
    /// True if it was quoted.
    pub is_quoted: bool,
    /// The position of the delimiter, the newline, or the end of the text.
    pub end: usize,
}

/// Errors in quoting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A quoted field that does not end.
    Unclosed,
    /// A quote within a field that is not quoted, which makes the ends of rows ambiguous.
    StrayQuote,
    /// Text between a closing quote and the next delimiter.
    AfterQuote,
}

impl Fault {
    pub fn what(self) -> &'static str {
        match self {
            Fault::Unclosed => "a quoted field that begins here has no closing quote",
            Fault::StrayQuote => "there is a quote in the middle of a field that is not quoted",
            Fault::AfterQuote => "there is text between a closing quote and the next delimiter",
        }
    }

    pub fn help(self) -> &'static str {
        "put a field that contains quotes between quotes, and double each quote within it"
    }
}

/// The field that begins at `at`.
#[inline]
pub(super) fn token(bytes: &[u8], at: usize, delimiter: u8, quoting: bool) -> Result<Token<'_>, Fault> {
    let start = at + bytes[at..].iter().take_while(|byte| is_space(**byte, delimiter)).count();
    if quoting && bytes.get(start) == Some(&b'"') {
        return quoted(bytes, start + 1, delimiter);
    }
    let end = memchr2(delimiter, b'\n', &bytes[start..]).map_or(bytes.len(), |length| start + length);
    let mut text = &bytes[start..end];
    if bytes.get(end) != Some(&delimiter) {
        text = text.strip_suffix(b"\r").unwrap_or(text);
    }
    while let [rest @ .., last] = text
        && is_space(*last, delimiter)
    {
        text = rest;
    }
    if quoting && memchr(b'"', text).is_some() {
        return Err(Fault::StrayQuote);
    }
    Ok(Token { text: Cow::Borrowed(text), is_quoted: false, end })
}

fn is_space(byte: u8, delimiter: u8) -> bool {
    byte == b' ' || (byte == b'\t' && delimiter != b'\t')
}

/// The quoted field whose opening quote is just before `at`.
fn quoted(bytes: &[u8], at: usize, delimiter: u8) -> Result<Token<'_>, Fault> {
    let mut text = Cow::Borrowed(&bytes[at..at]);
    let mut from = at;
    let mut end = loop {
        let quote = from + memchr(b'"', &bytes[from..]).ok_or(Fault::Unclosed)?;
        if text.is_empty() && from == at {
            text = Cow::Borrowed(&bytes[at..quote]);
        } else {
            text.to_mut().extend_from_slice(&bytes[from..quote]);
        }
        if bytes.get(quote + 1) != Some(&b'"') {
            break quote + 1;
        }
        text.to_mut().push(b'"');
        from = quote + 2;
    };
    end += bytes[end..].iter().take_while(|byte| is_space(**byte, delimiter)).count();
    match bytes[end..] {
        [] | [b'\n', ..] => {}
        [b'\r'] | [b'\r', b'\n', ..] => end += 1,
        [byte, ..] if byte == delimiter => {}
        _ => return Err(Fault::AfterQuote),
    }
    Ok(Token { text, is_quoted: true, end })
}

/// The fields of a row and the position of the next row; `None` at the end. Blank lines are skipped.
pub(super) type Row<'a> = Option<(Vec<Token<'a>>, usize)>;

/// Splits the row at `at`. This plain and slow version serves headers and the guessing of kinds.
pub(super) fn row(bytes: &[u8], mut at: usize, delimiter: u8) -> Result<Row<'_>, Fault> {
    at = skip_blank(bytes, at);
    if at >= bytes.len() {
        return Ok(None);
    }
    let mut tokens = Vec::new();
    loop {
        let token = token(bytes, at, delimiter, true)?;
        at = token.end;
        tokens.push(token);
        if bytes.get(at) != Some(&delimiter) {
            return Ok(Some((tokens, (at + 1).min(bytes.len()))));
        }
        at += 1;
    }
}

/// Where the next line that is not blank begins.
#[inline]
pub(super) fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes[at..] {
            [b'\n', ..] => at += 1,
            [b'\r', b'\n', ..] => at += 2,
            [b'\r'] => at += 1,
            _ => return at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Result<Vec<String>, Fault> {
        let (tokens, _) = row(text.as_bytes(), 0, b',')?.unwrap();
        Ok(tokens.iter().map(|token| String::from_utf8(token.text.to_vec()).unwrap()).collect())
    }

    #[test]
    fn fields_are_split_as_rfc_4180_says() {
        assert_eq!(fields("a,b,c\n").unwrap(), ["a", "b", "c"]);
        assert_eq!(fields("a, b ,c\r\n").unwrap(), ["a", "b", "c"]);
        assert_eq!(fields("\"a,\"\"b\"\"\n\",c").unwrap(), ["a,\"b\"\n", "c"]);
        assert_eq!(fields("\"\",\"\"\"\"\r\n").unwrap(), ["", "\""]);
        assert_eq!(fields(" \" a \" ,").unwrap(), [" a ", ""]);
        assert_eq!(fields("\n\r\n,\n").unwrap(), ["", ""]);
        assert_eq!(fields("a,\"b"), Err(Fault::Unclosed));
        assert_eq!(fields("5\" pipe,1\n"), Err(Fault::StrayQuote));
        assert_eq!(fields("\"a\"b,1\n"), Err(Fault::AfterQuote));
    }
}
