//! Charts as PNG, rendered from their SVG with the embedded font.

use resvg::{tiny_skia, usvg};

use crate::chart::Chart;

/// A subset of DejaVu Sans: Latin and Greek letters and mathematical symbols.
const FONT: &[u8] = include_bytes!("../fonts/DejaVuSans.ttf");

impl Chart {
    /// The chart as PNG, with `scale` pixels per SVG unit.
    ///
    /// # Errors
    /// If the image would have no pixels or would not fit in memory.
    pub fn png(&self, scale: f32) -> Result<Vec<u8>, String> {
        let mut options =
            usvg::Options { font_family: "DejaVu Sans".to_string(), ..usvg::Options::default() };
        options.fontdb_mut().load_font_data(FONT.to_vec());
        let tree = usvg::Tree::from_str(&self.svg(), &options).map_err(|error| error.to_string())?;
        let size = tree.size().to_int_size().scale_by(scale).ok_or("the image has no pixels")?;
        let mut image =
            tiny_skia::Pixmap::new(size.width(), size.height()).ok_or("the image is too large")?;
        resvg::render(&tree, tiny_skia::Transform::from_scale(scale, scale), &mut image.as_mut());
        image.encode_png().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Color, Curve, Line, Marker, Panel, Point, Scale};

    fn chart(curves: Vec<Curve>) -> Chart {
        let panel = Panel {
            title: "t".to_string(),
            x: Axis::new("x", Scale::Linear).between(0.0, 1.0),
            y: Axis::new("y", Scale::Linear).between(0.0, 2.0),
            curves,
            levels: Vec::new(),
        };
        Chart { title: "c".to_string(), panels: vec![panel], columns: 1 }
    }

    fn decoded(chart: &Chart, scale: f32) -> tiny_skia::Pixmap {
        tiny_skia::Pixmap::decode_png(&chart.png(scale).expect("an image")).expect("a PNG")
    }

    #[test]
    fn the_font_contains_every_letter_of_the_labels() {
        // A letter that the font lacks leaves no trace in the image.
        let titled = |title: &str| {
            let axis = || Axis::new("", Scale::Linear).between(0.0, 1.0);
            let (curves, levels) = (Vec::new(), Vec::new());
            let panel = Panel { title: title.to_string(), x: axis(), y: axis(), curves, levels };
            Chart { title: String::new(), panels: vec![panel], columns: 3 }.png(1.0).expect("an image")
        };
        let blank = titled(" ");
        assert_eq!(titled("\u{4e00}"), blank, "a letter that the font lacks");
        for letter in "MZaz09²ε′δσₙθ≤≥≈√−×–⁰⁻⁸¹αβπΣ‖·|Ẽ".chars() {
            assert_ne!(titled(&letter.to_string()), blank, "'{letter}'");
        }
        assert_ne!(titled("m\u{304}"), titled("m"), "the bar over m");
    }

    #[test]
    fn a_curve_is_visible() {
        let curve = Curve {
            name: "line".to_string(),
            points: vec![Point::new(0.0, 0.0), Point { bar: Some((0.5, 1.5)), ..Point::new(1.0, 1.0) }],
            color: Color::BLUE,
            marker: Marker::Circle,
            line: Line::Solid,
        };
        let blue = |chart: Chart| {
            decoded(&chart, 1.0).pixels().iter().filter(|p| p.blue() > 150 && p.red() < 60).count()
        };
        assert!(blue(chart(vec![curve])) > 200);
        assert_eq!(blue(chart(Vec::new())), 0);
    }

    #[test]
    fn an_empty_chart_still_shows_axes_on_white() {
        let image = decoded(&chart(Vec::new()), 1.0);
        let dark = image.pixels().iter().filter(|p| p.red() < 200 && p.alpha() == 255).count();
        // The two axes alone are 440 + 270 pixels; antialiasing makes them grey.
        assert!(dark > 700, "{dark} dark pixels");
        let white = image.pixels().iter().filter(|p| p.red() == 255 && p.alpha() == 255).count();
        assert!(white as f64 > 0.9 * image.pixels().len() as f64);
    }

    #[test]
    fn the_scale_sets_the_number_of_pixels() {
        let (single, double) = (decoded(&chart(Vec::new()), 1.0), decoded(&chart(Vec::new()), 2.0));
        assert_eq!((double.width(), double.height()), (2 * single.width(), 2 * single.height()));
        assert_eq!((single.width(), single.height()), (534, 360));
    }

    #[test]
    fn sizes_that_no_image_can_have_are_errors() {
        for scale in [0.0, -1.0, f32::NAN, 1e9] {
            assert!(chart(Vec::new()).png(scale).is_err(), "{scale}");
        }
    }

    #[test]
    fn a_chart_without_panels_is_an_image() {
        let empty = Chart { title: String::new(), panels: Vec::new(), columns: 0 };
        assert!(decoded(&empty, 1.0).pixels().iter().all(|p| p.red() == 255));
    }
}
