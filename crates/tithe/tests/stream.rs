//! The tree of a stream: its size, its accuracy, and the paper's bound on the composition of errors.

use arrow_schema::DataType;
use tithe::base::progress::{Event, Observer, Silent};
use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::coreset::build::BuildSettings;
use tithe::coreset::certify::{CertifySettings, certify};
use tithe::coreset::file::coreset_bytes;
use tithe::coreset::merge::merge;
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;
use tithe::coreset::{Coreset, Method};
use tithe::data::block::{Column, Field, Kind, Segment};
use tithe::data::generate::Recipe;
use tithe::data::points::Points;
use tithe::data::source::memory::Columns;
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, Standardize};
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::model::likelihood::Curvature;
use tithe::results::epsilon_search::largest_relative_error;
use tithe::stream::tree::{ReferencePoint, Rows, Tree, TreeSettings};
use tithe::stream::{Stream, StreamSettings};

type Table2 = Vec<(String, Vec<f64>)>;

fn roles() -> Roles {
    Roles { label: "y".into(), ..Roles::default() }
}

fn rows(columns: &Table2, range: std::ops::Range<usize>) -> Rows {
    let field =
        |name: &String| Field { name: name.clone(), kind: Kind::Number, data_type: DataType::Float64 };
    let values = columns.iter().map(|(_, column)| Column::Number(column[range.clone()].to_vec().into()));
    Rows {
        fields: columns.iter().map(|(name, _)| field(name)).collect(),
        segment: Segment { columns: values.collect(), len: range.len() },
        first_row: range.start as u64,
        roles: roles(),
        is_sparse: false,
    }
}

fn engine(columns: Table2) -> LocalEngine<'static> {
    let table = Table::new(Box::new(Columns::new(columns).expect("columns")), &roles()).expect("a table");
    LocalEngine::new(table, &EngineSettings::default(), &Silent).expect("an engine")
}

fn settings(method: Method, size: usize, seed: u64) -> BuildSettings {
    BuildSettings {
        method,
        size: Size::Rows(size),
        collapse: false,
        clusters: 4,
        seed: Seed(seed),
        encoding: EncodingSettings {
            intercept: false,
            standardize: Standardize::None,
            ..EncodingSettings::default()
        },
        ..BuildSettings::default()
    }
}

fn stream(columns: &Table2, block: usize, build: BuildSettings, reference: ReferencePoint) -> Coreset {
    let settings = TreeSettings { build, missing: Missing::Error, threads: Some(1), reference, fading: None };
    let mut tree = Tree::new(settings).expect("a tree");
    let rows_in_all = columns[0].1.len();
    for start in (0..rows_in_all).step_by(block) {
        let moments =
            tree.push(rows(columns, start..(start + block).min(rows_in_all)), &Silent).expect("taken in");
        assert_eq!(moments.len(), columns.len() - 1);
        let blocks = tree.blocks();
        let held = tree.levels().iter().flatten().count();
        assert_eq!(held as u32, blocks.count_ones(), "one coreset for every bit of {blocks}");
        assert!(held as u32 <= blocks.next_power_of_two().ilog2() + 1);
        for (level, coreset) in tree.levels().iter().enumerate() {
            assert_eq!(coreset.is_some(), blocks >> level & 1 == 1);
        }
    }
    tree.snapshot(None, &Silent).expect("a snapshot")
}

/// The last coreset of a calibrated stream is near the full data's posterior, nearer than with a pilot that is never updated; the
/// last one of the method `sensitivity` is far from it. Seeds are fixed, so the test cannot fail by chance.
#[test]
fn the_end_of_a_stream_is_near_the_full_posterior() {
    let columns: Table2 = Recipe::Mixture.data(Seed(0), 44_000).columns();
    let engine = engine(columns.clone());
    let kl = |coreset: &Coreset| {
        assert_eq!((coreset.provenance.rows, coreset.provenance.rows_read), (44_000, 44_000));
        let certified = certify(&engine, coreset, &CertifySettings::default()).expect("certified");
        assert!(certified.same_data);
        certified.certificate.normal.kl
    };
    for seed in 0..2 {
        let calibrated = settings(Method::Calibrated, 400, seed);
        let renewed = stream(&columns, 4_000, calibrated.clone(), ReferencePoint::Renewed);
        let composition = renewed.provenance.composition.clone().expect("how it was composed");
        assert_eq!((composition.parts, composition.depth), (11, 4));
        assert!(renewed.rows.len() <= 400 && renewed.rows.positions.windows(2).all(|pair| pair[0] < pair[1]));
        let fixed = stream(&columns, 4_000, calibrated, ReferencePoint::First);
        let plain =
            stream(&columns, 4_000, settings(Method::Sensitivity, 400, seed), ReferencePoint::Renewed);
        let [renewed, fixed, plain] = [&renewed, &fixed, &plain].map(kl);
        assert!(renewed < 0.01, "{renewed}");
        assert!(renewed < fixed, "{renewed} {fixed}");
        assert!(plain > 10.0, "{plain}");
    }
}

