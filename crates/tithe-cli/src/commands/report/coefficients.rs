//! The table of coefficients, and average marginal effects.

use tithe::encoding::{Coding, Feature};
use tithe_plot::escaped;

use super::{Subject, folded};
use crate::show::number;

/// Tables of more coefficients are folded.
const MOST_OPEN: usize = 25;

/// All coefficients, levels under their column.
pub fn section(subject: &Subject<'_>) -> String {
    let fit = subject.fit;
    let mut html = "<div class=\"wide\"><table>\n<tr><th>coefficient</th><th>log-odds</th><th>sd</th><th>5 %</th><th>95 %</th>\
                    <th>odds ratio</th><th>R-hat</th><th>ESS bulk</th><th>ESS tail</th></tr>\n"
        .to_string();
    let first = usize::from(fit.encoding.intercept);
    let mut row = |at: usize, name: &str, class: &str| {
        let c = &fit.summary[at];
        let ratio = if at < first { String::new() } else { number(c.q50.exp()) };
        html += &format!(
            "<tr><td class=\"{class}\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{ratio}</td>\
             <td>{:.3}</td><td>{:.0}</td><td>{:.0}</td></tr>\n",
            escaped(name),
            number(c.mean),
            number(c.sd),
            number(c.q05),
            number(c.q95),
            c.r_hat,
            c.ess_bulk,
            c.ess_tail,
        );
    };
    let levels: Vec<String> = fit
        .encoding
        .features
        .iter()
        .filter(|feature| matches!(feature.coding, Coding::Levels { .. }))
        .flat_map(Feature::coefficient_names)
        .collect();
    for (at, name) in fit.draws.names.iter().enumerate() {
        row(at, name, if levels.contains(name) { "name level" } else { "name" });
    }
    let references: Vec<String> = fit
        .encoding
        .features
        .iter()
        .filter_map(|feature| match &feature.coding {
            Coding::Levels { reference, .. } => Some(format!("{}: {reference}", feature.column)),
            _ => None,
        })
        .collect();
    let references = match references.is_empty() {
        true => String::new(),
        false => format!(" Reference levels: {}.", escaped(&references.join(", "))),
    };
    let content = html
        + &format!(
            "</table></div>\n<p class=\"note\">Coefficients are in the units of the data; the odds ratio is the posterior median for an \
             increase by one unit.{references}</p>\n"
        );
    folded("Coefficients", fit.summary.len() <= MOST_OPEN, &content)
}

/// Average marginal effects, if the posterior was compared with rows.
pub fn effects(subject: &Subject<'_>) -> String {
    let Some(check) = subject.check.filter(|check| !check.effects.is_empty()) else { return String::new() };
    let rows: String = check
        .effects
        .iter()
        .map(|effect| {
            format!(
                "<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escaped(&effect.name),
                number(100.0 * effect.mean),
                number(100.0 * effect.lower),
                number(100.0 * effect.upper)
            )
        })
        .collect();
    let content = format!(
        "<div class=\"wide\"><table>\n<tr><th>coefficient</th><th>percentage points</th><th>5 %</th><th>95 %</th></tr>\n{rows}</table></div>\n\
         <p class=\"note\">By how many percentage points the probability changes for one unit more of the column, on average over the \
         rows: the mean of β p (1 − p).</p>\n"
    );
    folded("Average marginal effects", false, &content)
}
