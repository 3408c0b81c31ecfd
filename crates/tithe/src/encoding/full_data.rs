//! The full data that a coreset or posterior was made from: opens it with the columns of an encoding, and checks its
//! fingerprint.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::{ErrorKind, Result};
use crate::data::block::{Block, Field, Kind};
use crate::data::fingerprint::Fingerprint;
use crate::data::source::dates::with_parts;
use crate::data::source::{Input, OpenOptions, Source, open_inputs};
use crate::data::table::{Roles, Table};
use crate::encoding::{Coding, Encoding, LabelValue};
use crate::engine::Engine;
use crate::engine::pass::Pass;

/// Opens files whose columns an encoding knows: the same features in the same order, label and weight.
pub fn open_as(encoding: &Encoding, inputs: Vec<Input>, options: &OpenOptions) -> Result<Table> {
    open_with(encoding, options, |options| open_inputs(inputs.clone(), options))
}

/// Like [`open_as`], for data that need not be in files: `open` opens it, and is called twice.
pub fn open_with(
    encoding: &Encoding,
    options: &OpenOptions,
    open: impl Fn(&OpenOptions) -> Result<Box<dyn Source>>,
) -> Result<Table> {
    let is_text = |column: &str| {
        encoding.features.iter().any(|feature| feature.column == column && is_read_as_text(&feature.coding))
            || (encoding.label.column == column && matches!(encoding.label.positive, LabelValue::Text(_)))
    };
    let text = |fields: &[Field]| {
        let text = fields.iter().filter(|field| field.kind != Kind::Text && is_text(&field.name));
        Ok(text.map(|field| field.name.clone()).collect())
    };
    let Reopened { source, .. } = open_with_text(encoding, options, text, open)?;
    let roles = Roles {
        label: encoding.label.column.clone(),
        weight: encoding.weight.clone(),
        features: Some(encoding.features.iter().map(|feature| feature.column.clone()).collect()),
        ..Roles::default()
    };
    Table::new(source, &roles)
}

pub(crate) fn is_read_as_text(coding: &Coding) -> bool {
    matches!(coding, Coding::Levels { .. } | Coding::Groups { .. })
}

/// Data that was opened once to see its columns, and again with some of them read as text.
pub(crate) struct Reopened {
    /// The columns as they were when first opened.
    pub stored: Vec<Field>,
    /// The data with these columns read as text. Parts of dates that are features follow its own columns.
    pub source: Box<dyn Source>,
    /// The number of its own columns.
    pub own: usize,
}

/// Opens data for an encoding. Only the columns themselves show which of them `text` must have read as text, so `open` is
/// called twice.
pub(crate) fn open_with_text(
    encoding: &Encoding,
    options: &OpenOptions,
    text: impl FnOnce(&[Field]) -> Result<Vec<String>>,
    open: impl Fn(&OpenOptions) -> Result<Box<dyn Source>>,
) -> Result<Reopened> {
    let features = options.features.or(encoding.highest_index());
    let mut options = OpenOptions { features, ..options.clone() };
    let wanted: Vec<String> = encoding.features.iter().map(|feature| feature.column.clone()).collect();
    let with_parts = |source: Box<dyn Source>| {
        let kept: Vec<String> = source.fields().iter().map(|field| field.name.clone()).collect();
        let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
        with_parts(source, &[], &kept, &wanted)
    };
    let source = open(&options)?;
    let own = source.fields().len();
    let source = with_parts(source)?;
    let stored = source.fields().to_vec();
    // Where the model has numbers, text that looks like numbers is read as such.
    let is_number = |name: &str| {
        let mut features = encoding.features.iter();
        features.any(|feature| feature.column == name && !is_read_as_text(&feature.coding))
    };
    let numbers = stored.iter().enumerate().filter(|(c, field)| {
        is_number(&field.name) && source.looks_numeric(*c).is_some() && !options.numbers.contains(&field.name)
    });
    options.numbers.extend(numbers.map(|(_, field)| field.name.clone()).collect::<Vec<_>>());
    // Dates that the model has as levels.
    let is_text = |name: &str| encoding.features.iter().any(|feature| feature.column == name);
    let dates =
        (0..stored.len()).filter(|&c| source.looks_like_dates(c).is_some() && is_text(&stored[c].name));
    options.text.extend(dates.map(|c| stored[c].name.clone()).collect::<Vec<_>>());
    options.text.extend(text(&stored)?);
    options.text.sort();
    options.text.dedup();
    Ok(Reopened { source: with_parts(open(&options)?)?, stored, own })
}

/// The number of rows and their fingerprint, which identify the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The number of rows.
    pub rows: u64,
    /// Their fingerprint.
    pub fingerprint: Fingerprint,
}

impl Identity {
    /// The identity of the rows of a block.
    pub fn of(block: &Block) -> Identity {
        Identity { rows: block.len as u64, fingerprint: Fingerprint::of(block) }
    }

    /// Adds other rows.
    pub fn merge(&mut self, other: Identity) {
        self.rows += other.rows;
        self.fingerprint.merge(other.fingerprint);
    }

    /// Returns an error if the rows differ from the recorded ones.
    pub fn expect(&self, recorded: Identity) -> Result<()> {
        let what = if self.rows != recorded.rows {
            format!("it has {} rows in use, and {} were recorded", self.rows, recorded.rows)
        } else if self.fingerprint != recorded.fingerprint {
            format!("its fingerprint is {}, and {} was recorded", self.fingerprint, recorded.fingerprint)
        } else {
            return Ok(());
        };
        Err(ErrorKind::OtherData { what }.into())
    }
}

/// The pass that computes the identity of the data.
#[derive(Serialize, Deserialize)]
pub(crate) struct Recognising<'a> {
    /// If given, the rows must have its labels.
    encoding: Option<Cow<'a, Encoding>>,
}

impl Pass for Recognising<'_> {
    const ID: &'static str = "fingerprint";
    const LABEL: &'static str = "checking the fingerprint of the data";
    type State = Identity;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, _worker: &mut (), block: &Block) -> Result<Identity> {
        self.encoding.as_ref().map_or(Ok(()), |encoding| encoding.check_labels(block))?;
        Ok(Identity::of(block))
    }

    fn merge(&self, state: &mut Identity, next: Identity) {
        state.merge(next);
    }
}

/// The identity of the rows of an engine, in one pass.
pub fn identity(engine: &impl Engine) -> Result<Identity> {
    Ok(engine.run(&Recognising { encoding: None })?.unwrap_or_default())
}

/// The same for rows whose labels must be those of an encoding.
///
/// # Errors
/// If a row has another label.
pub fn identity_as(engine: &impl Engine, encoding: &Encoding) -> Result<Identity> {
    Ok(engine.run(&Recognising { encoding: Some(Cow::Borrowed(encoding)) })?.unwrap_or_default())
}
