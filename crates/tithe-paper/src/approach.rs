//! The ways to a few weighted rows that are compared, each with its name and its look in every plot.

use serde::{Deserialize, Serialize};
use tithe::coreset::Method;
use tithe_plot::{Color, Marker};

/// A way to a few weighted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approach {
    /// The paper's Algorithm 1.
    Coreset,
    /// A uniform choice of rows.
    Uniform,
    /// Calibrated weights.
    Calibrated,
    /// Calibrated weights, from one reading of the rows, block by block.
    Stream,
}

impl Approach {
    /// All of them, in the order of legends.
    pub const ALL: [Approach; 4] =
        [Approach::Uniform, Approach::Coreset, Approach::Calibrated, Approach::Stream];
    /// Those that have all rows at hand.
    pub const OF_ALL_ROWS: [Approach; 3] = [Approach::Uniform, Approach::Coreset, Approach::Calibrated];

    /// How `build` is told.
    pub fn method(self) -> Method {
        match self {
            Approach::Coreset => Method::Sensitivity,
            Approach::Uniform => Method::Uniform,
            Approach::Calibrated | Approach::Stream => Method::Calibrated,
        }
    }

    /// In tables and file names.
    pub fn slug(self) -> &'static str {
        match self {
            Approach::Coreset => "coreset",
            Approach::Uniform => "uniform",
            Approach::Calibrated => "calibrated",
            Approach::Stream => "stream",
        }
    }

    /// In legends.
    pub fn title(self) -> &'static str {
        match self {
            Approach::Coreset => "Coreset (the paper's)",
            Approach::Uniform => "Uniform",
            Approach::Calibrated => "Calibrated coreset",
            Approach::Stream => "Calibrated stream",
        }
    }

    /// Its colour, the same in every plot.
    pub fn color(self) -> Color {
        match self {
            Approach::Coreset => Color::BLUE,
            Approach::Uniform => Color::VERMILION,
            Approach::Calibrated => Color::GREEN,
            Approach::Stream => Color::PURPLE,
        }
    }

    /// Its marker, the same in every plot, so that colours are not needed.
    pub fn marker(self) -> Marker {
        match self {
            Approach::Coreset => Marker::Circle,
            Approach::Uniform => Marker::Square,
            Approach::Calibrated => Marker::Triangle,
            Approach::Stream => Marker::Diamond,
        }
    }
}
