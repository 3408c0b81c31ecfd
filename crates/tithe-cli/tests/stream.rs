//! `tithe stream`: a stream of one block equals a build, stopping changes nothing, damage is reported, and invalid input is
//! rejected with its location.

mod common;

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::*;
use serde_json::Value;

const FEED: &str = "stream --label y --size 100 --block 1000 --state state";

fn rows_of(text: &str, rows: std::ops::Range<usize>) -> String {
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    let body: Vec<&str> = lines.skip(rows.start).take(rows.len()).collect();
    format!("{header}\n{}\n", body.join("\n"))
}

/// Feeds text to a stream, which must succeed, and returns the JSON record.
#[track_caller]
fn feed(scratch: &Scratch, line: &str, input: &str) -> Value {
    let outcome = scratch.run_with_input(&format!("{line} --json"), input.as_bytes());
    assert_eq!(outcome.code, Some(0), "{line}: {outcome:?}");
    serde_json::from_str(&outcome.out).expect("JSON")
}

#[track_caller]
fn snapshot(scratch: &Scratch, state: &str, output: &str) -> Vec<u8> {
    scratch.succeed(&format!("stream --state {state} --snapshot -o {output}"));
    scratch.read(output)
}

/// Feeds `input`, which must fail with this code and a message that starts with `message`.
#[track_caller]
fn refuses(scratch: &Scratch, line: &str, input: &str, code: i32, message: &str) -> String {
    let outcome = scratch.run_with_input(line, input.as_bytes());
    assert_eq!(outcome.code, Some(code), "{line}: {outcome:?}");
    // A note about saved rows comes first.
    let error =
        outcome.err.lines().skip_while(|line| line.starts_with("note: ")).collect::<Vec<_>>().join("\n");
    assert!(error.starts_with(&format!("error: {message}")), "{line}: {}", outcome.err);
    outcome.err
}

#[test]
fn a_stream_of_one_block_equals_a_build() {
    let text = Mixed::new(3_000).csv();
    let scratch = Scratch::with_csv(&text);
    for (at, method) in ["calibrated", "sensitivity", "uniform"].iter().enumerate() {
        scratch.succeed(&format!("build data.csv --label y --size 200 --seed 5 --method {method} -o {CORE}"));
        for (input, block) in [("", 3_000), ("", 50_000), ("data.csv", 3_000)] {
            let state = format!("state{at}-{block}-{}", input.len());
            let line = format!(
                "stream {input} --label y --size 200 --seed 5 --method {method} --block {block} --state {state}"
            );
            feed(&scratch, &format!("{line} -o end.parquet"), &text);
            assert_eq!(scratch.read("end.parquet"), scratch.read(CORE), "{line}");
            assert_eq!(snapshot(&scratch, &state, "snapshot.parquet"), scratch.read(CORE), "{line}");
        }
    }
}

/// Numbers that overflow when squared would give a state that cannot be read.
#[test]
fn overflowing_numbers_are_rejected() {
    let text = Mixed::new(1_000).csv();
    let scratch = Scratch::with_csv(&text);
    scratch.succeed(&format!("build data.csv --label y --size 100 -o {CORE}"));
    let huge = text.replacen('\n', "\n1e200,2,Bern,1\n", 1);
    for method in ["uniform", "sensitivity", "calibrated"] {
        let line = format!("{FEED} --encoding {CORE} --method {method}");
        refuses(&scratch, &line, &huge, 1, "column 'x1': has values too large to be squared");
    }
    // Also if there are too few rows to learn an encoding.
    let fresh = FEED.replace("state state", "state fresh");
    let some = rows_of(&huge, 0..500);
    refuses(&scratch, &fresh, &some, 1, "column 'x1': has values too large to be squared");
    let line = format!("{FEED} --encoding {CORE} --method uniform");
    feed(&scratch, &line, &text);
    assert_eq!(feed(&scratch, &line, &text)["rows"], 2_000);
}

