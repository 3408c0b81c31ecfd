//! `tithe fit`: the posterior file, its values, and invalid requests.

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use common::{CORE, CoreFile, Mixed, Outcome, Scratch, read_core};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::Value;

/// A directory with `data.csv` (400 rows) and a coreset of 60 of them.
fn with_core() -> Scratch {
    let scratch = Scratch::with_csv(Mixed::new(400).csv());
    scratch.build("data.csv --label y --size 60");
    scratch
}

#[track_caller]
fn fit(scratch: &Scratch, line: &str) -> Value {
    let out = scratch.succeed(&format!("fit {line} --json"));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// A command that must fail with this code and message, and leave no file behind.
#[track_caller]
fn refuses(scratch: &Scratch, line: &str, code: i32, message: &str) {
    let before = scratch.names();
    let Outcome { code: found, out, err } = scratch.run(line);
    assert_eq!(err, message, "{line}");
    assert_eq!((found, out.as_str()), (Some(code), ""), "{line}");
    assert_eq!(scratch.names(), before, "{line} left something behind");
}

fn coefficient<'a>(record: &'a Value, name: &str) -> &'a Value {
    let summary = record["summary"].as_array().expect("a summary");
    summary.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("no {name} in {record}"))
}

fn number(record: &Value, name: &str, fact: &str) -> f64 {
    coefficient(record, name)[fact].as_f64().expect("a number")
}

/// Writes a coreset file with other metadata or other weights.
fn rewrite(scratch: &Scratch, name: &str, core: &CoreFile, story: &Value, weights: Option<Vec<f64>>) {
    let columns = core.names().into_iter().zip(core.batch.columns()).map(|(name, column)| {
        let replaced = weights.clone().filter(|_| name == "weight");
        (name, replaced.map_or(column.clone(), |weights| Arc::new(Float64Array::from(weights)) as ArrayRef))
    });
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(vec![KeyValue::new("tithe".to_string(), story.to_string())]))
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    scratch.write(name, bytes);
}

#[test]
fn the_posterior_file_contains_draws_and_metadata() {
    let scratch = with_core();
    let record = fit(&scratch, "core.parquet -o post.parquet --chains 2 --draws 300 --warmup 200 --seed 7");
    let file = read_core(&scratch.path("post.parquet"));
    assert_eq!(
        file.names(),
        [
            "chain",
            "draw",
            "intercept",
            "x1",
            "x2",
            "city=Bern",
            "city=Genf",
            "lp",
            "acceptance_rate",
            "step_size",
            "diverging",
            "energy",
            "tree_depth",
            "n_steps",
            "reached_max_treedepth"
        ]
    );
    assert_eq!(file.batch.num_rows(), 600);
    let story = &file.story;
    assert_eq!((&story["file"], &story["version"]), (&"posterior".into(), &1.into()));
    assert_eq!(story["sampler"], "nuts");
    assert_eq!(story["settings"], serde_json::json!({"chains": 2, "draws": 300, "warmup": 200, "seed": 7}));
    assert_eq!(story["prior_scale"], "standardised");
    assert_eq!(story["priors"][1], serde_json::json!({"coefficient": "x1", "prior": "normal:2"}));
    assert_eq!(story["basis"]["kind"], "coreset");
    assert_eq!(story["basis"]["provenance"]["rows"], 400);
    // The summary agrees with the draws in the file.
    let draws = file.floats("x1");
    let mean = draws.iter().sum::<f64>() / 600.0;
    assert!((mean - number(&record, "x1", "mean")).abs() < 1e-12);
    assert!((mean - story["summary"][1]["mean"].as_f64().expect("a mean")).abs() < 1e-12);
    // The transform maps draws to the scale of the priors: x1 = θ/scale.
    let scale = story["transform"]["scale"][1].as_f64().expect("a scale");
    let sd = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
    };
    assert!((scale / sd(&Mixed::new(400).x[0]) - 1.0).abs() < 1e-9);
    // The file can be read again.
    assert!(scratch.succeed("inspect post.parquet").contains("a coreset: "));
    let table = scratch.succeed("fit core.parquet --chains 2 --draws 300 --warmup 200 --seed 7");
    assert!(table.starts_with("coefficient "), "{table}");
    assert!(
        table.contains("priors (normal:2, intercept normal:10) are on the standardised scale"),
        "{table}"
    );
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let scratch = with_core();
    for sampler in ["nuts", "mala", "mala-plain", "laplace"] {
        for (input, name) in [("core.parquet", "c"), ("data.csv --label y", "d")] {
            let line = format!("{input} --sampler {sampler} --draws 150 --warmup 150");
            fit(&scratch, &format!("{line} --threads 1 -o {name}1.parquet"));
            fit(&scratch, &format!("{line} --threads 2 -o {name}2.parquet"));
            let (one, two) =
                (scratch.read(&format!("{name}1.parquet")), scratch.read(&format!("{name}2.parquet")));
            assert!(one == two, "{sampler} {input}");
        }
    }
}

