//! Streams and merging for Python.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::ScalarBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tithe::base::error::{Error, ErrorKind, Result, Setting};
use tithe::base::progress::{Event, Observer};
use tithe::data::block::{Column, Kind, Segment};
use tithe::data::source::Source;
use tithe::data::table::Roles;
use tithe::options::ColumnOptions;
use tithe::stream::feed::{End, Fed, feed};
use tithe::stream::{self, Packed, Progress};

use crate::coreset::Coreset;
use crate::data::{Data, Opener};
use crate::errors::to_python;
use crate::options::{Options, Reading, build_options, column_options, given, stream_options};
use crate::work::{Watch, run};

/// Rows added at a time.
const PIECE: usize = 1 << 16;

/// A stream, in memory or with a state on disk.
#[pyclass(frozen, module = "tithe._native")]
pub struct Stream(Arc<Shared>);

struct Shared {
    /// The stream after the last complete add: each add works on a copy that replaces it at the end. `None` once closed.
    now: Mutex<Option<stream::Stream>>,
    /// Locked during each change.
    turn: Mutex<()>,
    reading: Reading,
    columns: ColumnOptions,
    skip_bad: Option<u64>,
}

type Pieces = (String, Vec<Option<Py<PyBytes>>>, Option<Py<PyBytes>>, Option<Py<PyBytes>>);

#[pymethods]
impl Stream {
    /// Starts a stream, or resumes the one whose state exists.
    #[staticmethod]
    fn open(state: Option<PathBuf>, options: &Options<'_>, watcher: &Bound<'_, PyAny>) -> PyResult<Stream> {
        let (reading, columns) = (Reading::new(options)?, column_options(options)?);
        let (building, streaming) = (build_options(options)?, stream_options(options)?);
        let (skip_bad, replay) = (given(options, "skip_bad")?, given(options, "replay")?.unwrap_or(false));
        let shared = run(watcher, move |_| {
            let settings = streaming.settings(&building, &columns)?;
            let mut stream = match &state {
                Some(path) => stream::Stream::open(path, &settings, reading.threads)?,
                None => stream::Stream::in_memory(&settings, reading.threads)?,
            };
            if replay {
                stream.replay();
            }
            Ok(Shared::new(stream, reading, columns, skip_bad))
        })?;
        Ok(Stream(Arc::new(shared)))
    }

    /// A stream from the result of [`Stream::pack`].
    #[staticmethod]
    fn unpack(
        py: Python<'_>,
        manifest: String,
        levels: Vec<Option<Vec<u8>>>,
        residual: Option<Vec<u8>>,
        pending: Option<Vec<u8>>,
        options: &Options<'_>,
    ) -> PyResult<Stream> {
        let (reading, columns) = (Reading::new(options)?, column_options(options)?);
        let packed = Packed { manifest, levels, residual, pending };
        let stream = py.detach(|| stream::Stream::unpack(&packed, reading.threads));
        let stream = stream.map_err(|error| to_python(py, &error))?;
        Ok(Stream(Arc::new(Shared::new(stream, reading, columns, given(options, "skip_bad")?))))
    }

