//! The encoding of table columns as the model's points `z = y·x`, and the survey that learns it from the data.

mod check;
mod coding;
pub mod full_data;
mod moments;
mod standardize;
pub mod survey;

pub use coding::*;
pub use standardize::Standardize;
