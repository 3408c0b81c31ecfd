//! The pass that keeps a pool of candidate rows which covers every group.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::rng::{Purpose, Seed, open_unit};
use crate::coreset::hierarchical::features::ArrowMap;
use crate::data::block::{Block, RowSet};
use crate::data::points::{Lane, TILE};
use crate::encoding::Encoding;
use crate::engine::pass::Pass;
use crate::model::arrow::{Arrow, ArrowFactor};
use crate::reservoir::by_group::{Beaten, GroupCapacity, GroupRace};

/// Rows of so many blocks are held separately before they are joined.
const MOST_PARTS: usize = 64;

/// The pass. Rows race by the norm of their local features, and every group has places of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct PoolingGroups<'a> {
    pub encoding: Cow<'a, Encoding>,
    /// The posterior's precision at the reference; its factor is computed where the pass runs.
    pub precision: Cow<'a, Arrow>,
    /// The reference: effects and fixed effects.
    pub at: Cow<'a, [f64]>,
    pub capacity: GroupCapacity,
    pub seed: Seed,
}

/// The candidates of some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct PooledGroups {
    pub race: GroupRace,
    /// The rows in the race in the user's units; some of them may have been beaten since.
    rows: Vec<RowSet>,
}

impl PooledGroups {
    /// The rows in the race, without those that have been beaten.
    pub fn take_rows(&mut self) -> RowSet {
        let running = self.race.positions();
        let is_running = |position: &u64| running.binary_search(position).is_ok();
        let parts = std::mem::take(&mut self.rows).into_iter().map(|part| {
            let kept: Vec<usize> =
                (0..part.positions.len()).filter(|&at| is_running(&part.positions[at])).collect();
            part.take(&kept)
        });
        RowSet::concat(parts.collect())
    }

    fn held(&self) -> usize {
        self.rows.iter().map(RowSet::len).sum()
    }
}

/// What a thread keeps from block to block.
pub(crate) struct GroupWorker {
    factor: Option<ArrowFactor>,
    beaten: Beaten,
}

impl Pass for PoolingGroups<'_> {
    const ID: &'static str = "grouped-pool";
    const LABEL: &'static str = "selecting candidates of every group";
    type State = PooledGroups;
    type Worker = GroupWorker;

    fn worker(&self) -> GroupWorker {
        let groups = self.precision.shape().groups;
        GroupWorker { factor: self.precision.factor(), beaten: Beaten::new(self.capacity, groups) }
    }

    fn visit(&self, worker: &mut GroupWorker, block: &Block) -> Result<PooledGroups> {
        let encoder = self.encoding.grouped_encoder(block)?;
        let mut scratch = encoder.scratch();
        let mut race = GroupRace::new(self.capacity);
        let mut rng = self.seed.stream(Purpose::Pool, block.stream);
        let mut norms = Lane::ZERO;
        // The driver has factored the precision before.
        let Some(factor) = &worker.factor else { return Ok(PooledGroups { race, rows: Vec::new() }) };
        let map = ArrowMap { factor, at: &self.at };
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, &mut scratch);
            map.norms(&tile, &mut norms);
            for row in 0..tile.fixed.len {
                let (rate, position) = (tile.fixed.w[row] * norms[row], block.position(t * TILE + row));
                race.enter(tile.group[row], rate, open_unit(&mut rng), position, &mut worker.beaten);
            }
        }
        race.close();
        let rows: Vec<usize> =
            race.positions().into_iter().filter_map(|position| block.find(position)).collect();
        let rows = if rows.is_empty() { Vec::new() } else { vec![RowSet::copy(block, &rows)] };
        Ok(PooledGroups { race, rows })
    }

    fn merge(&self, state: &mut PooledGroups, next: PooledGroups) {
        state.race.merge(next.race);
        state.rows.extend(next.rows);
        if state.rows.len() > MOST_PARTS || state.held() > 2 * state.race.len() + 100_000 {
            state.rows = vec![state.take_rows()];
        }
    }

    fn relocate(&self, state: &mut PooledGroups, place: &dyn Fn(u64) -> u64) {
        state.race.relocate(place);
        state.rows.iter_mut().for_each(|rows| rows.relocate(place));
    }
}
