//! Dense linear algebra that gives the same bits on every processor: products, Cholesky factors, triangular systems and the
//! eigenvalues of symmetric matrices.
//!
//! Libraries choose block sizes and the order of sums by the instruction set. Here every entry is one chain of fused
//! multiply-adds over the inner index in ascending order, starting from the entry's old value. Such a chain has the same
//! rounding errors however the work is divided into blocks, vectors and threads; only different entries are computed side by
//! side.

use faer::reborrow::{Reborrow, ReborrowMut};
use faer::{Mat, MatMut, MatRef};
use pulp::{Simd, WithSimd};

use super::math::{dot, hypot, vectorized, with_vectors};

/// Columns of a tile of the product that is kept in registers; it has two vectors of rows.
const TILE_COLUMNS: usize = 6;
/// Inner indices per block: the packed parts of both factors then stay in the cache.
const DEPTH: usize = 256;
/// Rows of the left factor that are packed at a time; a multiple of the rows of a tile for vectors of any width.
const PACKED_ROWS: usize = 96;
/// Columns of a triangular matrix that are eliminated one by one before a product updates the rest.
const BLOCK: usize = 48;

/// Which entries of a product are needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    /// Those on and below the diagonal; others may be computed or left as they are.
    Lower,
}

/// `A B`.
pub(crate) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut result = Mat::zeros(a.nrows(), b.ncols());
    add_product(result.as_mut(), a, b);
    result
}

/// Adds `A B` to the target.
pub(crate) fn add_product(target: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    with_vectors(Product { target, sign: 1.0, a, b, part: Part::All });
}

/// Subtracts `A B` from the target.
pub(crate) fn subtract_product(target: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    with_vectors(Product { target, sign: -1.0, a, b, part: Part::All });
}

/// Adds the lower triangle of `A B` to the target; its entries above the diagonal are then meaningless.
pub(crate) fn add_lower_product(target: MatMut<'_, f64>, a: MatRef<'_, f64>, b: MatRef<'_, f64>) {
    with_vectors(Product { target, sign: 1.0, a, b, part: Part::Lower });
}

/// `target + sign · A B`, where the sign is 1 or −1.
struct Product<'a> {
    target: MatMut<'a, f64>,
    sign: f64,
    a: MatRef<'a, f64>,
    b: MatRef<'a, f64>,
    part: Part,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Product { mut target, sign, a, b, part } = self;
        let (rows, columns, depth) = (a.nrows(), b.ncols(), a.ncols());
        let tile_rows = 2 * S::F64_LANES;
        let deepest = DEPTH.min(depth);
        let mut right = vec![0.0; columns.next_multiple_of(TILE_COLUMNS) * deepest];
        let mut left = vec![0.0; PACKED_ROWS.min(rows.next_multiple_of(tile_rows)) * deepest];
        for start in (0..depth).step_by(DEPTH) {
            let inner = DEPTH.min(depth - start);
            pack(b.subrows(start, inner).transpose(), 1.0, TILE_COLUMNS, &mut right);
            for top in (0..rows).step_by(PACKED_ROWS) {
                let height = PACKED_ROWS.min(rows - top);
                pack(a.submatrix(top, start, height, inner), sign, tile_rows, &mut left);
                for (first, right) in
                    (0..columns).step_by(TILE_COLUMNS).zip(right.chunks(TILE_COLUMNS * inner))
                {
                    for (row, left) in
                        (top..top + height).step_by(tile_rows).zip(left.chunks(tile_rows * inner))
                    {
                        let height = tile_rows.min(rows - row);
                        if part == Part::Lower && row + height <= first {
                            continue;
                        }
                        let width = TILE_COLUMNS.min(columns - first);
                        update(simd, target.rb_mut().submatrix_mut(row, first, height, width), left, right);
                    }
                }
            }
        }
    }
}

