//! `--formula` on the command line, from a build to predictions.

mod common;

use common::{Mixed, Scratch, read_core};

const FORMULA: &str = "y~x1*city+bs(x2,df=4)+I(x1^2)";

fn scratch() -> Scratch {
    Scratch::with_csv(Mixed::new(400).csv())
}

/// Runs a command that must fail with this code and a message that contains this text.
#[track_caller]
fn fails(scratch: &Scratch, line: &str, code: i32, message: &str) {
    let outcome = scratch.run(line);
    assert!(outcome.err.contains(message), "{line}: {}", outcome.err);
    assert_eq!(outcome.code, Some(code), "{line}");
}

#[test]
fn a_formula_serves_every_command() {
    let scratch = scratch();
    scratch.build(&format!("data.csv --formula {FORMULA} --size 120"));
    let described = scratch.succeed("inspect core.parquet");
    for line in [FORMULA, "city (reference: ", "): 2 coefficients", "bs(x2, df=4): 4 coefficients"] {
        assert!(described.contains(line), "{described}");
    }
    let table = scratch.succeed("fit core.parquet --chains 2 --draws 150 --warmup 150 -o post.parquet");
    for line in ["\nbs(x2, df=4)\n  bs(x2)[1] ", "\nx1:city\n  x1:city=", "\nI(x1^2) "] {
        assert!(table.contains(line), "{table}");
    }
    let posterior = read_core(&scratch.path("post.parquet"));
    for name in ["intercept", "x1", "bs(x2)[1]", "bs(x2)[4]", "I(x1^2)"] {
        assert_eq!(posterior.floats(name).len(), 300, "{name}");
    }
    scratch.succeed("verify post.parquet --data data.csv");
    scratch.succeed("check post.parquet --data data.csv");
    scratch.succeed("report post.parquet -o report.html");
    scratch.succeed("export core.parquet --to stan -o model.stan");
    // New data needs the formula's columns only, and may be beyond the boundary knots.
    scratch.write("new.csv", "city,x2,x1\nBern,-1e3,1.25\nGenf,1e3,9.75\n");
    scratch.succeed("predict post.parquet new.csv -o out.csv");
    scratch.write("new.csv", "city,x2,x1\nBern,1,1\nChur,1,9.75\n");
    fails(&scratch, "predict post.parquet new.csv -o out.csv", 1, "row 2, column 'city': the level 'Chur'");
}

#[test]
fn threads_and_memory_do_not_change_a_byte() {
    let scratch = scratch();
    let bytes = |options: &str| {
        scratch.build(&format!("data.csv --formula {FORMULA} --size 120 --block-rows 64 {options}"));
        scratch.read("core.parquet")
    };
    let first = bytes("--threads 1");
    for options in ["--threads 3", "--threads 2 --memory 1KiB"] {
        assert!(bytes(options) == first, "{options}");
    }
}

#[test]
fn a_stream_learns_its_terms_from_the_first_block() {
    let scratch = scratch();
    let stream = format!("stream data.csv --state state --formula {FORMULA} --size 100 --block 200");
    scratch.succeed(&stream);
    scratch.succeed("stream --state state --snapshot -o core.parquet");
    assert!(scratch.succeed("inspect core.parquet").contains("bs(x2, df=4): 4 coefficients"));
}

#[test]
fn errors_of_formulas_point_at_the_character() {
    let scratch = scratch();
    for (formula, code, message) in [
        ("y~x1+x9", 2, "character 6: there is no column 'x9'"),
        ("y~(x1+x2", 2, "  y~(x1+x2\n    ^"),
        ("y~log(x1,2)", 2, "log has fewer arguments"),
        ("y~x1+C(city,ref='Brn')", 2, "has no level 'Brn' (did you mean 'Bern'?)"),
        ("y~I(0-x1)+log(0-x1)", 1, "column 'x1': log((0 - x1)) is"),
        ("y~x1+offset(x2)", 2, "offsets are not supported"),
        ("y~1", 2, "--formula must name a column besides the label"),
    ] {
        fails(&scratch, &format!("build data.csv --formula {formula} -o core.parquet"), code, message);
    }
    let build = |options: &str| format!("build data.csv --formula y~x1 {options} -o core.parquet");
    fails(&scratch, &build("--label city"), 2, "--label is 'city', but the formula has the label 'y'");
    fails(&scratch, &build("--features x2"), 2, "--features has no effect with a formula");
    fails(&scratch, &build("--no-intercept"), 2, "--no-intercept has no effect with a formula");
}
