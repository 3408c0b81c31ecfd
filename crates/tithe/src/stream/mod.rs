//! Streams: coresets of data that arrives block by block without end. A stream saves its state and resumes after a stop or
//! a crash.

mod check;
pub mod feed;
mod packed;
mod state;
pub mod tree;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind, Help, Operation, Remedy, Result, Setting};
use crate::base::progress::{Event, Observer};
use crate::coreset::build::BuildSettings;
use crate::coreset::merge::Quiet;
use crate::coreset::{Coreset, Movement};
use crate::data::block::{Block, Field, Segment};
use crate::data::fingerprint::Fingerprint;
use crate::data::source::Source;
use crate::data::source::memory::Columns;
use crate::data::table::{Roles, Table};
use crate::encoding::survey::{check_rows, survey};
use crate::encoding::{Standardize, Unseen};
use crate::engine::{EngineSettings, LocalEngine, Missing};
use check::Classes;
pub use packed::Packed;
use state::{Content, Directory, FieldRecord, Layout, Manifest, Named, PartRecord, refused};
use tree::{Fading, ReferencePoint, Rows, Tree, TreeSettings};

/// The name in messages of a stream without a state on disk.
const MEMORY: &str = "memory";
/// Drift of a mean is reported beyond this many standard deviations of the first block.
const DRIFT: f64 = 5.0;
/// The longest half-life, in rows.
const MAX_HALF_LIFE: f64 = 1e15;
/// Rows that arrive in small pieces are concatenated when there are this many pieces.
const MAX_PIECES: usize = 256;
/// How often rows of an incomplete block are saved; complete blocks are saved so often that it takes 1/20 of the time.
const PENDING_SAVES: Duration = Duration::from_secs(1);
const SHARE_OF_SAVING: u32 = 20;

/// The settings of a stream. They are saved with its state and must be the same when it resumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct StreamSettings {
    /// How coresets are built, and how columns are encoded.
    pub build: BuildSettings,
    /// How to treat rows with unusable values.
    pub missing: Missing,
    /// Rows per block.
    pub block: usize,
    /// Number of rows from which the encoding is learnt, if it is not known.
    pub warmup_rows: usize,
    /// Number of rows after which weights have halved; `None` if they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_life: Option<f64>,
}

impl Default for StreamSettings {
    fn default() -> StreamSettings {
        let block = 50_000;
        let build = BuildSettings::default();
        StreamSettings { build, missing: Missing::Error, block, warmup_rows: block, half_life: None }
    }
}

impl StreamSettings {
    /// The default settings with this number of rows per coreset.
    pub fn with_rows(rows: usize) -> StreamSettings {
        StreamSettings { build: BuildSettings::with_rows(rows), ..StreamSettings::default() }
    }

    fn check(&self) -> Result<()> {
        if self.block == 0 || self.block > 1 << 30 {
            return Err(Error::setting(Setting::Block, "must be between 1 and 2^30"));
        }
        if self.warmup_rows == 0 || self.warmup_rows > 1 << 30 {
            return Err(Error::setting(Setting::WarmupRows, "must be between 1 and 2^30"));
        }
        if self.half_life.is_some_and(|rows| !(1.0..=MAX_HALF_LIFE).contains(&rows)) {
            return Err(Error::setting(Setting::HalfLife, "must be a number of rows between 1 and 10^15"));
        }
        self.build.check()
    }

    fn tree(&self, threads: Option<usize>) -> TreeSettings {
        let (build, missing) = (self.build.clone(), self.missing);
        let fading = self.half_life.map(|rows| Fading { block: self.block, half_life: rows });
        TreeSettings { build, missing, threads, reference: ReferencePoint::Renewed, fading }
    }
}

/// A stream, with its state on disk if it has one. A state has one writer.
///
/// A clone shares its data and the right to write with the original; only one of the two may save.
#[derive(Clone)]
pub struct Stream {
    settings: StreamSettings,
    threads: Option<usize>,
    disk: Option<Arc<OnDisk>>,
    saves: Saves,
    manifest: Manifest,
    tree: Tree,
    /// Rows of the incomplete block.
    pending: Vec<Segment>,
    pending_rows: usize,
    /// True if a block failed: the state is then not saved any more, because the block would fail again.
    is_broken: bool,
    /// The columns, once this process has had a source.
    table: Option<Arc<Table>>,
    /// The values of the label, as long as the encoding is not known.
    classes: Classes,
    /// Rows that are fed again and are already counted.
    replayed: Option<Replayed>,
    /// The contents at the last save.
    saved: Progress,
    last_save: Instant,
    cost_of_save: Duration,
}

