//! The first pass over all rows: learns the encoding (moments, levels, label values), finds unusable values, and selects rows uniformly
//! for the clustering.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::found::{
    ColumnFound, Found, NUMBERS_KEPT, number_feature, number_label, text_column, weight_column,
};
use super::learn::{expanded, fitting, learn};
use super::moments::{MomentSums, Moments, sweep};
use super::terms::collinear;
use super::terms::learn::{TermSettings, with_formula};
use super::usable::{check, no_rows, nothing_in};
use crate::base::error::{Error, Result, Setting};
use crate::base::rng::{Purpose, Seed};
use crate::data::block::{Block, Column, Field, Kind, RowSet, row_name};
use crate::data::fingerprint::{Fingerprint, RowHasher, STRIP};
use crate::data::table::Table;
use crate::encoding::factor::MOST_GROUPS;
use crate::encoding::{Encoding, EncodingSettings};
use crate::engine::parts::{part_ranges, process_parts};
use crate::engine::pass::Pass;
use crate::engine::{Engine, Missing};
use crate::reservoir::slots::{Picked, Racer, Races, Slots};

/// The survey as a pass.
#[derive(Serialize, Deserialize)]
pub(crate) struct Survey {
    /// The number of features; they are the first columns.
    features: usize,
    /// The number of levels to store of each of them: all that it may have.
    most_levels: Vec<usize>,
    races: Races,
    seed: Seed,
}

