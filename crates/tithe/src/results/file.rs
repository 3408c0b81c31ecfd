//! Posterior files: a Parquet table of draws on the user's scale, with a description of the fit in the metadata.
//!
//! The columns are `chain`, `draw`, one per coefficient, then `lp` and the sampler's statistics under ArviZ's names.
//! Coefficients keep their names; another column with the name of a coefficient becomes `stats.name`.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, UInt32Array};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::ChunkReader;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::error::{Error, Operation, Remedy, Result};
use crate::data::sink::Output;
use crate::data::sink::parquet::{MEMORY, VERSION, read_metadata, table, write_table, wrong_file};
use crate::data::source::Input;
use crate::encoding::Encoding;
use crate::mcmc::diagnostics;
use crate::mcmc::draws::{Chain, Draws, Stats};
use crate::mcmc::findings::Finding;
use crate::mcmc::{Sampler, Settings};
use crate::model::Priors;
use crate::results::fit::{Basis, Fit};

pub(super) const POSTERIOR: &str = "posterior";

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
    if encoding.features.iter().any(|feature| feature.coding.is_standardized()) {
        "standardised"
    } else {
        "own"
    }
}

/// The name of a column that is not a coefficient, made different from all coefficients.
pub(super) fn own_name(name: &str, coefficients: &[String]) -> String {
    if coefficients.iter().any(|known| known == name) { format!("stats.{name}") } else { name.to_string() }
}

/// Writes a posterior. The same posterior always gives the same bytes.
pub fn write_posterior(fit: &Fit, mut output: Output) -> Result<()> {
    let written = write_to(fit, output.file_mut());
    written.map_err(|error| Error::io("write", output.path(), error))?;
    output.commit()
}

/// The bytes of a posterior's file.
pub fn posterior_bytes(fit: &Fit) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    write_to(fit, &mut bytes).map_err(|error| Error::io("write", MEMORY, error))?;
    Ok(bytes)
}

/// The table of a posterior's file.
pub fn posterior_table(fit: &Fit) -> Result<RecordBatch> {
    table(columns(&fit.draws)).map_err(|error| Error::malformed(Path::new(MEMORY), error.to_string()))
}

fn write_to(fit: &Fit, file: impl Write + Send) -> std::io::Result<()> {
    let names = &fit.draws.names;
    let (center, scale) = fit.encoding.transform();
    let metadata = Metadata {
        file: POSTERIOR.to_string(),
        version: VERSION,
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
        summary: json!(fit.summary),
    };
    write_table(columns(&fit.draws), &metadata, file)
}

