//! Merges coresets: their union, which is exact, compressed like any other weighted data.

use arrow_schema::DataType;
use rand::Rng as _;

use crate::base::error::{Error, ErrorKind, Result, Setting};
use crate::base::progress::{Event, Observer};
use crate::base::rng::{Purpose, Seed, mix64};
use crate::coreset::build::{BuildSettings, Built, build_task};
use crate::coreset::calibration::task::Task;
use crate::coreset::check::MOST_ROWS;
use crate::coreset::selection::Size;
use crate::coreset::{Composition, Coreset, Movement, Provenance};
use crate::data::block::{Column, Field, Kind, RowSet};
use crate::data::fingerprint::Fingerprint;
use crate::data::source::memory::Columns;
use crate::data::table::{Roles, Table};
use crate::encoding::{
    Coding, Encoding, EncodingSettings, Feature, LabelValue, MISSING_LEVEL, Substitute, Substitutes,
};
use crate::engine::{EngineSettings, LocalEngine, Missing};
use crate::model::quadratic::Quadratic;
use crate::model::{Gaussian, Posterior, PriorChoice};

/// Merges coresets that were built separately, as if their data had been read one after the other.
///
/// If there are at most `settings.size` rows, they are kept unchanged. The names are for messages.
///
/// # Errors
/// If there are none, or the encodings do not agree; the message names the first difference.
pub fn merge(
    parts: &[(String, Coreset)],
    settings: &BuildSettings,
    threads: Option<usize>,
    observer: &dyn Observer,
) -> Result<Coreset> {
    settings.check()?;
    let encoding = agreed(parts)?;
    if let Some(what) = encoding.fault() {
        return Err(Error::setting(Setting::Parts, format!("have an encoding in common that {what}")));
    }
    check_totals(parts)?;
    warn_of_twins(parts, observer);
    let mut rows_ahead = 0;
    let mut moved = Vec::with_capacity(parts.len());
    for (_, part) in parts {
        let mut part = part.clone();
        part.rows.positions.iter_mut().for_each(|position| *position += rows_ahead);
        part.encoding = encoding.clone();
        rows_ahead += part.provenance.rows_read;
        moved.push(part);
    }
    let union = union(moved)?;
    // The parts may have been selected with this seed: with the same random numbers the second selection would depend on the first.
    let which = union.provenance.fingerprint.bits() ^ mix64(union.rows.len() as u64);
    let fresh = Seed(settings.seed.stream(Purpose::Merge, which).next_u64());
    let choice = BuildSettings { seed: fresh, ..settings.clone() };
    let mut merged = compress(union, &choice, &Task::all_rows(), threads, observer)?.coreset;
    note_movement(parts, &mut merged, &settings.priors, observer)?;
    if merged.provenance.seed == fresh {
        merged.provenance.seed = settings.seed;
    }
    Ok(merged)
}

/// Returns an error if the parts together count more rows than a number can represent exactly, or if their weights add up to
/// a number too large to be squared.
fn check_totals(parts: &[(String, Coreset)]) -> Result<()> {
    let (mut rows, mut mass, mut last) = (0u64, 0.0, 0u64);
    for (_, part) in parts {
        let own = part.rows.positions.iter().copied().max().unwrap_or(0);
        last = last.max(rows.saturating_add(own));
        rows = rows.saturating_add(part.provenance.rows_read);
        mass += part.provenance.mass;
    }
    if rows.max(last) > MOST_ROWS {
        return Err(Error::setting(Setting::Parts, "must not count more than 2^53 rows together"));
    }
    if !(mass * mass).is_finite() {
        return Err(Error::setting(Setting::Parts, "must not have weights too large to be squared"));
    }
    Ok(())
}

/// Warns about coresets of the same rows, which then count twice.
fn warn_of_twins(parts: &[(String, Coreset)], observer: &dyn Observer) {
    for (at, (name, part)) in parts.iter().enumerate() {
        let is_same = |(_, other): &&(String, Coreset)| {
            let (ours, theirs) = (&part.provenance, &other.provenance);
            ours.fingerprint == theirs.fingerprint && ours.rows == theirs.rows
        };
        if let Some((twin, _)) = parts[..at].iter().find(is_same) {
            let what = format!("'{twin}' and '{name}' contain the same rows, which now count twice");
            observer.event(Event::Warning(what));
        }
    }
}

