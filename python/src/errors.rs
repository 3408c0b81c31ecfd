//! Errors of the library as the package's exceptions, in the words of Python's arguments.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tithe::base::error::{Error, ErrorKind};

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
        ErrorKind::State { .. } => "StateError",
        ErrorKind::EncodingMismatch { .. } => "EncodingMismatchError",
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
const WORDS: [(&str, &str); 18] = [
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
    ("feed it with `tithe stream --label … --state …`", "feed it with tithe.Stream"),
    ("--snapshot may be taken", "tithe.Stream.read_snapshot may be called"),
    ("leave out --replay", "leave out replay=True"),
    ("--repair falls back", "tithe.Stream.repair falls back"),
    ("with --state and feed", "with state= and feed"),
    ("name another directory with --state", "name another directory"),
];

/// Words of the command line as Python has them: `--block-rows` is `block_rows=`, `--exclude age` is `exclude="age"`.
fn in_python(text: &str) -> String {
    let text =
        match text.strip_prefix("`tithe stream --state ").and_then(|rest| rest.split_once(" --repair`")) {
            Some((state, rest)) => format!("tithe.Stream.repair({state:?}){rest}"),
            None => text.to_string(),
        };
    let text = WORDS.iter().fold(text, |text, (flag, word)| text.replace(flag, word));
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
                let is_plain = value.parse::<f64>().is_ok() || value.starts_with("coresets[");
                let quote = if is_plain { "" } else { "\"" };
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
