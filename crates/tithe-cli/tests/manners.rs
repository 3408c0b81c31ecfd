//! Signals, closed pipes, output streams, JSON records, completions and manual pages.

mod common;

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{CORE, Mixed, Scratch, TITHE};

const STOPPED: &str = "error: stopped before the end; nothing was written\n";

fn start(scratch: &Scratch, line: &str) -> Child {
    Command::new(TITHE)
        .current_dir(scratch.dir())
        .env("TMPDIR", scratch.dir())
        .args(line.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill runs");
    assert!(status.success());
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn stopped(child: Child, scratch: &Scratch, left: &[&str]) {
    let output = child.wait_with_output().expect("an end");
    assert_eq!(String::from_utf8_lossy(&output.stderr), STOPPED);
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    assert_eq!(scratch.names(), left);
}

#[test]
fn a_signal_in_the_middle_of_a_build_leaves_nothing_behind() {
    let scratch = Scratch::new();
    // With blocks of one row, a small file takes minutes.
    scratch.write("data.csv", Mixed::new(200_000).csv());
    for name in ["-INT", "-TERM"] {
        let line = format!("build data.csv --label y --size 3000 --block-rows 1 --memory 0 -o {CORE}");
        let child = start(&scratch, &line);
        wait_until("the build", || scratch.names().iter().any(|name| name.starts_with(".tithe-")));
        std::thread::sleep(Duration::from_millis(200));
        signal(&child, name);
        stopped(child, &scratch, &["data.csv"]);
    }
}

#[test]
fn a_signal_while_waiting_for_standard_input_leaves_nothing_behind() {
    for name in ["-INT", "-TERM"] {
        let scratch = Scratch::new();
        let mut child = start(&scratch, &format!("build - --label y --memory 0 -o {CORE}"));
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(Mixed::new(2_000).csv().as_bytes()).expect("written");
        std::thread::sleep(Duration::from_millis(300));
        signal(&child, name);
        // The pipe stays open: the program must not wait for its end.
        stopped(child, &scratch, &[]);
        drop(input);
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let scratch = Scratch::with_csv(Mixed::new(500).csv());
    for line in [
        format!("build data.csv --label y -o {CORE}"),
        format!("build data.csv --label y --json -o {CORE}"),
        "completions bash".to_string(),
        "man".to_string(),
        "--help".to_string(),
        "build --help".to_string(),
    ] {
        let mut child = start(&scratch, &line);
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("an end");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!err.contains("panicked") && !err.contains("bug in tithe"), "{line}: {err}");
        assert_eq!(output.status.code(), Some(0), "{line}: {err}");
    }
    assert!(scratch.path(CORE).exists());
}

#[test]
fn a_pipe_gets_the_result_without_progress() {
    let scratch = Scratch::with_csv(Mixed::new(3_000).csv());
    let outcome = scratch.run(&format!("build data.csv --label y --size 100 -o {CORE}"));
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""));
    let lines: Vec<&str> = outcome.out.lines().collect();
    assert_eq!(lines.len(), 7, "{}", outcome.out);
    assert!(
        lines[0].starts_with("core.parquet: ")
            && lines[0].ends_with(" represent 3,000 rows (5 coefficients)")
    );
    let starts = [
        "  radius ",
        "  certificate: ",
        "    KL to the full data's posterior: ",
        "    largest error of a posterior mean: ",
    ];
    for (line, start) in lines[1..].iter().zip(starts) {
        assert!(line.starts_with(start), "{}", outcome.out);
    }
    assert!(lines[5].contains(" passes over the data, "), "{}", outcome.out);
    assert!(lines[6].starts_with("  no coreset needed: "), "{}", outcome.out);
}

