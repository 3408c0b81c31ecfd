//! A stream that is killed at random times and resumed gives the same bytes as an uninterrupted one.
//!
//! `TITHE_KILLS` is the number of kills (10 by default); `scripts/faults` uses 200.

mod common;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use serde_json::Value;

const ROWS: usize = 40_000;

fn line(state: &str) -> String {
    format!("stream --label y --size 100 --block 1000 --state {state} --json")
}

/// The number of rows in the state.
fn counted(scratch: &Scratch, state: &str) -> u64 {
    let text = std::fs::read(scratch.path(&format!("{state}/manifest.json"))).unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&text).unwrap_or_default();
    manifest["manifest"]["rows"].as_u64().unwrap_or(0)
}

/// Runs a stream until it ends or is killed; true if it ended.
fn run(scratch: &Scratch, state: &str, text: &str, piped: bool, patience: Duration) -> bool {
    let mut command = Command::new(TITHE);
    command.current_dir(scratch.dir()).args(line(state).split_whitespace());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    // Either replay the file, or feed the rows after those in the state.
    let feeder = if piped {
        let done = counted(scratch, state) as usize;
        let mut rest: Vec<&str> = text.lines().collect();
        rest.drain(1..=done);
        command.stdin(Stdio::piped());
        Some(rest.join("\n") + "\n")
    } else {
        command.args(["data.csv", "--replay"]).stdin(Stdio::null());
        None
    };
    let mut child = command.spawn().expect("it starts");
    let writer = feeder.map(|rest| {
        let mut pipe = child.stdin.take().expect("a pipe");
        std::thread::spawn(move || {
            let _ = pipe.write_all(rest.as_bytes());
        })
    });
    let start = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().expect("a status") {
            let output = child.wait_with_output().expect("output");
            assert!(status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            break true;
        }
        if start.elapsed() >= patience {
            child.kill().expect("killed");
            child.wait().expect("dead");
            break false;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    if let Some(writer) = writer {
        writer.join().expect("the feeder");
    }
    ended
}

#[test]
fn after_kills_at_random_times_every_row_counts_once() {
    let kills: usize = std::env::var("TITHE_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(10);
    let text = Mixed::new(ROWS).csv();
    let scratch = Scratch::with_csv(&text);
    let start = Instant::now();
    assert!(run(&scratch, "peace", &text, false, Duration::MAX));
    let whole = start.elapsed();
    scratch.succeed("stream --state peace --snapshot -o peace.parquet");
    let expected = scratch.read("peace.parquet");

    let (mut killed, mut finished, mut advanced) = (0, 0, 0);
    while killed < kills || finished == 0 {
        let state = format!("state{finished}");
        // The last run is not killed.
        let patience = match killed < kills {
            true => whole.mul_f64(0.6 * noise(killed, finished + 7)),
            false => Duration::MAX,
        };
        let before = counted(&scratch, &state);
        if run(&scratch, &state, &text, (killed + finished) % 2 == 1, patience) {
            assert_eq!(counted(&scratch, &state), ROWS as u64);
            scratch.succeed(&format!("stream --state {state} --snapshot -o end.parquet"));
            assert!(scratch.read("end.parquet") == expected, "other bytes after {killed} kills");
            finished += 1;
        } else {
            killed += 1;
            let now = counted(&scratch, &state);
            assert!(now >= before, "rows were lost: {before} and then {now}");
            advanced += usize::from(now > before);
        }
    }
    assert!(kills < 5 || advanced > 0, "no kill came after a save: the test sees nothing");
    eprintln!("{killed} kills, {advanced} of them after something new was saved, {finished} streams ended");
}

/// Starts an endless stream and kills it after some time, or once the state contains `rows` rows.
fn kill_live(scratch: &Scratch, source: &str, patience: Duration, rows: u64) {
    let mut child = Command::new(TITHE)
        .current_dir(scratch.dir())
        .args(line("live").split_whitespace())
        .args(source.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let start = Instant::now();
    while start.elapsed() < patience && counted(scratch, "live") < rows {
        assert!(child.try_wait().expect("a status").is_none(), "it ended by itself");
        assert!(start.elapsed() < Duration::from_secs(60), "rows are missing");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed");
    child.wait().expect("dead");
}

#[test]
fn live_sources_resume_after_a_kill() {
    let text = Mixed::new(6_000).csv();
    let (header, rows) = text.split_once('\n').expect("a header");
    let rows: Vec<&str> = rows.lines().collect();
    let parts: Vec<String> =
        rows.chunks(1_500).map(|part| format!("{header}\n{}\n", part.join("\n"))).collect();
    for source in ["--watch parts", "--follow data.csv"] {
        let scratch = Scratch::new();
        scratch.write("data.csv", &text);
        assert!(run(&scratch, "peace", &text, false, Duration::MAX));
        for (number, part) in parts.iter().enumerate() {
            scratch.write(&format!("parts/{number}.csv"), part);
            let so_far = rows[..1_500 * (number + 1)].join("\n");
            scratch.write("data.csv", format!("{header}\n{so_far}\n"));
            // Three kills, the last one after all existing rows were read.
            for turn in 0..3 {
                let patience = Duration::from_millis((400.0 * noise(number, turn)) as u64);
                kill_live(&scratch, source, patience, u64::MAX);
            }
            kill_live(&scratch, source, Duration::MAX, 1_500 * (number as u64 + 1));
        }
        scratch.succeed("stream --state live --snapshot -o live.parquet");
        scratch.succeed("stream --state peace --snapshot -o peace.parquet");
        assert!(scratch.read("live.parquet") == scratch.read("peace.parquet"), "other bytes: {source}");
    }
}
