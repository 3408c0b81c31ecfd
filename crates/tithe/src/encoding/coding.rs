//! The encoding of the user's columns as the model's points `z = y·x`, and the transformation of coefficients back to the user's scale.

use std::collections::HashSet;
use std::ops::Range;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::terms::{Design, DesignInput, Raw};
use crate::base::error::{ErrorKind, Help, Remedy, Result, Setting};
use crate::base::math::vectorized;
use crate::data::block::{Block, Column, MISSING_CODE, TextBuilder, is_missing, row_name};
use crate::data::points::{Lane, TILE, Tile};
use crate::data::sink::parquet::{NEWEST_VERSION, VERSION};
use crate::encoding::factor::GroupFactor;
use crate::engine::parts::part_ranges;

/// The name of the intercept among the coefficients.
pub const INTERCEPT: &str = "intercept";

/// The transformation of a table into points. It is learnt once, and stored with every coreset and posterior.
///
/// The columns of the model matrix are the intercept (a column of ones) if the model has one, then for each feature one column (number,
/// boolean) or one column per level except the reference (text). With a formula they are the columns of its terms instead, and the features
/// are the columns of the data that the terms use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Encoding {
    /// The label.
    pub label: Label,
    /// The column of weights, if the data was weighted.
    pub weight: Option<String>,
    /// Whether the model has an intercept.
    pub intercept: bool,
    /// The features.
    pub features: Vec<Feature>,
    /// The grouping factors, whose columns are among the features.
    #[serde(default)]
    pub groups: Vec<GroupFactor>,
    /// The treatment of levels that did not occur when the encoding was learnt.
    #[serde(default)]
    pub unseen: Unseen,
    /// The terms of the formula, if there is one.
    #[serde(default)]
    pub design: Option<Design>,
}

/// The last three fields are left out where they have their defaults, as in files of older versions. Formats without names of fields can
/// only leave out fields at the end.
impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let are_named = serializer.is_human_readable();
        let has_design = self.design.is_some();
        let has_unseen = !self.unseen.is_error() || has_design && !are_named;
        let has_groups = !self.groups.is_empty() || has_unseen && !are_named;
        let others = [has_groups, has_unseen, has_design].into_iter().filter(|has| *has).count();
        let mut stored = serializer.serialize_struct("Encoding", 4 + others)?;
        stored.serialize_field("label", &self.label)?;
        stored.serialize_field("weight", &self.weight)?;
        stored.serialize_field("intercept", &self.intercept)?;
        stored.serialize_field("features", &self.features)?;
        if has_groups {
            stored.serialize_field("groups", &self.groups)?;
        }
        if has_unseen {
            stored.serialize_field("unseen", &self.unseen)?;
        }
        if let Some(design) = &self.design {
            stored.serialize_field("design", design)?;
        }
        stored.end()
    }
}

/// What to do with a level of text that did not occur when the encoding was learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unseen {
    /// Stop with an error that names the row.
    #[default]
    Error,
    /// Treat it as the reference level.
    Reference,
}

impl Unseen {
    fn is_error(&self) -> bool {
        *self == Unseen::Error
    }
}

/// The label column and its two values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// The name of the column.
    pub column: String,
    /// The value for `y = −1`.
    pub negative: LabelValue,
    /// The value for `y = +1`.
    pub positive: LabelValue,
}

/// A value of the label.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LabelValue {
    /// A boolean.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

/// A column of the input and its coding in the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Feature {
    /// The name of the column.
    pub column: String,
    /// How its values are encoded.
    pub coding: Coding,
    /// What is used in place of values that have no coding of their own.
    #[serde(default, skip_serializing_if = "Substitutes::is_none")]
    pub substitutes: Substitutes,
}

/// What is used in place of missing values and of rare levels. The rows themselves keep them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Substitutes {
    /// For missing values; `None` if they are an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Substitute>,
    /// The level that represents all levels which are not listed; `None` if those are unseen levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

/// What is used in place of a missing value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Substitute {
    /// In a column of numbers or booleans.
    Number {
        /// The number, usually the mean of the values that are there.
        value: f64,
        /// If the model has a coefficient for "the value is missing": what is subtracted from that column of zeros and ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        indicator: Option<f64>,
    },
    /// In a column of text: one of its levels.
    Level(String),
}

impl Substitutes {
    fn is_none(&self) -> bool {
        *self == Substitutes::default()
    }

    /// The center of the column of zeros and ones that shows where a number is missing, if there is such a column.
    pub(crate) fn indicator(&self) -> Option<f64> {
        match self.missing {
            Some(Substitute::Number { indicator, .. }) => indicator,
            _ => None,
        }
    }
}

/// The level of missing values that have their own coefficient.
pub const MISSING_LEVEL: &str = "(missing)";

/// The coding of a column in the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coding {
    /// As `(x − center) / scale`.
    Number {
        /// What is subtracted: the mean, or 0.
        center: f64,
        /// The divisor: the standard deviation, or 1.
        scale: f64,
    },
    /// As `x − center`: booleans, and numbers that are all 0 or 1.
    Indicator {
        /// What is subtracted: the mean, or 0.
        center: f64,
    },
    /// Booleans as 0 and 1.
    Boolean,
    /// One-hot: a column of zeros and ones for each level except the reference.
    Levels {
        /// The most frequent level, which has no column of its own.
        reference: String,
        /// The other levels, sorted.
        levels: Vec<String>,
        /// What is subtracted from the column of each level: its mean. If empty, nothing is subtracted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        centers: Vec<f64>,
    },
    /// As the group of the row; it has no coefficient of its own.
    Groups {
        /// The levels, sorted: group g is level g.
        levels: Vec<String>,
    },
}

