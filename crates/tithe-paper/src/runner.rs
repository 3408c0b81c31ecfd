//! Runs the cells of experiments in parallel. Each finished cell is saved to its own file at once, so that a stopped run can
//! be resumed.

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

/// Observes a run and may stop it.
pub trait Watch: Sync {
    /// An experiment starts: `done` of its `cells` cells are saved already.
    fn begin(&self, experiment: &str, done: usize, cells: usize);
    /// A cell has finished.
    fn cell(&self, slug: &str, seconds: f64);
    /// A cell has failed; the run continues.
    fn failure(&self, slug: &str, error: &Error);
    /// True if the run should stop.
    fn stopped(&self) -> bool;
}

/// Settings and data shared by all cells.
pub struct Context<'a> {
    /// How much to run.
    pub profile: Profile,
    /// The data sets.
    pub library: Library,
    /// The output directory.
    pub folder: PathBuf,
    /// Number of cells run at the same time.
    pub threads: usize,
    /// No cell starts after this time.
    pub deadline: Option<Instant>,
    /// The observer.
    pub watch: &'a dyn Watch,
}

/// One unit of an experiment: all settings that its outcome depends on, including the seed.
pub trait Cell: Serialize + DeserializeOwned + PartialEq + Clone + Send + Sync {
    /// The result.
    type Outcome: Serialize + DeserializeOwned + Clone + Send;
    /// The name of the experiment in file names.
    const EXPERIMENT: &'static str;
    /// True if the cell measures time, so that no other cell may run at the same time.
    const ALONE: bool = false;

    /// The name of the cell in file names, unique within the experiment.
    fn slug(&self) -> String;

    /// Computes the outcome.
    fn run(&self, context: &Context<'_>) -> Result<Self::Outcome>;
}

/// A finished cell, as it is saved.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done<C, O> {
    /// Settings and seed.
    pub cell: C,
    /// The result.
    pub outcome: O,
    /// Run time in seconds.
    pub seconds: f64,
}

/// The finished cells of an experiment, and the number of missing ones.
#[derive(Clone, Debug)]
pub struct Results<C: Cell> {
    /// The finished cells, in the order of the request.
    pub done: Vec<Done<C, C::Outcome>>,
    /// Number of cells that did not start or failed.
    pub missing: usize,
}

