//! What the paper proves, measured.

pub mod evidence;
pub mod guarantee;
pub mod lower_bound;
pub mod mixture;

use tithe::base::rng::{Purpose, Rng, Seed, open_unit};
use tithe::data::points::Points;

/// `φ(s) = ln(1 + e^{−s})`.
pub(crate) fn softplus(s: f64) -> f64 {
    (-s.abs()).exp().ln_1p() + (-s).max(0.0)
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Two covariates, a constant and a normal one, with logistic labels: data whose parameter space can be drawn.
pub(crate) fn plane(rows: usize, spread: f64) -> Vec<(String, Vec<f64>)> {
    use rand_distr::{Distribution, StandardNormal};
    let mut rng = Seed(31).stream(Purpose::Generate, 0);
    let (mut x, mut y) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    for _ in 0..rows {
        let value: f64 = StandardNormal.sample(&mut rng);
        let value = spread * value;
        let chance = 1.0 / (1.0 + (0.5 - value).exp());
        x.push(value);
        y.push(if open_unit(&mut rng) <= chance { 1.0 } else { -1.0 });
    }
    vec![("one".to_string(), vec![1.0; rows]), ("x".to_string(), x), ("y".to_string(), y)]
}

/// The points `z = y·x` of columns of which the last is the label.
pub(crate) fn points_of(columns: &[(String, Vec<f64>)]) -> Points {
    let (features, label) = columns.split_at(columns.len() - 1);
    let labels = &label[0].1;
    let mut points = Points::new(features.len());
    for (row, y) in labels.iter().enumerate() {
        let z: Vec<f64> = features.iter().map(|(_, values)| y * values[row]).collect();
        points.push(&z, 1.0);
    }
    points
}

/// Parameters all over a disc: rings, the outermost its edge.
pub(crate) fn disc(radius: f64, rings: usize, spokes: usize) -> Vec<Vec<f64>> {
    let mut theta = vec![vec![0.0, 0.0]];
    for ring in 1..=rings {
        let length = radius * ring as f64 / rings as f64;
        for spoke in 0..spokes {
            let angle = std::f64::consts::TAU * spoke as f64 / spokes as f64;
            theta.push(vec![length * angle.cos(), length * angle.sin()]);
        }
    }
    theta
}

/// A vector of length 1 in a random direction.
pub(crate) fn direction(dim: usize, rng: &mut Rng) -> Vec<f64> {
    use rand_distr::{Distribution, StandardNormal};
    let v: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
    let length = dot(&v, &v).sqrt();
    v.iter().map(|x| x / length).collect()
}
