//! The posterior of a hierarchical model: fixed effects, group effects, and the covariances from which the group effects come.
//!
//! `y_n η_n = z_n·β + Σ_f (y_n r_nf)·u_{f,g}`, `u_{f,g} ~ N(0, Σ_f)`, `L = −Σ w_n φ(y_n η_n)`; see [`GroupedPoints`] and
//! [`Covariance`].
//!
//! **Coordinates.** Group effects and their scales depend on each other: the smaller the scale, the smaller the effects of groups with
//! few rows. *Centred* coordinates `u_g` suit groups with many rows, *non-centred* ones `v_g = Σ^{−½} u_g` suit groups with few
//! (Papaspiliopoulos, Roberts and Sköld 2007). We use coordinates between the two, chosen by each group's information. With the
//! likelihood's second-order expansion about a reference point `(β̂, û)`, with blocks `d_g` and `B_g` of its negative Hessian, the
//! effects of a group given everything else have precision `P_g = d_g + Q` and mean `P_g⁻¹ (h_g − B_g (β − β̂))`, where `Q = Σ⁻¹` and
//! `h_g = d_g û_g + ∂L/∂u_g`. With `P_g = K Kᵀ` the coordinates are
//!
//! `u_g = K⁻ᵀ (K⁻¹ (h_g − B_g (β − β̂)) + v_g)`.
//!
//! If `d_g` is small, this is `Σ^{½} v_g`, and if it is large, `û_g + d_g^{−½} v_g` and the change of β. For *every* Σ the density of
//! `v` is nearly standard normal and independent of β and Σ. This holds exactly for a normal likelihood; for any likelihood it is a
//! change of variables, whose Jacobian `Π |K|⁻¹` we take into account, so an inaccurate reference only costs time. The fixed
//! effects are whitened by their normal approximation with the group effects integrated out (the last block of the arrow's Cholesky
//! factor), and the parameters of Σ are shifted and scaled.

use crate::base::error::{Error, Result, Setting};
use crate::base::math::{ln, total, vectorized};
use crate::data::grouped::{GroupedPoints, Memberships};
use crate::data::points::{Lane, TILE};
use crate::model::covariance::{Covariance, CovariancePrior};
use crate::model::gaussian::Gaussian;
use crate::model::likelihood::{LANES, add_columns, add_rows, losses_and_pulls, margins};
use crate::model::posterior::Target;
use crate::model::prior::{Prepared, Prior, Priors};

/// The priors of a hierarchical model.
#[derive(Clone, Debug, PartialEq)]
pub struct HierarchicalPriors {
    /// The priors of the fixed effects.
    pub fixed: Priors,
    /// The priors of the covariances of the factors' group effects.
    pub factors: Vec<CovariancePrior>,
}

impl HierarchicalPriors {
    /// Returns an error if the priors are not those of a model for these points, or if the points cannot be used.
    pub fn check(&self, points: &GroupedPoints) -> Result<()> {
        let wrong = |what: String| Err(Error::setting(Setting::GroupPrior, what));
        if self.fixed.dim() != points.fixed.dim() {
            let what = format!("has {} values for {} coefficients", self.fixed.dim(), points.fixed.dim());
            return Err(Error::setting(Setting::Prior, what));
        }
        if self.factors.len() != points.factors.len() {
            return wrong(format!("has {} values for {} factors", self.factors.len(), points.factors.len()));
        }
        self.fixed.coefficients.iter().try_for_each(Prior::check)?;
        for (prior, factor) in self.factors.iter().zip(&points.factors) {
            prior.check()?;
            if prior.width() != factor.width {
                return wrong(format!("has {} scales for {} effects per group", prior.width(), factor.width));
            }
            let rows = points.fixed.len();
            let sound = factor.group.len() == rows && factor.z.len() == rows * factor.width;
            if !sound || factor.group.iter().any(|&g| g as usize >= factor.groups) {
                return wrong("belongs to groups that the rows do not have".to_string());
            }
        }
        Ok(())
    }
}

/// A point in the space of all parameters, on the model's scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    /// The fixed effects β.
    pub beta: Vec<f64>,
    /// The unconstrained parameters of the covariance of each factor; see [`Covariance::new`].
    pub unconstrained: Vec<Vec<f64>>,
    /// The effects of each factor, the q effects of one group after the other.
    pub effects: Vec<Vec<f64>>,
}

