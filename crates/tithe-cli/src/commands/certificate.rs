//! Certificates as JSON and as text.

use serde_json::{Value, json};
use tithe::coreset::calibration::certificate::{ByDraws, Certificate, Evidence, Guard, Verdict};
use tithe::coreset::hierarchical::HierarchicalFacts;
use tithe::coreset::{CalibrationFacts, Composition, Coreset, Method, Movement, Provenance};
use tithe::results::judgement::{Judgement, VerificationFacts};

use crate::show::{counted, number, printable, range};

/// The certificate stored in a coreset as JSON; `null` if there is none.
pub fn record(coreset: &Coreset) -> Value {
    if coreset.provenance.exact {
        return json!({"kl": 0.0, "verdict": "exact"});
    }
    if let Some(facts) = &coreset.provenance.hierarchical {
        return json!({"kl": facts.kl(), "groups": facts.groups, "scales": facts.scales, "pool": facts.pool});
    }
    let Some(facts) = &coreset.provenance.calibration else { return Value::Null };
    if let Some(composition) = &coreset.provenance.composition {
        let mut record = step(coreset, facts);
        record["last_step_verdict"] = record["verdict"].take();
        record["verdict"] = json!(match standing(composition) {
            Standing::Moved(_) => "moved",
            Standing::Estimated(_) => "estimated",
            Standing::Unknown => "unknown",
        });
        record["against"] = json!("the coresets that went into it");
        record["all_steps_kl"] = json!(composition.kl);
        record["movement"] = json!(composition.movement);
        return record;
    }
    step(coreset, facts)
}

/// The certificate of the last calibration of a coreset, as JSON.
fn step(coreset: &Coreset, facts: &CalibrationFacts) -> Value {
    let names = coreset.encoding.coefficient_names();
    let mut record = record_of(&names, &facts.certificate, Method::Calibrated);
    record["guard"] = json!(guard(facts.guard));
    record["prior"] = json!(facts.priors.to_string());
    if let Some(part) = &facts.part_of {
        record["part_of_all"] = json!(part.share);
    }
    record
}

/// A certificate of a coreset built by `method`, as JSON.
pub fn record_of(names: &[String], certificate: &Certificate, method: Method) -> Value {
    let by_name = |values: &[f64]| -> Value {
        names.iter().zip(values).map(|(name, value)| (name.clone(), json!(value))).collect()
    };
    let normal = &certificate.normal;
    let deficient: Vec<Value> = normal
        .deficiencies
        .iter()
        .map(|missing| {
            let coefficients: Vec<&String> =
                missing.coefficients.iter().filter_map(|(i, _)| names.get(*i)).collect();
            json!({"information": missing.information, "coefficients": coefficients})
        })
        .collect();
    let (sd_ratio_min, sd_ratio_max) = certificate.sd_ratio_range();
    let mut record = json!({
        "kl": certificate.kl(),
        "max_mean_error": certificate.largest_mean_error(),
        "sd_ratio_min": sd_ratio_min,
        "sd_ratio_max": sd_ratio_max,
        "verdict": verdict(certificate.verdict(), method),
        "deficient": deficient,
        "normal": {
            "kl": normal.kl,
            "predicted_kl": normal.predicted_kl,
            "mean_errors": by_name(&normal.mean_shifts),
            "sd_ratios": by_name(&normal.sd_ratios),
        },
    });
    if let Some(ByDraws { discrepancy, evidence }) = &certificate.by_draws {
        record["by_draws"] = json!({
            "draws": discrepancy.draws,
            "evidence": evidence,
            "kl": discrepancy.kl,
            "kl_error": discrepancy.kl_error,
            // Null means that the weights are too even for a fit.
            "k_hat": discrepancy.k_hat,
            "efficiency": discrepancy.efficiency,
            "mean_errors": by_name(&discrepancy.mean_errors),
            "sd_ratios": by_name(&discrepancy.sd_ratios),
        });
    }
    record
}

/// The certificate stored in a coreset as text, indented by two spaces.
pub fn lines(coreset: &Coreset) -> String {
    match &coreset.provenance.hierarchical {
        Some(facts) => hierarchical(facts, coreset.rows.len()),
        None => lines_from(&coreset.provenance, &coreset.encoding.coefficient_names()),
    }
}

