//! Coresets of hierarchical models, from a table to the certificate, against dense normal approximations of all rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use rand_distr::{Distribution, StandardNormal};
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::file::{coreset_bytes, read_coreset, write_coreset};
use tithe::coreset::selection::Size;
use tithe::coreset::{Coreset, Method};
use tithe::data::points::Points;
use tithe::data::sink::Output;
use tithe::data::source::memory::Batches;
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, GroupFactor, Standardize};
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::model::{Gaussian, Posterior, Prior, Priors};

/// Rows of a model with an intercept, two slopes, and effects of the intercept and of the first slope by group.
struct Rows {
    x: Vec<[f64; 2]>,
    group: Vec<i64>,
    y: Vec<f64>,
}

fn rows(count: usize, groups: usize, sd: [f64; 2], seed: u64) -> Rows {
    let mut rng = Seed(seed).stream(Purpose::Generate, 0);
    let effects: Vec<[f64; 2]> = (0..groups)
        .map(|_| sd.map(|sd| sd * <StandardNormal as Distribution<f64>>::sample(&StandardNormal, &mut rng)))
        .collect();
    let mut rows = Rows { x: Vec::new(), group: Vec::new(), y: Vec::new() };
    for _ in 0..count {
        // Sizes of groups differ by a factor of about twenty.
        let g = (open_unit(&mut rng).powf(1.8) * groups as f64).ceil() as usize - 1;
        let x: [f64; 2] = [StandardNormal.sample(&mut rng), StandardNormal.sample(&mut rng)];
        let eta = -0.7 + 0.5 * x[0] - 0.4 * x[1] + effects[g][0] + effects[g][1] * x[0];
        rows.y.push(if open_unit(&mut rng) < 1.0 / (1.0 + (-eta).exp()) { 1.0 } else { 0.0 });
        rows.x.push(x);
        rows.group.push(g as i64);
    }
    rows
}

impl Rows {
    fn table(&self) -> Table {
        let column =
            |d: usize| Arc::new(Float64Array::from_iter_values(self.x.iter().map(|x| x[d]))) as ArrayRef;
        let group = Arc::new(Int64Array::from(self.group.clone())) as ArrayRef;
        let label = Arc::new(Float64Array::from(self.y.clone())) as ArrayRef;
        table([("x1", column(0)), ("x2", column(1)), ("g", group), ("y", label)])
    }
}

fn table<const N: usize>(columns: [(&str, ArrayRef); N]) -> Table {
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut source = Batches::new(batch.schema(), vec![batch]).expect("a batch");
    source.read_as_text("g").expect("a column g");
    Table::new(Box::new(source), &Roles { label: "y".into(), ..Roles::default() }).expect("a table")
}

fn factor(slopes: &[&str]) -> GroupFactor {
    GroupFactor {
        slopes: slopes.iter().map(|name| name.to_string()).collect(),
        ..GroupFactor::intercept("g")
    }
}

fn settings(factor: GroupFactor, size: Size) -> BuildSettings {
    let encoding = EncodingSettings {
        groups: vec![factor],
        standardize: Standardize::None,
        ..EncodingSettings::default()
    };
    BuildSettings { encoding, size, ..BuildSettings::default() }
}

fn built(table: Table, settings: &BuildSettings, threads: usize) -> Result<Coreset> {
    let engine = EngineSettings {
        threads: Some(threads),
        block_rows: Some(1000),
        missing: Missing::Drop,
        ..EngineSettings::default()
    };
    build_on(&LocalEngine::new(table, &engine, &Silent)?, settings).map(|built| built.coreset)
}

/// Rows as points whose effects are ordinary coefficients: first those of each group, then the fixed effects.
fn dense<'a>(
    rows: impl Iterator<Item = ([f64; 2], usize, f64, f64)> + 'a,
    groups: usize,
    width: usize,
) -> Points {
    let mut points = Points::new(groups * width + 3);
    for (x, group, y, weight) in rows {
        let sign = 2.0 * y - 1.0;
        let mut row = vec![0.0; groups * width + 3];
        let fixed = [1.0, x[0], x[1]];
        for i in 0..width {
            row[group * width + i] = sign * fixed[i];
        }
        (0..3).for_each(|i| row[groups * width + i] = sign * fixed[i]);
        points.push(&row, weight);
    }
    points
}

