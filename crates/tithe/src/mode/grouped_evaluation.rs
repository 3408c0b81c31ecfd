//! The pass that evaluates a hierarchical model's log-likelihood of all rows: value, gradient and arrow-shaped Hessian at some
//! vectors, and values at others.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::Block;
use crate::encoding::Encoding;
use crate::engine::Engine;
use crate::engine::pass::Pass;
use crate::mode::hierarchical::GroupedLikelihood;
use crate::model::arrow::ArrowShape;
use crate::model::grouped_likelihood::{GroupedCurvature, GroupedSums, add_values};

/// The pass.
#[derive(Serialize, Deserialize)]
pub(crate) struct EvaluatingGroups<'a> {
    encoding: Cow<'a, Encoding>,
    /// Where value, gradient and Hessian are wanted.
    curvatures_at: Cow<'a, [Vec<f64>]>,
    /// Where values are wanted.
    values_at: Cow<'a, [Vec<f64>]>,
}

/// What the pass found in some blocks, in the order of the vectors.
#[derive(Serialize, Deserialize)]
pub(crate) struct GroupedEvaluation {
    pub curvatures: Vec<GroupedCurvature>,
    pub values: Vec<f64>,
}

impl<'a> EvaluatingGroups<'a> {
    /// Evaluates at these vectors.
    pub fn new(
        encoding: &'a Encoding,
        curvatures_at: &'a [Vec<f64>],
        values_at: &'a [Vec<f64>],
    ) -> EvaluatingGroups<'a> {
        EvaluatingGroups {
            encoding: Cow::Borrowed(encoding),
            curvatures_at: curvatures_at.into(),
            values_at: values_at.into(),
        }
    }
}

impl Pass for EvaluatingGroups<'_> {
    const ID: &'static str = "grouped-curvature";
    const LABEL: &'static str = "evaluating the hierarchical model";
    type State = GroupedEvaluation;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, (): &mut (), block: &Block) -> Result<GroupedEvaluation> {
        let encoder = self.encoding.grouped_encoder(block)?;
        let shape = ArrowShape { groups: encoder.groups(), width: encoder.width(), dim: self.encoding.dim() };
        let mut scratch = encoder.scratch();
        let mut sums: Vec<GroupedSums> = self.curvatures_at.iter().map(|_| GroupedSums::new(shape)).collect();
        let mut values = vec![0.0; self.values_at.len()];
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, &mut scratch);
            for (sums, at) in sums.iter_mut().zip(self.curvatures_at.iter()) {
                sums.add_tile(&tile, at);
            }
            add_values(&tile, shape, &self.values_at, &mut values);
        }
        Ok(GroupedEvaluation { curvatures: sums.into_iter().map(GroupedSums::finish).collect(), values })
    }

    fn merge(&self, found: &mut GroupedEvaluation, next: GroupedEvaluation) {
        found.curvatures.iter_mut().zip(next.curvatures).for_each(|(sum, more)| sum.merge(more));
        found.values.iter_mut().zip(next.values).for_each(|(sum, more)| *sum += more);
    }
}

/// The log-likelihood of all rows of an engine: one pass per evaluation.
pub(crate) struct AllRows<'a, E> {
    pub engine: &'a E,
    pub encoding: &'a Encoding,
    pub shape: ArrowShape,
}

impl<E: Engine> AllRows<'_, E> {
    /// Curvatures and values at some vectors: one pass.
    pub fn at(&self, curvatures_at: &[Vec<f64>], values_at: &[Vec<f64>]) -> Result<GroupedEvaluation> {
        let pass = EvaluatingGroups::new(self.encoding, curvatures_at, values_at);
        self.engine.run(&pass)?.ok_or_else(|| {
            let what = "the data has no rows".to_string();
            Error::from(ErrorKind::NoRows { what })
        })
    }
}

impl<E: Engine> GroupedLikelihood for AllRows<'_, E> {
    fn shape(&self) -> ArrowShape {
        self.shape
    }

    fn evaluate(&mut self, at: &[f64]) -> Result<GroupedCurvature> {
        let mut evaluation = self.at(&[at.to_vec()], &[])?;
        let empty = GroupedCurvature::empty(self.shape.width, self.shape.dim);
        Ok(evaluation.curvatures.pop().unwrap_or(empty))
    }
}
