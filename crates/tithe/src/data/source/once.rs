//! Saves record batches that can be read only once: in memory up to a budget, and in a temporary file beyond.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use arrow_array::{Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};

use super::input::Input;
use super::memory::{Batches, NAME};
use crate::base::error::{Error, ErrorKind, Result};

/// Saved batches that can be read any number of times.
#[derive(Clone)]
pub enum Kept {
    /// In memory.
    Batches(Batches),
    /// In an unlinked temporary file, as an Arrow stream; the system removes it automatically.
    File(Input),
}

/// Reads and saves all batches, in memory up to `memory` bytes. Stops when `cancelled` returns true.
pub fn keep(
    schema: SchemaRef,
    batches: impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>>,
    memory: u64,
    cancelled: impl Fn() -> bool,
) -> Result<Kept> {
    let mut kept = Vec::new();
    let mut bytes = 0u64;
    let mut spilled: Option<StreamWriter<BufWriter<File>>> = None;
    let spill_failed = |error: ArrowError| {
        let error = match error {
            ArrowError::IoError(_, error) => error,
            other => std::io::Error::other(other),
        };
        Error::io("write a temporary copy in", std::env::temp_dir(), error)
    };
    for batch in batches {
        if cancelled() {
            return Err(ErrorKind::Cancelled.into());
        }
        let batch = batch.map_err(|error| Error::malformed(Path::new(NAME), error.to_string()))?;
        match &mut spilled {
            Some(writer) => writer.write(&batch).map_err(spill_failed)?,
            None => {
                bytes += batch_bytes(&batch);
                kept.push(batch);
                if bytes > memory {
                    let file = tempfile::tempfile().map_err(|error| {
                        Error::io("write a temporary copy in", std::env::temp_dir(), error)
                    })?;
                    let mut writer =
                        StreamWriter::try_new(BufWriter::new(file), &schema).map_err(spill_failed)?;
                    for batch in kept.drain(..) {
                        writer.write(&batch).map_err(spill_failed)?;
                    }
                    spilled = Some(writer);
                }
            }
        }
    }
    match spilled {
        None => Ok(Kept::Batches(Batches::new(schema, kept)?)),
        Some(mut writer) => {
            writer.finish().map_err(spill_failed)?;
            let buffer = writer.into_inner().map_err(spill_failed)?;
            let file = buffer.into_inner().map_err(|error| spill_failed(error.into_error().into()))?;
            Ok(Kept::File(Input::from_spilled(NAME, file)?))
        }
    }
}

/// Bytes of the rows of a batch, without other rows in the same buffers.
fn batch_bytes(batch: &RecordBatch) -> u64 {
    let sizes = batch.columns().iter().map(|column| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    });
    sizes.sum::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::source::{OpenOptions, Source, open_inputs};
    use arrow_array::{ArrayRef, Float64Array, StringArray};
    use std::sync::Arc;

    fn batches() -> (SchemaRef, Vec<RecordBatch>) {
        let batch = |start: i32| {
            let x: ArrayRef = Arc::new(Float64Array::from_iter_values((start..start + 1000).map(f64::from)));
            let c: ArrayRef =
                Arc::new(StringArray::from_iter_values((0..1000).map(|i| ["a", "b", "c"][i % 3])));
            RecordBatch::try_from_iter([("x", x), ("c", c)]).unwrap()
        };
        let all: Vec<RecordBatch> = (0..5).map(|b| batch(1000 * b)).collect();
        (all[0].schema(), all)
    }

    fn sum_of_x(source: &dyn Source) -> f64 {
        let (mut sum, mut scan) = (0.0, source.scan(&[0]).unwrap());
        while let Some(unit) = scan.next_unit().unwrap() {
            unit.decode(&mut |segment| {
                if let crate::data::block::Column::Number(values) = &segment.columns[0] {
                    sum += values.iter().sum::<f64>();
                }
                Ok(())
            })
            .unwrap();
        }
        sum
    }

    #[test]
    fn saved_batches_can_be_read_again() {
        let (schema, all) = batches();
        for (memory, in_memory) in [(1 << 20, true), (30_000, false), (0, false)] {
            let kept = keep(schema.clone(), all.iter().cloned().map(Ok), memory, || false).unwrap();
            assert_eq!(matches!(kept, Kept::Batches(_)), in_memory);
            let source: Box<dyn Source> = match kept {
                Kept::Batches(batches) => Box::new(batches),
                Kept::File(input) => open_inputs(vec![input], &OpenOptions::default()).unwrap(),
            };
            for _ in 0..2 {
                assert_eq!(sum_of_x(&*source), 5000.0 * 4999.0 / 2.0);
            }
        }
        let stopped = keep(schema, all.into_iter().map(Ok), 0, || true);
        assert!(matches!(stopped.err().unwrap().kind(), ErrorKind::Cancelled));
    }

    #[test]
    fn a_failing_producer_is_an_error() {
        let (schema, all) = batches();
        let failing = [Ok(all[0].clone()), Err(ArrowError::ComputeError("no more".to_string()))];
        let error = keep(schema, failing.into_iter(), 0, || false).err().unwrap();
        assert!(error.to_string().contains("no more"), "{error}");
    }
}
