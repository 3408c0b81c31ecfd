//! `tithe predict` and `tithe export`, compared with plain computations from the files.

mod common;

use arrow_array::{Array, Int64Array};
use common::{CORE, Mixed, Scratch, read_core};
use serde_json::Value;

fn with_posterior() -> Scratch {
    let scratch = Scratch::with_csv(Mixed::new(400).csv());
    scratch.build("data.csv --label y --size 60");
    scratch.succeed("fit core.parquet --chains 2 --draws 150 --warmup 150 -o post.parquet");
    scratch
}

/// New rows with an id too large for a float, a date and no label; the columns are in another order.
const NEW: &str = "id,city,x2,when,x1\n\
    9007199254740993,Bern,-3.5,2024-02-29,1.25\n\
    007,Genf,12,2024-03-01,9.75\n\
    8,Basel,40.25,,0\n";

fn plain(file: &common::CoreFile, x1: f64, x2: f64, city: &str) -> [f64; 4] {
    let (intercept, b1, b2) = (file.floats("intercept"), file.floats("x1"), file.floats("x2"));
    let levels = [("Bern", file.floats("city=Bern")), ("Genf", file.floats("city=Genf"))];
    let mut p: Vec<f64> = (0..intercept.len())
        .map(|s| {
            let level: f64 = levels.iter().filter(|(name, _)| *name == city).map(|(_, draws)| draws[s]).sum();
            1.0 / (1.0 + (-(intercept[s] + b1[s] * x1 + b2[s] * x2 + level)).exp())
        })
        .collect();
    let n = p.len() as f64;
    let mean = p.iter().sum::<f64>() / n;
    let sd = (p.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    p.sort_by(f64::total_cmp);
    let quantile = |q: f64| {
        let at = (n - 1.0) * q;
        let below = p[at.floor() as usize];
        below + (at - at.floor()) * (p[at.ceil() as usize] - below)
    };
    [mean, sd, quantile(0.05), quantile(0.95)]
}

#[test]
fn predictions_agree_with_the_draws() {
    let scratch = with_posterior();
    scratch.write("new.csv", NEW);
    let out = scratch.succeed("predict post.parquet new.csv -o out.csv --json");
    let record: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(record["rows"], 3);
    let text = String::from_utf8(scratch.read("out.csv")).expect("UTF-8");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("id,city,x2,when,x1,probability,probability_sd,probability_lower,probability_upper")
    );
    let draws = read_core(&scratch.path("post.parquet"));
    let rows = [(1.25, -3.5, "Bern"), (9.75, 12.0, "Genf"), (0.0, 40.25, "Basel")];
    let copied =
        ["9007199254740993,Bern,-3.5,2024-02-29,1.25", "007,Genf,12,2024-03-01,9.75", "8,Basel,40.25,,0"];
    for ((line, (x1, x2, city)), copied) in lines.zip(rows).zip(copied) {
        assert!(line.starts_with(copied), "{line}");
        let found: Vec<f64> = line.split(',').skip(5).map(|word| word.parse().expect("a number")).collect();
        for (found, expected) in found.iter().zip(plain(&draws, x1, x2, city)) {
            assert!((found - expected).abs() < 1e-10, "{line}: {expected}");
        }
    }
}

#[test]
fn many_rows_keep_their_order_and_types_on_any_number_of_threads() {
    let scratch = with_posterior();
    let table = Mixed::new(3000);
    scratch.write("new.parquet", common::parquet_bytes(&table.batch(true), 700));
    scratch.succeed("predict post.parquet new.parquet -o one.parquet --threads 1");
    scratch.succeed("predict post.parquet new.parquet -o two.parquet --threads 2");
    assert!(scratch.read("one.parquet") == scratch.read("two.parquet"));
    let file = std::fs::File::open(scratch.path("one.parquet")).expect("a file");
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
    let batch =
        reader.with_batch_size(1 << 20).build().expect("a reader").next().expect("rows").expect("rows");
    let labels =
        batch.column_by_name("y").expect("y").as_any().downcast_ref::<Int64Array>().expect("integers");
    assert_eq!(labels.values().to_vec(), table.y);
    let draws = read_core(&scratch.path("post.parquet"));
    let probabilities = batch.column_by_name("probability").expect("probabilities");
    let probabilities =
        probabilities.as_any().downcast_ref::<arrow_array::Float64Array>().expect("floats").values();
    for row in [0, 699, 700, 2999] {
        let expected = plain(&draws, table.x[0][row], table.x[1][row], table.city[row])[0];
        assert!((probabilities[row] - expected).abs() < 1e-10);
    }
}

