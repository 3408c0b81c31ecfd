//! Bases of functions of one number: B-splines, natural splines and polynomials.

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::base::linear::Cholesky;

/// The most columns of a basis.
pub(super) const MOST_COLUMNS: usize = 50;
/// The highest degree of a spline or polynomial.
pub(super) const HIGHEST_DEGREE: usize = 10;
/// The most B-splines, with those that a basis leaves out.
const MOST_SPLINES: usize = MOST_COLUMNS + 3;

/// A basis of functions, with the constants that were learnt from the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// `bs`: B-splines without the first one, as in R, patsy and formulaic. Beyond the boundary knots the outermost polynomials are
    /// continued.
    Spline {
        /// The degree of the polynomials.
        degree: usize,
        /// All knots, with each boundary knot `degree + 1` times.
        knots: Vec<f64>,
    },
    /// `ns`: natural cubic splines, as `ns` of R's package splines. Beyond the boundary knots they are straight lines.
    Natural {
        /// All knots, with each boundary knot four times.
        knots: Vec<f64>,
        /// Each column as coefficients of the cubic B-splines without the first one.
        columns: Vec<Vec<f64>>,
    },
    /// `poly`: polynomials that are orthonormal over the rows, as in R.
    Polynomial {
        /// The mean.
        center: f64,
        /// The standard deviation.
        scale: f64,
        /// Each column as coefficients of the normalised Hermite polynomials of `t = (x − center) / scale`.
        columns: Vec<Vec<f64>>,
    },
    /// `poly(…, raw=True)`: the powers `x, x², …, xⁿ`.
    Powers(usize),
}

impl Basis {
    /// B-splines with these inner knots.
    pub(super) fn spline(degree: usize, inner: &[f64], bounds: [f64; 2]) -> Basis {
        Basis::Spline { degree, knots: all_knots(degree, inner, bounds) }
    }

    /// Natural cubic splines with these inner knots.
    ///
    /// The second derivative is 0 at both boundary knots: two linear constraints on the B-splines. The columns are those of Q that
    /// follow the first two in the QR decomposition of the constraints by Householder reflections, as in R.
    pub(super) fn natural(inner: &[f64], bounds: [f64; 2]) -> Basis {
        let knots = all_knots(3, inner, bounds);
        let count = knots.len() - 4;
        let mut constraints = bounds.map(|bound| {
            let mut second = [0.0; MOST_SPLINES];
            derivative(&knots, 3, 2, bound, &mut second);
            second[1..count].to_vec()
        });
        // The reflection that maps the constraint onto the axis `at`.
        let householder = |vector: &[f64], at: usize| -> Vec<f64> {
            let mut v: Vec<f64> =
                vector.iter().enumerate().map(|(i, x)| if i < at { 0.0 } else { *x }).collect();
            let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
            v[at] += norm.copysign(v[at]);
            v
        };
        let reflect = |v: &[f64], x: &mut [f64]| {
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let factor = 2.0 * dot(v, x) / dot(v, v);
            x.iter_mut().zip(v).for_each(|(x, v)| *x -= factor * v);
        };
        let first = householder(&constraints[0], 0);
        reflect(&first, &mut constraints[1]);
        let second = householder(&constraints[1], 1);
        let columns = (2..count - 1).map(|column| {
            let mut unit = vec![0.0; count - 1];
            unit[column] = 1.0;
            reflect(&second, &mut unit);
            reflect(&first, &mut unit);
            unit
        });
        Basis::Natural { columns: columns.collect(), knots }
    }

    /// Polynomials that are orthonormal for the weighted rows with these products `G_jk = Σ w h_j(t) h_k(t)` of normalised Hermite
    /// polynomials, row by row. `None` if there are too few distinct values.
    pub(super) fn polynomial(degree: usize, center: f64, scale: f64, products: &[f64]) -> Option<Basis> {
        let size = degree + 1;
        let matrix = Mat::from_fn(size, size, |j, k| products[j * size + k]);
        let factor = Cholesky::new(matrix.as_ref())?;
        let lower = factor.lower();
        let largest = (0..size).map(|k| lower[(k, k)]).fold(0.0, f64::max);
        if (0..size).any(|k| lower[(k, k)] <= 1e-7 * largest) {
            return None;
        }
        // The rows of L⁻¹, by forward substitution.
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for j in 0..size {
            let mut row = vec![0.0; size];
            row[j] = 1.0;
            for (k, earlier) in rows.iter().enumerate() {
                row.iter_mut().zip(earlier).for_each(|(x, e)| *x -= lower[(j, k)] * e);
            }
            row.iter_mut().for_each(|x| *x /= lower[(j, j)]);
            rows.push(row);
        }
        Some(Basis::Polynomial { center, scale, columns: rows.split_off(1) })
    }

    /// The number of columns.
    pub(super) fn width(&self) -> usize {
        match self {
            Basis::Spline { degree, knots } => knots.len().saturating_sub(degree + 2),
            Basis::Natural { columns, .. } | Basis::Polynomial { columns, .. } => columns.len(),
            Basis::Powers(degree) => *degree,
        }
    }

