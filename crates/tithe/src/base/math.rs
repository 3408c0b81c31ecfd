//! Elementary functions that vectorise: branch-free, fused multiply-adds, no tables.
//!
//! Kernels call them inside [`vectorized`] or [`with_vectors`], which compile the kernel for the processor's own vector
//! units and choose at run time. A fused multiply-add is correctly rounded everywhere, and sums are
//! kept in a fixed order, so a kernel gives the same bits on every processor.

use pulp::{Simd, WithSimd};

/// Runs a kernel compiled for the widest vector units there are, vectorised by the compiler. The kernel and all it calls
/// must be `#[inline(always)]`, or they are compiled for the plainest processor.
#[inline(always)]
pub(crate) fn vectorized<R>(kernel: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(kernel)
}

/// The same for a kernel that is written for vectors: where many sums run side by side, the compiler rarely finds them.
#[inline(always)]
pub(crate) fn with_vectors<K: WithSimd>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(kernel)
}

/// One number for each of a few rows: as many as N vectors hold. A kernel goes on with some while others are not done, and
/// with too many the processor runs out of registers.
pub(crate) type Few<S, const N: usize> = [<S as Simd>::f64s; N];

/// Numbers, a few at a time.
#[inline(always)]
pub(crate) fn few<S: Simd, const N: usize>(numbers: &[f64]) -> &[Few<S, N>] {
    S::as_simd_f64s(numbers).0.as_chunks().0
}

/// Numbers, a few at a time.
#[inline(always)]
pub(crate) fn few_mut<S: Simd, const N: usize>(numbers: &mut [f64]) -> &mut [Few<S, N>] {
    S::as_mut_simd_f64s(numbers).0.as_chunks_mut().0
}

/// A few numbers, one by one.
#[inline(always)]
fn each<S: Simd, const N: usize>(few: &mut Few<S, N>) -> &mut [f64] {
    pulp::bytemuck::cast_slice_mut(few)
}

/// `2⁵²`: a small integer that is added to it stands in the low bits.
pub(crate) const TWO_TO_52: f64 = 4503599627370496.0;
/// `1.5·2⁵²`: adding it rounds a small number to the nearest integer, left in the low bits.
const ROUND: f64 = 6755399441055744.0;
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Below this `eˣ` is not a normal number; it is taken to be `e⁻⁷⁰⁸ ≈ 3.3e-308`, as good as 0.
const SMALLEST: f64 = -708.0;

/// `low + r·high`: two terms of a polynomial.
#[inline(always)]
fn pair(r: f64, low: f64, high: f64) -> f64 {
    r.mul_add(high, low)
}