/// The normal approximation with effects of these standard deviations.
fn laplace(points: &Points, groups: usize, sd: &[f64]) -> Gaussian {
    let mut coefficients: Vec<Prior> = Vec::new();
    for _ in 0..groups {
        coefficients.extend(sd.iter().map(|scale| Prior::Normal { scale: *scale }));
    }
    coefficients.extend([Prior::Normal { scale: 2.0 }; 3]);
    Posterior::new(points, &Priors { coefficients }).expect("a posterior").laplace().expect("a mode")
}

/// The largest error of a mean in posterior standard deviations, and the largest `|ln|` of a ratio of standard deviations.
fn differences(a: &Gaussian, b: &Gaussian) -> (f64, f64) {
    (0..a.mean().len()).fold((0.0, 0.0), |(mean, ratio): (f64, f64), i| {
        let error = (a.mean()[i] - b.mean()[i]).abs() / b.sd(i);
        (mean.max(error), ratio.max((a.sd(i) / b.sd(i)).ln().abs()))
    })
}

fn coreset_rows(coreset: &Coreset) -> impl Iterator<Item = ([f64; 2], usize, f64, f64)> + '_ {
    let numbers = |c: usize| match &coreset.rows.segment.columns[c] {
        tithe::data::block::Column::Number(values) => values.to_vec(),
        tithe::data::block::Column::Text { codes, levels } => {
            codes.iter().map(|&code| levels[code as usize].parse().expect("a number")).collect()
        }
    };
    let columns = [numbers(0), numbers(1), numbers(2), numbers(3)];
    (0..coreset.weights.len()).map(move |n| {
        let [x1, x2, group, y] = [0, 1, 2, 3].map(|c| columns[c][n]);
        ([x1, x2], group as usize, y, coreset.weights[n])
    })
}

