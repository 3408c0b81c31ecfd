//! The pass that evaluates the log-likelihood of all rows at many parameters.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::Result;
use crate::data::block::Block;
use crate::encoding::full_data::Identity;
use crate::encoding::{Encoding, Scratch};
use crate::engine::Engine;
use crate::engine::pass::Pass;
use crate::model::likelihood::ValueSums;

/// The log-likelihood of all rows at each given parameter, and the identity of the rows: one pass.
pub fn log_likelihoods(
    engine: &impl Engine,
    encoding: &Encoding,
    theta: &[Vec<f64>],
) -> Result<(Vec<f64>, Identity)> {
    let evaluated = engine.run(&Evaluating { encoding: Cow::Borrowed(encoding), theta: theta.into() })?;
    Ok(evaluated.map_or_else(
        || (vec![0.0; theta.len()], Identity::default()),
        |evaluated| (evaluated.values, evaluated.identity),
    ))
}

/// The pass that computes the log-likelihood at many parameters, with one matrix product per tile.
#[derive(Serialize, Deserialize)]
pub(crate) struct Evaluating<'a> {
    encoding: Cow<'a, Encoding>,
    theta: Cow<'a, [Vec<f64>]>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Evaluated {
    values: Vec<f64>,
    identity: Identity,
}

impl Pass for Evaluating<'_> {
    const ID: &'static str = "evaluate-draws";
    const LABEL: &'static str = "evaluating the draws";
    type State = Evaluated;
    type Worker = Scratch;

    fn worker(&self) -> Scratch {
        Scratch::new(self.encoding.dim())
    }

    fn visit(&self, scratch: &mut Scratch, block: &Block) -> Result<Evaluated> {
        self.encoding.check_labels(block)?;
        let encoder = self.encoding.encoder(block)?;
        let mut sums = ValueSums::new(self.theta.len());
        for t in 0..encoder.tiles() {
            sums.add_tile(&encoder.tile(t, scratch), &self.theta);
        }
        Ok(Evaluated { values: sums.finish(), identity: Identity::of(block) })
    }

    fn merge(&self, state: &mut Evaluated, next: Evaluated) {
        state.identity.merge(next.identity);
        for (sum, more) in state.values.iter_mut().zip(next.values) {
            *sum += more;
        }
    }
}
