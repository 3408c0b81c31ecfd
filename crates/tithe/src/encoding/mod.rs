//! Turns columns into the model's points `z = y·x`, and learns from the data how to.

mod coding;
pub mod full_data;
mod moments;
pub mod survey;

pub use coding::*;
