//! Diagnostics of draws: R-hat, effective sample sizes and Monte Carlo errors (Vehtari et al. 2021) with ArviZ's
//! conventions.

use serde::{Deserialize, Serialize};

use crate::base::math::{ln, log10};
use crate::mcmc::draws::Draws;

/// Summary of the draws of one coefficient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct CoefficientSummary {
    /// The coefficient.
    pub name: String,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// 5 % quantile: with `q95` the 90 % interval.
    pub q05: f64,
    /// Median.
    pub q50: f64,
    /// 95 % quantile.
    pub q95: f64,
    /// Monte Carlo standard error of the mean.
    pub mcse_mean: f64,
    /// Monte Carlo standard error of the standard deviation.
    pub mcse_sd: f64,
    /// Rank-normalised split R-hat; NaN for a single chain.
    pub r_hat: f64,
    /// Effective draws for the centre of the distribution.
    pub ess_bulk: f64,
    /// Effective draws for its 5 % and 95 % quantiles.
    pub ess_tail: f64,
}

/// A summary of each coefficient.
pub fn summary(draws: &Draws) -> Vec<CoefficientSummary> {
    (0..draws.dim()).map(|i| summarise(&draws.names[i], &draws.coefficient(i))).collect()
}

/// A summary of any quantity whose values are given per chain.
pub fn summarise(name: &str, chains: &[Vec<f64>]) -> CoefficientSummary {
    let mut sorted: Vec<f64> = chains.concat();
    sorted.sort_by(f64::total_cmp);
    let (mean, sd) = mean_and_sd(&sorted);
    CoefficientSummary {
        name: name.to_string(),
        mean,
        sd,
        q05: quantile(&sorted, 0.05),
        q50: quantile(&sorted, 0.5),
        q95: quantile(&sorted, 0.95),
        mcse_mean: mcse_mean(chains),
        mcse_sd: mcse_sd(chains),
        r_hat: r_hat(chains),
        ess_bulk: ess_bulk(chains),
        ess_tail: ess_tail(chains),
    }
}

/// The smallest number of draws per chain for which diagnostics are computed.
pub(super) const FEWEST_DRAWS: usize = 4;

fn usable(chains: &[Vec<f64>], fewest_chains: usize) -> bool {
    let length = chains.first().map_or(0, Vec::len);
    chains.len() >= fewest_chains
        && length >= FEWEST_DRAWS
        && chains.iter().all(|chain| chain.len() == length && chain.iter().all(|x| x.is_finite()))
}

/// Rank-normalised split R-hat: the maximum for the values and for their distances from the median. NaN for fewer than
/// two chains or four draws.
pub fn r_hat(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains, 2) {
        return f64::NAN;
    }
    let split = split(chains);
    let mut sorted = split.concat();
    sorted.sort_by(f64::total_cmp);
    let median = quantile(&sorted, 0.5);
    let folded: Vec<Vec<f64>> =
        split.iter().map(|chain| chain.iter().map(|x| (x - median).abs()).collect()).collect();
    plain_r_hat(&normal_scores(&split)).max(plain_r_hat(&normal_scores(&folded)))
}

fn plain_r_hat(chains: &[Vec<f64>]) -> f64 {
    let n = chains[0].len() as f64;
    let (means, sds): (Vec<f64>, Vec<f64>) = chains.iter().map(|chain| mean_and_sd(chain)).unzip();
    let between = n * mean_and_sd(&means).1.powi(2);
    let within = sds.iter().map(|sd| sd * sd).sum::<f64>() / sds.len() as f64;
    ((between / within + n - 1.0) / n).sqrt()
}

/// Effective draws for the centre of the distribution, computed from the normal scores of the split chains.
pub fn ess_bulk(chains: &[Vec<f64>]) -> f64 {
    if usable(chains, 1) { ess(&normal_scores(&split(chains))) } else { f64::NAN }
}

/// Effective draws for the tails: the minimum for the 5 % and the 95 % quantile.
pub fn ess_tail(chains: &[Vec<f64>]) -> f64 {
    if !usable(chains, 1) {
        return f64::NAN;
    }
    let mut sorted: Vec<f64> = chains.concat();
    sorted.sort_by(f64::total_cmp);
    let at = |p: f64| {
        let limit = quantile(&sorted, p);
        let below: Vec<Vec<f64>> = chains
            .iter()
            .map(|chain| chain.iter().map(|x| f64::from(u8::from(*x <= limit))).collect())
            .collect();
        ess(&split(&below))
    };
    at(0.05).min(at(0.95))
}

