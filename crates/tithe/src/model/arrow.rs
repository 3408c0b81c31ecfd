//! Symmetric matrices in the shape of an arrow, which are the Hessians of hierarchical models, and their Cholesky factors.
//!
//! The effects of two groups never occur in the same row, so the Hessian of one grouping factor has a block per group, a
//! border that couples the groups with the fixed effects, and a dense corner:
//!
//! ```text
//!     ⎡ d_1            B_1 ⎤        ⎡ L_1                ⎤
//! H = ⎢      ⋱         ⋮   ⎥ ,  L = ⎢       ⋱            ⎥ ,   d_g = L_g L_gᵀ,  W_g = L_g⁻¹ B_g,
//!     ⎢          d_G   B_G ⎥        ⎢           L_G      ⎥     A − Σ_g W_gᵀ W_g = L_S L_Sᵀ.
//!     ⎣ B_1ᵀ  …  B_Gᵀ  A   ⎦        ⎣ W_1ᵀ  …   W_Gᵀ L_S ⎦
//! ```
//!
//! With the groups first nothing fills in: factor, solution and the inverse's entries on the arrow take O(G q (q + D) D)
//! operations. A vector has the q effects of each group, one group after the other, and then the D fixed effects.

use faer::{Mat, MatRef};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::base::linear::{Cholesky, add_product, solve_lower, solve_lower_transposed};
use crate::base::math::{dot, ln, vectorized};

/// Groups whose products are summed one after the other; the sums of different chunks are computed side by side.
const CHUNK: usize = 1024;

/// The sizes of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrowShape {
    /// The number of groups G.
    pub groups: usize,
    /// The number q of effects per group.
    pub width: usize,
    /// The number D of fixed effects.
    pub dim: usize,
}

impl ArrowShape {
    /// The number of effects of all groups, and the position of the first fixed effect in a vector.
    pub fn effects(self) -> usize {
        self.groups * self.width
    }

    /// The length of a vector.
    pub fn len(self) -> usize {
        self.effects() + self.dim
    }

    /// True if there is neither a group nor a fixed effect.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A symmetric matrix of arrow shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "PlainArrow", into = "PlainArrow")]
pub struct Arrow {
    shape: ArrowShape,
    /// `d_g`, q × q numbers per group.
    blocks: Vec<f64>,
    /// `B_g`, row by row: q × D numbers per group.
    border: Vec<f64>,
    /// `A`.
    corner: Mat<f64>,
}

/// The serialised form of an [`Arrow`]: its sizes, blocks, border and corner.
#[derive(Serialize, Deserialize)]
struct PlainArrow(ArrowShape, Vec<f64>, Vec<f64>, Vec<f64>);

impl From<Arrow> for PlainArrow {
    fn from(arrow: Arrow) -> PlainArrow {
        let corner = (0..arrow.shape.dim).flat_map(|j| arrow.corner.col_as_slice(j).to_vec()).collect();
        PlainArrow(arrow.shape, arrow.blocks, arrow.border, corner)
    }
}

impl From<PlainArrow> for Arrow {
    fn from(PlainArrow(shape, blocks, border, corner): PlainArrow) -> Arrow {
        let corner =
            Mat::from_fn(shape.dim, shape.dim, |i, j| corner.get(j * shape.dim + i).copied().unwrap_or(0.0));
        Arrow { shape, blocks, border, corner }
    }
}

/// The Cholesky factor of a positive definite [`Arrow`].
pub struct ArrowFactor {
    shape: ArrowShape,
    /// `L_g`, row by row.
    lower: Vec<f64>,
    /// `W_g`, row by row.
    border: Vec<f64>,
    /// `L_S`.
    corner: Cholesky,
}

impl Arrow {
    /// Zeros.
    pub fn zeros(shape: ArrowShape) -> Arrow {
        let ArrowShape { groups, width, dim } = shape;
        Arrow {
            shape,
            blocks: vec![0.0; groups * width * width],
            border: vec![0.0; groups * width * dim],
            corner: Mat::zeros(dim, dim),
        }
    }

    /// The sizes.
    pub fn shape(&self) -> ArrowShape {
        self.shape
    }

    /// `d_g`, row by row.
    pub fn block(&self, group: usize) -> &[f64] {
        let size = self.shape.width * self.shape.width;
        &self.blocks[group * size..(group + 1) * size]
    }

