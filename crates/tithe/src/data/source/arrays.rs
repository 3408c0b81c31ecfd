//! Numerical data in memory: dense matrices of any strides and sparse rows. They are not copied; each unit of rows is
//! converted to columns when it is read.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, cast::AsArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, DataType};

use super::batch::{column_as_text, guarded, numbers, text};
use super::memory::{NAME, UNIT};
use super::part::{check_columns, check_names};
use super::{Scan, Source, Unit};
use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::{Column, Field, Kind, Segment};

/// Rows converted at a time: few enough that a row-major matrix is still in the processor's cache for its next column.
const CACHED_ROWS: usize = 1024;

/// A view of shared values as a matrix: element `(r, c)` is value `offset + r·row_stride + c·column_stride`.
#[derive(Clone)]
pub struct Matrix {
    values: ArrayRef,
    offset: usize,
    rows: usize,
    columns: usize,
    row_stride: isize,
    column_stride: isize,
}

impl Matrix {
    /// A matrix of numbers without nulls: integers of any type, `f32` or `f64`. All its elements must be within `values`.
    pub fn new(
        values: ArrayRef,
        offset: usize,
        (rows, columns): (usize, usize),
        (row_stride, column_stride): (isize, isize),
    ) -> Result<Matrix> {
        let matrix = Matrix { values, offset, rows, columns, row_stride, column_stride };
        let corners = [(0, 0), (rows, 0), (0, columns), (rows, columns)];
        let lies_within = |(r, c): (usize, usize)| {
            let at = matrix.place(r.saturating_sub(1), c.saturating_sub(1));
            at.is_some_and(|at| at < matrix.values.len())
        };
        if rows > 0 && columns > 0 && !corners.into_iter().all(lies_within) {
            return Err(Error::malformed(Path::new(NAME), "a matrix is larger than its values"));
        }
        if matrix.values.null_count() > 0 || !is_number(matrix.values.data_type()) {
            let what = format!("a matrix of {} cannot be read", matrix.values.data_type());
            return Err(Error::malformed(Path::new(NAME), what));
        }
        Ok(matrix)
    }

    /// A single column: all of an array.
    pub fn column(values: ArrayRef) -> Result<Matrix> {
        let rows = values.len();
        Matrix::new(values, 0, (rows, 1), (1, 1))
    }

    /// The values of a single column, if they are contiguous.
    pub fn side_by_side(&self) -> Option<ArrayRef> {
        let is_plain = self.columns == 1 && (self.row_stride == 1 || self.rows <= 1);
        is_plain.then(|| self.values.slice(self.offset, self.rows))
    }

    /// The type of its numbers.
    pub fn data_type(&self) -> &DataType {
        self.values.data_type()
    }

    fn place(&self, row: usize, column: usize) -> Option<usize> {
        let row = isize::try_from(row).ok()?.checked_mul(self.row_stride)?;
        let column = isize::try_from(column).ok()?.checked_mul(self.column_stride)?;
        self.offset.checked_add_signed(row.checked_add(column)?)
    }

    /// Some columns of some rows, each as contiguous values.
    fn lay_out(&self, rows: std::ops::Range<usize>, columns: &[usize]) -> Vec<ArrayRef> {
        match self.values.data_type() {
            DataType::Float64 => self.typed::<Float64Type>(rows, columns),
            DataType::Float32 => self.typed::<Float32Type>(rows, columns),
            DataType::Int8 => self.typed::<Int8Type>(rows, columns),
            DataType::Int16 => self.typed::<Int16Type>(rows, columns),
            DataType::Int32 => self.typed::<Int32Type>(rows, columns),
            DataType::Int64 => self.typed::<Int64Type>(rows, columns),
            DataType::UInt8 => self.typed::<UInt8Type>(rows, columns),
            DataType::UInt16 => self.typed::<UInt16Type>(rows, columns),
            DataType::UInt32 => self.typed::<UInt32Type>(rows, columns),
            // `new` accepts no other type.
            _ => self.typed::<UInt64Type>(rows, columns),
        }
    }

