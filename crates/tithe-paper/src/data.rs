//! The data sets of the experiments: generated ones, and real ones read from a directory.

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
use tithe::encoding::{EncodingSettings, Standardize};
use tithe::engine::{EngineSettings, LocalEngine};
use tithe::model::{Prior, PriorChoice};
use tithe::stream::tree::Rows;

use crate::profile::Profile;

/// Number of test rows of a generated data set.
const GENERATED_TEST_ROWS: usize = 1_000;
/// The seed of generated data and of the train-test split.
const DATA_SEED: Seed = Seed(2016);
/// File extensions of real data sets, in the order they are tried.
const ENDINGS: [&str; 6] = ["parquet", "csv", "csv.gz", "csv.zst", "libsvm", "libsvm.gz"];

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Five binary covariates (paper, Section 4).
    Binary5,
    /// Ten binary covariates, some rare and highly predictive.
    Binary10,
    /// Ten normal covariates; the mean depends on the class.
    Mixture,
    /// Chemical reactivity: ds1.100 if available, otherwise its first ten principal components.
    ChemReact,
    /// Webspam if available, otherwise Census-Income (KDD).
    Webspam,
    /// Forest cover type 2 against all others.
    CovType,
}

impl Set {
    /// All data sets, in the order of the paper's Figure 2.
    pub const ALL: [Set; 6] =
        [Set::Binary5, Set::Binary10, Set::Mixture, Set::ChemReact, Set::Webspam, Set::CovType];

    /// Name in tables and file names.
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

    /// The recipe of a generated data set; `None` for a real one.
    pub fn recipe(self) -> Option<Recipe> {
        match self {
            Set::Binary5 => Some(Recipe::Binary5),
            Set::Binary10 => Some(Recipe::Binary10),
            Set::Mixture => Some(Recipe::Mixture),
            _ => None,
        }
    }

    /// Number of clusters k in the paper's experiments (its Table 1).
    pub fn clusters(self) -> usize {
        if self.recipe().is_some() { 4 } else { 6 }
    }

    /// True for the data set with more than a hundred columns, of which the shorter profiles run less.
    pub fn is_wide(self) -> bool {
        self == Set::Webspam
    }

    /// File names (without extension) and titles of a real data set; the paper's own comes first.
    fn candidates(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Set::ChemReact => &[("ds1_100", "ChemReact"), ("ds1_10", "ChemReact, 10 components")],
            Set::Webspam => &[("webspam", "Webspam"), ("census_income", "Census income")],
            Set::CovType => &[("covtype", "CovType")],
            _ => &[],
        }
    }

    /// Number of rows held out for testing, as in the paper.
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
    /// The data set.
    pub set: Set,
    /// Its name in plots.
    pub title: String,
    /// The training rows.
    pub train: Part,
    /// The test rows.
    pub test: Part,
    /// How columns are encoded for the model.
    pub encoding: EncodingSettings,
}

/// Encoding without an intercept and without standardisation: the paper's generated binary data has a column of ones.
pub fn plain_encoding() -> EncodingSettings {
    EncodingSettings { intercept: false, standardize: Standardize::None, ..EncodingSettings::default() }
}

/// Encoding of the real data sets: with an intercept, and all columns centred and scaled.
fn standardized_encoding() -> EncodingSettings {
    EncodingSettings { standardize: Standardize::All, ..EncodingSettings::default() }
}

/// The paper's prior: N(0, 4I), the intercept included.
pub fn prior() -> PriorChoice {
    PriorChoice::same(Prior::Normal { scale: 2.0 })
}

/// A part of a data set, stored column by column.
#[derive(Clone)]
pub struct Part {
    /// Named columns; the last one is the label.
    columns: Vec<(String, Vec<f64>)>,
    source: Columns,
}

impl Part {
    /// Creates a part from named columns of equal length; the last one is the label.
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

    /// The first `rows` rows.
    pub fn head(&self, rows: usize) -> Result<Part> {
        Part::new(
            self.columns.iter().map(|(name, v)| (name.clone(), v[..rows.min(v.len())].to_vec())).collect(),
        )
    }

    /// The features scaled to [0, 1], and then each row to Euclidean length 1, as Webspam is distributed.
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

    /// The rows in blocks of at most `rows` rows, as a stream delivers them.
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

    /// An engine over the rows with one thread, because cells run in parallel.
    pub fn engine(&self) -> Result<LocalEngine<'static>> {
        let table = Table::new(Box::new(self.source.clone()), &self.roles())?;
        let settings = EngineSettings { threads: Some(1), ..EngineSettings::default() };
        LocalEngine::new(table, &settings, &Silent)
    }
}

