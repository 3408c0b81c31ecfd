//! Nearest weights: non-negative weights whose features add up to the target as nearly as they can, close to the reference ones.
//!
//! With the points' features as the columns of `A`, the weights minimise over `w ≥ 0`
//! `f(w) = ½‖Aw − b‖² + ½ρ Σ_m (w_m − w⁰_m)²/w⁰_m`, a calibration estimator of survey sampling (Deville and
//! Särndal 1992). There are two solvers; the first is exact, the second approximate.
//!
//! *Dual*, for few features: `w = w⁰ ∘ max(0, 1 + Aᵀλ)`, and a semismooth Newton method with a line search finds the
//! `λ` of dimension d.
//!
//! *Support*, for features as many as rows or more: the minimum without `w ≥ 0` is one linear system of dimension M,
//! whose matrix is the closed-form Gram matrix. Rows with a negative weight are dropped and the system is solved again, until
//! there are none. The weights are then optimal for the rows that remain; whether a dropped row should return is decided by
//! pricing. One Cholesky factor serves all these solves: with `Q = LLᵀ` and the dropped rows `T`, the
//! solution that is 0 on `T` is `w − Q⁻¹E_T ((Q⁻¹)_TT)⁻¹ w_T`. Where the matrix would not fit, conjugate gradients
//! with products `A·` and `Aᵀ·` are used instead.

use faer::Mat;

use super::cholesky::factor;
use crate::base::linear::{
    Cholesky, add_lower_product, product, solve_lower, solve_lower_transposed, subtract_product,
};
use crate::model::local_features::{LocalFeatures, LocalSum};

/// The dual is taken for at most this many features: its matrices are d×d and d×M.
const DUAL_FEATURES: usize = 600;
/// The dual's gradient, relative to the target, at which it is solved.
const DUAL_TOLERANCE: f64 = 1e-7;
/// Above this many rows conjugate gradients replace the Gram matrix.
const GRAM_ROWS: usize = 5_000;
/// Newton steps of the dual, or solves of one support, at most.
const NEWTON_STEPS: usize = 60;
/// Conjugate gradients stop at this residual, relative to the right-hand side, or after so many products.
const GRADIENTS_TOLERANCE: f64 = 1e-7;
const GRADIENTS_PRODUCTS: usize = 400;
/// How often weights are changed approximately, and by how many conjugate gradient steps each time.
const CHANGES: usize = 2;
const CHANGE_PRODUCTS: usize = 8;
/// Every row keeps at least this fraction of its weight: a direction without any row is lost for good.
const KEPT: f64 = 0.5;
/// The ridge that keeps every system positive definite, whatever the reference weights are, relative to a unit diagonal.
const LEAST_RIDGE: f64 = 1e-11;

/// Weights, and how well they meet the target.
#[derive(Clone, Debug)]
pub struct Weights {
    /// The weights, none negative; 0 where the row is not needed.
    pub weights: Vec<f64>,
    /// `b − Aw`; its squared norm is the predicted KL.
    pub residual: LocalSum,
    /// Linear systems solved.
    pub solves: usize,
}

/// The weights nearest to `reference` (all positive) that meet `target`.
///
/// `nearness` is what it costs, in nats, to change every weight by its own size: `ρ = nearness / Σ w⁰`.
/// The smaller it is, the more exactly the target is met. It must not be 0, because it decides between the many weights that
/// meet the target equally well.
pub fn nearest_weights(
    features: &LocalFeatures,
    target: &LocalSum,
    reference: &[f64],
    nearness: f64,
) -> Weights {
    let ridge = ridge(reference, nearness);
    // The dual loses all digits if reference weights span very many orders of magnitude; the support solver does not.
    let few_features = features.feature_count() <= features.len().min(DUAL_FEATURES);
    let dual = if few_features { by_dual(features, target, reference, ridge) } else { None };
    let (weights, solves) = dual.unwrap_or_else(|| by_support(features, target, reference, ridge, GRAM_ROWS));
    let residual = target.minus(&features.sum(&weights));
    Weights { weights, residual, solves }
}

