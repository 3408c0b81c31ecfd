//! Charts: panels in a grid under one legend, as SVG.

use std::fmt::Write;

use crate::axis::{Axis, Scale, Tick};
use crate::style::{Color, Line, Marker};

/// A point of a curve, with a bar about it where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// How much.
    pub y: f64,
    /// The ends of the bar.
    pub bar: Option<(f64, f64)>,
}

impl Point {
    /// A point without a bar.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, bar: None }
    }
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// In the legend; curves of one name and look share an entry.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
    /// Its colour.
    pub color: Color,
    /// What stands at its points.
    pub marker: Marker,
    /// How they are joined.
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
    /// In the legend.
    pub name: String,
    /// How high.
    pub y: f64,
    /// Its colour.
    pub color: Color,
    /// How it is drawn.
    pub line: Line,
}

/// One pair of axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it.
    pub title: String,
    /// Below it.
    pub x: Axis,
    /// To its left.
    pub y: Axis,
    /// The curves, the last in front.
    pub curves: Vec<Curve>,
    /// Lines behind them.
    pub levels: Vec<Level>,
}

impl Panel {
    /// A place in the grid that stays empty.
    pub fn gap() -> Panel {
        let axis = || Axis::new("", Scale::Linear);
        Panel { title: String::new(), x: axis(), y: axis(), curves: Vec::new(), levels: Vec::new() }
    }

    fn is_gap(&self) -> bool {
        self.title.is_empty() && self.curves.is_empty() && self.levels.is_empty()
    }
}

/// Panels in a grid, under one legend.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows, for those who cannot see it.
    pub title: String,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// Panels in a row.
    pub columns: usize,
}

const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 46.0;
const EDGE: f64 = 8.0;
/// How far bars at the same x stand apart.
const ASIDE: f64 = 4.0;
const LEGEND_LINE: f64 = 20.0;
/// The length of a legend's line, and what follows it.
const KEY: f64 = 26.0;
const KEY_GAP: f64 = 6.0;
const ENTRY_GAP: f64 = 20.0;
/// About how wide a letter of the legend is.
const LETTER: f64 = 6.6;
const FONTS: &str = "'DejaVu Sans', Verdana, Helvetica, Arial, sans-serif";
const INK: Color = Color::INK;

