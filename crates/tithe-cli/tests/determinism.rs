//! The same rows and the same seed give the same bytes, for every format, number of threads and amount of memory.

mod common;

use std::io::Write;

use common::{CORE, Mixed, Scratch, arrow_bytes, parquet_bytes, read_core, stream_bytes};

const ROWS: usize = 20_000;
/// Several blocks, the last of them shorter.
const LINE: &str = "--label y --size 300 --block-rows 6000";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).expect("packed");
    encoder.finish().expect("packed")
}

fn libsvm(data: &Mixed) -> Vec<u8> {
    let mut text = String::new();
    for row in 0..data.y.len() {
        text += &format!("{:+} 1:{:?} 2:{:?}\n", 2 * data.y[row] - 1, data.x[0][row], data.x[1][row]);
    }
    text.into_bytes()
}

/// The same table in every format, and the settings that each needs.
fn formats(data: &Mixed) -> Vec<(&'static str, Vec<u8>)> {
    let csv = data.csv();
    vec![
        ("data.csv", csv.clone().into_bytes()),
        ("data.tsv", csv.replace(',', "\t").into_bytes()),
        ("data.csv.gz", gzip(csv.as_bytes())),
        ("data.csv.zst", zstd::encode_all(csv.as_bytes(), 1).expect("packed")),
        ("data.parquet", parquet_bytes(&data.batch(false), 3_000)),
        ("data.arrow", arrow_bytes(&data.batch(false), 1_777)),
        ("data.arrows", stream_bytes(&data.batch(false), 1_777)),
    ]
}

fn core(scratch: &Scratch, line: &str) -> Vec<u8> {
    scratch.build(line);
    scratch.read(CORE)
}

#[test]
fn any_number_of_threads_and_any_memory_gives_the_same_bytes() {
    let scratch = Scratch::new();
    for (name, bytes) in formats(&Mixed::new(ROWS)) {
        if !["data.csv", "data.csv.gz", "data.parquet", "data.arrows"].contains(&name) {
            continue;
        }
        scratch.write(name, bytes);
        let reference = core(&scratch, &format!("{name} {LINE} --threads 1"));
        for threads in [1, 2, 5] {
            for memory in ["--memory 0", "--memory 50k", "--memory 200k", ""] {
                let line = format!("{name} {LINE} --threads {threads} {memory}");
                assert!(core(&scratch, &line) == reference, "{line}");
            }
        }
        assert!(core(&scratch, &format!("{name} {LINE} --seed 1")) != reference, "the seed must matter");
    }
}

#[test]
fn every_format_gives_the_same_bytes_from_a_file_and_from_standard_input() {
    let scratch = Scratch::new();
    let data = Mixed::new(ROWS);
    let mut reference = None;
    for (name, bytes) in formats(&data) {
        scratch.write(name, &bytes);
        let from_file = core(&scratch, &format!("{name} {LINE}"));
        // The column types are the same, so the files are identical.
        let reference = reference.get_or_insert_with(|| from_file.clone());
        assert!(*reference == from_file, "{name}");
        for memory in ["", "--memory 0", "--memory 5k"] {
            let line = format!("build - {LINE} {memory} -o {CORE}");
            let outcome = scratch.run_with_input(&line, &bytes);
            assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
            assert!(scratch.read(CORE) == from_file, "{name} {line}");
        }
    }
}

#[test]
fn libsvm_gives_the_same_bytes_from_a_file_and_from_standard_input() {
    let scratch = Scratch::new();
    let bytes = libsvm(&Mixed::new(ROWS));
    scratch.write("data.svm", &bytes);
    scratch.write("data.svm.gz", gzip(&bytes));
    let line = "--size 300 --block-rows 2048";
    let reference = core(&scratch, &format!("data.svm {line}"));
    assert!(core(&scratch, &format!("data.svm.gz {line}")) == reference);
    for (input, memory) in
        [(&bytes, ""), (&bytes, "--memory 0"), (&scratch.read("data.svm.gz"), "--memory 5k")]
    {
        let outcome = scratch.run_with_input(&format!("build - {line} {memory} -o {CORE}"), input);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(scratch.read(CORE) == reference, "{memory}");
    }
}

#[test]
fn other_column_types_give_the_same_rows_and_weights() {
    let scratch = Scratch::new();
    let data = Mixed::new(ROWS);
    scratch.write("data.csv", data.csv());
    scratch.write("data.parquet", parquet_bytes(&data.batch(true), 5_000));
    scratch.build(&format!("data.csv {LINE}"));
    let csv = read_core(&scratch.path(CORE));
    scratch.build(&format!("data.parquet {LINE}"));
    let parquet = read_core(&scratch.path(CORE));
    assert_eq!(csv.rows("row"), parquet.rows("row"));
    assert_eq!(csv.floats("weight"), parquet.floats("weight"));
    // The type of the user's column is kept.
    assert_eq!(parquet.integers("y").iter().map(|y| *y as f64).collect::<Vec<_>>(), csv.floats("y"));
}

#[test]
fn part_files_give_the_same_bytes_as_one_file() {
    let scratch = Scratch::new();
    let csv = Mixed::new(ROWS).csv();
    let (header, rows) = csv.split_once('\n').expect("a header");
    let lines: Vec<&str> = rows.lines().collect();
    for (part, lines) in lines.chunks(7_001).enumerate() {
        scratch.write(&format!("parts/part-{part}.csv"), format!("{header}\n{}\n", lines.join("\n")));
    }
    scratch.write("data.csv", &csv);
    let reference = core(&scratch, &format!("data.csv {LINE}"));
    for parts in ["parts", "parts/*.csv", "parts/part-0.csv parts/part-1.csv parts/part-2.csv"] {
        assert!(core(&scratch, &format!("{parts} {LINE}")) == reference, "{parts}");
    }
}
