//! The file formats, and how they are detected from the content.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use memchr::memchr;

use super::chunk::without_mark;
use super::input::{Compression, Input};
use super::libsvm;
use crate::base::error::{Error, ErrorKind, Result, Setting};

/// Bytes of a file from which its format is detected.
const HEAD: u64 = 1 << 16;

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Apache Parquet.
    Parquet,
    /// Text delimited by commas.
    Csv,
    /// Text delimited by tabs.
    Tsv,
    /// One JSON object per line.
    Ndjson,
    /// LIBSVM and SVMlight: `label index:value …`.
    Libsvm,
    /// An Arrow IPC file, also known as Feather.
    ArrowFile,
    /// An Arrow IPC stream.
    ArrowStream,
}

impl Format {
    /// All formats, with the names that a user gives.
    pub const NAMES: [(&'static str, Format); 7] = [
        ("parquet", Format::Parquet),
        ("csv", Format::Csv),
        ("tsv", Format::Tsv),
        ("ndjson", Format::Ndjson),
        ("libsvm", Format::Libsvm),
        ("arrow", Format::ArrowFile),
        ("arrow-stream", Format::ArrowStream),
    ];

    /// True for text formats, which are read in chunks and decompressed on the fly.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Format::Csv | Format::Tsv | Format::Ndjson | Format::Libsvm)
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format> {
        Format::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format).ok_or_else(|| {
            let known: Vec<&str> = Format::NAMES.iter().map(|(known, _)| *known).collect();
            Error::setting(Setting::Format, format!("must be one of {}, but is '{name}'", known.join(", ")))
        })
    }
}

/// Detects the compression and the format of an input; `format` is the user's choice, if there is one.
pub(super) fn detect(input: &Input, format: Option<Format>) -> Result<(Compression, Format)> {
    let path = input.path();
    let mut magic = Vec::new();
    let reader = input.open()?.reader(0);
    reader.take(4).read_to_end(&mut magic).map_err(|error| Error::io("read", path, error))?;
    if magic.is_empty() {
        return Err(Error::malformed(path, "is empty"));
    }
    let compression = Compression::of(&magic);
    if let Some(format) = format {
        return Ok((compression, format));
    }
    let mut head = Vec::new();
    let content = compression.decompress(input)?.take(HEAD).read_to_end(&mut head);
    content.map_err(|error| compression.failure(path, error))?;
    Ok((compression, detect_format(path, &head)?))
}

fn detect_format(path: &Path, head: &[u8]) -> Result<Format> {
    let refused = |what: &str, help: &'static str| -> Error {
        let (what, help) = (what.to_string(), Some(help.into()));
        ErrorKind::Malformed { path: path.to_path_buf(), what, help }.into()
    };
    match head {
        [] => return Err(Error::malformed(path, "is empty")),
        [b'P', b'A', b'R', b'1', ..] => return Ok(Format::Parquet),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => return Ok(Format::ArrowFile),
        [0xff, 0xff, 0xff, 0xff, ..] => return Ok(Format::ArrowStream),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return Err(refused("is text in UTF-16", "convert the file to UTF-8"));
        }
        _ if memchr(0, head).is_some() => {
            return Err(refused(
                "has an unknown format",
                "use Parquet, CSV, TSV, NDJSON, LIBSVM or Arrow; text may be compressed with gzip or zstd",
            ));
        }
        _ => {}
    }
    let head = without_mark(head);
    let first_line = head.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let first_line = first_line.unwrap_or_default();
    let has_tab = memchr(b'\t', first_line).is_some();
    Ok(if first_line.trim_ascii_start().starts_with(b"{") {
        Format::Ndjson
    } else if libsvm::looks_like(head) {
        Format::Libsvm
    } else if has_tab && !(has_ending(path, "csv") && memchr(b',', first_line).is_some()) {
        Format::Tsv
    } else {
        Format::Csv
    })
}

/// True if the name has this ending, possibly followed by that of a compression.
fn has_ending(path: &Path, ending: &str) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    name.ends_with(&format!(".{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_from_content() {
        let detected = |name: &str, head: &str| detect_format(Path::new(name), head.as_bytes()).unwrap();
        assert_eq!(detected("x", "PAR1...."), Format::Parquet);
        assert_eq!(detected("x", "ARROW1\0\0"), Format::ArrowFile);
        assert_eq!(detected("x", "a,b\n1,2\n"), Format::Csv);
        assert_eq!(detected("x", "a\tb\n1\t2\n"), Format::Tsv);
        assert_eq!(detected("x", "+1 3:0.5 7:1\n-1 1:2 # c:d\n"), Format::Libsvm);
        assert_eq!(detected("x", "# made by hand\n1 qid:3 1:2\n0\n"), Format::Libsvm);
        assert_eq!(detected("x", "1 1:0.5 2:0.25 3:0.12"), Format::Libsvm);
        assert_eq!(detected("x", "1\t1:0.5\t2:1\n"), Format::Libsvm);
        assert_eq!(detected("x", "{\"a\": 1}\n"), Format::Ndjson);
        assert_eq!(detected("x", "1\n0\n1\n"), Format::Csv);
        assert_eq!(detected("x", "time\n12:30\n"), Format::Csv);
        assert_eq!(detected("a.csv", "a b\t,c\n1,2\n"), Format::Csv);
        assert_eq!(detected("a.CSV.gz", "a b\t,c\n1,2\n"), Format::Csv);
        assert_eq!(detected("a.txt", "a b\t,c\n1,2\n"), Format::Tsv);
        assert_eq!(detect_format(Path::new("x"), &[255, 255, 255, 255, 0]).unwrap(), Format::ArrowStream);
    }

    #[test]
    fn bytes_that_are_not_text_are_rejected() {
        let refused = |head: &[u8]| detect_format(Path::new("x"), head).unwrap_err().to_string();
        assert_eq!(refused(b"\xff\xfea\0"), "'x': is text in UTF-16");
        assert_eq!(refused(b"\x7fELF\0\0"), "'x': has an unknown format");
        assert_eq!(refused(b""), "'x': is empty");
    }

    #[test]
    fn names_of_formats() {
        assert_eq!("arrow".parse::<Format>().unwrap(), Format::ArrowFile);
        assert_eq!(
            "excel".parse::<Format>().unwrap_err().to_string(),
            "format must be one of parquet, csv, tsv, ndjson, libsvm, arrow, arrow-stream, but is 'excel'"
        );
    }
}