#[test]
fn json_is_one_object_with_all_its_keys() {
    let scratch = Scratch::with_csv(Mixed::new(3_000).csv());
    for (line, exact) in [("--size 100", false), ("--size 5000", true), ("--method uniform --size 10", false)]
    {
        let outcome = scratch.run(&format!("build data.csv --label y {line} --seed 9 --json -o {CORE}"));
        assert_eq!(outcome.code, Some(0));
        assert_eq!(outcome.out.lines().count(), 1);
        let record: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON and nothing else");
        for key in [
            "rows",
            "dimension",
            "size",
            "distinct_rows",
            "exact",
            "radius",
            "score",
            "mean_sensitivity",
            "passes",
            "seconds",
            "seed",
        ] {
            assert!(record.get(key).is_some(), "{key} is missing from {record}");
        }
        assert_eq!(record["exact"], exact);
        assert_eq!(
            (&record["rows"], &record["dimension"], &record["seed"]),
            (&3000.into(), &5.into(), &9.into())
        );
        let seconds = record["seconds"].as_object().expect("seconds by phase");
        assert!(seconds.values().all(|seconds| seconds.as_f64().is_some_and(|seconds| seconds >= 0.0)));
        if line == "--size 100" {
            assert_eq!(record["size"], 100);
            let kept = common::read_core(&scratch.path(CORE)).batch.num_rows();
            assert_eq!(record["distinct_rows"], kept);
            assert!(
                ["radius", "score", "mean_sensitivity"].iter().all(|key| record[key].as_f64() > Some(0.0))
            );
        }
    }
}

#[test]
fn warnings_go_to_standard_error_and_into_the_record() {
    let scratch = Scratch::with_csv("c,x,y\n1,1,0\n1,2,1\n1,3,0\n");
    let outcome = scratch.run(&format!("build data.csv --label y --json -o {CORE}"));
    let record: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON and nothing else");
    let warnings = record["warnings"].as_array().expect("warnings");
    assert_eq!(warnings.len(), 2);
    let message: String =
        warnings.iter().map(|w| format!("warning: {}\n", w.as_str().expect("text"))).collect();
    assert_eq!(outcome.err, message);
}

#[test]
fn completions_and_manual_pages_are_made() {
    let scratch = Scratch::new();
    for (shell, sign) in [("bash", "_tithe()"), ("zsh", "#compdef tithe"), ("fish", "complete -c tithe")] {
        let script = scratch.succeed(&format!("completions {shell}"));
        assert!(script.contains(sign) && script.contains("theta-star"), "{shell}");
    }
    let page = scratch.succeed("man");
    assert!(page.contains(".TH tithe 1") && page.contains("build"));
    std::fs::create_dir(scratch.path("pages")).expect("a directory");
    scratch.succeed("man --dir pages");
    let pages = common::names_in(&scratch.path("pages"));
    for page in ["tithe.1", "tithe-build.1", "tithe-inspect.1"] {
        assert!(pages.iter().any(|name| name == page), "{pages:?}");
    }
    let outcome = scratch.run("man --dir nowhere");
    assert_eq!(outcome.err, "error: cannot write 'nowhere': No such file or directory (os error 2)\n");
    assert_eq!(outcome.code, Some(1));
}

#[test]
fn help_and_usage() {
    let scratch = Scratch::new();
    let help = scratch.succeed("--help");
    for command in ["build", "inspect", "completions", "man"] {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
    }
    let help = scratch.succeed("build --help");
    for heading in ["\nReading:\n", "\nColumns:\n", "\nRunning:\n"] {
        assert!(help.contains(heading), "{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    assert!(scratch.succeed("--version").starts_with("tithe "));
    for line in ["", "weave", "build", "build a.csv", "build -o x"] {
        assert_eq!(scratch.run(line).code, Some(2), "{line}");
    }
}

/// A result that cannot be written is an error, unlike a closed pipe.
#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_an_error() {
    let scratch = Scratch::with_csv("x,y\n1,0\n2,1\n3,0\n4,1\n");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let output = std::process::Command::new(common::TITHE)
        .args(["build", "data.csv", "--label", "y", "-o", "core.parquet", "--json"])
        .current_dir(scratch.dir())
        .stdout(full)
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("error: cannot write to standard output: "), "{message}");
}
