//! The table of coefficients: log-odds and odds ratios with intervals, levels under their variable.

use serde::Serialize;
use tithe::encoding::{Coding, Design};
use tithe::mcmc::diagnostics::quantile;
use tithe::results::fit::Fit;

use crate::show::{number, printable};

/// The odds ratio of a coefficient: the factor of the odds for one unit more of the column, or for the level instead of the reference
/// level.
#[derive(Debug, Serialize)]
pub struct OddsRatio {
    /// The coefficient.
    pub name: String,
    /// Posterior median.
    pub median: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
}

/// The odds ratios of all coefficients but the intercept, with equal-tailed intervals of this probability.
pub fn odds_ratios(fit: &Fit, interval: f64) -> Vec<OddsRatio> {
    let first = usize::from(fit.encoding.intercept);
    let tail = 0.5 * (1.0 - interval);
    let names = fit.draws.names.iter().enumerate().skip(first);
    names
        .map(|(at, name)| {
            let mut draws = fit.draws.coefficient(at).concat();
            draws.sort_by(f64::total_cmp);
            // Quantiles of a monotone function are the function of the quantiles, but for the interpolation.
            let [lower, median, upper] = [tail, 0.5, 1.0 - tail].map(|p| quantile(&draws, p).exp());
            OddsRatio { name: name.clone(), median, lower, upper }
        })
        .collect()
}

/// The table. Columns of diagnostics come last.
pub fn table(fit: &Fit, interval: f64) -> String {
    let ratios = odds_ratios(fit, interval);
    let first = usize::from(fit.encoding.intercept);
    let rows = rows(fit);
    let width = rows.iter().map(Row::width).max().unwrap_or(0).max("coefficient".len());
    let mut text = format!(
        "{:<width$} {:>10} {:>10} {:>10} {:>21} {:>6} {:>6}\n",
        "coefficient",
        "log-odds",
        "sd",
        "odds ratio",
        format!("{} % interval", percent(interval)),
        "R-hat",
        "ESS"
    );
    for row in &rows {
        let (name, at) = match row {
            Row::Heading(name) => {
                text += &format!("{name}\n");
                continue;
            }
            Row::Coefficient(name, at) => (name, *at),
        };
        let c = &fit.summary[at];
        let (ratio, range) = match at.checked_sub(first).and_then(|at| ratios.get(at)) {
            Some(ratio) => {
                (number(ratio.median), format!("{} to {}", number(ratio.lower), number(ratio.upper)))
            }
            None => (String::new(), String::new()),
        };
        text += &format!(
            "{name:<width$} {:>10} {:>10} {ratio:>10} {range:>21} {:>6.3} {:>6.0}\n",
            number(c.mean),
            number(c.sd),
            c.r_hat,
            c.ess_bulk.min(c.ess_tail),
        );
    }
    text
}

/// A line of the table.
enum Row {
    /// A text column with its reference level.
    Heading(String),
    /// A coefficient, and its position.
    Coefficient(String, usize),
}

impl Row {
    /// The width of its name; a heading has no cells beside it.
    fn width(&self) -> usize {
        match self {
            Row::Heading(_) => 0,
            Row::Coefficient(name, _) => name.chars().count(),
        }
    }
}

/// The lines of the table: levels are indented under the name of their column.
fn rows(fit: &Fit) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut at = 0;
    if fit.encoding.intercept {
        rows.push(Row::Coefficient(fit.draws.names[0].clone(), 0));
        at = 1;
    }
    if let Some(design) = &fit.encoding.design {
        rows.extend(term_rows(fit, design, at));
        return rows;
    }
    for feature in &fit.encoding.features {
        match &feature.coding {
            Coding::Levels { reference, levels, .. } => {
                if !levels.is_empty() {
                    let (column, reference) = (printable(&feature.column), printable(reference));
                    rows.push(Row::Heading(format!("{column} (reference: {reference})")));
                }
                for (l, level) in levels.iter().enumerate() {
                    rows.push(Row::Coefficient(format!("  {}", printable(level)), at + l));
                }
            }
            Coding::Groups { .. } => {}
            _ => {
                let names = feature.coefficient_names();
                let named = names.iter().enumerate();
                rows.extend(named.map(|(l, name)| Row::Coefficient(printable(name).into_owned(), at + l)));
            }
        }
        at += feature.width();
    }
    rows
}

/// The lines of a formula's terms: the coefficients of a term with several are indented under it.
fn term_rows(fit: &Fit, design: &Design, first: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut names = fit.draws.names.iter().enumerate().skip(first);
    for (term, width) in design.outline() {
        let is_single = width == 1;
        if !is_single {
            rows.push(Row::Heading(printable(&term).into_owned()));
        }
        let indent = if is_single { "" } else { "  " };
        let of_term = names.by_ref().take(width);
        rows.extend(of_term.map(|(at, name)| Row::Coefficient(format!("{indent}{}", printable(name)), at)));
    }
    rows
}

/// A probability in percent, without rounding errors of the multiplication: 0.57 is 57.
pub fn percent(probability: f64) -> f64 {
    (probability * 1e8).round() / 1e6
}