    fn typed<T: ArrowPrimitiveType>(&self, rows: std::ops::Range<usize>, columns: &[usize]) -> Vec<ArrayRef> {
        let values = self.values.as_primitive::<T>().values();
        let start = |row: usize, column: usize| self.place(row, column).unwrap_or_default();
        let array = |values| -> ArrayRef { Arc::new(PrimitiveArray::<T>::new(values, None)) };
        if self.row_stride == 1 {
            let column = |&column| array(values.slice(start(rows.start, column), rows.len()));
            return columns.iter().map(column).collect();
        }
        let mut laid_out = vec![Vec::with_capacity(rows.len()); columns.len()];
        for first in rows.clone().step_by(CACHED_ROWS) {
            let count = CACHED_ROWS.min(rows.end - first);
            for (into, &column) in laid_out.iter_mut().zip(columns) {
                let mut at = start(first, column);
                into.extend((0..count).map(|_| {
                    let value = values[at];
                    at = at.wrapping_add_signed(self.row_stride);
                    value
                }));
            }
        }
        laid_out.into_iter().map(|values| array(ScalarBuffer::from(values))).collect()
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// A matrix in compressed sparse row format.
#[derive(Clone)]
pub struct SparseRows {
    starts: Vec<usize>,
    indices: ArrayRef,
    values: ArrayRef,
    columns: usize,
}

impl SparseRows {
    /// Row `r` has the values `starts[r]..starts[r + 1]`, in the columns given by `indices` (32- or 64-bit integers).
    pub fn new(
        starts: Vec<usize>,
        indices: ArrayRef,
        values: ArrayRef,
        columns: usize,
    ) -> Result<SparseRows> {
        let broken = |what: &str| Error::malformed(Path::new(NAME), format!("the sparse rows {what}"));
        let is_ascending = starts.is_sorted() && starts.first() == Some(&0);
        if !is_ascending || starts.last().is_none_or(|end| *end > values.len() || *end > indices.len()) {
            return Err(broken("have row pointers outside their values"));
        }
        if values.null_count() > 0 || !is_number(values.data_type()) {
            return Err(broken("have values that are not numbers"));
        }
        let lies_within = match indices.data_type() {
            DataType::Int32 => within(indices.as_primitive::<Int32Type>().values(), columns),
            DataType::Int64 => within(indices.as_primitive::<Int64Type>().values(), columns),
            _ => return Err(broken("have indices of a wrong type")),
        };
        if !lies_within || indices.null_count() > 0 {
            return Err(broken("have column indices out of range"));
        }
        Ok(SparseRows { starts, indices, values, columns })
    }

    fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Some columns of some rows as dense values. Several values of the same element are added.
    fn lay_out(
        &self,
        rows: std::ops::Range<usize>,
        columns: &[usize],
    ) -> std::result::Result<Vec<Column>, ArrowError> {
        let (start, end) = (self.starts[rows.start], self.starts[rows.end]);
        let Column::Number(values) = numbers(&self.values.slice(start, end - start))? else {
            return Ok(Vec::new());
        };
        let mut places = vec![None; self.columns];
        for (place, &column) in columns.iter().enumerate() {
            places[column] = Some(place);
        }
        let mut laid_out = vec![vec![0.0; rows.len()]; columns.len()];
        let mut add = |row: usize, at: usize, index: usize| {
            if let Some(Some(place)) = places.get(index) {
                laid_out[*place][row] += values[at - start];
            }
        };
        let spans = rows.clone().map(|row| (row - rows.start, self.starts[row]..self.starts[row + 1]));
        match self.indices.data_type() {
            DataType::Int32 => {
                let indices = self.indices.as_primitive::<Int32Type>().values();
                spans.for_each(|(row, span)| span.for_each(|at| add(row, at, indices[at] as usize)));
            }
            _ => {
                let indices = self.indices.as_primitive::<Int64Type>().values();
                spans.for_each(|(row, span)| span.for_each(|at| add(row, at, indices[at] as usize)));
            }
        }
        Ok(laid_out.into_iter().map(|values| Column::Number(values.into())).collect())
    }
}

fn within<T: Copy + TryInto<usize>>(indices: &[T], columns: usize) -> bool {
    indices.iter().all(|&index| index.try_into().is_ok_and(|index: usize| index < columns))
}

/// Some columns of an [`Arrays`].
#[derive(Clone)]
pub enum Part {
    /// A matrix of numbers.
    Numbers(Matrix),
    /// A matrix of zeros and ones that mean false and true.
    Truths(Matrix),
    /// Sparse rows.
    Sparse(SparseRows),
    /// One column of text.
    Text(ArrayRef),
}

impl Part {
    fn rows(&self) -> usize {
        match self {
            Part::Numbers(matrix) | Part::Truths(matrix) => matrix.rows,
            Part::Sparse(rows) => rows.rows(),
            Part::Text(values) => values.len(),
        }
    }

    fn width(&self) -> usize {
        match self {
            Part::Numbers(matrix) | Part::Truths(matrix) => matrix.columns,
            Part::Sparse(rows) => rows.columns,
            Part::Text(_) => 1,
        }
    }

    fn kind(&self) -> (Kind, DataType) {
        match self {
            Part::Numbers(matrix) => (Kind::Number, matrix.data_type().clone()),
            Part::Truths(_) => (Kind::Boolean, DataType::Boolean),
            Part::Sparse(rows) => (Kind::Number, rows.values.data_type().clone()),
            Part::Text(_) => (Kind::Text, DataType::Utf8),
        }
    }

    fn lay_out(
        &self,
        rows: std::ops::Range<usize>,
        columns: &[usize],
    ) -> std::result::Result<Vec<Column>, ArrowError> {
        match self {
            Part::Numbers(matrix) | Part::Truths(matrix) => {
                matrix.lay_out(rows, columns).iter().map(numbers).collect()
            }
            Part::Sparse(sparse) => sparse.lay_out(rows, columns),
            Part::Text(values) => Ok(vec![text(&values.slice(rows.start, rows.len()))?]),
        }
    }
}

/// Matrices side by side, with named columns.
#[derive(Clone)]
pub struct Arrays {
    fields: Vec<Field>,
    parts: Arc<Vec<Part>>,
    rows: usize,
}

impl Arrays {
    /// Parts side by side: each with the names of its columns, all of one length.
    pub fn new(named: Vec<(Vec<String>, Part)>) -> Result<Arrays> {
        let path = Path::new(NAME);
        let (names, parts): (Vec<Vec<String>>, Vec<Part>) = named.into_iter().unzip();
        let rows = parts.first().map_or(0, Part::rows);
        let mut fields = Vec::new();
        for (part, own) in parts.iter().zip(&names) {
            if own.len() != part.width() {
                let what = format!("{} columns have {} names", part.width(), own.len());
                return Err(Error::malformed(path, what));
            }
            let of_part = || own.first().cloned().unwrap_or_default();
            if part.rows() != rows {
                let what = format!("has {} rows where the data has {rows}", part.rows());
                return Err(ErrorKind::Column { column: of_part(), what, help: None }.into());
            }
            let (kind, data_type) = part.kind();
            fields.extend(own.iter().map(|name| Field {
                name: name.clone(),
                kind,
                data_type: data_type.clone(),
            }));
        }
        check_names(path, &names.concat(), None)?;
        Ok(Arrays { fields, parts: Arc::new(parts), rows })
    }

    /// Reads a column as text, whatever its type.
    pub fn read_as_text(&mut self, name: &str) -> Result<()> {
        column_as_text(&mut self.fields, name)
    }
}

impl Source for Arrays {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows as u64)
    }

