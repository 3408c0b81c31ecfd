//! Tables of rows: reading them from sources, storing them in memory, and writing them.

pub mod block;
pub mod fingerprint;
pub mod generate;
pub mod grouped;
pub mod points;
pub mod sink;
pub mod source;
pub mod table;