/// The draws as named columns.
fn columns(draws: &Draws) -> Vec<(String, ArrayRef)> {
    let per_chain = draws.draws_per_chain() as u32;
    let count = draws.chains.len() as u32;
    let own = |name: &str| own_name(name, &draws.names);
    let chain =
        UInt32Array::from_iter_values((0..count).flat_map(|chain| (0..per_chain).map(move |_| chain)));
    let draw = UInt32Array::from_iter_values((0..count).flat_map(|_| 0..per_chain));
    let mut columns: Vec<(String, ArrayRef)> =
        vec![(own("chain"), Arc::new(chain)), (own("draw"), Arc::new(draw))];
    for (i, name) in draws.names.iter().enumerate() {
        let values = Float64Array::from_iter_values(draws.rows().map(|beta| beta[i]));
        columns.push((name.clone(), Arc::new(values)));
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

/// Reads a posterior.
pub fn read_posterior(path: &Path) -> Result<Fit> {
    read_posterior_from(&Input::file(path))
}

/// Reads a posterior from anything that has the bytes of its file.
pub fn read_posterior_from(input: &Input) -> Result<Fit> {
    let path = input.path();
    let metadata = read_metadata(input)?;
    if metadata.kind != POSTERIOR {
        let what = format!("is a {}, not a posterior", metadata.kind);
        return Err(wrong_file(path, &what, Remedy::run("make a posterior", Operation::Fit)));
    }
    let damaged = |what: String| wrong_file(path, &what, "fit it again");
    let metadata: Metadata = serde_json::from_value(metadata.json)
        .map_err(|error| damaged(format!("has damaged metadata: {error}")))?;
    let batches = read_batches(input.open()?).map_err(|error| damaged(format!("cannot be read: {error}")))?;
    let table = Columns { batches };
    let names = metadata.encoding.distinct_names()?;
    let draws = table
        .draws(&names, metadata.settings, metadata.sampler)
        .map_err(|column| damaged(format!("has no column '{column}', or some of its values")))?;
    Ok(Fit {
        summary: diagnostics::summary(&draws),
        draws,
        priors: Priors { coefficients: metadata.priors.into_iter().map(|named| named.prior).collect() },
        encoding: metadata.encoding,
        sampler: metadata.sampler,
        settings: metadata.settings,
        basis: metadata.basis,
        findings: metadata.findings,
    })
}

fn read_batches(file: impl ChunkReader + 'static) -> parquet::errors::Result<Vec<RecordBatch>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
    reader.map(|batch| batch.map_err(Into::into)).collect()
}

/// The columns of a posterior file that was read.
struct Columns {
    batches: Vec<RecordBatch>,
}

/// The error for a column that is absent or has missing values.
type Lost<T> = std::result::Result<T, String>;

impl Columns {
    fn draws(&self, names: &[String], settings: Settings, sampler: Sampler) -> Lost<Draws> {
        let per_chain = settings.draws.max(1);
        let own = |name: &str| own_name(name, names);
        let coefficients = names.iter().map(|name| self.numbers(name)).collect::<Lost<Vec<_>>>()?;
        let lp = self.numbers(&own("lp"))?;
        if lp.len() != settings.chains.saturating_mul(settings.draws) {
            return Err(own("lp"));
        }
        if let Some(short) = coefficients.iter().position(|values| values.len() != lp.len()) {
            return Err(names[short].clone());
        }
        let mut chains: Vec<Chain> = lp
            .chunks(per_chain)
            .enumerate()
            .map(|(c, lp)| Chain {
                theta: (c * per_chain..(c + 1) * per_chain)
                    .flat_map(|row| coefficients.iter().map(move |values| values[row]))
                    .collect(),
                lp: lp.to_vec(),
                stats: Stats::Independent,
            })
            .collect();
        if sampler == Sampler::Laplace {
            return Ok(Draws { names: names.to_vec(), chains });
        }
        let rates = self.numbers(&own("acceptance_rate"))?;
        let sizes = self.numbers(&own("step_size"))?;
        let hamiltonian = match sampler {
            Sampler::Nuts => Some((
                self.truths(&own("diverging"))?,
                self.numbers(&own("energy"))?,
                self.counts(&own("tree_depth"))?,
                self.counts(&own("n_steps"))?,
                self.truths(&own("reached_max_treedepth"))?,
            )),
            _ => None,
        };
        for (c, chain) in chains.iter_mut().enumerate() {
            let rows = c * per_chain..(c + 1) * per_chain;
            let acceptance_rate = rates.get(rows.clone()).ok_or("acceptance_rate")?.to_vec();
            let step_size = *sizes.get(rows.start).ok_or("step_size")?;
            chain.stats = match &hamiltonian {
                None => Stats::Metropolis { acceptance_rate, step_size },
                Some((diverging, energy, tree_depth, n_steps, cut)) => Stats::Hamiltonian {
                    acceptance_rate,
                    diverging: diverging.get(rows.clone()).ok_or("diverging")?.to_vec(),
                    energy: energy.get(rows.clone()).ok_or("energy")?.to_vec(),
                    tree_depth: tree_depth.get(rows.clone()).ok_or("tree_depth")?.to_vec(),
                    n_steps: n_steps.get(rows.clone()).ok_or("n_steps")?.to_vec(),
                    step_size,
                    reached_max_treedepth: cut.get(rows.clone()).ok_or("reached_max_treedepth")?.to_vec(),
                },
            };
        }
        Ok(Draws { names: names.to_vec(), chains })
    }

    fn all<T>(&self, name: &str, values: impl Fn(&ArrayRef) -> Option<Vec<T>>) -> Lost<Vec<T>> {
        let mut all = Vec::new();
        for batch in &self.batches {
            let array = batch.column_by_name(name).filter(|array| array.null_count() == 0);
            all.extend(array.and_then(&values).ok_or_else(|| name.to_string())?);
        }
        Ok(all)
    }

    fn numbers(&self, name: &str) -> Lost<Vec<f64>> {
        self.all(name, |array| Some(array.as_primitive_opt::<Float64Type>()?.values().to_vec()))
    }

    fn counts(&self, name: &str) -> Lost<Vec<u32>> {
        self.all(name, |array| Some(array.as_primitive_opt::<UInt32Type>()?.values().to_vec()))
    }

    fn truths(&self, name: &str) -> Lost<Vec<bool>> {
        self.all(name, |array| Some(array.as_boolean_opt()?.values().iter().collect()))
    }
}
