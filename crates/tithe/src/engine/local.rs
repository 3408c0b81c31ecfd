//! The local engine: runs passes on the cores of this machine. Decoded blocks that fit in memory are cached; the others are read again in
//! every pass.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use super::assembly::{Assembly, UnitDone};
use super::cache::BlockCache;
use super::run::{Finished, Origin, Run, lock, next_unit};
use super::{Engine, EngineSettings, Missing, default_block_rows, thread_pool};
use crate::base::error::{Error, ErrorKind, Result, Setting};
use crate::base::progress::{Event, Observer};
use crate::data::block::{Block, Segment, row_name};
use crate::data::source::Unit;
use crate::data::table::Table;
use crate::engine::pass::Pass;

/// Runs passes on the cores of this machine.
pub struct LocalEngine<'a> {
    table: Table,
    pool: rayon::ThreadPool,
    missing: Missing,
    block_rows: usize,
    memory: u64,
    /// The blocks that the first pass cached.
    cache: OnceLock<BlockCache>,
    /// The files that the first pass read, each with its number of rows.
    rows_by_file: OnceLock<Vec<(PathBuf, u64)>>,
    /// Detects files that change between passes.
    stamps: Vec<(PathBuf, Stamp)>,
    passes: AtomicUsize,
    /// The number of rows of the input, as far as it is known.
    rows: AtomicU64,
    observer: &'a dyn Observer,
}

/// Raises the mmap and trim thresholds of glibc's malloc, for the whole process, so that it does not return the memory of every freed block
/// to the system. The next block needs as much memory, and page faults on fresh pages cost as much as decoding.
///
/// glibc raises both thresholds when a large allocation is freed, even if its pages were never touched. Other allocators are not affected.
fn raise_malloc_thresholds() {
    /// Slightly less than 32 MiB, the largest size for which glibc adapts the thresholds.
    const SIZE: usize = (32 << 20) - (64 << 10);
    let mut bytes = Vec::<u8>::new();
    // Where memory is limited this may fail, and then nothing is raised.
    let _ = bytes.try_reserve_exact(SIZE);
    drop(std::hint::black_box(bytes));
}

