//! Elementary functions for SIMD kernels: branch-free, with fused multiply-adds and without tables.
//!
//! Kernels call them inside [`vectorized`] or [`with_vectors`], which compile a kernel for several instruction sets and choose one at
//! run time. Fused multiply-adds are correctly rounded everywhere and sums have a fixed order, so a kernel gives the same bits on every
//! processor.

use pulp::{Simd, WithSimd};

/// Runs a kernel that the compiler vectorises, with the widest vector instructions of the processor. The kernel and everything it
/// calls must be `#[inline(always)]`; other functions are compiled for the baseline instruction set.
#[inline(always)]
pub(crate) fn vectorized<R>(kernel: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(kernel)
}

/// Runs a kernel that uses vectors explicitly, which the compiler needs where many sums are updated in parallel.
#[inline(always)]
pub(crate) fn with_vectors<K: WithSimd>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(kernel)
}

/// N vectors, with one number per row. Several vectors hide the latency of instructions; too many do not fit in the registers.
pub(crate) type Vectors<S, const N: usize> = [<S as Simd>::f64s; N];

/// Views numbers as groups of N vectors.
#[inline(always)]
pub(crate) fn as_vectors<S: Simd, const N: usize>(numbers: &[f64]) -> &[Vectors<S, N>] {
    S::as_simd_f64s(numbers).0.as_chunks().0
}

/// Views numbers as groups of N vectors.
#[inline(always)]
pub(crate) fn as_vectors_mut<S: Simd, const N: usize>(numbers: &mut [f64]) -> &mut [Vectors<S, N>] {
    S::as_mut_simd_f64s(numbers).0.as_chunks_mut().0
}

/// Views vectors as numbers.
#[inline(always)]
fn as_numbers<S: Simd, const N: usize>(vectors: &mut Vectors<S, N>) -> &mut [f64] {
    pulp::bytemuck::cast_slice_mut(vectors)
}

/// `2⁵²`: the sum with a small integer has that integer in its low bits.
const TWO_TO_52: f64 = 4503599627370496.0;
/// `1.5·2⁵²`: adding it rounds a small number to the nearest integer, which is then in the low bits.
const ROUND: f64 = 6755399441055744.0;
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Below this `eˣ` is not a normal number; `e⁻⁷⁰⁸ ≈ 3.3e-308` is used instead.
const SMALLEST: f64 = -708.0;

/// `low + r·high`: two terms of a polynomial.
#[inline(always)]
fn pair(r: f64, low: f64, high: f64) -> f64 {
    r.mul_add(high, low)
}

