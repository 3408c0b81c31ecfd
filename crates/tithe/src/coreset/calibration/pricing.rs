//! Chooses rows and weights from the pool: solve for weights, drop rows of weight 0, price the pool, add rows, solve again.

use rayon::prelude::*;

use super::nearest_weights::{Weights, approximate_weights, nearest_weights};
use crate::base::math::ln;
use crate::base::rng::{Purpose, Seed, open_unit};
use crate::model::local_features::{LocalFeatures, LocalSum};
use crate::reservoir::pool::Pool;

/// Where weights alone can meet the target, nearness counts this much less: the target is then met exactly.
const WEIGHTS_ALONE: f64 = 1e-3;

/// How to calibrate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationSettings {
    /// What it costs, in nats, to change every weight by its own size.
    pub nearness: f64,
    /// The predicted KL, in nats, that is good enough: pricing stops there.
    pub tolerance: f64,
    /// The share of the size that is selected before the first pricing.
    pub selected: f64,
    /// Pricing rounds at most.
    pub rounds: usize,
}

impl Default for CalibrationSettings {
    fn default() -> CalibrationSettings {
        CalibrationSettings { nearness: 1e-3, tolerance: 1e-6, selected: 0.7, rounds: 12 }
    }
}

/// Rows of the pool and their weights.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// Indices of the rows in the pool, ascending.
    pub rows: Vec<usize>,
    /// Their weights, all positive.
    pub weights: Vec<f64>,
    /// `‖Aw − b‖²`, the predicted KL in nats.
    pub predicted: f64,
    /// Pricing rounds taken.
    pub rounds: usize,
    /// Linear systems solved.
    pub solves: usize,
}

/// How many rows each race of the pool should keep for a coreset of `size` rows of dimension `dim`: enough to choose from,
/// with points of both races within a gigabyte. Their rows in the user's units take as much again.
pub fn pool_capacity(size: usize, dim: usize) -> usize {
    const CHOICE: usize = 10;
    const MOST_NUMBERS: usize = 1 << 26;
    size.saturating_mul(CHOICE).min((MOST_NUMBERS / dim.max(1)).max(2 * size))
}

/// Chooses at most `size` rows of the pool, and weights that meet `target`; `features` are those of the pool's rows.
pub fn calibrate(
    pool: &Pool,
    features: &LocalFeatures,
    target: &LocalSum,
    size: usize,
    seed: Seed,
    settings: &CalibrationSettings,
) -> Calibrated {
    let norms: Vec<f64> = features.norms_squared().iter().map(|square| square.sqrt()).collect();
    let reference = pool.reference_weights(size);
    let solve = |rows: &[usize], nearness: f64| {
        let reference: Vec<f64> = rows.iter().map(|&p| reference[p]).collect();
        nearest_weights(&features.select(rows), target, &reference, nearness)
    };
    let mut solves = 0;
    // With many more rows than features, weights alone can meet the target.
    if 4 * features.feature_count() <= size {
        let rows = pool.first(size);
        let weights = solve(&rows, settings.nearness * WEIGHTS_ALONE);
        solves += weights.solves;
        if weights.residual.norm_squared() <= settings.tolerance {
            return Support::of(&rows, weights).finish(0, solves);
        }
    }
    let mut rows = pool.first((size as f64 * settings.selected).ceil() as usize);
    let mut best: Option<Support> = None;
    let mut round = 0;
    loop {
        let weights = solve(&rows, settings.nearness);
        solves += weights.solves;
        let support = Support::of(&rows, weights);
        rows.clone_from(&support.rows);
        let residual = support.residual.clone();
        if best.as_ref().is_none_or(|best| support.predicted < best.predicted) {
            best = Some(support);
        }
        let enough = residual.norm_squared() <= settings.tolerance;
        if enough || round == settings.rounds || rows.len() >= size {
            break;
        }
        // The rows still to be added are spread over the remaining rounds.
        let wanted = (size - rows.len()).div_ceil(settings.rounds - round);
        let scores = features.scores(&residual);
        let added = price(&scores, &norms, &rows, wanted, seed, round);
        if added.is_empty() {
            break;
        }
        rows.extend(added);
        rows.sort_unstable();
        round += 1;
    }
    match best {
        Some(support) => support.finish(round, solves),
        None => Calibrated {
            rows: Vec::new(),
            weights: Vec::new(),
            predicted: target.norm_squared(),
            rounds: 0,
            solves,
        },
    }
}

/// A greedy search for few rows of the pool: again and again the rows that reduce the residual most are added, and the weights
/// solved for; rows of weight 0 are dropped.
pub struct Greedy<'a> {
    features: &'a LocalFeatures,
    target: &'a LocalSum,
    /// These weights only decide between weights that match equally well.
    reference: &'a [f64],
    norms: Vec<f64>,
    /// More rows are not wanted.
    most: usize,
    support: Option<Support>,
    rounds: usize,
    solves: usize,
}