/// The directory of a stream's state, with the lock of its writer.
struct OnDisk {
    directory: Directory,
    _lock: File,
}

/// When a stream is saved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Saves {
    /// While rows are added, and when `save` is called.
    Automatic,
    /// Only when `save` is called.
    Manual,
}

/// Rows fed again.
#[derive(Clone)]
struct Replayed {
    left: u64,
    fingerprint: Fingerprint,
}

/// The progress of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Number of rows added.
    pub rows: u64,
    /// Number of complete blocks.
    pub blocks: u64,
    /// Number of rows in the incomplete block.
    pub pending: u64,
    /// Number of added rows that are not used, because of a missing, infinite or inexact value.
    pub rows_dropped: u64,
    /// Number of rows that could not be read and were skipped.
    pub bad_rows: u64,
    /// Number of coresets in the tree.
    pub coresets: usize,
}

impl Stream {
    /// Starts a stream in a directory, or resumes the one that is there.
    ///
    /// # Errors
    /// If another process writes there, the settings differ from those of the existing stream, or a file of its state is
    /// damaged.
    pub fn open(path: impl AsRef<Path>, settings: &StreamSettings, threads: Option<usize>) -> Result<Stream> {
        settings.check()?;
        let mut settings = settings.clone();
        let directory = Directory::new(path.as_ref());
        let lock = directory.lock()?;
        let manifest = match directory.manifest()? {
            Some(manifest) => {
                // Older versions recorded a boolean. Their default was to scale 0/1 columns too, and it stays in force.
                let recorded = &manifest.settings["build"]["encoding"]["standardize"];
                let standardize = &mut settings.build.encoding.standardize;
                if *recorded == json!(true) && *standardize == Standardize::Numeric {
                    *standardize = Standardize::All;
                }
                let different = differences(&manifest.settings, &json_of(&settings));
                if !different.is_empty() {
                    let what = format!("was made with other settings: {}", different.join("; "));
                    return Err(
                        directory.refused(&what, ["give the same settings".into(), Remedy::OtherState])
                    );
                }
                // New levels may be allowed at any time; from then on there may be rows that have them.
                if manifest.settings["build"]["encoding"]["unseen"] == json!(Unseen::Reference) {
                    settings.build.encoding.unseen = Unseen::Reference;
                }
                Manifest { settings: json_of(&settings), ..manifest }
            }
            None => Manifest::new(json_of(&settings)),
        };
        let content = directory.content(&manifest)?;
        directory.sweep()?;
        let disk = OnDisk { directory, _lock: lock };
        Stream::with_content(&settings, threads, Some(Arc::new(disk)), manifest, content)
    }

    /// Starts a stream that exists only in memory and is never saved.
    pub fn in_memory(settings: &StreamSettings, threads: Option<usize>) -> Result<Stream> {
        settings.check()?;
        let content = Content { levels: Vec::new(), pending: None, carried: None };
        Stream::with_content(settings, threads, None, Manifest::new(json_of(settings)), content)
    }

    fn with_content(
        settings: &StreamSettings,
        threads: Option<usize>,
        disk: Option<Arc<OnDisk>>,
        manifest: Manifest,
        content: Content,
    ) -> Result<Stream> {
        let tree =
            Tree::with_levels(settings.tree(threads), content.levels, manifest.blocks, content.carried)?;
        let mut stream = Stream {
            settings: settings.clone(),
            threads,
            disk,
            saves: Saves::Automatic,
            tree,
            pending_rows: content.pending.as_ref().map_or(0, |rows| rows.len),
            is_broken: false,
            table: None,
            classes: Classes::default(),
            pending: content.pending.into_iter().collect(),
            replayed: None,
            saved: Progress::default(),
            manifest,
            last_save: Instant::now(),
            cost_of_save: Duration::ZERO,
        };
        stream.remember_encoding();
        stream.saved = stream.progress();
        if let Some(layout) = &stream.manifest.layout {
            for rows in &stream.pending {
                // A third class among them is detected when the next rows are added.
                let rows = Block::new(0, 0, rows.clone());
                let usable = settings.missing.in_use(rows, layout.features);
                let _ = stream.classes.add(&usable, layout.features, "");
            }
        }
        Ok(stream)
    }

    /// Saves only when the caller calls `save`: until then, added rows are not on disk.
    #[doc(hidden)]
    pub fn disable_automatic_saves(&mut self) {
        self.saves = Saves::Manual;
    }

