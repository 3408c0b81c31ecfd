//! Progress of long computations, as events sent to an observer. The library itself prints nothing.

/// A step of a long computation.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Event {
    /// A pass over the data starts.
    PassStarted {
        /// The purpose of the pass, in a few words.
        name: &'static str,
        /// The number of rows it will read, if that is known.
        rows: Option<u64>,
    },
    /// Rows processed since the last such event of this pass.
    RowsDone(u64),
    /// The pass has finished.
    PassFinished,
    /// Markov chains start.
    ChainsStarted {
        /// The number of chains.
        chains: usize,
        /// The iterations of all chains together, including warm-up.
        iterations: u64,
    },
    /// Iterations completed since the last such event, in any chain.
    IterationsDone(u64),
    /// The chains have finished.
    ChainsFinished,
    /// A warning for the user; the computation continues.
    Warning(String),
}

/// Receives the events of a computation, from several threads, and can stop it.
pub trait Observer: Sync {
    /// Receives an event.
    fn event(&self, event: Event);

    /// Whether the computation should stop; checked once per block.
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _event: Event) {}
}
