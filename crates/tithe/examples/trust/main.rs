//! Certificates against the truth, which is NUTS on all rows: builds, merges and streams.
//!
//! `cargo run --release -p tithe --example trust [-- builds|merges|streams|priors|fewest…] [--seeds N] [--only NAME]`. The draws on
//! all rows take minutes, and are kept in the temporary directory.

mod data;
mod truth;
mod yardstick;

use std::ops::Range;

use arrow_schema::DataType;
use tithe::Verdict;
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on, build_part};
use tithe::coreset::merge::merge;
use tithe::coreset::selection::Size;
use tithe::coreset::{Coreset, Movement};
use tithe::data::block::{Column, Field, Kind, Segment};
use tithe::data::source::memory::Columns;
use tithe::data::table::{Roles, Table};
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::mcmc::findings::Trouble;
use tithe::model::PriorChoice;
use tithe::results::fit::FitSettings;
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::one_step::verify_and_correct;
use tithe::stream::StreamSettings;
use tithe::stream::tree::{ReferencePoint, Rows, Tree, TreeSettings};

use data::Named;
use truth::{Distance, Truth};

fn table_of(data: Named) -> Result<Table> {
    let roles = Roles { label: "y".into(), ..Roles::default() };
    Table::new(Box::new(Columns::new(data)?), &roles)
}

fn engine_of(data: Named) -> Result<LocalEngine<'static>> {
    LocalEngine::new(table_of(data)?, &EngineSettings::default(), &Silent)
}

