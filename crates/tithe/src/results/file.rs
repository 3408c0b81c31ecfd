//! Posterior files: a Parquet table of draws on the user's scale, with a description of the fit in the metadata.
//!
//! The columns are `chain`, `draw`, one per coefficient, then `lp` and the sampler's statistics under ArviZ's names.
//! Coefficients keep their names; another column with the name of a coefficient becomes `stats.name`.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, UInt32Array};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::error::{Error, ErrorKind, Operation, Result};
use crate::data::block::Column;
use crate::data::sink::Output;
use crate::data::sink::parquet::{MEMORY, table, write_table};
use crate::data::sink::stored::{FileKind, Stored};
use crate::data::source::Input;
use crate::encoding::Encoding;
use crate::mcmc::diagnostics;
use crate::mcmc::draws::{Chain, Draws, Stats};
use crate::mcmc::findings::Finding;
use crate::mcmc::{Sampler, Settings};
use crate::model::Priors;
use crate::results::fit::{Basis, Fit};
use crate::results::groups::{FittedFactor, GroupPosterior, effect_summaries, group_names};
use crate::results::judgement::VerificationFacts;

const POSTERIOR: FileKind =
    FileKind { name: "posterior", made_by: ("make a posterior", Operation::Fit), again: "fit it again" };

/// The metadata of a posterior file.
#[derive(Debug, Serialize, Deserialize)]
struct Metadata {
    file: String,
    version: u64,
    sampler: Sampler,
    settings: Settings,
    priors: Vec<NamedPrior>,
    prior_scale: String,
    encoding: Encoding,
    /// Converts the model's scale to the user's, for readers that do not use the encoding: `β = θ / scale` for each
    /// coefficient, and the intercept is `θ₀ − Σ β center`.
    transform: Value,
    basis: Basis,
    findings: Vec<Finding>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verified: Option<VerificationFacts>,
    /// The grouping factors, if the model has any. Their parameters follow the coefficients in the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<FittedFactor>,
    /// For other readers of the file; recomputed from the draws when tithe reads it.
    summary: Value,
}

#[derive(Debug, Serialize, Deserialize)]
struct NamedPrior {
    coefficient: String,
    prior: crate::model::Prior,
}

/// The name of the scale that the priors refer to.
pub fn prior_scale(encoding: &Encoding) -> &'static str {
    if encoding.is_standardized() { "standardised" } else { "own" }
}

/// The name of a column that is not a coefficient, made different from all coefficients.
pub(super) fn own_name(name: &str, coefficients: &[String]) -> String {
    let mut own = name.to_string();
    while coefficients.contains(&own) {
        own = format!("stats.{own}");
    }
    own
}

/// Writes a posterior. The same posterior always gives the same bytes.
///
/// # Errors
/// If the file cannot be written, or a draw is not finite: such a posterior could not be read back.
pub fn write_posterior(fit: &Fit, mut output: Output) -> Result<()> {
    check_finite(fit)?;
    let written = write_to(fit, output.writer());
    written.map_err(|error| Error::io("write", output.path(), error))?;
    output.commit()
}

/// The bytes of a posterior's file.
pub fn posterior_bytes(fit: &Fit) -> Result<Vec<u8>> {
    check_finite(fit)?;
    let mut bytes = Vec::new();
    write_to(fit, &mut bytes).map_err(|error| Error::io("write", MEMORY, error))?;
    Ok(bytes)
}

/// The table of a posterior's file.
pub fn posterior_table(fit: &Fit) -> Result<RecordBatch> {
    table(columns(fit)).map_err(|error| Error::malformed(Path::new(MEMORY), error.to_string()))
}

fn check_finite(fit: &Fit) -> Result<()> {
    match not_finite(&fit.draws) {
        None => Ok(()),
        Some(what) => Err(ErrorKind::Numerical {
            what: format!("the posterior {what}"),
            help: Some("standardise the columns, or use a narrower prior".into()),
        }
        .into()),
    }
}

fn write_to(fit: &Fit, file: impl Write + Send) -> std::io::Result<()> {
    let names = &fit.draws.names;
    let (center, scale) = fit.encoding.transform();
    let metadata = Metadata {
        file: POSTERIOR.name.to_string(),
        version: fit.encoding.file_version(),
        sampler: fit.sampler,
        settings: fit.settings,
        priors: names
            .iter()
            .zip(&fit.priors.coefficients)
            .map(|(name, prior)| NamedPrior { coefficient: name.clone(), prior: *prior })
            .collect(),
        prior_scale: prior_scale(&fit.encoding).to_string(),
        encoding: fit.encoding.clone(),
        transform: json!({"coefficients": names, "center": center, "scale": scale}),
        basis: fit.basis.clone(),
        findings: fit.findings.clone(),
        verified: fit.verified.clone(),
        groups: fit.groups.as_ref().map(|groups| groups.factors.clone()).unwrap_or_default(),
        summary: json!(fit.summary),
    };
    write_table(columns(fit), &metadata, file)
}

