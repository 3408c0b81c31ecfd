//! Selection: how many rows a coreset has, and the pass that chooses them, exactly multinomial.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result};
use crate::base::rng::{Purpose, Seed};
use crate::coreset::sensitivity::{Bound, Distances};
use crate::data::block::{Block, RowSet};
use crate::data::points::{Lane, TILE};
use crate::encoding::{Encoding, Scratch};
use crate::engine::parts::Rooms;
use crate::engine::pass::Pass;
use crate::reservoir::slots::{Racer, Races, Slots};

/// How many rows a coreset has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// M, the number of draws; rows drawn twice are kept once, so the coreset may have fewer.
    Rows(usize),
    /// As many as Theorem 3.2 asks for: with probability `1 − δ` the log-likelihood is off by at most a share
    /// ε anywhere in the ball.
    Guarantee {
        /// The largest relative error ε.
        epsilon: f64,
        /// The probability δ that it is exceeded.
        delta: f64,
        /// The theorem's universal constant c, which it leaves unnamed; the authors' code has 4.
        constant: f64,
    },
    /// As few as reach this KL to the full data's posterior, by the certificate; for calibrated coresets.
    Kl {
        /// The largest KL, in nats.
        target: f64,
    },
}

impl Size {
    /// Checks that the numbers make sense.
    pub fn check(self) -> Result<Size> {
        match self {
            Size::Rows(0) => Err(Error::setting("--size", "must be at least 1")),
            Size::Guarantee { epsilon, .. } if !(epsilon > 0.0 && epsilon < 1.0) => {
                Err(Error::setting("--epsilon", format!("must lie between 0 and 1, but is {epsilon}")))
            }
            Size::Guarantee { delta, .. } if !(delta > 0.0 && delta < 1.0) => {
                Err(Error::setting("--delta", format!("must lie between 0 and 1, but is {delta}")))
            }
            Size::Guarantee { constant, .. } if !(constant > 0.0 && constant.is_finite()) => {
                Err(Error::setting("--constant", format!("must be positive, but is {constant}")))
            }
            Size::Kl { target } if !(target > 0.0 && target.is_finite()) => {
                Err(Error::setting("--kl", format!("must be positive, but is {target}")))
            }
            size => Ok(size),
        }
    }
}

/// `M = ⌈c·m̄/ε² · ((D+1)·ln m̄ + ln(1/δ))⌉`, Theorem 3.2.
pub fn guaranteed_size(mean_sensitivity: f64, dim: usize, epsilon: f64, delta: f64, constant: f64) -> u64 {
    let m = mean_sensitivity.max(1.0);
    let size = constant * m / (epsilon * epsilon) * ((dim + 1) as f64 * m.ln() - delta.ln());
    size.ceil() as u64
}

/// What rows are chosen in proportion to.
#[derive(Serialize, Deserialize)]
pub(crate) enum Shares<'a> {
    /// Their weights: the uniform baseline.
    Weights,
    /// Their sensitivity bounds.
    Sensitivity(Cow<'a, Bound>),
}

/// The pass that chooses: M slots, each a row with probability `p_n = s_n / S`. No races: only S is found.
#[derive(Serialize, Deserialize)]
pub(crate) struct Selecting<'a> {
    pub encoding: Cow<'a, Encoding>,
    pub shares: Shares<'a>,
    pub races: Races,
    pub seed: Seed,
}

pub(crate) struct SelectingWorker {
    rooms: Rooms<(Scratch, Distances, Lane)>,
    shares: Vec<f64>,
    racer: Racer,
}

impl Pass for Selecting<'_> {
    const NAME: &'static str = "selecting rows";
    type State = Slots;
    type Worker = SelectingWorker;

    fn worker(&self) -> SelectingWorker {
        SelectingWorker { rooms: Rooms::default(), shares: Vec::new(), racer: self.races.racer() }
    }

    fn visit(&self, worker: &mut SelectingWorker, block: &Block) -> Result<Slots> {
        let known_groups = match &self.shares {
            Shares::Weights => None,
            Shares::Sensitivity(bound) => bound.known_groups(block),
        };
        let encoder = self.encoding.encoder(block)?.with_groups(known_groups);
        worker.shares.resize(block.len, 0.0);
        let parts = encoder.parts_with(&mut worker.shares);
        let new_room = || (encoder.scratch(), Distances::default(), Lane::ZERO);
        worker.rooms.share_out(parts, new_room, |(scratch, distances, lane), (tiles, shares)| {
            for (t, shares) in tiles.zip(shares.chunks_mut(TILE)) {
                let tile = encoder.tile(t, scratch);
                match (&self.shares, shares.first_chunk_mut()) {
                    (Shares::Weights, _) => shares.copy_from_slice(&tile.w[..shares.len()]),
                    (Shares::Sensitivity(bound), Some(all)) => bound.shares(&tile, distances, all),
                    (Shares::Sensitivity(bound), None) => {
                        bound.shares(&tile, distances, lane);
                        shares.copy_from_slice(&lane[..shares.len()]);
                    }
                }
            }
        });
        let mut rng = self.seed.stream(Purpose::Selection, block.stream);
        Ok(worker.racer.race(block, &worker.shares, &mut rng))
    }

    fn merge(&self, state: &mut Slots, next: Slots) {
        state.merge(next);
    }

    fn relocate(&self, slots: &mut Slots, place: &dyn Fn(u64) -> u64) {
        slots.relocate(place);
    }
}

