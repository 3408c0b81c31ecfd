//! One run of a pass by the local engine: merges the states in block order, and reports the first failure.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::assembly::Assembly;
use super::cache::{BlockCache, CacheBuilder};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::progress::{Event, Observer};
use crate::data::block::Block;
use crate::data::source::{Scan, Unit};
use crate::engine::pass::Pass;

/// One run of a pass.
pub(super) struct Run<'a, P: Pass> {
    pass: &'a P,
    observer: &'a dyn Observer,
    /// The cache from an earlier pass; `None` in the first pass.
    pub cache: Option<&'a BlockCache>,
    /// The cache that the first pass builds; `None` in later passes.
    pub new_cache: Option<Mutex<CacheBuilder>>,
    pub assembly: Mutex<Assembly>,
    merged: Mutex<Merged<P::State>>,
    failed: AtomicBool,
    /// The first failure by origin. Work is handed out in the order of origins and always completed, so the same failure is reported on any
    /// number of threads.
    failure: Mutex<Option<(Origin, Error)>>,
}

/// The origin of a block, ordered as work is handed out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The cached block with this index.
    Cached(u64),
    /// The unit with this number, or a block that it completed.
    Unit(usize),
}

/// The merged state of the first blocks, and the states of later blocks that wait for their predecessors.
struct Merged<S> {
    /// The index of the block to merge next.
    next: u64,
    state: Option<S>,
    waiting: BTreeMap<u64, S>,
}

/// The result of a run without a failure.
pub(super) struct Finished<S> {
    pub state: Option<S>,
    pub assembly: Assembly,
    pub cache: Option<CacheBuilder>,
}

impl<'a, P: Pass> Run<'a, P> {
    /// A run that uses `cache` or, if there is none, builds one of at most `memory` bytes.
    pub fn new(
        pass: &'a P,
        observer: &'a dyn Observer,
        cache: Option<&'a BlockCache>,
        memory: u64,
        assembly: Assembly,
    ) -> Run<'a, P> {
        Run {
            pass,
            observer,
            cache,
            new_cache: cache.is_none().then(|| Mutex::new(CacheBuilder::new(memory))),
            assembly: Mutex::new(assembly),
            merged: Mutex::new(Merged { next: 0, state: None, waiting: BTreeMap::new() }),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// True if all blocks are cached, so that no unit has to be decoded.
    pub fn is_in_memory(&self) -> bool {
        self.cache.is_some_and(|cache| cache.complete)
    }

    pub fn cached_block(&self, index: usize) -> Option<&'a Block> {
        self.cache?.blocks.get(index)
    }

    pub fn cancelled(&self) -> bool {
        self.observer.cancelled()
    }

    /// True if the run has neither failed nor been cancelled.
    pub fn is_active(&self) -> bool {
        !self.failed.load(Ordering::Relaxed) && !self.cancelled()
    }

    /// Visits a block and merges its state, or records the failure.
    pub fn visit(&self, worker: &mut P::Worker, block: &Block, origin: Origin) {
        match self.pass.visit(worker, block) {
            Ok(state) => self.merge(block.index, state),
            Err(error) => self.fail(origin, error),
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

    pub fn fail(&self, origin: Origin, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(earlier, _)| origin < *earlier) {
            *failure = Some((origin, error));
        }
    }

    pub fn finish(self) -> Result<Finished<P::State>> {
        if self.cancelled() {
            return Err(ErrorKind::Cancelled.into());
        }
        let assembly = unlocked(self.assembly);
        match unlocked(self.failure) {
            Some((Origin::Unit(ticket), error)) => {
                return Err(error.moved_down(assembly.rows_before_in_file(ticket)));
            }
            Some((Origin::Cached(_), error)) => return Err(error),
            None => {}
        }
        Ok(Finished { state: unlocked(self.merged).state, assembly, cache: self.new_cache.map(unlocked) })
    }
}

/// A scan, and the number of units handed out.
type NumberedScan = (usize, Option<Box<dyn Scan>>);
type NumberedUnit = (usize, Box<dyn Unit>);

/// The next unit of a scan with its number.
pub(super) fn next_unit(
    scan: &Mutex<NumberedScan>,
) -> std::result::Result<Option<NumberedUnit>, (usize, Error)> {
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

/// Locks a mutex, even after a panic: the thread pool propagates the panic, and the data is not used any more.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unlocked<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
