//! A table: a source of rows, and the role of each column in use (feature, label, weight).

use std::collections::HashSet;

use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Field, Kind};
use crate::data::source::dates::{is_part_of, with_parts};
use crate::data::source::{READ_AS_NUMBERS, Source};

/// The role of each column.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// The column with the two classes.
    pub label: String,
    /// The column with the weights of the rows, if the data is weighted.
    pub weight: Option<String>,
    /// The columns to use as features; `None` uses all other columns.
    pub features: Option<Vec<String>>,
    /// Columns not to use.
    pub exclude: Vec<String>,
    /// Columns of text that are dates, besides those that look like dates.
    pub dates: Vec<String>,
}

impl Roles {
    /// The source with the parts of its dates as columns, except for dates that have another role or are `kept`.
    pub(crate) fn with_date_parts(
        &self,
        source: Box<dyn Source>,
        kept: &[String],
    ) -> Result<Box<dyn Source>> {
        let others = [&self.label].into_iter().chain(&self.weight).chain(&self.exclude).chain(kept);
        let others: Vec<&str> = others.map(String::as_str).collect();
        let named: Vec<String> = self.features.iter().flatten().chain(&self.exclude).cloned().collect();
        with_parts(source, &self.dates, &others, &named)
    }
}

/// A source and its columns in use: the features, then the label, then the weight.
pub struct Table {
    source: Box<dyn Source>,
    fields: Vec<Field>,
    positions: Vec<usize>,
    features: usize,
}

impl Table {
    /// Finds the columns that `roles` names.
    pub fn new(source: Box<dyn Source>, roles: &Roles) -> Result<Table> {
        let source = roles.with_date_parts(source, &[])?;
        let all = source.fields();
        let find = |purpose: &'static str, name: &str| {
            all.iter().position(|field| field.name == name).ok_or_else(|| {
                Error::unknown_column(purpose, name, all.iter().map(|field| field.name.as_str()))
            })
        };
        let label = find("to use as label", &roles.label)?;
        let weight = roles.weight.as_ref().map(|name| find("to use as weight", name)).transpose()?;
        let excluded =
            roles.exclude.iter().map(|name| find("to exclude", name)).collect::<Result<Vec<_>>>()?;
        if weight == Some(label) {
            return Err(Error::setting(
                Setting::Weight,
                format!("must not name the label '{}'", roles.label),
            ));
        }
        let mut features = match &roles.features {
            Some(names) => {
                let mut found = Vec::with_capacity(names.len());
                for name in names {
                    match find("to use as feature", name)? {
                        date if all[date].kind == Kind::Time => found.extend(parts_of(all, name, names)),
                        column => found.push(column),
                    }
                }
                found
            }
            None => (0..all.len())
                .filter(|&c| c != label && Some(c) != weight && all[c].kind != Kind::Time)
                .collect(),
        };
        features.retain(|c| !excluded.contains(c));
        let mut seen = HashSet::with_capacity(features.len());
        for &c in &features {
            let what = if c == label {
                ", which is the label"
            } else if Some(c) == weight {
                ", which is the weight"
            } else if !seen.insert(c) {
                " twice"
            } else {
                continue;
            };
            return Err(Error::setting(Setting::Features, format!("must not name '{}'{what}", all[c].name)));
        }
        if features.is_empty() {
            return Err(Error::setting(Setting::Features, "must leave at least one column"));
        }
        let problems = features.iter().filter_map(|&c| problem(&*source, c)).collect();
        if let Some(error) = Error::of_all(problems) {
            return Err(error);
        }
        let positions: Vec<usize> = features.iter().copied().chain([label]).chain(weight).collect();
        let fields: Vec<Field> = positions.iter().map(|&c| all[c].clone()).collect();
        if let Some(weight) = weight
            && all[weight].kind != Kind::Number
        {
            return Err(ErrorKind::Column {
                column: all[weight].name.clone(),
                what: "is not numeric, so it cannot be the weight".to_string(),
                help: None,
            }
            .into());
        }
        Ok(Table { source, features: features.len(), fields, positions })
    }

    /// The columns of the features; they come first in a block.
    pub fn features(&self) -> &[Field] {
        &self.fields[..self.features]
    }

    /// The column of the label; it follows the features in a block.
    pub fn label(&self) -> &Field {
        &self.fields[self.features]
    }

    /// The column of the weights; it comes last in a block.
    pub fn weight(&self) -> Option<&Field> {
        self.fields.get(self.features + 1)
    }

    /// All columns of a block.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The names of the columns of the data that are read: for a part of a date, the column of the dates.
    pub fn columns_read(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::with_capacity(self.fields.len());
        for (field, &at) in self.fields.iter().zip(&self.positions) {
            let name = self.source.computed_from(at).unwrap_or(&field.name);
            if !names.iter().any(|known| known == name) {
                names.push(name.to_string());
            }
        }
        names
    }

    /// The column that a feature is computed from, if it is a part of a date.
    pub(crate) fn computed_from(&self, feature: usize) -> Option<&str> {
        self.source.computed_from(*self.positions.get(feature)?)
    }

    /// The columns of text that are read as they are.
    pub(crate) fn columns_of_text(&self) -> Vec<String> {
        let own = self.fields.iter().zip(&self.positions);
        let text =
            own.filter(|(field, at)| field.kind == Kind::Text && self.source.computed_from(**at).is_none());
        text.map(|(field, _)| field.name.clone()).collect()
    }

    /// The source.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Positions of the block's columns in the source.
    pub(crate) fn positions(&self) -> &[usize] {
        &self.positions
    }
}

/// The parts of a date column that are offered and not named themselves.
fn parts_of(fields: &[Field], column: &str, named: &[String]) -> Vec<usize> {
    let is_part = |field: &Field| {
        is_part_of(&field.name, column) && field.kind != Kind::Time && !named.contains(&field.name)
    };
    (0..fields.len()).filter(|&c| is_part(&fields[c])).collect()
}

/// Why a column cannot be a feature: its type, or text that looks like numbers.
fn problem(source: &dyn Source, column: usize) -> Option<Error> {
    let Field { name, kind, data_type } = &source.fields()[column];
    let (what, help) = if *kind == Kind::Unsupported {
        (
            format!("values of type {data_type} cannot be used"),
            Remedy::ExcludeColumn(Some(name.clone())).into(),
        )
    } else {
        let sample = source.looks_numeric(column)?;
        let remedies = [
            Remedy::example(READ_AS_NUMBERS, Setting::Numbers, name.as_str()),
            Remedy::example("keep it as text", Setting::Text, name.as_str()),
        ];
        (format!("is text, but its values look like numbers: '{sample}'"), Help::from(remedies))
    };
    Some(ErrorKind::Column { column: name.clone(), what, help: Some(help) }.into())
}
