//! `tithe completions` and `tithe man`: shell completions and manual pages, generated from the argument definitions.

use std::path::Path;

use clap::CommandFactory;
use tithe::base::error::{Error, Result};

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::show;

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tithe", &mut script);
    show::print(&String::from_utf8_lossy(&script));
    Ok(())
}

/// Prints the main manual page, or writes one page per command to a directory.
pub fn man(args: &ManArgs) -> Result<()> {
    match &args.dir {
        Some(dir) => {
            clap_mangen::generate_to(Cli::command(), dir).map_err(|error| Error::io("write", dir, error))
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(|error| Error::io("write", Path::new("standard output"), error))?;
            show::print(&String::from_utf8_lossy(&page));
            Ok(())
        }
    }
}