#[test]
fn stopping_and_resuming_changes_nothing() {
    let text = Mixed::new(7_300).csv();
    let scratch = Scratch::with_csv(&text);
    let record = feed(&scratch, &format!("{FEED} --threads 1"), &text);
    assert_eq!((record["rows"].as_u64(), record["blocks"].as_u64()), (Some(7_300), Some(7)));
    assert_eq!((record["pending"].as_u64(), record["coresets"].as_u64()), (Some(300), Some(3)));
    let whole = snapshot(&scratch, "state", "whole.parquet");

    let pieces = FEED.replace("state state", "state pieces");
    let mut from = 0;
    for to in [1, 999, 1_000, 2_600, 2_601, 7_300] {
        let record = feed(&scratch, &pieces, &rows_of(&text, from..to));
        assert_eq!(record["rows"].as_u64(), Some(to as u64));
        from = to;
    }
    assert_eq!(snapshot(&scratch, "pieces", "pieces.parquet"), whole);

    // With --replay, rows already read are skipped.
    let again = FEED.replace("state state", "state again");
    feed(&scratch, &again, &rows_of(&text, 0..3_210));
    let record = feed(&scratch, &format!("{again} --replay"), &text);
    assert_eq!((record["rows"].as_u64(), record["new_rows"].as_u64()), (Some(7_300), Some(4_090)));
    assert_eq!(snapshot(&scratch, "again", "again.parquet"), whole);
    let file = read_core(&scratch.path("again.parquet"));
    assert_eq!(file.story["provenance"]["rows_read"].as_u64(), Some(7_300));
    assert!(file.rows("row").windows(2).all(|pair| pair[0] < pair[1]), "rows in the order of the stream");
    let kl = file.story["provenance"]["composition"]["kl"].as_f64().expect("an estimate");
    assert!(kl < 0.5, "{kl}");
}

#[test]
fn every_streamable_format_gives_the_same_coreset() {
    let table = Mixed::new(2_500);
    let scratch = Scratch::with_csv(table.csv());
    let line = |name: &str| FEED.replace("state state", &format!("state {name}"));
    feed(&scratch, &line("csv"), &table.csv());
    let expected = read_core(&{
        snapshot(&scratch, "csv", "csv.parquet");
        scratch.path("csv.parquet")
    });
    let mut ndjson = String::new();
    for row in 0..2_500 {
        ndjson += &format!(
            "{{\"x1\":{:?},\"x2\":{:?},\"city\":\"{}\",\"y\":{}.0}}\n",
            table.x[0][row], table.x[1][row], table.city[row], table.y[row]
        );
    }
    let zipped = zstd::stream::encode_all(table.csv().as_bytes(), 1).expect("packed");
    let arrow = stream_bytes(&table.batch(false), 333);
    let parquet = parquet_bytes(&table.batch(false), 700);
    let inputs: [(&str, &[u8]); 4] =
        [("ndjson", ndjson.as_bytes()), ("zstd", &zipped), ("arrow", &arrow), ("parquet", &parquet)];
    for (name, bytes) in inputs {
        let features = if name == "ndjson" { "--features x1,x2,city" } else { "" };
        let outcome = scratch.run_with_input(&format!("{} {features}", line(name)), bytes);
        assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
        snapshot(&scratch, name, "other.parquet");
        let found = read_core(&scratch.path("other.parquet"));
        assert_eq!(found.rows("row"), expected.rows("row"), "{name}");
        assert_eq!(found.floats("weight"), expected.floats("weight"), "{name}");
        assert_eq!(found.words("city"), expected.words("city"), "{name}");
    }
    let mut libsvm = String::new();
    for row in 0..2_500 {
        libsvm += &format!("{} 1:{} 2:{}\n", table.y[row], table.x[0][row], table.x[1][row]);
    }
    let record = feed(&scratch, "stream --size 100 --block 1000 --state libsvm", &libsvm);
    assert_eq!(record["rows"].as_u64(), Some(2_500));
}

/// A change to the bytes of a file.
type Damage = fn(&mut Vec<u8>);

