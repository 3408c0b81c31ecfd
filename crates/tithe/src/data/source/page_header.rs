//! Reads the headers of Parquet pages, and refuses those whose claims would keep the decoder busy for hours.
//!
//! A header is a struct in Thrift's compact protocol. It has no lists, but the decoder skips those it finds, element by
//! element, however many they claim: beyond the end of the file, and without a byte for each if they are truth values.

use std::io::{self, Read};

use bytes::Bytes;

use super::input::{Handle, HandleReader};

/// Bytes read at first, as many more each time as long as the header goes on, and at most.
const HEAD: usize = 8 << 10;
const GROWTH: usize = 16;
const LONGEST: usize = 32 << 20;
/// Bytes at the end of a file: the length of its metadata and a mark, which are no header.
const FOOTER: u64 = 8;
/// Elements of lists, sets and maps, and structs within structs, that a header may have.
const MOST_ELEMENTS: u64 = 1 << 16;
const DEEPEST: u32 = 16;

/// A reader that begins with a header; reading beyond the end is an error.
///
/// The header is checked at the first read: the decoder also asks for readers that it does not use, at positions where no
/// header is.
pub(crate) struct PageReader {
    handle: Handle,
    start: u64,
    /// The bytes of the header that were not read yet, and what follows; `None` before the first read.
    opened: Option<(Bytes, HandleReader)>,
}

impl PageReader {
    /// A reader at a position at which a header begins, or the end of the footer.
    pub fn new(handle: &Handle, start: u64) -> PageReader {
        PageReader { handle: handle.clone(), start, opened: None }
    }

    fn open(&self) -> io::Result<(Bytes, HandleReader)> {
        let available = self.handle.len().saturating_sub(self.start);
        if available == FOOTER {
            return Ok((Bytes::new(), self.handle.reader(self.start)));
        }
        let mut size = HEAD;
        loop {
            let len = usize::try_from(available).unwrap_or(usize::MAX).min(size);
            let head = self.handle.bytes(self.start, len)?;
            match walk(&head) {
                Walk::Unbounded => return Err(refused("a page header claims more than a header can have")),
                Walk::CutShort if len == size && size >= LONGEST => {
                    return Err(refused("a page header does not end"));
                }
                Walk::CutShort if len == size => size = size.saturating_mul(GROWTH),
                // Damage of other kinds is reported by the decoder.
                Walk::CutShort | Walk::Done => {
                    return Ok((head, self.handle.reader(self.start + len as u64)));
                }
            }
        }
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Read for PageReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let (head, rest) = match &mut self.opened {
            Some(opened) => opened,
            None => self.opened.insert(self.open()?),
        };
        let count = target.len().min(head.len());
        if count > 0 {
            target[..count].copy_from_slice(&head.split_to(count));
            return Ok(count);
        }
        match rest.read(target)? {
            0 if !target.is_empty() => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ends too early")),
            count => Ok(count),
        }
    }
}

/// What the bytes of a header are, as far as they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// It ends within them, or is invalid in a way that the decoder finds.
    Done,
    /// It goes on after them.
    CutShort,
    /// It claims more than a header can have.
    Unbounded,
}

/// Walks through the struct at the start of some bytes as the decoder does.
fn walk(bytes: &[u8]) -> Walk {
    let mut walker = Walker { bytes, elements: 0 };
    match walker.fields(0) {
        Ok(()) => Walk::Done,
        Err(stop) => stop,
    }
}

struct Walker<'a> {
    bytes: &'a [u8],
    elements: u64,
}

type Step<T> = std::result::Result<T, Walk>;

