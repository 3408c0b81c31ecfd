//! Compares coresets of streams with the full data: a Markdown table of the KL divergence of posteriors by method and size.
//!
//! `cargo run --release -p tithe --example streaming [-- [--seeds N] [--block ROWS] [--size M] [--only] [NAME…]]`
//!
//! NAME is mixture, binary10 or covtype, or merge for 64 separately built shards of covtype, merged in a random order. `--only`
//! runs only the default method. Files are read from the directory in `TITHE_DATA`, or from `../shared/data` next to the
//! repository; missing files are skipped. Each seed has its own order of rows.

use std::path::PathBuf;
use std::time::Instant;

use arrow_schema::DataType;
use tithe::base::error::Result;
use tithe::base::progress::Silent;
use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::coreset::build::{BuildSettings, build, build_on};
use tithe::coreset::certify::{CertifySettings, certify};
use tithe::coreset::merge::merge;
use tithe::coreset::selection::Size;
use tithe::coreset::{Coreset, Method};
use tithe::data::block::{Column, Field, Kind, Segment};
use tithe::data::generate::Recipe;
use tithe::data::source::memory::Columns;
use tithe::data::source::{OpenOptions, open};
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, Standardize};
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::model::{Prior, PriorChoice};
use tithe::stream::tree::{ReferencePoint, Rows, Tree, TreeSettings};

/// Data sets and coreset sizes.
const LINES: [(&str, &[usize]); 3] =
    [("mixture", &[500, 1000, 2000]), ("binary10", &[500, 1000, 2000]), ("covtype", &[1000, 2000, 4000])];
/// Methods, with the reference points of calibration.
const METHODS: [(Method, ReferencePoint, &str); 4] = [
    (Method::Calibrated, ReferencePoint::Renewed, "calibrated"),
    (Method::Calibrated, ReferencePoint::Own, "calibrated, each step at its own mode"),
    (Method::Calibrated, ReferencePoint::First, "calibrated, at the mode of the first block"),
    (Method::Sensitivity, ReferencePoint::Renewed, "sensitivity"),
];
const GENERATED_ROWS: usize = 1_000_000;

/// A table in memory.
struct Data {
    names: Vec<String>,
    columns: Vec<Vec<f64>>,
    label: &'static str,
    generated: bool,
}