#[test]
fn all_rows_by_nuts_mala_and_laplace_agree() {
    let scratch = Scratch::with_csv(Mixed::new(3000).csv());
    let line = "data.csv --label y --seed 3";
    let laplace = fit(&scratch, &format!("{line} --sampler laplace"));
    assert_eq!(laplace["basis"]["rows"], 3000);
    for sampler in ["nuts", "mala"] {
        let drawn = fit(&scratch, &format!("{line} --sampler {sampler}"));
        let names = laplace["summary"].as_array().expect("a summary").iter();
        for name in names.map(|c| c["name"].as_str().expect("a name")) {
            // With 3,000 rows the posterior is nearly normal: skewness moves a mean by less than 0.1 sd. Monte Carlo errors
            // are below 0.05 sd, so a false alarm takes more than four of them.
            let sd = number(&laplace, name, "sd");
            let apart = (number(&drawn, name, "mean") - number(&laplace, name, "mean")).abs() / sd;
            assert!(apart < 0.3, "{sampler} {name}: {apart} sd");
            assert!((number(&drawn, name, "sd") / sd - 1.0).abs() < 0.15, "{sampler} {name}");
        }
    }
}

#[test]
fn laplace_holds_no_rows_and_the_other_samplers_report_too_little_memory() {
    let scratch = Scratch::with_csv(Mixed::new(5000).csv());
    let line = "data.csv --label y --sampler laplace --draws 50";
    fit(&scratch, &format!("{line} -o held.parquet"));
    fit(&scratch, &format!("{line} --memory 1k -o again.parquet"));
    assert!(scratch.read("held.parquet") == scratch.read("again.parquet"));
    refuses(
        &scratch,
        "fit data.csv --label y --memory 64k",
        1,
        "error: all 5000 rows need 0.000 GiB of memory, but the limit is 0.000 GiB\n  help: make a coreset first with `tithe build`, use --sampler laplace, or allow more with --memory\n",
    );
}

