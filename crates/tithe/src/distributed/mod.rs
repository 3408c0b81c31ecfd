//! The engine for data on many machines, such as a Spark cluster: it sends a pass to every partition and merges the
//! states that come back.
//!
//! A [`Cluster`] runs the tasks: Spark, or anything else that can pass a partition's rows to a function. Tasks and outcomes
//! are bytes to it. An outcome depends only on the task and the partition, so a task that is retried, or run twice at the
//! same time, gives the same bytes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Help, Result};
use crate::base::progress::{Event, Observer, Silent};
use crate::coreset::calibration::candidates::{GroupingAndEvaluating, Pooling};
use crate::coreset::hierarchical::pool::PoolingGroups;
use crate::coreset::kmeans::Grouping;
use crate::coreset::selection::{Keeping, Selecting};
use crate::data::block::PROVISIONAL;
use crate::data::source::Source;
use crate::data::source::partition::Partition;
use crate::data::table::{Roles, Table};
use crate::encoding::full_data::Recognising;
use crate::encoding::survey::Survey;
use crate::encoding::{ColumnMoments, LearningTerms};
use crate::engine::pass::{Pass, Watching};
use crate::engine::{Engine, EngineSettings, LocalEngine, Missing, default_block_rows};
use crate::mode::evaluation::EvaluatingCurvature;
use crate::mode::grouped_evaluation::EvaluatingGroups;
use crate::mode::values::Evaluating;
use crate::results::check::Checking;
use crate::results::compare::Scoring;
use crate::results::fit::Gathering;
use crate::results::fit_grouped::GatheringGroups;
use crate::results::group_effects::EvaluatingGroupDraws;

/// A cluster of machines that runs tasks on the partitions of a table.
pub trait Cluster: Sync {
    /// Runs a task on every partition with [`do_task`] and returns the outcomes in any order. If there are many, some may
    /// have been joined with [`join_outcomes`]: always the same ones, so that sums are added in the same order. `name` is
    /// the label of the pass, to be shown to the user.
    fn run(&self, name: &str, task: &[u8]) -> Result<Vec<Vec<u8>>>;
}

/// A pass as it is sent to the partitions.
#[derive(Serialize, Deserialize)]
struct Task {
    version: String,
    /// [`Pass::ID`].
    id: String,
    #[serde(with = "serde_bytes")]
    pass: Vec<u8>,
    columns: Columns,
    missing: Missing,
    block_rows: usize,
    /// The number of rows of each partition, once that is known.
    sizes: Option<Vec<(u64, u64)>>,
}

/// The columns that the pass reads, and their roles.
#[derive(Clone, Serialize, Deserialize)]
struct Columns {
    features: Vec<String>,
    label: String,
    weight: Option<String>,
    text: Vec<String>,
}

/// The state of some partitions, and the number and size of each.
#[derive(Serialize, Deserialize)]
struct Outcome<S> {
    sizes: Vec<(u64, u64)>,
    state: Option<S>,
}

/// Runs passes on a cluster.
pub struct ClusterEngine<'a, C> {
    cluster: &'a C,
    table: Table,
    missing: Missing,
    block_rows: usize,
    passes: AtomicUsize,
    sizes: OnceLock<Vec<(u64, u64)>>,
    observer: &'a dyn Observer,
}

impl<'a, C: Cluster> ClusterEngine<'a, C> {
    /// An engine for a table whose rows are elsewhere; `block_rows` as for the
    /// [local engine](crate::engine::EngineSettings::block_rows).
    pub fn new(
        cluster: &'a C,
        table: Table,
        missing: Missing,
        block_rows: Option<usize>,
        observer: &'a dyn Observer,
    ) -> Result<ClusterEngine<'a, C>> {
        // Finds unusable columns before anything is sent.
        table.source().scan(table.positions())?;
        if table.source().is_sparse() {
            let what = "the number of features is unknown if LIBSVM files are read separately";
            let help = "convert them to Parquet first, or read them on one machine";
            return Err(cluster_error(what.to_string(), Some(help.into())));
        }
        let block_rows = block_rows.unwrap_or_else(|| default_block_rows(table.fields().len()));
        let (passes, sizes) = (AtomicUsize::new(0), OnceLock::new());
        Ok(ClusterEngine { cluster, table, missing, block_rows, passes, sizes, observer })
    }

    fn task<P: Pass>(&self, pass: &P) -> Result<Vec<u8>> {
        pack(&Task {
            version: VERSION.to_string(),
            id: P::ID.to_string(),
            pass: pack(pass)?,
            columns: Columns {
                features: self.table.features().iter().map(|field| field.name.clone()).collect(),
                label: self.table.label().name.clone(),
                weight: self.table.weight().map(|field| field.name.clone()),
                text: self.table.columns_of_text(),
            },
            missing: self.missing,
            block_rows: self.block_rows,
            sizes: self.sizes.get().cloned(),
        })
    }

    /// Checks that the partitions have not changed. After the first pass, records their sizes and replaces provisional row
    /// positions by final ones.
    fn place<P: Pass>(&self, pass: &P, outcome: Outcome<P::State>) -> Result<Option<P::State>> {
        let mut state = outcome.state;
        match self.sizes.get() {
            Some(known) => same_sizes(known, &outcome.sizes)?,
            None => {
                if let Some(state) = &mut state {
                    pass.relocate(state, &|provisional| {
                        let number = provisional >> PROVISIONAL;
                        rows_ahead(&outcome.sizes, number) + provisional - (number << PROVISIONAL)
                    });
                }
                let _ = self.sizes.set(outcome.sizes);
            }
        }
        Ok(state)
    }
}

