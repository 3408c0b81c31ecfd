//! Figures 1b and 1c: the mean sensitivity bound by the number of rows, for some radii R and some numbers of clusters k.

use serde::{Deserialize, Serialize};
use tithe::base::error::{ErrorKind, Result};
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::Radius;

use crate::data::{Set, plain_encoding};
use crate::profile::Profile;
use crate::runner::{Cell, Context};

/// The radii, at k = 6.
pub const RADII: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];
/// The numbers of clusters, at R = 3.
pub const CLUSTERS: [usize; 5] = [2, 4, 6, 8, 12];
/// The number of clusters where the radius varies.
pub const USUAL_CLUSTERS: usize = 6;
/// The radius where the number of clusters varies.
pub const USUAL_RADIUS: f64 = 3.0;

/// How the rows enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// As the set's experiments have them.
    AsIs,
    /// Every column between 0 and 1, then every row of length 1.
    UnitRows,
}

/// One mean sensitivity bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanBound {
    /// The set.
    pub set: Set,
    /// How its rows enter.
    pub scaling: Scaling,
    /// The number of rows, from the first on.
    pub rows: usize,
    /// The number of clusters k.
    pub clusters: usize,
    /// The radius R.
    pub radius: f64,
    /// The clustering, which is the seed.
    pub repeat: u64,
}

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeanBoundOutcome {
    /// The mean bound `m̄`.
    pub mean_bound: f64,
    /// The normalised k-means score.
    pub score: f64,
}

impl Cell for MeanBound {
    type Outcome = MeanBoundOutcome;
    const EXPERIMENT: &'static str = "sensitivity";

    fn slug(&self) -> String {
        format!(
            "{}-n{}-k{}-radius{}-r{:02}",
            self.set.slug(),
            self.rows,
            self.clusters,
            self.radius,
            self.repeat
        )
    }

    fn run(&self, context: &Context<'_>) -> Result<MeanBoundOutcome> {
        let data = context.library.get(self.set)?;
        let head = data.train.head(self.rows)?;
        let (part, encoding) = match self.scaling {
            Scaling::AsIs => (head, data.encoding.clone()),
            Scaling::UnitRows => (head.unit_rows()?, plain_encoding()),
        };
        let settings = BuildSettings {
            method: Method::Sensitivity,
            size: Size::Rows(100),
            clusters: self.clusters,
            radius: Radius::Fixed(self.radius),
            collapse: false,
            seed: Seed(self.repeat),
            encoding,
            ..BuildSettings::default()
        };
        let coreset = build_on(&part.engine()?, &settings)?.coreset;
        let facts = coreset.provenance.sensitivity;
        facts
            .and_then(|facts| {
                facts.mean_bound.map(|mean_bound| MeanBoundOutcome { mean_bound, score: facts.score })
            })
            .ok_or_else(|| {
                let what = "the coreset is exact, so there is no mean bound".to_string();
                ErrorKind::Numerical { what, help: None }.into()
            })
    }
}

/// The cells for one set, at every number of rows up to `most`.
pub fn cells(profile: Profile, set: Set, scaling: Scaling, most: usize) -> Vec<MeanBound> {
    let mut cells: Vec<MeanBound> = Vec::new();
    for repeat in 0..profile.clusterings() {
        for &rows in profile.sensitivity_rows().iter().filter(|rows| **rows <= most) {
            let usual =
                MeanBound { set, scaling, rows, clusters: USUAL_CLUSTERS, radius: USUAL_RADIUS, repeat };
            cells.extend(RADII.iter().map(|&radius| MeanBound { radius, ..usual.clone() }));
            let others = CLUSTERS.iter().filter(|clusters| **clusters != USUAL_CLUSTERS);
            cells.extend(others.map(|&clusters| MeanBound { clusters, ..usual.clone() }));
        }
    }
    cells
}
