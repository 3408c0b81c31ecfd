//! The forest plot: odds ratios with intervals on one logarithmic axis, levels under their column.

use tithe::encoding::{Coding, Feature};
use tithe::mcmc::diagnostics::quantile;
use tithe_plot::escaped;

use super::Subject;
use crate::commands::coefficients::percent;

/// At most this many effects are plotted: those of which the sign is clearest.
const MOST_PLOTTED: usize = 40;
/// Intervals beyond these odds ratios are cut off, so that the others can be told apart.
const LARGEST_RATIO: f64 = 1000.0;

/// The odds ratio of a coefficient.
pub struct Effect {
    /// The column.
    pub column: String,
    /// The level and the reference level, of text.
    pub level: Option<(String, String)>,
    /// The step of a column of numbers: its standard deviation, or 1 for a column of 0 and 1.
    pub step: Option<f64>,
    pub low: f64,
    pub middle: f64,
    pub high: f64,
    /// Mean of the log-odds divided by their standard deviation, without its sign.
    pub clarity: f64,
}

impl Effect {
    /// True if the interval excludes 1.
    pub fn is_clear(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }

    /// A subject of a sentence.
    pub fn in_words(&self) -> String {
        match (&self.level, self.step) {
            (Some((level, reference)), _) => {
                format!("{} = {level} instead of {reference}", self.column)
            }
            (None, Some(step)) => format!("{} more of {}", Effect::shown(step), self.column),
            (None, None) => format!("{} = 1 instead of 0", self.column),
        }
    }

    /// A ratio or a step to three digits.
    pub fn shown(value: f64) -> String {
        match value {
            value if !value.is_finite() => "∞".to_string(),
            value if value >= 1e6 || (value < 1e-3 && value > 0.0) => format!("{value:.1e}"),
            value if value >= 100.0 => format!("{value:.0}"),
            value if value >= 10.0 => format!("{value:.1}"),
            value if value >= 0.1 => format!("{value:.2}"),
            value => format!("{value:.3}"),
        }
    }
}

/// The effects of all coefficients but the intercept, in the order of the model.
pub fn effects(subject: &Subject<'_>) -> Vec<Effect> {
    let fit = subject.fit;
    let first = usize::from(fit.encoding.intercept);
    let (_, scales) = fit.encoding.transform();
    let names = fit.encoding.features.iter().flat_map(Feature::coefficient_names);
    // With a formula, coefficients belong to terms and not to columns.
    if !names.eq(fit.draws.names.iter().skip(first).cloned()) {
        let own = |(at, name): (usize, &String)| {
            let step = Some(scales[at]).filter(|scale| *scale != 1.0);
            effect(subject, at, name.clone(), None, step)
        };
        return fit.draws.names.iter().enumerate().skip(first).map(own).collect();
    }
    let mut effects = Vec::new();
    let mut at = first;
    for feature in &fit.encoding.features {
        for (l, name) in feature.coefficient_names().iter().enumerate() {
            let level = match &feature.coding {
                Coding::Levels { reference, levels, .. } => {
                    levels.get(l).map(|level| (level.clone(), reference.clone()))
                }
                _ if l > 0 => Some((name[feature.column.len() + 1..].to_string(), "present".to_string())),
                _ => None,
            };
            let step = match &feature.coding {
                Coding::Number { .. } if l == 0 => Some(scales[at]),
                _ => None,
            };
            effects.push(effect(subject, at, feature.column.clone(), level, step));
            at += 1;
        }
    }
    effects
}

/// The effect of the coefficient at this position.
fn effect(
    subject: &Subject<'_>,
    at: usize,
    column: String,
    level: Option<(String, String)>,
    step: Option<f64>,
) -> Effect {
    let fit = subject.fit;
    let tail = 0.5 * (1.0 - subject.interval);
    let draws = fit.draws.coefficient(at).concat();
    let mut draws: Vec<f64> = draws.iter().map(|beta| beta * step.unwrap_or(1.0)).collect();
    draws.sort_by(f64::total_cmp);
    let [low, middle, high] = [tail, 0.5, 1.0 - tail].map(|p| quantile(&draws, p).exp());
    let (mean, sd) = (fit.summary[at].mean, fit.summary[at].sd);
    let clarity = if sd > 0.0 { (mean / sd).abs() } else { 0.0 };
    Effect { column, level, step, low, middle, high, clarity }
}

/// The plot, or nothing if the model has only an intercept.
pub fn section(subject: &Subject<'_>) -> String {
    let all = effects(subject);
    let mut shown: Vec<&Effect> = all.iter().collect();
    shown.sort_by(|a, b| b.clarity.total_cmp(&a.clarity));
    let least = shown.get(MOST_PLOTTED).map_or(f64::NEG_INFINITY, |effect| effect.clarity);
    let shown: Vec<&Effect> = all.iter().filter(|effect| effect.clarity > least).take(MOST_PLOTTED).collect();
    if shown.is_empty() {
        return String::new();
    }
    let axis = Axis::of(&shown);
    let mut html = "<h2>Odds ratios</h2>\n<div class=\"forest\" role=\"img\" aria-label=\"Forest plot of odds ratios\">\n".to_string();
    let mut heading = None;
    for effect in &shown {
        if effect.level.is_some() && heading != Some(&effect.column) {
            let reference = effect.level.as_ref().map_or("", |(_, reference)| reference);
            html += &format!(
                "<div class=\"head\"><div class=\"name\">{} <small>compared with {}</small></div></div>\n",
                escaped(&effect.column),
                escaped(reference)
            );
        }
        heading = Some(&effect.column);
        html += &row(effect, &axis);
    }
    html += &format!("<div class=\"pad\"></div>{}<div class=\"pad\"></div>\n</div>\n", axis.svg());
    let chosen = if shown.len() < all.len() {
        format!(" Shown are the {} of {} coefficients whose sign is clearest.", shown.len(), all.len())
    } else {
        String::new()
    };
    html + &format!(
        "<p class=\"note\">Posterior median and {} % interval of the factor by which the odds of {} = {} change: for a column of numbers \
         if it grows by its standard deviation (the step given), for a level compared with the reference level. Right of 1 the odds \
         grow; an interval that contains 1 is paler.{chosen}</p>\n",
        percent(subject.interval),
        escaped(&subject.fit.encoding.label.column),
        escaped(&subject.fit.encoding.label.positive.to_string()),
    )
}

