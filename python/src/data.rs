//! Data from Python: paths, NumPy arrays, sparse rows, Arrow streams.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::types::UInt8Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatchReader, StringArray, cast::AsArray};
use pyo3::prelude::*;
use tithe::base::error::{Error, Result, Setting};
use tithe::base::machine::memory_limit;
use tithe::base::progress::Observer;
use tithe::data::source::arrays::{Arrays, Part, SparseRows};
use tithe::data::source::memory::Batches;
use tithe::data::source::once::{Kept, keep};
use tithe::data::source::partition::Passing;
use tithe::data::source::{Input, OpenOptions, Source, find_inputs, open_inputs};

use crate::errors::to_python;
use crate::shared::{matrix_of, stream_of, vector_of};
use crate::work::Watch;

/// Data, ready to be opened.
#[pyclass(frozen, module = "tithe._native")]
pub struct Data(Arc<Kind>);

enum Kind {
    Paths { names: Vec<String>, found: OnceLock<Vec<Input>> },
    Arrays(Arrays),
    Stream(Stream),
}

/// A stream of batches: read once, then kept.
struct Stream {
    reader: Mutex<Option<RecordBatchStreamReader>>,
    /// True if its batches are in memory already.
    held: bool,
    /// Additional columns, such as labels and weights given as arrays.
    beside: Vec<(String, ArrayRef)>,
    kept: OnceLock<Kept>,
}

/// How much memory data may take.
#[derive(Clone, Copy)]
pub struct Budget {
    /// Bytes for data that can be read only once; more goes to a temporary file.
    pub once: u64,
    /// Bytes for decoded rows.
    pub decoded: u64,
}

#[pymethods]
impl Data {
    /// Files, globs and directories.
    #[staticmethod]
    fn paths(names: Vec<String>) -> Data {
        Data(Arc::new(Kind::Paths { names, found: OnceLock::new() }))
    }

    /// The files that match the paths, globs and directories.
    fn files(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let Kind::Paths { names, .. } = &*self.0 else { return Ok(Vec::new()) };
        let inputs = find_inputs(names, 0).map_err(|error| to_python(py, &error))?;
        Ok(inputs.iter().map(|input| input.path().display().to_string()).collect())
    }

    /// Named arrays with the same rows: `(names, kind, array)`, the kind one of `numbers`, `truths` (booleans), `sparse`,
    /// `text`. Sparse rows are `(indptr, indices, data, columns)`, text is a list of strings and `None`.
    #[staticmethod]
    fn arrays(py: Python<'_>, parts: Vec<(Vec<String>, String, Bound<'_, PyAny>)>) -> PyResult<Data> {
        let mut named = Vec::with_capacity(parts.len());
        for (names, kind, values) in parts {
            let part = match kind.as_str() {
                "numbers" => Part::Numbers(matrix_of(&values)?),
                "truths" => Part::Truths(matrix_of(&values)?),
                "text" => Part::Text(words(&values)?),
                _ => Part::Sparse(sparse(&values)?),
            };
            named.push((names, part));
        }
        let arrays = Arrays::new(named).map_err(|error| to_python(py, &error))?;
        Ok(Data(Arc::new(Kind::Arrays(arrays))))
    }

    /// A stream from an `__arrow_c_stream__`; `held` if its producer has all of it in memory. Additional columns
    /// (`beside`) are `(name, kind, values)`.
    #[staticmethod]
    fn stream(
        capsule: &Bound<'_, PyAny>,
        held: bool,
        beside: Vec<(String, String, Bound<'_, PyAny>)>,
    ) -> PyResult<Data> {
        let reader = Mutex::new(Some(stream_of(capsule)?));
        let beside = beside
            .into_iter()
            .map(|(name, kind, values)| {
                let column = match kind.as_str() {
                    "text" => words(&values)?,
                    "truths" => truths(&vector_of(&values)?),
                    _ => vector_of(&values)?,
                };
                Ok((name, column))
            })
            .collect::<PyResult<_>>()?;
        Ok(Data(Arc::new(Kind::Stream(Stream { reader, held, beside, kept: OnceLock::new() }))))
    }
}

/// Bytes of zeros and ones as booleans.
fn truths(values: &ArrayRef) -> ArrayRef {
    let bytes = values.as_primitive_opt::<UInt8Type>().map_or(&[][..], |bytes| bytes.values());
    Arc::new(bytes.iter().map(|byte| Some(*byte != 0)).collect::<BooleanArray>())
}

