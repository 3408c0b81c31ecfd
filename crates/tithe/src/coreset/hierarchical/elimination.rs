//! Fewer rows of the same features: exact elimination (Carathéodory).
//!
//! Rows that outnumber the features they touch have weights that can move along a null vector, `Fᵀv = 0`, until one of them reaches
//! zero; `Fᵀw` does not change. Two levels keep every null space small. Within a group, the null vectors of the group's own features
//! form an orthonormal basis `N_g`. In these coordinates a union of groups has only the shared features to satisfy, so it loses rows
//! as long as the dimensions of its `N_g` outnumber the shared features. A group whose `N_g` is empty has as many rows as its own
//! features have rank, and takes no further part. So at most `Σ_g rank_g` plus the number of shared features of rows remain.

use rayon::prelude::*;

use crate::base::math::{dot, vectorized};
use crate::coreset::hierarchical::features::SparseFeatures;

/// A direction counts as dependent if what is left of it is shorter than this fraction.
const DEPENDENT: f64 = 1e-9;
/// Groups that one thread reduces before their remaining rows meet those of other groups.
const GROUPS: usize = 32;

/// Sets weights to zero without changing the sum of the features, until no set of the remaining rows has a null vector, except for
/// `spare` more rows per group.
pub(crate) fn eliminate(features: &SparseFeatures, weights: &mut [f64], spare: usize) {
    let mut rows_by_group: Vec<Vec<usize>> = vec![Vec::new(); features.shape.groups];
    for row in (0..features.len()).filter(|&row| weights[row] > 0.0) {
        rows_by_group[features.group[row] as usize].push(row);
    }
    rows_by_group.retain(|rows| !rows.is_empty());
    let mut members: Vec<Member> =
        rows_by_group.into_iter().map(|rows| Member { rows, null: Basis::default() }).collect();
    let mut weight_of: Vec<Vec<f64>> =
        members.iter().map(|member| member.rows.iter().map(|&row| weights[row]).collect()).collect();
    let mut chunk = GROUPS;
    // Unions of 32 groups side by side, then what is left of 16 such unions, and so on.
    loop {
        let is_last = members.len() <= chunk;
        let reduced: Vec<Union> = members
            .par_chunks(chunk)
            .zip(weight_of.par_chunks(chunk))
            .map(|(members, weights)| Union::of(features, spare, members, weights))
            .collect();
        let before = members.len();
        (members, weight_of) = (Vec::new(), Vec::new());
        for union in reduced {
            for (row, weight) in union.finished {
                weights[row] = weight;
            }
            members.extend(union.members);
            weight_of.extend(union.weights);
        }
        if is_last {
            break;
        }
        if members.len() == before {
            chunk *= 16;
        }
    }
    for (member, own) in members.iter().zip(&weight_of) {
        member.rows.iter().zip(own).for_each(|(&row, &weight)| weights[row] = weight);
    }
}

/// The rows of a group that are not yet final, and the null vectors of the group's own features.
#[derive(Clone, Default)]
struct Member {
    rows: Vec<usize>,
    null: Basis,
}

/// Orthonormal vectors, stored row by row: one row per row of the data.
#[derive(Clone, Default)]
struct Basis {
    dimensions: usize,
    values: Vec<f64>,
}

impl Basis {
    fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.dimensions..(row + 1) * self.dimensions]
    }
}

/// Groups that are reduced together.
struct Union<'a> {
    features: &'a SparseFeatures,
    /// Rows per group to keep beyond those that are needed.
    spare: usize,
    members: Vec<Member>,
    /// The weights of the members' rows.
    weights: Vec<Vec<f64>>,
    /// Rows with their final weights.
    finished: Vec<(usize, f64)>,
}