impl Parameters {
    /// Zeros, for a model of these points.
    pub fn zeros(points: &GroupedPoints, priors: &HierarchicalPriors) -> Parameters {
        Parameters {
            beta: vec![0.0; points.fixed.dim()],
            unconstrained: priors.factors.iter().map(|prior| vec![0.0; prior.parameters()]).collect(),
            effects: points.factors.iter().map(|factor| vec![0.0; factor.groups * factor.width]).collect(),
        }
    }
}

/// The second-order expansion of the likelihood about a reference point, as the coordinates need it.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    /// The normal approximation of the fixed effects with the group effects integrated out, at the reference's covariances.
    pub beta: Gaussian,
    /// The expansion in the effects of each factor.
    pub factors: Vec<FactorReference>,
}

/// The expansion in the effects of one factor.
#[derive(Clone, Debug)]
pub(crate) struct FactorReference {
    /// The unconstrained parameters of the covariance.
    pub unconstrained: Vec<f64>,
    /// Their approximate standard deviations.
    pub spread: Vec<f64>,
    /// `d_g`, q × q numbers per group.
    pub information: Vec<f64>,
    /// `B_g`, row by row: q × D numbers per group.
    pub border: Vec<f64>,
    /// `h_g = d_g û_g + ∂L/∂u_g`, q numbers per group.
    pub pull: Vec<f64>,
}

/// The posterior of a hierarchical model in the coordinates described above.
#[derive(Clone, Debug)]
pub struct HierarchicalPosterior<'a> {
    points: &'a GroupedPoints,
    priors: &'a HierarchicalPriors,
    prepared: Vec<Prepared>,
    reference: Reference,
}

impl<'a> HierarchicalPosterior<'a> {
    pub(super) fn with_reference(
        points: &'a GroupedPoints,
        priors: &'a HierarchicalPriors,
        reference: Reference,
    ) -> HierarchicalPosterior<'a> {
        let prepared = priors.fixed.coefficients.iter().map(Prior::prepared).collect();
        HierarchicalPosterior { points, priors, prepared, reference }
    }

    /// Number of coordinates: D fixed effects, the parameters of the covariances, and all group effects.
    pub fn dim(&self) -> usize {
        let effects: usize = self.points.factors.iter().map(|factor| factor.groups * factor.width).sum();
        self.points.fixed.dim() + effects + self.covariance_parameters()
    }

    fn covariance_parameters(&self) -> usize {
        self.priors.factors.iter().map(CovariancePrior::parameters).sum()
    }

    /// The log-density of parameters, by its definition: `L`, the priors, and the normal densities of the group effects. Plain and
    /// slow; the constants of LKJ's densities are left out.
    pub fn log_density(&self, at: &Parameters) -> f64 {
        let points = self.points;
        let mut value = 0.0;
        for n in 0..points.fixed.len() {
            let mut margin: f64 = points.fixed.row(n).iter().zip(&at.beta).map(|(z, b)| z * b).sum();
            for (factor, effects) in points.factors.iter().zip(&at.effects) {
                let first = factor.group[n] as usize * factor.width;
                margin += factor.row(n).iter().zip(&effects[first..]).map(|(z, u)| z * u).sum::<f64>();
            }
            value -= points.fixed.weight(n) * crate::base::math::softplus_and_slope(margin).0;
        }
        value += self.priors.fixed.log_density(&at.beta);
        for (f, prior) in self.priors.factors.iter().enumerate() {
            let covariance = Covariance::new(prior, &at.unconstrained[f]);
            value += covariance.log_prior;
            for u in at.effects[f].chunks_exact(prior.width()) {
                value += log_normal(&covariance, u);
            }
        }
        value
    }

    /// The posterior with working memory for one chain.
    pub fn target(&self) -> HierarchicalTarget<'_> {
        let dim = self.points.fixed.dim();
        let factors = self.points.factors.iter().zip(&self.priors.factors);
        let factors = factors.map(|(factor, prior)| FactorMemory::new(factor, prior)).collect();
        HierarchicalTarget {
            posterior: self,
            beta: vec![0.0; dim],
            beta_gradient: vec![0.0; dim],
            shift: vec![0.0; dim],
            columns: vec![[0.0; LANES]; dim],
            factors,
        }
    }
}