impl Coding {
    /// The number of coefficients.
    fn width(&self) -> usize {
        match self {
            Coding::Levels { levels, .. } => levels.len(),
            Coding::Number { .. } | Coding::Indicator { .. } | Coding::Boolean => 1,
            Coding::Groups { .. } => 0,
        }
    }

    /// The center and scale of each of its coefficients: `z = (x − center) / scale`, where `x` is 0 or 1 for a level.
    pub fn transform(&self) -> impl Iterator<Item = (f64, f64)> {
        (0..self.width()).map(move |l| match self {
            Coding::Number { center, scale } => (*center, *scale),
            Coding::Indicator { center } => (*center, 1.0),
            Coding::Boolean | Coding::Groups { .. } => (0.0, 1.0),
            Coding::Levels { centers, .. } => (centers.get(l).copied().unwrap_or(0.0), 1.0),
        })
    }

    /// All levels, sorted; none if the column is not text.
    pub(crate) fn sorted_levels(&self) -> Vec<&str> {
        let Coding::Levels { reference, levels, .. } = self else { return Vec::new() };
        let mut all: Vec<&str> = levels.iter().chain([reference]).map(String::as_str).collect();
        all.sort_unstable();
        all
    }

    /// True if a column of the model matrix is shifted or scaled.
    pub fn is_standardized(&self) -> bool {
        self.transform().any(|transform| transform != (0.0, 1.0))
    }
}

impl std::fmt::Display for LabelValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LabelValue::Boolean(value) => value.fmt(f),
            LabelValue::Number(value) => value.fmt(f),
            LabelValue::Text(value) => value.fmt(f),
        }
    }
}

impl LabelValue {
    /// True if the user's text denotes the value: `1`, `1.0` and `+1` are the same number.
    pub(super) fn is_named(&self, wanted: &str) -> bool {
        match self {
            LabelValue::Number(number) => wanted.trim().parse::<f64>().is_ok_and(|wanted| wanted == *number),
            LabelValue::Boolean(truth) => wanted.trim().eq_ignore_ascii_case(&truth.to_string()),
            LabelValue::Text(text) => text == wanted,
        }
    }
}

impl Feature {
    /// A column whose values all have a coding of their own.
    pub fn new(column: impl Into<String>, coding: Coding) -> Feature {
        Feature { column: column.into(), coding, substitutes: Substitutes::default() }
    }

    /// The number of its coefficients.
    pub fn width(&self) -> usize {
        self.coding.width() + usize::from(self.substitutes.indicator().is_some())
    }

    /// The center and scale of each coefficient; that of the indicator of missing values comes last.
    pub fn transform(&self) -> impl Iterator<Item = (f64, f64)> {
        self.coding.transform().chain(self.substitutes.indicator().map(|center| (center, 1.0)))
    }

    /// The names of its coefficients: the column, or `column=level`.
    pub fn coefficient_names(&self) -> Vec<String> {
        let of_level = |level: &str| format!("{}={level}", self.column);
        match &self.coding {
            Coding::Levels { levels, .. } => levels.iter().map(|level| of_level(level)).collect(),
            Coding::Groups { .. } => Vec::new(),
            _ => {
                let indicator = self.substitutes.indicator().map(|_| of_level(MISSING_LEVEL));
                std::iter::once(self.column.clone()).chain(indicator).collect()
            }
        }
    }

    /// True if the feature has this level, or treats all others alike, or is not text.
    pub(crate) fn knows(&self, level: &str) -> bool {
        match &self.coding {
            Coding::Levels { reference, levels, .. } => {
                self.substitutes.other.is_some()
                    || level == reference
                    || levels.binary_search_by(|known| known.as_str().cmp(level)).is_ok()
            }
            Coding::Groups { levels } => levels.binary_search_by(|known| known.as_str().cmp(level)).is_ok(),
            _ => true,
        }
    }

    /// The coefficient that is 1 for a level, relative to the first; `None` for the reference. An error if there is none.
    fn place_of(
        &self,
        levels: &[String],
        reference: &str,
        level: &str,
    ) -> std::result::Result<Option<usize>, ()> {
        let find = |level: &str| levels.binary_search_by(|known| known.as_str().cmp(level)).ok();
        match (find(level), &self.substitutes.other) {
            (Some(place), _) => Ok(Some(place)),
            (None, _) if level == reference => Ok(None),
            (None, Some(other)) => Ok(find(other)),
            (None, None) => Err(()),
        }
    }

    /// True if this value of the feature can be used: it is there, or has a substitute, and is finite and exact.
    pub(crate) fn is_usable(&self, column: &Column, row: usize) -> bool {
        column.is_usable(row) || (self.substitutes.missing.is_some() && column.is_missing(row))
    }

    /// The column with its substitutes in place of missing values and rare levels.
    pub fn substituted(&self, column: &Column) -> Column {
        match (column, &self.coding) {
            (Column::Number(values), _) => match self.substitutes.missing {
                Some(Substitute::Number { value: substitute, .. }) => {
                    let value = |value: &f64| if is_missing(*value) { substitute } else { *value };
                    Column::Number(values.iter().map(value).collect())
                }
                _ => column.clone(),
            },
            (Column::Text { codes, levels }, Coding::Levels { reference, levels: known, .. })
                if !self.substitutes.is_none() =>
            {
                let mut text = TextBuilder::default();
                let own: Vec<u32> = levels
                    .iter()
                    .map(|level| match (&self.substitutes.other, known.binary_search(level)) {
                        (Some(other), Err(_)) if level != reference => text.code(other),
                        _ => text.code(level),
                    })
                    .collect();
                let missing = match &self.substitutes.missing {
                    Some(Substitute::Level(level)) => text.code(level),
                    _ => MISSING_CODE,
                };
                for code in codes.iter() {
                    text.push_code(own.get(*code as usize).copied().unwrap_or(missing));
                }
                text.finish()
            }
            _ => column.clone(),
        }
    }
}

