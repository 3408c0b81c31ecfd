//! The library's folders are stages, and data flows one way through them: no file imports from a later stage, and there
//! are no cycles of imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The stages in order; CONTRIBUTING.md states the same.
const STAGES: [&str; 15] = [
    "base",
    "formula",
    "data",
    "engine",
    "reservoir",
    "encoding",
    "model",
    "mode",
    "mcmc",
    "coreset",
    "results",
    "stream",
    "distributed",
    "options",
    "api",
];

type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_stages_are_those_that_contributing_states() {
    let line = STAGES.join(" → ");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CONTRIBUTING.md"))
        .expect("CONTRIBUTING.md");
    assert!(text.contains(&line), "CONTRIBUTING.md does not state the order {line}");
    let folders: BTreeSet<String> = fs::read_dir(source_folder())
        .expect("the sources")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.ends_with(".rs"))
        .collect();
    assert_eq!(folders, STAGES.iter().map(|stage| stage.to_string()).collect());
}

#[test]
fn every_file_and_folder_opens_with_a_sentence() {
    for file in source_files() {
        let text = fs::read_to_string(&file).expect("a source file");
        assert!(text.starts_with("//! "), "{} does not start with a sentence on its purpose", file.display());
    }
}

#[test]
fn no_import_goes_against_the_order_of_the_stages() {
    let stage = |file: &str| {
        let folder = file.split("::").next().unwrap_or_default();
        STAGES.iter().position(|stage| *stage == folder).expect("a file in a stage")
    };
    let against: Vec<String> = imports()
        .iter()
        .flat_map(|(file, imported)| imported.iter().map(move |imported| (file, imported)))
        .filter(|(file, imported)| stage(file) < stage(imported))
        .map(|(file, imported)| format!("{file} imports {imported}"))
        .collect();
    assert!(against.is_empty(), "{against:#?}");
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    let imports = imports();
    for start in imports.keys() {
        if let Some(path) = path_back(&imports, start) {
            panic!("a cycle of imports: {}", path.join(" → "));
        }
    }
}

#[test]
fn the_checks_see_cycles_and_braces() {
    let paths = imported_paths("use crate::a::{b, c::{self, D}};\nfn f() { crate::e::g() }");
    assert_eq!(paths, ["a::b", "a::c", "a::c::D", "e::g"].map(str::to_string).to_vec());
    let edge = |from: &str, to: &str| (from.to_string(), BTreeSet::from([to.to_string()]));
    let cycle: Imports = [edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("d", "a")].into();
    assert_eq!(path_back(&cycle, "b").map(|path| path.len()), Some(4));
    assert_eq!(path_back(&cycle, "d"), None);
}

/// A path of imports from a file back to itself, if there is one.
fn path_back(imports: &Imports, start: &str) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let mut paths = vec![vec![start.to_string()]];
    while let Some(path) = paths.pop() {
        for next in path.last().and_then(|last| imports.get(last)).into_iter().flatten() {
            if next == start {
                return Some([path, vec![next.clone()]].concat());
            }
            if seen.insert(next.clone()) {
                paths.push([path.clone(), vec![next.clone()]].concat());
            }
        }
    }
    None
}

/// Which files each file imports from, outside of tests.
fn imports() -> Imports {
    let files: BTreeMap<String, PathBuf> =
        source_files().into_iter().map(|file| (module(&file), file)).collect();
    // A path names items within a file: the longest part of it that is a file.
    let file_of = |path: &str| {
        let mut parts: Vec<&str> = path.split("::").collect();
        while !parts.is_empty() && !files.contains_key(&parts.join("::")) {
            parts.pop();
        }
        parts.join("::")
    };
    files
        .iter()
        .map(|(name, file)| {
            let text = fs::read_to_string(file).expect("a source file");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let parent = if file.ends_with("mod.rs") { name.as_str() } else { folder(name) };
            let code = code.replace("use super::", &format!("use crate::{parent}::"));
            let imported = imported_paths(&code).iter().map(|path| file_of(path)).collect::<BTreeSet<_>>();
            let others = imported.into_iter().filter(|other| other != name && !other.is_empty()).collect();
            (name.clone(), others)
        })
        .collect()
}

/// All paths that start with `crate::`, with lists in braces expanded. Re-exports and comments do not count.
fn imported_paths(code: &str) -> Vec<String> {
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect::<String>()
        .replace("pub use crate::", "re-export ");
    code.split("crate::").skip(1).flat_map(|rest| expanded(rest).0).collect()
}

/// The paths at the start of a text, and the length of the text that they take.
fn expanded(text: &str) -> (Vec<String>, usize) {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !is_path(c)).unwrap_or(text.len());
    let head = text[..end].trim_end_matches(':');
    if !text[end..].starts_with('{') {
        return (vec![head.to_string()], end);
    }
    let (mut paths, mut at) = (Vec::new(), end + 1);
    while !text[at..].starts_with('}') {
        let (inner, length) = expanded(&text[at..]);
        for path in inner.into_iter().filter(|_| length > 0) {
            paths.push(if path == "self" { head.to_string() } else { format!("{head}::{path}") });
        }
        at += length.max(1);
    }
    (paths, at + 1)
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// All source files in folders; `lib.rs` is above the stages.
fn source_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![source_folder()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("src/lib.rs") {
                files.push(path);
            }
        }
    }
    files
}

/// A file's module path: `coreset::build` of `coreset/build.rs`.
fn module(file: &Path) -> String {
    let path = file.strip_prefix(source_folder()).expect("a source file").with_extension("");
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    parts.join("::").trim_end_matches("::mod").to_string()
}

fn folder(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(folder, _)| folder)
}
