//! Measures bare decoding: reads all columns of files through the same interface as the engine, and drops them.
//!
//! `cargo run --release --example read_speed -- [--threads N] FILE…`

use std::sync::Mutex;
use std::time::Instant;

use tithe::source::{OpenOptions, Scan, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let mut threads = std::thread::available_parallelism()?.get();
    if files.first().is_some_and(|first| first == "--threads") && files.len() > 1 {
        threads = files[1].parse()?;
        files.drain(..2);
    }
    let bytes: u64 =
        files.iter().filter_map(|file| std::fs::metadata(file).ok()).map(|file| file.len()).sum();
    for pass in 1..=3 {
        let start = Instant::now();
        let source = open(&files, &OpenOptions::default())?;
        let opened = start.elapsed();
        let all: Vec<usize> = (0..source.fields().len()).collect();
        let start = Instant::now();
        let rows = read(source.scan(&all)?, threads)?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "pass {pass}: opened in {:.3} s; {rows} rows x {} columns in {seconds:.3} s on {threads} threads: \
             {:.0} MB/s, {:.1} million rows/s",
            opened.as_secs_f64(),
            all.len(),
            bytes as f64 / seconds / 1e6,
            rows as f64 / seconds / 1e6
        );
    }
    Ok(())
}

/// Decodes everything on so many threads and counts the rows.
fn read(scan: Box<dyn Scan>, threads: usize) -> tithe::error::Result<usize> {
    let scan = Mutex::new(scan);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut rows = 0;
                    loop {
                        let unit = match scan.lock() {
                            Ok(mut scan) => scan.next_unit()?,
                            Err(_) => return Ok(rows),
                        };
                        let Some(unit) = unit else { return Ok(rows) };
                        unit.decode(&mut |segment| {
                            rows += segment.len;
                            Ok(())
                        })?;
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(Ok(0))).sum()
    })
}
