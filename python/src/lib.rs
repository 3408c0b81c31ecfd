//! The private native module of the Python package `tithe`: conversions, work without the interpreter's lock, Ctrl-C,
//! and errors as exceptions. Nothing is computed here; the typed and documented interface is the Python code.

mod cluster;
mod coreset;
mod data;
mod errors;
mod options;
mod posterior;
mod shared;
mod stream;
mod work;

use pyo3::prelude::*;

/// Used by the package's own modules, not by users.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::cluster::{
        build_elsewhere, columns_to_build, columns_to_verify, joined, task_on_file, task_on_nothing,
        task_on_stream, verify_elsewhere,
    };
    #[pymodule_export]
    use super::coreset::{Coreset, build, fit, generate};
    #[pymodule_export]
    use super::data::Data;
    #[pymodule_export]
    use super::options::KnownEncoding;
    #[pymodule_export]
    use super::posterior::{Posterior, corrected, verify};
    #[pymodule_export]
    use super::stream::{Stream, merge};
}