/// Weights near `reference` (all positive) that come nearer to `target` without meeting it: a few conjugate gradient steps,
/// each of which costs as much as two sums of all features. Stopped early, they change the weights where that helps most.
pub fn approximate_weights(features: &LocalFeatures, target: &LocalSum, reference: &[f64]) -> Weights {
    let mut weights = reference.to_vec();
    let mut residual = target.minus(&features.sum(&weights));
    let mut solves = 0;
    while solves < CHANGES {
        let change = features.weight_change(&residual, &weights);
        let changed: Vec<f64> = weights
            .iter()
            .zip(&change)
            .zip(reference)
            .map(|((weight, change), reference)| (weight + change).max(KEPT * reference))
            .collect();
        let left = target.minus(&features.sum(&changed));
        solves += 1;
        if left.norm_squared() >= residual.norm_squared() {
            break;
        }
        (weights, residual) = (changed, left);
    }
    Weights { weights, residual, solves }
}

impl LocalFeatures {
    /// The change of weights that reduces a residual most, by a few conjugate gradient steps for
    /// `S(AᵀA)S v = SAᵀr` with `S = diag √w`, so that every weight changes in proportion to itself.
    fn weight_change(&self, residual: &LocalSum, weights: &[f64]) -> Vec<f64> {
        let roots: Vec<f64> = weights.iter().map(|weight| weight.sqrt()).collect();
        let scaled = |v: &[f64]| -> Vec<f64> { v.iter().zip(&roots).map(|(v, root)| v * root).collect() };
        let square = |v: &[f64]| v.iter().map(|v| v * v).sum::<f64>();
        let mut change = vec![0.0; weights.len()];
        let mut rest = scaled(&self.scores(residual));
        let mut direction = rest.clone();
        let mut norm = square(&rest);
        for _ in 0..CHANGE_PRODUCTS {
            let image = self.sum(&scaled(&direction));
            let length = norm / image.norm_squared();
            if !length.is_finite() {
                break;
            }
            let back = scaled(&self.scores(&image));
            for m in 0..change.len() {
                change[m] += length * direction[m];
                rest[m] -= length * back[m];
            }
            let next = square(&rest);
            let conjugacy = next / norm;
            norm = next;
            direction.iter_mut().zip(&rest).for_each(|(d, r)| *d = r + conjugacy * *d);
        }
        scaled(&change)
    }
}

/// `ρ`.
fn ridge(reference: &[f64], nearness: f64) -> f64 {
    let total: f64 = reference.iter().sum();
    if total > 0.0 { nearness / total } else { nearness }
}

/// Semismooth Newton for `G(λ) = A w(λ) − b + ρλ = 0`, the gradient of the convex dual; `None` if it does not converge.
fn by_dual(
    features: &LocalFeatures,
    target: &LocalSum,
    reference: &[f64],
    ridge: f64,
) -> Option<(Vec<f64>, usize)> {
    let dual = Dual { features: features.dense(), target: target.to_vec(), reference, ridge };
    let mut at = dual.start();
    let mut active = vec![true; reference.len()];
    let mut solves = 0;
    while solves < NEWTON_STEPS {
        solves += 1;
        let Some(step) = dual.newton_step(&at, &active) else { break };
        let (length, improved) = dual.search(&mut at, &step);
        let now_active: Vec<bool> = at.tilt.iter().map(|t| 1.0 + t > 0.0).collect();
        let settled = now_active == active && length == 1.0;
        active = now_active;
        if settled || !improved {
            break;
        }
    }
    let weights: Vec<f64> = reference.iter().zip(&at.tilt).map(|(w, t)| w * (1.0 + t).max(0.0)).collect();
    dual.is_solved(&at, &weights).then_some((weights, solves))
}

/// The convex dual `½Σ w⁰ max(0, 1 + Aᵀλ)² − λ·b + ½ρ‖λ‖²`.
struct Dual<'a> {
    /// `A`, d×M.
    features: Mat<f64>,
    /// `b`.
    target: Vec<f64>,
    /// `w⁰`.
    reference: &'a [f64],
    /// `ρ`.
    ridge: f64,
}

/// A point of the dual with its value.
struct DualPoint {
    lambda: Vec<f64>,
    /// `Aᵀλ`: the relative change of every weight.
    tilt: Vec<f64>,
    value: f64,
}

