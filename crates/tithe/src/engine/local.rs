//! Engines run passes. The local engine reads blocks on all cores and keeps as many of them decoded as fit its
//! memory; the others are read again for each pass.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use super::assembly::{Assembly, UnitDone};
use super::kept::{Keeper, Kept};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::progress::{Event, Observer};
use crate::data::block::{Block, Segment, row_name};
use crate::data::source::{Scan, Unit};
use crate::data::table::Table;
use crate::engine::pass::Pass;

/// Runs passes over one table; does no arithmetic of its own.
pub trait Engine: Sync {
    /// The table the passes run over.
    fn table(&self) -> &Table;

    /// Runs a pass over all blocks; `None` if there are none.
    fn run<P: Pass>(&self, pass: &P) -> Result<Option<P::State>>;

    /// What the engine does with rows that have a missing, infinite or inexact value.
    fn missing(&self) -> Missing;

    /// How many passes have read the data.
    fn passes(&self) -> usize;

    /// Whether the rows may be others in another pass without the engine's knowledge.
    fn rows_may_change(&self) -> bool {
        false
    }

    /// Who watches.
    fn observer(&self) -> &dyn Observer;

    /// Does work between passes on the engine's own threads: no others are started, nor wait to be used again.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    /// The row at a position, in the words of messages.
    fn row_name(&self, position: u64) -> String {
        row_name(position)
    }
}

/// What to do with a row that has a missing, infinite or inexact value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Missing {
    /// Stop, and say where they are.
    #[default]
    Error,
    /// Leave such rows out, and count them.
    Drop,
}

/// How the local engine works; none of it changes a result, but for `missing` and `block_rows`.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Number of threads; `None` is one a core.
    pub threads: Option<usize>,
    /// Bytes of decoded rows to keep; what is beyond them is read again for each pass.
    pub memory: u64,
    /// What to do with unusable rows.
    pub missing: Missing,
    /// Rows in a block; `None` chooses by the number of columns.
    pub block_rows: Option<usize>,
}

impl Default for EngineSettings {
    fn default() -> EngineSettings {
        EngineSettings { threads: None, memory: 4 << 30, missing: Missing::Error, block_rows: None }
    }
}

/// More threads than any machine has cores.
const MOST_THREADS: usize = 1024;

/// Runs passes on this machine's cores.
pub struct LocalEngine<'a> {
    table: Table,
    pool: rayon::ThreadPool,
    missing: Missing,
    block_rows: usize,
    memory: u64,
    /// What the first pass kept.
    kept: OnceLock<Kept>,
    /// The files that the first pass read, and how many rows each has.
    rows_by_file: OnceLock<Vec<(PathBuf, u64)>>,
    stamps: Vec<(PathBuf, Stamp)>,
    passes: AtomicUsize,
    rows: AtomicU64,
    observer: &'a dyn Observer,
}

/// A block of a narrow table has 65,536 rows; of a wide one fewer (a power of two), so that it stays within 8 MiB, but no fewer than
/// 1,024.
pub fn default_block_rows(columns: usize) -> usize {
    let fitting = (1 << 20) / columns.max(1);
    if fitting >= 1 << 16 { 1 << 16 } else { (fitting.max(1).next_power_of_two() / 2).max(1 << 10) }
}

/// A pool of so many threads; `None` is one a core.
pub fn thread_pool(threads: Option<usize>) -> Result<rayon::ThreadPool> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.unwrap_or_else(cores);
    if threads == 0 || threads > MOST_THREADS {
        return Err(Error::setting("--threads", format!("must be between 1 and {MOST_THREADS}")));
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| Error::setting("--threads", error.to_string()))
}

/// Tells the allocator not to give memory back to the system after every block: the next block needs as much, and fresh
/// pages cost as much as decoding does. The C library of Linux learns it from the largest block that was freed, which
/// can be one that was never touched; it holds for the whole process. To other allocators it means nothing.
fn let_memory_come_and_go() {
    /// Just below the 32 MiB beyond which it does not learn.
    const LARGEST: usize = (32 << 20) - (64 << 10);
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGEST)));
}