    /// The settings.
    #[doc(hidden)]
    pub fn settings(&self) -> &StreamSettings {
        &self.settings
    }

    /// The progress at the last save.
    #[doc(hidden)]
    pub fn saved(&self) -> Progress {
        self.saved
    }

    /// The current progress.
    #[doc(hidden)]
    pub fn progress(&self) -> Progress {
        Progress {
            rows: self.manifest.rows,
            blocks: self.tree.blocks(),
            pending: self.pending_rows as u64,
            rows_dropped: self.manifest.rows_dropped,
            bad_rows: self.manifest.bad_rows,
            coresets: self.tree.levels().iter().flatten().count(),
        }
    }

    /// The columns that rows must have, once they are known: features, label, and the weight if there is one.
    #[doc(hidden)]
    pub fn fields(&self) -> Option<Vec<Field>> {
        let layout = self.manifest.layout.as_ref()?;
        Some(layout.fields.iter().map(FieldRecord::field).collect())
    }

    /// The roles of the columns, once they are known.
    #[doc(hidden)]
    pub fn roles(&self) -> Option<Roles> {
        self.manifest.layout.as_ref().map(roles)
    }

    /// The next source starts with its first row: rows that are already counted are skipped, and must be the same.
    #[doc(hidden)]
    pub fn replay(&mut self) {
        self.replayed = Some(Replayed { left: self.manifest.rows, fingerprint: Fingerprint::default() });
        self.manifest.bad_rows = 0;
    }

    /// The source with the parts of its dates as columns.
    #[doc(hidden)]
    pub fn with_date_parts(&self, source: Box<dyn Source>, wanted: &Roles) -> Result<Box<dyn Source>> {
        let known = self.manifest.layout.is_some() || self.settings.build.encoding.known.is_some();
        let roles = self.roles_for(wanted);
        let kept = roles.features.iter().flatten().filter(|_| known).cloned().collect::<Vec<_>>();
        roles.with_date_parts(source, &kept)
    }

    /// The roles that the stream or the given encoding has, or those that are wanted.
    fn roles_for(&self, wanted: &Roles) -> Roles {
        self.roles().unwrap_or_else(|| match &self.settings.build.encoding.known {
            Some(encoding) => Roles {
                label: encoding.label.column.clone(),
                weight: wanted.weight.clone(),
                features: Some(encoding.features.iter().map(|feature| feature.column.clone()).collect()),
                ..Roles::default()
            },
            None => wanted.clone(),
        })
    }

    /// Checks the columns of a source and returns the positions of those to read. The first source defines them.
    #[doc(hidden)]
    pub fn take_columns(&mut self, source: &dyn Source, wanted: &Roles) -> Result<Vec<usize>> {
        let all = source.fields();
        if let Some(known) = self.roles() {
            self.check_roles(&known, wanted)?;
        }
        if let Some(encoding) = &self.settings.build.encoding.known {
            check_label(wanted, &encoding.label.column, "the encoding")?;
        }
        let roles = self.roles_for(wanted);
        // The table checks the roles; it uses only the fields.
        let empty = Segment { columns: Vec::new(), len: 0 };
        let columns = Columns::of_rows(all.to_vec(), empty, 0, source.is_sparse());
        let table = Table::new(Box::new(columns), &roles)?;
        let layout = Layout {
            fields: table.fields().iter().map(FieldRecord::new).collect(),
            features: table.features().len(),
            is_sparse: source.is_sparse(),
        };
        match &self.manifest.layout {
            None => self.manifest.layout = Some(layout),
            Some(known) => {
                for (known, field) in known.fields.iter().map(FieldRecord::field).zip(table.fields()) {
                    if known.kind != field.kind {
                        return Err(ErrorKind::Column {
                            column: field.name.clone(),
                            what: format!("holds {:?} and held {:?} before", field.kind, known.kind)
                                .to_lowercase(),
                            help: None,
                        }
                        .into());
                    }
                }
            }
        }
        let positions = table.positions().to_vec();
        self.table = Some(Arc::new(table));
        Ok(positions)
    }