/// The logarithm of the density of `N(0, Σ)` at `u`.
fn log_normal(covariance: &Covariance, u: &[f64]) -> f64 {
    let q = covariance.width;
    let square: f64 = (0..q * q).map(|k| u[k / q] * covariance.precision[k] * u[k % q]).sum();
    0.5 * (covariance.log_det_precision - square - q as f64 * ln(2.0 * std::f64::consts::PI))
}

/// A [`HierarchicalPosterior`] with working memory for one chain.
///
/// The coordinates are those of the fixed effects, then those of the covariances' parameters, then `v`, factor by factor.
pub struct HierarchicalTarget<'a> {
    posterior: &'a HierarchicalPosterior<'a>,
    beta: Vec<f64>,
    beta_gradient: Vec<f64>,
    /// `β − β̂`.
    shift: Vec<f64>,
    columns: Vec<[f64; LANES]>,
    factors: Vec<FactorMemory>,
}

/// The working memory for one factor.
struct FactorMemory {
    covariance: Covariance,
    /// `u`.
    effects: Vec<f64>,
    /// The derivatives of the likelihood with respect to `u`.
    slopes: Vec<f64>,
    /// `K`, q × q numbers per group: the lower triangle, with reciprocals on the diagonal.
    factors: Vec<f64>,
    /// `K⁻¹ (h − B (β − β̂))`.
    means: Vec<f64>,
}

impl FactorMemory {
    fn new(factor: &Memberships, prior: &CovariancePrior) -> FactorMemory {
        let effects = factor.groups * factor.width;
        FactorMemory {
            covariance: Covariance::new(prior, &vec![0.0; prior.parameters()]),
            effects: vec![0.0; effects],
            slopes: vec![0.0; effects],
            factors: vec![0.0; effects * factor.width],
            means: vec![0.0; effects],
        }
    }

    /// Computes `u` from `v`; returns the logarithm of the Jacobian, `−Σ ln |K|`, which is NaN if a `P_g` is not positive definite.
    fn place(&mut self, reference: &FactorReference, shift: &[f64], v: &[f64]) -> f64 {
        let q = self.covariance.width;
        let mut reciprocals = LogProduct::default();
        for (g, v) in v.chunks_exact(q).enumerate() {
            let k = &mut self.factors[g * q * q..(g + 1) * q * q];
            for (k, (d, p)) in
                k.iter_mut().zip(reference.information[g * q * q..].iter().zip(&self.covariance.precision))
            {
                *k = d + p;
            }
            factor_small(k, q);
            let mean = &mut self.means[g * q..(g + 1) * q];
            mean.copy_from_slice(&reference.pull[g * q..(g + 1) * q]);
            if !shift.is_empty() {
                let border = reference.border[g * q * shift.len()..].chunks_exact(shift.len());
                for (mean, row) in mean.iter_mut().zip(border) {
                    *mean -= row.iter().zip(shift).map(|(b, s)| b * s).sum::<f64>();
                }
            }
            solve_small(k, q, mean);
            let u = &mut self.effects[g * q..(g + 1) * q];
            for (u, (mean, v)) in u.iter_mut().zip(mean.iter().zip(v)) {
                *u = mean + v;
            }
            solve_small_transposed(k, q, u);
            (0..q).for_each(|i| reciprocals.multiply(k[i * q + i]));
        }
        reciprocals.ln()
    }

