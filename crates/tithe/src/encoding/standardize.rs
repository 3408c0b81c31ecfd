//! Which columns are centred and scaled.

use serde::{Deserialize, Serialize};

/// Which columns are centred and scaled before the model sees them.
///
/// Columns are centred only if the model has an intercept, and never in sparse (LIBSVM) data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", rename_all = "lowercase")]
pub enum Standardize {
    /// Columns of numbers are centred and divided by their standard deviation. Booleans, columns that hold only 0 and 1, and levels of
    /// text are centred but not scaled.
    ///
    /// The coefficient of a 0/1 column is then a difference in log-odds whatever the column's frequency, and the same prior suits all of
    /// them (Gelman, Jakulin, Pittau and Su 2008). If rare columns were scaled too, a coefficient of 1 on the model's scale could be
    /// hundreds of log-odds in the units of the data.
    #[default]
    Numeric,
    /// All columns of numbers are centred and scaled, also those that hold only 0 and 1. Booleans and levels stay 0 and 1.
    All,
    /// Every column is used as it is.
    None,
}

/// As it is stored: by name, or as a boolean in files of older versions.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Switch(bool),
    Named(Name),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Numeric,
    All,
    None,
}

impl From<Stored> for Standardize {
    fn from(stored: Stored) -> Standardize {
        match stored {
            Stored::Named(Name::Numeric) => Standardize::Numeric,
            Stored::Switch(true) | Stored::Named(Name::All) => Standardize::All,
            Stored::Switch(false) | Stored::Named(Name::None) => Standardize::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_the_booleans_of_older_versions_are_read() {
        let read = |text: &str| serde_json::from_str::<Standardize>(text).ok();
        assert_eq!(read("true"), Some(Standardize::All));
        assert_eq!(read("false"), Some(Standardize::None));
        assert_eq!(read("\"some\""), None);
        for choice in [Standardize::Numeric, Standardize::All, Standardize::None] {
            let text = serde_json::to_string(&choice).expect("json");
            assert_eq!(read(&text), Some(choice), "{text}");
            let bytes = rmp_serde::to_vec(&choice).expect("bytes");
            assert_eq!(rmp_serde::from_slice::<Standardize>(&bytes).ok(), Some(choice), "{text}");
        }
    }
}