    /// Its content: the manifest, the coreset of each level, their residual, the rows of the incomplete block.
    fn pack(&self, py: Python<'_>) -> PyResult<Pieces> {
        let packed = py.detach(|| self.0.copy()?.pack()).map_err(|error| to_python(py, &error))?;
        let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes).unbind();
        let levels = packed.levels.into_iter().map(|level| level.map(bytes)).collect();
        Ok((packed.manifest, levels, packed.residual.map(bytes), packed.pending.map(bytes)))
    }

    /// Adds all rows of some data, or none of them. `label` and `weight` name columns that were given as arrays.
    fn add(
        &self,
        data: &Data,
        label: Option<String>,
        weight: Option<String>,
        watcher: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (shared, opener) = (self.0.clone(), data.opener());
        run(watcher, move |watch| shared.add(&opener, label.as_ref(), weight.as_ref(), watch))
    }

    /// The coreset of all rows added.
    fn snapshot(&self, watcher: &Bound<'_, PyAny>) -> PyResult<Coreset> {
        let shared = self.0.clone();
        let made = run(watcher, move |watch| {
            let stream = shared.copy()?;
            if stream.progress().rows == 0 {
                let what = "the stream is empty: no row has been added yet".to_string();
                return Err(ErrorKind::NoRows { what }.into());
            }
            stream.snapshot(watch)
        })?;
        Ok(Coreset(Arc::new(made)))
    }

    /// Saves all rows added.
    fn save(&self, watcher: &Bound<'_, PyAny>) -> PyResult<()> {
        let shared = self.0.clone();
        run(watcher, move |_| shared.save())
    }

    /// Saves and releases the state. `complete` if all rows of a replay should have been added.
    fn close(&self, complete: bool, watcher: &Bound<'_, PyAny>) -> PyResult<()> {
        let shared = self.0.clone();
        run(watcher, move |_| {
            shared.save()?;
            match lock(&shared.now).take() {
                Some(mut stream) if complete => stream.end(),
                _ => Ok(()),
            }
        })
    }

    /// Rows, blocks, rows of the incomplete block, dropped rows, bad rows, coresets; `None` once closed.
    fn progress(&self) -> Option<(u64, u64, u64, u64, u64, usize)> {
        let Progress { rows, blocks, pending, rows_dropped, bad_rows, coresets } =
            lock(&self.0.now).as_ref()?.progress();
        Some((rows, blocks, pending, rows_dropped, bad_rows, coresets))
    }

    /// Names of features, label and weight, once they are known.
    fn names(&self) -> Option<(Vec<String>, String, Option<String>)> {
        let now = lock(&self.0.now);
        let stream = now.as_ref()?;
        if let Some(Roles { label, weight, features, .. }) = stream.roles() {
            return Some((features.unwrap_or_default(), label, weight));
        }
        let known = stream.settings().build.encoding.known.as_ref()?;
        let features = known.features.iter().map(|feature| feature.column.clone()).collect();
        Some((features, known.label.column.clone(), None))
    }

    /// The coreset of a state on disk, as last saved; another process may be writing there.
    #[staticmethod]
    fn read_snapshot(
        state: PathBuf,
        threads: Option<usize>,
        watcher: &Bound<'_, PyAny>,
    ) -> PyResult<Coreset> {
        let made = run(watcher, move |watch| stream::snapshot(&state, threads, watch))?;
        Ok(Coreset(Arc::new(made)))
    }

    /// Returns to the last intact state: the rows that it contains, and the rows to add again if that is known.
    #[staticmethod]
    fn repair(state: PathBuf, watcher: &Bound<'_, PyAny>) -> PyResult<(u64, Option<u64>)> {
        let repaired = run(watcher, move |_| stream::repair(&state))?;
        Ok((repaired.rows, repaired.lost))
    }
}

impl Shared {
    fn new(
        mut stream: stream::Stream,
        reading: Reading,
        columns: ColumnOptions,
        skip_bad: Option<u64>,
    ) -> Shared {
        stream.disable_automatic_saves();
        Shared { now: Mutex::new(Some(stream)), turn: Mutex::new(()), reading, columns, skip_bad }
    }

    /// A copy, which shares the rows.
    fn copy(&self) -> Result<stream::Stream> {
        let closed = || Error::setting(Setting::Stream, "is closed; open it again to continue");
        lock(&self.now).clone().ok_or_else(closed)
    }

