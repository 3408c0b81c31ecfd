//! Invalid data and usage: message and exit code of each error, and no partial output.

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch};
use common::{CORE, Mixed, Scratch, SmallDisk, names_in, parquet_bytes};

const LABEL: &str = "data.csv --label y";
const REPAIR: &str = "  help: repair the data, leave the column out with --exclude, skip the rows with --missing drop, or replace missing values, for example --missing indicator\n";

#[test]
fn no_such_file() {
    let scratch = Scratch::new();
    let message = "error: cannot read 'nowhere.csv': No such file or directory (os error 2)\n";
    scratch.refuses("nowhere.csv --label y", 1, message);
    scratch.refuses("*.csv --label y", 1, "error: '*.csv': no file matches\n");
}

#[test]
fn empty_file() {
    for (name, content) in [("data.csv", ""), ("data.svm", "\n"), ("data.parquet", ""), ("data", "")] {
        let scratch = Scratch::new();
        scratch.write(name, content);
        scratch.refuses(&format!("{name} --label y"), 1, &format!("error: '{name}': is empty\n"));
    }
}

#[test]
fn header_only() {
    Scratch::with_csv("x,y\n").refuses(LABEL, 1, "error: 'data.csv' has no rows\n");
    Scratch::with_csv("x,y\n").refuses(
        &format!("{LABEL} --missing drop"),
        1,
        "error: 'data.csv' has no rows\n",
    );
    let scratch = Scratch::new();
    scratch.write("a.parquet", parquet_bytes(&Mixed::new(0).batch(true), 10));
    scratch.refuses("a.parquet --label y", 1, "error: 'a.parquet' has no rows\n");
}

#[test]
fn a_directory_without_data_files() {
    let scratch = Scratch::new();
    scratch.write("parts/_SUCCESS", "");
    scratch.refuses("parts --label y", 1, "error: 'parts': the directory holds no data files\n");
}

#[test]
fn unknown_columns() {
    let scratch = Scratch::with_csv("age,income,label\n1,2,0\n3,4,1\n");
    let columns = "  help: the columns are: age, income, label\n";
    for (line, message) in [
        ("--label lable", "there is no column 'lable' to use as label (did you mean 'label'?)"),
        ("--label target", "there is no column 'target' to use as label"),
        (
            "--label label --weight incom",
            "there is no column 'incom' to use as weight (did you mean 'income'?)",
        ),
        ("--label label --features age,x", "there is no column 'x' to use as feature"),
        ("--label label --exclude agee", "there is no column 'agee' to exclude (did you mean 'age'?)"),
        ("--label label --text city", "there is no column 'city' to read as text"),
    ] {
        scratch.refuses(&format!("data.csv {line}"), 1, &format!("error: {message}\n{columns}"));
    }
}

#[test]
fn missing_label_flag() {
    let message = "error: --label is required: name the column with the two classes (columns: x, y)\n";
    Scratch::with_csv("x,y\n1,0\n").refuses("data.csv", 2, message);
}

#[test]
fn label_with_one_value() {
    for (values, shown) in [(["1", "1"], "1"), (["true", "true"], "true"), (["yes", "yes"], "yes")] {
        Scratch::with_csv(format!("x,y\n1,{}\n2,{}\n", values[0], values[1])).refuses(
            LABEL,
            1,
            &format!(
                "error: column 'y': the label has only the value '{shown}'; a model needs both classes\n  \
                 help: name another column with --label, or use data with both classes\n"
            ),
        );
    }
}

#[test]
fn label_with_three_values() {
    let help = "  help: a label has two classes: keep the rows of two, or make a column that is true for one of them\n";
    for (values, listed) in [
        ("1 2 3 1 2", "'1', '2', '3'; the rarest, '3', first appears in row 3 of 'data.csv'"),
        ("a b b a c", "'a', 'b', 'c'; the rarest, 'c', first appears in row 5 of 'data.csv'"),
        ("0.5 0.25 3 4 5 6", "'0.25', '0.5', '3', '4', …"),
    ] {
        let rows: String = values.split(' ').enumerate().map(|(x, y)| format!("{x},{y}\n")).collect();
        let message = format!("error: column 'y': the label has more than two values: {listed}\n{help}");
        Scratch::with_csv(format!("x,y\n{rows}")).refuses(LABEL, 1, &message);
    }
}

#[test]
fn text_label_needs_its_positive_value() {
    let scratch = Scratch::with_csv("x,y\n1,red\n2,green\n3,green\n");
    scratch.refuses(
        LABEL,
        1,
        "error: column 'y': the label's values are 'green', 'red', and it is not clear which one is positive\n  \
         help: name it, for example --positive red\n",
    );
    scratch.refuses(
        &format!("{LABEL} --positive maybe"),
        1,
        "error: column 'y': the label's values are 'green', 'red'; none is 'maybe'\n  \
         help: name one of them, for example --positive red\n",
    );
    // --max-levels does not apply to the label, even if its second value occurs only in a later block.
    assert_eq!(scratch.build(&format!("{LABEL} --positive green --max-levels 1 --block-rows 1"))["rows"], 3);
}

