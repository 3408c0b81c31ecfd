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
    let settings = CheckSettings { draws: args.draws, ..CheckSettings::default() };
    let found = check(&engine, &fit, &settings)?;
    if args.show.json {
        let mut record = json!(found);
        record["posterior"] = json!(show::path(&args.posterior));
        show::print(&format!("{record}\n"));
    } else {
        show::print(&table_of(args, &fit, &found));
    }
    if found.same_data {
        show::message(
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
    text
}
