//! Charts as SVG: a grid of panels with one legend.

use std::fmt::Write;

use crate::axis::{Axis, Scale, Tick};
use crate::style::{Color, Line, Marker};

/// A point of a curve, optionally with an error bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Horizontal coordinate.
    pub x: f64,
    /// Vertical coordinate.
    pub y: f64,
    /// The lower and upper end of the error bar.
    pub bar: Option<(f64, f64)>,
}

impl Point {
    /// A point without an error bar.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, bar: None }
    }
}

/// A series of points. Points that an axis cannot show (NaN, infinite, not positive on a logarithmic axis) are skipped.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name in the legend; curves with equal name and style share an entry. A curve without a name has none.
    pub name: String,
    /// The points, from left to right.
    pub points: Vec<Point>,
    /// Colour of line, markers and error bars.
    pub color: Color,
    /// The symbol at each point.
    pub marker: Marker,
    /// The line through the points.
    pub line: Line,
}

impl Curve {
    fn has_bars(&self) -> bool {
        self.points.iter().any(|point| point.bar.is_some())
    }
}

/// A horizontal line across a panel.
#[derive(Clone, Debug)]
pub struct Level {
    /// Name in the legend.
    pub name: String,
    /// Vertical coordinate.
    pub y: f64,
    /// Its colour.
    pub color: Color,
    /// Its line style.
    pub line: Line,
}

/// A plot area with two axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Heading above the plot area.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves; the last one is drawn on top.
    pub curves: Vec<Curve>,
    /// Horizontal lines behind the curves.
    pub levels: Vec<Level>,
}

impl Panel {
    /// An empty cell of the grid.
    pub fn gap() -> Panel {
        let axis = || Axis::new("", Scale::Linear);
        Panel { title: String::new(), x: axis(), y: axis(), curves: Vec::new(), levels: Vec::new() }
    }

    fn is_gap(&self) -> bool {
        self.title.is_empty() && self.curves.is_empty() && self.levels.is_empty()
    }
}

/// A grid of panels with one legend above them.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Text alternative for screen readers.
    pub title: String,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// Number of panels per row.
    pub columns: usize,
}

// All lengths are in SVG units (pixels at scale 1). Space around each plot area, for ticks and labels:
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 46.0;
/// Margin around the whole chart.
const EDGE: f64 = 8.0;
/// Horizontal distance between the error bars of different curves at the same x.
const BAR_DISTANCE: f64 = 4.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 20.0;
/// Length of the sample line of a legend entry, and the gaps after it and after the entry.
const KEY: f64 = 26.0;
const KEY_GAP: f64 = 6.0;
const ENTRY_GAP: f64 = 20.0;
/// Approximate width of a letter of the legend.
const LETTER: f64 = 6.6;
const FONTS: &str = "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif";
const INK: Color = Color::INK;

impl Chart {
    /// The chart as an SVG document with a white background.
    pub fn svg(&self) -> String {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let size = Size::for_columns(columns);
        let width = 2.0 * EDGE + columns as f64 * (LEFT + size.width + RIGHT);
        let legend = self.legend(width - 2.0 * EDGE);
        let top = EDGE + legend.len() as f64 * LEGEND_LINE + if legend.is_empty() { 0.0 } else { 6.0 };
        let height = top + rows as f64 * (TOP + size.height + BOTTOM) + EDGE;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"{FONTS}\" font-size=\"11\" fill=\"{ink}\" role=\"img\">\n\
             <title>{title}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
            title = escaped(&self.title),
            ink = INK.hex(),
        );
        for (line, entries) in legend.iter().enumerate() {
            let y = EDGE + (line as f64 + 0.5) * LEGEND_LINE;
            let total: f64 = entries.iter().map(Entry::width).sum::<f64>() - ENTRY_GAP;
            let mut x = 0.5 * (width - total);
            for entry in entries {
                entry.draw(&mut svg, x, y);
                x += entry.width();
            }
        }
        for (i, panel) in self.panels.iter().enumerate().filter(|(_, panel)| !panel.is_gap()) {
            let x = EDGE + (i % columns) as f64 * (LEFT + size.width + RIGHT) + LEFT;
            let y = top + (i / columns) as f64 * (TOP + size.height + BOTTOM) + TOP;
            panel.draw(&mut svg, i, x, y, size);
        }
        svg += "</svg>\n";
        svg
    }

    /// The entries of the legend, arranged in lines of at most the given width.
    fn legend(&self, width: f64) -> Vec<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        for panel in &self.panels {
            let levels = panel.levels.iter().map(|level| Entry {
                name: level.name.clone(),
                color: level.color,
                marker: Marker::None,
                line: level.line,
            });
            let curves = panel.curves.iter().map(|curve| Entry {
                name: curve.name.clone(),
                color: curve.color,
                marker: curve.marker,
                line: curve.line,
            });
            for entry in curves.chain(levels) {
                if !entry.name.is_empty() && !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
        let mut lines: Vec<Vec<Entry>> = Vec::new();
        let mut used = f64::INFINITY;
        for entry in entries {
            if used + entry.width() > width + ENTRY_GAP {
                lines.push(Vec::new());
                used = 0.0;
            }
            used += entry.width();
            if let Some(line) = lines.last_mut() {
                line.push(entry);
            }
        }
        lines
    }
}

