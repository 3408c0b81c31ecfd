//! Decoded blocks that later passes find in memory: the first of the data, as many as fit.

use std::collections::BTreeMap;

use crate::data::block::Block;

/// Collects decoded blocks during the first pass: the first of the data, as many as fit.
pub(super) struct Keeper {
    memory: u64,
    blocks: BTreeMap<u64, Block>,
    bytes: u64,
    /// Blocks from this one on do not fit.
    end: u64,
}

/// Blocks that need not be decoded again.
pub(super) struct Kept {
    /// The first blocks of the data, in order.
    pub blocks: Vec<Block>,
    /// The number of rows of each of the first units, as far as all their rows are in these blocks.
    pub units: Vec<u64>,
    /// True if there are no other blocks.
    pub whole: bool,
}

impl Keeper {
    pub fn new(memory: u64) -> Keeper {
        Keeper { memory, blocks: BTreeMap::new(), bytes: 0, end: u64::MAX }
    }

    /// Keeps a block, and gives back those for which there is no more room: always the last.
    ///
    /// Blocks come in any order. In the end those ahead of `end` are all there, so that whole units can be left out.
    pub fn keep(&mut self, block: Block) -> Vec<Block> {
        if block.index >= self.end {
            return vec![block];
        }
        let mut refused = Vec::new();
        self.bytes += block.bytes() as u64;
        self.blocks.insert(block.index, block);
        while self.bytes > self.memory
            && let Some((index, last)) = self.blocks.pop_last()
        {
            self.bytes -= last.bytes() as u64;
            self.end = index;
            refused.push(last);
        }
        refused
    }

    /// What was kept of a table whose units have so many rows.
    pub fn finish(self, block_rows: usize, units: impl Iterator<Item = u64>) -> Kept {
        let mut room = (self.blocks.len() * block_rows) as u64;
        let in_blocks = |rows: &u64| {
            let fits = *rows <= room;
            room = room.saturating_sub(*rows);
            fits
        };
        Kept {
            units: units.take_while(in_blocks).collect(),
            whole: self.end == u64::MAX,
            blocks: self.blocks.into_values().collect(),
        }
    }
}