impl Walker<'_> {
    fn byte(&mut self) -> Step<u8> {
        let (byte, rest) = self.bytes.split_first().ok_or(Walk::CutShort)?;
        self.bytes = rest;
        Ok(*byte)
    }

    fn skip(&mut self, count: u64) -> Step<()> {
        let count = usize::try_from(count).map_err(|_| Walk::CutShort)?;
        self.bytes = self.bytes.get(count..).ok_or(Walk::CutShort)?;
        Ok(())
    }

    /// A variable-length integer.
    fn number(&mut self) -> Step<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Walk::Done)
    }

    /// Counts so many elements.
    fn count(&mut self, elements: u64) -> Step<()> {
        self.elements = self.elements.saturating_add(elements);
        if self.elements > MOST_ELEMENTS { Err(Walk::Unbounded) } else { Ok(()) }
    }

    /// The fields of a struct, up to the stop.
    fn fields(&mut self, depth: u32) -> Step<()> {
        loop {
            let head = self.byte()?;
            if head & 0xf == 0 {
                return Ok(());
            }
            // A delta of 0 means that the field's number follows.
            if head >> 4 == 0 {
                self.number()?;
            }
            self.value(head & 0xf, depth)?;
        }
    }

    /// A value of a type. Truth values take no bytes: of a field they are the type, and of a list the decoder reads none.
    fn value(&mut self, kind: u8, depth: u32) -> Step<()> {
        if depth > DEEPEST {
            return Err(Walk::Unbounded);
        }
        match kind {
            1 | 2 => Ok(()),
            3 => self.skip(1),
            4..=6 => self.number().map(|_| ()),
            7 => self.skip(8),
            8 => {
                let length = self.number()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let size = if head >> 4 == 0xf { self.number()? } else { u64::from(head >> 4) };
                self.count(size)?;
                (0..size).try_for_each(|_| self.value(head & 0xf, depth + 1))
            }
            11 => {
                let size = self.number()?;
                self.count(size.saturating_mul(2))?;
                let kinds = if size > 0 { self.byte()? } else { 0 };
                (0..size).try_for_each(|_| {
                    self.value(kinds >> 4, depth + 1)?;
                    self.value(kinds & 0xf, depth + 1)
                })
            }
            12 => {
                self.count(1)?;
                self.fields(depth + 1)
            }
            13 => self.skip(16),
            _ => Err(Walk::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Input;
    use super::*;

    /// Fields 1 to 3 as small integers, and a struct with a binary field.
    const PLAIN: [u8; 13] = [0x15, 4, 0x15, 10, 0x15, 10, 0x2c, 0x18, 2, b'a', b'b', 0, 0];

    #[test]
    fn a_header_is_walked_to_its_end() {
        assert_eq!(walk(&PLAIN), Walk::Done);
        assert_eq!(walk(&[&PLAIN[..], &[1, 2, 3]].concat()), Walk::Done);
        for len in 0..PLAIN.len() {
            assert_eq!(walk(&PLAIN[..len]), Walk::CutShort, "{len} bytes");
        }
    }

    #[test]
    fn claims_without_bound_are_refused() {
        // A list of 2^31 doubles, one of as many truth values, a map, and structs without end.
        for (bytes, what) in [
            (&[0x19, 0xf7, 0x80, 0x80, 0x80, 0x80, 0x08][..], "doubles"),
            (&[0x19, 0xf1, 0x80, 0x80, 0x80, 0x80, 0x08], "truth values"),
            (&[0x1b, 0x80, 0x80, 0x80, 0x80, 0x08, 0x11], "a map"),
            (&[0x1c; 100], "structs"),
        ] {
            assert_eq!(walk(bytes), Walk::Unbounded, "{what}");
            let input = Input::bytes("a", bytes.to_vec());
            let error = PageReader::new(&input.open().unwrap(), 0).read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn long_headers_are_read_and_their_end_is_an_error() {
        // A binary field of 20,000 bytes.
        let mut bytes = vec![0x18, 0xa0, 0x9c, 0x01];
        bytes.extend(vec![7; 20_000]);
        bytes.extend([0, 1, 2, 3]);
        assert_eq!(walk(&bytes), Walk::Done);
        let input = Input::bytes("a", bytes.clone());
        let mut reader = PageReader::new(&input.open().unwrap(), 0);
        let mut all = vec![0; bytes.len()];
        reader.read_exact(&mut all).unwrap();
        assert_eq!(all, bytes);
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
