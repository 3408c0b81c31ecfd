//! Measures building a coreset from files larger than the memory budget, as a multiple of only decoding the file with the same
//! reader: a whole calibrated build, and a pass of the method `sensitivity` with no rows or some rows kept in memory.
//!
//! `cargo bench -p tithe --bench files -- [ROWS]`, or `-- read FILE…` to decode given files, or
//! `-- write ROWS FILE` to write a Parquet file for measurements.

mod shared;
#[path = "shared/tables.rs"]
mod tables;

use std::path::Path;
use std::time::Instant;

use parquet::basic::Compression;
use shared::{arguments, calibrated_settings, paper_settings, timed_build};
use tables::{decode, write_csv, write_parquet};
use tithe::data::source::{OpenOptions, Source, open};

const ROUNDS: usize = 7;
/// The survey, the grouping and the selection.
const PASSES: usize = 3;
const ROWS: usize = 5_000_000;
/// Ten covariates and the label.
const COLUMNS: u64 = 11;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments = arguments();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["write", rows, file] => write_parquet(rows.parse()?, Compression::SNAPPY, Path::new(file)),
        ["read", ..] => read(&arguments[1..]),
        [] => compare(ROWS),
        [rows] => compare(rows.parse()?),
        _ => Err("usage: files [ROWS | read FILE… | write ROWS FILE]".into()),
    }
}

fn opened(file: &Path) -> Box<dyn Source> {
    open(&[file.display().to_string()], &OpenOptions::default()).expect("a file that can be read")
}

/// Seconds to decode all columns on all cores, for as many passes as a build has. The threads live through all passes, as in
/// a build, because memory that a thread has used before is faster than new memory.
fn bare_decoding(file: &Path) -> [f64; PASSES] {
    let pool = rayon::ThreadPoolBuilder::new().build().expect("threads");
    let source = opened(file);
    let all: Vec<usize> = (0..source.fields().len()).collect();
    std::array::from_fn(|_| {
        let start = Instant::now();
        decode(source.scan(&all).expect("a scan"), &pool).expect("rows");
        start.elapsed().as_secs_f64()
    })
}

fn compare(rows: usize) -> Outcome<()> {
    println!("From files larger than the memory budget, Mixture {rows} x 10; fastest of {ROUNDS} runs");
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("table");
    for (name, compression) in [
        ("Parquet, snappy", Some(Compression::SNAPPY)),
        ("Parquet, uncompressed", Some(Compression::UNCOMPRESSED)),
        ("CSV", None),
    ] {
        match compression {
            Some(compression) => write_parquet(rows, compression, &path)?,
            None => write_csv(rows, &path)?,
        }
        compare_file(name, &path, rows)?;
    }
    Ok(())
}

fn compare_file(name: &str, path: &Path, rows: usize) -> Outcome<()> {
    let bytes = std::fs::metadata(path)?.len() as f64;
    let decoded_bytes = rows as u64 * COLUMNS * 8;
    let mut builds = [("no rows", 0), ("a quarter", decoded_bytes / 4), ("half", decoded_bytes / 2)]
        .map(|(kept, memory)| Builds { kept, memory, phases: Vec::new(), work: 0.0 });
    // The fastest time of each pass counts, on both sides with the same number of attempts.
    let mut decoded = [f64::INFINITY; PASSES];
    let mut decoding_work = 0.0;
    let mut calibrated = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let seconds = counted(&mut decoding_work, || bare_decoding(path));
        decoded.iter_mut().zip(seconds).for_each(|(best, now)| *best = best.min(now));
        builds.iter_mut().for_each(|builds| builds.once_more(path));
        let (seconds, built) = timed_build(opened(path), 0, &calibrated_settings());
        calibrated = (calibrated.0.min(seconds), built.coreset.provenance.passes);
    }
    let decoding = decoded.iter().sum::<f64>() / PASSES as f64;
    println!(
        "  {name} ({:.0} MB): decoding only: {decoding:.3} s ({:.0} MB/s)",
        bytes / 1e6,
        bytes / 1e6 / decoding,
    );
    let (seconds, passes) = calibrated;
    println!(
        "    calibrated, no rows kept: {seconds:.3} s, {:.2} times decoding once ({passes} passes)",
        seconds / decoding
    );
    for Builds { kept, phases, work, .. } in builds {
        let pass = phases.iter().map(|(_, seconds)| seconds).sum::<f64>() / PASSES as f64;
        let phases: Vec<String> = phases
            .iter()
            .map(|(phase, seconds)| format!("{phase} {seconds:.3} s ({:.2})", seconds / decoding))
            .collect();
        println!(
            "    {kept} kept: {pass:.3} s per pass, {:.2} times decoding; {:.2} times in processor time; {}",
            pass / decoding,
            work / decoding_work,
            phases.join(", "),
        );
    }
    Ok(())
}

/// Builds with one memory budget.
struct Builds {
    kept: &'static str,
    memory: u64,
    /// The fastest time of each phase.
    phases: Vec<(&'static str, f64)>,
    work: f64,
}

impl Builds {
    fn once_more(&mut self, path: &Path) {
        let build = || timed_build(opened(path), self.memory, &paper_settings());
        let (_, built) = counted(&mut self.work, build);
        assert_eq!(built.coreset.provenance.passes, PASSES);
        if self.phases.is_empty() {
            self.phases = built.seconds.clone();
        }
        self.phases.iter_mut().zip(&built.seconds).for_each(|(best, now)| best.1 = best.1.min(now.1));
    }
}

/// Runs a function and adds its processor time, which depends less on other programs than wall-clock time.
fn counted<T>(total: &mut f64, work: impl FnOnce() -> T) -> T {
    let before = processor_seconds();
    let result = work();
    *total += processor_seconds() - before;
    result
}

/// Processor time of all threads of this process so far, user and system; 0 if `/proc` is not available.
fn processor_seconds() -> f64 {
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may contain spaces; of the fields after it, `utime` and `stime` are the 12th and 13th.
    let after_name = text.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
        / TICKS
}

fn read(files: &[String]) -> Outcome<()> {
    for file in files {
        let file = Path::new(file);
        let bytes = std::fs::metadata(file)?.len() as f64;
        let seconds = (0..ROUNDS).flat_map(|_| bare_decoding(file)).fold(f64::INFINITY, f64::min);
        println!("{}: {seconds:.3} s, {:.0} MB/s", file.display(), bytes / 1e6 / seconds);
    }
    Ok(())
}
