//! Settings of the encoding.

use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Result, Setting};
use crate::encoding::{Coding, Encoding, Feature, GroupFactor, Standardize, Unseen};
use crate::formula::Formula;

/// Settings of the encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "internals"), non_exhaustive)]
pub struct EncodingSettings {
    /// Add an intercept.
    pub intercept: bool,
    /// Which columns are centred and scaled.
    pub standardize: Standardize,
    /// The positive value of the label; needed only if the label is text.
    pub positive: Option<String>,
    /// The largest number of levels of a text column, after rare ones were grouped.
    pub max_levels: usize,
    /// The grouping factors of a hierarchical model. Their columns must be read as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupFactor>,
    #[doc(hidden)]
    /// A known encoding to use instead of learning one; the data must fit it.
    pub known: Option<Encoding>,
    /// The treatment of levels that did not occur when the encoding was learnt.
    pub unseen: Unseen,
    /// The formula, such as `y ~ age * city + bs(income, df=5)`. It decides about the intercept. Without one, every feature is a term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// Levels in fewer rows than this (by weight, if rows are weighted) are grouped into the level "other"; 0 groups none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_level_rows: u64,
}

/// The level that rare levels are grouped into.
pub const OTHER_LEVEL: &str = "other";

/// The largest number of levels that are counted before rare ones are grouped.
const LEVELS_COUNTED: usize = 100_000;

fn is_zero(rows: &u64) -> bool {
    *rows == 0
}

impl Default for EncodingSettings {
    fn default() -> EncodingSettings {
        EncodingSettings {
            intercept: true,
            standardize: Standardize::default(),
            positive: None,
            max_levels: 100,
            groups: Vec::new(),
            known: None,
            unseen: Unseen::Error,
            formula: None,
            min_level_rows: 0,
        }
    }
}

impl EncodingSettings {
    /// The same settings with the intercept of a formula.
    pub(super) fn with(&self, formula: Option<&Formula>) -> EncodingSettings {
        let intercept = formula.map_or(self.intercept, |formula| formula.fixed.intercept);
        EncodingSettings { intercept, ..self.clone() }
    }

    /// Whether columns are centred.
    pub(super) fn is_centred(&self, is_sparse: bool) -> bool {
        self.standardize != Standardize::None && self.intercept && !is_sparse
    }

    /// The number of levels of a text column that the survey counts.
    pub(super) fn levels_counted(&self) -> usize {
        let groups = self.min_level_rows > 0 || self.known.iter().any(Encoding::groups_levels);
        if groups { LEVELS_COUNTED.max(self.max_levels) } else { self.max_levels }
    }

    #[doc(hidden)]
    /// Returns an error if a setting contradicts a known encoding, which is used unchanged.
    pub fn check_against(
        &self,
        known: &Encoding,
        label: Option<&str>,
        features: Option<&[String]>,
        exclude: &[String],
    ) -> Result<()> {
        let is_feature = |name: &String| known.features.iter().any(|feature| feature.column == *name);
        let is_other = |feature: &Feature| match self.standardize {
            Standardize::Numeric => false,
            Standardize::All => {
                !matches!(feature.coding, Coding::Number { .. }) && feature.coding.is_standardized()
            }
            Standardize::None => feature.coding.is_standardized(),
        };
        let is_other = |feature: &Feature| known.design.is_none() && is_other(feature);
        let of_known = known.design.as_ref().map(|design| &design.formula);
        let others = |named: &[String]| named.len() != known.features.len() || !named.iter().all(is_feature);
        let contradictions = [
            (Setting::Label, label.is_some_and(|label| label != known.label.column)),
            (
                Setting::Positive,
                self.positive.as_ref().is_some_and(|word| !known.label.positive.is_named(word)),
            ),
            (Setting::Features, features.is_some_and(others)),
            (Setting::Exclude, exclude.iter().any(is_feature)),
            (Setting::Intercept, !self.intercept && known.intercept),
            (Setting::Formula, self.formula.is_some() && self.formula.as_ref() != of_known),
            (Setting::Standardize, known.features.iter().any(is_other)),
        ];
        match contradictions.iter().find(|(_, found)| *found) {
            Some((setting, _)) => {
                Err(Error::setting(*setting, "contradicts the given encoding, which is used as it is"))
            }
            None => Ok(()),
        }
    }
}
