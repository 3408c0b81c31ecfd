//! What a user can do about an error or a warning, as data.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Neutral, Operation, Setting, Value, Wording};

/// One thing that the user can do.
///
/// Each remedy is an imperative clause, so that several of them form a sentence (see [`Help`]).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Remedy {
    /// Advice that names no setting: "repair the value".
    Advice(Cow<'static, str>),
    /// Give a setting this value: "use --chains 4".
    Set {
        /// The setting.
        setting: Setting,
        /// Its value.
        value: Value,
    },
    /// Give a setting another value: "use a larger --warmup".
    Choose {
        /// The setting.
        setting: Setting,
        /// Which value: "a larger", "a narrower".
        which: &'static str,
    },
    /// Do something by means of a setting: "name another column with --label".
    Using {
        /// What to do: "name another column".
        action: &'static str,
        /// The setting.
        setting: Setting,
    },
    /// Do something, with one of several possible values: "give every coefficient a proper prior, for example --prior normal:2".
    Example {
        /// What to do.
        action: &'static str,
        /// The setting.
        setting: Setting,
        /// A value that helps.
        value: Value,
    },
    /// Omit a setting: "leave out --replay".
    Omit(Setting),
    /// Do something by means of an operation: "make a coreset first with `tithe build`".
    Run {
        /// What to do.
        action: &'static str,
        /// The operation.
        operation: Operation,
    },
    /// Leave out a column of the data, or any column if none is named.
    ExcludeColumn(Option<String>),
    /// Read a column as text; without a name, the column of the error.
    ReadAsText(Option<String>),
    /// Leave out the rows with missing values.
    DropMissing,
    /// Replace levels that the encoding does not have by the reference level.
    UnseenAsReference,
    /// Use a larger limit: "allow more with --memory".
    RaiseLimit(Setting),
    /// Build a coreset again from its data, with the encoding of another.
    BuildAgain {
        /// Which of the coresets: "first", "second".
        which: &'static str,
        /// The coreset with the encoding.
        encoding: PathBuf,
    },
    /// Go back to the last intact state of a stream.
    Repair {
        /// The directory of the state.
        state: PathBuf,
    },
    /// Keep the state of a stream in another directory.
    OtherState,
    /// Continue although the data is different.
    Force,
}

impl Remedy {
    #[doc(hidden)]
    /// Gives a setting this value.
    pub fn set(setting: Setting, value: impl Into<Value>) -> Remedy {
        Remedy::Set { setting, value: value.into() }
    }

    #[doc(hidden)]
    /// Gives a setting another value, such as "a larger" one.
    pub fn choose(which: &'static str, setting: Setting) -> Remedy {
        Remedy::Choose { setting, which }
    }

    #[doc(hidden)]
    /// Does something by means of a setting.
    pub fn using(action: &'static str, setting: Setting) -> Remedy {
        Remedy::Using { action, setting }
    }

    #[doc(hidden)]
    /// Does something, for example by giving a setting this value.
    pub fn example(action: &'static str, setting: Setting, value: impl Into<Value>) -> Remedy {
        Remedy::Example { action, setting, value: value.into() }
    }

    #[doc(hidden)]
    /// Does something by means of an operation.
    pub fn run(action: &'static str, operation: Operation) -> Remedy {
        Remedy::Run { action, operation }
    }

    #[doc(hidden)]
    /// The remedy in the words of a front end.
    pub fn words(&self, wording: &dyn Wording) -> String {
        if let Some(words) = wording.remedy(self) {
            return words;
        }
        let named = |action: &str, setting: Setting, name: &Option<String>| match name {
            Some(name) => {
                format!("{action} with {}", wording.assignment(setting, &Value::Text(name.clone())))
            }
            None => format!("{action} with {}", wording.setting(setting)),
        };
        let path = |path: &PathBuf| Value::Text(path.display().to_string());
        match self {
            Remedy::Advice(text) => text.to_string(),
            Remedy::Set { setting, value } => format!("use {}", wording.assignment(*setting, value)),
            Remedy::Choose { setting, which } => format!("use {which} {}", wording.subject(*setting)),
            Remedy::Using { action, setting } => format!("{action} with {}", wording.setting(*setting)),
            Remedy::Example { action, setting, value } => {
                format!("{action}, for example {}", wording.assignment(*setting, value))
            }
            Remedy::Omit(setting) => format!("leave out {}", wording.subject(*setting)),
            Remedy::Run { action, operation } => format!("{action} with {}", wording.operation(*operation)),
            Remedy::ExcludeColumn(column) => named("leave the column out", Setting::Exclude, column),
            Remedy::ReadAsText(column) => named("read the column as text", Setting::Text, column),
            Remedy::DropMissing => {
                format!("skip the rows with {}", wording.assignment(Setting::Missing, &"drop".into()))
            }
            Remedy::UnseenAsReference => {
                let assignment = wording.assignment(Setting::Unseen, &"reference".into());
                format!("treat it as the reference level with {assignment}")
            }
            Remedy::RaiseLimit(setting) => format!("allow more with {}", wording.setting(*setting)),
            Remedy::BuildAgain { which, encoding } => {
                let assignment = wording.assignment(Setting::Encoding, &path(encoding));
                format!("build the {which} again from its data with {assignment}")
            }
            Remedy::Repair { state } => {
                format!("repair the state in '{}'", state.display())
            }
            Remedy::OtherState => format!("name another directory with {}", wording.setting(Setting::State)),
            Remedy::Force => {
                format!("continue anyway with {}", wording.assignment(Setting::Force, &true.into()))
            }
        }
    }
}

