//! The engine for data on many machines: separate partitions give the same result as one machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray};
use tithe::base::error::{ErrorKind, Result};
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::coreset::build::{BuildSettings, Built, build_on};
use tithe::coreset::file::coreset_bytes;
use tithe::coreset::selection::Size;
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Batches;
use tithe::data::source::partition::Passing;
use tithe::data::table::{Roles, Table};
use tithe::distributed::{Cluster, ClusterEngine, do_task, empty_outcome, join_outcomes};
use tithe::encoding::{EncodingSettings, GroupFactor};
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::results::fit::FitSettings;
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::verify::{VerifySettings, verify};

#[derive(Clone, Copy)]
enum Change {
    LosesARow,
    /// The first partition returns the rows of the second.
    IsAnother,
    IsReversed,
}

/// A cluster in this process. It runs each task twice and out of order, as a real one does when machines fail.
struct Here {
    partitions: Vec<RecordBatch>,
    joined: Option<usize>,
    runs: AtomicUsize,
    /// Changes the first partition from this run on.
    changes: Option<(usize, Change)>,
}

impl Here {
    fn new(partitions: Vec<RecordBatch>) -> Here {
        Here { partitions, joined: None, runs: AtomicUsize::new(0), changes: None }
    }

    fn one(&self, task: &[u8], number: usize, run: usize) -> Result<Vec<u8>> {
        let mut batch = self.partitions[number].clone();
        if batch.num_rows() == 0 {
            return empty_outcome(number as u64);
        }
        let change = self.changes.filter(|(from, _)| number == 0 && run >= *from).map(|(_, change)| change);
        match change {
            Some(Change::LosesARow) => batch = batch.slice(0, batch.num_rows() - 1),
            Some(Change::IsAnother) => batch = self.partitions[1].clone(),
            Some(Change::IsReversed) | None => {}
        }
        // Batches of a hundred rows, from which blocks are assembled.
        let mut pieces: Vec<_> = (0..batch.num_rows())
            .step_by(100)
            .map(|at| Ok(batch.slice(at, 100.min(batch.num_rows() - at))))
            .collect();
        if let Some(Change::IsReversed) = change {
            pieces.reverse();
        }
        do_task(task, number as u64, |text| {
            let mut rows = Passing::new(Box::new(RecordBatchIterator::new(pieces, batch.schema())))?;
            text.iter().try_for_each(|name| rows.read_as_text(name))?;
            Ok(Box::new(rows))
        })
    }
}

impl Cluster for Here {
    fn run(&self, _name: &str, task: &[u8]) -> Result<Vec<Vec<u8>>> {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let mut outcomes = Vec::new();
        for number in 0..self.partitions.len() {
            let outcome = self.one(task, number, run)?;
            assert_eq!(outcome, self.one(task, number, run)?, "a repeated task gives the same bytes");
            outcomes.push(outcome);
        }
        if let Some(size) = self.joined {
            outcomes = outcomes.chunks(size).map(|some| join_outcomes(task, some)).collect::<Result<_>>()?;
        }
        outcomes.reverse();
        Ok(outcomes)
    }
}