impl<'a> LocalEngine<'a> {
    /// An engine for a table.
    pub fn new(
        table: Table,
        settings: &EngineSettings,
        observer: &'a dyn Observer,
    ) -> Result<LocalEngine<'a>> {
        if settings.block_rows.is_some_and(|rows| rows == 0 || rows > 1 << 30) {
            return Err(Error::setting("--block-rows", "must be between 1 and 2^30"));
        }
        let pool = thread_pool(settings.threads)?;
        let_memory_come_and_go();
        let block_rows = settings.block_rows.unwrap_or_else(|| default_block_rows(table.fields().len()));
        Ok(LocalEngine {
            pool,
            missing: settings.missing,
            block_rows,
            memory: settings.memory,
            kept: OnceLock::new(),
            rows_by_file: OnceLock::new(),
            stamps: table.source().files().into_iter().map(|file| (file.clone(), stamp(&file))).collect(),
            passes: AtomicUsize::new(0),
            rows: AtomicU64::new(table.source().rows().unwrap_or(0)),
            table,
            observer,
        })
    }

    /// How many rows of the input the last pass has read.
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Runs a pass over the blocks that are kept, and then over the others as they are decoded.
    fn run_over<P: Pass>(&self, pass: &P, kept: Option<&Kept>) -> Result<Option<P::State>> {
        let run = Run::new(self, pass, kept);
        let scan = match run.is_in_memory() {
            true => None,
            false => Some(self.table.source().scan(self.table.positions())?),
        };
        let scan = Mutex::new((0, scan));
        let next_kept = AtomicUsize::new(0);
        self.pool.broadcast(|_| {
            let mut worker = pass.worker();
            while run.goes_on()
                && let Some(block) = run.kept_block(next_kept.fetch_add(1, Ordering::Relaxed))
            {
                run.visit(&mut worker, block, Place::Kept(block.index));
            }
            while run.goes_on() {
                match next_unit(&scan) {
                    Ok(Some((ticket, unit))) => self.decode(&run, &mut worker, ticket, unit),
                    Ok(None) => break,
                    Err((ticket, error)) => run.fail(Place::Unit(ticket), error),
                }
            }
        });
        let (ticket, last) = lock(&run.assembly).last_block();
        if run.goes_on()
            && let Some((index, parts)) = last
        {
            // With the help of all threads.
            self.pool.install(|| self.visit_parts(&run, &mut pass.worker(), ticket, index, parts));
        }
        let in_memory = run.is_in_memory();
        let Finished { state, assembly, keeper } = run.finish()?;
        if !in_memory {
            self.check_unchanged()?;
            let now = assembly.rows_placed();
            let before = self.rows.swap(now, Ordering::Relaxed);
            if kept.is_some() && now != before {
                let what = format!("it had {before} rows, and then {now}");
                return Err(ErrorKind::Changed { what }.into());
            }
            // The last block was visited when as many rows were there.
            if let Some(told) = self.table.source().rows()
                && now != told
            {
                let what = format!("it was to have {told} rows, and had {now}");
                return Err(ErrorKind::Changed { what }.into());
            }
        }
        if let Some(keeper) = keeper {
            // Of two first passes at once, either may be the one.
            let _ = self.rows_by_file.set(assembly.rows_by_file());
            let _ = self.kept.set(keeper.finish(self.block_rows, assembly.unit_rows()));
        }
        Ok(state)
    }

    /// Fails if a file is not the one any more that the passes began with.
    fn check_unchanged(&self) -> Result<()> {
        match self.stamps.iter().find(|(file, before)| stamp(file) != *before) {
            Some((file, _)) => {
                let what = format!("'{}' was written to or replaced", file.display());
                Err(ErrorKind::Changed { what }.into())
            }
            None => Ok(()),
        }
    }

    /// Decodes a unit, unless all its rows are kept, and visits the blocks that it completes.
    fn decode<P: Pass>(&self, run: &Run<'_, P>, worker: &mut P::Worker, ticket: usize, unit: Box<dyn Unit>) {
        let file = unit.file().to_path_buf();
        let first_row = unit.first_row();
        let mut rows = 0;
        let mut waiting = Vec::new();
        let decoded = match run.kept.and_then(|kept| kept.units.get(ticket)) {
            Some(known) => {
                rows = *known;
                Ok(())
            }
            None => unit.decode(&mut |segment| {
                let len = segment.len as u64;
                match first_row {
                    // The place is known: a block may be complete, and is still in the cache.
                    Some(first_row) => {
                        let complete = lock(&run.assembly).place(first_row + rows, segment);
                        for (index, parts) in complete {
                            self.visit_parts(run, worker, ticket, index, parts);
                        }
                    }
                    None => waiting.push(segment),
                }
                rows += len;
                if run.cancelled() { Err(ErrorKind::Cancelled.into()) } else { Ok(()) }
            }),
        };
        let complete = lock(&run.assembly).unit_done(ticket, UnitDone { file, rows, waiting });
        if let Err(error) = decoded {
            return run.fail(Place::Unit(ticket), error);
        }
        for (index, parts) in complete {
            self.visit_parts(run, worker, ticket, index, parts);
        }
    }

    fn visit_parts<P: Pass>(
        &self,
        run: &Run<'_, P>,
        worker: &mut P::Worker,
        ticket: usize,
        index: u64,
        parts: Vec<Segment>,
    ) {
        let first_row = self.table.source().first_row() + index * self.block_rows as u64;
        let mut block = Block::new(index, first_row, Segment::concat(parts));
        if let Some(part) = self.table.source().part() {
            block = block.of_part(part);
        }
        if self.missing == Missing::Drop {
            block = block.without_unusable_rows();
        }
        run.visit(worker, &block, Place::Unit(ticket));
        if let Some(keeper) = &run.keeper {
            let refused = lock(keeper).keep(block);
            // Not before the lock is free.
            drop(refused);
        }
    }
}

