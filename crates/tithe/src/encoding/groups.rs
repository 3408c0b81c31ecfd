//! The encoding of rows with their groups, for hierarchical models.

use std::sync::Arc;

use super::coding::{Coding, Encoder, Encoding, Feature, Scratch, unseen_level};
use super::factor::{GroupFactor, MOST_GROUPS};
use crate::base::error::{Error, ErrorKind, Help, Remedy, Result};
use crate::data::block::{Block, Column, row_name};
use crate::data::grouped::{GroupedPoints, GroupedTile, Memberships};
use crate::data::points::{Points, TILE};

/// A column of the model matrix whose effect varies by group.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Varying {
    Intercept,
    /// The column of the model matrix, and what to add to its values: where intercept and slopes are independent, or no intercept
    /// varies, slopes refer to columns that are not centred.
    Column {
        lane: usize,
        shift: f64,
    },
}

impl Encoding {
    /// The levels of a grouping factor, sorted: group g is level g.
    pub fn group_levels(&self, factor: &GroupFactor) -> &[String] {
        let of_factor = self.features.iter().find(|feature| feature.column == factor.column);
        match of_factor.map(|feature| &feature.coding) {
            Some(Coding::Groups { levels }) => levels,
            _ => &[],
        }
    }

    /// The names of the effects of one group: `1` for the intercept, otherwise the coefficient that varies.
    pub fn effect_names(&self, factor: &GroupFactor) -> Vec<String> {
        let names = self.coefficient_names();
        let of_effect = |varying: &Varying| match varying {
            Varying::Intercept => "1".to_string(),
            Varying::Column { lane, .. } => names.get(*lane).cloned().unwrap_or_default(),
        };
        self.varying(factor).iter().map(of_effect).collect()
    }

