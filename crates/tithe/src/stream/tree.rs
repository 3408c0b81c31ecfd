//! The merge-and-compress tree: a coreset of each block, and two coresets of a level compressed to one of the next.
//!
//! It counts in binary: after B blocks there is a coreset at level `l` if bit `l` of B is set, and it represents `2^l`
//! blocks. So at most `⌈log₂ B⌉ + 1` coresets are held, whatever B is.
//!
//! **The residual.** The gradient and Hessian of a step's rows that its coreset fails to represent are not lost: the tree
//! carries them as one quadratic, every step compensates for its share of it, and a snapshot for all of it. So errors do not
//! add up from step to step, and no step needs to be exact: a few conjugate gradients are enough.
//!
//! **The reference point.** Gradient and Hessian are those at one parameter; the error is of third order in the distance
//! from there to the final posterior's mode. So the reference is renewed at every step: it is the mode of everything that is
//! held at that moment, residual included, which moves less and less as rows arrive. Errors are measured in the metric of
//! the same posterior, because that is where they will matter.
//!
//! **Fading.** With a half-life, the log-likelihood of a row counts `2^(−age/half-life)`, where its age is the number of rows in
//! the blocks after its own. Coresets are held with the weights that they had when they were made; `Tree::held` reduces them.

use faer::Mat;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use crate::base::error::{Error, Remedy, Result, Setting};
use crate::base::math::{exp, exp_m1, ln_1p};
use crate::base::progress::Observer;
use crate::base::rng::{Purpose, Seed};
use crate::coreset::build::{BuildSettings, Built, build_task};
use crate::coreset::calibration::task::Task;
use crate::coreset::merge::{Quiet, compress, union};
use crate::coreset::selection::Size;
use crate::coreset::{Composition, Coreset, Movement};
use crate::data::block::{Field, Segment};
use crate::data::points::Points;
use crate::data::source::memory::Columns;
use crate::data::table::{Roles, Table};
use crate::encoding::Encoding;
use crate::engine::{EngineSettings, LocalEngine, Missing};
use crate::model::Gaussian;
use crate::model::newton::mode_of_points;
use crate::model::quadratic::Quadratic;

/// The random numbers of a snapshot are those of a level that no stream reaches.
const SNAPSHOT: u64 = 255;

/// Coresets are dropped when less than this share of their weights is left.
const FORGOTTEN: f64 = 1e-12;
/// The posterior is compared with an earlier one as long as this share of the earlier weights is left.
const FADED: f64 = 0.1;

/// How a stream's rows are read and reduced.
#[derive(Clone, Debug)]
pub struct TreeSettings {
    /// What coreset to keep; the encoding is learnt from the first block if it is not known.
    pub build: BuildSettings,
    /// What to do with unusable rows.
    pub missing: Missing,
    /// Number of threads; `None` is one per core.
    pub threads: Option<usize>,
    /// Where calibration matches gradient and Hessian.
    pub reference: ReferencePoint,
    /// How rows lose weight with age; `None` if they do not.
    pub fading: Option<Fading>,
}

/// How rows lose weight with age.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fading {
    /// Rows per block.
    pub block: usize,
    /// Number of rows after which weights have halved.
    pub half_life: f64,
}

impl Fading {
    /// What is left of a weight after so many blocks and rows.
    fn after(self, blocks: u64, rows: usize) -> f64 {
        let age = blocks as f64 * self.block as f64 + rows as f64;
        exp(-std::f64::consts::LN_2 * age / self.half_life)
    }
}

/// The parameter at which the steps of a calibrated tree match gradient and Hessian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReferencePoint {
    /// The mode of everything that is held at the moment.
    #[default]
    Renewed,
    /// The mode of the rows being compressed alone.
    Own,
    /// The mode of the first block's coreset, for all steps; a baseline to compare the others with.
    First,
}

/// Rows of a stream with the description of their columns.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The columns.
    pub fields: Vec<Field>,
    /// Their values.
    pub segment: Segment,
    /// Position of the first row in the stream.
    pub first_row: u64,
    /// Which columns serve for what.
    pub roles: Roles,
    /// True if zeros are left out in the source, so that columns are not centred.
    pub is_sparse: bool,
}

impl Rows {
    /// As a table to build from.
    pub(super) fn table(self) -> Result<Table> {
        let columns = Columns::of_rows(self.fields, self.segment, self.first_row, self.is_sparse);
        Table::new(Box::new(columns), &self.roles)
    }
}

/// What a tree carries from step to step besides its coresets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// The log-likelihood of all rows minus that of the coresets, near the mode.
    pub residual: Quadratic,
    /// Where the posterior was earlier.
    pub checkpoint: Option<Checkpoint>,
}

