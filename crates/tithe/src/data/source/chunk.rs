//! Cuts text into chunks of complete rows, so that each chunk can be parsed independently.

use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use memchr::{memchr, memchr_iter, memrchr};

/// A longer row is treated as an error: an unclosed quote, or a file that is not text.
const LONGEST_ROW: usize = 64 << 20;
/// Bytes per chunk: small enough for a core's cache, large enough that locking costs little.
pub(super) const CHUNK: usize = 1 << 20;

/// Text without the byte order mark that some programs write at the start of a file.
pub(super) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// A chunk of complete rows.
pub(super) struct Chunk {
    buffer: Vec<u8>,
    len: usize,
    /// True if the chunk contains a double quote.
    pub has_quotes: bool,
    /// True if the chunk is only the beginning of a row that is too long.
    pub is_cut: bool,
    pool: Arc<Pool>,
}

impl Chunk {
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.buffer));
    }
}

/// Reused buffers: allocating memory costs more than reading into it.
#[derive(Default)]
struct Pool(Mutex<Vec<Vec<u8>>>);

impl Pool {
    fn take(&self, size: usize) -> Vec<u8> {
        let used = self.0.lock().ok().and_then(|mut free| free.pop());
        let mut buffer = used.unwrap_or_default();
        buffer.resize(size, 0);
        buffer
    }

    fn give_back(&self, buffer: Vec<u8>) {
        if let Ok(mut free) = self.0.lock()
            && free.len() < 64
        {
            free.push(buffer);
        }
    }
}

/// Reads text and cuts it at the ends of rows.
pub(super) struct Chunker {
    reader: Box<dyn Read + Send>,
    size: usize,
    longest_row: usize,
    /// True if a newline between double quotes does not end a row.
    quoting: bool,
    /// The beginning of the next row, which was already read.
    carried: Vec<u8>,
    at_end: bool,
    /// True if rows are returned as soon as they are complete, however few there are.
    eager: bool,
    pool: Arc<Pool>,
}

impl Chunker {
    pub fn new(reader: Box<dyn Read + Send>, quoting: bool, size: usize) -> Chunker {
        Chunker {
            reader,
            size,
            longest_row: LONGEST_ROW.max(size),
            quoting,
            carried: Vec::new(),
            at_end: false,
            eager: false,
            pool: Arc::default(),
        }
    }

    /// A chunker for slow readers: rows are returned as soon as they are complete.
    pub fn eager(reader: Box<dyn Read + Send>, quoting: bool, size: usize) -> Chunker {
        Chunker { eager: true, ..Chunker::new(reader, quoting, size) }
    }

    /// Skips the next `count` bytes.
    pub fn skip(&mut self, count: u64) -> io::Result<()> {
        io::copy(&mut (&mut self.reader).take(count), &mut io::sink()).map(|_| ())
    }

    /// The next chunk, or `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Chunk>> {
        let mut size = self.size.max(self.carried.len() + 1);
        let mut buffer = self.pool.take(size);
        let mut len = self.carried.len();
        buffer[..len].copy_from_slice(&self.carried);
        self.carried.clear();
        loop {
            while len < size && !self.at_end {
                match self.reader.read(&mut buffer[len..]) {
                    Ok(0) => self.at_end = true,
                    Ok(count) => {
                        let new = len..len + count;
                        len += count;
                        if self.eager && memchr(b'\n', &buffer[new]).is_some() {
                            break;
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            let has_quotes = self.quoting && memchr(b'"', &buffer[..len]).is_some();
            let is_cut = !self.at_end && len >= self.longest_row;
            let end = if self.at_end { Some(len) } else { last_row_end(&buffer[..len], has_quotes) };
            match end {
                Some(0) => return Ok(None),
                Some(end) => {
                    self.carried.extend_from_slice(&buffer[end..len]);
                    let pool = self.pool.clone();
                    return Ok(Some(Chunk { buffer, len: end, has_quotes, is_cut: false, pool }));
                }
                None if is_cut => {
                    self.at_end = true;
                    return Ok(Some(Chunk { buffer, len, has_quotes, is_cut, pool: self.pool.clone() }));
                }
                // A quoted row may continue in the bytes that have not been read yet.
                None if len < size => {}
                None => {
                    size = (2 * size).min(self.longest_row.max(size + 1));
                    buffer.resize(size, 0);
                }
            }
        }
    }
}

/// The end of the last complete row, if there is one. `bytes` starts at the start of a row, so a newline after an even
/// number of quotes is outside quotes: a doubled quote within quotes counts twice and does not change the parity.
pub(super) fn last_row_end(bytes: &[u8], has_quotes: bool) -> Option<usize> {
    if !has_quotes {
        return memrchr(b'\n', bytes).map(|newline| newline + 1);
    }
    let mut inside = memchr_iter(b'"', bytes).count() % 2 == 1;
    let mut end = bytes.len();
    while let Some(newline) = memrchr(b'\n', &bytes[..end]) {
        inside ^= memchr_iter(b'"', &bytes[newline..end]).count() % 2 == 1;
        if !inside {
            return Some(newline + 1);
        }
        end = newline;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(text: &'static str, size: usize) -> Vec<String> {
        let mut chunker = Chunker::new(Box::new(text.as_bytes()), true, size);
        let mut all = Vec::new();
        while let Some(chunk) = chunker.next().unwrap() {
            all.push(String::from_utf8(chunk.bytes().to_vec()).unwrap());
        }
        all
    }

    #[test]
    fn chunks_end_with_rows() {
        assert_eq!(chunks("a\nbb\nccc\ndd", 5), ["a\nbb\n", "ccc\n", "dd"]);
        assert_eq!(chunks("a\n", 5), ["a\n"]);
        assert_eq!(chunks("", 5), [""; 0]);
        assert_eq!(chunks("abcdefgh\nijklmnopqrstuvwxyz", 1), ["abcdefgh\n", "ijklmnopqrstuvwxyz"]);
    }

    #[test]
    fn newlines_within_quotes_do_not_end_a_row() {
        assert_eq!(chunks("\"a\nb\"\ncd\n", 4), ["\"a\nb\"\n", "cd\n"]);
        assert_eq!(chunks("x\n\"a\"\"\n\"\ny\n", 7), ["x\n", "\"a\"\"\n\"\n", "y\n"]);
    }

    #[test]
    fn a_row_without_end_is_cut() {
        let mut chunker = Chunker::new(Box::new(io::repeat(b'x').take(10_000)), false, 16);
        chunker.longest_row = 1000;
        let chunk = chunker.next().unwrap().unwrap();
        assert!(chunk.is_cut && chunk.bytes().len() == 1000);
        assert!(chunker.next().unwrap().is_none());
    }
}