    /// Returns an error if the requested columns differ from those of the stream. No request means the stream's columns.
    fn check_roles(&self, known: &Roles, wanted: &Roles) -> Result<()> {
        check_label(wanted, &known.label, "the stream")?;
        let named = |weight: &Option<String>| {
            weight.as_ref().map_or("no weight".into(), |name| format!("the weight '{name}'"))
        };
        let of_before = known.features.clone().unwrap_or_default();
        let what = if wanted.weight.is_some() && wanted.weight != known.weight {
            format!("has {}, and now {}", named(&known.weight), named(&wanted.weight))
        } else if let Some(feature) = of_before.iter().find(|name| wanted.exclude.contains(name)) {
            format!("has the feature '{feature}', which is now excluded")
        } else if let Some(features) = &wanted.features
            && self.settings.build.encoding.known.is_none()
            && (features.iter().any(|name| !of_before.contains(name) && !wanted.exclude.contains(name))
                || of_before.iter().any(|name| !features.contains(name)))
        {
            format!("has the features {}, and now {}", of_before.join(", "), features.join(", "))
        } else {
            return Ok(());
        };
        Err(self.refused(&what, ["give the same columns as before".into(), Remedy::OtherState]))
    }

    /// Starts a part file of a watched directory, and returns how many of its rows were already added.
    #[doc(hidden)]
    pub fn begin_part(&mut self, name: &str) -> u64 {
        match self.manifest.parts.iter().position(|part| part.name == name) {
            Some(at) => {
                // Only the last part can be incomplete, so only its rows are counted.
                let part = self.manifest.parts.remove(at);
                self.manifest.parts.push(part.clone());
                part.rows
            }
            None => {
                self.manifest.parts.push(PartRecord { name: name.to_string(), rows: 0, damaged: false });
                0
            }
        }
    }

