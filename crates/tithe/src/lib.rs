//! Tithe turns a huge labelled table into a few hundred weighted rows that give the same Bayesian
//! logistic-regression posterior.
//!
//! The way through: a [`source`] of rows, the [`encoding`] that turns them into points `z = y·x`, a
//! [`clustering`], [`sensitivity`] bounds, [`selection`], and a [`coreset`]; then the [`model`] on its rows,
//! draws by [`mcmc`], and their [`diagnostics`]. [`build`] is the driver, and reads like Algorithm 1 of
//! Huggins, Campbell and Broderick, *Coresets for Scalable Bayesian Logistic Regression* (2016), whose notation
//! is used throughout: rows `x_n`, labels `y_n ∈ {−1, +1}`, `φ(s) = ln(1 + e^{−s})`, log-likelihood
//! `L(θ) = −Σ w_n φ(z_n·θ)`. All data is weighted data; raw data has `w_n = 1`.
//!
//! Whatever touches all rows is a [`pass::Pass`], run by an [`engine::Engine`] on all cores, from memory or
//! from files larger than memory, with the same bytes as the result; or by a [`cluster::ClusterEngine`], where the rows are
//! on many machines.
//!
//! ```
//! use tithe::build::{build, BuildSettings};
//! use tithe::files::{read_coreset, write_coreset, Output};
//! use tithe::selection::Size;
//! use tithe::source::{open, OpenOptions};
//! use tithe::table::Roles;
//!
//! # fn main() -> tithe::error::Result<()> {
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

pub mod block;
pub mod build;
mod calibrated;
pub mod calibration;
pub mod certify;
pub mod cluster;
pub mod clustering;
pub mod collapse;
pub mod compare;
pub mod coreset;
pub mod diagnostics;
pub mod draws;
pub mod encoding;
pub mod engine;
pub mod error;
pub mod export;
pub mod files;
pub mod fingerprint;
pub mod fit;
pub mod full_data;
pub mod generate;
pub mod machine;
mod math;
pub mod mcmc;
pub mod merge;
pub mod mmd;
pub mod model;
mod newton;
mod parts;
pub mod pass;
pub mod points;
pub mod predict;
pub mod progress;
pub mod psis;
pub mod rng;
pub mod search;
pub mod selection;
pub mod sensitivity;
pub mod slots;
pub mod source;
pub mod stream;
pub mod survey;
pub mod table;
pub mod verify;