/// The posterior of everything that was held when the number of blocks was last a power of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The number of blocks.
    pub blocks: u64,
    /// The mass of their rows.
    mass: f64,
    /// The posterior's mode.
    mode: Vec<f64>,
    /// Its precision, row by row; row `i` has the entries `j ≤ i`.
    precision: Vec<f64>,
    /// The largest movement of the mode in relation to its trust radius, since this block or before.
    pub movement: Option<Movement>,
}

impl Checkpoint {
    fn posterior(&self) -> Option<Gaussian> {
        let dim = self.mode.len();
        let entry = |i: usize, j: usize| {
            let (i, j) = (i.max(j), i.min(j));
            self.precision.get(i * (i + 1) / 2 + j).copied().unwrap_or(f64::NAN)
        };
        Gaussian::from_precision(self.mode.clone(), Mat::from_fn(dim, dim, entry))
    }
}

/// The coresets of a stream, at most one per level.
#[derive(Clone, Debug)]
pub struct Tree {
    settings: TreeSettings,
    levels: Vec<Option<Coreset>>,
    blocks: u64,
    /// The log-likelihood of all rows minus that of the coresets, near the mode.
    residual: Option<Quadratic>,
    /// Where the posterior was earlier.
    checkpoint: Option<Checkpoint>,
    /// The fixed reference point, if there is one.
    pilot: Option<Vec<f64>>,
}

impl Tree {
    /// No rows yet.
    pub fn new(settings: TreeSettings) -> Result<Tree> {
        Tree::with_levels(settings, Vec::new(), 0, None)
    }

    /// The tree after `blocks` blocks, with its coresets and what it carries.
    pub fn with_levels(
        mut settings: TreeSettings,
        levels: Vec<Option<Coreset>>,
        blocks: u64,
        carried: Option<Carried>,
    ) -> Result<Tree> {
        settings.build.check()?;
        if matches!(settings.build.size, Size::Kl { .. }) {
            return Err(Error::setting(Setting::Kl, "needs all rows at once, so a stream cannot use it")
                .with_help(Remedy::using("choose the number of rows", Setting::Size)));
        }
        if let Some(first) = levels.iter().flatten().next() {
            settings.build.encoding.known = Some(first.encoding.clone());
        }
        let (residual, checkpoint) = match carried {
            Some(Carried { residual, checkpoint }) => (Some(residual), checkpoint),
            None => (None, None),
        };
        Ok(Tree { settings, levels, blocks, residual, checkpoint, pilot: None })
    }

    /// The number of blocks read so far.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The coresets, by level.
    pub fn levels(&self) -> &[Option<Coreset>] {
        &self.levels
    }

    /// What the tree carries from step to step.
    pub fn carried(&self) -> Option<Carried> {
        let residual = self.residual.clone()?;
        Some(Carried { residual, checkpoint: self.checkpoint.clone() })
    }