#[test]
fn a_damaged_state_is_rejected_and_can_be_repaired() {
    let text = Mixed::new(6_000).csv();
    let scratch = Scratch::with_csv(&text);
    // One save per feed: after 1, 2, … blocks.
    for block in 0..6 {
        feed(&scratch, FEED, &rows_of(&text, block * 1_000..(block + 1) * 1_000));
    }
    let whole = snapshot(&scratch, "state", "whole.parquet");
    let levels: Vec<String> =
        names_in(&scratch.path("state")).into_iter().filter(|name| name.starts_with("level-")).collect();
    let newest = "level-01-000000000006.parquet";
    let oldest = "level-02-000000000004.parquet";
    assert!(
        levels.iter().any(|name| name == newest) && levels.iter().any(|name| name == oldest),
        "{levels:?}"
    );
    let flip: Damage = |bytes| bytes[700] ^= 4;
    let cut: Damage = |bytes| bytes.truncate(1_000);
    let flip_early: Damage = |bytes| bytes[70] ^= 4;
    let cases: [(&str, Damage, u64); 5] = [
        (newest, flip, 5_000),
        (newest, cut, 5_000),
        (oldest, flip, 3_000),
        ("remainder-000000000006.bin", flip_early, 5_000),
        ("manifest.json", flip, 6_000),
    ];
    for (file, damage, kept) in cases {
        let state = scratch.path("copy");
        let _ = std::fs::remove_dir_all(&state);
        std::fs::create_dir(&state).expect("a directory");
        for name in names_in(&scratch.path("state")) {
            std::fs::copy(scratch.path("state").join(&name), state.join(&name)).expect("a copy");
        }
        let mut bytes = scratch.read(&format!("copy/{file}"));
        damage(&mut bytes);
        scratch.write(&format!("copy/{file}"), &bytes);
        let before: Vec<(String, Vec<u8>)> = names_in(&state)
            .into_iter()
            .map(|name| (name.clone(), std::fs::read(state.join(name)).expect("read")))
            .collect();
        let line = FEED.replace("state state", "state copy");
        let message = format!("'copy/{file}' is damaged");
        let shown = refuses(&scratch, &line, &text, 1, &message);
        assert!(shown.contains("--repair"), "{shown}");
        refuses(&scratch, "stream --state copy --snapshot -o never.parquet", "", 1, &message);
        for (name, bytes) in &before {
            assert!(
                std::fs::read(state.join(name)).expect("read") == *bytes,
                "{file}: {name} was overwritten"
            );
        }
        let out = scratch.succeed("stream --state copy --repair --json");
        let record: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(record["rows"].as_u64(), Some(kept), "{file}");
        assert_eq!(record["rows_to_feed_again"].as_u64(), Some(6_000 - kept), "{file}");
        let record = feed(&scratch, &format!("{line} --replay"), &text);
        assert_eq!(record["new_rows"].as_u64(), Some(6_000 - kept));
        assert_eq!(snapshot(&scratch, "copy", "repaired.parquet"), whole, "{file}");
    }
    // Repairing an undamaged state loses no rows.
    let out = scratch.succeed("stream --state state --repair");
    assert!(out.contains("6,000 rows restored; no rows were lost"), "{out}");
}

#[test]
fn a_state_of_a_newer_version_is_rejected() {
    let text = Mixed::new(1_500).csv();
    let scratch = Scratch::with_csv(&text);
    feed(&scratch, FEED, &text);
    let manifest = String::from_utf8(scratch.read("state/manifest.json")).expect("text");
    scratch.write("state/manifest.json", manifest.replace("\"version\":2", "\"version\":3"));
    let message = "'state/manifest.json' has format version 3; this program reads versions up to 2";
    refuses(&scratch, FEED, &text, 1, message);
    refuses(&scratch, "stream --state state --repair", "", 1, message);
}

#[test]
fn different_settings_are_rejected_with_the_difference() {
    let text = Mixed::new(1_500).csv();
    let scratch = Scratch::with_csv(&text);
    feed(&scratch, FEED, &text);
    let other = FEED.replace("--size 100", "--size 200 --seed 9");
    let message = "the state in 'state' was made with other settings: seed is 0 in the state and 9 now; size is 100 rows in the state and 200 rows now";
    refuses(&scratch, &other, &text, 1, message);
    let other = FEED.replace("--label y", "--label city");
    refuses(&scratch, &other, &text, 2, "--label is 'city', but the stream has the label 'y'");
    scratch.write("full/notes.txt", "mine");
    refuses(
        &scratch,
        &FEED.replace("state state", "state full"),
        &text,
        1,
        "the state in 'full' is not the state of a stream: it contains 'notes.txt'",
    );
}

