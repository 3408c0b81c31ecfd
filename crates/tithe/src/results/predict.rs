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
use crate::data::block::{Block, Column, Field, INEXACT, Kind, Segment};
use crate::data::points::{Lane, TILE, Tile};
use crate::data::sink::parquet::free_name;
use crate::data::sink::{Output, RowFormat, RowWriter};
use crate::data::source::{Input, OpenOptions, Source, open_inputs};
pub use crate::encoding::Unseen;
use crate::encoding::full_data::{Reopened, is_read_as_text, open_with_text};
use crate::encoding::{Coding, Encoding, Feature, Scratch, stray_text};
use crate::engine::thread_pool;
use crate::results::fit::Fit;
use crate::results::group_effects::{GroupEffects, TileGroups};

/// How to predict.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct PredictSettings {
    /// The probability that the interval contains.
    pub interval: f64,
    /// How to treat levels that the model does not know.
    pub unseen: Unseen,
    /// How to treat rows without a usable value of every feature.
    pub incomplete: Incomplete,
    /// Number of threads; `None` is one per core.
    pub threads: Option<usize>,
}

impl Default for PredictSettings {
    fn default() -> PredictSettings {
        PredictSettings { interval: 0.9, unseen: Unseen::Error, incomplete: Incomplete::Empty, threads: None }
    }
}

/// What to do with a row in which a feature is missing, infinite or an integer too large to be exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Incomplete {
    /// Give it an empty prediction.
    #[default]
    Empty,
    /// Leave it out.
    Drop,
    /// Stop with an error that names the row.
    Error,
}

/// The posterior distribution of one row's probability; NaN if the row is incomplete.
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

impl Prediction {
    /// The prediction of an incomplete row.
    const EMPTY: Prediction = Prediction { mean: f64::NAN, sd: f64::NAN, lower: f64::NAN, upper: f64::NAN };
}

/// The columns that predictions add.
const ADDED: [&str; 4] = ["probability", "probability_sd", "probability_lower", "probability_upper"];

/// A summary of the predictions that were written.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Number of rows written.
    pub rows: u64,
    /// Number of incomplete rows, which have an empty prediction or were left out.
    pub incomplete: u64,
    /// Number of values with a level that the model does not know, treated as the reference level.
    pub unseen: u64,
    /// The names of the added columns: mean, sd, lower and upper end.
    pub added: Vec<String>,
    /// The mean of all predictions; `None` if there are none.
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
    let (mut rows, mut predicted, mut sum, mut incomplete) = (0, 0, 0.0, 0);
    let mut reader = FeatureReader::new(&fit.encoding, &plan.features, settings);
    read_all(&*plan.source, &plan.columns, observer, |segment, place| {
        let block = reader.block(segment, place)?;
        let (predictions, empty) = pool.install(|| draws.predict(&fit.encoding, &block))?;
        let complete = || predictions.iter().enumerate().filter(|(_, prediction)| !prediction.mean.is_nan());
        sum += complete().map(|(_, prediction)| prediction.mean).sum::<f64>();
        predicted += segment.len as u64 - empty;
        incomplete += empty;
        if settings.incomplete == Incomplete::Drop && empty > 0 {
            let (kept, predictions): (Vec<usize>, Vec<Prediction>) =
                complete().map(|(row, prediction)| (row, *prediction)).unzip();
            let columns = segment.columns.iter().map(|column| column.take(&kept)).collect();
            let segment = Segment { columns, len: kept.len() };
            let place = Place { file: place.file.clone(), row: place.row, kept: Some(kept) };
            rows += segment.len as u64;
            return writer.write(&plan.batch(&segment, &predictions, &place)?);
        }
        rows += segment.len as u64;
        writer.write(&plan.batch(segment, &predictions, place)?)
    })?;
    writer.finish()?;
    let mean = (predicted > 0).then(|| sum / predicted as f64);
    Ok(Predicted { rows, incomplete, unseen: reader.replaced, added: plan.added, mean })
}

