//! The data sets of the experiments: generated ones, and real ones from a directory of the user's.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use tithe::base::error::{Error, ErrorKind, Result};
use tithe::base::progress::Silent;
use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::data::block::{Column, Segment};
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Columns;
use tithe::data::source::{OpenOptions, Source, open};
use tithe::data::table::{Roles, Table};
use tithe::encoding::survey::EncodingSettings;
use tithe::engine::{EngineSettings, LocalEngine};
use tithe::stream::tree::Rows;

use crate::profile::Profile;

/// Test rows of the generated data.
const GENERATED_TEST_ROWS: usize = 1_000;
/// The seed of generated data and of the choice of test rows.
const DATA_SEED: Seed = Seed(2016);
/// The endings under which a real data set is looked for.
const ENDINGS: [&str; 6] = ["parquet", "csv", "csv.gz", "csv.zst", "libsvm", "libsvm.gz"];

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Five binary covariates.
    Binary5,
    /// Ten binary covariates, some rare and highly predictive.
    Binary10,
    /// Ten normal covariates about one of two means.
    Mixture,
    /// Chemical reactivity: ds1.100 if it is there, else its ten-component form.
    ChemReact,
    /// Webspam if it is there, else Census-Income (KDD).
    Webspam,
    /// Forest cover type 2 against the others.
    CovType,
}

impl Set {
    /// All of them, in the order of the paper's Figure 2.
    pub const ALL: [Set; 6] =
        [Set::Binary5, Set::Binary10, Set::Mixture, Set::ChemReact, Set::Webspam, Set::CovType];

    /// In tables and file names.
    pub fn slug(self) -> &'static str {
        match self {
            Set::Binary5 => "binary5",
            Set::Binary10 => "binary10",
            Set::Mixture => "mixture",
            Set::ChemReact => "chemreact",
            Set::Webspam => "webspam",
            Set::CovType => "covtype",
        }
    }

    /// The recipe of a generated set.
    pub fn recipe(self) -> Option<Recipe> {
        match self {
            Set::Binary5 => Some(Recipe::Binary5),
            Set::Binary10 => Some(Recipe::Binary10),
            Set::Mixture => Some(Recipe::Mixture),
            _ => None,
        }
    }

    /// Number of clusters k in the paper's experiments.
    pub fn clusters(self) -> usize {
        if self.recipe().is_some() { 4 } else { 6 }
    }

    /// True of the set with a hundred columns and more, of which less is run where time is short.
    pub fn is_wide(self) -> bool {
        self == Set::Webspam
    }

    /// The files of a real set, the paper's own first, each with its title.
    fn candidates(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Set::ChemReact => &[("ds1_100", "ChemReact"), ("ds1_10", "ChemReact, 10 components")],
            Set::Webspam => &[("webspam", "Webspam"), ("census_income", "Census income")],
            Set::CovType => &[("covtype", "CovType")],
            _ => &[],
        }
    }

    /// Rows of a real set that are held out for testing, as in the paper.
    fn test_rows(self) -> usize {
        match self {
            Set::ChemReact => 2_500,
            Set::Webspam => 50_000,
            Set::CovType => 29_000,
            _ => GENERATED_TEST_ROWS,
        }
    }
}

/// A data set in memory, split into training and test rows.
pub struct Data {
    /// Which it is.
    pub set: Set,
    /// What plots call it.
    pub title: String,
    /// The training rows.
    pub train: Part,
    /// The test rows.
    pub test: Part,
    /// How columns enter the model.
    pub encoding: EncodingSettings,
}

/// Columns as they are: the paper's generated data has a column of ones where it wants an intercept.
pub fn plain_encoding() -> EncodingSettings {
    EncodingSettings { intercept: false, standardize: false, ..EncodingSettings::default() }
}

/// Some rows, column by column.
#[derive(Clone)]
pub struct Part {
    /// Named columns; the last is the label.
    columns: Vec<(String, Vec<f64>)>,
    source: Columns,
}