fn data(rows: usize) -> RecordBatch {
    let made = Recipe::Mixture.data(Seed(7), rows);
    let mut columns: Vec<(String, ArrayRef)> = vec![(
        "colour".to_string(),
        Arc::new(StringArray::from_iter_values((0..rows).map(|i| ["red", "green", "blue"][i * i % 7 % 3]))),
    )];
    for (i, values) in made.x.into_iter().enumerate() {
        columns.push((format!("x{i}"), Arc::new(Float64Array::from(values))));
    }
    columns.push(("y".to_string(), Arc::new(Float64Array::from(made.y))));
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn split(all: &RecordBatch, sizes: &[usize]) -> Vec<RecordBatch> {
    let mut start = 0;
    let parts = sizes.iter().map(|&size| {
        start += size;
        all.slice(start - size, size)
    });
    parts.collect()
}

fn table(all: &RecordBatch) -> Table {
    let batches = Batches::new(all.schema(), vec![all.clone()]).expect("batches");
    let roles = Roles { label: "y".to_string(), ..Roles::default() };
    Table::new(Box::new(batches), &roles).expect("a table")
}

fn settings(method: Method) -> BuildSettings {
    BuildSettings { method, size: Size::Rows(200), ..BuildSettings::default() }
}

fn built_here(here: &Here, all: &RecordBatch, block_rows: usize, method: Method) -> Result<Vec<u8>> {
    let engine = ClusterEngine::new(here, table(all), Missing::Error, Some(block_rows), &Silent)?;
    coreset_bytes(&build_on(&engine, &settings(method))?.coreset)
}

fn built_locally(all: &RecordBatch, block_rows: usize, method: Method) -> Vec<u8> {
    let engine = EngineSettings { block_rows: Some(block_rows), ..EngineSettings::default() };
    let engine = LocalEngine::new(table(all), &engine, &Silent).expect("an engine");
    let built = build_on(&engine, &settings(method)).expect("a coreset");
    coreset_bytes(&built.coreset).expect("bytes")
}

#[test]
fn partitions_of_one_block_give_the_bytes_of_one_machine() {
    let all = data(20_000);
    for method in [Method::Calibrated, Method::Sensitivity, Method::Uniform] {
        let here = Here::new(split(&all, &[4000; 5]));
        let bytes = built_here(&here, &all, 4000, method).expect("a coreset");
        assert!(bytes == built_locally(&all, 4000, method), "{method:?}");
    }
}

#[test]
fn models_with_groups_give_the_bytes_of_one_machine() {
    // Every group has rows in every partition.
    let all = data(6_000);
    let groups = vec![GroupFactor { slopes: vec!["x0".to_string()], ..GroupFactor::intercept("colour") }];
    let encoding = EncodingSettings { groups, ..EncodingSettings::default() };
    let settings = BuildSettings { encoding, size: Size::Kl { target: 0.05 }, ..BuildSettings::default() };
    let bytes = |built: Result<Built>| coreset_bytes(&built.expect("a coreset").coreset).expect("bytes");
    let engine = EngineSettings { block_rows: Some(2_000), ..EngineSettings::default() };
    let engine = LocalEngine::new(table(&all), &engine, &Silent).expect("an engine");
    let local = bytes(build_on(&engine, &settings));
    let here = Here::new(split(&all, &[2_000, 2_000, 2_000]));
    let cluster =
        ClusterEngine::new(&here, table(&all), Missing::Error, Some(2_000), &Silent).expect("an engine");
    assert!(bytes(build_on(&cluster, &settings)) == local);
}

#[test]
fn a_formula_gives_the_bytes_of_one_machine() {
    let all = data(6000);
    let formula = "y ~ . + bs(x0, df=4) + poly(x1, 2):x2 + colour:x3".to_string();
    let encoding = EncodingSettings { formula: Some(formula), ..EncodingSettings::default() };
    let settings = BuildSettings { encoding, ..settings(Method::Calibrated) };
    let here = Here::new(split(&all, &[1200; 5]));
    let cluster =
        ClusterEngine::new(&here, table(&all), Missing::Error, Some(1200), &Silent).expect("an engine");
    let local = EngineSettings { block_rows: Some(1200), ..EngineSettings::default() };
    let local = LocalEngine::new(table(&all), &local, &Silent).expect("an engine");
    let [ours, theirs] = [build_on(&cluster, &settings), build_on(&local, &settings)].map(|built| {
        let built = built.expect("a coreset");
        coreset_bytes(&built.coreset).expect("bytes")
    });
    assert!(ours == theirs);
}

#[test]
fn partitions_of_many_blocks_and_of_none_agree_with_one_machine() {
    let all = data(20_000);
    let here = Here::new(split(&all, &[0, 9500, 0, 500, 9999, 1, 0]));
    let engine =
        ClusterEngine::new(&here, table(&all), Missing::Error, Some(1000), &Silent).expect("an engine");
    let built = build_on(&engine, &settings(Method::Calibrated)).expect("a coreset").coreset;
    assert_eq!(built.provenance.rows, 20_000);
    let certificate = built.provenance.calibration.as_ref().expect("a certificate");
    assert!(certificate.certificate.normal.kl < 1e-3, "{}", certificate.certificate.normal.kl);

    // The values of each row are those of the data at its position.
    let x = all.column(3).as_any().downcast_ref::<Float64Array>().expect("numbers");
    let tithe::data::block::Column::Number(kept) = &built.rows.segment.columns[3] else { panic!("numbers") };
    for (position, value) in built.rows.positions.iter().zip(kept.iter()) {
        assert_eq!(x.value(*position as usize), *value);
    }

    // The fingerprint does not depend on the partitions.
    let fit = fit_coreset(&built, &FitSettings::default(), &Silent).expect("a fit");
    let other = Here::new(split(&all, &[15_000, 5000]));
    let engine = ClusterEngine::new(&other, table(&all), Missing::Error, None, &Silent).expect("an engine");
    let found = verify(&engine, &fit, &VerifySettings { draws: Some(50), force: false }).expect("a check");
    assert!(found.same_data && found.kl() < 0.01, "{}", found.kl());
}

#[test]
fn joined_outcomes_select_the_same_rows() {
    // Sums depend on the order of addition in their last digits; the selected rows do not.
    let all = data(6000);
    let sizes = [600; 10];
    let alone = Here::new(split(&all, &sizes));
    let joined = Here { joined: Some(3), ..Here::new(split(&all, &sizes)) };
    let rows = |here: &Here| {
        let engine =
            ClusterEngine::new(here, table(&all), Missing::Error, Some(600), &Silent).expect("an engine");
        [Method::Uniform, Method::Calibrated].map(|method| {
            let built = build_on(&engine, &settings(method)).expect("a coreset");
            built.coreset.rows.positions
        })
    };
    assert_eq!(rows(&alone), rows(&joined));
}

/// χ² of the rows chosen from each twentieth of the data, partitions against one machine, over many seeds: χ²(19) exceeds 54 with
/// probability 3e-5, and distinct rows vary less than that distribution supposes (fixed seeds).
#[test]
fn rows_are_selected_as_often_as_on_one_machine() {
    let all = data(2000);
    let chosen = |here: Option<&Here>| {
        let mut counts = [0.0f64; 20];
        for seed in 0..200 {
            let settings = BuildSettings { seed: Seed(seed), ..settings(Method::Sensitivity) };
            let built = match here {
                Some(here) => {
                    let engine = ClusterEngine::new(here, table(&all), Missing::Error, Some(300), &Silent);
                    build_on(&engine.expect("an engine"), &settings)
                }
                None => {
                    // Another seed, because the same one could select the same rows.
                    let settings = BuildSettings { seed: Seed(seed + 10_000), ..settings };
                    let engine = LocalEngine::new(table(&all), &EngineSettings::default(), &Silent);
                    build_on(&engine.expect("an engine"), &settings)
                }
            };
            for position in built.expect("a coreset").coreset.rows.positions {
                counts[position as usize / 100] += 1.0;
            }
        }
        counts
    };
    let here = Here::new(split(&all, &[1100, 0, 50, 850]));
    let (apart, together) = (chosen(Some(&here)), chosen(None));
    let chi: f64 = apart.iter().zip(together).map(|(a, b)| (a - b).powi(2) / (a + b)).sum();
    assert!(chi < 54.0, "chi squared {chi}: {apart:?} and {together:?}");
}

/// All rows kept, a size computed from a guarantee, and distinct rows with their counts.
#[test]
fn exact_coresets_and_guarantees_are_the_same_and_notice_other_rows() {
    let all = data(3000);
    let third = |i: usize| f64::from(u8::from(i.is_multiple_of(3)));
    let numbers = |of: &dyn Fn(usize) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values((0..3000).map(of)))
    };
    // Distinct rows occur with other frequencies in the second half than in the first.
    let few = RecordBatch::try_from_iter([
        ("x", numbers(&|i| (i * i % (4 + i / 1500)) as f64)),
        ("y", numbers(&third)),
    ])
    .expect("columns");
    let guarantee = Size::Guarantee { epsilon: 0.99, delta: 0.5, constant: 0.01 };
    for (rows, size, exact) in
        [(&all, Size::Rows(4000), true), (&all, guarantee, false), (&few, Size::Rows(100), true)]
    {
        for method in [Method::Sensitivity, Method::Calibrated, Method::Uniform] {
            let exact = exact && !(method == Method::Uniform && size == Size::Rows(100));
            if size == guarantee && method != Method::Sensitivity {
                continue;
            }
            let settings = BuildSettings { size, ..settings(method) };
            let built = |here: &Here| {
                let engine = ClusterEngine::new(here, table(rows), Missing::Error, Some(1500), &Silent)?;
                build_on(&engine, &settings).map(|built| built.coreset)
            };
            let here = Here::new(split(rows, &[1500, 1500]));
            let coreset = built(&here).expect("a coreset");
            assert_eq!(coreset.provenance.exact, exact, "{method:?} {size:?}");
            let local = EngineSettings { block_rows: Some(1500), ..EngineSettings::default() };
            let local = LocalEngine::new(table(rows), &local, &Silent).expect("an engine");
            let local = build_on(&local, &settings).expect("a coreset").coreset;
            let bytes = |coreset| coreset_bytes(coreset).expect("bytes");
            assert!(bytes(&coreset) == bytes(&local), "{method:?} {size:?}");
            for from in 1..here.runs.load(Ordering::Relaxed) {
                let changes = Some((from, Change::IsAnother));
                let error = built(&Here { changes, ..Here::new(split(rows, &[1500, 1500])) });
                let error = error.expect_err("other rows").to_string();
                assert!(
                    error.contains("the rows are not those that the encoding was learnt from"),
                    "{method:?} {size:?}: {error}"
                );
            }
        }
    }
}