    /// `d_g`, to be changed; it must stay symmetric.
    pub fn block_mut(&mut self, group: usize) -> &mut [f64] {
        let size = self.shape.width * self.shape.width;
        &mut self.blocks[group * size..(group + 1) * size]
    }

    /// `B_g`, row by row.
    pub fn border(&self, group: usize) -> &[f64] {
        let size = self.shape.width * self.shape.dim;
        &self.border[group * size..(group + 1) * size]
    }

    /// `B_g`, to be changed.
    pub fn border_mut(&mut self, group: usize) -> &mut [f64] {
        let size = self.shape.width * self.shape.dim;
        &mut self.border[group * size..(group + 1) * size]
    }

    /// `A`.
    pub fn corner(&self) -> MatRef<'_, f64> {
        self.corner.as_ref()
    }

    /// `A`, to be changed; it must stay symmetric.
    pub fn corner_mut(&mut self) -> &mut Mat<f64> {
        &mut self.corner
    }

    /// The diagonal, in the order of a vector.
    pub fn diagonal(&self) -> Vec<f64> {
        let ArrowShape { groups, width, dim } = self.shape;
        let of_groups = (0..groups).flat_map(|g| (0..width).map(move |i| self.block(g)[i * width + i]));
        of_groups.chain((0..dim).map(|i| self.corner[(i, i)])).collect()
    }

    /// `H x`.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        let ArrowShape { groups, width, dim } = self.shape;
        let (effects, fixed) = x.split_at(self.shape.effects());
        let mut result = vec![0.0; self.shape.len()];
        let (into_effects, into_fixed) = result.split_at_mut(self.shape.effects());
        for g in 0..groups {
            for i in 0..width {
                let row = &self.border(g)[i * dim..(i + 1) * dim];
                let own = &self.block(g)[i * width..(i + 1) * width];
                let of_group = &effects[g * width..(g + 1) * width];
                into_effects[g * width + i] = plain_dot(own, of_group) + plain_dot(row, fixed);
                add_multiple(into_fixed, of_group[i], row);
            }
        }
        for (j, &x) in fixed.iter().enumerate() {
            add_multiple(into_fixed, x, self.corner.col_as_slice(j));
        }
        result
    }

    /// `Σ_ij H_ij K_ij` over the entries of the arrow: the trace of `H K` if either matrix is zero outside of it.
    pub fn inner_product(&self, other: &Arrow) -> f64 {
        let corner: f64 = (0..self.shape.dim)
            .map(|j| plain_dot(self.corner.col_as_slice(j), other.corner.col_as_slice(j)))
            .sum();
        plain_dot(&self.blocks, &other.blocks) + 2.0 * plain_dot(&self.border, &other.border) + corner
    }

    /// Adds a multiple of another arrow of the same shape.
    pub fn add(&mut self, factor: f64, other: &Arrow) {
        add_multiple(&mut self.blocks, factor, &other.blocks);
        add_multiple(&mut self.border, factor, &other.border);
        for j in 0..self.shape.dim {
            add_multiple(self.corner.col_as_slice_mut(j), factor, other.corner.col_as_slice(j));
        }
    }

    /// The Cholesky factor; `None` if the matrix is not positive definite to rounding.
    pub fn factor(&self) -> Option<ArrowFactor> {
        let ArrowShape { groups, width, dim } = self.shape;
        let (mut lower, mut border) = (self.blocks.clone(), self.border.clone());
        let are_definite = if width == 0 {
            true
        } else {
            let wide = (width * dim).max(1);
            border.resize(groups * wide, 0.0);
            let is_definite = lower
                .par_chunks_mut(width * width)
                .zip(border.par_chunks_mut(wide))
                .map(|(block, rows)| {
                    factor_small(block, width) && {
                        solve_small(block, width, &mut rows[..width * dim], dim);
                        true
                    }
                })
                .reduce(|| true, |a, b| a && b);
            border.truncate(groups * width * dim);
            is_definite
        };
        if !are_definite {
            return None;
        }
        let mut rest = self.corner.clone();
        if dim > 0 && width > 0 {
            subtract_products(&mut rest, &border, CHUNK * width * dim, dim);
        }
        Some(ArrowFactor { shape: self.shape, lower, border, corner: Cholesky::new(rest.as_ref())? })
    }
}

