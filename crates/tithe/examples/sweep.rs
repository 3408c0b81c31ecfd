//! Measures the operations that dominate the run time: gradients, Hessians, and effective draws per second.
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

/// Normal points with logistic labels, and the coefficients that generate the labels.
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

/// Points with an intercept, eight numeric columns, and standardised indicator columns, each of which is 1 in one row of thirty.
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

/// Nanoseconds per call: the fastest of many short rounds, because other programs interrupt only some of them.
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

/// A straightforward implementation of value and gradient, for comparison.
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
    gradient();
    for (rows, dim) in [(1000, 63), (2000, 55), (3000, 194), (3000, 301)] {
        gradient_with_indicators(rows, dim);
    }
    for dim in [10, 55, 193] {
        hessian(dim);
    }
    for sampler in [Sampler::Nuts, Sampler::Mala { preconditioned: true }] {
        effective_draws(sampler);
    }
}

fn gradient() {
    let (rows, dim) = (1000, 10);
    let (few, theta) = points(rows, dim);
    let (mut gradient, mut scratch) = (vec![0.0; dim], Vec::new());
    let ours = nanoseconds(100, || {
        black_box(likelihood::value_and_gradient(&few, black_box(&theta), &mut gradient, &mut scratch));
    });
    let as_rows: Vec<Vec<f64>> = (0..rows).map(|n| few.row(n)).collect();
    let weights = few.weights();
    let theirs = nanoseconds(20, || {
        black_box(plain(&as_rows, &weights, black_box(&theta), &mut gradient));
    });
    println!(
        "gradient, 1,000 x 10: {ours:.0} ns; plain loops: {theirs:.0} ns, {:.1} times as long",
        theirs / ours
    );
}

fn gradient_with_indicators(rows: usize, dim: usize) {
    let wide = levels(rows, dim);
    let priors = Priors::same(Prior::Normal { scale: 2.0 }, dim);
    let posterior = Posterior::new(&wide, &priors).expect("one prior per column");
    let (theta, mut gradient, mut scratch) = (vec![0.1; dim], vec![0.0; dim], Vec::new());
    let dense = nanoseconds(1, || {
        black_box(likelihood::value_and_gradient(&wide, black_box(&theta), &mut gradient, &mut scratch));
    });
    let thin = nanoseconds(1, || {
        black_box(posterior.value_and_gradient(black_box(&theta), &mut gradient, &mut scratch));
    });
    println!(
        "gradient with indicator columns, {rows} x {dim}: {:.1} us; dense: {:.1} us, {:.1} times as long",
        thin / 1e3,
        dense / 1e3,
        dense / thin
    );
}

fn hessian(dim: usize) {
    let rows = if dim > 100 { 256 } else { 1280 };
    let (many, theta) = points(rows, dim);
    let ns = nanoseconds(1, || {
        black_box(Curvature::of_points(&many, black_box(&theta)));
    });
    let per_row = ns / rows as f64;
    // One multiplication and one addition per entry of the lower triangle.
    let gigaflops = (dim * (dim + 1)) as f64 / per_row;
    println!("Hessian, {dim} columns: {per_row:.1} ns per row, {gigaflops:.1} GFLOP/s (one thread)");
}

fn effective_draws(sampler: Sampler) {
    let dim = 10;
    let (few, _) = points(1000, dim);
    let priors = Priors::same(Prior::Normal { scale: 2.0 }, dim);
    let posterior = Posterior::new(&few, &priors).expect("one prior per column");
    let names: Vec<String> = (0..dim).map(|d| format!("x{d}")).collect();
    let start = Instant::now();
    let approximation = posterior.laplace().expect("a mode");
    let mode = start.elapsed();
    let draws =
        mcmc::run(&posterior, &names, &approximation, sampler, &Settings::default(), &Silent).expect("draws");
    let seconds = start.elapsed().as_secs_f64();
    let least = diagnostics::summary(&draws).iter().map(|c| c.ess_bulk).fold(f64::INFINITY, f64::min);
    println!(
        "{sampler}, 1,000 x 10, 4 x (1,000 + 1,000): {seconds:.3} s (mode {:.1} ms), smallest bulk ESS {least:.0}, {:.0} per second",
        mode.as_secs_f64() * 1e3,
        least / seconds
    );
}