/// `eˣ` for `x ≤ 0`, to 2 units in the last place; smaller than 4e-308 becomes 3.3e-308.
#[inline(always)]
pub(crate) fn exp_nonpositive(x: f64) -> f64 {
    // x = n ln 2 + r with |r| ≤ ½ ln 2; eʳ by its Taylor polynomial, whose remainder is below 2⁻⁵⁷.
    let x = if x > SMALLEST { x } else { SMALLEST };
    let shifted = x.mul_add(std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    // eʳ = 1 + (r + r²q(r)), q in pairs and fours: short chains keep the processor's units busy.
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
    // The integer n stands in the low bits of `shifted`; move it to the exponent of 2ⁿ.
    let two_to_n = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    p * two_to_n
}

/// `2⁻ˣ` for a few `x ≥ 0`, to 2 units in the last place; beyond `x = 1021`, and for NaN, it is what it is there, as good
/// as 0.
///
/// Cheaper than [`exp_nonpositive`]: an integer and a rest are exact parts of x, and the factor `ln 2` is in the
/// coefficients. All go side by side, step by step: the processor need not look far for what it can do meanwhile.
#[inline(always)]
pub(crate) fn two_to_minus<S: Simd, const N: usize>(simd: S, numbers: &mut Few<S, N>) {
    /// `2⁻ʳ = 1 − r·q(r)`, with q interpolating `(1 − 2⁻ʳ)/r` at Chebyshev's points of `|r| ≤ ½`: off by less than 2⁻⁵⁵. The
    /// coefficients of even powers and of the odd ones that follow them, from the highest down.
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
    for x in each::<S, N>(numbers) {
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
    // The integer stands in the low bits of `shifted`; added to the exponent it multiplies by a power of 2.
    for (number, shifted) in each::<S, N>(numbers).iter_mut().zip(each::<S, N>(&mut shifted)) {
        *number = f64::from_bits(number.to_bits().wrapping_add(shifted.to_bits() << 52));
    }
}

/// The numbers between which a guessed root can be corrected: beyond them what is left is not a normal number.
const CORRECTABLE: [f64; 2] = [1e-280, 1e280];

/// How square roots are found: chosen once for a kernel, so that its vectors never wait for the choice.
///
/// Where the processor guesses reciprocal roots of doubles, a guess can be corrected, which leaves the one unit that divides to
/// others: worth it where that unit is slow.
#[derive(Clone, Copy)]
pub(crate) struct Roots {
    guesses: Option<Guesses>,
}

#[cfg(target_arch = "x86_64")]
type Guesses = pulp::x86::V4;
#[cfg(not(target_arch = "x86_64"))]
type Guesses = std::convert::Infallible;

impl Roots {
    /// The quicker way for vectors of this kind.
    #[inline(always)]
    pub fn quickest<S: Simd>() -> Roots {
        Roots { guesses: if roots_are_slow() { Roots::guessed::<S>() } else { None } }
    }

    /// By guesses, where the processor has any.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    fn guessed<S: Simd>() -> Option<Guesses> {
        if S::F64_LANES == 8 { pulp::x86::V4::try_new() } else { None }
    }

    #[inline(always)]
    #[cfg(not(target_arch = "x86_64"))]
    fn guessed<S: Simd>() -> Option<Guesses> {
        None
    }

    /// The square roots of a few numbers that are not negative: the same bits by either way. Of those that could be guessed the
    /// second half is left to the unit that divides, which works on them meanwhile.
    #[inline(always)]
    pub fn find<S: Simd, const N: usize>(self, simd: S, numbers: &mut Few<S, N>) {
        let (first, second) = numbers.split_at_mut(N.div_ceil(2));
        match self.guesses {
            Some(guesses) if are_correctable(simd, first) => {
                for x in first {
                    *x = corrected_root(simd, *x, guess::<S>(guesses, *x));
                }
            }
            _ => {
                for x in first {
                    *x = simd.sqrt_f64s(*x);
                }
            }
        }
        for x in second {
            *x = simd.sqrt_f64s(*x);
        }
    }
}

/// True if guesses of all roots can be corrected; a number that is NaN has no say, for its root is NaN by either way.
#[inline(always)]
fn are_correctable<S: Simd>(simd: S, numbers: &[S::f64s]) -> bool {
    let [low, high] = [simd.splat_f64s(CORRECTABLE[0]), simd.splat_f64s(CORRECTABLE[1])];
    let (mut least, mut most) = (high, low);
    for &x in numbers {
        least = simd.min_f64s(x, least);
        most = simd.max_f64s(x, most);
    }
    let beyond = simd.or_m64s(simd.less_than_f64s(least, low), simd.greater_than_f64s(most, high));
    simd.first_true_m64s(beyond) == S::F64_LANES
}

/// The processor's guess of `1/√x`, good to 14 bits.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn guess<S: Simd>(guesses: Guesses, x: S::f64s) -> S::f64s {
    let eight: [f64; 8] = pulp::bytemuck::cast(x);
    let guess: [f64; 8] = pulp::cast(guesses.avx512f._mm512_rsqrt14_pd(pulp::cast(eight)));
    pulp::bytemuck::cast(guess)
}

#[cfg(not(target_arch = "x86_64"))]
fn guess<S: Simd>(guesses: Guesses, _x: S::f64s) -> S::f64s {
    match guesses {}
}

