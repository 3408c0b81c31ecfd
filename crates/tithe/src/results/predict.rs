//! Predicts the probability of the positive class for new rows, with its uncertainty, one unit of the input at a time.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field as ArrowField, Schema, SchemaRef};
use rayon::prelude::*;

use crate::base::error::{Error, ErrorKind, Help, Remedy, Result, Setting};
use crate::base::math::{softplus_and_slope, vectorized};
use crate::base::progress::{Event, Observer};
use crate::data::block::{Block, Column, Field, INEXACT, Kind, MISSING_CODE, Segment};
use crate::data::points::{Lane, TILE, Tile};
use crate::data::sink::parquet::free_name;
use crate::data::sink::{Output, RowFormat, RowWriter};
use crate::data::source::{Input, OpenOptions, Source, open_inputs};
pub use crate::encoding::Unseen;
use crate::encoding::full_data::{Reopened, open_with_text};
use crate::encoding::{Coding, Encoding, Scratch, stray_text};
use crate::engine::thread_pool;
use crate::results::fit::Fit;

/// How to predict.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct PredictSettings {
    /// The probability that the interval contains.
    pub interval: f64,
    /// How to treat levels that the model does not know.
    pub unseen: Unseen,
    /// Number of threads; `None` is one per core.
    pub threads: Option<usize>,
}

impl Default for PredictSettings {
    fn default() -> PredictSettings {
        PredictSettings { interval: 0.9, unseen: Unseen::Error, threads: None }
    }
}

/// The posterior distribution of one row's probability.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct Prediction {
    /// Its mean: the predictive probability.
    pub mean: f64,
    /// Its standard deviation.
    pub sd: f64,
    /// Lower end of its interval.
    pub lower: f64,
    /// Upper end of its interval.
    pub upper: f64,
}

/// The columns that predictions add.
const ADDED: [&str; 4] = ["probability", "probability_sd", "probability_lower", "probability_upper"];

/// A summary of the predictions that were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Number of rows written.
    pub rows: u64,
    /// Number of values with a level that the model does not know, treated as the reference level.
    pub unseen: u64,
    /// The names of the added columns: mean, sd, lower and upper end.
    pub added: Vec<String>,
    /// The mean of all predictions; `None` if there are no rows.
    pub mean: Option<f64>,
}

/// Reads new rows and writes them with the probability of the positive class added. Rows keep their order; only one unit
/// of the input (a row group, or a few megabytes of text) is in memory at a time.
pub fn predict(
    fit: &Fit,
    inputs: Vec<Input>,
    options: &OpenOptions,
    settings: &PredictSettings,
    output: Output,
    format: RowFormat,
    observer: &dyn Observer,
) -> Result<Predicted> {
    let draws = ModelDraws::new(fit, settings.interval)?;
    let pool = thread_pool(settings.threads)?;
    let plan = Plan::new(&fit.encoding, inputs, options, format, observer)?;
    let mut writer = RowWriter::new(output, format, &plan.schema, None)?;
    let (mut rows, mut sum, mut unseen) = (0, 0.0, 0);
    read_all(&*plan.source, &plan.columns, observer, |segment, place| {
        let block = block(&fit.encoding, &plan.features, segment, settings.unseen, place, &mut unseen)?;
        let predictions = pool.install(|| draws.predict(&fit.encoding, &block))?;
        writer.write(&plan.batch(segment, &predictions, place)?)?;
        sum += predictions.iter().map(|prediction| prediction.mean).sum::<f64>();
        rows += segment.len as u64;
        Ok(())
    })?;
    writer.finish()?;
    Ok(Predicted { rows, unseen, added: plan.added, mean: (rows > 0).then(|| sum / rows as f64) })
}

