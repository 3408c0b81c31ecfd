//! Engines run passes. The local engine reads blocks on all cores, keeps them decoded while they fit its
//! memory, and reads them again for each pass when they do not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::block::{Block, Segment};
use crate::error::{Error, ErrorKind, Result};
use crate::pass::Pass;
use crate::progress::{Event, Observer};
use crate::source::{Scan, Unit};
use crate::table::Table;

/// Runs passes over one table; does no arithmetic of its own.
pub trait Engine {
    /// The table the passes run over.
    fn table(&self) -> &Table;

    /// Runs a pass over all blocks; `None` if there are none.
    fn run<P: Pass>(&self, pass: &P) -> Result<Option<P::State>>;

    /// How many passes have read the data.
    fn passes(&self) -> usize;

    /// Who watches.
    fn observer(&self) -> &dyn Observer;
}

/// What to do with a row that has a missing, infinite or inexact value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
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
    /// Bytes of decoded rows to keep; larger data is read again for each pass.
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
    cache: Mutex<Cache>,
    passes: AtomicUsize,
    rows: AtomicU64,
    observer: &'a dyn Observer,
}

/// Decoded blocks, while they fit.
enum Cache {
    Filling { blocks: Vec<Block>, bytes_left: u64 },
    Full(std::sync::Arc<Vec<Block>>),
    TooLarge,
}

/// A block of a narrow table has 65,536 rows; of a wide one fewer (a power of two), so that it stays at 8 MiB.
pub fn default_block_rows(columns: usize) -> usize {
    let fitting = (1 << 20) / columns.max(1);
    if fitting >= 1 << 16 { 1 << 16 } else { (fitting.max(1).next_power_of_two() / 2).max(1 << 10) }
}