#[test]
fn missing_values_are_counted_and_located() {
    let scratch = Scratch::with_csv("a,b,c,y\n1,1,u,0\n,2,v,1\n3,inf,,0\nNA,2,u,1\n5,9007199254740993,u,0\n");
    scratch.refuses(
        LABEL,
        1,
        &format!(
            "error: values that cannot be used in 'a' (2 missing, the first in row 2 of 'data.csv'), \
             'b' (1 infinite, 1 integers beyond 2^53, which are not exact, the first in row 3 of 'data.csv'), \
             'c' (1 missing, the first in row 3 of 'data.csv')\n{REPAIR}"
        ),
    );
    // Values of an excluded column do not matter.
    scratch.refuses(
        &format!("{LABEL} --exclude a,c"),
        1,
        &format!(
            "error: values that cannot be used in \
             'b' (1 infinite, 1 integers beyond 2^53, which are not exact, the first in row 3 of 'data.csv')\n{REPAIR}"
        ),
    );
}

#[test]
fn missing_labels_and_weights_are_reported_like_features() {
    let scratch = Scratch::with_csv("x,w,y\n1,1,0\n2,,1\n3,1,\n");
    scratch.refuses(
        "data.csv --label y --weight w",
        1,
        &format!(
            "error: values that cannot be used in 'y' (1 missing, the first in row 3 of 'data.csv'), \
             'w' (1 missing, the first in row 2 of 'data.csv')\n{REPAIR}"
        ),
    );
}

#[test]
fn dropped_rows_are_counted() {
    let scratch = Scratch::with_csv("x,y\n1,0\n,1\n3,0\n4,1\ninf,1\n9007199254740993,1\n7,\n");
    let record = scratch.build(&format!("{LABEL} --missing drop"));
    assert_eq!(
        (&record["rows"], &record["rows_read"], &record["rows_dropped"]),
        (&3.into(), &7.into(), &4.into())
    );
    assert_eq!(common::read_core(&scratch.path(CORE)).rows("row"), [0, 2, 3]);
    let out = scratch.succeed(&format!("build {LABEL} --missing drop -o {CORE}"));
    assert!(out.contains("  4 rows were dropped because of missing values\n"), "{out}");
    let out = scratch.succeed("fit data.csv --label y --missing drop --sampler laplace -o draws.parquet");
    assert!(out.contains("3 rows (4 more dropped because of missing values); "), "{out}");
    let out = scratch.succeed("inspect draws.parquet");
    assert!(out.contains("3 rows (4 more dropped because of missing values)\n"), "{out}");
    let scratch = Scratch::with_csv("x,y\n1,0\n,1\n3,0\n4,1\n");
    let out = scratch.succeed(&format!("build {LABEL} --missing drop -o {CORE}"));
    assert!(out.contains("  1 row was dropped because of missing values\n"), "{out}");
}

#[test]
fn output_names_with_the_extension_of_another_format() {
    let scratch = Scratch::with_csv(Mixed::new(50).csv());
    scratch.build(LABEL);
    for line in ["build data.csv --label y -o core.csv", "fit core.parquet -o draws.CSV"] {
        let outcome = scratch.run(line);
        assert_eq!(outcome.code, Some(1), "{line}");
        let message = "has the extension of another format, but the output is Parquet\n  help: use a file name that ends in .parquet\n";
        assert!(outcome.err.ends_with(message), "{line}: {}", outcome.err);
    }
    let outcome = scratch.run("export core.parquet --to stan -o -");
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.err.contains("means standard output"), "{outcome:?}");
    assert_eq!(scratch.names(), [CORE, "data.csv"]);
}

#[test]
fn a_coreset_is_not_read_from_standard_input() {
    let scratch = Scratch::with_csv(Mixed::new(50).csv());
    scratch.build(LABEL);
    let outcome = scratch.run_with_input("fit -", &scratch.read(CORE));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.contains("a coreset cannot be read from standard input"), "{outcome:?}");
}

#[test]
fn all_rows_dropped() {
    Scratch::with_csv("x,y\n,0\nNA,1\n").refuses(
        &format!("{LABEL} --missing drop"),
        1,
        "error: all 2 rows were dropped: each has a missing, infinite or inexact value\n",
    );
}

#[test]
fn integers_too_large_for_a_float_in_parquet() {
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from(vec![1, (1 << 53) + 1, 3]))),
        ("y", Arc::new(Int64Array::from(vec![0, 1, 0]))),
    ];
    let scratch = Scratch::new();
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    scratch.write("a.parquet", parquet_bytes(&batch, 10));
    scratch.refuses(
        "a.parquet --label y",
        1,
        &format!(
            "error: values that cannot be used in 'id' (1 integers beyond 2^53, which are not exact, the first in \
             row 2 of 'a.parquet')\n{REPAIR}"
        ),
    );
}