/// The size of a plot area.
#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
}

impl Size {
    /// The size for a number of panels per row: the fewer, the larger.
    fn for_columns(columns: usize) -> Size {
        match columns {
            1 => Size { width: 440.0, height: 270.0 },
            2 => Size { width: 320.0, height: 210.0 },
            _ => Size { width: 236.0, height: 168.0 },
        }
    }
}

/// An entry of the legend.
#[derive(Clone, PartialEq)]
struct Entry {
    name: String,
    color: Color,
    marker: Marker,
    line: Line,
}

impl Entry {
    fn width(&self) -> f64 {
        KEY + KEY_GAP + self.name.chars().count() as f64 * LETTER + ENTRY_GAP
    }

    fn draw(&self, svg: &mut String, x: f64, y: f64) {
        path(svg, &[(x, y), (x + KEY, y)], self.color, self.line, "");
        mark(svg, x + 0.5 * KEY, y, self.marker, self.color);
        text(svg, x + KEY + KEY_GAP, y + 4.0, "start", 11.5, &self.name);
    }
}

/// A panel at its position in the chart.
struct Plot<'a> {
    panel: &'a Panel,
    left: f64,
    top: f64,
    size: Size,
    x_range: (f64, f64),
    y_range: (f64, f64),
}

impl Panel {
    /// Appends the panel to the SVG, with the upper left corner of its plot area at (`left`, `top`).
    fn draw(&self, svg: &mut String, index: usize, left: f64, top: f64, size: Size) {
        let plot = Plot { panel: self, left, top, size, x_range: self.x_range(), y_range: self.y_range() };
        plot.draw_y_ticks(svg);
        plot.draw_x_ticks(svg);
        let _ = writeln!(
            svg,
            "<clipPath id=\"panel{index}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n\
             <g clip-path=\"url(#panel{index})\">",
            left - 4.0,
            top - 4.0,
            size.width + 8.0,
            size.height + 4.0
        );
        plot.draw_levels(svg);
        plot.draw_curves(svg);
        *svg += "</g>\n";
        plot.draw_frame(svg);
    }

    fn x_range(&self) -> (f64, f64) {
        self.x.range_of(self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.x))
    }

    /// The range of all points, error bars and levels. An error bar that extends far down on a logarithmic axis is cut off
    /// and does not extend the range.
    fn y_range(&self) -> (f64, f64) {
        let counts = |low: f64, y: f64| self.y.scale == Scale::Linear || low > 0.1 * y;
        let low = |point: &Point| point.bar.map(|(low, _)| low).filter(|low| counts(*low, point.y));
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let values = points
            .flat_map(|point| [Some(point.y), point.bar.map(|(_, high)| high), low(point)])
            .flatten()
            .chain(self.levels.iter().map(|level| level.y));
        self.y.range_of(values)
    }
}

