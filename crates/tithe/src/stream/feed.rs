//! Reads a source once, on several threads, and hands its rows over in order, as they come.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::block::Segment;
use crate::error::{Error, ErrorKind, Result};
use crate::progress::{Event, Observer};
use crate::source::{Scan, Unit};

/// How long to wait for rows before something else is seen to.
const PATIENCE: Duration = Duration::from_millis(100);

/// What comes from a source.
pub enum Fed {
    /// Some rows.
    Rows(Segment),
    /// A row that could not be read and was left out.
    Bad(Error),
    /// Nothing for a while.
    Nothing,
}

/// How a reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There are no more rows.
    Complete,
    /// The observer wanted it to stop.
    Stopped,
}

/// A decoded unit.
struct Decoded {
    file: PathBuf,
    segments: Vec<Segment>,
    bad: Vec<Error>,
    failure: Option<Error>,
}

/// Reads all units of a scan and hands what they hold to `sink`, in order; at least every tenth of a second.
///
/// Threads that wait for bytes which do not come cannot be woken; they are left behind when the observer stops the reading.
pub fn feed(
    scan: Box<dyn Scan>,
    threads: usize,
    lenient: bool,
    observer: &dyn Observer,
    sink: &mut dyn FnMut(Fed) -> Result<()>,
) -> Result<End> {
    let threads = threads.max(1);
    let scan = Arc::new(Mutex::new((0u64, Some(scan))));
    let (sender, receiver) = sync_channel(threads);
    for _ in 0..threads {
        let (scan, sender) = (scan.clone(), sender.clone());
        thread::spawn(move || work(&scan, &sender, lenient));
    }
    drop(sender);
    let mut order = Order::default();
    let mut waiting: BTreeMap<u64, Decoded> = BTreeMap::new();
    let mut next = 0;
    loop {
        if observer.cancelled() {
            return Ok(End::Stopped);
        }
        match receiver.recv_timeout(PATIENCE) {
            Ok((ticket, decoded)) => {
                waiting.insert(ticket, decoded);
                while let Some(decoded) = waiting.remove(&next) {
                    next += 1;
                    order.hand_over(decoded, observer, sink)?;
                }
            }
            Err(RecvTimeoutError::Timeout) => sink(Fed::Nothing)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(End::Complete),
        }
    }
}

/// Rows ahead in the file at hand, for messages.
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

/// What each thread does: takes the next unit, decodes it, hands it over; until there are no more.
fn work(scan: &Shared, sender: &SyncSender<(u64, Decoded)>, lenient: bool) {
    loop {
        let (ticket, unit) = {
            let mut shared = scan.lock().unwrap_or_else(PoisonError::into_inner);
            let (ticket, scan) = &mut *shared;
            let Some(reading) = scan else { return };
            let unit = reading.next_unit();
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
    // A panic here would leave a gap in the order that nobody could tell from the end.
    let decoded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match lenient {
        true => unit.decode_leniently(&mut emit, &mut |error| bad.push(error)),
        false => unit.decode(&mut emit),
    }));
    let failure = match decoded {
        Ok(decoded) => decoded.err(),
        Err(_) => Some(Error::from(ErrorKind::Malformed {
            path: file.clone(),
            what: "cannot be read".to_string(),
            help: None,
        })),
    };
    Decoded { file, segments, bad, failure }
}