#[test]
fn replayed_rows_must_be_the_same() {
    let text = Mixed::new(2_500).csv();
    let scratch = Scratch::with_csv(&text);
    feed(&scratch, FEED, &text);
    let replay = format!("{FEED} --replay");
    let other = text.replacen("Basel", "Bern", 1);
    refuses(
        &scratch,
        &replay,
        &other,
        1,
        "the state in 'state' does not belong to the rows fed again: the first 2500 rows",
    );
    refuses(
        &scratch,
        &replay,
        &rows_of(&text, 0..2_000),
        1,
        "the state in 'state' contains 500 more rows than were fed again",
    );
    // The state is unchanged.
    let record = feed(&scratch, &replay, &text);
    assert_eq!((record["rows"].as_u64(), record["new_rows"].as_u64()), (Some(2_500), Some(0)));
}

#[test]
fn malformed_rows_are_reported_with_their_number_or_skipped() {
    let text = Mixed::new(12_500).csv();
    let scratch = Scratch::with_csv(&text);
    let mut lines: Vec<&str> = text.lines().collect();
    lines[12_001] = "1.5,abc,Basel,1";
    let broken = lines.join("\n");
    let message = refuses(
        &scratch,
        FEED,
        &broken,
        1,
        "'standard input', row 12001, column 'x2': 'abc' is not a number",
    );
    assert!(message.contains("help:"), "{message}");
    assert!(
        message.contains(" rows were saved before the error; to feed the same input again, add --replay\n"),
        "{message}"
    );
    // The rows before it are saved, and the stream can be resumed.
    let manifest: Value = serde_json::from_slice(&scratch.read("state/manifest.json")).expect("JSON");
    let rows = manifest["manifest"]["rows"].as_u64().expect("rows");
    assert!((1_000..=12_000).contains(&rows), "{rows}");

    lines[5_001] = "1.5,2.5,Basel";
    lines.push("3.5,2");
    let broken = lines.join("\n");
    let skip = |most: usize| FEED.replace("state state", &format!("state skip{most} --skip-bad {most}"));
    let outcome = scratch.run_with_input(&skip(3), broken.as_bytes());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(
        outcome.err.contains("warning: skipped: 'standard input', row 5001: has 3 fields"),
        "{}",
        outcome.err
    );
    assert!(outcome.err.contains("row 12001, column 'x2'"), "{}", outcome.err);
    assert!(outcome.err.contains("row 12501: has 2 fields"), "{}", outcome.err);
    assert!(
        outcome.out.contains(": 12,498 rows (")
            && outcome.out.contains("3 rows were skipped because of parse errors"),
        "{}",
        outcome.out
    );
    let outcome = scratch.run_with_input(&skip(2), broken.as_bytes());
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.err.contains("error: 'standard input', row 12501: has 2 fields"), "{}", outcome.err);
    // One bad row too many is an error at that row, whatever the chunks.
    let ends = scratch.run_with_input(&skip(1), b"x1,x2,city,y\n1,2,Bern,0\n2,3,Basel,1\n2,3,Basel");
    assert_eq!(ends.code, Some(0), "{ends:?}");
}