/// The probability of the positive class for every row of data that need not be in files: `open` opens it, and is called
/// twice. Incomplete rows that are not left out have NaN.
pub fn probabilities(
    fit: &Fit,
    options: &OpenOptions,
    open: impl Fn(&OpenOptions) -> Result<Box<dyn Source>>,
    settings: &PredictSettings,
    observer: &dyn Observer,
) -> Result<Vec<Prediction>> {
    let draws = ModelDraws::new(fit, settings.interval)?;
    let pool = thread_pool(settings.threads)?;
    let mut all = Vec::new();
    each_block(&fit.encoding, options, open, settings, observer, |block| {
        let (mut predictions, empty) = pool.install(|| draws.predict(&fit.encoding, block))?;
        if settings.incomplete == Incomplete::Drop && empty > 0 {
            predictions.retain(|prediction| !prediction.mean.is_nan());
        }
        all.extend(predictions);
        Ok(())
    })?;
    Ok(all)
}

/// The log-odds `η = xᵀβ` of the positive class for every row, each under one draw: `chosen` has the number of the draw for each
/// row. Incomplete rows are errors.
///
/// # Errors
/// If there are not as many rows as chosen draws, or not as many draws.
pub fn log_odds(
    fit: &Fit,
    options: &OpenOptions,
    open: impl Fn(&OpenOptions) -> Result<Box<dyn Source>>,
    chosen: &[usize],
    unseen: Unseen,
    observer: &dyn Observer,
) -> Result<Vec<f64>> {
    let wrong = |what| -> Error { Error::setting(Setting::Draws, what) };
    let all: Vec<&[f64]> = fit.draws.rows().collect();
    let mut theta = vec![Vec::new(); all.len()];
    for &draw in chosen {
        let beta =
            all.get(draw).ok_or_else(|| wrong(format!("has {} draws, and no draw {draw}", all.len())))?;
        if theta[draw].is_empty() {
            theta[draw] = fit.encoding.from_user_scale(beta);
        }
    }
    let settings = PredictSettings { unseen, incomplete: Incomplete::Error, ..PredictSettings::default() };
    let mut found = Vec::with_capacity(chosen.len());
    each_block(&fit.encoding, options, open, &settings, observer, |block| {
        let encoder = fit.encoding.unlabelled_encoder(block)?;
        let mut scratch = Scratch::new(fit.draws.dim());
        let own = chosen.get(found.len()..found.len() + block.len);
        let own =
            own.ok_or_else(|| wrong(format!("are chosen for {} rows, but there are more", chosen.len())))?;
        for (t, draws) in own.chunks(TILE).enumerate() {
            let tile = encoder.tile(t, &mut scratch);
            for (r, &draw) in draws.iter().enumerate() {
                found.push(
                    tile.z.iter().zip(&theta[draw]).fold(0.0, |sum, (z, &theta)| z[r].mul_add(theta, sum)),
                );
            }
        }
        Ok(())
    })?;
    match found.len() == chosen.len() {
        true => Ok(found),
        false => Err(wrong(format!("are chosen for {} rows, but there are {}", chosen.len(), found.len()))),
    }
}