/// True if eight roots take the processor longer than correcting eight guesses does. So it is on Intel's; on AMD's of the
/// fourth generation the shares of rows take a seventh less with the processor's own.
#[cfg(target_arch = "x86_64")]
fn roots_are_slow() -> bool {
    static SLOW: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *SLOW.get_or_init(|| {
        let leaf = std::arch::x86_64::__cpuid(0);
        let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes);
        vendor.as_flattened() != b"AuthenticAMD"
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn roots_are_slow() -> bool {
    false
}

/// `√x` from a guess of `1/√x` that is good to 14 bits: with all bits of a correctly rounded root.
#[inline(always)]
fn corrected_root<S: Simd>(simd: S, x: S::f64s, guess: S::f64s) -> S::f64s {
    let half = simd.splat_f64s(0.5);
    // s → √x and h → 1/(2√x): to 14 bits, to 28, and s to 56.
    let (s, h) = (simd.mul_f64s(x, guess), simd.mul_f64s(half, guess));
    let off = simd.negate_mul_add_f64s(s, h, half);
    let (s, h) = (simd.mul_add_f64s(s, off, s), simd.mul_add_f64s(h, off, h));
    let s = simd.mul_add_f64s(simd.negate_mul_add_f64s(s, s, x), h, s);
    // Now s is a root but for its last bit, and what it leaves of x is exact. With h as good as s the last correction is
    // off by less than √x can be from the middle between two numbers.
    let off = simd.negate_mul_add_f64s(s, h, half);
    let h = simd.mul_add_f64s(simd.add_f64s(h, h), off, h);
    simd.mul_add_f64s(simd.negate_mul_add_f64s(s, s, x), h, s)
}

/// `φ(s) = ln(1 + e^{−s})` and `−φ'(s) = 1/(1 + e^{s})` together, from one exponential and one division;
/// both to a relative error below 1e-15 wherever they are normal numbers, and NaN only where `s` is not finite.
#[inline(always)]
pub(crate) fn softplus_and_slope(s: f64) -> (f64, f64) {
    let t = exp_nonpositive(-s.abs());
    // ln(1+t) = k ln 2 + ln(1+f) with 1+f in [√½, √2], so that f/(2+f) is small.
    let upper = t > std::f64::consts::SQRT_2 - 1.0;
    let f = if upper { (t - 1.0) * 0.5 } else { t };
    let k = if upper { std::f64::consts::LN_2 } else { 0.0 };
    let one_plus_t = 1.0 + t;
    let two_plus_f = 2.0 + f;
    // One division serves both quotients.
    let reciprocal = 1.0 / (one_plus_t * two_plus_f);
    let v = f * one_plus_t * reciprocal;
    let log = log_of_quotient(v, k);
    // ½(|s| − s) is max(−s, 0), and NaN where s is not finite.
    let softplus = (s.abs() - s).mul_add(0.5, log);
    let numerator = if s < 0.0 { 1.0 } else { t };
    (softplus, numerator * two_plus_f * reciprocal)
}

/// `−ln(1 − u)` for a multiple of 2⁻⁵² in [0, 1), to a relative error below 1e-15: exponential where `u` is uniform.
#[inline(always)]
pub(crate) fn exponential(u: f64) -> f64 {
    const ONE: u64 = 1023 << 52;
    let sqrt_half = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    // 1 − u = 2ᵏ(1 + f) with 1 + f in [√½, √2).
    let shifted = (1.0 - u).to_bits() + (ONE - sqrt_half);
    let k = f64::from_bits((shifted >> 52) | TWO_TO_52.to_bits()) - (TWO_TO_52 + 1023.0);
    let f = f64::from_bits((shifted & ((1 << 52) - 1)) + sqrt_half) - 1.0;
    // From 0, so that it is never −0.
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

/// `a·b` of two slices of one length, summed in interleaved parts that vectorise, always the same ones.
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

/// A sum of eight parts in a fixed order.
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
        assert_eq!(exponential(0.0).to_bits(), 0, "not −0: times are compared by their bits");
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

    /// Roots that are nearly in the middle between two numbers.
    const HARD: [u64; 3] = [0x3ffd_407b_b364_1da5, 0x4005_b953_4497_2fe2, 0x3ff2_b035_c119_7f48];

    proptest! {
        #[test]
        fn guessed_roots_have_the_bits_of_the_standard_library(
            fraction in prop_oneof![1.0f64..4.0, (0..HARD.len()).prop_map(|at| f64::from_bits(HARD[at]))],
            exponent in -464i32..=464,
            off in -1.0f64..1.0,
        ) {
            let x = fraction * 2f64.powi(exponent).powi(2);
            let guess = (1.0 + off * 2f64.powi(-14)) / x.sqrt();
            prop_assert_eq!(corrected_root(pulp::Scalar, x, guess), x.sqrt());
        }

        /// By the processor's own guess, if it has one.
        #[test]
        fn roots_have_the_bits_of_the_standard_library(
            exponents in prop::array::uniform32(-510i32..=511),
            fractions in prop::array::uniform32(1.0f64..4.0),
        ) {
            let numbers: [f64; 32] =
                std::array::from_fn(|i| fractions[i] * 2f64.powi(exponents[i]).powi(2));
            prop_assert_eq!(by_both_ways(&numbers), numbers.map(f64::sqrt));
        }
    }

    /// By the processor's own roots, and by its guesses if it has any; the same bits.
    fn by_both_ways(numbers: &[f64]) -> Vec<f64> {
        let ways = [false, true].map(|guess| {
            let mut numbers = numbers.to_vec();
            with_vectors(Finding { numbers: &mut numbers, guess });
            numbers
        });
        let bits = ways.each_ref().map(|roots| roots.iter().map(|root| root.to_bits()).collect::<Vec<_>>());
        assert_eq!(bits[0], bits[1]);
        let [roots, _] = ways;
        roots
    }

    struct Finding<'a> {
        numbers: &'a mut [f64],
        guess: bool,
    }

    impl WithSimd for Finding<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let roots = Roots { guesses: if self.guess { Roots::guessed::<S>() } else { None } };
            few_mut::<S, 4>(self.numbers).iter_mut().for_each(|few| roots.find(simd, few));
        }
    }

    #[test]
    fn roots_at_the_edges() {
        let numbers = [0.0, 1e-281, 5e-324, 1e-280, 1.0, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY];
        for number in numbers.into_iter().chain(HARD.map(f64::from_bits)) {
            // Alone among others, for these decide how.
            for place in [1, 9, 17, 25] {
                let mut numbers = [4.0; 32];
                numbers[place] = number;
                assert_eq!(by_both_ways(&numbers), numbers.map(f64::sqrt));
            }
            // A NaN in the same lane of the vector before or after hides nothing.
            for (place, hiding) in [(1, 9), (9, 1)] {
                let mut numbers = [4.0; 32];
                (numbers[place], numbers[hiding]) = (number, f64::NAN);
                let roots = by_both_ways(&numbers);
                assert!(roots[place] == number.sqrt() && roots[hiding].is_nan());
            }
        }
        assert!(by_both_ways(&[f64::NAN; 32]).iter().all(|root| root.is_nan()));
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
                few_mut::<S, 4>(self.0).iter_mut().for_each(|few| two_to_minus(simd, few));
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