impl Data {
    fn read(name: &str) -> Result<Option<Data>> {
        if let Ok(recipe) = name.parse::<Recipe>() {
            let (names, columns) = recipe.data(Seed(0), GENERATED_ROWS).columns().into_iter().unzip();
            return Ok(Some(Data { names, columns, label: "y", generated: true }));
        }
        let folder = match std::env::var_os("TITHE_DATA") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        };
        let file = folder.join(format!("{name}.parquet"));
        if !file.is_file() {
            eprintln!("{} not found: skipped", file.display());
            return Ok(None);
        }
        let source = open(&[file.display().to_string()], &OpenOptions::default())?;
        let names: Vec<String> = source.fields().iter().map(|field| field.name.clone()).collect();
        let mut columns = vec![Vec::new(); names.len()];
        let mut scan = source.scan(&(0..names.len()).collect::<Vec<_>>())?;
        while let Some(unit) = scan.next_unit()? {
            unit.decode(&mut |segment| {
                for (all, column) in columns.iter_mut().zip(&segment.columns) {
                    if let Column::Number(values) = column {
                        all.extend_from_slice(values);
                    }
                }
                Ok(())
            })?;
        }
        Ok(Some(Data { names, columns, label: "label", generated: false }))
    }

    fn rows(&self) -> usize {
        self.columns[0].len()
    }

    fn shuffle(&mut self, seed: u64) {
        let mut rng = Seed(seed).stream(Purpose::Generate, u64::MAX);
        for row in (1..self.rows()).rev() {
            let other = (open_unit(&mut rng) * (row + 1) as f64) as usize % (row + 1);
            self.columns.iter_mut().for_each(|column| column.swap(row, other));
        }
    }

    fn roles(&self) -> Roles {
        Roles { label: self.label.into(), ..Roles::default() }
    }

    fn engine(&self) -> Result<LocalEngine<'static>> {
        let columns = self.names.iter().cloned().zip(self.columns.iter().cloned()).collect();
        let table = Table::new(Box::new(Columns::new(columns)?), &self.roles())?;
        LocalEngine::new(table, &EngineSettings::default(), &Silent)
    }

    /// Coresets of shards, each with its own encoding.
    fn shards(&self, count: usize, settings: &BuildSettings) -> Result<Vec<(String, Coreset)>> {
        let edges: Vec<usize> = (0..=count).map(|at| at * self.rows() / count).collect();
        let shard = |edges: &[usize]| -> Result<(String, Coreset)> {
            let values = self.columns.iter().map(|column| column[edges[0]..edges[1]].to_vec());
            let columns = Columns::new(self.names.iter().cloned().zip(values).collect())?;
            Ok((edges[0].to_string(), build(Box::new(columns), &self.roles(), settings)?))
        };
        edges.windows(2).map(shard).collect()
    }

    /// The coreset at the end of the stream, and the largest number of coresets held at the same time.
    fn stream(&self, settings: TreeSettings, block: usize) -> Result<(Coreset, usize)> {
        let number =
            |name: &String| Field { name: name.clone(), kind: Kind::Number, data_type: DataType::Float64 };
        let fields: Vec<Field> = self.names.iter().map(number).collect();
        let mut tree = Tree::new(settings)?;
        let mut most = 0;
        for start in (0..self.rows()).step_by(block) {
            let end = (start + block).min(self.rows());
            let columns =
                self.columns.iter().map(|column| Column::Number(column[start..end].to_vec().into()));
            let rows = Rows {
                fields: fields.clone(),
                segment: Segment { columns: columns.collect(), len: end - start },
                first_row: start as u64,
                roles: self.roles(),
                is_sparse: false,
            };
            tree.push(rows, &Silent)?;
            most = most.max(tree.levels().iter().flatten().count());
        }
        Ok((tree.snapshot(None, &Silent)?, most))
    }
}

/// The prior of the benchmarks: N(0, 4I).
fn prior() -> PriorChoice {
    PriorChoice::same(Prior::Normal { scale: 2.0 })
}

fn certified() -> CertifySettings {
    CertifySettings { priors: Some(prior()), ..CertifySettings::default() }
}

/// Merges shards of covtype in random orders and prints the KL divergence of the result.
fn merged(seeds: u64) -> Result<()> {
    const SHARDS: usize = 64;
    let size = 2000;
    let Some(mut data) = Data::read("covtype")? else { return Ok(()) };
    data.shuffle(0);
    let engine = data.engine()?;
    let settings = |seed| BuildSettings {
        size: Size::Rows(size),
        seed: Seed(seed),
        encoding: EncodingSettings { standardize: Standardize::All, ..EncodingSettings::default() },
        priors: prior(),
        ..BuildSettings::default()
    };
    let kl = |coreset: &Coreset| -> Result<f64> {
        Ok(certify(&engine, coreset, &certified())?.certificate.normal.kl)
    };
    let single = kl(&build_on(&engine, &settings(0))?.coreset)?;
    let mut shards = data.shards(SHARDS, &settings(0))?;
    let (mut measured, mut recorded) = (Vec::new(), Vec::new());
    for seed in 0..seeds {
        let mut rng = Seed(seed).stream(Purpose::Generate, u64::MAX);
        for at in (1..SHARDS).rev() {
            shards.swap(at, (open_unit(&mut rng) * (at + 1) as f64) as usize % (at + 1));
        }
        let all = merge(&shards, &settings(seed), None, &Silent)?;
        assert_eq!(all.provenance.rows, data.rows() as u64);
        recorded.push(all.provenance.composed().kl.unwrap_or(f64::NAN));
        measured.push(kl(&all)?);
    }
    let ((median, largest), (recorded, _)) = (median_and_largest(measured), median_and_largest(recorded));
    println!("covtype, {SHARDS} shards merged to {size} rows in {seeds} random orders:");
    println!(
        "KL: median {median:.1e}, largest {largest:.1e} (recorded in the file: {recorded:.1e}); single build of all rows: {single:.1e}"
    );
    Ok(())
}