/// Copies a matrix in groups of `width` rows, each column by column and the last filled up with zeros.
#[inline(always)]
fn pack(matrix: MatRef<'_, f64>, sign: f64, width: usize, packed: &mut [f64]) {
    let (rows, columns) = (matrix.nrows(), matrix.ncols());
    if let Some(matrix) = matrix.try_as_col_major() {
        for j in 0..columns {
            let column = matrix.col(j).as_slice();
            for (group, part) in column.chunks(width).enumerate() {
                let into = &mut packed[(group * columns + j) * width..][..width];
                for (into, value) in into.iter_mut().zip(part) {
                    *into = sign * value;
                }
                into[part.len()..].fill(0.0);
            }
        }
        return;
    }
    for group in 0..rows.div_ceil(width) {
        let height = width.min(rows - group * width);
        for (i, row) in (group * width..group * width + height).enumerate() {
            let into = packed[group * columns * width..].iter_mut().skip(i).step_by(width);
            match matrix.transpose().try_as_col_major() {
                Some(rows) => {
                    into.zip(rows.col(row).as_slice()).for_each(|(into, value)| *into = sign * value);
                }
                None => into.zip(0..columns).for_each(|(into, j)| *into = sign * matrix[(row, j)]),
            }
        }
        for j in 0..columns {
            packed[(group * columns + j) * width..][height..width].fill(0.0);
        }
    }
}

/// Adds the product of two packed groups to a tile of the target.
#[inline(always)]
fn update<S: Simd>(simd: S, mut target: MatMut<'_, f64>, left: &[f64], right: &[f64]) {
    let (height, width) = (target.nrows(), target.ncols());
    let tile_rows = 2 * S::F64_LANES;
    let mut sums = [[simd.splat_f64s(0.0); 2]; TILE_COLUMNS];
    for (j, sums) in sums.iter_mut().enumerate().take(width) {
        let numbers: &mut [f64] = pulp::bytemuck::cast_slice_mut(sums);
        match target.rb_mut().col_mut(j).try_as_col_major_mut() {
            Some(column) => numbers[..height].copy_from_slice(column.as_slice_mut()),
            None => (0..height).for_each(|i| numbers[i] = target[(i, j)]),
        }
    }
    for (a, b) in left.chunks_exact(tile_rows).zip(right.chunks_exact(TILE_COLUMNS)) {
        let a = S::as_simd_f64s(a).0;
        for (sums, b) in sums.iter_mut().zip(b) {
            let b = simd.splat_f64s(*b);
            sums[0] = simd.mul_add_f64s(a[0], b, sums[0]);
            sums[1] = simd.mul_add_f64s(a[1], b, sums[1]);
        }
    }
    for (j, sums) in sums.iter().enumerate().take(width) {
        let numbers: &[f64] = pulp::bytemuck::cast_slice(sums);
        match target.rb_mut().col_mut(j).try_as_col_major_mut() {
            Some(column) => column.as_slice_mut().copy_from_slice(&numbers[..height]),
            None => (0..height).for_each(|i| target[(i, j)] = numbers[i]),
        }
    }
}

/// `target − factor · source`, entry by entry.
#[inline(always)]
fn subtract_multiple(target: &mut [f64], factor: f64, source: &[f64]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target = source.mul_add(-factor, *target);
    }
}

/// The Cholesky factor of a symmetric positive definite matrix: `A = LLᵀ`.
pub(crate) struct Cholesky {
    lower: Mat<f64>,
}

impl Cholesky {
    /// The factor of a matrix, whose lower triangle is read; `None` if it is not positive definite to rounding.
    pub fn new(matrix: MatRef<'_, f64>) -> Option<Cholesky> {
        let order = matrix.ncols();
        let mut lower = Mat::zeros(order, order);
        for j in 0..order {
            let column = &mut lower.col_as_slice_mut(j)[j..];
            (j..order).zip(column).for_each(|(i, into)| *into = matrix[(i, j)]);
        }
        for start in (0..order).step_by(BLOCK) {
            let width = BLOCK.min(order - start);
            let rest = lower.as_mut().submatrix_mut(start, start, order - start, order - start);
            let (mut top, _, mut panel, trailing) = rest.split_at_mut(width, width);
            if !factor_block(top.rb_mut()) {
                return None;
            }
            solve_lower_from_right(panel.rb_mut(), top.rb());
            let panel = panel.rb();
            with_vectors(Product {
                target: trailing,
                sign: -1.0,
                a: panel,
                b: panel.transpose(),
                part: Part::Lower,
            });
        }
        // The products leave entries above the diagonal.
        for j in 1..order {
            lower.col_as_slice_mut(j)[..j].fill(0.0);
        }
        Some(Cholesky { lower })
    }

