//! What is run on arbitrary bytes: every reader of files, and what uses its result. An error is a correct outcome; a panic is not.
//!
//! The tests of the library replay the corpus and vary it a little; `scripts/fuzz` searches with coverage guidance.

use std::io::Cursor;
use std::path::Path;

use tithe::base::progress::Silent;
use tithe::coreset::Method;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::file::{coreset_bytes, read_coreset_from};
use tithe::coreset::selection::Size;
use tithe::data::fingerprint::Fingerprint;
use tithe::data::source::live::open_live;
use tithe::data::source::{Decimal, Delimiter, Input, OpenOptions, Source, open_inputs};
use tithe::data::table::{Roles, Table};
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::options::coefficients::parse_coefficients;
use tithe::results::file::{posterior_bytes, read_posterior_from};
use tithe::results::profile::profile;
use tithe::stream::feed::{Fed, feed};
use tithe::stream::{Packed, Stream, StreamSettings};

/// A reader under test.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("table", table),
    ("live", live),
    ("coreset", coreset),
    ("posterior", posterior),
    ("state", state),
    ("coefficients", coefficients),
];

const NAME: &str = "input";

/// Reads a table in any format: profiles it, and builds a coreset. The first byte chooses the options.
fn table(bytes: &[u8]) {
    let Some((control, content)) = bytes.split_first() else { return };
    let input = || vec![Input::bytes(NAME, content.to_vec())];
    let options = options(*control);
    let Ok(source) = open_inputs(input(), &options) else { return };
    let _ = profile(&*source, None, 20, &Silent);
    let Some(label) = label(&*source) else { return };
    let Ok(table) = Table::new(source, &Roles { label, ..Roles::default() }) else { return };
    let engine =
        EngineSettings { threads: Some(1), memory: 1 << 20, missing: Missing::Drop, block_rows: None };
    let Ok(engine) = LocalEngine::new(table, &engine, &Silent) else { return };
    if let Ok(built) = build_on(&engine, &settings()) {
        let written = coreset_bytes(&built.coreset).expect("a coreset that was built can be written");
        let read = read_coreset_from(&Input::bytes(NAME, written));
        assert!(read.is_ok(), "a coreset that was built cannot be read: {:?}", read.err());
    }
}

/// Reads a table once, as a stream does.
fn live(bytes: &[u8]) {
    let Some((control, content)) = bytes.split_first() else { return };
    let options = OpenOptions { lenient: true, ..options(*control) };
    let reader = Cursor::new(content.to_vec());
    let Ok(source) = open_live(Path::new(NAME), reader, &options, None, 10) else { return };
    let Some(label) = label(&*source) else { return };
    let settings = StreamSettings {
        build: settings(),
        block: 8,
        warmup_rows: 4,
        missing: Missing::Drop,
        ..StreamSettings::default()
    };
    let Ok(mut stream) = Stream::in_memory(&settings, Some(1)) else { return };
    let Ok(columns) = stream.take_columns(&*source, &Roles { label, ..Roles::default() }) else { return };
    let Ok(scan) = source.scan(&columns) else { return };
    let _ = feed(scan, 1, true, &Silent, &mut |fed| match fed {
        Fed::Rows(rows) => stream.push(rows, &Silent),
        Fed::Bad(_) | Fed::Nothing => Ok(()),
    });
    if let Ok(packed) = stream.pack() {
        let unpacked = Stream::unpack(&packed, Some(1));
        assert!(unpacked.is_ok(), "a stream cannot be unpacked: {:?}", unpacked.err());
    }
    let _ = stream.snapshot(&Silent);
}

/// Reads a coreset file; one that is accepted can be used and written again.
fn coreset(bytes: &[u8]) {
    let Ok(read) = read_coreset_from(&Input::bytes(NAME, bytes.to_vec())) else { return };
    let points = read.points().expect("points");
    assert!((0..points.len()).all(|n| points.row(n).iter().all(|z| z.is_finite())));
    assert!(points.weights().iter().all(|weight| weight.is_finite() && *weight >= 0.0));
    assert!(read.labels().is_ok() && read.own_units().is_ok());
    let written = coreset_bytes(&read).expect("a coreset that was read can be written");
    assert!(read_coreset_from(&Input::bytes(NAME, written)).is_ok());
}

/// Reads a posterior file; one that is accepted can be used and written again.
fn posterior(bytes: &[u8]) {
    let Ok(read) = read_posterior_from(&Input::bytes(NAME, bytes.to_vec())) else { return };
    assert!(read.draws.rows().all(|draw| draw.iter().all(|value| value.is_finite())));
    let written = posterior_bytes(&read).expect("a posterior that was read can be written");
    assert!(read_posterior_from(&Input::bytes(NAME, written)).is_ok());
}

/// Reads the state of a stream from its sections: manifest (without its checksum, which is added here), residual, pending rows and
/// one coreset per level. A length of two bytes precedes each section; an empty section is absent.
fn state(bytes: &[u8]) {
    let mut sections = sections(bytes).into_iter();
    let Some(manifest) = sections.next() else { return };
    let Ok(manifest) = serde_json::from_slice::<serde_json::Value>(manifest) else { return };
    let checksum = Fingerprint::of_bytes(manifest.to_string().as_bytes()).to_string();
    let manifest = serde_json::json!({ "manifest": manifest, "checksum": checksum }).to_string();
    let mut present = || sections.next().filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec);
    let (residual, pending) = (present(), present());
    let levels = sections.map(|bytes| (!bytes.is_empty()).then(|| bytes.to_vec())).collect();
    let packed = Packed { manifest, levels, residual, pending };
    let Ok(stream) = Stream::unpack(&packed, Some(1)) else { return };
    let _ = stream.pack();
    let _ = stream.snapshot(&Silent);
}

/// Reads a file of coefficients, such as the centre of the parameter ball.
fn coefficients(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = parse_coefficients(text, Path::new(NAME));
}

/// The sections of the target `state`; the last one may be shorter than its length says.
fn sections(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut sections) = (bytes, Vec::new());
    while let Some((length, after)) = rest.split_at_checked(2) {
        let length = usize::from(u16::from_le_bytes([length[0], length[1]])).min(after.len());
        let (section, after) = after.split_at(length);
        sections.push(section);
        rest = after;
    }
    sections
}

/// Puts sections together, for the corpus.
pub fn joined(sections: &[&[u8]]) -> Vec<u8> {
    let section = |bytes: &&[u8]| {
        let length = u16::try_from(bytes.len()).expect("a section of less than 64 KiB");
        [&length.to_le_bytes(), *bytes].concat()
    };
    sections.iter().flat_map(section).collect()
}

fn options(control: u8) -> OpenOptions {
    let bit = |at: u8| control >> at & 1 == 1;
    OpenOptions {
        header: !bit(0),
        lenient: bit(1),
        delimiter: bit(2).then_some(if bit(3) { Delimiter::Pipe } else { Delimiter::Semicolon }),
        decimal: bit(4).then_some(Decimal::Comma),
        numbers: if bit(5) { vec!["a".to_string()] } else { Vec::new() },
        text: if bit(6) { vec!["b".to_string()] } else { Vec::new() },
        refuse_late_keys: bit(7),
        ..OpenOptions::default()
    }
}

fn label(source: &dyn Source) -> Option<String> {
    source.fields().last().map(|field| field.name.clone())
}

/// Few rows by the quickest method: the subject is reading.
fn settings() -> BuildSettings {
    BuildSettings { method: Method::Uniform, size: Size::Rows(5), clusters: 1, ..BuildSettings::default() }
}
