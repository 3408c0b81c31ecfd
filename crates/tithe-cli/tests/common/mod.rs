//! Shared by the command-line tests: a scratch directory, the program, and test data.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::Schema;
use assert_cmd::Command;
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

/// The program under test.
pub const TITHE: &str = env!("CARGO_BIN_EXE_tithe");
/// The output file of most tests.
pub const CORE: &str = "core.parquet";
/// Content of the output file before a command that must fail.
const KEEPSAKE: &[u8] = b"what was here before";

/// A temporary directory in which commands run.
pub struct Scratch(TempDir);

/// Exit code and output of a command.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch(tempfile::Builder::new().prefix("tithe-test-").tempdir().expect("a scratch directory"))
    }

    /// A directory with the file `data.csv`.
    pub fn with_csv(content: impl AsRef<[u8]>) -> Scratch {
        let scratch = Scratch::new();
        scratch.write("data.csv", content);
        scratch
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Scratch {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).expect("a file");
        self
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Names of all files and directories, sorted.
    pub fn names(&self) -> Vec<String> {
        names_in(self.dir())
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(TITHE);
        command.current_dir(self.dir()).args(line.split_whitespace()).timeout(Duration::from_secs(120));
        command
    }

    /// Runs a command line, split at spaces.
    pub fn run(&self, line: &str) -> Outcome {
        finish(&mut self.command(line))
    }

    pub fn run_with_input(&self, line: &str, input: &[u8]) -> Outcome {
        finish(self.command(line).write_stdin(input))
    }

    /// Runs a command that must succeed, and returns its standard output.
    #[track_caller]
    pub fn succeed(&self, line: &str) -> String {
        let outcome = self.run(line);
        assert_eq!(outcome.code, Some(0), "{line}: {outcome:?}");
        outcome.out
    }

    /// Runs `tithe build LINE -o core.parquet`, which must fail with this code and message, and must leave
    /// the directory, an existing output file included, as it was.
    #[track_caller]
    pub fn refuses(&self, line: &str, code: i32, message: &str) {
        self.write(CORE, KEEPSAKE);
        let before = self.names();
        let outcome = self.run(&format!("build {line} -o {CORE}"));
        assert_eq!(outcome.err, message, "{line}");
        assert_eq!(outcome.code, Some(code), "{line}");
        assert_eq!(outcome.out, "", "{line}");
        assert_eq!(self.names(), before, "{line} left something behind");
        assert_eq!(self.read(CORE), KEEPSAKE, "{line} touched the output");
    }

    /// `tithe build LINE -o core.parquet --json`, which must succeed: the record.
    #[track_caller]
    pub fn build(&self, line: &str) -> serde_json::Value {
        let out = self.succeed(&format!("build {line} -o {CORE} --json"));
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

pub fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn finish(command: &mut Command) -> Outcome {
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Outcome { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A pseudo-random number in [0, 1), determined by the position in the table.
pub fn noise(row: usize, column: usize) -> f64 {
    let mut bits =
        (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (column as u64 + 1).wrapping_mul(0xd6e8_feb8);
    for _ in 0..3 {
        bits = (bits ^ (bits >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// A table with x1, x2 (numbers), city (text) and y (0 and 1).
pub struct Mixed {
    pub x: [Vec<f64>; 2],
    pub city: Vec<&'static str>,
    pub y: Vec<i64>,
}

impl Mixed {
    pub fn new(rows: usize) -> Mixed {
        let rounded = |row, column, scale: f64| (noise(row, column) * scale * 1024.0).round() / 1024.0;
        Mixed {
            x: [
                (0..rows).map(|row| rounded(row, 0, 10.0)).collect(),
                (0..rows).map(|row| 50.0 - rounded(row, 1, 100.0)).collect(),
            ],
            city: (0..rows).map(|row| ["Basel", "Bern", "Genf"][(noise(row, 2) * 3.0) as usize]).collect(),
            y: (0..rows).map(|row| i64::from(noise(row, 3) < 0.2 + 0.06 * rounded(row, 0, 10.0))).collect(),
        }
    }

    pub fn csv(&self) -> String {
        let mut text = "x1,x2,city,y\n".to_string();
        for row in 0..self.y.len() {
            text +=
                &format!("{:?},{:?},{},{}\n", self.x[0][row], self.x[1][row], self.city[row], self.y[row]);
        }
        text
    }

    /// The table in Arrow format; the label is a float, as in a CSV file, or an integer.
    pub fn batch(&self, integer_label: bool) -> RecordBatch {
        let label: ArrayRef = match integer_label {
            true => Arc::new(Int64Array::from(self.y.clone())),
            false => Arc::new(self.y.iter().map(|y| Some(*y as f64)).collect::<Float64Array>()),
        };
        let columns: [(&str, ArrayRef); 4] = [
            ("x1", Arc::new(Float64Array::from(self.x[0].clone()))),
            ("x2", Arc::new(Float64Array::from(self.x[1].clone()))),
            ("city", Arc::new(StringArray::from(self.city.clone()))),
            ("y", label),
        ];
        RecordBatch::try_from_iter(columns).expect("a batch")
    }
}

pub fn parquet_bytes(batch: &RecordBatch, group: usize) -> Vec<u8> {
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(group))
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("written");
    writer.close().expect("closed");
    bytes
}

pub fn arrow_bytes(batch: &RecordBatch, piece: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, &batch.schema()).expect("a writer");
    for start in (0..batch.num_rows()).step_by(piece) {
        writer.write(&batch.slice(start, piece.min(batch.num_rows() - start))).expect("written");
    }
    writer.finish().expect("closed");
    drop(writer);
    bytes
}

pub fn stream_bytes(batch: &RecordBatch, piece: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).expect("a writer");
    for start in (0..batch.num_rows()).step_by(piece) {
        writer.write(&batch.slice(start, piece.min(batch.num_rows() - start))).expect("written");
    }
    writer.finish().expect("closed");
    drop(writer);
    bytes
}

/// A coreset file, read with the Parquet library.
pub struct CoreFile {
    pub batch: RecordBatch,
    pub schema: Arc<Schema>,
    pub story: serde_json::Value,
}

pub fn read_core(path: &Path) -> CoreFile {
    let file = std::fs::File::open(path).expect("a coreset file");
    let builder =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
    let pairs = builder.metadata().file_metadata().key_value_metadata().expect("metadata").clone();
    let story = pairs.iter().find(|pair| pair.key == "tithe").expect("the key tithe").value.clone();
    let schema = builder.schema().clone();
    let batches: Vec<RecordBatch> = builder
        .with_batch_size(1 << 20)
        .build()
        .expect("a reader")
        .map(|batch| batch.expect("rows"))
        .collect();
    assert_eq!(batches.len(), 1, "small enough for one batch");
    CoreFile {
        batch: batches[0].clone(),
        schema,
        story: serde_json::from_str(&story.expect("a story")).expect("JSON"),
    }
}

impl CoreFile {
    pub fn names(&self) -> Vec<&str> {
        self.schema.fields().iter().map(|field| field.name().as_str()).collect()
    }

    fn column(&self, name: &str) -> &ArrayRef {
        self.batch.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"))
    }

    pub fn floats(&self, name: &str) -> Vec<f64> {
        let column = self.column(name).as_any().downcast_ref::<Float64Array>().expect("Float64");
        column.values().to_vec()
    }

    pub fn integers(&self, name: &str) -> Vec<i64> {
        self.column(name).as_any().downcast_ref::<Int64Array>().expect("Int64").values().to_vec()
    }

    pub fn words(&self, name: &str) -> Vec<String> {
        let column = self.column(name).as_any().downcast_ref::<StringArray>().expect("Utf8");
        column.iter().map(|word| word.expect("a word").to_string()).collect()
    }

    pub fn rows(&self, name: &str) -> Vec<u64> {
        let column = self.column(name).as_any().downcast_ref::<arrow_array::UInt64Array>().expect("UInt64");
        column.values().to_vec()
    }
}

/// A file system of a few kilobytes, unmounted on drop.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn mount(path: PathBuf, size: &str) -> Option<SmallDisk> {
        std::fs::create_dir(&path).expect("a directory");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&path)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(SmallDisk(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}