/// The pass that keeps every row with its own weight, for data no larger than the coreset asked for.
#[derive(Serialize, Deserialize)]
pub(crate) struct Keeping;

impl Pass for Keeping {
    const NAME: &'static str = "keeping all rows";
    type State = Vec<RowSet>;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, _worker: &mut (), block: &Block) -> Result<Vec<RowSet>> {
        Ok(vec![RowSet::copy(block, &(0..block.len).collect::<Vec<_>>())])
    }

    fn merge(&self, state: &mut Vec<RowSet>, next: Vec<RowSet>) {
        state.extend(next);
    }

    fn relocate(&self, state: &mut Vec<RowSet>, place: &dyn Fn(u64) -> u64) {
        state.iter_mut().for_each(|rows| rows.relocate(place));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::rng::open_unit;
    use crate::coreset::kmeans::{Centers, Grouping, KnownGroups};
    use crate::coreset::sensitivity::CenterRule;
    use crate::data::block::{Column, Segment};
    use crate::encoding::{Coding, Feature, Label, LabelValue, Unseen};

    /// All blocks by a pass.
    fn run<P: Pass>(pass: &P, blocks: &[Block]) -> P::State {
        let mut worker = pass.worker();
        let states = blocks.iter().map(|block| pass.visit(&mut worker, block).expect("a state"));
        let merged = states.reduce(|mut all, next| {
            pass.merge(&mut all, next);
            all
        });
        merged.expect("some blocks")
    }

    /// With tiles that are not full, weighted and not, and groups that are known of no block, of some and of all.
    #[test]
    fn what_is_known_of_the_groups_changes_nothing() {
        let mut rng = Seed(3).stream(Purpose::Generate, 0);
        let mut column = |len: usize| {
            Column::Number((0..len).map(|_| 4.0 * open_unit(&mut rng) - 2.0).collect::<Vec<f64>>().into())
        };
        let signs = |len: usize| (0..len).map(|n| [1.0, -1.0, 1.0][n % 3]).collect::<Vec<f64>>();
        let weights = |len: usize| (0..len).map(|n| 0.5 + (n % 7) as f64).collect::<Vec<f64>>();
        let mut block = |index: u64, len: usize| {
            let columns = [column(len), column(len), Column::Number(signs(len).into())].into_iter();
            let columns = columns.chain([Column::Number(weights(len).into())]).collect();
            Block::new(index, 1000 * index, Segment { columns, len })
        };
        let blocks = [block(0, 300), block(1, 200), block(2, 77)];
        let feature =
            |name: &str| Feature { column: name.into(), coding: Coding::Number { center: 0.1, scale: 2.0 } };
        let [negative, positive] = [-1.0, 1.0].map(LabelValue::Number);
        let centers = Centers::new(3, vec![0.1, 0.5, 0.3, -0.2, 0.1, -0.6, 0.4, -0.3, 0.1]);
        for weight in [None, Some("w".to_string())] {
            let encoding = Encoding {
                label: Label { column: "y".into(), negative: negative.clone(), positive: positive.clone() },
                weight,
                intercept: true,
                features: vec![feature("a"), feature("b")],
                unseen: Unseen::Error,
            };
            let [none, some, all] = [(0, 0), (500, 2), (577, 3)].map(|(room, known_blocks)| {
                let known = Arc::new(KnownGroups::new(room, centers.len()));
                let grouping = Grouping {
                    encoding: Cow::Borrowed(&encoding),
                    centers: Cow::Borrowed(&centers),
                    most_distinct: None,
                    known: known.clone(),
                };
                let groups = run(&grouping, &blocks).groups(&centers);
                assert_eq!(blocks.iter().filter(|block| known.of(block).is_some()).count(), known_blocks);
                let bound = Bound::new(centers.clone(), groups, 1.5, None, CenterRule::Exact);
                let selecting = Selecting {
                    encoding: Cow::Borrowed(&encoding),
                    shares: Shares::Sensitivity(Cow::Owned(bound.with_known_groups(known))),
                    races: Races::new(50),
                    seed: Seed(1),
                };
                let slots = run(&selecting, &blocks);
                let total = slots.total;
                let picked = slots.finish().expect("rows");
                (total, picked.rows.positions.clone(), picked.shares, picked.counts)
            });
            assert_eq!(none, some);
            assert_eq!(none, all);
        }
    }

    #[test]
    fn the_guaranteed_size_follows_the_theorem() {
        let by_hand = 4.0 * 7.0 / 0.01 * (11.0 * 7f64.ln() + 20f64.ln());
        assert_eq!(guaranteed_size(7.0, 10, 0.1, 0.05, 4.0), by_hand.ceil() as u64);
    }

    #[test]
    fn each_bad_size_has_its_own_error() {
        let guarantee = |epsilon, delta, constant| Size::Guarantee { epsilon, delta, constant };
        for (size, setting) in [
            (Size::Rows(0), "--size"),
            (guarantee(0.0, 0.1, 4.0), "--epsilon"),
            (guarantee(1.5, 0.1, 4.0), "--epsilon"),
            (guarantee(f64::NAN, 0.1, 4.0), "--epsilon"),
            (guarantee(0.1, 0.0, 4.0), "--delta"),
            (guarantee(0.1, 1.0, 4.0), "--delta"),
            (guarantee(0.1, 0.1, -1.0), "--constant"),
        ] {
            let error = size.check().expect_err("an error").to_string();
            assert!(error.starts_with(setting), "{error}");
        }
        assert!(guarantee(0.1, 0.1, 4.0).check().is_ok());
    }
}
