//! Coresets of coresets for Python: streams that rows are added to, and merging.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::ScalarBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tithe::base::error::{Error, ErrorKind, Result};
use tithe::base::progress::{Event, Observer};
use tithe::data::block::{Column, Kind, Segment};
use tithe::data::source::Source;
use tithe::data::table::Roles;
use tithe::encoding::survey::EncodingSettings;
use tithe::stream::feed::{End, Fed, feed};
use tithe::stream::{self, Packed, Progress};

use crate::coreset::Coreset;
use crate::data::{Data, Opener};
use crate::errors::to_python;
use crate::options::{Building, Columns, Flowing, Reading};
use crate::work::{Watch, run};

/// Rows that are taken in at a time.
const PIECE: usize = 1 << 16;

/// A stream, in memory or with a state on disk.
#[pyclass(frozen, module = "tithe._native")]
pub struct Stream(Arc<Shared>);

struct Shared {
    /// All that was added: an add works on a copy, and what it made takes this place when it is complete. `None` once closed.
    now: Mutex<Option<stream::Stream>>,
    /// Held by whoever changes it, for as long as that takes.
    turn: Mutex<()>,
    reading: Reading,
    columns: Columns,
    skip_bad: Option<u64>,
}

type Pieces = (String, Vec<Option<Py<PyBytes>>>, Option<Py<PyBytes>>, Option<Py<PyBytes>>);

#[pymethods]
impl Stream {
    /// Begins a stream, or goes on with the one whose state is there.
    #[staticmethod]
    fn open(
        state: Option<PathBuf>,
        options: &Bound<'_, PyAny>,
        watcher: &Bound<'_, PyAny>,
    ) -> PyResult<Stream> {
        let (reading, columns): (Reading, Columns) = (options.extract()?, options.extract()?);
        let (building, flowing): (Building, Flowing) = (options.extract()?, options.extract()?);
        let shared = run(watcher, move |_| {
            let settings = flowing.settings(&building, &columns)?;
            let mut stream = match &state {
                Some(path) => stream::Stream::open(path, &settings, reading.threads)?,
                None => stream::Stream::in_memory(&settings, reading.threads)?,
            };
            if flowing.replay {
                stream.replay();
            }
            Ok(Shared::new(stream, reading, columns, flowing.skip_bad))
        })?;
        Ok(Stream(Arc::new(shared)))
    }

    /// A stream from what [`Stream::pack`] gave.
    #[staticmethod]
    fn unpack(
        py: Python<'_>,
        manifest: String,
        levels: Vec<Option<Vec<u8>>>,
        remainder: Option<Vec<u8>>,
        pending: Option<Vec<u8>>,
        options: &Bound<'_, PyAny>,
    ) -> PyResult<Stream> {
        let (reading, columns): (Reading, Columns) = (options.extract()?, options.extract()?);
        let flowing: Flowing = options.extract()?;
        let packed = Packed { manifest, levels, remainder, pending };
        let stream = py.detach(|| stream::Stream::unpack(&packed, reading.threads));
        let stream = stream.map_err(|error| to_python(py, &error))?;
        Ok(Stream(Arc::new(Shared::new(stream, reading, columns, flowing.skip_bad))))
    }

    /// All that it holds: the manifest, the coreset of each level, what they leave, the rows that wait.
    fn pack(&self, py: Python<'_>) -> PyResult<Pieces> {
        let packed = py.detach(|| self.0.copy()?.pack()).map_err(|error| to_python(py, &error))?;
        let bytes = |bytes: Vec<u8>| PyBytes::new(py, &bytes).unbind();
        let levels = packed.levels.into_iter().map(|level| level.map(bytes)).collect();
        Ok((packed.manifest, levels, packed.remainder.map(bytes), packed.pending.map(bytes)))
    }

    /// Takes in all rows of some data, or none of them. Label and weight are named where they stand beside it.
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

    /// The coreset of all that was added.
    fn snapshot(&self, watcher: &Bound<'_, PyAny>) -> PyResult<Coreset> {
        let shared = self.0.clone();
        let made = run(watcher, move |watch| {
            let stream = shared.copy()?;
            if stream.progress().rows == 0 {
                let what = "the stream is empty: no row has come yet".to_string();
                return Err(ErrorKind::NoRows { what }.into());
            }
            stream.snapshot(watch)
        })?;
        Ok(Coreset(Arc::new(made)))
    }