impl Union<'_> {
    /// Adds groups one after the other, and reduces whenever twice as many dimensions as shared features have come together.
    fn of<'a>(
        features: &'a SparseFeatures,
        spare: usize,
        members: &[Member],
        weights: &[Vec<f64>],
    ) -> Union<'a> {
        let most = (2 * features.shape.dim).max(features.shape.dim + 32);
        let mut union =
            Union { features, spare, members: Vec::new(), weights: Vec::new(), finished: Vec::new() };
        for (member, weights) in members.iter().zip(weights) {
            // A large group comes in pieces.
            let piece = most + features.shape.width;
            for (index, (rows, weights)) in member.rows.chunks(piece).zip(weights.chunks(piece)).enumerate() {
                if index == 0 {
                    union.members.push(Member::default());
                    union.weights.push(Vec::new());
                }
                if let (Some(last), Some(own)) = (union.members.last_mut(), union.weights.last_mut()) {
                    last.rows.extend(rows);
                    own.extend(weights);
                }
                union.renew_basis(union.members.len() - 1);
                if union.dimensions() > most + spare * union.members.len() {
                    union.reduce();
                }
            }
        }
        union.reduce();
        union
    }

    fn dimensions(&self) -> usize {
        self.members.iter().map(|member| member.null.dimensions).sum()
    }

    /// Finds the null vectors of a group's own features, scaled by the present weights.
    fn renew_basis(&mut self, at: usize) {
        let (member, weights) = (&self.members[at], &self.weights[at]);
        let rows = member.rows.len();
        let columns: Vec<Vec<f64>> = (0..self.features.shape.width)
            .map(|f| (0..rows).map(|i| weights[i] * self.features.own(member.rows[i])[f]).collect())
            .collect();
        let scales: Vec<f64> = columns.iter().map(|column| norm(column)).collect();
        self.members[at].null = null_space(columns, &scales, rows);
    }

    /// Eliminates rows until the dimensions do not outnumber the shared features; groups without a dimension are final.
    fn reduce(&mut self) {
        while self.dimensions() > 0 {
            let null = self.null_vectors();
            let most = null.dimensions.saturating_sub(self.spare * self.members.len());
            if most == 0 {
                break;
            }
            let mut relative = vec![1.0; null.values.len() / null.dimensions];
            move_to_zeros(null, &mut relative, most);
            if relative.iter().all(|x| *x > 0.0) {
                break;
            }
            let mut start = 0;
            for at in 0..self.members.len() {
                let (member, weights) = (&mut self.members[at], &mut self.weights[at]);
                let end = start + member.rows.len();
                let own = &relative[start..end];
                start = end;
                if member.null.dimensions == 0 {
                    continue;
                }
                let kept = |i: &usize| own[*i] > 0.0;
                let (rows, old) = (std::mem::take(&mut member.rows), std::mem::take(weights));
                member.rows = (0..rows.len()).filter(kept).map(|i| rows[i]).collect();
                *weights = (0..rows.len()).filter(kept).map(|i| old[i] * own[i]).collect();
                for row in (0..rows.len()).filter(|i| !kept(i)).map(|i| rows[i]) {
                    self.finished.push((row, 0.0));
                }
                self.renew_basis(at);
            }
            self.set_aside_final_groups();
        }
        self.set_aside_final_groups();
    }

    fn set_aside_final_groups(&mut self) {
        for at in (0..self.members.len()).rev() {
            // The last group may still grow.
            if self.members[at].null.dimensions <= self.spare && at + 1 < self.members.len() {
                let (member, weights) = (self.members.remove(at), self.weights.remove(at));
                self.finished.extend(member.rows.into_iter().zip(weights));
            }
        }
    }

    /// The null vectors of all features of the union's rows, in units of the present weights.
    fn null_vectors(&self) -> Basis {
        let (total, shared) = (self.dimensions(), self.features.shape.dim);
        // The shared features in the coordinates of the groups' null vectors, and their sizes before.
        let mut columns = vec![vec![0.0; total]; shared];
        let mut scales = vec![0.0; shared];
        let mut start = 0;
        for (member, weights) in self.members.iter().zip(&self.weights) {
            let dimensions = member.null.dimensions;
            if dimensions == 0 {
                continue;
            }
            for (i, (&row, w)) in member.rows.iter().zip(weights).enumerate() {
                let null = member.null.row(i);
                for ((column, scale), f) in columns.iter_mut().zip(&mut scales).zip(self.features.shared(row))
                {
                    *scale += (w * f).powi(2);
                    add_multiple(&mut column[start..start + dimensions], w * f, null);
                }
            }
            start += dimensions;
        }
        scales.iter_mut().for_each(|scale| *scale = scale.sqrt());
        let inner = null_space(columns, &scales, total);
        let rows: usize = self.members.iter().map(|member| member.rows.len()).sum();
        let mut values = vec![0.0; rows * inner.dimensions];
        let (mut start, mut first) = (0, 0);
        for member in &self.members {
            for i in 0..member.rows.len() {
                let into = &mut values[(first + i) * inner.dimensions..(first + i + 1) * inner.dimensions];
                if member.null.dimensions > 0 {
                    for (d, &factor) in member.null.row(i).iter().enumerate() {
                        add_multiple(into, factor, inner.row(start + d));
                    }
                }
            }
            first += member.rows.len();
            start += member.null.dimensions;
        }
        Basis { dimensions: inner.dimensions, values }
    }
}

