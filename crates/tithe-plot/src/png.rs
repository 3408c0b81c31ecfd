//! The SVG of a chart as PNG, in the font that comes with the program.

use resvg::{tiny_skia, usvg};

use crate::chart::Chart;

/// A part of DejaVu Sans: Latin and Greek letters, and what formulas need.
const FONT: &[u8] = include_bytes!("../fonts/DejaVuSans.ttf");

impl Chart {
    /// The chart as PNG, `scale` pixels to a unit of the SVG.
    ///
    /// # Errors
    /// If the picture would be empty or larger than memory.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, String> {
        let mut options =
            usvg::Options { font_family: "DejaVu Sans".to_string(), ..usvg::Options::default() };
        options.fontdb_mut().load_font_data(FONT.to_vec());
        let tree = usvg::Tree::from_str(&self.svg(), &options).map_err(|error| error.to_string())?;
        let size = tree.size().to_int_size().scale_by(scale).ok_or("the picture has no size")?;
        let mut picture =
            tiny_skia::Pixmap::new(size.width(), size.height()).ok_or("the picture is too large")?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut picture.as_mut());
        picture.encode_png().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Color, Curve, Line, Marker, Panel, Point, Scale};

    #[test]
    fn every_letter_of_a_label_is_in_the_font() {
        // A letter that the font lacks leaves no trace in the picture.
        let titled = |title: &str| {
            let axis = || Axis::new("", Scale::Linear).between(0.0, 1.0);
            let (curves, levels) = (Vec::new(), Vec::new());
            let panel = Panel { title: title.to_string(), x: axis(), y: axis(), curves, levels };
            Chart { title: String::new(), panels: vec![panel], columns: 3 }.png(1.0).expect("a picture")
        };
        let blank = titled(" ");
        assert_eq!(titled("\u{4e00}"), blank, "a letter that is not there");
        for letter in "MZaz09²ε′δσₙθ≤≥≈√−×–⁰⁻⁸¹αβπΣ‖·|Ẽ".chars() {
            assert_ne!(titled(&letter.to_string()), blank, "'{letter}'");
        }
        assert_ne!(titled("m\u{304}"), titled("m"), "the bar over m");
    }

    #[test]
    fn a_curve_is_seen() {
        let curve = Curve {
            name: "line".to_string(),
            points: vec![Point::new(0.0, 0.0), Point { bar: Some((0.5, 1.5)), ..Point::new(1.0, 1.0) }],
            color: Color::BLUE,
            marker: Marker::Circle,
            line: Line::Solid,
        };
        let panel = |curves| Panel {
            title: "t".to_string(),
            x: Axis::new("x", Scale::Linear).between(0.0, 1.0),
            y: Axis::new("y", Scale::Linear).between(0.0, 2.0),
            curves,
            levels: Vec::new(),
        };
        let chart = |curves| Chart { title: "c".to_string(), panels: vec![panel(curves)], columns: 1 };
        let (with, without) = (chart(vec![curve]).png(1.0), chart(Vec::new()).png(1.0));
        let blue = |png: Result<Vec<u8>, String>| {
            let picture = tiny_skia::Pixmap::decode_png(&png.expect("a picture")).expect("a PNG");
            picture.pixels().iter().filter(|p| p.blue() > 150 && p.red() < 60).count()
        };
        assert!(blue(with) > 200);
        assert_eq!(blue(without), 0);
    }
}
