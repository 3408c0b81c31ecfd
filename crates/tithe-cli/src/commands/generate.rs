//! `tithe generate`: writes the paper's synthetic data, which has known coefficients.

use serde_json::json;
use tithe::base::error::{Error, Result, Setting};
use tithe::base::rng::Seed;
use tithe::data::generate::write_generated;
use tithe::data::sink::RowFormat;

use crate::args::GenerateArgs;
use crate::commands::create_output;
use crate::show::{self, Watcher, counted};

/// Generates the data and writes it.
pub fn run(args: &GenerateArgs) -> Result<()> {
    if args.rows == 0 {
        return Err(Error::setting(Setting::Rows, "must be at least 1"));
    }
    let format = RowFormat::of(&args.output, &[RowFormat::Parquet, RowFormat::Csv, RowFormat::Libsvm])?;
    let output = create_output(&args.output)?;
    let watcher = Watcher::new(args.show.quiet);
    write_generated(args.recipe, Seed(args.seed), args.rows, output, format, &watcher)?;
    if args.show.json {
        let record = json!({
            "output": show::path(&args.output),
            "recipe": args.recipe.to_string(),
            "rows": args.rows,
            "seed": args.seed,
            "theta": args.recipe.theta(),
            "intercept": 0.0,
        });
        show::print_record("generate", record);
    } else {
        let theta: Vec<String> = args.recipe.theta().iter().map(f64::to_string).collect();
        show::summary(&format!(
            "{}: {} of {}; {}; true coefficients {} (no intercept)\n",
            args.output.display(),
            counted(args.rows, "row"),
            args.recipe,
            if format == RowFormat::Libsvm { "label first in each row" } else { "label y" },
            theta.join(", ")
        ));
    }
    Ok(())
}
