//! Learns what the terms of a formula need from the data: knots, orthogonal polynomials, combinations of levels, means and standard
//! deviations of the columns.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::basis::hermite_polynomials;
use super::compile::{Available, Compiler, Fact, Request, Summary};
use super::design::{Design, DesignColumn, DesignTerm, Numeric, Values};
use super::evaluate::{Program, Raw};
use crate::base::error::{ErrorKind, Help, Remedy, Result, Setting};
use crate::base::rng::{CounterRng, Purpose, Seed};
use crate::data::block::Block;
use crate::data::fingerprint::STRIP;
use crate::data::points::{Lane, TILE};
use crate::encoding::coding::{Coding, Encoding};
use crate::encoding::moments::{MomentSums, Moments};
use crate::encoding::standardize::Standardize;
use crate::engine::Engine;
use crate::engine::parts::{part_ranges, process_parts};
use crate::engine::pass::Pass;
use crate::formula::Formula;

/// Quantiles come from this many random rows, or from all rows if there are fewer.
const SAMPLE: usize = 10_000;
/// An interaction may have this many times as many occurring combinations of levels as a column may have levels.
const CELLS_PER_LEVEL: usize = 10;

/// How the terms enter the model.
pub(crate) struct TermSettings {
    pub standardize: Standardize,
    /// Whether columns are centred.
    pub is_centred: bool,
    /// The most levels of a column of text.
    pub max_levels: usize,
    pub seed: Seed,
}

/// The encoding with the terms of a formula, and warnings for the user. `encoding` has the formula's columns as features.
pub(crate) fn with_formula(
    engine: &impl Engine,
    mut encoding: Encoding,
    formula: &Formula,
    settings: &TermSettings,
) -> Result<(Encoding, Vec<String>)> {
    if formula.fixed.terms.is_empty() && !encoding.groups.is_empty() && encoding.intercept {
        // The features are the columns of the groups, which have no coefficients.
        return Ok((encoding, Vec::new()));
    }
    let names: Vec<String> = encoding.features.iter().map(|feature| feature.column.clone()).collect();
    let columns: Vec<Available> =
        encoding.features.iter().map(|feature| available(&feature.coding)).collect();
    let mut facts: Vec<(Request, Fact)> = Vec::new();
    let design = loop {
        let short_names = Default::default();
        let mut compiler = Compiler {
            formula,
            names: &names,
            columns: &columns,
            facts: &facts,
            requests: Vec::new(),
            short_names,
        };
        match compiler.design()? {
            Some(design) => break design,
            None => {
                let requests = compiler.requests;
                let limit = CELLS_PER_LEVEL * settings.max_levels;
                let pass = LearningTerms {
                    encoding: Cow::Borrowed(&encoding),
                    requests,
                    limit,
                    seed: settings.seed,
                };
                facts.extend(pass.facts(engine)?);
            }
        }
    };
    if design.width() == 0 {
        return Err(formula.error(0, "the formula has no terms"));
    }
    encoding.design = Some(design);
    encoding.distinct_names()?;
    let warnings = standardize(engine, &mut encoding, settings)?;
    Ok((encoding, warnings))
}

fn available(coding: &Coding) -> Available {
    match coding {
        Coding::Levels { reference, .. } => {
            let levels = coding.sorted_levels();
            let position = levels.iter().position(|level| level == reference).unwrap_or(0);
            Available::Text(position as u32, levels.into_iter().map(str::to_string).collect())
        }
        _ => Available::Number,
    }
}

/// Centres and scales the columns of the model matrix. A column that is a feature has its coding; the others need a pass.
fn standardize(
    engine: &impl Engine,
    encoding: &mut Encoding,
    settings: &TermSettings,
) -> Result<Vec<String>> {
    let Some(mut design) = encoding.design.clone() else { return Ok(Vec::new()) };
    let own: Vec<Option<(f64, f64)>> = design
        .terms
        .iter()
        .flat_map(|term| term.columns.iter().map(|column| coding_of(encoding, term, column)))
        .collect();
    let mut warnings = Vec::new();
    let moments = if own.iter().all(Option::is_some) {
        Vec::new()
    } else {
        engine.run(&ColumnMoments { encoding: Cow::Borrowed(encoding) })?.unwrap_or_default()
    };
    let names = design.names();
    let mut at = 0;
    for term in &mut design.terms {
        let is_indicator = term.factors.iter().all(|factor| factor.values.is_categorical());
        for column in &mut term.columns {
            (column.center, column.scale) = match (own[at], moments.get(at)) {
                (Some(own), _) => own,
                (None, Some(moments)) => {
                    transform(&names[at], moments, is_indicator, settings, &mut warnings)?
                }
                (None, None) => (0.0, 1.0),
            };
            at += 1;
        }
    }
    encoding.design = Some(design);
    Ok(warnings)
}

