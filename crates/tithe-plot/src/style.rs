//! Colours, markers and line styles. There are few of each, so that they are easy to distinguish.

/// An RGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub u8, pub u8, pub u8);

// The palette of Okabe and Ito, which is safe for colour-blind readers.
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
    /// The near-black of axes and text.
    pub const INK: Color = Color(34, 34, 34);
    /// Grey, for lines in the background.
    pub const GREY: Color = Color(120, 120, 120);

    /// A sequential colour map for ordered values: light at 0, dark at 1. The lightness decreases monotonically, so that the
    /// order is visible in greyscale print too. Values outside [0, 1] are clamped.
    pub fn ramp(value: f64) -> Color {
        // Yellow-green-blue; the lightest colour is dark enough for a line on white.
        const STOPS: [(f64, f64, f64); 5] = [
            (161.0, 196.0, 72.0),
            (70.0, 172.0, 120.0),
            (33.0, 135.0, 150.0),
            (45.0, 88.0, 145.0),
            (52.0, 24.0, 84.0),
        ];
        let position = value.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
        let below = (position as usize).min(STOPS.len() - 2);
        let (a, b, t) = (STOPS[below], STOPS[below + 1], position - below as f64);
        let mix = |a: f64, b: f64| (a + t * (b - a)).round() as u8;
        Color(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
    }

    /// The colour in SVG notation, `#rrggbb`.
    pub(crate) fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// The symbol at each point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// No symbol.
    None,
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
    /// A square standing on a corner.
    Diamond,
}

/// The line that joins the points of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// No line.
    None,
    /// A solid line.
    Solid,
    /// A dashed line.
    Dashed,
    /// A dotted line.
    Dotted,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by Rec. 709, from 0 (black) to 255 (white).
    fn luminance(Color(red, green, blue): Color) -> f64 {
        0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue)
    }

    #[test]
    fn colours_in_svg_notation_have_two_digits_per_channel() {
        assert_eq!(Color(0, 10, 255).hex(), "#000aff");
        assert_eq!(Color::BLUE.hex(), "#0072b2");
    }

    #[test]
    fn the_ramp_gets_darker_from_end_to_end() {
        let ramp: Vec<f64> = (0..=100).map(|i| luminance(Color::ramp(f64::from(i) / 100.0))).collect();
        assert!(ramp.windows(2).all(|pair| pair[1] < pair[0] + 0.5), "{ramp:?}");
        assert!(ramp[0] - ramp[100] > 100.0);
        assert_eq!(Color::ramp(-3.0), Color::ramp(0.0));
        assert_eq!(Color::ramp(7.0), Color::ramp(1.0));
        assert_eq!(Color::ramp(0.25), Color(70, 172, 120), "a stop of the ramp");
    }

    #[test]
    fn the_palette_is_distinct_and_visible_on_white() {
        let palette = [
            Color::BLUE,
            Color::VERMILION,
            Color::GREEN,
            Color::PURPLE,
            Color::SKY,
            Color::ORANGE,
            Color::INK,
            Color::GREY,
        ];
        let channel = |a: u8, b: u8| (f64::from(a) - f64::from(b)).powi(2);
        for (i, a) in palette.iter().enumerate() {
            assert!(luminance(*a) < 190.0, "{a:?} is too light for a white background");
            for b in &palette[..i] {
                let distance = (channel(a.0, b.0) + channel(a.1, b.1) + channel(a.2, b.2)).sqrt();
                assert!(distance > 60.0, "{a:?} and {b:?} are alike");
            }
        }
    }
}
