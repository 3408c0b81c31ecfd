//! Measures coresets of hierarchical models: rows, KL at three scales of the group effects, time and memory.
//!
//! `cargo run --release -p tithe --example hierarchical -- ROWS DIM GROUPS EFFECTS SD POWER` generates data whose group sizes follow a
//! power law; `… -- FILE LABEL GROUP [COLUMN …]` reads a file, with the slopes of the named columns varying by group.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use rand_distr::{Distribution, StandardNormal};
use tithe::base::progress::Silent;
use tithe::base::rng::{Purpose, Seed, open_unit};
use tithe::coreset::build::{BuildSettings, build_on};
use tithe::coreset::selection::Size;
use tithe::data::source::memory::Batches;
use tithe::data::source::{Input, OpenOptions, Source, open_inputs};
use tithe::data::table::{Roles, Table};
use tithe::encoding::{EncodingSettings, GroupFactor};
use tithe::engine::{EngineSettings, LocalEngine};

/// The size of generated data, and its effects.
struct Recipe {
    rows: usize,
    dim: usize,
    groups: usize,
    /// Effects per group: an intercept, and slopes of the first columns.
    effects: usize,
    /// Standard deviation of the effects.
    sd: f64,
    /// Group i has a share in proportion to `(i + 3)^{−power}`.
    power: f64,
    seed: u64,
}

impl Recipe {
    /// Columns `x1` to `x(D−1)`, the group as an integer, and the label, in batches.
    fn source(&self) -> Batches {
        let mut rng = Seed(self.seed).stream(Purpose::Generate, 0);
        let shares: Vec<f64> = (0..self.groups).map(|i| (i as f64 + 3.0).powf(-self.power)).collect();
        let total: f64 = shares.iter().sum();
        let cumulative: Vec<f64> = shares
            .iter()
            .scan(0.0, |sum, share| {
                *sum += share / total;
                Some(*sum)
            })
            .collect();
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let effects: Vec<f64> = (0..self.groups * self.effects).map(|_| self.sd * normal()).collect();
        let beta: Vec<f64> = (1..self.dim).map(|_| 0.5 * normal()).collect();
        let batches: Vec<RecordBatch> = (0..self.rows.div_ceil(1 << 18))
            .map(|batch| {
                let rows = (1 << 18).min(self.rows - (batch << 18));
                let mut rng = Seed(self.seed).stream(Purpose::Generate, 1 + batch as u64);
                let mut x = vec![Vec::with_capacity(rows); self.dim - 1];
                let (mut group, mut y) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
                for _ in 0..rows {
                    let unit = open_unit(&mut rng);
                    let g = cumulative.partition_point(|sum| *sum < unit).min(self.groups - 1);
                    let mut eta = -1.0 + effects[g * self.effects];
                    for (d, column) in x.iter_mut().enumerate() {
                        let value: f64 = StandardNormal.sample(&mut rng);
                        eta += beta[d] * value;
                        if d + 1 < self.effects {
                            eta += effects[g * self.effects + d + 1] * value;
                        }
                        column.push(value);
                    }
                    group.push(g as i64);
                    y.push(if open_unit(&mut rng) < 1.0 / (1.0 + (-eta).exp()) { 1.0 } else { 0.0 });
                }
                let columns = x.into_iter().enumerate().map(|(d, values)| {
                    (format!("x{}", d + 1), Arc::new(Float64Array::from(values)) as ArrayRef)
                });
                let rest: [(String, ArrayRef); 2] = [
                    ("g".to_string(), Arc::new(Int64Array::from(group))),
                    ("y".to_string(), Arc::new(Float64Array::from(y))),
                ];
                RecordBatch::try_from_iter(columns.chain(rest)).expect("columns of one length")
            })
            .collect();
        let mut source = Batches::new(batches[0].schema(), batches).expect("batches of one schema");
        source.read_as_text("g").expect("a column g");
        source
    }
}

fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
}

fn measure(name: &str, source: Box<dyn Source>, roles: &Roles, factor: GroupFactor) {
    let size = match std::env::var("SIZE").ok().and_then(|rows| rows.parse().ok()) {
        Some(rows) => Size::Rows(rows),
        None => Size::Kl { target: 0.05 },
    };
    let encoding = EncodingSettings { groups: vec![factor], ..EncodingSettings::default() };
    let settings = BuildSettings { encoding, size, ..BuildSettings::default() };
    let table = Table::new(source, roles).expect("a table");
    let engine = LocalEngine::new(table, &EngineSettings::default(), &Silent).expect("an engine");
    let start = Instant::now();
    let built = match build_on(&engine, &settings) {
        Ok(built) => built,
        Err(error) => return println!("{name}: {error}"),
    };
    let (coreset, seconds) = (built.coreset, start.elapsed().as_secs_f64());
    let provenance = &coreset.provenance;
    let Some(facts) = &provenance.hierarchical else { return println!("{name}: exact") };
    let each = coreset.weights.len() as f64 / facts.groups as f64;
    println!(
        "{name}: {} of {} rows, {} groups, {each:.1} rows per group, {seconds:.1} s, {} passes, peak memory {:.0} MiB",
        coreset.weights.len(),
        provenance.rows,
        facts.groups,
        provenance.passes,
        peak_memory(),
    );
    let sd: Vec<String> =
        (0..facts.effects.len()).map(|i| format!("{:.3}", facts.covariance.sd(i))).collect();
    println!("  sd of effects {}; seconds {:?}", sd.join(", "), built.seconds);
    for found in &facts.scales {
        let draws = found.draws.as_ref().map_or(f64::NAN, |draws| draws.kl);
        println!(
            "  scale {}: KL {:.2e}, at draws {draws:.2e}, mean error {:.3} ({}), sd ratios {:.3} to {:.3}",
            found.scale,
            found.kl,
            found.mean_error,
            found.mean_error_of,
            found.sd_ratios.0,
            found.sd_ratios.1,
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<f64> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    match (&numbers[..], &arguments[..]) {
        (&[rows, dim, groups, effects, sd, power], _) => {
            let [rows, dim, groups, effects] = [rows, dim, groups, effects].map(|x| x as usize);
            let recipe = Recipe { rows, dim, groups, effects, sd, power, seed: 1 };
            let slopes = (1..effects).map(|d| format!("x{d}")).collect();
            let factor = GroupFactor { slopes, ..GroupFactor::intercept("g") };
            let roles = Roles { label: "y".to_string(), ..Roles::default() };
            let name = format!("N={rows} D={dim} G={groups} q={effects} sd={sd} power={power}");
            measure(&name, Box::new(recipe.source()), &roles, factor);
        }
        (_, [file, label, group, slopes @ ..]) => {
            let options = OpenOptions { text: vec![group.clone()], ..OpenOptions::default() };
            let source = open_inputs(vec![Input::file(file)], &options).expect("a file");
            let factor = GroupFactor { slopes: slopes.to_vec(), ..GroupFactor::intercept(group) };
            let exclude = std::env::var("EXCLUDE").unwrap_or_default();
            let exclude = exclude.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect();
            let roles = Roles { label: label.clone(), exclude, ..Roles::default() };
            measure(file, source, &roles, factor);
        }
        _ => println!("usage: hierarchical ROWS DIM GROUPS EFFECTS SD POWER | FILE LABEL GROUP [COLUMN …]"),
    }
}
