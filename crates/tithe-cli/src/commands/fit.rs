//! `tithe fit`: draws from the posterior, given a coreset or the data itself.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use tithe::base::error::{Error, ErrorKind, Remedy, Result, Setting};
use tithe::coreset::file::{read_coreset, write_coreset};
use tithe::data::sink::{Output, find_metadata};
use tithe::data::table::Table;
use tithe::engine::LocalEngine;
use tithe::mcmc::Sampler;
use tithe::model::Prior;
use tithe::options::DataFitOptions;
use tithe::results::file::{prior_scale, write_posterior};
use tithe::results::fit::{Basis, Fit, SHORT_FIT};
use tithe::results::fit_grouped::fit_coreset;
use tithe::results::one_step::{ByCoreset, FittedRows, OneStep, fit_in_one_step, verify_and_correct};
use tithe::results::write_stan_csv;

use crate::args::{DataArgs, FitArgs, PosteriorFormat};
use crate::commands::{
    certificate, coefficients, create_output, create_parquet, fail_if_strict, full_fit_seconds, groups,
    no_coreset_needed, problems, rows_fitted,
};
use crate::plan;
use crate::show::{self, Watcher, count, counted, number, represented};

/// What a fit took, and the coreset that was built for it.
struct Course {
    seconds: f64,
    /// Seconds of a fit of all rows, estimated if a coreset was fitted; `None` if the coreset is exact.
    full_fit: Option<f64>,
    by_coreset: Option<ByCoreset>,
}

/// Fits and writes the draws.
pub fn run(args: &FitArgs) -> Result<()> {
    let options = plan::fit(args);
    let input = coreset_file(args)?;
    let kept = match (&input, &args.keep) {
        (None, Some(path)) => Some(create_parquet(path)?),
        _ => None,
    };
    let outputs = outputs(args)?;
    let watcher = Watcher::new(args.show.quiet);
    let start = Instant::now();
    let (fit, by_coreset, full_fit) = match input {
        Some(path) => {
            let (fit, full_fit) = fit_file(args, &path, &options, &watcher)?;
            (fit, None, full_fit)
        }
        None => {
            let OneStep { fit, by_coreset } = fit_rows(args, &options, &watcher)?;
            let full_fit = match &by_coreset {
                Some(found) => Some(found.whole_seconds).filter(|_| !found.built.coreset.provenance.exact),
                None => Some(start.elapsed().as_secs_f64()),
            };
            (fit, by_coreset, full_fit)
        }
    };
    let course = Course { seconds: start.elapsed().as_secs_f64(), full_fit, by_coreset };
    if let (Some(output), Some(found)) = (kept, &course.by_coreset) {
        write_coreset(&found.built.coreset, output)?;
    }
    match args.posterior_format {
        PosteriorFormat::Parquet => {
            for output in outputs {
                write_posterior(&fit, output)?;
            }
        }
        PosteriorFormat::StanCsv => write_stan_csv(&fit, outputs)?,
    }
    if args.show.json {
        show::print_record("fit", record(args, &fit, &course));
    } else {
        match &args.output {
            Some(_) => show::summary(&table(args, &fit, &course)),
            None => show::print(&table(args, &fit, &course)),
        }
    }
    let warnings = problems(&fit);
    for warning in &warnings {
        show::remark(&format!("warning: {warning}"));
    }
    fail_if_strict(args.strict, warnings.len())
}