    fn add(
        &self,
        opener: &Opener,
        label: Option<&String>,
        weight: Option<&String>,
        watch: &Watch,
    ) -> Result<()> {
        let _turn = lock(&self.turn);
        let mut next = self.copy()?;
        let budget = opener.budget(None);
        let mut options = self.reading.open_options(budget);
        options.lenient = self.skip_bad.is_some();
        if opener.is_files() {
            // Column types of text files are detected from their rows; text may look like numbers in one of many files.
            let known = next.fields().unwrap_or_default().into_iter();
            options.text.extend(known.filter(|field| field.kind == Kind::Text).map(|field| field.name));
            options.text.sort();
            options.text.dedup();
        }
        let source = opener.open_once(&options, budget, watch)?;
        if source.rows() == Some(0) {
            // Without rows, the types of its columns are unknown.
            return Ok(());
        }
        let wanted = self.wanted(&next, &*source, label, weight)?;
        let source = next.with_date_parts(source, &wanted)?;
        let columns = next.take_columns(&*source, &wanted)?;
        let threads = self.reading.threads;
        let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        watch.event(Event::PassStarted { name: "streaming", rows: source.rows() });
        let lenient = self.skip_bad.is_some();
        let end = feed(source.scan(&columns)?, threads, lenient, watch, &mut |fed| match fed {
            Fed::Rows(rows) => {
                pieces(&rows, !opener.is_files()).try_for_each(|piece| next.push(piece, watch))
            }
            Fed::Bad(error) => {
                let bad = next.skip_bad_row();
                if self.skip_bad.is_some_and(|most| bad > most) {
                    return Err(error);
                }
                watch.event(Event::Warning(format!("skipped: {error}")));
                Ok(())
            }
            Fed::Nothing => Ok(()),
        })?;
        watch.event(Event::PassFinished);
        if end == End::Stopped || watch.cancelled() {
            return Err(ErrorKind::Cancelled.into());
        }
        next.save_if_due()?;
        *lock(&self.now) = Some(next);
        Ok(())
    }

    /// The roles of the columns: as given by the user, or as before.
    fn wanted(
        &self,
        stream: &stream::Stream,
        source: &dyn Source,
        label: Option<&String>,
        weight: Option<&String>,
    ) -> Result<Roles> {
        let columns = ColumnOptions {
            label: label.or(self.columns.label.as_ref()).cloned(),
            weight: weight.or(self.columns.weight.as_ref()).cloned(),
            ..self.columns.clone()
        };
        let has_encoding = stream.settings().build.encoding.known.is_some();
        match stream.roles() {
            Some(known) if weight.is_some() && known.weight.is_none() => Err(Error::setting(
                Setting::Weight,
                "cannot be used with this stream: the rows added so far have no weights",
            )),
            Some(known) => Ok(Roles { label: columns.label.unwrap_or(known.label), ..known }),
            None if has_encoding && columns.label.is_none() => {
                Ok(Roles { weight: columns.weight, ..Roles::default() })
            }
            None => columns.roles(source),
        }
    }

    fn save(&self) -> Result<()> {
        let _turn = lock(&self.turn);
        if lock(&self.now).is_none() {
            return Ok(());
        }
        let mut next = self.copy()?;
        next.save()?;
        *lock(&self.now) = Some(next);
        Ok(())
    }
}

impl Drop for Shared {
    /// Saves a stream that was not closed, as Python flushes a file that was not closed.
    fn drop(&mut self) {
        if let Some(stream) = lock(&self.now).as_mut() {
            let _ = stream.save();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows in pieces, copied if Python owns their memory: an array may change before the block of its rows is complete.
fn pieces(rows: &Segment, copied: bool) -> impl Iterator<Item = Segment> {
    (0..rows.len).step_by(PIECE).map(move |start| {
        let mut piece = rows.slice(start..rows.len.min(start + PIECE));
        for column in piece.columns.iter_mut().filter(|_| copied) {
            if let Column::Number(values) = column {
                *values = ScalarBuffer::from(values.to_vec());
            }
        }
        piece
    })
}

/// Merges coresets; messages refer to them by the names.
#[pyfunction]
pub fn merge(
    parts: Vec<(String, PyRef<'_, Coreset>)>,
    options: &Options<'_>,
    watcher: &Bound<'_, PyAny>,
) -> PyResult<Coreset> {
    let (building, threads) = (build_options(options)?, given(options, "threads")?);
    let parts: Vec<_> = parts.into_iter().map(|(name, part)| (name, part.0.clone())).collect();
    let merged = run(watcher, move |watch| {
        let settings = building.settings(&ColumnOptions::default())?;
        let parts: Vec<_> = parts.into_iter().map(|(name, part)| (name, (*part).clone())).collect();
        tithe::coreset::merge::merge(&parts, &settings, threads, watch)
    })?;
    Ok(Coreset(Arc::new(merged)))
}
