//! Long work: on a thread of its own without the interpreter's lock, while the caller's thread looks for Ctrl-C and
//! tells Python how far it has come.

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

/// How often Ctrl-C is looked for and progress told.
const LOOK: Duration = Duration::from_millis(50);
/// How long work is given to end after Ctrl-C: longer than a stream waits for the threads that read. Work that does not hear it in time ends by itself later, unheard.
const GRACE: Duration = Duration::from_millis(700);

/// What the working thread and the caller's share.
#[derive(Default)]
pub struct Watch {
    stop: AtomicBool,
    news: Mutex<News>,
}

/// What happened since it was last told.
#[derive(Default)]
struct News {
    started: Option<(String, Option<u64>, &'static str)>,
    done: u64,
    warnings: Vec<String>,
}

impl Observer for Watch {
    fn event(&self, event: Event) {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::PassStarted { name, rows } => {
                news.started = Some((name.to_string(), rows, "rows"));
                news.done = 0;
            }
            Event::ChainsStarted { iterations, .. } => {
                news.started = Some(("drawing".to_string(), Some(iterations), "iterations"));
                news.done = 0;
            }
            Event::RowsDone(count) | Event::IterationsDone(count) => news.done += count,
            Event::Warning(text) => news.warnings.push(text),
            Event::PassFinished | Event::ChainsFinished => {}
        }
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Watch {
    /// Calls `watcher.started(name, total, unit)`, `watcher.advanced(count)` and `watcher.warned(text)`.
    fn tell(&self, watcher: &Bound<'_, PyAny>) -> PyResult<()> {
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some((name, total, unit)) = news.started {
            watcher.call_method1("started", (name, total, unit))?;
        }
        if news.done > 0 {
            watcher.call_method1("advanced", (news.done,))?;
        }
        for text in news.warnings {
            watcher.call_method1("warned", (text,))?;
        }
        Ok(())
    }
}

/// Does work that the interpreter need not wait for, and gives back what it gave.
pub fn run<T: Send + 'static>(
    watcher: &Bound<'_, PyAny>,
    work: impl FnOnce(&Watch) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let py = watcher.py();
    let watch = Arc::new(Watch::default());
    let (send, mut receive) = sync_channel(1);
    let of_thread = watch.clone();
    let thread = move || {
        let done = catch_unwind(AssertUnwindSafe(|| work(&of_thread)));
        // Nobody listens any more after Ctrl-C.
        let _ = send.send(done);
    };
    std::thread::Builder::new().name("tithe".to_string()).spawn(thread)?;
    loop {
        let done = wait(py, &mut receive, LOOK);
        let told = py.check_signals().and_then(|()| watch.tell(watcher));
        if let Err(interrupt) = told {
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
                return Err(PyRuntimeError::new_err("this is a defect of tithe; please report it"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Waits for the working thread while the interpreter goes on.
fn wait<T: Send>(py: Python<'_>, receive: &mut Receiver<T>, time: Duration) -> Waited<T> {
    py.detach(move || receive.recv_timeout(time))
}

type Waited<T> = std::result::Result<T, RecvTimeoutError>;
