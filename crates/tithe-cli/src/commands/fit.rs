//! `tithe fit`: draws from the posterior, given a coreset or the data itself.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use tithe::base::error::{Error, ErrorKind, Remedy, Result, Setting};
use tithe::coreset::file::read_coreset;
use tithe::data::sink::{Output, find_metadata};
use tithe::data::table::Table;
use tithe::engine::LocalEngine;
use tithe::mcmc::Sampler;
use tithe::model::Prior;
use tithe::results::file::{prior_scale, write_posterior};
use tithe::results::fit::{Basis, Fit, SHORT_FIT, fit_coreset, fit_data};
use tithe::results::write_stan_csv;

use crate::args::{FitArgs, PosteriorFormat};
use crate::commands::{
    certificate, coefficients, create_output, create_parquet, fail_if_strict, full_fit_seconds,
    no_coreset_needed, rows_fitted,
};
use crate::plan;
use crate::show::{self, Watcher, counted, number, represented};
use crate::words::CommandLine;

/// Seconds taken by this fit, and by a fit of all rows (estimated if a coreset was fitted; `None` if the coreset is exact
/// or there is no estimate for the sampler).
struct Timing {
    seconds: f64,
    full_fit: Option<f64>,
}

/// Fits and writes the draws.
pub fn run(args: &FitArgs) -> Result<()> {
    let settings = plan::fit(args)?;
    let outputs = outputs(args)?;
    let watcher = Watcher::new(args.show.quiet);
    let start = Instant::now();
    let (fit, timing) = match coreset_file(args)? {
        Some(path) => {
            refuse_column_flags(args)?;
            if let Some(output) = &args.output {
                plan::refuse_overwriting(std::slice::from_ref(&path), output)?;
            }
            let coreset = read_coreset(&path)?;
            let fit = fit_coreset(&coreset, &settings, &watcher)?;
            let seconds = start.elapsed().as_secs_f64();
            // The estimate holds for NUTS only.
            let full_fit = match fit.sampler {
                Sampler::Nuts => full_fit_seconds(&coreset, args.engine.threads)?,
                _ => None,
            };
            (fit, Timing { seconds, full_fit })
        }
        None => {
            let fit = fit_all(args, &settings, &watcher)?;
            let seconds = start.elapsed().as_secs_f64();
            (fit, Timing { seconds, full_fit: Some(seconds) })
        }
    };
    match args.posterior_format {
        PosteriorFormat::Parquet => {
            for output in outputs {
                write_posterior(&fit, output)?;
            }
        }
        PosteriorFormat::StanCsv => write_stan_csv(&fit, outputs)?,
    }
    if args.show.json {
        show::print(&format!("{}\n", record(args, &fit, &timing)));
    } else {
        show::print(&table(args, &fit, &timing));
    }
    let too_small = match &fit.basis {
        Basis::Coreset { provenance, .. } => certificate::too_small(provenance),
        Basis::Data { .. } => None,
    };
    let findings = fit.findings.iter().map(|finding| finding.message(&CommandLine));
    let warnings: Vec<String> = too_small.into_iter().chain(findings).collect();
    for warning in &warnings {
        show::message(&format!("warning: {warning}"));
    }
    fail_if_strict(args.strict, warnings.len())
}

/// The path of the input if it is a coreset, `None` if it is data. Other files written by Tithe are rejected.
fn coreset_file(args: &FitArgs) -> Result<Option<PathBuf>> {
    let [name] = &args.data.data[..] else {
        let coreset = |name: &&String| Path::new(name).is_file() && read_coreset(Path::new(name)).is_ok();
        return match args.data.data.iter().find(coreset) {
            Some(name) => Err(ErrorKind::WrongFile {
                path: PathBuf::from(name),
                what: "is a coreset, but several files are given".to_string(),
                help: Some("merge coresets first: `tithe merge A B … -o all.parquet`".into()),
            }
            .into()),
            None => Ok(None),
        };
    };
    let path = Path::new(name);
    if name == "-" || !path.is_file() {
        return Ok(None);
    }
    // If the file was written by Tithe but is not a coreset, the error of `read_coreset` says what it is.
    Ok(find_metadata(path)?.map(|_| path.to_path_buf()))
}

/// Rejects flags that choose columns: those of a coreset are fixed.
fn refuse_column_flags(args: &FitArgs) -> Result<()> {
    match args.columns.encoding_settings().first() {
        Some(setting) => Err(Error::setting(
            *setting,
            "cannot be used with a coreset, whose columns were chosen by `tithe build`",
        )),
        None => Ok(()),
    }
}

/// Fits all rows of the data.
fn fit_all(args: &FitArgs, settings: &tithe::results::fit::FitSettings, watcher: &Watcher) -> Result<Fit> {
    let columns = plan::columns(&args.columns, None)?;
    let missing = columns.missing();
    let memory = plan::memory(&args.engine);
    let source = plan::open_data(&args.data, &columns, memory, args.output.as_deref())?;
    if columns.label.is_none() && !source.is_sparse() {
        let names: Vec<&str> = source.fields().iter().take(20).map(|field| field.name.as_str()).collect();
        let what = format!(
            "is required, because {}: name the column with the two classes (columns: {})",
            match &args.data.data.join(", ")[..] {
                "-" => "a coreset cannot be read from standard input".to_string(),
                names => format!("{names} is not a coreset"),
            },
            names.join(", ")
        );
        return Err(Error::setting(Setting::Label, what));
    }
    let roles = columns.roles(&*source)?;
    let mut engine = plan::engine(&args.engine, missing);
    // Half of the memory is for the encoded points, half for the decoded rows.
    let points = memory / 2;
    if settings.sampler != Sampler::Laplace {
        engine.memory = memory - points;
    }
    let engine = LocalEngine::new(Table::new(source, &roles)?, &engine, watcher)?;
    fit_data(&engine, &columns.encoding()?, settings, points)
}