impl<'a> Greedy<'a> {
    /// No rows yet.
    pub fn new(
        features: &'a LocalFeatures,
        target: &'a LocalSum,
        reference: &'a [f64],
        most: usize,
    ) -> Greedy<'a> {
        let norms = features.norms_squared().iter().map(|square| square.sqrt()).collect();
        Greedy { features, target, reference, norms, most, support: None, rounds: 0, solves: 0 }
    }

    /// Rows whose weights miss the target by at most `goal`, in nats; smaller goals continue the search of larger ones. `None`
    /// if more rows are needed than are wanted.
    pub fn reach(&mut self, goal: f64) -> Option<Calibrated> {
        /// So many rounds at most, each of which adds the same number of rows.
        const ROUNDS: usize = 150;
        while self.rounds < 2 * ROUNDS {
            if let Some(support) = self.support.as_ref().filter(|support| support.predicted <= goal) {
                let is_enough = support.rows.len() <= self.most;
                return is_enough.then(|| support.clone().finish(self.rounds, self.solves));
            }
            self.rounds += 1;
            let next = self.with_more(self.most.div_ceil(ROUNDS))?;
            // Rows that are added and dropped again and again lead nowhere.
            if self.support.as_ref().is_some_and(|before| next.rows == before.rows) {
                return None;
            }
            self.support = Some(next);
        }
        None
    }

    /// The weights with this many more rows.
    fn with_more(&mut self, count: usize) -> Option<Support> {
        const NEARNESS: f64 = 1e-6;
        let residual = self.support.as_ref().map_or(self.target, |support| &support.residual);
        let mut rows = self.support.as_ref().map_or(Vec::new(), |support| support.rows.clone());
        let mut gains: Vec<(f64, usize)> = self
            .features
            .scores(residual)
            .iter()
            .zip(&self.norms)
            .enumerate()
            .map(|(p, (score, norm))| (if *norm > 0.0 { score / norm } else { 0.0 }, p))
            .filter(|(gain, p)| *gain > 0.0 && rows.binary_search(p).is_err())
            .collect();
        gains.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        if gains.is_empty() || rows.len() > self.most {
            return None;
        }
        rows.extend(gains.iter().take(count).map(|(_, p)| *p));
        rows.sort_unstable();
        let own: Vec<f64> = rows.iter().map(|&p| self.reference[p]).collect();
        let weights = nearest_weights(&self.features.select(&rows), self.target, &own, NEARNESS);
        self.solves += weights.solves;
        Some(Support::of(&rows, weights))
    }
}

/// Takes the first `size` rows of the pool, with weights that come near to `target`; `features` are those of the pool's rows. For one of many steps, each of which
/// compensates the residual of those before it.
pub fn approximate(pool: &Pool, features: &LocalFeatures, target: &LocalSum, size: usize) -> Calibrated {
    let rows = pool.first(size);
    let all = pool.reference_weights(size);
    let reference: Vec<f64> = rows.iter().map(|&p| all[p]).collect();
    let weights = approximate_weights(&features.select(&rows), target, &reference);
    let solves = weights.solves;
    Support::of(&rows, weights).finish(0, solves)
}

/// Prices the pool: a row's score is `F_n·r/‖F_n‖`, whose square is what adding that row alone would take off `‖r‖²`. Of the
/// rows with a positive score, `count` are selected at random in proportion to the square, so that they are not all similar.
fn price(
    scores: &[f64],
    norms: &[f64],
    taken: &[usize],
    count: usize,
    seed: Seed,
    round: usize,
) -> Vec<usize> {
    let mut rng = seed.stream(Purpose::Pricing, round as u64);
    let mut keys: Vec<(f64, usize)> = scores
        .iter()
        .zip(norms)
        .enumerate()
        .map(|(p, (score, norm))| {
            let exponential = -ln(open_unit(&mut rng));
            let gain = if *norm > 0.0 && *score > 0.0 { (score / norm).powi(2) } else { 0.0 };
            (exponential / gain, p)
        })
        .collect();
    taken.iter().for_each(|&p| keys[p].0 = f64::INFINITY);
    keys.retain(|(key, _)| key.is_finite());
    keys.par_sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    keys.truncate(count);
    keys.into_iter().map(|(_, p)| p).collect()
}

/// Rows of positive weight.
#[derive(Clone)]
struct Support {
    rows: Vec<usize>,
    weights: Vec<f64>,
    residual: LocalSum,
    predicted: f64,
}

