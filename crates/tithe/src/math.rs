//! Elementary functions that vectorise: branch-free, fused multiply-adds, no tables.
//!
//! Kernels call them inside [`vectorized`], which compiles the kernel for the processor's own vector
//! units and chooses at run time. A fused multiply-add is correctly rounded everywhere, and sums are
//! kept in a fixed order, so a kernel gives the same bits on every processor.

/// Runs a kernel compiled for the widest vector units there are. The kernel and all it calls must
/// be `#[inline(always)]`, or they are compiled for the plainest processor.
#[inline(always)]
pub(crate) fn vectorized<R>(kernel: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(kernel)
}

/// `1.5·2⁵²`: adding it rounds a small number to the nearest integer, left in the low bits.
const ROUND: f64 = 6755399441055744.0;
const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Below this `eˣ` is not a normal number; it is taken to be `e⁻⁷⁰⁸ ≈ 3.3e-308`, as good as 0.
const SMALLEST: f64 = -708.0;

/// `eˣ` for `x ≤ 0`, to 2 units in the last place; smaller than 4e-308 becomes 3.3e-308.
#[inline(always)]
pub(crate) fn exp_nonpositive(x: f64) -> f64 {
    // x = n ln 2 + r with |r| ≤ ½ ln 2; eʳ by its Taylor polynomial, whose remainder is below 2⁻⁵⁷.
    let x = if x > SMALLEST { x } else { SMALLEST };
    let shifted = x.mul_add(std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut p: f64 = 1.0 / 6_227_020_800.0;
    for coefficient in [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        p = p.mul_add(r, coefficient);
    }
    // The integer n stands in the low bits of `shifted`; move it to the exponent of 2ⁿ.
    let two_to_n = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    p * two_to_n
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
    }

    #[test]
    fn exp_at_the_edges() {
        assert_eq!(exp_nonpositive(0.0), 1.0);
        assert!(exp_nonpositive(-1e300) < 1e-300);
        assert!(exp_nonpositive(f64::NEG_INFINITY) < 1e-300);
        assert!(exp_nonpositive(-708.5) > 0.0);
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
}
