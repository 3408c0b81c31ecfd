//! End-to-end use: build, read the file with other tools, inspect it, and build from it again.

mod common;

use std::collections::HashMap;

use arrow_schema::DataType;
use common::{CORE, Mixed, Scratch, noise, read_core};
use serde_json::{Value, json};

/// A table with numbers, booleans, text and weights.
fn mixed_csv(rows: usize) -> String {
    let mut text = "age,member,city,w,bought\n".to_string();
    for row in 0..rows {
        let age = 18.0 + (noise(row, 0) * 60.0 * 16.0).round() / 16.0;
        let member = noise(row, 1) < 0.3;
        let city = ["Bern", "Genf", "Bern", "Basel"][(noise(row, 2) * 4.0) as usize];
        let bought = if noise(row, 3) < 0.2 + 0.01 * (age - 18.0) { "yes" } else { "no" };
        text += &format!("{age:?},{member},{city},{:?},{bought}\n", 1.0 + (row % 3) as f64);
    }
    text
}

#[test]
fn a_mixed_table_keeps_its_units() {
    let text = mixed_csv(4_000);
    let scratch = Scratch::with_csv(&text);
    let record = scratch.build("data.csv --label bought --positive yes --weight w --size 200 --seed 5");
    assert_eq!(record["dimension"], 5, "intercept, age, member, city=Basel, city=Genf");
    let core = read_core(&scratch.path(CORE));
    assert_eq!(core.names(), ["age", "member", "city", "bought", "weight", "row"]);
    let types: Vec<&DataType> = core.schema.fields().iter().map(|field| field.data_type()).collect();
    use DataType::{Boolean, Float64, UInt64, Utf8};
    assert_eq!(types, [&Float64, &Boolean, &Utf8, &Utf8, &Float64, &UInt64]);

    // Each row equals the input row at its position.
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let rows = core.rows("row");
    assert!(rows.is_sorted_by(|a, b| a < b));
    for (i, row) in rows.iter().enumerate() {
        let line = &lines[*row as usize];
        assert_eq!(core.floats("age")[i], line[0].parse::<f64>().expect("a number"));
        assert_eq!(core.words("city")[i], line[2]);
        assert_eq!(core.words("bought")[i], line[4]);
    }
    assert!(core.floats("weight").iter().all(|weight| *weight > 0.0));

    // The metadata.
    assert_eq!(core.story["file"], "coreset");
    assert_eq!(core.story["version"], 1);
    assert_eq!((&core.story["weight_column"], &core.story["row_column"]), (&json!("weight"), &json!("row")));
    let encoding = &core.story["encoding"];
    assert_eq!(encoding["weight"], "w");
    assert_eq!(encoding["label"], json!({"column": "bought", "negative": "no", "positive": "yes"}));
    let levels = &encoding["features"][2]["coding"]["levels"];
    assert_eq!((&levels["reference"], &levels["levels"]), (&json!("Bern"), &json!(["Basel", "Genf"])));
    let mass: f64 = lines.iter().map(|line| line[3].parse::<f64>().expect("a weight")).sum();
    assert_eq!(core.story["provenance"]["mass"], mass);
    assert_eq!(core.story["provenance"]["rows"], 4_000);
    assert_eq!(core.story["provenance"]["seed"], 5);

    let message = scratch.succeed(&format!("inspect {CORE}"));
    for line in [
        "core.parquet: a coreset\n",
        "  method                calibrated\n",
        "  certificate: ",
        "  exact                 no\n",
        "  seed                  5\n",
        "  label                 bought (positive: yes, negative: no)\n",
        "  weights from          w\n",
        "  coefficients          5\n",
        "                        member: 0 or 1, centred (mean ",
        "                        city: 2 levels and reference level 'Bern', one-hot and centred\n",
    ] {
        assert!(message.contains(line), "{message}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&scratch.succeed(&format!("inspect {CORE} --json"))).expect("JSON");
    assert_eq!(json["rows"], rows.len());
    assert_eq!(json["encoding"], *encoding);
    assert!(scratch.succeed("inspect data.csv").starts_with("data.csv: data, "));
}

#[test]
fn features_named_weight_and_row_are_not_overwritten() {
    let rows = (0..40).map(|i| format!("{i},{},{}\n", i * 2, i % 2)).collect::<String>();
    let scratch = Scratch::with_csv(format!("weight,row,y\n{rows}"));
    scratch.build("data.csv --label y --size 100");
    let core = read_core(&scratch.path(CORE));
    assert_eq!(core.names(), ["weight", "row", "y", "tithe.weight", "tithe.row"]);
    assert_eq!(core.floats("weight"), (0..40).map(f64::from).collect::<Vec<_>>());
    assert_eq!(core.floats("tithe.weight"), vec![1.0; 40]);
    assert_eq!(core.rows("tithe.row"), (0..40).collect::<Vec<u64>>());
    scratch.succeed(&format!("inspect {CORE}"));
    // The same if the alternative names are features, too.
    let rows = (0..40).map(|i| format!("{i},{},{},{},{}\n", i * 2, i * i, i % 5, i % 2)).collect::<String>();
    scratch.write("data.csv", format!("weight,row,tithe.weight,tithe.row,y\n{rows}"));
    scratch.build("data.csv --label y --size 100");
    let names = read_core(&scratch.path(CORE));
    assert_eq!(names.names()[5..], ["tithe.tithe.weight", "tithe.tithe.row"]);
    scratch.succeed(&format!("inspect {CORE}"));
}

#[test]
fn names_with_commas_can_be_quoted() {
    let rows = (0..40).map(|i| format!("{i},{},{},{}\n", i * i % 7, i % 5, i % 2)).collect::<String>();
    let scratch = Scratch::with_csv(format!("\"a, b\",b,\"c,\",y\n{rows}"));
    let features = |flags: [&str; 2]| {
        let [flag, names] = flags;
        let arguments = ["build", "data.csv", "--label", "y", "-o", CORE, flag, names];
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_tithe"))
            .args(arguments)
            .current_dir(scratch.path(""))
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.expect("it runs").success(), "{flags:?}");
        let core = read_core(&scratch.path(CORE));
        core.names().iter().take_while(|name| **name != "y").map(|name| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(features(["--features", "\"a, b\",b"]), ["a, b", "b"]);
    assert_eq!(features(["--exclude", "\"a, b\",\"c,\""]), ["b"]);
    assert_eq!(features(["--exclude", "b"]), ["a, b", "c,"]);
}

/// The distinct rows of the data: text, first position and number of occurrences.
fn counted(lines: &[String]) -> HashMap<&str, (u64, f64)> {
    let mut counts = HashMap::new();
    for (row, line) in lines.iter().enumerate() {
        counts.entry(line.as_str()).or_insert((row as u64, 0.0)).1 += 1.0;
    }
    counts
}

#[test]
fn categorical_data_collapses_to_its_distinct_rows() {
    let pick =
        |row, column, words: &[&'static str]| words[(noise(row, column) * words.len() as f64) as usize];
    let lines: Vec<String> = (0..30_000)
        .map(|row| {
            format!(
                "{},{},{}",
                pick(row, 0, &["red", "green", "blue"]),
                pick(row, 1, &["small", "large"]),
                pick(row, 2, &["good", "bad"])
            )
        })
        .collect();
    let scratch = Scratch::with_csv(format!("colour,size,made\n{}\n", lines.join("\n")));
    for settings in ["", "--block-rows 100 --threads 3", "--memory 0"] {
        let record = scratch.build(&format!("data.csv --label made --positive good --size 20 {settings}"));
        assert_eq!((&record["exact"], &record["distinct_rows"]), (&json!(true), &json!(12)), "{settings}");
        let core = read_core(&scratch.path(CORE));
        let counts = counted(&lines);
        let (weights, rows) = (core.floats("weight"), core.rows("row"));
        for i in 0..12 {
            let line = [&core.words("colour")[i], core.words("size")[i].as_str(), &core.words("made")[i]]
                .map(str::to_string);
            assert_eq!(counts[line.join(",").as_str()], (rows[i], weights[i]), "{settings}");
        }
    }
    // Without an intercept the reference row is z = 0 with either label: one point.
    let record = scratch.build("data.csv --label made --positive good --size 20 --no-intercept");
    assert_eq!((&record["exact"], &record["distinct_rows"]), (&json!(true), &json!(11)));
    // With --no-collapse, rows are selected.
    let record = scratch.build("data.csv --label made --positive good --size 20 --no-collapse");
    assert_eq!(record["exact"], false);
    // There are more distinct rows than the size.
    assert_eq!(scratch.build("data.csv --label made --positive good --size 11")["exact"], false);
}

#[test]
fn binary_data_collapses_with_exact_counts() {
    // Without an intercept (x, y) and (−x, −y) are one point; with binary x only x = 0 is its own mirror, and
    // the constant x1 = 1 excludes it: 2⁴ settings of the others and two labels are 32 rows.
    let lines: Vec<String> = (0..50_000)
        .map(|row| {
            let bits: Vec<String> = (1..5).map(|c| u8::from(noise(row, c) < 0.3).to_string()).collect();
            format!("1,{},{}", bits.join(","), if noise(row, 5) < 0.4 { 1 } else { -1 })
        })
        .collect();
    let scratch = Scratch::with_csv(format!("x1,x2,x3,x4,x5,y\n{}\n", lines.join("\n")));
    let record = scratch.build("data.csv --label y --size 1000 --no-standardize --no-intercept");
    assert_eq!((&record["exact"], &record["distinct_rows"]), (&json!(true), &json!(32)));
    let core = read_core(&scratch.path(CORE));
    let counts = counted(&lines);
    let columns: Vec<Vec<f64>> =
        ["x1", "x2", "x3", "x4", "x5", "y"].iter().map(|name| core.floats(name)).collect();
    for i in 0..32 {
        let line: Vec<String> = columns.iter().map(|column| column[i].to_string()).collect();
        assert_eq!(counts[line.join(",").as_str()], (core.rows("row")[i], core.floats("weight")[i]));
    }
}

#[test]
fn the_intercept_and_the_scaling_are_optional() {
    let scratch = Scratch::with_csv(Mixed::new(2_000).csv());
    let coding = |line: &str| {
        let record = scratch.build(&format!("data.csv --label y --size 50 {line}"));
        let story = read_core(&scratch.path(CORE)).story;
        let number = story["encoding"]["features"][0]["coding"]["number"].clone();
        let value = |key: &str| number[key].as_f64().expect("a number");
        (record["dimension"].as_u64().expect("D"), value("center"), value("scale"))
    };
    let x = &Mixed::new(2_000).x[0];
    let mean = x.iter().sum::<f64>() / 2_000.0;
    let sd = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2_000.0).sqrt();
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b.abs();
    let (dimension, center, scale) = coding("");
    assert!(dimension == 5 && close(center, mean) && close(scale, sd), "{center} {scale}");
    let (dimension, center, scale) = coding("--no-intercept");
    assert!(dimension == 4 && center == 0.0 && close(scale, sd), "{center} {scale}");
    assert_eq!(coding("--standardize none"), (5, 0.0, 1.0));
    assert_eq!(coding("--no-standardize --no-intercept"), (4, 0.0, 1.0));
}

#[test]
fn zeros_and_ones_are_scaled_only_if_all_columns_are() {
    let lines: String = (0..400)
        .map(|row| {
            let [x, y] = [noise(row, 0), noise(row, 1)];
            format!("{x},{},{},{}\n", u8::from(row % 4 == 0), ["a", "b", "b"][row % 3], u8::from(y < 0.5))
        })
        .collect();
    let scratch = Scratch::with_csv(format!("x,flag,letter,y\n{lines}"));
    let codings = |flags: &str| {
        scratch.build(&format!("data.csv --label y --size 50 {flags}"));
        let story = read_core(&scratch.path(CORE)).story;
        let features = story["encoding"]["features"].as_array().expect("features").clone();
        let [flag, letter] = [1, 2].map(|at: usize| features[at]["coding"].clone());
        (flag, letter["levels"]["centers"].clone())
    };
    let share_of_a = (0..400).filter(|row| row % 3 == 0).count() as f64 / 400.0;
    assert_eq!(codings(""), (json!({"indicator": {"center": 0.25}}), json!([share_of_a])));
    let shown = scratch.succeed("inspect core.parquet");
    assert!(shown.contains("flag: 0 or 1, centred (mean 0.25"), "{shown}");
    let (flag, centers) = codings("--standardize all");
    let scale = flag["number"]["scale"].as_f64().expect("a scale");
    assert!((scale - f64::sqrt(0.25 * 0.75)).abs() < 1e-12 && centers.is_null(), "{flag} {centers}");
    assert_eq!(codings("--no-standardize").0, json!({"number": {"center": 0.0, "scale": 1.0}}));
    let refused = scratch.run("build data.csv --label y --standardize some -o never.parquet");
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn libsvm_needs_no_label_and_is_scaled_but_not_centred() {
    let scratch = Scratch::new();
    let text: String = (0..500)
        .map(|row| {
            let sparse = if noise(row, 1) < 0.2 { format!(" 7:{}", 1 + row % 3) } else { String::new() };
            format!("{} 2:{:?}{sparse}\n", if noise(row, 2) < 0.5 { "+1" } else { "-1" }, 1.0 + noise(row, 0))
        })
        .collect();
    scratch.write("data.svm", text);
    assert_eq!(scratch.build("data.svm --size 50")["dimension"], 8);
    let core = read_core(&scratch.path(CORE));
    assert_eq!(core.names()[..2], ["x1", "x2"]);
    assert_eq!(core.names()[7..], ["label", "weight", "row"]);
    let features = core.story["encoding"]["features"].as_array().expect("features");
    let codings: Vec<&Value> = features.iter().map(|feature| &feature["coding"]).collect();
    // The columns of indices that do not occur are all 0.
    for column in [0, 2, 3, 4, 5] {
        assert_eq!(codings[column], &json!({"indicator": {"center": 0.0}}), "x{}", column + 1);
    }
    for column in [1, 6] {
        assert_eq!(codings[column]["number"]["center"], 0.0, "x{}", column + 1);
    }
    let scale = core.story["encoding"]["features"][1]["coding"]["number"]["scale"].as_f64().expect("a scale");
    assert!((0.2..0.4).contains(&scale), "the standard deviation of a uniform number is 0.29: {scale}");
}

#[test]
fn a_coreset_of_a_coreset_keeps_the_total_weight_on_average() {
    let scratch = Scratch::with_csv(Mixed::new(20_000).csv());
    scratch.build("data.csv --label y --size 1000 --seed 1");
    std::fs::rename(scratch.path(CORE), scratch.path("first.parquet")).expect("renamed");
    let first = read_core(&scratch.path("first.parquet"));
    let weights = first.floats("weight");
    let total: f64 = weights.iter().sum();

    let seeds = 60;
    let totals: Vec<f64> = (0..seeds)
        .map(|seed| {
            let line = "first.parquet --label y --weight weight --exclude row --size 200";
            let record = scratch.build(&format!("{line} --seed {seed}"));
            assert_eq!(record["rows"], weights.len());
            let core = read_core(&scratch.path(CORE));
            assert_eq!(core.names(), ["x1", "x2", "city", "y", "weight", "row"]);
            assert!(core.rows("row").iter().all(|row| (*row as usize) < weights.len()));
            core.floats("weight").iter().sum()
        })
        .collect();
    // Within 4 standard errors: a correct program fails with a probability of about 1e-4 (60 seeds, fixed).
    let n = f64::from(seeds);
    let mean = totals.iter().sum::<f64>() / n;
    let error = (totals.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    assert!((mean - total).abs() < 4.0 * error, "{mean} ± {error} against {total}");
    assert!(error < 0.1 * total, "{error}");
}

#[test]
fn inspect_recognises_other_files() {
    let scratch = Scratch::with_csv(Mixed::new(100).csv());
    scratch.write("plain.parquet", common::parquet_bytes(&Mixed::new(100).batch(true), 50));
    let message = scratch.succeed("inspect plain.parquet");
    assert!(message.starts_with("plain.parquet: data, 100 rows, 4 columns\n"), "{message}");
    scratch.write("notes.bin", [0u8, 1, 2, 3]);
    let outcome = scratch.run("inspect notes.bin");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.err.starts_with("error: 'notes.bin': has an unknown format\n"), "{}", outcome.err);
    let outcome = scratch.run("inspect nowhere");
    assert_eq!(outcome.err, "error: cannot read 'nowhere': No such file or directory (os error 2)\n");
}