impl Part {
    /// Named columns, all of one length; the last is the label.
    pub fn new(columns: Vec<(String, Vec<f64>)>) -> Result<Part> {
        Ok(Part { source: Columns::new(columns.clone())?, columns })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.columns.len() - 1
    }

    /// The first rows.
    pub fn head(&self, rows: usize) -> Result<Part> {
        Part::new(
            self.columns.iter().map(|(name, v)| (name.clone(), v[..rows.min(v.len())].to_vec())).collect(),
        )
    }

    /// The features scaled to between 0 and 1, and then every row to length 1: the form in which Webspam is given out.
    pub fn unit_rows(&self) -> Result<Part> {
        let mut columns = self.columns.clone();
        let features = columns.len() - 1;
        for (_, values) in &mut columns[..features] {
            let (low, high) =
                values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (v.min(l), v.max(h)));
            let width = if high > low { high - low } else { 1.0 };
            values.iter_mut().for_each(|value| *value = (*value - low) / width);
        }
        for row in 0..self.rows() {
            let length = columns[..features].iter().map(|(_, v)| v[row] * v[row]).sum::<f64>().sqrt();
            if length > 0.0 {
                columns[..features].iter_mut().for_each(|(_, values)| values[row] /= length);
            }
        }
        Part::new(columns)
    }

    /// The rows as a stream would bring them, so many at a time.
    pub fn blocks(&self, rows: usize) -> impl Iterator<Item = Rows> {
        let roles = self.roles();
        (0..self.rows()).step_by(rows.max(1)).map(move |first| {
            let last = (first + rows).min(self.rows());
            let column =
                |(_, values): &(String, Vec<f64>)| Column::Number(values[first..last].to_vec().into());
            let segment = Segment { columns: self.columns.iter().map(column).collect(), len: last - first };
            let fields = self.source.fields().to_vec();
            Rows { fields, segment, first_row: first as u64, roles: roles.clone(), is_sparse: false }
        })
    }

    fn roles(&self) -> Roles {
        let label = self.columns.last().map(|(name, _)| name.clone()).unwrap_or_default();
        Roles { label, ..Roles::default() }
    }

    /// An engine over the rows, on one thread: cells run beside each other.
    pub fn engine(&self) -> Result<LocalEngine<'static>> {
        let table = Table::new(Box::new(self.source.clone()), &self.roles())?;
        let settings = EngineSettings { threads: Some(1), ..EngineSettings::default() };
        LocalEngine::new(table, &settings, &Silent)
    }
}

/// All data sets, each loaded when it is first asked for.
pub struct Library {
    folder: Option<PathBuf>,
    profile: Profile,
    sets: [OnceLock<std::result::Result<Arc<Data>, String>>; 6],
}

impl Library {
    /// The sets of a profile; real ones are looked for in `folder`.
    pub fn new(folder: Option<PathBuf>, profile: Profile) -> Library {
        Library { folder, profile, sets: Default::default() }
    }

    /// The sets that are at hand.
    pub fn available(&self) -> Vec<Set> {
        Set::ALL.into_iter().filter(|set| set.recipe().is_some() || self.find(*set).is_some()).collect()
    }

