//! What a calibrated coreset has to match besides its own rows, and how closely.

use crate::coreset::whole::Whole;
use crate::data::points::Points;
use crate::mode::search::NEAR;
use crate::model::quadratic::Quadratic;

/// The squared Newton decrement of a step's reference: a tenth of a standard deviation is near enough, because the next
/// step has a reference of its own.
const NEAR_A_STEP: f64 = 1e-2;

/// One reduction of rows to a coreset: of all rows, or as a step of a stream or merge.
#[derive(Clone, Debug)]
pub(crate) struct Task<'a> {
    /// Points of other coresets that belong to the same posterior. They count for the mode and for what matters near it.
    pub others: Option<&'a Points>,
    /// The log-likelihood that earlier steps failed to represent, which this one compensates for in proportion to its mass.
    pub carried_residual: Option<&'a Quadratic>,
    /// Where gradient and Hessian are matched; `None` is the mode.
    pub fixed_reference: Option<&'a [f64]>,
    /// The posterior of all data, of which the rows are a part; `None` if it is to be found from the rows.
    pub whole: Option<&'a Whole>,
    /// How rows rank as candidates, beside their local features.
    pub ranking: RankBy,
    /// How closely the weights match.
    pub matching: Matching,
    /// The squared Newton decrement at which a mode found from the carried residual is near enough.
    pub near: f64,
    /// Whether rows that fit the size may be returned unchanged. They would leave a carried residual uncompensated.
    pub may_be_exact: bool,
    /// Whether to warn if there are so few rows that all are kept.
    pub warns_of_few_rows: bool,
}

/// The first of the two rankings by which rows become candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RankBy {
    /// The sensitivity bound: how much a row can matter anywhere in the ball.
    Sensitivity,
    /// The leverage: how much a row matters for directions that few others inform about.
    Leverage,
}

/// How closely weights match the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Matching {
    /// As closely as the size allows: rows are priced, weights solved for, and the result is certified.
    Certified,
    /// By one correction of the selection's weights, without a certificate: the next step compensates for the rest.
    Approximate,
}

impl<'a> Task<'a> {
    /// The rows are all that there is.
    pub fn all_rows() -> Task<'a> {
        Task {
            others: None,
            carried_residual: None,
            fixed_reference: None,
            whole: None,
            ranking: RankBy::Sensitivity,
            matching: Matching::Certified,
            near: NEAR,
            may_be_exact: true,
            warns_of_few_rows: true,
        }
    }

    /// One of many steps of a stream: the reference is the mode of everything that is held, and what the step misses is
    /// carried to the next.
    pub fn step(others: Option<&'a Points>, carried_residual: Option<&'a Quadratic>) -> Task<'a> {
        Task {
            others,
            carried_residual,
            ranking: RankBy::Leverage,
            matching: Matching::Approximate,
            near: NEAR_A_STEP,
            warns_of_few_rows: false,
            ..Task::all_rows()
        }
    }

    /// The last step, for a snapshot: the rows are everything that is held, and all of the residual is compensated.
    pub fn last_step(carried_residual: Option<&'a Quadratic>) -> Task<'a> {
        let all = Task { warns_of_few_rows: false, ..Task::all_rows() };
        match carried_residual {
            Some(_) => Task { carried_residual, ranking: RankBy::Leverage, may_be_exact: false, ..all },
            None => all,
        }
    }

    /// Gradient and Hessian are matched at a given parameter.
    pub fn at(reference: &'a [f64]) -> Task<'a> {
        Task { fixed_reference: Some(reference), warns_of_few_rows: false, ..Task::all_rows() }
    }

    /// The rows are a part of data whose posterior is known from another coreset.
    pub fn part_of(whole: &'a Whole) -> Task<'a> {
        Task { whole: Some(whole), ..Task::all_rows() }
    }

    /// The same task without the residual of earlier steps.
    pub fn without_carried_residual(&self) -> Task<'a> {
        match self.matching {
            Matching::Certified => Task::last_step(None),
            Matching::Approximate => Task { carried_residual: None, ..self.clone() },
        }
    }

    /// The mass of the other points.
    pub fn other_mass(&self) -> f64 {
        self.others.map_or(0.0, |others| others.weights().iter().sum())
    }
}
