//! Verification, what was done to the columns, priors, and everything needed to reproduce the posterior.

use tithe::results::file::prior_scale;
use tithe::results::fit::Basis;
use tithe_plot::escaped;

use super::{Subject, fact, folded};
use crate::commands::{certificate, columns as treated};
use crate::show::{count, represented};

/// What a comparison with all rows found, and the certificate of the coreset.
pub fn verification(subject: &Subject<'_>) -> String {
    let fit = subject.fit;
    let Basis::Coreset { provenance, .. } = &fit.basis else { return String::new() };
    let verified = fit.verified.as_ref().map_or(String::new(), |found| {
        format!("<p>Verified against all rows: {}.</p>\n", escaped(&certificate::verified(found)))
    });
    let lines = certificate::lines_for_posterior(provenance, &fit.encoding.coefficient_names());
    let items: String = lines
        .lines()
        .map(|line| format!("<li>{}</li>", escaped(&line.trim().replacen("certificate: ", "verdict: ", 1))))
        .collect();
    let certificate = match lines.is_empty() {
        true => String::new(),
        false => format!("<h3>Certificate of the weighted rows</h3>\n<ul>{items}</ul>\n"),
    };
    match verified.is_empty() && certificate.is_empty() {
        true => String::new(),
        false => format!("<h2>Verification</h2>\n{verified}{certificate}"),
    }
}

/// What was done to each column.
pub fn columns(subject: &Subject<'_>) -> String {
    let rows: String =
        treated::treatments(&subject.fit.encoding).iter().map(|(name, how)| fact(name, how)).collect();
    let content = format!("<table class=\"facts\">\n{rows}</table>\n");
    folded("What was done to each column", false, &content)
}

/// The priors.
pub fn priors(subject: &Subject<'_>) -> String {
    let fit = subject.fit;
    let mut html = format!(
        "<p class=\"note\">{}</p>\n<table class=\"facts\">\n",
        match prior_scale(&fit.encoding) {
            "standardised" => "On the standardised scale.",
            _ => "In the units of the data.",
        }
    );
    // Coefficients with the same prior share a row.
    let mut by_prior: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, prior) in fit.draws.names.iter().zip(&fit.priors.coefficients) {
        let prior = prior.to_string();
        match by_prior.iter_mut().find(|(known, _)| *known == prior) {
            Some((_, names)) => names.push(name),
            None => by_prior.push((prior, vec![name])),
        }
    }
    for (prior, names) in by_prior {
        html += &fact(&prior, &names.join(", "));
    }
    folded("Priors", false, &(html + "</table>\n"))
}

/// Everything needed to reproduce the posterior.
pub fn provenance(subject: &Subject<'_>) -> String {
    let fit = subject.fit;
    let mut html = "<table class=\"facts\">\n".to_string();
    let label = &fit.encoding.label;
    html += &fact(
        "label",
        &format!("{} (positive: {}, negative: {})", label.column, label.positive, label.negative),
    );
    if let Some(weight) = &fit.encoding.weight {
        html += &fact("weights from", weight);
    }
    let warnings = match &fit.basis {
        Basis::Coreset { size, provenance } => {
            let facts = provenance;
            html += &fact("coreset", &represented(*size, facts.rows));
            if facts.rows_dropped > 0 {
                html += &fact("rows dropped", &count(facts.rows_dropped));
            }
            let exact = if facts.exact { ", exact: the likelihood equals the full data's" } else { "" };
            html += &fact("method", &(format!("{:?}", facts.method).to_lowercase() + exact));
            html += &fact("coreset seed", &facts.seed.0.to_string());
            &facts.warnings
        }
        Basis::Data { rows, rows_dropped, warnings, .. } => {
            html += &fact("rows", &count(*rows));
            if *rows_dropped > 0 {
                html += &fact("rows dropped", &count(*rows_dropped));
            }
            warnings
        }
    };
    html += &fact("data fingerprint", &fit.basis.fingerprint().to_string());
    html += &fact(
        "sampler",
        &format!("{}, {} warm-up iterations", fit.sampler, count(fit.settings.warmup as u64)),
    );
    html += &fact("sampler seed", &fit.settings.seed.0.to_string());
    for warning in warnings {
        html += &fact("warning", warning);
    }
    html += &fact("created by", concat!("tithe ", env!("CARGO_PKG_VERSION")));
    folded("Provenance", false, &(html + "</table>\n"))
}