/// The certificate of a coreset for a model with groups: one line per scale of the group effects.
fn hierarchical(facts: &HierarchicalFacts, rows: usize) -> String {
    let each = number(rows as f64 / facts.groups as f64);
    let effects = (0..facts.effects.len()).map(|i| {
        let effect = format!("{}|{}", facts.effects[i], facts.factor.column);
        format!("sd({}) near {}", printable(&effect), number(facts.covariance.sd(i)))
    });
    let effects: Vec<String> = effects.collect();
    let mut text = format!(
        "  {}, {each} rows per group; {} on the model's scale\n",
        counted(facts.groups as u64, "group"),
        effects.join(", ")
    );
    for found in &facts.scales {
        text += &format!(
            "    at {} times these sds: KL to the full data {} nats, largest error of a mean {} sd ({}), sd ratios {}\n",
            number(found.scale),
            number(found.largest_kl()),
            number(found.mean_error),
            printable(&found.mean_error_of),
            range(found.sd_ratios.0, found.sd_ratios.1),
        );
    }
    text
}

/// The certificate of the coreset that a posterior was fitted to, with the prior that it was computed for: the posterior
/// may have another.
pub fn lines_for_posterior(provenance: &Provenance, names: &[String]) -> String {
    let mut text = lines_from(provenance, names);
    if let Some(facts) = &provenance.calibration {
        text += &format!("    computed for the coreset with priors {}\n", facts.priors);
    }
    text
}

/// A warning if the coreset is too small by its certificate, or outside the trust radius of its parts.
pub fn too_small(provenance: &Provenance) -> Option<String> {
    let differs = "its posterior differs from the full data's";
    if let Some(composition) = &provenance.composition {
        return match standing(composition) {
            Standing::Moved(movement) => Some(format!(
                "the coreset may be inaccurate: its posterior is {} standard deviations from where a part was matched, and only \
                 {} were measured; verify the draws against the data",
                number(movement.distance),
                number(movement.radius)
            )),
            Standing::Estimated(kl) if kl > MUCH => {
                Some(format!("the coreset lost about {} nats in its steps: {differs}", number(kl)))
            }
            _ => None,
        };
    }
    let certificate = &provenance.calibration.as_ref()?.certificate;
    matches!(certificate.verdict(), Verdict::TooSmall { .. })
        .then(|| format!("the coreset is too small according to its certificate: {differs}"))
}

/// A KL, in nats, at which the steps of a coreset of coresets have lost more than a good coreset does.
const MUCH: f64 = 0.05;

/// What is known about a coreset of coresets: the rows are gone, so nothing better than an estimate.
enum Standing {
    /// The posterior is outside the trust radius of a part.
    Moved(Movement),
    /// The KL of all steps.
    Estimated(f64),
    /// A step had no certificate.
    Unknown,
}

fn standing(composition: &Composition) -> Standing {
    match (composition.movement.filter(Movement::is_outside), composition.kl) {
        (Some(movement), _) => Standing::Moved(movement),
        (None, Some(kl)) => Standing::Estimated(kl),
        (None, None) => Standing::Unknown,
    }
}

fn lines_from(provenance: &Provenance, names: &[String]) -> String {
    let composed = composition(provenance);
    let Some(facts) = &provenance.calibration else { return composed };
    let certificate = &facts.certificate;
    let mut text = match provenance.composition {
        Some(_) => {
            "  last step, compared with the coresets that went into it:\n".to_string()
                + &figures(names, certificate, "their posterior")
        }
        None => lines_of(names, certificate, Method::Calibrated),
    };
    if let Some(part) = facts.part_of.as_ref().filter(|_| provenance.composition.is_none()) {
        text += &format!(
            "    a part of the data, {} %: the figures are those of all parts together, if each is as accurate\n",
            number(100.0 * part.share)
        );
    }
    if facts.guard == Guard::Reference {
        text += "    calibration did not improve the weights of the selection, so those are kept\n";
    }
    composed + &text
}

const FULL_DATA: &str = "the full data's posterior";

