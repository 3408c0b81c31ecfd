//! The figures: the cells each is made of, and what they look like.

mod fig1;
mod fig2;
mod robustness;
mod theory;

use tithe::base::error::{Error, Result};
use tithe_plot::{Chart, Point};

use crate::data::Set;
use crate::page::{Section, markdown, mean_and_sd};
use crate::posterior::{self, Truth};
use crate::runner::{Context, write};
use crate::sensitivity::Scaling;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Share of the time spent building.
    Fig1a,
    /// Mean sensitivities of Binary10.
    Fig1b,
    /// Mean sensitivities of a real set.
    Fig1c,
    /// Quality of posteriors.
    Fig2,
    /// Quality for other k and a.
    Robustness,
    /// The theory, measured.
    Theory,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 6] =
        [Figure::Fig1a, Figure::Fig1b, Figure::Fig1c, Figure::Fig2, Figure::Robustness, Figure::Theory];
}

/// What was made.
pub struct Report {
    /// The figures, by the names of their files.
    pub figures: Vec<&'static str>,
    /// The page.
    pub page: String,
    /// Cells that were not run.
    pub missing: usize,
}

/// Runs the figures' cells and writes tables, plots and the page. What is cheap comes first.
pub fn run(context: &Context<'_>, figures: &[Figure]) -> Result<Report> {
    let sets = context.library.available();
    let profile = context.profile;
    let wanted = |figure: Figure| figures.contains(&figure);
    let mut sections: Vec<Section> = Vec::new();
    if wanted(Figure::Theory) {
        sections.extend(theory::make(context)?);
    }
    if wanted(Figure::Fig1b) {
        sections.push(fig1::sensitivities(context, "fig1b", Set::Binary10, Scaling::AsIs)?);
    }
    let mut truths = None;
    if wanted(Figure::Fig2) || wanted(Figure::Robustness) {
        let cells: Vec<Truth> =
            sets.iter().map(|&set| Truth { set, drawing: profile.drawing(set) }).collect();
        truths = Some(context.run(&cells)?);
    }
    if wanted(Figure::Fig1c) && sets.contains(&Set::Webspam) {
        sections.push(fig1::sensitivities(context, "fig1c", Set::Webspam, Scaling::UnitRows)?);
    }
    if wanted(Figure::Fig1a) {
        sections.push(fig1::times(context, &sets)?);
    }
    if let Some(truths) = truths.as_ref().filter(|_| wanted(Figure::Fig2)) {
        sections.push(fig2::make(context, &posterior::figure_2(profile, &sets), truths)?);
    }
    if let Some(truths) = truths.as_ref().filter(|_| wanted(Figure::Robustness)) {
        sections.push(robustness::make(context, &posterior::robustness(profile, &sets), truths)?);
    }
    // The paper's order, the theory last.
    sections.sort_by_key(|section| (section.slug.starts_with("theory"), section.slug));
    for section in &sections {
        draw(context, section.slug, &section.chart)?;
        for table in &section.tables {
            table.write(&context.folder.join("tables"))?;
        }
    }
    let page = markdown(context, &sections);
    write(&context.folder.join("results.md"), page.as_bytes())?;
    Ok(Report {
        figures: sections.iter().map(|section| section.slug).collect(),
        page,
        missing: sections.iter().map(|section| section.missing).sum(),
    })
}

/// Writes a chart as SVG and PNG.
fn draw(context: &Context<'_>, slug: &str, chart: &Chart) -> Result<()> {
    let folder = context.folder.join("plots");
    write(&folder.join(format!("{slug}.svg")), chart.svg().as_bytes())?;
    let path = folder.join(format!("{slug}.png"));
    let png = chart.png(2.0).map_err(|what| Error::malformed(&path, what))?;
    write(&path, &png)
}

/// Points of values that belong to the same x, with bars of one standard deviation.
fn averaged(values: &[(f64, f64)]) -> Vec<Point> {
    grouped(values)
        .into_iter()
        .map(|(x, ys)| {
            let (y, sd) = mean_and_sd(&ys);
            Point { x, y, bar: sd.map(|sd| (y - sd, y + sd)) }
        })
        .collect()
}

/// The values that belong to each x, in ascending order.
fn grouped(values: &[(f64, f64)]) -> Vec<(f64, Vec<f64>)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut groups: Vec<(f64, Vec<f64>)> = Vec::new();
    for (x, y) in sorted {
        match groups.last_mut() {
            Some((last, ys)) if *last == x => ys.push(y),
            _ => groups.push((x, vec![y])),
        }
    }
    groups
}

/// Smallest and largest of some values.
fn span(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (value.min(low), value.max(high)))
}

/// A whole number with commas.
fn with_commas(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
