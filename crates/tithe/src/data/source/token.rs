//! Interprets a field of text as a number, a boolean or a missing value.

use std::sync::Arc;

use super::Decimal;
use crate::data::block::{INEXACT, MISSING};

/// 2⁵³: every integer up to this is exact as `f64`.
pub(super) const EXACT: f64 = 9_007_199_254_740_992.0;

/// True if the text means a missing value.
pub(super) fn is_missing(text: &[u8]) -> bool {
    matches!(text, b"" | b"NA" | b"N/A" | b"NaN" | b"nan" | b"null" | b"NULL")
}

/// How numbers and missing values are written in delimited text.
#[derive(Clone, Debug)]
pub(super) struct Notation {
    pub decimal: Decimal,
    /// Words for missing values, besides the usual ones.
    pub missing: Arc<[String]>,
}

impl Notation {
    /// True if numbers are written as in program code, and there are no other words for missing values.
    pub fn is_plain(&self) -> bool {
        self.decimal == Decimal::Point && self.missing.is_empty()
    }

    /// True if the text means a missing value.
    pub fn is_missing(&self, text: &[u8]) -> bool {
        is_missing(text) || self.missing.iter().any(|word| word.as_bytes() == text)
    }

    /// Like [`number`], in this notation.
    pub fn number(&self, text: &[u8]) -> Option<f64> {
        if self.is_missing(text) {
            return Some(MISSING);
        }
        match self.decimal {
            Decimal::Comma if text.contains(&b'.') => None,
            Decimal::Comma if text.contains(&b',') => {
                let with_point: Vec<u8> =
                    text.iter().map(|&byte| if byte == b',' { b'.' } else { byte }).collect();
                number(&with_point)
            }
            _ => number(text),
        }
    }

    /// Like [`boolean`], in this notation.
    pub fn boolean(&self, text: &[u8]) -> Option<f64> {
        if self.is_missing(text) { Some(MISSING) } else { boolean(text) }
    }

    /// A number that may be written for readers: with a percent sign, a currency or separated thousands. `8 %` is 0.08, and an amount in
    /// parentheses is negative.
    pub fn formatted(&self, text: &[u8]) -> Option<f64> {
        self.number(text).or_else(|| formatted(std::str::from_utf8(text).ok()?, self.decimal))
    }
}

const CURRENCIES: [&str; 10] = ["$", "€", "£", "¥", "₹", "EUR", "USD", "GBP", "CHF", "Fr."];

fn formatted(text: &str, decimal: Decimal) -> Option<f64> {
    const MINUS: [char; 2] = ['-', '−'];
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let mut is_negative = inner.is_some();
    let mut text = inner.unwrap_or(text).trim();
    let mut divisor = 1.0;
    // A sign may come before or after the currency.
    for _ in 0..2 {
        if let Some(rest) = text.strip_prefix(MINUS) {
            (is_negative, text) = (!is_negative, rest.trim_start());
        } else if let Some(rest) = text.strip_prefix('+') {
            text = rest.trim_start();
        }
        if let Some(rest) = CURRENCIES.iter().find_map(|currency| text.strip_prefix(currency)) {
            text = rest.trim_start();
        }
    }
    if let Some(rest) = CURRENCIES.iter().find_map(|currency| text.strip_suffix(currency)) {
        text = rest.trim_end();
    }
    if let Some(rest) = text.strip_suffix('%') {
        (text, divisor) = (rest.trim_end(), 100.0);
    }
    let (point, separator) = match decimal {
        Decimal::Point => ('.', ','),
        Decimal::Comma => (',', '.'),
    };
    let (whole, fraction) = text.split_once(point).unwrap_or((text, ""));
    let is_separator = |c: char| c == separator || matches!(c, '\'' | '’' | ' ' | '\u{a0}' | '\u{202f}');
    let digits = match whole.chars().find(|c| is_separator(*c)) {
        None => whole.to_string(),
        Some(used) => {
            let mut groups = whole.split(used);
            let first = groups.next().filter(|first| (1..=3).contains(&first.len()))?;
            groups.try_fold(first.to_string(), |digits, group| (group.len() == 3).then(|| digits + group))?
        }
    };
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !(is_number(&digits) && is_number(fraction)) || digits.is_empty() && fraction.is_empty() {
        return None;
    }
    let value: f64 = format!("0{digits}.{fraction}0").parse().ok()?;
    if fraction.is_empty() && value >= EXACT && is_inexact_integer(digits.as_bytes()) {
        return Some(INEXACT);
    }
    Some(if is_negative { -value } else { value } / divisor)
}

/// The number in a text without surrounding spaces; special values mark missing and inexact numbers.
pub(super) fn number(text: &[u8]) -> Option<f64> {
    if is_missing(text) {
        return Some(MISSING);
    }
    let value: f64 = fast_float2::parse(text).ok()?;
    if value.is_nan() {
        Some(MISSING)
    } else if value.abs() >= EXACT && is_inexact_integer(text) {
        Some(INEXACT)
    } else {
        Some(value)
    }
}

/// A boolean, in upper or lower case, as 1 or 0, or the mark of a missing value.
pub(super) fn boolean(text: &[u8]) -> Option<f64> {
    if text.eq_ignore_ascii_case(b"true") {
        Some(1.0)
    } else if text.eq_ignore_ascii_case(b"false") {
        Some(0.0)
    } else {
        is_missing(text).then_some(MISSING)
    }
}

