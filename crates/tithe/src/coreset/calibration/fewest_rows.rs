//! As few rows as meet a target KL.

use std::ops::Range;

use crate::base::error::Result;
use crate::coreset::calibration::certificate::Guard;
use crate::coreset::calibration::check::Checked;
use crate::coreset::calibration::choice::{Chooser, Targets};
use crate::coreset::calibration::pricing::greedy;

/// A greedy search is worth its time if the candidates have at most so many features in all.
const MOST_GREEDY: usize = 1 << 24;

/// The choice with the fewest rows that meets a target KL, to within a twentieth; `enough`, which meets it, if every other
/// size in the range misses it.
pub(crate) fn fewest_rows(
    chooser: &Chooser<'_>,
    enough: Checked,
    sizes: Range<usize>,
    target_kl: f64,
) -> Result<Checked> {
    // There must be at least as many rows as coefficients.
    let (mut missed, mut size) = (sizes.start.max(chooser.reference.prior_precision.len()), sizes.end);
    let mut best = None;
    while size > missed + 1 && 20 * size > 21 * missed {
        let fewer = ((missed as f64 * size as f64).sqrt() as usize).clamp(missed + 1, size - 1);
        match chooser.choose(&enough.targets, fewer) {
            Ok(choice) if enough.kl_of(&choice)? <= target_kl => (size, best) = (fewer, Some(choice)),
            Err(error) if !error.is_numerical() => return Err(error),
            _ => missed = fewer,
        }
    }
    let best = match best {
        Some(choice) => enough.with_choice(choice)?,
        None => enough,
    };
    greedier(chooser, best, target_kl)
}

/// The same KL with fewer rows, if a greedy search finds them. What weights miss at the mode is not all that they miss at
/// draws, so the search aims lower until the draws agree.
fn greedier(chooser: &Chooser<'_>, mut best: Checked, target_kl: f64) -> Result<Checked> {
    const AIMS: [f64; 4] = [0.9, 0.6, 0.3, 0.1];
    let most = best.choice.points.len();
    if chooser.pool.len().saturating_mul(chooser.reference.map.feature_count()) > MOST_GREEDY {
        return Ok(best);
    }
    let reference = chooser.pool.reference_weights(most);
    for aim in AIMS {
        let Targets { features, sum, .. } = &best.targets;
        let Some(found) = greedy(features, sum, &reference, aim * target_kl, most - 1) else { break };
        let certificate = chooser.certificate(&found.rows, &found.weights, Some(found.predicted))?;
        let choice = chooser.choice(&found, found.rows.len(), certificate, Guard::Calibrated);
        if best.kl_of(&choice)? <= target_kl {
            best = best.with_choice(choice)?;
            break;
        }
    }
    Ok(best)
}
