//! Measures the time of one evaluation of the gradient of the weighted log-likelihood, and prints it as a line of JSON.
//!
//! `cargo run --release --example gradient -- ROWS DIM`

use std::hint::black_box;
use std::time::Instant;

use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::data::points::Points;
use tithe::model::likelihood::value_and_gradient;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rows, dim] = &arguments[..] else { return Err("usage: gradient ROWS DIM".into()) };
    let (rows, dim): (usize, usize) = (rows.parse()?, dim.parse()?);
    let mut rng = Seed(1).stream(Purpose::Generate, 0);
    let mut points = Points::new(dim);
    for _ in 0..rows {
        let z: Vec<f64> = (0..dim).map(|_| 4.0 * open_unit(&mut rng) - 2.0).collect();
        points.push(&z, 1.0 + open_unit(&mut rng));
    }
    let theta: Vec<f64> = (0..dim).map(|d| 0.3 - 0.1 * d as f64).collect();
    let (mut gradient, mut scratch) = (vec![0.0; dim], Vec::new());
    let repeats = (20_000_000 / rows.max(1)).clamp(10, 20_000);
    // The fastest of several rounds counts, because other programs may use the machine.
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..repeats {
            black_box(value_and_gradient(&points, black_box(&theta), &mut gradient, &mut scratch));
        }
        best = best.min(start.elapsed().as_secs_f64() / repeats as f64);
    }
    println!("{{\"rows\": {rows}, \"dim\": {dim}, \"seconds\": {best:e}}}");
    Ok(())
}
