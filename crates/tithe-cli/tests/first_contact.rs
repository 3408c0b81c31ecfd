//! Five messy tables, each from the raw file to a posterior and a report in two commands. What is done to each column is compared with a
//! stored text; `UPDATE_GOLDEN=1` writes it anew.

mod common;

use std::path::Path;

use common::{Scratch, noise};

/// A number from 0 to `below` − 1.
fn pick(row: usize, column: usize, below: usize) -> usize {
    (noise(row, column) * below as f64) as usize
}

/// 1 with the probability that these log-odds give.
fn label(row: usize, log_odds: f64) -> bool {
    noise(row, 99) < 1.0 / (1.0 + (-log_odds).exp())
}

/// Day `day` after 2020-01-01 as year, month and day.
fn date(day: usize) -> (usize, usize, usize) {
    const DAYS: [usize; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut year, mut left) = (2020, day);
    loop {
        for (month, days) in DAYS.iter().enumerate() {
            let days = days + usize::from(month == 1 && year % 4 == 0);
            if left < days {
                return (year, month + 1, left + 1);
            }
            left -= days;
        }
        year += 1;
    }
}

/// A churn export of a German spreadsheet: Windows-1252, semicolons, decimal commas, thousands, percent, dates, ja/nein.
fn churn() -> Vec<u8> {
    let mut text =
        "Lfd. Nr.;Kündigung;Vertragsbeginn;Alter;Umsatz;Rabatt;Tarif;Newsletter;Bemerkung\r\n".to_string();
    for row in 0..3_000 {
        let (year, month, day) = date(pick(row, 0, 1400));
        let age =
            if pick(row, 1, 20) == 0 { "k. A.".to_string() } else { (18 + pick(row, 2, 60)).to_string() };
        let euros = pick(row, 3, 4000);
        let grouped = match euros {
            0..1000 => euros.to_string(),
            _ => format!("{}.{:03}", euros / 1000, euros % 1000),
        };
        let plan = ["Basis", "Plus", "Größe L"][pick(row, 4, 3)];
        let discount = pick(row, 5, 30);
        let letter = ["nein", "ja", ""][pick(row, 6, 3)];
        let left = label(row, -1.5 + 0.05 * discount as f64 - if plan == "Plus" { 1.0 } else { 0.0 });
        text += &format!(
            "{};{};{day:02}.{month:02}.{year};{age};{grouped},{:02} €;{discount} %;{plan};{letter};Kunde {row}\r\n",
            row + 1,
            if left { "ja" } else { "nein" },
            pick(row, 7, 100),
        );
    }
    text.chars().map(|c| if c == '€' { 0x80 } else { c as u8 }).collect()
}

/// A web log: NDJSON with nested objects, timestamps with offsets, and keys that some rows lack.
fn weblog() -> Vec<u8> {
    let mut text = String::new();
    for row in 0..3_000 {
        let (year, month, day) = date(1200 + pick(row, 0, 120));
        let (hour, minute) = (pick(row, 1, 24), pick(row, 2, 60));
        let device = ["mobile", "desktop", "tablet"][pick(row, 3, 3)];
        let is_night = !(6..22).contains(&hour);
        let clicked =
            label(row, -1.0 + if is_night { 0.8 } else { 0.0 } + if device == "mobile" { 0.6 } else { 0.0 });
        let referrer = match pick(row, 4, 4) {
            0 => String::new(),
            other => format!(",\"referrer\":\"{}\"", ["search", "mail", "ad"][other - 1]),
        };
        text += &format!(
            "{{\"event\":{{\"time\":\"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:00Z\",\"ms\":{}}},\
             \"user\":{{\"device\":\"{device}\",\"returning\":{}}}{referrer},\"clicked\":{clicked}}}\n",
            20 + pick(row, 5, 900),
            pick(row, 6, 2) == 1,
        );
    }
    text.into_bytes()
}