    /// The largest movement of the posterior's mode in relation to its trust radius.
    pub fn movement(&self) -> Option<Movement> {
        self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.movement)
    }

    /// Uses an encoding that was learnt elsewhere.
    pub(super) fn take_encoding(&mut self, encoding: Encoding) {
        self.settings.build.encoding.known = Some(encoding);
    }

    /// How rows are reduced.
    pub fn settings(&self) -> &TreeSettings {
        &self.settings
    }

    /// The number of blocks when the coreset of a level was made: the last that is divisible by `2^level`.
    fn completed(&self, level: usize) -> u64 {
        (self.blocks >> level) << level
    }

    /// What is left of the weights that were given `since` this number of blocks, when `rows` further rows have arrived.
    fn share_since(&self, since: u64, rows: usize) -> f64 {
        self.settings.fading.map_or(1.0, |fading| fading.after(self.blocks.saturating_sub(since), rows))
    }

    /// The coresets by level and the residual, with the weights that are left when `rows` further rows have arrived. Coresets
    /// that no longer matter are left out.
    fn held(&self, rows: usize) -> (Vec<Option<Coreset>>, Option<Quadratic>) {
        if self.settings.fading.is_none() {
            return (self.levels.clone(), self.residual.clone());
        }
        let faded = |(level, coreset): (usize, &Option<Coreset>)| {
            let share = self.share_since(self.completed(level), rows);
            coreset.as_ref().filter(|_| share > FORGOTTEN).map(|coreset| coreset.scaled(share))
        };
        let levels = self.levels.iter().enumerate().map(faded).collect();
        let share = self.share_since(self.blocks, rows);
        (levels, self.residual.as_ref().map(|residual| residual.scaled(share)))
    }

    /// Adds the next block and returns mean and standard deviation of its numeric columns.
    ///
    /// # Errors
    /// If the rows cannot be used; the tree is then unchanged.
    pub fn push(&mut self, rows: Rows, observer: &dyn Observer) -> Result<Vec<Option<(f64, f64)>>> {
        let (levels, faded) = self.held(rows.segment.len);
        let Built { coreset, moments, mut residual, mut held, .. } =
            self.leaf(rows, &levels, faded.as_ref(), observer)?;
        let encoding = coreset.encoding.clone();
        if self.settings.reference == ReferencePoint::First && self.pilot.is_none() {
            let points = coreset.points()?;
            let names = encoding.distinct_names()?;
            let priors = self.settings.build.priors.priors(&names, encoding.intercept)?;
            let prior_precision = priors.normal_precisions();
            self.pilot = Some(mode_of_points(&points, &prior_precision, vec![0.0; points.dim()])?.mode);
        }
        let mut carried = coreset;
        let mut level = 0;
        while let Some(Some(before)) = levels.get(level) {
            let both = union(vec![before.clone(), carried])?;
            level += 1;
            let node = Node { level: level as u64, index: self.blocks >> level };
            let others = self.others(levels.iter().skip(level))?;
            let task = self.task(others.as_ref(), residual.as_ref());
            let made = compress(both, &self.node(node), &task, self.settings.threads, observer)?;
            (carried, residual, held) = (made.coreset, made.residual, made.held.or(held));
        }
        self.levels.resize(self.levels.len().max(level + 1), None);
        self.levels[..level].fill(None);
        self.levels[level] = Some(carried);
        for (own, left) in self.levels.iter_mut().zip(&levels).skip(level + 1) {
            *own = own.take().filter(|_| left.is_some());
        }
        self.residual = residual;
        self.blocks += 1;
        if let Some(held) = held {
            self.note_movement(&held);
        }
        self.settings.build.encoding.known.get_or_insert(encoding);
        Ok(moments)
    }

    /// Compares the posterior of everything that is held with the one at the last checkpoint, and makes a new checkpoint if the
    /// number of blocks is a power of two.
    fn note_movement(&mut self, held: &Gaussian) {
        let levels = self.levels.iter().enumerate();
        let masses = levels.filter_map(|(level, coreset)| {
            Some(self.share_since(self.completed(level), 0) * coreset.as_ref()?.provenance.mass)
        });
        let mass: f64 = masses.sum();
        let share = |before: &Checkpoint| self.share_since(before.blocks, 0);
        let since = |before: &Checkpoint| {
            let movement =
                Movement::since(&before.posterior()?, share(before) * before.mass / mass, held.mean());
            Some(before.movement.map_or(movement, |earlier| earlier.larger(movement)))
        };
        // Movements away from rows that have faded do not matter any more.
        let has_faded = self.checkpoint.as_ref().is_some_and(|before| share(before) < FADED);
        let movement = self.checkpoint.as_ref().filter(|_| !has_faded).and_then(since);
        if self.blocks.is_power_of_two() || has_faded {
            let precision = held.precision();
            let rows = 0..held.dim();
            let precision = rows.flat_map(|i| (0..=i).map(move |j| precision[(i, j)])).collect();
            let (blocks, mode) = (self.blocks, held.mean().to_vec());
            self.checkpoint = Some(Checkpoint { blocks, mass, mode, precision, movement });
        } else if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.movement = movement;
        }
    }

    /// The coreset of everything so far, and of `pending` rows that do not fill a block yet.
    pub fn snapshot(&self, pending: Option<Rows>, observer: &dyn Observer) -> Result<Coreset> {
        let (levels, mut residual) = self.held(pending.as_ref().map_or(0, |rows| rows.segment.len));
        let mut held: Vec<Coreset> = levels.iter().rev().flatten().cloned().collect();
        let is_one_block = self.blocks + u64::from(pending.is_some()) == 1;
        if let Some(rows) = pending {
            let leaf = self.leaf(rows, &levels, residual.as_ref(), observer)?;
            held.push(leaf.coreset);
            residual = leaf.residual;
        }
        let all = union(held)?;
        let build = &self.settings.build;
        let mut coreset = match build.size {
            // The budget does not allow another step.
            Size::Guarantee { .. } => all,
            Size::Rows(_) | Size::Kl { .. } => {
                let node = self.node(Node { level: SNAPSHOT, index: self.blocks });
                // A single block was built alone, and its residual cannot be compensated by the same rows.
                let carried = residual.as_ref().filter(|_| !is_one_block);
                let task = self.pilot.as_deref().map_or_else(|| Task::last_step(carried), Task::at);
                compress(all, &node, &task, self.settings.threads, observer)?.coreset
            }
        };
        if let Some(composition) = &mut coreset.provenance.composition {
            composition.movement = self.movement();
            composition.half_life = self.settings.fading.map(|fading| fading.half_life);
        }
        // The provenance states the user's request, not the share of this node.
        (coreset.provenance.size, coreset.provenance.seed) = (build.size, build.seed);
        Ok(coreset)
    }

    /// The coreset of a block, beside the coresets that are held and what they fail to represent.
    fn leaf(
        &self,
        rows: Rows,
        levels: &[Option<Coreset>],
        residual: Option<&Quadratic>,
        observer: &dyn Observer,
    ) -> Result<Built> {
        let table = rows.table()?;
        let settings = &self.settings;
        let engine = EngineSettings {
            threads: settings.threads,
            missing: settings.missing,
            ..EngineSettings::default()
        };
        let quiet = Quiet(observer);
        let engine = LocalEngine::new(table, &engine, &quiet)?;
        let others = self.others(levels.iter())?;
        let node = self.node(Node { level: 0, index: self.blocks });
        let task = self.task(others.as_ref(), residual);
        let mut built = build_task(&engine, &node, &task)?;
        if built.step_kl.is_some() {
            let kl = built.composed_kl(Some(0.0));
            let facts = &mut built.coreset.provenance;
            facts.composition = Some(Composition { kl, ..facts.composed() });
        }
        Ok(built)
    }

    /// The points of the coresets other than those being compressed.
    fn others<'a>(&self, levels: impl Iterator<Item = &'a Option<Coreset>>) -> Result<Option<Points>> {
        if self.settings.reference != ReferencePoint::Renewed {
            return Ok(None);
        }
        let mut all: Option<Points> = None;
        for coreset in levels.flatten() {
            let points = coreset.points()?;
            match &mut all {
                Some(all) => points.tiles().for_each(|tile| all.push_tile(&tile)),
                None => all = Some(points),
            }
        }
        Ok(all)
    }

    /// The task of a step. The first block is built like a separate data set.
    fn task<'a>(&'a self, others: Option<&'a Points>, residual: Option<&'a Quadratic>) -> Task<'a> {
        match (&self.pilot, self.settings.reference, self.blocks) {
            (Some(pilot), ..) => Task::at(pilot),
            (None, ReferencePoint::Renewed, 1..) => Task::step(others, residual),
            _ => Task::all_rows(),
        }
    }

    /// The settings of a node: its own seed and, where there is a guarantee, its share of the budget.
    fn node(&self, node: Node) -> BuildSettings {
        let build = &self.settings.build;
        BuildSettings { seed: node.seed(build.seed), size: node.size(build.size), ..build.clone() }
    }
}

