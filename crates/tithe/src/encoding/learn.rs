//! From what the survey found to an encoding: learns a new one, or checks that a known one fits the data.

use super::found::{ColumnFound, Found};
use super::groups::{learn_groups, not_text};
use super::label::{label, label_values, unsupported};
use super::moments::Moments;
use super::usable::{no_rows, nothing_in, too_large};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Field, Kind};
use crate::data::table::Table;
use crate::encoding::{
    Coding, Encoding, EncodingSettings, Feature, GroupFactor, Standardize, Unseen, unseen_level,
};
use crate::formula::{Formula, Syntax};

/// The formula for the columns of a table.
pub(super) fn expanded(text: &str, table: &Table, groups: &[GroupFactor]) -> Result<Formula> {
    let label = table.label();
    let columns: Vec<String> =
        table.features().iter().chain([label]).map(|field| field.name.clone()).collect();
    let formula = Syntax::parse(text)?.expand(&columns, std::slice::from_ref(&label.name))?;
    if let Some(group) = formula.groups.get(groups.len()) {
        return Err(formula.error(group.at, format!("random effects such as {group} are not supported")));
    }
    for factor in formula.fixed.terms.iter().flat_map(|term| &term.factors) {
        let mut grouping = None;
        factor
            .columns(&mut |name, _| grouping = groups.iter().find(|group| group.column == name).or(grouping));
        if let Some(group) = grouping {
            let what = format!("'{}' names groups, so it cannot be a fixed effect as well", group.column);
            return Err(formula.error(factor.at, what));
        }
    }
    if let Some(offset) = formula.offsets.first() {
        return Err(formula.error(offset.at, "offsets are not supported"));
    }
    match formula.response.as_deref() {
        Some(response) if response != label.name => {
            let what = format!("is '{}', but the formula has the label '{response}'", label.name);
            Err(Error::setting(Setting::Label, what))
        }
        _ => Ok(formula),
    }
}

/// Learns the encoding. Problems of all columns are reported together, after those that were found before.
pub(super) fn learn(
    table: &Table,
    found: &Found,
    settings: &EncodingSettings,
    checked: Result<()>,
    row_name: &dyn Fn(u64) -> String,
) -> Result<(Encoding, Vec<String>)> {
    if found.rows == 0 {
        checked?;
        return Err(no_rows(nothing_in(table)));
    }
    let mut problems: Vec<Error> = checked.err().into_iter().collect();
    let mut warnings = Vec::new();
    let center = settings.is_centred(table.source().is_sparse());
    let mut features = Vec::with_capacity(table.features().len());
    for (field, column) in table.features().iter().zip(&found.columns) {
        let is_group = settings.groups.iter().any(|factor| factor.column == field.name);
        let learnt = match is_group {
            true => groups(field, column),
            false => feature(field, column, settings, center, &mut warnings),
        };
        match learnt {
            Ok(feature) => features.push(feature),
            Err(problem) => problems.push(problem),
        }
    }
    let label = label(table.label(), &found.columns[table.features().len()], settings, row_name);
    let label = match (label, problems.is_empty()) {
        (Ok(label), true) => label,
        (label, _) => {
            problems.extend(label.err());
            return Err(Error::of_all(problems).unwrap_or_else(|| no_rows(nothing_in(table))));
        }
    };
    let is_feature = |name: &str| features.iter().any(|feature: &Feature| feature.column == name);
    if is_feature("weight") && is_feature("row") {
        let what = "columns 'weight' and 'row' are used as features";
        let remedy = "if this is a coreset, name 'weight' as the weight and exclude 'row'";
        warnings.push(format!("{what}: {remedy}"));
    }
    let weight = table.weight().map(|field| field.name.clone());
    let unseen = settings.unseen;
    let encoding = Encoding {
        label,
        weight,
        intercept: settings.intercept,
        features,
        groups: settings.groups.clone(),
        unseen,
        design: None,
    };
    if let (false, Some(fault)) = (encoding.groups.is_empty(), encoding.fault()) {
        return Err(Error::setting(Setting::Features, format!("of the hierarchical model: it {fault}")));
    }
    if encoding.dim() == 0 {
        let what = "leaves no coefficient, because every feature is constant";
        return Err(Error::setting(Setting::Intercept, what));
    }
    Ok((encoding, warnings))
}