/// Unusable rows are rejected on arrival, not when their block is complete; the rows before them are kept.
#[test]
fn unusable_rows_are_rejected_on_arrival() {
    let text = Mixed::new(5_300).csv();
    for (row, what, message) in [
        ("inf,1,Basel,1", "infinite", "'x1' (1 infinite, the first in row 5291)"),
        ("1,1,Basel,7", "label", "the label has the value '7' in row 5291, but the encoding has '0' and '1'"),
        ("1,1,Chur,1", "level", "the level 'Chur' in row 5291"),
    ] {
        let mut lines: Vec<&str> = text.lines().collect();
        lines[5_291] = row;
        let scratch = Scratch::new();
        scratch.write("first.csv", lines[..5_201].join("\n"));
        scratch.write("rest.csv", [&lines[..1], &lines[5_201..]].concat().join("\n"));
        let line = FEED.replace("stream", "stream FILE");
        let outcome = scratch.run(&line.replace("FILE", "first.csv"));
        assert_eq!(outcome.code, Some(0), "{what}: {outcome:?}");
        let outcome = scratch.run(&line.replace("FILE", "rest.csv"));
        assert_eq!(outcome.code, Some(1), "{what}: {outcome:?}");
        assert!(outcome.err.contains(message), "{what}: {}", outcome.err);
        let whole = scratch.succeed("stream --state state --snapshot -o core.parquet --json");
        let record: Value = serde_json::from_str(&whole).expect("JSON");
        assert_eq!(record["rows"].as_u64(), Some(5_200), "{what}");
    }
    // Dropped rows do not affect the classes.
    let scratch = Scratch::with_csv("x1,x2,city,y\n1,2,Basel,0\n2,1,Basel,1\n,1,Basel,2\n");
    let line = FEED.replace("stream", "stream data.csv --missing drop");
    for (rows, dropped) in [("3 rows (3 new)", "1 row was"), ("6 rows (3 new)", "2 rows were")] {
        let outcome = scratch.run(&line);
        assert!(outcome.code == Some(0) && outcome.out.contains(rows), "{outcome:?}");
        assert!(
            outcome.out.contains(&format!("\n  {dropped} dropped because of missing values\n")),
            "{outcome:?}"
        );
    }
    // Before an encoding is learnt, rows cannot be checked against it.
    let scratch = Scratch::with_csv("x1,x2,city,y\n1,2,Basel,0\n2,1,Basel,1\n2,1,Basel,2\n");
    let outcome = scratch.run(&FEED.replace("stream", "stream data.csv"));
    assert!(outcome.err.contains("error: column 'y': row 3 has the label 2, a third class"), "{outcome:?}");
}

#[test]
fn different_columns_are_rejected() {
    let scratch = Scratch::with_csv(Mixed::new(1_500).csv());
    let line = FEED.replace("stream", "stream data.csv");
    assert_eq!(scratch.run(&line).code, Some(0));
    for (columns, message) in [
        ("--exclude x2", "has the feature 'x2', which is now excluded"),
        ("--features x1,city", "has the features x1, x2, city, and now x1, city"),
        ("--features x1,x2,city,z", "has the features x1, x2, city, and now x1, x2, city, z"),
        ("--weight x2", "has no weight, and now the weight 'x2'"),
    ] {
        let outcome = scratch.run(&format!("{line} {columns}"));
        assert_eq!(outcome.code, Some(1), "{columns}: {outcome:?}");
        assert!(outcome.err.contains(message), "{}", outcome.err);
    }
    for columns in ["--features x1,x2,city", "--exclude id", "--features city,x2,x1,id --exclude id"] {
        let outcome = scratch.run(&format!("{line} {columns}"));
        assert_eq!(outcome.code, Some(0), "{columns}: {outcome:?}");
    }
    let message = scratch.run("inspect state").err;
    assert!(
        message.starts_with("error: 'state' is the state of a stream\n  help: write a coreset with"),
        "{message}"
    );
}

#[test]
fn a_stream_with_too_few_or_no_rows() {
    let scratch = Scratch::new();
    refuses(&scratch, FEED, "", 1, "'standard input' is empty");
    refuses(&scratch, FEED, "x1,x2,city,y\n", 1, "the stream is empty");
    refuses(
        &scratch,
        "stream --state state --snapshot -o never.parquet",
        "",
        1,
        "the state in 'state' has no rows yet",
    );
    let mut text = Mixed::new(1_200).csv();
    text.truncate(text.len() - 9);
    refuses(&scratch, FEED, &text, 1, "'standard input', row 1200: has");
    refuses(&scratch, "stream --state state --snapshot", "", 2, "the following required arguments");
    // The settings of a state are fixed, so flags for them are rejected.
    for flag in ["--label y", "--size 10", "--method uniform", "--missing drop", "--block 10", "--seed 3"] {
        let line = format!("stream --state state --snapshot -o never.parquet {flag}");
        refuses(&scratch, &line, "", 2, "the argument '--snapshot' cannot be used with");
    }
    assert!(!scratch.path("never.parquet").exists());
}