#[test]
fn text_in_a_numeric_column() {
    let mut text = "x,y\n".to_string() + &"1,0\n2,1\n".repeat(10_000);
    text += "oops,1\n";
    let help = "  help: repair the value, or read the column as text with --text x\n";
    let message = format!("error: 'data.csv', row 20001, column 'x': 'oops' is not a number\n{help}");
    let scratch = Scratch::with_csv(&text);
    for threads in [1, 2, 5] {
        scratch.refuses(&format!("{LABEL} --threads {threads}"), 1, &message);
    }
    // The row number is relative to its file.
    scratch.write("earlier.csv", "x,y\n1,0\n2,1\n");
    scratch.refuses("earlier.csv data.csv --label y", 1, &message);

    // This holds for text and booleans anywhere in the first rows, if most values are numbers.
    for (word, row) in [("oops", 1), ("oops", 3), ("true", 1), ("true", 4)] {
        let mut rows = vec!["1,0", "2,1", "4,0"];
        let wrong = format!("{word},1");
        rows.insert(row - 1, &wrong);
        let message = message.replace("20001", &row.to_string()).replace("oops", word);
        Scratch::with_csv(format!("x,y\n{}\n", rows.join("\n"))).refuses(LABEL, 1, &message);
    }
    let rows = Scratch::with_csv("x,y\n1,0\n2,1\noops,1\n4,0\n").build(&format!("{LABEL} --text x"));
    assert_eq!(rows["dimension"], 4);
    let mostly_text = Scratch::with_csv("x,y\n1,0\nA,1\n3,1\nB,0\n").build(LABEL);
    assert_eq!(mostly_text["dimension"], 4, "numbers are not more");
    let rows = "{\"x\":1,\"y\":0}\n{\"x\":2,\"y\":1}\n{\"x\":\"oops\",\"y\":1}\n";
    let scratch = Scratch::new();
    let message = "error: 'data.ndjson', row 3, column 'x': '\"oops\"' is not a number\n";
    scratch.write("data.ndjson", rows).refuses("data.ndjson --label y", 1, message);
}

#[test]
fn integers_too_large_for_a_float_in_ndjson() {
    for (integer, is_exact) in [
        ("9007199254740992", true),
        ("9007199254740993", false),
        ("-9007199254740993", false),
        ("18446744073709551615", false),
    ] {
        let scratch = Scratch::new();
        scratch.write("a.ndjson", format!("{{\"x\":1,\"y\":0}}\n{{\"x\":{integer},\"y\":1}}\n"));
        let outcome = scratch.run(&format!("build a.ndjson --label y -o {CORE}"));
        assert_eq!(outcome.code == Some(0), is_exact, "{integer}: {outcome:?}");
        let message = "error: values that cannot be used in 'x' (1 integers beyond 2^53";
        assert!(is_exact || outcome.err.starts_with(message), "{integer}: {}", outcome.err);
    }
}

#[test]
fn duplicate_keys() {
    let scratch = Scratch::new();
    scratch.write("data.ndjson", "{\"x\":1,\"y\":0}\n{\"x\":1,\"x\":2,\"y\":1}\n").refuses(
        "data.ndjson --label y",
        1,
        "error: 'data.ndjson', row 2: is not a JSON object ('x' has two values at line 1 column 12)\n  \
         help: write one flat JSON object per line\n",
    );
}

/// Files that start with a byte order mark, or with a zstd skippable frame.
#[test]
fn byte_order_marks_and_skippable_frames() {
    let rows: String = (0..50).map(|n| format!("{} 1:{} 2:{}\n", n % 2, n, n * n % 7)).collect();
    let objects: String = (0..50).map(|n| format!("{{\"y\":{},\"x\":{}}}\n", n % 2, n * n % 7)).collect();
    let table: String = (0..50).map(|n| format!("{},{}\n", n % 2, n * n % 7)).collect();
    let packed = zstd::encode_all(format!("y,x\n{table}").as_bytes(), 3).expect("packed");
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &packed].concat();
    for (name, plain, other) in [
        ("a.svm", rows.clone().into_bytes(), format!("\u{feff}{rows}").into_bytes()),
        ("a.ndjson", objects.clone().into_bytes(), format!("\u{feff}{objects}").into_bytes()),
        ("a.csv.zst", packed.clone(), skipped),
    ] {
        let scratch = Scratch::new();
        let label = if name == "a.svm" { "" } else { "--label y" };
        let built = [plain, other].map(|bytes| {
            scratch.write(name, bytes);
            scratch.succeed(&format!("build {name} {label} -o {CORE}"));
            scratch.read(CORE)
        });
        assert!(built[0] == built[1], "{name}");
    }
}

