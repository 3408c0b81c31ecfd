//! Runs the cells of experiments: beside each other, each written to its own file as soon as it is done, so that a run
//! that was stopped goes on where it was.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tithe::base::error::{Error, ErrorKind, Result};
use tithe::data::sink::Output;

use crate::data::Library;
use crate::profile::Profile;

/// Somebody who watches the run and may stop it.
pub trait Watch: Sync {
    /// An experiment begins: so many cells are done already, so many are there in all.
    fn begin(&self, experiment: &str, done: usize, cells: usize);
    /// A cell is done.
    fn cell(&self, slug: &str, seconds: f64);
    /// A cell failed; the run goes on.
    fn failure(&self, slug: &str, error: &Error);
    /// True once the run should stop.
    fn stopped(&self) -> bool;
}

/// What all cells share.
pub struct Context<'a> {
    /// How much is run.
    pub profile: Profile,
    /// The data.
    pub library: Library,
    /// Where results go.
    pub folder: PathBuf,
    /// Cells at the same time.
    pub threads: usize,
    /// No cell is begun after this.
    pub deadline: Option<Instant>,
    /// Who watches.
    pub watch: &'a dyn Watch,
}

/// One piece of an experiment: all that its outcome depends on.
pub trait Cell: Serialize + DeserializeOwned + PartialEq + Clone + Send + Sync {
    /// What comes out.
    type Outcome: Serialize + DeserializeOwned + Clone + Send;
    /// The experiment, in file names.
    const EXPERIMENT: &'static str;
    /// True if the cell measures time, so that no other may run beside it.
    const ALONE: bool = false;

    /// The cell, in file names.
    fn slug(&self) -> String;

    /// Runs it.
    fn run(&self, context: &Context<'_>) -> Result<Self::Outcome>;
}

/// A cell that is done, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done<C, O> {
    /// The cell: settings and seed.
    pub cell: C,
    /// What came out.
    pub outcome: O,
    /// Seconds that it took.
    pub seconds: f64,
}

/// The cells of an experiment: those that are done, and how many are not.
#[derive(Clone, Debug)]
pub struct Results<C: Cell> {
    /// Those that are done, in the order asked for.
    pub done: Vec<Done<C, C::Outcome>>,
    /// Those that were not begun or failed.
    pub missing: usize,
}

impl Context<'_> {
    /// Where a cell is kept; profiles do not mix.
    fn path<C: Cell>(&self, cell: &C) -> PathBuf {
        self.cells().join(C::EXPERIMENT).join(format!("{}.json", cell.slug()))
    }

    /// The directory of the profile's cells.
    pub fn cells(&self) -> PathBuf {
        self.folder.join("cells").join(self.profile.to_string())
    }

    fn is_over(&self) -> bool {
        self.watch.stopped() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Runs cells, but for those that are done.
    ///
    /// # Errors
    /// If the watcher stops the run. Cells that fail are told to the watcher, and tried again the next time.
    pub fn run<C: Cell>(&self, cells: &[C]) -> Result<Results<C>> {
        let mut results: Vec<Option<Done<C, C::Outcome>>> =
            cells.iter().map(|cell| kept(&self.path(cell), cell)).collect();
        let todo: Vec<usize> = (0..cells.len()).filter(|&i| results[i].is_none()).collect();
        self.watch.begin(C::EXPERIMENT, cells.len() - todo.len(), cells.len());
        let next = AtomicUsize::new(0);
        let found = Mutex::new(Vec::new());
        let refused = Mutex::new(None);
        let stop = AtomicBool::new(false);
        let work = || {
            while !stop.load(Ordering::Relaxed) && !self.is_over() {
                let Some(&i) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                match self.run_one(&cells[i]) {
                    Ok(done) => lock(&found).push((i, done)),
                    Err(Failure::OfCell(error)) => self.watch.failure(&cells[i].slug(), &error),
                    Err(Failure::OfWriting(error)) => {
                        stop.store(true, Ordering::Relaxed);
                        *lock(&refused) = Some(error);
                    }
                }
            }
        };
        let threads = if C::ALONE { 1 } else { self.threads.max(1) };
        std::thread::scope(|scope| {
            (1..threads.min(todo.len().max(1))).for_each(|_| {
                scope.spawn(work);
            });
            work();
        });
        if let Some(error) = lock(&refused).take() {
            return Err(error);
        }
        if self.watch.stopped() {
            return Err(ErrorKind::Cancelled.into());
        }
        for (i, done) in lock(&found).drain(..) {
            results[i] = Some(done);
        }
        let missing = results.iter().filter(|result| result.is_none()).count();
        Ok(Results { done: results.into_iter().flatten().collect(), missing })
    }

    fn run_one<C: Cell>(&self, cell: &C) -> std::result::Result<Done<C, C::Outcome>, Failure> {
        let start = Instant::now();
        let outcome = cell.run(self).map_err(Failure::OfCell)?;
        let done = Done { cell: cell.clone(), outcome, seconds: rounded(start.elapsed()) };
        self.keep(&done).map_err(Failure::OfWriting)?;
        self.watch.cell(&cell.slug(), done.seconds);
        Ok(done)
    }

    fn keep<C: Cell>(&self, done: &Done<C, C::Outcome>) -> Result<()> {
        let path = self.path(&done.cell);
        let text =
            serde_json::to_string_pretty(done).map_err(|error| Error::malformed(&path, error.to_string()))?;
        write(&path, format!("{text}\n").as_bytes())
    }
}

/// Why a cell has no outcome.
enum Failure {
    OfCell(Error),
    OfWriting(Error),
}

/// Writes a file in one go; its directory is made if need be.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    output(path)?.write(content)
}

/// A file in the making; its directory is made if need be.
pub fn output(path: &Path) -> Result<Output> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make", folder, error))?;
    }
    Output::create(path)
}

/// What is kept of a cell, if it is that very cell.
fn kept<C: Cell>(path: &Path, cell: &C) -> Option<Done<C, C::Outcome>> {
    let text = std::fs::read_to_string(path).ok()?;
    let done: Done<C, C::Outcome> = serde_json::from_str(&text).ok()?;
    (done.cell == *cell).then_some(done)
}

fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 1e4
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