#[test]
fn levels_and_drift() {
    let table = Mixed::new(4_000);
    let scratch = Scratch::new();
    let mut lines: Vec<String> = table.csv().lines().map(str::to_string).collect();
    for line in &mut lines[3_001..] {
        let (first, rest) = line.split_once(',').expect("fields");
        let far: f64 = first.parse::<f64>().expect("a number") + 1_000.0;
        *line = format!("{far},{rest}");
    }
    let drifting = lines.join("\n");
    let outcome = scratch.run_with_input(FEED, drifting.as_bytes());
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.err.matches("column 'x1' has drifted").count(), 1, "{}", outcome.err);
    assert!(outcome.err.contains("in block 4, and was") && outcome.err.contains("(sd "), "{}", outcome.err);
    // It is reported only once, even by another process.
    let outcome = scratch.run_with_input(FEED, rows_of(&drifting, 3_000..4_000).as_bytes());
    assert!(!outcome.err.contains("drifted"), "{}", outcome.err);

    let unseen = table.csv().replace("Genf", "Bern") + "1,2,Chur,0\n";
    let line = FEED.replace("state state", "state levels");
    feed(&scratch, &line, &unseen.replace("1,2,Chur,0\n", ""));
    let more = "x1,x2,city,y\n".to_string()
        + &"1,2,Bern,0\n".repeat(500)
        + "1,2,Chur,0\n"
        + &"3,2,Bern,1\n".repeat(499);
    refuses(&scratch, &line, &more, 1, "column 'city': the level 'Chur' in row 4501 did not occur");
    // The remedy in the message works, also for the following rows.
    feed(&scratch, &format!("{line} --unseen reference"), &more);
    for _ in 0..3 {
        feed(&scratch, &line, &more);
    }
    snapshot(&scratch, "levels", CORE);
    let line = format!("{} --unseen reference", FEED.replace("state state", "state reference"));
    let record = feed(&scratch, &line, &(unseen.clone() + &more[13..]));
    assert_eq!(record["rows"].as_u64(), Some(5_001));
    snapshot(&scratch, "reference", CORE);
    let story = read_core(&scratch.path(CORE)).story;
    assert_eq!(story["encoding"]["unseen"], "reference");
    scratch.succeed(&format!("fit {CORE} --sampler laplace -o posterior.parquet"));
}

#[test]
fn an_encoding_can_be_given_or_learnt_from_more_rows() {
    let table = Mixed::new(3_000);
    let scratch = Scratch::with_csv(table.csv());
    scratch.succeed(&format!("build data.csv --label y --size 100 -o {CORE}"));
    let line = format!("{} --encoding {CORE}", FEED.replace("--label y ", ""));
    feed(&scratch, &line, &table.csv());
    snapshot(&scratch, "state", "given.parquet");
    let encoding = |name: &str| read_core(&scratch.path(name)).story["encoding"].clone();
    assert_eq!(encoding("given.parquet"), encoding(CORE));
    // It is the same if learnt from all rows, and different if learnt from the first block.
    for (state, warmup, same) in
        [("warm", "--warmup-rows 3000", true), ("cold", "", false), ("half", "--warmup-rows 500", false)]
    {
        let line = format!("{} {warmup}", FEED.replace("state state", &format!("state {state}")));
        let record = feed(&scratch, &line, &table.csv());
        assert_eq!(record["blocks"].as_u64(), Some(3), "{state}");
        snapshot(&scratch, state, "learnt.parquet");
        assert_eq!(encoding("learnt.parquet") == encoding(CORE), same, "{state}");
    }
    // With too few rows for the warm-up, a snapshot uses the rows there are.
    let line = format!("{} --warmup-rows 9000", FEED.replace("state state", "state early"));
    feed(&scratch, &line, &table.csv());
    snapshot(&scratch, "early", "early.parquet");
    assert_eq!(encoding("early.parquet"), encoding(CORE));
}

