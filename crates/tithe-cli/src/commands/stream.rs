//! `tithe stream`: the coreset of data that comes without end, and its state on disk.

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
use tithe::stream::feed::{End, Fed, feed};
use tithe::stream::{Progress, Stream, repair, snapshot};

use crate::args::StreamArgs;
use crate::commands::{certificate, create_parquet};
use crate::plan;
use crate::show::{self, Watcher, count, counted, number, standing, they_were};

/// Rows that tell what the columns hold.
const LOOKED_AT: usize = 10_000;
/// What to do after a stop.
const GO_ON: &str =
    "the same command goes on with rows that follow, or with --replay if it is fed the same ones again";
/// How often a watched directory is looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// Feeds a stream, or tells what is in it.
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
        tell_snapshot(args, &coreset);
        return Ok(());
    }
    let settings = plan::stream(args)?;
    let mut stream = Stream::open(&args.state, &settings, args.threads)?;
    if args.replay {
        stream.replay();
    }
    let start = Instant::now();
    let before = stream.progress();
    let mut feeder = Feeder { args, options: options(args), stream: &mut stream, watcher: &watcher };
    let end = match (&args.watch, &args.follow) {
        (Some(folder), _) => feeder.watch(folder),
        (None, Some(file)) => feeder.follow(file),
        (None, None) if args.data.is_empty() || args.data == ["-"] => feeder.standard_input(),
        (None, None) => feeder.files(),
    };
    // Whatever ended the reading, rows that came before it are in.
    stream.save()?;
    let saved = stream.saved().rows;
    if end.is_err() && saved > before.rows {
        let rows = counted(saved - before.rows, "row");
        let go_on = match before.rows {
            _ if args.watch.is_some() || args.follow.is_some() => "the same command goes on after them",
            0 => "to feed the same again, add --replay",
            _ => "go on with those that follow, or feed all from the very first on with --replay",
        };
        show::message(&format!("note: {rows} that came before are in; {go_on}"));
    }
    let end = end?;
    if end == End::Complete {
        stream.end()?;
    }
    if stream.progress().rows == 0 {
        let what = "the stream is empty: no row has come yet".to_string();
        return Err(ErrorKind::NoRows { what }.into());
    }
    // What is read until stopped ends no other way.
    let ended = end == End::Complete || args.follow.is_some() || args.watch.is_some();
    if let Some(path) = &args.output
        && ended
    {
        let output = create_parquet(path)?;
        // Who has stopped the reading has not stopped this.
        let coreset = stream.snapshot(if end == End::Complete { &watcher } else { &Silent })?;
        write_coreset(&coreset, output)?;
    }
    let output = args.output.as_deref();
    tell(args, before, stream.progress(), end, output.filter(|_| ended), start.elapsed());
    match output {
        Some(path) if !ended => {
            let what = format!("its rows are in, but '{}' was not written: {GO_ON}", path.display());
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
        // A file that grows holds its earlier rows still: those that are in are skipped, as if it were fed again.
        if !self.args.replay {
            self.stream.replay();
        }
        self.live(file, Growing::open(file, stop)?)
    }

    fn live(&mut self, name: &Path, reader: impl Read + Send + 'static) -> Result<End> {
        let known = self.stream.fields();
        let look_at = LOOKED_AT.min(self.args.block);
        let source = open_live(name, reader, &self.options, known.as_deref(), look_at)?;
        self.read(&*source, 0)
    }

    fn files(&mut self) -> Result<End> {
        let source = self.open(&self.args.data)?;
        self.read(&*source, 0)
    }

    /// Opens files; columns that are known to hold text are read as text.
    fn open(&self, names: &[String]) -> Result<Box<dyn Source>> {
        let mut options = self.options.clone();
        let known = self.stream.fields().unwrap_or_default();
        let text = known.iter().filter(|field| field.kind == tithe::data::block::Kind::Text);
        options.text.extend(text.map(|field| field.name.clone()));
        options.text.sort();
        options.text.dedup();
        open(names, &options)
    }

    /// Reads the files of a directory as they appear. A file counts once its size stays the same.
    fn watch(&mut self, folder: &Path) -> Result<End> {
        let mut seen: BTreeMap<PathBuf, (u64, Option<SystemTime>)> = BTreeMap::new();
        let mut resumed = self.stream.parts().last().map(str::to_string);
        loop {
            let mut now = BTreeMap::new();
            for path in parts_in(folder)? {
                let Ok(facts) = std::fs::metadata(&path) else { continue };
                now.insert(path, (facts.len(), facts.modified().ok()));
            }
            let done: Vec<String> = self.stream.parts().map(str::to_string).collect();
            let ready = now.iter().filter(|(path, facts)| seen.get(*path) == Some(facts));
            let ready = ready.map(|(path, _)| (path.clone(), file_name(path)));
            // The part that was being read when the stream stopped comes first, for as long as it is there.
            let first = resumed.as_ref().filter(|name| now.keys().any(|path| file_name(path) == **name));
            let next = ready
                .filter(|(_, name)| first.map_or(!done.contains(name), |first| first == name))
                .min_by_key(|(_, name)| name.clone());
            seen = now;
            if let Some((path, name)) = next {
                resumed = resumed.filter(|resumed| *resumed != name);
                let skipped = self.stream.begin_part(&name);
                let source = self.open(&[path.display().to_string()])?;
                if self.read(&*source, skipped)? == End::Stopped {
                    return Ok(End::Stopped);
                }
                continue;
            }
            if self.watcher.cancelled() {
                return Ok(End::Stopped);
            }
            self.stream.save_if_due()?;
            std::thread::sleep(PAUSE);
        }
    }

    /// Reads a source, but for its first rows.
    fn read(&mut self, source: &dyn Source, mut skipped: u64) -> Result<End> {
        let wanted = match self.stream.roles() {
            Some(known) => match &self.args.columns.label {
                Some(label) if *label != known.label => {
                    let what = format!("is '{label}', and the stream's is '{}'", known.label);
                    return Err(Error::setting("--label", what));
                }
                _ => tithe::data::table::Roles {
                    label: known.label,
                    weight: self.args.columns.weight.clone(),
                    features: self.args.columns.features.as_deref().map(plan::names),
                    exclude: plan::names(&self.args.columns.exclude),
                },
            },
            None if self.args.encoding.is_some() && self.args.columns.label.is_none() => {
                tithe::data::table::Roles { weight: self.args.columns.weight.clone(), ..Default::default() }
            }
            None => plan::roles(&self.args.columns, source)?,
        };
        let columns = self.stream.take_columns(source, &wanted)?;
        let threads =
            self.args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        self.watcher.event(Event::PassStarted { name: "streaming", rows: source.rows() });
        let (stream, watcher, most_bad) = (&mut *self.stream, self.watcher, self.args.skip_bad);
        let end = feed(source.scan(&columns)?, threads, most_bad.is_some(), watcher, &mut |fed| match fed {
            Fed::Rows(rows) => {
                let again = skipped.min(rows.len as u64) as usize;
                skipped -= again as u64;
                stream.push(rows.slice(again..rows.len), watcher)
            }
            Fed::Bad(error) => {
                let bad = stream.skip_bad_row();
                if most_bad.is_some_and(|most| bad > most) {
                    return Err(error);
                }
                watcher.event(Event::Warning(format!("left out: {error}")));
                Ok(())
            }
            Fed::Nothing => stream.save_if_due(),
        });
        self.watcher.event(Event::PassFinished);
        end
    }
}