/// After 2ⁿ blocks the tree holds one coreset of the requested size: the snapshot must still compensate the residual of its steps.
#[test]
fn a_snapshot_of_one_coreset_compensates_its_residual() {
    for blocks in [2, 8] {
        let columns: Table2 = Recipe::Mixture.data(Seed(0), blocks * 4_000).columns();
        let calibrated = settings(Method::Calibrated, 400, 0);
        let coreset = stream(&columns, 4_000, calibrated, ReferencePoint::Renewed);
        let certified = certify(&engine(columns), &coreset, &CertifySettings::default()).expect("certified");
        assert!(certified.certificate.normal.kl < 0.003, "{blocks}: {}", certified.certificate.normal.kl);
    }
}

/// Coresets and residual together have the gradient and the Hessian of all rows: exactly after the first block, to second order
/// after later ones, even if the coresets alone have a very different Hessian.
#[test]
fn gradient_and_hessian_are_preserved() {
    let columns: Table2 = Recipe::Mixture.data(Seed(3), 16_000).columns();
    let mut tree = Tree::new(TreeSettings {
        build: settings(Method::Calibrated, 250, 3),
        missing: Missing::Error,
        threads: Some(1),
        reference: ReferencePoint::Renewed,
        fading: None,
    })
    .expect("a tree");
    let points = |range: std::ops::Range<usize>| {
        let z: Vec<Vec<f64>> = range
            .map(|row| {
                let sign = if columns[10].1[row] > 0.0 { 1.0 } else { -1.0 };
                columns[..10].iter().map(|(_, column)| sign * column[row]).collect()
            })
            .collect();
        Points::from_rows(10, z.iter().map(|z| (&z[..], 1.0)))
    };
    for (blocks, most) in (1..=8).zip([1e-9].into_iter().chain([0.1; 7])) {
        tree.push(rows(&columns, (blocks - 1) * 2_000..blocks * 2_000), &Silent).expect("taken in");
        let residual = tree.carried().expect("something is left").residual;
        let all = Curvature::of_points(&points(0..blocks * 2_000), &residual.theta);
        let mut held = Curvature::new(10);
        for coreset in tree.levels().iter().flatten() {
            held.merge(&Curvature::of_points(&coreset.points().expect("points"), &residual.theta));
        }
        let distance = |a: &Curvature| {
            let squares = (0..10).flat_map(|i| (0..=i).map(move |j| (i, j)));
            let square = |(i, j)| {
                ((a.entry(i, j) - all.entry(i, j)) / (all.entry(i, i) * all.entry(j, j)).sqrt()).powi(2)
            };
            squares.map(square).sum::<f64>().sqrt()
        };
        let without = distance(&held);
        held.merge(&residual.curvature);
        let with = distance(&held);
        assert!(with < most, "{blocks} blocks: {with}");
        assert!(blocks == 1 || without > 1.5 * with, "{blocks} blocks: {without} without, {with} with");
        // The gradient, in standard deviations: that of all rows is about 0 at their mode.
        for i in 0..10 {
            let off = (held.gradient[i] - all.gradient[i]) / all.entry(i, i).sqrt();
            assert!(off.abs() < 2.0 * most, "{blocks} blocks, coefficient {i}: {off}");
        }
    }
}

/// Eight levels of 40 rows each, of which one row has the other label: without that row the level would be separated, so every
/// step must keep it. (A race without leverages loses some on two of these three seeds: KL 80, 12 and 0.9.)
#[test]
fn every_step_keeps_rows_with_high_leverage() {
    let (rows, levels, each) = (64_000, 8, 40);
    let mut columns: Table2 = Recipe::Mixture.data(Seed(5), rows).columns();
    let (label, mut y) = columns.pop().expect("a label");
    for level in 0..levels {
        let members = (0..each).map(|at| at * (rows / each) + 11 + level);
        let mut rare = vec![0.0; rows];
        for (at, row) in members.enumerate() {
            rare[row] = 1.0;
            y[row] = if at == 5 + level { -1.0 } else { 1.0 };
        }
        columns.push((format!("rare{level}"), rare));
    }
    columns.push((label, y));
    let engine = engine(columns.clone());
    for seed in 0..3 {
        let end = stream(&columns, 16_000, settings(Method::Calibrated, 300, seed), ReferencePoint::Renewed);
        let certified = certify(&engine, &end, &CertifySettings::default()).expect("certified").certificate;
        assert!(
            certified.normal.kl < 0.4 && certified.normal.information.0 > 0.4,
            "seed {seed}: {certified:?}"
        );
    }
}

