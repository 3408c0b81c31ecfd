//! `tithe stream`: maintains a coreset of an endless stream of rows, with its state on disk.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tithe::base::error::{Error, ErrorKind, Result};
use tithe::base::progress::{Event, Observer, Silent};
use tithe::coreset::Coreset;
use tithe::coreset::file::write_coreset;
use tithe::data::source::live::{Growing, open_live};
use tithe::data::source::{OpenOptions, Source, open};
use tithe::data::table::Roles;
use tithe::options::ColumnOptions;
use tithe::stream::feed::{End, Fed, feed};
use tithe::stream::{Progress, Stream, repair, snapshot};

use crate::args::StreamArgs;
use crate::commands::{certificate, create_parquet};
use crate::plan;
use crate::show::{self, Watcher, count, counted, number, represented, they_were};

/// Number of rows from which column types are inferred.
const TYPE_INFERENCE_ROWS: usize = 10_000;
/// How to continue after a stop.
const HOW_TO_RESUME: &str =
    "to resume, run the same command with the rows that follow, or add --replay to feed all rows again";
/// Interval between two checks of a watched directory.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Feeds the stream, writes a snapshot or repairs the state.
pub fn run(args: &StreamArgs) -> Result<()> {
    if args.repair {
        return repair_state(args);
    }
    let watcher = Watcher::new(args.show.quiet);
    if args.snapshot {
        let output = args.output.as_deref().map(create_parquet).transpose()?;
        let coreset = snapshot(&args.state, args.threads, &watcher)?;
        if let Some(output) = output {
            write_coreset(&coreset, output)?;
        }
        print_snapshot(args, &coreset);
        return Ok(());
    }
    let columns = plan::columns(&args.columns, args.encoding.as_deref())?;
    let settings = plan::stream(args, &columns)?;
    let mut stream = Stream::open(&args.state, &settings, args.threads)?;
    if args.replay {
        stream.replay();
    }
    let start = Instant::now();
    let before = stream.progress();
    let mut feeder =
        Feeder { args, columns: &columns, options: options(args), stream: &mut stream, watcher: &watcher };
    let end = match (&args.watch, &args.follow) {
        (Some(folder), _) => feeder.watch(folder),
        (None, Some(file)) => feeder.follow(file),
        (None, None) if args.data.is_empty() || args.data == ["-"] => feeder.standard_input(),
        (None, None) => feeder.files(),
    };
    // Rows read before an error are kept.
    stream.save()?;
    let saved = stream.saved().rows;
    if end.is_err() && saved > before.rows {
        let rows = counted(saved - before.rows, "row");
        let resume = match before.rows {
            _ if args.watch.is_some() || args.follow.is_some() => {
                "run the same command again to resume after them"
            }
            0 => "to feed the same input again, add --replay",
            _ => "resume with the rows that follow, or add --replay to feed all rows again",
        };
        let were = if saved - before.rows == 1 { "was" } else { "were" };
        show::remark(&format!("note: {rows} {were} saved before the error; {resume}"));
    }
    let end = end?;
    if end == End::Complete {
        stream.end()?;
    }
    if stream.progress().rows == 0 {
        let what = "the stream is empty: no rows have been read yet".to_string();
        return Err(ErrorKind::NoRows { what }.into());
    }
    // With --follow and --watch, being stopped is the normal end.
    let ended = end == End::Complete || args.follow.is_some() || args.watch.is_some();
    if let Some(path) = &args.output
        && ended
    {
        let output = create_parquet(path)?;
        // Ctrl-C stops reading; it must not cancel the snapshot as well.
        let coreset = stream.snapshot(if end == End::Complete { &watcher } else { &Silent })?;
        write_coreset(&coreset, output)?;
    }
    let output = args.output.as_deref();
    print_progress(args, before, stream.progress(), end, output.filter(|_| ended), start.elapsed());
    match output {
        Some(path) if !ended => {
            let what =
                format!("the rows read are saved, but '{}' was not written; {HOW_TO_RESUME}", path.display());
            Err(ErrorKind::Stopped { what }.into())
        }
        _ => Ok(()),
    }
}

fn options(args: &StreamArgs) -> OpenOptions {
    OpenOptions { lenient: args.skip_bad.is_some(), ..plan::open_options(&args.reading, 1 << 30) }
}

/// Reads one source after the other into a stream.
struct Feeder<'a> {
    args: &'a StreamArgs,
    columns: &'a ColumnOptions,
    options: OpenOptions,
    stream: &'a mut Stream,
    watcher: &'a Watcher,
}

