//! A pass: something computed from all rows, block by block, whose partial results merge.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::block::Block;
use crate::error::Result;

/// Everything that touches the full data is a pass: a description (the value itself), a function from a
/// block to a state, and an associative merge of states. An [engine](crate::engine::Engine) runs it.
///
/// The state of all blocks depends on the pass and the blocks alone, never on the threads: engines merge states in the
/// order of the blocks, so the result has the same bytes on any number of threads. A block's own state may leave out
/// what other blocks have beaten already.
///
/// Passes and states travel: a pass to where the rows are, its state back.
pub trait Pass: Sync + Serialize {
    /// What the pass is for, in a few words for a progress bar.
    const NAME: &'static str;

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
