//! Every direct dependency has its reason in docs/dependencies.md, and every crate comes from crates.io.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names in the tables of dependencies of a manifest, without our own crates.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_inside = false;
    for line in manifest.lines() {
        if let Some(table) = line.strip_prefix('[') {
            is_inside = table.trim_end_matches(']').ends_with("dependencies");
        } else if is_inside && let Some((name, _)) = line.split_once('=') {
            let name = name.trim().trim_end_matches(".workspace");
            if !name.starts_with('#') && !name.starts_with("tithe") {
                names.insert(name.to_string());
            }
        }
    }
    names
}

/// The names in the first cells of the tables.
fn listed(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_string).collect()
}

#[test]
fn every_dependency_has_a_reason() {
    let manifests = ["crates/tithe", "crates/tithe-cli", "crates/tithe-paper", "crates/tithe-plot", "python"];
    let used: BTreeSet<String> =
        manifests.iter().flat_map(|folder| dependencies(&text(&format!("{folder}/Cargo.toml")))).collect();
    let listed = listed(&text("docs/dependencies.md"));
    assert!(used.len() > 30, "{used:?}");
    assert_eq!(used.difference(&listed).collect::<Vec<_>>(), Vec::<&String>::new(), "these have no reason");
    assert_eq!(listed.difference(&used).collect::<Vec<_>>(), Vec::<&String>::new(), "these are not used");
}

#[test]
fn every_crate_comes_from_crates_io() {
    let lock = text("Cargo.lock");
    let sources: BTreeSet<&str> = lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    let expected = BTreeSet::from(["\"registry+https://github.com/rust-lang/crates.io-index\""]);
    assert_eq!(sources, expected);
}
