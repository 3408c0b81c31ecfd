//! Every reader survives its corpus: valid inputs, inputs that once broke it, and variations of both. `scripts/fuzz` searches for more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "../../../fuzz/src/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/src/targets.rs"]
mod targets;

use targets::{TARGETS, Target};

/// Variations of each input; `scripts/fuzz` tries millions.
const VARIATIONS: u64 = 40;
/// No input may take longer.
const LONGEST: Duration = Duration::from_secs(20);

#[test]
fn readers_survive_the_corpus_and_variations_of_it() {
    let seeds = seeds::seeds();
    let hook = std::panic::take_hook();
    // Panics of decoders that the library catches would fill the output.
    std::panic::set_hook(Box::new(|_| {}));
    let mut broken = Vec::new();
    for (name, target) in TARGETS {
        let valid: Vec<&Vec<u8>> =
            seeds.iter().filter(|(of, _)| *of == name).map(|(_, bytes)| bytes).collect();
        assert!(!valid.is_empty(), "the target {name} has no valid input");
        let found = corpus(name);
        for (at, bytes) in valid.into_iter().chain(&found).enumerate() {
            let mut random = Random(at as u64 + 1);
            for turn in 0..=VARIATIONS {
                let input = if turn == 0 { bytes.clone() } else { varied(bytes, &mut random) };
                if let Some(what) = failure(target, &input) {
                    broken.push(format!("{name}, input {at}, variation {turn}: {what}"));
                }
            }
        }
    }
    std::panic::set_hook(hook);
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Why a target fails on this input, if it does.
fn failure(target: Target, input: &[u8]) -> Option<String> {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    if let Err(panic) = outcome {
        let text = panic.downcast_ref::<String>().cloned();
        return Some(text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default());
    }
    (start.elapsed() > LONGEST).then(|| format!("it takes {:?}", start.elapsed()))
}

/// The inputs that a search found, by their names in the corpus.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("an input")).collect()
}

/// A small random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

/// The input with a few bytes changed, removed, repeated or replaced by extreme values.
fn varied(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut varied = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(varied.len());
        let to = (at + 1 + random.below(16)).min(varied.len());
        match random.below(6) {
            _ if varied.is_empty() => varied.push(random.below(256) as u8),
            0 => varied[at] ^= 1 << random.below(8),
            1 => varied[at] = random.below(256) as u8,
            2 => drop(varied.drain(at..to)),
            3 => {
                let part = varied[at..to].to_vec();
                varied.splice(at..at, part);
            }
            4 => varied[at..to].fill([0, 0x7f, 0x80, 0xff][random.below(4)]),
            _ => varied.truncate(at),
        }
    }
    varied
}