/// The error names the first row with the level, even if k-means used another one.
#[test]
fn unseen_levels_are_located() {
    let mut text = Mixed::new(3_000).csv();
    let scratch = Scratch::with_csv(&text);
    scratch.succeed(&format!("build {LABEL} --size 100 -o known.parquet"));
    text += "1,2,Atlantis,1\n1,2,Atlantis,0\n1,2,Avalon,1\n";
    scratch.write("data.csv", &text).write("more.csv", &text);
    for (data, method) in [("data.csv", "calibrated"), ("data.csv more.csv", "uniform")] {
        let line = format!("build {data} --encoding known.parquet --method {method} --size 100 -o {CORE}");
        let message = scratch.run(&line).err;
        let what = "error: column 'city': the level 'Atlantis' in row 3001 of 'data.csv' did not occur";
        assert!(message.starts_with(what), "{message}");
    }
}

#[test]
fn a_key_that_occurs_only_in_later_rows() {
    let mut text = "{\"x\":1,\"y\":0}\n{\"x\":2,\"y\":1}\n".repeat(5_000);
    text += "{\"x\":1,\"y\":0,\"z\":3}\n";
    let scratch = Scratch::new();
    scratch.write("data.ndjson", &text).refuses(
        "data.ndjson --label y",
        1,
        "error: 'data.ndjson', row 10001, column 'z': none of the first 10000 rows has this key\n  \
         help: name the columns to use with --features, or move this row to the top\n",
    );
    text.insert_str(0, "{\"x\":1,\"y\":0,\"id\":3}\n");
    scratch.write("data.ndjson", &text).build("data.ndjson --label y --features x");
}

#[test]
fn errors_name_the_file_of_the_row() {
    let scratch = Scratch::new();
    scratch.write("parts/1.csv", "x,w,v,y\n1,1,3,0\n2,1,4,1\n");
    scratch.write("parts/2.csv", "x,w,v,y\n1,1,1,0\n,-1,2,1\n");
    let missing = scratch.run("build parts --label y --exclude w -o core.parquet").err;
    let what = "error: values that cannot be used in 'x' (1 missing, the first in row 2 of 'parts/2.csv')\n";
    assert!(missing.starts_with(what), "{missing}");
    let weight = scratch.run("build parts --label y --weight w --exclude x -o core.parquet").err;
    let what =
        "error: column 'w': the weight in row 2 of 'parts/2.csv' is -1, but weights must be positive\n";
    assert!(weight.starts_with(what), "{weight}");
}

#[test]
fn other_input_files_are_not_overwritten() {
    let scratch = Scratch::with_csv("x,y\n1,0\n2,1\n3,0\n4,1\n");
    scratch.write("star", "x,0.5\n").succeed(&format!("build {LABEL} -o earlier.parquet"));
    for (option, file) in [("--theta-star", "star"), ("--encoding", "earlier.parquet")] {
        let before = scratch.read(file);
        let outcome = scratch.run(&format!("build {LABEL} {option} {file} -o {file}"));
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        assert!(outcome.err.starts_with(&format!("error: '{file}' is both input and output")), "{outcome:?}");
        assert_eq!(scratch.read(file), before);
    }
}

#[test]
fn ragged_rows() {
    let message = "error: 'data.csv', row 2: has 1 field where the header has 2\n";
    Scratch::with_csv("x,y\n1,0\n2\n3,1\n").refuses(LABEL, 1, message);
    let message = "error: 'data.csv', row 1: has 3 fields where the header has 2\n";
    Scratch::with_csv("x,y\n1,0,7\n3,1\n").refuses(LABEL, 1, message);
    let late = "x,y\n".to_string() + &"1,0\n2,1\n".repeat(200_000) + "3\n";
    let message = "error: 'data.csv', row 400001: has 1 field where the header has 2\n";
    Scratch::with_csv(late).refuses(LABEL, 1, message);
}

#[test]
fn damaged_parquet_gives_an_error_and_no_panic_message() {
    let whole = parquet_bytes(&Mixed::new(3_000).batch(true), 1_000);
    let scratch = Scratch::new();
    scratch.write("cut.parquet", &whole[..whole.len() / 2]);
    scratch.refuses(
        "cut.parquet --label y",
        1,
        "error: 'cut.parquet': cannot be read as Parquet: it is damaged or truncated (Parquet error: Invalid Parquet \
         file. Corrupt footer)\n",
    );
    // Damage in the pages or the footer gives an error or a result, never a panic message.
    for at in (4..whole.len() - 8).step_by(whole.len() / 60) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x5a;
        damaged[at + 1] = 0xff;
        scratch.write("damaged.parquet", &damaged);
        for line in ["build damaged.parquet --label y --size 100 -o c.parquet", "inspect damaged.parquet"] {
            let outcome = scratch.run(line);
            assert!(matches!(outcome.code, Some(0 | 1)), "byte {at}: {outcome:?}");
            assert!(
                !outcome.err.contains("panicked") && !outcome.err.contains("bug in tithe"),
                "byte {at}: {outcome:?}"
            );
            assert!(outcome.code == Some(0) || outcome.err.starts_with("error: "), "byte {at}: {outcome:?}");
        }
    }
    assert!(scratch.names().iter().all(|name| name.ends_with(".parquet") && !name.starts_with('.')));
}