#[test]
fn priors_are_chosen_by_name() {
    let scratch = with_core();
    let narrow = fit(
        &scratch,
        "core.parquet --prior-for x1=normal:0.001 --prior-for city=Genf=laplace:0.5 --intercept-prior cauchy:10",
    );
    assert_eq!(narrow["priors"][0], serde_json::json!(["intercept", "cauchy:10"]));
    assert_eq!(narrow["priors"][4], serde_json::json!(["city=Genf", "laplace:0.5"]));
    let usual = fit(&scratch, "core.parquet");
    assert!(number(&narrow, "x1", "sd") < 0.01 * number(&usual, "x1", "sd"));
    refuses(
        &scratch,
        "fit core.parquet --prior-for X1=normal:1",
        2,
        "error: --prior-for names a coefficient 'X1' that does not exist (did you mean 'x1'?); the coefficients are intercept, x1, x2, city=Bern, city=Genf\n",
    );
    for (line, what) in [
        (
            "--prior normal:0",
            "invalid value 'normal:0' for '--prior <PRIOR>': prior 'normal:0': the scale must be a positive number, not 0",
        ),
        (
            "--prior cauchy:-1",
            "invalid value 'cauchy:-1' for '--prior <PRIOR>': prior 'cauchy:-1': the scale must be a positive number, not -1",
        ),
        (
            "--intercept-prior horseshoe",
            "invalid value 'horseshoe' for '--intercept-prior <PRIOR>': prior 'horseshoe': unknown prior; the priors are flat, normal:SCALE, cauchy:SCALE, student:DEGREES:SCALE, laplace:SCALE, spike-slab:SPIKE:SLAB:INCLUSION",
        ),
        (
            "--prior-for x1",
            "invalid value 'x1' for '--prior-for <NAME=PRIOR>': expected NAME=PRIOR, for example age=normal:1",
        ),
        (
            "--sampler gibbs",
            "invalid value 'gibbs' for '--sampler <SAMPLER>': sampler must be one of nuts, mala, mala-plain, laplace, but is 'gibbs'",
        ),
    ] {
        refuses(
            &scratch,
            &format!("fit core.parquet {line}"),
            2,
            &format!("error: {what}\n\nFor more information, try '--help'.\n"),
        );
    }
}

