//! The experiments of Huggins, Campbell and Broderick, *Coresets for Scalable Bayesian Logistic Regression* (2016), run
//! again with Tithe, with what calibration adds: tables, plots and one page of Markdown.
//!
//! The way through: a [`profile`] says how much is run, [`data`] loads the sets, [`posterior`], [`timing`],
//! [`sensitivity`] and [`theory`] are the experiments, made of cells that the [`runner`] runs and keeps; [`figures`]
//! turns what is kept into tables and plots, and [`page`] into text.

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
