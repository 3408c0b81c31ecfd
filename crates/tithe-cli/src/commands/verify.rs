//! `tithe verify`: compares a posterior with the full data and corrects it.

use serde_json::{Value, json};
use tithe::base::error::{ErrorKind, Result};
use tithe::base::rng::Seed;
use tithe::coreset::file::read_coreset;
use tithe::engine::LocalEngine;
use tithe::results::epsilon_search::{Worst, largest_relative_error};
use tithe::results::file::{read_posterior, write_posterior};
use tithe::results::fit::Fit;
use tithe::results::judgement::Judgement;
use tithe::results::verify::{Figures, Verification, VerifySettings, verify};
use tithe::results::{resampled, write_corrected};

use crate::args::VerifyArgs;
use crate::commands::create_output;
use crate::plan;
use crate::show::{self, Watcher, count, number, printable};

/// Verifies the posterior, prints the result and writes the corrected draws.
pub fn run(args: &VerifyArgs) -> Result<()> {
    let fit = read_posterior(&args.posterior)?;
    let coreset = args.coreset.as_deref().filter(|_| args.epsilon_check).map(read_coreset).transpose()?;
    if let Some(coreset) = coreset.as_ref().filter(|_| !args.force) {
        let (ours, theirs) = (fit.basis.fingerprint(), coreset.provenance.fingerprint);
        if ours != theirs {
            return Err(ErrorKind::WrongFile {
                path: args.coreset.clone().unwrap_or_default(),
                what: "is not a coreset of the rows that the posterior was fitted to".to_string(),
                help: Some("name the coreset that the posterior was fitted to".into()),
            }
            .into());
        }
    }
    let own = [Some(args.posterior.clone()), args.coreset.clone()];
    let memory = plan::memory(&args.engine);
    let table = plan::open_full_data(&args.data, &fit.encoding, memory, args.write.as_deref(), own)?;
    let output = args.write.as_deref().map(create_output).transpose()?;

    let watcher = Watcher::new(args.show.quiet);
    let engine = LocalEngine::new(table, &plan::engine(&args.engine, fit.basis.missing()), &watcher)?;
    let settings = VerifySettings { draws: args.draws, force: args.force };
    let found = verify(&engine, &fit, &settings)?;
    let worst = match &coreset {
        Some(coreset) => Some(largest_relative_error(&engine, coreset, Seed(0))?),
        None => None,
    };
    if let Some(output) = output {
        match args.resample {
            true => write_posterior(&resampled(&fit, &found, Seed(0))?, output)?,
            false => write_corrected(&fit, &found, output)?,
        }
    }
    if args.show.json {
        show::print_record("verify", record(args, &fit, &found, worst.as_ref()));
    } else {
        show::print(&table_of(args, &fit, &found, worst.as_ref()));
    }
    if !found.same_data {
        show::remark("warning: this is not the data that the posterior was fitted to");
    }
    Ok(())
}

/// The verdict in words.
pub fn verdict(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Indistinguishable => "indistinguishable from the full data's posterior",
        Judgement::Good => {
            "good: the corrected values are more accurate, but the draws can be used as they are"
        }
        Judgement::Correctable => "inaccurate: use the corrected values instead of the draws",
        Judgement::TooFar => {
            "too inaccurate: neither the draws nor the corrected values are reliable; build a larger coreset"
        }
    }
}

/// The result as JSON.
fn record(args: &VerifyArgs, fit: &Fit, found: &Verification, worst: Option<&Worst>) -> Value {
    let by_name = |figures: &[Figures]| -> Value {
        fit.draws.names.iter().zip(figures).map(|(name, figures)| (name.clone(), json!(figures))).collect()
    };
    json!({
        "posterior": show::path(&args.posterior),
        "rows": found.identity.rows,
        "same_data": found.same_data,
        "draws": found.chosen.len(),
        "kl": found.kl(),
        "kl_error": found.discrepancy.kl_error,
        "max_mean_error": found.discrepancy.largest_mean_error(),
        // JSON has no infinity: null means that the tail is too short for a fit.
        "k_hat": found.psis.k_hat,
        "effective_draws": found.psis.effective_draws(),
        "efficiency": found.efficiency(),
        "verdict": found.judgement,
        "drawn": by_name(&found.drawn),
        "corrected": by_name(&found.corrected),
        "epsilon_lower_bound": worst.map(|worst| worst.relative_error),
        "output": args.write,
    })
}

/// The result as a table.
fn table_of(args: &VerifyArgs, fit: &Fit, found: &Verification, worst: Option<&Worst>) -> String {
    let names = &fit.draws.names;
    let width =
        names.iter().map(|name| printable(name).chars().count()).max().unwrap_or(0).max("coefficient".len());
    let mut text = format!("{:<width$} {:^43} | {:^43}\n", "", "draws", "corrected to the full data");
    let head = |text: &mut String| {
        *text += &format!("{:>10} {:>10} {:>10} {:>10}", "mean", "sd", "5 %", "95 %");
    };
    text += &format!("{:<width$} ", "coefficient");
    head(&mut text);
    text += " | ";
    head(&mut text);
    text += "\n";
    let figures = |f: &Figures| {
        format!("{:>10} {:>10} {:>10} {:>10}", number(f.mean), number(f.sd), number(f.q05), number(f.q95))
    };
    for ((name, drawn), corrected) in names.iter().zip(&found.drawn).zip(&found.corrected) {
        let name = printable(name);
        text += &format!("{name:<width$} {} | {}\n", figures(drawn), figures(corrected));
    }
    text += &format!(
        "{}: {}\n  largest error of a posterior mean: {} sd\n  KL to the full data's posterior: {} nats ({} draws, {} rows)\n",
        args.posterior.display(),
        verdict(found.judgement),
        number(found.discrepancy.largest_mean_error()),
        number(found.kl()),
        count(found.chosen.len() as u64),
        count(found.identity.rows),
    );
    let k_hat = match found.psis.k_hat {
        k if k.is_finite() => format!("Pareto k {k:.2}, "),
        _ => String::new(),
    };
    text += &format!(
        "  importance weights: {k_hat}efficiency {:.1} % ({:.0} effective draws)\n",
        100.0 * found.efficiency(),
        found.psis.effective_draws()
    );
    if let Some(worst) = worst {
        text += &format!(
            "  the paper's ε is at least {} in the ball of radius {} ({} parameter values tried)\n",
            number(worst.relative_error),
            number(worst.radius),
            count(worst.tried as u64)
        );
    }
    if let Some(path) = &args.write {
        let what = if args.resample { "draws from the corrected posterior" } else { "weighted draws" };
        text += &format!("  {what} written to {}\n", path.display());
    }
    text
}
