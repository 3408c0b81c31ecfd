//! The short way through the library, for users of the crate: from files to coresets and posteriors.

mod coreset;
mod data;
mod fit;
mod stream;

pub use data::Data;
