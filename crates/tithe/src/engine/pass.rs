//! A pass: something computed from all rows, block by block, whose partial results merge.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::data::block::Block;
use crate::data::fingerprint::Fingerprint;

/// Everything that touches the full data is a pass: a description (the value itself), a function from a
/// block to a state, and an associative merge of states. An [engine](crate::engine::Engine) runs it.
///
/// The state of all blocks depends on the pass and the blocks alone, never on the threads: engines merge states in the
/// order of the blocks, so the result has the same bytes on any number of threads. A block's own state may leave out
/// what other blocks have beaten already.
///
/// Passes and states travel: a pass to where the rows are, its state back.
pub trait Pass: Sync + Serialize {
    /// Names the pass in tasks that are sent to other machines. It is unique among all passes, and does not change when the
    /// label does. The module `distributed` lists every pass by it; a test compares that list with the sources.
    const ID: &'static str;

    /// What the pass does, in a few words for a progress bar.
    const LABEL: &'static str;

    /// The result for some blocks.
    type State: Send + Serialize + DeserializeOwned;

    /// What a thread keeps from block to block: scratch space, and what it has seen so far where that
    /// saves work without changing the merged result.
    type Worker: Send;

    /// A thread's start.
    fn worker(&self) -> Self::Worker;

    /// The result for one block.
    fn visit(&self, worker: &mut Self::Worker, block: &Block) -> Result<Self::State>;

    /// Adds the state of the blocks that follow.
    fn merge(&self, state: &mut Self::State, next: Self::State);

    /// Moves the positions of rows in a state: an engine that knows only afterwards how many rows stand ahead of a block
    /// numbers them provisionally, in the same order. Passes whose states hold positions do so.
    fn relocate(&self, _state: &mut Self::State, _place: &dyn Fn(u64) -> u64) {}
}

/// A pass that takes the fingerprint of the rows it sees as well, where these may be others than an earlier pass saw.
#[derive(Serialize, Deserialize)]
pub(crate) struct Watching<P> {
    pub pass: P,
    pub rows_may_change: bool,
}

impl<P: Pass> Pass for Watching<P> {
    // A pass is listed either with this wrapper or without it, never both ways.
    const ID: &'static str = P::ID;
    const LABEL: &'static str = P::LABEL;
    type State = (P::State, Option<Fingerprint>);
    type Worker = P::Worker;

    fn worker(&self) -> P::Worker {
        self.pass.worker()
    }

    fn visit(&self, worker: &mut P::Worker, block: &Block) -> Result<Self::State> {
        let fingerprint = self.rows_may_change.then(|| Fingerprint::of(block));
        Ok((self.pass.visit(worker, block)?, fingerprint))
    }

    fn merge(&self, (state, fingerprint): &mut Self::State, (next, of_next): Self::State) {
        self.pass.merge(state, next);
        if let (Some(ours), Some(theirs)) = (fingerprint, of_next) {
            ours.merge(theirs);
        }
    }

    fn relocate(&self, (state, _): &mut Self::State, place: &dyn Fn(u64) -> u64) {
        self.pass.relocate(state, place);
    }
}