impl Encoding {
    /// The dimension D of the model.
    pub fn dim(&self) -> usize {
        let width = match &self.design {
            Some(design) => design.width(),
            None => self.features.iter().map(Feature::width).sum(),
        };
        usize::from(self.intercept) + width
    }

    /// The version of a file with this encoding: programs that do not know formulas or group effects must not
    /// read one as if it had none.
    pub(crate) fn file_version(&self) -> u64 {
        if self.design.is_some() || !self.groups.is_empty() { NEWEST_VERSION } else { VERSION }
    }

    /// The highest index among features named `x1`, `x2`, … (LIBSVM).
    pub(crate) fn highest_index(&self) -> Option<u32> {
        self.features.iter().filter_map(|feature| feature.column.strip_prefix('x')?.parse().ok()).max()
    }

    /// True if a column of the model matrix is shifted or scaled.
    pub fn is_standardized(&self) -> bool {
        match &self.design {
            Some(design) => design.is_standardized(),
            None => self.features.iter().any(|feature| feature.coding.is_standardized()),
        }
    }

    /// The names of the coefficients: `intercept`, the column, or `column=level`; with a formula those of its terms.
    pub fn coefficient_names(&self) -> Vec<String> {
        let intercept = self.intercept.then(|| INTERCEPT.to_string());
        match &self.design {
            Some(design) => intercept.into_iter().chain(design.names()).collect(),
            None => intercept
                .into_iter()
                .chain(self.features.iter().flat_map(Feature::coefficient_names))
                .collect(),
        }
    }

    /// The names of the coefficients, checked to be distinct.
    ///
    /// # Errors
    /// If two coefficients have the same name.
    pub fn distinct_names(&self) -> Result<Vec<String>> {
        let names = self.coefficient_names();
        let mut seen = HashSet::with_capacity(names.len());
        match names.iter().find(|name| !seen.insert(name.as_str())) {
            None => Ok(names),
            Some(name) => Err(ErrorKind::Column {
                column: name.clone(),
                what: "two coefficients would have this name".to_string(),
                help: Some(Help::from([
                    "rename the column".into(),
                    Remedy::ExcludeColumn(None),
                    Remedy::set(Setting::Intercept, false),
                ])),
            }
            .into()),
        }
    }

    /// The center and scale of each coefficient: 0 and 1, except for standardised columns.
    pub fn transform(&self) -> (Vec<f64>, Vec<f64>) {
        self.centers_and_scales().unzip()
    }

    fn centers_and_scales(&self) -> impl Iterator<Item = (f64, f64)> {
        let intercept = self.intercept.then_some((0.0, 1.0));
        let terms = self.design.iter().flat_map(Design::columns).map(|column| (column.center, column.scale));
        let features = if self.design.is_some() { &[][..] } else { &self.features };
        intercept.into_iter().chain(terms).chain(features.iter().flat_map(Feature::transform))
    }

    /// Coefficients on the user's scale: `β_j = θ_j / scale_j`, and the intercept `β_0 = θ_0 − Σ θ_j center_j / scale_j`. Without an
    /// intercept no column is centred.
    pub fn to_user_scale(&self, theta: &[f64]) -> Vec<f64> {
        let mut beta = theta.to_vec();
        for (j, (center, scale)) in self.centers_and_scales().enumerate().skip(usize::from(self.intercept)) {
            beta[j] = theta[j] / scale;
            if self.intercept {
                beta[0] -= beta[j] * center;
            }
        }
        beta
    }

    /// The inverse of [`Encoding::to_user_scale`].
    pub fn from_user_scale(&self, beta: &[f64]) -> Vec<f64> {
        let mut theta = beta.to_vec();
        for (j, (center, scale)) in self.centers_and_scales().enumerate().skip(usize::from(self.intercept)) {
            theta[j] = beta[j] * scale;
            if self.intercept {
                theta[0] += beta[j] * center;
            }
        }
        theta
    }

    /// The columns of the formula's terms for the rows of a block, row by row, neither centred nor scaled; `None` without a formula.
    pub(crate) fn terms_of(&self, block: &Block) -> Result<Option<Vec<f64>>> {
        let Some(design) = &self.design else { return Ok(None) };
        let plain = Encoding { design: Some(design.unscaled()), intercept: false, ..self.clone() };
        let encoder = plain.unlabelled_encoder(block)?;
        let mut scratch = encoder.scratch();
        let mut values = vec![0.0; block.len * design.width()];
        for (t, rows) in values.chunks_mut((TILE * design.width()).max(1)).enumerate() {
            let tile = encoder.tile(t, &mut scratch);
            rows.chunks_mut(design.width()).enumerate().for_each(|(r, row)| tile.copy_row(r, row));
        }
        Ok(Some(values))
    }

    /// The first row with a value that cannot be used, and the number of its column. The label must be there; a feature may have a
    /// substitute.
    pub(crate) fn first_unusable(&self, block: &Block) -> Option<(usize, usize)> {
        let first = |(number, column): (usize, &Column)| {
            let is_usable = |row: usize| match self.features.get(number) {
                Some(feature) => feature.is_usable(column, row),
                None => column.is_usable(row),
            };
            (0..block.len).find(|&row| !is_usable(row)).map(|row| (row, number))
        };
        block.columns.iter().enumerate().filter_map(first).min()
    }

    /// True if levels that are not listed are grouped.
    pub(crate) fn groups_levels(&self) -> bool {
        self.features.iter().any(|feature| feature.substitutes.other.is_some())
    }

    /// True if missing values or rare levels have substitutes.
    pub(crate) fn has_substitutes(&self) -> bool {
        self.features.iter().any(|feature| !feature.substitutes.is_none())
    }

    /// The rows of a block of features in which a value cannot be used.
    pub(crate) fn unusable_rows(&self, block: &Block) -> impl Iterator<Item = usize> {
        let columns = || self.features.iter().zip(&block.columns);
        (0..block.len).filter(move |&row| columns().any(|(feature, column)| !feature.is_usable(column, row)))
    }