impl Engine for LocalEngine<'_> {
    fn table(&self) -> &Table {
        &self.table
    }

    fn run<P: Pass>(&self, pass: &P) -> Result<Option<P::State>> {
        let rows = Some(self.rows.load(Ordering::Relaxed)).filter(|&rows| rows > 0);
        self.observer.event(Event::PassStarted { name: P::LABEL, rows });
        self.passes.fetch_add(1, Ordering::Relaxed);
        let state = self.run_over(pass, self.kept.get());
        self.observer.event(Event::PassFinished);
        state
    }

    fn missing(&self) -> Missing {
        self.missing
    }

    fn passes(&self) -> usize {
        self.passes.load(Ordering::Relaxed)
    }

    fn observer(&self) -> &dyn Observer {
        self.observer
    }

    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.pool.install(work)
    }

    /// The row in its file, where rows come from files.
    fn row_name(&self, position: u64) -> String {
        let in_memory = self.table.source().files().is_empty();
        let files = self.rows_by_file.get().filter(|_| !in_memory).map_or(&[][..], Vec::as_slice);
        let mut row = position;
        for (file, rows) in files {
            if row < *rows {
                return format!("row {} of '{}'", row + 1, file.display());
            }
            row -= rows;
        }
        row_name(position)
    }
}

/// What tells that a file was written to or replaced: its length, when it was last written, and its place on the disk. A pipe,
/// whose bytes are read once and kept, has none.
type Stamp = Option<(u64, Option<SystemTime>, u64)>;

fn stamp(file: &Path) -> Stamp {
    let metadata = std::fs::metadata(file).ok().filter(Metadata::is_file)?;
    Some((metadata.len(), metadata.modified().ok(), inode(&metadata)))
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_metadata: &Metadata) -> u64 {
    0
}

