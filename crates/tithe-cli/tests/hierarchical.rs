//! Formulas with group terms, from the data to predictions.

mod common;

use assert_cmd::Command;
use common::{Scratch, TITHE, noise};
use serde_json::Value;

/// Rows of 30 stores, numbered from 100, with an effect of x that varies little and a level that varies much.
fn table(rows: std::ops::Range<usize>) -> String {
    let mut text = "x,store,month,bought\n".to_string();
    for row in rows {
        // Store 100 has many rows, store 129 few.
        let store = (noise(row, 1).powi(2) * 30.0) as usize;
        let x = noise(row, 0) * 40.0 + 20.0;
        let level = 2.5 * noise(store, 7) - 1.25;
        let slope = 0.05 + 0.03 * (noise(store, 8) - 0.5);
        let chance = 1.0 / (1.0 + (-(level + slope * (x - 40.0))).exp());
        let bought = u8::from(noise(row, 2) < chance);
        text += &format!("{x},{},m{},{bought}\n", store + 100, row % 4);
    }
    text
}

/// Runs a command with a formula, which has spaces.
fn with_formula(scratch: &Scratch, formula: &str, rest: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(TITHE);
    command.current_dir(scratch.dir()).args(rest.split_whitespace()).args(["--formula", formula]);
    let output = command.output().expect("the program runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const FIT: &str = "fit data.csv --chains 2 --draws 200 --warmup 200";

#[test]
fn a_formula_with_a_group_term_goes_from_data_to_predictions() {
    let scratch = Scratch::with_csv(table(0..3_000));
    let formula = "bought ~ x + (1 + x | store)";
    let (code, out, err) = with_formula(&scratch, formula, &format!("{FIT} -o post.parquet"));
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("sd(1|store)") && out.contains("cor(1,x|store)"), "{out}");
    assert!(out.contains("store: 30 groups (sd half-student:3:2.5"), "{out}");

    let record = json(&scratch.succeed("groups post.parquet --term 1|store --sort mean --top 3 --json"));
    let effects = record["effects"].as_array().expect("effects");
    assert_eq!(effects.len(), 3);
    assert!(effects[0]["mean"].as_f64() >= effects[1]["mean"].as_f64(), "{effects:?}");
    let all = scratch.succeed("groups post.parquet");
    assert!(all.contains("1|store[100]") && all.contains("x|store[129]"), "{all}");

    // Predictions for known groups follow the group; those for new groups are less certain.
    scratch.write("new.csv", "x,store\n40,100\n40,999\n40,\n");
    let outcome = scratch.run("predict post.parquet new.csv -o out.csv");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.err.contains("'999' did not occur"), "{}", outcome.err);
    scratch.succeed("predict post.parquet new.csv -o out.csv --unseen reference");
    let text = String::from_utf8(scratch.read("out.csv")).expect("UTF-8");
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').skip(2).filter_map(|word| word.parse().ok()).collect())
        .collect();
    let expected = 1.0 / (1.0 + (-(2.5 * noise(0, 7) - 1.25)).exp());
    assert!((rows[0][0] - expected).abs() < 0.15, "{rows:?} {expected}");
    assert!(rows[1][1] > 2.0 * rows[0][1], "{rows:?}");
    assert!(rows[2].is_empty(), "{rows:?}");

    // The draws of all rows agree with all rows.
    let record = json(&scratch.succeed("verify post.parquet --data data.csv --json"));
    assert!(record["kl"].as_f64().is_some_and(|kl| kl < 1e-9), "{record}");
    // The same seed gives the same bytes.
    let (_, _, _) = with_formula(&scratch, formula, &format!("{FIT} -o again.parquet"));
    assert_eq!(scratch.read("post.parquet"), scratch.read("again.parquet"));
}

