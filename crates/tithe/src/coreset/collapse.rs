//! Merges rows with equal `z` by adding their weights, which loses nothing: data with few distinct rows has an exact coreset.

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use crate::data::block::RowSet;
use crate::data::points::{TILE, Tile};
use crate::encoding::Encoder;

/// The distinct points of some blocks, unless there are too many.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Distinct {
    /// All distinct points.
    Rows(DistinctRows),
    /// More than the limit.
    TooMany,
}

/// Distinct points, each with the first row that has it and the total weight of all rows that have it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DistinctRows {
    /// The first row of each point.
    pub rows: RowSet,
    /// The total weight of each point.
    pub mass: Vec<f64>,
    index: Index,
    most: usize,
}

/// Finds the distinct points of blocks. Each thread reuses one.
#[derive(Clone, Debug)]
pub struct Collapser {
    most: usize,
    /// True after a block with too many points: then all blocks together have too many.
    has_too_many: bool,
    index: Index,
    mass: Vec<f64>,
    first: Vec<usize>,
    key: Vec<u64>,
}

/// A hash index of keys (the bits of `z`), numbered in order of insertion.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Keys", into = "Keys")]
struct Index {
    keys: Vec<u64>,
    table: HashTable<u32>,
}

/// The serialised form of [`Index`]: the number of keys, and the keys one after the other.
#[derive(Serialize, Deserialize)]
struct Keys(usize, Vec<u64>);

impl From<Index> for Keys {
    fn from(index: Index) -> Keys {
        Keys(index.len(), index.keys)
    }
}

impl From<Keys> for Index {
    fn from(Keys(count, keys): Keys) -> Index {
        let mut index = Index::default();
        let dim = keys.len() / count.max(1);
        keys.chunks_exact(dim.max(1)).for_each(|key| {
            index.number(key);
        });
        index
    }
}

impl Index {
    /// The number of a key, and whether it is new.
    fn number(&mut self, key: &[u64]) -> (usize, bool) {
        let dim = key.len();
        let stored = |number: u32| &self.keys[number as usize * dim..(number as usize + 1) * dim];
        let hash = hash(key);
        if let Some(&number) = self.table.find(hash, |&number| stored(number) == key) {
            return (number as usize, false);
        }
        let number = self.table.len() as u32;
        self.table.insert_unique(hash, number, |&number| self::hash(stored(number)));
        self.keys.extend_from_slice(key);
        (number as usize, true)
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.table.clear();
    }
}

/// A multiplicative hash without a random seed, so that runs are reproducible.
fn hash(key: &[u64]) -> u64 {
    let mixed =
        key.iter().fold(0u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

impl Collapser {
    /// For at most `most` distinct points per block.
    pub fn new(most: usize) -> Collapser {
        Collapser {
            most,
            has_too_many: false,
            index: Index::default(),
            mass: Vec::new(),
            first: Vec::new(),
            key: Vec::new(),
        }
    }

    /// The distinct points of a block.
    pub fn distinct(&mut self, encoder: &Encoder<'_>) -> Distinct {
        if self.has_too_many {
            return Distinct::TooMany;
        }
        let mut scratch = encoder.scratch();
        if !(0..encoder.tiles()).all(|t| self.add(&encoder.tile(t, &mut scratch), t * TILE)) {
            self.has_too_many = true;
            return Distinct::TooMany;
        }
        let distinct = DistinctRows {
            rows: RowSet::copy(encoder.block, &self.first),
            mass: std::mem::take(&mut self.mass),
            index: self.index.clone(),
            most: self.most,
        };
        self.index.clear();
        self.first.clear();
        Distinct::Rows(distinct)
    }

    /// Adds a tile that begins at row `start` of the block. Returns false if there are too many points.
    fn add(&mut self, tile: &Tile<'_>, start: usize) -> bool {
        for r in 0..tile.len {
            self.key.clear();
            // Adding 0 turns −0 into 0.
            self.key.extend(tile.z.iter().map(|lane| (lane[r] + 0.0).to_bits()));
            let (number, new) = self.index.number(&self.key);
            if new {
                if self.index.len() > self.most {
                    return false;
                }
                self.mass.push(0.0);
                self.first.push(start + r);
            }
            self.mass[number] += tile.w[r];
        }
        true
    }
}

impl Distinct {
    /// Adds the points of the blocks that follow.
    pub fn merge(&mut self, next: Distinct) {
        match (&mut *self, next) {
            (Distinct::Rows(ours), Distinct::Rows(theirs)) => {
                ours.merge(&theirs);
                if ours.mass.len() > ours.most {
                    *self = Distinct::TooMany;
                }
            }
            _ => *self = Distinct::TooMany,
        }
    }
}

impl DistinctRows {
    fn merge(&mut self, next: &DistinctRows) {
        let mut new_rows = Vec::new();
        let dim = next.index.keys.len() / next.mass.len().max(1);
        for (row, mass) in next.mass.iter().enumerate() {
            let (number, new) = self.index.number(&next.index.keys[row * dim..(row + 1) * dim]);
            if new {
                self.mass.push(0.0);
                new_rows.push(row);
            }
            self.mass[number] += mass;
        }
        if !new_rows.is_empty() {
            let ours = std::mem::replace(&mut self.rows, next.rows.take(&[]));
            self.rows = RowSet::concat(vec![ours, next.rows.take(&new_rows)]);
        }
    }
}
