//! `tithe inspect` on a messy table: it names the problems of each column, and the command that it proposes works.

mod common;

use common::{Scratch, noise};
use serde_json::Value;

/// An export with an index, a constant, a copy, dates, formatted numbers, missing values and an identifier.
fn messy() -> String {
    let mut text = "row;kunde;konstant;alter;alter_kopie;seit;umsatz;tarif;churn\n".to_string();
    for row in 0..400 {
        let age = if row % 40 == 5 { String::new() } else { (20 + row * 7 % 60).to_string() };
        let plan = ["Basis", "Plus"][usize::from(noise(row, 0) < 0.3)];
        text += &format!(
            "{};K{:05};1;{age};{age};{:02}.{:02}.2023;1.{:03},50 €;{plan};{}\n",
            row + 1,
            row * 37 % 99_991,
            1 + row % 28,
            1 + row % 12,
            100 + row * 13 % 900,
            u8::from(noise(row, 1) < 0.3)
        );
    }
    text
}

#[test]
fn the_proposed_command_works() {
    let scratch = Scratch::new();
    scratch.write("churn.csv", messy());
    let text = scratch.succeed("inspect churn.csv");
    assert!(text.starts_with("churn.csv: data, 400 rows, 9 columns\n"), "{text}");
    for line in [
        "- counts the rows: an index, not a measurement",
        "- almost every row has its own value: an identifier",
        "- constant: it carries no information",
        "- a copy of 'alter'",
        "- dates or times such as '01.01.2023', used as days, month, weekday and, for times, hour",
        "- numbers with signs or separators such as '1.100,50 €', read as text",
        "10 rows with a missing or unusable value in some column",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let command = text.lines().last().expect("a line").trim();
    assert_eq!(
        command,
        "tithe fit churn.csv --label churn --exclude row,kunde,konstant,alter_kopie --numbers umsatz --missing indicator -o posterior.parquet"
    );
    let line = command.strip_prefix("tithe ").expect("a command");
    let out = scratch.succeed(&format!("{line} --sampler laplace"));
    assert!(out.contains("tarif (reference: Basis)"), "{out}");

    let record: Value = serde_json::from_str(&scratch.succeed("inspect churn.csv --json")).expect("JSON");
    assert_eq!((&record["rows"], &record["incomplete_rows"]), (&400.into(), &10.into()));
    assert_eq!(record["columns"][0]["findings"], serde_json::json!([{"finding": "index"}]));
    assert_eq!(record["columns"][3]["missing"], 10);
}

#[test]
fn levels_of_one_class_are_reported_if_the_label_is_known() {
    let scratch = Scratch::new();
    let rows: String = (0..200)
        .map(|row| {
            let level = if row % 50 == 9 { "always" } else { ["a", "b"][row % 2] };
            let y = if level == "always" { "yes" } else { ["no", "yes"][usize::from(noise(row, 0) < 0.5)] };
            format!("{},{level},{y}\n", noise(row, 1))
        })
        .collect();
    scratch.write("data.csv", format!("x,s,bought\n{rows}"));
    let text = scratch.succeed("inspect data.csv --label bought");
    let expected =
        "level 'always': all 4 rows have the label 'yes', so only the prior bounds its coefficient";
    assert!(text.contains(expected), "{text}");
    let refused = scratch.run("inspect data.csv --label nothing");
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

#[test]
fn all_problems_of_a_table_are_reported_together() {
    let scratch = Scratch::new();
    let rows: String = (0..300)
        .map(|row| {
            let x = if row == 7 { String::new() } else { row.to_string() };
            format!("{x},K{row},Z{row},{} %,${row},{}\n", row % 9, ["no", "yes", "maybe"][row % 3])
        })
        .collect();
    scratch.write("data.csv", format!("x,customer,zip,rate,price,y\n{rows}"));
    let refused = scratch.run("build data.csv --label y -o never.parquet");
    let message = "error: 2 problems\n  \
        column 'rate': is text, but its values look like numbers: '0 %'\n    \
        help: read the column as numbers, for example --numbers rate, or keep it as text, for example --text rate\n  \
        column 'price': is text, but its values look like numbers: '$0'\n";
    assert!(refused.err.starts_with(message), "{}", refused.err);
    let refused = scratch.run("build data.csv --label y --numbers rate,price -o never.parquet");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for line in [
        "error: 4 problems\n",
        "  values that cannot be used in 'x' (1 missing, the first in row 8 of 'data.csv')\n",
        "  column 'customer': has more than 100 levels\n",
        "  column 'zip': has more than 100 levels\n    help: ",
        "  column 'y': the label has more than two values: ",
    ] {
        assert!(refused.err.contains(line), "{line}: {}", refused.err);
    }
    let flags = "--numbers rate,price --exclude customer,zip --missing drop --label x";
    assert_eq!(scratch.run(&format!("build data.csv {flags} -o never.parquet")).code, Some(1));
}
