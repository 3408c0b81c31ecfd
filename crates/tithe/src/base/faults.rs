//! Faults that a test injects into file operations, to check that nothing is lost or half-written.
//!
//! Every operation on outputs and states passes a `point`. Without the feature `faults` a point does nothing.

use std::io::{Result, Write};

#[cfg(feature = "faults")]
use std::cell::Cell;

/// What a file operation does, and thus which faults it can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Creates or opens a file or directory.
    Create,
    /// Reads a file.
    Read,
    /// Writes bytes; when it fails, half of them are written.
    Write,
    /// Makes the contents of a file durable.
    Sync,
    /// Moves a file to its final path.
    Rename,
    /// Makes the entries of a directory durable.
    SyncFolder,
    /// Removes a file.
    Remove,
}

/// Which operations of the current thread fail.
#[cfg(feature = "faults")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// None.
    Nothing,
    /// The operation after this many others, as on a full disk.
    Once(u64),
    /// The operation after this many others and all that follow it, as if the process had been killed.
    Onwards(u64),
}

#[cfg(feature = "faults")]
thread_local! {
    static PLAN: Cell<Plan> = const { Cell::new(Plan::Nothing) };
    static PASSED: Cell<u64> = const { Cell::new(0) };
    static FAILED: Cell<u64> = const { Cell::new(0) };
}

/// Sets the plan of this thread. Returns the number of operations, and of those that failed, since the last plan was set.
#[cfg(feature = "faults")]
pub fn inject(plan: Plan) -> (u64, u64) {
    PLAN.set(plan);
    (PASSED.replace(0), FAILED.replace(0))
}

/// Fails if the operation is to have a fault.
#[cfg(feature = "faults")]
pub(crate) fn point(operation: FileOperation) -> Result<()> {
    let passed = PASSED.get();
    PASSED.set(passed + 1);
    let fails = match PLAN.get() {
        Plan::Nothing => false,
        Plan::Once(after) => passed == after,
        Plan::Onwards(after) => passed >= after,
    };
    if fails {
        FAILED.set(FAILED.get() + 1);
        return Err(std::io::Error::other(format!("injected fault: {operation:?}")));
    }
    Ok(())
}

/// Does nothing.
#[cfg(not(feature = "faults"))]
#[inline]
pub(crate) fn point(_: FileOperation) -> Result<()> {
    Ok(())
}

/// A writer whose writes pass a [`point`].
pub(crate) struct Faulty<W>(pub W);

impl<W: Write> Write for Faulty<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match point(FileOperation::Write) {
            Ok(()) => self.0.write(bytes),
            Err(fault) => self.0.write_all(&bytes[..bytes.len() / 2]).and(Err(fault)),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.0.flush()
    }
}