/// The result of the survey.
#[derive(Clone)]
pub struct Learnt {
    /// The encoding.
    pub encoding: Encoding,
    /// The number of rows in the input.
    pub rows_read: u64,
    /// The number of rows in use; the others were dropped because of an unusable value.
    pub rows: u64,
    /// The sum of the weights of the rows in use.
    pub mass: f64,
    /// The fingerprint of the rows in use.
    pub fingerprint: Fingerprint,
    /// Rows selected in proportion to their weights: 1,000 selections per cluster.
    pub picks: Picked,
    /// The first of these, at most 2.5 % of the data, for the clustering.
    pub clustering_picks: Picked,
    /// The mean and standard deviation of each feature of numbers.
    pub moments: Vec<Option<(f64, f64)>>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Runs the survey: learns the encoding, and selects rows for a clustering with `clusters` centres.
pub fn survey(
    engine: &impl Engine,
    settings: &EncodingSettings,
    clusters: usize,
    seed: Seed,
) -> Result<Learnt> {
    let table = engine.table();
    let features = table.features().len();
    let formula = settings.formula.as_deref().filter(|_| settings.known.is_none());
    let formula = formula.map(|text| expanded(text, table, &settings.groups)).transpose()?;
    let settings = &settings.with(formula.as_ref());
    if settings.known.is_none() {
        check_substitutes(settings, engine.missing())?;
    }
    let most_levels = most_levels(table, settings);
    let pass = Survey { features, most_levels, races: Races::new(1000 * clusters), seed };
    let found = engine.run(&pass)?.ok_or_else(|| no_rows(nothing_in(table)))?;
    let row_name = |row| engine.row_name(row);
    let missing = engine.missing();
    let checked = check(table, &found, missing, settings.known.as_ref(), &row_name);
    let (encoding, warnings) = match &settings.known {
        Some(known) => {
            checked?;
            (fitting(known, settings.unseen, table, &found, &row_name)?, Vec::new())
        }
        None => learn(table, &found, settings, missing, checked, &row_name)?,
    };
    let (encoding, warnings) = match &formula {
        Some(formula) => {
            let terms = TermSettings {
                standardize: settings.standardize,
                is_centred: settings.is_centred(table.source().is_sparse()),
                max_levels: settings.max_levels,
                seed,
            };
            let (encoding, more) = with_formula(engine, encoding, formula, &terms)?;
            (encoding, [warnings, more].concat())
        }
        None => (encoding, warnings),
    };
    encoding.distinct_names()?;
    encoding.check_slopes()?;
    let moments = table.features().iter().zip(&found.columns).map(|(field, column)| {
        let Moments { mass, mean, squares, .. } = column.moments;
        (field.kind == Kind::Number).then(|| (mean, (squares / mass).sqrt()))
    });
    let moments = moments.collect();
    // L = min(1000k, 0.025 N), but at least 20 rows per cluster if N is small.
    let wanted = (found.rows / 40).max(20 * clusters as u64) as usize;
    let mass = found.picks.total;
    let finish = |slots: Slots| slots.finish().ok_or_else(|| no_rows(nothing_in(table)));
    let fewer = (wanted < pass.races.slots()).then(|| {
        let mut fewer = found.picks.clone();
        fewer.truncate(wanted);
        fewer
    });
    let picks = finish(found.picks)?;
    let clustering_picks = fewer.map_or_else(|| Ok(picks.clone()), finish)?;
    let warnings = match &formula {
        Some(_) => warnings.into_iter().chain(collinear::warning(&encoding, &picks.rows.block())?).collect(),
        None => warnings,
    };
    Ok(Learnt {
        encoding,
        rows_read: found.rows_read,
        rows: found.rows,
        mass,
        fingerprint: found.fingerprint,
        picks,
        clustering_picks,
        moments,
        warnings,
    })
}

/// Returns an error if values are to be replaced that a formula or a grouping factor uses as they are.
fn check_substitutes(settings: &EncodingSettings, missing: Missing) -> Result<()> {
    let is_plain = settings.formula.is_none() && settings.groups.is_empty();
    if is_plain || !missing.is_substituted() && settings.min_level_rows == 0 {
        return Ok(());
    }
    let (setting, what) = match missing.is_substituted() {
        true => (
            Setting::Missing,
            "can only be error or drop with a formula or groups, which use values as they are",
        ),
        false => {
            (Setting::MinLevelRows, "cannot be used with a formula or groups, which use levels as they are")
        }
    };
    Err(Error::setting(setting, what))
}

/// The number of levels that each feature may have: a column of groups more than others.
fn most_levels(table: &Table, settings: &EncodingSettings) -> Vec<usize> {
    let factors = settings.known.as_ref().map_or(&settings.groups, |known| &known.groups);
    let is_group = |name: &String| factors.iter().any(|factor| factor.column == *name);
    let most = |field: &Field| if is_group(&field.name) { MOST_GROUPS } else { settings.levels_counted() };
    table.features().iter().map(most).collect()
}

/// Checks rows before they are added to a stream: all values are usable and, if the encoding is known, it has their levels and labels.
pub(crate) fn check_rows(
    table: &Table,
    block: &Block,
    known: Option<&Encoding>,
    settings: &EncodingSettings,
    missing: Missing,
) -> Result<()> {
    if block.len == 0 {
        return Ok(());
    }
    let pass = Survey {
        features: table.features().len(),
        most_levels: most_levels(table, settings),
        races: Races::new(0),
        seed: Seed(0),
    };
    let found = pass.visit(&mut pass.worker(), block)?;
    check(table, &found, missing, known, &row_name)?;
    let Some(known) = known else { return Ok(()) };
    let encoding = fitting(known, settings.unseen, table, &found, &row_name)?;
    encoding.encoder(block).map(|_| ())
}

impl Pass for Survey {
    const ID: &'static str = "survey";
    const LABEL: &'static str = "surveying the columns";
    type State = Found;
    type Worker = Racer;

    fn worker(&self) -> Racer {
        self.races.racer()
    }