/// Effective draws for the mean.
pub fn ess_mean(chains: &[Vec<f64>]) -> f64 {
    if usable(chains, 1) { ess(&split(chains)) } else { f64::NAN }
}

/// Monte Carlo standard error of the mean.
pub fn mcse_mean(chains: &[Vec<f64>]) -> f64 {
    mean_and_sd(&chains.concat()).1 / ess_mean(chains).sqrt()
}

/// Monte Carlo standard error of the standard deviation.
pub fn mcse_sd(chains: &[Vec<f64>]) -> f64 {
    let all = chains.concat();
    let mean = mean_and_sd(&all).0;
    let squares: Vec<Vec<f64>> =
        chains.iter().map(|chain| chain.iter().map(|x| (x - mean).powi(2)).collect()).collect();
    let n = all.len() as f64;
    let variance = squares.iter().flatten().sum::<f64>() / n;
    let fourth = squares.iter().flatten().map(|x| x * x).sum::<f64>() / n;
    ((fourth - variance * variance) / ess_mean(&squares) / variance / 4.0).sqrt()
}

/// The energy's Bayesian fraction of missing information (E-BFMI) of each chain (Betancourt 2016); below 0.3 the resampled
/// momenta explore the energies too slowly.
pub fn e_bfmi(energy: &[f64]) -> f64 {
    let n = energy.len() as f64;
    let mean = energy.iter().sum::<f64>() / n;
    let variance = energy.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / n;
    let jumps = energy.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum::<f64>() / (n - 1.0);
    jumps / variance
}

/// Splits every chain into two halves; the middle draw of an odd number is discarded.
fn split(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let half = chains.first().map_or(0, |chain| chain.len() / 2);
    chains.iter().flat_map(|chain| [chain[..half].to_vec(), chain[chain.len() - half..].to_vec()]).collect()
}

/// Replaces values by the normal quantiles of their ranks among all chains; ties get their mean rank.
fn normal_scores(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let all = chains.concat();
    let size = all.len() as f64;
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&a, &b| all[a].total_cmp(&all[b]));
    let mut scores = vec![0.0; all.len()];
    let mut below = 0.0;
    for ties in order.chunk_by(|&a, &b| all[a] == all[b]) {
        let rank = below + 0.5 * (ties.len() as f64 + 1.0);
        let score = normal_quantile((rank - 0.375) / (size + 0.25));
        for &i in ties {
            scores[i] = score;
        }
        below += ties.len() as f64;
    }
    scores.chunks(chains[0].len()).map(<[f64]>::to_vec).collect()
}

/// Effective draws of several chains by Geyer's initial monotone sequence; at most `n log₁₀ n`.
fn ess(chains: &[Vec<f64>]) -> f64 {
    let (count, length) = (chains.len(), chains[0].len());
    let total = (count * length) as f64;
    let flat = || chains.iter().flatten().copied();
    if flat().fold(f64::NEG_INFINITY, f64::max) - flat().fold(f64::INFINITY, f64::min) < 1e-15 {
        return total;
    }
    if length < 2 {
        return f64::NAN;
    }
    let n = length as f64;
    let means: Vec<f64> = chains.iter().map(|chain| chain.iter().sum::<f64>() / n).collect();
    let centred: Vec<Vec<f64>> =
        chains.iter().zip(&means).map(|(chain, mean)| chain.iter().map(|x| x - mean).collect()).collect();
    let autocovariance = |lag: usize| {
        let one = |chain: &Vec<f64>| chain.iter().zip(&chain[lag..]).map(|(a, b)| a * b).sum::<f64>() / n;
        centred.iter().map(one).sum::<f64>() / count as f64
    };
    let within = autocovariance(0) * n / (n - 1.0);
    let mut variance = within * (n - 1.0) / n;
    if count > 1 {
        variance += mean_and_sd(&means).1.powi(2);
    }
    let rho = |lag: usize| 1.0 - (within - autocovariance(lag)) / variance;
    // Sums pairs of autocorrelations while their sum is positive.
    let mut correlations = vec![0.0; length + 2];
    let (mut even, mut odd) = (1.0, rho(1));
    correlations[0] = even;
    correlations[1] = odd;
    let mut t = 1;
    while t + 3 < length && even + odd > 0.0 {
        even = rho(t + 1);
        odd = rho(t + 2);
        if even + odd >= 0.0 {
            correlations[t + 1] = even;
            correlations[t + 2] = odd;
        }
        t += 2;
    }
    // The first autocorrelation of the last pair is included if it is positive. (`last` may be −1.)
    let last = t as isize - 2;
    let after_last = (last + 1) as usize;
    if even > 0.0 {
        correlations[after_last] = even;
    }
    // Makes the sums of pairs monotone.
    let mut t = 1;
    while t as isize <= last - 2 {
        let (before, here) =
            (correlations[t - 1] + correlations[t], correlations[t + 1] + correlations[t + 2]);
        if here > before {
            correlations[t + 1] = 0.5 * before;
            correlations[t + 2] = 0.5 * before;
        }
        t += 2;
    }
    let tau = -1.0 + 2.0 * correlations[..after_last].iter().sum::<f64>() + correlations[after_last];
    total / tau.max(1.0 / log10(total))
}

fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

/// The quantile of ascending values, interpolated between the two nearest (type 7); NaN if there are none.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    match sorted {
        [] => f64::NAN,
        [only] => *only,
        _ => {
            let n = sorted.len() as f64;
            let position = n * p + (1.0 - p);
            let k = position.clamp(1.0, n - 1.0).floor();
            let fraction = (position - k).clamp(0.0, 1.0);
            (1.0 - fraction) * sorted[k as usize - 1] + fraction * sorted[k as usize]
        }
    }
}

/// The quantile of the standard normal distribution, accurate to 1e-16 (Wichura 1988, algorithm AS 241).
fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        return q * CENTRAL.at(0.180625 - q * q);
    }
    let r = (-ln(p.min(1.0 - p))).sqrt();
    let magnitude = if r <= 5.0 { MIDDLE.at(r - 1.6) } else { TAIL.at(r - 5.0) };
    magnitude.copysign(q)
}

/// A quotient of two polynomials; the coefficient of the lowest power comes first.
struct RationalFunction {
    numerator: [f64; 8],
    denominator: [f64; 8],
}

impl RationalFunction {
    fn at(&self, x: f64) -> f64 {
        let polynomial = |c: &[f64; 8]| c.iter().rev().fold(0.0, |sum, c| sum * x + c);
        polynomial(&self.numerator) / polynomial(&self.denominator)
    }
}

/// AS 241 for `p` within 0.425 of ½, in `0.180625 − (p − ½)²`.
const CENTRAL: RationalFunction = RationalFunction {
    numerator: [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ],
    denominator: [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_854e3,
    ],
};

/// AS 241 for `p` further out, in `r − 1.6` with `r = √(−ln min(p, 1 − p)) ≤ 5`.
const MIDDLE: RationalFunction = RationalFunction {
    numerator: [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ],
    denominator: [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
};

/// AS 241 for `p` for larger `r`, in `r − 5`.
const TAIL: RationalFunction = RationalFunction {
    numerator: [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    denominator: [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles() {
        assert_eq!(normal_quantile(0.5), 0.0);
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-15);
        assert!((normal_quantile(1e-5) + 4.264_890_793_922_825).abs() < 1e-14);
        assert!((normal_quantile(1e-15) + 7.941_345_326_170_998).abs() < 1e-14);
    }

    #[test]
    fn ties_share_their_mean_rank() {
        let scores = normal_scores(&[vec![1.0, 1.0], vec![0.0, 2.0]]);
        assert_eq!(scores[0], [0.0, 0.0]);
        assert!((scores[1][0] + scores[1][1]).abs() < 1e-15 && scores[1][1] > 1.0);
    }

    #[test]
    fn little_or_broken_input_gives_nan_and_no_panic() {
        for chains in [vec![], vec![vec![]], vec![vec![1.0; 3]; 2], vec![vec![f64::NAN; 10]; 2]] {
            let all = summarise("x", &chains);
            assert!(all.r_hat.is_nan() && all.ess_bulk.is_nan() && all.ess_tail.is_nan());
        }
        // Constant draws: ArviZ counts every draw as effective.
        assert_eq!(ess_mean(&vec![vec![1.0; 10]; 2]), 20.0);
    }
}
