//! Certificates against the truth: builds against NUTS on all rows, merges and streams against all rows at draws.
//!
//! `cargo run --release -p tithe --example trust [-- builds|merges|streams|priors] [--seeds N]`

mod data;

use arrow_schema::DataType;
use tithe::Verdict;
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::certify::{CertifySettings, certify};
use tithe::coreset::merge::merge;
use tithe::coreset::selection::Size;
use tithe::coreset::{Coreset, Movement};
use tithe::data::block::{Column, Field, Kind, Segment};
use tithe::data::source::memory::Columns;
use tithe::data::table::{Roles, Table};
use tithe::encoding::EncodingSettings;
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::mcmc::Settings;
use tithe::mcmc::findings::Trouble;
use tithe::mode::values::log_likelihoods;
use tithe::model::{PriorChoice, likelihood};
use tithe::results::fit::{Fit, FitSettings, fit_data};
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::one_step::verify_and_correct;
use tithe::stream::tree::{ReferencePoint, Rows, Tree, TreeSettings};

use data::Named;

fn table_of(data: Named) -> Result<Table> {
    let roles = Roles { label: "y".into(), ..Roles::default() };
    Table::new(Box::new(Columns::new(data)?), &roles)
}

fn engine_of(data: Named) -> Result<LocalEngine<'static>> {
    LocalEngine::new(table_of(data)?, &EngineSettings::default(), &Silent)
}

/// Draws from the posterior of all rows, with their log-likelihoods at every twentieth.
struct Truth {
    fit: Fit,
    theta: Vec<Vec<f64>>,
    full: Vec<f64>,
}

impl Truth {
    fn of(engine: &LocalEngine<'_>, priors: Option<PriorChoice>) -> Result<Truth> {
        let draws = Settings { draws: 2500, warmup: 500, ..FitSettings::default().draws };
        let settings = FitSettings { draws, priors, ..FitSettings::default() };
        let fit = fit_data(engine, &EncodingSettings::default(), &settings, 8 << 30)?;
        let draws = fit.draws.rows().step_by(20);
        let theta: Vec<Vec<f64>> = draws.map(|beta| fit.encoding.from_user_scale(beta)).collect();
        let (full, _) = log_likelihoods(engine, &fit.encoding, &theta)?;
        Ok(Truth { fit, theta, full })
    }

    /// `½ Var(L − L̃)` over the posterior of all rows.
    fn kl(&self, coreset: &Coreset) -> Result<f64> {
        let points = coreset.points()?;
        let own = self.theta.iter().map(|theta| likelihood::value(&points, theta));
        let e: Vec<f64> = self.full.iter().zip(own).map(|(full, own)| full - own).collect();
        let mean = e.iter().sum::<f64>() / e.len() as f64;
        Ok(0.5 * e.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (e.len() - 1) as f64)
    }

    /// The largest error of a mean in standard deviations, less two standard errors.
    fn mean_error(&self, coreset: &Coreset) -> Result<f64> {
        let draws = Settings { draws: 2500, ..FitSettings::default().draws };
        let fit = fit_coreset(coreset, &FitSettings { draws, ..FitSettings::default() }, &Silent)?;
        Ok(self.mean_error_of(&fit))
    }

    /// The same for draws.
    fn mean_error_of(&self, fit: &Fit) -> f64 {
        let errors = fit.summary.iter().zip(&self.fit.summary).map(|(own, full)| {
            let noise = own.mcse_mean.hypot(full.mcse_mean);
            ((own.mean - full.mean).abs() - 2.0 * noise).max(0.0) / full.sd
        });
        errors.fold(0.0, f64::max)
    }
}

