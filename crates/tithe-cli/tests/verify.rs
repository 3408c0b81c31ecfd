//! `tithe verify`, `tithe certify` and `tithe build --kl` from end to end.

mod common;

use common::{CORE, Mixed, Scratch, read_core};
use serde_json::Value;

const ROWS: usize = 5_000;

/// A directory with data.csv, its coreset core.parquet and the posterior draws.parquet.
fn prepared(method: &str) -> Scratch {
    let scratch = Scratch::with_csv(Mixed::new(ROWS).csv());
    scratch.build(&format!("data.csv --label y --size 100 --method {method}"));
    scratch.succeed(&format!("fit {CORE} -o draws.parquet --quiet"));
    scratch
}

fn record(scratch: &Scratch, line: &str) -> Value {
    let out = scratch.succeed(&format!("{line} --json"));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[test]
fn a_posterior_is_verified_and_written_with_weights() {
    let scratch = prepared("calibrated");
    let found =
        record(&scratch, "verify draws.parquet --data data.csv --draws 200 --write corrected.parquet");
    assert!(number(&found["kl"]) < 0.05 && number(&found["efficiency"]) > 0.8, "{found}");
    assert_eq!((&found["draws"], &found["rows"]), (&200.into(), &ROWS.into()));
    assert_eq!(found["same_data"], true);
    for kind in ["drawn", "corrected"] {
        for name in ["intercept", "x1", "x2"] {
            let c = &found[kind][name];
            assert!(number(&c["q05"]) < number(&c["mean"]) && number(&c["mean"]) < number(&c["q95"]), "{c}");
        }
    }
    // The weighted draws of the file give the corrected mean.
    let file = read_core(&scratch.path("corrected.parquet"));
    let (weights, x1) = (file.floats("weight"), file.floats("x1"));
    assert_eq!(weights.len(), 200);
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let mean: f64 = weights.iter().zip(&x1).map(|(w, x)| w * x).sum();
    assert!((mean - number(&found["corrected"]["x1"]["mean"])).abs() < 1e-9);
    assert!(scratch.succeed("inspect corrected.parquet").contains("importance weights"));
    let refused = scratch.run("predict corrected.parquet data.csv -o out.csv");
    assert!(refused.err.contains("is a corrected posterior, not a posterior"), "{}", refused.err);

    let words = scratch.succeed("verify draws.parquet --data data.csv");
    assert!(
        words.contains("corrected to the full data") && words.contains("KL to the full data's posterior")
    );
}

#[test]
fn resampled_draws_follow_the_full_posterior() {
    let scratch = prepared("calibrated");
    scratch.succeed("verify draws.parquet --data data.csv --write new.parquet --resample");
    assert!(scratch.succeed("inspect new.parquet").contains("nuts"));
    assert!(!scratch.succeed("inspect new.parquet").contains("resampled from weighted draws"));
    let again = record(&scratch, "verify new.parquet --data data.csv");
    assert!(number(&again["kl"]) < 1e-12, "{again}");
    scratch.succeed("predict new.parquet data.csv -o out.csv");
}

#[test]
fn inaccurate_draws_are_not_resampled() {
    let scratch = prepared("uniform");
    let line = "verify draws.parquet --data data.csv --write new.parquet";
    let refused = scratch.run(&format!("{line} --resample"));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("too far from the full data's posterior to be resampled"),
        "{}",
        refused.err
    );
    assert!(!scratch.path("new.parquet").exists());
    // Their weights can be written.
    scratch.succeed(line);
}

#[test]
fn other_data_is_rejected_unless_forced() {
    let scratch = prepared("calibrated");
    let csv = Mixed::new(ROWS).csv();
    // The same rows in another order, in two files and another format, are the same data.
    let (head, body) = csv.split_once('\n').expect("a head");
    let mut lines: Vec<&str> = body.lines().collect();
    lines.reverse();
    let (first, second) = lines.split_at(1_234);
    scratch.write("parts/a.tsv", format!("{head}\n{}\n", first.join("\n")).replace(',', "\t"));
    scratch.write("parts/b.tsv", format!("{head}\n{}\n", second.join("\n")).replace(',', "\t"));
    assert_eq!(record(&scratch, "verify draws.parquet --data parts")["same_data"], true);
    assert_eq!(
        record(&scratch, &format!("certify {CORE} --data parts/a.tsv parts/b.tsv"))["same_data"],
        true
    );

    let mut changed = lines.clone();
    changed[77] = changed[78];
    scratch.write("other.csv", format!("{head}\n{}\n", changed.join("\n")));
    scratch.write("short.csv", format!("{head}\n{}\n", lines[1..].join("\n")));
    for (file, why) in [("other.csv", "its fingerprint is "), ("short.csv", "it has 4999 rows in use")] {
        for line in [format!("verify draws.parquet --data {file}"), format!("certify {CORE} --data {file}")] {
            let refused = scratch.run(&line);
            assert_eq!(refused.code, Some(1), "{line}");
            let start = format!("error: this is not the data that it was made from: {why}");
            assert!(refused.err.starts_with(&start) && refused.err.contains("--force"), "{}", refused.err);
            let forced = scratch.run(&format!("{line} --force"));
            assert_eq!(forced.code, Some(0), "{line}: {forced:?}");
            assert!(forced.err.starts_with("warning: this is not the data"), "{}", forced.err);
        }
    }
}

