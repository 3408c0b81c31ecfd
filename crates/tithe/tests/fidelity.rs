//! The KL of calibrated coresets to the full data's posterior on real data. The test computes mode and KL itself and takes only
//! positions and weights of rows from the coreset.
//!
//! The data is read from the directory in `TITHE_DATA`, or from `../shared/data` next to the repository.

use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tithe::base::rng::Seed;
use tithe::coreset::build::{BuildSettings, build};
use tithe::coreset::selection::Size;
use tithe::data::source::{OpenOptions, open};
use tithe::data::table::Roles;

const PRIOR_PRECISION: f64 = 0.25;

fn data_file(name: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("TITHE_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    let file = folder.join(format!("{name}.parquet"));
    if !file.is_file() {
        eprintln!("SKIPPED: {} is not there; name its folder with TITHE_DATA", file.display());
        return None;
    }
    Some(file)
}

/// All rows as `z = y·(1, standardised x)`.
fn rows(file: &PathBuf) -> Vec<Vec<f64>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(file).expect("a file"))
        .and_then(|reader| reader.build())
        .expect("Parquet");
    let (mut columns, mut label): (Vec<Vec<f64>>, Vec<f64>) = (Vec::new(), Vec::new());
    for batch in reader {
        let batch = batch.expect("rows");
        let mut c = 0;
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let numbers = arrow_cast::cast(array, &DataType::Float64).expect("numbers");
            let values = numbers.as_primitive::<Float64Type>().values();
            if field.name() == "label" {
                label.extend_from_slice(values);
            } else {
                if columns.len() == c {
                    columns.push(Vec::new());
                }
                columns[c].extend_from_slice(values);
                c += 1;
            }
        }
    }
    let n = label.len() as f64;
    for column in &mut columns {
        let mean = column.iter().sum::<f64>() / n;
        let sd = (column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let scale = if sd > 0.0 { sd } else { 1.0 };
        column.iter_mut().for_each(|x| *x = (*x - mean) / scale);
    }
    (0..label.len())
        .map(|r| {
            std::iter::once(1.0).chain(columns.iter().map(|column| column[r])).map(|x| x * label[r]).collect()
        })
        .collect()
}

/// A lower triangular `L` with `L Lᵀ = A`.
fn cholesky(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let d = a.len();
    let mut l = vec![vec![0.0; d]; d];
    for i in 0..d {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
            l[i][j] = if i == j { (a[i][i] - sum).sqrt() } else { (a[i][j] - sum) / l[j][j] };
        }
    }
    l
}

fn solve_lower(l: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let mut x: Vec<f64> = Vec::with_capacity(b.len());
    for i in 0..b.len() {
        let sum: f64 = (0..i).map(|k| l[i][k] * x[k]).sum();
        x.push((b[i] - sum) / l[i][i]);
    }
    x
}

fn solve_upper(l: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let d = b.len();
    let mut x = vec![0.0; d];
    for i in (0..d).rev() {
        let sum: f64 = (i + 1..d).map(|k| l[k][i] * x[k]).sum();
        x[i] = (b[i] - sum) / l[i][i];
    }
    x
}

/// The mode and the lower triangle of the negative Hessian there, by plain Newton steps, halved while they lower the value.
fn laplace(rows: &[(&[f64], f64)], dim: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let objective = |theta: &[f64]| {
        let fit: f64 = rows
            .iter()
            .map(|(z, w)| {
                let s: f64 = z.iter().zip(theta).map(|(z, t)| z * t).sum();
                w * ((-s).max(0.0) + (-s.abs()).exp().ln_1p())
            })
            .sum();
        fit + 0.5 * PRIOR_PRECISION * theta.iter().map(|t| t * t).sum::<f64>()
    };
    let mut theta = vec![0.0; dim];
    let mut here = objective(&theta);
    for _ in 0..100 {
        let mut gradient: Vec<f64> = theta.iter().map(|t| PRIOR_PRECISION * t).collect();
        let mut hessian = vec![vec![0.0; dim]; dim];
        (0..dim).for_each(|i| hessian[i][i] = PRIOR_PRECISION);
        for (z, w) in rows {
            let s: f64 = z.iter().zip(&theta).map(|(z, t)| z * t).sum();
            let p = 1.0 / (1.0 + s.exp());
            for i in 0..dim {
                gradient[i] -= w * p * z[i];
                let scaled = w * p * (1.0 - p) * z[i];
                for j in 0..=i {
                    hessian[i][j] += scaled * z[j];
                }
            }
        }
        let l = cholesky(&hessian);
        let step = solve_upper(&l, &solve_lower(&l, &gradient));
        let decrement: f64 = step.iter().zip(&gradient).map(|(s, g)| s * g).sum();
        if decrement < 1e-9 {
            // The error after one more step is negligible.
            theta.iter_mut().zip(&step).for_each(|(t, s)| *t -= s);
            return (theta, hessian);
        }
        let mut length = 1.0;
        loop {
            let next: Vec<f64> = theta.iter().zip(&step).map(|(t, s)| t - length * s).collect();
            let there = objective(&next);
            if there <= here || length < 1e-6 {
                (theta, here) = (next, there);
                break;
            }
            length *= 0.5;
        }
    }
    panic!("no mode");
}

