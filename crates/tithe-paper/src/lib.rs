//! Reproduces the experiments of Huggins, Campbell and Broderick, *Coresets for Scalable Bayesian Logistic Regression* (2016),
//! with Tithe, and repeats them with calibrated coresets. The output is tables, plots and one Markdown page.
//!
//! A [`profile`] says how much to run. [`data`] loads the data sets. [`posterior`], [`timing`], [`sensitivity`] and [`theory`]
//! are the experiments. An experiment consists of cells (one combination of data set, method, size and seed), which the
//! [`runner`] runs and saves. [`figures`] turns the saved cells into tables and plots, and [`page`] into Markdown.

pub mod approach;
pub mod data;
pub mod figures;
pub mod page;
pub mod posterior;
pub mod profile;
pub mod runner;
pub mod sensitivity;
pub mod tables;
pub mod theory;
pub mod timing;

pub use figures::{Figure, Report, run};