impl<'a> LocalEngine<'a> {
    /// An engine for a table.
    pub fn new(
        table: Table,
        settings: &EngineSettings,
        observer: &'a dyn Observer,
    ) -> Result<LocalEngine<'a>> {
        if settings.block_rows.is_some_and(|rows| rows == 0 || rows > 1 << 30) {
            return Err(Error::setting(Setting::BlockRows, "must be between 1 and 2^30"));
        }
        let pool = thread_pool(settings.threads)?;
        raise_malloc_thresholds();
        let block_rows = settings.block_rows.unwrap_or_else(|| default_block_rows(table.fields().len()));
        Ok(LocalEngine {
            pool,
            missing: settings.missing,
            block_rows,
            memory: settings.memory,
            cache: OnceLock::new(),
            rows_by_file: OnceLock::new(),
            stamps: table.source().files().into_iter().map(|file| (file.clone(), stamp(&file))).collect(),
            passes: AtomicUsize::new(0),
            rows: AtomicU64::new(table.source().rows().unwrap_or(0)),
            table,
            observer,
        })
    }

    /// The number of rows that the last pass read.
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Runs a pass over the cached blocks, then over the other blocks as they are decoded.
    fn run_over<P: Pass>(&self, pass: &P, cache: Option<&BlockCache>) -> Result<Option<P::State>> {
        let first_block = cache.map_or(0, |cache| cache.blocks.len());
        let assembly = Assembly::new(self.block_rows, self.table.source().rows(), first_block);
        let run = Run::new(pass, self.observer, cache, self.memory, assembly);
        let scan = match run.is_in_memory() {
            true => None,
            false => Some(self.table.source().scan(self.table.positions())?),
        };
        let scan = Mutex::new((0, scan));
        let next_cached = AtomicUsize::new(0);
        self.pool.broadcast(|_| {
            let mut worker = pass.worker();
            while run.is_active()
                && let Some(block) = run.cached_block(next_cached.fetch_add(1, Ordering::Relaxed))
            {
                run.visit(&mut worker, block, Origin::Cached(block.index));
            }
            while run.is_active() {
                match next_unit(&scan) {
                    Ok(Some((ticket, unit))) => self.decode(&run, &mut worker, ticket, unit),
                    Ok(None) => break,
                    Err((ticket, error)) => run.fail(Origin::Unit(ticket), error),
                }
            }
        });
        let (ticket, last) = lock(&run.assembly).last_block();
        if run.is_active()
            && let Some((index, parts)) = last
        {
            // Inside the pool, so that idle threads can take over parts of the block.
            self.pool.install(|| self.visit_parts(&run, &mut pass.worker(), ticket, index, parts));
        }
        let in_memory = run.is_in_memory();
        let Finished { state, assembly, cache: new_cache } = run.finish()?;
        if !in_memory {
            self.check_files_unchanged()?;
            self.check_row_count(assembly.rows_placed(), cache.is_some())?;
        }
        if let Some(new_cache) = new_cache {
            // If two first passes run at the same time, either result will do.
            let _ = self.rows_by_file.set(assembly.rows_by_file());
            let _ = self.cache.set(new_cache.finish(self.block_rows, assembly.unit_rows()));
        }
        Ok(state)
    }

    /// Stores the number of rows of a pass. Returns an error if an earlier pass or the source itself had another number.
    fn check_row_count(&self, now: u64, is_repeated: bool) -> Result<()> {
        let before = self.rows.swap(now, Ordering::Relaxed);
        if is_repeated && now != before {
            let what = format!("it had {before} rows, and then {now}");
            return Err(ErrorKind::Changed { what }.into());
        }
        if let Some(announced) = self.table.source().rows()
            && now != announced
        {
            let what = format!("the source announced {announced} rows, but had {now}");
            return Err(ErrorKind::Changed { what }.into());
        }
        Ok(())
    }

    /// Returns an error if a file has changed since the engine was created.
    fn check_files_unchanged(&self) -> Result<()> {
        match self.stamps.iter().find(|(file, before)| stamp(file) != *before) {
            Some((file, _)) => {
                let what = format!("'{}' was written to or replaced", file.display());
                Err(ErrorKind::Changed { what }.into())
            }
            None => Ok(()),
        }
    }

    /// Decodes a unit, unless all its rows are cached, and visits the blocks that it completes.
    fn decode<P: Pass>(&self, run: &Run<'_, P>, worker: &mut P::Worker, ticket: usize, unit: Box<dyn Unit>) {
        let file = unit.file().to_path_buf();
        let first_row = unit.first_row();
        let mut rows = 0;
        let mut waiting = Vec::new();
        let decoded = match run.cache.and_then(|cache| cache.units.get(ticket)) {
            Some(known) => {
                rows = *known;
                Ok(())
            }
            None => unit.decode(&mut |segment| {
                let len = segment.len as u64;
                match first_row {
                    // The position is known, so visit complete blocks now, while their rows are in the processor's cache.
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
            return run.fail(Origin::Unit(ticket), error);
        }
        for (index, parts) in complete {
            self.visit_parts(run, worker, ticket, index, parts);
        }
    }

    /// Concatenates the parts of a block, visits it, and offers it to the cache.
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
        block = self.missing.in_use(block, self.table.features().len());
        run.visit(worker, &block, Origin::Unit(ticket));
        if let Some(cache) = &run.new_cache {
            let evicted = lock(cache).add(block);
            // Freeing memory takes time; the lock is already released here.
            drop(evicted);
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
        let state = self.run_over(pass, self.cache.get());
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

    /// The row number within its file, if the rows come from files.
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

/// Detects that a file was written to or replaced: its length, modification time and inode. `None` for a pipe, whose bytes are read once and
/// stored.
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
