//! The command-line program: parses the arguments, runs one command and sets the exit code.

mod args;
mod commands;
mod plan;
mod show;
mod words;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Parser;
use tithe::base::error::{Error, ErrorKind, Result};

use args::{Cli, Command};
use words::CommandLine;

fn main() -> ExitCode {
    let cli = Cli::parse();
    stop_on_interrupt();
    suppress_panic_messages();
    match catch_unwind(|| run(cli.command)) {
        Ok(Ok(())) if show::OUTPUT_FAILED.load(Ordering::Relaxed) => ExitCode::FAILURE,
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            report(&error);
            exit_code(&error)
        }
        Err(_) => {
            let what = LAST_PANIC.lock().map_or_else(|_| String::new(), |panic| panic.clone());
            show::message(&format!("error: this is a bug in tithe; please report it: {what}"));
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
        Command::Check(args) => commands::check::run(&args),
        Command::Certify(args) => commands::certify::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Groups(args) => commands::groups::run(&args),
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

/// Shows an error with its remedies; several problems one below the other.
fn report(error: &Error) {
    let show_one = |start: &str, indent: &str, error: &Error| {
        let text = format!("{start}{}", error.message(&CommandLine));
        match error.kind() {
            // The formula and the caret under it are on lines of their own.
            ErrorKind::Formula { .. } => text.lines().for_each(show::message),
            _ => show::message(&text),
        }
        if let Some(help) = error.help() {
            show::message(&format!("{indent}help: {}", help.words(&CommandLine)));
        }
    };
    match error.kind() {
        ErrorKind::Several { errors } => {
            show::message(&format!("error: {} problems", errors.len()));
            errors.iter().for_each(|error| show_one("  ", "    ", error));
        }
        _ => show_one("error: ", "  ", error),
    }
}

/// The exit code after Ctrl-C: 128 and the number of the signal.
const INTERRUPTED: u8 = 130;

/// Message of the last panic.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Suppresses panic messages: third-party decoders may panic on damaged files, which the library turns into errors.
/// `main` reports a panic that reaches it.
fn suppress_panic_messages() {
    std::panic::set_hook(Box::new(|panic| {
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string().replace('\n', " ");
        }
    }));
}

/// The exit code: 1 for a failure, 2 for wrong usage, 130 after Ctrl-C, as shells report it.
fn exit_code(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::Setting { .. } | ErrorKind::Formula { .. } => ExitCode::from(2),
        ErrorKind::Cancelled => ExitCode::from(INTERRUPTED),
        _ => ExitCode::FAILURE,
    }
}

/// On Ctrl-C, asks the running command to stop, so that no half-written file remains. Exits after three seconds if it does
/// not, for example because it waits for standard input.
fn stop_on_interrupt() {
    let stop = || {
        show::STOP.store(true, Ordering::Relaxed);
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(3));
            commands::remove_temporary_files();
            show::message("error: stopped before the end; nothing was written");
            std::process::exit(INTERRUPTED.into());
        });
    };
    if let Err(error) = ctrlc::set_handler(stop) {
        show::message(&format!("warning: Ctrl-C will not be handled: {error}"));
    }
}
