//! The maximum mean discrepancy (MMD) between two sets of draws: a distance between distributions, defined by a kernel.
//!
//! For a polynomial kernel `(c + x·y)^p` the squared discrepancy is a sum over moments,
//! `MMD² = Σ_j binom(p,j) c^{p−j} ‖E_a[x^{⊗j}] − E_b[x^{⊗j}]‖²`,
//! so the cost is the number of draws times the number of monomials, not the square of the number of draws.
//! All values are V-statistics (Gretton et al. 2012, the biased estimate): they are never negative.

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result, Setting};
use crate::base::math::exp;

/// The largest number of monomials held in memory; beyond it, the kernel is summed over pairs of draws.
const MOST_MONOMIALS: usize = 1 << 22;
const MOST_DEGREE: u32 = 8;

/// A kernel. As text: `polynomial:DEGREE:OFFSET` or `gaussian:SCALE`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Kernel {
    /// `(offset + x·y)^degree`: compares the moments up to the degree.
    Polynomial {
        /// The degree p.
        degree: u32,
        /// The offset c; a larger one gives lower moments more weight.
        offset: f64,
    },
    /// `exp(−‖x − y‖² / (2 scale²))`: detects every difference between distributions.
    Gaussian {
        /// Length scale: the kernel is small for draws farther apart than this.
        scale: f64,
    },
}

impl Default for Kernel {
    /// The kernel of the paper's experiments: degree 3, and its authors' offset.
    fn default() -> Kernel {
        Kernel::Polynomial { degree: 3, offset: 0.2 }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kernel::Polynomial { degree, offset } => write!(f, "polynomial:{degree}:{offset}"),
            Kernel::Gaussian { scale } => write!(f, "gaussian:{scale}"),
        }
    }
}

impl FromStr for Kernel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Kernel> {
        let words: Vec<&str> = text.split(':').collect();
        let kernel = match words[..] {
            ["polynomial"] => Some(Kernel::default()),
            ["polynomial", degree] => {
                degree.parse().ok().map(|degree| Kernel::Polynomial { degree, offset: 0.2 })
            }
            ["polynomial", degree, offset] => degree
                .parse()
                .ok()
                .zip(offset.parse().ok())
                .map(|(degree, offset)| Kernel::Polynomial { degree, offset }),
            ["gaussian", scale] => scale.parse().ok().map(|scale| Kernel::Gaussian { scale }),
            _ => None,
        };
        let unknown = || {
            let what = format!(
                "must be polynomial:DEGREE:OFFSET (such as polynomial:3:0.2) or gaussian:SCALE, but is '{text}'"
            );
            Error::setting(Setting::Kernel, what)
        };
        kernel.ok_or_else(unknown)?.check()
    }
}

impl TryFrom<String> for Kernel {
    type Error = Error;

    fn try_from(text: String) -> Result<Kernel> {
        text.parse()
    }
}

impl From<Kernel> for String {
    fn from(kernel: Kernel) -> String {
        kernel.to_string()
    }
}

impl Kernel {
    /// Checks the parameters.
    pub fn check(self) -> Result<Kernel> {
        match self {
            Kernel::Polynomial { degree, .. } if !(1..=MOST_DEGREE).contains(&degree) => Err(Error::setting(
                Setting::Kernel,
                format!("must have a degree between 1 and {MOST_DEGREE}, but it is {degree}"),
            )),
            Kernel::Polynomial { offset, .. } if !(offset >= 0.0 && offset.is_finite()) => {
                Err(Error::setting(
                    Setting::Kernel,
                    format!("must have an offset of at least 0, but it is {offset}"),
                ))
            }
            Kernel::Gaussian { scale } if !(scale > 0.0 && scale.is_finite()) => {
                Err(Error::setting(Setting::Kernel, format!("must have a positive scale, but it is {scale}")))
            }
            kernel => Ok(kernel),
        }
    }

    fn value(self, x: &[f64], y: &[f64]) -> f64 {
        match self {
            Kernel::Polynomial { degree, offset } => {
                let product: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
                (offset + product).powi(degree as i32)
            }
            Kernel::Gaussian { scale } => {
                let square: f64 = x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum();
                exp(-0.5 * square / (scale * scale))
            }
        }
    }
}

/// The squared discrepancy of two sets of draws, each a slice of consecutive draws of dimension `dim`; uses moments where
/// that is cheaper. NaN if there are no draws.
pub fn mmd_squared(a: &[f64], b: &[f64], dim: usize, kernel: Kernel) -> f64 {
    let (rows_a, rows_b) = (a.len() / dim.max(1), b.len() / dim.max(1));
    if let Kernel::Polynomial { degree, offset } = kernel
        && let Some(count) = monomials(dim, degree).filter(|count| *count <= MOST_MONOMIALS)
    {
        let rows = (rows_a + rows_b) as f64;
        if count as f64 <= 0.5 * rows * dim as f64 {
            return by_moments(a, b, dim, degree, offset);
        }
    }
    by_pairs(a, b, dim, kernel)
}

/// The squared discrepancy by its definition: one kernel evaluation per pair of draws.
pub fn by_pairs(a: &[f64], b: &[f64], dim: usize, kernel: Kernel) -> f64 {
    let mean = |x: &[f64], y: &[f64]| {
        // One sum per row: the order of summation does not depend on the threads.
        let sums: Vec<f64> = x
            .par_chunks_exact(dim.max(1))
            .map(|x| y.chunks_exact(dim.max(1)).map(|y| kernel.value(x, y)).sum())
            .collect();
        sums.iter().sum::<f64>() / (sums.len() * (y.len() / dim.max(1))) as f64
    };
    (mean(a, a) + mean(b, b) - 2.0 * mean(a, b)).max(0.0)
}

