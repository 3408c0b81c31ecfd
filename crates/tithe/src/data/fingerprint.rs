//! A checksum of rows that does not depend on their order or their file format.
//!
//! Each row is hashed over its columns, and the hashes of the rows are added modulo 2⁶⁴. The addition is exact, so the fingerprints of
//! parts add up to the fingerprint of all rows. It detects mistakes, not deliberate manipulation.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::base::math::vectorized;
use crate::base::rng::mix64;
use crate::data::block::{Block, Column};

/// The sum of the hashes of some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(u64);

/// Rows hashed at a time: few enough for the hashes to stay in the cache from column to column, and enough of each column for the
/// processor's own prefetching.
pub(crate) const STRIP: usize = 2048;
const MISSING: u64 = 0x1319_8a2e_0370_7344;

impl Fingerprint {
    /// The fingerprint of a block's rows.
    pub fn of(block: &Block) -> Fingerprint {
        let hasher = RowHasher::new(block);
        let mut fingerprint = Fingerprint::default();
        for start in (0..block.len).step_by(STRIP) {
            let rows = start..block.len.min(start + STRIP);
            let mut hashes = [0; STRIP];
            let hashes = &mut hashes[..rows.len()];
            (0..block.columns.len()).for_each(|column| hasher.add(column, rows.clone(), hashes));
            fingerprint.merge(Fingerprint::of_hashes(hashes));
        }
        fingerprint
    }

    /// The fingerprint of rows from their complete hashes.
    pub(crate) fn of_hashes(hashes: &[u64]) -> Fingerprint {
        let sum = vectorized(
            #[inline(always)]
            || {
                let mut sum = 0u64;
                for hash in hashes {
                    sum = sum.wrapping_add(mix64(*hash));
                }
                sum
            },
        );
        Fingerprint(sum)
    }

    /// A checksum of bytes, which depends on their order and changes with any single byte.
    pub fn of_bytes(bytes: &[u8]) -> Fingerprint {
        Fingerprint(fnv(bytes))
    }

    /// The fingerprint as a number.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Adds the fingerprint of other rows.
    pub fn merge(&mut self, other: Fingerprint) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// Hashes rows of a block, one column at a time.
pub(crate) struct RowHasher<'a> {
    keys: Vec<ColumnKey>,
    inputs: Vec<Input<'a>>,
}

/// The hash key of a column.
#[derive(Clone, Copy)]
struct ColumnKey(u64);

enum Input<'a> {
    Numbers(&'a [f64]),
    /// The codes of the rows, and the hash of the level of each code.
    Levels(&'a [u32], Vec<u64>),
}

impl<'a> RowHasher<'a> {
    pub fn new(block: &'a Block) -> RowHasher<'a> {
        let input = |column: &'a Column| match column {
            Column::Number(values) => Input::Numbers(values),
            Column::Text { codes, levels } => {
                Input::Levels(codes, levels.iter().map(|level| hash_of_text(level)).collect())
            }
        };
        let keys = (1..=block.columns.len() as u64).map(|number| ColumnKey(mix64(number))).collect();
        RowHasher { keys, inputs: block.columns.iter().map(input).collect() }
    }

    /// Adds the values of a column to the hashes of some rows.
    pub fn add(&self, column: usize, rows: Range<usize>, hashes: &mut [u64]) {
        let key = self.keys[column];
        match &self.inputs[column] {
            Input::Numbers(values) => vectorized(
                #[inline(always)]
                || {
                    for (hash, value) in hashes.iter_mut().zip(&values[rows]) {
                        *hash = key.add_number(*hash, *value);
                    }
                },
            ),
            Input::Levels(codes, levels) => {
                for (hash, code) in hashes.iter_mut().zip(&codes[rows]) {
                    *hash = key.add(*hash, levels.get(*code as usize).copied().unwrap_or(MISSING));
                }
            }
        }
    }
}

impl ColumnKey {
    /// Adds a value to the hash of a row: the product of the two halves of value plus key, as in the hash NH of Black, Halevi, Krawczyk,
    /// Krovetz and Rogaway (1999). It needs only a multiplication of 32 bits, which all vector instruction sets have.
    #[inline(always)]
    fn add(self, hash: u64, value: u64) -> u64 {
        let keyed = value.wrapping_add(self.0);
        hash.wrapping_add(keyed.wrapping_add((keyed & 0xffff_ffff) * (keyed >> 32)))
    }

    /// Adds a number; −0 and 0 have the same hash, and all NaNs have that of a missing value.
    #[inline(always)]
    fn add_number(self, hash: u64, value: f64) -> u64 {
        let value = if value.is_nan() { crate::data::block::MISSING } else { value };
        self.add(hash, (value + 0.0).to_bits())
    }
}

fn hash_of_text(text: &str) -> u64 {
    fnv(text.as_bytes())
}

/// FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> String {
        fingerprint.to_string()
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Fingerprint, Self::Error> {
        u64::from_str_radix(&text, 16).map(Fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::{Segment, TextBuilder};

    type Rows = Vec<(f64, &'static str)>;

    fn block(rows: &[(f64, &str)]) -> Block {
        let mut text = TextBuilder::default();
        rows.iter().for_each(|(_, word)| text.push(Some(word)));
        let numbers: Vec<f64> = rows.iter().map(|(number, _)| *number).collect();
        let columns = vec![Column::Number(numbers.into()), text.finish()];
        Block::new(0, 0, Segment { columns, len: rows.len() })
    }

    fn rows(count: usize) -> Rows {
        (0..count).map(|n| (n as f64 * 0.37, ["a", "b", "c"][n % 3])).collect()
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let mut all = rows(1500);
        let whole = Fingerprint::of(&block(&all));
        let mut sum = Fingerprint::of(&block(&all[..700]));
        sum.merge(Fingerprint::of(&block(&all[700..])));
        assert_eq!(sum, whole);
        all.reverse();
        assert_eq!(Fingerprint::of(&block(&all)), whole);
    }

    #[test]
    fn any_change_shows() {
        let all = rows(1500);
        let whole = Fingerprint::of(&block(&all));
        let changed = |change: &dyn Fn(&mut Rows)| {
            let mut other = all.clone();
            change(&mut other);
            Fingerprint::of(&block(&other))
        };
        assert_ne!(changed(&|rows| rows[600].0 += 1e-12), whole);
        assert_ne!(changed(&|rows| rows[601].1 = "d"), whole);
        assert_ne!(changed(&|rows| rows.truncate(1499)), whole);
        assert_ne!(changed(&|rows| rows.push((0.0, "a"))), whole);
        // The columns' sums stay, the rows do not.
        assert_ne!(
            changed(&|rows| {
                let first = rows[10].0;
                rows[10].0 = rows[11].0;
                rows[11].0 = first;
            }),
            whole
        );
        assert_eq!(changed(&|rows| rows[0].0 = -0.0), whole);
    }

    #[test]
    fn it_survives_json() {
        let fingerprint = Fingerprint::of(&block(&rows(10)));
        let text = serde_json::to_string(&fingerprint).expect("json");
        assert_eq!(serde_json::from_str::<Fingerprint>(&text).expect("a fingerprint"), fingerprint);
    }
}
