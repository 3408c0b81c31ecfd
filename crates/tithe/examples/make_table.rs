//! Writes a table of random numbers as CSV and as Parquet, to measure reading with.
//!
//! `cargo run --release --example make_table -- ROWS OUT.csv OUT.parquet`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use rand::{RngExt, SeedableRng};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rows, csv, parquet] = &arguments[..] else { return Err("ROWS OUT.csv OUT.parquet".into()) };
    let rows: usize = rows.parse()?;
    let mut csv = BufWriter::new(File::create(csv)?);
    writeln!(csv, "y,x1,x2,x3,x4,x5,x6,x7,x8,x9,x10")?;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut writer: Option<ArrowWriter<File>> = None;
    for start in (0..rows).step_by(65_536) {
        let len = 65_536.min(rows - start);
        let mut columns: Vec<Vec<f64>> = (0..11).map(|_| Vec::with_capacity(len)).collect();
        for _ in 0..len {
            columns[0].push(f64::from(u8::from(rng.random::<bool>())));
            for column in &mut columns[1..] {
                column.push(rng.random::<f64>() * 8.0 - 4.0);
            }
        }
        for row in 0..len {
            write!(csv, "{}", columns[0][row])?;
            for column in &columns[1..] {
                write!(csv, ",{}", column[row])?;
            }
            writeln!(csv)?;
        }
        let arrays = columns.into_iter().enumerate().map(|(at, values)| {
            let name = if at == 0 { "y".to_string() } else { format!("x{at}") };
            (name, Arc::new(Float64Array::from(values)) as ArrayRef)
        });
        let batch = RecordBatch::try_from_iter(arrays)?;
        if writer.is_none() {
            writer = Some(ArrowWriter::try_new(File::create(parquet)?, batch.schema(), None)?);
        }
        if let Some(writer) = &mut writer {
            writer.write(&batch)?;
        }
    }
    csv.flush()?;
    if let Some(writer) = writer {
        writer.close()?;
    }
    Ok(())
}