/// The union of coresets of one encoding, in the order of the input: exact.
pub(crate) fn union(parts: Vec<Coreset>) -> Result<Coreset> {
    let Some(first) = parts.first() else {
        return Err(ErrorKind::NoRows { what: "there are no coresets to merge".to_string() }.into());
    };
    if parts.len() == 1 {
        return parts.into_iter().next().ok_or_else(|| Error::setting(Setting::Parts, "must not be empty"));
    }
    let mut fields = first.fields.clone();
    for part in &parts {
        for (field, other) in fields.iter_mut().zip(&part.fields) {
            if field.data_type != other.data_type {
                field.data_type = if field.kind == Kind::Text { DataType::Utf8 } else { DataType::Float64 };
            }
        }
    }
    let encoding = first.encoding.clone();
    let provenance = joined(&parts.iter().map(|part| &part.provenance).collect::<Vec<_>>());
    let weights = parts.iter().flat_map(|part| part.weights.iter().copied()).collect();
    let rows = RowSet::concat(parts.into_iter().map(|part| part.rows).collect());
    Ok(Coreset { fields, rows, weights, encoding, provenance })
}

/// The provenance of a union.
fn joined(parts: &[&Provenance]) -> Provenance {
    let first = parts[0];
    let sum = |fact: fn(&Provenance) -> u64| parts.iter().map(|part| fact(part)).sum();
    let mass: f64 = parts.iter().map(|part| part.mass).sum();
    let mut fingerprint = Fingerprint::default();
    parts.iter().for_each(|part| fingerprint.merge(part.fingerprint));
    let mut warnings: Vec<String> = Vec::new();
    for warning in parts.iter().flat_map(|part| &part.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    let composed: Vec<Composition> = parts.iter().map(|part| part.composed()).collect();
    let kl = parts.iter().zip(&composed).map(|(part, composed)| Some(composed.kl? * part.mass / mass)).sum();
    let bounds: Option<Vec<_>> = composed.iter().map(|part| part.bound).collect();
    // A union is no better than the worst of its parts; exact parts do not count.
    let worst_method = parts.iter().filter(|part| !part.exact).map(|part| part.method).max();
    Provenance {
        method: worst_method.unwrap_or(first.method),
        size: first.size,
        draws: sum(|part| part.draws),
        exact: parts.iter().all(|part| part.exact),
        rows_read: sum(|part| part.rows_read),
        rows: sum(|part| part.rows),
        rows_dropped: sum(|part| part.rows_dropped),
        mass,
        fingerprint,
        passes: parts.iter().map(|part| part.passes).max().unwrap_or(0),
        seed: first.seed,
        missing: parts
            .iter()
            .map(|part| part.missing)
            .find(|missing| *missing != Missing::Error)
            .unwrap_or_default(),
        sensitivity: None,
        calibration: None,
        hierarchical: None,
        composition: Some(Composition {
            parts: composed.iter().map(|part| part.parts).sum(),
            depth: composed.iter().map(|part| part.depth).max().unwrap_or(0),
            bound: bounds.and_then(|bounds| bounds.into_iter().reduce(|a, b| a.combined_with(b))),
            kl,
            movement: composed.iter().filter_map(|part| part.movement).reduce(Movement::larger),
            half_life: composed.iter().filter_map(|part| part.half_life).reduce(f64::min),
        }),
        warnings,
    }
}

/// Notes how far the posterior of merged coresets is from that of each part, and warns if a part was not matched there.
fn note_movement(
    parts: &[(String, Coreset)],
    merged: &mut Coreset,
    priors: &PriorChoice,
    observer: &dyn Observer,
) -> Result<()> {
    let priors = priors.priors(&merged.encoding.distinct_names()?, merged.encoding.intercept)?;
    let mode_of = |coreset: &Coreset| Posterior::new(&coreset.points()?, &priors)?.laplace();
    let all = mode_of(merged)?;
    let mut largest: Option<(Movement, &str)> = None;
    for (name, part) in parts.iter().filter(|(_, part)| !part.provenance.exact) {
        let part = Coreset { encoding: merged.encoding.clone(), ..part.clone() };
        let share = part.provenance.mass / merged.provenance.mass;
        let matched_at = part.provenance.calibration.as_ref().and_then(|facts| facts.part_of.as_ref());
        let movement = match matched_at {
            Some(whole) => Movement::from_reference(
                &merged.encoding.from_user_scale(&whole.mode),
                share / whole.share,
                &all,
            ),
            None => Movement::since(&mode_of(&part)?, share, all.mean()),
        };
        if largest.is_none_or(|(before, _)| before.larger(movement) == movement) {
            largest = Some((movement, name));
        }
    }
    let Some((movement, name)) = largest else { return Ok(()) };
    if movement.is_outside() {
        let what = format!(
            "the posterior of all parts is {:.1} standard deviations away from that of '{name}', whose coreset was matched within \
             {:.1}: the parts differ, and the merged coreset may be inaccurate; build the parts again with the merged coreset as \
             their reference",
            movement.distance, movement.radius
        );
        observer.event(Event::Warning(what.clone()));
        merged.provenance.warnings.push(what);
    }
    if let Some(composition) = &mut merged.provenance.composition {
        composition.movement = Some(composition.movement.map_or(movement, |before| before.larger(movement)));
    }
    Ok(())
}

/// A coreset of a coreset.
pub(crate) struct Compressed {
    pub coreset: Coreset,
    /// What later steps have to compensate.
    pub residual: Option<Quadratic>,
    /// The posterior of everything that is held; `None` if nothing had to be done.
    pub held: Option<Gaussian>,
}

/// Compresses a coreset to the requested size. A coreset that is no larger than that is returned unchanged, unless it has to
/// compensate a carried residual.
pub(crate) fn compress(
    union: Coreset,
    settings: &BuildSettings,
    task: &Task<'_>,
    threads: Option<usize>,
    observer: &dyn Observer,
) -> Result<Compressed> {
    if matches!(settings.size, Size::Rows(size) if union.rows.len() <= size) && task.may_be_exact {
        return Ok(Compressed { coreset: union, residual: task.carried_residual.cloned(), held: None });
    }
    let Coreset { fields, rows, weights, encoding, provenance: before } = union;
    let (table, known) = weighted_table(&fields, &rows, weights, &encoding)?;
    let quiet = Quiet(observer);
    let engine = LocalEngine::new(table, &EngineSettings { threads, ..EngineSettings::default() }, &quiet)?;
    let settings = BuildSettings {
        encoding: EncodingSettings { known: Some(known), ..settings.encoding.clone() },
        ..settings.clone()
    };
    let made = build_task(&engine, &settings, task)?;
    let kl = made.composed_kl(before.composed().kl);
    let Built { coreset: built, residual, held, .. } = made;
    let positions = built.rows.positions.iter().map(|&row| rows.positions[row as usize]).collect();
    let provenance = compressed(before, built.provenance, kl);
    let rows = RowSet { positions, ..built.rows };
    let coreset = Coreset { fields, rows, weights: built.weights, encoding, provenance };
    Ok(Compressed { coreset, residual, held })
}

/// Weighted rows as a table to build from, and the encoding with the weight column.
fn weighted_table(
    fields: &[Field],
    rows: &RowSet,
    weights: Vec<f64>,
    encoding: &Encoding,
) -> Result<(Table, Encoding)> {
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    let weight = crate::data::sink::parquet::free_name("weight", &names);
    let roles = Roles {
        label: encoding.label.column.clone(),
        weight: Some(weight.clone()),
        features: Some(encoding.features.iter().map(|feature| feature.column.clone()).collect()),
        ..Roles::default()
    };
    let weight_field = Field { name: weight.clone(), kind: Kind::Number, data_type: DataType::Float64 };
    let mut segment = rows.segment.clone();
    segment.columns.push(Column::Number(weights.into()));
    let fields = fields.iter().cloned().chain([weight_field]).collect();
    let table = Table::new(Box::new(Columns::of_rows(fields, segment, 0, false)), &roles)?;
    Ok((table, Encoding { weight: Some(weight), ..encoding.clone() }))
}

/// The provenance of a compressed coreset: facts about the data from `before`, about the selection from the `step`, and the KL
/// of all steps.
fn compressed(before: Provenance, step: Provenance, kl: Option<f64>) -> Provenance {
    let was = before.composed();
    let composition = Composition {
        depth: was.depth + 1,
        bound: was.bound.zip(step.step_bound()).map(|(was, step)| was.then(step)),
        kl,
        ..was
    };
    Provenance {
        exact: before.exact && step.exact,
        rows_read: before.rows_read,
        rows: before.rows,
        rows_dropped: before.rows_dropped,
        mass: before.mass,
        fingerprint: before.fingerprint,
        passes: before.passes,
        missing: before.missing,
        composition: Some(composition),
        warnings: before.warnings,
        ..step
    }
}

/// An observer that forwards only cancellations: passes over a few thousand rows need no progress bar, and their
/// warnings were given when the rows were read.
pub(crate) struct Quiet<'a>(pub &'a dyn Observer);