#[test]
fn wrong_order_of_libsvm_indices() {
    let scratch = Scratch::new();
    scratch.write("a.svm", "1 1:1 2:1\n-1 3:1 2:5\n");
    let message = "error: 'a.svm', row 2: feature index 2 comes after 3; indices must increase\n";
    scratch.refuses("a.svm", 1, message);
    scratch.write("a.svm", "1 1:1 1:2\n-1 2:5\n");
    scratch.refuses("a.svm", 1, "error: 'a.svm', row 1: feature index 1 occurs twice\n");
}

#[test]
fn part_files_that_disagree() {
    let scratch = Scratch::new();
    let help = "  help: part files must have the same columns, in the same order and of the same kind\n";
    scratch.write("parts/1.csv", "a,y\n1,0\n2,1\n");
    for (second, what) in [
        ("a,y\nu,0\nv,1\n", "column 'a' holds numbers in the first and text in the second"),
        ("b,y\n1,0\n2,1\n", "column 1 is 'a' in the first and 'b' in the second"),
        ("a,b,y\n1,1,0\n2,2,1\n", "the first has no column 'b'"),
        ("y\n0\n1\n", "the second has no column 'a'"),
    ] {
        scratch.write("parts/2.csv", second);
        let message = format!("error: 'parts/1.csv' and 'parts/2.csv' differ: {what}\n{help}");
        scratch.refuses("parts --label y", 1, &message);
    }
}

#[test]
fn the_same_input_twice() {
    let scratch = Scratch::with_csv("x,y\n1,0\n2,1\n");
    scratch.refuses("data.csv data.csv --label y", 1, "error: 'data.csv': is named twice\n");
    scratch.refuses("data.csv ./data.csv --label y", 1, "error: './data.csv': is named twice\n");
    scratch.refuses("data.csv d*.csv --label y", 1, "error: 'data.csv': is named twice\n");
    scratch.refuses("- - --label y", 1, "error: '-': is named twice\n");
}

#[test]
fn wrong_settings() {
    let scratch = Scratch::with_csv("x,y\n1,0\n2,1\n");
    for (line, message) in [
        ("--size 0", "--size must be at least 1"),
        ("--radius -1", "--radius must be finite and not negative, but is -1"),
        ("--radius auto:-2", "--radius must be finite and not negative, but is -2"),
        ("--radius inf", "--radius must be finite and not negative, but is inf"),
        ("--epsilon 0", "--epsilon must lie between 0 and 1, but is 0"),
        ("--epsilon 1", "--epsilon must lie between 0 and 1, but is 1"),
        ("--epsilon -0.1", "--epsilon must lie between 0 and 1, but is -0.1"),
        ("--epsilon nan", "--epsilon must lie between 0 and 1, but is NaN"),
        ("--epsilon 0.1 --delta 0", "--delta must lie between 0 and 1, but is 0"),
        ("--epsilon 0.1 --delta 2", "--delta must lie between 0 and 1, but is 2"),
        ("--epsilon 0.1 --constant 0", "--constant must be positive, but is 0"),
        ("--clusters 0", "--clusters must be between 1 and 1000"),
        ("--threads 0", "--threads must be between 1 and 1024"),
        ("--threads 1000000", "--threads must be between 1 and 1024"),
        ("--block-rows 0", "--block-rows must be between 1 and 2^30"),
        ("--features x,x", "--features must not name 'x' twice"),
        ("--features y", "--features must not name 'y', which is the label"),
        ("--features x --exclude x", "--features must leave at least one column"),
        ("--weight y", "--weight must not name the label 'y'"),
        (
            "--method uniform --epsilon 0.1",
            "--epsilon has no effect on uniform selection, which gives no guarantee\n  help: use --method sensitivity",
        ),
        (
            "--method uniform --radius 2",
            "--radius has no effect with this method\n  help: leave out --radius, use --method calibrated, or use --method sensitivity",
        ),
        (
            "--method uniform --clusters 6",
            "--clusters has no effect with this method\n  help: leave out --clusters, use --method calibrated, or use --method sensitivity",
        ),
        (
            "--method sensitivity --prior normal:1",
            "--prior has no effect with this method\n  help: leave out --prior, or use --method calibrated",
        ),
    ] {
        scratch.refuses(&format!("{LABEL} {line}"), 2, &format!("error: {message}\n"));
    }
}