/// Subtracts `Σ_g W_gᵀ W_g` from `corner`; `rows` are the rows of all `W_g`.
fn subtract_products(corner: &mut Mat<f64>, rows: &[f64], chunk: usize, dim: usize) {
    let of_chunk = |rows: &[f64]| {
        let rows = MatRef::from_row_major_slice(rows, rows.len() / dim, dim);
        let mut sum = Mat::zeros(dim, dim);
        add_product(sum.as_mut(), rows.transpose(), rows);
        sum
    };
    // In the order of the groups, whatever the number of threads; few sums at a time, since they can be large.
    let chunks: Vec<&[f64]> = rows.chunks(chunk).collect();
    for some in chunks.chunks(16) {
        for sum in some.par_iter().map(|rows| of_chunk(rows)).collect::<Vec<_>>() {
            *corner -= sum;
        }
    }
}

impl ArrowFactor {
    /// The sizes.
    pub fn shape(&self) -> ArrowShape {
        self.shape
    }

    fn lower(&self, group: usize) -> &[f64] {
        let size = self.shape.width * self.shape.width;
        &self.lower[group * size..(group + 1) * size]
    }

    fn border(&self, group: usize) -> &[f64] {
        let size = self.shape.width * self.shape.dim;
        &self.border[group * size..(group + 1) * size]
    }

    /// `ln det H`.
    pub fn log_determinant(&self) -> f64 {
        let ArrowShape { groups, width, dim } = self.shape;
        let of_group = |g: usize| (0..width).map(|i| ln(self.lower(g)[i * width + i])).sum::<f64>();
        let of_groups: f64 = (0..groups).map(of_group).sum();
        2.0 * (of_groups + (0..dim).map(|i| ln(self.corner.lower()[(i, i)])).sum::<f64>())
    }

    /// Replaces `x` by `L⁻¹ x`: a gradient becomes one in whitened coordinates.
    pub fn solve_lower(&self, x: &mut [f64]) {
        let ArrowShape { groups, width, dim } = self.shape;
        let (effects, fixed) = x.split_at_mut(self.shape.effects());
        for g in 0..groups {
            let slot = &mut effects[g * width..(g + 1) * width];
            solve_small(self.lower(g), width, slot, 1);
            for (i, &value) in slot.iter().enumerate() {
                add_multiple(fixed, -value, &self.border(g)[i * dim..(i + 1) * dim]);
            }
        }
        self.solve_corner(fixed);
    }

    /// Replaces `x` by `L⁻ᵀ x`: whitened coordinates become differences from the mean.
    pub fn solve_lower_transposed(&self, x: &mut [f64]) {
        let ArrowShape { groups, width, dim } = self.shape;
        let (effects, fixed) = x.split_at_mut(self.shape.effects());
        let mut column = Mat::from_fn(dim, 1, |i, _| fixed[i]);
        solve_lower_transposed(self.corner.lower(), column.as_mut());
        fixed.copy_from_slice(column.col_as_slice(0));
        for g in 0..groups {
            let slot = &mut effects[g * width..(g + 1) * width];
            for (i, value) in slot.iter_mut().enumerate() {
                *value -= plain_dot(&self.border(g)[i * dim..(i + 1) * dim], fixed);
            }
            solve_small_transposed(self.lower(g), width, slot);
        }
    }

    /// `H⁻¹ x`.
    pub fn solve(&self, x: &[f64]) -> Vec<f64> {
        let mut solution = x.to_vec();
        self.solve_lower(&mut solution);
        self.solve_lower_transposed(&mut solution);
        solution
    }

    /// Replaces `x` by `Lᵀ x`, the inverse of [`ArrowFactor::solve_lower_transposed`]: differences from the mean become whitened
    /// coordinates.
    pub fn times_lower_transposed(&self, x: &mut [f64]) {
        let ArrowShape { groups, width, dim } = self.shape;
        let (effects, fixed) = x.split_at_mut(self.shape.effects());
        for g in 0..groups {
            let slot = &mut effects[g * width..(g + 1) * width];
            for i in 0..width {
                let own: f64 = (i..width).map(|k| self.lower(g)[k * width + i] * slot[k]).sum();
                slot[i] = own + plain_dot(&self.border(g)[i * dim..(i + 1) * dim], fixed);
            }
        }
        for i in 0..dim {
            fixed[i] = (i..dim).map(|k| self.corner.lower()[(k, i)] * fixed[k]).sum();
        }
    }