    /// The parts that were added; only the last one may be incomplete.
    #[doc(hidden)]
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.manifest.parts.iter().map(|part| part.name.as_str())
    }

    #[doc(hidden)]
    /// The part that was being read at the last save, if it may have more rows.
    pub fn unfinished_part(&self) -> Option<&str> {
        self.manifest.parts.last().filter(|part| !part.damaged).map(|part| part.name.as_str())
    }

    #[doc(hidden)]
    /// Skips the rest of the current part because it cannot be read, and counts it as one bad row.
    pub fn skip_part(&mut self) -> u64 {
        if let Some(part) = self.manifest.parts.last_mut() {
            part.damaged = true;
        }
        self.skip_bad_row()
    }

    /// Counts a row that could not be read and is skipped.
    #[doc(hidden)]
    pub fn skip_bad_row(&mut self) -> u64 {
        self.manifest.bad_rows += 1;
        self.manifest.bad_rows
    }

    /// Adds rows with the columns that [`Stream::take_columns`] returned, in the order of the input.
    ///
    /// # Errors
    /// If rows cannot be used, or rows fed again differ from those that were counted. The state on disk stays valid.
    #[doc(hidden)]
    pub fn push(&mut self, mut rows: Segment, observer: &dyn Observer) -> Result<()> {
        self.check_whole()?;
        let missing = self.settings.missing;
        let features = self.manifest.layout.as_ref().map_or(usize::MAX, |layout| layout.features);
        if let Some(replayed) = &mut self.replayed {
            let again = replayed.left.min(rows.len as u64) as usize;
            if again > 0 {
                let rows = Block::new(0, 0, rows.slice(0..again));
                replayed.fingerprint.merge(Fingerprint::of(&missing.in_use(rows, features)));
            }
            replayed.left -= again as u64;
            rows = rows.slice(again..rows.len);
            if replayed.left == 0 {
                let found = replayed.fingerprint;
                self.expect(found)?;
                self.replayed = None;
            }
        }
        if rows.len == 0 {
            return Ok(());
        }
        let usable = missing.in_use(Block::new(0, self.manifest.rows, rows.clone()), features);
        self.classes = self.check(&usable)?;
        self.manifest.rows += rows.len as u64;
        self.manifest.rows_dropped += (rows.len - usable.len) as u64;
        if let Some(part) = self.manifest.parts.last_mut() {
            part.rows += rows.len as u64;
        }
        self.manifest.fingerprint.merge(Fingerprint::of(&usable));
        self.pending_rows += rows.len;
        self.pending.push(rows);
        if self.pending.len() > MAX_PIECES {
            self.pending = vec![Segment::concat(std::mem::take(&mut self.pending))];
        }
        while self.pending_rows >= self.enough() {
            if let Err(error) = self.take_in_block(observer) {
                // A stop in the middle of a block loses no rows: they are added and wait for the next call.
                self.is_broken = !matches!(error.kind(), ErrorKind::Cancelled);
                return if self.is_broken { Err(error) } else { Ok(()) };
            }
            if self.saves == Saves::Automatic {
                self.save_if_due()?;
            }
        }
        Ok(())
    }

    fn check_whole(&self) -> Result<()> {
        match self.is_broken {
            true => Err(self.refused("has a block that failed", "open the state again")),
            false => Ok(()),
        }
    }

    /// Checks that rows can be used, before they change the stream. Returns the classes that are known afterwards.
    fn check(&self, block: &Block) -> Result<Classes> {
        let mut classes = self.classes.clone();
        let Some(table) = &self.table else { return Ok(classes) };
        let encoding = &self.settings.build.encoding;
        let known = self.manifest.encoding.as_ref().or(encoding.known.as_ref());
        check_rows(table, block, known, encoding, self.settings.missing)?;
        if known.is_none() {
            classes.add(block, table.features().len(), &table.label().name)?;
        }
        Ok(classes)
    }

    fn expect(&self, found: Fingerprint) -> Result<()> {
        if found == self.manifest.fingerprint {
            return Ok(());
        }
        let (rows, counted) = (self.manifest.rows, self.manifest.fingerprint);
        let what = format!("the first {rows} rows have the fingerprint {found}, and {counted} was counted");
        Err(self.refused(
            &format!("does not belong to the rows fed again: {what}"),
            ["feed the same rows in the same order".into(), Remedy::Omit(Setting::Replay)],
        ))
    }

    /// Ends a source; an error if it had fewer rows than were to be skipped.
    #[doc(hidden)]
    pub fn end(&mut self) -> Result<()> {
        match self.replayed.take() {
            Some(Replayed { left, .. }) if left > 0 => {
                let what = format!("contains {left} more rows than were fed again");
                Err(self.refused(
                    &what,
                    ["feed all rows from the beginning".into(), Remedy::Omit(Setting::Replay)],
                ))
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, what: &str, help: impl Into<Help>) -> Error {
        let path = self.disk.as_ref().map_or(Path::new(MEMORY), |disk| disk.directory.path());
        refused(path, what, help)
    }

    /// Number of rows needed before the next block is built.
    fn enough(&self) -> usize {
        match self.manifest.encoding.is_some() || self.settings.build.encoding.known.is_some() {
            true => self.settings.block,
            false => self.settings.block.max(self.settings.warmup_rows),
        }
    }

    /// Builds a block from the waiting rows; if that fails, they keep waiting.
    fn take_in_block(&mut self, observer: &dyn Observer) -> Result<()> {
        let all = Segment::concat(std::mem::take(&mut self.pending));
        self.pending = vec![all.clone()];
        if self.settings.warmup_rows != self.settings.block {
            learn(&mut self.tree, &self.settings, self.manifest.layout.as_ref(), &all, self.threads)?;
        }
        let block = self.settings.block;
        let first_row = self.manifest.rows - all.len as u64;
        let rows = rows_of(self.manifest.layout.as_ref(), all.slice(0..block), first_row)?;
        let before = self.tree.movement();
        let moments = self.tree.push(rows, observer)?;
        self.pending_rows = all.len - block;
        self.pending = if self.pending_rows > 0 { vec![all.slice(block..all.len)] } else { Vec::new() };
        self.remember_encoding();
        self.watch_drift(moments, observer);
        self.watch_movement(before, observer);
        Ok(())
    }

    fn remember_encoding(&mut self) {
        let held = self.tree.levels().iter().flatten().next();
        if let Some(held) = held {
            self.manifest.encoding.get_or_insert_with(|| held.encoding.clone());
        }
    }

    /// Reports every column whose mean has drifted, once per column.
    fn watch_drift(&mut self, moments: Vec<Option<(f64, f64)>>, observer: &dyn Observer) {
        if self.manifest.moments.is_empty() {
            self.manifest.moments = moments;
            return;
        }
        let Some(fields) = self.fields() else { return };
        for ((field, first), now) in fields.iter().zip(&self.manifest.moments).zip(&moments) {
            let (Some((mean, sd)), Some((now, _))) = (first, now) else { continue };
            let apart = (now - mean).abs();
            if apart <= DRIFT * sd || apart == 0.0 || self.manifest.drifted.contains(&field.name) {
                continue;
            }
            self.manifest.drifted.push(field.name.clone());
            observer.event(Event::Warning(format!(
                "column '{}' has drifted: its mean is {now:.6} in block {}, and was {mean:.6} (sd {sd:.6}) in the first",
                field.name,
                self.tree.blocks()
            )));
        }
    }

    /// Reports that the posterior has moved out of the trust radius, once; `before` is the movement before the last block.
    fn watch_movement(&self, before: Option<Movement>, observer: &dyn Observer) {
        let was_outside = before.is_some_and(|movement| movement.is_outside());
        if let Some(movement) = self.tree.movement().filter(|movement| movement.is_outside() && !was_outside)
        {
            observer.event(Event::Warning(format!(
                "the posterior has moved: block {} puts its mode {:.1} standard deviations from where it was, and rows that do not \
                 change move it by less than {:.1}; the coreset may be inaccurate",
                self.tree.blocks(),
                movement.distance,
                movement.radius
            )));
        }
    }

    /// Saves if there are new rows and the last save was long enough ago.
    #[doc(hidden)]
    pub fn save_if_due(&mut self) -> Result<()> {
        let pause = self.cost_of_save * SHARE_OF_SAVING;
        let waits = self.tree.blocks() == self.manifest.blocks;
        let due = self.last_save.elapsed() >= if waits { pause.max(PENDING_SAVES) } else { pause };
        if due { self.save() } else { Ok(()) }
    }

    /// Saves everything that was added. Saves nothing while counted rows are fed again, since there is nothing new, or after
    /// a block failed.
    ///
    /// # Errors
    /// If the files cannot be written; the state is then that of the last save.
    pub fn save(&mut self) -> Result<()> {
        let Some(disk) = self.disk.clone() else { return Ok(()) };
        let directory = &disk.directory;
        if self.saved == self.progress() || self.replayed.is_some() || self.is_broken {
            return Ok(());
        }
        let start = Instant::now();
        // The number of a save is part of file names: the next save needs another one even if this save fails.
        self.manifest.sequence += 1;
        let mut manifest = self.manifest.clone();
        let blocks = self.tree.blocks();
        let mut levels = Vec::new();
        for (level, coreset) in self.tree.levels().iter().enumerate() {
            // The coreset of a level was built with the last block whose number has that bit as its lowest set bit.
            let since = (blocks >> level) << level;
            let known = manifest.levels.get(level).cloned().flatten();
            levels.push(match (coreset, known) {
                (None, _) => None,
                (Some(_), Some(known)) if is_of(&known, level, since) => Some(known),
                (Some(coreset), _) => Some(directory.write_level(level, since, coreset)?),
            });
        }
        manifest.levels = levels;
        if blocks != manifest.blocks {
            let write = |carried: &_| directory.write_carried(blocks, carried);
            manifest.residual = self.tree.carried().as_ref().map(write).transpose()?;
        }
        manifest.blocks = blocks;
        manifest.pending = match (self.pending_rows, self.fields()) {
            (0, _) | (_, None) => None,
            (_, Some(fields)) => {
                let all = Segment::concat(self.pending.clone());
                Some(directory.write_pending(manifest.sequence, &fields, &all)?)
            }
        };
        directory.commit(&manifest)?;
        // Files that cannot be removed now are removed after a later save.
        let _ = directory.tidy(&manifest);
        self.manifest = manifest;
        self.saved = self.progress();
        self.last_save = Instant::now();
        self.cost_of_save = start.elapsed();
        Ok(())
    }

    /// The coreset of all rows that were added.
    pub fn snapshot(&self, observer: &dyn Observer) -> Result<Coreset> {
        self.check_whole()?;
        let pending = (self.pending_rows > 0).then(|| Segment::concat(self.pending.clone()));
        snapshot_of(&self.tree, &self.settings, &self.manifest, pending, self.threads, observer)
    }
}

/// Returns an error if a label is requested that `owner` does not have.
fn check_label(wanted: &Roles, label: &str, owner: &str) -> Result<()> {
    if wanted.label.is_empty() || wanted.label == label {
        return Ok(());
    }
    Err(Error::setting(Setting::Label, format!("is '{}', but {owner} has the label '{label}'", wanted.label)))
}

fn is_of(named: &Named, level: usize, blocks: u64) -> bool {
    named.file == format!("level-{level:02}-{blocks:012}.parquet")
}

/// The coreset of all rows in a state on disk; a writer may be using the state.
///
/// # Errors
/// If there is no state, it has no rows, or it is damaged.
pub fn snapshot(path: &Path, threads: Option<usize>, observer: &dyn Observer) -> Result<Coreset> {
    let directory = Directory::new(path);
    let mut tries = 0;
    let (manifest, content) = loop {
        let manifest = directory.manifest()?.filter(|manifest| manifest.rows > 0);
        let manifest = manifest
            .ok_or_else(|| directory.refused("has no rows yet", Remedy::run("feed it", Operation::Stream)))?;
        match directory.content(&manifest) {
            Ok(content) => break (manifest, content),
            // The writer may have just replaced the manifest.
            Err(_) if tries < 20 && directory.manifest()?.as_ref() != Some(&manifest) => tries += 1,
            Err(error) => return Err(error),
        }
    };
    let settings: StreamSettings = serde_json::from_value(manifest.settings.clone())
        .map_err(|_| directory.refused("has unknown settings", "use a newer tithe"))?;
    let tree = Tree::with_levels(settings.tree(threads), content.levels, manifest.blocks, content.carried)?;
    snapshot_of(&tree, &settings, &manifest, content.pending, threads, observer)
}

fn snapshot_of(
    tree: &Tree,
    settings: &StreamSettings,
    manifest: &Manifest,
    pending: Option<Segment>,
    threads: Option<usize>,
    observer: &dyn Observer,
) -> Result<Coreset> {
    let Some(mut pending) = pending else { return tree.snapshot(None, observer) };
    let layout = manifest.layout.as_ref();
    let mut first_row = manifest.rows - pending.len as u64;
    // A save may come between two blocks that were read together: complete blocks are then among the waiting rows.
    let mut tree = std::borrow::Cow::Borrowed(tree);
    if settings.warmup_rows != settings.block {
        learn(tree.to_mut(), settings, layout, &pending, threads)?;
    }
    while pending.len >= settings.block {
        let block = rows_of(layout, pending.slice(0..settings.block), first_row)?;
        tree.to_mut().push(block, observer)?;
        pending = pending.slice(settings.block..pending.len);
        first_row += settings.block as u64;
    }
    let rest = if pending.len > 0 { Some(rows_of(layout, pending, first_row)?) } else { None };
    tree.snapshot(rest, observer)
}

/// Learns the encoding from the first rows, if it is not known yet.
fn learn(
    tree: &mut Tree,
    settings: &StreamSettings,
    layout: Option<&Layout>,
    rows: &Segment,
    threads: Option<usize>,
) -> Result<()> {
    if tree.settings().build.encoding.known.is_some() {
        return Ok(());
    }
    let first = rows_of(layout, rows.slice(0..rows.len.min(settings.warmup_rows)), 0)?;
    let engine = EngineSettings { threads, missing: settings.missing, ..EngineSettings::default() };
    let quiet = Quiet(&crate::base::progress::Silent);
    let engine = LocalEngine::new(first.table()?, &engine, &quiet)?;
    let build = &settings.build;
    let learnt = survey(&engine, &build.encoding, build.clusters, build.seed)?;
    tree.take_encoding(learnt.encoding);
    Ok(())
}

fn rows_of(layout: Option<&Layout>, segment: Segment, first_row: u64) -> Result<Rows> {
    let layout =
        layout.ok_or_else(|| Error::setting(Setting::Columns, "are unknown before the first rows"))?;
    Ok(Rows {
        fields: layout.fields.iter().map(FieldRecord::field).collect(),
        segment,
        first_row,
        roles: roles(layout),
        is_sparse: layout.is_sparse,
    })
}

fn roles(layout: &Layout) -> Roles {
    let fields: Vec<Field> = layout.fields.iter().map(FieldRecord::field).collect();
    let name = |at: usize| fields.get(at).map(|field| field.name.clone());
    Roles {
        label: name(layout.features).unwrap_or_default(),
        weight: name(layout.features + 1),
        features: Some(
            fields[..layout.features.min(fields.len())].iter().map(|field| field.name.clone()).collect(),
        ),
        ..Roles::default()
    }
}

/// The result of repairing a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// Number of rows in the repaired state.
    pub rows: u64,
    /// Number of rows that were lost and must be fed again; `None` if it is not known.
    pub lost: Option<u64>,
}

