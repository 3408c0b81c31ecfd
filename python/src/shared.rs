//! Memory that Python owns and Rust reads: the only file of the package with `unsafe` in it.
#![allow(unsafe_code)]

use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use numpy::{Element, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use tithe::data::source::arrays::Matrix;

use crate::errors::to_python;

/// The name that the Arrow PyCapsule interface gives to streams.
const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// Moves the stream out of a capsule that an `__arrow_c_stream__` returned.
pub fn stream_of(capsule: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name contains a valid stream, by the interface's contract. Reading it moves the stream
    // out and leaves a released one, which the capsule's own destructor then ignores.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Keeps an object alive for as long as its memory is in use.
struct Owner {
    _object: Py<PyAny>,
}

// The object is never accessed, only dropped.
impl RefUnwindSafe for Owner {}

/// A NumPy array of one or two dimensions as a matrix over the same memory.
pub fn matrix_of(array: &Bound<'_, PyAny>) -> PyResult<Matrix> {
    macro_rules! first_that_fits {
        ($($arrow:ty),*) => {
            $(if let Ok(array) = array.cast::<PyArrayDyn<<$arrow as ArrowPrimitiveType>::Native>>() {
                return typed::<$arrow>(array);
            })*
        };
    }
    first_that_fits!(
        Float64Type,
        Float32Type,
        Int64Type,
        Int32Type,
        UInt8Type,
        Int8Type,
        Int16Type,
        UInt16Type,
        UInt32Type,
        UInt64Type
    );
    Err(PyTypeError::new_err("not an array of numbers"))
}

fn typed<T: ArrowPrimitiveType<Native: Element>>(
    array: &Bound<'_, PyArrayDyn<T::Native>>,
) -> PyResult<Matrix> {
    let item = size_of::<T::Native>() as isize;
    let (shape, strides) = match (array.shape(), array.strides()) {
        (&[rows], &[stride]) => ((rows, 1), (stride, item)),
        (&[rows, columns], &[row, column]) => ((rows, columns), (row, column)),
        _ => return Err(PyTypeError::new_err("not of one or two dimensions")),
    };
    let start = array.data().cast::<u8>();
    if strides.0 % item != 0 || strides.1 % item != 0 || start.align_offset(align_of::<T::Native>()) != 0 {
        return Err(PyTypeError::new_err("not aligned"));
    }
    // From the lowest to the highest byte of an element; strides may be negative.
    let reach = |count: usize, stride: isize| (count.saturating_sub(1) as isize) * stride;
    let ends = [reach(shape.0, strides.0), reach(shape.1, strides.1)];
    let low: isize = ends.iter().map(|end| (*end).min(0)).sum();
    let high: isize = ends.iter().map(|end| (*end).max(0)).sum::<isize>() + item;
    let len = if shape.0 == 0 || shape.1 == 0 { 0 } else { (high - low) as usize };
    let buffer = match NonNull::new(start.wrapping_offset(low)) {
        Some(pointer) if len > 0 => {
            let owner = Arc::new(Owner { _object: array.clone().into_any().unbind() });
            // SAFETY: NumPy keeps all elements of an array, and the bytes between them, in one allocation; `owner` keeps it
            // alive and in place. Nothing is written through the buffer. If another thread writes to the array
            // meanwhile, the result is for some mixture of old and new numbers, as with any library that releases
            // the interpreter's lock.
            unsafe { Buffer::from_custom_allocation(pointer, len, owner) }
        }
        _ => Buffer::from_vec(Vec::<T::Native>::new()),
    };
    let values = ScalarBuffer::<T::Native>::from(buffer);
    let values: ArrayRef = Arc::new(PrimitiveArray::<T>::new(values, None));
    let offset = if len == 0 { 0 } else { (-low / item) as usize };
    Matrix::new(values, offset, shape, (strides.0 / item, strides.1 / item))
        .map_err(|error| to_python(array.py(), &error))
}

/// A NumPy vector over the same memory.
pub fn vector_of(array: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    matrix_of(array)?.side_by_side().ok_or_else(|| PyTypeError::new_err("not a vector without gaps"))
}

/// A capsule with one batch, as the result of `__arrow_c_stream__`.
pub fn capsule_of(py: Python<'_>, batch: arrow_array::RecordBatch) -> PyResult<Bound<'_, PyCapsule>> {
    let schema = batch.schema();
    let reader = arrow_array::RecordBatchIterator::new([Ok(batch)], schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}