    /// Replaces q independent standard normal numbers by a draw of a group's effects given all others, as a difference from their
    /// mean.
    pub fn unwhiten_group(&self, group: usize, xi: &mut [f64]) {
        solve_small_transposed(self.lower(group), self.shape.width, xi);
    }

    /// Whitens the row of the model matrix that has the values `z` for the fixed effects and `effects` for those of its
    /// group: `L⁻¹` times it is zero but for q numbers in the group's slot, which replace `effects`, and D dense ones, which
    /// replace `z`.
    pub fn whiten_row(&self, group: usize, effects: &mut [f64], z: &mut [f64]) {
        let ArrowShape { width, dim, .. } = self.shape;
        solve_small(self.lower(group), width, effects, 1);
        for (i, &value) in effects.iter().enumerate() {
            add_multiple(z, -value, &self.border(group)[i * dim..(i + 1) * dim]);
        }
        self.solve_corner(z);
    }

    /// Replaces `x` by `L_S⁻¹ x`.
    fn solve_corner(&self, x: &mut [f64]) {
        if x.len() > 64 {
            let mut column = Mat::from_fn(x.len(), 1, |i, _| x[i]);
            solve_lower(self.corner.lower(), column.as_mut());
            x.copy_from_slice(column.col_as_slice(0));
            return;
        }
        let lower = self.corner.lower();
        for j in 0..x.len() {
            let value = x[j] / lower[(j, j)];
            x[j] = value;
            for i in j + 1..x.len() {
                x[i] -= lower[(i, j)] * value;
            }
        }
    }

    /// The congruence `L⁻¹ K L⁻ᵀ` on the arrow, for the sum `K` of products of rows with themselves: those of whitened rows
    /// are zero outside of it.
    pub fn whiten_arrow(&self, other: &Arrow) -> Arrow {
        let ArrowShape { groups, width, dim } = self.shape;
        let mut result = other.clone();
        // Row by row: first L⁻¹ from the left within groups, then its transpose from the right.
        for g in 0..groups {
            let block = result.block_mut(g);
            solve_small(self.lower(g), width, block, width);
            transpose_small(block, width);
            solve_small(self.lower(g), width, block, width);
            // L_g⁻¹ (B_g − d_g L_g⁻ᵀ W_g) = L_g⁻¹ B_g − d'_g W_g, where d' is the whitened block.
            let own = block.to_vec();
            let rows = result.border_mut(g);
            solve_small(self.lower(g), width, rows, dim);
            let half: Vec<f64> = rows.to_vec();
            for i in 0..width {
                for k in 0..width {
                    let of_group = &self.border(g)[k * dim..(k + 1) * dim];
                    add_multiple(&mut rows[i * dim..(i + 1) * dim], -own[i * width + k], of_group);
                }
            }
            let rows = rows.to_vec();
            // A − Wᵀ(L⁻¹B) − (L⁻¹B)ᵀW + Wᵀd'W = A − Wᵀ rows − (L⁻¹B)ᵀ W.
            for i in 0..width {
                let w = &self.border(g)[i * dim..(i + 1) * dim];
                let (r, h) = (&rows[i * dim..(i + 1) * dim], &half[i * dim..(i + 1) * dim]);
                for c in 0..dim {
                    let column = result.corner.col_as_slice_mut(c);
                    add_multiple(column, -r[c], w);
                    add_multiple(column, -w[c], h);
                }
            }
            for row in result.border_mut(g).chunks_exact_mut(dim.max(1)) {
                self.solve_corner(row);
            }
        }
        let mut corner = result.corner.clone();
        solve_lower(self.corner.lower(), corner.as_mut());
        let mut corner = corner.transpose().to_owned();
        solve_lower(self.corner.lower(), corner.as_mut());
        result.corner = Mat::from_fn(dim, dim, |i, j| corner[(i.max(j), i.min(j))]);
        result
    }