fn start(scratch: &Scratch, line: &str) -> Child {
    std::process::Command::new(TITHE)
        .current_dir(scratch.dir())
        .args(line.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Waits until the state contains this many rows.
#[track_caller]
fn wait_for(scratch: &Scratch, state: &str, rows: u64) {
    let start = Instant::now();
    loop {
        let text = std::fs::read(scratch.path(&format!("{state}/manifest.json"))).unwrap_or_default();
        let manifest: Value = serde_json::from_slice(&text).unwrap_or_default();
        if manifest["manifest"]["rows"].as_u64() == Some(rows) {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{manifest}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn interrupt(child: Child) -> (Option<i32>, String) {
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Rows of a slow source are saved even if they do not fill a block.
#[test]
fn rows_of_a_slow_source_are_saved_soon() {
    let scratch = Scratch::new();
    let mut child = start(&scratch, "stream --label y --size 100 --state state -o end.parquet");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(Mixed::new(300).csv().as_bytes()).expect("fed");
    input.flush().expect("fed");
    wait_for(&scratch, "state", 300);
    snapshot(&scratch, "state", "now.parquet");
    let (code, said) = interrupt(child);
    assert_eq!(code, Some(1), "{said}");
    let message = "error: stopped before the end; the rows read are saved, but 'end.parquet' was not written; \
                to resume, run the same command with the rows that follow, or add --replay to feed all rows again\n";
    assert!(said.contains("300 rows (300 new)") && said.ends_with(message), "{said}");
    assert!(!scratch.path("end.parquet").exists());
    drop(input);
}

#[test]
fn a_running_stream_allows_snapshots_but_only_one_writer() {
    let text = Mixed::new(1_400).csv();
    let scratch = Scratch::with_csv(&text);
    let mut child = start(&scratch, FEED);
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("fed");
    input.flush().expect("fed");
    // Rows of an incomplete block are visible soon, too.
    wait_for(&scratch, "state", 1_400);
    snapshot(&scratch, "state", CORE);
    assert_eq!(read_core(&scratch.path(CORE)).story["provenance"]["rows"].as_u64(), Some(1_400));
    refuses(&scratch, FEED, &text, 1, "the state in 'state' is being written by another stream");
    input.write_all(b"1,2,Bern,0\n").expect("fed");
    let (code, out) = interrupt(child);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("stopped; to resume, run the same command with the rows that follow"), "{out}");
    drop(input);
}

#[test]
fn a_growing_file_is_followed() {
    let text = Mixed::new(2_500).csv();
    let scratch = Scratch::new();
    scratch.write("log.csv", rows_of(&text, 0..1_300));
    let line = format!("{FEED} --follow log.csv");
    let child = start(&scratch, &line);
    wait_for(&scratch, "state", 1_300);
    let (code, _) = interrupt(child);
    assert_eq!(code, Some(0));
    // The file grows while no process reads it and while one does; no row counts twice.
    scratch.write("log.csv", rows_of(&text, 0..2_000));
    let child = start(&scratch, &line);
    wait_for(&scratch, "state", 2_000);
    let mut file = std::fs::File::options().append(true).open(scratch.path("log.csv")).expect("a file");
    let rest = rows_of(&text, 2_000..2_500);
    file.write_all(rest.split_once('\n').expect("a header").1.as_bytes()).expect("written");
    file.write_all(b"1,2,Be").expect("a row that is not complete yet");
    wait_for(&scratch, "state", 2_500);
    assert_eq!(interrupt(child).0, Some(0));
    // When it is stopped, the coreset is written.
    let child = start(&scratch, &format!("{line} -o followed.parquet"));
    std::thread::sleep(std::time::Duration::from_millis(2000));
    assert_eq!(interrupt(child).0, Some(0));
    feed(&scratch, &FEED.replace("state state", "state whole"), &text);
    assert!(scratch.read("followed.parquet") == snapshot(&scratch, "whole", "c.parquet"));
    assert_eq!(snapshot(&scratch, "state", "a.parquet"), snapshot(&scratch, "whole", "b.parquet"));
}

#[test]
fn a_directory_is_watched_and_each_part_counts_once() {
    let text = Mixed::new(2_700).csv();
    let scratch = Scratch::new();
    scratch.write("parts/a.csv", rows_of(&text, 0..700));
    scratch.write("parts/.hidden.csv", "nonsense");
    let line = format!("{FEED} --watch parts");
    let child = start(&scratch, &line);
    wait_for(&scratch, "state", 700);
    scratch.write("parts/b.csv.tmp", rows_of(&text, 700..1_900));
    std::fs::rename(scratch.path("parts/b.csv.tmp"), scratch.path("parts/b.csv")).expect("renamed");
    wait_for(&scratch, "state", 1_900);
    assert_eq!(interrupt(child).0, Some(0));
    scratch.write("parts/c.csv", rows_of(&text, 1_900..2_700));
    let child = start(&scratch, &line);
    wait_for(&scratch, "state", 2_700);
    assert_eq!(interrupt(child).0, Some(0));
    feed(&scratch, &FEED.replace("state state", "state whole"), &text);
    assert_eq!(snapshot(&scratch, "state", "a.parquet"), snapshot(&scratch, "whole", "b.parquet"));
}

#[test]
fn a_stream_has_the_guarantee_that_the_user_asked_for() {
    let scratch = Scratch::new();
    let mut text = "a,b,y\n".to_string();
    for row in 0..6_000 {
        text += &format!(
            "{},{},{}\n",
            1.0 + 0.1 * noise(row, 0),
            0.3 * noise(row, 1),
            u8::from(noise(row, 2) < 0.4)
        );
    }
    let line = "stream --label y --no-standardize --no-intercept --epsilon 0.5 --delta 0.1 --radius 0.5 --block 2000 --state state";
    feed(&scratch, line, &text);
    snapshot(&scratch, "state", CORE);
    let story = read_core(&scratch.path(CORE)).story;
    let bound = &story["provenance"]["composition"]["bound"];
    let epsilon = bound["epsilon"].as_f64().expect("a bound");
    assert!(epsilon > 0.0 && epsilon <= 0.5, "{bound}");
    assert!(bound["delta"].as_f64().expect("a probability") <= 0.1, "{bound}");
    assert_eq!(bound["radius"].as_f64(), Some(0.5));
    let out = scratch.succeed(&format!("inspect {CORE}"));
    assert!(out.contains("composed bound: relative error of the log-likelihood at most"), "{out}");
}

#[test]
fn a_full_disk_leaves_a_valid_state() {
    let text = Mixed::new(40_000).csv();
    let scratch = Scratch::with_csv(&text);
    let Some(disk) = SmallDisk::mount(scratch.path("disk"), "96k") else {
        eprintln!("SKIPPED: a_full_disk_leaves_the_state_good needs the right to mount a file system");
        return;
    };
    let line = "stream --label y --size 600 --block 1500 --state disk/state";
    let outcome = scratch.run_with_input(line, text.as_bytes());
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.err.contains("No space left on device"), "{}", outcome.err);
    // The saved state is valid and can be resumed elsewhere.
    let names: Vec<String> = names_in(&scratch.path("disk/state"));
    assert!(!names.iter().any(|name| name.starts_with(".tithe-")), "{names:?}");
    std::fs::create_dir(scratch.path("state")).expect("a directory");
    for name in &names {
        std::fs::copy(disk.path().join("state").join(name), scratch.path("state").join(name))
            .expect("a copy");
    }
    let line = line.replace("disk/state", "state");
    let record = feed(&scratch, &format!("{line} --replay"), &text);
    assert_eq!(record["rows"].as_u64(), Some(40_000));
    feed(&scratch, &line.replace("--state state", "--state whole"), &text);
    assert_eq!(snapshot(&scratch, "state", "a.parquet"), snapshot(&scratch, "whole", "b.parquet"));
}