/// What many builds of one kind showed.
#[derive(Default)]
struct Tally {
    builds: usize,
    rows: Vec<f64>,
    certified: Vec<f64>,
    truth: Vec<f64>,
    errors: Vec<f64>,
    /// Certified within a factor of 2, of those whose KL is between 0.01 and 1.
    within: (usize, usize),
    indistinguishable: usize,
    /// Called indistinguishable with a mean off by more than 0.1 standard deviations.
    wrong: usize,
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn builds(seeds: u64) -> Result<()> {
    println!(
        "| data | asked for | rows | KL certified | KL by NUTS on all rows, median and largest | largest mean error, sd | within a factor of 2 | called indistinguishable, of these wrong |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let cases: [(&str, Named); 3] = [
        ("rare levels, 20,000 rows", data::rare_levels(20_000, 1)),
        ("nearly separated, 20,000 rows", data::nearly_separated(20_000, 1)),
        ("rare events, 60,000 rows", data::rare_events(60_000, 1)),
    ];
    for (name, data) in cases {
        let engine = engine_of(data)?;
        let truth = Truth::of(&engine, None)?;
        let sizes = [200, 500, 1000, 2000].map(Size::Rows).into_iter().chain([Size::Kl { target: 0.01 }]);
        for size in sizes {
            let mut tally = Tally::default();
            for seed in 0..seeds {
                let settings = BuildSettings { size, seed: Seed(seed), ..BuildSettings::default() };
                let coreset = build_on(&engine, &settings)?.coreset;
                let Some(facts) = &coreset.provenance.calibration else { continue };
                let (certified, kl) = (facts.certificate.kl(), truth.kl(&coreset)?);
                let error = truth.mean_error(&coreset)?;
                tally.builds += 1;
                tally.rows.push(coreset.rows.len() as f64);
                tally.certified.push(certified);
                tally.truth.push(kl);
                tally.errors.push(error);
                if (0.01..1.0).contains(&kl) {
                    tally.within.1 += 1;
                    tally.within.0 += usize::from((0.5..2.0).contains(&(certified / kl)));
                }
                if facts.certificate.verdict() == Verdict::Indistinguishable {
                    tally.indistinguishable += 1;
                    tally.wrong += usize::from(error > 0.1);
                }
            }
            let asked = match size {
                Size::Rows(rows) => format!("M = {rows}"),
                _ => "`--kl 0.01`".to_string(),
            };
            println!(
                "| {name} | {asked} | {:.0} | {:.1e} | {:.1e}, {:.1e} | {:.3} | {} of {} | {} of {}, {} |",
                median(&mut tally.rows),
                median(&mut tally.certified),
                median(&mut tally.truth),
                tally.truth.last().copied().unwrap_or(f64::NAN),
                tally.errors.iter().copied().fold(0.0, f64::max),
                tally.within.0,
                tally.within.1,
                tally.indistinguishable,
                tally.builds,
                tally.wrong,
            );
        }
    }
    Ok(())
}

/// What a composed coreset says of itself, and what all rows say.
fn composed(name: &str, coreset: &Coreset, engine: &LocalEngine<'_>) -> Result<()> {
    let composition = coreset.provenance.composed();
    let certified = certify(engine, coreset, &CertifySettings { force: true, ..CertifySettings::default() })?;
    let estimate = composition.kl.map_or("-".to_string(), |kl| format!("{kl:.1e}"));
    let movement = composition.movement.map_or("-".to_string(), |Movement { distance, radius }| {
        format!("{distance:.1} of {radius:.1}{}", if distance > radius { ", outside" } else { "" })
    });
    println!(
        "| {name} | {} | {estimate} | {movement} | {:.1e} | {:.3} |",
        coreset.rows.len(),
        certified.certificate.kl(),
        certified.certificate.largest_mean_error()
    );
    Ok(())
}

fn heading() {
    println!(
        "| data | rows | KL estimated from the steps | movement of the mode, sd of trust radius | KL at draws, all rows | largest mean error, sd |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
}

fn merges(seeds: u64) -> Result<()> {
    heading();
    const SHARDS: usize = 8;
    for seed in 0..seeds {
        let data = data::rare_events_in_time(200_000, 1);
        let engine = engine_of(data.clone())?;
        let parts: Vec<(String, Coreset)> = (0..SHARDS)
            .map(|shard| {
                let part: Named = data
                    .iter()
                    .map(|(name, values)| {
                        (name.clone(), values.iter().skip(shard).step_by(SHARDS).copied().collect())
                    })
                    .collect();
                let settings =
                    BuildSettings { seed: Seed(seed * 100 + shard as u64), ..BuildSettings::with_rows(1000) };
                Ok((format!("shard {shard}"), build_on(&engine_of(part)?, &settings)?.coreset))
            })
            .collect::<Result<_>>()?;
        for size in [2000, 8000] {
            let settings = BuildSettings { seed: Seed(seed), ..BuildSettings::with_rows(size) };
            let merged = merge(&parts, &settings, None, &Silent)?;
            composed(&format!("8 shards of rare events, M = {size}, seed {seed}"), &merged, &engine)?;
        }
    }
    Ok(())
}

fn stream(data: &Named, block: usize, size: usize, seed: u64) -> Result<Coreset> {
    let settings = TreeSettings {
        build: BuildSettings { seed: Seed(seed), ..BuildSettings::with_rows(size) },
        missing: Missing::Error,
        threads: None,
        reference: ReferencePoint::Renewed,
        fading: None,
    };
    let mut tree = Tree::new(settings)?;
    let rows = data[0].1.len();
    let roles = Roles { label: "y".into(), ..Roles::default() };
    let fields: Vec<Field> = data
        .iter()
        .map(|(name, _)| Field { name: name.clone(), kind: Kind::Number, data_type: DataType::Float64 })
        .collect();
    for start in (0..rows).step_by(block) {
        let end = (start + block).min(rows);
        let columns = data.iter().map(|(_, values)| Column::Number(values[start..end].to_vec().into()));
        let segment = Segment { columns: columns.collect(), len: end - start };
        let (fields, roles, first_row) = (fields.clone(), roles.clone(), start as u64);
        tree.push(Rows { fields, segment, first_row, roles, is_sparse: false }, &Silent)?;
    }
    tree.snapshot(None, &Silent)
}

fn streams(seeds: u64) -> Result<()> {
    heading();
    for (name, data, block) in [
        ("rare events in time, 200,000 rows", data::rare_events_in_time(200_000, 1), 25_000),
        ("drifting, 1,000,000 rows", data::drifting(1_000_000, 1), 50_000),
    ] {
        let engine = engine_of(data.clone())?;
        for size in [500, 1000, 2000] {
            for seed in 0..seeds {
                let coreset = stream(&data, block, size, seed)?;
                composed(&format!("{name}, M = {size}, seed {seed}"), &coreset, &engine)?;
            }
        }
    }
    Ok(())
}

/// Coresets built for the default priors, fitted with others.
fn priors(seeds: u64) -> Result<()> {
    println!(
        "| data | prior | KL by NUTS on all rows, median and largest | largest mean error, sd | the same after correction | \
         warned of |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    let cases: [(&str, Named); 3] = [
        ("rare levels, 20,000 rows", data::rare_levels(20_000, 1)),
        ("nearly separated, 20,000 rows", data::nearly_separated(20_000, 1)),
        ("rare events, 60,000 rows", data::rare_events(60_000, 1)),
    ];
    for (name, data) in cases {
        let engine = engine_of(data)?;
        for prior in
            ["normal:2", "normal:0.1", "normal:100", "cauchy:2.5", "laplace:1", "spike-slab:0.1:2:0.5"]
        {
            let choice = PriorChoice { general: prior.parse()?, ..PriorChoice::default() };
            let truth = Truth::of(&engine, Some(choice.clone()))?;
            let (mut kls, mut error, mut corrected_error, mut warned) = (Vec::new(), 0f64, 0f64, 0);
            for seed in 0..seeds {
                let settings = BuildSettings { seed: Seed(seed), ..BuildSettings::with_rows(1000) };
                let coreset = build_on(&engine, &settings)?.coreset;
                kls.push(truth.kl(&coreset)?);
                let settings = FitSettings { priors: Some(choice.clone()), ..FitSettings::default() };
                let fit = fit_coreset(&coreset, &settings, &Silent)?;
                error = error.max(truth.mean_error_of(&fit));
                warned += usize::from(fit.findings.iter().any(|found| found.what == Trouble::PriorMovesMode));
                let (corrected, _) = verify_and_correct(&engine, fit, false)?;
                corrected_error = corrected_error.max(truth.mean_error_of(&corrected));
            }
            println!(
                "| {name} | `{prior}` | {:.1e}, {:.1e} | {error:.3} | {corrected_error:.3} | {warned} of {seeds} |",
                median(&mut kls),
                kls.last().copied().unwrap_or(f64::NAN),
            );
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds = arguments.iter().position(|word| word == "--seeds").and_then(|at| arguments.get(at + 1));
    let seeds: u64 = seeds.and_then(|count| count.parse().ok()).unwrap_or(8);
    let wants = |word: &str| {
        let named = ["builds", "merges", "streams", "priors"];
        let any = arguments.iter().any(|argument| named.contains(&argument.as_str()));
        !any || arguments.iter().any(|argument| argument == word)
    };
    if wants("builds") {
        builds(seeds)?;
    }
    if wants("merges") {
        merges(seeds)?;
    }
    if wants("streams") {
        streams(seeds)?;
    }
    if wants("priors") {
        priors(seeds)?;
    }
    Ok(())
}