    /// The title of a set, without loading it.
    pub fn title(&self, set: Set) -> &'static str {
        match set {
            Set::Binary5 => "Binary5",
            Set::Binary10 => "Binary10",
            Set::Mixture => "Mixture",
            _ => self.find(set).map_or("", |(_, title)| title),
        }
    }

    /// The file and the title of a real set.
    fn find(&self, set: Set) -> Option<(PathBuf, &'static str)> {
        let folder = self.folder.as_deref()?;
        set.candidates().iter().find_map(|(stem, title)| {
            let path = |ending: &&str| folder.join(format!("{stem}.{ending}"));
            ENDINGS.iter().map(path).find(|path| path.is_file()).map(|path| (path, *title))
        })
    }

    /// A set.
    pub fn get(&self, set: Set) -> Result<Arc<Data>> {
        let place = Set::ALL.iter().position(|known| *known == set).unwrap_or_default();
        // An error is kept as its words: it cannot be cloned, and every cell of the set is to tell it.
        let loaded =
            self.sets[place].get_or_init(|| self.load(set).map(Arc::new).map_err(|error| error.to_string()));
        loaded.clone().map_err(|what| ErrorKind::Numerical { what, help: None }.into())
    }

    fn load(&self, set: Set) -> Result<Data> {
        let title = self.title(set).to_string();
        match set.recipe() {
            Some(recipe) => {
                let rows = self.profile.generated_rows();
                let all = recipe.data(DATA_SEED, rows + GENERATED_TEST_ROWS).columns();
                let part = |range: std::ops::Range<usize>| {
                    Part::new(all.iter().map(|(name, v)| (name.clone(), v[range.clone()].to_vec())).collect())
                };
                let (train, test) = (part(0..rows)?, part(rows..rows + GENERATED_TEST_ROWS)?);
                Ok(Data { set, title, train, test, encoding: plain_encoding() })
            }
            None => {
                let (path, _) = self.find(set).ok_or_else(|| {
                    let what = format!("there is no file for the data set '{}'", set.slug());
                    Error::from(ErrorKind::NoRows { what })
                })?;
                let most = self.profile.most_rows(set);
                let (train, test) = split(read(&path, most)?, set.test_rows(), most)?;
                Ok(Data { set, title, train, test, encoding: EncodingSettings::default() })
            }
        }
    }
}

/// Reads all columns of numbers; the label's, called `label`, comes last. Where at most `most` rows will be used, a few
/// times as many are read, from the first on.
fn read(path: &Path, most: usize) -> Result<Vec<(String, Vec<f64>)>> {
    let source = open(&[path.display().to_string()], &OpenOptions::default())?;
    let names: Vec<String> = source.fields().iter().map(|field| field.name.clone()).collect();
    let label = names
        .iter()
        .position(|name| name == "label")
        .ok_or_else(|| Error::unknown_column("to use as label", "label", names.iter().map(String::as_str)))?;
    let order: Vec<usize> = (0..names.len()).filter(|&c| c != label).chain([label]).collect();
    let mut columns: Vec<(String, Vec<f64>)> =
        order.iter().map(|&c| (names[c].clone(), Vec::new())).collect();
    let mut scan = source.scan(&order)?;
    let enough = most.saturating_mul(4);
    while columns[0].1.len() < enough
        && let Some(unit) = scan.next_unit()?
    {
        unit.decode(&mut |segment| {
            for ((name, values), column) in columns.iter_mut().zip(&segment.columns) {
                match column {
                    Column::Number(numbers) => values.extend_from_slice(numbers),
                    Column::Text { .. } => {
                        let what = "holds text where the experiments want numbers".to_string();
                        return Err(ErrorKind::Column { column: name.clone(), what, help: None }.into());
                    }
                }
            }
            Ok(())
        })?;
    }
    Ok(columns)
}

/// Shuffles the rows, keeps at most `most`, and holds out the first of them (at most a tenth of what is kept where the
/// set is cut).
fn split(columns: Vec<(String, Vec<f64>)>, held_out: usize, most: usize) -> Result<(Part, Part)> {
    let rows = columns.first().map_or(0, |(_, values)| values.len());
    let mut order: Vec<usize> = (0..rows).collect();
    let mut rng = DATA_SEED.stream(Purpose::Search, 0);
    for last in (1..rows).rev() {
        let other = ((open_unit(&mut rng) * (last + 1) as f64).ceil() as usize).clamp(1, last + 1) - 1;
        order.swap(last, other);
    }
    let held_out = if most < rows { held_out.min(most / 10) } else { held_out };
    let take = |rows: &[usize]| {
        Part::new(
            columns
                .iter()
                .map(|(name, values)| (name.clone(), rows.iter().map(|&row| values[row]).collect()))
                .collect(),
        )
    };
    order.truncate(most);
    let (test, train) = order.split_at(held_out.min(order.len() / 2));
    Ok((take(train)?, take(test)?))
}
