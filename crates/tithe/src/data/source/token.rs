//! Interprets a field of text as a number, a boolean or a missing value.

use crate::data::block::{INEXACT, MISSING};

/// 2⁵³: every integer up to this is exact as `f64`.
pub(super) const EXACT: f64 = 9_007_199_254_740_992.0;

/// True if the text means a missing value.
pub(super) fn is_missing(text: &[u8]) -> bool {
    matches!(text, b"" | b"NA" | b"N/A" | b"NaN" | b"nan" | b"null" | b"NULL")
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
