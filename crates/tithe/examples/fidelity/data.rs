//! The data sets of the fidelity benchmarks: files, the paper's synthetic data, and difficult synthetic data.

use std::path::PathBuf;

use rand_distr::{Distribution, StandardNormal};
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::{Purpose, Rng, Seed, open_unit};
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Columns;
use tithe::data::source::{OpenOptions, Source, open};
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, Standardize};
use tithe::engine::{EngineSettings, LocalEngine};
use tithe::model::{Prior, PriorChoice};

const GENERATED_ROWS: usize = 1_000_000;
const HARD_ROWS: usize = 200_000;

/// The prior of the benchmarks: N(0, 4I).
pub fn prior() -> PriorChoice {
    PriorChoice::same(Prior::Normal { scale: 2.0 })
}

/// Opens a data set by name, with its encoding settings; `None` if its file does not exist.
pub fn engine_of(name: &str) -> Result<Option<(LocalEngine<'static>, EncodingSettings)>> {
    let generated = name.parse::<Recipe>().ok();
    let hard = Hard::ALL.into_iter().find(|hard| hard.name() == name);
    let source: Box<dyn Source> = if let Some(recipe) = generated {
        Box::new(Columns::new(recipe.data(Seed(0), GENERATED_ROWS).columns())?)
    } else if let Some(hard) = hard {
        Box::new(Columns::new(hard.data(HARD_ROWS))?)
    } else {
        let folder = match std::env::var_os("TITHE_DATA") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        };
        let file = folder.join(format!("{name}.parquet"));
        if !file.is_file() {
            eprintln!("{} not found: skipped", file.display());
            return Ok(None);
        }
        open(&[file.display().to_string()], &OpenOptions::default())?
    };
    let label = if generated.is_some() || hard.is_some() { "y" } else { "label" };
    let table = Table::new(source, &Roles { label: label.into(), ..Roles::default() })?;
    let engine = LocalEngine::new(table, &EngineSettings::default(), &Silent)?;
    let plain = generated.is_none();
    let standardize = if plain { Standardize::All } else { Standardize::None };
    let encoding = EncodingSettings { intercept: plain, standardize, ..EncodingSettings::default() };
    Ok(Some((engine, encoding)))
}

/// Synthetic data that are difficult for coresets.
#[derive(Clone, Copy)]
enum Hard {
    /// A column with forty levels; the rarest, a few rows in 200,000, almost always have the same label.
    RareLevels,
    /// Columns with the tails of a Cauchy distribution.
    HeavyTails,
    /// One positive row in two thousand.
    Imbalance,
    /// Columns that are almost equal to each other.
    Correlated,
}

impl Hard {
    const ALL: [Hard; 4] = [Hard::RareLevels, Hard::HeavyTails, Hard::Imbalance, Hard::Correlated];

    fn name(self) -> &'static str {
        match self {
            Hard::RareLevels => "rare_levels",
            Hard::HeavyTails => "heavy_tails",
            Hard::Imbalance => "imbalance",
            Hard::Correlated => "correlated",
        }
    }

    fn data(self, rows: usize) -> Vec<(String, Vec<f64>)> {
        let mut rng = Seed(11).stream(Purpose::Generate, 0);
        let (mut columns, mut labels): (Vec<Vec<f64>>, Vec<f64>) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let (row, chance) = self.row(&mut rng);
            columns.resize(row.len(), Vec::new());
            columns.iter_mut().zip(row).for_each(|(column, x)| column.push(x));
            labels.push(f64::from(u8::from(open_unit(&mut rng) < chance)));
        }
        let names = (0..columns.len()).map(|c| format!("x{c}"));
        names.zip(columns).chain([("y".to_string(), labels)]).collect()
    }

    /// A row and the probability of a positive label.
    fn row(self, rng: &mut Rng) -> (Vec<f64>, f64) {
        let mut normals =
            |count: usize| -> Vec<f64> { (0..count).map(|_| StandardNormal.sample(rng)).collect() };
        let logistic = |s: f64| 1.0 / (1.0 + (-s).exp());
        match self {
            Hard::RareLevels => {
                let mut row = normals(4);
                let s = row.iter().sum::<f64>() * 0.5;
                let level = ((-2.5 * open_unit(rng).log2()) as usize).min(39);
                row.extend((0..40).map(|k| f64::from(u8::from(k == level))));
                let chance = if level > 12 { [0.02, 0.98][level % 2] } else { logistic(s) };
                (row, chance)
            }
            Hard::HeavyTails => {
                let row: Vec<f64> =
                    normals(10).chunks(2).map(|pair| pair[0] / pair[1].abs().max(1e-4)).collect();
                let s: f64 = row.iter().map(|x| x.clamp(-20.0, 20.0)).sum::<f64>() * 0.1;
                (row, logistic(s))
            }
            Hard::Imbalance => {
                let row = normals(10);
                let s = row.iter().enumerate().map(|(c, x)| x * [1.0, -0.6, 0.2][c % 3]).sum::<f64>();
                (row, logistic(s - 10.0))
            }
            Hard::Correlated => {
                let own = normals(10);
                let row: Vec<f64> = own.iter().map(|x| own[0] + 0.01 * x).collect();
                (row, logistic(own[0] + 0.5 * own[1] - 0.5 * own[2]))
            }
        }
    }
}