#[test]
fn invalid_flag_values() {
    let scratch = Scratch::with_csv("x,y\n1,0\n2,1\n");
    for (line, message) in [
        (
            "--radius wide",
            "invalid value 'wide' for '--radius <R>': radius must be a number, auto or auto:A, but is '",
        ),
        (
            "--radius auto:x",
            "invalid value 'auto:x' for '--radius <R>': radius must be a number, auto or auto:A, but is '",
        ),
        (
            "--memory lots",
            "invalid value 'lots' for '--memory <SIZE>': unknown unit 'lots'; use for example 4GiB, 512MB or a number of bytes",
        ),
        (
            "--memory 4apples",
            "invalid value '4apples' for '--memory <SIZE>': unknown unit 'apples'; use for example 4GiB, 512MB or a number of bytes",
        ),
        ("--epsilon small", "invalid value 'small' for '--epsilon <EPSILON>': invalid float literal"),
        ("--size many", "invalid value 'many' for '--size <M>': invalid digit found in string"),
        ("--size -5", "invalid value '-5' for '--size <M>': invalid digit found in string"),
        ("--size 10 --epsilon 0.1", "the argument '--size <M>' cannot be used with '--epsilon <EPSILON>'"),
        ("--delta 0.1", "the following required arguments were not provided:\n  --epsilon <EPSILON>"),
        ("--format excel", "invalid value 'excel' for '--format <FORMAT>': format must be one of"),
    ] {
        let outcome = scratch.run(&format!("build {LABEL} {line} -o {CORE}"));
        assert_eq!(outcome.code, Some(2), "{line}: {outcome:?}");
        assert!(outcome.err.starts_with(&format!("error: {message}")), "{line}: {}", outcome.err);
    }
    assert_eq!(scratch.names(), ["data.csv"]);
}

#[test]
fn a_size_larger_than_the_data_keeps_all_rows() {
    let scratch = Scratch::with_csv(Mixed::new(50).csv());
    for size in ["50", "51", "18446744073709551615"] {
        let record = scratch.build(&format!("{LABEL} --size {size}"));
        assert_eq!(record["exact"], true);
        assert_eq!(record["distinct_rows"], 50);
        let warning = "the data has only 50 rows: all are kept, each with its own weight";
        assert_eq!(record["warnings"], serde_json::json!([warning]));
        let core = common::read_core(&scratch.path(CORE));
        assert_eq!(core.floats("weight"), vec![1.0; 50]);
        assert_eq!(core.rows("row"), (0..50).collect::<Vec<u64>>());
        assert_eq!(core.floats("x1"), Mixed::new(50).x[0]);
    }
    assert_eq!(scratch.build(&format!("{LABEL} --size 49"))["exact"], false);
}

#[test]
fn a_column_named_intercept() {
    let scratch = Scratch::with_csv("intercept,x,y\n1,1,0\n2,2,1\n3,1,1\n4,3,0\n");
    scratch.refuses(
        LABEL,
        1,
        "error: column 'intercept': two coefficients would have this name\n  \
         help: rename the column, leave the column out with --exclude, or use --no-intercept\n",
    );
    assert_eq!(scratch.build(&format!("{LABEL} --no-intercept"))["dimension"], 2);
}

#[test]
fn weights_that_are_not_positive() {
    let help = "  help: leave such rows out of the data\n";
    for (weight, shown) in [("0", "0"), ("-1.5", "-1.5"), ("-0.0", "-0")] {
        let message = format!(
            "error: column 'w': the weight in row 2 of 'data.csv' is {shown}, but weights must be positive\n{help}"
        );
        Scratch::with_csv(format!("x,w,y\n1,1,0\n2,{weight},1\n3,1,1\n")).refuses(
            "data.csv --label y --weight w",
            1,
            &message,
        );
    }
    Scratch::with_csv("x,w,y\n1,heavy,0\n2,light,1\n").refuses(
        "data.csv --label y --weight w",
        1,
        "error: column 'w': is not numeric, so it cannot be the weight\n",
    );
    Scratch::with_csv("x,w,y\n1,1e308,0\n2,1e308,1\n").refuses(
        "data.csv --label y --weight w",
        1,
        "error: column 'w': the sum of the weights is too large to be squared\n  \
         help: use smaller weights\n",
    );
}

#[test]
fn constant_columns_are_kept_with_a_warning() {
    let scratch = Scratch::with_csv("a,b,c,x,y\n7,true,u,1,0\n7,true,u,2,1\n7,true,u,3,0\n");
    let outcome = scratch.run(&format!("build {LABEL} -o {CORE}"));
    assert_eq!(outcome.code, Some(0));
    for line in [
        "warning: column 'a' is constant: it is kept, but the data contains no information about its coefficient\n",
        "warning: column 'b' is constant: it is kept, but the data contains no information about its coefficient\n",
        "warning: column 'c' has only the level 'u': it has no coefficient\n",
    ] {
        assert!(outcome.err.contains(line), "{}", outcome.err);
    }
    assert_eq!(common::read_core(&scratch.path(CORE)).names(), ["a", "b", "c", "x", "y", "weight", "row"]);
}