/// Passes the features of all rows to `visit`, block by block; `open` opens the data and is called twice.
fn each_block(
    encoding: &Encoding,
    options: &OpenOptions,
    open: impl Fn(&OpenOptions) -> Result<Box<dyn Source>>,
    settings: &PredictSettings,
    observer: &dyn Observer,
    mut visit: impl FnMut(&Block) -> Result<()>,
) -> Result<()> {
    let text = |fields: &[Field]| text_features(encoding, fields);
    let Reopened { source, .. } = open_with_text(encoding, options, text, open)?;
    let place = |name: &str| source.fields().iter().position(|field| field.name == name).unwrap_or_default();
    let columns: Vec<usize> = encoding.features.iter().map(|feature| place(&feature.column)).collect();
    let features: Vec<usize> = (0..columns.len()).collect();
    let mut reader = FeatureReader::new(encoding, &features, settings);
    read_all(&*source, &columns, observer, |segment, place| visit(&reader.block(segment, place)?))
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
        if is_read_as_text(&feature.coding) && field.kind != Kind::Text {
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
    /// The rows in use relative to `row`, if not all are.
    kept: Option<Vec<usize>>,
}

impl Place {
    fn enter(&mut self, file: &Path) {
        if self.file != file {
            *self = Place { file: file.to_path_buf(), row: 0, kept: None };
        }
    }

    fn error(&self, row: usize, column: &str, what: String, help: impl Into<Help>) -> Error {
        let row = self.kept.as_ref().and_then(|kept| kept.get(row)).map_or(row, |&row| row);
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

const HELP_INEXACT: &str = "write to a .csv file, where it is copied as it is";
const HELP_NUMBER: &str = "the model has numbers in this column: repair the value";

/// Which columns are read, and how they are written.
struct Plan {
    source: Box<dyn Source>,
    /// Positions in the source: the copied columns, then parts of dates that are features.
    columns: Vec<usize>,
    /// For each feature, its position among these.
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
        let Reopened { stored: fields, source, own } = open_with_text(encoding, options, text, open)?;
        let columns: Vec<usize> =
            (0..fields.len()).filter(|&c| source.fields()[c].kind != Kind::Unsupported).collect();
        let copied: Vec<Field> = columns
            .iter()
            .filter(|&&c| c < own)
            .map(|&c| Field {
                data_type: written_type(&fields[c], format, is_feature(&fields[c])),
                ..source.fields()[c].clone()
            })
            .collect();
        let place =
            |name: &str| columns.iter().position(|&c| source.fields()[c].name == name).unwrap_or_default();
        let features = encoding.features.iter().map(|feature| place(&feature.column)).collect();
        let names: Vec<&str> = copied.iter().map(|field| field.name.as_str()).collect();
        let added: Vec<String> = ADDED.iter().map(|name| free_name(name, &names)).collect();
        let schema = copied
            .iter()
            .map(|field| ArrowField::new(&field.name, field.data_type.clone(), true))
            .chain(added.iter().map(|name| ArrowField::new(name, DataType::Float64, true)))
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
            let value = |prediction: &Prediction| (!prediction.mean.is_nan()).then(|| fact(prediction));
            arrays.push(Arc::new(Float64Array::from_iter(predictions.iter().map(value))));
        }
        RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(|error| Error::malformed(&place.file, error.to_string()))
    }
}

/// Takes the features from segments.
struct FeatureReader<'a> {
    encoding: &'a Encoding,
    /// For each feature, its position in a segment.
    features: &'a [usize],
    unseen: Unseen,
    incomplete: Incomplete,
    /// The number of values that were treated as a reference level.
    replaced: u64,
}

