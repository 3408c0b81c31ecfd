//! Times the sweeps that everything else waits for: gradient, Hessian, and effective draws a second.
//!
//! `cargo run --release -p tithe --example sweep`

use std::hint::black_box;
use std::time::Instant;

use rand_distr::{Distribution, StandardNormal};
use tithe::base::progress::Silent;
use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::data::points::Points;
use tithe::mcmc::diagnostics;
use tithe::mcmc::{self, Sampler, Settings};
use tithe::model::likelihood::{self, Curvature};
use tithe::model::{LogDensity, Posterior, Prior, Priors};

fn points(rows: usize, dim: usize) -> (Points, Vec<f64>) {
    let mut rng = Seed(3).stream(Purpose::Generate, 0);
    let theta: Vec<f64> = (0..dim).map(|d| if d % 2 == 0 { 0.6 } else { -0.4 }).collect();
    let mut points = Points::new(dim);
    for _ in 0..rows {
        let x: Vec<f64> = theta.iter().map(|_| StandardNormal.sample(&mut rng)).collect();
        let s: f64 = x.iter().zip(&theta).map(|(x, t)| x * t).sum();
        let sign = if open_unit(&mut rng) <= 1.0 / (1.0 + (-s).exp()) { 1.0 } else { -1.0 };
        points.push(&x.iter().map(|x| sign * x).collect::<Vec<f64>>(), 1.0 + 10.0 * open_unit(&mut rng));
    }
    (points, theta)
}

/// An intercept, eight numbers, and columns that one row in thirty is not like the others in: what levels of text become.
fn levels(rows: usize, dim: usize) -> Points {
    let mut rng = Seed(4).stream(Purpose::Generate, 0);
    let mut unit = || open_unit(&mut rng);
    let mut points = Points::new(dim);
    for _ in 0..rows {
        let y = if unit() < 0.5 { 1.0 } else { -1.0 };
        let x = |j: usize, unit: &mut dyn FnMut() -> f64| match j {
            0 => 1.0,
            1..9 => 2.0 * unit() - 1.0,
            _ if unit() < 1.0 / 30.0 => 5.4,
            _ => -0.2,
        };
        let z: Vec<f64> = (0..dim).map(|j| y * x(j, &mut unit)).collect();
        points.push(&z, 1.0 + unit());
    }
    points
}

/// The best of many short rounds, in nanoseconds a call: a busy machine interrupts some of them, not all.
fn nanoseconds(calls: u32, mut work: impl FnMut()) -> f64 {
    (0..500)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                work();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
        })
        .fold(f64::INFINITY, f64::min)
}

/// The gradient as one would write it without thinking of the processor.
fn plain(rows: &[Vec<f64>], weights: &[f64], theta: &[f64], gradient: &mut [f64]) -> f64 {
    gradient.fill(0.0);
    let mut value = 0.0;
    for (z, w) in rows.iter().zip(weights) {
        let s: f64 = z.iter().zip(theta).map(|(z, t)| z * t).sum();
        let e = (-s.abs()).exp();
        value -= w * ((-s).max(0.0) + e.ln_1p());
        let pull = w * if s < 0.0 { 1.0 } else { e } / (1.0 + e);
        for (g, z) in gradient.iter_mut().zip(z) {
            *g += pull * z;
        }
    }
    value
}

fn main() {
    let (rows, dim) = (1000, 10);
    let (few, theta) = points(rows, dim);
    let mut gradient = vec![0.0; dim];
    let mut scratch = Vec::new();
    let ours = nanoseconds(100, || {
        black_box(likelihood::value_and_gradient(&few, black_box(&theta), &mut gradient, &mut scratch));
    });
    let as_rows: Vec<Vec<f64>> = (0..rows).map(|n| few.row(n)).collect();
    let weights = few.weights();
    let theirs = nanoseconds(20, || {
        black_box(plain(&as_rows, &weights, black_box(&theta), &mut gradient));
    });
    println!(
        "gradient, 1,000 x 10: {ours:.0} ns; plain loops {theirs:.0} ns, {:.1} times as long",
        theirs / ours
    );

    for (rows, dim) in [(1000, 63), (2000, 55), (3000, 194), (3000, 301)] {
        let wide = levels(rows, dim);
        let priors = Priors::same(Prior::Normal { scale: 2.0 }, dim);
        let posterior = Posterior::new(&wide, &priors).expect("priors of the points' dimension");
        let (theta, mut gradient) = (vec![0.1; dim], vec![0.0; dim]);
        let plain = nanoseconds(1, || {
            black_box(likelihood::value_and_gradient(&wide, black_box(&theta), &mut gradient, &mut scratch));
        });
        let thin = nanoseconds(1, || {
            black_box(posterior.value_and_gradient(black_box(&theta), &mut gradient, &mut scratch));
        });
        println!(
            "gradient of levels, {rows} x {dim}: {:.1} us; with all columns of every row {:.1} us, {:.1} times as long",
            thin / 1e3,
            plain / 1e3,
            plain / thin
        );
    }

    for dim in [10, 55, 193] {
        let rows = if dim > 100 { 256 } else { 1280 };
        let (many, theta) = points(rows, dim);
        let ns = nanoseconds(1, || {
            black_box(Curvature::of_points(&many, black_box(&theta)));
        });
        let per_row = ns / rows as f64;
        // A multiply and an add for each entry of the lower triangle.
        let gigaflops = (dim * (dim + 1)) as f64 / per_row;
        println!("Hessian, {dim} columns: {per_row:.1} ns a row, {gigaflops:.1} GFLOP/s (one thread)");
    }

    let priors = Priors::same(Prior::Normal { scale: 2.0 }, dim);
    let posterior = Posterior::new(&few, &priors).expect("priors of the points' dimension");
    let names: Vec<String> = (0..dim).map(|d| format!("x{d}")).collect();
    for sampler in [Sampler::Nuts, Sampler::Mala { preconditioned: true }] {
        let start = Instant::now();
        let approximation = posterior.laplace().expect("a mode");
        let mode = start.elapsed();
        let draws = mcmc::run(&posterior, &names, &approximation, sampler, &Settings::default(), &Silent)
            .expect("draws");
        let seconds = start.elapsed().as_secs_f64();
        let least = diagnostics::summary(&draws).iter().map(|c| c.ess_bulk).fold(f64::INFINITY, f64::min);
        println!(
            "{sampler}, 1,000 x 10, 4 x (1,000 + 1,000): {seconds:.3} s (mode {:.1} ms), least bulk ESS {least:.0}, {:.0} a second",
            mode.as_secs_f64() * 1e3,
            least / seconds
        );
    }
}
