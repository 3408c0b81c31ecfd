//! Posterior predictive checks of groups: whether as many rows of each level of a text column are positive as the model expects.

use serde::{Deserialize, Serialize};

use crate::data::block::{Block, Column};
use crate::data::points::{Lane, TILE};
use crate::encoding::{Coding, Encoding};

/// Text columns with more levels than this are not checked.
const MOST_LEVELS: usize = 50;
/// Predictions are kept for at most this many draws.
const DRAWS: usize = 100;

/// A level of a text column: the share of positive rows, and what the model expects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LevelCheck {
    /// The column.
    pub column: String,
    /// The level.
    pub level: String,
    /// Number of rows, or their weight.
    pub mass: f64,
    /// Share of the rows with the positive label.
    pub observed: f64,
    /// Mean of the share in data that the model would generate.
    pub predicted: f64,
    /// Lower end of the 95 % interval of that share (normal approximation).
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
}

impl LevelCheck {
    /// Whether the observed share lies in the interval.
    pub fn is_expected(&self) -> bool {
        (self.lower..=self.upper).contains(&self.observed)
    }
}

/// Sums over the rows of the levels of a text column.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ColumnSums {
    column: String,
    levels: Vec<String>,
    sums: Vec<LevelSum>,
    /// For each row of the block that is being read, its level.
    #[serde(skip)]
    level_of_row: Vec<Option<usize>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct LevelSum {
    mass: f64,
    positive: f64,
    /// `Σ p (1 − p)`.
    noise: f64,
    /// For each kept draw `Σ p`.
    by_draw: Vec<f64>,
}

/// The sums of all text columns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct LevelSums {
    columns: Vec<ColumnSums>,
    /// Every so many draws are kept.
    step: usize,
    /// The probabilities of the rows of a tile at the kept draws.
    #[serde(skip)]
    tile: Vec<Vec<f64>>,
}

impl LevelSums {
    /// Nothing yet, for the rows of a block and `draws` draws.
    pub fn new(encoding: &Encoding, block: &Block, draws: usize) -> LevelSums {
        let step = draws.div_ceil(DRAWS).max(1);
        let kept = draws.div_ceil(step);
        let columns = encoding.features.iter().zip(&block.columns).filter_map(|(feature, column)| {
            let Coding::Levels { reference, levels: known, .. } = &feature.coding else { return None };
            let Column::Text { codes, levels: own } = feature.substituted(column) else { return None };
            if known.len() >= MOST_LEVELS {
                return None;
            }
            let mut levels: Vec<String> = known.iter().chain([reference]).cloned().collect();
            levels.sort();
            let places: Vec<Option<usize>> =
                own.iter().map(|level| levels.binary_search(level).ok()).collect();
            let level_of_row =
                codes.iter().map(|code| places.get(*code as usize).copied().flatten()).collect();
            let sum = LevelSum { by_draw: vec![0.0; kept], ..LevelSum::default() };
            let sums = vec![sum; levels.len()];
            Some(ColumnSums { column: feature.column.clone(), levels, sums, level_of_row })
        });
        let columns: Vec<ColumnSums> = columns.collect();
        let tile = if columns.is_empty() { Vec::new() } else { vec![vec![0.0; TILE]; kept] };
        LevelSums { columns, step, tile }
    }

    /// Keeps the probabilities of a tile at draw `s`, if that draw is kept.
    #[inline(always)]
    pub fn keep_draw(&mut self, s: usize, probabilities: &Lane) {
        if self.step > 0
            && s.is_multiple_of(self.step)
            && let Some(kept) = self.tile.get_mut(s / self.step)
        {
            kept.copy_from_slice(&probabilities[..]);
        }
    }

    /// Adds row `row` of the block, which is row `r` of the tile; `variance` is `p (1 − p)`.
    pub fn add_row(&mut self, row: usize, r: usize, weight: f64, is_positive: bool, variance: f64) {
        for column in &mut self.columns {
            let Some(sum) =
                column.level_of_row.get(row).copied().flatten().and_then(|at| column.sums.get_mut(at))
            else {
                continue;
            };
            sum.mass += weight;
            sum.positive += if is_positive { weight } else { 0.0 };
            sum.noise += weight * variance;
            for (sum, kept) in sum.by_draw.iter_mut().zip(&self.tile) {
                *sum += weight * kept[r];
            }
        }
    }

