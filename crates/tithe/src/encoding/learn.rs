//! From what the survey found to an encoding: learns a new one, or checks that a known one fits the data.

use std::collections::BTreeMap;

use super::answers::are_answers;
use super::found::{ColumnFound, Found, Seen};
use super::groups::{learn_groups, not_text};
use super::label::{label, label_values, unsupported};
use super::moments::Moments;
use super::settings::OTHER_LEVEL;
use super::usable::{no_rows, nothing_in, too_large};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::data::block::{Field, Kind};
use crate::data::table::Table;
use crate::encoding::{
    Coding, Encoding, EncodingSettings, Feature, GroupFactor, MISSING_LEVEL, Standardize, Substitute, Unseen,
    unseen_level,
};
use crate::engine::Missing;
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
    missing: Missing,
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
    let mut dates = Vec::new();
    for (c, (field, column)) in table.features().iter().zip(&found.columns).enumerate() {
        // All parts of a date are missing in the same rows, so one of them says so.
        let date = table.computed_from(c);
        let is_told = date.is_some_and(|date| dates.contains(&date));
        dates.extend(date);
        let missing = if is_told && missing == Missing::Indicator { Missing::Mean } else { missing };
        let is_group = settings.groups.iter().any(|factor| factor.column == field.name);
        let learnt = match is_group {
            true => groups(field, column),
            false => {
                coding(field, column, settings, center, missing, &mut warnings).and_then(|(coding, other)| {
                    let mut feature = with_substitutes(field, column, coding, missing, found, center)?;
                    feature.substitutes.other = other;
                    Ok(feature)
                })
            }
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
        if let (true, Some((center, scale))) = (*mass > 0.0, feature.transform().next()) {
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
    Ok(Feature::new(field.name.clone(), coding))
}

/// The coding of a column, and the level that represents its rare levels.
fn coding(
    field: &Field,
    found: &ColumnFound,
    settings: &EncodingSettings,
    is_centred: bool,
    missing: Missing,
    warnings: &mut Vec<String>,
) -> Result<(Coding, Option<String>)> {
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
            let Moments { mass, mean, squares, has_other_values, .. } = found.moments;
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
        Kind::Text => return levels(&column, found, settings, is_centred, missing, warnings),
        Kind::Time | Kind::Unsupported => return Err(unsupported(field)),
    };
    Ok((coding, None))
}

/// The feature of a column, with what is used in place of its missing values.
fn with_substitutes(
    field: &Field,
    column: &ColumnFound,
    coding: Coding,
    missing: Missing,
    found: &Found,
    is_centred: bool,
) -> Result<Feature> {
    let mut feature = Feature::new(field.name.clone(), coding);
    if !missing.is_substituted() {
        return Ok(feature);
    }
    let is_seen = column.unusable.missing > 0;
    feature.substitutes.missing = Some(match &feature.coding {
        Coding::Levels { reference, .. } => {
            Substitute::Level(match is_seen && missing == Missing::Indicator {
                true => MISSING_LEVEL.to_string(),
                false => reference.clone(),
            })
        }
        _ => {
            let Moments { mass, mean, .. } = column.moments;
            if mass == 0.0 {
                let what = "has no value in any row".to_string();
                let help = Some(Remedy::ExcludeColumn(Some(field.name.clone())).into());
                return Err(ErrorKind::Column { column: field.name.clone(), what, help }.into());
            }
            let share = (1.0 - mass / found.picks.total).clamp(0.0, 1.0);
            let center = if is_centred { share } else { 0.0 };
            let indicator = (is_seen && missing == Missing::Indicator).then_some(center);
            Substitute::Number { value: mean, indicator }
        }
    });
    Ok(feature)
}

/// The coding of a text column. The reference is "no" if the other level is "yes", and otherwise the most frequent level; of equally
/// frequent ones the first alphabetically.
fn levels(
    column: &str,
    found: &ColumnFound,
    settings: &EncodingSettings,
    is_centred: bool,
    missing: Missing,
    warnings: &mut Vec<String>,
) -> Result<(Coding, Option<String>)> {
    let mut seen = found.levels.seen.clone();
    if missing == Missing::Indicator && found.missing_mass > 0.0 {
        let first = found.unusable.first.as_ref().and_then(|row| row.positions.first().copied());
        let missing = Seen { mass: found.missing_mass, first: first.unwrap_or(0) };
        seen.entry(MISSING_LEVEL.to_string()).and_modify(|all| all.merge(missing)).or_insert(missing);
    }
    let other = group_rare(&mut seen, settings.min_level_rows);
    if found.levels.too_many || seen.len() > settings.max_levels {
        return Err(too_many_levels(column, settings));
    }
    let most_frequent = seen.iter().rev().max_by(|a, b| a.1.mass.total_cmp(&b.1.mass));
    let reference = match seen.keys().find(|level| is_negative_answer(level, &seen)) {
        Some(no) => no.clone(),
        None => most_frequent.map_or(String::new(), |(level, _)| level.clone()),
    };
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
    Ok((Coding::Levels { reference, levels, centers }, other))
}

fn too_many_levels(column: &str, settings: &EncodingSettings) -> Error {
    let many = if settings.min_level_rows > 0 { " that are not rare" } else { "" };
    ErrorKind::Column {
        column: column.to_string(),
        what: format!("has more than {} levels{many}", settings.max_levels),
        help: Some(Help::from([
            Remedy::ExcludeColumn(Some(column.to_string())),
            Remedy::using("group rare levels", Setting::MinLevelRows),
            Remedy::RaiseLimit(Setting::MaxLevels),
        ])),
    }
    .into()
}

/// Groups the levels in fewer rows than `least` into [`OTHER_LEVEL`], and returns it. The level of missing values stays.
fn group_rare(seen: &mut BTreeMap<String, Seen>, least: u64) -> Option<String> {
    if least == 0 {
        return None;
    }
    let is_rare = |(level, seen): &(&String, &Seen)| seen.mass < least as f64 && *level != MISSING_LEVEL;
    let rare: Vec<String> = seen.iter().filter(is_rare).map(|(level, _)| level.clone()).collect();
    for level in &rare {
        let group = seen.remove(level)?;
        seen.entry(OTHER_LEVEL.to_string()).and_modify(|all| all.merge(group)).or_insert(group);
    }
    (!rare.is_empty()).then(|| OTHER_LEVEL.to_string())
}

/// True if a level is "no" and the only other one, apart from missing values, is "yes".
fn is_negative_answer(level: &str, seen: &BTreeMap<String, Seen>) -> bool {
    let mut others = seen.keys().filter(|other| *other != level && *other != MISSING_LEVEL);
    matches!((others.next(), others.next()), (Some(other), None) if are_answers(level, other))
}