    /// Adds the normal log-density of the effects, and turns the derivatives of the likelihood with respect to `u` into those of the
    /// log-density with respect to `v`, to β (added to `beta`) and to the covariance's parameters.
    fn pull_back(
        &mut self,
        reference: &FactorReference,
        prior: &CovariancePrior,
        beta: &mut [f64],
        by_covariance: &mut [f64],
        by_v: &mut [f64],
    ) -> f64 {
        let q = self.covariance.width;
        let groups = by_v.len() / q;
        let dim = beta.len();
        // The derivatives with respect to Q: directly from the normal density, and through K.
        let mut by_precision: Vec<f64> =
            self.covariance.sigma.iter().map(|s| 0.5 * groups as f64 * s).collect();
        let mut squares = 0.0;
        let (mut by_factor, mut by_mean, mut qu) = (vec![0.0; q * q], vec![0.0; q], vec![0.0; q]);
        for g in 0..groups {
            let k = &self.factors[g * q * q..(g + 1) * q * q];
            let u = &self.effects[g * q..(g + 1) * q];
            let mean = &self.means[g * q..(g + 1) * q];
            let by_v = &mut by_v[g * q..(g + 1) * q];
            for i in 0..q {
                qu[i] = (0..q).map(|j| self.covariance.precision[i * q + j] * u[j]).sum();
                squares += u[i] * qu[i];
                by_v[i] = self.slopes[g * q + i] - qu[i];
            }
            // u = K⁻ᵀ (m + v), m = K⁻¹ r: by_v = K⁻¹ ∂u, ∂r = K⁻ᵀ by_v, ∂K = −u by_vᵀ − ∂r mᵀ − K⁻¹ on the diagonal.
            solve_small(k, q, by_v);
            by_mean.copy_from_slice(by_v);
            solve_small_transposed(k, q, &mut by_mean);
            for i in 0..q {
                for j in 0..=i {
                    by_factor[i * q + j] = -u[i] * by_v[j] - by_mean[i] * mean[j];
                    by_precision[i * q + j] -= 0.5 * u[i] * u[j];
                }
                for j in i + 1..q {
                    by_precision[i * q + j] -= 0.5 * u[i] * u[j];
                }
                by_factor[i * q + i] -= k[i * q + i];
            }
            add_by_matrix(k, q, &mut by_factor, &mut by_precision);
            if dim > 0 {
                let border = reference.border[g * q * dim..].chunks_exact(dim);
                for (r, row) in by_mean.iter().zip(border) {
                    for (beta, b) in beta.iter_mut().zip(row) {
                        *beta -= r * b;
                    }
                }
            }
        }
        self.covariance.gradient(prior, &by_precision, by_covariance);
        let constants = self.covariance.log_det_precision - q as f64 * ln(2.0 * std::f64::consts::PI);
        0.5 * (groups as f64 * constants - squares) + self.covariance.log_prior
    }
}

/// The logarithm of a product of many positive numbers, with few logarithms.
struct LogProduct {
    product: f64,
    sum: f64,
}

impl Default for LogProduct {
    fn default() -> LogProduct {
        LogProduct { product: 1.0, sum: 0.0 }
    }
}

impl LogProduct {
    fn multiply(&mut self, factor: f64) {
        self.product *= factor;
        // A NaN also goes into the sum.
        if !(1e-100..1e100).contains(&self.product) {
            self.sum += ln(self.product);
            self.product = 1.0;
        }
    }

    fn ln(self) -> f64 {
        self.sum + ln(self.product)
    }
}

/// Overwrites the lower triangle of a small symmetric matrix by its Cholesky factor with reciprocals on the diagonal, which are NaN if
/// the matrix is not positive definite.
pub(super) fn factor_small(k: &mut [f64], q: usize) {
    for j in 0..q {
        for i in j..q {
            let mut sum = k[i * q + j];
            for l in 0..j {
                sum -= k[i * q + l] * k[j * q + l];
            }
            k[i * q + j] = if i == j { 1.0 / sum.sqrt() } else { sum * k[j * q + j] };
        }
    }
}

/// `K⁻¹ x` in place.
pub(super) fn solve_small(k: &[f64], q: usize, x: &mut [f64]) {
    for i in 0..q {
        let known: f64 = (0..i).map(|j| k[i * q + j] * x[j]).sum();
        x[i] = (x[i] - known) * k[i * q + i];
    }
}

/// `K⁻ᵀ x` in place.
pub(super) fn solve_small_transposed(k: &[f64], q: usize, x: &mut [f64]) {
    for i in (0..q).rev() {
        let known: f64 = (i + 1..q).map(|j| k[j * q + i] * x[j]).sum();
        x[i] = (x[i] - known) * k[i * q + i];
    }
}

