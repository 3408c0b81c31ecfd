//! Progress as events to an observer; the command line and Python draw them, the library never prints.

/// What happens during long work.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Event {
    /// A pass over the data begins.
    PassStarted {
        /// What the pass is for, in a few words.
        name: &'static str,
        /// How many rows it will see, where that is known.
        rows: Option<u64>,
    },
    /// Rows done since the last such event of this pass.
    RowsDone(u64),
    /// The pass is over.
    PassFinished,
    /// Markov chains begin.
    ChainsStarted {
        /// How many chains.
        chains: usize,
        /// Iterations of all chains together, warm-up included.
        iterations: u64,
    },
    /// Iterations done since the last such event, of whichever chain.
    IterationsDone(u64),
    /// The chains are over.
    ChainsFinished,
    /// Something the user should know, though the work goes on.
    Warning(String),
}

/// Somebody who watches long work and may stop it. Called from several threads.
pub trait Observer: Sync {
    /// Something happened.
    fn event(&self, event: Event);

    /// True once the work should stop; looked at once a block.
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _event: Event) {}
}