impl Observer for Quiet<'_> {
    fn event(&self, _event: crate::base::progress::Event) {}

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

/// The encoding of all parts, if they agree: the same columns, classes and levels. Means and scales that each part learnt
/// from its own rows are pooled, and the reference level is the first part's, because rows are kept in the user's units. With a formula,
/// means and scales are the first part's.
fn agreed(parts: &[(String, Coreset)]) -> Result<Encoding> {
    let Some(((first_name, first), others)) = parts.split_first() else {
        return Err(ErrorKind::NoRows { what: "there are no coresets to merge".to_string() }.into());
    };
    for (name, other) in others {
        if let Some(what) = difference(first, other) {
            let first_knows_less = !knows_levels_of(first, other) && knows_levels_of(other, first);
            let (first, second) = (first_name.into(), name.into());
            return Err(ErrorKind::EncodingMismatch { first, second, what, first_knows_less }.into());
        }
    }
    let mut encoding = first.encoding.clone();
    if encoding.design.is_some() {
        return Ok(encoding);
    }
    for (at, feature) in encoding.features.iter_mut().enumerate() {
        let differs =
            |other: &Feature| other.coding != feature.coding || other.substitutes != feature.substitutes;
        if others.iter().any(|(_, other)| differs(&other.encoding.features[at])) {
            feature.coding = pooled(parts, at, &feature.coding);
            pool_substitutes(parts, at, feature);
        }
    }
    Ok(encoding)
}