fn words(values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let words: Vec<Option<String>> = values.extract()?;
    Ok(Arc::new(StringArray::from_iter(words)))
}

fn sparse(values: &Bound<'_, PyAny>) -> PyResult<SparseRows> {
    let (starts, indices, data, columns): (Vec<usize>, Bound<'_, PyAny>, Bound<'_, PyAny>, usize) =
        values.extract()?;
    SparseRows::new(starts, vector_of(&indices)?, vector_of(&data)?, columns)
        .map_err(|error| to_python(values.py(), &error))
}

/// Data that can be opened on another thread.
#[derive(Clone)]
pub struct Opener(Arc<Kind>);

/// Default memory for streams that can be read only once: they may be larger than memory.
const ONCE_BUDGET: u64 = 1 << 30;

impl Data {
    /// A handle that opens it.
    pub fn opener(&self) -> Opener {
        Opener(self.0.clone())
    }
}

impl Opener {
    /// How much memory it may use: as given by the user, or a default. Arrays are in memory already and are decoded
    /// again for each pass.
    pub fn budget(&self, given: Option<u64>) -> Budget {
        match &*self.0 {
            Kind::Arrays(_) => Budget { once: 0, decoded: given.unwrap_or(0) },
            Kind::Stream(stream) if !stream.held => {
                let half = given.unwrap_or(ONCE_BUDGET) / 2;
                Budget { once: half, decoded: half }
            }
            _ => {
                let all = given.unwrap_or_else(|| memory_limit().map_or(4 << 30, |bytes| bytes / 2));
                Budget { once: all / 2, decoded: all }
            }
        }
    }

    /// True if it is read from files, so that Python code cannot change the rows once they are read.
    pub fn is_files(&self) -> bool {
        matches!(*self.0, Kind::Paths { .. })
    }

    /// Opens it to be read once: a stream is not kept.
    pub fn open_once(&self, options: &OpenOptions, budget: Budget, watch: &Watch) -> Result<Box<dyn Source>> {
        match &*self.0 {
            Kind::Stream(stream) if !stream.held && stream.beside.is_empty() => {
                let reader = stream.take()?;
                let mut passing = Passing::new(Box::new(reader))?.called("data in memory");
                options.text.iter().try_for_each(|name| passing.read_as_text(name))?;
                Ok(Box::new(passing))
            }
            _ => self.open(options, budget, watch),
        }
    }

    /// Opens it; may be called more than once.
    pub fn open(&self, options: &OpenOptions, budget: Budget, watch: &Watch) -> Result<Box<dyn Source>> {
        match &*self.0 {
            Kind::Paths { names, found } => {
                let inputs = match found.get() {
                    Some(inputs) => inputs.clone(),
                    None => find_inputs(names, budget.once)?,
                };
                let _ = found.set(inputs.clone());
                open_inputs(inputs, options)
            }
            Kind::Arrays(arrays) => {
                let mut arrays = arrays.clone();
                options.text.iter().try_for_each(|name| arrays.read_as_text(name))?;
                Ok(Box::new(arrays))
            }
            Kind::Stream(stream) => match stream.kept(budget, watch)? {
                Kept::Batches(mut batches) => {
                    options.text.iter().try_for_each(|name| batches.read_as_text(name))?;
                    Ok(Box::new(batches))
                }
                Kept::File(input) => open_inputs(vec![input], options),
            },
        }
    }
}

impl Stream {
    fn take(&self) -> Result<RecordBatchStreamReader> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        reader.ok_or_else(|| {
            Error::setting(Setting::Data, "is a stream that has already been read and cannot be read again")
        })
    }

    fn kept(&self, budget: Budget, watch: &Watch) -> Result<Kept> {
        if let Some(kept) = self.kept.get() {
            return Ok(kept.clone());
        }
        let reader = self.take()?;
        let memory = if self.held { u64::MAX } else { budget.once };
        let mut kept = keep(reader.schema(), reader, memory, || watch.cancelled())?;
        for (name, values) in &self.beside {
            kept = Kept::Batches(match kept {
                Kept::Batches(batches) => Batches::with_column(batches, name, values)?,
                Kept::File(_) => {
                    let what = "is a stream, which must contain y and weight as columns; only data in memory can have them as arrays";
                    return Err(Error::setting(Setting::Data, what));
                }
            });
        }
        let _ = self.kept.set(kept.clone());
        Ok(kept)
    }
}
