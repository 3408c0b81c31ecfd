//! The terms of a formula as columns of the model matrix: compiled once, learnt from the data where they depend on it, and evaluated
//! tile by tile in every pass.

mod basis;
pub(crate) mod collinear;
mod compile;
mod design;
mod evaluate;
pub(crate) mod learn;
mod rank;

pub use design::Design;
pub(crate) use evaluate::{DesignInput, Raw};