/// The machine's memory, or the container's limit where that is less.
pub fn physical_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let limit =
        std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some((kilobytes * 1024).min(limit.unwrap_or(u64::MAX)))
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
        let block_rows = settings.block_rows.unwrap_or_else(|| default_block_rows(table.fields().len()));
        Ok(LocalEngine {
            pool,
            missing: settings.missing,
            block_rows,
            cache: Mutex::new(Cache::Filling { blocks: Vec::new(), bytes_left: settings.memory }),
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

    /// Runs a pass over blocks kept in memory.
    fn run_in_memory<P: Pass>(&self, pass: &P, blocks: &[Block]) -> Result<Option<P::State>> {
        let run = Run::new(self, pass);
        let next = AtomicUsize::new(0);
        self.pool.broadcast(|_| {
            let mut worker = pass.worker();
            while run.goes_on() {
                let Some(block) = blocks.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                run.visit(&mut worker, block, block.index);
            }
        });
        run.finish(&[])
    }

    /// Runs a pass over blocks as they are decoded, and keeps them if they fit.
    fn run_from_source<P: Pass>(&self, pass: &P) -> Result<Option<P::State>> {
        let run = Run::new(self, pass);
        let scan = Mutex::new((0, self.table.source().scan(self.table.positions())?));
        let assembly = Mutex::new(Assembly::new(self.block_rows));
        self.pool.broadcast(|_| {
            let mut worker = pass.worker();
            while run.goes_on() {
                match next_unit(&scan) {
                    Ok(Some((ticket, unit))) => self.decode(&run, &mut worker, &assembly, ticket, unit),
                    Ok(None) => break,
                    Err((ticket, error)) => run.fail(ticket, error),
                }
            }
        });
        let mut assembly = assembly.into_inner().unwrap_or_else(PoisonError::into_inner);
        if run.goes_on()
            && let Some((index, parts)) = assembly.last_block()
        {
            let ticket = assembly.units.len();
            self.visit_parts(&run, &mut pass.worker(), ticket, index, parts);
        }
        let result = run.finish(&assembly.units);
        if result.is_ok() {
            self.rows.store(assembly.rows_placed, Ordering::Relaxed);
            let mut cache = lock(&self.cache);
            if let Cache::Filling { blocks, .. } = &mut *cache {
                let mut blocks = std::mem::take(blocks);
                blocks.sort_by_key(|block| block.index);
                *cache = Cache::Full(std::sync::Arc::new(blocks));
            }
        } else if let Cache::Filling { blocks, .. } = &mut *lock(&self.cache) {
            blocks.clear();
        }
        result
    }

    /// Decodes a unit and visits the blocks that it completes.
    fn decode<P: Pass>(
        &self,
        run: &Run<'_, P>,
        worker: &mut P::Worker,
        assembly: &Mutex<Assembly>,
        ticket: usize,
        unit: Box<dyn Unit>,
    ) {
        let file = unit.file().to_path_buf();
        let first_row = unit.first_row();
        let mut rows = 0;
        let mut waiting = Vec::new();
        let decoded = unit.decode(&mut |segment| {
            let len = segment.len as u64;
            match first_row {
                // The place is known: a block may be complete, and is still in the cache.
                Some(first_row) => {
                    let complete = lock(assembly).place(first_row + rows, segment);
                    for (index, parts) in complete {
                        self.visit_parts(run, worker, ticket, index, parts);
                    }
                }
                None => waiting.push(segment),
            }
            rows += len;
            if run.cancelled() { Err(ErrorKind::Cancelled.into()) } else { Ok(()) }
        });
        let complete = lock(assembly).unit_done(ticket, UnitDone { file, rows, waiting });
        if let Err(error) = decoded {
            return run.fail(ticket, error);
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
        run.visit(worker, &block, ticket as u64);
        self.keep(block);
    }

    fn keep(&self, block: Block) {
        let mut cache = lock(&self.cache);
        if let Cache::Filling { blocks, bytes_left } = &mut *cache {
            let bytes = block.bytes() as u64;
            if bytes <= *bytes_left {
                *bytes_left -= bytes;
                blocks.push(block);
            } else {
                *cache = Cache::TooLarge;
            }
        }
    }
}

impl Engine for LocalEngine<'_> {
    fn table(&self) -> &Table {
        &self.table
    }

    fn run<P: Pass>(&self, pass: &P) -> Result<Option<P::State>> {
        let rows = Some(self.rows.load(Ordering::Relaxed)).filter(|&rows| rows > 0);
        self.observer.event(Event::PassStarted { name: P::NAME, rows });
        self.passes.fetch_add(1, Ordering::Relaxed);
        let kept = match &*lock(&self.cache) {
            Cache::Full(blocks) => Some(blocks.clone()),
            _ => None,
        };
        let state = match kept {
            Some(blocks) => self.run_in_memory(pass, &blocks),
            None => self.run_from_source(pass),
        };
        self.observer.event(Event::PassFinished);
        state
    }

    fn passes(&self) -> usize {
        self.passes.load(Ordering::Relaxed)
    }

    fn observer(&self) -> &dyn Observer {
        self.observer
    }
}

/// One run of a pass: states merged in the order of the blocks, and the first failure.
struct Run<'a, P: Pass> {
    pass: &'a P,
    observer: &'a dyn Observer,
    merged: Mutex<Merged<P::State>>,
    failed: AtomicBool,
    /// The failure of the lowest ticket: units ahead of it were handed out before it and are always
    /// finished, so the same failure is reported on any number of threads.
    failure: Mutex<Option<(usize, Error)>>,
}

struct Merged<S> {
    next: u64,
    state: Option<S>,
    waiting: BTreeMap<u64, S>,
}

