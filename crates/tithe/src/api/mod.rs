//! The short way through the library: files in, coresets and posteriors out.

mod coreset;
mod data;
mod fit;
mod stream;

pub use data::Data;