    /// `L`, with zeros above the diagonal.
    pub fn lower(&self) -> MatRef<'_, f64> {
        self.lower.as_ref()
    }

    /// `A⁻¹ B`.
    pub fn solve(&self, mut right: Mat<f64>) -> Mat<f64> {
        solve_lower(self.lower(), right.as_mut());
        solve_lower_transposed(self.lower(), right.as_mut());
        right
    }

    /// `A⁻¹`.
    pub fn inverse(&self) -> Mat<f64> {
        let order = self.lower.ncols();
        self.solve(Mat::identity(order, order))
    }
}

/// Overwrites the lower triangle of a small matrix by its factor, column by column.
fn factor_block(mut block: MatMut<'_, f64>) -> bool {
    let order = block.ncols();
    for j in 0..order {
        let pivot = block[(j, j)];
        if !(pivot > 0.0 && pivot.is_finite()) {
            return false;
        }
        let root = pivot.sqrt();
        for i in j..order {
            block[(i, j)] /= root;
        }
        let (before, after) = block.rb_mut().split_at_col_mut(j + 1);
        let (column, mut after) = (before.rb().col(j), after);
        for k in j + 1..order {
            let factor = column[k];
            let mut target = after.rb_mut().col_mut(k - j - 1);
            for i in k..order {
                target[i] = column[i].mul_add(-factor, target[i]);
            }
        }
    }
    true
}

/// Solves `L X = B` in place.
pub(crate) fn solve_lower(lower: MatRef<'_, f64>, mut right: MatMut<'_, f64>) {
    let order = lower.ncols();
    for start in (0..order).step_by(BLOCK) {
        let width = BLOCK.min(order - start);
        let corner = lower.submatrix(start, start, width, width);
        let (above, mut below) = right.rb_mut().split_at_row_mut(start + width);
        let mut own = above.subrows_mut(start, width);
        vectorized(
            #[inline(always)]
            || {
                for c in 0..own.ncols() {
                    let mut x = [0.0; BLOCK];
                    (0..width).for_each(|i| x[i] = own[(i, c)]);
                    for k in 0..width {
                        x[k] /= corner[(k, k)];
                        let (known, unknown) = x[..width].split_at_mut(k + 1);
                        let factor = known[k];
                        for (i, x) in (k + 1..width).zip(unknown) {
                            *x = corner[(i, k)].mul_add(-factor, *x);
                        }
                    }
                    (0..width).for_each(|i| own[(i, c)] = x[i]);
                }
            },
        );
        let rows = order - start - width;
        subtract_product(below.rb_mut(), lower.submatrix(start + width, start, rows, width), own.rb());
    }
}

/// Solves `Lᵀ X = B` in place.
pub(crate) fn solve_lower_transposed(lower: MatRef<'_, f64>, mut right: MatMut<'_, f64>) {
    let order = lower.ncols();
    for start in (0..order).step_by(BLOCK).rev() {
        let width = BLOCK.min(order - start);
        let corner = lower.submatrix(start, start, width, width);
        let (mut above, own) = right.rb_mut().split_at_row_mut(start);
        let mut own = own.subrows_mut(0, width);
        vectorized(
            #[inline(always)]
            || {
                for c in 0..own.ncols() {
                    let mut x = [0.0; BLOCK];
                    (0..width).for_each(|i| x[i] = own[(i, c)]);
                    for k in (0..width).rev() {
                        x[k] /= corner[(k, k)];
                        let factor = x[k];
                        for (i, x) in x[..k].iter_mut().enumerate() {
                            *x = corner[(k, i)].mul_add(-factor, *x);
                        }
                    }
                    (0..width).for_each(|i| own[(i, c)] = x[i]);
                }
            },
        );
        subtract_product(above.rb_mut(), lower.submatrix(start, 0, width, start).transpose(), own.rb());
    }
}