impl Support {
    /// The rows that have a weight.
    fn of(rows: &[usize], weights: Weights) -> Support {
        let (rows, kept) = rows
            .iter()
            .zip(&weights.weights)
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(&row, &w)| (row, w))
            .unzip();
        let predicted = weights.residual.norm_squared();
        Support { rows, weights: kept, residual: weights.residual, predicted }
    }

    fn finish(self, rounds: usize, solves: usize) -> Calibrated {
        Calibrated { rows: self.rows, weights: self.weights, predicted: self.predicted, rounds, solves }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::points::Lane;
    use crate::data::points::Points;
    use crate::data::points::TILE;
    use crate::model::local_features::LocalMap;
    use crate::model::local_features::tests::example;
    use crate::reservoir::pool::Race;

    fn pool(map: &LocalMap, points: &Points, capacity: usize) -> Pool {
        let mut race = Race::new(capacity);
        let mut rng = Seed(1).stream(Purpose::Pool, 0);
        let mut scratch = vec![Lane::ZERO; points.dim()];
        for (t, tile) in points.tiles().enumerate() {
            let norms = map.norms(&tile, &mut scratch);
            race.enter(&tile, &Lane::of(1.0), &norms, |r| (t * TILE + r) as u64, &mut rng);
        }
        race.finish()
    }

    fn check(dim: usize, count: usize, size: usize, most: f64) -> Calibrated {
        let (map, points) = example(dim, count, 6);
        let target = map.features(&points).sum(&points.weights());
        let pool = pool(&map, &points, pool_capacity(size, dim));
        let all = map.features(&pool.points());
        let calibrated = calibrate(&pool, &all, &target, size, Seed(2), &CalibrationSettings::default());
        assert!(calibrated.rows.len() <= size);
        assert!(calibrated.weights.iter().all(|w| *w > 0.0 && w.is_finite()));
        // The prediction is what the rows and weights really give.
        let features = map.features(&pool.points()).select(&calibrated.rows);
        let residual = target.minus(&features.sum(&calibrated.weights));
        assert!(
            (residual.norm_squared() - calibrated.predicted).abs() <= 1e-9 * (1.0 + calibrated.predicted)
        );
        assert!(
            calibrated.predicted <= most * target.norm_squared(),
            "{calibrated:?} of {}",
            target.norm_squared()
        );
        calibrated
    }

    #[test]
    fn many_rows_for_few_features_need_weights_alone() {
        assert_eq!(check(3, 3000, 200, 1e-9).rounds, 0);
    }

    #[test]
    fn few_rows_for_many_features_are_priced() {
        // d = 77 features, 60 rows: no exact weights in general.
        let calibrated = check(11, 3000, 60, 1e-3);
        assert!(calibrated.rounds > 0);
    }

    #[test]
    fn fewer_rows_than_features_in_all() {
        check(11, 40, 30, 1e-1);
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        let (a, b) = (check(11, 1000, 60, 1e-2), check(11, 1000, 60, 1e-2));
        assert_eq!((a.rows, a.weights), (b.rows, b.weights));
    }

    #[test]
    fn a_greedy_search_reaches_its_goal_with_few_rows_or_says_that_it_needs_more() {
        let (map, points) = example(5, 2000, 6);
        let all = map.features(&points);
        let target = all.sum(&points.weights());
        let pool = pool(&map, &points, 400);
        let features = map.features(&pool.points());
        let goal = 1e-3 * target.norm_squared();
        let reference = pool.reference_weights(60);
        let found = Greedy::new(&features, &target, &reference, 60).reach(goal).expect("rows");
        assert!(found.rows.len() <= 20 && found.predicted <= goal, "{found:?}");
        let again = target.minus(&features.select(&found.rows).sum(&found.weights)).norm_squared();
        assert!((again - found.predicted).abs() <= 1e-9 * goal, "{again} {}", found.predicted);
        assert!(found.rows.is_sorted() && found.weights.iter().all(|w| *w > 0.0));
        let mut search = Greedy::new(&features, &target, &reference, 60);
        assert!(search.reach(10.0 * goal).expect("rows").rows.len() <= found.rows.len());
        assert_eq!(search.reach(goal).expect("rows").rows, found.rows);
        assert!(Greedy::new(&features, &target, &reference, 3).reach(goal).is_none());
    }

    #[test]
    fn an_empty_pool_is_no_panic() {
        let (map, _) = example(2, 1, 1);
        let target = LocalSum::zero(2);
        let (pool, settings) = (Race::new(5).finish(), CalibrationSettings::default());
        let features = map.features(&pool.points());
        let calibrated = calibrate(&pool, &features, &target, 10, Seed(1), &settings);
        assert!(calibrated.rows.is_empty());
    }
}
