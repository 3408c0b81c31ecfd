//! Measurements of the quantities that the paper proves bounds for.

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

/// Data with two features, a constant and a normal one, and logistic labels. The parameter space is a plane, so that it can
/// be covered by a grid. The coefficients are −0.5 and 1.
pub(crate) fn two_feature_data(rows: usize, spread: f64) -> Vec<(String, Vec<f64>)> {
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

/// The points `z = y·x` of columns; the last column is the label `y`.
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

/// A polar grid on a disc: the centre and `rings` circles with `spokes` points each; the outermost circle is the edge.
pub(crate) fn disc_grid(radius: f64, rings: usize, spokes: usize) -> Vec<Vec<f64>> {
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

/// A vector of length 1 with a uniformly distributed direction.
pub(crate) fn direction(dim: usize, rng: &mut Rng) -> Vec<f64> {
    use rand_distr::{Distribution, StandardNormal};
    let v: Vec<f64> = (0..dim).map(|_| StandardNormal.sample(rng)).collect();
    let length = dot(&v, &v).sqrt();
    v.iter().map(|x| x / length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_is_the_logarithm_of_one_plus_exp() {
        for s in [-5.0, -0.3, 0.0, 0.7, 12.0] {
            assert!((softplus(s) - f64::ln(1.0 + f64::exp(-s))).abs() < 1e-14, "{s}");
        }
        // Where the plain formula overflows or loses all digits.
        assert_eq!(softplus(-1000.0), 1000.0);
        assert!((softplus(50.0) / f64::exp(-50.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_grid_covers_the_disc() {
        let grid = disc_grid(3.0, 4, 10);
        assert_eq!(grid.len(), 1 + 4 * 10);
        let lengths: Vec<f64> = grid.iter().map(|theta| dot(theta, theta).sqrt()).collect();
        assert_eq!(lengths[0], 0.0);
        for (i, length) in lengths[1..].iter().enumerate() {
            assert!((length - 0.75 * (i / 10 + 1) as f64).abs() < 1e-12);
        }
        // The points of a circle are evenly spaced, so they cancel out.
        let sum = grid.iter().fold([0.0, 0.0], |[x, y], theta| [x + theta[0], y + theta[1]]);
        assert!(sum[0].abs() < 1e-12 && sum[1].abs() < 1e-12);
    }

    #[test]
    fn directions_are_uniform_unit_vectors() {
        let mut rng = Seed(5).stream(Purpose::Search, 0);
        let all: Vec<Vec<f64>> = (0..4000).map(|_| direction(3, &mut rng)).collect();
        assert!(all.iter().all(|v| (dot(v, v) - 1.0).abs() < 1e-12));
        for d in 0..3 {
            // Mean 0 and variance 1/3 per coordinate; E[v⁴] = 1/5. Limits of 5 standard errors: a correct program fails one
            // of the six checks once in 290,000 seeds.
            let mean = all.iter().map(|v| v[d]).sum::<f64>() / 4000.0;
            assert!(mean.abs() < 5.0 * (1.0f64 / 3.0 / 4000.0).sqrt(), "{mean}");
            let square = all.iter().map(|v| v[d] * v[d]).sum::<f64>() / 4000.0;
            assert!((square - 1.0 / 3.0).abs() < 5.0 * ((0.2 - 1.0 / 9.0) / 4000.0f64).sqrt(), "{square}");
        }
    }

    #[test]
    fn data_with_two_features_follow_their_model() {
        let (rows, spread) = (20_000, 0.5);
        let columns = two_feature_data(rows, spread);
        let [one, x, y] = &columns[..] else { panic!("three columns") };
        assert!(one.1.iter().all(|one| *one == 1.0));
        let n = rows as f64;
        // Limits of 5 standard errors: a correct program fails one of the three checks once in 580,000 seeds.
        let mean = x.1.iter().sum::<f64>() / n;
        assert!(mean.abs() < 5.0 * spread / n.sqrt(), "{mean}");
        // At the true coefficients (−0.5, 1) the score has mean 0 and at most variance ¼ per row and unit of x².
        let residual = |row: usize| {
            let chance = 1.0 / (1.0 + (0.5 - x.1[row]).exp());
            f64::from(u8::from(y.1[row] > 0.0)) - chance
        };
        let score = (0..rows).map(residual).sum::<f64>() / n;
        assert!(score.abs() < 5.0 * 0.5 / n.sqrt(), "{score}");
        let score = (0..rows).map(|row| residual(row) * x.1[row]).sum::<f64>() / n;
        assert!(score.abs() < 5.0 * 0.5 * spread / n.sqrt(), "{score}");
        // Points are labels times features.
        let points = points_of(&columns);
        assert_eq!((points.len(), points.dim()), (rows, 2));
        assert_eq!(points.row(17), [y.1[17], y.1[17] * x.1[17]]);
    }
}