/// The center and scale of a column that is a feature, or an indicator of one of its levels.
fn coding_of(encoding: &Encoding, term: &DesignTerm, column: &DesignColumn) -> Option<(f64, f64)> {
    let [factor] = &term.factors[..] else { return None };
    match &factor.values {
        Values::Number(Numeric::Column(feature)) => encoding.features[*feature].coding.transform().next(),
        Values::Levels { feature, reference, levels } => {
            let part = column.parts[0];
            let coding = &encoding.features[*feature].coding;
            let Coding::Levels { reference: usual, .. } = coding else { return None };
            let is_usual = levels.get(*reference as usize) == Some(usual) && part != *reference;
            let before = usize::from(part > *reference);
            coding.transform().nth((part as usize).checked_sub(before)?).filter(|_| is_usual)
        }
        _ => None,
    }
}

/// The center and scale of a column with these moments.
fn transform(
    name: &str,
    moments: &Moments,
    is_indicator: bool,
    settings: &TermSettings,
    warnings: &mut Vec<String>,
) -> Result<(f64, f64)> {
    let Moments { mass, mean, squares, has_other_values, .. } = *moments;
    let sd = (squares / mass).sqrt();
    if !(sd * sd * mass).is_finite() || !(mean * mean).is_finite() {
        return Err(ErrorKind::Column {
            column: name.to_string(),
            what: "the values of this term are too large to be squared".to_string(),
            help: Some("scale the columns of the term".into()),
        }
        .into());
    }
    if sd == 0.0 {
        warnings.push(format!(
            "the term '{name}' is constant: the data contains no information about its coefficient"
        ));
    }
    let center = if settings.is_centred { mean } else { 0.0 };
    Ok(match settings.standardize {
        Standardize::None => (0.0, 1.0),
        Standardize::All if is_indicator => (0.0, 1.0),
        Standardize::Numeric if is_indicator || !has_other_values => (center, 1.0),
        _ => (center, if sd > 0.0 { sd } else { 1.0 }),
    })
}

/// The pass that learns what terms need.
#[derive(Serialize, Deserialize)]
pub(crate) struct LearningTerms<'a> {
    encoding: Cow<'a, Encoding>,
    requests: Vec<Request>,
    /// The most combinations of levels.
    limit: usize,
    seed: Seed,
}

/// What some blocks contribute to a request.
#[derive(Serialize, Deserialize)]
pub(crate) enum Partial {
    Summary { moments: Moments, low: f64, high: f64, sample: Vec<Sampled> },
    Products(Vec<f64>),
    Cells { cells: BTreeMap<Vec<u32>, f64>, too_many: bool },
}

/// A row of a random sample: those with the smallest keys are kept.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Sampled {
    key: f64,
    value: f64,
    weight: f64,
}

impl Partial {
    fn merge(&mut self, next: Partial, limit: usize) {
        match (self, next) {
            (
                Partial::Summary { moments, low, high, sample },
                Partial::Summary { moments: m, low: l, high: h, sample: s },
            ) => {
                moments.merge(m);
                *low = low.min(l);
                *high = high.max(h);
                sample.extend(s);
                keep_sample(sample);
            }
            (Partial::Products(sums), Partial::Products(next)) => {
                sums.iter_mut().zip(next).for_each(|(sum, next)| *sum += next);
            }
            (Partial::Cells { cells, too_many }, Partial::Cells { cells: next, too_many: more }) => {
                next.into_iter().for_each(|(cell, mass)| *cells.entry(cell).or_default() += mass);
                *too_many |= more || cells.len() > limit;
                if *too_many {
                    cells.clear();
                }
            }
            // Requests keep their order, so that kinds agree.
            _ => {}
        }
    }
}

/// Keeps the rows with the smallest keys; of a sample that is at most twice as large as wanted, all.
fn keep_sample(sample: &mut Vec<Sampled>) {
    if sample.len() > 2 * SAMPLE {
        shrink_sample(sample);
    }
}

fn shrink_sample(sample: &mut Vec<Sampled>) {
    if sample.len() > SAMPLE {
        sample.select_nth_unstable_by(SAMPLE - 1, |a, b| {
            (a.key, a.value).partial_cmp(&(b.key, b.value)).unwrap_or(std::cmp::Ordering::Equal)
        });
        sample.truncate(SAMPLE);
    }
}

/// A request, prepared for the rows of a block.
enum Target<'a> {
    Number(usize),
    Products { lane: usize, center: f64, scale: f64, degree: usize },
    Cells(Vec<CellSource<'a>>),
}

enum CellSource<'a> {
    Feature(usize),
    Interval(usize, &'a [f64]),
}