#[test]
fn a_uniform_coreset_has_a_certificate_too() {
    let scratch = prepared("uniform");
    let found = record(&scratch, &format!("certify {CORE} --data data.csv"));
    assert_eq!(found["method"], "uniform");
    let kl = number(&found["certificate"]["kl"]);
    assert!(kl > 1.0, "{found}");
    assert_eq!(found["certificate"]["verdict"], "too small");
    // The KL from the draws agrees, as far as the posterior is normal.
    let drawn = number(&record(&scratch, "verify draws.parquet --data data.csv")["kl"]);
    assert!((0.3..3.0).contains(&(drawn / kl)), "{drawn} and {kl}");
    let message = scratch.run(&format!("certify {CORE} --data data.csv"));
    assert!(
        message.out.contains("certificate: too small\n"),
        "no size is suggested for this method: {message:?}"
    );
    assert!(message.err.contains("calibrated coresets need far fewer rows"), "{message:?}");
}

#[test]
fn a_target_kl_determines_the_size() {
    let scratch = Scratch::with_csv(Mixed::new(ROWS).csv());
    let built = scratch.build("data.csv --label y --kl 0.001 --threads 1");
    assert!(number(&built["certificate"]["kl"]) <= 1e-3, "{built}");
    // Few rows are enough for a few coefficients; a larger KL takes fewer.
    assert!(number(&built["size"]) <= 60.0, "{built}");
    let near = scratch.build("data.csv --label y --kl 1e-6");
    assert!(
        number(&near["certificate"]["kl"]) <= 1e-6 && number(&near["size"]) > number(&built["size"]),
        "{near}"
    );
    // Few coefficients and a large target KL.
    for (features, kl) in [("x1", "0.5"), ("x1", "1e9"), ("x1,x2", "2")] {
        let few = scratch.build(&format!("data.csv --label y --features {features} --kl {kl}"));
        assert!(number(&few["certificate"]["kl"]) <= kl.parse().expect("a number"), "{few}");
    }
    scratch.build("data.csv --label y --kl 0.001");
    let bytes = scratch.read(CORE);
    for line in ["--threads 2 --memory 0", "--threads 5 --memory 50k"] {
        scratch.build(&format!("data.csv --label y --kl 0.001 {line}"));
        assert!(scratch.read(CORE) == bytes, "{line}");
    }
    scratch.write(CORE, "what was here before");
    let refused = scratch.run(&format!("build data.csv --label y --kl 1e-30 -o {CORE}"));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("was not reached: 2500 rows reach "), "{}", refused.err);
    assert_eq!(scratch.read(CORE), b"what was here before");
    for (line, message) in [
        ("--kl 0.1 --size 10", "cannot be used with"),
        ("--kl -1", "--kl must be positive"),
        (
            "--kl 0.1 --method uniform",
            "--kl needs a certificate, which only a calibrated coreset has\n  help: use --method calibrated",
        ),
    ] {
        let refused = scratch.run(&format!("build data.csv --label y {line} -o {CORE}"));
        assert_eq!(refused.code, Some(2), "{line}");
        assert!(refused.err.contains(message), "{line}: {}", refused.err);
    }
}

#[test]
fn the_search_for_epsilon_needs_a_coreset_with_a_ball() {
    let scratch = prepared("sensitivity");
    let line = "verify draws.parquet --data data.csv --epsilon-check";
    assert_eq!(scratch.run(line).code, Some(2));
    let found = record(&scratch, &format!("{line} --coreset {CORE}"));
    assert!(number(&found["epsilon_lower_bound"]) > 0.001, "{found}");
    // A coreset that would be ignored.
    let idle = scratch.run(&format!("verify draws.parquet --data data.csv --coreset {CORE}"));
    assert!(idle.code == Some(2) && idle.err.contains("--epsilon-check"), "{idle:?}");
    scratch.write("other.csv", Mixed::new(900).csv());
    scratch.succeed("build other.csv --label y --size 50 --method sensitivity -o other.parquet");
    let other = scratch.run(&format!("{line} --coreset other.parquet"));
    let message = "error: 'other.parquet' is not a coreset of the rows that the posterior was fitted to\n";
    assert!(other.code == Some(1) && other.err.starts_with(message), "{other:?}");
    let uniform = prepared("uniform");
    let refused = uniform.run(&format!("{line} --coreset {CORE}"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("built without one"), "{}", refused.err);
}

#[test]
fn inputs_are_not_overwritten() {
    let scratch = prepared("calibrated");
    for file in ["data.csv", "draws.parquet"] {
        let refused = scratch.run(&format!("verify draws.parquet --data data.csv --write {file}"));
        assert_eq!(refused.code, Some(1));
        assert!(refused.err.contains("is both input and output"), "{}", refused.err);
    }
}