    fn is_sparse(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Sparse(_)))
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        // The requested columns of each part, and their positions in the result.
        let mut picks = Vec::new();
        let mut first = 0;
        for part in self.parts.iter() {
            let own = first..first + part.width();
            first = own.end;
            let of_part = columns.iter().enumerate().filter(|(_, column)| own.contains(column));
            picks.push(of_part.map(|(to, column)| (to, column - own.start)).collect());
        }
        let kinds = columns.iter().map(|&column| self.fields[column].kind).collect();
        let plan = Arc::new(Plan { parts: self.parts.clone(), picks, kinds });
        Ok(Box::new(ArraysScan { plan, rows: self.rows, next: 0 }))
    }
}

struct Plan {
    parts: Arc<Vec<Part>>,
    picks: Vec<Vec<(usize, usize)>>,
    kinds: Vec<Kind>,
}

struct ArraysScan {
    plan: Arc<Plan>,
    rows: usize,
    next: usize,
}

impl Scan for ArraysScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let rows = self.next..self.rows.min(self.next + UNIT);
        self.next = rows.end;
        let plan = &self.plan;
        Ok((!rows.is_empty()).then(|| -> Box<dyn Unit> { Box::new(ArraysUnit { plan: plan.clone(), rows }) }))
    }
}

struct ArraysUnit {
    plan: Arc<Plan>,
    rows: std::ops::Range<usize>,
}

impl ArraysUnit {
    fn segment(&self) -> std::result::Result<Segment, ArrowError> {
        let mut columns: Vec<Option<Column>> = vec![None; self.plan.kinds.len()];
        for (part, picks) in self.plan.parts.iter().zip(&self.plan.picks) {
            if picks.is_empty() {
                continue;
            }
            let own: Vec<usize> = picks.iter().map(|(_, own)| *own).collect();
            for ((to, _), column) in picks.iter().zip(part.lay_out(self.rows.clone(), &own)?) {
                let must_be_text = self.plan.kinds[*to] == Kind::Text;
                columns[*to] = Some(match column {
                    Column::Number(values) if must_be_text => {
                        let values: ArrayRef = match part {
                            // The same words as for boolean columns of files: "false" and "true".
                            Part::Truths(_) => Arc::new(BooleanArray::from_iter(
                                values.iter().map(|&value| Some(value != 0.0)),
                            )),
                            _ => Arc::new(PrimitiveArray::<Float64Type>::new(values, None)),
                        };
                        text(&values)?
                    }
                    column => column,
                });
            }
        }
        Ok(Segment { columns: columns.into_iter().flatten().collect(), len: self.rows.len() })
    }
}

impl Unit for ArraysUnit {
    fn first_row(&self) -> Option<u64> {
        Some(self.rows.start as u64)
    }

