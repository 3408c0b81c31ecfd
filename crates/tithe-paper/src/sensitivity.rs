//! Figures 1b and 1c: the mean sensitivity bound as a function of the number of rows, for several radii R and numbers of
//! clusters k.

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

/// The radii R, at k = 6.
pub const RADII: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];
/// The numbers of clusters k, at R = 3.
pub const CLUSTERS: [usize; 5] = [2, 4, 6, 8, 12];
/// The number of clusters when the radius varies.
pub const DEFAULT_CLUSTERS: usize = 6;
/// The radius when the number of clusters varies.
pub const DEFAULT_RADIUS: f64 = 3.0;

/// How rows are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// With the encoding of the data set.
    AsIs,
    /// Each column scaled to [0, 1], then each row to length 1.
    UnitRows,
}

/// One measurement of the mean sensitivity bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanBound {
    /// The data set.
    pub set: Set,
    /// The scaling of its rows.
    pub scaling: Scaling,
    /// The number of rows; the first ones are used.
    pub rows: usize,
    /// The number of clusters k.
    pub clusters: usize,
    /// The radius R.
    pub radius: f64,
    /// Number of the clustering; also the seed.
    pub repeat: u64,
}

/// The result.
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
                let what = "the coreset is exact, so it has no mean sensitivity bound".to_string();
                ErrorKind::Numerical { what, help: None }.into()
            })
    }
}

/// The cells of a data set, for each number of rows up to `limit`.
pub fn cells(profile: Profile, set: Set, scaling: Scaling, limit: usize) -> Vec<MeanBound> {
    let mut cells: Vec<MeanBound> = Vec::new();
    for repeat in 0..profile.clusterings() {
        for &rows in profile.sensitivity_rows().iter().filter(|rows| **rows <= limit) {
            let default =
                MeanBound { set, scaling, rows, clusters: DEFAULT_CLUSTERS, radius: DEFAULT_RADIUS, repeat };
            cells.extend(RADII.iter().map(|&radius| MeanBound { radius, ..default.clone() }));
            let others = CLUSTERS.iter().filter(|clusters| **clusters != DEFAULT_CLUSTERS);
            cells.extend(others.map(|&clusters| MeanBound { clusters, ..default.clone() }));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Library;
    use crate::runner::testing::Log;

    #[test]
    fn with_one_cluster_the_mean_bound_is_that_of_the_lemma() {
        // Lemma 3.1 with k = 1, written out: the mean over rows of N / (1 + (N − 1) exp(−R‖mean of the others − z‖)).
        let log = Log::default();
        let context = Context {
            profile: Profile::Quick,
            library: Library::new(None, Profile::Quick),
            folder: "out".into(),
            threads: 1,
            deadline: None,
            watch: &log,
        };
        let (rows, radius) = (300, 1.5);
        let cell =
            MeanBound { set: Set::Mixture, scaling: Scaling::AsIs, rows, clusters: 1, radius, repeat: 0 };
        let found = cell.run(&context).expect("a bound");
        let all = tithe::data::generate::Recipe::Mixture.data(Seed(2016), rows);
        let z: Vec<Vec<f64>> = (0..rows).map(|n| all.x.iter().map(|x| all.y[n] * x[n]).collect()).collect();
        let n = rows as f64;
        let bound = |own: &Vec<f64>| {
            let square = (0..10).map(|d| {
                let sum: f64 = z.iter().map(|z| z[d]).sum();
                ((sum - own[d]) / (n - 1.0) - own[d]).powi(2)
            });
            n / (1.0 + (n - 1.0) * (-radius * square.sum::<f64>().sqrt()).exp())
        };
        let expected = z.iter().map(bound).sum::<f64>() / n;
        assert!((found.mean_bound / expected - 1.0).abs() < 1e-9, "{} and {expected}", found.mean_bound);
        // The normalised k-means score: the mean squared distance to the centre.
        let mean: Vec<f64> = (0..10).map(|d| z.iter().map(|z| z[d]).sum::<f64>() / n).collect();
        let squares = z.iter().flat_map(|z| z.iter().zip(&mean).map(|(z, m)| (z - m).powi(2)));
        let score = squares.sum::<f64>() / n;
        assert!((found.score / score - 1.0).abs() < 0.2, "{} and {score}", found.score);
    }

    #[test]
    fn each_combination_of_radius_and_clusters_occurs_once() {
        let cells = cells(Profile::Full, Set::Binary10, Scaling::AsIs, 10_000);
        // Three numbers of rows, five radii and four further numbers of clusters, 20 clusterings.
        assert_eq!(cells.len(), 3 * 9 * 20);
        let mut slugs: Vec<String> = cells.iter().map(MeanBound::slug).collect();
        slugs.sort_unstable();
        slugs.dedup();
        assert_eq!(slugs.len(), cells.len());
        assert!(cells.iter().all(|cell| cell.radius == DEFAULT_RADIUS || cell.clusters == DEFAULT_CLUSTERS));
    }
}