#[test]
fn rows_that_cannot_be_predicted_are_located() {
    let scratch = with_posterior();
    scratch.write("unseen.csv", "x1,x2,city\n1,2,Bern\n3,4,Chur\n");
    scratch.write("missing.csv", "x1,x2,city\n1,2,Bern\n,4,Bern\n");
    scratch.write("lacking.csv", "x1,X2,city\n1,2,Bern\n");
    scratch.write("words.csv", "x1,x2,city\n1,2,Bern\nhigh,2,Bern\n");
    for (line, code, message) in [
        (
            "post.parquet unseen.csv -o out.csv",
            1,
            "error: 'unseen.csv', row 2, column 'city': the level 'Chur' did not occur when the model was fitted\n  help: treat it as the reference level with --unseen reference\n",
        ),
        (
            "post.parquet missing.csv -o out.csv --missing error",
            1,
            "error: 'missing.csv', row 2, column 'x1': the value is missing\n  help: repair the row, use --missing empty, or use --missing drop\n",
        ),
        (
            "post.parquet lacking.csv -o out.csv",
            1,
            "error: there is no column 'x2' to use as a feature (did you mean 'X2'?)\n  help: the columns are: x1, X2, city\n",
        ),
        (
            "post.parquet words.csv -o out.csv",
            1,
            "error: 'words.csv', row 2, column 'x1': 'high' is not a number\n  help: the model has numbers in this column: repair the value\n",
        ),
        (
            "core.parquet unseen.csv -o out.csv",
            1,
            "error: 'core.parquet' is a coreset, not a posterior\n  help: make a posterior with `tithe fit`\n",
        ),
        (
            "post.parquet unseen.csv -o out.txt",
            1,
            "error: 'out.txt' has no extension that determines the format\n  help: use a file name that ends in .parquet or .csv\n",
        ),
        (
            "post.parquet unseen.csv -o out.csv --interval 1",
            2,
            "error: --interval must lie between 0 and 1, but is 1\n",
        ),
    ] {
        let outcome = scratch.run(&format!("predict {line}"));
        assert_eq!((outcome.err.as_str(), outcome.code), (message, Some(code)), "{line}");
        assert!(!scratch.path("out.csv").exists(), "{line}");
    }
    let out = scratch.succeed("predict post.parquet unseen.csv -o out.csv --unseen reference");
    let message = "  1 value was of an unseen level treated as the reference level\n";
    assert!(out.ends_with(message), "{out}");
    let draws = read_core(&scratch.path("post.parquet"));
    let text = String::from_utf8(scratch.read("out.csv")).expect("UTF-8");
    let last: Vec<&str> = text.lines().last().expect("a line").split(',').collect();
    let expected = plain(&draws, 3.0, 4.0, "Basel")[0];
    assert!((last[3].parse::<f64>().expect("a number") - expected).abs() < 1e-10);
}

#[test]
fn incomplete_rows_have_an_empty_prediction_or_are_left_out() {
    let scratch = with_posterior();
    let rows = ["1,2,Bern", ",4,Bern", "5,NA,Genf", "3,inf,Bern", "7,8,", "9,10,Basel"];
    scratch.write("new.csv", format!("x1,x2,city\n{}\n", rows.join("\n")));
    let out = scratch.succeed("predict post.parquet new.csv -o out.csv");
    assert!(
        out.starts_with("out.csv: 6 rows, ") && out.ends_with("  4 incomplete rows without a prediction\n"),
        "{out}"
    );
    let text = String::from_utf8(scratch.read("out.csv")).expect("UTF-8");
    let draws = read_core(&scratch.path("post.parquet"));
    let expected = [plain(&draws, 1.0, 2.0, "Bern"), plain(&draws, 9.0, 10.0, "Basel")];
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let mut sum = 0.0;
    for (line, complete) in lines.iter().zip([Some(0), None, None, None, None, Some(1)]) {
        let words: Vec<&str> = line.split(',').skip(3).collect();
        match complete {
            None => assert_eq!(words, ["", "", "", ""], "{line}"),
            Some(at) => {
                let found: f64 = words[0].parse().expect("a number");
                assert!((found - expected[at][0]).abs() < 1e-10, "{line}");
                sum += found;
            }
        }
    }
    let record: Value =
        serde_json::from_str(&scratch.succeed("predict post.parquet new.csv -o out.parquet --json"))
            .expect("JSON");
    assert_eq!((&record["rows"], &record["incomplete"]), (&6.into(), &4.into()));
    assert!((record["mean"].as_f64().expect("a mean") - sum / 2.0).abs() < 1e-10, "{record}");
    let out = scratch.succeed("predict post.parquet new.csv -o fewer.csv --missing drop");
    assert!(
        out.starts_with("fewer.csv: 2 rows, ") && out.ends_with("  4 incomplete rows left out\n"),
        "{out}"
    );
    let fewer = String::from_utf8(scratch.read("fewer.csv")).expect("UTF-8");
    assert_eq!(fewer.lines().skip(1).collect::<Vec<_>>(), [lines[0], lines[5]]);
}

