//! The opening of the report: three plain sentences, and warnings.

use tithe::results::fit::Basis;
use tithe::results::judgement::Judgement;
use tithe_plot::escaped;

use super::Subject;
use super::forest::{Effect, effects};
use crate::commands::coefficients::percent;
use crate::commands::{problems, rows_fitted};
use crate::show::{count, counted};

/// What was modelled, what matters most, and how far the result can be trusted.
pub fn sentences(subject: &Subject<'_>) -> String {
    let [what, effects, trust] = [modelled(subject), clearest(subject), trusted(subject)];
    format!("<p class=\"lead\">{what} {effects} {trust}</p>\n")
}

fn modelled(subject: &Subject<'_>) -> String {
    let fit = subject.fit;
    let label = &fit.encoding.label;
    let columns = counted(fit.encoding.features.len() as u64, "column");
    let rows = match &fit.basis {
        Basis::Coreset { size, provenance } => {
            format!("{} representing {}", counted(*size, "weighted row"), counted(provenance.rows, "row"))
        }
        Basis::Data { rows, rows_dropped, .. } => rows_fitted(*rows, *rows_dropped),
    };
    let share = subject.check.filter(|check| check.same_data).map_or(String::new(), |check| {
        format!(" ({} % of the rows have it)", percent((check.positive_rate * 1e4).round() / 1e4))
    });
    format!(
        "This model says how the odds of <b>{} = {}</b>{share} depend on {columns}, fitted to {rows}.",
        escaped(&label.column),
        escaped(&label.positive.to_string())
    )
}

/// The two effects of which the sign is clearest.
fn clearest(subject: &Subject<'_>) -> String {
    let effects = effects(subject);
    let mut clear: Vec<&Effect> = effects.iter().filter(|effect| effect.is_clear()).collect();
    clear.sort_by(|a, b| b.clarity.total_cmp(&a.clarity));
    let interval = percent(subject.interval);
    if clear.is_empty() {
        return format!("For no column does the {interval} % interval of the odds ratio exclude 1.");
    }
    let named: Vec<String> = clear
        .iter()
        .take(2)
        .map(|effect| {
            format!(
                "{} multiplies the odds by {} ({interval} % interval {} to {})",
                escaped(&effect.in_words()),
                Effect::shown(effect.middle),
                Effect::shown(effect.low),
                Effect::shown(effect.high)
            )
        })
        .collect();
    format!("The clearest effects: {}.", named.join("; "))
}

fn trusted(subject: &Subject<'_>) -> String {
    let fit = subject.fit;
    let draws = match problems(fit).len() {
        0 => "The diagnostics of the draws found no problems",
        _ => "The draws have problems, which are listed below",
    };
    let rows = match (&fit.verified, &fit.basis) {
        (Some(found), _) if found.corrected || found.verdict.is_accurate() => {
            format!(", and they agree with all {}.", counted(found.rows, "row"))
        }
        (Some(found), _) if found.verdict == Judgement::Correctable => {
            ", and they differ slightly from all rows.".to_string()
        }
        (Some(_), _) => ", and they differ from all rows too much to be used.".to_string(),
        (None, Basis::Coreset { provenance, .. }) if provenance.exact => {
            ", and the weighted rows are exact.".to_string()
        }
        (None, Basis::Coreset { .. }) => {
            ", but they were not compared with all rows (<code>tithe verify</code> does that).".to_string()
        }
        (None, Basis::Data { .. }) => ".".to_string(),
    };
    format!("{draws}{rows}")
}

/// Problems with the draws, with the data, and with what the check found.
pub fn warnings(subject: &Subject<'_>) -> String {
    let fit = subject.fit;
    let mut warnings = problems(fit);
    warnings.extend(match &fit.basis {
        Basis::Coreset { provenance, .. } => provenance.warnings.clone(),
        Basis::Data { warnings, .. } => warnings.clone(),
    });
    if let Some(check) = subject.check {
        let strange = check.levels.iter().filter(|level| !level.is_expected()).count();
        // By chance 5 % of the levels lie outside.
        if strange as f64 > 2.0 + 0.1 * check.levels.len() as f64 {
            warnings.push(format!(
                "the share of positive rows is not as the model expects for {} of {}: an interaction may be missing",
                count(strange as u64),
                counted(check.levels.len() as u64, "level")
            ));
        }
    }
    if warnings.is_empty() {
        return String::new();
    }
    let items: String = warnings.iter().map(|warning| format!("<p>{}</p>", escaped(warning))).collect();
    format!("<div class=\"warning\">{items}</div>\n")
}