/// Whether one coreset's encoding has all levels of the other's.
fn knows_levels_of(one: &Coreset, other: &Coreset) -> bool {
    let mut features = one.encoding.features.iter().zip(&other.encoding.features);
    features.all(|(one, other)| all_levels(other).into_iter().all(|level| one.knows(level)))
}

/// The first difference between two encodings that was not learnt from the rows.
fn difference(first: &Coreset, second: &Coreset) -> Option<String> {
    let (a, b) = (&first.encoding, &second.encoding);
    let differ = |what: &str, one: &dyn std::fmt::Display, other: &dyn std::fmt::Display| {
        (one.to_string() != other.to_string())
            .then(|| format!("{what} is '{one}' in the first and '{other}' in the second"))
    };
    let kind = |value: &LabelValue| match value {
        LabelValue::Text(_) => "text",
        LabelValue::Number(_) | LabelValue::Boolean(_) => "a number",
    };
    let intercept = |encoding: &Encoding| if encoding.intercept { "fitted" } else { "omitted" };
    differ("the label", &a.label.column, &b.label.column)
        .or_else(|| differ("the label", &kind(&a.label.positive), &kind(&b.label.positive)))
        .or_else(|| differ("the label's positive value", &a.label.positive, &b.label.positive))
        .or_else(|| differ("the label's negative value", &a.label.negative, &b.label.negative))
        .or_else(|| differ("the intercept", &intercept(a), &intercept(b)))
        .or_else(|| design_difference(a, b))
        .or_else(|| differ("the number of features", &a.features.len(), &b.features.len()))
        .or_else(|| {
            let features = a.features.iter().zip(&b.features).enumerate();
            features.map(|(at, (a, b))| feature_difference(at, a, b, first, second)).find_map(|found| found)
        })
}