    /// Frees what is needed only while a block is read.
    pub fn forget_rows(&mut self) {
        self.tile = Vec::new();
        self.columns.iter_mut().for_each(|column| column.level_of_row = Vec::new());
    }

    pub fn merge(&mut self, next: LevelSums) {
        for (ours, theirs) in self.columns.iter_mut().zip(next.columns) {
            for (our, their) in ours.sums.iter_mut().zip(theirs.sums) {
                our.mass += their.mass;
                our.positive += their.positive;
                our.noise += their.noise;
                our.by_draw.iter_mut().zip(their.by_draw).for_each(|(our, their)| *our += their);
            }
        }
    }

    /// The checks of all levels that occur.
    pub fn checks(&self) -> Vec<LevelCheck> {
        let levels = self.columns.iter().flat_map(|column| {
            column.levels.iter().zip(&column.sums).map(|(level, sum)| (&column.column, level, sum))
        });
        levels
            .filter(|(_, _, sum)| sum.mass > 0.0)
            .map(|(column, level, sum)| sum.check(column, level))
            .collect()
    }
}

impl LevelSum {
    /// The number of positive rows in generated data varies between draws, and around each draw's expectation.
    fn check(&self, column: &str, level: &str) -> LevelCheck {
        const Z: f64 = 1.959_963_984_540_054;
        let draws = self.by_draw.len() as f64;
        let mean = self.by_draw.iter().sum::<f64>() / draws;
        let between =
            self.by_draw.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / (draws - 1.0).max(1.0);
        let half = Z * (self.noise + between).sqrt();
        LevelCheck {
            column: column.to_string(),
            level: level.to_string(),
            mass: self.mass,
            observed: self.positive / self.mass,
            predicted: mean / self.mass,
            lower: ((mean - half) / self.mass).max(0.0),
            upper: ((mean + half) / self.mass).min(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::{Segment, TextBuilder};
    use crate::encoding::{Feature, Label, LabelValue, Unseen};

    #[test]
    fn levels_are_compared_with_the_shares_that_the_model_expects() {
        let mut text = TextBuilder::default();
        (0..TILE).for_each(|row| text.push(Some(["a", "b"][row % 2])));
        let block = Block::new(0, 0, Segment { columns: vec![text.finish()], len: TILE });
        let levels = Coding::Levels { reference: "a".into(), levels: vec!["b".into()], centers: Vec::new() };
        let label = |value| LabelValue::Number(value);
        let encoding = Encoding {
            label: Label { column: "y".into(), negative: label(0.0), positive: label(1.0) },
            weight: None,
            intercept: true,
            features: vec![Feature::new("plan", levels)],
            unseen: Unseen::Error,
            groups: Vec::new(),
            design: None,
        };
        let mut sums = LevelSums::new(&encoding, &block, 2);
        for (s, p) in [0.4, 0.6].into_iter().enumerate() {
            sums.keep_draw(s, &Lane::of(p));
        }
        // Half of the rows of a are positive, and all of b.
        (0..TILE).for_each(|row| sums.add_row(row, row, 1.0, row % 2 == 1 || row % 4 == 0, 0.25));
        sums.forget_rows();
        let found = sums.checks();
        let n = (TILE / 2) as f64;
        assert_eq!((found[0].level.as_str(), found[0].observed, found[1].observed), ("a", 0.5, 1.0));
        // The variance of the number: n/4 within draws, (0.2 n)²/2 between two draws.
        let half = 1.959_963_984_540_054 * (0.25 / n + 0.02).sqrt();
        for check in &found {
            assert!(
                (check.predicted - 0.5).abs() < 1e-12 && (check.upper - (0.5 + half)).abs() < 1e-9,
                "{check:?}"
            );
        }
        assert!(found[0].is_expected() && !found[1].is_expected());
    }
}