#[test]
fn a_coreset_as_data_needs_its_weights() {
    let scratch = Scratch::with_csv("x,y\n1,0\n2,1\n3,0\n4,1\n");
    assert_eq!(scratch.run(&format!("build {LABEL} -o {CORE}")).code, Some(0));
    let refused = format!(
        "error: '{CORE}' is a coreset: its column 'weight' says how many rows each row represents\n  \
         help: make it smaller with `tithe merge {CORE} --size …`, or use it as data with --weight weight --exclude row\n"
    );
    for flags in ["", "--weight weight", "--exclude row"] {
        let again = scratch.run(&format!("build {CORE} --label y {flags} -o again.parquet"));
        assert_eq!((again.code, &again.err), (Some(1), &refused), "{flags}");
    }
    // The same columns in a file without metadata.
    scratch.write("columns.csv", "x,y,weight,row\n1,0,2,0\n2,1,2,1\n3,0,2,2\n");
    let again = scratch.run("build columns.csv --label y -o again.parquet");
    let warning = "warning: columns 'weight' and 'row' are used as features: \
                   if this is a coreset, name 'weight' as the weight and exclude 'row'\n";
    assert_eq!(again.code, Some(0));
    assert!(again.err.contains(warning), "{}", again.err);
    let weighted = "--weight weight --exclude row -o weighted.parquet";
    let again = scratch.run(&format!("build {CORE} --label y {weighted}"));
    assert_eq!((again.code, again.err.contains("features")), (Some(0), false), "{}", again.err);
}

#[test]
fn only_constant_text_and_no_intercept() {
    Scratch::with_csv("a,y\nu,0\nu,1\n").refuses(
        &format!("{LABEL} --no-intercept"),
        2,
        "error: --no-intercept leaves no coefficient, because every feature is constant\n",
    );
}

#[test]
fn too_many_levels() {
    let rows = |n: usize| (0..n).map(|i| format!("level {i},{}\n", i % 2)).collect::<String>();
    let scratch = Scratch::with_csv(format!("id,y\n{}", rows(101)));
    scratch.refuses(
        LABEL,
        1,
        "error: column 'id': has more than 100 levels\n  \
         help: leave the column out with --exclude id, group rare levels with --min-level-rows, or allow more with \
         --max-levels\n",
    );
    assert_eq!(scratch.build(&format!("{LABEL} --max-levels 101"))["dimension"], 101);
    assert_eq!(Scratch::with_csv(format!("id,y\n{}", rows(100))).build(LABEL)["dimension"], 100);
}

#[test]
fn numbers_too_large_to_be_squared() {
    Scratch::with_csv("x,y\n1e200,0\n-1e200,1\n1,0\n").refuses(
        LABEL,
        1,
        "error: column 'x': has values too large to be squared\n  help: use a larger unit\n",
    );
}

#[test]
fn types_that_cannot_be_used_are_rejected_with_a_remedy() {
    let columns: [(&str, ArrayRef); 3] = [
        ("day", Arc::new(BinaryArray::from_iter_values([b"a", b"b", b"c"]))),
        ("x", Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]))),
        ("y", Arc::new(Int64Array::from(vec![0, 1, 0]))),
    ];
    let scratch = Scratch::new();
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    scratch.write("a.parquet", parquet_bytes(&batch, 10));
    scratch.refuses(
        "a.parquet --label y",
        1,
        "error: column 'day': values of type Binary cannot be used\n  help: leave the column out with --exclude day\n",
    );
    assert_eq!(scratch.build("a.parquet --label y --exclude day")["dimension"], 2);
}

#[test]
fn bytes_that_are_not_utf8() {
    let help = "  help: convert the file to UTF-8\n";
    Scratch::with_csv(b"x,y\na,0\nb\x81,1\n").refuses(
        LABEL,
        1,
        &format!("error: 'data.csv', row 2, column 'x': 'b\u{fffd}' is not UTF-8\n{help}"),
    );
    Scratch::with_csv(b"x\x81,y\n1,0\n2,1\n").refuses(
        LABEL,
        1,
        &format!("error: 'data.csv': the names of its columns are not UTF-8\n{help}"),
    );
}

