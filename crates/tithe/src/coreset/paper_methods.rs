//! The paper's Algorithm 1, and uniform selection, its baseline.

use std::borrow::Cow;

use crate::base::error::{Error, Remedy, Result, Setting};
use crate::coreset::selection::{Selecting, Shares, Size, guaranteed_size};
use crate::coreset::steps::{Build, Selected, no_rows};
use crate::coreset::{SensitivityFacts, points};
use crate::encoding::Encoding;
use crate::engine::Engine;
use crate::reservoir::slots::{Picked, Races, Slots};

/// Algorithm 1 of the paper, for weighted rows.
pub(crate) fn algorithm_1(build: &mut Build<'_, impl Engine>) -> Result<Selected> {
    let (encoding, seed) = (&build.learnt.encoding, build.settings.seed);

    // A k-clustering, and the sensitivity bounds m_n that it gives (Lemma 3.1).
    let centers = build.cluster()?;
    let grouped = build.run(build.grouping(&centers))?;
    let mut bounds = build.sensitivity_bounds(centers, grouped)?;
    let bound = bounds.bound.clone();
    let selecting = |slots: usize| Selecting {
        encoding: Cow::Borrowed(encoding),
        shares: Shares::Sensitivity(Cow::Borrowed(&bound)),
        races: Races::new(slots),
        seed,
    };

    // The number of draws M: given, or enough for (ε, δ).
    let draws = match build.settings.size {
        Size::Rows(rows) => rows as u64,
        Size::Guarantee { epsilon, delta, constant } => {
            let total = build.run(selecting(0))?.total;
            build.lap("bounds");
            bounds.facts.mean_bound = Some(total);
            guaranteed_size(total, encoding.dim(), epsilon, delta, constant)
        }
        Size::Kl { .. } => return Err(only_calibrated()),
    };
    if let Some(exact) = build.exact_coreset(draws, &mut bounds)? {
        return Ok(exact);
    }

    // M draws with probability p_n = m_n / Σ m; a row drawn K_n times has weight γ_n = K_n w_n / (p_n M).
    let slots = build.run(selecting(draws as usize))?;
    bounds.facts.mean_bound = Some(slots.total);
    build.lap("selection");
    weighted(encoding, slots, draws, Some(bounds.facts))
}

/// The baseline: M draws in proportion to the rows' own weights.
pub(crate) fn select_uniformly(build: &mut Build<'_, impl Engine>) -> Result<Selected> {
    let rows = match build.settings.size {
        Size::Rows(rows) => rows,
        Size::Kl { .. } => return Err(only_calibrated()),
        Size::Guarantee { .. } => {
            let what = "has no effect on uniform selection, which gives no guarantee";
            return Err(
                Error::setting(Setting::Epsilon, what).with_help(Remedy::set(Setting::Method, "sensitivity"))
            );
        }
    };
    let draws = rows as u64;
    if let Some(all) = build.all_rows_if_few(draws, None)? {
        return Ok(all);
    }
    let encoding = &build.learnt.encoding;
    let slots = build.run(Selecting {
        encoding: Cow::Borrowed(encoding),
        shares: Shares::Weights,
        races: Races::new(rows),
        seed: build.settings.seed,
    })?;
    build.lap("selection");
    weighted(encoding, slots, draws, None)
}

/// The drawn rows with their weights `γ_n = K_n w_n S / (s_n M)`.
fn weighted(
    encoding: &Encoding,
    slots: Slots,
    draws: u64,
    sensitivity: Option<SensitivityFacts>,
) -> Result<Selected> {
    let total = slots.total;
    let Picked { rows, shares, counts } = slots.finish().ok_or_else(no_rows)?;
    let own = points(encoding, &rows)?.weights();
    let weights = own
        .iter()
        .zip(&shares)
        .zip(&counts)
        .map(|((w, share), count)| f64::from(*count) * w * (total / share) / draws as f64)
        .collect();
    Ok(Selected {
        rows,
        weights,
        draws,
        exact: false,
        sensitivity,
        calibration: None,
        hierarchical: None,
        warning: None,
        residual: None,
        step_kl: None,
        held: None,
    })
}

fn only_calibrated() -> Error {
    Error::setting(Setting::Kl, "needs a certificate, which only a calibrated coreset has")
        .with_help(Remedy::set(Setting::Method, "calibrated"))
}
