//! A certificate, as JSON and in words.

use serde_json::{Value, json};
use tithe::coreset::calibration::certificate::{Certificate, Guard, Verdict};
use tithe::coreset::{CalibrationFacts, Coreset, Method, Provenance};

use crate::show::{counted, number};

/// A coreset's own certificate as JSON; `null` where there is none.
pub fn record(coreset: &Coreset) -> Value {
    if coreset.provenance.exact {
        return json!({"kl": 0.0, "verdict": "exact"});
    }
    let Some(facts) = &coreset.provenance.calibration else { return Value::Null };
    if let Some(composition) = &coreset.provenance.composition {
        let mut record = step(coreset, facts);
        record["against"] = json!("the coresets that went into it");
        record["all_steps_kl"] = json!(composition.kl);
        return record;
    }
    step(coreset, facts)
}

/// The certificate of the step that a coreset came of, as JSON.
fn step(coreset: &Coreset, facts: &CalibrationFacts) -> Value {
    let names = coreset.encoding.coefficient_names();
    let mut record = record_of(&names, &facts.certificate, Method::Calibrated);
    record["guard"] = json!(guard(facts.guard));
    record["prior"] = json!(format!("normal:{}", facts.prior_scale));
    record
}

/// The certificate of a coreset of some method as JSON.
pub fn record_of(names: &[String], certificate: &Certificate, method: Method) -> Value {
    let by_name = |values: &[f64]| -> Value {
        names.iter().zip(values).map(|(name, value)| (name.clone(), json!(value))).collect()
    };
    let deficient: Vec<Value> = certificate
        .deficiencies
        .iter()
        .map(|missing| {
            let coefficients: Vec<&String> =
                missing.coefficients.iter().filter_map(|(i, _)| names.get(*i)).collect();
            json!({"information": missing.information, "coefficients": coefficients})
        })
        .collect();
    let (sd_ratio_min, sd_ratio_max) = certificate.sd_ratio_range();
    json!({
        "kl": certificate.kl,
        "predicted_kl": certificate.predicted_kl,
        "max_mean_shift": certificate.largest_shift(),
        "sd_ratio_min": sd_ratio_min,
        "sd_ratio_max": sd_ratio_max,
        "verdict": verdict(certificate.verdict, method),
        "deficient": deficient,
        "mean_shifts": by_name(&certificate.mean_shifts),
        "sd_ratios": by_name(&certificate.sd_ratios),
    })
}

/// A coreset's own certificate in a few lines, each with two spaces before it.
pub fn lines(coreset: &Coreset) -> String {
    lines_from(&coreset.provenance, &coreset.encoding.coefficient_names())
}

/// The certificate of the coreset behind a posterior, and what it holds for: the posterior may have other priors.
pub fn lines_behind(provenance: &Provenance, names: &[String]) -> String {
    let mut text = lines_from(provenance, names);
    if let Some(facts) = &provenance.calibration {
        text += &format!("    it is the coreset's, for priors normal:{}\n", facts.prior_scale);
    }
    text
}

/// What to say if a coreset's own certificate has it that the coreset is too small.
pub fn too_small(provenance: &Provenance) -> Option<&'static str> {
    let certificate = &provenance.calibration.as_ref()?.certificate;
    matches!(certificate.verdict, Verdict::TooSmall { .. })
        .then_some("by its certificate the coreset is too small: its posterior is not the full data's")
}

fn lines_from(provenance: &Provenance, names: &[String]) -> String {
    let composed = composition(provenance);
    let Some(facts) = &provenance.calibration else { return composed };
    let against = match provenance.composition {
        Some(_) => "posterior of the coresets that went into it",
        None => FULL_DATA,
    };
    let mut text = lines_against(names, &facts.certificate, Method::Calibrated, against);
    if facts.guard == Guard::Reference {
        text += "    calibration did not improve on the selection's own weights, which were kept\n";
    }
    composed + &text
}

const FULL_DATA: &str = "full data's posterior";

/// How a coreset came of others, in a line or two.
fn composition(provenance: &Provenance) -> String {
    let Some(composition) = &provenance.composition else { return String::new() };
    let mut text = format!(
        "  made of {}, at most {} from the data\n",
        counted(composition.parts, "coreset"),
        counted(composition.depth, "step")
    );
    if let Some(bound) = composition.bound.filter(|bound| bound.epsilon > 0.0) {
        text += &format!(
            "    composed bound: log-likelihood within a share of {} (probability at least {}, radius {})\n",
            number(bound.epsilon),
            number(1.0 - bound.delta),
            bound.radius.map_or("any".to_string(), number)
        );
    }
    if let Some(kl) = composition.kl {
        text += &format!(
            "    its steps, each beside what went into it, add {} nats to the KL, to second order; how far it is from \
             the full data's posterior only `tithe certify` tells\n",
            number(kl)
        );
    }
    text
}

/// The certificate of a coreset of some method, against the full data, in a few lines.
pub fn lines_of(names: &[String], certificate: &Certificate, method: Method) -> String {
    lines_against(names, certificate, method, FULL_DATA)
}

fn lines_against(names: &[String], certificate: &Certificate, method: Method, against: &str) -> String {
    let (low, high) = certificate.sd_ratio_range();
    let mut text = format!(
        "  certificate: {}\n    KL to the {against} {} nats, both taken as normal; means shifted by at most {} sd; sd ratios {} to {}\n",
        verdict(certificate.verdict, method),
        number(certificate.kl),
        number(certificate.largest_shift()),
        number(low),
        number(high),
    );
    for missing in certificate.deficiencies.iter().take(5) {
        let coefficients = missing.coefficients.iter().filter_map(|(i, _)| names.get(*i));
        let coefficients: Vec<&str> = coefficients.take(3).map(String::as_str).collect();
        text += &format!(
            "    little is known of {}: {} of the full data's information\n",
            coefficients.join(", "),
            number(missing.information)
        );
    }
    text
}

/// The rule of thumb for a size holds for calibrated coresets alone; others need far more rows.
fn verdict(verdict: Verdict, method: Method) -> String {
    match verdict {
        Verdict::Indistinguishable => "indistinguishable".to_string(),
        Verdict::Good => "good".to_string(),
        Verdict::TooSmall { try_size } if method == Method::Calibrated => {
            format!("too small: try --size {try_size}")
        }
        Verdict::TooSmall { .. } => "too small".to_string(),
    }
}

fn guard(guard: Guard) -> &'static str {
    match guard {
        Guard::Calibrated => "calibrated",
        Guard::Reference => "reference",
    }
}