/// Insurance claims: exposure in years, postcodes with rare ones, an empty column, dollars.
fn claims() -> Vec<u8> {
    let mut text = "policy,exposure,postcode,premium,car_age,nothing,claimed\n".to_string();
    for row in 0..4_000 {
        // Few postcodes have most of the rows.
        let postcode = 1000 + (noise(row, 0).powi(4) * 400.0) as usize;
        let exposure = 0.1 + noise(row, 1) * 0.9;
        let car_age = pick(row, 2, 20);
        let claimed = label(
            row,
            -2.5 + exposure.ln() + 0.08 * car_age as f64 + if postcode == 1000 { 0.7 } else { 0.0 },
        );
        text += &format!(
            "P-{row:06},{exposure:.3},{postcode},\"${},{:03}.50\",{car_age},,{}\n",
            1 + pick(row, 3, 3),
            pick(row, 4, 1000),
            u8::from(claimed)
        );
    }
    text.into_bytes()
}

/// A survey: yes, no and NA, also in the answer that is modelled.
fn survey() -> Vec<u8> {
    let answer = |row: usize, column: usize| {
        ["yes", "no", "NA"][[0, 0, 0, 0, 0, 1, 1, 1, 1, 2][pick(row, column, 10)]]
    };
    let mut text = "smoker,sport,children,age,region,satisfied\n".to_string();
    for row in 0..2_500 {
        let (smoker, sport) = (answer(row, 0), answer(row, 1));
        let satisfied = match pick(row, 5, 25) {
            0 => "NA",
            _ if label(
                row,
                0.2 + if sport == "yes" { 0.9 } else { 0.0 } - if smoker == "yes" { 0.5 } else { 0.0 },
            ) =>
            {
                "yes"
            }
            _ => "no",
        };
        let age = if pick(row, 6, 12) == 0 { "NA".to_string() } else { (18 + pick(row, 7, 70)).to_string() };
        let children = answer(row, 2);
        text += &format!(
            "{smoker},{sport},{children},{age},{},{satisfied}\n",
            ["north", "south"][pick(row, 8, 2)]
        );
    }
    text.into_bytes()
}

/// Credit data: 0.05 % of 60,000 rows are positive.
fn credit() -> Vec<u8> {
    let mut text = "amount,term,purpose,late_payments,default\n".to_string();
    for row in 0..60_000 {
        let late = (noise(row, 0).powi(6) * 9.0) as usize;
        let purpose = ["car", "house", "other"][pick(row, 1, 3)];
        let defaulted = label(row, -8.6 + 0.45 * late as f64 + if purpose == "car" { 0.5 } else { 0.0 });
        text += &format!(
            "{},{},{purpose},{late},{}\n",
            500 + pick(row, 2, 40_000),
            [12, 24, 36, 60][pick(row, 3, 4)],
            u8::from(defaulted)
        );
    }
    text.into_bytes()
}

/// Compares a text with the stored one.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("a stored text");
    }
    let stored = std::fs::read_to_string(&path).expect("a stored text: run with UPDATE_GOLDEN=1");
    assert_eq!(text, stored, "{name} has changed; if that is right, run with UPDATE_GOLDEN=1");
}

/// Fits the table with one command and reports with the second; compares what `inspect` says of the posterior with the stored text.
fn journey(name: &str, file: &str, content: Vec<u8>, options: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write(file, content);
    let mut fit: Vec<&str> =
        vec!["fit", file, "-o", "posterior.parquet", "--draws", "200", "--warmup", "300", "--quiet"];
    fit.extend(options.split('|'));
    let output = scratch.command("").args(&fit).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut report = vec!["report", "posterior.parquet", "--data", file, "-o", "report.html", "--quiet"];
    if let Some((_, words)) = options.split_once("--null-values|") {
        report.extend(["--null-values", words.split('|').next().unwrap_or_default()]);
    }
    let output = scratch.command("").args(&report).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let html = String::from_utf8(scratch.read("report.html")).expect("text");
    assert!(html.contains("<h2>Odds ratios</h2>") && html.contains("<h2>Fit to the data</h2>"));
    // What follows depends on the draws.
    let told = scratch.succeed("inspect posterior.parquet");
    golden(&format!("{name}.txt"), told.split("  priors ").next().unwrap_or_default());
    scratch
}

/// The rows of a file of predictions, by the name of a column.
fn column(scratch: &Scratch, file: &str, name: &str) -> Vec<String> {
    let text = String::from_utf8(scratch.read(file)).expect("UTF-8");
    let mut lines = text.lines();
    let at = lines.next().expect("a header").split(',').position(|field| field == name).expect("the column");
    lines.map(|line| line.split(',').nth(at).unwrap_or_default().to_string()).collect()
}

