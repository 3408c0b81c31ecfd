//! CSV as people have it: semicolons, decimal commas, other words for missing values, and numbers written for readers.

mod common;

use common::{CORE, Scratch, noise, read_core};
use serde_json::Value;

/// A churn export from a German spreadsheet and the same table as plain CSV.
fn churn() -> (String, String) {
    let mut german = "Alter;Umsatz;Rabatt;Tarif;Kündigung\r\n".to_string();
    let mut plain = "Alter,Umsatz,Rabatt,Tarif,Kündigung\n".to_string();
    for row in 0..600 {
        let age = 18 + (noise(row, 0) * 60.0) as u32;
        let cents = (noise(row, 1) * 500_000.0) as u32;
        let discount = (noise(row, 2) * 30.0) as u32;
        let plan = ["Basis", "Plus", "Premium; Familie"][(noise(row, 3) * 3.0) as usize];
        let left = if noise(row, 4) < 0.2 + 0.01 * f64::from(discount) { "ja" } else { "nein" };
        let euros = cents / 100;
        let grouped =
            if euros < 1000 { euros.to_string() } else { format!("{}.{:03}", euros / 1000, euros % 1000) };
        german += &format!("{age};{grouped},{:02} €;{discount} %;\"{plan}\";{left}\r\n", cents % 100);
        plain += &format!(
            "{age},{},{},\"{plan}\",{left}\n",
            f64::from(cents) / 100.0,
            f64::from(discount) / 100.0
        );
    }
    (german, plain)
}

fn record(scratch: &Scratch, line: &str) -> Value {
    serde_json::from_str(&scratch.succeed(&format!("{line} --json"))).expect("JSON")
}

#[test]
fn a_german_export_gives_the_coreset_of_the_plain_table() {
    let scratch = Scratch::new();
    let (german, plain) = churn();
    scratch.write("german.csv", german);
    scratch.write("plain.csv", plain);
    let settings = "--label Kündigung --positive ja --size 100";
    // The error offers the two ways to read the columns.
    let refused = scratch.run(&format!("build german.csv {settings} -o never.parquet"));
    for line in [
        "error: 2 problems\n",
        "  column 'Umsatz': is text, but its values look like numbers: '",
        "  column 'Rabatt': is text, but its values look like numbers: '",
        "for example --numbers Umsatz, or keep it as text, for example --text Umsatz\n",
    ] {
        assert!(refused.err.contains(line), "{line}: {}", refused.err);
    }

    let numbers = "--numbers Umsatz,Rabatt";
    let german = record(&scratch, &format!("build german.csv {settings} {numbers} -o german.parquet"));
    let plain = record(&scratch, &format!("build plain.csv {settings} -o {CORE}"));
    assert_eq!(german["fingerprint"], plain["fingerprint"]);
    let [german, plain] = ["german.parquet", CORE].map(|name| read_core(&scratch.path(name)));
    assert_eq!(german.story["encoding"], plain.story["encoding"]);
    assert_eq!(german.floats("weight"), plain.floats("weight"));
    assert_eq!(german.floats("Umsatz"), plain.floats("Umsatz"));

    // Other commands read the columns as the model has them.
    scratch.succeed("fit german.parquet --sampler laplace -o post.parquet");
    scratch.succeed("verify post.parquet --data german.csv");
    scratch.succeed("predict post.parquet german.csv -o german-out.csv");
    scratch.succeed("predict post.parquet plain.csv -o plain-out.csv");
    let probabilities = |name: &str| -> Vec<String> {
        let text = String::from_utf8(scratch.read(name)).expect("UTF-8");
        text.lines().map(|line| line.rsplit(',').next().unwrap_or_default().to_string()).collect()
    };
    assert_eq!(probabilities("german-out.csv"), probabilities("plain-out.csv"));
}

#[test]
fn delimiters_and_decimal_separators_are_detected() {
    let scratch = Scratch::new();
    let rows = |delimiter: &str, comma: bool| -> String {
        (0..50)
            .map(|row| {
                let x = format!("{:.3}", noise(row, 0) * 10.0 - 5.0);
                let x = if comma { x.replace('.', ",") } else { x };
                let cells = [x, ["a", "b"][row % 2].to_string(), u8::from(noise(row, 1) < 0.5).to_string()];
                cells.join(delimiter) + "\n"
            })
            .collect()
    };
    let mut found = Vec::new();
    for (delimiter, comma) in
        [(",", false), (";", false), (";", true), ("|", false), ("|", true), ("\t", false), ("\t", true)]
    {
        scratch.write("data.csv", format!("x{delimiter}s{delimiter}y\n{}", rows(delimiter, comma)));
        found.push(
            record(&scratch, "build data.csv --label y --size 20 -o core.parquet")["fingerprint"].clone(),
        );
    }
    assert!(found.iter().all(|fingerprint| *fingerprint == found[0]), "{found:?}");
    // What is given is not detected: as text, numbers with a comma have too many levels.
    scratch.write("data.csv", format!("x;s;y\n{}", rows(";", true)));
    let refused = scratch.run("build data.csv --label y --decimal point -o never.parquet");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let line = "build data.csv --label y --size 20 --delimiter semicolon --decimal comma -o core.parquet";
    assert_eq!(record(&scratch, line)["fingerprint"], found[0]);
    let refused = scratch.run("build data.csv --label y --delimiter x -o never.parquet");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("delimiter must be comma, semicolon, tab or pipe"), "{}", refused.err);
    let refused = scratch.run("build core.parquet --label y --delimiter semicolon -o never.parquet");
    assert!(
        refused.err.contains("--delimiter has no effect: 'core.parquet' is not CSV or TSV"),
        "{}",
        refused.err
    );
}

#[test]
fn other_words_mean_missing_values() {
    let scratch = Scratch::new();
    let rows: String = (0..60)
        .map(|row| {
            let x = if row % 10 == 3 { "-999".to_string() } else { row.to_string() };
            let s = if row % 10 == 7 { "k.A." } else { ["a", "b"][row % 2] };
            format!("{x},{s},{}\n", u8::from(noise(row, 0) < 0.5))
        })
        .collect();
    scratch.write("data.csv", format!("x,s,y\n{rows}"));
    let line = "build data.csv --label y --size 20 --missing drop";
    let shown = record(&scratch, &format!("{line} --null-values -999,k.A. -o core.parquet"));
    assert_eq!((&shown["rows"], &shown["rows_dropped"]), (&48.into(), &12.into()));
    let shown = record(&scratch, &format!("{line} -o core.parquet"));
    assert_eq!((&shown["rows"], &shown["rows_dropped"]), (&60.into(), &0.into()));
}