/// `eˣ` for `x ≤ 0` with an error of at most 2 units in the last place; results below 4e-308 become 3.3e-308.
#[inline(always)]
pub(crate) fn exp_nonpositive(x: f64) -> f64 {
    // x = n ln 2 + r with |r| ≤ ½ ln 2; eʳ by its Taylor polynomial, whose remainder is below 2⁻⁵⁷.
    let x = if x > SMALLEST { x } else { SMALLEST };
    let shifted = x.mul_add(std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    // eʳ = 1 + (r + r²q(r)), with q evaluated in pairs and fours (Estrin's scheme) for short dependency chains.
    let r2 = r * r;
    let r4 = r2 * r2;
    let q0 = r2.mul_add(pair(r, 1.0 / 24.0, 1.0 / 120.0), pair(r, 0.5, 1.0 / 6.0));
    let q1 = r2.mul_add(pair(r, 1.0 / 40_320.0, 1.0 / 362_880.0), pair(r, 1.0 / 720.0, 1.0 / 5_040.0));
    let q2 = r2.mul_add(
        pair(r, 1.0 / 479_001_600.0, 1.0 / 6_227_020_800.0),
        pair(r, 1.0 / 3_628_800.0, 1.0 / 39_916_800.0),
    );
    let q = r4.mul_add(r4.mul_add(q2, q1), q0);
    let p = 1.0 + r2.mul_add(q, r);
    // The integer n is in the low bits of `shifted`; move it to the exponent of 2ⁿ.
    let two_to_n = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    p * two_to_n
}

/// `2⁻ˣ` for `x ≥ 0` with an error of at most 2 units in the last place; `2⁻¹⁰²¹` for larger `x` and for NaN.
///
/// Cheaper than [`exp_nonpositive`], because x splits exactly into an integer and a remainder, and the factor `ln 2` is part of the
/// coefficients. Each step is done for all vectors before the next one, which hides the latency of the instructions.
#[inline(always)]
pub(crate) fn two_to_minus<S: Simd, const N: usize>(simd: S, numbers: &mut Vectors<S, N>) {
    /// `2⁻ʳ = 1 − r·q(r)`, where q interpolates `(1 − 2⁻ʳ)/r` at the Chebyshev points of `|r| ≤ ½`; the error is below 2⁻⁵⁵. Pairs
    /// of coefficients, of an even power and the odd power above it, from the highest down.
    const HIGHEST: (f64, f64) = (7.072_585_949_269_223e-9, -4.454_960_598_186_518_6e-10);
    const OTHERS: [(f64, f64); 5] = [
        (1.321_544_258_792_169e-6, -1.017_806_244_584_577_4e-7),
        (1.540_353_044_173_605e-4, -1.525_273_382_983_612e-5),
        (9.618_129_107_606_888e-3, -1.333_355_814_641_693_6e-3),
        (0.240_226_506_959_100_97, -0.055_504_108_664_821_6),
        (1.0, -std::f64::consts::LN_2),
    ];
    let (round, zero) = (simd.splat_f64s(ROUND), simd.splat_f64s(0.0));
    let (mut shifted, mut r, mut r2) = ([zero; N], [zero; N], [zero; N]);
    for x in as_numbers::<S, N>(numbers) {
        *x = if *x < 1021.0 { *x } else { 1021.0 };
    }
    for v in 0..N {
        shifted[v] = simd.sub_f64s(round, numbers[v]);
        r[v] = simd.add_f64s(numbers[v], simd.sub_f64s(shifted[v], round));
        r2[v] = simd.mul_f64s(r[v], r[v]);
    }
    let (mut even, mut odd) = ([simd.splat_f64s(HIGHEST.0); N], [simd.splat_f64s(HIGHEST.1); N]);
    for (next_even, next_odd) in OTHERS {
        for v in 0..N {
            even[v] = simd.mul_add_f64s(even[v], r2[v], simd.splat_f64s(next_even));
        }
        for v in 0..N {
            odd[v] = simd.mul_add_f64s(odd[v], r2[v], simd.splat_f64s(next_odd));
        }
    }
    for v in 0..N {
        numbers[v] = simd.mul_add_f64s(odd[v], r[v], even[v]);
    }
    // The integer is in the low bits of `shifted`; adding it to the exponent multiplies by a power of 2.
    for (number, shifted) in as_numbers::<S, N>(numbers).iter_mut().zip(as_numbers::<S, N>(&mut shifted)) {
        *number = f64::from_bits(number.to_bits().wrapping_add(shifted.to_bits() << 52));
    }
}

/// `φ(s) = ln(1 + e^{−s})` and `−φ'(s) = 1/(1 + e^{s})` from one exponential and one division. Both have a relative error below 1e-15
/// if they are normal numbers. φ is NaN only if `s` is not finite.
#[inline(always)]
pub(crate) fn softplus_and_slope(s: f64) -> (f64, f64) {
    let t = exp_nonpositive(-s.abs());
    // ln(1+t) = k ln 2 + ln(1+f) with 1+f in [√½, √2], so that f/(2+f) is small.
    let upper = t > std::f64::consts::SQRT_2 - 1.0;
    let f = if upper { (t - 1.0) * 0.5 } else { t };
    let k = if upper { std::f64::consts::LN_2 } else { 0.0 };
    let one_plus_t = 1.0 + t;
    let two_plus_f = 2.0 + f;
    // Both quotients share one division.
    let reciprocal = 1.0 / (one_plus_t * two_plus_f);
    let v = f * one_plus_t * reciprocal;
    let log = log_of_quotient(v, k);
    // ½(|s| − s) is max(−s, 0), and NaN where s is not finite.
    let softplus = (s.abs() - s).mul_add(0.5, log);
    let numerator = if s < 0.0 { 1.0 } else { t };
    (softplus, numerator * two_plus_f * reciprocal)
}

/// `−ln(1 − u)` for a multiple of 2⁻⁵² in [0, 1), with a relative error below 1e-15: a standard exponential variable if `u` is uniform.
#[inline(always)]
pub(crate) fn exponential(u: f64) -> f64 {
    const ONE: u64 = 1023 << 52;
    let sqrt_half = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    // 1 − u = 2ᵏ(1 + f) with 1 + f in [√½, √2).
    let shifted = (1.0 - u).to_bits() + (ONE - sqrt_half);
    let k = f64::from_bits((shifted >> 52) | TWO_TO_52.to_bits()) - (TWO_TO_52 + 1023.0);
    let f = f64::from_bits((shifted & ((1 << 52) - 1)) + sqrt_half) - 1.0;
    // Subtracting from 0 avoids −0.
    0.0 - log_of_quotient(f / (2.0 + f), k * std::f64::consts::LN_2)
}

/// `ln(1 + f) + k` from `v = f/(2 + f)`, with 1 + f in [√½, √2].
#[inline(always)]
fn log_of_quotient(v: f64, k: f64) -> f64 {
    // ln(1 + f) = v(2 + v²R(v²)), with the coefficients of Sun's fdlibm.
    let v2 = v * v;
    let mut r: f64 = 1.479_819_860_511_658_6e-1;
    for coefficient in [
        1.531_383_769_920_937_3e-1,
        1.818_357_216_161_805e-1,
        2.222_219_843_214_978_4e-1,
        2.857_142_874_366_239e-1,
        3.999_999_999_940_942e-1,
        6.666_666_666_666_735e-1,
    ] {
        r = r.mul_add(v2, coefficient);
    }
    v.mul_add(r.mul_add(v2, 2.0), k)
}

/// `eˣ`. The elementary functions here and below are those of the crate `libm`: the system's may differ in the last bit from
/// one processor to the next, because the C library has a variant of each for several instruction sets.
pub(crate) fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// `ln x`.
pub(crate) fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// `ln(1 + x)`, also where `x` is small.
pub(crate) fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// `eˣ − 1`, also where `x` is small.
pub(crate) fn exp_m1(x: f64) -> f64 {
    libm::expm1(x)
}

/// `log₁₀ x`.
pub(crate) fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// `xʸ`.
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// `√(x² + y²)` without overflow.
pub(crate) fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

/// The dot product `a·b` of two slices of equal length, as eight interleaved sums that vectorise.
#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for l in 0..LANES {
            sums[l] = a[l].mul_add(b[l], sums[l]);
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum = a.mul_add(*b, *sum);
    }
    total(&sums)
}