/// All data sets, each loaded when it is first used.
pub struct Library {
    folder: Option<PathBuf>,
    profile: Profile,
    sets: [OnceLock<std::result::Result<Arc<Data>, String>>; 6],
}

impl Library {
    /// The data sets of a profile; real ones are read from `folder`.
    pub fn new(folder: Option<PathBuf>, profile: Profile) -> Library {
        Library { folder, profile, sets: Default::default() }
    }

    /// The available data sets: the generated ones, and the real ones whose file exists.
    pub fn available(&self) -> Vec<Set> {
        Set::ALL.into_iter().filter(|set| set.recipe().is_some() || self.find(*set).is_some()).collect()
    }

    /// The title of a data set, without loading it.
    pub fn title(&self, set: Set) -> &'static str {
        match set {
            Set::Binary5 => "Binary5",
            Set::Binary10 => "Binary10",
            Set::Mixture => "Mixture",
            _ => self.find(set).map_or("", |(_, title)| title),
        }
    }

    /// The file and the title of a real data set.
    fn find(&self, set: Set) -> Option<(PathBuf, &'static str)> {
        let folder = self.folder.as_deref()?;
        set.candidates().iter().find_map(|(stem, title)| {
            let path = |ending: &&str| folder.join(format!("{stem}.{ending}"));
            ENDINGS.iter().map(path).find(|path| path.is_file()).map(|path| (path, *title))
        })
    }

    /// A data set, loaded if necessary.
    ///
    /// # Errors
    /// If its file is missing or cannot be used; every later call returns the same message.
    pub fn get(&self, set: Set) -> Result<Arc<Data>> {
        let index = Set::ALL.iter().position(|known| *known == set).unwrap_or_default();
        // The error is stored as text because it cannot be cloned, and every cell of the data set reports it.
        let loaded =
            self.sets[index].get_or_init(|| self.load(set).map(Arc::new).map_err(|error| error.to_string()));
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
                let limit = self.profile.max_rows(set);
                let (train, test) = split(read(&path, limit)?, set.test_rows(), limit)?;
                Ok(Data { set, title, train, test, encoding: standardized_encoding() })
            }
        }
    }
}

