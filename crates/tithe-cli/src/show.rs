//! What the user sees: results on standard output, messages and progress on standard error.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tithe::base::progress::{Event, Observer};

/// Set by Ctrl-C and by the request to terminate.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Set when a result could not be written to standard output.
pub static UNSAID: AtomicBool = AtomicBool::new(false);

/// Writes to standard output; a reader who has gone away is no error.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let said = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = said
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        UNSAID.store(true, Ordering::Relaxed);
        message(&format!("error: cannot write to standard output: {error}"));
    }
}

/// Writes a message to standard error.
pub fn message(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Draws a bar on a terminal, nothing on a pipe; tells warnings; stops on Ctrl-C.
pub struct Watcher {
    visible: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Watcher {
    /// A watcher; a quiet one draws no bar.
    pub fn new(quiet: bool) -> Watcher {
        Watcher { visible: !quiet && std::io::stderr().is_terminal(), bar: Mutex::new(None) }
    }

    fn with_bar(&self, action: impl FnOnce(&mut Option<ProgressBar>)) {
        if self.visible
            && let Ok(mut bar) = self.bar.lock()
        {
            action(&mut bar);
        }
    }

    fn start(&self, name: &'static str, total: Option<u64>, unit: &str) {
        if !self.visible {
            return;
        }
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                format!(
                    "{{msg:24}} [{{bar:30}}] {{human_pos}}/{{human_len}} {unit}, {{per_sec}}, {{eta}} left"
                ),
            ),
            None => (
                ProgressBar::new_spinner(),
                format!("{{msg:24}} {{spinner}} {{human_pos}} {unit}, {{per_sec}}"),
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(name);
        bar.enable_steady_tick(Duration::from_millis(100));
        self.with_bar(|slot| *slot = Some(bar));
    }
}

impl Observer for Watcher {
    fn event(&self, event: Event) {
        match event {
            Event::PassStarted { name, rows } => self.start(name, rows, "rows"),
            Event::ChainsStarted { iterations, .. } => {
                self.start("drawing", Some(iterations), "iterations");
            }
            Event::RowsDone(count) | Event::IterationsDone(count) => self.with_bar(|bar| {
                if let Some(bar) = bar {
                    bar.inc(count);
                }
            }),
            Event::PassFinished | Event::ChainsFinished => self.with_bar(|bar| {
                if let Some(bar) = bar.take() {
                    bar.finish_and_clear();
                }
            }),
            Event::Warning(text) => message(&format!("warning: {text}")),
        }
    }

    fn cancelled(&self) -> bool {
        STOP.load(Ordering::Relaxed)
    }
}

/// A path as JSON has it: what is no UTF-8 cannot be told exactly.
pub fn path(path: &Path) -> String {
    path.display().to_string()
}

/// A whole number with commas: 1,000,000.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many there are of something: 1 row, 2 rows.
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A coreset's rows and what they do: 1 weighted row stands, 2 weighted rows stand.
pub fn standing(rows: u64) -> String {
    format!("{} {}", counted(rows, "weighted row"), if rows == 1 { "stands" } else { "stand" })
}

/// How many there were of something, as a sentence begins: 1 row was, 2 rows were.
pub fn they_were(number: u64, what: &str) -> String {
    format!("{} {}", counted(number, what), if number == 1 { "was" } else { "were" })
}

/// A number to four significant digits.
pub fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    let digits = if value == 0.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(count(999), "999");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(1_000, "row"), "1,000 rows");
        assert_eq!([they_were(1, "row"), they_were(2, "row")], ["1 row was", "2 rows were"]);
        assert_eq!(number(1.23456), "1.235");
        assert_eq!(number(123.456), "123.5");
        assert_eq!(number(1e-9), "1.000e-9");
    }
}