impl<C: Cluster> Engine for ClusterEngine<'_, C> {
    fn table(&self) -> &Table {
        &self.table
    }

    fn run<P: Pass>(&self, pass: &P) -> Result<Option<P::State>> {
        let rows = self.sizes.get().map(|sizes| total(sizes));
        if self.observer.cancelled() {
            return Err(ErrorKind::Cancelled.into());
        }
        self.observer.event(Event::PassStarted { name: P::LABEL, rows });
        self.passes.fetch_add(1, Ordering::Relaxed);
        let outcomes = self.cluster.run(P::LABEL, &self.task(pass)?)?;
        let outcome = join(pass, &outcomes)?;
        self.observer.event(Event::RowsDone(total(&outcome.sizes)));
        self.observer.event(Event::PassFinished);
        self.place(pass, outcome)
    }

    fn missing(&self) -> Missing {
        self.missing
    }

    fn passes(&self) -> usize {
        self.passes.load(Ordering::Relaxed)
    }

    fn rows_may_change(&self) -> bool {
        true
    }

    fn observer(&self) -> &dyn Observer {
        self.observer
    }
}

/// Runs a task on one partition. `open` opens its rows; its argument is the columns to be read as text.
pub fn do_task(
    task: &[u8],
    partition: u64,
    open: impl FnOnce(&[String]) -> Result<Box<dyn Source>>,
) -> Result<Vec<u8>> {
    struct OnPartition<F> {
        partition: u64,
        open: F,
    }
    impl<F: FnOnce(&[String]) -> Result<Box<dyn Source>>> Job for OnPartition<F> {
        fn with<P: Pass>(self, task: Task, pass: P) -> Result<Vec<u8>> {
            let rows = (self.open)(&task.columns.text)?;
            let first_row = match &task.sizes {
                Some(sizes) => rows_ahead(sizes, self.partition),
                None => self.partition << PROVISIONAL,
            };
            let source = Box::new(Partition::new(rows, self.partition, first_row));
            let roles = Roles {
                features: Some(task.columns.features),
                label: task.columns.label,
                weight: task.columns.weight,
                ..Roles::default()
            };
            // A task runs on one core, and reads its rows once.
            let settings = EngineSettings {
                threads: Some(1),
                memory: 0,
                missing: task.missing,
                block_rows: Some(task.block_rows),
            };
            let engine = LocalEngine::new(Table::new(source, &roles)?, &settings, &Silent)?;
            let state = engine.run(&pass)?;
            pack(&Outcome { sizes: vec![(self.partition, engine.rows_read())], state })
        }
    }
    let task: Task = unpack(task)?;
    if task.version != VERSION {
        return Err(other_version(&format!("the driver has {} and a worker {VERSION}", task.version)));
    }
    with_pass(task, OnPartition { partition, open })
}

/// The outcome of a partition without rows, which need not have any columns.
pub fn empty_outcome(partition: u64) -> Result<Vec<u8>> {
    pack(&Outcome::<()> { sizes: vec![(partition, 0)], state: None })
}

/// Joins several outcomes of one task.
pub fn join_outcomes(task: &[u8], outcomes: &[Vec<u8>]) -> Result<Vec<u8>> {
    struct Joining<'a>(&'a [Vec<u8>]);
    impl Job for Joining<'_> {
        fn with<P: Pass>(self, _task: Task, pass: P) -> Result<Vec<u8>> {
            pack(&join(&pass, self.0)?)
        }
    }
    with_pass(unpack(task)?, Joining(outcomes))
}

/// Something to do with a pass of any type.
trait Job {
    fn with<P: Pass>(self, task: Task, pass: P) -> Result<Vec<u8>>;
}