/// The names of all parameters: coefficients, and scales, correlations and group effects if the model has them.
fn parameter_names(coefficients: &[String], factors: &[FittedFactor]) -> Vec<String> {
    coefficients.iter().cloned().chain(group_names(factors)).collect()
}

/// The draws as named columns.
fn columns(fit: &Fit) -> Vec<(String, ArrayRef)> {
    let draws = &fit.draws;
    let factors = fit.groups.as_ref().map_or(&[][..], |groups| &groups.factors);
    let names = parameter_names(&draws.names, factors);
    let per_chain = draws.draws_per_chain() as u32;
    let count = draws.chains.len() as u32;
    let own = |name: &str| own_name(name, &names);
    let chain =
        UInt32Array::from_iter_values((0..count).flat_map(|chain| (0..per_chain).map(move |_| chain)));
    let draw = UInt32Array::from_iter_values((0..count).flat_map(|_| 0..per_chain));
    let mut columns: Vec<(String, ArrayRef)> =
        vec![(own("chain"), Arc::new(chain)), (own("draw"), Arc::new(draw))];
    for (i, name) in draws.names.iter().enumerate() {
        let values = Float64Array::from_iter_values(draws.rows().map(|beta| beta[i]));
        columns.push((name.clone(), Arc::new(values)));
    }
    if let Some(groups) = &fit.groups {
        columns.extend(group_columns(groups));
        let values = groups.log_likelihood.iter().flatten().copied();
        columns.push((own("log_likelihood"), Arc::new(Float64Array::from_iter_values(values))));
    }
    let numbers = |values: &dyn Fn(&Chain) -> Vec<f64>| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(draws.chains.iter().flat_map(values)))
    };
    columns.push((own("lp"), numbers(&|chain| chain.lp.clone())));
    let stats = || draws.chains.iter().map(|chain| &chain.stats);
    if stats().all(|stats| *stats == Stats::Independent) {
        return columns;
    }
    let rate = |chain: &Chain| chain.stats.acceptance_rate().unwrap_or_default().to_vec();
    let step = |chain: &Chain| vec![chain.stats.step_size().unwrap_or(f64::NAN); chain.lp.len()];
    columns.push((own("acceptance_rate"), numbers(&rate)));
    columns.push((own("step_size"), numbers(&step)));
    if !stats().all(|stats| matches!(stats, Stats::Hamiltonian { .. })) {
        return columns;
    }
    let (mut energies, mut depths, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let (mut divergent, mut cut) = (Vec::new(), Vec::new());
    for stats in stats() {
        if let Stats::Hamiltonian { diverging, energy, tree_depth, n_steps, reached_max_treedepth, .. } =
            stats
        {
            energies.extend_from_slice(energy);
            depths.extend_from_slice(tree_depth);
            steps.extend_from_slice(n_steps);
            divergent.extend_from_slice(diverging);
            cut.extend_from_slice(reached_max_treedepth);
        }
    }
    columns.push((own("diverging"), Arc::new(BooleanArray::from(divergent))));
    columns.push((own("energy"), Arc::new(Float64Array::from(energies))));
    columns.push((own("tree_depth"), Arc::new(UInt32Array::from(depths))));
    columns.push((own("n_steps"), Arc::new(UInt32Array::from(steps))));
    columns.push((own("reached_max_treedepth"), Arc::new(BooleanArray::from(cut))));
    columns
}

/// Scales, correlations and group effects as named columns.
fn group_columns(groups: &GroupPosterior) -> impl Iterator<Item = (String, ArrayRef)> {
    let column = |values: Vec<Vec<f64>>| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(values.into_iter().flatten()))
    };
    let scales = (0..groups.scales.dim()).map(move |i| column(groups.scales.coefficient(i)));
    let effects = (0..groups.total()).map(move |i| column(groups.effect(i)));
    groups.names().into_iter().zip(scales.chain(effects))
}

/// Reads a posterior.
pub fn read_posterior(path: &Path) -> Result<Fit> {
    read_posterior_from(&Input::file(path))
}