/// The probability of the positive class for every row of data that need not be in files: `open` opens it, and is called
/// twice.
pub fn probabilities(
    fit: &Fit,
    options: &OpenOptions,
    open: impl Fn(&OpenOptions) -> Result<Box<dyn Source>>,
    settings: &PredictSettings,
    observer: &dyn Observer,
) -> Result<Vec<Prediction>> {
    let encoding = &fit.encoding;
    let draws = ModelDraws::new(fit, settings.interval)?;
    let pool = thread_pool(settings.threads)?;
    let text = |fields: &[Field]| text_features(encoding, fields);
    let Reopened { source, .. } = open_with_text(encoding, options, text, open)?;
    let place = |name: &str| source.fields().iter().position(|field| field.name == name).unwrap_or_default();
    let columns: Vec<usize> = encoding.features.iter().map(|feature| place(&feature.column)).collect();
    let features: Vec<usize> = (0..columns.len()).collect();
    let mut all = Vec::new();
    read_all(&*source, &columns, observer, |segment, place| {
        let block = block(encoding, &features, segment, settings.unseen, place, &mut 0)?;
        all.extend(pool.install(|| draws.predict(encoding, &block))?);
        Ok(())
    })?;
    Ok(all)
}

/// Passes all rows of a source to `visit`, in order.
fn read_all(
    source: &dyn Source,
    columns: &[usize],
    observer: &dyn Observer,
    mut visit: impl FnMut(&Segment, &Place) -> Result<()>,
) -> Result<()> {
    observer.event(Event::PassStarted { name: "predicting", rows: source.rows() });
    let mut scan = source.scan(columns)?;
    let mut place = Place::default();
    while let Some(unit) = scan.next_unit()? {
        place.enter(unit.file());
        let start = place.row;
        let mut is_visiting = false;
        let decoded = unit.decode(&mut |segment| {
            if observer.cancelled() {
                return Err(ErrorKind::Cancelled.into());
            }
            is_visiting = true;
            visit(&segment, &place)?;
            is_visiting = false;
            place.row += segment.len as u64;
            observer.event(Event::RowsDone(segment.len as u64));
            Ok(())
        });
        // A reader counts rows from the start of its unit, `visit` from the start of the file.
        decoded.map_err(|error| if is_visiting { error } else { error.moved_down(start) })?;
    }
    observer.event(Event::PassFinished);
    Ok(())
}

/// The features that must be read as text because the encoding has levels for them.
fn text_features(encoding: &Encoding, fields: &[Field]) -> Result<Vec<String>> {
    let mut text = Vec::new();
    for feature in &encoding.features {
        let field = fields.iter().find(|field| field.name == feature.column).ok_or_else(|| {
            let names = fields.iter().map(|field| field.name.as_str());
            Error::unknown_column("to use as a feature", &feature.column, names)
        })?;
        if matches!(feature.coding, Coding::Levels { .. }) && field.kind != Kind::Text {
            text.push(field.name.clone());
        }
    }
    Ok(text)
}

/// The current position in the input.
#[derive(Default)]
struct Place {
    file: PathBuf,
    row: u64,
}

impl Place {
    fn enter(&mut self, file: &Path) {
        if self.file != file {
            *self = Place { file: file.to_path_buf(), row: 0 };
        }
    }

    fn error(&self, row: usize, column: &str, what: String, help: impl Into<Help>) -> Error {
        ErrorKind::Cell {
            path: self.file.clone(),
            row: self.row + row as u64,
            column: Some(column.to_string()),
            what,
            help: Some(help.into()),
        }
        .into()
    }
}

const HELP_MISSING: &str = "a prediction needs a value of every feature: repair the row or leave it out";
const HELP_INEXACT: &str = "write to a .csv file, where it is copied as it is";
const HELP_NUMBER: &str = "the model has numbers in this column: repair the value";

/// Which columns are read, and how they are written.
struct Plan {
    source: Box<dyn Source>,
    /// Positions of the copied columns in the source.
    columns: Vec<usize>,
    /// For each feature, its position among the copied columns.
    features: Vec<usize>,
    /// The copied columns, with the types that they are written as.
    copied: Vec<Field>,
    added: Vec<String>,
    schema: SchemaRef,
}