/// A node of the tree: the `index`-th coreset of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Node {
    level: u64,
    index: u64,
}

impl Node {
    /// The first block has the user's own seed: a stream of one block is a build.
    fn seed(self, seed: Seed) -> Seed {
        match self {
            Node { level: 0, index: 0 } => seed,
            Node { level, index } => {
                Seed(seed.stream(Purpose::Tree, (level << 56) | (index & ((1 << 56) - 1))).next_u64())
            }
        }
    }

    /// `Σ 1/(l+1)² = π²/6`: with `ln(1+ε_l) = 6/π² · ln(1+ε)/(l+1)²` the bounds of any number of levels compose to at most ε,
    /// and with `δ_{l,i} = (6/π²)²·δ/((l+1)(i+1))²` all nodes of any number of levels together fail with probability at most δ.
    fn size(self, size: Size) -> Size {
        let Size::Guarantee { epsilon, delta, constant } = size else { return size };
        let share = |n: u64| 6.0 / (std::f64::consts::PI * (n as f64 + 1.0)).powi(2);
        Size::Guarantee {
            epsilon: exp_m1(ln_1p(epsilon) * share(self.level)),
            delta: delta * share(self.level) * share(self.index),
            constant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coreset::Bound;

    #[test]
    fn the_budget_of_any_number_of_levels_is_the_users() {
        let (epsilon, delta) = (0.1, 0.05);
        let user = Size::Guarantee { epsilon, delta, constant: 4.0 };
        let part = |level, index| match (Node { level, index }).size(user) {
            Size::Guarantee { epsilon, delta, .. } => Bound { epsilon, delta, radius: Some(1.0) },
            _ => panic!("another kind of size"),
        };
        let all = (0..500).map(|level| part(level, 0)).fold(Bound::EXACT, Bound::then);
        assert!(all.epsilon <= epsilon && all.epsilon > 0.99 * epsilon, "{all:?}");
        let failures: f64 = (0..300)
            .flat_map(|level| (0..300).map(move |index| (level, index)))
            .map(|(l, i)| part(l, i).delta)
            .sum();
        assert!(failures <= delta && failures > 0.98 * delta, "{failures}");
    }

    #[test]
    fn every_node_has_a_seed_of_its_own() {
        let mut seeds: Vec<u64> = (0..20u64)
            .flat_map(|level| (0..50).map(move |index| Node { level, index }.seed(Seed(7)).0))
            .collect();
        assert!(seeds.contains(&7));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 1000);
    }
}