    /// The entries of `H⁻¹` on the arrow: covariances within groups, between groups and fixed effects, and among fixed
    /// effects. With `T_g = L_g⁻ᵀ W_g` they are `L_g⁻ᵀ L_g⁻¹ + T_g S⁻¹ T_gᵀ`, `−T_g S⁻¹` and `S⁻¹`.
    pub fn inverse(&self) -> Arrow {
        let ArrowShape { groups, width, dim } = self.shape;
        let mut result = Arrow::zeros(self.shape);
        result.corner = self.corner.inverse();
        result.corner = Mat::from_fn(dim, dim, |i, j| result.corner[(i.max(j), i.min(j))]);
        if width == 0 {
            return result;
        }
        let corner = &result.corner;
        let of_group = |(g, (block, border)): (usize, (&mut [f64], &mut [f64]))| {
            // T_g, row by row, in the place of W_g.
            let mut t = self.border(g).to_vec();
            for i in (0..width).rev() {
                for k in i + 1..width {
                    let (before, after) = t.split_at_mut(k * dim);
                    add_multiple(
                        &mut before[i * dim..(i + 1) * dim],
                        -self.lower(g)[k * width + i],
                        &after[..dim],
                    );
                }
                t[i * dim..(i + 1) * dim].iter_mut().for_each(|x| *x /= self.lower(g)[i * width + i]);
            }
            for i in 0..width {
                let of_row = &t[i * dim..(i + 1) * dim];
                for j in 0..dim {
                    border[i * dim + j] = -plain_dot(of_row, corner.col_as_slice(j));
                }
            }
            let mut unit = vec![0.0; width];
            for j in 0..width {
                unit.fill(0.0);
                unit[j] = 1.0;
                solve_small(self.lower(g), width, &mut unit, 1);
                solve_small_transposed(self.lower(g), width, &mut unit);
                for i in 0..width {
                    let with_fixed = plain_dot(&border[i * dim..(i + 1) * dim], &t[j * dim..(j + 1) * dim]);
                    block[i * width + j] = unit[i] - with_fixed;
                }
            }
        };
        // Groups without a border still have a chunk each.
        let wide = (width * dim).max(1);
        result.border.resize(groups * wide, 0.0);
        let (blocks, border) = (&mut result.blocks, &mut result.border);
        blocks.par_chunks_mut(width * width).zip(border.par_chunks_mut(wide)).enumerate().for_each(of_group);
        result.border.truncate(groups * width * dim);
        result
    }
}

/// Overwrites the lower triangle of a small matrix, row by row, with its Cholesky factor, and the rest with zeros; false if
/// it is not positive definite.
fn factor_small(block: &mut [f64], order: usize) -> bool {
    for j in 0..order {
        for i in j..order {
            let known = plain_dot(&block[i * order..i * order + j], &block[j * order..j * order + j]);
            let value = block[i * order + j] - known;
            if i > j {
                block[i * order + j] = value / block[j * order + j];
            } else if value > 0.0 && value.is_finite() {
                block[j * order + j] = value.sqrt();
            } else {
                return false;
            }
        }
        block[j * order + j + 1..(j + 1) * order].fill(0.0);
    }
    true
}

/// Replaces `rows`, q rows of `columns` numbers, by `L⁻¹` times them.
fn solve_small(lower: &[f64], order: usize, rows: &mut [f64], columns: usize) {
    for i in 0..order {
        let (before, after) = rows.split_at_mut(i * columns);
        let row = &mut after[..columns];
        for k in 0..i {
            add_multiple(row, -lower[i * order + k], &before[k * columns..(k + 1) * columns]);
        }
        row.iter_mut().for_each(|x| *x /= lower[i * order + i]);
    }
}

/// Replaces a vector by `L⁻ᵀ` times it.
fn solve_small_transposed(lower: &[f64], order: usize, x: &mut [f64]) {
    for i in (0..order).rev() {
        let known: f64 = (i + 1..order).map(|k| lower[k * order + i] * x[k]).sum();
        x[i] = (x[i] - known) / lower[i * order + i];
    }
}

fn transpose_small(block: &mut [f64], order: usize) {
    for i in 0..order {
        for j in 0..i {
            block.swap(i * order + j, j * order + i);
        }
    }
}

fn add_multiple(target: &mut [f64], factor: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += factor * source;
    }
}