    /// Returns an error if the slope of a column that has no coefficient is said to vary: it would be left out.
    pub(super) fn check_slopes(&self) -> Result<()> {
        for factor in &self.groups {
            for slope in &factor.slopes {
                let alone = GroupFactor { intercept: false, slopes: vec![slope.clone()], ..factor.clone() };
                if self.varying(&alone).is_empty() {
                    return Err(ErrorKind::Column {
                        column: slope.clone(),
                        what: format!(
                            "has an effect that varies by '{}', but no fixed effect",
                            factor.column
                        ),
                        help: Some("add it to the fixed effects as well".into()),
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    /// The columns whose effects vary.
    fn varying(&self, factor: &GroupFactor) -> Vec<Varying> {
        let mut varying: Vec<Varying> = factor.intercept.then_some(Varying::Intercept).into_iter().collect();
        let (names, (centers, scales)) = (self.coefficient_names(), self.transform());
        let is_centred = factor.intercept && factor.correlated;
        for slope in &factor.slopes {
            // Of a feature with levels the effects of all levels vary: `city=Bern`, or `city[Bern]` in a formula.
            let belongs = |name: &str| {
                name.strip_prefix(slope.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', '[']))
            };
            let lanes = (0..names.len()).filter(|&lane| belongs(&names[lane]));
            varying.extend(lanes.map(|lane| {
                let shift = if is_centred { 0.0 } else { centers[lane] / scales[lane] };
                Varying::Column { lane, shift }
            }));
        }
        varying
    }

    /// Prepares the encoding of a block as points with their groups in the first grouping factor.
    pub fn grouped_encoder<'a>(&'a self, block: &'a Block) -> Result<GroupedEncoder<'a>> {
        let factor = self.groups.first().ok_or_else(|| {
            let what = "has no grouping factor".to_string();
            Error::from(ErrorKind::Column { column: self.label.column.clone(), what, help: None })
        })?;
        let at = self.features.iter().position(|feature| feature.column == factor.column);
        let (codes, group_of_code) =
            match at.and_then(|at| Some((&self.features[at], block.columns.get(at)?))) {
                Some((feature, Column::Text { codes, levels })) => {
                    (&codes[..], groups_of_codes(feature, block, codes, levels)?)
                }
                _ => return Err(not_text(&factor.column)),
            };
        let varying = self.varying(factor);
        let groups = self.group_levels(factor).len();
        Ok(GroupedEncoder { encoder: self.encoder(block)?, codes, group_of_code, varying, groups })
    }
}

/// The group of each code of a block.
fn groups_of_codes(
    feature: &Feature,
    block: &Block,
    codes: &[u32],
    own: &Arc<Vec<String>>,
) -> Result<Vec<u32>> {
    let Coding::Groups { levels } = &feature.coding else { return Err(not_text(&feature.column)) };
    let group = |(code, level): (usize, &String)| match levels.binary_search(level) {
        Ok(group) => Ok(group as u32),
        // A dictionary may have levels that no row has.
        Err(_) => match codes.iter().position(|&own| own as usize == code) {
            Some(row) => Err(unseen_level(&feature.column, level, &row_name(block.position(row)))),
            None => Ok(0),
        },
    };
    own.iter().enumerate().map(group).collect()
}

/// The error for a grouping factor that was read as numbers.
pub(crate) fn not_text(column: &str) -> Error {
    ErrorKind::Column {
        column: column.to_string(),
        what: "names the groups, so it must be read as text".to_string(),
        help: Some(Remedy::ReadAsText(Some(column.to_string())).into()),
    }
    .into()
}

/// Encodes a block as points with their groups, one tile at a time.
pub struct GroupedEncoder<'a> {
    encoder: Encoder<'a>,
    codes: &'a [u32],
    group_of_code: Vec<u32>,
    varying: Vec<Varying>,
    groups: usize,
}

/// Buffers for one tile.
pub struct GroupedScratch {
    fixed: Scratch,
    group: Vec<u32>,
    effects: Vec<f64>,
}

impl GroupedEncoder<'_> {
    /// Buffers for its tiles.
    pub fn scratch(&self) -> GroupedScratch {
        GroupedScratch { fixed: self.encoder.scratch(), group: Vec::new(), effects: Vec::new() }
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The number of effects per group.
    pub fn width(&self) -> usize {
        self.varying.len()
    }

    /// The number of tiles in the block.
    pub fn tiles(&self) -> usize {
        self.encoder.tiles()
    }

    /// Tile `t`: rows as points with their weights and groups.
    pub fn tile<'s>(&'s self, t: usize, scratch: &'s mut GroupedScratch) -> GroupedTile<'s> {
        let GroupedScratch { fixed, group, effects } = scratch;
        let len = self.encoder.tile(t, fixed).len;
        group.clear();
        let codes = &self.codes[t * TILE..t * TILE + len];
        group.extend(codes.iter().map(|&code| self.group_of_code.get(code as usize).copied().unwrap_or(0)));
        effects.clear();
        for row in 0..len {
            effects.extend(self.varying.iter().map(|varying| match varying {
                Varying::Intercept => fixed.signs()[row],
                Varying::Column { lane, shift } => fixed.column(*lane)[row] + shift * fixed.signs()[row],
            }));
        }
        GroupedTile { fixed: fixed.tile(len), group, effects }
    }

    /// All rows of the block.
    pub fn points(&self) -> GroupedPoints {
        let mut scratch = self.scratch();
        let mut points = GroupedPoints {
            fixed: Points::new(self.encoder.dim()),
            factors: vec![Memberships::new(self.groups, self.width())],
        };
        for t in 0..self.tiles() {
            points.push_tile(&self.tile(t, &mut scratch));
        }
        points
    }
}

/// The coding of a column of groups, from the levels that occurred.
pub(super) fn learn_groups(column: &str, levels: Vec<String>, too_many: bool) -> Result<Coding> {
    let error = |what: String, help: Help| {
        Err(ErrorKind::Column { column: column.to_string(), what, help: Some(help) }.into())
    };
    if too_many {
        let what = format!("has more than {MOST_GROUPS} groups, the most that a grouping factor may have");
        return error(what, "group by a coarser column".into());
    }
    match &levels[..] {
        [] | [_] => {
            let only = levels.first().map_or(String::new(), |level| format!(", '{level}'"));
            let what = format!("has only one group{only}: effects that vary by group need at least two");
            error(what, "leave the group out of the model".into())
        }
        _ => Ok(Coding::Groups { levels }),
    }
}