/// The command line.
struct Options {
    seeds: u64,
    block: usize,
    only_default: bool,
    size: Option<usize>,
    names: Vec<String>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Options {
        let mut options =
            Options { seeds: 5, block: 10_000, only_default: false, size: None, names: Vec::new() };
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|value| value.parse::<usize>().ok());
            match argument.as_str() {
                "--seeds" => options.seeds = number().map_or(options.seeds, |seeds| seeds as u64).max(1),
                "--block" => options.block = number().unwrap_or(options.block).max(1),
                "--size" => options.size = number(),
                "--only" => options.only_default = true,
                _ => options.names.push(argument),
            }
        }
        options
    }
}

fn main() -> Result<()> {
    let options = Options::read(std::env::args().skip(1));
    if options.names.iter().any(|name| name == "merge") {
        return merged(options.seeds);
    }
    println!(
        "| data | rows | M | method | KL, median | KL, largest | KL recorded in the file | seconds | seconds to build | coresets held |"
    );
    println!("| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (name, sizes) in LINES {
        if !options.names.is_empty() && !options.names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let Some(mut data) = Data::read(name)? else { continue };
        let engine = data.engine()?;
        for &size in sizes.iter().filter(|size| options.size.is_none_or(|wanted| wanted == **size)) {
            for (method, reference, method_name) in METHODS {
                let is_default = reference == ReferencePoint::Renewed && method == Method::Calibrated;
                // Other methods run with the middle size only.
                if is_default || (!options.only_default && size == sizes[1]) {
                    let values = line(&mut data, &engine, &options, size, method, reference)?;
                    println!("| {name} | {} | {size} | {method_name} | {values} |", data.rows());
                }
            }
        }
    }
    Ok(())
}

/// Streams the data once per seed and returns the measured columns of a line of the table.
fn line(
    data: &mut Data,
    engine: &LocalEngine<'_>,
    options: &Options,
    size: usize,
    method: Method,
    reference: ReferencePoint,
) -> Result<String> {
    let (mut kl, mut recorded, mut held) = (Vec::new(), Vec::new(), 0);
    let (mut seconds, mut build_seconds) = (Vec::new(), Vec::new());
    for seed in 0..options.seeds {
        data.shuffle(seed);
        let encoding = EncodingSettings {
            intercept: !data.generated,
            standardize: if data.generated { Standardize::None } else { Standardize::All },
            ..EncodingSettings::default()
        };
        let build = BuildSettings {
            method,
            size: Size::Rows(size),
            collapse: false,
            seed: Seed(seed),
            encoding,
            priors: prior(),
            ..BuildSettings::default()
        };
        let fresh = data.engine()?;
        let start = Instant::now();
        build_on(&fresh, &build)?;
        build_seconds.push(start.elapsed().as_secs_f64());
        let settings =
            TreeSettings { build, missing: Missing::Error, threads: None, reference, fading: None };
        let start = Instant::now();
        let (coreset, most) = data.stream(settings, options.block)?;
        seconds.push(start.elapsed().as_secs_f64());
        held = held.max(most);
        recorded.push(coreset.provenance.composed().kl.unwrap_or(f64::NAN));
        kl.push(certify(engine, &coreset, &certified())?.certificate.normal.kl);
    }
    let ((median, largest), (recorded, _)) = (median_and_largest(kl), median_and_largest(recorded));
    let ((time, _), (build_time, _)) = (median_and_largest(seconds), median_and_largest(build_seconds));
    Ok(format!("{median:.1e} | {largest:.1e} | {recorded:.1e} | {time:.2} | {build_time:.2} | {held}"))
}

fn median_and_largest(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (0.5 * (values[(n - 1) / 2] + values[n / 2]), values[n - 1])
}
