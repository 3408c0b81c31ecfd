//! `tithe predict`: probabilities with intervals for new rows.

use serde_json::json;
use tithe::base::error::Result;
use tithe::data::sink::RowFormat;
use tithe::data::source::find_inputs;
use tithe::results::file::read_posterior;
use tithe::results::predict::{PredictSettings, predict};

use crate::args::PredictArgs;
use crate::commands::create_output;
use crate::plan;
use crate::show::{self, Watcher, counted, number, they_were};

/// Bytes of standard input held in memory.
const MEMORY: u64 = 1 << 28;

/// Predicts and writes.
pub fn run(args: &PredictArgs) -> Result<()> {
    let fit = read_posterior(&args.posterior)?;
    let format = RowFormat::of(&args.output, &[RowFormat::Parquet, RowFormat::Csv])?;
    let options = plan::open_options(&args.data.reading, 2 * MEMORY);
    let inputs = find_inputs(&args.data.data, MEMORY)?;
    let mut files: Vec<_> = inputs.iter().map(|input| input.path().to_path_buf()).collect();
    files.push(args.posterior.clone());
    plan::refuse_overwriting(&files, &args.output)?;
    let settings =
        PredictSettings { interval: args.interval, unseen: plan::unseen(args.unseen), threads: args.threads };
    let output = create_output(&args.output)?;
    let watcher = Watcher::new(args.show.quiet);
    let done = predict(&fit, inputs, &options, &settings, output, format, &watcher)?;
    if args.show.json {
        let record = json!({
            "output": show::path(&args.output),
            "rows": done.rows,
            "unseen": done.unseen,
            "columns": done.added,
            "interval": args.interval,
            "mean": done.mean,
        });
        show::print(&format!("{record}\n"));
    } else {
        show::print(&format!(
            "{}: {} with {} ({} interval)",
            args.output.display(),
            counted(done.rows, "row"),
            done.added.join(", "),
            args.interval,
        ));
        let label = &fit.encoding.label;
        show::print(&match done.mean {
            Some(mean) => format!(
                "; {} of '{}' are expected to be {}\n",
                number(mean * done.rows as f64),
                label.column,
                label.positive
            ),
            None => "\n".to_string(),
        });
        if done.unseen > 0 {
            let were = they_were(done.unseen, "value");
            show::print(&format!(
                "  {were} of a level that the model does not know, and taken for the reference\n"
            ));
        }
    }
    Ok(())
}