/// Adds the derivatives with respect to `P = K Kᵀ` of a function whose derivatives with respect to the lower triangle of `K` are given
/// (and overwritten): `½ K⁻ᵀ (Φ + Φᵀ) K⁻¹`, where `Φ` is the lower triangle of `Kᵀ ∂K` with half its diagonal (Murray 2016).
fn add_by_matrix(k: &[f64], q: usize, by_factor: &mut [f64], by_matrix: &mut [f64]) {
    if q == 1 {
        // The derivative of √P is 1/(2√P).
        by_matrix[0] += 0.5 * k[0] * by_factor[0];
        return;
    }
    let entry = |i: usize, j: usize| if i == j { 1.0 / k[i * q + i] } else { k[i * q + j] };
    for j in 0..q {
        for i in j..q {
            // Rows below i are not overwritten yet, since row i only needs those from i on.
            let sum: f64 = (i..q).map(|l| entry(l, i) * by_factor[l * q + j]).sum();
            by_factor[i * q + j] = if i == j { 0.5 * sum } else { sum };
        }
    }
    for i in 0..q {
        for j in 0..i {
            by_factor[i * q + j] *= 0.5;
            by_factor[j * q + i] = by_factor[i * q + j];
        }
    }
    // K⁻ᵀ X K⁻¹ for a symmetric X: K⁻ᵀ on each column, then on each row.
    let mut column = vec![0.0; q];
    for j in 0..q {
        (0..q).for_each(|i| column[i] = by_factor[i * q + j]);
        solve_small_transposed(k, q, &mut column);
        (0..q).for_each(|i| by_factor[i * q + j] = column[i]);
    }
    for i in 0..q {
        let row = &mut by_factor[i * q..(i + 1) * q];
        solve_small_transposed(k, q, row);
        for (into, row) in by_matrix[i * q..].iter_mut().zip(row) {
            *into += *row;
        }
    }
}

impl HierarchicalTarget<'_> {
    /// The parameters at the coordinates `ξ`; returns the logarithm of the part of the Jacobian that depends on them.
    fn place(&mut self, xi: &[f64]) -> f64 {
        let reference = &self.posterior.reference;
        let (beta, rest) = xi.split_at(self.beta.len());
        let (scales, mut rest) = rest.split_at(self.posterior.covariance_parameters());
        reference.beta.unwhiten(beta, &mut self.beta);
        for ((shift, beta), mean) in self.shift.iter_mut().zip(&self.beta).zip(reference.beta.mean()) {
            *shift = beta - mean;
        }
        let mut scales = scales.iter();
        let mut jacobian = 0.0;
        let priors = &self.posterior.priors.factors;
        for ((memory, prior), reference) in self.factors.iter_mut().zip(priors).zip(&reference.factors) {
            let unconstrained = unconstrained(reference, &mut scales);
            memory.covariance = Covariance::new(prior, &unconstrained);
            let (own, others) = rest.split_at(memory.effects.len());
            jacobian += memory.place(reference, &self.shift, own);
            rest = others;
        }
        jacobian
    }

    /// `L` at the present parameters; writes its derivatives to `beta_gradient` and to the factors' `slopes`.
    fn likelihood(&mut self) -> f64 {
        let points = self.posterior.points;
        self.columns.iter_mut().for_each(|part| *part = [0.0; LANES]);
        self.factors.iter_mut().for_each(|memory| memory.slopes.fill(0.0));
        let mut loss = [0.0; LANES];
        let (columns, memories, beta) = (&mut self.columns, &mut self.factors, &self.beta);
        vectorized(
            #[inline(always)]
            || {
                for (t, tile) in points.fixed.tiles().enumerate() {
                    let (mut margin, mut losses, mut pull) = (Lane::ZERO, Lane::ZERO, Lane::ZERO);
                    let rows = t * TILE..t * TILE + tile.len;
                    margins(&tile, beta, &mut margin);
                    for (factor, memory) in points.factors.iter().zip(memories.iter()) {
                        add_effects(factor, &memory.effects, rows.clone(), &mut margin);
                    }
                    losses_and_pulls(tile.w, &margin, &mut losses, &mut pull);
                    add_rows(&losses, &mut loss);
                    add_columns(&tile, &pull, columns);
                    for (factor, memory) in points.factors.iter().zip(memories.iter_mut()) {
                        add_slopes(factor, &pull, rows.clone(), &mut memory.slopes);
                    }
                }
            },
        );
        for (gradient, part) in self.beta_gradient.iter_mut().zip(&self.columns) {
            *gradient = total(part);
        }
        -total(&loss)
    }

    /// The parameters at the coordinates `ξ`.
    pub fn parameters(&mut self, xi: &[f64]) -> Parameters {
        self.place(xi);
        let mut scales = xi[self.beta.len()..].iter();
        let references = &self.posterior.reference.factors;
        Parameters {
            beta: self.beta.clone(),
            unconstrained: references.iter().map(|reference| unconstrained(reference, &mut scales)).collect(),
            effects: self.factors.iter().map(|memory| memory.effects.clone()).collect(),
        }
    }
}

