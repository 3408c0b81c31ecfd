//! Shared by the benchmarks: arguments, settings and timing.

use std::time::Instant;

use tithe::base::progress::Silent;
use tithe::coreset::Method;
use tithe::coreset::build::{BuildSettings, Built, build_on};
use tithe::data::source::Source;
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, Standardize};
use tithe::engine::{EngineSettings, LocalEngine};

/// The command-line arguments, without those that `cargo bench` adds.
pub fn arguments() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench").collect()
}

/// The settings of the paper: k = 4, M = 1000, no intercept, unscaled covariates.
pub fn paper_settings() -> BuildSettings {
    let encoding =
        EncodingSettings { intercept: false, standardize: Standardize::None, ..EncodingSettings::default() };
    BuildSettings { method: Method::Sensitivity, clusters: 4, encoding, ..BuildSettings::default() }
}

/// The same settings for the default method.
pub fn calibrated_settings() -> BuildSettings {
    BuildSettings { method: Method::Calibrated, ..paper_settings() }
}

/// Builds a coreset of a source with the label `y`. The time is that of the build only.
pub fn timed_build(source: Box<dyn Source>, memory: u64, settings: &BuildSettings) -> (f64, Built) {
    let roles = Roles { label: "y".into(), ..Roles::default() };
    let table = Table::new(source, &roles).expect("a table");
    let engine_settings = EngineSettings { memory, ..EngineSettings::default() };
    let engine = LocalEngine::new(table, &engine_settings, &Silent).expect("an engine");
    let start = Instant::now();
    let built = build_on(&engine, settings).expect("a coreset");
    (start.elapsed().as_secs_f64(), built)
}