/// Declares the passes that a cluster can run: the function that finds a task's pass by its identifier, and the list of
/// identifiers and types that a test checks.
macro_rules! passes {
    ($($pass:ty),* $(,)?) => {
        /// Does a job with the pass of a task.
        fn with_pass(task: Task, job: impl Job) -> Result<Vec<u8>> {
            match task.id.as_str() {
                $(<$pass as Pass>::ID => {
                    let pass: $pass = unpack(&task.pass)?;
                    job.with(task, pass)
                })*
                unknown => Err(other_version(&format!("there is no pass '{unknown}'"))),
            }
        }

        #[cfg(test)]
        const PASSES: &[(&str, &str)] = &[$((<$pass as Pass>::ID, stringify!($pass))),*];
    };
}

passes!(
    Survey,
    LearningTerms<'static>,
    ColumnMoments<'static>,
    Watching<Grouping<'static>>,
    Watching<GroupingAndEvaluating<'static>>,
    Watching<Selecting<'static>>,
    Watching<Keeping>,
    EvaluatingCurvature<'static>,
    Watching<Pooling<'static>>,
    EvaluatingGroups<'static>,
    Watching<PoolingGroups<'static>>,
    Recognising<'static>,
    Evaluating<'static>,
    Scoring<'static>,
    Checking<'static>,
    Gathering<'static>,
    GatheringGroups<'static>,
    EvaluatingGroupDraws<'static>,
);

/// Joins outcomes in the order of the partitions.
fn join<P: Pass>(pass: &P, outcomes: &[Vec<u8>]) -> Result<Outcome<P::State>> {
    let mut outcomes: Vec<Outcome<P::State>> =
        outcomes.iter().map(|outcome| unpack(outcome)).collect::<Result<_>>()?;
    outcomes.sort_by_key(|outcome| outcome.sizes.first().copied());
    let mut all = Outcome { sizes: Vec::new(), state: None };
    for outcome in outcomes {
        all.sizes.extend(outcome.sizes);
        match (&mut all.state, outcome.state) {
            (Some(state), Some(next)) => pass.merge(state, next),
            (empty @ None, next) => *empty = next,
            (Some(_), None) => {}
        }
    }
    match all.sizes.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        Some(pair) => Err(cluster_error(format!("partition {} was returned twice", pair[1].0), None)),
        None => Ok(all),
    }
}

fn total(sizes: &[(u64, u64)]) -> u64 {
    sizes.iter().map(|(_, rows)| rows).sum()
}

/// Number of rows in the partitions before `partition`.
fn rows_ahead(sizes: &[(u64, u64)], partition: u64) -> u64 {
    sizes.iter().take_while(|(number, _)| *number < partition).map(|(_, rows)| rows).sum()
}

fn same_sizes(then: &[(u64, u64)], now: &[(u64, u64)]) -> Result<()> {
    if then == now {
        return Ok(());
    }
    let change = match then.iter().zip(now).find(|(then, now)| then != now) {
        Some((then, now)) if then.0 == now.0 => {
            format!("partition {} had {} rows, and now has {}", then.0, then.1, now.1)
        }
        _ => format!("there were {} partitions, and now there are {}", then.len(), now.len()),
    };
    Err(ErrorKind::Changed { what: change }.into())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn other_version(what: &str) -> Error {
    let help = "install the same version of tithe on the driver and on all workers";
    cluster_error(format!("driver and workers run different versions: {what}"), Some(help.into()))
}

fn cluster_error(what: String, help: Option<Help>) -> Error {
    ErrorKind::Cluster { what, help }.into()
}

fn pack(value: &impl Serialize) -> Result<Vec<u8>> {
    rmp_serde::to_vec(value).map_err(|error| other_version(&error.to_string()))
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    rmp_serde::from_slice(bytes).map_err(|error| other_version(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The types that implement `Pass` in the sources, without their parameters.
    fn implemented(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                implemented(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                for line in text.lines().filter(|line| line.starts_with("impl")) {
                    if let Some((_, of)) = line.split_once(" Pass for ") {
                        found.insert(of.split(['<', ' ']).next().expect("a name").to_string());
                    }
                }
            }
        }
    }

    #[test]
    fn every_pass_is_listed_once() {
        let mut found = BTreeSet::new();
        implemented(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.remove("Watching"), "the wrapper of passes has another name: {found:?}");
        let listed = PASSES.iter().map(|(_, of)| {
            let of = of.replace(' ', "");
            let of = of.strip_prefix("Watching<").unwrap_or(&of);
            of.split(['<', '>']).next().expect("a name").to_string()
        });
        assert_eq!(listed.clone().count(), found.len());
        assert_eq!(listed.collect::<BTreeSet<_>>(), found, "add the pass to `passes!` above");
    }

    #[test]
    fn identifiers_are_unique() {
        let ids: BTreeSet<&str> = PASSES.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids.len(), PASSES.len(), "two passes have the same identifier: {PASSES:?}");
    }
}