    fn visit(&self, racer: &mut Racer, block: &Block) -> Result<Found> {
        let features = self.features;
        let weights = match block.columns.get(features + 1) {
            Some(Column::Number(weights)) => Some(&weights[..]),
            _ => None,
        };
        let mut rng = self.seed.stream(Purpose::ClusteringRows, block.stream);
        let picks = match weights {
            None => racer.race_uniform(block, &mut rng),
            // `check` reports unusable weights later; until then they must not break the race.
            Some(weights) => {
                let usable = weights.iter().all(|weight| *weight > 0.0 && weight.is_finite());
                racer.race(block, if usable { weights } else { &[] }, &mut rng)
            }
        };
        let hasher = RowHasher::new(block);
        let parts = part_ranges(block.len.div_ceil(STRIP)).collect();
        let swept = process_parts(parts, |strips| Swept::of(block, strips, weights, &hasher, features));
        let mut all = Swept::nothing(features);
        swept.into_iter().for_each(|swept| all.merge(swept));
        let Swept { moments, fingerprint } = all;
        let mut columns: Vec<ColumnFound> = block
            .columns
            .iter()
            .enumerate()
            .map(|(c, column)| match column {
                Column::Number(values) if c < features => number_feature(block, values, moments[c]),
                Column::Number(values) if c == features => number_label(block, values),
                Column::Number(values) => weight_column(block, values),
                Column::Text { codes, levels } => {
                    text_column(block, codes, levels, weights, self.levels_kept(c))
                }
            })
            .collect();
        // A message shows the row of the first such column only; a row of 100,000 columns is not kept for each of them.
        if let Some(first) = columns.iter_mut().find_map(|column| column.unusable.first.as_mut())
            && let Some(row) = first.positions.first().and_then(|position| block.find(*position))
        {
            *first = RowSet::copy(block, &[row]);
        }
        Ok(Found { rows_read: block.rows_read as u64, rows: block.len as u64, columns, picks, fingerprint })
    }

    fn merge(&self, found: &mut Found, next: Found) {
        found.rows_read += next.rows_read;
        found.rows += next.rows;
        found.picks.merge(next.picks);
        found.fingerprint.merge(next.fingerprint);
        for (c, (ours, theirs)) in found.columns.iter_mut().zip(next.columns).enumerate() {
            ours.unusable.merge(theirs.unusable);
            ours.moments.merge(theirs.moments);
            ours.levels.merge(theirs.levels, self.levels_kept(c));
            theirs.numbers.0.into_iter().for_each(|(value, seen)| ours.numbers.add(value, seen));
            ours.not_positive = ours.not_positive.or(theirs.not_positive);
            ours.missing_mass += theirs.missing_mass;
        }
    }

    fn relocate(&self, found: &mut Found, place: &dyn Fn(u64) -> u64) {
        found.picks.relocate(place);
        for column in &mut found.columns {
            column.unusable.first.iter_mut().for_each(|row| row.relocate(place));
            column.not_positive = column.not_positive.map(|(position, value)| (place(position), value));
            let numbers = column.numbers.0.iter_mut().map(|(_, seen)| seen);
            numbers.chain(column.levels.seen.values_mut()).for_each(|seen| seen.first = place(seen.first));
        }
    }
}

/// Moments and fingerprint of some rows.
struct Swept {
    moments: Vec<Moments>,
    fingerprint: Fingerprint,
}

impl Swept {
    fn nothing(columns: usize) -> Swept {
        Swept { moments: vec![Moments::default(); columns], fingerprint: Fingerprint::default() }
    }

    /// Moments and fingerprint of some strips of a block. A strip's hashes stay in the cache while its columns are read one after the
    /// other.
    fn of(
        block: &Block,
        strips: Range<usize>,
        weights: Option<&[f64]>,
        hasher: &RowHasher<'_>,
        features: usize,
    ) -> Swept {
        let mut sums: Vec<MomentSums> = vec![MomentSums::default(); features];
        let mut fingerprint = Fingerprint::default();
        for strip in strips {
            let rows = strip * STRIP..block.len.min((strip + 1) * STRIP);
            fingerprint.merge(sweep(block, rows, weights, hasher, &mut sums));
        }
        let moments = sums.iter().map(MomentSums::moments).collect();
        Swept { moments, fingerprint }
    }

    fn merge(&mut self, next: Swept) {
        self.moments.iter_mut().zip(next.moments).for_each(|(ours, theirs)| ours.merge(theirs));
        self.fingerprint.merge(next.fingerprint);
    }
}

impl Survey {
    /// The number of levels to store of a column: all that a feature may have, a few of the label.
    fn levels_kept(&self, column: usize) -> usize {
        self.most_levels.get(column).copied().unwrap_or(NUMBERS_KEPT)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::data::block::{Segment, TextBuilder};

    pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let uniform = crate::base::rng::CounterRng::new(&mut Seed(seed).stream(Purpose::Generate, 0));
        (0..count as u64).map(|index| uniform.unit(index) * 3.0 - 1.0).collect()
    }