#[test]
fn a_coreset_is_fitted_as_well() {
    let scratch = Scratch::with_csv(table(0..8_000));
    let formula = "bought ~ x + (1 | store)";
    let (code, out, err) = with_formula(&scratch, formula, "build data.csv --kl 0.05 -o core.parquet");
    assert_eq!(code, Some(0), "{out}{err}");
    let out = scratch.succeed("fit core.parquet --chains 2 --draws 300 --warmup 200 -o post.parquet --json");
    let by_coreset = json(&out);
    let (_, out, _) =
        with_formula(&scratch, formula, "fit data.csv --whole --chains 2 --draws 300 --warmup 200 --json");
    let whole = json(&out);
    // The KL is below 0.05, so a mean is wrong by less than √(2·0.05) sd; the draws add about 0.1.
    for key in ["summary", "scales"] {
        for (a, b) in by_coreset[key].as_array().unwrap().iter().zip(whole[key].as_array().unwrap()) {
            let [mean, other, sd] = [&a["mean"], &b["mean"], &b["sd"]].map(|x| x.as_f64().unwrap());
            assert!((mean - other).abs() < 0.5 * sd, "{a} {b}");
        }
    }
    let verified = json(&scratch.succeed("verify post.parquet --data data.csv --json"));
    assert!(verified["kl"].as_f64().is_some_and(|kl| kl < 0.2), "{verified}");
}

#[test]
fn two_factors_and_effects_without_correlation_are_fitted() {
    let scratch = Scratch::with_csv(table(0..1_500));
    let formula = "bought ~ x + (x || store) + (1 | month)";
    let (code, out, err) =
        with_formula(&scratch, formula, &format!("{FIT} --whole --group-prior half-normal:1"));
    assert_eq!(code, Some(0), "{out}{err}");
    for name in ["sd(1|store)", "sd(x|store)", "sd(1|month)", "half-normal:1"] {
        assert!(out.contains(name), "{name}: {out}");
    }
    assert!(!out.contains("cor("), "{out}");
}

#[test]
fn only_an_intercept_may_vary() {
    let scratch = Scratch::with_csv(table(0..800));
    let (code, out, err) = with_formula(&scratch, "bought ~ 1 + (1 | store)", FIT);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("intercept") && out.contains("sd(1|store)"), "{out}");
}

#[test]
fn mistakes_are_explained() {
    let scratch = Scratch::with_csv(table(0..300));
    let refused = |formula: &str| {
        let (code, out, err) = with_formula(&scratch, formula, FIT);
        // Mistakes in the formula itself are wrong usage; others show only in the data.
        assert!(matches!(code, Some(1 | 2)), "{formula}: {out}{err}");
        err
    };
    let cases = [
        ("bought ~ x + (1 | shop)", "there is no column 'shop'"),
        ("bought ~ x + (month | store)", "varies by 'store', but no fixed effect"),
        ("bought ~ x + store + (1 | store)", "so it cannot be a fixed effect as well"),
        ("bought ~ x + (1 | store:month)", "is not the name of one column"),
        ("bought ~ x + (1 | store) + (x | store)", "two parameters would have this name"),
    ];
    for (formula, message) in cases {
        let err = refused(formula);
        assert!(err.contains(message), "{formula}: {err}");
    }
    scratch.write("data.csv", "x,store,bought\n1,a,0\n2,a,1\n3,a,0\n4,a,1\n");
    assert!(refused("bought ~ x + (1 | store)").contains("has only one group, 'a'"));
    scratch.write("data.csv", "x,store,bought\n1,a,0\n2,,1\n3,b,0\n4,b,1\n");
    let err = refused("bought ~ x + (1 | store)");
    assert!(err.contains("store") && err.contains("row 2"), "{err}");
    // Groups of one class and of one row have a posterior.
    scratch.write("data.csv", "x,store,bought\n1,a,0\n2,a,0\n3,b,1\n4,c,1\n2,c,0\n");
    let (code, out, err) = with_formula(&scratch, "bought ~ x + (1 | store)", FIT);
    assert_eq!(code, Some(0), "{out}{err}");
    let (_, _, err) = with_formula(&scratch, "bought ~ x + (1 | store)", "fit data.csv --sampler laplace");
    assert!(err.contains("must be nuts"), "{err}");
    let (_, _, err) = with_formula(&scratch, "bought ~ x", "fit data.csv --group-prior normal:1");
    assert!(err.contains("half-normal:SCALE"), "{err}");
    let outcome =
        scratch.run("fit data.csv --label bought --chains 2 --draws 50 --warmup 50 -o flat.parquet");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(scratch.run("groups flat.parquet").err.contains("has no group effects"));
}
