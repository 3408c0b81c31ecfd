//! `tithe check` against figures computed from the predictions of `tithe predict`.

mod common;

use common::{Scratch, noise};
use serde_json::Value;

fn table(rows: std::ops::Range<usize>) -> String {
    let mut text = "x,city,bought\n".to_string();
    for row in rows {
        let x = noise(row, 0) * 4.0 - 2.0;
        let city = ["Bern", "Genf", "Chur"][(noise(row, 1) * 3.0) as usize];
        let effect = if city == "Genf" { 0.8 } else { 0.0 };
        let chance = 1.0 / (1.0 + (-(x + effect - 0.5)).exp());
        text += &format!("{x},{city},{}\n", if noise(row, 2) < chance { "yes" } else { "no" });
    }
    text
}

#[test]
fn the_figures_agree_with_the_predictions() {
    let scratch = Scratch::new();
    scratch.write("train.csv", table(0..1_500));
    scratch.write("test.csv", table(1_500..2_500));
    let fit = "fit train.csv --label bought --positive yes --chains 2 --draws 150 --warmup 150";
    scratch.succeed(&format!("{fit} -o post.parquet"));
    scratch.succeed("predict post.parquet test.csv -o out.csv");
    let text = String::from_utf8(scratch.read("out.csv")).expect("UTF-8");
    let rows: Vec<(f64, bool)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let words: Vec<&str> = line.split(',').collect();
            (words[3].parse().expect("a number"), words[2] == "yes")
        })
        .collect();
    let record: Value =
        serde_json::from_str(&scratch.succeed("check post.parquet --data test.csv --json")).expect("JSON");
    let figure = |key: &str| record[key].as_f64().expect("a number");
    let n = rows.len() as f64;
    let log_loss = -rows.iter().map(|(p, yes)| if *yes { p.ln() } else { (1.0 - p).ln() }).sum::<f64>() / n;
    let brier = rows.iter().map(|(p, yes)| (p - f64::from(u8::from(*yes))).powi(2)).sum::<f64>() / n;
    let (mut wins, mut pairs) = (0.0, 0.0);
    for (p, _) in rows.iter().filter(|(_, yes)| *yes) {
        for (q, _) in rows.iter().filter(|(_, yes)| !yes) {
            wins += if p > q { 1.0 } else { 0.5 * f64::from(u8::from(p == q)) };
            pairs += 1.0;
        }
    }
    assert!((figure("log_loss") - log_loss).abs() < 1e-9, "{record}");
    assert!((figure("brier") - brier).abs() < 1e-9, "{record}");
    assert!((figure("auc") - wins / pairs).abs() < 1e-3, "{record}: {}", wins / pairs);
    assert_eq!((&record["rows"], &record["same_data"]), (&1_000.into(), &false.into()));
    let groups = record["calibration"].as_array().expect("groups");
    let mass: f64 = groups.iter().filter_map(|group| group["mass"].as_f64()).sum();
    assert_eq!((groups.len(), mass), (10, 1_000.0));

    let outcome = scratch.run("check post.parquet --data test.csv");
    assert!(outcome.out.starts_with("post.parquet: 1,000 rows, ") && outcome.err.is_empty(), "{outcome:?}");
    // The data that the model was fitted to is recognised.
    let outcome = scratch.run("check post.parquet --data train.csv");
    assert!(outcome.err.starts_with("note: the model was fitted to these rows"), "{outcome:?}");
    // Missing values are treated as for the fit, unless another treatment is asked for.
    scratch.write("holes.csv", format!("{},Bern,yes\n", table(0..50)));
    let refused = scratch.run("check post.parquet --data holes.csv");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let out = scratch.succeed("check post.parquet --data holes.csv --missing drop");
    assert!(out.starts_with("post.parquet: 50 rows, "), "{out}");
}
