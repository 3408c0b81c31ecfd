//! `tithe paper --quick` from end to end: every figure, and resuming after a stop.

mod common;

use std::path::PathBuf;
use std::time::Duration;

use common::{Scratch, names_in};
use serde_json::Value;

/// The directory with the real data, in `TITHE_DATA` or next to the repository; without it only generated data is used.
fn real_data() -> Option<PathBuf> {
    let folder = match std::env::var_os("TITHE_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    let found = folder.join("ds1_10.parquet").is_file().then_some(folder);
    if found.is_none() {
        eprintln!("no real data found: only the generated sets are run (set TITHE_DATA to its directory)");
    }
    found
}

fn record(scratch: &Scratch, line: &str, data: Option<PathBuf>) -> Value {
    let mut command = scratch.command(&format!("paper {line} --quick --json"));
    if let Some(data) = data {
        command.arg("--data").arg(data);
    }
    let output = command.timeout(Duration::from_secs(600)).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn every_figure_is_drawn() {
    let scratch = Scratch::new();
    let data = real_data();
    let found = record(&scratch, "-o out", data.clone());
    assert_eq!((&found["cells_missing"], &found["cells_failed"]), (&0.into(), &0.into()), "{found}");
    let figures: Vec<&str> =
        found["figures"].as_array().expect("figures").iter().filter_map(Value::as_str).collect();
    let mut expected = vec!["fig1a", "fig1b", "fig1c", "fig2", "robustness"];
    if data.is_none() {
        expected.retain(|figure| *figure != "fig1c");
    }
    expected.extend(["theory-evidence", "theory-guarantee", "theory-lower-bound", "theory-mixture"]);
    assert_eq!(figures, expected);
    let page = String::from_utf8(scratch.read("out/results.md")).expect("text");
    for figure in figures {
        let svg = String::from_utf8(scratch.read(&format!("out/plots/{figure}.svg"))).expect("text");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{figure}");
        assert!(scratch.read(&format!("out/plots/{figure}.png")).starts_with(b"\x89PNG"));
        let table = String::from_utf8(scratch.read(&format!("out/tables/{figure}.csv"))).expect("text");
        assert!(table.lines().count() > 2, "{figure}: {table}");
        assert!(scratch.read(&format!("out/tables/{figure}.parquet")).starts_with(b"PAR1"));
        assert!(page.contains(&format!("plots/{figure}.svg")), "{figure}");
    }
    // Every MMD panel shows the noise floor, under the same name.
    let fig2 = String::from_utf8(scratch.read("out/plots/fig2.svg")).expect("text");
    assert_eq!(fig2.matches("Noise floor").count(), 1);
}

#[test]
fn a_stopped_run_resumes() {
    let scratch = Scratch::new();
    record(&scratch, "theory -o out --threads 1", None);
    let cells = scratch.path("out/cells/quick/evidence");
    let table = |name: &str| scratch.read(&format!("out/tables/{name}.csv"));
    let (evidence, guarantee) = (table("theory-evidence"), table("theory-guarantee"));
    let names = names_in(&cells);
    // One cell is missing, one truncated and one has other settings; another is marked to check that it is not run again.
    let path = |i: usize| cells.join(&names[i]);
    let text = |i: usize| std::fs::read_to_string(path(i)).expect("a cell");
    std::fs::remove_file(path(0)).expect("a cell");
    std::fs::write(path(1), &text(1)[..20]).expect("a cell");
    std::fs::write(path(2), text(2).replace("\"seed\": 0", "\"seed\": 77")).expect("a cell");
    let marked = text(3).replace("\"seconds\"", "\"seconds\" ");
    std::fs::write(path(3), &marked).expect("a cell");
    let found = record(&scratch, "theory -o out --threads 2", None);
    assert_eq!(found["cells_missing"], 0);
    assert_eq!(text(3), marked);
    assert_eq!((table("theory-evidence"), table("theory-guarantee")), (evidence, guarantee));

    // No cell is started after the time limit; the page lists what is missing.
    let late = record(&scratch, "fig1b -o late --stop-after 0", None);
    assert!(late["cells_missing"].as_u64().is_some_and(|missing| missing > 0), "{late}");
    let page = String::from_utf8(scratch.read("late/results.md")).expect("text");
    assert!(page.contains("were not run"), "{page}");
}

#[test]
fn invalid_arguments_are_rejected() {
    let scratch = Scratch::new();
    for line in ["paper fig9", "paper --profile week", "paper --threads 0", "paper --stop-after -1"] {
        let outcome = scratch.run(line);
        assert_eq!(outcome.code, Some(2), "{line}: {outcome:?}");
    }
    assert!(scratch.names().is_empty());
}
