//! Fits a hierarchical model: from weighted rows that belong to groups to draws of fixed effects, scales and group effects on the
//! user's scale.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::base::progress::{Event, Observer};
use crate::coreset::Coreset;
use crate::data::block::Block;
use crate::data::grouped::GroupedPoints;
use crate::encoding::survey::Learnt;
use crate::encoding::{Encoding, GroupFactor, Scratch};
use crate::engine::pass::Pass;
use crate::engine::{Engine, thread_pool};
use crate::mcmc::diagnostics::{self, CoefficientSummary};
use crate::mcmc::draws::{Chain, Draws};
use crate::mcmc::findings::{Finding, Trouble, findings};
use crate::mcmc::{self, Sampler, run_nuts};
use crate::model::Target;
use crate::model::covariance::CovariancePrior;
use crate::model::hierarchical_posterior::{HierarchicalPosterior, HierarchicalPriors, HierarchicalTarget};
use crate::results::fit::{
    Basis, Fit, FitSettings, basis_of, check_memory, chosen_priors, fit_ordinary_coreset,
};
use crate::results::groups::{FittedFactor, GroupPosterior, effect_summaries, group_names, stride};

/// Fits all rows of a table whose encoding has group terms. The rows are kept in memory as points, in at most `memory` bytes.
pub(crate) fn fit_groups_of_data(
    engine: &impl Engine,
    learnt: &Learnt,
    settings: &FitSettings,
    memory: u64,
) -> Result<Fit> {
    let encoding = &learnt.encoding;
    let effects: usize = encoding.no_grouped_points().factors.iter().map(|factor| factor.width + 1).sum();
    check_memory(learnt, 8 * (encoding.dim() + 1 + effects) as u64, memory)?;
    let basis = basis_of(engine, learnt);
    let gathering = GatheringGroups { encoding: Cow::Borrowed(encoding) };
    let points = engine.run(&gathering)?.unwrap_or_else(|| encoding.no_grouped_points());
    fit_grouped(&points, factors_of(encoding, settings), encoding, basis, settings, engine.observer())
}

/// The grouping factors of an encoding.
fn factors_of(encoding: &Encoding, settings: &FitSettings) -> Vec<FittedFactor> {
    let prior = settings.group_prior.unwrap_or_default();
    let factor = |factor: &GroupFactor| {
        let effects = encoding.effect_names(factor);
        FittedFactor {
            name: factor.column.clone(),
            levels: encoding.group_levels(factor).to_vec(),
            prior: CovariancePrior::new(prior, effects.len(), factor.correlated),
            to_user: encoding.groups_to_user_scale(factor),
            effects,
        }
    };
    encoding.groups.iter().map(factor).collect()
}

/// Fits the rows of a coreset.
pub fn fit_coreset(coreset: &Coreset, settings: &FitSettings, observer: &dyn Observer) -> Result<Fit> {
    let encoding = &coreset.encoding;
    if encoding.groups.is_empty() {
        return fit_ordinary_coreset(coreset, settings, observer);
    }
    let mut points = encoding.no_grouped_points();
    let mut scratch = Scratch::new(encoding.dim());
    encoding.add_grouped(&coreset.rows.block(), &mut scratch, &mut points)?;
    points.fixed.set_weights(&coreset.weights);
    let basis = Basis::of_coreset(coreset);
    fit_grouped(&points, factors_of(encoding, settings), encoding, basis, settings, observer)
}

/// The pass that encodes all rows as points that belong to groups, and collects them.
#[derive(Serialize, Deserialize)]
pub(crate) struct GatheringGroups<'a> {
    encoding: Cow<'a, Encoding>,
}

impl Pass for GatheringGroups<'_> {
    const ID: &'static str = "collect-rows-of-groups";
    const LABEL: &'static str = "collecting all rows";
    type State = GroupedPoints;
    type Worker = Scratch;

    fn worker(&self) -> Scratch {
        Scratch::new(self.encoding.dim())
    }

    fn visit(&self, scratch: &mut Scratch, block: &Block) -> Result<GroupedPoints> {
        let mut points = self.encoding.no_grouped_points();
        self.encoding.add_grouped(block, scratch, &mut points)?;
        Ok(points)
    }

    fn merge(&self, points: &mut GroupedPoints, next: GroupedPoints) {
        points.append(next);
    }
}

