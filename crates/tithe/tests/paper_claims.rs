//! The paper's claims about sensitivities (Figure 1) and its guarantee (Theorem 3.2), on generated data.

use tithe::base::rng::{Purpose, Rng, Seed, open_unit};
use tithe::coreset::build::{BuildSettings, build};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::coreset::{Coreset, Method};
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Columns;
use tithe::data::table::Roles;
use tithe::encoding::{EncodingSettings, Standardize};

fn plain_build(columns: Vec<(String, Vec<f64>)>, settings: BuildSettings) -> Coreset {
    let encoding =
        EncodingSettings { intercept: false, standardize: Standardize::None, ..EncodingSettings::default() };
    let settings = BuildSettings { method: Method::Sensitivity, encoding, collapse: false, ..settings };
    let roles = Roles { label: "y".into(), ..Roles::default() };
    build(Box::new(Columns::new(columns).expect("columns")), &roles, &settings).expect("a coreset")
}

/// The mean sensitivity bound `m̄` on Binary10: the median over seven clusterings. About one k-means++ start in
/// ten ends in a poor clustering, whose bound is twice as large at any number of rows; a mean over few
/// clusterings would depend on how many of them are poor.
fn mean_bound(rows: usize, clusters: usize, radius: f64) -> f64 {
    let columns = Recipe::Binary10.data(Seed(11), rows).columns();
    let mut bounds: Vec<f64> = (0..7)
        .map(|seed| {
            let settings = BuildSettings {
                size: Size::Rows(100),
                clusters,
                radius: Radius::Fixed(radius),
                seed: Seed(seed),
                ..BuildSettings::default()
            };
            let facts = plain_build(columns.clone(), settings).provenance.sensitivity.expect("sensitivities");
            facts.mean_bound.expect("not exact")
        })
        .collect();
    bounds.sort_by(f64::total_cmp);
    bounds[3]
}

#[test]
fn the_mean_bound_does_not_grow_with_the_number_of_rows() {
    let bounds = [10_000, 100_000, 1_000_000].map(|rows| mean_bound(rows, 6, 3.0));
    for bound in bounds {
        assert!((bound / bounds[0] - 1.0).abs() < 0.15, "{bounds:?}");
    }
}

#[test]
fn the_mean_bound_grows_with_the_radius_about_exponentially() {
    let bounds: Vec<f64> = (1..=5).map(|radius| mean_bound(20_000, 6, f64::from(radius))).collect();
    // The logarithm grows by equal steps: neither like a power of R, whose steps shrink as 1/R (the
    // last would be a third of the first), nor faster than exponentially.
    let steps: Vec<f64> = bounds.windows(2).map(|pair| (pair[1] / pair[0]).ln()).collect();
    assert!(steps.iter().all(|step| (0.3..1.5).contains(step)), "{bounds:?}: {steps:?}");
    assert!(steps[3] > 0.6 * steps[0] && steps[3] < 1.7 * steps[0], "{bounds:?}: {steps:?}");
}

#[test]
fn the_mean_bound_hardly_depends_on_the_number_of_clusters() {
    let bounds: Vec<f64> = (4..=8).map(|clusters| mean_bound(20_000, clusters, 3.0)).collect();
    let (least, most) = bounds.iter().fold((f64::MAX, 0f64), |(a, b), &m| (a.min(m), b.max(m)));
    assert!(most < 1.5 * least, "{bounds:?}");
}

/// A parameter in the ball: a random direction, at a random radius.
fn in_ball(rng: &mut Rng, radius: f64) -> [f64; 2] {
    let angle = open_unit(rng) * std::f64::consts::TAU;
    let length = open_unit(rng) * radius;
    [angle.cos() * length, angle.sin() * length]
}

/// `−L(θ)` of weighted points.
fn negative_log_likelihood(points: &[([f64; 2], f64)], theta: [f64; 2]) -> f64 {
    points.iter().map(|(z, w)| w * (-(z[0] * theta[0] + z[1] * theta[1])).exp().ln_1p()).sum()
}

/// Concentrated data in two dimensions has small sensitivities, so the guarantee needs few rows. By the theorem each
/// seed fails with probability at most δ = 0.01; its constant is conservative, so all 50 must hold.
#[test]
fn the_guarantee_holds() {
    let (rows, radius, epsilon) = (6_000, 1.0, 0.2);
    let mut rng = Seed(3).stream(Purpose::Generate, 0);
    let mut columns = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rows {
        columns[0].push(1.0 + 0.1 * (open_unit(&mut rng) - 0.5));
        columns[1].push(0.3 * (open_unit(&mut rng) - 0.5));
        columns[2].push(if open_unit(&mut rng) <= 0.4 { 1.0 } else { -1.0 });
    }
    let point = |x: [f64; 2], y: f64| [y * x[0], y * x[1]];
    let full: Vec<([f64; 2], f64)> =
        (0..rows).map(|n| (point([columns[0][n], columns[1][n]], columns[2][n]), 1.0)).collect();
    let thetas: Vec<[f64; 2]> = (0..2_000).map(|_| in_ball(&mut rng, radius)).collect();
    let truth: Vec<f64> = thetas.iter().map(|theta| negative_log_likelihood(&full, *theta)).collect();

    let mut worst = 0f64;
    for seed in 0..50 {
        let [a, b, y] = columns.clone();
        let named = vec![("a".to_string(), a), ("b".to_string(), b), ("y".to_string(), y)];
        let settings = BuildSettings {
            size: Size::Guarantee { epsilon, delta: 0.01, constant: 4.0 },
            clusters: 4,
            radius: Radius::Fixed(radius),
            seed: Seed(seed),
            ..BuildSettings::default()
        };
        let coreset = plain_build(named, settings);
        assert!(!coreset.provenance.exact);
        assert!(coreset.provenance.draws < rows as u64 / 2, "{}", coreset.provenance.draws);
        let few: Vec<([f64; 2], f64)> = coreset
            .rows
            .positions
            .iter()
            .zip(&coreset.weights)
            .map(|(row, weight)| (full[*row as usize].0, *weight))
            .collect();
        for (theta, truth) in thetas.iter().zip(&truth) {
            worst = worst.max((negative_log_likelihood(&few, *theta) - truth).abs() / truth);
        }
    }
    assert!(worst < epsilon, "{worst}");
    // The test can detect errors: the coreset is not exact.
    assert!(worst > 1e-3, "{worst}");
}