impl Plot<'_> {
    fn at_x(&self, value: f64) -> f64 {
        self.left + self.size.width * self.panel.x.position(value, self.x_range)
    }

    fn at_y(&self, value: f64) -> f64 {
        self.top + self.size.height * (1.0 - self.panel.y.position(value, self.y_range))
    }

    fn right(&self) -> f64 {
        self.left + self.size.width
    }

    fn bottom(&self) -> f64 {
        self.top + self.size.height
    }

    fn draw_y_ticks(&self, svg: &mut String) {
        for Tick { value, label } in self.panel.y.ticks(self.y_range) {
            let (x, y) = (self.left, self.at_y(value));
            if label.is_some() {
                grid(svg, (x, y), (self.right(), y));
            }
            tick(svg, (x, y), (x - if label.is_some() { 5.0 } else { 3.0 }, y));
            if let Some(label) = label {
                text(svg, x - 8.0, y + 3.8, "end", 10.5, &label);
            }
        }
    }

    fn draw_x_ticks(&self, svg: &mut String) {
        for Tick { value, label } in self.panel.x.ticks(self.x_range) {
            let (x, y) = (self.at_x(value), self.bottom());
            if label.is_some() {
                grid(svg, (x, self.top), (x, y));
            }
            tick(svg, (x, y), (x, y + if label.is_some() { 5.0 } else { 3.0 }));
            if let Some(label) = label {
                text(svg, x, y + 17.0, "middle", 10.5, &label);
            }
        }
    }

    fn draw_levels(&self, svg: &mut String) {
        for level in self.panel.levels.iter().filter(|level| self.panel.y.can_show(level.y)) {
            let y = self.at_y(level.y);
            path(svg, &[(self.left, y), (self.right(), y)], level.color, level.line, "");
        }
    }

    /// Draws the curves. Those with error bars are shifted sideways, so that bars at the same x do not overlap.
    fn draw_curves(&self, svg: &mut String) {
        let with_bars = self.panel.curves.iter().filter(|curve| curve.has_bars()).count();
        let mut number = 0.0;
        for curve in &self.panel.curves {
            let mut shift = 0.0;
            if curve.has_bars() {
                shift = BAR_DISTANCE * (number - 0.5 * (with_bars as f64 - 1.0));
                number += 1.0;
            }
            let shown = |point: &&Point| self.panel.x.can_show(point.x) && self.panel.y.can_show(point.y);
            for point in curve.points.iter().filter(shown) {
                self.draw_bar(svg, point, shift, curve.color);
            }
            let positions: Vec<(f64, f64)> = curve
                .points
                .iter()
                .filter(shown)
                .map(|point| (self.at_x(point.x) + shift, self.at_y(point.y)))
                .collect();
            path(svg, &positions, curve.color, curve.line, "");
            for (x, y) in positions {
                mark(svg, x, y, curve.marker, curve.color);
            }
        }
    }

    /// Draws a point's error bar. A lower end that the axis cannot show is cut off at the bottom of the plot area.
    fn draw_bar(&self, svg: &mut String, point: &Point, shift: f64, color: Color) {
        let axis = &self.panel.y;
        let Some((low, high)) = point.bar.filter(|(low, high)| !low.is_nan() && axis.can_show(*high)) else {
            return;
        };
        let x = self.at_x(point.x) + shift;
        let top = self.at_y(high);
        let bottom = if axis.can_show(low) { self.at_y(low).min(self.bottom()) } else { self.bottom() };
        let thin = " stroke-width=\"1.1\" stroke-opacity=\"0.7\"";
        path(svg, &[(x, bottom), (x, top)], color, Line::Solid, thin);
        path(svg, &[(x - 3.0, top), (x + 3.0, top)], color, Line::Solid, thin);
        if axis.can_show(low) {
            path(svg, &[(x - 3.0, bottom), (x + 3.0, bottom)], color, Line::Solid, thin);
        }
    }

    /// Draws the two axis lines, the title and the axis labels.
    fn draw_frame(&self, svg: &mut String) {
        let (left, top, bottom) = (self.left, self.top, self.bottom());
        let _ = writeln!(
            svg,
            "<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{:.1}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1\"/>",
            self.right(),
            INK.hex()
        );
        text(svg, left, top - 10.0, "start", 12.5, &self.panel.title);
        text(svg, left + 0.5 * self.size.width, bottom + 35.0, "middle", 11.0, &self.panel.x.label);
        let _ = writeln!(
            svg,
            "<text transform=\"translate({:.1} {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            left - 48.0,
            top + 0.5 * self.size.height,
            escaped(&self.panel.y.label)
        );
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, size: f64, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{}</text>",
        escaped(words)
    );
}

