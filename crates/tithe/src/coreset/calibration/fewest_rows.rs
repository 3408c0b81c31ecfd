//! As few rows as meet a target KL.

use std::ops::Range;

use crate::base::error::Result;
use crate::coreset::calibration::certificate::Guard;
use crate::coreset::calibration::check::{Checked, Checker};
use crate::coreset::calibration::choice::{Choice, Chooser};
use crate::coreset::calibration::pricing::Greedy;
use crate::engine::Engine;

/// A greedy search is worth its time if the candidates have at most so many features in all.
const MOST_GREEDY: usize = 1 << 24;
/// So often a choice that meets the target at the draws it was sought with is compared again at others.
const TRIES: u64 = 4;
/// A choice that then misses it is sought again with this part of the target.
const STRICTER: f64 = 0.7;

/// The choice with the fewest rows that meets a target KL, to within a twentieth; `enough`, which meets it, if every other
/// size in the range misses it. The search tries many choices at the same draws, so what it finds is compared again at draws of
/// its own.
pub(crate) fn fewest_rows(
    chooser: &Chooser<'_>,
    checker: &Checker<'_, '_, impl Engine>,
    enough: Checked,
    sizes: Range<usize>,
    target_kl: f64,
) -> Result<Checked> {
    let mut aim = target_kl;
    for turn in 0..TRIES {
        let by_size = by_size(chooser, &enough, sizes.clone(), aim)?;
        let most = by_size.as_ref().map_or(enough.choice.points.len(), |choice| choice.points.len());
        let Some(found) = greedier(chooser, &enough, most, aim)?.or(by_size) else { break };
        let again = checker.check_again(&enough, found, turn)?;
        if again.choice.kl() <= target_kl {
            return Ok(again);
        }
        aim *= STRICTER;
    }
    Ok(enough)
}

/// The smallest size in the range that meets the target at the draws of `enough`.
fn by_size(
    chooser: &Chooser<'_>,
    enough: &Checked,
    sizes: Range<usize>,
    target_kl: f64,
) -> Result<Option<Choice>> {
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
    Ok(best)
}

/// Fewer than `most` rows that meet the target, if a greedy search finds them. What weights miss at the mode is not all that they
/// miss at draws, so the search aims lower until the draws agree.
fn greedier(chooser: &Chooser<'_>, enough: &Checked, most: usize, target_kl: f64) -> Result<Option<Choice>> {
    const HIGHEST_AIM: f64 = 1.2;
    const LOWEST_AIM: f64 = 0.05;
    const LOWER: f64 = 0.9;
    if chooser.pool.len().saturating_mul(enough.targets.features.feature_count()) > MOST_GREEDY || most < 2 {
        return Ok(None);
    }
    let reference = chooser.pool.reference_weights(most);
    let mut search = Greedy::new(&enough.targets.features, &enough.targets.sum, &reference, most - 1);
    let mut aim = HIGHEST_AIM;
    while aim > LOWEST_AIM
        && let Some(found) = search.reach(aim * target_kl)
    {
        // Rows that miss a direction have no mode.
        if let Ok(certificate) = chooser.certificate(&found.rows, &found.weights, Some(found.predicted)) {
            let choice = chooser.choice(&found, found.rows.len(), certificate, Guard::Calibrated);
            if enough.kl_of(&choice)? <= target_kl {
                return Ok(Some(choice));
            }
        }
        aim *= LOWER;
    }
    Ok(None)
}