/// One run of a pass: states merged in the order of the blocks, and the first failure.
struct Run<'a, P: Pass> {
    pass: &'a P,
    observer: &'a dyn Observer,
    /// What an earlier pass kept; nothing in the first.
    kept: Option<&'a Kept>,
    /// What is kept of the first pass.
    keeper: Option<Mutex<Keeper>>,
    assembly: Mutex<Assembly>,
    merged: Mutex<Merged<P::State>>,
    failed: AtomicBool,
    /// The failure of the first place: those ahead of it were handed out before it and are always
    /// finished, so the same failure is reported on any number of threads.
    failure: Mutex<Option<(Place, Error)>>,
}

/// Where something failed, in the order in which work is handed out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// In the block of this number, which was kept.
    Kept(u64),
    /// In this unit, or in a block that it completed.
    Unit(usize),
}

struct Merged<S> {
    next: u64,
    state: Option<S>,
    waiting: BTreeMap<u64, S>,
}

/// What is left of a run without a failure.
struct Finished<S> {
    state: Option<S>,
    assembly: Assembly,
    keeper: Option<Keeper>,
}

impl<'a, P: Pass> Run<'a, P> {
    fn new(engine: &'a LocalEngine<'_>, pass: &'a P, kept: Option<&'a Kept>) -> Run<'a, P> {
        let first_block = kept.map_or(0, |kept| kept.blocks.len());
        Run {
            pass,
            observer: engine.observer,
            kept,
            keeper: kept.is_none().then(|| Mutex::new(Keeper::new(engine.memory))),
            assembly: Mutex::new(Assembly::new(engine.block_rows, engine.table.source().rows(), first_block)),
            merged: Mutex::new(Merged { next: 0, state: None, waiting: BTreeMap::new() }),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// True if nothing is left to decode.
    fn is_in_memory(&self) -> bool {
        self.kept.is_some_and(|kept| kept.whole)
    }

    fn kept_block(&self, number: usize) -> Option<&'a Block> {
        self.kept?.blocks.get(number)
    }

    fn cancelled(&self) -> bool {
        self.observer.cancelled()
    }

    fn goes_on(&self) -> bool {
        !self.failed.load(Ordering::Relaxed) && !self.cancelled()
    }

    fn visit(&self, worker: &mut P::Worker, block: &Block, place: Place) {
        match self.pass.visit(worker, block) {
            Ok(state) => self.merge(block.index, state),
            Err(error) => self.fail(place, error),
        }
        self.observer.event(Event::RowsDone(block.rows_read as u64));
    }

    fn merge(&self, index: u64, state: P::State) {
        let mut merged = lock(&self.merged);
        merged.waiting.insert(index, state);
        let merged = &mut *merged;
        while let Some(next) = merged.waiting.remove(&merged.next) {
            merged.next += 1;
            match &mut merged.state {
                Some(state) => self.pass.merge(state, next),
                None => merged.state = Some(next),
            }
        }
    }

    fn fail(&self, place: Place, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(earlier, _)| place < *earlier) {
            *failure = Some((place, error));
        }
    }

    fn finish(self) -> Result<Finished<P::State>> {
        if self.cancelled() {
            return Err(ErrorKind::Cancelled.into());
        }
        let assembly = unlocked(self.assembly);
        match unlocked(self.failure) {
            Some((Place::Unit(ticket), error)) => {
                return Err(error.moved_down(assembly.rows_ahead_in_file(ticket)));
            }
            Some((Place::Kept(_), error)) => return Err(error),
            None => {}
        }
        Ok(Finished { state: unlocked(self.merged).state, assembly, keeper: self.keeper.map(unlocked) })
    }
}

type NumberedScan = (usize, Option<Box<dyn Scan>>);
type NumberedUnit = (usize, Box<dyn Unit>);

fn next_unit(scan: &Mutex<NumberedScan>) -> std::result::Result<Option<NumberedUnit>, (usize, Error)> {
    let mut scan = lock(scan);
    let ticket = scan.0;
    match scan.1.as_mut().map_or(Ok(None), |scan| scan.next_unit()) {
        Ok(unit) => {
            scan.0 += 1;
            Ok(unit.map(|unit| (ticket, unit)))
        }
        Err(error) => Err((ticket, error)),
    }
}

/// A panic in one worker is passed on by the pool; the data behind its lock is not used any more.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unlocked<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