/// The files to write: one, or one per chain.
fn outputs(args: &FitArgs) -> Result<Vec<Output>> {
    let Some(path) = &args.output else {
        return match args.posterior_format {
            PosteriorFormat::Parquet => Ok(Vec::new()),
            PosteriorFormat::StanCsv => Err(Error::setting(Setting::Format, "stan-csv needs an output file")
                .with_help(Remedy::using("name it", Setting::Output))),
        };
    };
    match args.posterior_format {
        PosteriorFormat::Parquet => Ok(vec![create_parquet(path)?]),
        PosteriorFormat::StanCsv => {
            chain_files(path, args.chains).iter().map(|path| create_output(path)).collect()
        }
    }
}

/// File names as CmdStan chooses them: `draws.csv` with two chains gives `draws_1.csv` and `draws_2.csv`.
fn chain_files(path: &Path, chains: usize) -> Vec<PathBuf> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    (1..=chains).map(|chain| path.with_file_name(format!("{stem}_{chain}.csv"))).collect()
}

/// The result as JSON.
fn record(args: &FitArgs, fit: &Fit, timing: &Timing) -> Value {
    json!({
        "output": args.output.as_deref().map(show::path),
        "sampler": fit.sampler,
        "chains": fit.settings.chains,
        "draws": fit.settings.draws,
        "warmup": fit.settings.warmup,
        "seed": fit.settings.seed,
        "prior_scale": prior_scale(&fit.encoding),
        "priors": fit.draws.names.iter().zip(&fit.priors.coefficients).collect::<Vec<(&String, &Prior)>>(),
        "basis": fit.basis,
        "summary": fit.summary,
        "interval": args.interval,
        "odds_ratios": coefficients::odds_ratios(fit, args.interval),
        "findings": fit.findings,
        "seconds": timing.seconds,
        "whole_fit_seconds": timing.full_fit,
    })
}

/// The result as a table.
fn table(args: &FitArgs, fit: &Fit, timing: &Timing) -> String {
    let mut text = coefficients::table(fit, args.interval);
    let (centers, scales) = fit.encoding.transform();
    let [is_centred, is_scaled] =
        [centers.iter().any(|center| *center != 0.0), scales.iter().any(|scale| *scale != 1.0)];
    let scale = match (is_centred, is_scaled) {
        (true, true) => "on the standardised scale (columns centred, numbers divided by their sd)",
        (true, false) => "on the standardised scale (columns centred)",
        (false, true) => "on the standardised scale (numbers divided by their sd)",
        (false, false) => "in the units of the data",
    };
    text += &format!("coefficients are in the units of the data; priors ({}) are {scale}\n", priors(fit));
    text += &match &fit.basis {
        Basis::Coreset { size, provenance } => format!(
            "{}; {} of {} ({}); {} s; seed {}\n",
            represented(*size, provenance.rows),
            counted(fit.settings.chains as u64, "chain"),
            counted(fit.settings.draws as u64, "draw"),
            fit.sampler,
            number(timing.seconds),
            fit.settings.seed.0
        ),
        Basis::Data { rows, rows_dropped, .. } => format!(
            "{}; {} of {} ({}); {} s; seed {}\n",
            rows_fitted(*rows, *rows_dropped),
            counted(fit.settings.chains as u64, "chain"),
            counted(fit.settings.draws as u64, "draw"),
            fit.sampler,
            number(timing.seconds),
            fit.settings.seed.0
        ),
    };
    if let Some(seconds) = timing.full_fit.filter(|seconds| *seconds < SHORT_FIT) {
        text += &match &fit.basis {
            Basis::Data { rows, .. } => {
                format!(
                    "no coreset needed: fitting all {} took {} s\n",
                    counted(*rows, "row"),
                    number(seconds)
                )
            }
            Basis::Coreset { provenance, .. } => no_coreset_needed(provenance.rows, seconds),
        };
    }
    if let Some(path) = &args.output {
        text += &match args.posterior_format {
            PosteriorFormat::Parquet => format!("draws written to {}\n", path.display()),
            PosteriorFormat::StanCsv => {
                let files = chain_files(path, fit.settings.chains);
                let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
                format!("draws written to {}\n", names.join(", "))
            }
        };
    }
    text
}

/// The priors in short: `normal:2`, or `normal:2, intercept cauchy:10` if some differ.
fn priors(fit: &Fit) -> String {
    let all = &fit.priors.coefficients;
    let Some(usual) = all.last() else { return String::new() };
    let others = fit.draws.names.iter().zip(all).filter(|(_, prior)| *prior != usual);
    let others: Vec<String> = others.map(|(name, prior)| format!(", {name} {prior}")).collect();
    format!("{usual}{}", others.concat())
}