/// The known encoding, if the data has its columns, levels and label values.
pub(super) fn fitting(
    known: &Encoding,
    unseen: Unseen,
    table: &Table,
    found: &Found,
    row_name: &dyn Fn(u64) -> String,
) -> Result<Encoding> {
    let expected = known.features.iter().map(|feature| &feature.column).chain([&known.label.column]);
    let there = table.features().iter().chain([table.label()]);
    for (name, field) in expected.clone().zip(there) {
        if *name != field.name {
            let what = format!("is at the position of the encoding's column '{name}'");
            return Err(ErrorKind::Column { column: field.name.clone(), what, help: None }.into());
        }
    }
    if expected.count() != table.features().len() + 1 {
        let what =
            format!("has {} features, but the data has {}", known.features.len(), table.features().len());
        return Err(Error::setting(Setting::Encoding, what));
    }
    for (feature, ColumnFound { moments: Moments { mass, mean, squares, .. }, .. }) in
        known.features.iter().zip(&found.columns)
    {
        if let (true, Some((center, scale))) = (*mass > 0.0, feature.coding.transform().next()) {
            let far = ((mean - center).abs() + (squares / mass).sqrt()) / scale;
            // Text columns have mass 0.
            if !(far * far * mass).is_finite() {
                return Err(too_large(feature.column.clone()));
            }
        }
    }
    let classes = [&known.label.negative, &known.label.positive];
    let values = label_values(table.label(), &found.columns[known.features.len()])?;
    if let Some((third, seen)) = values.iter().find(|(value, _)| !classes.contains(&value)) {
        let what = format!(
            "the label has the value '{third}' in {}, but the encoding has '{}' and '{}'",
            row_name(seen.first),
            classes[0],
            classes[1]
        );
        return Err(ErrorKind::Column { column: known.label.column.clone(), what, help: None }.into());
    }
    let unseen = if unseen == Unseen::Error { known.unseen } else { unseen };
    if unseen == Unseen::Error {
        let strangers = known.features.iter().zip(&found.columns).flat_map(|(feature, column)| {
            let levels = column.levels.seen.iter().filter(|(level, _)| !feature.knows(level));
            levels.map(|(level, seen)| (seen.first, level, &feature.column))
        });
        if let Some((first, level, column)) = strangers.min() {
            return Err(unseen_level(column, level, &row_name(first)));
        }
    }
    Ok(Encoding { weight: table.weight().map(|field| field.name.clone()), unseen, ..known.clone() })
}

/// The coding of a column of groups.
fn groups(field: &Field, found: &ColumnFound) -> Result<Feature> {
    if field.kind != Kind::Text {
        return Err(not_text(&field.name));
    }
    let levels = found.levels.seen.keys().cloned().collect();
    let coding = learn_groups(&field.name, levels, found.levels.too_many)?;
    Ok(Feature { column: field.name.clone(), coding })
}

fn feature(
    field: &Field,
    found: &ColumnFound,
    settings: &EncodingSettings,
    is_centred: bool,
    warnings: &mut Vec<String>,
) -> Result<Feature> {
    let column = field.name.clone();
    let constant = |warnings: &mut Vec<String>| {
        warnings.push(format!(
            "column '{column}' is constant: it is kept, but the data contains no information about its coefficient"
        ));
    };
    // A constant other than 0 is an intercept, if the model has no other.
    let is_intercept = |mean: f64| !settings.intercept && mean != 0.0;
    let coding = match field.kind {
        Kind::Boolean => {
            if found.moments.squares == 0.0 && !is_intercept(found.moments.mean) {
                constant(warnings);
            }
            match settings.standardize {
                Standardize::Numeric => {
                    Coding::Indicator { center: if is_centred { found.moments.mean } else { 0.0 } }
                }
                Standardize::All | Standardize::None => Coding::Boolean,
            }
        }
        Kind::Number => {
            let Moments { mass, mean, squares, has_other_values } = found.moments;
            let sd = (squares / mass).sqrt();
            if sd == 0.0 && !is_intercept(mean) {
                constant(warnings);
            }
            let center = if is_centred { mean } else { 0.0 };
            match settings.standardize {
                Standardize::Numeric if !has_other_values => Coding::Indicator { center },
                Standardize::Numeric | Standardize::All if sd > 0.0 => Coding::Number { center, scale: sd },
                _ => Coding::Number { center, scale: 1.0 },
            }
        }
        Kind::Text => levels(&column, found, settings, is_centred, warnings)?,
        Kind::Unsupported => return Err(unsupported(field)),
    };
    Ok(Feature { column, coding })
}

/// The coding of a text column. The reference is the most frequent level; of equally frequent ones the first alphabetically.
fn levels(
    column: &str,
    found: &ColumnFound,
    settings: &EncodingSettings,
    is_centred: bool,
    warnings: &mut Vec<String>,
) -> Result<Coding> {
    if found.levels.too_many {
        return Err(ErrorKind::Column {
            column: column.to_string(),
            what: format!("has more than {} levels", settings.max_levels),
            help: Some(Help::from([
                Remedy::ExcludeColumn(Some(column.to_string())),
                "group its levels".into(),
                Remedy::RaiseLimit(Setting::MaxLevels),
            ])),
        }
        .into());
    }
    let seen = &found.levels.seen;
    let most_frequent = seen.iter().rev().max_by(|a, b| a.1.mass.total_cmp(&b.1.mass));
    let reference = most_frequent.map_or(String::new(), |(level, _)| level.clone());
    let levels: Vec<String> = seen.keys().filter(|level| **level != reference).cloned().collect();
    if levels.is_empty() {
        warnings.push(format!("column '{column}' has only the level '{reference}': it has no coefficient"));
    }
    let total: f64 = seen.values().map(|seen| seen.mass).sum();
    let mean = |level: &String| seen.get(level).map_or(0.0, |seen| seen.mass / total);
    let centers = match settings.standardize {
        Standardize::Numeric if is_centred => levels.iter().map(mean).collect(),
        _ => Vec::new(),
    };
    Ok(Coding::Levels { reference, levels, centers })
}