/// Moves positive numbers along orthonormal directions until `most` of them are zero, at most one per direction.
///
/// After each step a reflection makes the others' entries of that number zero, which keeps the directions orthonormal: rounding
/// errors do not grow.
fn move_to_zeros(directions: Basis, numbers: &mut [f64], most: usize) {
    let Basis { mut dimensions, mut values } = directions;
    let stride = dimensions;
    let mut first = 0;
    while first < most && dimensions > 0 {
        let direction = |i: usize| values[i * stride + first];
        // The largest step in either direction; the shorter one changes the numbers less.
        let mut best: Option<(f64, usize)> = None;
        for (i, &number) in numbers.iter().enumerate() {
            let v = direction(i);
            if number > 0.0 && v.abs() > 1e-12 {
                let step = number / v.abs();
                if best.is_none_or(|(least, _)| step < least) {
                    best = Some((step, i));
                }
            }
        }
        let Some((step, zero)) = best else { return };
        let sign = if direction(zero) > 0.0 { -step } else { step };
        for (i, number) in numbers.iter_mut().enumerate() {
            if *number > 0.0 {
                *number = (*number + sign * direction(i)).max(0.0);
            }
        }
        numbers[zero] = 0.0;
        // The reflection I − 2 h hᵀ/|h|² that maps the entries of `zero` to a multiple of the first unit vector.
        let mut h = values[zero * stride + first..zero * stride + first + dimensions].to_vec();
        let length = norm(&h);
        h[0] += if h[0] < 0.0 { -length } else { length };
        let square: f64 = h.iter().map(|x| x * x).sum();
        for row in values.chunks_exact_mut(stride) {
            let row = &mut row[first..first + dimensions];
            let share = 2.0 * inner(row, &h) / square;
            add_multiple(row, -share, &h);
        }
        first += 1;
        dimensions -= 1;
    }
}

/// An orthonormal basis of the vectors orthogonal to the columns, by Householder reflections with pivoting. Columns are in units of
/// `scales`; one that is dependent on others to rounding does not count.
fn null_space(mut columns: Vec<Vec<f64>>, scales: &[f64], rows: usize) -> Basis {
    for (column, scale) in columns.iter_mut().zip(scales).filter(|(_, scale)| **scale > 0.0) {
        column.iter_mut().for_each(|x| *x /= scale);
    }
    let mut reflectors: Vec<Vec<f64>> = Vec::new();
    for step in 0..columns.len().min(rows) {
        let longest = (step..columns.len())
            .map(|c| (c, norm(&columns[c][step..])))
            .fold((step, 0.0), |best, next| if next.1 > best.1 { next } else { best });
        if longest.1 <= DEPENDENT {
            break;
        }
        columns.swap(step, longest.0);
        let mut h = columns[step][step..].to_vec();
        h[0] += if h[0] < 0.0 { -longest.1 } else { longest.1 };
        let square: f64 = h.iter().map(|x| x * x).sum();
        h.iter_mut().for_each(|x| *x *= (2.0 / square).sqrt());
        for column in &mut columns[step + 1..] {
            let share = inner(&column[step..], &h);
            add_multiple(&mut column[step..], -share, &h);
        }
        reflectors.push(h);
    }
    let rank = reflectors.len();
    let dimensions = rows - rank;
    let mut values = vec![0.0; rows * dimensions];
    let mut unit = vec![0.0; rows];
    for d in 0..dimensions {
        unit.fill(0.0);
        unit[rank + d] = 1.0;
        for (step, h) in reflectors.iter().enumerate().rev() {
            let share = inner(&unit[step..], h);
            add_multiple(&mut unit[step..], -share, h);
        }
        for (i, x) in unit.iter().enumerate() {
            values[i * dimensions + d] = *x;
        }
    }
    Basis { dimensions, values }
}

fn norm(x: &[f64]) -> f64 {
    inner(x, x).sqrt()
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    vectorized(
        #[inline(always)]
        || dot(a, b),
    )
}

fn add_multiple(target: &mut [f64], factor: f64, source: &[f64]) {
    vectorized(
        #[inline(always)]
        || {
            for (target, source) in target.iter_mut().zip(source) {
                *target = source.mul_add(factor, *target);
            }
        },
    );
}
