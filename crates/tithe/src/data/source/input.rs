//! Bytes that can be read any number of times: a file, or a saved copy of an input that can be read only once (standard input, a
//! pipe).

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::error::{Error, Result};

/// An input and its name in messages.
#[derive(Clone, Debug)]
pub struct Input {
    path: PathBuf,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    /// A file, which is opened for each read: thousands of part files must not all be open at the same time.
    File,
    /// A copy in memory or in an unlinked temporary file.
    Kept(Store),
}

#[derive(Clone, Debug)]
enum Store {
    File(Arc<File>, u64),
    Bytes(Bytes),
}

impl Input {
    /// A file.
    pub fn file(path: impl Into<PathBuf>) -> Input {
        Input { path: path.into(), content: Content::File }
    }

    /// A copy of everything from a reader: in memory up to `memory` bytes, and in a temporary file beyond, which the system
    /// removes automatically.
    pub fn from_reader(name: impl Into<PathBuf>, mut reader: impl Read, memory: u64) -> Result<Input> {
        let path = name.into();
        let failed = |error| Error::io("read", &path, error);
        let mut head = Vec::new();
        (&mut reader).take(memory.saturating_add(1)).read_to_end(&mut head).map_err(failed)?;
        if head.len() as u64 <= memory {
            return Ok(Input::bytes(path, head));
        }
        let spill_failed = |error| Error::io("write a temporary copy in", std::env::temp_dir(), error);
        let mut file = tempfile::tempfile().map_err(spill_failed)?;
        file.write_all(&head).map_err(spill_failed)?;
        drop(head);
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            file.write_all(&buffer[..count]).map_err(spill_failed)?;
        }
        Input::from_spilled(path, file)
    }

    /// The contents of an unlinked temporary file.
    pub(super) fn from_spilled(name: impl Into<PathBuf>, mut file: File) -> Result<Input> {
        let len = file
            .stream_position()
            .map_err(|error| Error::io("write a temporary copy in", std::env::temp_dir(), error))?;
        Ok(Input { path: name.into(), content: Content::Kept(Store::File(Arc::new(file), len)) })
    }

    /// Bytes that are in memory.
    pub fn bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Input {
        Input { path: name.into(), content: Content::Kept(Store::Bytes(bytes.into())) }
    }

    /// The name in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for reading.
    pub(crate) fn open(&self) -> Result<Handle> {
        let store = match &self.content {
            Content::Kept(store) => store.clone(),
            Content::File => {
                let failed = |error| Error::io("read", &self.path, error);
                let file = File::open(&self.path).map_err(failed)?;
                let len = file.metadata().map_err(failed)?.len();
                Store::File(Arc::new(file), len)
            }
        };
        Ok(Handle { store })
    }
}

/// An open input that any thread can read at any position.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    store: Store,
}

impl Handle {
    pub fn len(&self) -> u64 {
        match &self.store {
            Store::File(_, len) => *len,
            Store::Bytes(bytes) => bytes.len() as u64,
        }
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<usize> {
        match &self.store {
            Store::File(file, _) => read_file_at(file, offset, target),
            Store::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let count = target.len().min(bytes.len() - start);
                target[..count].copy_from_slice(&bytes[start..start + count]);
                Ok(count)
            }
        }
    }

    /// Exactly `len` bytes from `offset`.
    pub fn bytes(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.len());
        if end.is_none() {
            return Err(ends_too_early());
        }
        match &self.store {
            Store::Bytes(bytes) => Ok(bytes.slice(offset as usize..offset as usize + len)),
            Store::File(file, _) => {
                let mut target = Vec::with_capacity(len);
                while target.len() < len {
                    let before = target.len();
                    append_file_at(file, offset + before as u64, &mut target)?;
                    if target.len() == before {
                        return Err(ends_too_early());
                    }
                }
                target.truncate(len);
                Ok(target.into())
            }
        }
    }

    /// A reader that starts at `offset`.
    pub fn reader(&self, offset: u64) -> HandleReader {
        HandleReader { handle: self.clone(), offset }
    }
}