impl<'a> FeatureReader<'a> {
    fn new(encoding: &'a Encoding, features: &'a [usize], settings: &PredictSettings) -> FeatureReader<'a> {
        let PredictSettings { unseen, incomplete, .. } = *settings;
        FeatureReader { encoding, features, unseen, incomplete, replaced: 0 }
    }

    /// The features of a segment as a block without labels.
    fn block(&mut self, segment: &Segment, place: &Place) -> Result<Block> {
        let mut columns = Vec::with_capacity(self.features.len());
        for (feature, &at) in self.encoding.features.iter().zip(self.features) {
            columns.push(self.column(feature, &segment.columns[at], place)?);
        }
        Ok(Block::new(0, 0, Segment { columns, len: segment.len }))
    }

    /// The column of a feature; an error if one of its values rules a prediction out.
    fn column(&mut self, feature: &Feature, column: &Column, place: &Place) -> Result<Column> {
        let Feature { column: name, coding, .. } = feature;
        if self.incomplete == Incomplete::Error
            && let Some(row) = (0..column.len()).find(|&row| !feature.is_usable(column, row))
        {
            let what = match column {
                Column::Number(values) if values[row].to_bits() == INEXACT.to_bits() => {
                    "an integer beyond 2^53 is not exact"
                }
                Column::Number(values) if values[row].is_infinite() => "the value is infinite",
                _ => "the value is missing",
            };
            let help = Help::from([
                "repair the row".into(),
                Remedy::set(Setting::Missing, "empty"),
                Remedy::set(Setting::Missing, "drop"),
            ]);
            return Err(place.error(row, name, what.to_string(), help));
        }
        match (coding, column) {
            (Coding::Levels { reference, .. }, Column::Text { codes, levels }) => {
                let is_known = |level: &String| feature.knows(level);
                let is_strange: Vec<bool> = levels.iter().map(|level| !is_known(level)).collect();
                let strange = |code: &u32| is_strange.get(*code as usize) == Some(&true);
                // A dictionary may have levels that no row has.
                let Some(first) = codes.iter().position(strange) else { return Ok(column.clone()) };
                if self.unseen == Unseen::Error {
                    let level = &levels[codes[first] as usize];
                    let what = format!("the level '{level}' did not occur when the model was fitted");
                    return Err(place.error(first, name, what, Remedy::UnseenAsReference));
                }
                self.replaced += codes.iter().filter(|code| strange(code)).count() as u64;
                let levels =
                    levels.iter().map(|level| if is_known(level) { level } else { reference }.clone());
                Ok(Column::Text { codes: codes.clone(), levels: Arc::new(levels.collect()) })
            }
            (Coding::Groups { levels: known }, Column::Text { codes, levels }) => {
                let is_strange: Vec<bool> =
                    levels.iter().map(|level| known.binary_search(level).is_err()).collect();
                let strange = |code: &u32| is_strange.get(*code as usize) == Some(&true);
                let Some(first) = codes.iter().position(strange) else { return Ok(column.clone()) };
                if self.unseen == Unseen::Error {
                    let level = &levels[codes[first] as usize];
                    let what = format!("the group '{level}' did not occur when the model was fitted");
                    return Err(place.error(first, name, what, Remedy::UnseenAsReference));
                }
                self.replaced += codes.iter().filter(|code| strange(code)).count() as u64;
                Ok(column.clone())
            }
            (_, Column::Number(_)) => Ok(column.clone()),
            (
                Coding::Number { .. } | Coding::Indicator { .. } | Coding::Boolean,
                Column::Text { codes, levels },
            ) => {
                let (row, what) = stray_text(codes, levels);
                Err(place.error(row, name, what, HELP_NUMBER))
            }
        }
    }
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
struct ModelDraws<'a> {
    theta: Vec<f64>,
    dim: usize,
    tail: f64,
    groups: Option<GroupEffects<'a>>,
}

impl<'a> ModelDraws<'a> {
    fn new(fit: &'a Fit, interval: f64) -> Result<ModelDraws<'a>> {
        if !(interval > 0.0 && interval < 1.0) {
            return Err(Error::setting(
                Setting::Interval,
                format!("must lie between 0 and 1, but is {interval}"),
            ));
        }
        let theta = fit.draws.rows().flat_map(|beta| fit.encoding.from_user_scale(beta)).collect();
        let groups = fit.groups.as_ref().map(|groups| GroupEffects::new(groups, fit.settings.seed));
        Ok(ModelDraws { theta, dim: fit.draws.dim(), tail: 0.5 * (1.0 - interval), groups })
    }

    /// Predictions for the rows of a block, and the number of incomplete rows.
    fn predict(&self, encoding: &Encoding, block: &Block) -> Result<(Vec<Prediction>, u64)> {
        let encoder = encoding.unlabelled_encoder(block)?;
        let groups = encoding.group_rows(block)?;
        let mut predictions = vec![Prediction::default(); block.len];
        let buffers = || (Scratch::new(self.dim), Vec::new());
        predictions.par_chunks_mut(TILE).enumerate().for_each_init(
            buffers,
            |(scratch, values), (t, into)| {
                let tile = encoder.tile(t, scratch);
                let groups = TileGroups::new(&groups, t, tile.len, tile.z);
                self.predict_tile(&tile, &groups, values, into);
            },
        );
        let mut empty = 0;
        for row in encoding.unusable_rows(block) {
            predictions[row] = Prediction::EMPTY;
            empty += 1;
        }
        Ok((predictions, empty))
    }

    fn predict_tile(
        &self,
        tile: &Tile<'_>,
        groups: &TileGroups,
        values: &mut Vec<f64>,
        into: &mut [Prediction],
    ) {
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
                    if let Some(effects) = &self.groups {
                        effects.add(s, groups, &mut margin);
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
