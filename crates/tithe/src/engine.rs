//! Engines run passes. The local engine reads blocks on all cores and keeps as many of them decoded as fit its
//! memory; the others are read again for each pass.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    cache: Mutex<Cache>,
    passes: AtomicUsize,
    rows: AtomicU64,
    observer: &'a dyn Observer,
}

/// Decoded blocks: the first of the data, as many as fit.
enum Cache {
    /// While the first pass goes on.
    Filling(Filling),
    /// From then on.
    Filled(Arc<Kept>),
}

struct Filling {
    blocks: BTreeMap<u64, Block>,
    bytes: u64,
    /// Blocks from this one on do not fit.
    end: u64,
}

/// Blocks that need not be decoded again.
#[derive(Default)]
struct Kept {
    /// The first blocks of the data, in order.
    blocks: Vec<Block>,
    /// The number of rows of each of the first units, as far as all their rows are in these blocks.
    units: Vec<u64>,
    /// True if there are no other blocks.
    whole: bool,
}

impl Filling {
    fn new() -> Filling {
        Filling { blocks: BTreeMap::new(), bytes: 0, end: u64::MAX }
    }

    /// Keeps a block, and lets go of the last ones when there is no more room.
    ///
    /// Blocks come in any order. In the end those ahead of `end` are all there: whole units can be left out.
    fn keep(&mut self, block: Block, memory: u64) {
        if block.index >= self.end {
            return;
        }
        self.bytes += block.bytes() as u64;
        self.blocks.insert(block.index, block);
        while self.bytes > memory
            && let Some((index, last)) = self.blocks.pop_last()
        {
            self.bytes -= last.bytes() as u64;
            self.end = index;
        }
    }

    /// What was kept of a table whose units have so many rows.
    fn finish(&mut self, block_rows: usize, units: impl Iterator<Item = u64>) -> Kept {
        let Filling { blocks, end, .. } = std::mem::replace(self, Filling::new());
        let mut room = (blocks.len() * block_rows) as u64;
        let in_blocks = |rows: &u64| {
            let fits = *rows <= room;
            room = room.saturating_sub(*rows);
            fits
        };
        Kept {
            units: units.take_while(in_blocks).collect(),
            whole: end == u64::MAX,
            blocks: blocks.into_values().collect(),
        }
    }
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
            memory: settings.memory,
            cache: Mutex::new(Cache::Filling(Filling::new())),
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
    fn run_over<P: Pass>(&self, pass: &P, kept: &Kept) -> Result<Option<P::State>> {
        let scan = match kept.whole {
            true => None,
            false => Some(self.table.source().scan(self.table.positions())?),
        };
        let scan = Mutex::new((0, scan));
        let run = Run::new(self, pass);
        let assembly = Mutex::new(Assembly::new(self.block_rows, kept.blocks.len()));
        let next = AtomicUsize::new(0);
        self.pool.broadcast(|_| {
            let mut worker = pass.worker();
            while run.goes_on()
                && let Some(block) = kept.blocks.get(next.fetch_add(1, Ordering::Relaxed))
            {
                run.visit(&mut worker, block, Place::Kept(block.index as usize));
            }
            while run.goes_on() {
                match next_unit(&scan) {
                    Ok(Some((ticket, unit))) => self.decode(&run, &mut worker, &assembly, kept, ticket, unit),
                    Ok(None) => break,
                    Err((ticket, error)) => run.fail(Place::Unit(ticket), error),
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
        if result.is_ok() && !kept.whole {
            self.rows.store(assembly.rows_placed, Ordering::Relaxed);
        }
        let mut cache = lock(&self.cache);
        if let Cache::Filling(filling) = &mut *cache {
            match result.is_ok() {
                true => {
                    let units = assembly.units.iter().map_while(|unit| unit.as_ref().map(|unit| unit.rows));
                    *cache = Cache::Filled(Arc::new(filling.finish(self.block_rows, units)));
                }
                false => *filling = Filling::new(),
            }
        }
        result
    }

    /// Decodes a unit, unless its rows are kept, and visits the blocks that it completes.
    fn decode<P: Pass>(
        &self,
        run: &Run<'_, P>,
        worker: &mut P::Worker,
        assembly: &Mutex<Assembly>,
        kept: &Kept,
        ticket: usize,
        unit: Box<dyn Unit>,
    ) {
        let file = unit.file().to_path_buf();
        let first_row = unit.first_row();
        let mut rows = 0;
        let mut waiting = Vec::new();
        let decoded = match kept.units.get(ticket) {
            Some(known) => {
                rows = *known;
                Ok(())
            }
            None => unit.decode(&mut |segment| {
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
            }),
        };
        let complete = lock(assembly).unit_done(ticket, UnitDone { file, rows, waiting });
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
        if let Cache::Filling(filling) = &mut *lock(&self.cache) {
            filling.keep(block, self.memory);
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
            Cache::Filled(kept) => kept.clone(),
            Cache::Filling(_) => Arc::default(),
        };
        let state = self.run_over(pass, &kept);
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
    /// The failure of the first place: those ahead of it were handed out before it and are always
    /// finished, so the same failure is reported on any number of threads.
    failure: Mutex<Option<(Place, Error)>>,
}

/// Where a block comes from, in the order in which they are handed out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// It is kept, and has this number.
    Kept(usize),
    /// It was completed by this unit.
    Unit(usize),
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

    fn finish(self, units: &[Option<UnitDone>]) -> Result<Option<P::State>> {
        if self.cancelled() {
            return Err(ErrorKind::Cancelled.into());
        }
        match self.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((Place::Unit(ticket), error)) => {
                return Err(error.moved_down(rows_ahead_in_file(units, ticket)));
            }
            Some((Place::Kept(_), error)) => return Err(error),
            None => {}
        }
        Ok(self.merged.into_inner().unwrap_or_else(PoisonError::into_inner).state)
    }
}

/// Rows of the units ahead of `ticket` that come from the same file.
fn rows_ahead_in_file(units: &[Option<UnitDone>], ticket: usize) -> u64 {
    let Some(Some(failed)) = units.get(ticket) else { return 0 };
    units[..ticket].iter().flatten().filter(|unit| unit.file == failed.file).map(|unit| unit.rows).sum()
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
    /// Blocks ahead of this one are there already.
    first_block: u64,
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
    fn new(block_rows: usize, first_block: usize) -> Assembly {
        Assembly {
            block_rows: block_rows as u64,
            first_block: first_block as u64,
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
            start += taken;
            if index < self.first_block {
                continue;
            }
            let part = segment.slice((start - taken) as usize..start as usize);
            let block = self.partial.entry(index).or_default();
            block.rows += taken;
            block.parts.insert(row, part);
            if block.rows == self.block_rows
                && let Some(block) = self.partial.remove(&index)
            {
                complete.push((index, block.parts.into_values().collect()));
            }
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