/// Restores the last undamaged state in a directory with damaged files.
pub fn repair(path: &Path) -> Result<Repaired> {
    let directory = Directory::new(path);
    if !path.exists() {
        return Err(directory.refused("is not there", "name the directory of a stream"));
    }
    let _lock = directory.lock()?;
    let (good, rows) = directory.last_good()?;
    let newest = directory.manifest().ok().flatten();
    let kept = good.as_ref().map_or(0, |manifest| manifest.rows);
    if good.is_none() || newest != good {
        let sequence = newest.as_ref().map_or(0, |manifest| manifest.sequence);
        let settings = newest.as_ref().map(|manifest| manifest.settings.clone());
        let manifest = match (good, settings) {
            (Some(good), _) => Manifest { sequence: sequence.max(good.sequence) + 1, ..good },
            (None, Some(settings)) => Manifest { sequence: sequence + 1, ..Manifest::new(settings) },
            (None, None) => {
                return Err(directory.refused(
                    "has no readable manifest",
                    Remedy::using("feed all rows again into another directory", Setting::State),
                ));
            }
        };
        directory.commit(&manifest)?;
        // Files that cannot be removed now are removed after a later save.
        let _ = directory.tidy(&manifest);
    }
    directory.sweep()?;
    Ok(Repaired { rows: kept, lost: rows.map(|rows| rows - kept) })
}

