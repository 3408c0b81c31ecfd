//! The compared methods for choosing and weighting rows, with their names, colours and markers in all plots.

use serde::{Deserialize, Serialize};
use tithe::coreset::Method;
use tithe_plot::{Color, Marker};

/// A method for choosing and weighting a subset of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approach {
    /// The paper's Algorithm 1.
    Coreset,
    /// Uniform subsampling.
    Uniform,
    /// A coreset with calibrated weights.
    Calibrated,
    /// A calibrated coreset of a stream: the rows are read once, block by block.
    Stream,
}

impl Approach {
    /// All methods, in the order of the legends.
    pub const ALL: [Approach; 4] =
        [Approach::Uniform, Approach::Coreset, Approach::Calibrated, Approach::Stream];
    /// The methods that need all rows in memory.
    pub const IN_MEMORY: [Approach; 3] = [Approach::Uniform, Approach::Coreset, Approach::Calibrated];

    /// The method setting for `build`.
    pub fn method(self) -> Method {
        match self {
            Approach::Coreset => Method::Sensitivity,
            Approach::Uniform => Method::Uniform,
            Approach::Calibrated | Approach::Stream => Method::Calibrated,
        }
    }

    /// Name in tables and file names.
    pub fn slug(self) -> &'static str {
        match self {
            Approach::Coreset => "coreset",
            Approach::Uniform => "uniform",
            Approach::Calibrated => "calibrated",
            Approach::Stream => "stream",
        }
    }

    /// Name in legends.
    pub fn title(self) -> &'static str {
        match self {
            Approach::Coreset => "Coreset (paper)",
            Approach::Uniform => "Uniform",
            Approach::Calibrated => "Calibrated coreset",
            Approach::Stream => "Calibrated stream",
        }
    }

    /// Colour in all plots.
    pub fn color(self) -> Color {
        match self {
            Approach::Coreset => Color::BLUE,
            Approach::Uniform => Color::VERMILION,
            Approach::Calibrated => Color::GREEN,
            Approach::Stream => Color::PURPLE,
        }
    }

    /// Marker in all plots, so that curves can be distinguished without colour.
    pub fn marker(self) -> Marker {
        match self {
            Approach::Coreset => Marker::Circle,
            Approach::Uniform => Marker::Square,
            Approach::Calibrated => Marker::Triangle,
            Approach::Stream => Marker::Diamond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_distinct_in_plots_and_files() {
        for (i, a) in Approach::ALL.iter().enumerate() {
            for b in &Approach::ALL[..i] {
                assert!(a.slug() != b.slug() && a.title() != b.title());
                assert!(a.color() != b.color() && a.marker() != b.marker());
            }
        }
        assert!(Approach::IN_MEMORY.iter().all(|approach| *approach != Approach::Stream));
    }
}