/// Draws from the posterior of weighted points that belong to groups.
pub(crate) fn fit_grouped(
    points: &GroupedPoints,
    factors: Vec<FittedFactor>,
    encoding: &Encoding,
    basis: Basis,
    settings: &FitSettings,
    observer: &dyn Observer,
) -> Result<Fit> {
    if settings.sampler != Sampler::Nuts {
        return Err(Error::setting(
            Setting::Sampler,
            format!("must be nuts for a model with group effects, but is '{}'", settings.sampler),
        ));
    }
    let names = encoding.distinct_names()?;
    if names.is_empty() {
        return Err(ErrorKind::Numerical {
            what: "a model with group effects needs an intercept or a feature".to_string(),
            help: None,
        }
        .into());
    }
    let fixed = chosen_priors(settings, &basis).priors(&names, encoding.intercept)?;
    let priors =
        HierarchicalPriors { fixed, factors: factors.iter().map(|factor| factor.prior.clone()).collect() };
    check_names(&names, &factors)?;
    let total = factors.iter().map(FittedFactor::total).sum();
    let stride = stride(total, settings.draws.chains, settings.draws.draws);
    if stride > 1 {
        observer.event(Event::Warning(format!(
            "one of {stride} draws is kept, because all draws of {total} group effects would not fit in memory"
        )));
    }
    let (draws, groups) = thread_pool(settings.threads)?.install(|| -> Result<_> {
        let posterior = HierarchicalPosterior::new(points, &priors)?;
        let recorder = || Recorder::new(posterior.target(), &factors, stride);
        let runs = run_nuts(recorder, &settings.draws, observer)?;
        let kept: Vec<usize> = (0..settings.draws.draws).step_by(stride).collect();
        let (mut chains, mut records) = (Vec::new(), Vec::new());
        for (chain, recorder) in runs {
            let run = Draws { names: names.clone(), chains: vec![chain] };
            let chain =
                if stride > 1 { run.pick(&kept) } else { run.chains.into_iter().next().unwrap_or_default() };
            chains.push(on_user_scale(chain, &recorder.record, encoding));
            records.push(recorder.record);
        }
        let groups = group_posterior(factors, records, &chains);
        Ok((Draws { names, chains }, groups))
    })?;
    let summary = diagnostics::summary(&draws);
    let mut findings = findings(&draws, &summary);
    findings.extend(findings_of_groups(&groups));
    Ok(Fit {
        summary,
        findings,
        encoding: encoding.clone(),
        priors: priors.fixed,
        sampler: settings.sampler,
        settings: mcmc::Settings { draws: draws.draws_per_chain(), ..settings.draws },
        draws,
        basis,
        verified: None,
        groups: Some(groups),
    })
}

/// Returns an error if two parameters have the same name.
fn check_names(fixed: &[String], factors: &[FittedFactor]) -> Result<()> {
    let mut seen: HashSet<String> = fixed.iter().cloned().collect();
    match group_names(factors).into_iter().find(|name| !seen.insert(name.clone())) {
        None => Ok(()),
        Some(column) => Err(ErrorKind::Column {
            column,
            what: "two parameters would have this name".to_string(),
            help: Some("rename the column, or leave out one of two terms with the same groups".into()),
        }
        .into()),
    }
}

/// Fixed effects on the user's scale, with the log-density of the parameters instead of that of the coordinates.
fn on_user_scale(mut chain: Chain, record: &Record, encoding: &Encoding) -> Chain {
    for theta in chain.theta.chunks_exact_mut(encoding.dim().max(1)) {
        let beta = encoding.to_user_scale(theta);
        theta.copy_from_slice(&beta);
    }
    chain.lp.iter_mut().zip(&record.jacobians).for_each(|(lp, jacobian)| *lp -= jacobian);
    chain
}

