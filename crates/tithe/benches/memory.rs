//! Measures building a coreset of data in memory: as a multiple of a multi-threaded sum of the same values, and for doubled
//! numbers of rows.
//!
//! `cargo bench -p tithe --bench memory -- [sum | scale | seconds]`

mod shared;

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;
use shared::{arguments, calibrated_settings, paper_settings, timed_build};
use tithe::base::rng::Seed;
use tithe::coreset::build::BuildSettings;
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Columns;
use tithe::encoding::EncodingSettings;

const ROUNDS: usize = 25;

type NamedColumns = Vec<(String, Vec<f64>)>;

fn main() {
    match arguments().first().map(String::as_str) {
        None => {
            against_sum();
            scale();
        }
        Some("sum") => against_sum(),
        Some("scale") => scale(),
        Some("seconds") => seconds(),
        Some(other) => panic!("unknown benchmark '{other}'; expected sum, scale or seconds"),
    }
}

/// Build time as a multiple of the time of a sum.
fn against_sum() {
    println!("In memory, Mixture, k = 4, M = 1000, method sensitivity; fastest of {ROUNDS} runs");
    for rows in [1_000_000, 2_000_000] {
        let columns = mixture(rows);
        let data = source(columns.clone());
        let standardized = BuildSettings { encoding: EncodingSettings::default(), ..paper_settings() };
        let calibrated = calibrated_settings();
        let [sum, plain, standard, calibration] = fastest(
            ROUNDS,
            [
                &mut || bare_sum(&columns),
                &mut || one_build(&data, &paper_settings()),
                &mut || one_build(&data, &standardized),
                &mut || one_build(&data, &calibrated),
            ],
        );
        println!("  {rows} x 10: sum only: {:.2} ms", sum * 1e3);
        for (name, seconds) in [("as in the paper", plain), ("standardised, intercept", standard)] {
            println!("    {name}: {:.2} ms, {:.2} times the sum", seconds * 1e3, seconds / sum);
        }
        phases(&data, &paper_settings());
        println!(
            "    calibrated: {:.2} ms, {:.2} times the sum, {:.2} times the method sensitivity",
            calibration * 1e3,
            calibration / sum,
            calibration / plain
        );
        phases(&data, &calibrated);
    }
}

/// Growth of the time when the number of rows doubles.
fn scale() {
    println!(
        "In memory, Mixture, k = 4, M = 1000, method sensitivity, rows doubled; fastest of {ROUNDS} runs"
    );
    let sizes = [1_000_000, 2_000_000, 4_000_000, 8_000_000];
    let [one, two, four, eight] = sizes.map(|rows| source(mixture(rows)));
    let times = fastest(
        ROUNDS,
        [
            &mut || one_build(&one, &paper_settings()),
            &mut || one_build(&two, &paper_settings()),
            &mut || one_build(&four, &paper_settings()),
            &mut || one_build(&eight, &paper_settings()),
        ],
    );
    let mut before = None;
    for (rows, seconds) in sizes.into_iter().zip(times) {
        let growth = before.map_or(String::new(), |before| format!(", {:.2} times", seconds / before));
        println!("  {rows} x 10: {:.2} ms{growth}", seconds * 1e3);
        before = Some(seconds);
    }
}

/// Prints only the best time in seconds, for other programs.
fn seconds() {
    let columns = source(mixture(1_000_000));
    let [seconds] = fastest(ROUNDS, [&mut || one_build(&columns, &paper_settings())]);
    println!("{seconds}");
}

/// The fastest time of each task, in seconds. The tasks alternate, so that other load on the machine affects all of them.
fn fastest<const TASKS: usize>(rounds: usize, mut tasks: [&mut dyn FnMut() -> f64; TASKS]) -> [f64; TASKS] {
    let mut best = [f64::INFINITY; TASKS];
    for _ in 0..rounds {
        for (best, task) in best.iter_mut().zip(&mut tasks) {
            *best = best.min(task());
        }
    }
    best
}

fn mixture(rows: usize) -> NamedColumns {
    Recipe::Mixture.data(Seed(1), rows).columns()
}

fn bare_sum(columns: &NamedColumns) -> f64 {
    let start = Instant::now();
    let total: f64 = columns
        .iter()
        .take(columns.len() - 1)
        .flat_map(|(_, values)| values.chunks(1 << 16))
        .collect::<Vec<_>>()
        .par_iter()
        .map(|chunk| {
            let mut lanes = [0.0; 32];
            for values in chunk.as_chunks::<32>().0 {
                for l in 0..32 {
                    lanes[l] += values[l];
                }
            }
            lanes.iter().sum::<f64>()
        })
        .sum();
    black_box(total);
    start.elapsed().as_secs_f64()
}

fn source(columns: NamedColumns) -> Columns {
    Columns::new(columns).expect("columns")
}

fn one_build(data: &Columns, settings: &BuildSettings) -> f64 {
    timed_build(Box::new(data.clone()), u64::MAX, settings).0
}

/// Prints the times of the phases of the fastest run.
fn phases(data: &Columns, settings: &BuildSettings) {
    let runs = (0..ROUNDS).map(|_| timed_build(Box::new(data.clone()), u64::MAX, settings));
    if let Some((_, built)) = runs.min_by(|a, b| a.0.total_cmp(&b.0)) {
        let phases: Vec<String> =
            built.seconds.iter().map(|(phase, s)| format!("{phase} {:.1} ms", s * 1e3)).collect();
        println!("      {}", phases.join(", "));
    }
}