impl Context<'_> {
    /// The file of a cell. Each profile has its own directory.
    fn path<C: Cell>(&self, cell: &C) -> PathBuf {
        self.cells().join(C::EXPERIMENT).join(format!("{}.json", cell.slug()))
    }

    /// The directory of the cells of this profile.
    pub fn cells(&self) -> PathBuf {
        self.folder.join("cells").join(self.profile.to_string())
    }

    fn must_stop(&self) -> bool {
        self.watch.stopped() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Runs the cells that are not saved already.
    ///
    /// # Errors
    /// If the observer stops the run or a result cannot be written. Failures of cells are reported to the observer; these cells
    /// are tried again in the next run.
    pub fn run<C: Cell>(&self, cells: &[C]) -> Result<Results<C>> {
        let mut results: Vec<Option<Done<C, C::Outcome>>> =
            cells.iter().map(|cell| saved(&self.path(cell), cell)).collect();
        let todo: Vec<usize> = (0..cells.len()).filter(|&i| results[i].is_none()).collect();
        self.watch.begin(C::EXPERIMENT, cells.len() - todo.len(), cells.len());
        let next = AtomicUsize::new(0);
        let finished = Mutex::new(Vec::new());
        let write_error = Mutex::new(None);
        let stop = AtomicBool::new(false);
        let work = || {
            while !stop.load(Ordering::Relaxed) && !self.must_stop() {
                let Some(&i) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                match self.run_one(&cells[i]) {
                    Ok(done) => lock(&finished).push((i, done)),
                    Err(Failure::OfCell(error)) => self.watch.failure(&cells[i].slug(), &error),
                    Err(Failure::OfWriting(error)) => {
                        stop.store(true, Ordering::Relaxed);
                        *lock(&write_error) = Some(error);
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
        if let Some(error) = lock(&write_error).take() {
            return Err(error);
        }
        if self.watch.stopped() {
            return Err(ErrorKind::Cancelled.into());
        }
        for (i, done) in lock(&finished).drain(..) {
            results[i] = Some(done);
        }
        let missing = results.iter().filter(|result| result.is_none()).count();
        Ok(Results { done: results.into_iter().flatten().collect(), missing })
    }

    fn run_one<C: Cell>(&self, cell: &C) -> std::result::Result<Done<C, C::Outcome>, Failure> {
        let start = Instant::now();
        let outcome = cell.run(self).map_err(Failure::OfCell)?;
        let done = Done { cell: cell.clone(), outcome, seconds: rounded(start.elapsed()) };
        self.save(&done).map_err(Failure::OfWriting)?;
        self.watch.cell(&cell.slug(), done.seconds);
        Ok(done)
    }

    fn save<C: Cell>(&self, done: &Done<C, C::Outcome>) -> Result<()> {
        let path = self.path(&done.cell);
        let text =
            serde_json::to_string_pretty(done).map_err(|error| Error::malformed(&path, error.to_string()))?;
        write(&path, format!("{text}\n").as_bytes())
    }
}

/// Why a cell has no saved outcome.
enum Failure {
    OfCell(Error),
    OfWriting(Error),
}

/// Writes a file, creating its directory if necessary.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    output(path)?.write(content)
}

/// Opens a file for writing, creating its directory if necessary.
pub fn output(path: &Path) -> Result<Output> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
    }
    Output::create(path)
}

/// The saved result of a cell, if the file exists and its settings are the same.
fn saved<C: Cell>(path: &Path, cell: &C) -> Option<Done<C, C::Outcome>> {
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

/// An observer for tests.
#[cfg(test)]
pub(crate) mod testing {
    use super::{AtomicBool, Error, Mutex, Ordering, Watch, lock};

    /// Records all events; `stop_after` stops the run after this many cells.
    #[derive(Default)]
    pub struct Log {
        pub begun: Mutex<Vec<(usize, usize)>>,
        pub cells: Mutex<Vec<String>>,
        pub failures: Mutex<Vec<String>>,
        pub stop_after: Option<usize>,
        pub stop: AtomicBool,
    }

    impl Watch for Log {
        fn begin(&self, _experiment: &str, done: usize, cells: usize) {
            lock(&self.begun).push((done, cells));
        }

        fn cell(&self, slug: &str, _seconds: f64) {
            let mut cells = lock(&self.cells);
            cells.push(slug.to_string());
            self.stop.store(self.stop_after == Some(cells.len()), Ordering::Relaxed);
        }

        fn failure(&self, slug: &str, error: &Error) {
            lock(&self.failures).push(format!("{slug}: {error}"));
        }

        fn stopped(&self) -> bool {
            self.stop.load(Ordering::Relaxed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Log;
    use super::*;

    /// Squares a number; fails for negative ones. `extra` is not part of the name.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Square {
        number: i64,
        extra: u32,
    }

    impl Cell for Square {
        type Outcome = i64;
        const EXPERIMENT: &'static str = "square";

        fn slug(&self) -> String {
            format!("n{}", self.number)
        }

        fn run(&self, _context: &Context<'_>) -> Result<i64> {
            if self.number < 0 {
                let what = "a negative number".to_string();
                return Err(ErrorKind::Numerical { what, help: None }.into());
            }
            Ok(self.number * self.number)
        }
    }

    fn squares(numbers: &[i64]) -> Vec<Square> {
        numbers.iter().map(|&number| Square { number, extra: 0 }).collect()
    }

    fn context<'a>(folder: &Path, threads: usize, watch: &'a Log) -> Context<'a> {
        let profile = Profile::Quick;
        let library = Library::new(None, profile);
        Context { profile, library, folder: folder.to_path_buf(), threads, deadline: None, watch }
    }

    fn outcomes(results: &Results<Square>) -> Vec<i64> {
        results.done.iter().map(|done| done.outcome).collect()
    }

    fn sorted_cells(log: &Log) -> Vec<String> {
        let mut cells = lock(&log.cells).clone();
        cells.sort_unstable();
        cells
    }

    #[test]
    fn cells_run_once_and_are_saved() {
        let folder = tempfile::tempdir().expect("a directory");
        for threads in [1, 2, 8] {
            let folder = folder.path().join(threads.to_string());
            let log = Log::default();
            let results = context(&folder, threads, &log).run(&squares(&[3, 1, 2])).expect("results");
            assert_eq!((outcomes(&results), results.missing), (vec![9, 1, 4], 0));
            assert_eq!(sorted_cells(&log), ["n1", "n2", "n3"]);
            // The same request again reads the files, in the order of the request.
            let again = context(&folder, threads, &log).run(&squares(&[1, 2, 3])).expect("results");
            assert_eq!(outcomes(&again), [1, 4, 9]);
            assert_eq!(sorted_cells(&log).len(), 3);
            assert_eq!(*lock(&log.begun), [(0, 3), (3, 3)]);
        }
    }

    #[test]
    fn missing_changed_and_damaged_cells_run_again() {
        let folder = tempfile::tempdir().expect("a directory");
        let log = Log::default();
        let context = context(folder.path(), 2, &log);
        let mut cells = squares(&[1, 2, 3, 4]);
        context.run(&cells).expect("results");
        lock(&log.cells).clear();
        std::fs::remove_file(context.path(&cells[0])).expect("a file");
        let text = std::fs::read_to_string(context.path(&cells[1])).expect("a file");
        std::fs::write(context.path(&cells[1]), &text[..text.len() / 2]).expect("a file");
        cells[2].extra = 1;
        assert_eq!(outcomes(&context.run(&cells).expect("results")), [1, 4, 9, 16]);
        assert_eq!(sorted_cells(&log), ["n1", "n2", "n3"]);
    }

    #[test]
    fn profiles_do_not_share_cells() {
        let folder = tempfile::tempdir().expect("a directory");
        let log = Log::default();
        context(folder.path(), 1, &log).run(&squares(&[2])).expect("results");
        let night = Context { profile: Profile::Night, ..context(folder.path(), 1, &log) };
        night.run(&squares(&[2])).expect("results");
        assert_eq!(*lock(&log.cells), ["n2", "n2"]);
    }

    #[test]
    fn a_failing_cell_is_reported_and_tried_again() {
        let folder = tempfile::tempdir().expect("a directory");
        let log = Log::default();
        for attempts in 1..=2 {
            let results = context(folder.path(), 2, &log).run(&squares(&[2, -1, 3])).expect("results");
            assert_eq!((outcomes(&results), results.missing), (vec![4, 9], 1));
            assert_eq!(lock(&log.failures).len(), attempts);
        }
        let failures = lock(&log.failures);
        assert!(failures[0].starts_with("n-1: ") && failures[0].contains("negative"), "{failures:?}");
    }

    #[test]
    fn a_stopped_run_resumes() {
        let folder = tempfile::tempdir().expect("a directory");
        let stopping = Log { stop_after: Some(2), ..Log::default() };
        let error = context(folder.path(), 1, &stopping).run(&squares(&[1, 2, 3, 4])).expect_err("an error");
        assert!(matches!(error.kind(), ErrorKind::Cancelled), "{error}");
        let log = Log::default();
        let results = context(folder.path(), 1, &log).run(&squares(&[1, 2, 3, 4])).expect("results");
        assert_eq!(outcomes(&results), [1, 4, 9, 16]);
        assert_eq!((lock(&log.begun)[0], sorted_cells(&log).len()), ((2, 4), 2));
    }

    #[test]
    fn no_cell_starts_after_the_deadline() {
        let folder = tempfile::tempdir().expect("a directory");
        let log = Log::default();
        let over = Context { deadline: Some(Instant::now()), ..context(folder.path(), 2, &log) };
        let results = over.run(&squares(&[1, 2])).expect("results");
        assert_eq!((results.done.len(), results.missing, sorted_cells(&log).len()), (0, 2, 0));
    }

    #[test]
    fn a_result_that_cannot_be_written_is_an_error() {
        let folder = tempfile::tempdir().expect("a directory");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("a file");
        let log = Log::default();
        let error = context(&file, 2, &log).run(&squares(&[1, 2])).expect_err("an error");
        assert!(error.to_string().contains("file"), "{error}");
    }

    /// Counts how many cells run at the same time.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Exclusive(usize);

    static RUNNING: AtomicUsize = AtomicUsize::new(0);

    impl Cell for Exclusive {
        type Outcome = usize;
        const EXPERIMENT: &'static str = "exclusive";
        const ALONE: bool = true;

        fn slug(&self) -> String {
            self.0.to_string()
        }

        fn run(&self, _context: &Context<'_>) -> Result<usize> {
            let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
            std::thread::sleep(Duration::from_millis(2));
            RUNNING.fetch_sub(1, Ordering::SeqCst);
            Ok(running)
        }
    }

    #[test]
    fn cells_that_measure_time_run_alone() {
        let folder = tempfile::tempdir().expect("a directory");
        let log = Log::default();
        let cells: Vec<Exclusive> = (0..10).map(Exclusive).collect();
        let results = context(folder.path(), 4, &log).run(&cells).expect("results");
        assert!(results.done.iter().all(|done| done.outcome == 1));
    }

    #[test]
    fn results_do_not_depend_on_the_number_of_threads() {
        use crate::data::Set;
        use crate::sensitivity::{MeanBound, Scaling};
        use crate::theory::mixture::MixtureBound;
        let folder = tempfile::tempdir().expect("a directory");
        let mixtures: Vec<MixtureBound> =
            (0..4).map(|seed| MixtureBound { rows: 500, radius: 0.5, seed }).collect();
        // These cells share data that the first one loads.
        let (set, scaling) = (Set::Binary10, Scaling::AsIs);
        let means: Vec<MeanBound> = (0..4)
            .map(|repeat| MeanBound { set, scaling, rows: 400, clusters: 6, radius: 3.0, repeat })
            .collect();
        let run = |threads: usize| {
            let log = Log::default();
            let context = context(&folder.path().join(threads.to_string()), threads, &log);
            let mixtures = context.run(&mixtures).expect("results").done;
            let means = context.run(&means).expect("results").done;
            let mixtures = mixtures.iter().map(|done| serde_json::to_string(&done.outcome).expect("JSON"));
            let means = means.iter().map(|done| serde_json::to_string(&done.outcome).expect("JSON"));
            mixtures.chain(means).collect::<Vec<_>>()
        };
        let single = run(1);
        assert_eq!(single.len(), 8);
        assert_ne!(single[0], single[1], "seeds matter");
        assert_eq!(single, run(2));
    }
}