impl Dual<'_> {
    fn start(&self) -> DualPoint {
        self.point(vec![0.0; self.target.len()], vec![0.0; self.reference.len()])
    }

    fn point(&self, lambda: Vec<f64>, tilt: Vec<f64>) -> DualPoint {
        let weighted: f64 =
            self.reference.iter().zip(&tilt).map(|(w, t)| 0.5 * w * (1.0 + t).max(0.0).powi(2)).sum();
        let linear: f64 = lambda.iter().zip(&self.target).map(|(l, b)| l * b).sum();
        let square: f64 = lambda.iter().map(|l| l * l).sum();
        DualPoint { lambda, tilt, value: weighted - linear + 0.5 * self.ridge * square }
    }

    /// The step to `λ⁺`, where `(ρI + A_S W_S A_Sᵀ) λ⁺ = b − A_S w⁰_S` for the active rows `S`; `None` if the matrix is singular.
    fn newton_step(&self, at: &DualPoint, active: &[bool]) -> Option<Vec<f64>> {
        let (d, count) = (self.features.nrows(), self.features.ncols());
        let mut scaled = Mat::zeros(d, count);
        let mut next = Mat::from_fn(d, 1, |i, _| self.target[i]);
        for m in (0..count).filter(|&m| active[m]) {
            let (column, weight) = (self.features.col_as_slice(m), self.reference[m]);
            let root = weight.sqrt();
            scaled.col_as_slice_mut(m).iter_mut().zip(column).for_each(|(s, a)| *s = root * a);
            next.col_as_slice_mut(0).iter_mut().zip(column).for_each(|(r, a)| *r -= weight * a);
        }
        let mut jacobian = Mat::zeros(d, d);
        add_lower_product(jacobian.as_mut(), scaled.as_ref(), scaled.transpose());
        let largest = (0..d).map(|i| jacobian[(i, i)]).fold(0.0, f64::max);
        (0..d).for_each(|i| jacobian[(i, i)] += self.ridge.max(1e-15 * largest));
        let next = Cholesky::new(jacobian.as_ref())?.solve(next);
        Some((0..d).map(|i| next[(i, 0)] - at.lambda[i]).collect())
    }

    /// Halves the step until the dual does not increase, and moves there. Returns the fraction of the step that was taken, and whether
    /// the dual decreased.
    fn search(&self, at: &mut DualPoint, step: &[f64]) -> (f64, bool) {
        let product = |m: usize| self.features.col_as_slice(m).iter().zip(step).map(|(a, s)| a * s).sum();
        let tilt_step: Vec<f64> = (0..self.reference.len()).map(product).collect();
        let mut length = 1.0;
        loop {
            let moved = |from: &[f64], step: &[f64]| -> Vec<f64> {
                from.iter().zip(step).map(|(a, s)| a + length * s).collect()
            };
            let trial = self.point(moved(&at.lambda, step), moved(&at.tilt, &tilt_step));
            if trial.value <= at.value {
                let improved = at.value > trial.value;
                *at = trial;
                return (length, improved);
            }
            length *= 0.5;
            if length < 1e-9 {
                return (length, false);
            }
        }
    }

    /// True if the gradient `Aw − b + ρλ` is small enough.
    fn is_solved(&self, at: &DualPoint, weights: &[f64]) -> bool {
        let mut gradient: Vec<f64> =
            at.lambda.iter().zip(&self.target).map(|(l, b)| self.ridge * l - b).collect();
        for (m, w) in weights.iter().enumerate() {
            gradient.iter_mut().zip(self.features.col_as_slice(m)).for_each(|(g, a)| *g += w * a);
        }
        let square = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
        square(&gradient) <= DUAL_TOLERANCE * DUAL_TOLERANCE * square(&self.target)
    }
}

