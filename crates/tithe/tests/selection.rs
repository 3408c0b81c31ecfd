//! Selection and exact collapse from end to end, against plain computations.

use std::collections::HashMap;

use proptest::prelude::*;
use tithe::base::progress::Silent;
use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::coreset::{Coreset, Method};
use tithe::data::source::memory::Columns;
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, Standardize};
use tithe::engine::{EngineSettings, LocalEngine};

fn build(
    columns: &[(&str, &[f64])],
    weight: Option<&str>,
    block_rows: usize,
    threads: usize,
    settings: BuildSettings,
) -> Coreset {
    let columns = columns.iter().map(|(name, values)| (name.to_string(), values.to_vec())).collect();
    let roles = Roles { label: "y".into(), weight: weight.map(str::to_string), ..Roles::default() };
    let table = Table::new(Box::new(Columns::new(columns).expect("columns")), &roles).expect("a table");
    let engine_settings =
        EngineSettings { threads: Some(threads), block_rows: Some(block_rows), ..EngineSettings::default() };
    let engine = LocalEngine::new(table, &engine_settings, &Silent).expect("an engine");
    let encoding =
        EncodingSettings { intercept: false, standardize: Standardize::None, ..EncodingSettings::default() };
    build_on(&engine, &BuildSettings { encoding, ..settings }).expect("a coreset").coreset
}

/// The shares of the lemma for one cluster:
/// `s_n = w_n / (w_n + (W − w_n) exp(−R ‖μ^(−n) − z_n‖))`, with the mean recomputed without each row.
fn lemmas_shares(z: &[[f64; 2]], w: &[f64], radius: f64) -> Vec<f64> {
    let share = |n: usize| {
        let others: Vec<usize> = (0..w.len()).filter(|&m| m != n).collect();
        let mass: f64 = others.iter().map(|&m| w[m]).sum();
        let mean = |d: usize| others.iter().map(|&m| w[m] * z[m][d]).sum::<f64>() / mass;
        let distance = (mean(0) - z[n][0]).hypot(mean(1) - z[n][1]);
        w[n] / (w[n] + mass * (-radius * distance).exp())
    };
    (0..w.len()).map(share).collect()
}

/// With blocks of many rows whose last tile is incomplete.
#[test]
fn the_mean_bound_is_the_lemmas_with_weights_and_without() {
    let (rows, radius) = (300, 1.0);
    let mut rng = Seed(8).stream(Purpose::Generate, 0);
    let mut column = |scale: f64| (0..rows).map(|_| scale * open_unit(&mut rng)).collect::<Vec<f64>>();
    let (a, b, w) = (column(2.0), column(3.0), column(4.0));
    let y: Vec<f64> = (0..rows).map(|n| if n % 3 == 0 { 1.0 } else { -1.0 }).collect();
    let z: Vec<[f64; 2]> = (0..rows).map(|n| [y[n] * a[n], y[n] * b[n]]).collect();
    let columns: [(&str, &[f64]); 4] = [("a", &a), ("b", &b), ("y", &y), ("w", &w)];
    for (columns, weight, w) in [(&columns[..], Some("w"), &w), (&columns[..3], None, &vec![1.0; rows])] {
        let settings = BuildSettings {
            method: Method::Sensitivity,
            size: Size::Rows(50),
            clusters: 1,
            radius: Radius::Fixed(radius),
            ..BuildSettings::default()
        };
        let coreset = build(columns, weight, rows, 2, settings);
        let bound = coreset.provenance.sensitivity.expect("sensitivities").mean_bound.expect("not exact");
        let total: f64 = lemmas_shares(&z, w, radius).iter().sum();
        assert!((bound - total).abs() < 1e-10 * total, "{bound} against {total}");
    }
}