fn group_posterior(factors: Vec<FittedFactor>, records: Vec<Record>, chains: &[Chain]) -> GroupPosterior {
    let (mut scales, mut effects, mut log_likelihood) = (Vec::new(), Vec::new(), Vec::new());
    for (record, chain) in records.into_iter().zip(chains) {
        scales.push(Chain { theta: record.scales, lp: chain.lp.clone(), ..Chain::default() });
        effects.push(record.effects);
        log_likelihood.push(record.log_likelihood);
    }
    let scales =
        Draws { names: factors.iter().flat_map(FittedFactor::scale_names).collect(), chains: scales };
    GroupPosterior {
        scale_summary: diagnostics::summary(&scales),
        effect_summary: effect_summaries(&factors, &effects),
        factors,
        scales,
        log_likelihood,
        effects,
    }
}

/// What a chain records beyond its fixed effects.
#[derive(Debug, Default)]
struct Record {
    scales: Vec<f64>,
    log_likelihood: Vec<f64>,
    /// The logarithms of the Jacobians of the coordinates.
    jacobians: Vec<f64>,
    effects: Vec<f64>,
}

/// A chain's target that records scales and group effects on the user's scale, for one of every `stride` draws.
struct Recorder<'a> {
    target: HierarchicalTarget<'a>,
    factors: &'a [FittedFactor],
    stride: usize,
    count: usize,
    record: Record,
}

impl<'a> Recorder<'a> {
    fn new(target: HierarchicalTarget<'a>, factors: &'a [FittedFactor], stride: usize) -> Recorder<'a> {
        Recorder { target, factors, stride, count: 0, record: Record::default() }
    }
}

impl Target for Recorder<'_> {
    fn dim(&self) -> usize {
        self.target.dim()
    }

    fn value_and_gradient(&mut self, xi: &[f64], gradient: &mut [f64]) -> f64 {
        self.target.value_and_gradient(xi, gradient)
    }

    fn keep(&mut self, xi: &[f64], theta: &mut Vec<f64>) {
        let draw = self.target.draw(xi);
        theta.extend_from_slice(draw.beta);
        let is_kept = self.count.is_multiple_of(self.stride);
        self.count += 1;
        if !is_kept {
            return;
        }
        let record = &mut self.record;
        record.jacobians.push(draw.log_jacobian);
        record.log_likelihood.push(draw.log_likelihood);
        for ((covariance, effects), factor) in draw.factors.iter().zip(self.factors) {
            factor.scales(covariance, &mut record.scales);
            factor.to_user_scale(effects, &mut record.effects);
        }
    }
}