/// The first difference between the terms of two formulas, apart from means and scales.
fn design_difference(a: &Encoding, b: &Encoding) -> Option<String> {
    match (&a.design, &b.design) {
        (None, None) => None,
        (Some(a), Some(b)) if a.formula != b.formula => {
            Some(format!("the formula is '{}' in the first and '{}' in the second", a.formula, b.formula))
        }
        (Some(a), Some(b)) => (a.unscaled() != b.unscaled())
            .then(|| "the formula has learnt other levels, knots or polynomials in the second".to_string()),
        _ => Some("only one of them has a formula".to_string()),
    }
}

fn feature_difference(
    at: usize,
    a: &Feature,
    b: &Feature,
    first: &Coreset,
    second: &Coreset,
) -> Option<String> {
    if a.column != b.column {
        return Some(format!(
            "feature {} is '{}' in the first and '{}' in the second",
            at + 1,
            a.column,
            b.column
        ));
    }
    let column = &a.column;
    let rules = |feature: &Feature| {
        let Substitutes { missing, other } = &feature.substitutes;
        let level = match missing {
            Some(Substitute::Level(level)) if level == MISSING_LEVEL => "a level for missing values",
            Some(Substitute::Level(_)) => "the reference for missing values",
            Some(Substitute::Number { indicator: Some(_), .. }) => "an indicator of missing values",
            Some(Substitute::Number { indicator: None, .. }) => "the mean for missing values",
            None => "no missing values",
        };
        let other = other.as_ref().map_or(String::new(), |other| format!(" and '{other}' for rare levels"));
        format!("{level}{other}")
    };
    let (one, other) = (rules(a), rules(b));
    if one != other {
        return Some(format!("column '{column}' has {one} in the first and {other} in the second"));
    }
    if first.fields[at].kind != second.fields[at].kind {
        return Some(format!("column '{column}' has different types in the first and in the second"));
    }
    let differs = |what: &str, one: Option<bool>, other: Option<bool>| match (one, other) {
        (Some(true), Some(false)) => {
            Some(format!("column '{column}' is {what} in the first and not in the second"))
        }
        (Some(false), Some(true)) => {
            Some(format!("column '{column}' is {what} in the second and not in the first"))
        }
        _ => None,
    };
    match (&a.coding, &b.coding) {
        (Coding::Levels { centers, .. }, Coding::Levels { centers: others, .. }) => {
            let (l, m) = (all_levels(a), all_levels(b));
            let one_has =
                |level, which| format!("column '{column}' has the level '{level}' only in the {which}");
            let only_first = l.iter().find(|level| !m.contains(level)).map(|level| one_has(level, "first"));
            only_first
                .or_else(|| m.iter().find(|level| !l.contains(level)).map(|level| one_has(level, "second")))
                .or_else(|| differs("centred", Some(!centers.is_empty()), Some(!others.is_empty())))
        }
        _ => {
            let (one, other) = (spread(first, at), spread(second, at));
            differs("scaled", one.scaled, other.scaled)
                .or_else(|| differs("centred", one.centred, other.centred))
        }
    }
}

/// All levels of a column, the reference among them: which one that is was learnt from the rows.
fn all_levels(feature: &Feature) -> Vec<&String> {
    match &feature.coding {
        Coding::Levels { reference, levels, .. } => std::iter::once(reference).chain(levels).collect(),
        Coding::Groups { levels } => levels.iter().collect(),
        Coding::Number { .. } | Coding::Indicator { .. } | Coding::Boolean => Vec::new(),
    }
}