/// The minimum on a support that only shrinks: every row whose weight would be negative is dropped. Above `gram_rows` rows
/// it is found by conjugate gradients.
fn by_support(
    features: &LocalFeatures,
    target: &LocalSum,
    reference: &[f64],
    ridge: f64,
    gram_rows: usize,
) -> (Vec<f64>, usize) {
    let mut weights = vec![0.0; features.len()];
    let norms = features.norms_squared();
    // Scaled so that the system has a unit diagonal: weights may span many orders of magnitude.
    let penalty: Vec<f64> =
        (0..features.len()).map(|m| (ridge / reference[m]).max(LEAST_RIDGE * norms[m])).collect();
    let mut support: Vec<usize> =
        (0..features.len()).filter(|&m| (norms[m] + penalty[m]).is_normal()).collect();
    let mut solves = 0;
    while !support.is_empty() {
        let chosen = features.select(&support);
        let scores = chosen.scores(target);
        let scale: Vec<f64> = support.iter().map(|&m| 1.0 / (norms[m] + penalty[m]).sqrt()).collect();
        let right: Vec<f64> = (0..support.len()).map(|i| scale[i] * (scores[i] + ridge)).collect();
        let diagonal: Vec<f64> = support.iter().map(|&m| penalty[m]).collect();
        let system = System { features: &chosen, scale: &scale, diagonal: &diagonal };
        let solution = if support.len() <= gram_rows {
            system.solve_by_gram(&right, &mut solves)
        } else {
            system.solve_by_gradients(&right, &mut solves)
        };
        let settled = solution.settled || solves >= NEWTON_STEPS;
        let kept = |i: &usize| solution.values[*i] > 0.0;
        if settled {
            (0..support.len()).filter(kept).for_each(|i| weights[support[i]] = scale[i] * solution.values[i]);
            break;
        }
        support = (0..support.len()).filter(kept).map(|i| support[i]).collect();
    }
    (weights, solves)
}

/// The solution of a system, 0 or negative in the rows that must be dropped.
struct Solution {
    values: Vec<f64>,
    /// True if the values are optimal, with 0 for the dropped rows.
    settled: bool,
}

/// `Q = T(AᵀA + diag)T` with `T` such that the diagonal of `Q` is 1.
struct System<'a> {
    features: &'a LocalFeatures,
    scale: &'a [f64],
    diagonal: &'a [f64],
}

impl System<'_> {
    /// Solves `Qv = right`, then again with the negative entries held at 0, with the same factor as long as few are dropped.
    fn solve_by_gram(&self, right: &[f64], solves: &mut usize) -> Solution {
        let count = right.len();
        let mut matrix = self.features.gram(self.features);
        for j in 0..count {
            for (value, scale) in matrix.col_as_slice_mut(j).iter_mut().zip(self.scale) {
                *value *= scale * self.scale[j];
            }
            matrix[(j, j)] = 1.0;
        }
        *solves += 1;
        if !factor(&mut matrix) {
            // Impossible with a ridge well above rounding; the diagonal alone is then the best approximation.
            return Solution { values: right.to_vec(), settled: true };
        }
        let lower = matrix.as_ref();
        let mut solution = Mat::from_fn(count, 1, |i, _| right[i]);
        solve_lower(lower, solution.as_mut());
        let forward = solution.clone();
        solve_lower_transposed(lower, solution.as_mut());
        let mut left: Vec<usize> = Vec::new();
        let mut gone = vec![false; count];
        let settled = loop {
            let leaving: Vec<usize> = (0..count).filter(|&m| !gone[m] && solution[(m, 0)] < 0.0).collect();
            leaving.iter().for_each(|&m| gone[m] = true);
            left.extend(&leaving);
            if leaving.is_empty() {
                break true;
            }
            // The work grows with the dropped rows; from here a new factor is cheaper.
            if left.len() > count / 8 {
                break false;
            }
            *solves += 1;
            // X = L⁻¹E_T, (Q⁻¹)_TT = XᵀX, (Q⁻¹right)_T = Xᵀ(L⁻¹right).
            let mut columns = Mat::from_fn(count, left.len(), |i, j| if i == left[j] { 1.0 } else { 0.0 });
            solve_lower(lower, columns.as_mut());
            let inner = product(columns.transpose(), columns.as_ref());
            let multipliers = product(columns.transpose(), forward.as_ref());
            let Some(inner) = Cholesky::new(inner.as_ref()) else { break false };
            let multipliers = inner.solve(multipliers);
            solution = forward.clone();
            subtract_product(solution.as_mut(), columns.as_ref(), multipliers.as_ref());
            solve_lower_transposed(lower, solution.as_mut());
        };
        let values = (0..count).map(|m| if gone[m] { 0.0 } else { solution[(m, 0)] }).collect();
        Solution { values, settled }
    }

    /// Solves `Qv = right` by conjugate gradients.
    fn solve_by_gradients(&self, right: &[f64], solves: &mut usize) -> Solution {
        *solves += 1;
        let mut solution = vec![0.0; right.len()];
        let mut rest = right.to_vec();
        let mut direction = rest.clone();
        let mut norm: f64 = rest.iter().map(|r| r * r).sum();
        let enough = norm * GRADIENTS_TOLERANCE * GRADIENTS_TOLERANCE;
        for _ in 0..GRADIENTS_PRODUCTS {
            if norm <= enough {
                break;
            }
            let scaled: Vec<f64> = direction.iter().zip(self.scale).map(|(d, s)| d * s).collect();
            let scores = self.features.scores(&self.features.sum(&scaled));
            let image: Vec<f64> = (0..right.len())
                .map(|m| self.scale[m] * (scores[m] + self.diagonal[m] * scaled[m]))
                .collect();
            let curvature: f64 = direction.iter().zip(&image).map(|(a, b)| a * b).sum();
            if curvature <= 0.0 {
                break;
            }
            let length = norm / curvature;
            let mut next = 0.0;
            for m in 0..right.len() {
                solution[m] += length * direction[m];
                rest[m] -= length * image[m];
                next += rest[m] * rest[m];
            }
            let conjugacy = next / norm;
            norm = next;
            direction.iter_mut().zip(&rest).for_each(|(d, r)| *d = r + conjugacy * *d);
        }
        let settled = solution.iter().all(|v| *v >= 0.0);
        Solution { values: solution, settled }
    }
}