/// True if the text is an integer beyond ±2⁵³.
fn is_inexact_integer(text: &[u8]) -> bool {
    let digits = match text {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let magnitude =
        digits.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    magnitude > 1 << 53
}

/// The text as messages show it: short and on one line.
pub(super) fn shown(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text = String::from_utf8_lossy(text);
    let mut short: String =
        text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn missing_and_inexact_values_are_marked() {
        for text in ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "NAN", "-nan"] {
            assert_eq!(number(text.as_bytes()).unwrap().to_bits(), MISSING.to_bits(), "{text}");
        }
        for text in ["9007199254740993", "-9007199254740993", "+18446744073709551616", "9007199254740994"] {
            assert_eq!(number(text.as_bytes()).unwrap().to_bits(), INEXACT.to_bits(), "{text}");
        }
        assert_eq!(number(b"9007199254740992"), Some(EXACT));
        assert_eq!(number(b"9007199254740993.0"), Some(EXACT));
        assert_eq!(number(b"1e300"), Some(1e300));
        assert_eq!(number(b"-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(number(b"+1"), Some(1.0));
        for text in ["abc", "1 2", "1e", "-", "0x10", "1,5", "--1"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn numbers_with_a_decimal_comma() {
        let notation = |decimal| Notation { decimal, missing: ["-".to_string(), "-999".to_string()].into() };
        let (comma, point) = (notation(Decimal::Comma), notation(Decimal::Point));
        assert_eq!(
            (comma.number(b"1,5"), comma.number(b"-2"), comma.number(b",5e1")),
            (Some(1.5), Some(-2.0), Some(5.0))
        );
        assert_eq!((comma.number(b"1.5"), comma.number(b"1,2,3"), point.number(b"1,5")), (None, None, None));
        for text in ["-", "-999", "NA"] {
            assert!(comma.number(text.as_bytes()).is_some_and(f64::is_nan), "{text}");
            assert!(point.boolean(text.as_bytes()).is_some_and(f64::is_nan), "{text}");
        }
    }

    #[test]
    fn numbers_written_for_readers() {
        let notation = |decimal| Notation { decimal, missing: Arc::new([]) };
        let (comma, point) = (notation(Decimal::Comma), notation(Decimal::Point));
        for (text, expected) in [
            ("8%", 0.08),
            ("12.5 %", 0.125),
            ("-3 %", -0.03),
            ("$1,200", 1200.0),
            ("-$1,234.50", -1234.5),
            ("$-5", -5.0),
            ("€ 99", 99.0),
            ("1 234 567 CHF", 1_234_567.0),
            ("12'345.5", 12345.5),
            ("(1,200)", -1200.0),
            ("−4", -4.0),
            (".5%", 0.005),
            ("17", 17.0),
            ("1e3", 1000.0),
        ] {
            assert_eq!(point.formatted(text.as_bytes()), Some(expected), "{text}");
        }
        for (text, expected) in [("8,5 %", 0.085), ("1.234,56 €", 1234.56), ("1.200", 1200.0), ("0,5", 0.5)]
        {
            assert_eq!(comma.formatted(text.as_bytes()), Some(expected), "{text}");
        }
        for text in [
            "$",
            "%",
            "1,20",
            "12,34,567",
            "1,234.5.6",
            "A1",
            "1.2.3",
            "2024-02-29",
            "1-3",
            "50 %%",
            "(",
            "()",
        ] {
            assert_eq!(point.formatted(text.as_bytes()), None, "{text}");
        }
        for text in ["01.02.2024", "1.20", "1,2,3"] {
            assert_eq!(comma.formatted(text.as_bytes()), None, "{text}");
        }
        assert_eq!(point.formatted(b"9,007,199,254,740,993").map(f64::to_bits), Some(INEXACT.to_bits()));
    }

    #[test]
    fn booleans_in_upper_and_lower_case() {
        assert_eq!(boolean(b"TRUE"), Some(1.0));
        assert_eq!(boolean(b"False"), Some(0.0));
        assert!(boolean(b"NA").is_some_and(f64::is_nan));
        assert_eq!(boolean(b"1"), None);
    }

    #[test]
    fn long_text_is_shortened() {
        assert_eq!(shown(b"a\nb"), "a b");
        assert_eq!(shown("ä".repeat(50).as_bytes()), format!("{}…", "ä".repeat(40)));
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_standard_library(text in "[-+]?[0-9]{0,20}(\\.[0-9]{0,25})?([eE][-+]?[0-9]{1,3})?") {
            let own = number(text.as_bytes());
            let standard = text.parse::<f64>().ok();
            if own.is_some_and(|value| value.to_bits() == INEXACT.to_bits()) {
                prop_assert!(text.parse::<i128>().is_ok_and(|value| value.abs() > 1 << 53));
            } else if text.is_empty() {
                prop_assert!(own.is_some_and(f64::is_nan));
            } else {
                prop_assert_eq!(own.map(f64::to_bits), standard.map(f64::to_bits), "{}", text);
            }
        }

        #[test]
        fn printed_numbers_come_back(value in proptest::num::f64::ANY) {
            let printed = format!("{value:?}");
            let back = number(printed.as_bytes()).unwrap();
            prop_assert!(back.to_bits() == value.to_bits() || value.is_nan() && back.is_nan());
        }
    }
}
