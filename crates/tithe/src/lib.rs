//! Tithe turns a huge labelled table into a few hundred weighted rows that give the same Bayesian
//! logistic-regression posterior.
//!
//! The way through: a source of rows, the encoding that turns them into points `z = y·x`, a
//! clustering, sensitivity bounds, selection, and a coreset; then the model on its rows,
//! draws by mcmc, and their diagnostics. `build` is the driver, and reads like Algorithm 1 of
//! Huggins, Campbell and Broderick, *Coresets for Scalable Bayesian Logistic Regression* (2016), whose notation
//! is used throughout: rows `x_n`, labels `y_n ∈ {−1, +1}`, `φ(s) = ln(1 + e^{−s})`, log-likelihood
//! `L(θ) = −Σ w_n φ(z_n·θ)`. All data is weighted data; raw data has `w_n = 1`.
//!
//! Whatever touches all rows is a `Pass`, run by an `Engine` on all cores, from memory or
//! from files larger than memory, with the same bytes as the result; or by a `ClusterEngine`, where the rows are
//! on many machines.
//!
//! ```
//! use tithe::coreset::build::{build, BuildSettings};
//! use tithe::coreset::file::{read_coreset, write_coreset};
//! use tithe::data::sink::Output;
//! use tithe::coreset::selection::Size;
//! use tithe::data::source::{open, OpenOptions};
//! use tithe::data::table::Roles;
//!
//! # fn main() -> tithe::base::error::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let clicks = folder.path().join("clicks.csv");
//! # let rows: String = (0..5000)
//! #     .map(|n| format!("{},{},{}\n", n % 97, ["ad", "mail", "web"][n % 3], u8::from(n % 97 * (n % 7) > 150)))
//! #     .collect();
//! # std::fs::write(&clicks, format!("age,origin,clicked\n{rows}")).expect("a file");
//! # let core = folder.path().join("core.parquet");
//! let data = open(&[clicks.display().to_string()], &OpenOptions::default())?;
//! let roles = Roles { label: "clicked".into(), ..Roles::default() };
//! let settings = BuildSettings { size: Size::Rows(200), ..BuildSettings::default() };
//! let coreset = build(data, &roles, &settings)?;
//!
//! assert!(coreset.rows.len() <= 200);
//! assert_eq!(coreset.encoding.coefficient_names(), ["intercept", "age", "origin=mail", "origin=web"]);
//! write_coreset(&coreset, Output::create(&core)?)?;
//! assert_eq!(read_coreset(&core)?.weights, coreset.weights);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod base;
pub mod coreset;
pub mod data;
pub mod distributed;
pub mod encoding;
pub mod engine;
pub mod mcmc;
pub mod mode;
pub mod model;
pub mod options;
pub mod reservoir;
pub mod results;
pub mod stream;