fn json_of(settings: &StreamSettings) -> Value {
    serde_json::to_value(settings).unwrap_or_default()
}

/// Describes how settings differ; ignores the treatment of new levels.
fn differences(recorded: &Value, given: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", recorded, given, &mut found);
    found
}

fn compare(name: &str, recorded: &Value, given: &Value, found: &mut Vec<String>) {
    match (recorded, given) {
        (Value::Object(a), Value::Object(b)) if matches!(name, "" | "build" | "encoding") => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                compare(
                    name,
                    a.get(name).unwrap_or(&Value::Null),
                    b.get(name).unwrap_or(&Value::Null),
                    found,
                );
            }
        }
        (a, b) if a == b => {}
        _ if name == "unseen" => {}
        (a, b) if name == "standardize" && standardize(a).is_some_and(|a| standardize(b) == Some(a)) => {}
        // The weight column is recorded with the roles of the columns.
        (a, b) if name == "known" && without_weight(a) == without_weight(b) => {}
        _ if name == "known" => found.push("the encoding differs".to_string()),
        (a, b) => {
            let (before, now) = (in_words(a), in_words(b));
            found.push(format!("{} is {before} in the state and {now} now", name.replace('_', "-")));
        }
    }
}

/// The columns to standardise, which older versions recorded as a boolean.
fn standardize(recorded: &Value) -> Option<Standardize> {
    serde_json::from_value(recorded.clone()).ok()
}

