//! Reads a source once on several threads, and passes its rows on in order as they arrive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::base::error::{Error, Result};
use crate::base::progress::{Event, Observer};
use crate::data::block::Segment;
use crate::data::source::{Scan, Unit};

/// How long to wait for rows before reporting that there are none.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// How long to wait for threads to stop.
const STOP_TIMEOUT: Duration = Duration::from_millis(400);

/// An event of reading a source.
pub enum Fed {
    /// Some rows.
    Rows(Segment),
    /// A row that could not be read and was skipped.
    Bad(Error),
    /// No rows have arrived for a while.
    Nothing,
}

/// Why reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There are no more rows.
    Complete,
    /// The observer cancelled it.
    Stopped,
}

/// A decoded unit.
struct Decoded {
    file: PathBuf,
    segments: Vec<Segment>,
    bad: Vec<Error>,
    failure: Option<Error>,
}

/// Reads all units of a scan and passes their rows to `sink`, in order; calls it at least every tenth of a second.
///
/// A thread that waits for bytes cannot be interrupted. If reading stops early, threads that are still waiting after a
/// moment are abandoned.
pub fn feed(
    scan: Box<dyn Scan>,
    threads: usize,
    lenient: bool,
    observer: &dyn Observer,
    sink: &mut dyn FnMut(Fed) -> Result<()>,
) -> Result<End> {
    let mut readers = Readers::start(scan, threads.max(1), lenient);
    let end = readers.hand_over(observer, sink);
    let stopped = readers.stop();
    let end = end?;
    stopped.map(|()| end)
}

/// The decoding threads and the channel of their results.
struct Readers {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    receiver: Receiver<(u64, Decoded)>,
}

impl Readers {
    fn start(scan: Box<dyn Scan>, threads: usize, lenient: bool) -> Readers {
        let (sender, receiver) = sync_channel(threads);
        let scan = Arc::new(Mutex::new((0u64, Some(scan))));
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..threads)
            .map(|_| {
                let (scan, stop, sender) = (scan.clone(), stop.clone(), sender.clone());
                thread::spawn(move || work(&scan, &stop, &sender, lenient))
            })
            .collect();
        Readers { threads, stop, receiver }
    }

    fn hand_over(&mut self, observer: &dyn Observer, sink: &mut dyn FnMut(Fed) -> Result<()>) -> Result<End> {
        let mut order = Order::default();
        let mut waiting: BTreeMap<u64, Decoded> = BTreeMap::new();
        let mut next = 0;
        loop {
            if observer.cancelled() {
                return Ok(End::Stopped);
            }
            match self.receiver.recv_timeout(POLL_TIMEOUT) {
                Ok((ticket, decoded)) => {
                    waiting.insert(ticket, decoded);
                    while let Some(decoded) = waiting.remove(&next) {
                        next += 1;
                        order.hand_over(decoded, observer, sink)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => sink(Fed::Nothing)?,
                // A source that was stopped ends as well.
                Err(RecvTimeoutError::Disconnected) if observer.cancelled() => return Ok(End::Stopped),
                Err(RecvTimeoutError::Disconnected) => return Ok(End::Complete),
            }
        }
    }

    /// Makes every thread end after its current unit, and waits for them for a limited time.
    ///
    /// A source may be owned by other code, such as a Python generator: it must not be called again after reading has
    /// ended for the caller.
    fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let until = Instant::now() + STOP_TIMEOUT;
        // Empties the channel, so that no thread blocks on sending.
        loop {
            match self.receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // A thread that panicked has not read all its rows.
        match self.threads.into_iter().all(|thread| thread.join().is_ok()) {
            true => Ok(()),
            false => Err(broken(Path::new("the data"))),
        }
    }
}

/// The number of earlier rows in the current file, for messages.
#[derive(Default)]
struct Order {
    file: PathBuf,
    rows: u64,
}

impl Order {
    fn hand_over(
        &mut self,
        decoded: Decoded,
        observer: &dyn Observer,
        sink: &mut dyn FnMut(Fed) -> Result<()>,
    ) -> Result<()> {
        if decoded.file != self.file {
            *self = Order { file: decoded.file, rows: 0 };
        }
        let ahead = self.rows;
        for error in decoded.bad {
            self.rows += 1;
            sink(Fed::Bad(error.moved_down(ahead)))?;
        }
        for segment in decoded.segments {
            self.rows += segment.len as u64;
            observer.event(Event::RowsDone(segment.len as u64));
            sink(Fed::Rows(segment))?;
        }
        decoded.failure.map_or(Ok(()), |error| Err(error.moved_down(ahead)))
    }
}

type Shared = Mutex<(u64, Option<Box<dyn Scan>>)>;

/// The work of each thread: takes the next unit, decodes it and sends it, until there are no more or it is stopped.
fn work(scan: &Shared, stop: &AtomicBool, sender: &SyncSender<(u64, Decoded)>, lenient: bool) {
    loop {
        let (ticket, unit) = {
            let mut shared = scan.lock().unwrap_or_else(PoisonError::into_inner);
            let (ticket, scan) = &mut *shared;
            if stop.load(Ordering::Relaxed) {
                *scan = None;
            }
            let Some(open) = scan else { return };
            let unit = open.next_unit();
            if !matches!(unit, Ok(Some(_))) {
                *scan = None;
            }
            *ticket += 1;
            (*ticket - 1, unit)
        };
        let decoded = match unit {
            Ok(Some(unit)) => decode(unit, lenient),
            Ok(None) => return,
            Err(error) => {
                Decoded { file: PathBuf::new(), segments: Vec::new(), bad: Vec::new(), failure: Some(error) }
            }
        };
        if sender.send((ticket, decoded)).is_err() {
            return;
        }
    }
}

fn decode(unit: Box<dyn Unit>, lenient: bool) -> Decoded {
    let file = unit.file().to_path_buf();
    let (mut segments, mut bad) = (Vec::new(), Vec::new());
    let mut emit = |segment| {
        segments.push(segment);
        Ok(())
    };
    // A panic here would leave a gap in the order that looks like the end.
    let decoded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match lenient {
        true => unit.decode_leniently(&mut emit, &mut |error| bad.push(error)),
        false => unit.decode(&mut emit),
    }));
    let failure = match decoded {
        Ok(decoded) => decoded.err(),
        Err(_) => Some(broken(&file)),
    };
    Decoded { file, segments, bad, failure }
}

