//! Turns errors of the library into exceptions of the package, in the words of Python: `clusters=`, `tithe.build`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tithe::base::error::{Error, ErrorKind, Operation, Remedy, Setting, Value, Wording};

/// The exception for an error: the kind decides the class, the text ends with the remedies.
pub fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let class = class(error.kind());
    let mut text = error.message(&PythonWords);
    if let Some(help) = error.help() {
        text = format!("{text}\n  help: {}", help.words(&PythonWords));
    }
    exception(py, class, text)
}

/// The class of an exception; several problems have that of the first.
fn class(kind: &ErrorKind) -> &'static str {
    match kind {
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
        ErrorKind::Formula { .. } => "FormulaError",
        ErrorKind::State { .. } => "StateError",
        ErrorKind::EncodingMismatch { .. } => "EncodingMismatchError",
        ErrorKind::WrongFile { .. } | ErrorKind::NewerFormat { .. } => "WrongFileError",
        ErrorKind::Changed { .. } => "ChangedError",
        ErrorKind::Cluster { .. } => "ClusterError",
        ErrorKind::OtherData { .. } => "OtherDataError",
        ErrorKind::Numerical { .. } => "NumericalError",
        ErrorKind::Several { errors } => errors.first().map_or("TitheError", |error| class(error.kind())),
        _ => "TitheError",
    }
}

/// An exception of the package, by the name of its class.
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

/// The wording of Python: `clusters=`, `missing="drop"`, `tithe.build`.
pub struct PythonWords;

impl Wording for PythonWords {
    fn setting(&self, setting: Setting) -> String {
        format!("{setting}=")
    }

    fn subject(&self, setting: Setting) -> String {
        setting.name().to_string()
    }

    fn assignment(&self, setting: Setting, value: &Value) -> String {
        let value = match value {
            Value::Switch(true) => "True".to_string(),
            Value::Switch(false) => "False".to_string(),
            // A coreset in memory is named by its place in the list that was passed.
            Value::Text(text) if setting == Setting::Encoding && text.starts_with("coresets[") => {
                text.clone()
            }
            // Labels may be numbers.
            Value::Text(text) if setting == Setting::Positive && text.parse::<f64>().is_ok() => text.clone(),
            Value::Text(text) => format!("{text:?}"),
            value => value.to_string(),
        };
        format!("{setting}={value}")
    }

    fn operation(&self, operation: Operation) -> String {
        match operation {
            Operation::Build => "tithe.build",
            Operation::Merge => "tithe.merge",
            Operation::Fit => "Coreset.fit",
            Operation::Verify => "Posterior.verify",
            Operation::Stream => "tithe.Stream",
            Operation::Snapshot => "tithe.Stream.read_snapshot",
            _ => "tithe",
        }
        .to_string()
    }

    fn remedy(&self, remedy: &Remedy) -> Option<String> {
        match remedy {
            Remedy::Repair { state } => {
                let state = state.display().to_string();
                Some(format!("go back to the last intact state with tithe.Stream.repair({state:?})"))
            }
            Remedy::Omit(Setting::Replay) => Some("leave out replay=True".to_string()),
            // The directory and the file are no named arguments.
            Remedy::OtherState => Some("name another directory".to_string()),
            Remedy::Using { action, setting: Setting::Output | Setting::State } => Some(action.to_string()),
            _ => None,
        }
    }
}