impl Plan {
    fn new(
        encoding: &Encoding,
        inputs: Vec<Input>,
        options: &OpenOptions,
        format: RowFormat,
        observer: &dyn Observer,
    ) -> Result<Plan> {
        let features: HashSet<&str> =
            encoding.features.iter().map(|feature| feature.column.as_str()).collect();
        let is_feature = |field: &Field| features.contains(field.name.as_str());
        // Columns that are only copied are read as text, which keeps every digit.
        let text = |fields: &[Field]| {
            let mut text = text_features(encoding, fields)?;
            for field in fields.iter().filter(|field| !is_feature(field)) {
                if field.kind == Kind::Number || field.data_type.is_temporal() {
                    text.push(field.name.clone());
                } else if field.kind == Kind::Unsupported {
                    observer.event(Event::Warning(format!(
                        "column '{}' is not copied: values of type {} cannot be read",
                        field.name, field.data_type
                    )));
                }
            }
            Ok(text)
        };
        let open = |options: &OpenOptions| open_inputs(inputs.clone(), options);
        let Reopened { stored: fields, source } = open_with_text(encoding, options, text, open)?;
        let columns: Vec<usize> =
            (0..fields.len()).filter(|&c| source.fields()[c].kind != Kind::Unsupported).collect();
        let copied: Vec<Field> = columns
            .iter()
            .map(|&c| Field {
                data_type: written_type(&fields[c], format, is_feature(&fields[c])),
                ..source.fields()[c].clone()
            })
            .collect();
        let place = |name: &str| copied.iter().position(|field| field.name == name).unwrap_or_default();
        let features = encoding.features.iter().map(|feature| place(&feature.column)).collect();
        let names: Vec<&str> = copied.iter().map(|field| field.name.as_str()).collect();
        let added: Vec<String> = ADDED.iter().map(|name| free_name(name, &names)).collect();
        let schema = copied
            .iter()
            .map(|field| ArrowField::new(&field.name, field.data_type.clone(), true))
            .chain(added.iter().map(|name| ArrowField::new(name, DataType::Float64, false)))
            .collect::<Vec<_>>();
        Ok(Plan { columns, features, copied, added, schema: Arc::new(Schema::new(schema)), source })
    }

    /// The user's columns with the predictions.
    fn batch(&self, segment: &Segment, predictions: &[Prediction], place: &Place) -> Result<RecordBatch> {
        let mut arrays = self
            .copied
            .iter()
            .zip(&segment.columns)
            .map(|(field, column)| copy(field, column, place))
            .collect::<Result<Vec<ArrayRef>>>()?;
        let facts: [fn(&Prediction) -> f64; 4] = [|p| p.mean, |p| p.sd, |p| p.lower, |p| p.upper];
        for fact in facts {
            arrays.push(Arc::new(Float64Array::from_iter_values(predictions.iter().map(fact))));
        }
        RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(|error| Error::malformed(&place.file, error.to_string()))
    }
}

/// The features of a segment as a block without labels. Adds the number of values that are treated as a reference level to
/// `replaced`.
fn block(
    encoding: &Encoding,
    features: &[usize],
    segment: &Segment,
    unseen: Unseen,
    place: &Place,
    replaced: &mut u64,
) -> Result<Block> {
    let mut columns = Vec::with_capacity(features.len());
    for (feature, &at) in encoding.features.iter().zip(features) {
        let column = &segment.columns[at];
        columns.push(usable(&feature.column, &feature.coding, column, unseen, place, replaced)?);
    }
    Ok(Block::new(0, 0, Segment { columns, len: segment.len }))
}

