//! The library names no command-line flag: each front end has its own words for settings.

use std::path::{Path, PathBuf};

/// All Rust files in a folder and its subfolders.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files
}

/// Whether a line names a flag (`--label`, `-o`) or a command (`tithe build`).
fn names_a_flag(line: &str) -> bool {
    let flag =
        line.match_indices("--").any(|(at, _)| line[at + 2..].starts_with(|c: char| c.is_ascii_lowercase()));
    let command = line.contains("`tithe ") || line.contains("with -o");
    flag || command
}

/// The lines of code, without comments and without the test module at the end.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let without_tests = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    without_tests.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
}

#[test]
fn no_line_of_the_library_names_a_flag() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = rust_files(&folder);
    assert!(files.len() > 50, "only {} files were found", files.len());
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a text file");
        for (number, line) in code(&text).filter(|(_, line)| names_a_flag(line)) {
            found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
        }
    }
    assert!(found.is_empty(), "use `Setting` and `Remedy` instead of flags:\n{}", found.join("\n"));
}

#[test]
fn flags_are_recognised() {
    for line in [r#"Error::other("--label: is needed")"#, r#""use --chains 4""#, r#""see `tithe build`""#] {
        assert!(names_a_flag(line), "{line}");
    }
    for line in ["a - b", "// ----", r#""a -- b""#, r#""draws=4""#, "--1"] {
        assert!(!names_a_flag(line), "{line}");
    }
}
