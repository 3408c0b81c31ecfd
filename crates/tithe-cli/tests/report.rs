//! `tithe report` from end to end.

mod common;

use common::{CORE, Mixed, Scratch};

/// A directory with posteriors of a coreset and of all rows.
fn prepared() -> Scratch {
    let scratch = Scratch::with_csv(Mixed::new(2_000).csv());
    scratch.build("data.csv --label y --size 100 --seed 3");
    scratch.succeed(&format!("fit {CORE} -o posterior.parquet --draws 200 --quiet"));
    scratch.succeed("fit data.csv --label y --sampler laplace -o whole.parquet --quiet");
    scratch
}

fn page(scratch: &Scratch, name: &str) -> String {
    String::from_utf8(scratch.read(name)).expect("text")
}

#[test]
fn the_report_is_self_contained_and_agrees_with_inspect() {
    let scratch = prepared();
    let said = scratch.succeed("report posterior.parquet -o report.html");
    assert!(said.contains("report.html"), "{said}");
    let html = page(&scratch, "report.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>\n"));
    for reference in ["src=", "href=", "@import", "url(http", "<script"] {
        assert!(!html.contains(reference), "{reference}");
    }
    let story = scratch.succeed("inspect posterior.parquet --json");
    let story: serde_json::Value = serde_json::from_str(&story).expect("JSON");
    for coefficient in story["summary"].as_array().expect("a summary") {
        let name = coefficient["name"].as_str().expect("a name");
        let class = if name.contains('=') { "name level" } else { "name" };
        assert!(html.contains(&format!("<td class=\"{class}\">{name}</td>")), "{name}");
    }
    for fact in [
        "<h2>Verification</h2>",
        "<h2>Odds ratios</h2>",
        "representing 2,000 rows",
        "chain 4",
        "normal:2",
        "coreset seed</td><td>3<",
    ] {
        assert!(html.contains(fact), "{fact}");
    }
    // The same posterior gives the same report.
    scratch.succeed("report posterior.parquet -o again.html");
    assert_eq!(page(&scratch, "again.html"), html);
    // The forest plot has an interval for every coefficient but the intercept.
    let coefficients = story["summary"].as_array().expect("a summary").len();
    assert_eq!(html.matches("class=\"bar\"").count(), coefficients - 1);
    for tag in ["table", "tr", "td", "th", "div", "p", "h2", "svg", "g", "text"] {
        let opened = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn a_posterior_of_all_rows_and_poor_draws_have_reports() {
    let scratch = prepared();
    scratch.succeed("report whole.parquet -o whole.html");
    assert!(page(&scratch, "whole.html").contains("fitted to all 2,000 rows"));
    scratch.succeed(&format!("fit {CORE} -o poor.parquet --draws 20 --warmup 5 --chains 1 --quiet"));
    let record = scratch.succeed("report poor.parquet -o poor.html --json");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert!(!record["findings"].as_array().expect("findings").is_empty());
    let html = page(&scratch, "poor.html");
    assert!(html.contains("class=\"warning\"") && !html.contains("found no problems.</p>"));
}

#[test]
fn a_coreset_that_is_too_small_is_reported_first() {
    let scratch = Scratch::with_csv(Mixed::new(2_000).csv());
    let record = scratch.build("data.csv --label y --size 5");
    let verdict = record["certificate"]["verdict"].as_str().expect("a verdict");
    assert!(verdict.starts_with("too small: try --size "), "{record}");
    scratch.succeed(&format!("fit {CORE} -o posterior.parquet --prior cauchy:1 --quiet"));
    scratch.succeed("report posterior.parquet -o report.html");
    let html = page(&scratch, "report.html");
    assert!(html.contains("class=\"warning\"") && html.contains("the coreset is too small"));
    // The certificate was computed for other priors than those of the posterior.
    assert!(html.contains("with priors normal:2"), "{html}");
}

#[test]
fn column_names_are_escaped() {
    let scratch = Scratch::with_csv(Mixed::new(300).csv().replacen("x1", "a<b>&c", 1));
    scratch.succeed("fit data.csv --label y --draws 50 --warmup 50 -o posterior.parquet --quiet");
    scratch.succeed("report posterior.parquet -o report.html");
    let html = page(&scratch, "report.html");
    assert!(html.contains("a&lt;b&gt;&amp;c") && !html.contains("a<b>"));
}

#[test]
fn other_files_are_rejected_and_nothing_is_written() {
    let scratch = prepared();
    for (line, word) in [
        (format!("report {CORE} -o r.html"), "coreset"),
        ("report data.csv -o r.html".to_string(), "data.csv"),
        ("report nothing.parquet -o r.html".to_string(), "nothing.parquet"),
        ("report posterior.parquet -o posterior.parquet".to_string(), "posterior.parquet"),
        ("report posterior.parquet -o no/such/r.html".to_string(), "no/such"),
        ("report posterior.parquet -o -".to_string(), "standard output"),
        (format!("report posterior.parquet -o {CORE}"), "is a coreset, which the report would overwrite"),
    ] {
        let outcome = scratch.run(&line);
        assert!(outcome.code != Some(0) && outcome.err.contains(word), "{line}: {outcome:?}");
        assert!(!scratch.path("r.html").exists());
    }
    scratch.succeed("inspect posterior.parquet");
    scratch.succeed(&format!("inspect {CORE}"));
}