fn ends_too_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it ends too early")
}

/// Appends bytes of a file from `offset` on, up to the capacity of `target`. The buffer is not zeroed first: that took a
/// tenth of the time of decoding Parquet.
#[cfg(unix)]
fn append_file_at(file: &File, offset: u64, target: &mut Vec<u8>) -> io::Result<()> {
    loop {
        match rustix::io::pread(file, rustix::buffer::spare_capacity(target), offset) {
            Err(rustix::io::Errno::INTR) => {}
            read => return Ok(read.map(|_| ())?),
        }
    }
}

/// Appends bytes of a file from `offset` on, up to the capacity of `target`.
#[cfg(windows)]
fn append_file_at(file: &File, offset: u64, target: &mut Vec<u8>) -> io::Result<()> {
    let before = target.len();
    target.resize(target.capacity(), 0);
    let count = read_file_at(file, offset, &mut target[before..]);
    target.truncate(before + *count.as_ref().unwrap_or(&0));
    count.map(|_| ())
}

#[cfg(unix)]
fn read_file_at(file: &File, offset: u64, target: &mut [u8]) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, target, offset)
}

#[cfg(windows)]
fn read_file_at(file: &File, offset: u64, target: &mut [u8]) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, target, offset)
}

/// A reader at a position of an open input.
pub(crate) struct HandleReader {
    handle: Handle,
    offset: u64,
}

impl Read for HandleReader {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let count = self.handle.read_at(self.offset, target)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// The compression of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    Gzip,
    Zstd,
}

impl Compression {
    /// Detects the compression from the first bytes.
    pub fn of(head: &[u8]) -> Compression {
        match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            // A zstd frame, or a skippable frame before it.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
            _ => Compression::Plain,
        }
    }

    /// A reader of the decompressed content of `input`.
    pub fn decompress(self, input: &Input) -> Result<Box<dyn Read + Send>> {
        let reader = input.open()?.reader(0);
        Ok(match self {
            Compression::Plain => Box::new(reader),
            Compression::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, reader)))
            }
            Compression::Zstd => Box::new(
                zstd::stream::read::Decoder::new(reader)
                    .map_err(|error| Error::io("read", input.path(), error))?,
            ),
        })
    }

    /// The error of a failed read: from the file system if not compressed, otherwise most likely damaged data.
    pub fn failure(self, path: &Path, error: io::Error) -> Error {
        match self {
            Compression::Plain => Error::io("read", path, error),
            Compression::Gzip => {
                Error::malformed(path, format!("the gzip data is damaged or truncated ({error})"))
            }
            Compression::Zstd => {
                Error::malformed(path, format!("the zstd data is damaged or truncated ({error})"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_read_once_is_kept_in_memory_or_on_disk() {
        let content: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        for memory in [0, 1000, 99_999, 100_000, 1 << 20] {
            let input = Input::from_reader("standard input", &content[..], memory).unwrap();
            let in_memory = matches!(input.content, Content::Kept(Store::Bytes(_)));
            assert_eq!(in_memory, memory >= 100_000);
            for _ in 0..2 {
                let mut again = Vec::new();
                input.open().unwrap().reader(0).read_to_end(&mut again).unwrap();
                assert_eq!(again, content);
            }
            let handle = input.open().unwrap();
            assert_eq!(handle.len(), 100_000);
            assert_eq!(handle.bytes(99_990, 10).unwrap(), content[99_990..]);
            assert!(handle.bytes(99_991, 10).is_err());
            assert!(handle.bytes(u64::MAX, 10).is_err());
        }
    }

    #[test]
    fn a_file_truncated_after_opening_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 100]).unwrap();
        let handle = Input::file(file.path()).open().unwrap();
        assert_eq!(handle.bytes(10, 90).unwrap(), [7; 90][..]);
        file.as_file().set_len(50).unwrap();
        assert_eq!(handle.bytes(10, 40).unwrap(), [7; 40][..]);
        for (offset, len) in [(10, 41), (50, 40), (60, 1)] {
            let error = handle.bytes(offset, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
