//! Random number streams: one independent stream per seed, purpose and index, so that results never depend on the number of threads or
//! on the order of the work.

use std::sync::LazyLock;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use super::math::{exp, ln};

/// The generator behind every random choice.
pub type Rng = ChaCha8Rng;

/// The user's seed: the same seed gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(pub u64);

/// What a stream of random numbers is for; streams of different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// The uniform selection of rows for the clustering; one stream per block.
    ClusteringRows = 1,
    /// k-means++ seeding; one stream per start.
    Clustering = 2,
    /// The selection of coreset rows; one stream per block.
    Selection = 3,
    /// Generated data; one stream per block.
    Generate = 4,
    /// MCMC; one stream per chain.
    Chain = 5,
    /// Search for the worst parameter in a ball.
    Search = 6,
    /// The pool of candidates for calibration; one stream per block.
    Pool = 7,
    /// The rows added by pricing; one stream per round.
    Pricing = 8,
    /// Importance resampling of draws.
    Resample = 9,
    /// The seeds of the coresets in a stream; one per node of its tree.
    Tree = 10,
    /// The seeds of merged coresets; one per set of rows.
    Merge = 11,
    /// The rows that guide the search for the mode of the full data; one stream per block.
    Guides = 12,
    /// The rows that check a calibrated coreset; one stream per block.
    Check = 13,
    /// The draws that check a calibrated coreset; one stream per set of draws.
    CheckDraws = 14,
    /// The rows whose quantiles are knots of a formula; one stream per block.
    Terms = 15,
    /// The effects of new groups in predictions; one stream per draw.
    NewGroups = 20,
}

impl Seed {
    #[doc(hidden)]
    /// The stream for `index` (a block, a chain) of a purpose.
    pub fn stream(self, purpose: Purpose, index: u64) -> Rng {
        let mut key = [0u8; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip([self.0, purpose as u64, index, 0]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        // ChaCha is a keyed pseudo-random function: distinct keys give independent streams.
        ChaCha8Rng::from_seed(key)
    }
}

/// A uniform number in (0, 1]: its logarithm is finite.
pub fn open_unit(rng: &mut Rng) -> f64 {
    use rand::Rng as _;
    ((rng.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The beginning of the tail that the ziggurat of the normal distribution treats apart, and the width of its lowest layer.
const ZIGGURAT_TAIL: f64 = 3.654_152_885_361_009;
const ZIGGURAT_BASE: f64 = 3.910_757_959_537_09;
const LAYERS: usize = 256;

/// The widths of the layers, from the lowest to 0, and the density there.
static ZIGGURAT: LazyLock<[(f64, f64); LAYERS + 1]> = LazyLock::new(|| {
    let density = |x: f64| exp(-0.5 * x * x);
    let area = ZIGGURAT_BASE * density(ZIGGURAT_TAIL);
    let mut layers = [(0.0, 1.0); LAYERS + 1];
    layers[0] = (ZIGGURAT_BASE, density(ZIGGURAT_BASE));
    layers[1] = (ZIGGURAT_TAIL, density(ZIGGURAT_TAIL));
    for i in 2..LAYERS {
        let (x, height) = layers[i - 1];
        let x = (-2.0 * ln(area / x + height)).sqrt();
        layers[i] = (x, density(x));
    }
    layers
});

/// A standard normal number, by the ziggurat algorithm as Doornik (2005) has it. The crate `rand_distr` gives the same up to
/// rounding, but takes logarithms from the system's library, which differ between processors.
pub(crate) fn standard_normal(rng: &mut Rng) -> f64 {
    use rand::Rng as _;
    // The 52 high bits as a number in [0, 1).
    let unit = |bits: u64| (bits >> 12) as f64 * (1.0 / (1u64 << 52) as f64);
    let layers = &*ZIGGURAT;
    loop {
        let bits = rng.next_u64();
        let layer = (bits & 0xff) as usize;
        let u = 2.0 * unit(bits) - 1.0;
        let x = u * layers[layer].0;
        if x.abs() < layers[layer + 1].0 {
            return x;
        }
        let mut open = || unit(rng.next_u64()) + 0.5 / (1u64 << 52) as f64;
        if layer == 0 {
            loop {
                let (beyond, y) = (ln(open()) / ZIGGURAT_TAIL, ln(open()));
                if -2.0 * y >= beyond * beyond {
                    return if u < 0.0 { beyond - ZIGGURAT_TAIL } else { ZIGGURAT_TAIL - beyond };
                }
            }
        }
        let (low, high) = (layers[layer].1, layers[layer + 1].1);
        // Uniform between the densities of the layer: 53 bits, as the crate `rand` draws a number.
        let height = (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        if high + (low - high) * height < exp(-0.5 * x * x) {
            return x;
        }
    }
}

/// A counter-based random number generator: number i is computed without the numbers before it. SplitMix64 of Steele, Lea and Flood
/// (2014), seeded by one number of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterRng(u64);

impl CounterRng {
    /// Takes the seed from `rng`.
    pub fn new(rng: &mut Rng) -> CounterRng {
        use rand::Rng as _;
        CounterRng(rng.next_u64())
    }

    /// Number `index`, uniform in [0, 1).
    #[inline(always)]
    pub fn unit(self, index: u64) -> f64 {
        let bits = mix64(self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        // The upper bits as the fraction of a number in [1, 2).
        f64::from_bits((bits >> 12) | (1023 << 52)) - 1.0
    }
}

/// SplitMix64's finaliser: every bit of the result depends on every bit of `bits`.
#[inline(always)]
pub(crate) fn mix64(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_agree_with_another_implementation() {
        use rand_distr::{Distribution, StandardNormal};
        let (mut ours, mut theirs) = (Seed(5).stream(Purpose::Chain, 0), Seed(5).stream(Purpose::Chain, 0));
        let mut beyond = 0;
        for _ in 0..200_000 {
            let (x, expected): (f64, f64) = (standard_normal(&mut ours), StandardNormal.sample(&mut theirs));
            assert!((x - expected).abs() < 1e-12, "{x} against {expected}");
            beyond += usize::from(x.abs() > ZIGGURAT_TAIL);
        }
        assert!(beyond > 20, "the tail occurs: {beyond}");
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_index() {
        let first = |seed: u64, purpose, index| open_unit(&mut Seed(seed).stream(purpose, index));
        let base = first(1, Purpose::Selection, 0);
        assert_eq!(base, first(1, Purpose::Selection, 0));
        assert_ne!(base, first(2, Purpose::Selection, 0));
        assert_ne!(base, first(1, Purpose::Clustering, 0));
        assert_ne!(base, first(1, Purpose::Selection, 1));
    }
}
