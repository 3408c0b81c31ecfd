//! Independent draws from the normal approximation, each with its log-density under the model.

use super::{Watch, Whitened, fill_normal};
use crate::base::error::Result;
use crate::base::rng::Rng;
use crate::mcmc::Settings;
use crate::mcmc::draws::{Chain, Stats};
use crate::model::{Gaussian, LogDensity};

pub(super) fn chain(
    density: &dyn LogDensity,
    gaussian: &Gaussian,
    settings: &Settings,
    rng: &mut Rng,
    watch: &Watch<'_>,
) -> Result<Chain> {
    let mut whitened = Whitened::new(density, gaussian);
    let (mut xi, mut gradient) = (vec![0.0; density.dim()], vec![0.0; density.dim()]);
    let mut kept = Chain { stats: Stats::Independent, ..Chain::default() };
    for i in 0..settings.draws {
        fill_normal(&mut xi, rng);
        kept.lp.push(whitened.value_and_gradient(&xi, &mut gradient));
        kept.theta.extend_from_slice(&whitened.theta);
        watch.iteration(i, settings.draws)?;
    }
    Ok(kept)
}
