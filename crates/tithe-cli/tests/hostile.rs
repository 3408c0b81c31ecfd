//! Files that are damaged or made up: every command refuses them with an error, soon, and leaves nothing behind.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::*;

/// A directory with some of the fixtures.
fn with_fixtures(names: &[&str]) -> Scratch {
    let scratch = Scratch::new();
    for name in names {
        scratch.write(name, fixture(name));
    }
    scratch
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs a command that must fail with this message, within a few seconds, and leave nothing behind.
#[track_caller]
fn refuses(scratch: &Scratch, line: &str, message: &str) {
    let (before, start) = (scratch.names(), Instant::now());
    let outcome = scratch.run(line);
    assert_eq!((outcome.code, &outcome.out[..]), (Some(1), ""), "{line}: {outcome:?}");
    assert!(outcome.err.starts_with(message), "{line}: {}", outcome.err);
    assert!(!outcome.err.contains("bug in tithe"), "{line}: {}", outcome.err);
    assert_eq!(scratch.names(), before, "{line} left something behind");
    assert!(start.elapsed() < Duration::from_secs(20), "{line} took {:?}", start.elapsed());
}

#[test]
fn damaged_posteriors_are_errors_and_no_panics() {
    let damaged = [
        "posterior-panic-byte-stream-split.parquet",
        "posterior-panic-dict-not-set.parquet",
        "posterior-panic-vlq.parquet",
    ];
    let scratch = with_fixtures(&damaged);
    scratch.write("new.csv", "x\n1\n");
    for name in damaged {
        let message = format!("error: '{name}'");
        refuses(&scratch, &format!("inspect {name}"), &message);
        refuses(&scratch, &format!("report {name} -o report.html"), &message);
        refuses(&scratch, &format!("predict {name} new.csv -o out.csv"), &message);
        refuses(&scratch, &format!("compare {name} {name}"), &message);
        refuses(&scratch, &format!("verify {name} --data new.csv"), &message);
    }
}

#[test]
fn draws_that_are_not_finite_are_refused_on_reading() {
    let names = ["posterior-nan-draw.parquet", "posterior-inf-draw.parquet"];
    let scratch = with_fixtures(&names);
    scratch.write("new.csv", "x\n1\n");
    for (name, value) in names.into_iter().zip(["NaN", "inf"]) {
        let message = format!("error: '{name}' has the value {value} of '");
        for line in ["inspect F", "report F -o r.html", "compare F F", "predict F new.csv -o out.csv"] {
            refuses(&scratch, &line.replace('F', name), &message);
        }
    }
}

#[test]
fn merging_columns_of_another_kind_is_an_error() {
    let names = ["coreset-good.parquet", "merge-text-plain.parquet", "merge-number-column-as-text.parquet"];
    let scratch = with_fixtures(&names);
    scratch.succeed("inspect coreset-good.parquet");
    for name in &names[1..] {
        let message = format!("error: '{name}' holds text in its column '");
        for line in [
            "merge coreset-good.parquet F -o m.parquet",
            "merge F coreset-good.parquet -o m.parquet",
            "inspect F",
            "export F --to stan -o model",
            "fit F -o p.parquet",
        ] {
            refuses(&scratch, &line.replace('F', name), &message);
        }
    }
}

#[test]
fn claimed_sizes_are_checked_before_memory_is_allocated() {
    let names = ["arrow-stream-claims-3EB.arrows", "arrow-file-dictionary-claims-8.6GB.arrow"];
    let scratch = with_fixtures(&names);
    for name in names {
        let message = format!("error: '{name}': cannot be read as ");
        refuses(&scratch, &format!("build {name} --label label -o core.parquet"), &message);
        let input = scratch.read(name);
        let outcome = scratch.run_with_input("stream --label label --size 10 --state state", &input);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.err.contains("error: 'standard input': cannot be read as "), "{}", outcome.err);
        std::fs::remove_dir_all(scratch.path("state")).expect("a state");
    }
}

