//! `tithe predict`: predicts probabilities with intervals for new rows.

use serde_json::json;
use tithe::base::error::Result;
use tithe::data::sink::RowFormat;
use tithe::data::source::find_inputs;
use tithe::results::file::read_posterior;
use tithe::results::predict::{Incomplete, PredictSettings, predict};

use crate::args::PredictArgs;
use crate::commands::coefficients::percent;
use crate::commands::create_output;
use crate::plan;
use crate::show::{self, Watcher, counted, number, printable, they_were};

/// Maximum number of bytes of standard input held in memory.
const MEMORY: u64 = 1 << 28;

/// Computes the predictions and writes them.
pub fn run(args: &PredictArgs) -> Result<()> {
    let fit = read_posterior(&args.posterior)?;
    let format = RowFormat::of(&args.output, &[RowFormat::Parquet, RowFormat::Csv])?;
    let options = plan::open_options(&args.data.reading, 2 * MEMORY);
    let inputs = find_inputs(&args.data.data, MEMORY)?;
    let mut files: Vec<_> = inputs.iter().map(|input| input.path().to_path_buf()).collect();
    files.push(args.posterior.clone());
    plan::refuse_overwriting(&files, &args.output)?;
    let settings = PredictSettings {
        interval: args.interval,
        unseen: plan::unseen(args.unseen),
        incomplete: plan::incomplete(args.missing),
        threads: args.threads,
    };
    let output = create_output(&args.output)?;
    let watcher = Watcher::new(args.show.quiet);
    let done = predict(&fit, inputs, &options, &settings, output, format, &watcher)?;
    if args.show.json {
        let record = json!({
            "output": show::path(&args.output),
            "rows": done.rows,
            "incomplete": done.incomplete,
            "unseen": done.unseen,
            "columns": done.added,
            "interval": args.interval,
            "mean": done.mean,
        });
        show::print_record("predict", record);
    } else {
        show::summary(&format!(
            "{}: {}, columns {} added ({} % interval)\n",
            args.output.display(),
            counted(done.rows, "row"),
            done.added.join(", "),
            percent(args.interval),
        ));
        let is_dropped = settings.incomplete == Incomplete::Drop;
        let predicted = if is_dropped { done.rows } else { done.rows - done.incomplete };
        let label = &fit.encoding.label;
        if let Some(mean) = done.mean {
            show::summary(&format!(
                "  expected number of rows with {} = {}: {}\n",
                printable(&label.column),
                printable(&label.positive.to_string()),
                number(mean * predicted as f64)
            ));
        }
        if done.incomplete > 0 {
            let rows = counted(done.incomplete, "incomplete row");
            let what = if is_dropped { "left out" } else { "without a prediction" };
            show::summary(&format!("  {rows} {what}\n"));
        }
        if done.unseen > 0 {
            let were = they_were(done.unseen, "value");
            show::summary(&format!("  {were} of an unseen level treated as the reference level\n"));
        }
    }
    Ok(())
}