#[test]
fn invalid_ball_centres() {
    let scratch = Scratch::with_csv("age,city,y\n1,u,0\n2,v,1\n3,v,0\n");
    let line = "data.csv --label y --theta-star star";
    let help = "  help: write a JSON object, or one `coefficient,value` per line\n";
    for (star, code, message) in [
        (
            r#"{"agee": 1}"#,
            2,
            "error: --theta-star names a coefficient 'agee' that does not exist; the coefficients are intercept, age, city=u\n"
                .to_string(),
        ),
        (r#"{"age": "x"}"#, 1, format!("error: 'star': the value of 'age' is not a number\n{help}")),
        ("age 1\n", 1, format!("error: 'star': line 1 is not `coefficient,value`\n{help}")),
        ("coefficient,value\nage,x\n", 1, format!("error: 'star': line 2: 'x' is not a number\n{help}")),
        ("age,inf\n", 2, "error: --theta-star has the value inf for 'age'\n".to_string()),
        ("", 1, format!("error: 'star': is empty\n{help}")),
        ("age,1\nage,2\n", 1, format!("error: 'star': 'age' occurs twice\n{help}")),
    ] {
        scratch.write("star", star);
        scratch.refuses(line, code, &message);
    }
    scratch.write("star", "coefficient,value\ncity=u,0.5\nintercept,-1\n");
    scratch.build(line);
}

#[test]
fn output_that_cannot_be_written() {
    let scratch = Scratch::with_csv("x,y\n1,0\n2,1\n");
    scratch.write("folder/file", "");
    let made = std::process::Command::new("mkfifo").arg(scratch.path("pipe")).status().expect("mkfifo runs");
    assert!(made.success());
    for (output, message) in [
        (
            "nowhere/core.parquet",
            "cannot write 'nowhere/core.parquet': No such file or directory (os error 2)\n",
        ),
        ("data.csv/core.parquet", "cannot write 'data.csv/core.parquet': Not a directory (os error 20)\n"),
        ("folder", "'folder' is a directory, not a file to write to\n  help: name another file with -o\n"),
        // A pipe instead of a device: a test must not write to devices.
        (
            "pipe",
            "'pipe' is not a regular file, so it cannot be replaced\n  help: name another file with -o\n",
        ),
    ] {
        let outcome = scratch.run(&format!("build {LABEL} -o {output}"));
        assert_eq!(outcome.err, format!("error: {message}"));
        assert_eq!(outcome.code, Some(1));
    }
    assert_eq!(scratch.names(), ["data.csv", "folder", "pipe"]);
    assert!(!scratch.path("pipe").is_file());
    assert_eq!(names_in(&scratch.path("folder")), ["file"]);
}

#[test]
fn the_same_file_as_input_and_output() {
    let content = "x,y\n1,0\n2,1\n";
    let scratch = Scratch::with_csv(content);
    std::os::unix::fs::symlink(scratch.path("data.csv"), scratch.path("link.csv")).expect("a link");
    let message = |name: &str| {
        format!(
            "error: '{name}' is both input and output; writing it would destroy the data\n  \
             help: name another file with -o\n"
        )
    };
    for output in ["data.csv", "./data.csv", "link.csv"] {
        let outcome = scratch.run(&format!("build {LABEL} -o {output}"));
        assert_eq!((outcome.code, outcome.err), (Some(1), message(output)));
    }
    // Also if the shell redirected it to standard input.
    let opened = std::fs::File::open(scratch.path("data.csv")).expect("the data");
    let output = std::process::Command::new(common::TITHE)
        .current_dir(scratch.dir())
        .args("build - --label y -o data.csv".split(' '))
        .stdin(opened)
        .output()
        .expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), message("data.csv"));
    assert_eq!(scratch.read("data.csv"), content.as_bytes());
    assert_eq!(scratch.names(), ["data.csv", "link.csv"]);
}

#[test]
fn a_link_as_output_stays_a_link() {
    let scratch = Scratch::with_csv("x,y\n1,0\n2,1\n");
    scratch.write("elsewhere/core.parquet", "");
    std::os::unix::fs::symlink(scratch.path("elsewhere/core.parquet"), scratch.path(CORE)).expect("a link");
    scratch.build(LABEL);
    assert!(scratch.path(CORE).is_symlink());
    assert!(scratch.read("elsewhere/core.parquet").starts_with(b"PAR1"));
}

#[test]
fn a_full_disk() {
    let scratch = Scratch::with_csv(Mixed::new(3_000).csv());
    let Some(disk) = SmallDisk::mount(scratch.path("disk"), "16k") else {
        eprintln!("SKIPPED: a_full_disk needs the right to mount a file system");
        return;
    };
    std::fs::write(disk.path().join(CORE), "what was here before").expect("room for a little");
    let outcome = scratch.run(&format!("build {LABEL} --size 2000 -o disk/{CORE}"));
    let message = format!("error: cannot write 'disk/{CORE}': No space left on device (os error 28)\n");
    assert_eq!((outcome.code, outcome.err), (Some(1), message));
    assert_eq!(names_in(disk.path()), [CORE]);
    assert_eq!(std::fs::read(disk.path().join(CORE)).expect("readable"), b"what was here before");
}

#[test]
fn no_space_for_a_copy_of_standard_input() {
    let scratch = Scratch::new();
    let Some(disk) = SmallDisk::mount(scratch.path("disk"), "16k") else {
        eprintln!("SKIPPED: no_space_for_a_copy_of_standard_input needs the right to mount a file system");
        return;
    };
    let mut command = scratch.command(&format!("build - --label y --memory 0 -o {CORE}"));
    let output =
        command.env("TMPDIR", disk.path()).write_stdin(Mixed::new(3_000).csv()).output().expect("it runs");
    let message = format!(
        "error: cannot write a temporary copy in '{}': No space left on device (os error 28)\n",
        disk.path().display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(scratch.names(), ["disk"]);
    assert!(names_in(disk.path()).is_empty());
}