/// Data files of a directory; names that begin with a dot or an underscore, or end as files in the making do, are left alone.
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
        show::print(&format!("{record}\n"));
        return Ok(());
    }
    let lost = match repaired.lost {
        Some(0) => "nothing was lost".to_string(),
        Some(lost) => {
            format!("{} must be fed again, from row {} on", counted(lost, "row"), count(repaired.rows + 1))
        }
        None => "nothing says how many must be fed again".to_string(),
    };
    show::print(&format!("{}: {} rows are in; {lost}\n", args.state.display(), count(repaired.rows)));
    Ok(())
}

/// Tells how far the stream is, how it ended, and what was written.
fn tell(args: &StreamArgs, before: Progress, now: Progress, end: End, output: Option<&Path>, time: Duration) {
    let new = now.rows - before.rows;
    if args.show.json {
        let mut record: Value = json!(now);
        record["state"] = json!(args.state);
        record["new_rows"] = json!(new);
        record["stopped"] = json!(end == End::Stopped);
        record["seconds"] = json!(time.as_secs_f64());
        record["output"] = json!(output);
        show::print(&format!("{record}\n"));
        return;
    }
    let mut text = format!(
        "{}: {} rows are in ({} new): {} in {}, and {} of the next block\n",
        args.state.display(),
        count(now.rows),
        count(new),
        counted(now.blocks, "block"),
        counted(now.coresets as u64, "coreset"),
        counted(now.pending, "row")
    );
    if now.rows_dropped > 0 {
        text += &format!("  {} dropped for missing values\n", they_were(now.rows_dropped, "row"));
    }
    if now.bad_rows > 0 {
        text += &format!("  {} could not be read: left out\n", counted(now.bad_rows, "row"));
    }
    if end == End::Stopped && args.output.is_none() {
        text += &format!("  stopped; {GO_ON}\n");
    }
    text += &format!(
        "  {} s, {} rows a second\n",
        number(time.as_secs_f64()),
        count((new as f64 / time.as_secs_f64().max(1e-9)) as u64)
    );
    if let Some(output) = output {
        text += &format!("  {}: the coreset of all of them\n", output.display());
    }
    show::print(&text);
}

fn tell_snapshot(args: &StreamArgs, coreset: &Coreset) {
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
        show::print(&format!("{record}\n"));
        return;
    }
    let output = args.output.as_ref().map_or(String::new(), |path| path.display().to_string());
    let rows = coreset.rows.len() as u64;
    let text = format!("{output}: {} for {}\n", standing(rows), count(facts.rows));
    show::print(&(text + &certificate::lines(coreset)));
}
