//! Evaluates the terms of a formula on the rows of a block, tile by tile.

use std::collections::HashMap;
use std::ops::Range;

use super::basis::{Basis, MOST_COLUMNS};
use super::design::{Design, DesignColumn, DesignTerm, Function, Numeric, Values, operate};
use crate::base::error::{Error, ErrorKind, Result};
use crate::data::block::{Block, row_name};
use crate::data::points::{Lane, TILE};
use crate::formula::Operator;

/// The values of a feature in a block.
pub(crate) enum Raw<'a> {
    /// Numbers.
    Numbers(&'a [f64]),
    /// Text: the codes, and for each code the position of its level among all sorted levels.
    Levels(&'a [u32], Vec<u32>),
}

/// A number that is computed for each row of a tile.
enum Step<'a> {
    Column(&'a [f64]),
    Constant(f64),
    Negate(usize),
    Binary(Operator, usize, usize),
    Apply(Function, usize),
    Scale(usize, f64, f64),
    Basis(usize, &'a Basis),
    Interval(usize, &'a [f64]),
}

/// The steps that compute expressions; equal expressions are computed once. Each step writes to one lane, a basis to several.
#[derive(Default)]
pub(super) struct Program<'a> {
    steps: Vec<(Step<'a>, usize)>,
    lanes: usize,
    numbers: Vec<(&'a Numeric, usize)>,
    bases: Vec<(&'a Basis, usize, usize)>,
}

impl<'a> Program<'a> {
    fn add(&mut self, step: Step<'a>, width: usize) -> usize {
        let first = self.lanes;
        self.steps.push((step, first));
        self.lanes += width;
        first
    }

    /// The number of lanes that it writes.
    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    /// The lane of an expression.
    pub(super) fn number(&mut self, of: &'a Numeric, raw: &[Raw<'a>]) -> usize {
        if let Some((_, lane)) = self.numbers.iter().find(|(known, _)| *known == of) {
            return *lane;
        }
        let step = match of {
            Numeric::Column(feature) => match raw.get(*feature) {
                Some(Raw::Numbers(values)) => Step::Column(values),
                // The encoding was checked: this does not happen.
                _ => Step::Constant(f64::NAN),
            },
            Numeric::Constant(number) => Step::Constant(*number),
            Numeric::Negated(of) => Step::Negate(self.number(of, raw)),
            Numeric::Binary(operator, left, right) => {
                Step::Binary(*operator, self.number(left, raw), self.number(right, raw))
            }
            Numeric::Apply(function, of) => Step::Apply(*function, self.number(of, raw)),
            Numeric::Scaled(of, center, scale) => Step::Scale(self.number(of, raw), *center, *scale),
        };
        let lane = self.add(step, 1);
        self.numbers.push((of, lane));
        lane
    }

    /// The first lane of a basis.
    fn basis(&mut self, of: &'a Numeric, basis: &'a Basis, raw: &[Raw<'a>]) -> usize {
        let argument = self.number(of, raw);
        if let Some((.., lane)) = self.bases.iter().find(|(known, at, _)| *at == argument && *known == basis)
        {
            return *lane;
        }
        let lane = self.add(Step::Basis(argument, basis), basis.width());
        self.bases.push((basis, argument, lane));
        lane
    }

    /// Computes all lanes for some rows. Padding repeats the last row, so that it has usable values.
    #[inline(always)]
    pub(super) fn run(&self, rows: &Range<usize>, lanes: &mut [Lane]) {
        for (step, at) in &self.steps {
            let (before, from) = lanes.split_at_mut(*at);
            let Some((lane, _)) = from.split_first_mut() else { continue };
            match step {
                Step::Column(values) => {
                    let values = &values[rows.clone()];
                    lane[..values.len()].copy_from_slice(values);
                    lane[values.len()..].fill(values.last().copied().unwrap_or(0.0));
                }
                Step::Constant(number) => lane.fill(*number),
                Step::Negate(of) => map(lane, &before[*of], |x| -x),
                Step::Scale(of, center, scale) => map(lane, &before[*of], |x| (x - center) / scale),
                Step::Apply(function, of) => map(lane, &before[*of], |x| function.apply(x)),
                Step::Binary(Operator::Multiply, left, right) => {
                    *lane = before[*left];
                    multiply(lane, &before[*right]);
                }
                Step::Binary(operator, left, right) => {
                    for r in 0..TILE {
                        lane[r] = operate(*operator, before[*left][r], before[*right][r]);
                    }
                }
                Step::Interval(of, breaks) => {
                    map(lane, &before[*of], |x| breaks.partition_point(|limit| *limit < x) as f64);
                }
                Step::Basis(of, basis) => {
                    let width = basis.width();
                    let mut values = [0.0; MOST_COLUMNS];
                    for r in 0..TILE {
                        basis.evaluate(before[*of][r], &mut values[..width]);
                        from.iter_mut().zip(&values[..width]).for_each(|(lane, value)| lane[r] = *value);
                    }
                }
            }
        }
    }

    /// Returns an error for the first row where an expression is infinite or undefined.
    pub(super) fn check(&self, block: &Block, raw: &[Raw<'_>], name: impl Fn(usize) -> String) -> Result<()> {
        let partial: Vec<&(&Numeric, usize)> =
            self.numbers.iter().filter(|(of, _)| of.is_partial()).collect();
        if partial.is_empty() {
            return Ok(());
        }
        let mut lanes = vec![Lane::ZERO; self.lanes];
        for start in (0..block.len).step_by(TILE) {
            let rows = start..block.len.min(start + TILE);
            self.run(&rows, &mut lanes);
            for (of, lane) in &partial {
                let values = &lanes[*lane][..rows.len()];
                if let Some(r) = values.iter().position(|value| !value.is_finite()) {
                    return Err(undefined(of, values[r], (block, start + r), raw, name));
                }
            }
        }
        Ok(())
    }
}

/// An error that names the row of an infinite or undefined value, and the numbers that it comes from.
fn undefined(
    of: &Numeric,
    value: f64,
    (block, row): (&Block, usize),
    raw: &[Raw<'_>],
    name: impl Fn(usize) -> String,
) -> Error {
    let mut features = Vec::new();
    of.features(&mut |feature| features.push(feature));
    features.dedup();
    let at = |feature: &usize| match raw.get(*feature) {
        Some(Raw::Numbers(values)) => format!("{} = {}", name(*feature), values[row]),
        _ => String::new(),
    };
    let values: Vec<String> = features.iter().map(at).collect();
    let kind = if value.is_nan() { "undefined" } else { "infinite" };
    ErrorKind::Column {
        column: features.first().map_or(String::new(), |feature| name(*feature)),
        what: format!(
            "{} is {kind} in {}, where {}",
            of.describe(&name),
            row_name(block.position(row)),
            values.join(" and ")
        ),
        help: Some("change the term of the formula, or leave such rows out".into()),
    }
    .into()
}

#[inline(always)]
fn map(to: &mut Lane, from: &Lane, function: impl Fn(f64) -> f64) {
    for r in 0..TILE {
        to[r] = function(from[r]);
    }
}

#[inline(always)]
fn multiply(to: &mut Lane, by: &Lane) {
    for r in 0..TILE {
        to[r] *= by[r];
    }
}

/// The terms of a design, prepared for the rows of a block.
pub(crate) struct DesignInput<'a> {
    program: Program<'a>,
    terms: Vec<TermInput<'a>>,
    raw: Vec<Raw<'a>>,
}

/// The input of the lanes of one term.
struct TermInput<'a> {
    /// The first lane of the model matrix.
    first: usize,
    columns: &'a [DesignColumn],
    /// For each distinct combination of numbers, the lanes to multiply.
    numbers: Vec<Vec<usize>>,
    /// For each column its combination, if there are no levels.
    of_column: Vec<usize>,
    cells: Option<Cells>,
}

/// The columns of a term with levels.
struct Cells {
    levels: Vec<LevelSource>,
    /// The columns of a cell, one per combination of numbers, by the cell's key.
    columns: HashMap<u64, Vec<Option<u32>>>,
}

/// Where the level of a row comes from, and the number of levels.
enum LevelSource {
    Feature(usize, u64),
    Interval(usize, u64),
}

impl Cells {
    /// The key of the cell with these levels.
    fn key(&self, level: impl Fn(&LevelSource) -> u64) -> u64 {
        self.levels.iter().fold(0, |key, source| {
            let (LevelSource::Feature(_, count) | LevelSource::Interval(_, count)) = source;
            key.wrapping_mul(*count).wrapping_add(level(source))
        })
    }
}

impl<'a> DesignInput<'a> {
    /// Prepares a design whose first column has number `first` in the model matrix.
    pub(crate) fn new(design: &'a Design, raw: Vec<Raw<'a>>, first: usize) -> DesignInput<'a> {
        let mut input = DesignInput { program: Program::default(), terms: Vec::new(), raw };
        let mut first = first;
        for term in &design.terms {
            let prepared = input.term(term, first);
            input.terms.push(prepared);
            first += term.columns.len();
        }
        input
    }

    /// The number of lanes that it needs besides those of the model matrix.
    pub(crate) fn lanes(&self) -> usize {
        self.program.lanes()
    }

    fn term(&mut self, term: &'a DesignTerm, first: usize) -> TermInput<'a> {
        // For each factor of numbers the lane of its column 0.
        let mut lanes = Vec::with_capacity(term.factors.len());
        let mut levels = Vec::new();
        for factor in &term.factors {
            // One more, for rows whose level has no column.
            let count = factor.values.width() as u64 + 1;
            let lane = match &factor.values {
                Values::Number(of) => Some(self.program.number(of, &self.raw)),
                Values::Basis(of, basis) => Some(self.program.basis(of, basis, &self.raw)),
                Values::Levels { feature, .. } => {
                    levels.push(LevelSource::Feature(*feature, count));
                    None
                }
                Values::Intervals(of, breaks) => {
                    let argument = self.program.number(of, &self.raw);
                    let lane = self.program.add(Step::Interval(argument, breaks), 1);
                    levels.push(LevelSource::Interval(lane, count));
                    None
                }
            };
            lanes.push(lane);
        }
        let mut numbers: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut of_column = Vec::with_capacity(term.columns.len());
        for column in &term.columns {
            let parts = column.parts.iter().zip(&lanes);
            let own: Vec<usize> = parts.filter_map(|(part, lane)| Some((*lane)? + *part as usize)).collect();
            let at = *known.entry(own).or_insert_with_key(|own| {
                numbers.push(own.clone());
                numbers.len() - 1
            });
            of_column.push(at);
        }
        let cells = (!levels.is_empty()).then(|| {
            let mut cells = Cells { levels, columns: HashMap::new() };
            for (at, column) in term.columns.iter().enumerate() {
                let parts = column.parts.iter().zip(&lanes).filter(|(_, lane)| lane.is_none());
                let mut parts = parts.map(|(part, _)| u64::from(*part)).collect::<Vec<_>>().into_iter();
                let key = cells.levels.iter().fold(0u64, |key, source| {
                    let (LevelSource::Feature(_, count) | LevelSource::Interval(_, count)) = source;
                    key.wrapping_mul(*count).wrapping_add(parts.next().unwrap_or(0))
                });
                let of_cell = cells.columns.entry(key).or_insert_with(|| vec![None; numbers.len()]);
                of_cell[of_column[at]] = Some(at as u32);
            }
            cells
        });
        TermInput { first, columns: &term.columns, numbers, of_column, cells }
    }

    /// Returns an error for the first row where an expression is infinite or undefined, such as the logarithm of a negative number.
    pub(crate) fn check(&self, block: &Block, name: impl Fn(usize) -> String) -> Result<()> {
        self.program.check(block, &self.raw, name)
    }

    /// Writes some rows to their lanes of a tile; `lanes` is a buffer of [`DesignInput::lanes`] lanes.
    #[inline(always)]
    pub(crate) fn fill(&self, rows: Range<usize>, y: &Lane, z: &mut [Lane], lanes: &mut [Lane]) {
        self.program.run(&rows, lanes);
        for term in &self.terms {
            let z = &mut z[term.first..term.first + term.columns.len()];
            match &term.cells {
                None => term.fill_numbers(y, z, lanes),
                Some(cells) => term.fill_cells(cells, &self.raw, rows.clone(), y, z, lanes),
            }
        }
    }
}

impl TermInput<'_> {
    #[inline(always)]
    fn fill_numbers(&self, y: &Lane, z: &mut [Lane], lanes: &[Lane]) {
        for ((z, column), numbers) in z.iter_mut().zip(self.columns).zip(&self.of_column) {
            let (center, factor) = (column.center, 1.0 / column.scale);
            let Some((first, others)) = self.numbers[*numbers].split_first() else { continue };
            match others {
                [] => {
                    for r in 0..TILE {
                        z[r] = (lanes[*first][r] - center) * factor * y[r];
                    }
                }
                [other] => {
                    let (one, other) = (&lanes[*first], &lanes[*other]);
                    for r in 0..TILE {
                        z[r] = (one[r] * other[r] - center) * factor * y[r];
                    }
                }
                _ => {
                    *z = lanes[*first];
                    others.iter().for_each(|other| multiply(z, &lanes[*other]));
                    for r in 0..TILE {
                        z[r] = (z[r] - center) * factor * y[r];
                    }
                }
            }
        }
    }

    /// Each row has one cell; the columns of all other cells have the value 0 there.
    #[inline(always)]
    fn fill_cells(
        &self,
        cells: &Cells,
        raw: &[Raw<'_>],
        rows: Range<usize>,
        y: &Lane,
        z: &mut [Lane],
        lanes: &[Lane],
    ) {
        for (z, column) in z.iter_mut().zip(self.columns) {
            let zero = -column.center * (1.0 / column.scale);
            for r in 0..TILE {
                z[r] = zero * y[r];
            }
        }
        for (r, row) in rows.enumerate() {
            let key = cells.key(|source| match source {
                LevelSource::Feature(feature, count) => match raw.get(*feature) {
                    Some(Raw::Levels(codes, levels)) => levels
                        .get(codes[row] as usize)
                        .map_or(count - 1, |level| u64::from(*level).min(count - 1)),
                    _ => count - 1,
                },
                LevelSource::Interval(lane, _) => lanes[*lane][r] as u64,
            });
            let Some(columns) = cells.columns.get(&key) else { continue };
            for (numbers, column) in self.numbers.iter().zip(columns) {
                if let Some(at) = column {
                    let at = *at as usize;
                    let DesignColumn { center, scale, .. } = self.columns[at];
                    let x = numbers.iter().fold(1.0, |x, lane| x * lanes[*lane][r]);
                    z[at][r] = (x - center) * (1.0 / scale) * y[r];
                }
            }
        }
    }
}
