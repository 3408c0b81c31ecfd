//! `tithe export`: writes a coreset and a matching model for other tools.

use std::path::Path;

use serde_json::json;
use tithe::base::error::{ErrorKind, Result};
use tithe::coreset::file::read_coreset;
use tithe::data::sink::write_directory;
use tithe::results::export::{Tool, export};

use crate::args::{ExportArgs, ToolArg};
use crate::show;

/// Writes the files.
pub fn run(args: &ExportArgs) -> Result<()> {
    show::be_quiet(args.show.quiet);
    let coreset = read_coreset(&args.coreset)?;
    let names = coreset.encoding.distinct_names()?;
    let priors = args
        .priors
        .choice()
        .unwrap_or_else(|| coreset.provenance.priors())
        .priors(&names, coreset.encoding.intercept)?;
    let tool = match args.to {
        ToolArg::Stan => Tool::Stan,
        ToolArg::Pymc => Tool::Pymc,
        ToolArg::Numpyro => Tool::Numpyro,
    };
    if args.output == Path::new("-") {
        let what = "means standard output, but this command writes several files".to_string();
        let help = Some("name a directory with -o (use ./- for a directory named '-')".into());
        return Err(ErrorKind::WrongFile { path: args.output.clone(), what, help }.into());
    }
    let files = export(&coreset, &priors, tool)?;
    write_directory(&args.output, &files)?;
    let paths: Vec<_> = files.iter().map(|(name, _)| args.output.join(name)).collect();
    if args.show.json {
        let files: Vec<String> = paths.iter().map(|path| show::path(path)).collect();
        show::print_record("export", json!({"output": show::path(&args.output), "files": files}));
    } else {
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        show::summary(&format!("wrote {}\n", paths.join(" and ")));
    }
    Ok(())
}