#[cfg(test)]
mod tests {
    use faer::linalg::solvers::Solve;

    use super::*;
    use crate::model::local_features::tests::example;
    use proptest::prelude::*;

    /// `½‖Aw − b‖² + ½ρΣ(w − w⁰)²/w⁰` and its gradient, from explicit feature vectors.
    fn objective(dense: &Mat<f64>, b: &[f64], reference: &[f64], rho: f64, w: &[f64]) -> (f64, Vec<f64>) {
        let mut residual = b.iter().map(|b| -b).collect::<Vec<f64>>();
        for (m, w) in w.iter().enumerate() {
            residual.iter_mut().zip(dense.col_as_slice(m)).for_each(|(r, a)| *r += w * a);
        }
        let mut value = 0.5 * residual.iter().map(|r| r * r).sum::<f64>();
        let gradient = (0..w.len())
            .map(|m| {
                let change = w[m] - reference[m];
                value += 0.5 * rho * change * change / reference[m];
                rho * change / reference[m]
                    + dense.col_as_slice(m).iter().zip(&residual).map(|(a, r)| a * r).sum::<f64>()
            })
            .collect();
        (value, gradient)
    }

    /// A plain slow way: projected gradient steps with a safe length.
    fn slowly(dense: &Mat<f64>, b: &[f64], reference: &[f64], rho: f64) -> Vec<f64> {
        let squares: f64 =
            (0..dense.ncols()).map(|m| dense.col_as_slice(m).iter().map(|a| a * a).sum::<f64>()).sum();
        let least = reference.iter().copied().fold(f64::INFINITY, f64::min);
        let length = 1.0 / (squares + rho / least);
        let mut w = reference.to_vec();
        for _ in 0..200_000 {
            let (_, gradient) = objective(dense, b, reference, rho, &w);
            w.iter_mut().zip(&gradient).for_each(|(w, g)| *w = (*w - length * g).max(0.0));
        }
        w
    }

    #[test]
    fn the_dual_agrees_with_projected_gradients() {
        // Half the points are the data; the reference weights are wrong on purpose, so that some become 0.
        let (map, points) = example(2, 12, 5);
        let features = map.features(&points);
        let wanted: Vec<f64> = (0..12).map(|m| if m % 2 == 0 { 2.0 } else { 0.0 }).collect();
        let target = features.sum(&wanted);
        let reference = points.weights();
        let nearness = 0.05;
        let rho = nearness / reference.iter().sum::<f64>();
        let solved = nearest_weights(&features, &target, &reference, nearness);
        let slow = slowly(&features.dense(), &target.to_vec(), &reference, rho);
        assert!(slow.contains(&0.0), "the constraint must matter: {slow:?}");
        for (a, b) in solved.weights.iter().zip(&slow) {
            assert!((a - b).abs() < 1e-6, "{:?} against {slow:?}", solved.weights);
        }
    }