impl LearningTerms<'_> {
    fn facts(&self, engine: &impl Engine) -> Result<Vec<(Request, Fact)>> {
        let partials = engine.run(self)?.unwrap_or_default();
        let fact = |(request, partial): (&Request, Partial)| {
            let fact = match partial {
                Partial::Summary { moments: Moments { mass, mean, squares, .. }, low, high, mut sample } => {
                    shrink_sample(&mut sample);
                    let mut sample: Vec<(f64, f64)> =
                        sample.iter().map(|row| (row.value, row.weight)).collect();
                    sample.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
                    Fact::Summary(Summary { mass, mean, squares, low, high, sample })
                }
                Partial::Products(sums) => Fact::Products(sums),
                Partial::Cells { too_many: true, .. } => return Err(self.too_many_cells(request)),
                Partial::Cells { cells, .. } => Fact::Cells(cells),
            };
            Ok((request.clone(), fact))
        };
        self.requests.iter().zip(partials).map(fact).collect()
    }

    fn too_many_cells(&self, request: &Request) -> crate::base::error::Error {
        let mut columns: Vec<&str> = Vec::new();
        if let Request::Cells(values) = request {
            for values in values {
                match values {
                    Values::Levels { feature, .. } => columns.push(&self.encoding.features[*feature].column),
                    _ => columns.push("cut(…)"),
                }
            }
        }
        ErrorKind::Column {
            column: columns.join(":"),
            what: format!(
                "more than {} combinations of these levels occur, each with a coefficient",
                self.limit
            ),
            help: Some(Help::from([
                "leave the interaction out".into(),
                "group the levels".into(),
                Remedy::RaiseLimit(Setting::MaxLevels),
            ])),
        }
        .into()
    }

    fn targets<'s>(&'s self, program: &mut Program<'s>, raw: &[Raw<'s>]) -> Vec<Target<'s>> {
        let target = |request: &'s Request| match request {
            Request::Summary(of) => Target::Number(program.number(of, raw)),
            Request::Products { of, center, scale, degree } => Target::Products {
                lane: program.number(of, raw),
                center: *center,
                scale: *scale,
                degree: *degree,
            },
            Request::Cells(values) => {
                let source = |values: &'s Values| match values {
                    Values::Levels { feature, .. } => Some(CellSource::Feature(*feature)),
                    Values::Intervals(of, breaks) => {
                        Some(CellSource::Interval(program.number(of, raw), breaks))
                    }
                    _ => None,
                };
                Target::Cells(values.iter().filter_map(source).collect())
            }
        };
        self.requests.iter().map(target).collect()
    }

    /// What some strips of a block contribute.
    fn strips(
        &self,
        block: &Block,
        strips: Range<usize>,
        program: &Program<'_>,
        targets: &[Target<'_>],
        raw: &[Raw<'_>],
        keys: CounterRng,
    ) -> Vec<Partial> {
        let weights = self.encoding.weights(block);
        let mut lanes = vec![Lane::ZERO; program.lanes()];
        let mut sums = vec![MomentSums::default(); targets.len()];
        let mut partials: Vec<Partial> = targets.iter().map(Target::nothing).collect();
        let end = block.len.min(strips.end * STRIP);
        for start in (strips.start * STRIP..end).step_by(TILE) {
            let rows = start..end.min(start + TILE);
            program.run(&rows, &mut lanes);
            let of_rows = weights.map(|weights| &weights[rows.clone()]);
            let weight = |r: usize| of_rows.map_or(1.0, |weights| weights[r]);
            for ((target, partial), sums) in targets.iter().zip(&mut partials).zip(&mut sums) {
                match (target, partial) {
                    (Target::Number(lane), Partial::Summary { low, high, sample, .. }) => {
                        let values = &lanes[*lane][..rows.len()];
                        sums.add_rows(values, of_rows);
                        for (r, value) in values.iter().enumerate() {
                            *low = low.min(*value);
                            *high = high.max(*value);
                            sample.push(Sampled {
                                key: keys.unit((start + r) as u64),
                                value: *value,
                                weight: weight(r),
                            });
                        }
                        keep_sample(sample);
                    }
                    (Target::Products { lane, center, scale, degree }, Partial::Products(products)) => {
                        let mut hermite = vec![0.0; degree + 1];
                        for (r, value) in lanes[*lane][..rows.len()].iter().enumerate() {
                            hermite_polynomials((value - center) / scale, &mut hermite);
                            for (j, a) in hermite.iter().enumerate() {
                                for (k, b) in hermite.iter().enumerate() {
                                    products[j * (degree + 1) + k] += weight(r) * a * b;
                                }
                            }
                        }
                    }
                    (Target::Cells(sources), Partial::Cells { cells, too_many }) if !*too_many => {
                        for (r, row) in rows.clone().enumerate() {
                            let cell: Vec<u32> =
                                sources.iter().map(|source| source.level(raw, row, r, &lanes)).collect();
                            *cells.entry(cell).or_default() += weight(r);
                        }
                        *too_many = cells.len() > self.limit;
                    }
                    _ => {}
                }
            }
        }
        for (partial, sums) in partials.iter_mut().zip(&sums) {
            if let Partial::Summary { moments, .. } = partial {
                *moments = sums.moments();
            }
        }
        partials
    }
}

impl Target<'_> {
    fn nothing(&self) -> Partial {
        match self {
            Target::Number(_) => Partial::Summary {
                moments: Moments::default(),
                low: f64::INFINITY,
                high: f64::NEG_INFINITY,
                sample: Vec::new(),
            },
            Target::Products { degree, .. } => Partial::Products(vec![0.0; (degree + 1) * (degree + 1)]),
            Target::Cells(_) => Partial::Cells { cells: BTreeMap::new(), too_many: false },
        }
    }
}