#[test]
fn the_coreset_has_the_posterior_of_all_rows_at_any_scale() {
    let groups = 25;
    let rows = rows(8000, groups, [0.8, 0.5], 1);
    for (slopes, width) in [(&[][..], 1), (&["x1"][..], 2)] {
        let coreset =
            built(rows.table(), &settings(factor(slopes), Size::Kl { target: 0.05 }), 2).expect("a coreset");
        let facts = coreset.provenance.hierarchical.as_ref().expect("facts");
        assert_eq!((facts.groups, facts.effects.len()), (groups, width));
        assert!(facts.kl() <= 0.05, "{facts:#?}");
        let total: f64 = coreset.weights.iter().sum();
        assert!(
            coreset.weights.len() < 1200 && (total / 8000.0 - 1.0).abs() < 0.1,
            "{}",
            coreset.weights.len()
        );
        let all = rows.x.iter().zip(&rows.group).zip(&rows.y).map(|((x, g), y)| (*x, *g as usize, *y, 1.0));
        let (full, few) = (dense(all, groups, width), dense(coreset_rows(&coreset), groups, width));
        for found in &facts.scales {
            let sd: Vec<f64> = (0..width).map(|i| found.scale * facts.covariance.sd(i)).collect();
            let (mean, ratio) = differences(&laplace(&few, groups, &sd), &laplace(&full, groups, &sd));
            // A KL of at most 0.05 bounds the error of a mean by √0.1 sd. The certificate's own is one Newton step from exact.
            assert!(
                mean < 0.2 && ratio < 0.2,
                "{width} effects, scale {}: {mean} sd, ratio {ratio}",
                found.scale
            );
            assert!(
                width > 1 || (mean - found.mean_error).abs() < 0.01,
                "{mean} sd, not {}",
                found.mean_error
            );
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes_and_a_file_gives_the_same_coreset() {
    let rows = rows(5000, 12, [0.8, 0.5], 2);
    let settings = settings(factor(&["x1"]), Size::Kl { target: 0.05 });
    let by = |threads| built(rows.table(), &settings, threads).expect("a coreset");
    let coreset = by(1);
    assert!(coreset_bytes(&coreset).unwrap() == coreset_bytes(&by(3)).unwrap());
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("coreset.parquet");
    write_coreset(&coreset, Output::create(&path).expect("a file")).expect("written");
    let again = read_coreset(&path).expect("read");
    assert_eq!((&again.encoding, &again.weights), (&coreset.encoding, &coreset.weights));
    assert_eq!(again.provenance.hierarchical, coreset.provenance.hierarchical);
}

#[test]
fn a_size_as_large_as_the_data_keeps_all_rows() {
    let rows = rows(300, 5, [0.8, 0.5], 3);
    let coreset = built(rows.table(), &settings(factor(&[]), Size::Rows(300)), 1).expect("a coreset");
    assert!(coreset.provenance.exact && coreset.weights == vec![1.0; 300]);
    let error =
        built(rows.table(), &settings(factor(&[]), Size::Rows(6)), 1).expect_err("too few").to_string();
    assert!(error.contains("6 rows are too few for 5 groups"), "{error}");
}

#[test]
fn groups_of_one_row_and_of_one_class_have_a_coreset() {
    let mut rows = rows(3000, 8, [0.5, 0.5], 4);
    for extra in 0..400 {
        rows.x.push([extra as f64 / 200.0 - 1.0, 0.3]);
        // One group of one class, and a hundred groups of one row.
        rows.group.push(if extra < 300 { 500 } else { 600 + extra });
        rows.y.push(if extra < 300 { 1.0 } else { (extra % 2) as f64 });
    }
    let coreset =
        built(rows.table(), &settings(factor(&[]), Size::Kl { target: 0.05 }), 2).expect("a coreset");
    let facts = coreset.provenance.hierarchical.as_ref().expect("facts");
    assert_eq!(facts.groups, 109);
    assert!(facts.kl() <= 0.05);
}

#[test]
fn wrong_groups_are_reported_with_their_column() {
    let rows = rows(2000, 6, [0.5, 0.5], 5);
    let with_groups = |group: Vec<Option<String>>| {
        let x: Vec<f64> = rows.x.iter().map(|x| x[0]).collect();
        let within: Vec<f64> = group.iter().map(|g| g.as_ref().map_or(0, String::len) as f64).collect();
        table([
            ("x", Arc::new(Float64Array::from(x)) as ArrayRef),
            ("within", Arc::new(Float64Array::from(within)) as ArrayRef),
            ("g", Arc::new(StringArray::from(group)) as ArrayRef),
            ("y", Arc::new(Float64Array::from(rows.y.clone())) as ArrayRef),
        ])
    };
    let usual = || settings(factor(&[]), Size::Kl { target: 0.05 });
    let failed =
        |table: Table, settings: BuildSettings| built(table, &settings, 1).expect_err("an error").to_string();
    let one = failed(with_groups(vec![Some("only".to_string()); 2000]), usual());
    assert!(one.contains("'g'") && one.contains("only one group, 'only'"), "{one}");
    // The length of its name is the same in every row of a group.
    let named: Vec<Option<String>> = rows.group.iter().map(|g| Some("a".repeat(1 + *g as usize))).collect();
    let constant =
        failed(with_groups(named.clone()), settings(factor(&["within"]), Size::Kl { target: 0.05 }));
    assert!(
        constant.contains("'within'") && constant.contains("constant within every group of 'g'"),
        "{constant}"
    );
    for method in [Method::Uniform, Method::Sensitivity] {
        let other =
            failed(with_groups(named.clone()), BuildSettings { method, size: Size::Rows(100), ..usual() });
        assert!(other.contains("does not support models with groups"), "{other}");
    }
    let unknown = failed(with_groups(named.clone()), settings(factor(&["z"]), Size::Kl { target: 0.05 }));
    assert!(unknown.contains("no feature 'z'"), "{unknown}");
    // Rows without a group are dropped, or an error, like other missing values.
    let mut missing = named;
    missing[7] = None;
    let coreset = built(with_groups(missing), &usual(), 1).expect("a coreset");
    assert_eq!(coreset.provenance.rows_dropped, 1);
}

#[test]
fn more_groups_than_the_limit_are_an_error_that_names_the_column() {
    let count = 100_001;
    let numbers =
        |f: fn(usize) -> f64| Arc::new(Float64Array::from_iter_values((0..count).map(f))) as ArrayRef;
    let group = Arc::new(Int64Array::from_iter_values(0..count as i64)) as ArrayRef;
    let table = table([("x", numbers(|n| (n % 7) as f64)), ("g", group), ("y", numbers(|n| (n % 2) as f64))]);
    let error =
        built(table, &settings(factor(&[]), Size::Kl { target: 0.05 }), 2).expect_err("too many").to_string();
    assert!(error.contains("'g'") && error.contains("more than 100000 groups"), "{error}");
}