#[test]
fn files_that_cannot_be_fitted_are_refused() {
    let scratch = with_core();
    fit(&scratch, "core.parquet -o post.parquet --draws 10 --warmup 10");
    refuses(
        &scratch,
        "fit data.csv",
        2,
        "error: --label is required, because data.csv is not a coreset: name the column with the two classes (columns: x1, x2, city, y)\n",
    );
    refuses(
        &scratch,
        "fit core.parquet core.parquet --label y",
        1,
        "error: 'core.parquet' is a coreset, but several files are given\n  help: merge coresets first: `tithe merge A B … -o all.parquet`\n",
    );
    refuses(
        &scratch,
        "fit post.parquet",
        1,
        "error: 'post.parquet' is a posterior, not a coreset\n  help: make a coreset with `tithe build`\n",
    );
    refuses(
        &scratch,
        "fit core.parquet --label y",
        2,
        "error: --label cannot be used with a coreset, whose columns were chosen by `tithe build`\n",
    );
    refuses(&scratch, "fit core.parquet --draws 0", 2, "error: --draws must be at least 1\n");
    for draws in ["1000000000000", "9223372036854775807"] {
        let refused = scratch.run(&format!("fit core.parquet --draws {draws}"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("--draws needs "), "{}", refused.err);
    }
    refuses(&scratch, "fit core.parquet --chains 0", 2, "error: --chains must be at least 1\n");
    refuses(
        &scratch,
        "fit core.parquet -o core.parquet",
        1,
        "error: 'core.parquet' is both input and output; writing it would destroy the data\n  help: name another file with -o\n",
    );
    refuses(
        &scratch,
        "fit core.parquet --output-format stan-csv",
        2,
        "error: --output-format stan-csv needs an output file\n  help: name it with -o\n",
    );
    let core = read_core(&scratch.path(CORE));
    let mut story = core.story.clone();
    story["version"] = 99.into();
    rewrite(&scratch, "newer.parquet", &core, &story, None);
    refuses(
        &scratch,
        "fit newer.parquet",
        1,
        "error: 'newer.parquet' has format version 99; this program reads versions up to 2\n  help: use a newer tithe\n",
    );
    let weights = vec![f64::MAX; core.batch.num_rows()];
    rewrite(&scratch, "heavy.parquet", &core, &core.story, Some(weights));
    refuses(
        &scratch,
        "fit heavy.parquet",
        1,
        "error: 'heavy.parquet' has weights that add up to a number too large to be squared\n  help: build it again\n",
    );
}

#[test]
fn separated_classes_are_an_error_with_a_flat_prior_and_a_warning_with_others() {
    let mut text = "x,y\n".to_string();
    (0..40).for_each(|row| text += &format!("{row},{}\n", u8::from(row >= 20)));
    let scratch = Scratch::with_csv(text);
    for sampler in ["nuts", "laplace"] {
        refuses(
            &scratch,
            &format!("fit data.csv --label y --prior flat --sampler {sampler}"),
            1,
            "error: with a flat prior these rows have no posterior: some coefficients separate the classes perfectly, or one class is missing, so the likelihood has no maximum\n  help: give every coefficient a proper prior, for example --prior normal:2\n",
        );
        let outcome = scratch.run(&format!("fit data.csv --label y --sampler {sampler}"));
        assert_eq!(outcome.code, Some(0));
        assert_eq!(
            outcome.err,
            "warning: the coefficients separate the two classes of these rows perfectly (or there is only one class), so the prior alone bounds their size; look for a column that determines the label, or use an informative --prior\n"
        );
        let strict = scratch.run(&format!("fit data.csv --label y --strict --sampler {sampler}"));
        assert_eq!(strict.code, Some(1));
        assert!(
            strict.err.ends_with("error: 1 warning treated as an error because of --strict\n"),
            "{}",
            strict.err
        );
    }
}

#[test]
fn a_label_with_one_class() {
    let scratch = Scratch::with_csv("x,y\n1,1\n2,1\n3,1\n");
    refuses(
        &scratch,
        "fit data.csv --label y",
        1,
        "error: column 'y': the label has only the value '1'; a model needs both classes\n  help: name another column with --label, or use data with both classes\n",
    );
}

/// A coreset represents all rows only near the mode that it was calibrated for.
#[test]
fn a_prior_that_moves_the_mode_away_from_the_certified_one_gives_a_warning() {
    let scratch = Scratch::with_csv(Mixed::new(2_000).csv());
    scratch.build("data.csv --label y --size 200");
    let warning = "warning: the coreset was calibrated for priors normal:2, and these move the mode ";
    for (prior, is_far) in
        [("normal:2", false), ("normal:1", false), ("cauchy:2.5", false), ("normal:0.02", true)]
    {
        let outcome = scratch.run(&format!("fit core.parquet --prior {prior} --strict"));
        assert_eq!((outcome.code == Some(1), outcome.err.contains(warning)), (is_far, is_far), "{outcome:?}");
    }
    // No warning if the coreset was calibrated for such a prior, or contains all rows.
    scratch.build("data.csv --label y --size 200 --prior normal:0.02");
    scratch.succeed("fit core.parquet --strict");
    scratch.succeed("fit core.parquet --prior normal:0.02 --strict");
    scratch.build("data.csv --label y --size 2000");
    scratch.succeed("fit core.parquet --prior normal:0.02 --strict");
}

#[test]
fn too_few_draws_give_a_warning_and_fail_with_strict() {
    let scratch = with_core();
    let outcome = scratch.run("fit core.parquet --draws 3 --warmup 5 --strict");
    let message = "warning: 3 draws per chain are too few for diagnostics; use --draws 1000\n";
    assert!(outcome.code == Some(1) && outcome.err.contains(message), "{outcome:?}");
    let outcome = scratch.run("fit core.parquet --draws 20 --warmup 20 --strict -o post.parquet");
    assert_eq!(outcome.code, Some(1));
    assert!(
        outcome.err.contains("warning: too few effective draws: below 400 for 5 of 5 coefficients"),
        "{outcome:?}"
    );
    assert!(outcome.err.contains("use --draws"), "{outcome:?}");
    assert!(scratch.path("post.parquet").is_file(), "the draws are still written");
}

#[test]
fn an_unnecessary_coreset_is_reported() {
    let scratch = Scratch::with_csv(Mixed::new(400).csv());
    let built = scratch.succeed("build data.csv --label y --size 60 -o core.parquet");
    assert!(built.contains("no coreset needed: fitting all 400 rows would take about "), "{built}");
    let fitted = scratch.succeed("fit core.parquet");
    assert!(
        fitted.contains("no coreset needed: ")
            && fitted.contains(" s (tithe fit DATA with the same options)\n"),
        "{fitted}"
    );
    let whole = scratch.succeed("fit data.csv --label y");
    assert!(whole.contains("no coreset needed: fitting all 400 rows took "), "{whole}");
}

#[test]
fn data_is_fitted_through_a_coreset_in_one_command() {
    let scratch = Scratch::with_csv(Mixed::new(3000).csv());
    let text = scratch.succeed(
        "fit data.csv --label y --size 300 --keep core.parquet -o post.parquet --chains 2 --draws 300",
    );
    let lines: Vec<&str> = text.lines().collect();
    let start =
        |word: &str| lines.iter().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{text}"));
    assert!(start("coreset: ").contains("weighted rows represent 3,000 rows; "), "{text}");
    assert!(start("draws: ").starts_with("draws: 2 chains of 300 draws (nuts); "), "{text}");
    let verified = start("verified against all rows: ");
    assert!(verified.contains("indistinguishable, used as they are; KL "), "{text}");
    // The coreset is the one that `build` writes, and its draws are those of `fit`.
    scratch.succeed("build data.csv --label y --size 300 -o other.parquet");
    assert!(scratch.read("core.parquet") == scratch.read("other.parquet"));
    scratch.succeed("fit core.parquet --chains 2 --draws 300 -o plain.parquet");
    let [one, other] = ["post.parquet", "plain.parquet"].map(|name| read_core(&scratch.path(name)));
    assert_eq!(one.batch, other.batch);
    assert_eq!(one.story["verified"]["rows"], 3000);
    assert_eq!(other.story["verified"], Value::Null);

    // A coreset can be verified as well.
    let line = "fit core.parquet --chains 2 --draws 300 --verify data.csv -o third.parquet";
    assert!(scratch.succeed(line).contains("verified against all rows: indistinguishable"));
    assert!(scratch.read("third.parquet") == scratch.read("post.parquet"));
    let inspected = scratch.succeed("inspect post.parquet");
    assert!(inspected.contains("  verified              against all rows: indistinguishable"), "{inspected}");
    assert!(scratch.succeed("inspect plain.parquet").contains("  verified              no\n"));
    scratch.succeed("report post.parquet -o report.html");
    let html = String::from_utf8(scratch.read("report.html")).expect("text");
    assert!(html.contains("Verified against all rows: indistinguishable"), "{html}");

    let record = fit(&scratch, "data.csv --label y --kl 0.01 --chains 2 --draws 300");
    assert!(number_at(&record["coreset"]["certificate"]["kl"]) <= 0.01, "{record}");
    assert_eq!(record["verified"]["verdict"], "indistinguishable");
}

#[track_caller]
fn number_at(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn inaccurate_draws_are_corrected_in_one_command() {
    let scratch = Scratch::with_csv(Mixed::new(3000).csv());
    let text = scratch.succeed("fit data.csv --label y --size 12 -o post.parquet");
    assert!(
        text.contains("verified against all rows: inaccurate, therefore resampled (efficiency "),
        "{text}"
    );
    assert!(scratch.succeed("inspect post.parquet").contains("therefore resampled"));
    // The corrected draws are used by other commands, and need no other correction.
    let found: Value = serde_json::from_str(&scratch.succeed("verify post.parquet --data data.csv --json"))
        .expect("a record");
    assert!(number_at(&found["kl"]) < 1e-12 && number_at(&found["max_mean_error"]) < 1e-6, "{found}");
    scratch.succeed("fit data.csv --label y --size 12 -o post --output-format stan-csv");
    assert!(["post_1.csv", "post_4.csv"].iter().all(|name| scratch.path(name).exists()));
}

#[test]
fn all_rows_are_fitted_where_that_is_quick_or_asked_for() {
    let scratch = with_core();
    let line = "fit data.csv --label y --chains 2 --draws 300";
    for (flags, name) in [("", "a.parquet"), ("--whole", "b.parquet")] {
        let text = scratch.succeed(&format!("{line} {flags} -o {name}"));
        assert!(text.contains("all 400 rows; 2 chains") && !text.contains("verified"), "{text}");
    }
    assert!(scratch.read("a.parquet") == scratch.read("b.parquet"));
    assert!(scratch.succeed("inspect a.parquet").contains("  verified              fitted to all rows\n"));
    for flag in ["--size 60", "--kl 0.1", "--keep c.parquet"] {
        let refused = scratch.run(&format!("{line} --whole {flag}"));
        assert!(refused.code == Some(2) && refused.err.contains("cannot be used with"), "{refused:?}");
        let refused = scratch.run(&format!("fit core.parquet {flag}"));
        let name = flag.split(' ').next().expect("a flag");
        let message = format!(
            "error: {name} has an effect only on data, and this is a coreset\n  help: leave out {name}"
        );
        assert!(refused.code == Some(2) && refused.err.starts_with(&message), "{refused:?}");
    }
    let refused = scratch.run("fit core.parquet --whole");
    assert!(
        refused.code == Some(2) && refused.err.contains("--whole has an effect only on data"),
        "{refused:?}"
    );
    let refused = scratch.run(&format!("{line} --verify data.csv"));
    assert!(
        refused.code == Some(2) && refused.err.contains("--verify has an effect only on a coreset"),
        "{refused:?}"
    );
    // The name does not tell the format, so that the output could be the input.
    scratch.write("data.parquet", scratch.read("data.csv"));
    let refused = scratch.run(&format!("{line} --keep data.parquet").replace("data.csv", "data.parquet"));
    assert!(refused.code == Some(1) && refused.err.contains("is both input and output"), "{refused:?}");
    assert!(scratch.run(&format!("{line} --size 0")).code == Some(2));
    let refused = scratch.run("fit core.parquet --verify core.parquet");
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

#[test]
fn a_column_named_like_a_statistic_keeps_its_name() {
    let mut text = "lp,energy,y\n".to_string();
    (0..60).for_each(|row| text += &format!("{},{},{}\n", row % 7, row % 5, u8::from(row % 3 == 0)));
    let scratch = Scratch::with_csv(text);
    fit(&scratch, "data.csv --label y --draws 20 --warmup 20 -o post.parquet");
    let file = read_core(&scratch.path("post.parquet"));
    assert_eq!(file.names()[..6], ["chain", "draw", "intercept", "lp", "energy", "stats.lp"]);
    assert!(file.names().contains(&"stats.energy"));
    assert!(scratch.succeed("inspect post.parquet").contains("lp: mean"));
    let scratch = Scratch::with_csv("intercept,y\n1,0\n2,1\n3,0\n");
    refuses(
        &scratch,
        "fit data.csv --label y",
        1,
        "error: column 'intercept': two coefficients would have this name\n  help: rename the column, leave the column out with --exclude, or use --no-intercept\n",
    );
}

#[test]
fn stan_csv_contains_the_same_draws() {
    let scratch = with_core();
    fit(&scratch, "core.parquet --chains 2 --draws 100 --warmup 100 -o post.parquet");
    fit(&scratch, "core.parquet --chains 2 --draws 100 --warmup 100 --output-format stan-csv -o draws.csv");
    let file = read_core(&scratch.path("post.parquet"));
    for chain in 0..2 {
        let text = String::from_utf8(scratch.read(&format!("draws_{}.csv", chain + 1))).expect("UTF-8");
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
        assert_eq!(
            header,
            [
                "lp__",
                "accept_stat__",
                "stepsize__",
                "treedepth__",
                "n_leapfrog__",
                "divergent__",
                "energy__",
                "intercept",
                "x1",
                "x2",
                "city_Bern",
                "city_Genf"
            ]
        );
        assert!(text.contains("# 'city=Bern' is city_Bern\n"));
        assert!(text.contains("#     num_samples = 100\n"));
        let rows: Vec<Vec<f64>> =
            lines.map(|line| line.split(',').map(|word| word.parse().expect("a number")).collect()).collect();
        assert_eq!(rows.len(), 100);
        for (ours, theirs) in [("lp", 0), ("acceptance_rate", 1), ("energy", 6), ("x2", 9), ("city=Genf", 11)]
        {
            let column: Vec<f64> = rows.iter().map(|row| row[theirs]).collect();
            assert_eq!(file.floats(ours)[chain * 100..(chain + 1) * 100], column, "{ours}");
        }
    }
}

#[test]
fn a_coreset_that_is_too_small_gives_a_warning() {
    let scratch = Scratch::with_csv(Mixed::new(2_000).csv());
    scratch.build("data.csv --label y --size 5");
    let message = "warning: the coreset is too small according to its certificate: its posterior differs from the full data's\n";
    for (flags, code) in [("", 0), ("--strict", 1)] {
        let outcome = scratch.run(&format!("fit {CORE} --sampler laplace {flags}"));
        assert_eq!(outcome.code, Some(code), "{outcome:?}");
        assert!(outcome.err.contains(message), "{outcome:?}");
    }
}

/// The lines of the table and the odds ratios in JSON against the draws.
#[test]
fn odds_ratios_have_the_interval_asked_for() {
    let scratch = with_core();
    let line = format!("fit {CORE} --chains 2 --draws 300 --warmup 200 -o post.parquet --interval 0.5");
    let text = scratch.succeed(&line);
    let record: Value = serde_json::from_str(&scratch.succeed(&format!("{line} --json"))).expect("JSON");
    let draws = read_core(&scratch.path("post.parquet"));
    let ratios = record["odds_ratios"].as_array().expect("odds ratios");
    let names: Vec<&str> = ratios.iter().filter_map(|ratio| ratio["name"].as_str()).collect();
    assert_eq!(names, ["x1", "x2", "city=Bern", "city=Genf"]);
    for ratio in ratios {
        let mut values = draws.floats(ratio["name"].as_str().expect("a name"));
        values.sort_by(f64::total_cmp);
        let quantile = |p: f64| {
            let at = (values.len() - 1) as f64 * p;
            let low = values[at.floor() as usize];
            (low + (at - at.floor()) * (values[at.ceil() as usize] - low)).exp()
        };
        for (key, p) in [("lower", 0.25), ("median", 0.5), ("upper", 0.75)] {
            let found = ratio[key].as_f64().expect("a number");
            assert!((found / quantile(p) - 1.0).abs() < 1e-12, "{ratio}: {key}");
        }
    }
    assert!(text.lines().next().is_some_and(|line| line.contains("50 % interval")), "{text}");
    assert!(text.lines().all(|line| line.len() < 90 || !line.contains(" to ")), "{text}");
    let at = |start: &str| text.lines().position(|line| line.starts_with(start)).expect("a line");
    let heading = at("city (reference: Basel)");
    assert_eq!((at("  Bern "), at("  Genf ")), (heading + 1, heading + 2), "{text}");
    let refused = scratch.run(&format!("fit {CORE} --interval 1"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn the_scale_of_the_priors_is_reported() {
    let scratch = Scratch::with_csv(Mixed::new(400).csv());
    let line = "fit data.csv --label y --sampler laplace";
    let centred = "standardised scale (columns centred, numbers divided by their sd)";
    let scaled = "standardised scale (numbers divided by their sd)";
    for (flags, message) in
        [("", centred), ("--no-intercept", scaled), ("--no-standardize", "are in the units of the data")]
    {
        let out = scratch.succeed(&format!("{line} {flags}"));
        assert!(out.contains(message), "{flags}: {out}");
    }
}