/// Solves `X Lᵀ = B` in place.
pub(crate) fn solve_lower_from_right(mut right: MatMut<'_, f64>, lower: MatRef<'_, f64>) {
    let order = lower.ncols();
    for start in (0..order).step_by(BLOCK) {
        let width = BLOCK.min(order - start);
        let (known, rest) = right.rb_mut().split_at_col_mut(start);
        let mut own = rest.subcols_mut(0, width);
        subtract_product(own.rb_mut(), known.rb(), lower.submatrix(start, 0, width, start).transpose());
        let corner = lower.submatrix(start, start, width, width);
        for j in 0..width {
            let (before, after) = own.rb_mut().split_at_col_mut(j);
            let mut target = after.col_mut(0);
            for k in 0..j {
                let (factor, column) = (corner[(j, k)], before.rb().col(k));
                match (target.rb_mut().try_as_col_major_mut(), column.try_as_col_major()) {
                    (Some(target), Some(column)) => {
                        let (target, column) = (target.as_slice_mut(), column.as_slice());
                        vectorized(
                            #[inline(always)]
                            || subtract_multiple(target, factor, column),
                        );
                    }
                    _ => {
                        for i in 0..target.nrows() {
                            target[i] = column[i].mul_add(-factor, target[i]);
                        }
                    }
                }
            }
            for i in 0..target.nrows() {
                target[i] /= corner[(j, j)];
            }
        }
    }
}

/// `L⁻¹`.
pub(crate) fn invert_lower(lower: MatRef<'_, f64>) -> Mat<f64> {
    let order = lower.ncols();
    let mut inverse = Mat::identity(order, order);
    for start in (0..order).step_by(BLOCK) {
        let (rows, width) = (order - start, BLOCK.min(order - start));
        // The inverse has zeros above the diagonal as well.
        let columns = inverse.as_mut().submatrix_mut(start, start, rows, width);
        solve_lower(lower.submatrix(start, start, rows, rows), columns);
    }
    inverse
}

/// The eigenvalues of a symmetric matrix and their eigenvectors, one per column.
pub(crate) struct Eigen {
    pub values: Vec<f64>,
    pub vectors: Mat<f64>,
}

/// Rotations per eigenvalue after which the search gives up; two or three are usual.
const MOST_SWEEPS: usize = 60;

impl Eigen {
    /// The eigenvalues of a symmetric matrix in ascending order; `None` if an entry is not finite. Householder reflections
    /// make it tridiagonal, and implicit QL steps make that diagonal (Golub and Van Loan, 8.3).
    pub fn new(matrix: MatRef<'_, f64>) -> Option<Eigen> {
        let order = matrix.ncols();
        let mut work = Mat::from_fn(order, order, |i, j| matrix[(i.max(j), i.min(j))]);
        if !work.norm_max().is_finite() {
            return None;
        }
        let (mut diagonal, mut beside, mut vectors) = tridiagonal(&mut work);
        diagonalise(&mut diagonal, &mut beside, &mut vectors)?;
        let mut sorted: Vec<usize> = (0..order).collect();
        sorted.sort_by(|a, b| diagonal[*a].total_cmp(&diagonal[*b]));
        Some(Eigen {
            values: sorted.iter().map(|&at| diagonal[at]).collect(),
            vectors: Mat::from_fn(order, order, |i, j| vectors[(i, sorted[j])]),
        })
    }
}

