//! Faults in file operations of a stream: full disks, killed processes and damaged files lose no row that was saved, count no row
//! twice, and do not change the result.
//!
//! `TITHE_CASES` is the number of random histories (40 by default); `scripts/faults` runs 1,000.

use std::path::Path;

use proptest::prelude::*;
use tithe::base::faults::{Plan, inject};
use tithe::base::progress::Silent;
use tithe::coreset::Method;
use tithe::coreset::build::BuildSettings;
use tithe::coreset::file::{coreset_bytes, write_coreset};
use tithe::coreset::selection::Size;
use tithe::data::sink::{Output, write_directory};
use tithe::data::source::{Input, OpenOptions, open_inputs};
use tithe::data::table::Roles;
use tithe::stream::feed::{Fed, feed};
use tithe::stream::{Stream, StreamSettings, repair, snapshot};

const ROWS: usize = 150;
const BLOCK: usize = 16;

fn settings() -> StreamSettings {
    let build = BuildSettings {
        method: Method::Sensitivity,
        size: Size::Rows(10),
        clusters: 2,
        collapse: false,
        ..BuildSettings::default()
    };
    StreamSettings { build, block: BLOCK, warmup_rows: BLOCK, ..StreamSettings::default() }
}

fn open(state: &Path) -> tithe::Result<Stream> {
    let mut stream = Stream::open(state, &settings(), Some(1))?;
    stream.disable_automatic_saves();
    Ok(stream)
}

/// Adds rows `from..to`.
fn push(stream: &mut Stream, from: usize, to: usize) {
    if from == to {
        return;
    }
    let mut text = "x,city,y\n".to_string();
    for row in from..to {
        let noise = (row as u32).wrapping_mul(2_654_435_761) >> 16;
        text +=
            &format!("{},{},{}\n", noise % 97, ["Bern", "Genf"][row % 2], u32::from(noise % 97 > noise % 71));
    }
    let source = open_inputs(vec![Input::bytes("rows.csv", text.into_bytes())], &OpenOptions::default());
    let source = source.expect("rows");
    let roles = Roles { label: "y".into(), ..Roles::default() };
    let columns = stream.take_columns(&*source, &roles).expect("columns");
    let scan = source.scan(&columns).expect("a scan");
    let end = feed(scan, 1, false, &Silent, &mut |fed| match fed {
        Fed::Rows(rows) => stream.push(rows, &Silent),
        Fed::Bad(error) => Err(error),
        Fed::Nothing => Ok(()),
    });
    end.expect("rows that can be used");
}

/// The bytes of the coreset of all rows after `counted` of them; these are what no fault may change.
fn finish(mut stream: Stream) -> Vec<u8> {
    let counted = stream.progress().rows as usize;
    if counted < ROWS {
        push(&mut stream, counted, ROWS);
    }
    assert_eq!(stream.progress().rows, ROWS as u64);
    coreset_bytes(&stream.snapshot(&Silent).expect("a coreset")).expect("bytes")
}

fn undisturbed() -> Vec<u8> {
    finish(Stream::in_memory(&settings(), Some(1)).expect("a stream"))
}

/// Feeds all rows, saving after every ten. The row counts of the saves that reported success, in order.
fn feed_and_save(state: &Path) -> Vec<u64> {
    let mut saved = vec![0];
    let Ok(mut stream) = open(state) else { return saved };
    for from in (0..ROWS).step_by(10) {
        push(&mut stream, from, from + 10);
        if stream.save().is_ok() {
            saved.push(from as u64 + 10);
        }
    }
    saved
}

