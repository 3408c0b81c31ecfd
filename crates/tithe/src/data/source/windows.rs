//! Reads text in the encoding Windows-1252, as spreadsheets write it in Western Europe, as UTF-8.

use std::io::{self, Read};

/// The encoding is detected from this many bytes.
const HEAD: usize = 1 << 18;

/// The characters of the bytes from 0x80 to 0x9f; five of them have none.
const SPECIAL: [char; 32] = [
    '€', '\0', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\0', 'Ž', '\0', '\0', '‘', '’', '“',
    '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\0', 'ž', 'Ÿ',
];

/// True if text that begins with these bytes is in Windows-1252: it is not UTF-8, has no character of several bytes that UTF-8 would have,
/// and no byte without a character.
fn is_windows(head: &[u8]) -> bool {
    let mut rest = head;
    let mut found = false;
    loop {
        match std::str::from_utf8(rest) {
            Ok(text) => return found && text.is_ascii(),
            Err(error) => {
                let (valid, invalid) = rest.split_at(error.valid_up_to());
                if !valid.is_ascii() {
                    return false;
                }
                // A character that is cut off by the end of the head.
                if error.error_len().is_none() && head.len() == HEAD && invalid.len() < 4 {
                    return found;
                }
                let Some((byte, after)) = invalid.split_first() else { return false };
                if character(*byte) == '\0' {
                    return false;
                }
                (found, rest) = (true, after);
            }
        }
    }
}

fn character(byte: u8) -> char {
    match byte {
        0x80..=0x9f => SPECIAL[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// A reader that converts Windows-1252 to UTF-8, and leaves other text as it is.
pub(super) struct AsUtf8<R> {
    inner: R,
    /// The first bytes, and how many of them were returned.
    head: Vec<u8>,
    at: usize,
    is_windows: bool,
    /// Converted bytes, and how many of them were returned.
    converted: Vec<u8>,
    done: usize,
}

impl<R: Read> AsUtf8<R> {
    pub fn new(mut inner: R) -> io::Result<AsUtf8<R>> {
        let mut head = Vec::new();
        (&mut inner).take(HEAD as u64).read_to_end(&mut head)?;
        let is_windows = is_windows(&head);
        Ok(AsUtf8 { inner, head, at: 0, is_windows, converted: Vec::new(), done: 0 })
    }

    fn read_bytes(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.at == self.head.len() {
            return self.inner.read(target);
        }
        let count = target.len().min(self.head.len() - self.at);
        target[..count].copy_from_slice(&self.head[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl<R: Read> Read for AsUtf8<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if !self.is_windows {
            return self.read_bytes(target);
        }
        if self.done == self.converted.len() {
            let mut bytes = vec![0; target.len().clamp(1, 1 << 16)];
            let count = self.read_bytes(&mut bytes)?;
            self.converted.clear();
            self.done = 0;
            let mut buffer = [0; 4];
            for byte in &bytes[..count] {
                // A byte without a character is left as it is: the reader of the text reports it.
                match character(*byte) {
                    '\0' if *byte != 0 => self.converted.push(*byte),
                    letter => self.converted.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes()),
                }
            }
        }
        let count = target.len().min(self.converted.len() - self.done);
        target[..count].copy_from_slice(&self.converted[self.done..self.done + count]);
        self.done += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        AsUtf8::new(bytes).expect("a reader").read_to_end(&mut text).expect("text");
        text
    }

    #[test]
    fn only_windows_1252_is_converted() {
        assert_eq!(read(b"K\xfcndigung;5 \x80\n"), "Kündigung;5 €\n".as_bytes());
        for same in ["plain", "Kündigung;5 €", ""] {
            assert_eq!(read(same.as_bytes()), same.as_bytes());
        }
        // Damaged UTF-8, and bytes that Windows-1252 does not have.
        for same in [&b"K\xc3\xbcndigung\xff"[..], b"a\x81b", b"\xff\x81"] {
            assert_eq!(read(same), same);
        }
        // The head ends within a character.
        let mut long = "x".repeat(HEAD - 1);
        long += "ü and more ü";
        assert_eq!(read(long.as_bytes()), long.as_bytes());
        let mut long = vec![b'x'; HEAD + 10];
        long[7] = 0xe9;
        long.push(0x80);
        let text = String::from_utf8(read(&long)).expect("UTF-8");
        assert!(text.ends_with('€') && text.chars().nth(7) == Some('é') && text.chars().count() == HEAD + 11);
    }
}