fn broken(file: &Path) -> Error {
    Error::malformed(file, "cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;
    use crate::base::progress::Silent;

    /// A source without an end that counts its references.
    struct Endless {
        _held: Arc<()>,
    }

    impl Scan for Endless {
        fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
            Ok(Some(Box::new(TwoRows)))
        }
    }

    struct TwoRows;

    impl Unit for TwoRows {
        fn first_row(&self) -> Option<u64> {
            None
        }

        fn file(&self) -> &Path {
            Path::new("endless")
        }

        fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
            emit(Segment { columns: Vec::new(), len: 2 })
        }
    }

    /// Cancels after this many checks.
    struct CancelsAfter(Mutex<u32>);

    impl Observer for CancelsAfter {
        fn event(&self, _: Event) {}

        fn cancelled(&self) -> bool {
            let mut left = self.0.lock().unwrap();
            *left = left.saturating_sub(1);
            *left == 0
        }
    }

    #[test]
    fn a_source_is_not_called_after_reading_ends() {
        for threads in [1, 4] {
            let held = Arc::new(());
            let observer = CancelsAfter(Mutex::new(50));
            let end =
                feed(Box::new(Endless { _held: held.clone() }), threads, false, &observer, &mut |_| Ok(()))
                    .unwrap();
            assert_eq!((end, Arc::strong_count(&held)), (End::Stopped, 1));

            let mut rows = 0;
            let failed = feed(
                Box::new(Endless { _held: held.clone() }),
                threads,
                false,
                &Silent,
                &mut |fed| match fed {
                    Fed::Rows(segment) if rows < 100 => {
                        rows += segment.len;
                        Ok(())
                    }
                    Fed::Nothing => Ok(()),
                    _ => Err(ErrorKind::Cancelled.into()),
                },
            );
            assert_eq!((failed.is_err(), rows, Arc::strong_count(&held)), (true, 100, 1));
        }
    }

    struct Panicking;

    impl Scan for Panicking {
        fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
            panic!("a reader with a defect")
        }
    }

    #[test]
    fn a_panic_of_the_reader_is_not_the_end_of_the_data() {
        let error = feed(Box::new(Panicking), 1, false, &Silent, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "'the data': cannot be read");
    }
}