/// Problems with the draws of scales and group effects.
fn findings_of_groups(groups: &GroupPosterior) -> Vec<Finding> {
    let (chains, kept) = (groups.effects.len(), groups.scales.draws_per_chain());
    let all: Vec<&CoefficientSummary> = groups.scale_summary.iter().chain(&groups.effect_summary).collect();
    if kept < 50 {
        return Vec::new();
    }
    // Among many group effects some have a larger R-hat by chance: that of m independent draws per chain
    // varies by a few times 1/m.
    let limit = 1.01 + 6.0 / kept as f64;
    let wanted = 100.0 * chains as f64 * (kept as f64 / 400.0).min(1.0);
    let mut found = Vec::new();
    let apart = all.iter().filter(|c| c.r_hat > limit);
    if let Some(worst) = apart.clone().max_by(|a, b| a.r_hat.total_cmp(&b.r_hat)) {
        found.push(Finding {
            what: Trouble::ChainsDisagree,
            how_much: format!(
                "the chains disagree: R-hat is above {limit:.2} for {} of {} scales and group effects, {:.3} for '{}'",
                apart.count(),
                all.len(),
                worst.r_hat,
                worst.name
            ),
            what_to_do: Help::from([
                Remedy::choose("twice the", Setting::Warmup),
                Remedy::choose("twice the", Setting::Draws),
            ]),
        });
    }
    let effective = |c: &CoefficientSummary| c.ess_bulk.min(c.ess_tail);
    let few = all.iter().filter(|c| effective(c) < wanted);
    if let Some(worst) = few.clone().min_by(|a, b| effective(a).total_cmp(&effective(b))) {
        found.push(Finding {
            what: Trouble::FewEffectiveDraws,
            how_much: format!(
                "too few effective draws: below {wanted:.0} for {} of {} scales and group effects, {:.0} for '{}'",
                few.count(),
                all.len(),
                effective(worst),
                worst.name
            ),
            what_to_do: Help::from([Remedy::choose("twice the", Setting::Draws)]),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::math::softplus_and_slope;
    use crate::base::progress::Silent;
    use crate::base::rng::{Purpose, Rng, Seed, open_unit, standard_normal};
    use crate::data::fingerprint::Fingerprint;
    use crate::encoding::{Coding, Feature, Label, LabelValue, Unseen};
    use crate::engine::Missing;
    use crate::model::{GroupPrior, Prior, PriorChoice};

    /// A model with an intercept and columns `x1`, `x2`, …, and effects that vary by `g`.
    fn encoding(columns: &[(f64, f64)], groups: usize, slopes: usize, correlated: bool) -> Encoding {
        let number = |(at, &(center, scale)): (usize, &(f64, f64))| {
            Feature::new(format!("x{}", at + 1), Coding::Number { center, scale })
        };
        let levels = (0..groups).map(|g| format!("{g:04}")).collect();
        let mut features: Vec<Feature> = columns.iter().enumerate().map(number).collect();
        features.push(Feature::new("g", Coding::Groups { levels }));
        Encoding {
            label: Label {
                column: "y".into(),
                negative: LabelValue::Number(0.0),
                positive: LabelValue::Number(1.0),
            },
            weight: None,
            intercept: true,
            features,
            unseen: Unseen::Error,
            design: None,
            groups: vec![GroupFactor {
                column: "g".into(),
                intercept: true,
                slopes: (1..=slopes).map(|k| format!("x{k}")).collect(),
                correlated,
            }],
        }
    }

    fn settings(draws: usize, seed: u64) -> FitSettings {
        FitSettings {
            priors: Some(PriorChoice::same(Prior::Normal { scale: 1.5 })),
            group_prior: Some(GroupPrior::HalfNormal { scale: 1.0 }),
            draws: mcmc::Settings { chains: 4, draws, warmup: 500, seed: Seed(seed) },
            ..FitSettings::default()
        }
    }

    fn fitted(points: &GroupedPoints, encoding: &Encoding, settings: &FitSettings) -> Fit {
        let basis = Basis::Data {
            rows: points.fixed.len() as u64,
            rows_read: points.fixed.len() as u64,
            rows_dropped: 0,
            mass: points.fixed.len() as f64,
            fingerprint: Fingerprint::default(),
            missing: Missing::default(),
            warnings: Vec::new(),
        };
        fit_grouped(points, factors_of(encoding, settings), encoding, basis, settings, &Silent).unwrap()
    }

    /// Rows of the encoding's model with these fixed effects and group effects, on the model's scale.
    fn rows_of(
        encoding: &Encoding,
        beta: &[f64],
        effects: &[Vec<f64>],
        sizes: &[usize],
        rng: &mut Rng,
    ) -> GroupedPoints {
        let mut points = encoding.no_grouped_points();
        let q = points.factors[0].width;
        for (g, (u, &size)) in effects.iter().zip(sizes).enumerate() {
            for _ in 0..size {
                let x: Vec<f64> =
                    (0..beta.len()).map(|j| if j == 0 { 1.0 } else { standard_normal(rng) }).collect();
                let eta: f64 = x.iter().zip(beta).map(|(x, b)| x * b).sum::<f64>()
                    + x.iter().zip(u).map(|(x, u)| x * u).sum::<f64>();
                let y = if open_unit(rng) * (1.0 + (-eta).exp()) <= 1.0 { 1.0 } else { -1.0 };
                let z: Vec<f64> = x.iter().map(|x| y * x).collect();
                points.fixed.push(&z, 1.0);
                points.factors[0].push(g as u32, &z[..q]);
            }
        }
        points
    }

    /// Numbers of positive rows in groups of these sizes: groups of one class, small and large ones, …
    const DIFFERENT: [(u32, u32); 7] = [(0, 3), (1, 1), (5, 40), (30, 45), (9, 10), (2, 8), (60, 80)];
    /// … and groups that do not differ, so that τ may be near 0.
    const ALIKE: [(u32, u32); 7] = [(2, 5), (4, 10), (8, 20), (12, 30), (4, 10), (1, 3), (20, 50)];

    /// Functions of β, τ, and the first and the last effect. The bounds of τ are in the middle between points of the grid.
    const QUANTITIES: [fn([f64; 4]) -> f64; 7] = [
        |x| x[0],
        |x| x[1],
        |x| x[1] * x[1],
        |x| f64::from(u8::from(x[1] < (-2.325f64).exp())),
        |x| f64::from(u8::from(x[1] < (-1.225f64).exp())),
        |x| x[2],
        |x| x[3],
    ];

    /// Posterior means of the quantities by quadrature: the effects are integrated out one by one on a grid, then β and `ln τ`.
    /// Independent of everything but the definition of the model.
    fn by_quadrature(counts: &[(u32, u32); 7]) -> [f64; 7] {
        let normal = |x: f64, sd: f64| (-0.5 * (x / sd).powi(2)).exp();
        let (mut total, mut totals) = (0.0, [0.0; 7]);
        for s in -160..=35 {
            let tau = (f64::from(s) * 0.05).exp();
            for b in -50..=50 {
                let beta = f64::from(b) * 0.06;
                // dτ = τ ds.
                let mut weight = normal(beta, 1.5) * normal(tau, 1.0) * tau;
                let mut means = [0.0; 7];
                for (mean, (positive, rows)) in means.iter_mut().zip(counts) {
                    let (mut mass, mut first) = (0.0, 0.0);
                    for k in -120..=120 {
                        let x = f64::from(k) * 0.05;
                        let eta = beta + tau * x;
                        let loss = f64::from(*positive) * softplus_and_slope(eta).0
                            + f64::from(rows - positive) * softplus_and_slope(-eta).0;
                        let density = (-0.5 * x * x - loss).exp();
                        mass += density;
                        first += density * tau * x;
                    }
                    *mean = first / mass;
                    // A constant that keeps products of small numbers away from 0.
                    weight *= mass * (0.5 * f64::from(*rows)).exp();
                }
                total += weight;
                for (sum, quantity) in totals.iter_mut().zip(QUANTITIES) {
                    *sum += weight * quantity([beta, tau, means[0], means[6]]);
                }
            }
        }
        totals.map(|sum| sum / total)
    }

    /// A normal error of 4.5 Monte Carlo standard errors occurs once in 150,000 quantities.
    #[test]
    fn draws_agree_with_quadrature() {
        for counts in [DIFFERENT, ALIKE] {
            let encoding = encoding(&[], 7, 0, true);
            let mut points = encoding.no_grouped_points();
            for (g, (positive, rows)) in counts.into_iter().enumerate() {
                for (y, weight) in [(1.0, positive), (-1.0, rows - positive)] {
                    if weight > 0 {
                        points.fixed.push(&[y], f64::from(weight));
                        points.factors[0].push(g as u32, &[y]);
                    }
                }
            }
            let fit = fitted(&points, &encoding, &settings(4000, 3));
            let groups = fit.groups.as_ref().unwrap();
            assert_eq!(groups.scales.names, ["sd(1|g)"]);
            assert_eq!(groups.effect_summary[6].name, "1|g[0006]");
            let parts =
                [fit.draws.coefficient(0), groups.scales.coefficient(0), groups.effect(0), groups.effect(6)];
            let expected = by_quadrature(&counts);
            for (k, (quantity, expected)) in QUANTITIES.into_iter().zip(expected).enumerate() {
                let of_chain = |c: usize| -> Vec<f64> {
                    (0..4000).map(|i| quantity([0, 1, 2, 3].map(|part| parts[part][c][i]))).collect()
                };
                let drawn: Vec<Vec<f64>> = (0..4).map(of_chain).collect();
                let found = diagnostics::summarise("", &drawn);
                let error = (found.mean - expected) / found.mcse_mean.max(1e-4);
                let said = format!("quantity {k}: {} instead of {expected}, {error:.2}", found.mean);
                println!("{said}, ESS {:.0}", found.ess_bulk);
                assert!(error.abs() < 4.5, "{said}");
            }
            assert!(fit.findings.is_empty(), "{:?}", fit.findings);
        }
    }

    /// 40 effects: each of two statistics of their standardised errors is outside these bounds once in some 10,000 data sets.
    #[test]
    fn correlated_slopes_are_recovered_on_the_users_scale() {
        let encoding = encoding(&[(5.0, 2.0)], 40, 1, true);
        let mut rng = Seed(8).stream(Purpose::Generate, 0);
        let effects: Vec<Vec<f64>> = (0..40)
            .map(|_| {
                let (a, b) = (standard_normal(&mut rng), standard_normal(&mut rng));
                vec![1.2 * a, 0.6 * (0.7 * a + 0.51f64.sqrt() * b)]
            })
            .collect();
        let points = rows_of(&encoding, &[-0.4, 0.8], &effects, &[120; 40], &mut rng);
        let fit = fitted(&points, &encoding, &settings(500, 4));
        assert!(fit.findings.is_empty(), "{:?}", fit.findings);
        let groups = fit.groups.as_ref().unwrap();
        assert_eq!(groups.scales.names, ["sd(1|g)", "sd(x1|g)", "cor(1,x1|g)"]);
        // On the user's scale the slope is u₁/2 and the intercept u₀ − 5 u₁/2.
        let errors = |k: usize, truth: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            (0..40)
                .map(|g| {
                    let found = &groups.effect_summary[2 * g + k];
                    (found.mean - truth(&effects[g])) / found.sd
                })
                .collect()
        };
        for errors in [errors(0, &|u| u[0] - 2.5 * u[1]), errors(1, &|u| 0.5 * u[1])] {
            let mean: f64 = errors.iter().sum::<f64>() / 40.0;
            let square: f64 = errors.iter().map(|e| e * e).sum::<f64>() / 40.0;
            assert!(mean.abs() < 0.8 && (0.4..2.0).contains(&square), "{mean} {square}");
        }
        // Var(u₀ − 2.5 u₁) = 1.44 − 5·0.504 + 6.25·0.36 = 1.17; the standard deviation of 40 values has an error of 11 %.
        for (k, truth) in [(0, 1.17f64.sqrt()), (1, 0.3)] {
            let found = &groups.scale_summary[k];
            assert!((found.mean / truth - 1.0).abs() < 0.5, "{} instead of {truth}", found.mean);
        }
        for chain in groups.scales.coefficient(2) {
            assert!(chain.iter().all(|cor| cor.abs() <= 1.0));
        }
    }

    #[test]
    fn slopes_without_correlation_refer_to_columns_that_are_not_centred() {
        let centred = encoding(&[(5.0, 2.0)], 3, 1, true);
        let (plain, term) = (encoding(&[(5.0, 2.0)], 3, 1, false), &centred.groups[0]);
        assert_eq!(centred.groups_to_user_scale(term), [1.0, -2.5, 0.0, 0.5]);
        assert_eq!(plain.groups_to_user_scale(&plain.groups[0]), [1.0, 0.0, 0.0, 0.5]);
        let factors = factors_of(&plain, &FitSettings::default());
        assert_eq!(factors[0].scale_names(), ["sd(1|g)", "sd(x1|g)"]);
    }

    #[test]
    fn draws_do_not_depend_on_the_number_of_threads() {
        let encoding = encoding(&[(0.0, 1.0)], 12, 1, true);
        let mut rng = Seed(2).stream(Purpose::Generate, 0);
        let effects = vec![vec![0.3, -0.2]; 12];
        let points = rows_of(&encoding, &[0.2, 0.5], &effects, &[30; 12], &mut rng);
        let on = |threads| {
            let mut settings = settings(50, 1);
            (settings.threads, settings.draws.warmup) = (Some(threads), 100);
            fitted(&points, &encoding, &settings)
        };
        let (one, three) = (on(1), on(3));
        assert_eq!(one.draws, three.draws);
        assert_eq!(one.groups, three.groups);
    }

    #[test]
    fn other_samplers_and_equal_names_are_rejected() {
        let mut encoding = encoding(&[(0.0, 1.0)], 3, 0, true);
        let points = rows_of(
            &encoding,
            &[0.2, 0.5],
            &vec![vec![0.1]; 3],
            &[10; 3],
            &mut Seed(2).stream(Purpose::Generate, 0),
        );
        let try_fit = |encoding: &Encoding, settings: &FitSettings| {
            let basis = fitted(&points, encoding, settings).basis;
            fit_grouped(&points, factors_of(encoding, settings), encoding, basis, settings, &Silent)
        };
        let mut short = settings(10, 1);
        short.draws.warmup = 10;
        let basis = fitted(&points, &encoding, &short).basis;
        let mala = FitSettings { sampler: Sampler::Mala { preconditioned: true }, ..short.clone() };
        let error =
            fit_grouped(&points, factors_of(&encoding, &mala), &encoding, basis.clone(), &mala, &Silent);
        assert!(error.unwrap_err().to_string().contains("must be nuts"));
        assert!(try_fit(&encoding, &short).is_ok());
        encoding.features[0].column = "sd(1|g)".into();
        let error = fit_grouped(&points, factors_of(&encoding, &short), &encoding, basis, &short, &Silent);
        assert!(error.unwrap_err().to_string().contains("two parameters would have this name"));
    }

    /// Simulation-based calibration (Talts et al. 2018): where parameters come from their prior, the rank of each among its posterior
    /// draws is uniform. Returns the ranks, as shares, of τ and of the effects of the first and the last group.
    fn ranks(replications: std::ops::Range<u64>) -> Vec<[f64; 3]> {
        let encoding = encoding(&[(0.0, 1.0)], 8, 0, true);
        let replicate = |r: u64| {
            let mut rng = Seed(100 + r).stream(Purpose::Generate, 0);
            let tau = standard_normal(&mut rng).abs();
            let beta = [1.5 * standard_normal(&mut rng), 1.5 * standard_normal(&mut rng)];
            let effects: Vec<Vec<f64>> = (0..8).map(|_| vec![tau * standard_normal(&mut rng)]).collect();
            let points = rows_of(&encoding, &beta, &effects, &[2, 5, 10, 20, 20, 30, 40, 80], &mut rng);
            let mut settings = settings(250, r);
            settings.draws.warmup = 300;
            let fit = fitted(&points, &encoding, &settings);
            let groups = fit.groups.unwrap();
            let rank = |chains: Vec<Vec<f64>>, truth: f64| {
                // Every tenth draw, so that they are nearly independent.
                let draws: Vec<f64> = chains.concat().into_iter().step_by(10).collect();
                draws.iter().filter(|draw| **draw < truth).count() as f64 / draws.len() as f64
            };
            [
                rank(groups.scales.coefficient(0), tau),
                rank(groups.effect(0), effects[0][0]),
                rank(groups.effect(7), effects[7][0]),
            ]
        };
        replications.map(replicate).collect()
    }

    /// The mean and the mean square of n uniform ranks are within four standard errors of ½ and ⅓.
    fn assert_uniform(ranks: &[[f64; 3]]) {
        let n = ranks.len() as f64;
        for k in 0..3 {
            let mean = ranks.iter().map(|rank| rank[k]).sum::<f64>() / n;
            let square = ranks.iter().map(|rank| (rank[k] - 0.5).powi(2)).sum::<f64>() / n;
            // Standard deviations of a uniform number and of its squared distance from ½: 1/√12 and 1/√180.
            assert!((mean - 0.5).abs() < 4.0 * (12.0 * n).sqrt().recip(), "quantity {k}: mean {mean}");
            let bound = 4.0 * (180.0 * n).sqrt().recip();
            assert!((square - 1.0 / 12.0).abs() < bound, "quantity {k}: mean square {square}");
        }
    }

    /// A correct program fails once in some 3,000 seeds.
    #[test]
    fn ranks_of_true_parameters_are_uniform() {
        assert_uniform(&ranks(0..16));
    }

    /// `cargo test -p tithe --release --features internals --lib -- --ignored ranks --nocapture`
    #[test]
    #[ignore = "takes minutes"]
    fn ranks_of_true_parameters_are_uniform_in_many_replications() {
        // Another range of seeds is another experiment.
        let first =
            std::env::var("TITHE_FIRST_REPLICATION").ok().and_then(|word| word.parse().ok()).unwrap_or(0);
        let ranks = ranks(first..first + 100);
        for k in 0..3 {
            let mut bins = [0; 10];
            ranks.iter().for_each(|rank| bins[((rank[k] * 10.0) as usize).min(9)] += 1);
            println!("{bins:?}");
        }
        assert_uniform(&ranks);
    }
}