/// An encoding without the name of its weight column.
fn without_weight(encoding: &Value) -> Value {
    let mut encoding = encoding.clone();
    if let Some(fields) = encoding.as_object_mut() {
        fields.remove("weight");
    }
    encoding
}

/// A setting as the user writes it.
fn in_words(setting: &Value) -> String {
    let listed = |words: Vec<String>| if words.is_empty() { "none".to_string() } else { words.join(", ") };
    match setting {
        Value::Null => "none".to_string(),
        Value::String(word) => format!("'{word}'"),
        Value::Array(settings) => listed(
            settings
                .iter()
                .map(|setting| match setting {
                    Value::Array(pair) => pair.iter().map(in_words).collect::<Vec<_>>().join(" "),
                    _ => in_words(setting),
                })
                .collect(),
        ),
        Value::Object(settings) => listed(
            settings
                .iter()
                .map(|(name, setting)| match (&name[..], setting.as_u64()) {
                    ("rows", Some(1)) => "1 row".to_string(),
                    ("rows", Some(rows)) => format!("{rows} rows"),
                    _ => format!("{name} {}", in_words(setting)),
                })
                .collect(),
        ),
        Value::Bool(_) | Value::Number(_) => setting.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coreset::selection::Size;
    use crate::coreset::sensitivity::Radius;

    #[test]
    fn a_known_encoding_may_name_another_weight_column() {
        let settings = |scale: f64, weight: Option<&str>| json!({"encoding": {"known": {"scale": scale, "weight": weight}}});
        assert!(differences(&settings(1.0, None), &settings(1.0, Some("w"))).is_empty());
        assert_eq!(differences(&settings(1.0, None), &settings(2.0, None)), ["the encoding differs"]);
    }

    #[test]
    fn settings_are_shown_as_the_user_writes_them() {
        let guarantee = Size::Guarantee { epsilon: 0.1, delta: 0.5, constant: 4.0 };
        for (setting, words) in [
            (json!(Option::<String>::None), "none"),
            (json!("none"), "'none'"),
            (json!(true), "true"),
            (json!(Size::Rows(1)), "1 row"),
            (json!(Size::Rows(100)), "100 rows"),
            (json!(guarantee), "guarantee constant 4.0, delta 0.5, epsilon 0.1"),
            (json!(Radius::Auto(3.0)), "auto 3.0"),
            (json!(Vec::<(String, f64)>::new()), "none"),
            (json!([("age", 0.5), ("height", -1.0)]), "'age' 0.5, 'height' -1.0"),
        ] {
            assert_eq!(in_words(&setting), words);
        }
    }
}