    /// Writes the value of each column at `x`.
    pub(super) fn evaluate(&self, x: f64, values: &mut [f64]) {
        match self {
            Basis::Spline { degree, knots } => {
                let mut splines = [0.0; MOST_SPLINES];
                b_splines(knots, *degree, x, &mut splines);
                values.copy_from_slice(&splines[1..=values.len()]);
            }
            Basis::Natural { knots, columns } => {
                let (low, high) = (knots[3], knots[knots.len() - 4]);
                let inside = x.clamp(low, high);
                let mut splines = [0.0; MOST_SPLINES];
                b_splines(knots, 3, inside, &mut splines);
                if x != inside {
                    let mut slopes = [0.0; MOST_SPLINES];
                    derivative(knots, 3, 1, inside, &mut slopes);
                    splines.iter_mut().zip(slopes).for_each(|(value, slope)| *value += slope * (x - inside));
                }
                combine(columns, &splines[1..], values);
            }
            Basis::Polynomial { center, scale, columns } => {
                let mut hermite = [0.0; HIGHEST_DEGREE + 1];
                hermite_polynomials((x - center) / scale, &mut hermite[..=columns.len()]);
                combine(columns, &hermite, values);
            }
            Basis::Powers(_) => {
                let mut power = x;
                for value in values {
                    *value = power;
                    power *= x;
                }
            }
        }
    }

    /// What is wrong with it, if it was read from a file.
    pub(super) fn fault(&self) -> Option<String> {
        let sorted = |knots: &[f64], degree: usize| {
            let count = knots.len();
            degree <= HIGHEST_DEGREE
                && (2 * degree + 2..=MOST_SPLINES + degree + 1).contains(&count)
                && knots.iter().all(|knot| knot.is_finite())
                && knots[..=degree].iter().all(|knot| *knot == knots[0])
                && knots[count - degree - 1..].iter().all(|knot| *knot == knots[count - 1])
                && knots[degree..count - degree].windows(2).all(|pair| pair[0] < pair[1])
        };
        let whole = |columns: &[Vec<f64>], length: usize| {
            let all = columns.iter().all(|c| c.len() == length && c.iter().all(|number| number.is_finite()));
            all && !columns.is_empty()
        };
        let is_whole = match self {
            Basis::Spline { degree, knots } => *degree >= 1 && sorted(knots, *degree),
            Basis::Natural { knots, columns } => {
                sorted(knots, 3) && columns.len() + 3 == knots.len() - 4 && whole(columns, knots.len() - 5)
            }
            Basis::Polynomial { center, scale, columns } => {
                columns.len() <= HIGHEST_DEGREE
                    && whole(columns, columns.len() + 1)
                    && center.is_finite()
                    && *scale > 0.0
                    && scale.is_finite()
            }
            Basis::Powers(degree) => (1..=HIGHEST_DEGREE).contains(degree),
        };
        let is_whole = is_whole && (1..=MOST_COLUMNS).contains(&self.width());
        (!is_whole).then(|| "has a basis that cannot be evaluated".to_string())
    }
}

/// The knots with each boundary knot `degree + 1` times.
fn all_knots(degree: usize, inner: &[f64], [low, high]: [f64; 2]) -> Vec<f64> {
    [vec![low; degree + 1], inner.to_vec(), vec![high; degree + 1]].concat()
}

/// `values[j] = Σ_k columns[j][k] basis[k]`.
fn combine(columns: &[Vec<f64>], basis: &[f64], values: &mut [f64]) {
    for (value, column) in values.iter_mut().zip(columns) {
        *value = column.iter().zip(basis).map(|(c, b)| c * b).sum();
    }
}

/// The polynomials `He_k(t) / √k!`, which are orthonormal for a normal distribution.
pub(super) fn hermite_polynomials(t: f64, values: &mut [f64]) {
    let (mut before, mut last) = (0.0, 1.0);
    for (k, value) in values.iter_mut().enumerate() {
        *value = last;
        let k = k as f64;
        (before, last) = (last, (t * last - k.sqrt() * before) / (k + 1.0).sqrt());
    }
}

/// The values at `x` of all B-splines of a degree, by the recursion of Cox and de Boor. Outside of the boundary knots the polynomials of
/// the first and the last interval are continued.
fn b_splines(knots: &[f64], degree: usize, x: f64, splines: &mut [f64; MOST_SPLINES]) {
    let last = knots.len() - degree - 2;
    let inner = &knots[degree + 1..=last];
    let interval = degree + inner.partition_point(|knot| *knot <= x);
    splines.fill(0.0);
    // The splines that are not 0 in the interval, of rising degree.
    let mut values = [0.0; HIGHEST_DEGREE + 1];
    values[0] = 1.0;
    for d in 1..=degree {
        let mut carried = 0.0;
        for r in 0..d {
            let (right, left) = (knots[interval + r + 1], knots[interval + 1 + r - d]);
            let share = values[r] / (right - left);
            values[r] = carried + (right - x) * share;
            carried = (x - left) * share;
        }
        values[d] = carried;
    }
    splines[interval - degree..=interval].copy_from_slice(&values[..=degree]);
}