/// Reads a posterior from anything that has the bytes of its file.
pub fn read_posterior_from(input: &Input) -> Result<Fit> {
    let mut stored = Stored::open(input, POSTERIOR)?;
    let metadata: Metadata = stored.metadata()?;
    if let Some(what) = metadata.encoding.fault() {
        return Err(stored.damaged(what));
    }
    let names = metadata.encoding.distinct_names()?;
    if let Some(what) = metadata.fault(&names) {
        return Err(stored.damaged(what));
    }
    let all = parameter_names(&names, &metadata.groups);
    let (draws, log_likelihood) = read_draws(&stored, &all, &metadata)?;
    if let Some(what) = not_finite(&draws) {
        return Err(stored.damaged(what));
    }
    let (draws, groups) = split(draws, metadata.groups, names.len(), log_likelihood);
    Ok(Fit {
        summary: diagnostics::summary(&draws),
        draws,
        priors: Priors { coefficients: metadata.priors.into_iter().map(|named| named.prior).collect() },
        encoding: metadata.encoding,
        sampler: metadata.sampler,
        settings: metadata.settings,
        basis: metadata.basis,
        findings: metadata.findings,
        verified: metadata.verified,
        groups,
    })
}

/// The draws of the coefficients, and those of the other parameters.
fn split(
    all: Draws,
    factors: Vec<FittedFactor>,
    dim: usize,
    log_likelihood: Vec<Vec<f64>>,
) -> (Draws, Option<GroupPosterior>) {
    if factors.is_empty() {
        return (all, None);
    }
    let scale_names: Vec<String> = factors.iter().flat_map(FittedFactor::scale_names).collect();
    let (width, middle) = (all.dim(), dim + scale_names.len());
    let part = |chain: &Chain, places: std::ops::Range<usize>| -> Vec<f64> {
        chain.theta.chunks_exact(width).flat_map(|theta| theta[places.clone()].iter().copied()).collect()
    };
    let (mut chains, mut scales, mut effects) = (Vec::new(), Vec::new(), Vec::new());
    for chain in all.chains {
        effects.push(part(&chain, middle..width));
        let (theta, lp) = (part(&chain, dim..middle), chain.lp.clone());
        scales.push(Chain { theta, lp, ..Chain::default() });
        chains.push(Chain { theta: part(&chain, 0..dim), ..chain });
    }
    let draws = Draws { names: all.names[..dim].to_vec(), chains };
    let scales = Draws { names: scale_names, chains: scales };
    let groups = GroupPosterior {
        scale_summary: diagnostics::summary(&scales),
        effect_summary: effect_summaries(&factors, &effects),
        factors,
        scales,
        log_likelihood,
        effects,
    };
    (draws, Some(groups))
}

impl Metadata {
    /// What is wrong with the metadata of a posterior with these coefficients, as the rest of a sentence that begins with
    /// the file; `None` if nothing is.
    fn fault(&self, names: &[String]) -> Option<String> {
        if !self.priors.iter().map(|named| &named.coefficient).eq(names) {
            return Some("has priors of other coefficients".to_string());
        }
        if let Some(error) = self.priors.iter().find_map(|named| named.prior.check().err()) {
            return Some(format!("has a prior that cannot be ({error})"));
        }
        if let Some(what) = self.groups.iter().find_map(FittedFactor::fault) {
            return Some(what);
        }
        let mut seen = HashSet::new();
        let all = parameter_names(names, &self.groups);
        if let Some(name) = all.iter().find(|name| !seen.insert(name.as_str())) {
            return Some(format!("has two parameters '{name}'"));
        }
        if !self.groups.is_empty() && self.sampler != Sampler::Nuts {
            return Some("has group effects from a sampler that cannot draw them".to_string());
        }
        if self.settings.check().is_err() {
            return Some("records no chains or no draws".to_string());
        }
        self.basis.fault(names.len())
    }
}

/// The first draw that is not finite, as the rest of a sentence that begins with the file; `None` if all are.
fn not_finite(draws: &Draws) -> Option<String> {
    for (number, chain) in draws.chains.iter().enumerate() {
        let in_draw = |draw: usize| format!("draw {} of chain {}", draw + 1, number + 1);
        let bad = chain.theta.iter().position(|value| !value.is_finite());
        if let Some(at) = bad.filter(|_| draws.dim() > 0) {
            let (draw, name) = (at / draws.dim(), &draws.names[at % draws.dim()]);
            let value = chain.theta[at];
            return Some(format!("has the value {value} of '{name}' in {}", in_draw(draw)));
        }
        if let Some(draw) = chain.lp.iter().position(|value| !value.is_finite()) {
            return Some(format!("has the log-density {} in {}", chain.lp[draw], in_draw(draw)));
        }
    }
    None
}

