//! How well the posterior fits labelled rows, if it was compared with some.

use tithe::results::check::Check;
use tithe_plot::escaped;

use super::{Subject, fact, folded};
use crate::show::{counted, number};

/// Scores, calibration and the ROC curve.
pub fn section(subject: &Subject<'_>) -> String {
    let Some(check) = subject.check else { return String::new() };
    let which = match check.same_data {
        true => "the rows that the model was fitted to, which it predicts better than new ones",
        false => "rows that the model was not fitted to",
    };
    let calibrated = check.calibration.iter().filter(|group| group.is_calibrated()).count();
    let mut rows = fact("rows", &format!("{}, {which}", counted(check.rows, "row")));
    rows += &fact("positive rows", &format!("{} %", number(100.0 * check.positive_rate)));
    if let Some(auc) = check.auc {
        rows += &fact("AUC", &format!("{} (0.5 is guessing, 1 is perfect)", number(auc)));
    }
    let beside =
        |value: f64, of_rate: f64| format!("{} ({} without any column)", number(value), number(of_rate));
    rows += &fact("log loss", &beside(check.log_loss, check.log_loss_of_rate));
    rows += &fact("Brier score", &beside(check.brier, check.brier_of_rate));
    rows += &fact(
        "calibration",
        &format!("as predicted in {calibrated} of {} groups of similar predictions", check.calibration.len()),
    );
    if let Some(loo) = &check.loo {
        rows += &fact(
            "leave-one-out",
            &format!(
                "expected log predictive density {} ± {} (from {}; {} effective parameters)",
                number(loo.elpd),
                number(loo.se),
                counted(loo.sampled as u64, "sampled row"),
                number(loo.effective_parameters)
            ),
        );
    }
    format!(
        "<h2>Fit to the data</h2>\n<table class=\"facts\">\n{rows}</table>\n<div class=\"pair\">\n{}{}</div>\n",
        calibration(check),
        roc(check)
    )
}

/// Side of a plot, and the margin for labels.
const SIDE: f64 = 240.0;
const LEFT: f64 = 42.0;
const BOTTOM: f64 = 36.0;

/// A square plot with axes from 0 to `most`.
fn square(most: f64, x: &str, y: &str, content: &str, caption: &str) -> String {
    let ticks: String = [0.0, 0.5, 1.0]
        .iter()
        .map(|part| {
            let (across, up) = (LEFT + SIDE * part, SIDE * (1.0 - part) + 8.0);
            let value = short(part * most);
            format!(
                "<text x=\"{across:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value}</text>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
                SIDE + 22.0,
                LEFT - 5.0,
                up + 4.0
            )
        })
        .collect();
    format!(
        "<figure><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{caption}\"><rect class=\"frame\" x=\"{LEFT}\" y=\"8\" width=\"{SIDE}\" \
         height=\"{SIDE}\"/><line class=\"one\" x1=\"{LEFT}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"8\"/>{ticks}\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{x}</text>\
         <text transform=\"translate(11 {:.1}) rotate(-90)\" text-anchor=\"middle\">{y}</text>{content}</svg>\
         <figcaption>{caption}</figcaption></figure>\n",
        LEFT + SIDE + 12.0,
        SIDE + BOTTOM + 8.0,
        SIDE + 8.0,
        LEFT + SIDE,
        LEFT + SIDE / 2.0,
        SIDE + 40.0,
        SIDE / 2.0 + 8.0,
    )
}

fn short(value: f64) -> String {
    let text = if value < 0.01 { format!("{value:.4}") } else { format!("{value:.2}") };
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn calibration(check: &Check) -> String {
    let most = check.calibration.iter().map(|group| group.upper.max(group.predicted)).fold(0.0, f64::max);
    let most = most.clamp(1e-6, 1.0);
    let (across, up) = (|p: f64| LEFT + SIDE * p / most, |p: f64| SIDE * (1.0 - p / most) + 8.0);
    let content: String = check
        .calibration
        .iter()
        .map(|group| {
            let x = across(group.predicted);
            format!(
                "<line class=\"bar\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><circle class=\"dot\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                up(group.lower),
                up(group.upper),
                up(group.observed)
            )
        })
        .collect();
    let caption = "Calibration: observed share with its 95 % interval in groups of similar predictions; on the line they are equal.";
    square(most, "predicted probability", "observed share", &content, caption)
}

fn roc(check: &Check) -> String {
    if check.roc.is_empty() {
        return String::new();
    }
    let points: Vec<String> = check
        .roc
        .iter()
        .map(|[x, y]| format!("{:.1},{:.1}", LEFT + SIDE * x, SIDE * (1.0 - y) + 8.0))
        .collect();
    let content = format!("<polyline class=\"curve\" points=\"{}\"/>", points.join(" "));
    let caption =
        "ROC curve: share of positive rows found against share of negative rows taken for positive.";
    square(1.0, "false positive rate", "true positive rate", &content, caption)
}

/// The levels of text columns, those outside of their interval first in their column.
pub fn levels(subject: &Subject<'_>) -> String {
    let Some(check) = subject.check.filter(|check| !check.levels.is_empty()) else { return String::new() };
    let mut rows = String::new();
    let mut column = None;
    for level in &check.levels {
        if column != Some(&level.column) {
            rows += &format!("<tr class=\"group\"><td colspan=\"5\">{}</td></tr>\n", escaped(&level.column));
            column = Some(&level.column);
        }
        let class = if level.is_expected() { "" } else { " class=\"off\"" };
        let percent = |p: f64| number(100.0 * p);
        rows += &format!(
            "<tr><td class=\"name level\">{}</td><td>{:.0}</td><td{class}>{}</td><td>{}</td><td>{} – {}</td></tr>\n",
            escaped(&level.level),
            level.mass,
            percent(level.observed),
            percent(level.predicted),
            percent(level.lower),
            percent(level.upper)
        );
    }
    let strange = check.levels.iter().filter(|level| !level.is_expected()).count();
    let content = format!(
        "<div class=\"wide\"><table>\n<tr><th>level</th><th>rows</th><th>observed %</th><th>expected %</th><th>95 % interval</th></tr>\n\
         {rows}</table></div>\n<p class=\"note\">Posterior predictive check: the share of positive rows of each level, and the share in \
         data that the model would generate.</p>\n"
    );
    let title =
        format!("Levels of text columns ({strange} of {} outside of their interval)", check.levels.len());
    folded(&title, false, &content)
}
