//! The public API is a list that changes only on purpose: the root exports with their fields, variants and methods, compared
//! with `public-api.txt`. `UPDATE_PUBLIC_API=1 cargo test -p tithe --test public_api` updates the list.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_public_api_is_the_checked_in_list() {
    let listed = listing();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("public-api.txt");
    if std::env::var_os("UPDATE_PUBLIC_API").is_some() {
        fs::write(&path, &listed).expect("a list to write");
    }
    let recorded = fs::read_to_string(&path).expect("public-api.txt");
    assert!(listed == recorded, "the public API differs from public-api.txt; it is now:\n{listed}");
}

#[test]
fn few_names_are_exported_and_none_of_other_crates_types() {
    assert!((25..=50).contains(&exports().len()), "{} root exports", exports().len());
    for foreign in ["Mat<", "MatRef", "faer", "rayon", "arrow", "RecordBatch", "DataType", "Points", "RowSet"]
    {
        assert!(!listing().contains(foreign), "{foreign} is in the public API");
    }
}

/// The exported names and their names in their modules.
fn exports() -> BTreeMap<String, String> {
    let root = fs::read_to_string(source_folder().join("lib.rs")).expect("lib.rs");
    let statements = root.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    // The modules are public only with the feature `internals`.
    let statements = statements.filter(|statement| *statement != "stages::*");
    let items = statements.flat_map(|statement| {
        let list = statement.split_once('{').map_or_else(
            || statement.rsplit("::").next().unwrap_or_default().to_string(),
            |(_, list)| list.trim_end_matches('}').to_string(),
        );
        list.split(',')
            .map(|item| item.trim().to_string())
            .filter(|item| !item.is_empty() && item != "*")
            .collect::<Vec<_>>()
    });
    items
        .map(|item| match item.split_once(" as ") {
            Some((name, public)) => (public.to_string(), name.to_string()),
            None => (item.clone(), item),
        })
        .collect()
}

/// The exports and their public parts, one per line.
fn listing() -> String {
    let sources: Vec<String> = source_files().iter().map(|file| code_of(file)).collect();
    let mut text = String::new();
    for (public, name) in exports() {
        let definitions: Vec<String> = sources.iter().filter_map(|code| definition(code, &name)).collect();
        let [definition] = &definitions[..] else { panic!("{name} is defined {} times", definitions.len()) };
        writeln!(text, "{public}").expect("text");
        for member in members(definition) {
            writeln!(text, "    {member}").expect("text");
        }
        let head = format!("impl {name} {{");
        let implementations = sources.iter().flat_map(|code| blocks(code, &head));
        for method in implementations.flat_map(|block| methods(&block)) {
            writeln!(text, "    {method}").expect("text");
        }
    }
    text
}

/// A file without its tests, comments and hidden items.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("a source file");
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut lines = Vec::new();
    let mut hidden = false;
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        if line.trim() == "#[doc(hidden)]" {
            hidden = true;
        } else if hidden && line.trim_start().starts_with("pub ") {
            hidden = false;
            lines.push(line.replacen("pub ", "hidden ", 1));
        } else {
            lines.push(line.to_string());
        }
    }
    lines.join("\n")
}

/// The definition of a type, trait or alias.
fn definition(code: &str, name: &str) -> Option<String> {
    ["struct", "enum", "trait", "type"].iter().find_map(|kind| {
        [" {", ";", "(", "<", ":"].iter().find_map(|end| {
            let head = format!("\npub {kind} {name}{end}");
            let start = code.find(&head)? + 1;
            let rest = &code[start..];
            let length = rest.find("\n}").or_else(|| rest.find(';')).unwrap_or(rest.len());
            let one_line =
                rest.find(';').filter(|semicolon| rest.find('{').is_none_or(|brace| *semicolon < brace));
            Some(rest[..one_line.unwrap_or(length)].to_string())
        })
    })
}

/// Public fields, variants with their fields, or the methods of a trait.
fn members(definition: &str) -> Vec<String> {
    let (head, body) = definition.split_once('\n').unwrap_or((definition, ""));
    let is_struct = head.starts_with("pub struct");
    let wanted = |line: &&str| !line.starts_with('#') && !line.is_empty() && *line != "}" && *line != "},";
    body.lines()
        .map(str::trim)
        .filter(wanted)
        .filter(|line| if is_struct { line.starts_with("pub ") } else { is_member(line) })
        .map(|line| line.trim_end_matches(['{', ',', ' ']).to_string())
        .collect()
}

/// Variants, their fields, and signatures; the bodies of a trait's default methods are neither.
fn is_member(line: &str) -> bool {
    let first = line.split(['(', ',', ' ', '{', ':']).next().unwrap_or_default();
    line.starts_with("fn ")
        || first.starts_with(char::is_uppercase)
        || line.contains(": ") && line.ends_with(',')
}

/// The inherent implementations that start with these words.
fn blocks(code: &str, head: &str) -> Vec<String> {
    code.split(&format!("\n{head}"))
        .skip(1)
        .map(|rest| rest[..rest.find("\n}").unwrap_or(rest.len())].to_string())
        .collect()
}

/// The signatures of public methods, on one line each.
fn methods(block: &str) -> Vec<String> {
    block
        .split("\n    pub fn ")
        .skip(1)
        .map(|rest| {
            let signature = rest.split(" {\n").next().unwrap_or_default();
            let words: Vec<&str> = signature.split_whitespace().collect();
            format!("pub fn {}", words.join(" ").replace("( ", "(").replace(", )", ")"))
        })
        .collect()
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn source_files() -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![source_folder()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