/// With one cluster the lemma's bound does not depend on the seed, so selections with many seeds can be added up.
#[test]
fn rows_are_selected_in_proportion_to_the_lemmas_bound() {
    let (rows, draws, seeds, radius) = (60, 50, 400, 1.0);
    let mut rng = Seed(9).stream(Purpose::Generate, 0);
    let mut column = |scale: f64| (0..rows).map(|_| scale * open_unit(&mut rng)).collect::<Vec<f64>>();
    let (a, b, w) = (column(2.0), column(3.0), column(4.0));
    let y: Vec<f64> = (0..rows).map(|n| if n % 3 == 0 { 1.0 } else { -1.0 }).collect();
    let z: Vec<[f64; 2]> = (0..rows).map(|n| [y[n] * a[n], y[n] * b[n]]).collect();
    let shares = lemmas_shares(&z, &w, radius);
    let total: f64 = shares.iter().sum();

    let mut counts = vec![0.0; rows];
    for seed in 0..seeds {
        let settings = BuildSettings {
            method: Method::Sensitivity,
            size: Size::Rows(draws),
            clusters: 1,
            radius: Radius::Fixed(radius),
            seed: Seed(seed),
            ..BuildSettings::default()
        };
        let columns: [(&str, &[f64]); 4] = [("a", &a), ("b", &b), ("w", &w), ("y", &y)];
        let coreset = build(&columns, Some("w"), 16, 1, settings);
        let bound = coreset.provenance.sensitivity.expect("sensitivities").mean_bound.expect("not exact");
        assert!((bound - total).abs() < 1e-10 * total);
        for (row, weight) in coreset.rows.positions.iter().zip(&coreset.weights) {
            // γ_n = K_n w_n / (p_n M), so the weight determines K_n, which must be a whole number.
            let n = *row as usize;
            let count = weight * (shares[n] / total) * draws as f64 / w[n];
            assert!((count - count.round()).abs() < 1e-9 && count > 0.5, "{count}");
            counts[n] += count.round();
        }
    }
    let all = (draws * seeds as usize) as f64;
    assert_eq!(counts.iter().sum::<f64>(), all);
    // χ² with 59 degrees of freedom exceeds 108.6 with probability 1e-4 (seeds are fixed).
    let chi: f64 =
        counts.iter().zip(&shares).map(|(k, s)| (k - all * s / total).powi(2) / (all * s / total)).sum();
    assert!(chi < 108.6, "{chi}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Rows with few distinct values collapse to the entries of a map by value; −0 equals 0, and (x, y) equals (−x, −y).
    #[test]
    fn distinct_rows_are_what_a_map_finds(
        rows in prop::collection::vec(
            (prop::sample::select(vec![-1.0, -0.0, 0.0, 1.0]), 0u8..2, prop::bool::ANY, (1u32..4).prop_map(f64::from)),
            20..300,
        ),
        block_rows in 1usize..100,
        threads in 1usize..4,
    ) {
        let mut y: Vec<f64> = rows.iter().map(|row| if row.2 { 1.0 } else { -1.0 }).collect();
        (y[0], y[1]) = (1.0, -1.0);
        let a: Vec<f64> = rows.iter().map(|row| row.0).collect();
        let b: Vec<f64> = rows.iter().map(|row| f64::from(row.1)).collect();
        let w: Vec<f64> = rows.iter().map(|row| row.3).collect();
        let mut expected: HashMap<(i8, i8), (u64, f64)> = HashMap::new();
        for n in 0..rows.len() {
            let entry = expected.entry(((y[n] * a[n]) as i8, (y[n] * b[n]) as i8)).or_insert((n as u64, 0.0));
            entry.1 += w[n];
        }
        prop_assume!(expected.len() > 1);
        let mut expected: Vec<(u64, f64)> = expected.into_values().collect();
        expected.sort_by_key(|(row, _)| *row);

        let columns: [(&str, &[f64]); 4] = [("a", &a), ("b", &b), ("w", &w), ("y", &y)];
        let settings = BuildSettings { size: Size::Rows(expected.len()), ..BuildSettings::default() };
        let coreset = build(&columns, Some("w"), block_rows, threads, settings.clone());
        prop_assert!(coreset.provenance.exact);
        let found: Vec<(u64, f64)> =
            coreset.rows.positions.iter().copied().zip(coreset.weights.iter().copied()).collect();
        prop_assert_eq!(found, expected.clone());

        // With one row less it is no longer exact.
        let fewer = BuildSettings { size: Size::Rows(expected.len() - 1), ..settings };
        prop_assert!(!build(&columns, Some("w"), block_rows, threads, fewer).provenance.exact);
    }
}
