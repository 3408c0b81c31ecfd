//! Sources that can be read only once and may never end: standard input, a pipe, a growing file.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memchr::{memchr_iter, memrchr};

use super::chunk::last_row_end;
use super::files::{in_words, open_part, widen};
use super::format::{Format, detect};
use super::input::{Compression, Input};
use super::part::Part;
use super::{OpenOptions, Scan, Source, open_inputs};
use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::Field;

/// The largest number of bytes read before the first row is passed on.
const LONGEST_HEAD: usize = 64 << 20;
/// If nothing arrives for this long, the kinds of the columns are guessed from the rows that have arrived.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a growing file is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A source that can be scanned once.
pub struct Live {
    part: Box<dyn Part>,
    reader: Mutex<Option<Box<dyn Read + Send>>>,
}

/// Opens bytes that can be read once. The kinds of the columns are guessed from the first rows: at most `look_at`, fewer if
/// no more arrive for a second. Columns in `known` have the kind given there.
///
/// Formats that need the complete file (Parquet, Arrow files) are read to the end first.
pub fn open_live(
    name: &Path,
    reader: impl Read + Send + 'static,
    options: &OpenOptions,
    known: Option<&[Field]>,
    look_at: usize,
) -> Result<Box<dyn Source>> {
    let failed = |error| Error::io("read", name, error);
    let mut reader: Box<dyn Read + Send> = Box::new(reader);
    let mut head = Vec::new();
    fill(&mut reader, &mut head, 4).map_err(failed)?;
    let compression = Compression::of(&head);
    reader = unpacked(compression, Box::new(Cursor::new(std::mem::take(&mut head)).chain(reader)))
        .map_err(failed)?;
    let mut reader = Awaited::new(reader);
    let failed = |error| compression.failure(name, error);
    let look_at = if known.is_some() { 1 } else { look_at };
    let mut at_end = read_head(&mut reader, &mut head, look_at, Some(IDLE_TIMEOUT)).map_err(failed)?;
    if head.is_empty() {
        return Err(ErrorKind::NoRows { what: format!("'{}' is empty", name.display()) }.into());
    }

    let mut beginning = whole_beginning(name, &head, at_end)?;
    let (_, format) = detect(&beginning, options.format)?;
    // Without a header, the columns are taken from the first rows, so more rows are needed.
    if matches!(format, Format::Libsvm | Format::Ndjson) && !at_end {
        at_end = read_head(&mut reader, &mut head, look_at, None).map_err(failed)?;
        beginning = whole_beginning(name, &head, at_end)?;
    }
    let all = Cursor::new(head).chain(reader);
    if matches!(format, Format::Parquet | Format::ArrowFile) {
        return open_inputs(vec![Input::from_reader(name, all, options.memory)?], options);
    }
    let options = OpenOptions { format: Some(format), ..options.clone() };
    let mut parts = vec![open_part(beginning, &options)?];
    widen(&mut parts, &options)?;
    let mut part = parts.remove(0);
    for name in &options.text {
        if let Some(column) = part.fields().iter().position(|field| field.name == *name) {
            part.read_as_text(column)?;
        }
    }
    for name in &options.numbers {
        if let Some(column) = part.fields().iter().position(|field| field.name == *name) {
            part.read_as_numbers(column)?;
        }
    }
    known.into_iter().flatten().try_for_each(|field| agree(&mut *part, field))?;
    Ok(Box::new(Live { part, reader: Mutex::new(Some(Box::new(all))) }))
}

/// Gives a column its known kind, if the format does not define it.
fn agree(part: &mut dyn Part, known: &Field) -> Result<()> {
    let Some(column) = part.fields().iter().position(|field| field.name == known.name) else { return Ok(()) };
    part.decide(column, known.kind);
    let found = part.fields()[column].kind;
    if found == known.kind {
        return Ok(());
    }
    Err(ErrorKind::Column {
        column: known.name.clone(),
        what: format!("holds {} and held {} before", in_words(found), in_words(known.kind)),
        help: None,
    }
    .into())
}