impl Chart {
    /// The chart as SVG, on a white ground.
    pub fn svg(&self) -> String {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let size = Size::of(columns);
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

    /// The legend's entries, line by line.
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

/// The size of a panel's axes.
#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
}

impl Size {
    /// Fewer panels in a row are larger.
    fn of(columns: usize) -> Size {
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

impl Panel {
    /// Draws the panel with its upper left corner at a place.
    fn draw(&self, svg: &mut String, index: usize, left: f64, top: f64, size: Size) {
        let Size { width, height } = size;
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let x_ends = self.x.ends(points().map(|point| point.x));
        // A bar that reaches down to nothing on a logarithmic axis is cut, and must not stretch it.
        let is_in_reach = |low: f64, y: f64| self.y.scale == Scale::Linear || low > 0.1 * y;
        let low = |point: &Point| point.bar.map(|(low, _)| low).filter(|low| is_in_reach(*low, point.y));
        let values = points()
            .flat_map(|point| [Some(point.y), point.bar.map(|(_, high)| high), low(point)])
            .flatten()
            .chain(self.levels.iter().map(|level| level.y));
        let y_ends = self.y.ends(values);
        let at_x = |value: f64| left + width * self.x.place(value, x_ends);
        let at_y = |value: f64| top + height * (1.0 - self.y.place(value, y_ends));
        let shown = |point: &&Point| self.x.can_show(point.x) && self.y.can_show(point.y);

        for Tick { value, label } in self.y.ticks(y_ends) {
            let y = at_y(value);
            if label.is_some() {
                grid(svg, (left, y), (left + width, y));
            }
            tick(svg, (left, y), (left - if label.is_some() { 5.0 } else { 3.0 }, y));
            if let Some(label) = label {
                text(svg, left - 8.0, y + 3.8, "end", 10.5, &label);
            }
        }
        for Tick { value, label } in self.x.ticks(x_ends) {
            let (x, y) = (at_x(value), top + height);
            if label.is_some() {
                grid(svg, (x, top), (x, y));
            }
            tick(svg, (x, y), (x, y + if label.is_some() { 5.0 } else { 3.0 }));
            if let Some(label) = label {
                text(svg, x, y + 17.0, "middle", 10.5, &label);
            }
        }
        let clip = format!("panel{index}");
        let _ = writeln!(
            svg,
            "<clipPath id=\"{clip}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n\
             <g clip-path=\"url(#{clip})\">",
            left - 4.0,
            top - 4.0,
            width + 8.0,
            height + 4.0
        );
        for level in self.levels.iter().filter(|level| self.y.can_show(level.y)) {
            path(svg, &[(left, at_y(level.y)), (left + width, at_y(level.y))], level.color, level.line, "");
        }
        // Bars at the same x stand beside each other.
        let barred = self.curves.iter().filter(|curve| curve.has_bars()).count();
        let mut place = 0.0;
        for curve in &self.curves {
            let aside = if curve.has_bars() { ASIDE * (place - 0.5 * (barred as f64 - 1.0)) } else { 0.0 };
            place += if curve.has_bars() { 1.0 } else { 0.0 };
            let at_x = |value: f64| at_x(value) + aside;
            for point in curve.points.iter().filter(shown) {
                if let Some((low, high)) = point.bar {
                    let bottom =
                        if self.y.can_show(low) { at_y(low).min(top + height) } else { top + height };
                    let (x, high) = (at_x(point.x), at_y(high));
                    let fine = " stroke-width=\"1.1\" stroke-opacity=\"0.7\"";
                    path(svg, &[(x, bottom), (x, high)], curve.color, Line::Solid, fine);
                    path(svg, &[(x - 3.0, high), (x + 3.0, high)], curve.color, Line::Solid, fine);
                    if self.y.can_show(low) {
                        path(svg, &[(x - 3.0, bottom), (x + 3.0, bottom)], curve.color, Line::Solid, fine);
                    }
                }
            }
            let places: Vec<(f64, f64)> =
                curve.points.iter().filter(shown).map(|point| (at_x(point.x), at_y(point.y))).collect();
            path(svg, &places, curve.color, curve.line, "");
            for (x, y) in places {
                mark(svg, x, y, curve.marker, curve.color);
            }
        }
        *svg += "</g>\n";
        let _ = writeln!(
            svg,
            "<path d=\"M{left:.1} {top:.1}V{:.1}H{:.1}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1\"/>",
            top + height,
            left + width,
            INK.hex()
        );
        text(svg, left, top - 10.0, "start", 12.5, &self.title);
        text(svg, left + 0.5 * width, top + height + 35.0, "middle", 11.0, &self.x.label);
        let _ = writeln!(
            svg,
            "<text transform=\"translate({:.1} {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            left - 48.0,
            top + 0.5 * height,
            escaped(&self.y.label)
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

/// A line through some places.
fn path(svg: &mut String, places: &[(f64, f64)], color: Color, line: Line, more: &str) {
    let dashes = match line {
        Line::None => return,
        Line::Solid => "",
        Line::Dashed => " stroke-dasharray=\"6 3\"",
        Line::Dotted => " stroke-dasharray=\"1.5 2.5\"",
    };
    let Some((first, rest)) = places.split_first() else { return };
    let mut d = format!("M{:.1} {:.1}", first.0, first.1);
    for (x, y) in rest {
        let _ = write!(d, "L{x:.1} {y:.1}");
    }
    let width = if more.is_empty() { " stroke-width=\"1.7\"" } else { more };
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

/// Text as SVG and HTML have it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