/// The squared discrepancy of a polynomial kernel, from the moments up to its degree.
pub fn by_moments(a: &[f64], b: &[f64], dim: usize, degree: u32, offset: f64) -> f64 {
    let (a, b) = (Moments::of(a, dim, degree), Moments::of(b, dim, degree));
    let mut total = 0.0;
    let mut binomial = 1.0;
    for j in 1..=degree {
        binomial *= f64::from(degree - j + 1) / f64::from(j);
        let (ours, theirs) = (&a.levels[j as usize - 1], &b.levels[j as usize - 1]);
        let square: f64 = multiplicities(dim, j)
            .zip(ours.iter().zip(theirs))
            .map(|(multiplicity, (a, b))| multiplicity * (a - b) * (a - b))
            .sum();
        total += binomial * offset.powi((degree - j) as i32) * square;
    }
    total
}

/// Number of monomials of degrees 1 to `degree`.
fn monomials(dim: usize, degree: u32) -> Option<usize> {
    let mut count = 1usize;
    for j in 1..=degree as usize {
        count = count.checked_mul(dim + j)? / j;
    }
    Some(count - 1)
}

/// Means of monomials: level j − 1 contains `E[x_{i₁}…x_{i_j}]` for `i₁ ≤ … ≤ i_j`, in lexicographic order.
struct Moments {
    levels: Vec<Vec<f64>>,
}

impl Moments {
    fn of(draws: &[f64], dim: usize, degree: u32) -> Moments {
        let sizes = (1..=degree).map(|j| multiplicities(dim, j).count());
        let mut levels: Vec<Vec<f64>> = sizes.map(|size| vec![0.0; size]).collect();
        let rows = draws.len() / dim.max(1);
        for x in draws.chunks_exact(dim.max(1)) {
            // Depth first: in every level, monomials with the same prefix are contiguous.
            let mut places = vec![0; levels.len()];
            add(&mut levels, &mut places, 0, 1.0, x);
        }
        for level in &mut levels {
            level.iter_mut().for_each(|sum| *sum /= rows as f64);
        }
        Moments { levels }
    }
}

/// Adds the monomials that are `prefix` times a coordinate in `x`, and recursively those that begin with them; `x`
/// contains the coordinates from the last one of the prefix on.
fn add(levels: &mut [Vec<f64>], places: &mut [usize], level: usize, prefix: f64, x: &[f64]) {
    let place = places[level];
    places[level] += x.len();
    for (sum, x) in levels[level][place..].iter_mut().zip(x) {
        *sum += prefix * x;
    }
    if level + 1 < levels.len() {
        for k in 0..x.len() {
            add(levels, places, level + 1, prefix * x[k], &x[k..]);
        }
    }
}

/// Multiplicity of each monomial of a degree: `j! / Π (powers!)`, in the order of the moments.
fn multiplicities(dim: usize, degree: u32) -> impl Iterator<Item = f64> {
    /// The last coordinate of a monomial, the power of that coordinate, and the multiplicity of the monomial.
    #[derive(Clone, Copy)]
    struct Monomial {
        last: usize,
        power: u32,
        orders: f64,
    }
    let mut level = vec![Monomial { last: 0, power: 0, orders: 1.0 }];
    for j in 1..=degree {
        level = level
            .iter()
            .flat_map(|&Monomial { last, power, orders }| {
                (last..dim).map(move |k| {
                    let power = if k == last { power + 1 } else { 1 };
                    Monomial { last: k, power, orders: orders * f64::from(j) / f64::from(power) }
                })
            })
            .collect();
    }
    level.into_iter().map(|monomial| monomial.orders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit};

    fn draws(seed: u64, count: usize) -> Vec<f64> {
        let mut rng = Seed(seed).stream(Purpose::Chain, 0);
        (0..count).map(|_| 4.0 * open_unit(&mut rng) - 1.0).collect()
    }

    #[test]
    fn moments_and_pairs_agree() {
        for dim in [1, 2, 3, 5] {
            for degree in 1..=5 {
                let (a, b) = (draws(1, 30 * dim), draws(2, 21 * dim));
                let by_moments = by_moments(&a, &b, dim, degree, 0.7);
                let by_pairs = by_pairs(&a, &b, dim, Kernel::Polynomial { degree, offset: 0.7 });
                assert!(
                    (by_moments / by_pairs - 1.0).abs() < 1e-9,
                    "{dim} {degree}: {by_moments} {by_pairs}"
                );
            }
        }
    }

    #[test]
    fn equal_draws_are_at_distance_0() {
        let a = draws(3, 40);
        assert_eq!(mmd_squared(&a, &a, 4, Kernel::default()), 0.0);
        assert!(mmd_squared(&a, &a, 4, Kernel::Gaussian { scale: 1.0 }) < 1e-15);
    }

    #[test]
    fn a_gaussian_kernel_distinguishes_two_points() {
        // MMD² of two single points is 2 − 2 k(x, y).
        let found = mmd_squared(&[0.0, 0.0], &[1.0, 1.0], 2, Kernel::Gaussian { scale: 1.0 });
        assert!((found - (2.0 - 2.0 * (-1f64).exp())).abs() < 1e-15);
    }

    #[test]
    fn kernels_are_read_and_written() {
        for text in ["polynomial:2:1", "gaussian:0.5", "polynomial:3:0.2"] {
            assert_eq!(text.parse::<Kernel>().expect("a kernel").to_string(), text);
        }
        for text in ["polynomial:0", "polynomial:3:-1", "gaussian:0", "gaussian", "cubic", "polynomial:x"] {
            assert!(text.parse::<Kernel>().is_err(), "{text}");
        }
    }
}
