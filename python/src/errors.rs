//! Errors of the library as the package's exceptions, in the words of Python's arguments.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tithe::error::{Error, ErrorKind};

/// The exception of an error: its class by the kind, its text with the remedy.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Io { .. } => "FileError",
        ErrorKind::NoInput { .. } => "NoInputError",
        ErrorKind::Malformed { .. } => "MalformedError",
        ErrorKind::Cell { .. } => "CellError",
        ErrorKind::SchemaMismatch { .. } => "SchemaMismatchError",
        ErrorKind::UnknownColumn { .. } => "UnknownColumnError",
        ErrorKind::Column { .. } => "ColumnError",
        ErrorKind::Missing { .. } => "MissingValuesError",
        ErrorKind::NoRows { .. } => "NoRowsError",
        ErrorKind::Setting { .. } => "SettingError",
        ErrorKind::WrongFile { .. } => "WrongFileError",
        ErrorKind::Changed { .. } => "ChangedError",
        ErrorKind::Cluster { .. } => "ClusterError",
        ErrorKind::OtherData { .. } => "OtherDataError",
        ErrorKind::Numerical { .. } => "NumericalError",
        _ => "TitheError",
    };
    let mut text = in_python(&error.to_string());
    if let Some(help) = error.help() {
        text = format!("{text}\n  help: {}", in_python(&help));
    }
    exception(py, class, text)
}

/// An exception of the package's by its name.
pub fn exception(py: Python<'_>, class: &str, text: String) -> PyErr {
    let made = py
        .import("tithe._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((text.clone(),)));
    match made {
        Ok(made) => PyErr::from_value(made),
        Err(_) => PyRuntimeError::new_err(text),
    }
}

/// Flags that are not arguments of the same name.
const WORDS: [(&str, &str); 12] = [
    ("--missing drop", "missing=\"drop\""),
    ("--unseen reference", "unseen=\"reference\""),
    ("--method sensitivity", "method=\"sensitivity\""),
    ("--method calibrated", "method=\"calibrated\""),
    ("--sampler laplace", "sampler=\"laplace\""),
    ("--no-intercept", "intercept=False"),
    ("--no-standardize", "standardize=False"),
    ("--no-header", "header=False"),
    ("--zero-based", "zero_based=True"),
    ("--force", "force=True"),
    ("`tithe build`", "tithe.build"),
    ("`tithe fit`", "Coreset.fit"),
];

/// Words of the command line as Python has them: `--block-rows` is `block_rows=`, `--exclude age` is `exclude="age"`.
fn in_python(text: &str) -> String {
    let text = WORDS.iter().fold(text.to_string(), |text, (flag, word)| text.replace(flag, word));
    let mut parts = text.split("--");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(part.len());
        let (flag, rest) = part.split_at(end);
        let is_subject = out.is_empty() && rest.starts_with(": ");
        out.push_str(&flag.replace('-', "_"));
        let (value, rest) = match rest.strip_prefix(' ') {
            Some(after) if !["with ", "takes "].iter().any(|word| after.starts_with(word)) => {
                let ends = [after.find(", "), after.find(" or "), Some(after.len())];
                let (value, rest) = after.split_at(ends.into_iter().flatten().min().unwrap_or_default());
                let quote = if value.parse::<f64>().is_ok() { "" } else { "\"" };
                (format!("{quote}{value}{quote}"), rest)
            }
            _ => (String::new(), rest),
        };
        if !is_subject {
            out.push('=');
        }
        out.push_str(&value);
        out.push_str(rest);
    }
    out
}
