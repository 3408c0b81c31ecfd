//! Keeps a weighted choice of rows while they pass by, in bounded memory.

pub mod pool;
pub mod slots;
