//! `tithe generate` and `tithe demo`.

mod common;

use common::Scratch;
use serde_json::Value;

#[test]
fn every_format_contains_the_same_data() {
    let scratch = Scratch::new();
    let mut fits = Vec::new();
    for ending in ["parquet", "csv", "libsvm"] {
        let out = scratch.succeed(&format!("generate binary5 --rows 70000 --seed 4 -o data.{ending} --json"));
        let record: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(record["theta"], serde_json::json!([-3.0, 1.2, -0.5, 0.8, 3.0]));
        let label = if ending == "libsvm" { "label" } else { "y" };
        let line = format!(
            "fit data.{ending} --label {label} --sampler laplace --no-intercept --no-standardize --json"
        );
        let fit: Value = serde_json::from_str(&scratch.succeed(&line)).expect("JSON");
        assert_eq!(fit["basis"]["rows"], 70000);
        fits.push(fit["summary"].clone());
    }
    assert_eq!(fits[0], fits[1]);
    assert_eq!(fits[0], fits[2]);
    // Each true coefficient lies within 5 sd of its estimate (false alarm probability below 1e-5).
    for (c, theta) in fits[0].as_array().expect("a summary").iter().zip([-3.0, 1.2, -0.5, 0.8, 3.0]) {
        let (mean, sd) = (c["mean"].as_f64().expect("a mean"), c["sd"].as_f64().expect("an sd"));
        assert!((mean - theta).abs() < 5.0 * sd, "{c}");
    }
}

#[test]
fn the_same_seed_gives_the_same_file() {
    let scratch = Scratch::new();
    for name in ["a", "b"] {
        scratch.succeed(&format!("generate mixture --rows 1000 --seed 2 -o {name}.parquet"));
    }
    scratch.succeed("generate mixture --rows 1000 --seed 3 -o c.parquet");
    assert!(scratch.read("a.parquet") == scratch.read("b.parquet"));
    assert!(scratch.read("a.parquet") != scratch.read("c.parquet"));
    // The recipe is in the metadata, but the file is still data.
    assert!(scratch.read("a.parquet").windows(15).any(|bytes| bytes == b"tithe.generated"));
    assert!(scratch.succeed("inspect a.parquet").starts_with("a.parquet: data, 1,000 rows, 11 columns\n"));
}

#[test]
fn invalid_recipes_are_rejected() {
    let scratch = Scratch::new();
    for (line, code, message) in [
        ("generate mixture --rows 0 -o a.csv", 2, "error: --rows must be at least 1\n"),
        (
            "generate mixture --rows 5 -o a.xlsx",
            1,
            "error: 'a.xlsx' has no extension that determines the format\n  help: use a file name that ends in .parquet or .csv or .libsvm\n",
        ),
        (
            "generate moons -o a.csv",
            2,
            "error: invalid value 'moons' for '<RECIPE>': 'moons' is not one of binary5, binary10, mixture\n\nFor more information, try '--help'.\n",
        ),
    ] {
        let outcome = scratch.run(line);
        assert_eq!((outcome.err.as_str(), outcome.code), (message, Some(code)), "{line}");
    }
    assert!(scratch.names().is_empty());
}

#[test]
fn the_demo_compares_coresets_with_random_rows() {
    let scratch = Scratch::new();
    let out = scratch.succeed("demo --rows 5000 --json");
    let record: Value = serde_json::from_str(&out).expect("JSON");
    let data = record["data"].as_array().expect("data");
    assert_eq!(data.len(), 2);
    for story in data {
        let fits = story["fits"].as_array().expect("fits");
        assert_eq!(fits.len(), 3);
        assert_eq!(fits[0]["rows"], 5000);
        assert!(fits[1]["rows"].as_u64().expect("rows") <= 1000);
        for fit in &fits[1..] {
            assert!(fit["worst_mean_error"].as_f64().expect("an error").is_finite());
        }
    }
    // Data with few distinct rows has an exact coreset, so there is only Monte Carlo error (0.03 sd; 10 coefficients).
    assert!(data[1]["fits"][1]["worst_mean_error"].as_f64().expect("an error") < 0.2);
    assert!(scratch.names().is_empty(), "no files remain");
    let text = scratch.succeed("demo --rows 5000");
    assert!(text.contains("random rows") && text.contains("largest error"), "{text}");
}
