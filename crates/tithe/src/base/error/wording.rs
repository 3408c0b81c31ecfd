//! How settings and operations are written: as flags, as arguments or, in the library's own words, by their names.

use super::{Remedy, Setting, Value};

/// What a user can run to get further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Build a coreset.
    Build,
    /// Merge coresets.
    Merge,
    /// Fit a posterior.
    Fit,
    /// Verify a posterior against the full data.
    Verify,
    /// Feed rows to a stream.
    Stream,
    /// Read the coreset of a stream's state.
    Snapshot,
}

/// How one front end writes what errors and warnings name.
pub trait Wording {
    /// A setting where a sentence mentions it: `--label` on the command line, `label=` in Python.
    fn setting(&self, setting: Setting) -> String;

    /// A setting as the subject of a sentence: `--label` on the command line, `label` in Python.
    fn subject(&self, setting: Setting) -> String {
        self.setting(setting)
    }

    /// A setting with its value: `--chains 4` or `chains=4`.
    fn assignment(&self, setting: Setting, value: &Value) -> String;

    /// An operation: `tithe build` or `tithe.build`.
    fn operation(&self, operation: Operation) -> String;

    /// A remedy that this front end words in its own way; `None` leaves it to the library.
    fn remedy(&self, _remedy: &Remedy) -> Option<String> {
        None
    }
}

/// The library's own wording: names in snake case, `chains=4` for a setting with its value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neutral;

impl Wording for Neutral {
    fn setting(&self, setting: Setting) -> String {
        setting.name().to_string()
    }

    fn assignment(&self, setting: Setting, value: &Value) -> String {
        format!("{}={value}", setting.name())
    }

    fn operation(&self, operation: Operation) -> String {
        match operation {
            Operation::Build => "build",
            Operation::Merge => "merge",
            Operation::Fit => "fit",
            Operation::Verify => "verify",
            Operation::Stream => "stream",
            Operation::Snapshot => "snapshot",
        }
        .to_string()
    }
}
