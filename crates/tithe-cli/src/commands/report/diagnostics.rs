//! The diagnostics of the draws, folded: figures, densities and traces.

use tithe::mcmc::diagnostics::{CoefficientSummary, quantile};
use tithe_plot::{Axis, Chart, Color, Curve, Line, Marker, Panel, Point, Scale};

use super::{Subject, folded};
use crate::commands::problems;
use crate::show::{count, counted};

/// Maximum number of coefficients whose draws are plotted, to limit the length of the page.
const MAX_PLOTTED: usize = 12;
/// Number of points of a density curve and of a trace plot.
const DENSITY_POINTS: usize = 80;
const TRACE_POINTS: usize = 150;
const CHAIN_COLORS: [Color; 6] =
    [Color::BLUE, Color::VERMILION, Color::GREEN, Color::PURPLE, Color::ORANGE, Color::SKY];

/// The figures of all draws, and plots of the coefficients with the fewest effective draws.
pub fn section(subject: &Subject<'_>) -> String {
    let fit = subject.fit;
    let worst = |value: fn(&CoefficientSummary) -> f64, pick: fn(f64, f64) -> f64| {
        fit.summary.iter().map(value).filter(|value| value.is_finite()).reduce(pick)
    };
    let mut figures = vec![format!(
        "{} of {} ({})",
        counted(fit.settings.chains as u64, "chain"),
        counted(fit.settings.draws as u64, "draw"),
        fit.sampler
    )];
    if let Some(r_hat) = worst(|c| c.r_hat, f64::max) {
        figures.push(format!("largest R-hat {r_hat:.3}"));
    }
    if let Some(ess) = worst(|c| c.ess_bulk.min(c.ess_tail), f64::min) {
        figures.push(format!("at least {} effective draws per coefficient", count(ess as u64)));
    }
    let sound = problems(fit).is_empty();
    let verdict = match sound {
        true => "<div class=\"ok\"><p>The diagnostics found no problems.</p></div>\n",
        false => "",
    };
    let mut order: Vec<usize> = (0..fit.summary.len()).collect();
    // Coefficients without a number of effective draws come first.
    let effective = |i: usize| {
        let c = &fit.summary[i];
        if c.ess_bulk.is_nan() || c.ess_tail.is_nan() { 0.0 } else { c.ess_bulk.min(c.ess_tail) }
    };
    order.sort_by(|&a, &b| effective(a).total_cmp(&effective(b)));
    order.truncate(MAX_PLOTTED);
    order.sort_unstable();
    let panels = order.iter().flat_map(|&i| {
        let chains = fit.draws.coefficient(i);
        let name = &fit.summary[i].name;
        [density_panel(name, &chains), trace_panel(name, &chains)]
    });
    let chart = Chart { title: "Draws".to_string(), panels: panels.collect(), columns: 2 };
    let which = match fit.summary.len() {
        all if all > MAX_PLOTTED => {
            format!("The {MAX_PLOTTED} of {all} coefficients with the fewest effective draws. ")
        }
        _ => String::new(),
    };
    let content = format!(
        "{verdict}<p>{}.</p>\n<p class=\"note\">{which}Left: density of the draws of each chain; the curves should agree. Right: \
         trace of each chain; it should look like noise around a constant level.</p>\n<div class=\"chart\">{}</div>\n",
        figures.join("; "),
        chart.svg()
    );
    folded("Diagnostics of the draws", !sound, &content)
}

fn density_panel(name: &str, chains: &[Vec<f64>]) -> Panel {
    panel(name, name, "density", chains, density)
}

fn trace_panel(name: &str, chains: &[Vec<f64>]) -> Panel {
    panel(name, "draw", "", chains, |draws| {
        let step = draws.len().div_ceil(TRACE_POINTS).max(1);
        draws.iter().enumerate().step_by(step).map(|(i, draw)| Point::new(i as f64 + 1.0, *draw)).collect()
    })
}

fn panel(title: &str, x: &str, y: &str, chains: &[Vec<f64>], points: impl Fn(&[f64]) -> Vec<Point>) -> Panel {
    let curve = |(chain, draws): (usize, &Vec<f64>)| Curve {
        name: format!("chain {}", chain + 1),
        points: points(draws),
        color: CHAIN_COLORS[chain % CHAIN_COLORS.len()],
        marker: Marker::None,
        line: Line::Solid,
    };
    Panel {
        title: title.to_string(),
        x: Axis::new(x, Scale::Linear),
        y: Axis::new(y, Scale::Linear),
        curves: chains.iter().enumerate().map(curve).collect(),
        levels: Vec::new(),
    }
}

/// A Gaussian kernel density, with Silverman's bandwidth `0.9·min(sd, IQR/1.34)·n^(−1/5)`.
fn density(draws: &[f64]) -> Vec<Point> {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let sd = (sorted.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let spread = (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / 1.34;
    let width = 0.9 * if spread > 0.0 { sd.min(spread) } else { sd } * n.powf(-0.2);
    if width.is_nan() || width <= 0.0 {
        return Vec::new();
    }
    let (low, high) = (first - 2.0 * width, last + 2.0 * width);
    let at = |k: usize| low + (high - low) * k as f64 / (DENSITY_POINTS - 1) as f64;
    let height = |x: f64| {
        let sum: f64 = sorted.iter().map(|draw| (-0.5 * ((x - draw) / width).powi(2)).exp()).sum();
        sum / (n * width * (2.0 * std::f64::consts::PI).sqrt())
    };
    (0..DENSITY_POINTS).map(|k| Point::new(at(k), height(at(k)))).collect()
}