/// Reads all columns, which must be numeric; the column `label` comes last. If at most `limit` rows are used, reading stops
/// after four times as many.
fn read(path: &Path, limit: usize) -> Result<Vec<(String, Vec<f64>)>> {
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
    let enough = limit.saturating_mul(4);
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

/// Shuffles the rows, keeps at most `limit` of them, and splits them into training and test rows. There are `held_out` test
/// rows, but at most half of the rows, and at most a tenth if the data set is truncated.
fn split(columns: Vec<(String, Vec<f64>)>, held_out: usize, limit: usize) -> Result<(Part, Part)> {
    let rows = columns.first().map_or(0, |(_, values)| values.len());
    let mut order: Vec<usize> = (0..rows).collect();
    let mut rng = DATA_SEED.stream(Purpose::Search, 0);
    for last in (1..rows).rev() {
        let other = ((open_unit(&mut rng) * (last + 1) as f64).ceil() as usize).clamp(1, last + 1) - 1;
        order.swap(last, other);
    }
    let held_out = if limit < rows { held_out.min(limit / 10) } else { held_out };
    let take = |rows: &[usize]| {
        Part::new(
            columns
                .iter()
                .map(|(name, values)| (name.clone(), rows.iter().map(|&row| values[row]).collect()))
                .collect(),
        )
    };
    order.truncate(limit);
    let (test, train) = order.split_at(held_out.min(order.len() / 2));
    Ok((take(train)?, take(test)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `P(x_d = 1)` and θ of the binary data, from Section 4 of the paper.
    const P: [f64; 10] = [1., 0.2, 0.3, 0.5, 0.01, 0.1, 0.2, 0.007, 0.005, 0.001];
    const THETA: [f64; 10] = [-3., 1.2, -0.5, 0.8, 3., -1., -0.7, 4., 3.5, 4.5];

    /// The expected share of positive labels: the sum over all 2^D rows of the probability of row and label.
    fn positive_share(dim: usize) -> f64 {
        let term = |row: usize| {
            let (mut chance, mut s) = (1.0, 0.0);
            for d in 0..dim {
                let is_one = row >> d & 1 == 1;
                chance *= if is_one { P[d] } else { 1.0 - P[d] };
                s += if is_one { THETA[d] } else { 0.0 };
            }
            chance / (1.0 + f64::exp(-s))
        };
        (0..1 << dim).map(term).sum()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn generated_data_have_the_shape_and_the_distribution_of_the_paper() {
        // Table 1 of the paper: 9.5 %, 8.9 % and 50 % positive labels, counted in a random sample and rounded.
        assert!((positive_share(5) - 0.095).abs() < 0.001 && (positive_share(10) - 0.089).abs() < 0.001);
        let library = Library::new(None, Profile::Quick);
        for (set, features, share) in [
            (Set::Binary5, 5, positive_share(5)),
            (Set::Binary10, 10, positive_share(10)),
            (Set::Mixture, 10, 0.5),
        ] {
            let data = library.get(set).expect("generated data");
            assert_eq!((data.train.rows(), data.test.rows()), (20_000, 1_000));
            assert_eq!((data.train.features(), data.test.features()), (features, features));
            assert_eq!(set.clusters(), 4);
            // Means within 5 standard errors: a correct program fails one of the 26 checks for one seed in 44,000.
            let n = 20_000f64;
            let check = |found: f64, expected: f64, sd: f64| {
                assert!((found - expected).abs() <= 5.0 * sd / n.sqrt(), "{set:?}: {found}, not {expected}");
            };
            let (label, x) = data.train.columns.split_last().expect("columns");
            assert!(label.1.iter().all(|y| y.abs() == 1.0));
            check(0.5 + 0.5 * mean(&label.1), share, (share * (1.0 - share)).sqrt());
            for (d, (_, x)) in x.iter().enumerate() {
                if set == Set::Mixture {
                    // The mean is 1 for one class and 0 for the other, so y(x − ½) has mean ±½ and variance 1.
                    let z: Vec<f64> = x.iter().zip(&label.1).map(|(x, y)| y * (x - 0.5)).collect();
                    check(mean(&z), if d < 5 { 0.5 } else { -0.5 }, 1.0);
                } else {
                    assert!(x.iter().all(|x| *x == 0.0 || *x == 1.0));
                    check(mean(x), P[d], (P[d] * (1.0 - P[d])).sqrt());
                }
            }
            // The test rows are not training rows: they are the next ones of the same sequence.
            let all = set.recipe().expect("a recipe").data(DATA_SEED, 21_000).columns();
            assert_eq!(all[1].1[..20_000], data.train.columns[1].1);
            assert_eq!(all[1].1[20_000..], data.test.columns[1].1);
        }
    }

    fn numbered(rows: usize) -> Vec<(String, Vec<f64>)> {
        let numbers: Vec<f64> = (0..rows).map(|row| row as f64).collect();
        let labels = numbers.iter().map(|n| if n % 2.0 == 0.0 { 1.0 } else { -1.0 }).collect();
        vec![("number".to_string(), numbers), ("label".to_string(), labels)]
    }

    #[test]
    fn a_split_is_a_partition_of_shuffled_rows() {
        let numbers = |part: &Part| part.columns[0].1.clone();
        let (train, test) = split(numbered(1000), 100, usize::MAX).expect("a split");
        assert_eq!((train.rows(), test.rows()), (900, 100));
        let mut all: Vec<f64> = numbers(&train).into_iter().chain(numbers(&test)).collect();
        // Shuffled: about one row is followed by its successor. More than 12 are with probability below 1e-9.
        let pairs = all.windows(2).filter(|pair| pair[1] == pair[0] + 1.0).count();
        assert!(pairs <= 12, "{pairs} rows are followed by their successor");
        all.sort_by(f64::total_cmp);
        assert_eq!(all, numbered(1000)[0].1);
        // Rows stay together with their labels.
        assert!(
            train.columns[0].1.iter().zip(&train.columns[1].1).all(|(n, y)| (n % 2.0 == 0.0) == (*y > 0.0))
        );
        // The split is the same every time.
        assert_eq!(numbers(&split(numbered(1000), 100, usize::MAX).expect("a split").0), numbers(&train));
    }

    #[test]
    fn a_truncated_or_small_data_set_has_fewer_test_rows() {
        let rows = |rows, held_out, limit| {
            let (train, test) = split(numbered(rows), held_out, limit).expect("a split");
            (train.rows(), test.rows())
        };
        assert_eq!(rows(1000, 100, 200), (180, 20));
        assert_eq!(rows(1000, 10, 200), (190, 10));
        assert_eq!(rows(1000, 900, usize::MAX), (500, 500));
    }

    #[test]
    fn unit_rows_scales_columns_and_then_rows() {
        let columns = vec![
            ("a".to_string(), vec![2.0, 6.0, 4.0, 2.0]),
            ("b".to_string(), vec![-1.0, 1.0, 1.0, -1.0]),
            ("constant".to_string(), vec![5.0; 4]),
            ("y".to_string(), vec![1.0, -1.0, 1.0, 1.0]),
        ];
        let part = Part::new(columns).and_then(|part| part.unit_rows()).expect("a part");
        // Scaled to [0, 1]: (0, 0), (1, 1), (½, 1), (0, 0); the constant column becomes 0.
        let (root, length) = (0.5f64.sqrt(), 1.25f64.sqrt());
        let expected = [vec![0.0, root, 0.5 / length, 0.0], vec![0.0, root, 1.0 / length, 0.0], vec![0.0; 4]];
        for (found, expected) in part.columns.iter().zip(&expected) {
            assert!(found.1.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-15), "{:?}", found.1);
        }
        assert_eq!(part.columns[3].1, [1.0, -1.0, 1.0, 1.0]);
    }

    #[test]
    fn blocks_and_head_are_the_rows_in_order() {
        let part = Part::new(numbered(25)).expect("a part");
        assert_eq!(part.head(7).expect("rows").columns[0].1, (0..7).map(f64::from).collect::<Vec<_>>());
        assert_eq!(part.head(70).expect("rows").rows(), 25);
        let blocks: Vec<Rows> = part.blocks(10).collect();
        assert_eq!(
            blocks.iter().map(|rows| (rows.first_row, rows.segment.len)).collect::<Vec<_>>(),
            [(0, 10), (10, 10), (20, 5)]
        );
        let numbers = blocks.iter().flat_map(|rows| match &rows.segment.columns[0] {
            Column::Number(values) => values.to_vec(),
            Column::Text { .. } => Vec::new(),
        });
        assert_eq!(numbers.collect::<Vec<_>>(), numbered(25)[0].1);
        assert!(blocks.iter().all(|rows| rows.roles.label == "label" && rows.fields.len() == 2));
    }

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        folder
    }

    #[test]
    fn files_of_the_paper_are_preferred() {
        let text = "label,x\n1,2\n-1,3\n";
        let folder = folder(&[("ds1_10.csv", text), ("census_income.csv", text), ("ds1_100.csv", text)]);
        let library = Library::new(Some(folder.path().to_path_buf()), Profile::Quick);
        assert_eq!(library.title(Set::ChemReact), "ChemReact");
        assert_eq!(library.title(Set::Webspam), "Census income");
        assert_eq!(library.title(Set::CovType), "");
        assert_eq!(library.available(), Set::ALL[..5]);
        assert_eq!(Library::new(None, Profile::Quick).available(), Set::ALL[..3]);
    }

    #[test]
    fn a_file_is_read_with_the_label_last_and_standardised() {
        let rows: String = (0..40).map(|i| format!("{i},{},{}\n", 2 * (i % 2) - 1, i * i)).collect();
        let folder = folder(&[("covtype.csv", &format!("a,label,b\n{rows}"))]);
        let library = Library::new(Some(folder.path().to_path_buf()), Profile::Quick);
        let data = library.get(Set::CovType).expect("data");
        let names: Vec<&str> = data.train.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "label"]);
        assert!(data.encoding.intercept && data.encoding.standardize == Standardize::All);
        // The paper holds out 29,000 rows; of a smaller data set it is half.
        assert_eq!((data.train.rows(), data.test.rows()), (20, 20));
        for part in [&data.train, &data.test] {
            let [a, b, label] = &part.columns[..] else { panic!("three columns") };
            for row in 0..part.rows() {
                assert_eq!(b.1[row], a.1[row] * a.1[row]);
                assert_eq!(label.1[row], 2.0 * (a.1[row] % 2.0) - 1.0);
            }
        }
    }

    #[test]
    fn unusable_files_are_errors_every_time() {
        let files = [("covtype.csv", "a,b\n1,2\n"), ("webspam.csv", "label,a\n1,cat\n-1,dog\n")];
        let folder = folder(&files);
        let library = Library::new(Some(folder.path().to_path_buf()), Profile::Quick);
        let error = |set| library.get(set).err().expect("an error").to_string();
        assert!(error(Set::CovType).contains("label"), "{}", error(Set::CovType));
        assert!(error(Set::Webspam).contains("'a'"), "{}", error(Set::Webspam));
        assert!(error(Set::ChemReact).contains("chemreact"), "{}", error(Set::ChemReact));
        assert_eq!(error(Set::CovType), error(Set::CovType));
    }
}