/// The next parameters of a covariance, from their coordinates.
fn unconstrained<'a>(reference: &FactorReference, xi: &mut impl Iterator<Item = &'a f64>) -> Vec<f64> {
    let places = reference.unconstrained.iter().zip(&reference.spread);
    places.zip(xi).map(|((center, spread), x)| center + spread * x).collect()
}

/// Adds the part of one factor to the margins of some rows.
#[inline(always)]
fn add_effects(factor: &Memberships, effects: &[f64], rows: std::ops::Range<usize>, margin: &mut Lane) {
    let q = factor.width;
    let groups = &factor.group[rows.clone()];
    let values = factor.z[rows.start * q..rows.end * q].chunks_exact(q);
    for ((margin, &group), z) in margin.iter_mut().zip(groups).zip(values) {
        for (z, u) in z.iter().zip(&effects[group as usize * q..]) {
            *margin = z.mul_add(*u, *margin);
        }
    }
}

/// Adds the derivatives of some rows with respect to the effects of one factor.
#[inline(always)]
fn add_slopes(factor: &Memberships, pull: &Lane, rows: std::ops::Range<usize>, slopes: &mut [f64]) {
    let q = factor.width;
    let groups = &factor.group[rows.clone()];
    let values = factor.z[rows.start * q..rows.end * q].chunks_exact(q);
    for ((pull, &group), z) in pull.iter().zip(groups).zip(values) {
        for (slope, z) in slopes[group as usize * q..].iter_mut().zip(z) {
            *slope = pull.mul_add(*z, *slope);
        }
    }
}

/// A draw, on the model's scale.
pub(crate) struct HierarchicalDraw<'a> {
    pub beta: &'a [f64],
    /// The covariance and the effects of each factor.
    pub factors: Vec<(&'a Covariance, &'a [f64])>,
    pub log_likelihood: f64,
    /// The log-density of the coordinates minus that of β, the covariances' unconstrained parameters and `u`.
    pub log_jacobian: f64,
}

impl HierarchicalTarget<'_> {
    /// The draw with coordinates `ξ`.
    pub(crate) fn draw(&mut self, xi: &[f64]) -> HierarchicalDraw<'_> {
        let log_jacobian = self.place(xi);
        let log_likelihood = self.likelihood();
        let factors = self.factors.iter().map(|memory| (&memory.covariance, &memory.effects[..])).collect();
        HierarchicalDraw { beta: &self.beta, factors, log_likelihood, log_jacobian }
    }
}

impl Target for HierarchicalTarget<'_> {
    fn dim(&self) -> usize {
        self.posterior.dim()
    }

    fn value_and_gradient(&mut self, xi: &[f64], gradient: &mut [f64]) -> f64 {
        let posterior = self.posterior;
        let mut value = self.place(xi);
        value += self.likelihood();
        let priors = posterior.prepared.iter().zip(&self.beta).zip(&mut self.beta_gradient);
        for ((prior, &beta), slope) in priors {
            let local = prior.local(beta);
            value += local.value;
            *slope += local.slope;
        }
        let (by_beta, rest) = gradient.split_at_mut(self.beta.len());
        let (mut by_scales, mut rest) = rest.split_at_mut(posterior.covariance_parameters());
        let references = posterior.reference.factors.iter().zip(&posterior.priors.factors);
        for (memory, (reference, prior)) in self.factors.iter_mut().zip(references) {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(memory.effects.len());
            let (scales, more) = std::mem::take(&mut by_scales).split_at_mut(reference.spread.len());
            value += memory.pull_back(reference, prior, &mut self.beta_gradient, scales, own);
            for (slope, spread) in scales.iter_mut().zip(&reference.spread) {
                *slope *= spread;
            }
            (rest, by_scales) = (others, more);
        }
        posterior.reference.beta.whiten_gradient(&self.beta_gradient, by_beta);
        value
    }

    /// Appends β, the unconstrained parameters of the covariances, and the effects, factor by factor.
    fn keep(&mut self, xi: &[f64], theta: &mut Vec<f64>) {
        let parameters = self.parameters(xi);
        theta.extend_from_slice(&parameters.beta);
        parameters
            .unconstrained
            .iter()
            .chain(&parameters.effects)
            .for_each(|part| theta.extend_from_slice(part));
    }
}