    #[test]
    fn approximate_weights_come_nearer() {
        // d = 44 features, 60 rows whose reference weights have errors of up to a half.
        let (map, points) = example(8, 60, 3);
        let features = map.features(&points);
        let target = features.sum(&points.weights());
        let reference: Vec<f64> =
            points.weights().iter().enumerate().map(|(m, w)| w * (0.5 + (m % 4) as f64 / 3.0)).collect();
        let before = target.minus(&features.sum(&reference)).norm_squared();
        let changed = approximate_weights(&features, &target, &reference);
        let left = target.minus(&features.sum(&changed.weights));
        assert_eq!(left, changed.residual);
        assert!(changed.weights.iter().zip(&reference).all(|(w, reference)| *w >= KEPT * reference));
        assert!(left.norm_squared() < 0.01 * before, "{before} {}", left.norm_squared());
        // Where nothing is asked for, nothing changes.
        let met = approximate_weights(&features, &features.sum(&reference), &reference);
        assert_eq!(met.weights, reference);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn the_dual_meets_the_optimality_conditions(seed in 0u64..1000, nearness in -8.0f64..0.0, spread in 0.0f64..3.0) {
            let (map, points) = example(3, 60, seed);
            let features = map.features(&points);
            let reference: Vec<f64> =
                points.weights().iter().enumerate().map(|(m, w)| w * 10f64.powf(spread * ((m % 5) as f64 - 2.0) / 2.0)).collect();
            let target = features.sum(&points.weights());
            let nearness = 10f64.powf(nearness);
            let rho = nearness / reference.iter().sum::<f64>();
            let solved = nearest_weights(&features, &target, &reference, nearness);
            let dense = features.dense();
            let (_, gradient) = objective(&dense, &target.to_vec(), &reference, rho, &solved.weights);
            for (m, gradient) in gradient.iter().copied().enumerate() {
                let norm = dense.col_as_slice(m).iter().map(|a| a * a).sum::<f64>().sqrt();
                let slack = 1e-7 * (norm * target.norm_squared().sqrt() + rho);
                prop_assert!(solved.weights[m] >= 0.0);
                prop_assert!(gradient >= -slack, "row {m}: {} {}", solved.weights[m], gradient);
                if solved.weights[m] > 0.0 {
                    prop_assert!(gradient <= slack * (1.0 + 1.0 / solved.weights[m]), "row {m}: {} {}", solved.weights[m], gradient);
                }
            }
        }

        #[test]
        fn the_support_is_optimal_on_itself(seed in 0u64..1000, nearness in -8.0f64..0.0) {
            // d = 44 features, 40 rows: the support solver.
            let (map, points) = example(8, 40, seed);
            let features = map.features(&points);
            let (_, others) = example(8, 200, seed + 5000);
            let target = map.features(&others).sum(&vec![0.2; 200]);
            let reference = points.weights();
            let nearness = 10f64.powf(nearness);
            let rho = nearness / reference.iter().sum::<f64>();
            let solved = nearest_weights(&features, &target, &reference, nearness);
            let (value, gradient) = objective(&features.dense(), &target.to_vec(), &reference, rho, &solved.weights);
            let (nothing, _) = objective(&features.dense(), &target.to_vec(), &reference, rho, &[0.0; 40]);
            prop_assert!(value < nothing);
            for (m, gradient) in gradient.iter().copied().enumerate() {
                prop_assert!(solved.weights[m] >= 0.0);
                if solved.weights[m] > 0.0 {
                    prop_assert!(gradient.abs() < 1e-8, "row {m}: {} {}", solved.weights[m], gradient);
                }
            }
        }
    }