/// The tridiagonal form `QᵀAQ` of a symmetric matrix, which is overwritten: its diagonal, what is beside it, and `Q`.
fn tridiagonal(work: &mut Mat<f64>) -> (Vec<f64>, Vec<f64>, Mat<f64>) {
    let order = work.ncols();
    let mut reflectors: Vec<(Vec<f64>, f64)> = Vec::with_capacity(order);
    let mut beside = vec![0.0; order];
    for (k, beside) in beside.iter_mut().enumerate().take(order.saturating_sub(1)) {
        let mut v = work.col_as_slice(k)[k + 1..].to_vec();
        // Scaled, so that no square overflows or vanishes.
        let scale = v.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        if scale == 0.0 || v.len() == 1 {
            *beside = v[0];
            reflectors.push((Vec::new(), 0.0));
            continue;
        }
        v.iter_mut().for_each(|x| *x /= scale);
        let norm = dot(&v, &v).sqrt();
        let image = if v[0] > 0.0 { -norm } else { norm };
        *beside = image * scale;
        v[0] -= image;
        let factor = 2.0 / dot(&v, &v);
        // The reflection of the rest: A − v wᵀ − w vᵀ with w = p − ½ factor (pᵀv) v and p = factor A v.
        let mut w: Vec<f64> =
            (k + 1..order).map(|j| factor * column_dot(&work.col_as_slice(j)[k + 1..], &v)).collect();
        let half = 0.5 * factor * dot(&w, &v);
        vectorized(
            #[inline(always)]
            || subtract_multiple(&mut w, half, &v),
        );
        for (j, (vj, wj)) in v.iter().zip(&w).enumerate() {
            let column = &mut work.col_as_slice_mut(k + 1 + j)[k + 1..];
            vectorized(
                #[inline(always)]
                || {
                    for ((x, v), w) in column.iter_mut().zip(&v).zip(&w) {
                        // Symmetric in its two terms, so that both triangles keep the same bits.
                        *x -= v * wj + w * vj;
                    }
                },
            );
        }
        reflectors.push((v, factor));
    }
    let diagonal = (0..order).map(|i| work[(i, i)]).collect();
    let mut vectors = Mat::identity(order, order);
    for (k, (v, factor)) in reflectors.iter().enumerate().rev().filter(|(_, (v, _))| !v.is_empty()) {
        for j in k + 1..order {
            let column = &mut vectors.col_as_slice_mut(j)[k + 1..];
            let share = factor * column_dot(column, v);
            vectorized(
                #[inline(always)]
                || subtract_multiple(column, share, v),
            );
        }
    }
    (diagonal, beside, vectors)
}

fn column_dot(a: &[f64], b: &[f64]) -> f64 {
    vectorized(
        #[inline(always)]
        || dot(a, b),
    )
}

/// Makes a tridiagonal matrix diagonal by rotations, which are applied to the columns of `vectors` as well.
fn diagonalise(diagonal: &mut [f64], beside: &mut [f64], vectors: &mut Mat<f64>) -> Option<()> {
    let order = diagonal.len();
    for l in 0..order {
        for sweep in 0.. {
            // The first entry beside the diagonal that is lost in rounding splits the matrix.
            let end = (l..order - 1)
                .find(|&m| {
                    let near = diagonal[m].abs() + diagonal[m + 1].abs();
                    beside[m].abs() <= f64::EPSILON * near || beside[m].abs() < f64::MIN_POSITIVE
                })
                .unwrap_or(order - 1);
            if end == l {
                break;
            }
            if sweep == MOST_SWEEPS {
                return None;
            }
            let half = (diagonal[l + 1] - diagonal[l]) / (2.0 * beside[l]);
            let root = hypot(half, 1.0);
            let shift = half + if half >= 0.0 { root } else { -root };
            let mut g = diagonal[end] - diagonal[l] + beside[l] / shift;
            let (mut sine, mut cosine, mut moved) = (1.0, 1.0, 0.0);
            let mut is_split = false;
            for i in (l..end).rev() {
                let (f, b) = (sine * beside[i], cosine * beside[i]);
                let length = hypot(f, g);
                beside[i + 1] = length;
                if length == 0.0 {
                    diagonal[i + 1] -= moved;
                    beside[end] = 0.0;
                    is_split = true;
                    break;
                }
                (sine, cosine) = (f / length, g / length);
                let here = diagonal[i + 1] - moved;
                let turned = (diagonal[i] - here) * sine + 2.0 * cosine * b;
                moved = sine * turned;
                diagonal[i + 1] = here + moved;
                g = cosine * turned - b;
                rotate(vectors, i, sine, cosine);
            }
            if !is_split {
                diagonal[l] -= moved;
                beside[l] = g;
                beside[end] = 0.0;
            }
        }
    }
    Some(())
}