    /// Saves all that was added.
    fn save(&self, watcher: &Bound<'_, PyAny>) -> PyResult<()> {
        let shared = self.0.clone();
        run(watcher, move |_| shared.save())
    }

    /// Saves and lets go of the state. `complete` if all rows that were to be fed again should have come.
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

    /// Rows, blocks, rows that wait, rows dropped, bad rows, coresets; `None` once closed.
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

    /// The coreset of everything that a state on disk says is in; somebody may be writing there.
    #[staticmethod]
    fn read_snapshot(
        state: PathBuf,
        threads: Option<usize>,
        watcher: &Bound<'_, PyAny>,
    ) -> PyResult<Coreset> {
        let made = run(watcher, move |watch| stream::snapshot(&state, threads, watch))?;
        Ok(Coreset(Arc::new(made)))
    }

    /// Falls back to the last state that is whole: rows that are in, and rows to be fed again if that is known.
    #[staticmethod]
    fn repair(state: PathBuf, watcher: &Bound<'_, PyAny>) -> PyResult<(u64, Option<u64>)> {
        let repaired = run(watcher, move |_| stream::repair(&state))?;
        Ok((repaired.rows, repaired.lost))
    }
}

impl Shared {
    fn new(mut stream: stream::Stream, reading: Reading, columns: Columns, skip_bad: Option<u64>) -> Shared {
        stream.save_only_when_told();
        Shared { now: Mutex::new(Some(stream)), turn: Mutex::new(()), reading, columns, skip_bad }
    }

    /// A copy, which shares the rows.
    fn copy(&self) -> Result<stream::Stream> {
        let closed = || Error::setting("stream", "it is closed; open it again to go on");
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
        let mut options = self.reading.open_options(budget)?;
        options.lenient = self.skip_bad.is_some();
        if opener.is_files() {
            // What a file of text holds is told from its rows, and may look like numbers in one of many.
            let known = next.fields().unwrap_or_default().into_iter();
            options.text.extend(known.filter(|field| field.kind == Kind::Text).map(|field| field.name));
            options.text.sort();
            options.text.dedup();
        }
        let source = opener.open_once(&options, budget, watch)?;
        if source.rows() == Some(0) {
            // Without rows there is nothing to tell what its columns hold.
            return Ok(());
        }
        let wanted = self.wanted(&next, &*source, label, weight)?;
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
                watch.event(Event::Warning(format!("left out: {error}")));
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

    /// Which columns serve for what: as the user says, or as before.
    fn wanted(
        &self,
        stream: &stream::Stream,
        source: &dyn Source,
        label: Option<&String>,
        weight: Option<&String>,
    ) -> Result<Roles> {
        let columns = self.columns.beside(label, weight);
        let has_encoding = stream.settings().build.encoding.known.is_some();
        match stream.roles() {
            Some(known) if columns.label().is_some_and(|label| label != known.label) => {
                let what =
                    format!("is '{}', and the stream's is '{}'", columns.label().unwrap_or(""), known.label);
                Err(Error::setting("--label", what))
            }
            Some(known) if weight.is_some() && known.weight.is_none() => {
                Err(Error::setting("--weight", "rows of this stream have none: those that are in count once"))
            }
            Some(known) => Ok(known),
            None if has_encoding && columns.label().is_none() => {
                Ok(Roles { weight: columns.weight().map(str::to_string), ..Roles::default() })
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
    /// A stream that nobody closed is saved like a file that nobody closed.
    fn drop(&mut self) {
        if let Some(stream) = lock(&self.now).as_mut() {
            let _ = stream.save();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rows in pieces, copied where their memory is Python's: rows wait for their block, and an array may be changed meanwhile.
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

/// Joins coresets; names are what messages call them.
#[pyfunction]
pub fn merge(
    parts: Vec<(String, PyRef<'_, Coreset>)>,
    options: &Bound<'_, PyAny>,
    watcher: &Bound<'_, PyAny>,
) -> PyResult<Coreset> {
    let (building, threads): (Building, Option<usize>) =
        (options.extract()?, options.get_item("threads")?.extract()?);
    let parts: Vec<_> = parts.into_iter().map(|(name, part)| (name, part.0.clone())).collect();
    let merged = run(watcher, move |watch| {
        let settings = building.settings(EncodingSettings::default())?;
        let parts: Vec<_> = parts.into_iter().map(|(name, part)| (name, (*part).clone())).collect();
        tithe::coreset::merge::merge(&parts, &settings, threads, watch)
    })?;
    Ok(Coreset(Arc::new(merged)))
}