/// The type that a copied column is written as: its own, or text in a text file.
fn written_type(field: &Field, format: RowFormat, is_feature: bool) -> DataType {
    match (&field.kind, &field.data_type) {
        (Kind::Text, _) | (_, DataType::Null) => DataType::Utf8,
        (_, data_type) if format == RowFormat::Csv && !is_feature && *data_type != DataType::Boolean => {
            DataType::Utf8
        }
        (_, DataType::Dictionary(_, values)) => (**values).clone(),
        (_, data_type) => data_type.clone(),
    }
}

/// The column of a feature; an error if a prediction cannot be made from one of its values.
fn usable(
    name: &str,
    coding: &Coding,
    column: &Column,
    unseen: Unseen,
    place: &Place,
    replaced: &mut u64,
) -> Result<Column> {
    match (coding, column) {
        (Coding::Levels { reference, levels: known, .. }, Column::Text { codes, levels }) => {
            if let Some(row) = codes.iter().position(|code| *code == MISSING_CODE) {
                return Err(place.error(row, name, "the value is missing".to_string(), HELP_MISSING));
            }
            let is_known = |level: &String| level == reference || known.binary_search(level).is_ok();
            let Some(new) = levels.iter().position(|level| !is_known(level)) else {
                return Ok(column.clone());
            };
            if unseen == Unseen::Error {
                let first = codes.iter().position(|&code| !is_known(&levels[code as usize]));
                let (row, code) = first.map_or((0, new), |row| (row, codes[row] as usize));
                let what = format!("the level '{}' did not occur when the model was fitted", levels[code]);
                return Err(place.error(row, name, what, Remedy::UnseenAsReference));
            }
            let strange: Vec<bool> = levels.iter().map(|level| !is_known(level)).collect();
            *replaced += codes.iter().filter(|&&code| strange[code as usize]).count() as u64;
            let levels =
                levels.iter().map(|level| if is_known(level) { level } else { reference }.clone()).collect();
            Ok(Column::Text { codes: codes.clone(), levels: Arc::new(levels) })
        }
        (_, Column::Number(values)) => match values.iter().position(|value| !value.is_finite()) {
            None => Ok(column.clone()),
            Some(row) => {
                let what = if values[row].to_bits() == INEXACT.to_bits() {
                    "an integer beyond 2^53 is not exact"
                } else if values[row].is_nan() {
                    "the value is missing"
                } else {
                    "the value is infinite"
                };
                Err(place.error(row, name, what.to_string(), HELP_MISSING))
            }
        },
        (
            Coding::Number { .. } | Coding::Indicator { .. } | Coding::Boolean,
            Column::Text { codes, levels },
        ) => {
            let (row, what) = stray_text(codes, levels);
            Err(place.error(row, name, what, HELP_NUMBER))
        }
    }
}

/// Converts a column to the type that it is written as.
fn copy(field: &Field, column: &Column, place: &Place) -> Result<ArrayRef> {
    let array: ArrayRef = match column {
        Column::Number(values) => {
            let value = |value: &f64| (!value.is_nan()).then_some(*value);
            Arc::new(Float64Array::from_iter(values.iter().map(value)))
        }
        Column::Text { codes, levels } => {
            let level = |code: &u32| levels.get(*code as usize).map(String::as_str);
            if field.data_type == DataType::Float64 {
                let is_inexact = |level: &String| {
                    let digits = level.strip_prefix('-').unwrap_or(level);
                    digits.bytes().all(|byte| byte.is_ascii_digit())
                        && level.parse::<f64>().is_ok_and(|value| value.abs() > (1u64 << 53) as f64)
                };
                if let Some(row) =
                    codes.iter().position(|code| levels.get(*code as usize).is_some_and(is_inexact))
                {
                    let what = "an integer beyond 2^53 is not exact".to_string();
                    return Err(place.error(row, &field.name, what, HELP_INEXACT));
                }
            }
            Arc::new(StringArray::from_iter(codes.iter().map(level)))
        }
    };
    match arrow_cast::cast(&array, &field.data_type) {
        Ok(cast) if cast.null_count() == array.null_count() => Ok(cast),
        _ => Err(ErrorKind::Column {
            column: field.name.clone(),
            what: format!("cannot be copied as {}", field.data_type),
            help: Some("write to a .csv file, where it is copied as text".into()),
        }
        .into()),
    }
}

