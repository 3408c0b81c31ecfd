//! Tithe turns a huge labelled table into a few hundred weighted rows that give the same Bayesian logistic-regression
//! posterior, says how close it got, and draws from it.
//!
//! ```
//! use tithe::{BuildSettings, Data, Fit, FitSettings};
//!
//! # fn main() -> tithe::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # let clicks = folder.path().join("clicks.csv");
//! # let posterior = folder.path().join("posterior.parquet");
//! # let rows: String = (0..5000)
//! #     .map(|n| format!("{},{},{}\n", n % 97, ["ad", "mail", "web"][n % 3], u8::from(n % 97 * (n % 7) > 150)))
//! #     .collect();
//! # std::fs::write(&clicks, format!("age,origin,clicked\n{rows}")).expect("a file");
//! let data = Data::new(&clicks, "clicked"); // any number of Parquet, CSV, … files
//! let coreset = data.build(&BuildSettings::with_rows(200))?;
//! assert!(coreset.len() <= 200 && coreset.rows_represented() == 5000);
//!
//! let fit = coreset.fit(&FitSettings::default())?;
//! println!("{fit}"); // mean, sd and interval of each coefficient on your own scale
//! fit.write(&posterior)?;
//! assert_eq!(Fit::read(&posterior)?.summary[1].name, "age");
//! # Ok(())
//! # }
//! ```
//!
//! The method starts from Huggins, Campbell and Broderick, *Coresets for Scalable Bayesian Logistic Regression* (2016), whose
//! notation the sources use: rows `x_n`, labels `y_n ∈ {−1, +1}`, `z_n = y_n x_n`, `φ(s) = ln(1 + e^{−s})`, log-likelihood
//! `L(θ) = −Σ w_n φ(z_n·θ)`. The [default method](Method::Calibrated) goes past the paper: it weights the rows so that
//! gradient and Hessian at the full data's mode are matched, and its [`Certificate`] measures the remaining difference.
//!
//! The crate exports what is listed here and nothing else. The feature `internals` makes all modules public for the other
//! crates of this project; it comes with no promise of stability.

#![forbid(unsafe_code)]
// What only the command line, Python and the experiments use is dead code to a plain build of this crate.
#![cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports))]

/// The stages, which the feature `internals` makes public. The folders of the stages are next to this file.
#[path = "."]
mod stages {
    pub mod api;
    pub mod base;
    pub mod coreset;
    pub mod data;
    pub mod distributed;
    pub mod encoding;
    pub mod engine;
    pub mod formula;
    pub mod mcmc;
    pub mod mode;
    pub mod model;
    pub mod options;
    pub mod reservoir;
    pub mod results;
    pub mod stream;
}
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use stages::*;
#[cfg(not(feature = "internals"))]
use stages::*;

pub use api::Data;
pub use base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
pub use base::progress::{Event, Observer, Silent};
pub use base::rng::Seed;
pub use coreset::calibration::certificate::{
    ByDraws, Certificate, Deficiency, Evidence, NormalComparison, Verdict,
};
pub use coreset::selection::Size;
pub use coreset::sensitivity::{CenterRule, Radius};
pub use coreset::settings::{BuildSettings, CertificateBy};
pub use coreset::{Coreset, Method};
pub use encoding::EncodingSettings;
pub use encoding::GroupFactor;
pub use encoding::{Standardize, Unseen};
pub use engine::Missing;
pub use mcmc::diagnostics::CoefficientSummary;
pub use mcmc::discrepancy::Discrepancy;
pub use mcmc::findings::{Finding, Trouble};
pub use mcmc::{Sampler, Settings as DrawSettings};
pub use model::{GroupPrior, Prior, PriorChoice};
pub use results::fit::{Fit, FitSettings};
pub use results::judgement::{Judgement, VerificationFacts};
pub use results::predict::{Incomplete, PredictSettings, Prediction};
pub use results::verify::{Figures, Verification, VerifySettings};
pub use stream::{Stream, StreamSettings};
