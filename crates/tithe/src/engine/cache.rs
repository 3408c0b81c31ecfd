//! A cache of decoded blocks: the first blocks of the data, as many as fit in memory, are decoded only once.

use std::collections::BTreeMap;

use crate::data::block::Block;

/// Collects the blocks of a [`BlockCache`] during the first pass.
pub(super) struct CacheBuilder {
    /// The limit in bytes.
    memory: u64,
    blocks: BTreeMap<u64, Block>,
    bytes: u64,
    /// Blocks from this index on do not fit.
    end: u64,
}

/// The decoded blocks that later passes need not decode again.
pub(super) struct BlockCache {
    /// The first blocks of the data, in order.
    pub blocks: Vec<Block>,
    /// The number of rows of each of the first units, as far as all rows of the unit are in `blocks`.
    pub units: Vec<u64>,
    /// True if the cache has all blocks.
    pub complete: bool,
}

impl CacheBuilder {
    pub fn new(memory: u64) -> CacheBuilder {
        CacheBuilder { memory, blocks: BTreeMap::new(), bytes: 0, end: u64::MAX }
    }

    /// Adds a block, and returns the blocks that no longer fit: always those with the largest indices.
    ///
    /// Blocks arrive in any order. At the end of the pass the cache has every block before `end`, so that later passes can skip the units
    /// of these blocks.
    pub fn add(&mut self, block: Block) -> Vec<Block> {
        if block.index >= self.end {
            return vec![block];
        }
        let mut evicted = Vec::new();
        self.bytes += block.bytes() as u64;
        self.blocks.insert(block.index, block);
        while self.bytes > self.memory
            && let Some((index, last)) = self.blocks.pop_last()
        {
            self.bytes -= last.bytes() as u64;
            self.end = index;
            evicted.push(last);
        }
        evicted
    }

    /// The cache, given the number of rows of each unit.
    pub fn finish(self, block_rows: usize, units: impl Iterator<Item = u64>) -> BlockCache {
        let mut rows_left = (self.blocks.len() * block_rows) as u64;
        let is_cached = |rows: &u64| {
            let fits = *rows <= rows_left;
            rows_left = rows_left.saturating_sub(*rows);
            fits
        };
        BlockCache {
            units: units.take_while(is_cached).collect(),
            complete: self.end == u64::MAX,
            blocks: self.blocks.into_values().collect(),
        }
    }
}