impl<'a, P: Pass> Run<'a, P> {
    fn new(engine: &'a LocalEngine<'_>, pass: &'a P) -> Run<'a, P> {
        Run {
            pass,
            observer: engine.observer,
            merged: Mutex::new(Merged { next: 0, state: None, waiting: BTreeMap::new() }),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    fn cancelled(&self) -> bool {
        self.observer.cancelled()
    }

    fn goes_on(&self) -> bool {
        !self.failed.load(Ordering::Relaxed) && !self.cancelled()
    }

    fn visit(&self, worker: &mut P::Worker, block: &Block, ticket: u64) {
        match self.pass.visit(worker, block) {
            Ok(state) => self.merge(block.index, state),
            Err(error) => self.fail(ticket as usize, error),
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

    fn fail(&self, ticket: usize, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(earlier, _)| ticket < *earlier) {
            *failure = Some((ticket, error));
        }
    }

    fn finish(self, units: &[Option<UnitDone>]) -> Result<Option<P::State>> {
        if self.cancelled() {
            return Err(ErrorKind::Cancelled.into());
        }
        if let Some((ticket, error)) = self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error.moved_down(rows_ahead_in_file(units, ticket)));
        }
        Ok(self.merged.into_inner().unwrap_or_else(PoisonError::into_inner).state)
    }
}

/// Rows of the units ahead of `ticket` that come from the same file.
fn rows_ahead_in_file(units: &[Option<UnitDone>], ticket: usize) -> u64 {
    let Some(Some(failed)) = units.get(ticket) else { return 0 };
    units[..ticket].iter().flatten().filter(|unit| unit.file == failed.file).map(|unit| unit.rows).sum()
}

type NumberedScan = (usize, Box<dyn Scan>);
type NumberedUnit = (usize, Box<dyn Unit>);

fn next_unit(scan: &Mutex<NumberedScan>) -> std::result::Result<Option<NumberedUnit>, (usize, Error)> {
    let mut scan = lock(scan);
    let ticket = scan.0;
    match scan.1.next_unit() {
        Ok(unit) => {
            scan.0 += 1;
            Ok(unit.map(|unit| (ticket, unit)))
        }
        Err(error) => Err((ticket, error)),
    }
}

/// What is left of a unit once it is decoded.
struct UnitDone {
    file: PathBuf,
    rows: u64,
    /// Its rows, while their place in the input is not yet known.
    waiting: Vec<Segment>,
}

/// Puts decoded segments together to blocks of a fixed number of rows, wherever the units end.
struct Assembly {
    block_rows: u64,
    units: Vec<Option<UnitDone>>,
    units_placed: usize,
    rows_placed: u64,
    partial: BTreeMap<u64, PartialBlock>,
}

#[derive(Default)]
struct PartialBlock {
    rows: u64,
    parts: BTreeMap<u64, Segment>,
}

type CompleteBlock = (u64, Vec<Segment>);

impl Assembly {
    fn new(block_rows: usize) -> Assembly {
        Assembly {
            block_rows: block_rows as u64,
            units: Vec::new(),
            units_placed: 0,
            rows_placed: 0,
            partial: BTreeMap::new(),
        }
    }

    /// Takes rows whose place is known; gives back the blocks that they complete.
    fn place(&mut self, first_row: u64, segment: Segment) -> Vec<CompleteBlock> {
        let mut complete = Vec::new();
        let (mut start, len) = (0, segment.len as u64);
        while start < len {
            let row = first_row + start;
            let index = row / self.block_rows;
            let taken = ((index + 1) * self.block_rows - row).min(len - start);
            let part = segment.slice(start as usize..(start + taken) as usize);
            let block = self.partial.entry(index).or_default();
            block.rows += taken;
            block.parts.insert(row, part);
            if block.rows == self.block_rows
                && let Some(block) = self.partial.remove(&index)
            {
                complete.push((index, block.parts.into_values().collect()));
            }
            start += taken;
        }
        complete
    }

    /// Takes note of a unit; places the waiting rows of all units whose place is known by now.
    fn unit_done(&mut self, ticket: usize, unit: UnitDone) -> Vec<CompleteBlock> {
        if self.units.len() <= ticket {
            self.units.resize_with(ticket + 1, || None);
        }
        self.units[ticket] = Some(unit);
        let mut complete = Vec::new();
        while let Some(Some(unit)) = self.units.get_mut(self.units_placed) {
            let mut row = self.rows_placed;
            self.rows_placed += unit.rows;
            self.units_placed += 1;
            for segment in std::mem::take(&mut unit.waiting) {
                let len = segment.len as u64;
                complete.extend(self.place(row, segment));
                row += len;
            }
        }
        complete
    }

    /// The block that the end of the input left incomplete.
    fn last_block(&mut self) -> Option<CompleteBlock> {
        let (index, block) = self.partial.pop_last()?;
        Some((index, block.parts.into_values().collect()))
    }
}

/// A panic in one worker is passed on by the pool; the data behind its lock is not used any more.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
