//! Settings, remedies and operations in the words of the command line: `--clusters`, `tithe build`.

use tithe::base::error::{Operation, Remedy, Setting, Value, Wording};

/// The wording of the command line.
pub struct CommandLine;

impl Wording for CommandLine {
    fn setting(&self, setting: Setting) -> String {
        let name = setting.name();
        match setting {
            Setting::Output => "-o".to_string(),
            // Arguments without a flag.
            Setting::Data | Setting::Columns | Setting::Names | Setting::Parts | Setting::Recipe => {
                name.to_string()
            }
            Setting::Stream => format!("the {name}"),
            // On by default, so that there is only a flag to switch them off.
            Setting::Intercept | Setting::Header | Setting::Collapse => format!("--no-{name}"),
            _ => format!("--{}", name.replace('_', "-")),
        }
    }

    fn assignment(&self, setting: Setting, value: &Value) -> String {
        match value {
            Value::Switch(true) => format!("--{}", setting.name().replace('_', "-")),
            Value::Switch(false) => format!("--no-{}", setting.name().replace('_', "-")),
            Value::Text(text) => format!("{} {}", self.setting(setting), quoted(text)),
            value => format!("{} {value}", self.setting(setting)),
        }
    }

    fn operation(&self, operation: Operation) -> String {
        match operation {
            Operation::Build => "`tithe build`",
            Operation::Merge => "`tithe merge`",
            Operation::Fit => "`tithe fit`",
            Operation::Verify => "`tithe verify`",
            Operation::Stream => "`tithe stream --label … --state …`",
            Operation::Snapshot => "--snapshot",
            _ => "`tithe help`",
        }
        .to_string()
    }

    fn remedy(&self, remedy: &Remedy) -> Option<String> {
        match remedy {
            Remedy::Repair { state } => Some(format!(
                "go back to the last intact state with `tithe stream --state {} --repair`",
                quoted(&state.display().to_string())
            )),
            _ => None,
        }
    }
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_flag_exists() {
        let cli = Cli::command();
        let flags: Vec<String> = cli
            .get_subcommands()
            .flat_map(|command| command.get_arguments())
            .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
            .collect();
        for setting in Setting::ALL {
            let words = CommandLine.setting(*setting);
            assert!(!words.starts_with("--") || flags.contains(&words), "{words}");
        }
    }

    #[test]
    fn values_follow_their_flags() {
        let words = |remedy: Remedy| remedy.words(&CommandLine);
        assert_eq!(words(Remedy::set(Setting::Chains, 4)), "use --chains 4");
        assert_eq!(words(Remedy::set(Setting::Intercept, false)), "use --no-intercept");
        assert_eq!(words(Remedy::set(Setting::ZeroBased, true)), "use --zero-based");
        assert_eq!(words(Remedy::choose("a larger", Setting::BlockRows)), "use a larger --block-rows");
        assert_eq!(words(Remedy::DropMissing), "skip the rows with --missing drop");
        let column = Remedy::ExcludeColumn(Some("mother's age".into()));
        assert_eq!(words(column), r"leave the column out with --exclude 'mother'\''s age'");
        let repair = Remedy::Repair { state: "state".into() };
        assert_eq!(
            words(repair),
            "go back to the last intact state with `tithe stream --state state --repair`"
        );
    }
}