    /// Returns an error for a row whose label is neither of the two values.
    pub fn check_labels(&self, block: &Block) -> Result<()> {
        match block.columns.get(self.features.len()) {
            Some(column) => self.label.check(block, column),
            None => Ok(()),
        }
    }

    /// Prepares the encoding of a block as points `z = y·x`.
    pub fn encoder<'a>(&'a self, block: &'a Block) -> Result<Encoder<'a>> {
        self.encoder_by(block, |column| LabelInput::new(&self.label, column))
    }

    /// Prepares the encoding of a block that has only the features as rows `x`, for predictions.
    pub(crate) fn unlabelled_encoder<'a>(&'a self, block: &'a Block) -> Result<Encoder<'a>> {
        self.encoder_by(block, |_| Ok(LabelInput::Absent))
    }

    fn encoder_by<'a>(
        &'a self,
        block: &'a Block,
        label: impl FnOnce(Option<&'a Column>) -> Result<LabelInput<'a>>,
    ) -> Result<Encoder<'a>> {
        let mut lane = usize::from(self.intercept);
        let mut inputs = Vec::with_capacity(self.features.len());
        let design = match &self.design {
            Some(design) => {
                let design = DesignInput::new(design, self.raw(block)?, lane);
                design.check(block, |feature| self.features[feature].column.clone())?;
                Some(design)
            }
            None => {
                for (feature, column) in self.features.iter().zip(&block.columns) {
                    inputs.push(Input::new(feature, self.unseen, block, column, lane)?);
                    lane += feature.width();
                }
                None
            }
        };
        let label = label(block.columns.get(self.features.len()))?;
        let weights = self.weights(block);
        Ok(Encoder { block, dim: self.dim(), intercept: self.intercept, inputs, design, label, weights })
    }

    /// The weights of a block's rows, if they have any. The rows of a coreset have no weight column; their weights are stored separately.
    pub(crate) fn weights<'a>(&self, block: &'a Block) -> Option<&'a [f64]> {
        match (&self.weight, block.columns.get(self.features.len() + 1)) {
            (Some(_), Some(Column::Number(weights))) => Some(&weights[..]),
            _ => None,
        }
    }

    /// The values of the features in a block, for the terms of a formula.
    pub(crate) fn raw<'a>(&'a self, block: &'a Block) -> Result<Vec<Raw<'a>>> {
        let raw = |(feature, column): (&'a Feature, &'a Column)| match Input::new(
            feature,
            self.unseen,
            block,
            column,
            0,
        )? {
            Input::None => Ok(Raw::Levels(&[], Vec::new())),
            Input::Number { values, .. } | Input::Filled { values, .. } => Ok(Raw::Numbers(values)),
            Input::Levels { codes, lanes, .. } => {
                let Coding::Levels { reference, levels, .. } = &feature.coding else {
                    return Ok(Raw::Levels(codes, Vec::new()));
                };
                // The reference comes between the other levels.
                let before = levels.partition_point(|level| level < reference);
                let position = |lane: &Option<usize>| match lane {
                    Some(lane) => lane + usize::from(*lane >= before),
                    None => before,
                };
                Ok(Raw::Levels(codes, lanes.iter().map(|lane| position(lane) as u32).collect()))
            }
        };
        self.features.iter().zip(&block.columns).map(raw).collect()
    }
}

/// Encodes a block as points, one tile at a time.
pub struct Encoder<'a> {
    pub(crate) block: &'a Block,
    dim: usize,
    intercept: bool,
    inputs: Vec<Input<'a>>,
    design: Option<DesignInput<'a>>,
    label: LabelInput<'a>,
    weights: Option<&'a [f64]>,
}

/// The input of the lanes of one feature.
enum Input<'a> {
    None,
    Number {
        values: &'a [f64],
        lane: usize,
        center: f64,
        factor: f64,
    },
    /// Like `Number`, with `substitute` in place of missing values; the next lane shows where they are, minus the `indicator`.
    Filled {
        values: &'a [f64],
        lane: usize,
        center: f64,
        factor: f64,
        substitute: f64,
        indicator: Option<f64>,
    },
    /// `lanes` maps each code of the block to the lane that is 1, or to `None` for the reference.
    Levels {
        codes: &'a [u32],
        lanes: Vec<Option<usize>>,
        /// The lane that is 1 where the value is missing.
        missing: Option<usize>,
        first: usize,
        width: usize,
        /// What is subtracted from each lane; empty if nothing is.
        centers: &'a [f64],
    },
}

