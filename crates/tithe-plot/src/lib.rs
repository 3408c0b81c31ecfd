//! Line charts with error bars, arranged in panels, written as SVG or PNG.
//!
//! A [`Chart`] is a grid of [`Panel`]s that share one legend. The SVG has a white background, so that it is readable on
//! paper and on a dark web page. The PNG is rendered from the SVG with a font that is embedded in the program.
//!
//! ```
//! use tithe_plot::{Axis, Chart, Color, Curve, Line, Marker, Panel, Point, Scale};
//!
//! let curve = Curve {
//!     name: "squares".to_string(),
//!     points: (1..10).map(|x| Point::new(f64::from(x), f64::from(x * x))).collect(),
//!     color: Color::BLUE,
//!     marker: Marker::Circle,
//!     line: Line::Solid,
//! };
//! let panel = Panel {
//!     title: "Growth".to_string(),
//!     x: Axis::new("side (m)", Scale::Linear),
//!     y: Axis::new("area (m²)", Scale::Log),
//!     curves: vec![curve],
//!     levels: Vec::new(),
//! };
//! let chart = Chart { title: "Squares".to_string(), panels: vec![panel], columns: 1 };
//! assert!(chart.svg().starts_with("<svg"));
//! assert!(chart.png(2.0).unwrap().starts_with(b"\x89PNG"));
//! ```

mod axis;
mod chart;
mod png;
mod style;

pub use axis::{Axis, Scale};
pub use chart::{Chart, Curve, Level, Panel, Point, escaped};
pub use style::{Color, Line, Marker};
