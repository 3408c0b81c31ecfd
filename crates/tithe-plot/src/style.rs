//! Colours, markers and lines: few, and told apart by anyone.

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub u8, pub u8, pub u8);

// The palette of Okabe and Ito, which all kinds of colour vision tell apart.
impl Color {
    /// Blue.
    pub const BLUE: Color = Color(0, 114, 178);
    /// Vermilion.
    pub const VERMILION: Color = Color(213, 94, 0);
    /// Bluish green.
    pub const GREEN: Color = Color(0, 158, 115);
    /// Reddish purple.
    pub const PURPLE: Color = Color(204, 121, 167);
    /// Sky blue.
    pub const SKY: Color = Color(86, 180, 233);
    /// Orange.
    pub const ORANGE: Color = Color(230, 159, 0);
    /// Black, as print has it.
    pub const INK: Color = Color(34, 34, 34);
    /// For what stands in the background.
    pub const GREY: Color = Color(120, 120, 120);

    /// A colour of a ramp from light to dark, at a place between 0 and 1: for values that have an order. Its lightness
    /// falls steadily, so that it is a ramp in grey print too.
    pub fn ramp(place: f64) -> Color {
        // Stops of a yellow-green-blue ramp whose lightest is dark enough for a line on white.
        const STOPS: [(f64, f64, f64); 5] = [
            (161.0, 196.0, 72.0),
            (70.0, 172.0, 120.0),
            (33.0, 135.0, 150.0),
            (45.0, 88.0, 145.0),
            (52.0, 24.0, 84.0),
        ];
        let place = place.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let below = (place as usize).min(STOPS.len() - 2);
        let (a, b, t) = (STOPS[below], STOPS[below + 1], place - below as f64);
        let mix = |a: f64, b: f64| (a + t * (b - a)).round() as u8;
        Color(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
    }

    /// As SVG has it.
    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// What stands at a curve's points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Nothing.
    None,
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
    /// A square on its corner.
    Diamond,
}

/// How a curve's points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Not at all.
    None,
    /// By a line.
    Solid,
    /// By dashes.
    Dashed,
    /// By dots.
    Dotted,
}