/// Reads until `head` has `len` bytes or the input ends; true at the end.
fn fill(reader: &mut dyn Read, head: &mut Vec<u8>, len: usize) -> io::Result<bool> {
    let wanted = len.saturating_sub(head.len()) as u64;
    reader.take(wanted).read_to_end(head)?;
    Ok(head.len() < len)
}

/// Bytes that another thread reads, so that waiting for them can time out.
struct Awaited {
    receiver: Receiver<io::Result<Vec<u8>>>,
    left: Cursor<Vec<u8>>,
    is_over: bool,
}

impl Awaited {
    fn new(mut reader: Box<dyn Read + Send>) -> Awaited {
        let (sender, receiver) = sync_channel(2);
        std::thread::spawn(move || {
            loop {
                let mut piece = vec![0; 1 << 16];
                let read = match reader.read(&mut piece) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    read => read,
                };
                let is_last = !matches!(read, Ok(1..));
                let piece = read.map(|count| {
                    piece.truncate(count);
                    piece
                });
                if sender.send(piece).is_err() || is_last {
                    return;
                }
            }
        });
        Awaited { receiver, left: Cursor::default(), is_over: false }
    }

    /// The next bytes, empty at the end; `None` if they do not arrive in time.
    fn next(&mut self, time: Option<Duration>) -> io::Result<Option<Vec<u8>>> {
        let left = std::mem::take(&mut self.left);
        let rest = &left.get_ref()[left.position() as usize..];
        if !rest.is_empty() {
            return Ok(Some(rest.to_vec()));
        }
        let received = match time {
            Some(time) => self.receiver.recv_timeout(time),
            None => self.receiver.recv().map_err(RecvTimeoutError::from),
        };
        match received {
            Ok(piece) => {
                self.is_over = piece.as_ref().map_or(true, Vec::is_empty);
                piece.map(Some)
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) if self.is_over => Ok(Some(Vec::new())),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the reading thread failed")),
        }
    }
}

impl Read for Awaited {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.left.position() as usize == self.left.get_ref().len() {
            self.left = Cursor::new(self.next(None)?.unwrap_or_default());
        }
        self.left.read(target)
    }
}

/// Reads the first rows of text, or the schema of an Arrow stream; true at the end of the input. Stops waiting for text
/// when none arrives for the given time.
fn read_head(
    reader: &mut Awaited,
    head: &mut Vec<u8>,
    rows: usize,
    silence: Option<Duration>,
) -> io::Result<bool> {
    if fill(reader, head, 8)? {
        return Ok(true);
    }
    if let [0xff, 0xff, 0xff, 0xff, length @ ..] = &head[..8] {
        let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        return fill(reader, head, 8 + length.min(LONGEST_HEAD));
    }
    let mut found = memchr_iter(b'\n', head).count();
    // One more than requested: the first may be a header.
    while found <= rows && head.len() < LONGEST_HEAD {
        // A header and one row are enough to start.
        match reader.next(silence.filter(|_| found > 1))? {
            Some(piece) if piece.is_empty() => return Ok(true),
            Some(piece) => {
                found += memchr_iter(b'\n', &piece).count();
                head.extend_from_slice(&piece);
            }
            None => break,
        }
    }
    Ok(false)
}

/// The complete rows among the first bytes.
fn whole_beginning(name: &Path, head: &[u8], at_end: bool) -> Result<Input> {
    let len = if at_end { head.len() } else { whole_rows(head) };
    Input::from_reader(name, &head[..len], u64::MAX)
}

/// The number of bytes of complete rows; all bytes if no row is complete.
fn whole_rows(head: &[u8]) -> usize {
    let is_text = !head.starts_with(&[0xff; 4]);
    if is_text { last_row_end(head, true).unwrap_or(head.len()) } else { head.len() }
}

fn unpacked(compression: Compression, reader: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::Plain => reader,
        Compression::Gzip => {
            Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(1 << 16, reader)))
        }
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(reader)?),
    })
}

impl Source for Live {
    fn fields(&self) -> &[Field] {
        self.part.fields()
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.part.file().to_path_buf()]
    }

    fn is_sparse(&self) -> bool {
        self.part.is_sparse()
    }

    fn looks_like_dates(&self, column: usize) -> Option<bool> {
        self.part.looks_like_dates(column)
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(reader) = reader else {
            return Err(Error::malformed(self.part.file(), "can be read only once and was read already"));
        };
        self.part.scan_once(columns, reader)
    }
}