#[test]
fn a_user_column_named_probability_is_kept() {
    let scratch = with_posterior();
    scratch.write("new.csv", "x1,x2,city,probability\n1,2,Bern,0.25\n");
    scratch.succeed("predict post.parquet new.csv -o out.csv");
    let text = String::from_utf8(scratch.read("out.csv")).expect("UTF-8");
    assert!(text.starts_with("x1,x2,city,probability,tithe.probability,probability_sd,"), "{text}");
    assert!(text.contains("\n1,2,Bern,0.25,"), "{text}");
}

#[test]
fn exports_contain_the_weighted_rows_and_the_priors() {
    let scratch = with_posterior();
    let core = read_core(&scratch.path(CORE));
    for (tool, model, words) in [
        (
            "stan",
            "model.stan",
            ["theta[1:1] ~ cauchy(0, 10);", "theta[2:5] ~ normal(0, 2);", "dot_product(weight"],
        ),
        (
            "pymc",
            "model.py",
            [
                "pm.Cauchy(\"theta_0\", 0, 10, shape=1)",
                "pm.Normal(\"theta_1\", 0, 2, shape=4)",
                "pm.Potential",
            ],
        ),
        (
            "numpyro",
            "model.py",
            ["dist.Cauchy(0, 10).expand([1])", "dist.Normal(0, 2).expand([4])", "numpyro.factor"],
        ),
    ] {
        scratch.succeed(&format!("export core.parquet --to {tool} -o {tool} --intercept-prior cauchy:10"));
        let text = String::from_utf8(scratch.read(&format!("{tool}/{model}"))).expect("UTF-8");
        for word in words {
            assert!(text.contains(word), "{tool} lacks {word}:\n{text}");
        }
        let data: Value = serde_json::from_slice(&scratch.read(&format!("{tool}/data.json"))).expect("JSON");
        if tool == "stan" {
            // Stan reads only numbers.
            fn is_number(value: &Value) -> bool {
                value.is_number() || value.as_array().is_some_and(|values| values.iter().all(is_number))
            }
            let entries = data.as_object().expect("an object");
            assert!(entries.len() == 9 && entries.values().all(is_number), "{:?}", entries.keys());
        } else {
            let names = serde_json::json!(["intercept", "x1", "x2", "city=Bern", "city=Genf"]);
            assert_eq!(data["coefficients"], names);
        }
        let weights: Vec<f64> = serde_json::from_value(data["weight"].clone()).expect("weights");
        assert_eq!(weights, core.floats("weight"));
        let labels: Vec<f64> = serde_json::from_value(data["y"].clone()).expect("labels");
        assert_eq!(labels, core.floats("y"));
        // X in the user's units equals the user's column.
        let (center, scale) =
            (data["center"][1].as_f64().expect("a center"), data["scale"][1].as_f64().expect("a scale"));
        for (row, x1) in core.floats("x1").iter().enumerate() {
            let x = data["X"][row][1].as_f64().expect("a number");
            assert!((x * scale + center - x1).abs() < 1e-9);
            assert_eq!(data["X"][row][0], 1.0);
        }
    }
    let outcome = scratch.run("export data.csv --to stan -o other");
    assert_eq!(outcome.code, Some(1));
    assert_eq!(
        outcome.err,
        "error: 'data.csv' was not written by tithe\n  help: make a coreset with `tithe build`, or make a posterior with `tithe fit`\n"
    );
}

#[test]
fn predictions_for_no_rows_have_no_mean() {
    let scratch = with_posterior();
    scratch.write("none.csv", "x1,x2,city\n");
    let out = scratch.succeed("predict post.parquet none.csv -o out.csv");
    assert!(out.starts_with("out.csv: 0 rows, columns ") && !out.contains("NaN"), "{out}");
}
