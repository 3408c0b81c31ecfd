//! `tithe paper`: reproduces the paper's experiments.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tithe::base::error::{Error, ErrorKind, Result, Setting};
use tithe_paper::data::Library;
use tithe_paper::profile::Profile;
use tithe_paper::runner::{Context, Watch};
use tithe_paper::{Figure, run as run_figures};

use crate::args::{FigureArg, PaperArgs};
use crate::show::{self, counted, they_were};

/// Runs the experiments and draws the figures.
pub fn run(args: &PaperArgs) -> Result<()> {
    let profile = match (args.quick, args.profile) {
        (true, _) => Profile::Quick,
        (false, profile) => profile.unwrap_or(Profile::Full),
    };
    let figures: Vec<Figure> = match args.figures.as_slice() {
        [] => Figure::ALL.to_vec(),
        some => some.iter().map(figure).collect(),
    };
    let deadline = args.stop_after.map(minutes).transpose()?;
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    if threads == 0 {
        return Err(Error::setting(Setting::Threads, "must be at least 1"));
    }
    let watcher = CellWatcher {
        quiet: args.show.quiet || !std::io::stderr().is_terminal(),
        failures: AtomicUsize::new(0),
    };
    if let Some(folder) = args.data.as_deref().filter(|folder| !folder.is_dir()) {
        let what = "is not a directory".to_string();
        let help = Some("name the directory with the data sets, or omit --data".into());
        return Err(ErrorKind::WrongFile { path: folder.to_path_buf(), what, help }.into());
    }
    let context = Context {
        profile,
        library: Library::new(args.data.clone(), profile),
        folder: args.output.clone(),
        threads,
        deadline,
        watch: &watcher,
    };
    let report = run_figures(&context, &figures).map_err(|error| match error.kind() {
        ErrorKind::Cancelled => {
            let what = "finished cells are kept; run the same command again to resume".to_string();
            ErrorKind::Stopped { what }.into()
        }
        _ => error,
    })?;
    if report.figures.is_empty() && report.missing == 0 {
        let what =
            "no figure could be drawn, because the data sets for these experiments are missing".to_string();
        let help = Some("use --data to name the directory with the data sets".into());
        return Err(ErrorKind::Numerical { what, help }.into());
    }
    let page = args.output.join("results.md");
    if args.show.json {
        let record = json!({
            "output": show::path(&args.output),
            "profile": profile,
            "data": context.library.available(),
            "figures": report.figures,
            "page": page,
            "cells_missing": report.missing,
            "cells_failed": watcher.failures.load(Ordering::Relaxed),
        });
        show::print_record("paper", record);
    } else {
        let folder = args.output.display();
        show::print(&format!(
            "{}: {}; plots and tables written to {folder}\n",
            page.display(),
            counted(report.figures.len() as u64, "figure")
        ));
        if report.missing > 0 {
            let missing = they_were(report.missing as u64, "cell");
            show::print(&format!("  {missing} not run; run the same command again to resume\n"));
        }
    }
    match watcher.failures.load(Ordering::Relaxed) {
        0 => Ok(()),
        failures => Err(ErrorKind::Numerical {
            what: format!("{} failed, as reported above", counted(failures as u64, "cell")),
            help: Some("the page shows the other cells; run the same command again to retry".into()),
        }
        .into()),
    }
}

fn minutes(minutes: f64) -> Result<Instant> {
    Duration::try_from_secs_f64(60.0 * minutes)
        .ok()
        .and_then(|time| Instant::now().checked_add(time))
        .ok_or_else(|| {
            Error::setting(Setting::StopAfter, format!("must be a number of minutes, but is {minutes}"))
        })
}

fn figure(arg: &FigureArg) -> Figure {
    match arg {
        FigureArg::Fig1a => Figure::Fig1a,
        FigureArg::Fig1b => Figure::Fig1b,
        FigureArg::Fig1c => Figure::Fig1c,
        FigureArg::Fig2 => Figure::Fig2,
        FigureArg::Robustness => Figure::Robustness,
        FigureArg::Theory => Figure::Theory,
    }
}

/// Reports each finished cell if standard error is a terminal, and failures always.
struct CellWatcher {
    quiet: bool,
    failures: AtomicUsize,
}

impl Watch for CellWatcher {
    fn begin(&self, experiment: &str, done: usize, cells: usize) {
        if !self.quiet {
            show::message(&format!("{experiment}: {done} of {cells} cells already finished"));
        }
    }

    fn cell(&self, slug: &str, seconds: f64) {
        if !self.quiet {
            show::message(&format!("  {slug} ({seconds:.1} s)"));
        }
    }

    fn failure(&self, slug: &str, error: &Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        show::message(&format!("warning: {slug}: {error}"));
    }

    fn stopped(&self) -> bool {
        show::STOP.load(Ordering::Relaxed)
    }
}