fn grid(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    segment(svg, from, to, "#e4e4e4", 0.8);
}

fn tick(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    segment(svg, from, to, &INK.hex(), 0.9);
}

fn segment(svg: &mut String, from: (f64, f64), to: (f64, f64), color: &str, width: f64) {
    let _ = writeln!(
        svg,
        "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\" stroke=\"{color}\" stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// A line through some positions. `style` replaces the default stroke width if it is not empty.
fn path(svg: &mut String, positions: &[(f64, f64)], color: Color, line: Line, style: &str) {
    let dashes = match line {
        Line::None => return,
        Line::Solid => "",
        Line::Dashed => " stroke-dasharray=\"6 3\"",
        Line::Dotted => " stroke-dasharray=\"1.5 2.5\"",
    };
    let Some((first, rest)) = positions.split_first() else { return };
    let mut d = format!("M{:.1} {:.1}", first.0, first.1);
    for (x, y) in rest {
        let _ = write!(d, "L{x:.1} {y:.1}");
    }
    let width = if style.is_empty() { " stroke-width=\"1.7\"" } else { style };
    let _ = writeln!(
        svg,
        "<path d=\"{d}\" fill=\"none\" stroke=\"{}\" stroke-linejoin=\"round\"{width}{dashes}/>",
        color.hex()
    );
}

fn mark(svg: &mut String, x: f64, y: f64, marker: Marker, color: Color) {
    let color = color.hex();
    let look = format!("fill=\"{color}\" stroke=\"#ffffff\" stroke-width=\"0.8\"");
    let _ = match marker {
        Marker::None => Ok(()),
        Marker::Circle => writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\" {look}/>"),
        Marker::Square => {
            writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"6.2\" height=\"6.2\" {look}/>",
                x - 3.1,
                y - 3.1
            )
        }
        Marker::Triangle => {
            writeln!(svg, "<path d=\"M{x:.1} {:.1}l3.9 6.7h-7.8z\" {look}/>", y - 4.3)
        }
        Marker::Diamond => {
            writeln!(svg, "<path d=\"M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2z\" {look}/>", y - 4.2)
        }
    };
}