/// Rotates columns `i` and `i + 1`.
fn rotate(vectors: &mut Mat<f64>, i: usize, sine: f64, cosine: f64) {
    let (left, right) = vectors.as_mut().split_at_col_mut(i + 1);
    let columns = (left.col_mut(i).try_as_col_major_mut(), right.col_mut(0).try_as_col_major_mut());
    let (Some(a), Some(b)) = columns else { return };
    let (a, b) = (a.as_slice_mut(), b.as_slice_mut());
    vectorized(
        #[inline(always)]
        || {
            for (a, b) in a.iter_mut().zip(b) {
                let (x, y) = (*a, *b);
                *b = sine * x + cosine * y;
                *a = cosine * x - sine * y;
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use faer::Side;
    use faer::linalg::solvers::Solve;

    use super::*;
    use crate::base::rng::{Purpose, Seed, open_unit};

    fn random(rows: usize, columns: usize, seed: u64) -> Mat<f64> {
        let mut rng = Seed(seed).stream(Purpose::Generate, 0);
        Mat::from_fn(rows, columns, |_, _| 2.0 * open_unit(&mut rng) - 1.0)
    }

    fn definite(order: usize, seed: u64) -> Mat<f64> {
        let root = random(order, order, seed);
        let mut matrix = &root * root.transpose();
        (0..order).for_each(|i| matrix[(i, i)] += 0.5);
        matrix
    }

    const SIZES: [(usize, usize, usize); 6] =
        [(1, 1, 1), (7, 5, 3), (16, 6, 40), (97, 13, 300), (200, 50, 257), (33, 100, 520)];

    #[test]
    fn products_are_chains_of_fused_multiply_adds() {
        for (rows, columns, depth) in SIZES {
            let (a, b, start) = (random(rows, depth, 1), random(depth, columns, 2), random(rows, columns, 3));
            let plain = |sign: f64| {
                Mat::from_fn(rows, columns, |i, j| {
                    (0..depth).fold(start[(i, j)], |sum, k| (sign * a[(i, k)]).mul_add(b[(k, j)], sum))
                })
            };
            let (mut added, mut subtracted, mut lower) = (start.clone(), start.clone(), start.clone());
            add_product(added.as_mut(), a.as_ref(), b.as_ref());
            subtract_product(subtracted.as_mut(), a.as_ref(), b.as_ref());
            add_lower_product(lower.as_mut(), a.as_ref(), b.as_ref());
            assert_eq!(added, plain(1.0));
            assert_eq!(subtracted, plain(-1.0));
            for j in 0..columns {
                assert!((j..rows).all(|i| lower[(i, j)] == added[(i, j)]));
            }
            // From transposed factors and into a transposed target.
            let (turned_a, turned_b) = (a.transpose().to_owned(), b.transpose().to_owned());
            let mut turned = start.transpose().to_owned();
            add_product(turned.as_mut().transpose_mut(), turned_a.transpose(), turned_b.transpose());
            assert_eq!(turned.transpose(), added);
        }
    }

    #[test]
    fn vectors_of_any_width_give_the_same_bits() {
        for (rows, columns, depth) in SIZES {
            let (a, b) = (random(rows, depth, 4), random(depth, columns, 5));
            let by = |run: &dyn Fn(Product<'_>)| {
                let mut target = random(rows, columns, 6);
                let (target_mut, a, b) = (target.as_mut(), a.as_ref(), b.as_ref());
                run(Product { target: target_mut, sign: -1.0, a, b, part: Part::All });
                target
            };
            let plain = by(&|product| product.with_simd(pulp::Scalar));
            assert_eq!(by(&|product| with_vectors(product)), plain);
            assert_eq!(by(&|product| product.with_simd(pulp::Scalar256b)), plain);
            assert_eq!(by(&|product| product.with_simd(pulp::Scalar512b)), plain);
        }
    }

    #[test]
    fn factors_and_solutions_agree_with_another_library() {
        for order in [1, 2, 9, 48, 49, 131] {
            let matrix = definite(order, 7);
            let (ours, theirs) = (Cholesky::new(matrix.as_ref()).unwrap(), matrix.llt(Side::Lower).unwrap());
            let close = |a: MatRef<'_, f64>, b: MatRef<'_, f64>| {
                let scale = b.norm_max().max(1.0);
                assert!((a.to_owned() - b.to_owned()).norm_max() <= 1e-9 * scale, "order {order}");
            };
            close(ours.lower(), theirs.L());
            for columns in [1, 7, 60] {
                let right = random(order, columns, 8);
                close(ours.solve(right.clone()).as_ref(), theirs.solve(&right).as_ref());
                let mut from_right = right.transpose().to_owned();
                solve_lower_from_right(from_right.as_mut(), ours.lower());
                let mut from_left = right.clone();
                solve_lower(ours.lower(), from_left.as_mut());
                close(from_right.transpose(), from_left.as_ref());
                close(product(ours.lower(), from_left.as_ref()).as_ref(), right.as_ref());
            }
            close(
                product(ours.lower(), invert_lower(ours.lower()).as_ref()).as_ref(),
                Mat::identity(order, order).as_ref(),
            );
            close(
                product(matrix.as_ref(), ours.inverse().as_ref()).as_ref(),
                Mat::identity(order, order).as_ref(),
            );
        }
    }

    #[test]
    fn nearly_singular_systems_are_solved_as_well_as_by_another_library() {
        let order = 250;
        let root = random(order, order, 12);
        let root =
            Mat::from_fn(order, order, |i, j| root[(i, j)] * 10f64.powf(-5.0 * i as f64 / order as f64));
        let mut matrix = root.transpose() * &root;
        (0..order).for_each(|i| matrix[(i, i)] += 1e-12);
        let right = random(order, 1, 13);
        let error = |x: &Mat<f64>| (&matrix * x - &right).norm_max() / x.norm_max();
        let ours = Cholesky::new(matrix.as_ref()).expect("a factor").solve(right.clone());
        let theirs = matrix.llt(Side::Lower).expect("a factor").solve(&right);
        assert!(ours.norm_max() > 1e5, "the system is nearly singular");
        assert!(error(&ours) < 10.0 * error(&theirs) + 1e-16, "{} against {}", error(&ours), error(&theirs));
    }

    #[test]
    fn what_is_not_positive_definite_has_no_factor() {
        let mut matrix = definite(100, 9);
        for bad in [-1.0, 0.0, f64::NAN, f64::INFINITY] {
            matrix[(70, 70)] = bad;
            assert!(Cholesky::new(matrix.as_ref()).is_none(), "{bad}");
        }
    }

    #[test]
    fn eigenvectors_are_orthogonal_and_make_the_matrix_diagonal() {
        let rank_one = |order: usize| {
            let v = random(order, 1, 10);
            &v * v.transpose()
        };
        for order in [1, 2, 3, 10, 60, 150] {
            for matrix in [
                definite(order, 11),
                rank_one(order),
                Mat::zeros(order, order),
                Mat::identity(order, order),
                Mat::from_fn(order, order, |i, j| if i == j { 10f64.powi(-(i as i32)) } else { 0.0 }),
            ] {
                let eigen = Eigen::new(matrix.as_ref()).expect("eigenvalues");
                let scale = matrix.norm_max().max(1e-300) * order as f64;
                assert!(eigen.values.windows(2).all(|pair| pair[0] <= pair[1]));
                let square = eigen.vectors.transpose() * &eigen.vectors;
                assert!((square - Mat::<f64>::identity(order, order)).norm_max() < 1e-12 * order as f64);
                let image = &matrix * &eigen.vectors;
                for (j, value) in eigen.values.iter().enumerate() {
                    for i in 0..order {
                        let expected = value * eigen.vectors[(i, j)];
                        assert!((image[(i, j)] - expected).abs() < 1e-12 * scale, "order {order}");
                    }
                }
            }
        }
        assert!(Eigen::new(Mat::from_fn(3, 3, |_, _| f64::NAN).as_ref()).is_none());
    }
}