/// The posterior draws on the model's scale.
struct ModelDraws {
    theta: Vec<f64>,
    dim: usize,
    tail: f64,
}

impl ModelDraws {
    fn new(fit: &Fit, interval: f64) -> Result<ModelDraws> {
        if !(interval > 0.0 && interval < 1.0) {
            return Err(Error::setting(
                Setting::Interval,
                format!("must lie between 0 and 1, but is {interval}"),
            ));
        }
        let theta = fit.draws.rows().flat_map(|beta| fit.encoding.from_user_scale(beta)).collect();
        Ok(ModelDraws { theta, dim: fit.draws.dim(), tail: 0.5 * (1.0 - interval) })
    }

    /// Predictions for the rows of a block.
    fn predict(&self, encoding: &Encoding, block: &Block) -> Result<Vec<Prediction>> {
        let encoder = encoding.unlabelled_encoder(block)?;
        let mut predictions = vec![Prediction::default(); block.len];
        let buffers = || (Scratch::new(self.dim), Vec::new());
        predictions.par_chunks_mut(TILE).enumerate().for_each_init(
            buffers,
            |(scratch, values), (t, into)| {
                self.predict_tile(&encoder.tile(t, scratch), values, into);
            },
        );
        Ok(predictions)
    }

    fn predict_tile(&self, tile: &Tile<'_>, values: &mut Vec<f64>, into: &mut [Prediction]) {
        let count = self.theta.len() / self.dim.max(1);
        // For each row, the probabilities under every draw.
        values.resize(count * TILE, 0.0);
        vectorized(
            #[inline(always)]
            || {
                for (s, theta) in self.theta.chunks_exact(self.dim.max(1)).enumerate() {
                    let mut margin = Lane::ZERO;
                    for (z, &theta) in tile.z.iter().zip(theta) {
                        for r in 0..TILE {
                            margin[r] = z[r].mul_add(theta, margin[r]);
                        }
                    }
                    // 1/(1+e^{−m}) is the slope at −m.
                    for m in margin.iter_mut() {
                        *m = softplus_and_slope(-*m).1;
                    }
                    for (r, probability) in margin.iter().enumerate() {
                        values[r * count + s] = *probability;
                    }
                }
            },
        );
        for (prediction, values) in into.iter_mut().zip(values.chunks_exact_mut(count.max(1))) {
            *prediction = summarise(values, self.tail);
        }
    }
}

fn summarise(values: &mut [f64], tail: f64) -> Prediction {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    Prediction {
        mean,
        sd: (squares / (n - 1.0).max(1.0)).sqrt(),
        lower: quantile(values, tail),
        upper: quantile(values, 1.0 - tail),
    }
}

/// The quantile, interpolated between the two nearest values (type 7), without sorting all values.
fn quantile(values: &mut [f64], p: f64) -> f64 {
    let position = (values.len() - 1) as f64 * p;
    let below = position as usize;
    let (_, &mut value, above) = values.select_nth_unstable_by(below, f64::total_cmp);
    let next = above.iter().copied().fold(f64::INFINITY, f64::min);
    let fraction = position - below as f64;
    if fraction > 0.0 && next.is_finite() { value + fraction * (next - value) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_sorted_values() {
        for n in 1..40 {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i * 7919 % 101)).collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            for p in [0.05, 0.1, 0.5, 0.9, 0.95] {
                let expected = crate::mcmc::diagnostics::quantile(&sorted, p);
                assert!((quantile(&mut values.clone(), p) - expected).abs() < 1e-12, "{n} {p}");
            }
        }
    }
}
