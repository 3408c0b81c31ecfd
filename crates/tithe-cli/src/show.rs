//! Terminal output: results go to standard output, messages and progress to standard error.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tithe::base::progress::{Event, Observer};

/// Set by Ctrl-C or SIGTERM: the running command should stop.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Set by --quiet: only errors, and results that are not written to a file, are shown.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Set if a result could not be written to standard output.
pub static OUTPUT_FAILED: AtomicBool = AtomicBool::new(false);

/// A name, a level or a path on one line that cannot move the cursor, change colours or reorder text: control characters
/// and those that direct the order of writing become `\u001b` and the like, as in JSON.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// The same for text of several lines.
fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_allowed: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_harmful = |c: char| is_unprintable(c) && !is_allowed(c);
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_harmful(c) {
            true => safe += &format!("\\u{:04x}", u32::from(c)),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Control characters, separators of lines, and marks that change the order in which text is shown.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Writes to standard output. A closed pipe is not an error: the reader may stop early.
///
/// Names in the text come from files, so nothing in it can control the terminal.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(printable_lines(text).as_bytes()).and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        OUTPUT_FAILED.store(true, Ordering::Relaxed);
        message(&format!("error: cannot write to standard output: {error}"));
    }
}

/// Writes a summary of what was written to a file to standard output, unless --quiet was given.
pub fn summary(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        print(text);
    }
}

/// The version of the records that --json writes. It grows when a key changes its meaning or disappears; see docs/reference/json.md.
const RECORD_VERSION: u64 = 1;

/// Writes the record of a command to standard output, as one line of JSON with the name of the command and the version.
pub fn print_record(command: &str, mut record: serde_json::Value) {
    if let Some(entries) = record.as_object_mut() {
        entries.insert("command".to_string(), command.into());
        entries.insert("record_version".to_string(), RECORD_VERSION.into());
    }
    print(&format!("{record}\n"));
}

/// With `quiet`, warnings, notes and summaries are not shown.
pub fn be_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Writes a warning or a note to standard error, unless --quiet was given.
pub fn remark(text: &str) {
    if !QUIET.load(Ordering::Relaxed) {
        message(text);
    }
}

/// Writes a message to standard error.
pub fn message(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable(text));
}

/// Shows a progress bar if standard error is a terminal, prints warnings, and stops the work on Ctrl-C.
pub struct Watcher {
    visible: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Watcher {
    /// A watcher; with `quiet` it shows no progress bar and no warnings.
    pub fn new(quiet: bool) -> Watcher {
        be_quiet(quiet);
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
                format!("{{msg:24}} [{{bar:16}}] {{percent:>3}} % of {{human_len}} {unit}, {{eta}} left"),
            ),
            None => (ProgressBar::new_spinner(), format!("{{msg:24}} {{spinner}} {{human_pos}} {unit}")),
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
                self.start("sampling", Some(iterations), "iterations");
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
            Event::Warning(text) => remark(&format!("warning: {text}")),
        }
    }

    fn cancelled(&self) -> bool {
        STOP.load(Ordering::Relaxed)
    }
}

/// A path as text for JSON; bytes that are not UTF-8 are replaced.
pub fn path(path: &Path) -> String {
    path.display().to_string()
}

/// An integer with thousands separators: 1,000,000.
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

/// A number with its noun in singular or plural: 1 row, 2 rows.
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// The size of a coreset and of its data: 300 weighted rows represent 10,000 rows.
pub fn represented(size: u64, rows: u64) -> String {
    let verb = if size == 1 { "represents" } else { "represent" };
    format!("{} {verb} {}", counted(size, "weighted row"), counted(rows, "row"))
}

/// A number with its noun and verb: 1 row was, 2 rows were.
pub fn they_were(number: u64, what: &str) -> String {
    format!("{} {}", counted(number, what), if number == 1 { "was" } else { "were" })
}

/// A number to four significant digits.
pub fn number(value: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    // Rounding to four digits can carry into another decade: 0.99999 becomes 1.000, not 1.0000.
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    let digits = if rounded == 0.0 { 0 } else { 3 - rounded.abs().log10().floor() as i32 };
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}

/// A range of numbers, or a single number if both ends print the same: 0.98 to 1.02.
pub fn range(low: f64, high: f64) -> String {
    match (number(low), number(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_control_the_terminal() {
        assert_eq!(printable("Zürich = 日本 \"½\""), "Zürich = 日本 \"½\"");
        assert_eq!(printable("\x1b[2J\r\n\u{9b}31m"), "\\u001b[2J\\u000d\\u000a\\u009b31m");
        assert_eq!(printable("a\u{202e}b\u{2067}"), "a\\u202eb\\u2067");
        assert_eq!(printable_lines("a\tb\n\x07c\n"), "a\tb\n\\u0007c\n");
        // What is escaped in JSON stays the same text.
        let json = serde_json::json!("\u{85}\u{202e}").to_string();
        let read: String = serde_json::from_str(&printable_lines(&json)).unwrap();
        assert_eq!(read, "\u{85}\u{202e}");
    }

    #[test]
    fn numbers_are_formatted_for_reading() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_000_000), "1,000,000");
        assert_eq!(count(999), "999");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(1_000, "row"), "1,000 rows");
        assert_eq!([they_were(1, "row"), they_were(2, "row")], ["1 row was", "2 rows were"]);
        assert_eq!(number(1.23456), "1.235");
        assert_eq!(number(123.456), "123.5");
        assert_eq!(number(1e-9), "1.000e-9");
        assert_eq!([number(0.99999), number(9.9999)], ["1.000", "10.00"]);
        assert_eq!([range(0.99999, 1.00001), range(0.5, 2.0)], ["1.000", "0.5000 to 2.000"]);
        assert_eq!(represented(1, 2), "1 weighted row represents 2 rows");
        assert_eq!(represented(300, 10_000), "300 weighted rows represent 10,000 rows");
    }
}
