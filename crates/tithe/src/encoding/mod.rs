//! The encoding of table columns as the model's points `z = y·x`, and the survey that learns it from the data.

mod answers;
mod check;
mod coding;
mod factor;
mod found;
pub mod full_data;
pub(crate) mod group_rows;
pub mod groups;
mod label;
mod learn;
mod moments;
mod settings;
mod standardize;
pub mod survey;
mod terms;
mod usable;

pub use coding::*;
pub use factor::GroupFactor;
pub use settings::EncodingSettings;
pub use standardize::Standardize;
pub use terms::Design;
pub(crate) use terms::learn::{ColumnMoments, LearningTerms};