/// How a coreset was built from other coresets.
fn composition(provenance: &Provenance) -> String {
    let Some(composition) = &provenance.composition else { return String::new() };
    let mut text = format!(
        "  built from {}, at most {} from the data\n",
        counted(composition.parts, "coreset"),
        counted(composition.depth, "compression step")
    );
    if let Some(rows) = composition.half_life {
        text += &format!("  weights halved every {} rows\n", number(rows));
    }
    if let Some(bound) = composition.bound.filter(|bound| bound.epsilon > 0.0) {
        text += &format!(
            "    composed bound: relative error of the log-likelihood at most {} with probability at least {} ({})\n",
            number(bound.epsilon),
            number(1.0 - bound.delta),
            bound.radius.map_or("any radius".to_string(), |radius| format!("radius {}", number(radius)))
        );
    }
    text += &match standing(composition) {
        Standing::Moved(movement) => format!(
            "  certificate: none: the posterior is {} sd from where a part was matched, outside its trust radius of {} sd\n",
            number(movement.distance),
            number(movement.radius)
        ),
        Standing::Estimated(kl) => {
            let moved = composition.movement.map_or(String::new(), |movement| {
                format!(
                    "; the posterior moved {} of {} sd",
                    number(movement.distance),
                    number(movement.radius)
                )
            });
            format!("  certificate: estimated: the steps lost about {} nats{moved}\n", number(kl))
        }
        Standing::Unknown => "  certificate: unknown: a step had none\n".to_string(),
    };
    text += "    `tithe certify` and `tithe verify` compare with the data itself\n";
    text
}

/// What a comparison of draws with all rows found, and what was done about it, in one line.
pub fn verified(found: &VerificationFacts) -> String {
    let verdict = match found.verdict {
        _ if found.corrected => {
            format!("inaccurate, therefore resampled (efficiency {:.0} %)", 100.0 * found.efficiency)
        }
        Judgement::Indistinguishable => "indistinguishable, used as they are".to_string(),
        Judgement::Good => "good, used as they are".to_string(),
        _ => "too inaccurate to be corrected".to_string(),
    };
    format!(
        "{verdict}; KL {} nats, largest error of a posterior mean {} sd ({})",
        number(found.kl),
        number(found.largest_mean_error),
        counted(found.draws as u64, "draw"),
    )
}

/// A certificate of a coreset built by `method`, against the full data, as text.
pub fn lines_of(names: &[String], certificate: &Certificate, method: Method) -> String {
    format!("  certificate: {}\n", verdict(certificate.verdict(), method))
        + &figures(names, certificate, FULL_DATA)
}

/// The figures of a certificate, and the directions that the coreset misses.
fn figures(names: &[String], certificate: &Certificate, against: &str) -> String {
    let (low, high) = certificate.sd_ratio_range();
    let how = match &certificate.by_draws {
        Some(ByDraws { discrepancy, evidence }) => format!(
            "{} draws, {}",
            discrepancy.draws,
            match evidence {
                Evidence::AllRows => "all rows",
                _ => "sampled rows",
            }
        ),
        None => "normal approximations".to_string(),
    };
    let mut text = format!(
        "    KL to {against}: {} nats ({how})\n    \
         largest error of a posterior mean: {} sd; posterior sd ratios: {}\n",
        number(certificate.kl()),
        number(certificate.largest_mean_error()),
        range(low, high),
    );
    for missing in certificate.normal.deficiencies.iter().take(5) {
        let coefficients = missing.coefficients.iter().filter_map(|(i, _)| names.get(*i));
        let coefficients: Vec<_> = coefficients.take(3).map(|name| printable(name)).collect();
        let direction = match &coefficients[..] {
            [coefficient] => format!("coefficient {coefficient}"),
            _ => format!("a combination of the coefficients {}", coefficients.join(", ")),
        };
        text += &format!(
            "    {direction}: the coreset retains {} % of the full data's information\n",
            number(100.0 * missing.information)
        );
    }
    text
}

/// The suggested size holds only for calibrated coresets; the other methods need far more rows.
fn verdict(verdict: Verdict, method: Method) -> String {
    match verdict {
        Verdict::Indistinguishable => "indistinguishable".to_string(),
        Verdict::Good => "good".to_string(),
        Verdict::NotVerified => "not verified (normal approximations only)".to_string(),
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