#[test]
fn a_fault_at_any_operation_loses_nothing_that_was_saved() {
    let expected = undisturbed();
    let folder = tempfile::tempdir().expect("a folder");
    inject(Plan::Nothing);
    feed_and_save(&folder.path().join("peace"));
    let (operations, _) = inject(Plan::Nothing);
    assert!(operations > 150, "only {operations} operations can fail: the test sees nothing");
    let mut injected = 0;
    // Each operation in turn would take too long here; the step is prime to the number of operations per save.
    let step = if std::env::var_os("TITHE_CASES").is_some() { 1 } else { 7 };
    for after in (0..operations).step_by(step) {
        for plan in [Plan::Once(after), Plan::Onwards(after)] {
            let state = folder.path().join(format!("{plan:?}"));
            inject(plan);
            let saved = feed_and_save(&state);
            let (_, failed) = inject(Plan::Nothing);
            assert!(failed > 0, "{plan:?} has no effect");
            injected += failed;
            let last = saved[saved.len() - 1];
            let stream = open(&state).unwrap_or_else(|error| panic!("{plan:?}: {error}"));
            let counted = stream.progress().rows;
            // A save can fail after the new manifest is in place; then its rows count.
            assert!(
                counted >= last && counted.is_multiple_of(10),
                "{plan:?}: {counted} rows, but {last} were saved"
            );
            assert!(finish(stream) == expected, "{plan:?}: other bytes");
        }
    }
    eprintln!("{operations} operations, {injected} faults");
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Save,
    /// The process dies, and another one opens the state.
    Kill,
    /// Reads the state as another process does, while it may be written.
    Snapshot,
    /// The operation after this many others fails, once or from then on.
    Fault(u64, bool),
    /// One byte of one file changes after a kill, and the state is repaired.
    Damage(usize, usize),
    /// The input is fed again from the first row after a kill.
    Replay,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1usize..40).prop_map(Step::Push),
        3 => Just(Step::Save),
        1 => Just(Step::Kill),
        1 => Just(Step::Snapshot),
        3 => (0u64..25, any::<bool>()).prop_map(|(after, lasting)| Step::Fault(after, lasting)),
        1 => (0usize..20, any::<prop::sample::Index>()).prop_map(|(file, at)| Step::Damage(file, at.index(1 << 16))),
        1 => Just(Step::Replay),
    ]
}

/// A stream with what is known of its state: the rows of the last save that succeeded, and those of later ones that failed.
struct History {
    state: std::path::PathBuf,
    stream: Option<Stream>,
    saved: u64,
    attempted: Vec<u64>,
}

impl History {
    fn fed(&self) -> usize {
        self.stream.as_ref().expect("a stream").progress().rows as usize
    }

    /// Opens the state without faults, as after a restart.
    fn restart(&mut self) {
        self.stream = None;
        inject(Plan::Nothing);
        let stream = open(&self.state).unwrap_or_else(|error| panic!("it cannot be resumed: {error}"));
        let rows = stream.progress().rows;
        assert!(rows == self.saved || self.attempted.contains(&rows), "{rows} rows, {} saved", self.saved);
        self.become_saved(rows);
        self.stream = Some(stream);
    }

    fn become_saved(&mut self, rows: u64) {
        self.saved = rows;
        self.attempted.clear();
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Push(rows) => {
                let from = self.fed();
                push(self.stream.as_mut().expect("a stream"), from, (from + rows).min(ROWS).max(from));
            }
            Step::Save => {
                let rows = self.fed() as u64;
                match self.stream.as_mut().expect("a stream").save() {
                    Ok(()) => self.become_saved(rows),
                    Err(_) => self.attempted.push(rows),
                }
            }
            Step::Kill => self.restart(),
            Step::Snapshot => {
                // With a fault it may fail; it never changes the state.
                let _ = snapshot(&self.state, Some(1), &Silent);
            }
            Step::Fault(after, lasting) => {
                inject(if lasting { Plan::Onwards(after) } else { Plan::Once(after) });
            }
            Step::Damage(file, at) => {
                self.restart();
                self.stream = None;
                damage(&self.state, file, at);
                match repair(&self.state) {
                    Ok(repaired) => {
                        assert!(repaired.rows <= self.saved, "{repaired:?}, {} saved", self.saved);
                        self.become_saved(repaired.rows);
                    }
                    // With its only manifest a state loses its settings: all rows are fed again elsewhere.
                    Err(_) => {
                        std::fs::remove_dir_all(&self.state).expect("removed");
                        self.become_saved(0);
                    }
                }
                self.restart();
            }
            Step::Replay => {
                self.restart();
                let rows = self.fed();
                let stream = self.stream.as_mut().expect("a stream");
                stream.replay();
                push(stream, 0, rows);
                assert_eq!(self.fed(), rows);
            }
        }
    }
}