/// A push that fails does not change the tree.
#[test]
fn an_unusable_block_changes_nothing() {
    let mut columns: Table2 = Recipe::Mixture.data(Seed(1), 9_000).columns();
    columns[3].1[7_123] = f64::INFINITY;
    let settings = TreeSettings {
        build: settings(Method::Calibrated, 100, 1),
        missing: Missing::Error,
        threads: Some(1),
        reference: ReferencePoint::Renewed,
        fading: None,
    };
    let mut tree = Tree::new(settings).expect("a tree");
    for start in [0, 2_000, 4_000] {
        tree.push(rows(&columns, start..start + 2_000), &Silent).expect("taken in");
    }
    let weights = |tree: &Tree| -> Vec<Vec<f64>> {
        tree.levels().iter().flatten().map(|coreset| coreset.weights.clone()).collect()
    };
    let before = (tree.blocks(), weights(&tree));
    let error = tree.push(rows(&columns, 6_000..8_000), &Silent).expect_err("infinite").to_string();
    // The error gives the row as the stream counts it.
    assert!(error.contains("1 infinite, the first in row 7124"), "{error}");
    assert_eq!((tree.blocks(), weights(&tree)), before);
}

/// A stream in memory, packed and unpacked halfway, gives the same bytes as one with a state on disk; a clone is independent.
#[test]
fn a_stream_in_memory_equals_one_on_disk() {
    let columns: Table2 = Recipe::Mixture.data(Seed(2), 5_500).columns();
    let source = Columns::new(columns.clone()).expect("columns");
    let settings = StreamSettings {
        build: settings(Method::Calibrated, 100, 1),
        block: 1_000,
        warmup_rows: 1_000,
        ..StreamSettings::default()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut on_disk = Stream::open(folder.path(), &settings, Some(1)).expect("a state");
    on_disk.disable_automatic_saves();
    let mut in_memory = Stream::in_memory(&settings, Some(1)).expect("a stream");
    let mut before = None;
    for start in (0..5_500).step_by(1_100) {
        for stream in [&mut on_disk, &mut in_memory] {
            stream.take_columns(&source, &roles()).expect("its columns");
            stream.push(rows(&columns, start..start + 1_100).segment, &Silent).expect("taken in");
        }
        if start == 2_200 {
            let packed = in_memory.pack().expect("packed");
            in_memory = Stream::unpack(&packed, Some(1)).expect("unpacked");
            assert_eq!(in_memory.pack().expect("packed"), packed);
            before = Some(in_memory.clone());
        }
    }
    let bytes =
        |stream: &Stream| coreset_bytes(&stream.snapshot(&Silent).expect("a snapshot")).expect("bytes");
    assert_eq!(bytes(&in_memory), bytes(&on_disk));
    assert_eq!(before.expect("a clone").progress().rows, 3_300);
    // Nothing is written before the first save.
    let there = || std::fs::exists(folder.path().join("manifest.json")).expect("readable");
    assert!(!there());
    on_disk.save().expect("saved");
    assert!(there());
}

/// An observer that cancels.
struct Impatient;

impl Observer for Impatient {
    fn event(&self, _event: Event) {}

    fn cancelled(&self) -> bool {
        true
    }
}

/// A stream that stops in the middle of a block and resumes gives the same coreset as one that did not stop.
#[test]
fn a_stop_in_the_middle_of_a_block_loses_no_rows() {
    let columns: Table2 = Recipe::Mixture.data(Seed(2), 3_500).columns();
    let source = Columns::new(columns.clone()).expect("columns");
    for warmup_rows in [1_000, 1_700] {
        let build = settings(Method::Calibrated, 100, 1);
        let settings = StreamSettings { build, block: 1_000, warmup_rows, ..StreamSettings::default() };
        let bytes =
            |stream: &Stream| coreset_bytes(&stream.snapshot(&Silent).expect("a snapshot")).expect("bytes");
        let feed = |stream: &mut Stream, range, observer: &dyn Observer| {
            stream.take_columns(&source, &roles()).expect("its columns");
            stream.push(rows(&columns, range).segment, observer)
        };
        let mut whole = Stream::in_memory(&settings, Some(1)).expect("a stream");
        feed(&mut whole, 0..3_500, &Silent).expect("taken in");
        let folder = tempfile::tempdir().expect("a folder");
        let mut stopped = Stream::open(folder.path(), &settings, Some(1)).expect("a state");
        feed(&mut stopped, 0..2_300, &Impatient).expect("its rows are in");
        assert_eq!((stopped.progress().rows, stopped.progress().blocks), (2_300, 0));
        stopped.save().expect("saved");
        assert_eq!(stopped.saved().rows, 2_300);
        drop(stopped);
        let mut again = Stream::open(folder.path(), &settings, Some(1)).expect("the state");
        feed(&mut again, 2_300..3_500, &Silent).expect("taken in");
        assert_eq!(bytes(&again), bytes(&whole));
    }
}

/// A first block with a single class is an error: none of its rows are saved, and none are reported as saved.
#[test]
fn a_block_that_fails_is_not_saved() {
    let mut columns: Table2 = Recipe::Mixture.data(Seed(2), 1_500).columns();
    let label = columns.last_mut().expect("a label");
    assert_eq!(label.0, "y");
    label.1[..1_000].fill(1.0);
    let source = Columns::new(columns.clone()).expect("columns");
    let build = settings(Method::Calibrated, 100, 1);
    let settings = StreamSettings { build, block: 1_000, warmup_rows: 1_000, ..StreamSettings::default() };
    let folder = tempfile::tempdir().expect("a folder");
    let mut stream = Stream::open(folder.path(), &settings, Some(1)).expect("a state");
    stream.take_columns(&source, &roles()).expect("its columns");
    stream.push(rows(&columns, 0..1_000).segment, &Silent).expect_err("one class");
    stream.save().expect("nothing to save");
    assert_eq!(stream.saved().rows, 0);
    for refused in [
        stream.push(rows(&columns, 1_000..1_500).segment, &Silent).expect_err("broken"),
        stream.snapshot(&Silent).expect_err("broken"),
    ] {
        assert!(refused.to_string().contains("has a block that failed"), "{refused}");
    }
}

/// Observation 2 of the paper: after L steps the error is at most `(1+ε)^L − 1`. By the theorem a step fails with probability at
/// most δ = 0.01; its constant is conservative, so all 20 seeds must hold at every step.
#[test]
fn errors_compose_as_the_paper_says() {
    let (epsilon, leaves, each) = (0.4, 9, 2_000);
    let mut rng = Seed(3).stream(Purpose::Generate, 0);
    let mut columns: Table2 = ["a", "b", "y"].map(|name| (name.to_string(), Vec::new())).into();
    for _ in 0..leaves * each {
        columns[0].1.push(1.0 + 0.1 * (open_unit(&mut rng) - 0.5));
        columns[1].1.push(0.3 * (open_unit(&mut rng) - 0.5));
        columns[2].1.push(if open_unit(&mut rng) <= 0.4 { 1.0 } else { -1.0 });
    }
    let slice = |range: std::ops::Range<usize>| -> Table2 {
        columns.iter().map(|(name, values)| (name.clone(), values[range.clone()].to_vec())).collect()
    };
    let whole = engine(columns.clone());
    let mut worst = 0f64;
    for seed in 0..20 {
        let step = |salt: u64| BuildSettings {
            size: Size::Guarantee { epsilon, delta: 0.01, constant: 4.0 },
            radius: Radius::Fixed(0.5),
            ..settings(Method::Sensitivity, 1, 1_000 * seed + salt)
        };
        let parts: Vec<Coreset> = (0..leaves)
            .map(|leaf| {
                let engine = engine(slice(leaf * each..(leaf + 1) * each));
                tithe::coreset::build::build_on(&engine, &step(leaf as u64)).expect("a coreset").coreset
            })
            .collect();
        let join = |parts: &[Coreset], salt: u64| {
            let named: Vec<(String, Coreset)> =
                parts.iter().enumerate().map(|(at, part)| (at.to_string(), part.clone())).collect();
            merge(&named, &step(salt), Some(1), &Silent).expect("merged")
        };
        let thirds: Vec<Coreset> =
            parts.chunks(3).zip(100..).map(|(three, salt)| join(three, salt)).collect();
        let end = join(&thirds, 200);
        assert!(
            [&parts[..], &thirds[..], std::slice::from_ref(&end)]
                .concat()
                .iter()
                .all(|coreset| !coreset.provenance.exact)
        );
        let bound = end.provenance.composition.as_ref().and_then(|made| made.bound).expect("a bound");
        assert!((bound.epsilon - ((1.0 + epsilon).powi(3) - 1.0)).abs() < 1e-12, "{bound:?}");
        let found = largest_relative_error(&whole, &end, Seed(seed)).expect("a search").relative_error;
        assert!(found <= bound.epsilon, "{found} {bound:?}");
        worst = worst.max(found);
    }
    // The search detects errors.
    assert!(worst > 1e-3, "{worst}");
}
