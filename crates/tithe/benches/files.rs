//! Building a coreset from files larger than the memory budget, per pass as a multiple of bare decoding by the
//! same reader; with nothing kept in memory, and with a part of the rows.
//!
//! `cargo bench -p tithe --bench files -- [ROWS]`, or `-- read FILE…` to decode files of one's own, or
//! `-- write ROWS FILE` to write a Parquet file to measure with.

mod shared;
#[path = "shared/tables.rs"]
mod tables;

use std::path::Path;
use std::time::Instant;

use parquet::basic::Compression;
use shared::{arguments, paper_settings, timed_build};
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
        _ => Err("[ROWS], read FILE…, or write ROWS FILE".into()),
    }
}

fn opened(file: &Path) -> Box<dyn Source> {
    open(&[file.display().to_string()], &OpenOptions::default()).expect("a file that can be read")
}

/// Seconds of decoding all columns on all cores, for as many passes as a build has. The threads live as long as a
/// build's: memory that a thread used before is cheaper than fresh memory.
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
        ("Parquet, not compressed", Some(Compression::UNCOMPRESSED)),
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
    let mut builds = [("nothing", 0), ("a quarter", decoded_bytes / 4), ("half", decoded_bytes / 2)]
        .map(|(kept, memory)| Builds { kept, memory, phases: Vec::new(), work: 0.0 });
    // The fastest of each pass on both sides: as long as each other, and as often tried.
    let mut decoded = [f64::INFINITY; PASSES];
    let mut decoding_work = 0.0;
    for _ in 0..ROUNDS {
        let seconds = counted(&mut decoding_work, || bare_decoding(path));
        decoded.iter_mut().zip(seconds).for_each(|(best, now)| *best = best.min(now));
        builds.iter_mut().for_each(|builds| builds.once_more(path));
    }
    let decoding = decoded.iter().sum::<f64>() / PASSES as f64;
    println!(
        "  {name} ({:.0} MB): bare decoding {decoding:.3} s ({:.0} MB/s)",
        bytes / 1e6,
        bytes / 1e6 / decoding,
    );
    for Builds { kept, phases, work, .. } in builds {
        let pass = phases.iter().map(|(_, seconds)| seconds).sum::<f64>() / PASSES as f64;
        let phases: Vec<String> = phases
            .iter()
            .map(|(phase, seconds)| format!("{phase} {seconds:.3} s ({:.2})", seconds / decoding))
            .collect();
        println!(
            "    {kept} kept: a pass {pass:.3} s, {:.2} times; in processor time {:.2} times; {}",
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

/// Adds the processor time of some work, which other programs disturb less.
fn counted<T>(total: &mut f64, work: impl FnOnce() -> T) -> T {
    let before = processor_seconds();
    let result = work();
    *total += processor_seconds() - before;
    result
}

/// Processor time of all threads so far, user and system; 0 where the system does not tell it this way.
fn processor_seconds() -> f64 {
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the program's name, which may hold spaces: `utime` and `stime` are the 12th and 13th.
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
