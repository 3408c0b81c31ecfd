//! A pass: a computation over all rows, block by block, whose partial results merge.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::data::block::Block;
use crate::data::fingerprint::Fingerprint;

/// Every computation over the full data is a pass: a description (the value itself), a function from a
/// block to a state, and an associative merge of states. An [engine](crate::engine::Engine) runs it.
///
/// Engines merge states in the order of the blocks, so the merged state has the same bytes on any number of threads. The state of a single
/// block may omit rows that can no longer be selected because of other blocks.
///
/// Passes and states are serialisable: a pass is sent to where the rows are, and its state is sent back.
pub trait Pass: Sync + Serialize {
    /// Names the pass in tasks that are sent to other machines. It is unique among all passes, and does not change when the
    /// label does. The module `distributed` lists every pass by it; a test compares that list with the sources.
    const ID: &'static str;

    /// What the pass does, in a few words for a progress bar.
    const LABEL: &'static str;

    /// The result for some blocks.
    type State: Send + Serialize + DeserializeOwned;

    /// The state that a thread keeps from block to block: scratch buffers, and values that save work without changing the merged result.
    type Worker: Send;

    /// The initial state of a thread.
    fn worker(&self) -> Self::Worker;

    /// The result for one block.
    fn visit(&self, worker: &mut Self::Worker, block: &Block) -> Result<Self::State>;

    /// Adds the state of the blocks that follow those of `state`.
    fn merge(&self, state: &mut Self::State, next: Self::State);

    /// Replaces each row position in a state by `place(position)`, which is increasing. An engine that learns the number of rows before a
    /// block only later uses provisional positions first. Passes with row positions in their states must implement it.
    fn relocate(&self, _state: &mut Self::State, _place: &dyn Fn(u64) -> u64) {}
}

/// Wraps a pass, and also computes the fingerprint of the rows if they may differ from those of an earlier pass.
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
