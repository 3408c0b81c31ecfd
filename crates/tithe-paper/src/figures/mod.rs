//! The figures: each runs its cells and turns the results into a chart, tables and claims.

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

/// A figure that can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Time to build as a share of the total time.
    Fig1a,
    /// Mean sensitivity of Binary10.
    Fig1b,
    /// Mean sensitivity of a real data set.
    Fig1c,
    /// Quality of posteriors, by coreset size.
    Fig2,
    /// Quality of posteriors for other k and a.
    Robustness,
    /// Measurements of the bounds in the theorems.
    Theory,
}

impl Figure {
    /// All figures.
    pub const ALL: [Figure; 6] =
        [Figure::Fig1a, Figure::Fig1b, Figure::Fig1c, Figure::Fig2, Figure::Robustness, Figure::Theory];
}

/// The files that were written.
pub struct Report {
    /// File names of the figures, without extension.
    pub figures: Vec<&'static str>,
    /// The Markdown page.
    pub page: String,
    /// Number of cells that were not run.
    pub missing: usize,
}

/// Runs the cells of the figures, the quickest ones first, and writes tables, plots and the page.
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
    // In the order of the paper, with the theory last.
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

/// One point per x: the mean of its values, with an error bar of one standard deviation on each side.
fn averaged(values: &[(f64, f64)]) -> Vec<Point> {
    grouped(values)
        .into_iter()
        .map(|(x, ys)| {
            let (y, sd) = mean_and_sd(&ys);
            Point { x, y, bar: sd.map(|sd| (y - sd, y + sd)) }
        })
        .collect()
}

/// The values of each x, ordered by x.
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

/// The smallest and the largest of some values; (∞, −∞) if there are none.
fn span(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (value.min(low), value.max(high)))
}

/// A whole number with commas between groups of three digits.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Library;
    use crate::profile::Profile;
    use crate::runner::testing::Log;

    #[test]
    fn values_are_grouped_and_averaged_by_x() {
        let values = [(2.0, 5.0), (1.0, 1.0), (2.0, 7.0), (2.0, 9.0)];
        assert_eq!(grouped(&values), [(1.0, vec![1.0]), (2.0, vec![5.0, 7.0, 9.0])]);
        let points = averaged(&values);
        assert_eq!(points, [Point::new(1.0, 1.0), Point { x: 2.0, y: 7.0, bar: Some((5.0, 9.0)) }]);
        assert_eq!(span([3.0, -1.0, 2.0]), (-1.0, 3.0));
        assert_eq!(span([]), (f64::INFINITY, f64::NEG_INFINITY));
    }

    #[test]
    fn large_numbers_have_commas() {
        let numbers = [0, 999, 1000, 26_733, 581_012, 1_000_000];
        assert_eq!(numbers.map(with_commas), ["0", "999", "1,000", "26,733", "581,012", "1,000,000"]);
    }

    #[test]
    fn a_figure_has_its_plot_its_table_and_its_claims() {
        let folder = tempfile::tempdir().expect("a directory");
        let log = Log::default();
        let context = Context {
            profile: Profile::Quick,
            library: Library::new(None, Profile::Quick),
            folder: folder.path().to_path_buf(),
            threads: 2,
            deadline: None,
            watch: &log,
        };
        // Figure 1c needs a real data set, so it is left out.
        let figures = [Figure::Fig1c, Figure::Fig1b];
        let report = run(&context, &figures).expect("a report");
        assert_eq!((report.figures.as_slice(), report.missing), (&["fig1b"][..], 0));
        let read = |path: &str| std::fs::read(folder.path().join(path)).expect("a file");
        let page = String::from_utf8(read("results.md")).expect("text");
        assert_eq!(page, report.page);
        assert!(page.contains("](plots/fig1b.svg)") && !page.contains("fig1c"));
        assert_eq!(page.matches("Binary10 | **").count(), 3, "three claims: {page}");
        assert!(
            page.contains("| Mean sensitivity grows exponentially in R: Binary10 | **holds** |"),
            "{page}"
        );
        assert!(read("plots/fig1b.svg").starts_with(b"<svg"));
        assert!(read("plots/fig1b.png").starts_with(b"\x89PNG"));
        // Two numbers of rows, five radii and four further numbers of clusters.
        let table = String::from_utf8(read("tables/fig1b.csv")).expect("text");
        assert_eq!(table.lines().count(), 1 + 2 * 9);
        // The bound grows with the radius, as in the paper.
        let bound = |radius: &str| -> f64 {
            let line = table.lines().find(|line| line.starts_with(&format!("binary10,2000,6,{radius},")));
            line.and_then(|line| line.split(',').nth(5))
                .and_then(|value| value.parse().ok())
                .expect("a bound")
        };
        assert!(bound("1") > 1.0 && bound("2") > bound("1") && bound("5") > bound("2"));
        // A second run computes nothing and writes the same page.
        let cells = log.cells.lock().expect("a list").len();
        assert_eq!(run(&context, &figures).expect("a report").page, page);
        assert_eq!((cells, log.cells.lock().expect("a list").len()), (18, 18));
    }
}