/// `KL(N(a, A⁻¹) ‖ N(b, B⁻¹))` of means and precisions.
fn kl(a: &(Vec<f64>, Vec<Vec<f64>>), b: &(Vec<f64>, Vec<Vec<f64>>)) -> f64 {
    let dim = a.0.len();
    let (la, lb) = (cholesky(&a.1), cholesky(&b.1));
    // tr(B A⁻¹) = ‖L_bᵀ L_a⁻ᵀ‖².
    let mut trace = 0.0;
    for j in 0..dim {
        let unit: Vec<f64> = (0..dim).map(|i| f64::from(u8::from(i == j))).collect();
        let column = solve_upper(&la, &unit);
        trace += (0..dim).map(|i| (i..dim).map(|k| lb[k][i] * column[k]).sum::<f64>().powi(2)).sum::<f64>();
    }
    let shift: Vec<f64> = a.0.iter().zip(&b.0).map(|(a, b)| a - b).collect();
    let square: f64 =
        (0..dim).map(|i| (i..dim).map(|k| lb[k][i] * shift[k]).sum::<f64>().powi(2)).sum::<f64>();
    let log_det: f64 = (0..dim).map(|i| 2.0 * (la[i][i].ln() - lb[i][i].ln())).sum();
    0.5 * (trace - dim as f64 + square + log_det)
}

/// Three seeds: the median is below the limit, none is above ten times the limit, and the certificate is within a factor of 2 of
/// the KL unless both are rounding errors.
fn check(name: &str, size: usize, limit: f64) {
    let Some(file) = data_file(name) else { return };
    let all = rows(&file);
    let dim = all[0].len();
    let full = laplace(&all.iter().map(|z| (z.as_slice(), 1.0)).collect::<Vec<_>>(), dim);
    let mut found = Vec::new();
    for seed in 0..3 {
        let data = open(&[file.display().to_string()], &OpenOptions::default()).expect("data");
        let roles = Roles { label: "label".into(), ..Roles::default() };
        let settings = BuildSettings { size: Size::Rows(size), seed: Seed(seed), ..BuildSettings::default() };
        let coreset = build(data, &roles, &settings).expect("a coreset");
        assert!(coreset.rows.len() <= size);
        let weighted: Vec<(&[f64], f64)> = coreset
            .rows
            .positions
            .iter()
            .zip(&coreset.weights)
            .map(|(&position, &weight)| (all[position as usize].as_slice(), weight))
            .collect();
        let own = kl(&laplace(&weighted, dim), &full);
        assert!(own < 10.0 * limit, "{name}, seed {seed}: {own}");
        if let Some(facts) = &coreset.provenance.calibration
            && own < 0.5
        {
            let certified = facts.certificate.normal.kl;
            let near = (0.5..2.0).contains(&(certified / own)) || (own < 1e-6 && certified < 1e-6);
            assert!(near, "{name}, seed {seed}: certified {certified}, measured {own}");
        }
        found.push(own);
    }
    found.sort_by(f64::total_cmp);
    eprintln!("{name}, {size} rows: KL {found:?}");
    assert!(found[1] <= limit, "{name}: {found:?}");
}

#[test]
fn ds1_10() {
    check("ds1_10", 500, 1e-3);
}

#[test]
fn skin_nonskin() {
    check("skin_nonskin", 300, 1e-3);
}

#[test]
fn bank_marketing() {
    check("bank_marketing", 1000, 0.3);
}
