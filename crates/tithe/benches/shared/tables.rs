//! Writes Mixture data to files, and decodes files.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use tithe::base::rng::Seed;
use tithe::data::generate::{GENERATED_BLOCK, Generated, Recipe};
use tithe::data::source::Scan;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The data in blocks, so that a large table is never in memory all at once.
fn blocks(rows: usize) -> impl Iterator<Item = Generated> {
    let len = move |start: usize| GENERATED_BLOCK.min(rows - start);
    (0..rows)
        .step_by(GENERATED_BLOCK)
        .enumerate()
        .map(move |(index, start)| Recipe::Mixture.block(Seed(1), index as u64, len(start)))
}

/// Writes Parquet with common defaults: dictionaries where useful, row groups of about a million rows.
pub fn write_parquet(rows: usize, compression: Compression, path: &Path) -> Outcome<()> {
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut properties = Some(properties);
    let mut writer: Option<ArrowWriter<File>> = None;
    for block in blocks(rows) {
        let columns = block.columns().into_iter();
        let arrays = columns.map(|(name, values)| (name, Arc::new(Float64Array::from(values)) as ArrayRef));
        let batch = RecordBatch::try_from_iter(arrays)?;
        let writer = match &mut writer {
            Some(writer) => writer,
            none => {
                none.insert(ArrowWriter::try_new(File::create(path)?, batch.schema(), properties.take())?)
            }
        };
        writer.write(&batch)?;
    }
    writer.map(ArrowWriter::close).transpose()?;
    Ok(())
}

/// Writes CSV with the shortest decimal numbers that are exact.
pub fn write_csv(rows: usize, path: &Path) -> Outcome<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    writeln!(file, "x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,y")?;
    for block in blocks(rows) {
        for (row, y) in block.y.iter().enumerate() {
            for column in &block.x {
                write!(file, "{},", column[row])?;
            }
            writeln!(file, "{y}")?;
        }
    }
    Ok(file.flush()?)
}

/// Decodes all rows on all threads of a pool, discards them, and returns their number.
pub fn decode(scan: Box<dyn Scan>, pool: &rayon::ThreadPool) -> tithe::base::error::Result<usize> {
    let scan = Mutex::new(scan);
    let counts = pool.broadcast(|_| {
        let mut rows = 0;
        loop {
            let unit = scan.lock().expect("no worker has panicked").next_unit()?;
            let Some(unit) = unit else { return Ok(rows) };
            unit.decode(&mut |segment| {
                rows += black_box(segment).len;
                Ok(())
            })?;
        }
    });
    counts.into_iter().sum()
}
