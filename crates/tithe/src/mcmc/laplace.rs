//! Independent draws from the normal approximation, each with its log-density under the model.

use super::{Watch, fill_normal};
use crate::base::error::Result;
use crate::base::rng::Rng;
use crate::mcmc::Settings;
use crate::mcmc::draws::{Chain, Stats};
use crate::model::Target;

pub(super) fn chain(
    target: &mut dyn Target,
    settings: &Settings,
    rng: &mut Rng,
    watch: &Watch<'_>,
) -> Result<Chain> {
    let (mut xi, mut gradient) = (vec![0.0; target.dim()], vec![0.0; target.dim()]);
    let mut kept = Chain { stats: Stats::Independent, ..Chain::default() };
    for i in 0..settings.draws {
        fill_normal(&mut xi, rng);
        kept.lp.push(target.value_and_gradient(&xi, &mut gradient));
        target.keep(&xi, &mut kept.theta);
        watch.iteration(i, settings.draws)?;
    }
    Ok(kept)
}
