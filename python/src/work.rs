//! Long work: runs on its own thread without the interpreter's lock, while the caller's thread checks for Ctrl-C and
//! reports progress to Python.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tithe::base::error::Result;
use tithe::base::progress::{Event, Observer};

use crate::errors::to_python;

/// How often Ctrl-C is checked and progress reported.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait for the work to end after Ctrl-C: longer than a stream waits for its reading threads. Work that takes
/// longer to end is abandoned.
const GRACE: Duration = Duration::from_millis(700);

/// What the working thread and the caller's thread share.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    events: Mutex<Events>,
}

/// What happened since the last report.
#[derive(Default)]
struct Events {
    started: Option<(String, Option<u64>, &'static str)>,
    done: u64,
    warnings: Vec<String>,
}

impl Observer for Watch {
    fn event(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::PassStarted { name, rows } => {
                events.started = Some((name.to_string(), rows, "rows"));
                events.done = 0;
            }
            Event::ChainsStarted { iterations, .. } => {
                events.started = Some(("drawing".to_string(), Some(iterations), "iterations"));
                events.done = 0;
            }
            Event::RowsDone(count) | Event::IterationsDone(count) => events.done += count,
            Event::Warning(text) => events.warnings.push(text),
            Event::PassFinished | Event::ChainsFinished => {}
        }
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Watch {
    /// Calls `watcher.started(name, total, unit)`, `watcher.advanced(count)` and `watcher.warned(text)`.
    fn report(&self, watcher: &Bound<'_, PyAny>) -> PyResult<()> {
        let events = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some((name, total, unit)) = events.started {
            watcher.call_method1("started", (name, total, unit))?;
        }
        if events.done > 0 {
            watcher.call_method1("advanced", (events.done,))?;
        }
        for text in events.warnings {
            watcher.call_method1("warned", (text,))?;
        }
        Ok(())
    }
}

/// Runs work without blocking the interpreter, and returns its result.
pub fn run<T: Send + 'static>(
    watcher: &Bound<'_, PyAny>,
    work: impl FnOnce(&Watch) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let py = watcher.py();
    let watch = Arc::new(Watch::default());
    let (send, mut receive) = sync_channel(1);
    let thread_watch = watch.clone();
    let thread = move || {
        let done = catch_unwind(AssertUnwindSafe(|| work(&thread_watch)));
        // After Ctrl-C the receiver may no longer exist.
        let _ = send.send(done);
    };
    std::thread::Builder::new().name("tithe".to_string()).spawn(thread)?;
    loop {
        let done = wait(py, &mut receive, INTERVAL);
        let reported = py.check_signals().and_then(|()| watch.report(watcher));
        if let Err(interrupt) = reported {
            watch.stop.store(true, Ordering::Relaxed);
            if matches!(done, Err(RecvTimeoutError::Timeout)) {
                let _ = wait(py, &mut receive, GRACE);
            }
            return Err(interrupt);
        }
        match done {
            Ok(Ok(Ok(value))) => return Ok(value),
            Ok(Ok(Err(error))) => return Err(to_python(py, &error)),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("this is a bug in tithe; please report it"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Waits for the working thread while the interpreter continues.
fn wait<T: Send>(py: Python<'_>, receive: &mut Receiver<T>, time: Duration) -> Waited<T> {
    py.detach(move || receive.recv_timeout(time))
}

type Waited<T> = std::result::Result<T, RecvTimeoutError>;
