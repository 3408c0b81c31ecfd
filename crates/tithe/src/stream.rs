//! Streams: coresets of data that comes block by block, without end, and can stop, be killed and go on.

pub mod tree;