/// A derivative of all B-splines of a degree: `B′_{i,d} = d (B_{i,d−1} / (t_{i+d} − t_i) − B_{i+1,d−1} / (t_{i+d+1} − t_{i+1}))`.
fn derivative(knots: &[f64], degree: usize, order: usize, x: f64, splines: &mut [f64; MOST_SPLINES]) {
    if order == 0 {
        // The same interval as for the highest degree: the boundary knots of lower degrees are fewer.
        return b_splines(knots, degree, x, splines);
    }
    let inner = &knots[1..knots.len() - 1];
    let mut lower = [0.0; MOST_SPLINES];
    derivative(inner, degree - 1, order - 1, x, &mut lower);
    let count = knots.len() - degree - 1;
    splines.fill(0.0);
    for (i, spline) in splines.iter_mut().enumerate().take(count) {
        // The lower splines are numbered from the second knot on.
        let quotient = |number: Option<usize>, from: usize| match number {
            Some(number) if knots[from + degree] > knots[from] => {
                lower[number] / (knots[from + degree] - knots[from])
            }
            _ => 0.0,
        };
        let below = (i + 1 < count).then_some(i);
        *spline = degree as f64 * (quotient(i.checked_sub(1), i) - quotient(below, i + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of one B-spline by its definition.
    fn plain(knots: &[f64], i: usize, degree: usize, x: f64) -> f64 {
        let is_last = knots[i + 1..].iter().all(|knot| *knot == knots[i + 1]);
        if degree == 0 {
            return f64::from(u8::from(
                knots[i] <= x && (x < knots[i + 1] || is_last && x == knots[i + 1] && knots[i] < x),
            ));
        }
        let ratio = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
        ratio(x - knots[i], knots[i + degree] - knots[i]) * plain(knots, i, degree - 1, x)
            + ratio(knots[i + degree + 1] - x, knots[i + degree + 1] - knots[i + 1])
                * plain(knots, i + 1, degree - 1, x)
    }

    #[test]
    fn b_splines_follow_their_definition() {
        for degree in 1..=5 {
            let knots = all_knots(degree, &[-0.5, 0.25, 1.0], [-1.0, 2.0]);
            let basis = Basis::spline(degree, &[-0.5, 0.25, 1.0], [-1.0, 2.0]);
            let mut values = vec![0.0; basis.width()];
            assert_eq!(values.len(), degree + 3);
            for x in [-1.0, -0.9, -0.5, 0.0, 0.25, 0.999, 1.0, 1.7, 2.0] {
                basis.evaluate(x, &mut values);
                for (at, value) in values.iter().enumerate() {
                    let expected = plain(&knots, at + 1, degree, x);
                    assert!(
                        (value - expected).abs() < 1e-14,
                        "degree {degree}, {x}: {value} against {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn natural_splines_are_smooth_and_straight_outside() {
        let basis = Basis::natural(&[-0.5, 0.25, 1.0], [-1.0, 2.0]);
        assert_eq!((basis.width(), basis.fault()), (4, None));
        let at = |x: f64| {
            let mut values = vec![0.0; 4];
            basis.evaluate(x, &mut values);
            values
        };
        let second = |x: f64, h: f64| -> Vec<f64> {
            (0..4).map(|j| (at(x + h)[j] - 2.0 * at(x)[j] + at(x - h)[j]) / (h * h)).collect()
        };
        for x in [-3.0, -1.5, 2.5, 10.0] {
            assert!(second(x, 0.1).iter().all(|curvature| curvature.abs() < 1e-10), "{x}");
        }
        for x in [-1.0, 2.0] {
            assert!(second(x, 1e-4).iter().all(|curvature| curvature.abs() < 1e-2), "{x}");
        }
        assert!(second(0.0, 1e-3).iter().any(|curvature| curvature.abs() > 0.1));
    }

    #[test]
    fn polynomials_are_orthonormal() {
        let xs: Vec<f64> = (0..40).map(|n| 3.0 + (f64::from(n) * 0.7).sin() * 2.0).collect();
        let size = 4;
        let mut products = vec![0.0; size * size];
        for x in &xs {
            let mut h = [0.0; 4];
            hermite_polynomials((x - 3.0) / 1.5, &mut h);
            (0..16).for_each(|at| products[at] += h[at / 4] * h[at % 4]);
        }
        let basis = Basis::polynomial(3, 3.0, 1.5, &products).expect("a basis");
        let rows: Vec<[f64; 3]> = xs
            .iter()
            .map(|x| {
                let mut row = [0.0; 3];
                basis.evaluate(*x, &mut row);
                row
            })
            .collect();
        for j in 0..3 {
            assert!(rows.iter().map(|row| row[j]).sum::<f64>().abs() < 1e-12);
            for k in 0..3 {
                let product: f64 = rows.iter().map(|row| row[j] * row[k]).sum();
                assert!((product - f64::from(u8::from(j == k))).abs() < 1e-12, "{j} {k}");
            }
        }
        assert_eq!(Basis::polynomial(1, 0.0, 1.0, &[2.0, 0.0, 0.0, 0.0]), None, "one distinct value");
    }
}
