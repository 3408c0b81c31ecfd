//! The size of a coreset, and the pass that selects its rows by multinomial sampling.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result, Setting};
use crate::base::math::ln;
use crate::base::rng::{Purpose, Seed};
use crate::coreset::sensitivity::{Bound, Distances};
use crate::data::block::{Block, RowSet};
use crate::data::points::{Lane, TILE};
use crate::encoding::{Encoding, Scratch};
use crate::engine::parts::ScratchPool;
use crate::engine::pass::Pass;
use crate::reservoir::slots::{Racer, Races, Slots};

/// How many rows a coreset has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub enum Size {
    /// M, the number of selections. A row selected twice is stored once, so the coreset may have fewer rows.
    Rows(usize),
    /// The number of rows in Theorem 3.2: with probability `1 − δ` the relative error of the log-likelihood is at most ε anywhere in the
    /// ball.
    Guarantee {
        /// The largest relative error ε.
        epsilon: f64,
        /// The probability δ that it is exceeded.
        delta: f64,
        /// The universal constant c of the theorem. The theorem does not give its value; the authors' code uses 4.
        constant: f64,
    },
    /// The smallest number of rows for which the certificate bounds the KL to the full data's posterior by `target`. Only for calibrated
    /// coresets.
    Kl {
        /// The largest KL, in nats.
        target: f64,
    },
}

impl Size {
    /// Checks the ranges of the numbers.
    pub fn check(self) -> Result<Size> {
        match self {
            Size::Rows(0) => Err(Error::setting(Setting::Size, "must be at least 1")),
            Size::Guarantee { epsilon, .. } if !(epsilon > 0.0 && epsilon < 1.0) => {
                Err(Error::setting(Setting::Epsilon, format!("must lie between 0 and 1, but is {epsilon}")))
            }
            Size::Guarantee { delta, .. } if !(delta > 0.0 && delta < 1.0) => {
                Err(Error::setting(Setting::Delta, format!("must lie between 0 and 1, but is {delta}")))
            }
            Size::Guarantee { constant, .. } if !(constant > 0.0 && constant.is_finite()) => {
                Err(Error::setting(Setting::Constant, format!("must be positive, but is {constant}")))
            }
            Size::Kl { target } if !(target > 0.0 && target.is_finite()) => {
                Err(Error::setting(Setting::Kl, format!("must be positive, but is {target}")))
            }
            size => Ok(size),
        }
    }
}

/// `M = ⌈c·m̄/ε² · ((D+1)·ln m̄ + ln(1/δ))⌉`, Theorem 3.2.
pub fn guaranteed_size(mean_sensitivity: f64, dim: usize, epsilon: f64, delta: f64, constant: f64) -> u64 {
    let m = mean_sensitivity.max(1.0);
    let size = constant * m / (epsilon * epsilon) * ((dim + 1) as f64 * ln(m) - ln(delta));
    size.ceil() as u64
}

/// The quantity in proportion to which rows are selected.
#[derive(Serialize, Deserialize)]
pub(crate) enum Shares<'a> {
    /// The weights: the uniform baseline.
    Weights,
    /// The sensitivity bounds.
    Sensitivity(Cow<'a, Bound>),
}

/// The pass that selects: M slots, each filled by row n with probability `p_n = s_n / S`. With 0 slots it computes only S.
#[derive(Serialize, Deserialize)]
pub(crate) struct Selecting<'a> {
    pub encoding: Cow<'a, Encoding>,
    pub shares: Shares<'a>,
    pub races: Races,
    pub seed: Seed,
}

pub(crate) struct SelectingWorker {
    scratch: ScratchPool<(Scratch, Distances, Lane)>,
    shares: Vec<f64>,
    racer: Racer,
}

impl Pass for Selecting<'_> {
    const ID: &'static str = "select";
    const LABEL: &'static str = "selecting rows";
    type State = Slots;
    type Worker = SelectingWorker;

    fn worker(&self) -> SelectingWorker {
        SelectingWorker { scratch: ScratchPool::default(), shares: Vec::new(), racer: self.races.racer() }
    }

    fn visit(&self, worker: &mut SelectingWorker, block: &Block) -> Result<Slots> {
        let encoder = self.encoding.encoder(block)?;
        worker.shares.resize(block.len, 0.0);
        let parts = encoder.parts_with(&mut worker.shares);
        let new_scratch = || (encoder.scratch(), Distances::default(), Lane::ZERO);
        worker.scratch.process_parts(parts, new_scratch, |(scratch, distances, lane), (tiles, shares)| {
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

/// The pass that keeps every row with its own weight, for data no larger than the requested coreset.
#[derive(Serialize, Deserialize)]
pub(crate) struct Keeping;

impl Pass for Keeping {
    const ID: &'static str = "keep-all";
    const LABEL: &'static str = "keeping all rows";
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
    use super::*;

    #[test]
    fn the_guaranteed_size_follows_the_theorem() {
        let by_hand = 4.0 * 7.0 / 0.01 * (11.0 * 7f64.ln() + 20f64.ln());
        assert_eq!(guaranteed_size(7.0, 10, 0.1, 0.05, 4.0), by_hand.ceil() as u64);
    }

    #[test]
    fn each_bad_size_has_its_own_error() {
        let guarantee = |epsilon, delta, constant| Size::Guarantee { epsilon, delta, constant };
        for (size, setting) in [
            (Size::Rows(0), "size"),
            (guarantee(0.0, 0.1, 4.0), "epsilon"),
            (guarantee(1.5, 0.1, 4.0), "epsilon"),
            (guarantee(f64::NAN, 0.1, 4.0), "epsilon"),
            (guarantee(0.1, 0.0, 4.0), "delta"),
            (guarantee(0.1, 1.0, 4.0), "delta"),
            (guarantee(0.1, 0.1, -1.0), "constant"),
        ] {
            let error = size.check().expect_err("an error").to_string();
            assert!(error.starts_with(setting), "{error}");
        }
        assert!(guarantee(0.1, 0.1, 4.0).check().is_ok());
    }
}