impl<'a> Input<'a> {
    fn new(
        feature: &'a Feature,
        unseen: Unseen,
        block: &Block,
        column: &'a Column,
        lane: usize,
    ) -> Result<Input<'a>> {
        match (&feature.coding, column) {
            (Coding::Number { center, scale }, Column::Number(values)) => {
                Ok(Input::number(feature, values, lane, *center, 1.0 / scale))
            }
            (Coding::Indicator { center }, Column::Number(values)) => {
                Ok(Input::number(feature, values, lane, *center, 1.0))
            }
            (Coding::Boolean, Column::Number(values)) => Ok(Input::number(feature, values, lane, 0.0, 1.0)),
            (Coding::Levels { reference, levels, centers }, Column::Text { codes, levels: own }) => {
                let missing = match &feature.substitutes.missing {
                    Some(Substitute::Level(level)) => levels.binary_search(level).ok().map(|at| lane + at),
                    _ => None,
                };
                let lanes = own
                    .iter()
                    .enumerate()
                    .map(|(code, level)| match feature.place_of(levels, reference, level) {
                        Ok(place) => Ok(place.map(|place| lane + place)),
                        Err(()) if unseen == Unseen::Reference => Ok(None),
                        // A dictionary may have levels that no row has.
                        Err(()) => match codes.iter().position(|&own| own as usize == code) {
                            Some(row) => {
                                Err(unseen_level(&feature.column, level, &row_name(block.position(row))))
                            }
                            None => Ok(None),
                        },
                    })
                    .collect::<Result<Vec<_>>>()?;
                Ok(Input::Levels { codes, lanes, missing, first: lane, width: levels.len(), centers })
            }
            (
                Coding::Number { .. } | Coding::Indicator { .. } | Coding::Boolean,
                Column::Text { codes, levels },
            ) => {
                let (row, what) = stray_text(codes, levels);
                Err(ErrorKind::Column {
                    column: feature.column.clone(),
                    what: format!(
                        "{what} in {}, but the column is numeric in the encoding",
                        row_name(block.position(row))
                    ),
                    help: Some("repair the value".into()),
                }
                .into())
            }
            // The groups of rows are read by [`Encoding::grouped_encoder`].
            (Coding::Groups { .. }, _) => Ok(Input::None),
            (Coding::Levels { .. }, Column::Number(_)) => Err(ErrorKind::Column {
                column: feature.column.clone(),
                what: "is numeric, but categorical in the encoding".to_string(),
                help: Some(Remedy::ReadAsText(None).into()),
            }
            .into()),
        }
    }

    fn number(feature: &Feature, values: &'a [f64], lane: usize, center: f64, factor: f64) -> Input<'a> {
        match feature.substitutes.missing {
            Some(Substitute::Number { value: substitute, indicator }) => {
                Input::Filled { values, lane, center, factor, substitute, indicator }
            }
            _ => Input::Number { values, lane, center, factor },
        }
    }
}

/// The first row of a text column that is not a number, and a description of its value.
pub(crate) fn stray_text(codes: &[u32], levels: &[String]) -> (usize, String) {
    let is_number =
        |code: &u32| levels.get(*code as usize).is_none_or(|level| level.trim().parse::<f64>().is_ok());
    let row = codes.iter().position(|code| !is_number(code)).unwrap_or(0);
    let value = codes.get(row).and_then(|code| levels.get(*code as usize)).map_or("", String::as_str);
    (row, format!("'{value}' is not a number"))
}

pub(crate) fn unseen_level(column: &str, level: &str, row: &str) -> crate::base::error::Error {
    ErrorKind::Column {
        column: column.to_string(),
        what: format!("the level '{level}' in {row} did not occur when the encoding was learnt"),
        help: Some(Remedy::UnseenAsReference.into()),
    }
    .into()
}

impl Label {
    /// Returns an error if a label in the block is neither of the two values. [`Encoding::encoder`] does not check this and treats every
    /// other value as negative. Only data that the encoding was not learnt from needs the check.
    pub fn check(&self, block: &Block, column: &Column) -> Result<()> {
        let number = |value: &LabelValue| match value {
            LabelValue::Number(number) => Some(*number),
            LabelValue::Boolean(truth) => Some(f64::from(u8::from(*truth))),
            LabelValue::Text(_) => None,
        };
        let unknown = match column {
            Column::Number(values) => {
                let known = [number(&self.negative), number(&self.positive)];
                let row = values.iter().position(|value| !known.contains(&Some(*value)));
                row.map(|row| (row, values[row].to_string()))
            }
            Column::Text { codes, levels } => {
                let known = [&self.negative, &self.positive];
                let is_known = |level: &String| {
                    known.iter().any(|k| matches!(k, LabelValue::Text(text) if text == level))
                };
                let strangers: Vec<bool> = levels.iter().map(|level| !is_known(level)).collect();
                let row =
                    codes.iter().position(|code| strangers.get(*code as usize).copied().unwrap_or(true));
                row.map(|row| (row, levels.get(codes[row] as usize).cloned().unwrap_or_default()))
            }
        };
        match unknown {
            None => Ok(()),
            Some((row, value)) => Err(ErrorKind::Column {
                column: self.column.clone(),
                what: format!(
                    "{} has the label '{value}', which did not occur when the encoding was learnt",
                    row_name(block.position(row))
                ),
                help: Some("name the data that the coreset was made from".into()),
            }
            .into()),
        }
    }
}

/// The input of the signs `y`.
enum LabelInput<'a> {
    /// All signs are 1, so that points are the rows themselves.
    Absent,
    Number {
        values: &'a [f64],
        positive: f64,
    },
    Text {
        codes: &'a [u32],
        positive: Option<u32>,
    },
}

impl<'a> LabelInput<'a> {
    fn new(label: &Label, column: Option<&'a Column>) -> Result<LabelInput<'a>> {
        match (&label.positive, column) {
            (LabelValue::Number(positive), Some(Column::Number(values))) => {
                Ok(LabelInput::Number { values, positive: *positive })
            }
            (LabelValue::Boolean(positive), Some(Column::Number(values))) => {
                Ok(LabelInput::Number { values, positive: f64::from(u8::from(*positive)) })
            }
            (LabelValue::Text(positive), Some(Column::Text { codes, levels })) => {
                let positive = levels.iter().position(|level| level == positive).map(|code| code as u32);
                Ok(LabelInput::Text { codes, positive })
            }
            _ => Err(ErrorKind::Column {
                column: label.column.clone(),
                what: "has another type than in the encoding".to_string(),
                help: None,
            }
            .into()),
        }
    }
}

/// Buffers for one tile.
#[derive(Clone, Debug)]
pub struct Scratch {
    z: Vec<Lane>,
    w: Lane,
    y: Lane,
    /// The values that terms of a formula are computed from.
    terms: Vec<Lane>,
}

impl Scratch {
    /// Buffers for points of dimension `dim`.
    pub fn new(dim: usize) -> Scratch {
        Scratch { z: vec![Lane::ZERO; dim], w: Lane::ZERO, y: Lane::ZERO, terms: Vec::new() }
    }