impl Feeder<'_> {
    fn standard_input(&mut self) -> Result<End> {
        self.live(Path::new("standard input"), std::io::stdin())
    }

    fn follow(&mut self, file: &Path) -> Result<End> {
        let stop = Arc::new(|| show::STOP.load(Ordering::Relaxed));
        // A growing file still contains its earlier rows, so it is read as with --replay.
        if !self.args.replay {
            self.stream.replay();
        }
        self.live(file, Growing::open(file, stop)?)
    }

    fn live(&mut self, name: &Path, reader: impl Read + Send + 'static) -> Result<End> {
        let known = self.stream.fields();
        let rows = TYPE_INFERENCE_ROWS.min(self.args.block);
        let source = open_live(name, reader, &self.options, known.as_deref(), rows)?;
        self.read(source, 0)
    }

    fn files(&mut self) -> Result<End> {
        let source = self.open(&self.args.data)?;
        self.read(source, 0)
    }

    /// Opens files; columns that are text in the state are read as text.
    fn open(&self, names: &[String]) -> Result<Box<dyn Source>> {
        let mut options = self.options.clone();
        let known = self.stream.fields().unwrap_or_default();
        let text = known.iter().filter(|field| field.kind == tithe::data::block::Kind::Text);
        options.text.extend(text.map(|field| field.name.clone()));
        options.text.extend(self.columns.text_columns()?);
        options.text.sort();
        options.text.dedup();
        open(names, &options)
    }

    /// Reads the files of a directory as they appear. A file is read once its size has stopped changing.
    fn watch(&mut self, folder: &Path) -> Result<End> {
        let mut seen: BTreeMap<PathBuf, (u64, Option<SystemTime>)> = BTreeMap::new();
        let mut resumed = self.stream.unfinished_part().map(str::to_string);
        loop {
            let mut now = BTreeMap::new();
            for path in parts_in(folder)? {
                let Ok(facts) = std::fs::metadata(&path) else { continue };
                now.insert(path, (facts.len(), facts.modified().ok()));
            }
            let done: Vec<String> = self.stream.parts().map(str::to_string).collect();
            let ready = now.iter().filter(|(path, facts)| seen.get(*path) == Some(facts));
            let ready = ready.map(|(path, _)| (path.clone(), file_name(path)));
            // The file that was being read when the stream stopped comes first, if it still exists.
            let first = resumed.as_ref().filter(|name| now.keys().any(|path| file_name(path) == **name));
            let next = ready
                .filter(|(_, name)| first.map_or(!done.contains(name), |first| first == name))
                .min_by_key(|(_, name)| name.clone());
            seen = now;
            if let Some((path, name)) = next {
                resumed = resumed.filter(|resumed| *resumed != name);
                let skipped = self.stream.begin_part(&name);
                let source = self.open(&[path.display().to_string()]);
                match source.and_then(|source| self.read(source, skipped)) {
                    Ok(End::Complete) => {}
                    Ok(End::Stopped) => return Ok(End::Stopped),
                    Err(error) => self.skip_part(error)?,
                }
                continue;
            }
            if self.watcher.cancelled() {
                return Ok(End::Stopped);
            }
            self.stream.save_if_due()?;
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Skips and reports the part that cannot be read because of this error, if bad input is to be skipped.
    fn skip_part(&mut self, error: Error) -> Result<()> {
        if !matches!(error.kind(), ErrorKind::Malformed { .. }) {
            return Err(error);
        }
        let Some(max) = self.args.skip_bad else {
            let help =
                "move the file out of the directory, or skip bad rows and such files with --skip-bad N";
            return Err(error.with_help(help));
        };
        if self.stream.skip_part() > max {
            return Err(error);
        }
        self.watcher.event(Event::Warning(format!("skipped: {error}")));
        self.stream.save_if_due()
    }

    /// Reads a source, except for its first `skipped` rows.
    fn read(&mut self, source: Box<dyn Source>, mut skipped: u64) -> Result<End> {
        let wanted = match self.stream.roles() {
            Some(known) => Roles {
                label: self.columns.label.clone().unwrap_or(known.label),
                weight: self.columns.weight.clone(),
                features: self.columns.features.clone(),
                exclude: self.columns.exclude.clone(),
                dates: self.columns.dates.clone(),
            },
            None if self.columns.known.is_some() && self.columns.label.is_none() => {
                Roles { weight: self.columns.weight.clone(), ..Roles::default() }
            }
            None => self.columns.roles(&*source)?,
        };
        let source = self.stream.with_date_parts(source, &wanted)?;
        let columns = self.stream.take_columns(&*source, &wanted)?;
        let threads =
            self.args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        self.watcher.event(Event::PassStarted { name: "streaming", rows: source.rows() });
        let (stream, watcher, max_bad) = (&mut *self.stream, self.watcher, self.args.skip_bad);
        let end = feed(source.scan(&columns)?, threads, max_bad.is_some(), watcher, &mut |fed| match fed {
            Fed::Rows(rows) => {
                let again = skipped.min(rows.len as u64) as usize;
                skipped -= again as u64;
                stream.push(rows.slice(again..rows.len), watcher)
            }
            Fed::Bad(error) => {
                let bad = stream.skip_bad_row();
                if max_bad.is_some_and(|max| bad > max) {
                    return Err(error);
                }
                watcher.event(Event::Warning(format!("skipped: {error}")));
                Ok(())
            }
            Fed::Nothing => stream.save_if_due(),
        });
        self.watcher.event(Event::PassFinished);
        end
    }
}

/// The data files in a directory. Hidden and unfinished files are ignored: names that start with `.` or `_`, or end in
/// `.tmp` or `.part`.
fn parts_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("read", folder, error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = file_name(&path);
        let unfinished = name.starts_with(['.', '_']) || name.ends_with(".tmp") || name.ends_with(".part");
        if !unfinished && path.is_file() {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn repair_state(args: &StreamArgs) -> Result<()> {
    let repaired = repair(&args.state)?;
    if args.show.json {
        let record = json!({"state": show::path(&args.state), "rows": repaired.rows, "rows_to_feed_again": repaired.lost});
        show::print_record("stream", record);
        return Ok(());
    }
    let lost = match repaired.lost {
        Some(0) => "no rows were lost".to_string(),
        Some(lost) => {
            format!("feed {} again, starting with row {}", counted(lost, "row"), count(repaired.rows + 1))
        }
        None => "the number of rows to feed again is unknown".to_string(),
    };
    show::summary(&format!("{}: {} restored; {lost}\n", args.state.display(), counted(repaired.rows, "row")));
    Ok(())
}

/// Prints the progress of the stream, whether it reached the end of the input, and what was written.
fn print_progress(
    args: &StreamArgs,
    before: Progress,
    now: Progress,
    end: End,
    output: Option<&Path>,
    time: Duration,
) {
    let new = now.rows - before.rows;
    if args.show.json {
        let mut record: Value = json!(now);
        record["state"] = json!(args.state);
        record["new_rows"] = json!(new);
        record["stopped"] = json!(end == End::Stopped);
        record["seconds"] = json!(time.as_secs_f64());
        record["output"] = json!(output);
        show::print_record("stream", record);
        return;
    }
    let mut text = format!(
        "{}: {} ({} new): {} in {}, {} in the next block\n",
        args.state.display(),
        counted(now.rows, "row"),
        count(new),
        counted(now.blocks, "block"),
        counted(now.coresets as u64, "coreset"),
        counted(now.pending, "row")
    );
    if now.rows_dropped > 0 {
        text += &format!("  {} dropped because of missing values\n", they_were(now.rows_dropped, "row"));
    }
    if now.bad_rows > 0 {
        text += &format!("  {} skipped because of parse errors\n", they_were(now.bad_rows, "row"));
    }
    if end == End::Stopped && args.output.is_none() {
        text += &format!("  stopped; {HOW_TO_RESUME}\n");
    }
    text += &format!(
        "  {} s, {} rows per second\n",
        number(time.as_secs_f64()),
        count((new as f64 / time.as_secs_f64().max(1e-9)) as u64)
    );
    if let Some(output) = output {
        text += &format!("  coreset of all rows written to {}\n", output.display());
    }
    show::summary(&text);
}

fn print_snapshot(args: &StreamArgs, coreset: &Coreset) {
    let facts = &coreset.provenance;
    if args.show.json {
        let record = json!({
            "output": args.output.as_deref().map(show::path),
            "rows": facts.rows,
            "rows_read": facts.rows_read,
            "rows_dropped": facts.rows_dropped,
            "distinct_rows": coreset.rows.len(),
            "exact": facts.exact,
            "composition": facts.composition,
            "certificate": certificate::record(coreset),
        });
        show::print_record("stream", record);
        return;
    }
    let output = args.output.as_ref().map_or(String::new(), |path| path.display().to_string());
    let rows = coreset.rows.len() as u64;
    let text = format!("{output}: {}\n", represented(rows, facts.rows));
    show::summary(&(text + &certificate::lines(coreset)));
}
