//! `tithe merge`: exact if the size allows it, otherwise accurate; incompatible coresets are rejected.

mod common;

use common::*;
use serde_json::Value;

/// Writes the rows `rows` of a table to a CSV file and builds a coreset with the same name.
fn shard(scratch: &Scratch, table: &Mixed, name: &str, rows: std::ops::Range<usize>, flags: &str) {
    let text = table.csv();
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    let body: Vec<&str> = lines.skip(rows.start).take(rows.len()).collect();
    scratch.write(&format!("{name}.csv"), format!("{header}\n{}\n", body.join("\n")));
    scratch.succeed(&format!("build {name}.csv --label y {flags} -o {name}.parquet"));
}

fn merge(scratch: &Scratch, line: &str) -> Value {
    let out = scratch.succeed(&format!("merge {line} --json"));
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn rows_that_fit_are_all_kept() {
    let table = Mixed::new(3_000);
    let scratch = Scratch::new();
    shard(&scratch, &table, "a", 0..1_000, "--size 100");
    shard(&scratch, &table, "b", 1_000..3_000, "--size 100");
    let record = merge(&scratch, "a.parquet b.parquet --size 1000 -o all.parquet");
    assert_eq!((record["rows"].as_u64(), record["rows_read"].as_u64()), (Some(3_000), Some(3_000)));
    let all_kept = "all rows of the input coresets are kept";
    assert!(scratch.succeed("merge a.parquet b.parquet --size 1000 -o all.parquet").contains(all_kept));
    for method in ["uniform", "sensitivity", "calibrated"] {
        let message =
            scratch.succeed(&format!("merge a.parquet b.parquet --size 30 --method {method} -o few.parquet"));
        assert!(!message.contains(all_kept), "{method}: {message}");
    }
    let twice = scratch.run("merge a.parquet b.parquet a.parquet -o twice.parquet");
    let message = "warning: 'a.parquet' and 'a.parquet' contain the same rows, which now count twice\n";
    assert_eq!((twice.code, &twice.err[..]), (Some(0), message));
    let [a, b, all] = ["a", "b", "all"].map(|name| read_core(&scratch.path(&format!("{name}.parquet"))));
    let joined = |column: &str| [a.floats(column), b.floats(column)].concat();
    assert_eq!(all.floats("weight"), joined("weight"));
    assert_eq!(all.floats("x1"), joined("x1"));
    // The rows of the second follow those of the first.
    let moved: Vec<u64> = b.rows("row").iter().map(|row| row + 1_000).collect();
    assert_eq!(all.rows("row"), [a.rows("row"), moved].concat());
    // Means and scales equal those of a build from all rows.
    shard(&scratch, &table, "whole", 0..3_000, "--size 100");
    let coding =
        |file: &CoreFile, at: usize| file.story["encoding"]["features"][at]["coding"]["number"].clone();
    let whole = read_core(&scratch.path("whole.parquet"));
    for at in 0..2 {
        for number in ["center", "scale"] {
            let [ours, theirs] =
                [&all, &whole].map(|file| coding(file, at)[number].as_f64().expect("a number"));
            assert!((ours / theirs - 1.0).abs() < 1e-10, "{number}: {ours} {theirs}");
        }
    }
    assert_eq!(all.story["provenance"]["fingerprint"], whole.story["provenance"]["fingerprint"]);
    // The fingerprint matches the full data.
    scratch.succeed("certify all.parquet --data whole.csv");
}

#[test]
fn a_union_has_the_least_accurate_method_of_its_parts() {
    let table = Mixed::new(3_000);
    let scratch = Scratch::new();
    shard(&scratch, &table, "best", 0..1_000, "--size 100");
    shard(&scratch, &table, "drawn", 1_000..2_000, "--size 100 --method sensitivity");
    shard(&scratch, &table, "exact", 2_000..3_000, "--size 1000 --method uniform");
    for (parts, method) in [
        ("best.parquet drawn.parquet", "sensitivity"),
        ("drawn.parquet best.parquet", "sensitivity"),
        ("exact.parquet best.parquet", "calibrated"),
        ("exact.parquet exact.parquet", "uniform"),
    ] {
        let record = merge(&scratch, &format!("{parts} --size 5000 -o all.parquet"));
        assert_eq!(record["method"], method, "{parts}");
    }
}

#[test]
fn the_posterior_matches_all_rows_in_any_merge_order() {
    let table = Mixed::new(6_000);
    let scratch = Scratch::with_csv(table.csv());
    let names: Vec<String> = (0..6).map(|at| format!("s{at}")).collect();
    for (at, name) in names.iter().enumerate() {
        shard(&scratch, &table, name, at * 1_000..(at + 1) * 1_000, "--size 150");
    }
    let files = |order: [usize; 6]| order.map(|at| format!("s{at}.parquet")).join(" ");
    let kl = |file: &str| {
        let out = scratch.succeed(&format!("certify {file} --data data.csv --json"));
        let record: Value = serde_json::from_str(&out).expect("JSON");
        record["certificate"]["kl"].as_f64().or(record["kl"].as_f64()).expect("a KL")
    };
    for order in [[0, 1, 2, 3, 4, 5], [3, 5, 1, 0, 4, 2]] {
        let record = merge(&scratch, &format!("{} --size 150 -o all.parquet", files(order)));
        assert_eq!(record["rows"].as_u64(), Some(6_000));
        assert!(record["distinct_rows"].as_u64().expect("rows") <= 150);
        assert_eq!(record["composition"]["parts"].as_u64(), Some(6));
        assert!(kl("all.parquet") < 0.1, "{order:?}");
    }
    // Merge pairs first, then the results.
    for (at, pair) in
        ["s0.parquet s1.parquet", "s2.parquet s3.parquet", "s4.parquet s5.parquet"].iter().enumerate()
    {
        merge(&scratch, &format!("{pair} --size 150 -o pair{at}.parquet"));
    }
    let record = merge(&scratch, "pair0.parquet pair1.parquet pair2.parquet --size 150 -o all.parquet");
    assert_eq!((record["rows"].as_u64(), record["composition"]["depth"].as_u64()), (Some(6_000), Some(2)));
    assert!(kl("all.parquet") < 0.1);
    let words = scratch.succeed("inspect all.parquet");
    assert!(words.contains("built from 6 coresets, at most 2 compression steps from the data"), "{words}");
}

/// Shards whose columns have other frequencies, and one where a count is only 0 or 1.
#[test]
fn columns_of_zeros_and_ones_merge() {
    let scratch = Scratch::new();
    let rows = |from: usize, most: usize| -> String {
        (from..from + 600)
            .map(|n| {
                let [flag, count, y] = [noise(n, 0), noise(n, 1), noise(n, 2)];
                let letter = ["a", "b", "c"][(noise(n, 3) * 3.0) as usize];
                let count = (count * (most + 1) as f64) as usize;
                format!("{},{count},{letter},{}\n", u8::from(flag < 0.3), u8::from(y < 0.4))
            })
            .collect()
    };
    for (name, rows, flags) in
        [("a", rows(0, 1), ""), ("b", rows(600, 4), ""), ("c", rows(1200, 4), "--standardize all")]
    {
        scratch.write(&format!("{name}.csv"), format!("flag,count,letter,y\n{rows}"));
        scratch.succeed(&format!("build {name}.csv --label y --size 150 {flags} -o {name}.parquet"));
    }
    scratch.write("whole.csv", format!("flag,count,letter,y\n{}{}", rows(0, 1), rows(600, 4)));
    scratch.succeed("build whole.csv --label y --size 150 -o whole.parquet");
    merge(&scratch, "a.parquet b.parquet --size 500 -o all.parquet");
    let codings = |name: &str| {
        let story = read_core(&scratch.path(name)).story;
        [0, 1, 2].map(|at: usize| story["encoding"]["features"][at]["coding"].clone())
    };
    let ([flag, count, letter], [all_flag, all_count, all_letter]) =
        (codings("whole.parquet"), codings("all.parquet"));
    let close = |a: &Value, b: &Value, tolerance: f64| {
        let (a, b) = (a.as_f64().expect("a number"), b.as_f64().expect("a number"));
        assert!((a - b).abs() < tolerance, "{a} against {b}");
    };
    close(&flag["indicator"]["center"], &all_flag["indicator"]["center"], 1e-12);
    close(&count["number"]["center"], &all_count["number"]["center"], 1e-12);
    // The spread of the column of zeros and ones comes from the rows of its coreset.
    close(&count["number"]["scale"], &all_count["number"]["scale"], 0.02);
    let frequency = |letter: &Value, of: &str| {
        let levels = letter["levels"]["levels"].as_array().expect("levels");
        let centers: Vec<f64> =
            letter["levels"]["centers"].as_array().expect("means").iter().filter_map(Value::as_f64).collect();
        match levels.iter().position(|level| level == of) {
            Some(at) => centers[at],
            None => 1.0 - centers.iter().sum::<f64>(),
        }
    };
    for level in ["a", "b", "c"] {
        assert!((frequency(&letter, level) - frequency(&all_letter, level)).abs() < 1e-12, "{level}");
    }
    let shown = scratch.run("merge b.parquet c.parquet -o never.parquet").err;
    assert!(shown.contains("column 'letter' is centred in the first and not in the second"), "{shown}");
}

/// The remedy works: rebuild the coreset with fewer levels.
#[test]
fn the_coreset_with_fewer_levels_can_be_rebuilt() {
    let scratch = Scratch::new();
    let rows = |cities: &[&str]| -> String {
        (0..60).map(|n| format!("{},{},{}\n", n % 7, cities[n % cities.len()], n % 2)).collect()
    };
    scratch.write("few.csv", format!("x,city,y\n{}", rows(&["Bern", "Genf", "Bern"])));
    scratch.write("many.csv", format!("x,city,y\n{}", rows(&["Bern", "Genf", "Basel"])));
    for name in ["few", "many"] {
        scratch.succeed(&format!("build {name}.csv --label y --size 20 -o {name}.parquet"));
    }
    for (order, again) in [("few.parquet many.parquet", "first"), ("many.parquet few.parquet", "second")] {
        let message = scratch.run(&format!("merge {order} -o all.parquet")).err;
        let help = format!("  help: build the {again} again from its data with --encoding many.parquet\n");
        assert!(message.ends_with(&help), "{message}");
    }
    scratch.succeed("build few.csv --encoding many.parquet --size 20 -o few.parquet");
    scratch.succeed("merge few.parquet many.parquet -o all.parquet");
}

#[test]
fn incompatible_coresets_are_rejected_with_the_reason() {
    let table = Mixed::new(1_000);
    let scratch = Scratch::new();
    shard(&scratch, &table, "a", 0..500, "--size 50");
    let refuses = |other: &str, what: &str| {
        let outcome = scratch.run(&format!("merge a.parquet {other}.parquet -o never.parquet"));
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        let message = format!("error: 'a.parquet' and '{other}.parquet' have different encodings: {what}\n");
        assert!(outcome.err.starts_with(&message), "{}", outcome.err);
        assert!(!scratch.path("never.parquet").exists());
    };
    shard(&scratch, &table, "fewer", 500..1_000, "--size 50 --exclude x2");
    refuses("fewer", "the number of features is '3' in the first and '2' in the second");
    shard(&scratch, &table, "bare", 500..1_000, "--size 50 --no-intercept");
    refuses("bare", "the intercept is 'fitted' in the first and 'omitted' in the second");
    shard(&scratch, &table, "raw", 500..1_000, "--size 50 --no-standardize");
    refuses("raw", "column 'x1' is scaled in the first and not in the second");
    shard(&scratch, &table, "turned", 500..1_000, "--size 50 --positive 0");
    refuses("turned", "the label's positive value is '1' in the first and '0' in the second");
    let mut other = Mixed::new(1_000);
    other.city[700] = "Chur";
    shard(&scratch, &other, "chur", 500..1_000, "--size 50");
    let message = scratch.run("merge a.parquet chur.parquet -o never.parquet").err;
    assert!(message.contains("have different encodings") && message.contains("column 'city'"), "{message}");
    // The remedy in the message works.
    shard(&scratch, &table, "again", 500..1_000, "--size 50 --encoding a.parquet");
    // Flags that agree with the encoding are accepted.
    scratch.succeed(
        "build again.csv --label y --positive 1.0 --features x1,x2,city --encoding a.parquet -o same.parquet",
    );
    for flags in [
        "--label x1",
        "--label y --features x1",
        "--label y --exclude x1",
        "--label y --no-intercept",
        "--label y --positive 0",
    ] {
        let refused = scratch.run(&format!("build again.csv {flags} --encoding a.parquet -o never.parquet"));
        assert_eq!(refused.code, Some(2), "{flags}: {refused:?}");
        assert!(refused.err.contains("contradicts the given encoding"), "{flags}: {}", refused.err);
    }
    scratch.succeed("merge a.parquet again.parquet -o both.parquet");
    // Other files are rejected, and no input is overwritten.
    let outcome = scratch.run("merge a.parquet a.csv -o never.parquet");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let outcome = scratch.run("merge a.parquet again.parquet -o a.parquet");
    assert!(outcome.err.contains("is both input and output"), "{}", outcome.err);
}

#[test]
fn guarantees_compose() {
    let scratch = Scratch::new();
    for name in ["a", "b", "c"] {
        let mut text = "a,b,y\n".to_string();
        for row in 0..3_000 {
            let at = row + 10_000 * usize::from(name.as_bytes()[0]);
            text += &format!(
                "{},{},{}\n",
                1.0 + 0.1 * noise(at, 0),
                0.3 * noise(at, 1),
                u8::from(noise(at, 2) < 0.4)
            );
        }
        scratch.write(&format!("{name}.csv"), text);
        let flags = "--no-standardize --no-intercept --epsilon 0.3 --delta 0.01 --radius 0.5";
        scratch.succeed(&format!("build {name}.csv --label y {flags} -o {name}.parquet"));
    }
    let line = "a.parquet b.parquet c.parquet --epsilon 0.45 --delta 0.02 --radius 0.4 -o all.parquet";
    let bound = merge(&scratch, line)["composition"]["bound"].clone();
    assert!((bound["epsilon"].as_f64().expect("a bound") - (1.3 * 1.45 - 1.0)).abs() < 1e-12, "{bound}");
    assert!((bound["delta"].as_f64().expect("a bound") - 0.05).abs() < 1e-12, "{bound}");
    assert_eq!(bound["radius"].as_f64(), Some(0.4));
}