    /// The signs `y` and the points `z` of the last tile.
    pub(crate) fn signs_and_points(&self) -> (&Lane, &[Lane]) {
        (&self.y, &self.z)
    }

    /// The signs `y` of the last tile.
    pub(super) fn signs(&self) -> &Lane {
        &self.y
    }

    /// A column of `z` of the last tile.
    pub(super) fn column(&self, lane: usize) -> &Lane {
        &self.z[lane]
    }

    /// The last tile, which has `len` rows.
    pub(super) fn tile(&self, len: usize) -> Tile<'_> {
        Tile { z: &self.z, w: &self.w, len }
    }
}

impl Encoder<'_> {
    /// Buffers for its tiles.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(self.dim)
    }

    /// The dimension of its points.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The number of tiles in the block.
    pub fn tiles(&self) -> usize {
        self.block.len.div_ceil(TILE)
    }

    /// Splits the tiles into parts for parallel work. Each part comes with its slice of `values`, which has one value per row.
    pub(crate) fn parts_with<'n, T>(&self, mut values: &'n mut [T]) -> Vec<(Range<usize>, &'n mut [T])> {
        let with_values = |tiles: Range<usize>| {
            let rows = (tiles.len() * TILE).min(values.len());
            let (own, rest) = std::mem::take(&mut values).split_at_mut(rows);
            values = rest;
            (tiles, own)
        };
        part_ranges(self.tiles()).map(with_values).collect()
    }

    /// Tile `t`: the rows from `t·TILE` on, as points `z = y·x` with their weights.
    pub fn tile<'s>(&'s self, t: usize, scratch: &'s mut Scratch) -> Tile<'s> {
        let rows = t * TILE..self.block.len.min((t + 1) * TILE);
        let len = rows.len();
        if let Some(design) = &self.design {
            scratch.terms.resize(design.lanes(), Lane::ZERO);
        }
        vectorized(
            #[inline(always)]
            || self.fill(rows, scratch),
        );
        Tile { z: &scratch.z, w: &scratch.w, len }
    }

    #[inline(always)]
    fn fill(&self, rows: Range<usize>, scratch: &mut Scratch) {
        self.fill_labels(rows.clone(), &mut scratch.y);
        self.fill_weights(rows.clone(), &mut scratch.w);
        if self.intercept {
            scratch.z[0] = scratch.y;
        }
        for input in &self.inputs {
            input.fill(rows.clone(), &scratch.y, &mut scratch.z);
        }
        if let Some(design) = &self.design {
            design.fill(rows, &scratch.y, &mut scratch.z, &mut scratch.terms);
        }
    }

    /// The signs `y`; 0 for padding, so that `z = 0` there.
    #[inline(always)]
    fn fill_labels(&self, rows: Range<usize>, y: &mut Lane) {
        y[rows.len()..].fill(0.0);
        match &self.label {
            LabelInput::Absent => y[..rows.len()].fill(1.0),
            LabelInput::Number { values, positive } => {
                for (y, value) in y.iter_mut().zip(&values[rows]) {
                    *y = if value == positive { 1.0 } else { -1.0 };
                }
            }
            LabelInput::Text { codes, positive } => {
                for (y, code) in y.iter_mut().zip(&codes[rows]) {
                    *y = if Some(*code) == *positive { 1.0 } else { -1.0 };
                }
            }
        }
    }

    #[inline(always)]
    fn fill_weights(&self, rows: Range<usize>, w: &mut Lane) {
        let len = rows.len();
        w[len..].fill(0.0);
        match self.weights {
            Some(weights) => w[..len].copy_from_slice(&weights[rows]),
            None => w[..len].fill(1.0),
        }
    }
}