/// The data of builds.
fn cases() -> [(&'static str, Named); 4] {
    [
        ("rare levels, 20,000 rows", data::rare_levels(20_000, 1)),
        ("nearly separated, 20,000 rows", data::nearly_separated(20_000, 1)),
        ("rare events, 60,000 rows", data::rare_events(60_000, 1)),
        (FRAUDS, data::frauds(FRAUD_ROWS, 1)),
    ]
}

const FRAUDS: &str = "frauds, 284,807 rows";
const FRAUD_ROWS: usize = 284_807;
const SHARDS: usize = 8;

/// One coreset compared with the truth.
struct Outcome {
    rows: usize,
    certified: Option<f64>,
    verdict: Option<Verdict>,
    movement: Option<Movement>,
    truth: Distance,
}

impl Outcome {
    fn of(coreset: &Coreset, truth: &Truth) -> Result<Outcome> {
        let provenance = &coreset.provenance;
        let composition = provenance.composition.as_ref();
        let certificate = provenance.calibration.as_ref().map(|facts| &facts.certificate);
        Ok(Outcome {
            rows: coreset.rows.len(),
            certified: match composition {
                Some(composition) => composition.kl,
                None => certificate.map(|certificate| certificate.kl()),
            },
            verdict: certificate.map(|certificate| certificate.verdict()).filter(|_| composition.is_none()),
            movement: composition.and_then(|composition| composition.movement),
            truth: truth.distance(coreset)?,
        })
    }

    fn is_outside(&self) -> bool {
        self.movement.is_some_and(|movement| movement.is_outside())
    }
}

/// The line of a table for coresets of one kind.
fn line(name: &str, asked: &str, outcomes: &[Outcome]) {
    let sorted = |figure: &dyn Fn(&Outcome) -> f64| -> Vec<f64> {
        let mut values: Vec<f64> = outcomes.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let median = |values: &[f64]| values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    let largest = |values: &[f64]| values.last().copied().unwrap_or(f64::NAN);
    let count = |is: &dyn Fn(&&Outcome) -> bool| outcomes.iter().filter(is).count();
    let kl = sorted(&|outcome| outcome.truth.kl);
    let is_measurable = |outcome: &&Outcome| (0.01..1.0).contains(&outcome.truth.kl);
    let is_within = |outcome: &&Outcome| {
        let ratio = outcome.certified.unwrap_or(f64::NAN) / outcome.truth.kl;
        is_measurable(outcome) && (0.5..=2.0).contains(&ratio)
    };
    let is_praised = |outcome: &&Outcome| outcome.verdict == Some(Verdict::Indistinguishable);
    let is_wrong = |outcome: &&Outcome| is_praised(outcome) && outcome.truth.mean_error > 0.1;
    let moved = match outcomes.iter().any(|outcome| outcome.movement.is_some()) {
        true => format!("{} of {}", count(&|outcome| outcome.is_outside()), outcomes.len()),
        false => "-".to_string(),
    };
    println!(
        "| {name} | {asked} | {:.0} | {:.1e} | {:.1e}, {:.1e} | {:.3} | {} of {} | {}, {} | {moved} |",
        median(&sorted(&|outcome| outcome.rows as f64)),
        median(&sorted(&|outcome| outcome.certified.unwrap_or(f64::NAN))),
        median(&kl),
        largest(&kl),
        largest(&sorted(&|outcome| outcome.truth.mean_error)),
        count(&is_within),
        count(&is_measurable),
        count(&is_praised),
        count(&is_wrong),
    );
}

fn heading() {
    println!(
        "| data | asked for | rows | KL certified, median | KL, median and largest | largest mean error, sd | within a factor of 2 | \
         called indistinguishable, of these wrong | outside the trust radius |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
}

fn in_words(size: Size) -> String {
    match size {
        Size::Rows(rows) => format!("M = {rows}"),
        Size::Kl { target } => format!("`--kl {target}`"),
        Size::Guarantee { .. } => "a guarantee".to_string(),
    }
}

fn builds(seeds: u64, only: Option<&str>) -> Result<()> {
    heading();
    for (name, data) in cases().into_iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only))) {
        let engine = engine_of(data)?;
        let truth = Truth::of(name, &engine, None)?;
        eprintln!("{name}: Laplace on all rows {:.2e} nats", truth.kl_of_laplace(&engine)?);
        let sizes = [200, 500, 1000, 2000].map(Size::Rows).into_iter().chain([Size::Kl { target: 0.01 }]);
        for size in sizes {
            let build = |seed| {
                let settings = BuildSettings { size, seed: Seed(seed), ..BuildSettings::default() };
                Outcome::of(&build_on(&engine, &settings)?.coreset, &truth)
            };
            line(name, &in_words(size), &(0..seeds).map(build).collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(())
}

/// Every eighth row.
fn shard(data: &Named, which: usize) -> Named {
    let part = |values: &[f64]| values.iter().skip(which).step_by(SHARDS).copied().collect();
    data.iter().map(|(name, values)| (name.clone(), part(values))).collect()
}

fn merges(seeds: u64) -> Result<()> {
    heading();
    let data = data::frauds(FRAUD_ROWS, 1);
    let truth = Truth::of(FRAUDS, &engine_of(data.clone())?, None)?;
    let engines: Vec<_> = (0..SHARDS).map(|which| engine_of(shard(&data, which))).collect::<Result<_>>()?;
    let sizes = [2000, 8000];
    let mut outcomes = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for seed in 0..seeds {
        let build = |(which, engine): (usize, &LocalEngine<'_>)| {
            let settings =
                BuildSettings { seed: Seed(seed * 100 + which as u64), ..BuildSettings::with_rows(1000) };
            Ok((format!("shard {which}"), build_on(engine, &settings)?.coreset))
        };
        let parts: Vec<(String, Coreset)> = engines.iter().enumerate().map(build).collect::<Result<_>>()?;
        let merged_to = |parts: &[(String, Coreset)], size| {
            let settings = BuildSettings { seed: Seed(seed), ..BuildSettings::with_rows(size) };
            merge(parts, &settings, None, &Silent)
        };
        let reference = merged_to(&parts, sizes[0])?;
        let rebuild = |(which, engine): (usize, &LocalEngine<'_>)| {
            let seed = Seed(seed * 100 + 50 + which as u64);
            let settings = BuildSettings { seed, ..BuildSettings::with_rows(1000) };
            Ok((format!("shard {which}"), build_part(engine, &settings, &reference)?.coreset))
        };
        let again: Vec<(String, Coreset)> = engines.iter().enumerate().map(rebuild).collect::<Result<_>>()?;
        let merges = [(&parts, sizes[0]), (&parts, sizes[1]), (&again, sizes[0]), (&again, sizes[1])];
        for ((parts, size), outcomes) in merges.into_iter().zip(&mut outcomes) {
            outcomes.push(Outcome::of(&merged_to(parts, size)?, &truth)?);
        }
    }
    let names =
        ["frauds, 8 shards of 1,000 rows", "the same, built again with the merged coreset as `--reference`"];
    for (at, outcomes) in outcomes.iter().enumerate() {
        line(names[at / 2], &format!("M = {}", sizes[at % 2]), outcomes);
    }
    Ok(())
}

fn stream(data: &Named, size: usize, seed: u64) -> Result<Coreset> {
    let block = StreamSettings::default().block;
    let settings = TreeSettings {
        build: BuildSettings { seed: Seed(seed), ..BuildSettings::with_rows(size) },
        missing: Missing::Error,
        threads: None,
        reference: ReferencePoint::Renewed,
        fading: None,
    };
    let mut tree = Tree::new(settings)?;
    let rows = data[0].1.len();
    let mut start = 0;
    while start + block <= rows {
        tree.push(rows_of(data, start..start + block), &Silent)?;
        start += block;
    }
    tree.snapshot((start < rows).then(|| rows_of(data, start..rows)), &Silent)
}

fn rows_of(data: &Named, range: Range<usize>) -> Rows {
    let field =
        |name: &String| Field { name: name.clone(), kind: Kind::Number, data_type: DataType::Float64 };
    let columns = data.iter().map(|(_, values)| Column::Number(values[range.clone()].to_vec().into()));
    Rows {
        fields: data.iter().map(|(name, _)| field(name)).collect(),
        segment: Segment { columns: columns.collect(), len: range.len() },
        first_row: range.start as u64,
        roles: Roles { label: "y".into(), ..Roles::default() },
        is_sparse: false,
    }
}

fn streams(seeds: u64, only: Option<&str>) -> Result<()> {
    heading();
    let cases: [(&str, Named); 2] =
        [(FRAUDS, data::frauds(FRAUD_ROWS, 1)), ("drifting, 1,000,000 rows", data::drifting(1_000_000, 1))];
    for (name, data) in cases.into_iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only))) {
        let truth = Truth::of(name, &engine_of(data.clone())?, None)?;
        for size in [500, 1000, 2000] {
            let outcomes = (0..seeds).map(|seed| Outcome::of(&stream(&data, size, seed)?, &truth));
            line(&format!("{name}, stream"), &format!("M = {size}"), &outcomes.collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(())
}

/// Coresets built for the default priors, fitted with others.
fn priors(seeds: u64) -> Result<()> {
    println!(
        "| data | prior | KL, median and largest | largest mean error, sd | the same after correction | warned of |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for (name, data) in cases().into_iter().take(3) {
        let engine = engine_of(data)?;
        for prior in PRIORS {
            let choice = PriorChoice { general: prior.parse()?, ..PriorChoice::default() };
            let truth = Truth::of(&format!("{name} {prior}"), &engine, Some(choice.clone()))?;
            let (mut kls, mut error, mut corrected_error, mut warned) = (Vec::new(), 0f64, 0f64, 0);
            for seed in 0..seeds {
                let settings = BuildSettings { seed: Seed(seed), ..BuildSettings::with_rows(1000) };
                let coreset = build_on(&engine, &settings)?.coreset;
                kls.push(truth.distance(&coreset)?.kl);
                let settings = FitSettings { priors: Some(choice.clone()), ..FitSettings::default() };
                let fit = fit_coreset(&coreset, &settings, &Silent)?;
                error = error.max(truth.mean_error_of(&fit));
                warned += usize::from(fit.findings.iter().any(|found| found.what == Trouble::PriorMovesMode));
                let (corrected, _) = verify_and_correct(&engine, fit, false)?;
                corrected_error = corrected_error.max(truth.mean_error_of(&corrected));
            }
            kls.sort_by(f64::total_cmp);
            println!(
                "| {name} | `{prior}` | {:.1e}, {:.1e} | {error:.3} | {corrected_error:.3} | {warned} of {seeds} |",
                kls[kls.len() / 2],
                kls[kls.len() - 1],
            );
        }
    }
    Ok(())
}

const PRIORS: [&str; 6] =
    ["normal:2", "normal:0.1", "normal:100", "cauchy:2.5", "laplace:1", "spike-slab:0.1:2:0.5"];

/// The rows that `--kl` takes, against those of a greedy search over all rows.
fn fewest(seeds: u64) -> Result<()> {
    println!(
        "| data | rows of a greedy search over all rows | rows of `--kl 0.01`, median and most | KL certified, largest |"
    );
    println!("| --- | ---: | ---: | ---: |");
    for (name, data) in [
        ("ten normal columns, 200,000 rows", data::ten_normals(200_000, 1)),
        ("flights, 50,000 rows", data::flights(50_000, 1)),
    ] {
        let engine = engine_of(data.clone())?;
        let greedy = yardstick::greedy_rows(&data, &engine, 0.01)?;
        let (mut rows, mut largest) = (Vec::new(), 0f64);
        for seed in 0..seeds {
            let size = Size::Kl { target: 0.01 };
            let settings = BuildSettings { size, seed: Seed(seed), ..BuildSettings::default() };
            let coreset = build_on(&engine, &settings)?.coreset;
            rows.push(coreset.rows.len());
            largest = largest.max(coreset.provenance.composed().kl.unwrap_or(f64::NAN));
        }
        rows.sort_unstable();
        println!(
            "| {name} | {greedy} | {}, {} | {largest:.2e} |",
            rows[rows.len() / 2],
            rows[rows.len() - 1]
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value_of = |name: &str| {
        arguments
            .iter()
            .position(|word| word == name)
            .and_then(|at| arguments.get(at + 1))
            .map(String::as_str)
    };
    let seeds: u64 = value_of("--seeds").and_then(|count| count.parse().ok()).unwrap_or(8);
    let only = value_of("--only");
    let parts = ["builds", "merges", "streams", "priors", "fewest"];
    let is_named = |part: &str| arguments.iter().any(|argument| argument == part);
    for part in parts.into_iter().filter(|part| is_named(part) || !parts.into_iter().any(is_named)) {
        match part {
            "builds" => builds(seeds, only)?,
            "merges" => merges(seeds)?,
            "streams" => streams(seeds, only)?,
            "priors" => priors(seeds)?,
            _ => fewest(seeds)?,
        }
    }
    Ok(())
}
