//! The pass that evaluates the log-likelihood of all rows at one parameter: value, gradient and Hessian.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::base::rng::Purpose;
use crate::data::block::Block;
use crate::data::points::{Lane, TILE, Tile};
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::engine::pass::Pass;
use crate::mode::guides::GuideSelection;
use crate::model::likelihood::{Curvature, CurvatureSums};
use crate::reservoir::pool::Race;

/// The pass. Besides the likelihood it can find the least margin of the rows, and select guides.
#[derive(Serialize, Deserialize)]
pub(crate) struct EvaluatingCurvature<'a> {
    encoding: Cow<'a, Encoding>,
    theta: Cow<'a, [f64]>,
    margins: bool,
    guides: Option<Cow<'a, GuideSelection>>,
}

/// What the pass found in some blocks.
#[derive(Serialize, Deserialize)]
pub(crate) struct Evaluation {
    /// The log-likelihood.
    pub curvature: Curvature,
    /// The smallest weight of a row, if margins were requested.
    pub least_weight: f64,
    /// The smallest `z·θ` of a row, if margins were requested: positive if `θ` separates the classes.
    pub least_margin: f64,
    /// The rows selected as guides, if requested.
    pub race: Option<Race>,
}

impl<'a> EvaluatingCurvature<'a> {
    /// Evaluates at `theta`.
    pub fn new(encoding: &'a Encoding, theta: &'a [f64]) -> EvaluatingCurvature<'a> {
        EvaluatingCurvature {
            encoding: Cow::Borrowed(encoding),
            theta: theta.into(),
            margins: false,
            guides: None,
        }
    }

    /// Also finds the least margin and weight, if `margins`.
    pub fn with_margins(self, margins: bool) -> EvaluatingCurvature<'a> {
        EvaluatingCurvature { margins, ..self }
    }

    /// Also selects guides, if there is a selection.
    pub fn with_guides(self, guides: Option<&'a GuideSelection>) -> EvaluatingCurvature<'a> {
        EvaluatingCurvature { guides: guides.map(Cow::Borrowed), ..self }
    }
}

impl Evaluation {
    /// The evaluation of an empty data set.
    pub fn empty(dim: usize) -> Evaluation {
        let least = f64::INFINITY;
        Evaluation { curvature: Curvature::new(dim), least_weight: least, least_margin: least, race: None }
    }
}

impl Pass for EvaluatingCurvature<'_> {
    const ID: &'static str = "newton";
    const LABEL: &'static str = "Newton step";
    type State = Evaluation;
    type Worker = (Scratch, Vec<Lane>);

    fn worker(&self) -> (Scratch, Vec<Lane>) {
        (Scratch::new(self.encoding.dim()), vec![Lane::ZERO; self.encoding.dim()])
    }

    fn visit(&self, (scratch, directions): &mut (Scratch, Vec<Lane>), block: &Block) -> Result<Evaluation> {
        let encoder = self.encoding.encoder(block)?;
        let mut found = Evaluation::empty(self.encoding.dim());
        let mut sums = CurvatureSums::new(self.encoding.dim());
        let guides = self.guides.as_deref();
        let mut selection =
            guides.map(|guides| (guides, guides.race(), guides.seed().stream(Purpose::Guides, block.stream)));
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, scratch);
            sums.add_tile(&tile, &self.theta);
            if let Some((guides, race, rng)) = &mut selection {
                guides.enter(race, &tile, directions, |r| block.position(t * TILE + r), rng);
            }
            if self.margins {
                found.least_margin = found.least_margin.min(least_margin(&tile, &self.theta));
                found.least_weight = tile.w[..tile.len].iter().copied().fold(found.least_weight, f64::min);
            }
        }
        found.curvature = sums.finish();
        found.race = selection.map(|(_, race, _)| race);
        Ok(found)
    }

    fn merge(&self, found: &mut Evaluation, next: Evaluation) {
        found.curvature.merge(&next.curvature);
        found.least_weight = found.least_weight.min(next.least_weight);
        found.least_margin = found.least_margin.min(next.least_margin);
        if let (Some(race), Some(next)) = (&mut found.race, next.race) {
            race.merge(next);
        }
    }

    fn relocate(&self, found: &mut Evaluation, place: &dyn Fn(u64) -> u64) {
        if let Some(race) = &mut found.race {
            race.relocate(place);
        }
    }
}

/// The least `z·θ` of a tile's rows: positive if `θ` classifies all of them correctly.
pub(crate) fn least_margin(tile: &Tile<'_>, theta: &[f64]) -> f64 {
    let mut margins = Lane::ZERO;
    for (z, theta) in tile.z.iter().zip(theta) {
        for (margin, z) in margins.iter_mut().zip(z.iter()) {
            *margin += z * theta;
        }
    }
    margins[..tile.len].iter().copied().fold(f64::INFINITY, f64::min)
}

/// Value, gradient and Hessian of all rows' log-likelihood at a parameter: one pass.
pub(crate) fn full_curvature(engine: &impl Engine, encoding: &Encoding, theta: &[f64]) -> Result<Curvature> {
    let found = engine.run(&EvaluatingCurvature::new(encoding, theta))?;
    Ok(found.map_or_else(|| Curvature::new(theta.len()), |found| found.curvature))
}