/// The sum of eight numbers in a fixed order.
#[inline(always)]
pub(crate) fn total(parts: &[f64; 8]) -> f64 {
    ((parts[0] + parts[4]) + (parts[2] + parts[6])) + ((parts[1] + parts[5]) + (parts[3] + parts[7]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn exp_agrees_with_the_standard_library(x in -707.9f64..=0.0) {
            let ours = exp_nonpositive(x);
            prop_assert!((ours / x.exp() - 1.0).abs() < 5e-16, "{x}: {ours} against {}", x.exp());
        }

        #[test]
        fn powers_of_two_agree_with_the_standard_library(x in 0f64..=1020.9) {
            let ours = one_power(x);
            prop_assert!((ours / (-x).exp2() - 1.0).abs() < 5e-16, "{x}: {ours} against {}", (-x).exp2());
        }

        #[test]
        fn softplus_and_slope_agree_with_the_standard_library(s in prop_oneof![-700f64..700.0, -3f64..3.0]) {
            let (softplus, slope) = softplus_and_slope(s);
            let expected = (-s).max(0.0) + (-s.abs()).exp().ln_1p();
            prop_assert!((softplus / expected - 1.0).abs() < 1e-15, "{s}: {softplus} against {expected}");
            let expected = if s < 0.0 { 1.0 / (1.0 + s.exp()) } else { (-s).exp() / (1.0 + (-s).exp()) };
            prop_assert!((slope / expected - 1.0).abs() < 1e-15, "{s}: {slope} against {expected}");
        }
    }

    proptest! {
        #[test]
        fn exponentials_agree_with_the_standard_library(
            place in prop_oneof![0u64..1 << 52, 0u64..1000, (1u64 << 52) - 1000..1 << 52],
        ) {
            let u = place as f64 / (1u64 << 52) as f64;
            let expected = -(-u).ln_1p();
            let ours = exponential(u);
            prop_assert!((ours - expected).abs() <= 1e-15 * expected, "{u}: {ours} against {expected}");
        }
    }

    #[test]
    fn exponentials_at_the_edges() {
        let step = 0.5f64.powi(52);
        assert_eq!(exponential(0.0).to_bits(), 0, "not −0: keys are compared by their bits");
        assert!((exponential(step) / step - 1.0).abs() < 1e-15);
        assert!((exponential(1.0 - step) / (52.0 * std::f64::consts::LN_2) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn softplus_far_out() {
        for s in [1e3, 1e4, 1e10, 1e300] {
            assert!(softplus_and_slope(s).0 < 1e-300 && softplus_and_slope(s).1 < 1e-300);
            assert_eq!(softplus_and_slope(-s), (s, 1.0));
        }
        assert_eq!(softplus_and_slope(0.0), (std::f64::consts::LN_2, 0.5));
        for s in [f64::NAN, f64::INFINITY] {
            assert!(softplus_and_slope(s).0.is_nan());
        }
    }

    #[test]
    fn exp_at_the_edges() {
        assert_eq!(exp_nonpositive(0.0), 1.0);
        assert!(exp_nonpositive(-1e300) < 1e-300);
        assert!(exp_nonpositive(f64::NEG_INFINITY) < 1e-300);
        assert!(exp_nonpositive(-708.5) > 0.0);
    }

    #[test]
    fn powers_of_two_at_the_edges() {
        for n in 0..=1021 {
            assert_eq!(one_power(f64::from(n)), 0.5f64.powi(n));
        }
        for x in [1022.0, 1e300, f64::INFINITY, f64::NAN] {
            assert_eq!(one_power(x), 0.5f64.powi(1021));
        }
    }

    #[test]
    fn vectorised_and_plain_give_the_same_bits() {
        let xs: Vec<f64> = (0..1000).map(|i| -f64::from(i) * 0.7311).collect();
        let plain: Vec<f64> = xs.iter().map(|&x| exp_nonpositive(x)).collect();
        let mut fast = vec![0.0; xs.len()];
        vectorized(|| {
            for (y, &x) in fast.iter_mut().zip(&xs) {
                *y = exp_nonpositive(x);
            }
        });
        assert_eq!(plain, fast);
    }

    fn one_power(x: f64) -> f64 {
        let mut number = [x];
        two_to_minus(pulp::Scalar, &mut number);
        number[0]
    }

    #[test]
    fn powers_of_two_have_the_same_bits_for_vectors_of_any_width() {
        struct Powers<'a>(&'a mut [f64]);
        impl WithSimd for Powers<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                as_vectors_mut::<S, 4>(self.0).iter_mut().for_each(|vectors| two_to_minus(simd, vectors));
            }
        }
        let mut xs: Vec<f64> = (0..1024).map(|i| f64::from(i) * 1.0311).collect();
        (xs[7], xs[500]) = (f64::NAN, f64::INFINITY);
        let plain: Vec<f64> = xs.iter().map(|&x| one_power(x)).collect();
        let by = |run: &dyn Fn(Powers<'_>)| {
            let mut numbers = xs.clone();
            run(Powers(&mut numbers));
            numbers
        };
        assert_eq!(by(&|powers| with_vectors(powers)), plain);
        assert_eq!(by(&|powers| powers.with_simd(pulp::Scalar256b)), plain);
        assert_eq!(by(&|powers| powers.with_simd(pulp::Scalar512b)), plain);
    }
}