    #[test]
    fn the_fingerprint_is_that_of_the_rows_for_any_columns() {
        let len = 2500;
        let text = || {
            let mut text = TextBuilder::default();
            (0..len).for_each(|row| text.push(Some(["a", "b", "c"][row % 3])));
            text.finish()
        };
        let number = |seed: u64| Column::Number(numbers(len, seed).into());
        for features in [vec![number(1)], vec![number(1), number(2)], vec![number(1), text(), number(2)]] {
            for weighted in [false, true] {
                let count = features.len();
                let mut columns = features.clone();
                columns.push(Column::Number((0..len).map(|row| (row % 2) as f64).collect()));
                columns.extend(weighted.then(|| Column::Number(vec![2.0; len].into())));
                let block = Block::new(0, 0, Segment { columns, len });
                let pass = Survey {
                    features: count,
                    most_levels: vec![10; count],
                    races: Races::new(20),
                    seed: Seed(3),
                };
                let found = pass.visit(&mut pass.worker(), &block).expect("a state");
                assert_eq!(found.fingerprint, Fingerprint::of(&block));
            }
        }
    }

    /// A block of several parts, the last of them short. Its column of numbers is increasing, so that the parts have different means.
    #[test]
    fn the_survey_of_a_block_does_not_depend_on_the_threads() {
        let len = 5 * STRIP + 3;
        let rising: Vec<f64> = numbers(len, 1).iter().zip(0..).map(|(x, row)| x + f64::from(row)).collect();
        let mut text = TextBuilder::default();
        (0..len).for_each(|row| text.push(Some(["a", "b", "c"][row % 3])));
        let label = Column::Number((0..len).map(|row| (row % 2) as f64).collect());
        let columns = vec![Column::Number(rising.clone().into()), text.finish(), label];
        let all_weights: Vec<f64> = numbers(len, 2).iter().map(|x| x + 1.5).collect();
        for weights in [None, Some(&all_weights)] {
            let mut columns = columns.clone();
            columns.extend(weights.map(|weights| Column::Number(weights.clone().into())));
            let block = Block::new(0, 1000, Segment { columns, len });
            let surveyed = || {
                let pass =
                    Survey { features: 2, most_levels: vec![10; 2], races: Races::new(500), seed: Seed(3) };
                pass.visit(&mut pass.worker(), &block).expect("a state")
            };
            let found = surveyed();
            for threads in [1, 2, 5] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                let bytes = |found: &Found| rmp_serde::to_vec(found).expect("bytes");
                assert_eq!(bytes(&pool.install(surveyed)), bytes(&found), "{threads} threads");
            }
            let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
            let sum = |of: &dyn Fn(f64) -> f64| -> f64 {
                rising.iter().enumerate().map(|(row, x)| weight(row) * of(*x)).sum()
            };
            let mean = sum(&|x| x) / sum(&|_| 1.0);
            let squares = sum(&|x| (x - mean).powi(2));
            let Moments { mean: our_mean, squares: our_squares, .. } = found.columns[0].moments;
            assert!((our_mean / mean - 1.0).abs() < 1e-12, "{our_mean} against {mean}");
            assert!((our_squares / squares - 1.0).abs() < 1e-12, "{our_squares} against {squares}");
            let picked = found.picks.finish().expect("rows");
            let rows: Vec<usize> = picked.rows.positions.iter().map(|place| *place as usize - 1000).collect();
            assert!(rows.is_sorted() && rows[0] < STRIP && rows[rows.len() - 1] > 4 * STRIP);
            let expected = RowSet::copy(&block, &rows);
            for (at, row) in rows.into_iter().enumerate() {
                let shown = |set: &RowSet| -> Vec<String> {
                    set.segment.columns.iter().map(|column| column.show(at)).collect()
                };
                assert_eq!(shown(&picked.rows), shown(&expected));
                assert_eq!(picked.shares[at], weight(row));
            }
        }
    }
}