/// A growing file: at its end the reader waits for more until it is stopped. Only complete lines are returned.
pub struct Growing {
    file: File,
    path: PathBuf,
    offset: u64,
    held: Vec<u8>,
    stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Growing {
    /// Reads the file from its beginning; the reader ends when `stop` returns true.
    pub fn open(path: &Path, stop: Arc<dyn Fn() -> bool + Send + Sync>) -> Result<Growing> {
        let file = File::open(path).map_err(|error| Error::io("read", path, error))?;
        Ok(Growing { file, path: path.to_path_buf(), offset: 0, held: Vec::new(), stop })
    }
}

impl Read for Growing {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(newline) = memrchr(b'\n', &self.held) {
                let count = target.len().min(newline + 1);
                target[..count].copy_from_slice(&self.held[..count]);
                self.held.drain(..count);
                return Ok(count);
            }
            let before = self.held.len();
            (&mut self.file).take(1 << 18).read_to_end(&mut self.held)?;
            self.offset += (self.held.len() - before) as u64;
            if self.held.len() > before {
                continue;
            }
            if (self.stop)() {
                return Ok(0);
            }
            // In a file that was truncated or replaced, the position would be wrong.
            if std::fs::metadata(&self.path)?.len() < self.offset {
                return Err(io::Error::other("it became shorter while it was being followed"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::{Column, Kind};

    fn numbers(source: &dyn Source, column: usize) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        let mut scan = source.scan(&[column])?;
        while let Some(unit) = scan.next_unit()? {
            unit.decode(&mut |segment| {
                if let Column::Number(values) = &segment.columns[0] {
                    all.extend_from_slice(values);
                }
                Ok(())
            })?;
        }
        Ok(all)
    }

    #[test]
    fn text_is_read_as_it_arrives_and_only_once() {
        let mut text = "a,y\n".to_string();
        (0..50_000).for_each(|row| text += &format!("{row},{}\n", row % 2));
        let source =
            open_live(Path::new("-"), Cursor::new(text), &OpenOptions::default(), None, 100).expect("open");
        let expected: Vec<f64> = (0..50_000).map(f64::from).collect();
        assert_eq!(numbers(&*source, 0).expect("rows"), expected);
        assert!(numbers(&*source, 0).is_err());
    }

    #[test]
    fn a_known_kind_overrides_the_first_rows() {
        let known = [Field { name: "a".into(), kind: Kind::Text, data_type: arrow_schema::DataType::Utf8 }];
        let text = Cursor::new("a,y\n1,0\n2,1\n");
        let source =
            open_live(Path::new("-"), text, &OpenOptions::default(), Some(&known), 100).expect("open");
        assert_eq!(source.fields()[0].kind, Kind::Text);
    }

    #[test]
    fn compressed_text_is_decompressed() {
        let packed = zstd::stream::encode_all(&b"a,y\n1,0\n2,1\n"[..], 1).expect("packed");
        let source =
            open_live(Path::new("-"), Cursor::new(packed), &OpenOptions::default(), None, 10).expect("open");
        assert_eq!(numbers(&*source, 0).expect("rows"), [1.0, 2.0]);
    }

    #[test]
    fn a_growing_file_gives_complete_lines_until_it_is_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.csv");
        std::fs::write(&path, "a,y\n1,0\n2,").expect("written");
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let reader =
            Growing::open(&path, Arc::new(move || stopped.load(std::sync::atomic::Ordering::Relaxed)));
        let mut reader = reader.expect("open");
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                use std::io::Write;
                std::thread::sleep(Duration::from_millis(150));
                let mut file = File::options().append(true).open(path).expect("a file");
                file.write_all(b"1\n3,0\n4").expect("written");
                std::thread::sleep(Duration::from_millis(400));
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        });
        let mut all = String::new();
        reader.read_to_string(&mut all).expect("read");
        writer.join().expect("the writer");
        assert_eq!(all, "a,y\n1,0\n2,1\n3,0\n");
    }
}