    fn file(&self) -> &Path {
        Path::new(NAME)
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        emit(guarded(Path::new(NAME), "arrays", || self.segment())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, Int32Array, Int64Array, StringArray};

    fn names(count: usize) -> Vec<String> {
        (1..=count).map(|i| format!("x{i}")).collect()
    }

    fn read(source: &Arrays, columns: &[usize]) -> Vec<Vec<f64>> {
        let mut all = vec![Vec::new(); columns.len()];
        let mut scan = source.scan(columns).unwrap();
        while let Some(unit) = scan.next_unit().unwrap() {
            unit.decode(&mut |segment| {
                for (all, column) in all.iter_mut().zip(&segment.columns) {
                    match column {
                        Column::Number(values) => all.extend_from_slice(values),
                        Column::Text { .. } => panic!("text"),
                    }
                }
                Ok(())
            })
            .unwrap();
        }
        all
    }

    /// 3 columns of this many rows: element (r, c) is 10 r + c, in either order, read backwards, every second row.
    #[test]
    fn strides_are_followed() {
        let rows = 70_001;
        let element = |r: usize, c: usize| (10 * r + c) as f64;
        let row_major: ArrayRef =
            Arc::new(Float64Array::from_iter_values((0..3 * rows).map(|i| element(i / 3, i % 3))));
        let column_major: ArrayRef =
            Arc::new(Float64Array::from_iter_values((0..3 * rows).map(|i| element(i % rows, i / rows))));
        let n = rows as isize;
        let cases = [
            (Matrix::new(row_major.clone(), 0, (rows, 3), (3, 1)), 0, 1),
            (Matrix::new(column_major.clone(), 0, (rows, 3), (1, n)), 0, 1),
            (Matrix::new(column_major.clone(), rows - 1, (rows, 3), (-1, n)), n - 1, -1),
            (Matrix::new(row_major.clone(), 0, (rows / 2, 3), (6, 1)), 0, 2),
        ];
        for (matrix, first, step) in cases {
            let matrix = matrix.unwrap();
            let count = matrix.rows;
            let source = Arrays::new(vec![(names(3), Part::Numbers(matrix))]).unwrap();
            let found = read(&source, &[2, 0]);
            for (column, c) in found.iter().zip([2, 0]) {
                let expected = (0..count).map(|r| element((first + r as isize * step) as usize, c));
                assert!(column.iter().copied().eq(expected), "first {first} step {step}");
            }
        }
        assert!(Matrix::new(row_major.clone(), 1, (rows, 3), (3, 1)).is_err());
        assert!(Matrix::new(row_major, 0, (rows, 3), (-3, 1)).is_err());
    }

    #[test]
    fn contiguous_columns_are_not_copied() {
        let values: ArrayRef = Arc::new(Float64Array::from_iter_values((0..20).map(f64::from)));
        let pointer = values.as_primitive::<Float64Type>().values().as_ptr();
        let matrix = Matrix::new(values, 0, (10, 2), (1, 10)).unwrap();
        let columns = Part::Numbers(matrix).lay_out(2..10, &[0]).unwrap();
        match &columns[0] {
            Column::Number(values) => assert_eq!(values.as_ptr(), pointer.wrapping_add(2)),
            Column::Text { .. } => panic!("text"),
        }
    }

    #[test]
    fn zeros_of_sparse_rows_are_restored() {
        let indices: ArrayRef = Arc::new(Int32Array::from(vec![0, 2, 1, 2, 2]));
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0, 5.0]));
        let rows = SparseRows::new(vec![0, 2, 2, 5], indices.clone(), values.clone(), 3).unwrap();
        let label = Part::Numbers(Matrix::column(Arc::new(Int64Array::from(vec![0, 1, 1]))).unwrap());
        let source = Arrays::new(vec![(names(3), Part::Sparse(rows)), (vec!["y".into()], label)]).unwrap();
        assert!(source.is_sparse());
        assert_eq!(
            read(&source, &[2, 3, 0]),
            [vec![2.0, 0.0, 9.0], vec![0.0, 1.0, 1.0], vec![1.0, 0.0, 0.0]]
        );
        assert!(SparseRows::new(vec![0, 2, 2, 5], indices.clone(), values.clone(), 2).is_err());
        assert!(SparseRows::new(vec![0, 2, 6], indices, values, 3).is_err());
    }

    #[test]
    fn parts_must_have_the_same_length() {
        let long = Part::Numbers(Matrix::column(Arc::new(Int64Array::from(vec![0, 1, 1]))).unwrap());
        let short = Part::Text(Arc::new(StringArray::from(vec!["a", "b"])));
        let error = Arrays::new(vec![(names(1), long), (vec!["y".into()], short)]).err().unwrap();
        assert_eq!(error.to_string(), "column 'y': has 2 rows where the data has 3");
    }
}