/// Changes one byte of one file.
fn damage(state: &Path, file: usize, at: usize) {
    let entries = std::fs::read_dir(state).expect("a state").flatten().map(|entry| entry.path());
    let mut files: Vec<_> = entries.filter(|path| !path.ends_with("lock")).collect();
    files.sort();
    let Some(path) = files.get(file % files.len().max(1)) else { return };
    let mut bytes = std::fs::read(path).expect("a file");
    if !bytes.is_empty() {
        let at = at % bytes.len();
        bytes[at] ^= 0x55;
        std::fs::write(path, bytes).expect("written");
    }
}

#[test]
fn random_histories_end_in_the_same_coreset() {
    let cases = std::env::var("TITHE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40);
    let expected = undisturbed();
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let faults = std::cell::Cell::new(0);
    let outcome = runner.run(&prop::collection::vec(step(), 1..40), |steps| {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        inject(Plan::Nothing);
        let stream = Some(open(&state).expect("a stream"));
        let mut history = History { state, stream, saved: 0, attempted: Vec::new() };
        for step in &steps {
            history.take(step);
        }
        let (_, failed) = inject(Plan::Nothing);
        faults.set(faults.get() + failed);
        history.restart();
        let stream = history.stream.take().expect("a stream");
        prop_assert!(finish(stream) == expected, "other bytes");
        Ok(())
    });
    outcome.expect("every history ends in the same coreset");
    eprintln!("{cases} histories");
}

/// Outputs appear complete or not at all, whichever operation fails.
#[test]
fn outputs_are_complete_or_absent() {
    let mut stream = Stream::in_memory(&settings(), Some(1)).expect("a stream");
    push(&mut stream, 0, ROWS);
    let coreset = stream.snapshot(&Silent).expect("a coreset");
    let complete = coreset_bytes(&coreset).expect("bytes");
    let files = [("data.json", "{}".to_string()), ("model.stan", "data {}".to_string())];
    for before in [None, Some(&b"before"[..])] {
        for after in 0.. {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("core.parquet");
            if let Some(before) = before {
                std::fs::write(&path, before).expect("written");
            }
            inject(Plan::Once(after));
            let written = Output::create(&path).and_then(|output| write_coreset(&coreset, output));
            let (_, failed) = inject(Plan::Nothing);
            let found = std::fs::read(&path).ok();
            let names = std::fs::read_dir(folder.path()).expect("a folder").count();
            assert!(names <= 1, "something is left after {after} operations");
            if failed == 0 {
                assert!(written.is_ok() && after > 3, "{after}");
                assert_eq!(found.as_deref(), Some(&complete[..]));
                break;
            }
            assert!(written.is_err(), "a fault after {after} operations is not reported");
            assert!(found.as_deref() == before || found.as_deref() == Some(&complete), "{after}");
        }
    }
    for after in 0.. {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("model");
        inject(Plan::Once(after));
        let written = write_directory(&directory, &files);
        let (_, failed) = inject(Plan::Nothing);
        let names = std::fs::read_dir(&directory).map_or(0, Iterator::count);
        assert!(names == 0 || names == 2, "{names} files after {after} operations");
        assert_eq!(written.is_ok(), failed == 0, "{after}");
        if failed == 0 {
            assert!(after > 5, "{after}");
            break;
        }
    }
}