/// The remedies for one error or warning, any of which helps.
///
/// As text it is one sentence: "leave the column out with --exclude, or skip the rows with --missing drop". Files
/// store this text in the [`Neutral`] wording; read back, it is one [`Remedy::Advice`].
#[derive(Clone, Debug)]
pub struct Help(Vec<Remedy>);

impl Help {
    /// The remedies, the most likely one first.
    pub fn remedies(&self) -> &[Remedy] {
        &self.0
    }

    #[doc(hidden)]
    /// The sentence in the words of a front end.
    pub fn words(&self, wording: &dyn Wording) -> String {
        let words: Vec<String> = self.0.iter().map(|remedy| remedy.words(wording)).collect();
        match &words[..] {
            [all @ .., last] if !all.is_empty() => format!("{}, or {last}", all.join(", ")),
            _ => words.concat(),
        }
    }
}

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(&Neutral))
    }
}

/// Equal if they say the same in the [`Neutral`] wording, so that help read from a file equals the help written.
impl PartialEq for Help {
    fn eq(&self, other: &Help) -> bool {
        self.words(&Neutral) == other.words(&Neutral)
    }
}

impl Serialize for Help {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Help {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Help, D::Error> {
        String::deserialize(deserializer).map(Help::from)
    }
}

impl From<Remedy> for Help {
    fn from(remedy: Remedy) -> Help {
        Help(vec![remedy])
    }
}

impl<const N: usize> From<[Remedy; N]> for Help {
    fn from(remedies: [Remedy; N]) -> Help {
        Help(remedies.into())
    }
}

impl From<Vec<Remedy>> for Help {
    fn from(remedies: Vec<Remedy>) -> Help {
        Help(remedies)
    }
}

impl From<&'static str> for Help {
    fn from(advice: &'static str) -> Help {
        Remedy::from(advice).into()
    }
}

impl From<String> for Help {
    fn from(advice: String) -> Help {
        Remedy::from(advice).into()
    }
}

impl From<&'static str> for Remedy {
    fn from(advice: &'static str) -> Remedy {
        Remedy::Advice(advice.into())
    }
}

impl From<String> for Remedy {
    fn from(advice: String) -> Remedy {
        Remedy::Advice(advice.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_form_one_sentence() {
        let help = Help::from("repair the data");
        assert_eq!(help.to_string(), "repair the data");
        let help = Help::from([Remedy::ExcludeColumn(Some("age".into())), Remedy::DropMissing]);
        assert_eq!(
            help.to_string(),
            "leave the column out with exclude=age, or skip the rows with missing=drop"
        );
        let help = Help::from([
            "repair the data".into(),
            Remedy::choose("a larger", Setting::Warmup),
            Remedy::set(Setting::Chains, 4),
        ]);
        assert_eq!(help.to_string(), "repair the data, use a larger warmup, or use chains=4");
    }

    #[test]
    fn stored_help_is_read_back_as_equal_advice() {
        let help = Help::from([Remedy::set(Setting::Draws, 4000), Remedy::Omit(Setting::Replay)]);
        let stored = serde_json::to_string(&help).expect("text");
        assert_eq!(stored, "\"use draws=4000, or leave out replay\"");
        let read: Help = serde_json::from_str(&stored).expect("help");
        assert_eq!(read, help);
        assert!(matches!(read.remedies(), [Remedy::Advice(_)]));
    }

    /// No remedy of the library may name a flag: the neutral wording and all fixed words are free of them.
    #[test]
    fn neutral_words_name_no_flag() {
        for remedy in [
            Remedy::set(Setting::Intercept, false),
            Remedy::example("name it", Setting::Positive, "yes"),
            Remedy::run("make a coreset", Operation::Build),
            Remedy::ReadAsText(None),
            Remedy::UnseenAsReference,
            Remedy::RaiseLimit(Setting::Memory),
            Remedy::BuildAgain { which: "first", encoding: "b.parquet".into() },
            Remedy::Repair { state: "state".into() },
            Remedy::OtherState,
            Remedy::Force,
        ] {
            assert!(!remedy.words(&Neutral).contains("--"), "{remedy:?}");
        }
    }
}
