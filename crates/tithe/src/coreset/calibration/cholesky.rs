//! A Cholesky factor in place on all cores, by blocks of fixed size: the same bits on any number of threads.

use faer::Mat;
use faer::reborrow::{Reborrow, ReborrowMut};
use rayon::prelude::*;

use crate::base::linear::{Cholesky, solve_lower_from_right, subtract_product};

/// Columns in a block.
const BLOCK: usize = 192;

/// Overwrites the lower triangle of a symmetric positive definite matrix by its factor `L`; the entries above
/// the diagonal are then meaningless. False if the matrix is not positive definite to rounding.
pub(crate) fn factor(matrix: &mut Mat<f64>) -> bool {
    let order = matrix.ncols();
    for start in (0..order).step_by(BLOCK) {
        let width = BLOCK.min(order - start);
        let rest = matrix.as_mut().submatrix_mut(start, start, order - start, order - start);
        let (mut top, _, panel, trailing) = rest.split_at_mut(width, width);
        let Some(corner) = Cholesky::new(top.rb()) else { return false };
        top.copy_from(corner.lower());
        // The panel: each strip of rows separately.
        let lower = top.as_ref();
        let mut strips = Vec::new();
        let mut remaining = panel;
        while remaining.nrows() > 0 {
            let rows = BLOCK.min(remaining.nrows());
            let (strip, after) = remaining.split_at_row_mut(rows);
            strips.push(strip);
            remaining = after;
        }
        strips.par_iter_mut().for_each(|strip| solve_lower_from_right(strip.rb_mut(), lower));
        // The trailing triangle: each block of columns separately.
        let strips: Vec<_> = strips.iter().map(|strip| strip.as_ref()).collect();
        let mut columns = Vec::new();
        let mut remaining = trailing;
        while remaining.ncols() > 0 {
            let count = BLOCK.min(remaining.ncols());
            let (column, after) = remaining.split_at_col_mut(count);
            columns.push(column);
            remaining = after;
        }
        columns.par_iter_mut().enumerate().for_each(|(j, column)| {
            for (i, strip) in strips.iter().enumerate().skip(j) {
                let block = column.as_mut().subrows_mut(i * BLOCK, strip.nrows());
                subtract_product(block, *strip, strips[j].transpose());
            }
        });
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_multiplies_back() {
        for order in [1, 5, BLOCK, BLOCK + 1, 3 * BLOCK - 7] {
            let root =
                Mat::from_fn(order, order, |i, j| f64::from(((i * 7 + j * 13 + i * j) % 17) as u32) - 8.0);
            let mut matrix = &root * root.transpose();
            (0..order).for_each(|i| matrix[(i, i)] += 1.0);
            let original = matrix.clone();
            assert!(factor(&mut matrix));
            let lower = Mat::from_fn(order, order, |i, j| if i >= j { matrix[(i, j)] } else { 0.0 });
            let back = &lower * lower.transpose();
            let worst = (&back - &original).norm_max();
            assert!(worst <= 1e-12 * original.norm_max(), "{order}: error {worst}");
        }
    }

    #[test]
    fn an_indefinite_matrix_is_refused() {
        let mut matrix = Mat::<f64>::identity(300, 300);
        matrix[(250, 250)] = -1.0;
        assert!(!factor(&mut matrix));
    }
}
