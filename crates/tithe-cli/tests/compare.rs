//! `tithe compare` from end to end.

mod common;

use common::{CORE, Mixed, Scratch};
use serde_json::Value;

const ROWS: usize = 5_000;

/// A directory with data.csv and three posteriors: of a calibrated coreset, of a uniform one, and of all rows.
fn prepared() -> Scratch {
    let scratch = Scratch::with_csv(Mixed::new(ROWS).csv());
    for method in ["calibrated", "uniform"] {
        scratch.build(&format!("data.csv --label y --size 100 --method {method}"));
        scratch.succeed(&format!("fit {CORE} -o {method}.parquet --quiet"));
    }
    scratch.succeed("fit data.csv --label y -o truth.parquet --quiet");
    scratch
}

fn record(scratch: &Scratch, line: &str) -> Value {
    let out = scratch.succeed(&format!("compare {line} --json"));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

#[test]
fn posteriors_are_distinguished() {
    let scratch = prepared();
    let good = record(&scratch, "calibrated.parquet truth.parquet --test data.csv");
    let piped = scratch.run_with_input(
        "compare calibrated.parquet truth.parquet --test - --json",
        &scratch.read("data.csv"),
    );
    let piped: Value = serde_json::from_str(&piped.out).unwrap_or_else(|_| panic!("{piped:?}"));
    assert_eq!(piped["test"], good["test"]);
    let poor = record(&scratch, "uniform.parquet truth.parquet --test data.csv");
    let same = record(&scratch, "truth.parquet truth.parquet");
    assert_eq!((number(&same["mmd_squared"]), number(&same["kl"])), (0.0, 0.0));
    for figure in ["mmd_squared", "kl", "largest_shift"] {
        assert!(10.0 * number(&good[figure]) < number(&poor[figure]), "{figure}: {good} {poor}");
    }
    assert!(number(&good["mmd_squared"]) < 10.0 * number(&good["noise_floor"]), "{good}");
    let score = |found: &Value, who: &str, figure: &str| number(&found["test"][who][figure]);
    for figure in ["negative_log_likelihood", "log_score", "brier"] {
        let (own, reference) = (score(&good, "posterior", figure), score(&good, "reference", figure));
        assert!((own - reference).abs() < 1e-2 * reference, "{figure}: {good}");
        assert_eq!(reference, score(&poor, "reference", figure));
        assert!(score(&poor, "posterior", figure) > reference, "{figure}: {poor}");
    }
    let other = record(&scratch, "uniform.parquet truth.parquet --kernel gaussian:0.5");
    assert_eq!(other["kernel"], "gaussian:0.5");
    assert!(
        number(&other["mmd_squared"]) > number(&other["noise_floor"]) && number(&other["mmd_squared"]) <= 2.0
    );

    let words = scratch.succeed("compare uniform.parquet truth.parquet --test data.csv --plot pair.svg");
    assert!(words.contains("Brier score") && words.contains("error (sd)"), "{words}");
    assert!(scratch.read("pair.svg").starts_with(b"<svg"));
    scratch.succeed("compare uniform.parquet truth.parquet --plot pair.png");
    assert!(scratch.read("pair.png").starts_with(b"\x89PNG"));
}

#[test]
fn incomparable_posteriors_are_rejected() {
    let scratch = prepared();
    scratch.succeed("fit data.csv --label y --exclude x2 -o fewer.parquet --quiet");
    scratch.write("hole.csv", "x1,x2,city,y\n1,2,Basel,0\n1,,Basel,1\n");
    scratch.write("third.csv", "x1,x2,city,y\n1,2,Basel,0\n1,3,Basel,5\n");
    for (line, code, message) in [
        ("fewer.parquet truth.parquet", 1, "column 'x2'"),
        ("truth.parquet fewer.parquet", 1, "column 'x2'"),
        ("truth.parquet core.parquet", 1, "core.parquet"),
        (
            "truth.parquet truth.parquet --test hole.csv",
            1,
            "column 'x2': the value in row 2 of the test data is missing",
        ),
        ("truth.parquet truth.parquet --test third.csv", 1, "row 2 has the label '5'"),
        ("truth.parquet truth.parquet --plot pair.gif", 1, ".svg or .png"),
        ("truth.parquet truth.parquet --kernel cubic", 2, "gaussian:SCALE"),
        ("truth.parquet truth.parquet --draws 0 --test data.csv", 2, "--draws"),
    ] {
        let outcome = scratch.run(&format!("compare {line}"));
        assert_eq!(outcome.code, Some(code), "{line}: {outcome:?}");
        assert!(outcome.err.contains(message), "{line}: {outcome:?}");
    }
}
