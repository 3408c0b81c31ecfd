//! The command line of Tithe: reads the arguments, runs one command, decides the exit code.

mod args;
mod commands;
mod plan;
mod show;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Parser;
use tithe::base::error::{Error, ErrorKind, Result};

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    stop_on_interrupt();
    keep_panics_quiet();
    match catch_unwind(|| run(cli.command)) {
        Ok(Ok(())) if show::UNSAID.load(Ordering::Relaxed) => ExitCode::FAILURE,
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            show::message(&format!("error: {error}"));
            if let Some(help) = error.help() {
                show::message(&format!("  help: {help}"));
            }
            exit_code(&error)
        }
        Err(_) => {
            let what = LAST_PANIC.lock().map_or_else(|_| String::new(), |panic| panic.clone());
            show::message(&format!("error: this is a defect of tithe; please report it: {what}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Build(args) => commands::build::run(&args),
        Command::Stream(args) => commands::stream::run(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Fit(args) => commands::fit::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Certify(args) => commands::certify::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Paper(args) => commands::paper::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Completions(args) => commands::about::completions(&args),
        Command::Man(args) => commands::about::man(&args),
    }
}

/// What the last panic said of itself.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Decoders of others' may panic on damaged files; the library makes errors of that, so nothing else is to be
/// said. A panic that reaches `main` is told there.
fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string();
        }
    }));
}

/// 1: failed; 2: wrong usage.
fn exit_code(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::Setting { .. } => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

/// Ctrl-C asks the work to stop, so that nothing is left half-written. Work that does not hear it (waiting for
/// standard input) is ended a little later.
fn stop_on_interrupt() {
    let stop = || {
        show::STOP.store(true, Ordering::Relaxed);
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(3));
            commands::forget_outputs();
            show::message("error: stopped before the end; nothing was written");
            std::process::exit(1);
        });
    };
    if let Err(error) = ctrlc::set_handler(stop) {
        show::message(&format!("warning: Ctrl-C will not be handled: {error}"));
    }
}
