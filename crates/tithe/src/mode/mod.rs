//! Finds the mode of the full data's posterior in as few passes as possible.

pub(crate) mod evaluation;
pub mod grouped_evaluation;
pub(crate) mod guides;
pub mod hierarchical;
pub(crate) mod search;
pub mod values;
