//! Finds the mode of the full data's posterior in as few passes as possible.

pub mod search;