fn row(effect: &Effect, axis: &Axis) -> String {
    let (name, class) = match (&effect.level, effect.step) {
        (Some((level, _)), _) => (escaped(level), "name level"),
        (None, Some(step)) => {
            (format!("{} <small>+{}</small>", escaped(&effect.column), Effect::shown(step)), "name")
        }
        (None, None) => (format!("{} <small>1 instead of 0</small>", escaped(&effect.column)), "name"),
    };
    format!(
        "<div class=\"row\"><div class=\"{class}\">{name}</div>{}<div class=\"value\">{} <span>{} – {}</span></div></div>\n",
        axis.strip(effect),
        Effect::shown(effect.middle),
        Effect::shown(effect.low),
        Effect::shown(effect.high),
    )
}

/// A logarithmic axis; places are in percent of the width, so that it fits every screen.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(effects: &[&Effect]) -> Axis {
        let limit = LARGEST_RATIO.ln();
        let ends = effects.iter().flat_map(|effect| [effect.low.ln(), effect.high.ln()]);
        let (low, high) = ends
            .filter(|end| end.is_finite())
            .map(|end| end.clamp(-limit, limit))
            .fold((0.0f64, 0.0f64), |(low, high), end| (low.min(end), high.max(end)));
        let margin = 0.04 * (high - low).max(0.2);
        Axis { low: low - margin, high: high + margin }
    }

    /// The place of a ratio in percent, and whether it lies outside.
    fn place(&self, ratio: f64) -> (f64, bool) {
        let at = 100.0 * (ratio.ln() - self.low) / (self.high - self.low);
        let inside = at.clamp(0.5, 99.5);
        (if at.is_nan() { 50.0 } else { inside }, !(0.0..=100.0).contains(&at))
    }

    /// Round ratios in the range, few enough to be read.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.high - self.low) / std::f64::consts::LN_10;
        let steps: &[f64] = match decades {
            d if d > 4.0 => &[1.0],
            d if d > 2.2 => &[1.0, 3.0],
            d if d > 1.2 => &[1.0, 2.0, 5.0],
            d if d > 0.3 => &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            d if d > 0.12 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            _ => &[1.0, 1.05, 1.1, 1.2, 1.3, 5.0, 6.0, 7.0, 8.0, 8.5, 9.0, 9.5],
        };
        let ratios = (-4..=4).flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        ratios.filter(|ratio| (self.low..=self.high).contains(&ratio.ln())).collect()
    }

    /// The interval of an effect.
    fn strip(&self, effect: &Effect) -> String {
        let ((low, cut_low), (high, cut_high)) = (self.place(effect.low), self.place(effect.high));
        let middle = self.place(effect.middle).0;
        let one = self.place(1.0).0;
        let class = if effect.is_clear() { "" } else { " class=\"unclear\"" };
        let tip = |at: f64, cut: bool| {
            // An interval that goes on ends in a small square.
            if cut {
                format!("<circle class=\"tip\" cx=\"{at:.2}%\" cy=\"11\" r=\"2\"/>")
            } else {
                String::new()
            }
        };
        format!(
            "<svg aria-hidden=\"true\"><line class=\"one\" x1=\"{one:.2}%\" x2=\"{one:.2}%\" y1=\"-1\" y2=\"23\"/><g{class}>\
             <line class=\"bar\" x1=\"{low:.2}%\" x2=\"{high:.2}%\" y1=\"11\" y2=\"11\"/>{}{}\
             <circle class=\"dot\" cx=\"{middle:.2}%\" cy=\"11\" r=\"4\"/></g></svg>",
            tip(low, cut_low),
            tip(high, cut_high),
        )
    }

    fn svg(&self) -> String {
        let ticks: String = self
            .ticks()
            .iter()
            .map(|ratio| {
                let at = self.place(*ratio).0;
                let text = format!("{:.4}", ratio);
                let text = text.trim_end_matches('0').trim_end_matches('.');
                format!(
                    "<line class=\"grid\" x1=\"{at:.2}%\" x2=\"{at:.2}%\" y1=\"0\" y2=\"6\"/>\
                     <text x=\"{at:.2}%\" y=\"19\" text-anchor=\"middle\">{text}</text>"
                )
            })
            .collect();
        format!(
            "<svg class=\"axis\" aria-hidden=\"true\"><line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"0\" y2=\"0\"/>{ticks}\
             <text x=\"50%\" y=\"33\" text-anchor=\"middle\">odds ratio</text></svg>"
        )
    }
}