#[test]
fn a_german_churn_export() {
    let options = "--label|Kündigung|--numbers|Umsatz,Rabatt|--exclude|Lfd. Nr.,Bemerkung|--null-values|k. A.|--missing|indicator";
    let scratch = journey("churn", "churn.csv", churn(), options);
    let inspect = ["inspect", "churn.csv", "--null-values", "k. A."];
    let output = scratch.command("").args(inspect).output().expect("the program runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("used as days, month, weekday"), "{output:?}");
    let verify = ["verify", "posterior.parquet", "--data", "churn.csv", "--null-values", "k. A.", "--quiet"];
    let output = scratch.command("").args(verify).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_web_log_with_nested_dates() {
    let scratch = journey("weblog", "log.ndjson", weblog(), "--label|clicked|--missing|indicator");
    // Rows without labels are predicted, with and without a referrer.
    scratch.write(
        "new.ndjson",
        "{\"event\":{\"time\":\"2024-05-01T23:10:00+02:00\",\"ms\":50},\"user\":{\"device\":\"mobile\",\"returning\":true}}\n\
         {\"event\":{\"time\":\"2023-05-01T12:10:00Z\",\"ms\":null},\"user\":{\"device\":\"tablet\",\"returning\":false},\"referrer\":\"ad\"}\n",
    );
    scratch.succeed("predict posterior.parquet new.ndjson -o out.csv --quiet");
    let probabilities = column(&scratch, "out.csv", "probability");
    assert!(
        probabilities.len() == 2 && probabilities.iter().all(|p| p.parse::<f64>().is_ok()),
        "{probabilities:?}"
    );
}

#[test]
fn insurance_claims_with_exposure_and_postcodes() {
    let options =
        "--label|claimed|--numbers|premium|--text|postcode|--min-level-rows|60|--exclude|policy,nothing";
    let scratch = journey("claims", "claims.csv", claims(), options);
    // A postcode that the model does not know is one of the others.
    scratch.write(
        "new.csv",
        "exposure,postcode,premium,car_age\n0.5,1000,\"$1,000.00\",3\n0.5,9999,\"$1,000.00\",3\n",
    );
    scratch.succeed("predict posterior.parquet new.csv -o out.csv --quiet");
    let probabilities = column(&scratch, "out.csv", "probability");
    let [known, other] = &probabilities[..] else { panic!("{probabilities:?}") };
    assert!(known.parse::<f64>().expect("a number") > other.parse::<f64>().expect("a number"));
}

#[test]
fn a_survey_with_yes_no_and_na() {
    let scratch = journey("survey", "survey.csv", survey(), "--label|satisfied|--missing|indicator");
    let story = scratch.succeed("inspect posterior.parquet");
    assert!(story.contains("positive: yes, negative: no"), "{story}");
    // A coreset with the same treatment: its rows keep missing values, and other commands understand them.
    scratch
        .succeed("build survey.csv --label satisfied --missing indicator --size 300 -o core.parquet --quiet");
    scratch.succeed("fit core.parquet --sampler laplace -o small.parquet --quiet");
    scratch.succeed("verify small.parquet --data survey.csv --quiet");
    scratch.succeed("check small.parquet --data survey.csv --quiet");
    scratch.succeed("export core.parquet --to stan -o stan");
    scratch.succeed("stream survey.csv --label satisfied --missing indicator --size 200 --block 600 --state state -o streamed.parquet --quiet");
    scratch.succeed("inspect streamed.parquet");
    // Parts with one encoding can be merged.
    let part =
        "build survey.csv --encoding core.parquet --missing indicator --size 200 -o part.parquet --quiet";
    scratch.succeed(part);
    scratch.succeed("merge core.parquet part.parquet --size 300 -o merged.parquet --quiet");
    // The same rule in predictions, and an empty prediction where a rule is missing.
    scratch.write("new.csv", "smoker,sport,children,age,region\nyes,NA,NA,NA,north\nno,yes,NA,40,south\n");
    scratch.succeed("predict small.parquet new.csv -o out.csv --quiet");
    assert!(column(&scratch, "out.csv", "probability").iter().all(|p| p.parse::<f64>().is_ok()));
    // The rule of the mean has no further coefficients.
    let record = scratch.build("survey.csv --label satisfied --missing mean --size 200");
    assert_eq!(record["dimension"], 6);
}

#[test]
fn credit_data_with_few_positives() {
    journey("credit", "credit.csv", credit(), "--label|default");
}