/// `a·b`, in the same order on every processor.
fn plain_dot(a: &[f64], b: &[f64]) -> f64 {
    if a.len() < 32 {
        return a.iter().zip(b).map(|(a, b)| a * b).sum();
    }
    vectorized(
        #[inline(always)]
        || dot(a, b),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::{Purpose, Seed, standard_normal};

    const SHAPES: [ArrowShape; 6] = [
        ArrowShape { groups: 7, width: 1, dim: 3 },
        ArrowShape { groups: 5, width: 2, dim: 4 },
        ArrowShape { groups: 1, width: 3, dim: 1 },
        ArrowShape { groups: 40, width: 2, dim: 70 },
        ArrowShape { groups: 0, width: 1, dim: 3 },
        ArrowShape { groups: 4, width: 2, dim: 0 },
    ];

    /// The sum of `rows` products of random rows with themselves, and a ridge; and the same as a dense matrix.
    fn random(shape: ArrowShape, seed: u64, ridge: f64) -> (Arrow, Mat<f64>) {
        let ArrowShape { groups, width, dim } = shape;
        let mut rng = Seed(seed).stream(Purpose::Generate, 0);
        let mut arrow = Arrow::zeros(shape);
        let mut dense = Mat::<f64>::zeros(shape.len(), shape.len());
        for n in 0..(3 * shape.len()) {
            let mut row = vec![0.0; shape.len()];
            let g = if groups == 0 { 0 } else { n % groups };
            let slot = g * width..if groups == 0 { 0 } else { (g + 1) * width };
            for i in slot.clone().chain(shape.effects()..shape.len()) {
                row[i] = standard_normal(&mut rng);
            }
            for i in 0..shape.len() {
                for j in 0..shape.len() {
                    dense[(i, j)] += row[i] * row[j];
                }
            }
        }
        (0..shape.len()).for_each(|i| dense[(i, i)] += ridge);
        for g in 0..groups {
            for i in 0..width {
                for j in 0..width {
                    arrow.block_mut(g)[i * width + j] = dense[(g * width + i, g * width + j)];
                }
                for j in 0..dim {
                    arrow.border_mut(g)[i * dim + j] = dense[(g * width + i, shape.effects() + j)];
                }
            }
        }
        *arrow.corner_mut() =
            Mat::from_fn(dim, dim, |i, j| dense[(shape.effects() + i, shape.effects() + j)]);
        (arrow, dense)
    }

    fn vector(shape: ArrowShape) -> Vec<f64> {
        (0..shape.len()).map(|i| (i as f64 * 0.7).sin()).collect()
    }

    fn column(x: &[f64]) -> Mat<f64> {
        Mat::from_fn(x.len(), 1, |i, _| x[i])
    }

    fn assert_close(ours: &[f64], expected: &Mat<f64>, what: &str) {
        for (i, x) in ours.iter().enumerate() {
            assert!(
                (x - expected[(i, 0)]).abs() < 1e-10 * (1.0 + x.abs()),
                "{what}, {i}: {x} {}",
                expected[(i, 0)]
            );
        }
    }

    /// An entry of an arrow, 0 outside of it.
    fn entry(arrow: &Arrow, i: usize, j: usize) -> f64 {
        let ArrowShape { width, dim, .. } = arrow.shape();
        let effects = arrow.shape().effects();
        let (i, j) = (i.min(j), i.max(j));
        match (i < effects, j < effects) {
            (true, true) if i / width == j / width => arrow.block(i / width)[i % width * width + j % width],
            (true, true) => 0.0,
            (true, false) => arrow.border(i / width)[i % width * dim + j - effects],
            _ => arrow.corner()[(i - effects, j - effects)],
        }
    }

    #[test]
    fn factor_and_solutions_agree_with_a_dense_factor() {
        for shape in SHAPES {
            let (arrow, dense) = random(shape, 1, 0.3);
            let (ours, theirs) = (arrow.factor().unwrap(), Cholesky::new(dense.as_ref()).unwrap());
            let x = vector(shape);
            assert_close(&arrow.times(&x), &(&dense * column(&x)), "product");
            assert_close(&ours.solve(&x), &theirs.solve(column(&x)), "solution");
            let determinant: f64 = (0..shape.len()).map(|i| 2.0 * theirs.lower()[(i, i)].ln()).sum();
            assert!((ours.log_determinant() - determinant).abs() < 1e-9);
            let (mut half, mut expected) = (x.clone(), column(&x));
            ours.solve_lower(&mut half);
            solve_lower(theirs.lower(), expected.as_mut());
            assert_close(&half, &expected, "half a solution");
            let (mut half, mut expected) = (x.clone(), column(&x));
            ours.solve_lower_transposed(&mut half);
            solve_lower_transposed(theirs.lower(), expected.as_mut());
            assert_close(&half, &expected, "the other half");
            ours.times_lower_transposed(&mut half);
            assert_close(&half, &column(&x), "there and back");
        }
    }

    #[test]
    fn the_inverse_on_the_arrow_agrees_with_a_dense_inverse() {
        for shape in SHAPES {
            let (arrow, dense) = random(shape, 2, 0.3);
            let (ours, theirs) =
                (arrow.factor().unwrap().inverse(), Cholesky::new(dense.as_ref()).unwrap().inverse());
            for i in 0..shape.len() {
                for j in 0..shape.len() {
                    let found = entry(&ours, i, j);
                    assert!(found == 0.0 || (found - theirs[(i, j)]).abs() < 1e-11, "{shape:?} {i} {j}");
                }
                assert!((ours.diagonal()[i] - theirs[(i, i)]).abs() < 1e-11);
            }
            // tr(H⁻¹ H) is the number of parameters.
            assert!((ours.inner_product(&arrow) - shape.len() as f64).abs() < 1e-8);
        }
    }

    #[test]
    fn whitened_rows_are_those_of_a_dense_factor_and_add_up_to_the_whitened_arrow() {
        for shape in SHAPES.into_iter().filter(|shape| shape.groups > 0) {
            let ArrowShape { width, dim, .. } = shape;
            let (arrow, _) = random(shape, 3, 0.5);
            let (other, other_dense) = random(shape, 4, 0.0);
            let factor = arrow.factor().unwrap();
            let group = shape.groups / 2;
            let (mut effects, mut z) = (vec![0.4; width], vec![-0.9; dim]);
            let mut row = vec![0.0; shape.len()];
            row[group * width..(group + 1) * width].copy_from_slice(&effects);
            row[shape.effects()..].copy_from_slice(&z);
            factor.whiten_row(group, &mut effects, &mut z);
            factor.solve_lower(&mut row);
            for (i, value) in row.iter().enumerate() {
                let expected = match i {
                    i if i >= shape.effects() => z[i - shape.effects()],
                    i if i / width == group => effects[i % width],
                    _ => 0.0,
                };
                assert!((value - expected).abs() < 1e-12);
            }
            // L⁻¹ K L⁻ᵀ, column by column and row by row.
            let whitened = factor.whiten_arrow(&other);
            let solve_columns = |matrix: Mat<f64>| {
                let columns: Vec<Vec<f64>> = (0..shape.len())
                    .map(|j| {
                        let mut x = matrix.col_as_slice(j).to_vec();
                        factor.solve_lower(&mut x);
                        x
                    })
                    .collect();
                Mat::from_fn(shape.len(), shape.len(), |i, j| columns[j][i])
            };
            let expected = solve_columns(solve_columns(other_dense).transpose().to_owned());
            for i in 0..shape.len() {
                for j in 0..shape.len() {
                    let found = entry(&whitened, i, j);
                    assert!(
                        (found - expected[(i, j)]).abs() < 1e-9,
                        "{shape:?} {i} {j}: {found} {}",
                        expected[(i, j)]
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_not_positive_definite_has_no_factor() {
        let shape = ArrowShape { groups: 3, width: 2, dim: 2 };
        let (mut arrow, _) = random(shape, 5, 0.1);
        arrow.corner_mut()[(1, 1)] = -1.0;
        assert!(arrow.factor().is_none());
        let (mut arrow, _) = random(shape, 5, 0.1);
        arrow.block_mut(1)[3] = 0.0;
        assert!(arrow.factor().is_none());
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let shape = ArrowShape { groups: 3000, width: 2, dim: 5 };
        let mut arrow = Arrow::zeros(shape);
        for g in 0..shape.groups {
            arrow.block_mut(g).copy_from_slice(&[2.0 + (g as f64).sin(), 0.3, 0.3, 1.5]);
            arrow.border_mut(g).iter_mut().enumerate().for_each(|(i, x)| *x = 0.1 * ((g + i) as f64).cos());
        }
        *arrow.corner_mut() = Mat::from_fn(5, 5, |i, j| if i == j { 900.0 } else { 1.0 });
        let by = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| arrow.factor().unwrap().inverse())
        };
        assert_eq!(by(1), by(3));
    }
}