/// Fits a coreset's file, and verifies the draws if data is given. Also returns the estimated seconds of a fit of all rows.
fn fit_file(
    args: &FitArgs,
    path: &Path,
    options: &DataFitOptions,
    watcher: &Watcher,
) -> Result<(Fit, Option<f64>)> {
    refuse_data_flags(args, options)?;
    let settings = options.fit.settings()?;
    if let Some(output) = &args.output {
        plan::refuse_overwriting(std::slice::from_ref(&path.to_path_buf()), output)?;
    }
    let coreset = read_coreset(path)?;
    // The estimate holds for NUTS only.
    let full_fit = match settings.sampler {
        Sampler::Nuts => full_fit_seconds(&coreset, &settings),
        _ => None,
    };
    if args.verify.is_empty() {
        return Ok((fit_coreset(&coreset, &settings, watcher)?, full_fit));
    }
    let memory = plan::memory(&args.engine);
    let data = DataArgs { data: args.verify.clone(), reading: args.data.reading.clone() };
    let table = plan::open_full_data(&data, &coreset.encoding, memory, args.output.as_deref(), [])?;
    let missing = coreset.provenance.missing;
    let engine = LocalEngine::new(table, &plan::engine(&args.engine, missing), watcher)?;
    let fit = fit_coreset(&coreset, &settings, watcher)?;
    Ok((verify_and_correct(&engine, fit, false)?.0, full_fit))
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

/// Rejects flags that say how data is read, encoded and reduced: a coreset was built already.
fn refuse_data_flags(args: &FitArgs, options: &DataFitOptions) -> Result<()> {
    if let Some(setting) = args.columns.encoding_settings().first() {
        return Err(Error::setting(
            *setting,
            "cannot be used with a coreset, whose columns were chosen by `tithe build`",
        ));
    }
    match options.wants_coreset().or(options.whole.then_some(Setting::Whole)) {
        Some(setting) => Err(Error::setting(setting, "has an effect only on data, and this is a coreset")
            .with_help(Remedy::Omit(setting))),
        None => Ok(()),
    }
}

/// Fits data: all rows, or a coreset.
fn fit_rows(args: &FitArgs, options: &DataFitOptions, watcher: &Watcher) -> Result<OneStep> {
    if !args.verify.is_empty() {
        let what = "has an effect only on a coreset: the draws of data are verified against that data";
        return Err(Error::setting(Setting::Verify, what).with_help(Remedy::Omit(Setting::Verify)));
    }
    let columns = plan::columns(&args.columns, None)?;
    let missing = columns.missing();
    let memory = plan::memory(&args.engine);
    // Half of the memory is for the encoded points, half for the decoded rows.
    let settings = options.settings(&columns, memory / 2)?;
    let source = plan::open_data(&args.data, &columns, memory, args.output.as_deref())?;
    if let Some(path) = &args.keep {
        plan::refuse_overwriting(&source.files(), path)?;
    }
    if columns.label.is_none() && columns.formula.is_none() && !source.is_sparse() {
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
    if settings.rows == FittedRows::All && settings.fit.sampler != Sampler::Laplace {
        engine.memory = memory - memory / 2;
    }
    let engine = LocalEngine::new(Table::new(source, &roles)?, &engine, watcher)?;
    fit_in_one_step(&engine, &settings)
}

/// The files to write: one, or one per chain.
fn outputs(args: &FitArgs) -> Result<Vec<Output>> {
    let Some(path) = &args.output else {
        return match args.posterior_format {
            PosteriorFormat::Parquet => Ok(Vec::new()),
            PosteriorFormat::StanCsv => {
                Err(Error::setting(Setting::OutputFormat, "stan-csv needs an output file")
                    .with_help(Remedy::using("name it", Setting::Output)))
            }
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
fn record(args: &FitArgs, fit: &Fit, course: &Course) -> Value {
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
        "scales": fit.groups.as_ref().map(|groups| &groups.scale_summary),
        "groups": fit.groups.as_ref().map(|groups| &groups.effect_summary),
        "interval": args.interval,
        "odds_ratios": coefficients::odds_ratios(fit, args.interval),
        "findings": fit.findings,
        "verified": fit.verified,
        "coreset": course.by_coreset.as_ref().map(|found| json!({
            "output": args.keep.as_deref().map(show::path),
            "distinct_rows": found.built.coreset.rows.len(),
            "certificate": certificate::record(&found.built.coreset),
            "seconds": {"build": found.seconds[0], "draws": found.seconds[1], "verification": found.seconds[2]},
        })),
        "seconds": course.seconds,
        "whole_fit_seconds": course.full_fit,
    })
}

/// The result as a table.
fn table(args: &FitArgs, fit: &Fit, course: &Course) -> String {
    let mut text = coefficients::table(fit, args.interval) + &groups::scales_table(fit);
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
    text += &match &course.by_coreset {
        Some(found) => steps(args, fit, found),
        None => draws(fit, course.seconds),
    };
    if let Some(found) = &fit.verified {
        let seconds = course.by_coreset.as_ref().map(|found| found.seconds[2]);
        let seconds = seconds.map_or(String::new(), |seconds| format!("; {} s", number(seconds)));
        text += &format!("verified against all rows: {}{seconds}\n", certificate::verified(found));
    }
    if let Some(seconds) = course.full_fit.filter(|seconds| *seconds < SHORT_FIT) {
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
    if let Some(path) = &args.keep {
        text += &format!("coreset written to {}\n", path.display());
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

/// The rows that were fitted and the draws, in one line.
fn draws(fit: &Fit, seconds: f64) -> String {
    let rows = match &fit.basis {
        Basis::Coreset { size, provenance } => represented(*size, provenance.rows),
        Basis::Data { rows, rows_dropped, .. } => rows_fitted(*rows, *rows_dropped),
    };
    format!("{rows}; {}; {} s; seed {}\n", chains(fit), number(seconds), fit.settings.seed.0)
}

/// The build of the coreset and the draws, in one line each.
fn steps(args: &FitArgs, fit: &Fit, found: &ByCoreset) -> String {
    let ByCoreset { built, seconds, whole_seconds, .. } = found;
    let facts = &built.coreset.provenance;
    let size = built.coreset.rows.len() as u64;
    let dropped = match facts.rows_dropped {
        0 => String::new(),
        rows => format!(" ({} more dropped because of missing values)", count(rows)),
    };
    let why = match facts.exact {
        true => "exact: the likelihood equals the full data's".to_string(),
        false => format!("fitting all rows would take about {} s", number(*whole_seconds)),
    };
    let size = represented(size, facts.rows);
    format!(
        "coreset: {size}{dropped}; {} s ({why})\ndraws: {} of {} ({}); {} s; seed {}\n",
        number(seconds[0]),
        counted(args.chains as u64, "chain"),
        counted(args.draws as u64, "draw"),
        fit.sampler,
        number(seconds[1]),
        fit.settings.seed.0
    )
}

/// The draws in short: `4 chains of 1,000 draws (nuts)`.
fn chains(fit: &Fit) -> String {
    format!(
        "{} of {} ({})",
        counted(fit.settings.chains as u64, "chain"),
        counted(fit.settings.draws as u64, "draw"),
        fit.sampler
    )
}

/// The priors in short: `normal:2`, or `normal:2, intercept cauchy:10` if some differ.
fn priors(fit: &Fit) -> String {
    let all = &fit.priors.coefficients;
    let Some(usual) = all.last() else { return String::new() };
    let others = fit.draws.names.iter().zip(all).filter(|(_, prior)| *prior != usual);
    let others: Vec<String> = others.map(|(name, prior)| format!(", {name} {prior}")).collect();
    format!("{usual}{}", others.concat())
}