/// The draws of a posterior file.
///
/// Returns the log-likelihoods of hierarchical models beside them.
fn read_draws(stored: &Stored<'_>, names: &[String], metadata: &Metadata) -> Result<(Draws, Vec<Vec<f64>>)> {
    let sampler = metadata.sampler;
    let (chains, per_chain) = (metadata.settings.chains, metadata.settings.draws);
    let expected = (chains as u64).saturating_mul(per_chain as u64);
    if stored.rows() != expected {
        let what = format!("has {} draws where its metadata has {expected}", stored.rows());
        return Err(stored.damaged(what));
    }
    let mut own = statistics_of(sampler).to_vec();
    if !metadata.groups.is_empty() {
        own.push("log_likelihood");
    }
    let own: Vec<String> = own.iter().map(|name| own_name(name, names)).collect();
    let wanted: Vec<&str> = names.iter().chain(&own).map(String::as_str).collect();
    let (_, segment) = stored.columns(&wanted)?;
    let mut columns = Vec::with_capacity(wanted.len());
    for (name, column) in wanted.iter().zip(&segment.columns) {
        match column {
            Column::Number(values) => columns.push(values),
            Column::Text { .. } => return Err(stored.damaged(format!("holds text in its column '{name}'"))),
        }
    }
    // One column per coefficient, then one per statistic.
    let (coefficients, statistics) = columns.split_at(names.len());
    let chain = |c: usize| {
        let rows = c * per_chain..(c + 1) * per_chain;
        let theta = rows.clone().flat_map(|row| coefficients.iter().map(move |values| values[row])).collect();
        let statistics: Vec<&[f64]> = statistics.iter().map(|values| &values[rows.clone()]).collect();
        Chain { theta, lp: statistics[2].to_vec(), stats: chain_statistics(sampler, &statistics) }
    };
    let place = |row: usize| [(row / per_chain) as f64, (row % per_chain) as f64];
    if let Some(row) = (0..segment.len).find(|&row| [statistics[0][row], statistics[1][row]] != place(row)) {
        let what = format!("has its draws in another order: row {} is not where it should be", row + 1);
        return Err(stored.damaged(what));
    }
    // The statistics only describe the draws, but a missing one is damage as well.
    let missing = statistics.iter().position(|values| values.iter().any(|value| value.is_nan()));
    if let Some(at) = missing.filter(|at| *at > 2) {
        return Err(stored.damaged(format!("has missing values in its column '{}'", own[at])));
    }
    let log_likelihood =
        |c: usize| statistics.get(10).map(|values| values[c * per_chain..(c + 1) * per_chain].to_vec());
    let draws = Draws { names: names.to_vec(), chains: (0..chains).map(chain).collect() };
    Ok((draws, (0..chains).filter_map(log_likelihood).collect()))
}

/// The columns that are neither coefficients nor log-likelihoods.
fn statistics_of(sampler: Sampler) -> &'static [&'static str] {
    match sampler {
        Sampler::Laplace => &["chain", "draw", "lp"],
        Sampler::Mala { .. } => &["chain", "draw", "lp", "acceptance_rate", "step_size"],
        Sampler::Nuts => &[
            "chain",
            "draw",
            "lp",
            "acceptance_rate",
            "step_size",
            "energy",
            "diverging",
            "reached_max_treedepth",
            "tree_depth",
            "n_steps",
        ],
    }
}

/// The statistics of a chain, from its rows of the columns of [`statistics_of`].
fn chain_statistics(sampler: Sampler, columns: &[&[f64]]) -> Stats {
    let numbers = |at: usize| columns[at].to_vec();
    let counts = |at: usize| columns[at].iter().map(|count| *count as u32).collect();
    let truths = |at: usize| columns[at].iter().map(|truth| *truth == 1.0).collect();
    match sampler {
        Sampler::Laplace => Stats::Independent,
        Sampler::Mala { .. } => Stats::Metropolis { acceptance_rate: numbers(3), step_size: columns[4][0] },
        Sampler::Nuts => Stats::Hamiltonian {
            acceptance_rate: numbers(3),
            step_size: columns[4][0],
            energy: numbers(5),
            diverging: truths(6),
            reached_max_treedepth: truths(7),
            tree_depth: counts(8),
            n_steps: counts(9),
        },
    }
}
