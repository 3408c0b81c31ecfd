//! Files with one value per coefficient, such as the centre of the parameter ball.

use std::collections::BTreeSet;
use std::path::Path;

use crate::base::error::{Error, ErrorKind, Result};
use crate::data::source::UniqueKeys;

/// Reads a file of coefficients; see [`parse_coefficients`].
pub fn read_coefficients(path: &Path) -> Result<Vec<(String, f64)>> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, error))?;
    parse_coefficients(&text, path)
}

/// Parses a JSON object of numbers by name, or lines `coefficient,value` with an optional header. `path` is named in errors.
pub fn parse_coefficients(text: &str, path: &Path) -> Result<Vec<(String, f64)>> {
    let text = text.trim_start_matches('\u{feff}');
    let malformed = |what: String| -> Error {
        let help = Some("write a JSON object, or one `coefficient,value` per line".into());
        ErrorKind::Malformed { path: path.to_path_buf(), what, help }.into()
    };
    if text.trim_start().starts_with('{') {
        let UniqueKeys(object) = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        return object
            .into_iter()
            .map(|(name, value)| match value.as_f64() {
                Some(number) => Ok((name, number)),
                None => Err(malformed(format!("the value of '{name}' is not a number"))),
            })
            .collect();
    }
    let mut values: Vec<(String, f64)> = Vec::new();
    let mut names = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim() == "coefficient,value" {
            continue;
        }
        let at = |what: String| malformed(format!("line {}{what}", number + 1));
        let (name, value) =
            line.rsplit_once(',').ok_or_else(|| at(" is not `coefficient,value`".to_string()))?;
        let (name, value) = (name.trim().trim_matches('"'), value.trim());
        let value = value.parse().map_err(|_| at(format!(": '{value}' is not a number")))?;
        if !names.insert(name) {
            return Err(malformed(format!("'{name}' occurs twice")));
        }
        values.push((name.to_string(), value));
    }
    if values.is_empty() { Err(malformed("is empty".to_string())) } else { Ok(values) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn parsed(text: &str) -> std::result::Result<Vec<(String, f64)>, String> {
        parse_coefficients(text, Path::new("f")).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_and_objects_are_read() {
        let expected = Ok(vec![("a".to_string(), 1.0), ("b, c".to_string(), -2.5)]);
        assert_eq!(parsed("\u{feff}coefficient,value\na,1\n\n\"b, c\", -2.5\n"), expected);
        assert_eq!(parsed(r#"{"a": 1, "b, c": -2.5}"#), expected);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, what) in [
            ("a,1\nb", "line 2 is not `coefficient,value`"),
            ("a,x", "line 1: 'x' is not a number"),
            ("a,1\na,2", "'a' occurs twice"),
            ("\n", "is empty"),
            (r#"{"a": "b"}"#, "the value of 'a' is not a number"),
        ] {
            let error = parsed(text).expect_err(text);
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn the_time_is_proportional_to_the_number_of_lines() {
        let text = (0..200_000).fold(String::new(), |mut text, at| {
            let _ = writeln!(text, "a long name of a coefficient, number {at},1");
            text
        });
        let start = std::time::Instant::now();
        assert_eq!(parsed(&text).map(|values| values.len()), Ok(200_000));
        // Comparing all pairs of names would take more than a minute.
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }
}
