//! Writes tables batch by batch, as Parquet, CSV or LIBSVM depending on the name of the file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;

use super::output::Output;
use super::parquet::{plain_io, properties};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::faults::Faulty;

/// The formats of tables that are written batch by batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Parquet.
    Parquet,
    /// CSV with names in the first line.
    Csv,
    /// LIBSVM: the last column is the label, the others are numbered from 1, and zeros are omitted.
    Libsvm,
}

impl RowFormat {
    /// The format by the ending of the file's name, among those that are `allowed`.
    pub fn of(path: &Path, allowed: &[RowFormat]) -> Result<RowFormat> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let format = match ending.as_deref() {
            Some("parquet" | "pq") => Some(RowFormat::Parquet),
            Some("csv") => Some(RowFormat::Csv),
            Some("libsvm" | "svm") => Some(RowFormat::Libsvm),
            _ => None,
        };
        format.filter(|format| allowed.contains(format)).ok_or_else(|| {
            let endings: Vec<&str> = allowed.iter().map(|format| format.ending()).collect();
            let what = "has no extension that determines the format".to_string();
            let help = Some(format!("use a file name that ends in {}", endings.join(" or ")).into());
            ErrorKind::WrongFile { path: path.to_path_buf(), what, help }.into()
        })
    }

    fn ending(self) -> &'static str {
        match self {
            RowFormat::Parquet => ".parquet",
            RowFormat::Csv => ".csv",
            RowFormat::Libsvm => ".libsvm",
        }
    }
}

/// A table that is being written.
pub struct RowWriter {
    output: Output,
    sink: Sink,
}

enum Sink {
    Parquet(Box<ArrowWriter<BufWriter<Faulty<File>>>>),
    Csv(BufWriter<Faulty<File>>),
    Libsvm(BufWriter<Faulty<File>>),
}

impl RowWriter {
    /// Starts a table without rows. `story` is a key and a text for the metadata, if the format has metadata.
    pub fn new(
        output: Output,
        format: RowFormat,
        schema: &SchemaRef,
        story: Option<(&str, String)>,
    ) -> Result<RowWriter> {
        let sink = open_sink(&output, format, schema, story);
        let sink = sink.map_err(|error| Error::io("write", output.path(), error))?;
        Ok(RowWriter { output, sink })
    }

    /// Adds rows.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match &mut self.sink {
            Sink::Parquet(writer) => writer.write(batch).map_err(plain_io),
            Sink::Csv(writer) => write_csv(writer, batch),
            Sink::Libsvm(writer) => write_libsvm(writer, batch),
        };
        written.map_err(|error| Error::io("write", self.output.path(), error))
    }

    /// Completes the file and moves it to its final path.
    pub fn finish(self) -> Result<()> {
        let finished = match self.sink {
            Sink::Parquet(mut writer) => {
                writer.finish().map_err(plain_io).and_then(|_| writer.inner_mut().flush())
            }
            Sink::Csv(mut writer) | Sink::Libsvm(mut writer) => writer.flush(),
        };
        finished.map_err(|error| Error::io("write", self.output.path(), error))?;
        self.output.commit()
    }
}

fn open_sink(
    output: &Output,
    format: RowFormat,
    schema: &SchemaRef,
    story: Option<(&str, String)>,
) -> io::Result<Sink> {
    let mut buffer = BufWriter::with_capacity(1 << 18, output.own_writer()?);
    Ok(match format {
        RowFormat::Parquet => {
            let writer =
                ArrowWriter::try_new(buffer, schema.clone(), Some(properties(schema.fields().len(), story)));
            Sink::Parquet(Box::new(writer.map_err(plain_io)?))
        }
        RowFormat::Csv => {
            let names: Vec<String> = schema.fields().iter().map(|field| quoted(field.name())).collect();
            writeln!(buffer, "{}", names.join(","))?;
            Sink::Csv(buffer)
        }
        RowFormat::Libsvm => Sink::Libsvm(buffer),
    })
}

/// A CSV field, quoted if necessary.
fn quoted(text: &str) -> String {
    let edge_space = text.starts_with(' ') || text.ends_with(' ');
    if edge_space || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

fn write_csv(writer: &mut BufWriter<Faulty<File>>, batch: &RecordBatch) -> io::Result<()> {
    let options = FormatOptions::new().with_null("");
    let columns = batch
        .columns()
        .iter()
        .map(|array| Ok((array.as_primitive_opt::<Float64Type>(), ArrayFormatter::try_new(array, &options)?)))
        .collect::<std::result::Result<Vec<_>, arrow_schema::ArrowError>>()
        .map_err(io::Error::other)?;
    for row in 0..batch.num_rows() {
        for (c, (numbers, shown)) in columns.iter().enumerate() {
            if c > 0 {
                writer.write_all(b",")?;
            }
            match numbers {
                Some(numbers) if numbers.is_valid(row) => write!(writer, "{}", numbers.value(row))?,
                Some(_) => {}
                None => {
                    let text = shown.value(row).try_to_string().map_err(io::Error::other)?;
                    writer.write_all(quoted(&text).as_bytes())?;
                }
            }
        }
        writer.write_all(b"\n")?;
    }
    Ok(())
}

fn write_libsvm(writer: &mut BufWriter<Faulty<File>>, batch: &RecordBatch) -> io::Result<()> {
    let columns: Vec<_> =
        batch.columns().iter().filter_map(|array| array.as_primitive_opt::<Float64Type>()).collect();
    let Some((label, features)) = columns.split_last() else { return Ok(()) };
    for row in 0..batch.num_rows() {
        write!(writer, "{}", label.value(row))?;
        for (index, feature) in features.iter().enumerate() {
            if feature.value(row) != 0.0 {
                write!(writer, " {}:{}", index + 1, feature.value(row))?;
            }
        }
        writer.write_all(b"\n")?;
    }
    Ok(())
}