#[test]
fn a_small_file_is_refused_soon() {
    let scratch = with_fixtures(&["parquet-40s-byte-by-byte.parquet"]);
    for line in ["inspect F", "build F --label b -o core.parquet"] {
        let line = line.replace('F', "parquet-40s-byte-by-byte.parquet");
        refuses(&scratch, &line, "error: 'parquet-40s-byte-by-byte.parquet'");
    }
}

#[test]
fn names_cannot_control_the_terminal() {
    let scratch = with_fixtures(&["hostile-names.csv"]);
    let harmless = |text: &str, what: &str| {
        let bad = text
            .chars()
            .find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(c));
        assert!(bad.is_none(), "{what}: {bad:?} in {text}");
    };
    for line in [
        "inspect hostile-names.csv",
        "build hostile-names.csv --label nothing -o core.parquet",
        "build hostile-names.csv --label label --size 40 --method uniform -o core.parquet",
        "inspect core.parquet",
        "inspect core.parquet --json",
        "fit core.parquet --sampler laplace --draws 50 -o posterior.parquet",
        "inspect posterior.parquet",
        "predict posterior.parquet hostile-names.csv -o out.csv",
        "compare posterior.parquet posterior.parquet",
    ] {
        let outcome = scratch.run(line);
        harmless(&outcome.out, line);
        harmless(&outcome.err, line);
        assert_eq!(outcome.code, Some(i32::from(line.contains("nothing"))), "{line}: {outcome:?}");
    }
    let shown = scratch.succeed("inspect hostile-names.csv");
    assert!(shown.contains("\\u001b[31m") && shown.contains("\\u202e"), "{shown}");
}

/// Rows with the columns of the damaged part.
fn csv(rows: usize) -> String {
    let cities = ["Rome", "Lima", "Oslo"];
    let mut text = "x,k,city,b,label\n".to_string();
    for row in 0..rows {
        let (x, city) = (noise(row, 0), cities[(noise(row, 1) * 3.0) as usize]);
        let (k, b, label) = (row % 7, noise(row, 2) < 0.5, u8::from(noise(row, 3) < x));
        text += &format!("{x},{k},{city},{b},{label}\n");
    }
    text
}

/// A part that cannot be read stops a stream that watches its directory, unless bad input is to be skipped: then it is
/// reported and skipped, also after a restart.
#[test]
fn a_watched_directory_with_a_damaged_part_is_no_crash_loop() {
    let scratch = Scratch::new();
    scratch.write("parts/a.csv", csv(200));
    scratch.write("parts/b.arrows", fixture("arrow-stream-claims-3EB.arrows"));
    let line = "stream --label label --size 50 --block 100 --state state --watch parts";
    for _ in 0..2 {
        let outcome = scratch.run(line);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.err.contains("error: 'parts/b.arrows': cannot be read as "), "{}", outcome.err);
        assert!(outcome.err.contains("--skip-bad"), "{}", outcome.err);
        assert!(!scratch.names().iter().any(|name| name.starts_with(".tithe-")));
    }
    scratch.write("parts/c.csv", csv(100));
    for turn in 0..2 {
        let mut child = std::process::Command::new(TITHE)
            .current_dir(scratch.dir())
            .args(line.split_whitespace())
            .args(["--skip-bad", "5"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        let start = Instant::now();
        let rows = || {
            let text = scratch.path("state/manifest.json");
            let text = std::fs::read(text).unwrap_or_default();
            let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            manifest["manifest"]["rows"].as_u64().unwrap_or(0)
        };
        while rows() < 300 || start.elapsed() < Duration::from_secs(2) {
            assert!(child.try_wait().expect("a status").is_none(), "it ended by itself");
            assert!(start.elapsed() < Duration::from_secs(60), "rows are missing");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().expect("killed");
        let output = child.wait_with_output().expect("output");
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        let skipped = messages.matches("warning: skipped: 'parts/b.arrows'").count();
        assert_eq!(skipped, usize::from(turn == 0), "{messages}");
    }
    scratch.succeed("stream --state state --snapshot -o core.parquet");
}
