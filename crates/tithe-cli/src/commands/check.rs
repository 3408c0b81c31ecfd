//! `tithe check`: how well a posterior predicts labelled rows.

use serde_json::json;
use tithe::base::error::Result;
use tithe::engine::LocalEngine;
use tithe::results::check::{Check, CheckSettings, check};
use tithe::results::file::read_posterior;
use tithe::results::fit::Fit;

use crate::args::{CheckArgs, MissingArg};
use crate::plan;
use crate::show::{self, Watcher, counted, number, printable};

/// Checks the posterior and prints the result.
pub fn run(args: &CheckArgs) -> Result<()> {
    let fit = read_posterior(&args.posterior)?;
    let memory = plan::memory(&args.engine);
    let table = plan::open_full_data(&args.data, &fit.encoding, memory, None, [None])?;
    let missing = args.missing.map_or(fit.basis.missing(), MissingArg::missing);
    let watcher = Watcher::new(args.show.quiet);
    let engine = LocalEngine::new(table, &plan::engine(&args.engine, missing), &watcher)?;
    let settings = CheckSettings { draws: args.draws, loo_rows: args.loo, ..CheckSettings::default() };
    let found = check(&engine, &fit, &settings)?;
    if args.show.json {
        let mut record = json!(found);
        record["posterior"] = json!(show::path(&args.posterior));
        show::print_record("check", record);
    } else {
        show::print(&table_of(args, &fit, &found));
    }
    if found.same_data {
        show::remark(
            "note: the model was fitted to these rows, so it predicts them better than new ones; check it with other rows",
        );
    }
    Ok(())
}

fn table_of(args: &CheckArgs, fit: &Fit, found: &Check) -> String {
    let label = &fit.encoding.label;
    let mut text = format!(
        "{}: {}, {:.1} % of them with {} = {}\n",
        args.posterior.display(),
        counted(found.rows, "row"),
        100.0 * found.positive_rate,
        printable(&label.column),
        printable(&label.positive.to_string())
    );
    let mut line = |name: &str, value: String| text += &format!("  {name:<14}{value}\n");
    match found.auc {
        Some(auc) => line("AUC", number(auc)),
        None => line("AUC", "unknown: the rows have only one class".to_string()),
    }
    let beside = |value: f64, of_rate: f64| {
        format!("{} (share of positives alone: {})", number(value), number(of_rate))
    };
    line("log loss", beside(found.log_loss, found.log_loss_of_rate));
    line("Brier score", beside(found.brier, found.brier_of_rate));
    let calibrated = found.calibration.iter().filter(|group| group.is_calibrated()).count();
    line(
        "calibration",
        format!(
            "predictions lie in the 95 % interval of the observed share in {calibrated} of {} groups",
            found.calibration.len()
        ),
    );
    text += &format!("  {:>12} {:>12} {:>23} {:>10}\n", "predicted", "observed", "95 % interval", "rows");
    for group in &found.calibration {
        let interval = format!("{} to {}", number(group.lower), number(group.upper));
        text += &format!(
            "  {:>12} {:>12} {interval:>23} {:>10.0}{}\n",
            number(group.predicted),
            number(group.observed),
            group.mass,
            if group.is_calibrated() { "" } else { " *" }
        );
    }
    if let Some(loo) = &found.loo {
        let unreliable = match loo.unreliable {
            0 => String::new(),
            rows => format!("; unreliable for {}", counted(rows as u64, "row")),
        };
        text += &format!(
            "  {:<14}elpd {} ± {} (sampling error {}, {} sampled{unreliable}); effective parameters {}\n",
            "leave-one-out",
            number(loo.elpd),
            number(loo.se),
            number(loo.sampling_error),
            counted(loo.sampled as u64, "row"),
            number(loo.effective_parameters)
        );
    }
    let strange: Vec<_> = found.levels.iter().filter(|level| !level.is_expected()).collect();
    if !found.levels.is_empty() {
        text += &format!(
            "  {:<14}the share of positives is as expected in {} of {} of text columns\n",
            "levels",
            found.levels.len() - strange.len(),
            counted(found.levels.len() as u64, "level")
        );
    }
    for level in strange.iter().take(10) {
        text += &format!(
            "    {} = {}: observed {}, expected {} to {} ({:.0} rows)\n",
            printable(&level.column),
            printable(&level.level),
            number(level.observed),
            number(level.lower),
            number(level.upper),
            level.mass
        );
    }
    text += &effects(found);
    text
}

/// The largest average marginal effects.
fn effects(found: &Check) -> String {
    let mut order: Vec<_> = found.effects.iter().collect();
    order.sort_by(|a, b| b.mean.abs().total_cmp(&a.mean.abs()));
    let width =
        order.iter().take(10).map(|effect| printable(&effect.name).chars().count()).max().unwrap_or(0);
    let mut text =
        "  average marginal effects (change of the probability per unit, 90 % interval)\n".to_string();
    for effect in order.iter().take(10) {
        text += &format!(
            "    {:<width$} {:>11} {:>26}\n",
            printable(&effect.name),
            number(effect.mean),
            format!("{} to {}", number(effect.lower), number(effect.upper))
        );
    }
    if order.len() > 10 {
        text += &format!("    … and {} more with --json\n", order.len() - 10);
    }
    text
}