#[test]
fn data_that_changes_between_passes_is_rejected() {
    let all = data(5000);
    let changed = |method, from, change| {
        let here = Here { changes: Some((from, change)), ..Here::new(split(&all, &[2500, 2500])) };
        let error = built_here(&here, &all, 1000, method).expect_err("other rows");
        assert!(matches!(error.kind(), ErrorKind::Changed { .. }), "{error}");
        assert!(error.help().is_some_and(|help| help.to_string().contains("persist")));
        error.to_string()
    };
    let lost = changed(Method::Calibrated, 2, Change::LosesARow);
    assert!(lost.contains("partition 0 had 2500 rows, and now has 2499"), "{lost}");
    let mut last = 0;
    for method in [Method::Uniform, Method::Sensitivity, Method::Calibrated] {
        let passes = Here::new(split(&all, &[2500, 2500]));
        built_here(&passes, &all, 1000, method).expect("a coreset");
        last = passes.runs.load(Ordering::Relaxed) - 1;
        for from in 1..=last {
            let others = changed(method, from, Change::IsAnother);
            assert!(others.contains("the rows are not those that the encoding was learnt from"), "{others}");
        }
    }
    // The same rows in another order are the same data.
    let here = Here { changes: Some((last, Change::IsReversed)), ..Here::new(split(&all, &[2500, 2500])) };
    let engine =
        ClusterEngine::new(&here, table(&all), Missing::Error, Some(1000), &Silent).expect("an engine");
    let built = build_on(&engine, &settings(Method::Calibrated)).expect("a coreset").coreset;
    let certificate = built.provenance.calibration.as_ref().expect("a certificate");
    assert!(certificate.certificate.normal.kl < 1e-3, "{}", certificate.certificate.normal.kl);
}