/// Escapes text for the content of an XML or HTML element (not for an attribute). Characters that XML forbids, such as most
/// control characters, become U+FFFD.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '\t' | '\n' | '\r' => escaped.push(character),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use resvg::usvg::roxmltree::{Document, Node};

    fn curve(name: &str, points: &[(f64, f64)]) -> Curve {
        Curve {
            name: name.to_string(),
            points: points.iter().map(|(x, y)| Point::new(*x, *y)).collect(),
            color: Color::BLUE,
            marker: Marker::Circle,
            line: Line::Solid,
        }
    }

    fn panel(curves: Vec<Curve>) -> Panel {
        Panel {
            title: "title".to_string(),
            x: Axis::new("x", Scale::Linear),
            y: Axis::new("y", Scale::Linear),
            curves,
            levels: Vec::new(),
        }
    }

    fn svg(panels: Vec<Panel>, columns: usize) -> String {
        Chart { title: "chart".to_string(), panels, columns }.svg()
    }

    /// Parses the SVG, which fails if it is not well-formed, and checks that no coordinate is NaN or infinite.
    fn parsed(svg: &str) -> Document<'_> {
        let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        let attributes = document.descendants().flat_map(|node| node.attributes().collect::<Vec<_>>());
        for attribute in attributes.filter(|attribute| attribute.name() != "font-family") {
            let value = attribute.value();
            assert!(!value.contains("NaN") && !value.contains("inf"), "{}=\"{value}\"", attribute.name());
        }
        document
    }

    fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
        node.attribute(attribute).and_then(|value| value.parse().ok()).expect("a number")
    }

    /// The circles of the curves, without those of the legend.
    fn circles(document: &Document<'_>) -> Vec<(f64, f64)> {
        let groups = document.descendants().filter(|node| node.has_tag_name("g"));
        groups
            .flat_map(|group| group.children())
            .filter(|node| node.has_tag_name("circle"))
            .map(|node| (number(node, "cx"), number(node, "cy")))
            .collect()
    }

    /// The path data of the elements inside the plot areas, in order.
    fn paths(document: &Document<'_>) -> Vec<String> {
        let groups = document.descendants().filter(|node| node.has_tag_name("g"));
        groups
            .flat_map(|group| group.children())
            .filter_map(|node| node.attribute("d"))
            .map(str::to_string)
            .collect()
    }

    fn texts(document: &Document<'_>) -> Vec<String> {
        let nodes = document.descendants().filter(|node| node.has_tag_name("text"));
        nodes.map(|node| node.text().unwrap_or_default().to_string()).collect()
    }

    #[test]
    fn markup_in_names_is_shown_as_text() {
        let name = r#"a <b> & "c" 'd' &amp; ]]>"#;
        let mut panel = panel(vec![curve(name, &[(0.0, 1.0)])]);
        panel.title = name.to_string();
        (panel.x.label, panel.y.label) = (name.to_string(), name.to_string());
        panel.levels.push(Level { name: format!("{name}!"), y: 1.0, color: Color::GREY, line: Line::Solid });
        let chart = Chart { title: name.to_string(), panels: vec![panel], columns: 1 }.svg();
        let document = parsed(&chart);
        let title =
            document.descendants().find(|node| node.has_tag_name("title")).and_then(|node| node.text());
        assert_eq!(title, Some(name));
        // Title, both axes and the curve's legend entry.
        assert_eq!(texts(&document).iter().filter(|text| *text == name).count(), 4);
        assert!(texts(&document).contains(&format!("{name}!")));
        // The names of a categorical axis.
        let mut categories = self::panel(vec![curve("", &[(1.0, 1.0)])]);
        categories.x = Axis::categories("", vec![name.to_string()]);
        assert!(texts(&parsed(&svg(vec![categories], 1))).contains(&name.to_string()));
    }

    #[test]
    fn characters_that_xml_forbids_are_replaced() {
        let chart = svg(vec![panel(vec![curve("a\0b\u{1b}[1mc\u{ffff}\td", &[(0.0, 1.0)])])], 1);
        assert!(texts(&parsed(&chart)).contains(&"a\u{fffd}b\u{fffd}[1mc\u{fffd}\td".to_string()));
    }

    #[test]
    fn all_marks_are_inside_the_plot_area() {
        for (scale, columns) in [(Scale::Linear, 1), (Scale::Log, 2), (Scale::Log, 3)] {
            let points: Vec<(f64, f64)> = (1..50).map(|i| (f64::from(i), f64::from(i).powi(3))).collect();
            let mut panel = panel(vec![curve("cubes", &points)]);
            (panel.x.scale, panel.y.scale) = (scale, scale);
            let chart = svg(vec![panel; columns], columns);
            let document = parsed(&chart);
            let Size { width, height } = Size::for_columns(columns);
            let clips: Vec<_> = document.descendants().filter(|node| node.has_tag_name("clipPath")).collect();
            assert_eq!(clips.len(), columns);
            let found = circles(&document);
            assert_eq!(found.len(), columns * points.len());
            for (clip, found) in clips.iter().zip(found.chunks(points.len())) {
                let area = clip.first_element_child().expect("a rectangle");
                let (left, top) = (number(area, "x") + 4.0, number(area, "y") + 4.0);
                for (x, y) in found {
                    assert!(
                        (left..=left + width).contains(x) && (top..=top + height).contains(y),
                        "{x}, {y}"
                    );
                }
                // From the lower left to the upper right.
                assert!(found.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 >= pair[1].1));
                assert!(found[48].0 - found[0].0 > 0.85 * width && found[0].1 - found[48].1 > 0.85 * height);
            }
            // The panels are next to each other and inside the chart.
            let (chart_width, chart_height) =
                (number(document.root_element(), "width"), number(document.root_element(), "height"));
            assert!(found.iter().all(|(x, y)| *x < chart_width && *y < chart_height));
        }
    }

    #[test]
    fn a_point_is_drawn_where_its_values_say() {
        let mut panel = panel(vec![curve("", &[(0.0, 0.0), (10.0, 1.0), (5.0, 0.75)])]);
        panel.x = panel.x.between(0.0, 10.0);
        panel.y = panel.y.between(0.0, 1.0);
        let chart = svg(vec![panel], 1);
        let (left, top) = (EDGE + LEFT, EDGE + TOP);
        let expected = [(left, top + 270.0), (left + 440.0, top), (left + 220.0, top + 0.25 * 270.0)];
        assert_eq!(circles(&parsed(&chart)), expected);
        assert_eq!(paths(&parsed(&chart)), ["M70.0 306.0L510.0 36.0L290.0 103.5"]);
    }

    #[test]
    fn points_that_an_axis_cannot_show_are_skipped() {
        let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        let mut points = vec![(1.0, 2.0), (2.0, 3.0)];
        points.extend(bad.map(|x| (x, 1.0)));
        points.extend(bad.map(|y| (1.5, y)));
        points.extend([(1.5, 0.0), (1.5, -1.0)]);
        let mut linear = panel(vec![curve("", &points)]);
        linear.levels =
            bad.map(|y| Level { name: String::new(), y, color: Color::GREY, line: Line::Solid }).to_vec();
        let mut log = linear.clone();
        log.y.scale = Scale::Log;
        assert_eq!(circles(&parsed(&svg(vec![linear.clone()], 1))).len(), 4);
        assert_eq!(circles(&parsed(&svg(vec![log.clone()], 1))).len(), 2);
        // One path for the curve, none for the levels.
        assert_eq!(paths(&parsed(&svg(vec![linear], 1))).len(), 1);
        // Error bars without an upper end are skipped; a lower end of 0 on a logarithmic axis is cut off at the bottom.
        let bars = [(0.0, 4.0), (f64::NAN, 4.0), (1.0, f64::NAN), (1.0, f64::INFINITY)];
        for (bar, strokes) in bars.into_iter().zip([2, 0, 0, 0]) {
            let mut point = curve("", &[(1.0, 2.0)]);
            point.points[0].bar = Some(bar);
            point.line = Line::None;
            let panel = Panel { curves: vec![point], ..log.clone() };
            let chart = svg(vec![panel], 1);
            let found = paths(&parsed(&chart));
            assert_eq!(found.len(), strokes, "{bar:?}: {found:?}");
            assert!(
                found.iter().all(|path| !path.starts_with("M290.0") || path.contains("306.0")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn nothing_to_draw_is_no_panic() {
        let empty = [
            svg(Vec::new(), 0),
            svg(Vec::new(), 3),
            svg(vec![Panel::gap()], 1),
            svg(vec![panel(Vec::new())], 0),
            svg(vec![panel(vec![curve("", &[])])], 7),
        ];
        for chart in &empty {
            let document = parsed(chart);
            let root = document.root_element();
            assert!(number(root, "width") > 0.0 && number(root, "height") > 0.0);
            assert!(circles(&document).is_empty() && paths(&document).is_empty());
        }
        // A gap takes the space of a panel and draws nothing.
        assert!(texts(&parsed(&empty[2])).is_empty());
    }

    #[test]
    fn the_legend_lists_each_style_once() {
        let (a, b) = (curve("a", &[(0.0, 1.0)]), Curve { color: Color::GREEN, ..curve("b", &[(0.0, 1.0)]) });
        let dashed = Curve { line: Line::Dashed, ..a.clone() };
        let chart =
            svg(vec![panel(vec![a.clone(), b.clone()]), panel(vec![b, a, dashed, curve("", &[])])], 2);
        let legend: Vec<String> =
            texts(&parsed(&chart)).into_iter().filter(|text| text == "a" || text == "b").collect();
        assert_eq!(legend, ["a", "b", "a"]);
    }

    #[test]
    fn a_long_legend_wraps_within_the_chart() {
        let curves: Vec<Curve> =
            (0..12).map(|i| curve(&format!("a curve with number {i:02}"), &[(0.0, 1.0)])).collect();
        let chart = svg(vec![panel(curves)], 1);
        let document = parsed(&chart);
        let width = number(document.root_element(), "width");
        let entries: Vec<Node<'_, '_>> = document
            .descendants()
            .filter(|node| {
                node.text().is_some_and(|text| text.starts_with("a curve")) && node.has_tag_name("text")
            })
            .collect();
        assert_eq!(entries.len(), 12);
        let mut lines: Vec<f64> = entries.iter().map(|entry| number(*entry, "y")).collect();
        lines.dedup();
        // Two entries of 20 + 26 + 6 + 22·6.6 per line of 518.
        assert_eq!(lines.len(), 6);
        assert!(lines.windows(2).all(|pair| pair[1] - pair[0] == LEGEND_LINE));
        for entry in entries {
            let right = number(entry, "x") + 22.0 * LETTER;
            assert!(number(entry, "x") > KEY && right < width, "{right} of {width}");
        }
        // The plot area starts below the legend.
        let area = document
            .descendants()
            .find(|node| node.has_tag_name("clipPath"))
            .and_then(|node| node.first_element_child());
        assert!(number(area.expect("a plot area"), "y") > lines[5]);
    }

    #[test]
    fn error_bars_at_the_same_x_do_not_overlap() {
        let with_bar = |color: Color| Curve {
            points: vec![Point { x: 1.0, y: 2.0, bar: Some((1.0, 3.0)) }],
            color,
            ..curve("", &[])
        };
        let plain = Curve { color: Color::GREEN, ..curve("", &[(1.0, 2.0)]) };
        let chart = svg(vec![panel(vec![with_bar(Color::BLUE), plain, with_bar(Color::ORANGE)])], 1);
        let centre = EDGE + LEFT + 220.0;
        let x: Vec<f64> = circles(&parsed(&chart)).into_iter().map(|(x, _)| x).collect();
        assert_eq!(x, [centre - 2.0, centre, centre + 2.0]);
    }

    #[test]
    fn curves_have_their_colour_marker_and_line() {
        let styled = |marker, line| Curve {
            color: Color(1, 2, 3),
            marker,
            line,
            ..curve("", &[(0.0, 0.0), (1.0, 1.0)])
        };
        let count = |marker, line| {
            let chart = svg(vec![panel(vec![styled(marker, line)])], 1);
            let document = parsed(&chart);
            let group = document.descendants().find(|node| node.has_tag_name("g")).expect("a plot area");
            let filled = group.children().filter(|node| node.attribute("fill") == Some("#010203")).count();
            let stroked = group.children().filter(|node| node.attribute("stroke") == Some("#010203")).count();
            let dashed = group.children().filter(|node| node.has_attribute("stroke-dasharray")).count();
            (filled, stroked, dashed)
        };
        for marker in [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond] {
            assert_eq!(count(marker, Line::Solid), (2, 1, 0), "{marker:?}");
        }
        assert_eq!(count(Marker::None, Line::Dashed), (0, 1, 1));
        assert_eq!(count(Marker::None, Line::Dotted), (0, 1, 1));
        assert_eq!(count(Marker::Circle, Line::None), (2, 0, 0));
    }

    #[test]
    fn a_level_crosses_the_plot_area_and_extends_its_range() {
        let mut panel = panel(vec![curve("", &[(0.0, 1.0), (1.0, 2.0)])]);
        panel.levels.push(Level { name: "far".to_string(), y: 100.0, color: Color::GREY, line: Line::Solid });
        let chart = svg(vec![panel.clone()], 1);
        let (low, high) = panel.y_range();
        assert!(low < 1.0 && high > 100.0);
        let path = &paths(&parsed(&chart))[0];
        assert!(path.starts_with("M70.0 ") && path.contains("L510.0 "), "{path}");
        assert!(texts(&parsed(&chart)).contains(&"far".to_string()));
    }
}