/// What an encoding did with a column of numbers or booleans; unknown where it makes no difference.
struct Spread {
    center: f64,
    sd: f64,
    scaled: Option<bool>,
    centred: Option<bool>,
}

fn spread(coreset: &Coreset, at: usize) -> Spread {
    let coding = &coreset.encoding.features[at].coding;
    let (center, scale) = coding.transform().next().unwrap_or((0.0, 1.0));
    let values = match &coreset.rows.segment.columns[at] {
        Column::Number(values) => &values[..],
        Column::Text { .. } => &[],
    };
    let constant = values.windows(2).all(|pair| pair[0] == pair[1]);
    let unknown = constant && scale == 1.0;
    let centred = (!unknown).then_some(center != 0.0);
    match coding {
        Coding::Number { .. } => Spread {
            center,
            sd: if unknown { 0.0 } else { scale },
            scaled: (!unknown).then_some(scale != 1.0),
            centred,
        },
        // A column of numbers can be 0 and 1 in one part, and have other values in another part, where it is scaled.
        _ => {
            let mass: f64 = coreset.weights.iter().sum();
            let mean = values.iter().zip(&coreset.weights).map(|(x, weight)| x * weight).sum::<f64>() / mass;
            Spread { center, sd: (mean * (1.0 - mean)).max(0.0).sqrt(), scaled: None, centred }
        }
    }
}

/// The coding of a feature for the rows of all parts together, from that of each; `first` is the coding of the first part.
fn pooled(parts: &[(String, Coreset)], at: usize, first: &Coding) -> Coding {
    let codings = || parts.iter().map(|(_, part)| &part.encoding.features[at].coding);
    let masses = || parts.iter().map(|(_, part)| part.provenance.mass);
    let mass: f64 = masses().sum();
    let mean = |values: Vec<f64>| masses().zip(values).map(|(part, value)| part * value).sum::<f64>() / mass;
    if let Coding::Levels { reference, levels, centers } = first {
        let pooled = |level: &String| mean(codings().map(|coding| level_mean(coding, level)).collect());
        let centers = if centers.is_empty() { Vec::new() } else { levels.iter().map(pooled).collect() };
        return Coding::Levels { reference: reference.clone(), levels: levels.clone(), centers };
    }
    let spreads: Vec<Spread> = parts.iter().map(|(_, part)| spread(part, at)).collect();
    let center = mean(spreads.iter().map(|spread| spread.center).collect());
    if !codings().any(|coding| matches!(coding, Coding::Number { .. })) {
        return Coding::Indicator { center };
    }
    let square = |spread: &Spread| spread.sd.powi(2) + (spread.center - center).powi(2);
    let variance = mean(spreads.iter().map(square).collect());
    Coding::Number { center, scale: if variance > 0.0 { variance.sqrt() } else { 1.0 } }
}

/// Replaces the substitute of missing numbers, and the share of missing values, by their means over the rows of all parts.
fn pool_substitutes(parts: &[(String, Coreset)], at: usize, feature: &mut Feature) {
    let Some(Substitute::Number { value, indicator }) = &mut feature.substitutes.missing else { return };
    let mass: f64 = parts.iter().map(|(_, part)| part.provenance.mass).sum();
    let (mut mean, mut share) = (0.0, 0.0);
    for (_, part) in parts {
        let weight = part.provenance.mass / mass;
        if let Some(Substitute::Number { value, indicator }) = part.encoding.features[at].substitutes.missing
        {
            mean += weight * value;
            share += weight * indicator.unwrap_or(0.0);
        }
    }
    *value = mean;
    if let Some(indicator) = indicator {
        *indicator = share.clamp(0.0, 1.0);
    }
}

/// The share of the rows that have a level, if the levels are centred. The reference level has the rest.
fn level_mean(coding: &Coding, level: &str) -> f64 {
    match coding {
        Coding::Levels { levels, centers, .. } => {
            match levels.binary_search_by(|known| known.as_str().cmp(level)) {
                Ok(position) => centers.get(position).copied().unwrap_or(0.0),
                Err(_) => 1.0 - centers.iter().sum::<f64>(),
            }
        }
        _ => 0.0,
    }
}