    #[test]
    fn leaving_rows_on_one_factor_is_solving_again() {
        let (map, points) = example(8, 40, 3);
        let features = map.features(&points);
        let (_, others) = example(8, 200, 77);
        let target = map.features(&others).sum(&vec![0.2; 200]);
        let solved = nearest_weights(&features, &target, &points.weights(), 1e-4);
        let rho = 1e-4 / points.weights().iter().sum::<f64>();
        let support: Vec<usize> = (0..40).filter(|&m| solved.weights[m] > 0.0).collect();
        assert!(support.len() < 40, "some row must leave");
        // Solved afresh on the support, by a different factorisation.
        let chosen = features.select(&support);
        let mut system = chosen.gram(&chosen);
        (0..support.len()).for_each(|i| system[(i, i)] += rho / points.weight(support[i]));
        let scores = chosen.scores(&target);
        let right = Mat::from_fn(support.len(), 1, |i, _| scores[i] + rho);
        let fresh = system.partial_piv_lu().solve(right);
        for (i, &m) in support.iter().enumerate() {
            assert!((fresh[(i, 0)] - solved.weights[m]).abs() < 1e-6 * (1.0 + solved.weights[m]));
        }
    }

    #[test]
    fn conjugate_gradients_solve_the_same_system() {
        let (map, points) = example(8, 40, 9);
        let features = map.features(&points);
        let norms = features.norms_squared();
        let diagonal = vec![0.5; 40];
        let scale: Vec<f64> = norms.iter().map(|n| 1.0 / (n + 0.5).sqrt()).collect();
        let system = System { features: &features, scale: &scale, diagonal: &diagonal };
        // A right-hand side whose solution is positive: no row leaves.
        let wanted: Vec<f64> = (1..=40).map(f64::from).collect();
        let scaled: Vec<f64> = wanted.iter().zip(&scale).map(|(a, b)| a * b).collect();
        let scores = features.scores(&features.sum(&scaled));
        let right: Vec<f64> = (0..40).map(|m| scale[m] * (scores[m] + diagonal[m] * scaled[m])).collect();
        let mut solves = 0;
        for solution in
            [system.solve_by_gram(&right, &mut solves), system.solve_by_gradients(&right, &mut solves)]
        {
            assert!(solution.settled);
            for (a, b) in solution.values.iter().zip(&wanted) {
                assert!((a - b).abs() < 1e-4 * 40.0, "{a} against {b}");
            }
        }
    }

    #[test]
    fn gradients_and_the_factor_lead_to_weights_that_are_equally_good() {
        // d = 299 features, 250 rows, of which some must leave: the whole way, not one system alone.
        let (map, points) = example(23, 250, 12);
        let features = map.features(&points);
        let (_, others) = example(23, 2000, 91);
        let target = map.features(&others).sum(&vec![0.125; 2000]);
        let reference = points.weights();
        let ridge = ridge(&reference, 1e-3);
        let by = |most: usize| {
            let (weights, _) = by_support(&features, &target, &reference, ridge, most);
            assert!(weights.iter().all(|w| *w >= 0.0));
            let (value, gradient) =
                objective(&features.dense(), &target.to_vec(), &reference, ridge, &weights);
            (weights, value, gradient)
        };
        let ((direct, by_factor, slope), (iterated, by_gradients, gradient)) = (by(GRAM_ROWS), by(0));
        assert!(direct.contains(&0.0), "some row must leave");
        // On the rows that stayed, the gradient is 0 to rounding, or as far as conjugate gradients go.
        let size = features.scores(&target).iter().fold(0.0f64, |size, score| size.max(score.abs()));
        for (weights, gradient, limit) in [(direct, slope, 1e-9), (iterated, gradient, 1e-4)] {
            for (weight, gradient) in weights.iter().zip(gradient).filter(|(weight, _)| **weight > 0.0) {
                assert!(gradient.abs() < limit * size, "{weight}: {gradient} of {size}");
            }
        }
        // Both drop rows by their signs on the way, and so need not end with the same rows.
        assert!((by_gradients / by_factor - 1.0).abs() < 0.15, "{by_gradients} against {by_factor}");
    }

    #[test]
    fn equal_rows_and_weights_of_all_sizes_do_no_harm() {
        let (map, points) = example(8, 20, 4);
        let features = map.features(&points).select(&[0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
        let reference: Vec<f64> = (0..14).map(|m| 10f64.powi(12 - 2 * (m % 13))).collect();
        let target = map.features(&points).sum(&[1.0; 20]);
        let solved = nearest_weights(&features, &target, &reference, 1e-6);
        assert!(solved.weights.iter().all(|w| w.is_finite() && *w >= 0.0));
        assert!(solved.residual.norm_squared() < target.norm_squared());
    }
}