impl Input<'_> {
    /// Writes some rows to their lanes of a tile.
    #[inline(always)]
    fn fill(&self, rows: Range<usize>, y: &Lane, z: &mut [Lane]) {
        match self {
            Input::None => {}
            Input::Number { values, lane, center, factor } => {
                let z = &mut z[*lane];
                if let Some(values) = values[rows.clone()].first_chunk::<TILE>() {
                    for r in 0..TILE {
                        z[r] = (values[r] - center) * factor * y[r];
                    }
                } else {
                    z[rows.len()..].fill(0.0);
                    for ((z, value), y) in z.iter_mut().zip(&values[rows]).zip(y.iter()) {
                        *z = (value - center) * factor * y;
                    }
                }
            }
            Input::Filled { values, lane, center, factor, substitute, indicator } => {
                let values = &values[rows.clone()];
                let own = &mut z[*lane];
                own[rows.len()..].fill(0.0);
                for ((z, value), y) in own.iter_mut().zip(values).zip(y.iter()) {
                    let value = if is_missing(*value) { substitute } else { value };
                    *z = (value - center) * factor * y;
                }
                if let Some(center) = indicator {
                    let shown = &mut z[lane + 1];
                    shown[rows.len()..].fill(0.0);
                    for ((z, value), y) in shown.iter_mut().zip(values).zip(y.iter()) {
                        *z = (f64::from(u8::from(is_missing(*value))) - center) * y;
                    }
                }
            }
            Input::Levels { codes, lanes, missing, first, width, centers } => {
                let z = &mut z[*first..first + width];
                z.fill(Lane::ZERO);
                for (z, center) in z.iter_mut().zip(*centers) {
                    // The signs of padding are 0.
                    for r in 0..TILE {
                        z[r] = -center * y[r];
                    }
                }
                for (r, code) in codes[rows].iter().enumerate() {
                    if let Some(lane) = lanes.get(*code as usize).unwrap_or(missing) {
                        z[lane - first][r] += y[r];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::{MISSING, Segment};

    fn encoding() -> Encoding {
        Encoding {
            label: Label {
                column: "y".into(),
                negative: LabelValue::Number(0.0),
                positive: LabelValue::Number(1.0),
            },
            weight: None,
            intercept: true,
            groups: Vec::new(),
            features: vec![
                Feature::new("age", Coding::Number { center: 40.0, scale: 10.0 }),
                Feature::new(
                    "city",
                    Coding::Levels {
                        reference: "B".into(),
                        levels: vec!["A".into(), "C".into()],
                        centers: Vec::new(),
                    },
                ),
            ],
            unseen: Unseen::Error,
            design: None,
        }
    }

    fn block(n: usize) -> Block {
        let mut city = TextBuilder::default();
        (0..n).for_each(|row| city.push(Some(["C", "B", "A"][row % 3])));
        let ages: Vec<f64> = (0..n).map(|row| 30.0 + row as f64).collect();
        let labels: Vec<f64> = (0..n).map(|row| (row % 2) as f64).collect();
        let columns = vec![Column::Number(ages.into()), city.finish(), Column::Number(labels.into())];
        Block::new(0, 0, Segment { columns, len: n })
    }

    #[test]
    fn a_column_of_another_kind_is_an_error() {
        let message = |columns: Vec<Column>| {
            let block = Block::new(0, 0, Segment { columns, len: 3 });
            encoding().encoder(&block).err().map(|error| error.to_string())
        };
        let mut ages = TextBuilder::default();
        ["40", "old", "41"].iter().for_each(|age| ages.push(Some(age)));
        let mut columns = block(3).columns.clone();
        columns[0] = ages.finish();
        let expected =
            "column 'age': 'old' is not a number in row 2, but the column is numeric in the encoding";
        assert_eq!(message(columns.clone()).as_deref(), Some(expected));
        columns.swap(0, 2);
        columns[1] = columns[0].clone();
        let expected = "column 'city': is numeric, but categorical in the encoding";
        assert_eq!(message(columns).as_deref(), Some(expected));
    }

    #[test]
    fn rows_become_points() {
        let (encoding, block) = (encoding(), block(40 * TILE + 5));
        assert_eq!(encoding.coefficient_names(), ["intercept", "age", "city=A", "city=C"]);
        let encoder = encoding.encoder(&block).expect("an encoder");
        let mut scratch = Scratch::new(encoding.dim());
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, &mut scratch);
            for r in 0..TILE {
                let row = t * TILE + r;
                let mut z = vec![0.0; 4];
                tile.copy_row(r, &mut z);
                if r >= tile.len {
                    assert_eq!((z, tile.w[r]), (vec![0.0; 4], 0.0));
                    continue;
                }
                let y = if row % 2 == 1 { 1.0 } else { -1.0 };
                let age = y * (row as f64 - 10.0) / 10.0;
                let expected = [y, age, y * f64::from(row % 3 == 2), y * f64::from(row.is_multiple_of(3))];
                z.iter().zip(expected).for_each(|(z, e)| assert!((z - e).abs() < 1e-12, "row {row}"));
                assert_eq!(tile.w[r], 1.0);
            }
        }
    }

    #[test]
    fn weights_come_from_their_column() {
        let mut block = block(TILE);
        block.columns.push(Column::Number(vec![2.0; TILE].into()));
        let encoding = Encoding { weight: Some("w".into()), ..encoding() };
        let encoder = encoding.encoder(&block).expect("an encoder");
        let (mut scratch, twos) = (encoder.scratch(), Lane::of(2.0));
        let tile = encoder.tile(0, &mut scratch);
        assert_eq!(tile.w, &twos);
    }

    #[test]
    fn parts_cover_the_block() {
        let encoding = encoding();
        for rows in [0, 1, TILE - 1, TILE, TILE + 1, 4 * TILE, 5 * TILE, 9 * TILE + 1] {
            let block = block(rows);
            let encoder = encoding.encoder(&block).expect("an encoder");
            let mut numbers = vec![0.0; rows];
            let parts = encoder.parts_with(&mut numbers);
            let tiles: Vec<usize> = parts.iter().flat_map(|(tiles, _)| tiles.clone()).collect();
            assert_eq!(tiles, (0..encoder.tiles()).collect::<Vec<usize>>(), "{rows} rows");
            for (tiles, numbers) in &parts {
                assert_eq!(numbers.len(), rows.min(tiles.end * TILE) - tiles.start * TILE, "{rows} rows");
            }
        }
    }

    #[test]
    fn the_users_scale_gives_the_same_linear_predictor() {
        let encoding = encoding();
        let theta = [0.3, -1.2, 0.5, 0.7];
        let beta = encoding.to_user_scale(&theta);
        let age = 52.0;
        let on_model_scale = theta[0] + theta[1] * (age - 40.0) / 10.0 + theta[2];
        assert!((beta[0] + beta[1] * age + beta[2] - on_model_scale).abs() < 1e-12);
        for (there, back) in theta.iter().zip(encoding.from_user_scale(&beta)) {
            assert!((there - back).abs() < 1e-12);
        }
    }

    /// The same encoding with centred levels, and with the age as an indicator.
    fn centred() -> Encoding {
        let mut encoding = encoding();
        encoding.features[0].coding = Coding::Indicator { center: 40.0 };
        if let Coding::Levels { centers, .. } = &mut encoding.features[1].coding {
            *centers = vec![0.25, 0.125];
        }
        encoding
    }

    #[test]
    fn levels_are_centred() {
        let (encoding, block) = (centred(), block(TILE + 5));
        let encoder = encoding.encoder(&block).expect("an encoder");
        let mut scratch = Scratch::new(encoding.dim());
        for t in 0..encoder.tiles() {
            let tile = encoder.tile(t, &mut scratch);
            for r in 0..TILE {
                let row = t * TILE + r;
                let mut z = vec![0.0; 4];
                tile.copy_row(r, &mut z);
                let y = if row % 2 == 1 { 1.0 } else { -1.0 };
                let [a, c] = [row % 3 == 2, row.is_multiple_of(3)].map(|is| f64::from(u8::from(is)));
                let expected = [y, y * (row as f64 - 10.0), y * (a - 0.25), y * (c - 0.125)];
                let expected = if r < tile.len { expected } else { [0.0; 4] };
                assert_eq!(z, expected, "row {row}");
            }
        }
        let theta = [0.3, -1.2, 0.5, 0.7];
        let beta = encoding.to_user_scale(&theta);
        let on_model_scale = theta[0] + theta[1] * (52.0 - 40.0) + theta[2] * (1.0 - 0.25) - theta[3] * 0.125;
        assert!((beta[0] + beta[1] * 52.0 + beta[2] - on_model_scale).abs() < 1e-12);
        for (there, back) in theta.iter().zip(encoding.from_user_scale(&beta)) {
            assert!((there - back).abs() < 1e-12);
        }
    }

    #[test]
    fn an_encoding_survives_json() {
        let unseen = Encoding { unseen: Unseen::Reference, ..encoding() };
        for encoding in [encoding(), centred(), with_substitutes(), unseen] {
            let text = serde_json::to_string(&encoding).expect("json");
            assert_eq!(serde_json::from_str::<Encoding>(&text).expect("an encoding"), encoding);
            let bytes = rmp_serde::to_vec(&encoding).expect("bytes");
            assert_eq!(rmp_serde::from_slice::<Encoding>(&bytes).expect("an encoding"), encoding);
        }
    }

    #[test]
    fn encodings_of_older_versions_are_read() {
        let text = r#"{"label":{"column":"y","negative":0.0,"positive":1.0},"weight":null,"intercept":true,"features":[
            {"column":"age","coding":{"number":{"center":40.0,"scale":10.0}}},
            {"column":"city","coding":{"levels":{"reference":"B","levels":["A","C"]}}}]}"#;
        assert_eq!(serde_json::from_str::<Encoding>(text).expect("an encoding"), encoding());
        let boolean = serde_json::from_str::<Coding>(r#""boolean""#).expect("a coding");
        assert_eq!((boolean.is_standardized(), boolean), (false, Coding::Boolean));
    }

    /// The encoding with substitutes: an indicator for the age, and one level for missing and one for rare cities.
    fn with_substitutes() -> Encoding {
        let mut encoding = encoding();
        encoding.features[0].substitutes.missing =
            Some(Substitute::Number { value: 45.0, indicator: Some(0.25) });
        let levels = ["(missing)", "A", "other"].map(str::to_string);
        encoding.features[1].coding =
            Coding::Levels { reference: "B".into(), levels: levels.into(), centers: Vec::new() };
        encoding.features[1].substitutes =
            Substitutes { missing: Some(Substitute::Level("(missing)".into())), other: Some("other".into()) };
        encoding
    }

    #[test]
    fn substitutes_are_used_for_missing_values_and_rare_levels() {
        let encoding = with_substitutes();
        let names = ["intercept", "age", "age=(missing)", "city=(missing)", "city=A", "city=other"];
        assert_eq!(encoding.coefficient_names(), names);
        let mut city = TextBuilder::default();
        [Some("A"), None, Some("Z"), Some("B")].into_iter().for_each(|level| city.push(level));
        let ages = vec![50.0, MISSING, f64::NAN, 30.0];
        let labels = Column::Number(vec![1.0, 1.0, 0.0, 1.0].into());
        let columns = vec![Column::Number(ages.into()), city.finish(), labels];
        let block = Block::new(0, 0, Segment { columns, len: 4 });
        assert_eq!(encoding.first_unusable(&block), None);
        let encoder = encoding.encoder(&block).expect("an encoder");
        let mut scratch = encoder.scratch();
        let tile = encoder.tile(0, &mut scratch);
        let expected = [
            [1.0, 1.0, -0.25, 0.0, 1.0, 0.0],
            [1.0, 0.5, 0.75, 1.0, 0.0, 0.0],
            [-1.0, -0.5, -0.75, 0.0, 0.0, -1.0],
            [1.0, -1.0, -0.25, 0.0, 0.0, 0.0],
        ];
        for (row, expected) in expected.iter().enumerate() {
            let mut z = vec![0.0; 6];
            tile.copy_row(row, &mut z);
            assert_eq!(z, expected, "row {row}");
        }
        let substituted = encoding.features.iter().zip(&block.columns).map(|(feature, column)| {
            let column = feature.substituted(column);
            (0..4).map(|row| column.show(row)).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(substituted.collect::<Vec<_>>(), ["50 45 45 30", "'A' '(missing)' 'other' 'B'"]);
        // Without substitutes, the same values cannot be used.
        let mut without = encoding.clone();
        without.features[1].substitutes.missing = None;
        assert_eq!(without.first_unusable(&block), Some((1, 1)));
        without.features[0].substitutes.missing = None;
        assert_eq!(without.first_unusable(&block), Some((1, 0)));
        let theta = [0.3, -1.2, 0.5, 0.7, 0.1, 0.2];
        let beta = encoding.to_user_scale(&theta);
        let on_model_scale = theta[0] + theta[1] * 0.5 + theta[2] * 0.75;
        assert!((beta[0] + beta[1] * 45.0 + beta[2] - on_model_scale).abs() < 1e-12);
    }

    #[test]
    fn an_unseen_level_is_an_error() {
        let mut other = encoding();
        other.features[1].coding =
            Coding::Levels { reference: "B".into(), levels: vec!["A".into()], centers: Vec::new() };
        let error = other.encoder(&block(9)).err().expect("an error");
        assert_eq!(
            error.to_string(),
            "column 'city': the level 'C' in row 1 did not occur when the encoding was learnt"
        );
    }
}
