//! A stream that is killed at random moments and resumed ends with the bytes of one that was left in peace.
//!
//! `TITHE_KILLS` says how often (10 by default); `scripts/faults` does it 200 times.

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

/// How many rows the state counts.
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
    // Either the whole file again, or a producer that goes on where the state says.
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
fn killed_at_random_moments_every_row_counts_once() {
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
        // The last goes on in peace.
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
