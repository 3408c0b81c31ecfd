//! Algorithm 1 from end to end on the paper's synthetic data: exactness, unbiasedness, determinism.

use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::coreset::{Coreset, Method};
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Columns;
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, Standardize};
use tithe::engine::{EngineSettings, LocalEngine};

fn roles() -> Roles {
    Roles { label: "y".into(), ..Roles::default() }
}

fn plain_encoding() -> EncodingSettings {
    EncodingSettings { intercept: false, standardize: Standardize::None, ..EncodingSettings::default() }
}

fn source(recipe: Recipe, rows: usize) -> Box<Columns> {
    Box::new(Columns::new(recipe.data(Seed(7), rows).columns()).expect("columns"))
}

#[test]
fn binary5_is_its_distinct_rows_with_their_counts() {
    let rows = 1_000_000;
    let settings = BuildSettings { encoding: plain_encoding(), ..BuildSettings::default() };
    let coreset = build(source(Recipe::Binary5, rows), &roles(), &settings).expect("a coreset");
    assert!(coreset.provenance.exact);
    assert_eq!(coreset.rows.len(), 32);
    assert_eq!(coreset.weights.iter().sum::<f64>(), rows as f64);

    // Counted without the engine.
    let data = Recipe::Binary5.data(Seed(7), rows);
    let mut counts = std::collections::HashMap::new();
    for n in 0..rows {
        let key: Vec<i64> = data.x.iter().map(|x| x[n] as i64).chain([data.y[n] as i64]).collect();
        let entry = counts.entry(key).or_insert((0.0, n as u64));
        entry.0 += 1.0;
    }
    let columns: Vec<&[f64]> = coreset
        .rows
        .segment
        .columns
        .iter()
        .map(|column| match column {
            tithe::data::block::Column::Number(values) => &values[..],
            tithe::data::block::Column::Text { .. } => panic!("numbers expected"),
        })
        .collect();
    for m in 0..32 {
        let key: Vec<i64> = columns.iter().map(|column| column[m] as i64).collect();
        assert_eq!(counts[&key], (coreset.weights[m], coreset.rows.positions[m]));
    }
}

fn mixture(seed: u64, settings: &EngineSettings, size: usize, method: Method) -> Coreset {
    let table = Table::new(source(Recipe::Mixture, 30_000), &roles()).expect("a table");
    let engine = LocalEngine::new(table, settings, &Silent).expect("an engine");
    let settings =
        BuildSettings { method, size: Size::Rows(size), seed: Seed(seed), ..BuildSettings::default() };
    build_on(&engine, &settings).expect("a coreset").coreset
}

#[test]
fn the_same_seed_gives_the_same_rows_on_any_number_of_threads_and_any_memory() {
    let methods = [Method::Calibrated, Method::Sensitivity, Method::Uniform];
    for (method, block_rows) in methods.into_iter().flat_map(|method| [(method, 1 << 10), (method, 1 << 13)])
    {
        let small_blocks = EngineSettings { block_rows: Some(block_rows), ..EngineSettings::default() };
        let alone = EngineSettings { threads: Some(1), ..small_blocks.clone() };
        let reference = mixture(3, &alone, 200, method);
        for threads in [2, 3, 8] {
            for memory in [0, 1 << 20, 1 << 30] {
                let settings = EngineSettings { threads: Some(threads), memory, ..small_blocks.clone() };
                let other = mixture(3, &settings, 200, method);
                assert_eq!(reference.rows.positions, other.rows.positions);
                assert_eq!(reference.weights, other.weights);
                assert_eq!(reference.provenance, other.provenance);
            }
        }
        let other = mixture(4, &small_blocks, 200, method);
        assert_ne!(reference.rows.positions, other.rows.positions);
    }
}

#[test]
fn size_larger_than_the_data_keeps_it_whole() {
    for method in [Method::Sensitivity, Method::Uniform] {
        let settings = BuildSettings { method, size: Size::Rows(500), ..BuildSettings::default() };
        let coreset = build(source(Recipe::Mixture, 300), &roles(), &settings).expect("a coreset");
        assert!(coreset.provenance.exact);
        assert_eq!(coreset.rows.positions, (0..300).collect::<Vec<u64>>());
        assert_eq!(coreset.weights, vec![1.0; 300]);
    }
}

/// `Σ γ f` over 2,000 seeds has mean `Σ f` within 4 standard errors, for several f at once: with 5 functions
/// and 2 methods a correct program fails with probability below 10 · 6.4e-5 (seeds are fixed).
#[test]
fn weighted_sums_are_unbiased() {
    let rows = 3_000;
    let data = Recipe::Mixture.data(Seed(7), rows);
    let f = |n: usize| -> [f64; 5] {
        let s: f64 = (0..10).map(|d| data.x[d][n] * data.y[n] * (0.1 * d as f64 - 0.4)).sum();
        [
            1.0,
            data.y[n],
            (1.0 + (-s).exp()).ln(),
            data.x[2][n].powi(2),
            f64::from(u8::from(n.is_multiple_of(97))),
        ]
    };
    let truth = (0..rows).map(f).fold([0.0; 5], |sum, f| std::array::from_fn(|i| sum[i] + f[i]));
    for method in [Method::Sensitivity, Method::Uniform] {
        let seeds = 2_000;
        let (mut sum, mut squares) = ([0.0; 5], [0.0; 5]);
        let columns = Recipe::Mixture.data(Seed(7), rows).columns();
        for seed in 0..seeds {
            let table = Table::new(Box::new(Columns::new(columns.clone()).expect("columns")), &roles());
            let engine_settings =
                EngineSettings { threads: Some(1), block_rows: Some(1 << 10), ..EngineSettings::default() };
            let engine =
                LocalEngine::new(table.expect("a table"), &engine_settings, &Silent).expect("an engine");
            let settings = BuildSettings {
                method,
                size: Size::Rows(60),
                seed: Seed(seed),
                clusters: 2,
                radius: Radius::Fixed(1.0),
                encoding: plain_encoding(),
                ..BuildSettings::default()
            };
            let coreset = build_on(&engine, &settings).expect("a coreset").coreset;
            let mut estimate = [0.0; 5];
            for (position, weight) in coreset.rows.positions.iter().zip(&coreset.weights) {
                let f = f(*position as usize);
                (0..5).for_each(|i| estimate[i] += weight * f[i]);
            }
            for i in 0..5 {
                sum[i] += estimate[i];
                squares[i] += estimate[i].powi(2);
            }
        }
        for i in 0..5 {
            let n = seeds as f64;
            let mean = sum[i] / n;
            let error = ((squares[i] / n - mean * mean) / n).sqrt();
            assert!(
                (mean - truth[i]).abs() <= 4.0 * error + 1e-9 * truth[i].abs(),
                "{method:?}, f{i}: {mean} ± {error} against {}",
                truth[i]
            );
        }
    }
}
