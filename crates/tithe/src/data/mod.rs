//! Tables: where rows come from, how they are held in memory, and how they are written.

pub mod block;
pub mod fingerprint;
pub mod generate;
pub mod points;
pub mod sink;
pub mod source;
pub mod table;