impl CellSource<'_> {
    /// The level of row `row` of the block, which is row `r` of the tile.
    fn level(&self, raw: &[Raw<'_>], row: usize, r: usize, lanes: &[Lane]) -> u32 {
        match self {
            CellSource::Interval(lane, breaks) => {
                breaks.partition_point(|limit| *limit < lanes[*lane][r]) as u32
            }
            CellSource::Feature(feature) => match raw.get(*feature) {
                Some(Raw::Levels(codes, levels)) => {
                    levels.get(codes[row] as usize).copied().unwrap_or(u32::MAX)
                }
                _ => u32::MAX,
            },
        }
    }
}

impl Pass for LearningTerms<'_> {
    const ID: &'static str = "terms";
    const LABEL: &'static str = "learning the terms of the formula";
    type State = Vec<Partial>;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, _worker: &mut (), block: &Block) -> Result<Vec<Partial>> {
        let raw = self.encoding.raw(block)?;
        let mut program = Program::default();
        let targets = self.targets(&mut program, &raw);
        program.check(block, &raw, |feature| self.encoding.features[feature].column.clone())?;
        let keys = CounterRng::new(&mut self.seed.stream(Purpose::Terms, block.stream));
        let parts = part_ranges(block.len.div_ceil(STRIP)).collect();
        let of_parts =
            process_parts(parts, |strips| self.strips(block, strips, &program, &targets, &raw, keys));
        let mut all: Vec<Partial> = targets.iter().map(Target::nothing).collect();
        of_parts.into_iter().for_each(|next| self.merge(&mut all, next));
        Ok(all)
    }

    fn merge(&self, state: &mut Vec<Partial>, next: Vec<Partial>) {
        state.iter_mut().zip(next).for_each(|(ours, theirs)| ours.merge(theirs, self.limit));
    }
}

/// The pass that sums the moments of the columns of the model matrix.
#[derive(Serialize, Deserialize)]
pub(crate) struct ColumnMoments<'a> {
    encoding: Cow<'a, Encoding>,
}

impl ColumnMoments<'_> {
    fn width(&self) -> usize {
        self.encoding.design.as_ref().map_or(0, Design::width)
    }
}

impl Pass for ColumnMoments<'_> {
    const ID: &'static str = "column moments";
    const LABEL: &'static str = "summing the columns of the formula";
    type State = Vec<Moments>;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, _worker: &mut (), block: &Block) -> Result<Vec<Moments>> {
        let encoder = self.encoding.unlabelled_encoder(block)?;
        let weights = self.encoding.weights(block);
        let first = usize::from(self.encoding.intercept);
        let of_strips = |strips: Range<usize>| {
            let mut sums = vec![MomentSums::default(); self.width()];
            let mut scratch = encoder.scratch();
            let end = block.len.min(strips.end * STRIP);
            for start in (strips.start * STRIP..end).step_by(TILE) {
                let tile = encoder.tile(start / TILE, &mut scratch);
                let of_rows = weights.map(|weights| &weights[start..start + tile.len]);
                for (sums, lane) in sums.iter_mut().zip(&tile.z[first..]) {
                    sums.add_rows(&lane[..tile.len], of_rows);
                }
            }
            sums.iter().map(MomentSums::moments).collect::<Vec<Moments>>()
        };
        let parts = part_ranges(block.len.div_ceil(STRIP)).collect();
        let mut all = vec![Moments::default(); self.width()];
        process_parts(parts, of_strips).into_iter().for_each(|next| self.merge(&mut all, next));
        Ok(all)
    }

    fn merge(&self, state: &mut Vec<Moments>, next: Vec<Moments>) {
        state.iter_mut().zip(next).for_each(|(ours, theirs)| ours.merge(theirs));
    }
}
