//! A laboratory for calibration: the whole pipeline in memory, on many data sets and seeds.

use std::time::Instant;

use faer::linalg::solvers::Solve;
use faer::{Mat, MatRef, Side};
use rand::Rng as _;
use rayon::prelude::*;
use tithe::calibration::certificate::{Certificate, Gaussian};
use tithe::calibration::features::{LocalMap, LocalSum};
use tithe::calibration::pool::{Pool, Race};
use tithe::calibration::{CalibrationSettings, calibrate, pool_capacity};
use tithe::points::{Points, TILE};
use tithe::rng::{Purpose, Rng, Seed, open_unit};

const PRIOR_PRECISION: f64 = 0.25;

type Failure = Box<dyn std::error::Error>;

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * open_unit(rng).ln()).sqrt() * (std::f64::consts::TAU * open_unit(rng)).cos()
}

fn load(name: &str) -> Result<Points, Failure> {
    if name == "mixture" || name == "binary10" {
        return Ok(synthetic(name));
    }
    let path = format!("/work/shared/data/{name}.parquet");
    let file = std::fs::File::open(path)?;
    let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)?.build()?;
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let mut labels: Vec<f64> = Vec::new();
    for batch in reader {
        let batch = batch?;
        let mut c = 0;
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let cast = arrow_cast::cast(array, &arrow_schema::DataType::Float64)?;
            let values = arrow_array::cast::as_primitive_array::<arrow_array::types::Float64Type>(&cast);
            if field.name() == "label" {
                labels.extend(values.values());
            } else {
                if columns.len() <= c {
                    columns.push(Vec::new());
                }
                columns[c].extend(values.values());
                c += 1;
            }
        }
    }
    let n = labels.len() as f64;
    for column in &mut columns {
        let mean = column.iter().sum::<f64>() / n;
        let sd = (column.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
        let inverse = if sd > 0.0 { 1.0 / sd } else { 0.0 };
        column.iter_mut().for_each(|x| *x = (*x - mean) * inverse);
    }
    let mut points = Points::new(columns.len() + 1);
    let mut row = vec![0.0; columns.len() + 1];
    for (i, y) in labels.iter().enumerate() {
        row[0] = *y;
        for (value, column) in row[1..].iter_mut().zip(&columns) {
            *value = column[i] * y;
        }
        points.push(&row, 1.0);
    }
    Ok(points)
}

fn synthetic(name: &str) -> Points {
    let mut rng = Seed(77).stream(Purpose::Generate, 0);
    let mut points = Points::new(10);
    let p = [1.0, 0.2, 0.3, 0.5, 0.01, 0.1, 0.2, 0.007, 0.005, 0.001];
    let theta = [-3.0, 1.2, -0.5, 0.8, 3.0, -1.0, -0.7, 4.0, 3.5, 4.5];
    for _ in 0..1_000_000 {
        let mut x = [0.0; 10];
        let y;
        if name == "binary10" {
            let mut s: f64 = 0.0;
            for j in 0..10 {
                x[j] = if open_unit(&mut rng) <= p[j] { 1.0 } else { 0.0 };
                s += x[j] * theta[j];
            }
            y = if open_unit(&mut rng) <= 1.0 / (1.0 + (-s).exp()) { 1.0 } else { -1.0 };
        } else {
            y = if rng.next_u64() & 1 == 0 { 1.0 } else { -1.0 };
            for (j, x) in x.iter_mut().enumerate() {
                *x = normal(&mut rng) + if (j < 5) == (y > 0.0) { 1.0 } else { 0.0 };
            }
        }
        points.push(&x.map(|x| x * y), 1.0);
    }
    points
}

fn sigmoid_parts(s: f64) -> (f64, f64, f64) {
    let e = (-s.abs()).exp();
    let half = 1.0 / (1.0 + e);
    let g = if s > 0.0 { -e * half } else { -half };
    (g, e * half * half, e.ln_1p() + (-s).max(0.0))
}

/// Loss Σ wφ, gradient Σ w g z, curvature Σ w h z zᵀ, prior excluded.
fn sums(points: &Points, theta: &[f64]) -> (f64, Vec<f64>, Mat<f64>) {
    let dim = points.dim();
    let tiles: Vec<_> = points.tiles().collect();
    let parts: Vec<_> = tiles
        .par_chunks(64)
        .map(|tiles| {
            let mut loss = 0.0;
            let mut gradient = vec![0.0; dim];
            let mut hessian = Mat::<f64>::zeros(dim, dim);
            let mut scaled = vec![0.0; dim * TILE];
            for tile in tiles {
                let mut s = [0.0; TILE];
                for (lane, t) in tile.z.iter().zip(theta) {
                    for r in 0..TILE {
                        s[r] += lane[r] * t;
                    }
                }
                let mut g = [0.0; TILE];
                let mut h = [0.0; TILE];
                for r in 0..tile.len {
                    let (a, b, c) = sigmoid_parts(s[r]);
                    g[r] = a * tile.w[r];
                    h[r] = b * tile.w[r];
                    loss += c * tile.w[r];
                }
                for (j, lane) in tile.z.iter().enumerate() {
                    let mut acc = 0.0;
                    for r in 0..TILE {
                        acc += lane[r] * g[r];
                        scaled[j * TILE + r] = lane[r] * h[r];
                    }
                    gradient[j] += acc;
                }
                let z = MatRef::from_column_major_slice(tile.z.as_flattened(), TILE, dim);
                let zs = MatRef::from_column_major_slice(&scaled, TILE, dim);
                use faer::linalg::matmul::triangular::{BlockStructure, matmul};
                matmul(
                    hessian.as_mut(),
                    BlockStructure::TriangularLower,
                    faer::Accum::Add,
                    z.transpose(),
                    BlockStructure::Rectangular,
                    zs,
                    BlockStructure::Rectangular,
                    1.0,
                    faer::Par::Seq,
                );
            }
            (loss, gradient, hessian)
        })
        .collect();
    let mut total = (0.0, vec![0.0; dim], Mat::zeros(dim, dim));
    for (loss, gradient, hessian) in parts {
        total.0 += loss;
        total.1.iter_mut().zip(&gradient).for_each(|(a, b)| *a += b);
        total.2 += hessian;
    }
    for j in 0..dim {
        for i in 0..j {
            total.2[(i, j)] = total.2[(j, i)];
        }
    }
    total
}

struct Laplace {
    theta: Vec<f64>,
    hessian: Mat<f64>,
    gradient: Vec<f64>,
    curvature: Mat<f64>,
    passes: usize,
}

/// Damped Newton; the last evaluation is at `theta` itself.
fn newton(points: &Points, start: &[f64], tolerance: f64) -> Laplace {
    let dim = points.dim();
    let mut theta = start.to_vec();
    let objective =
        |loss: f64, theta: &[f64]| loss + 0.5 * PRIOR_PRECISION * theta.iter().map(|t| t * t).sum::<f64>();
    let (mut loss, mut gradient, mut curvature) = sums(points, &theta);
    let mut passes = 1;
    loop {
        let hessian =
            Mat::from_fn(dim, dim, |i, j| curvature[(i, j)] + if i == j { PRIOR_PRECISION } else { 0.0 });
        let full: Vec<f64> = gradient.iter().zip(&theta).map(|(g, t)| g + PRIOR_PRECISION * t).collect();
        let mut step = Mat::from_fn(dim, 1, |i, _| full[i]);
        hessian.llt(Side::Lower).unwrap().solve_in_place(step.as_mut());
        let decrement: f64 = (0..dim).map(|i| full[i] * step[(i, 0)]).sum();
        if decrement <= tolerance || passes > 60 {
            return Laplace { theta, hessian, gradient, curvature, passes };
        }
        let now = objective(loss, &theta);
        let mut t = 1.0;
        loop {
            let trial: Vec<f64> = (0..dim).map(|i| theta[i] - t * step[(i, 0)]).collect();
            let (l, g, c) = sums(points, &trial);
            passes += 1;
            if objective(l, &trial) <= now - 0.1 * t * decrement + 1e-9 * now.abs() || t < 1e-6 {
                theta = trial;
                (loss, gradient, curvature) = (l, g, c);
                break;
            }
            t *= 0.5;
        }
    }
}

/// KL(N(a) ‖ N(b)).
fn kl(a: &Laplace, b: &Laplace) -> f64 {
    let dim = a.theta.len();
    // ½[tr(H_b H_a⁻¹) − D + ΔᵀH_bΔ + ln det H_a − ln det H_b]
    let fa = a.hessian.llt(Side::Lower).unwrap();
    let fb = b.hessian.llt(Side::Lower).unwrap();
    let mut product = b.hessian.clone();
    fa.solve_in_place(product.as_mut());
    let mut total = -(dim as f64);
    for i in 0..dim {
        total += product[(i, i)] + 2.0 * (fa.L()[(i, i)].ln() - fb.L()[(i, i)].ln());
        for j in 0..dim {
            total += (a.theta[i] - b.theta[i]) * b.hessian[(i, j)] * (a.theta[j] - b.theta[j]);
        }
    }
    0.5 * total
}

/// Shares s_n of Lemma 3.1 with k-means centres.
fn shares(points: &Points, k: usize, seed: Seed) -> Vec<f64> {
    let dim = points.dim();
    let n = points.len();
    let mut rng = seed.stream(Purpose::Clustering, 0);
    let size = ((1000 * k) as f64).min(0.025 * n as f64).max(k as f64 * 10.0).min(n as f64) as usize;
    let subset: Vec<Vec<f64>> =
        (0..size).map(|_| points.row((open_unit(&mut rng) * n as f64).ceil() as usize - 1)).collect();
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
    let mut centres = vec![subset[0].clone()];
    while centres.len() < k {
        let d: Vec<f64> = subset
            .iter()
            .map(|x| centres.iter().map(|c| distance(x, c)).fold(f64::INFINITY, f64::min))
            .collect();
        let mut u = open_unit(&mut rng) * d.iter().sum::<f64>();
        let mut pick = 0;
        for (i, d) in d.iter().enumerate() {
            u -= d;
            if u <= 0.0 {
                pick = i;
                break;
            }
        }
        centres.push(subset[pick].clone());
    }
    let nearest = |x: &[f64], centres: &[Vec<f64>]| {
        let mut best = (0, f64::INFINITY);
        for (i, c) in centres.iter().enumerate() {
            let d = distance(x, c);
            if d < best.1 {
                best = (i, d);
            }
        }
        best
    };
    for _ in 0..10 {
        let mut total = vec![vec![0.0; dim]; k];
        let mut count = vec![0.0; k];
        for x in &subset {
            let (i, _) = nearest(x, &centres);
            count[i] += 1.0;
            total[i].iter_mut().zip(x).for_each(|(a, b)| *a += b);
        }
        for i in 0..k {
            if count[i] > 0.0 {
                centres[i] = total[i].iter().map(|x| x / count[i]).collect();
            }
        }
    }
    let rows: Vec<(usize, f64, Vec<f64>)> = (0..n)
        .into_par_iter()
        .map(|i| {
            let x = points.row(i);
            let (c, d) = nearest(&x, &centres);
            let all = centres.iter().map(|c| distance(&x, c).sqrt()).collect();
            (c, d, all)
        })
        .collect();
    let mut mass = vec![0.0; k];
    let mut score = 0.0;
    for (c, d, _) in &rows {
        mass[*c] += 1.0;
        score += d;
    }
    let radius = 3.0 / (score / n as f64).sqrt();
    rows.iter()
        .map(|(c, _, all)| {
            let total: f64 =
                (0..k).map(|i| (mass[i] - if i == *c { 1.0 } else { 0.0 }) * (-radius * all[i]).exp()).sum();
            1.0 / (1.0 + total)
        })
        .collect()
}

struct Outcome {
    kl: f64,
    certified: f64,
    predicted: f64,
    rows: usize,
    pool_seconds: f64,
    solve_seconds: f64,
    draws: f64,
    rounds: usize,
    solves: usize,
    deficient: usize,
}

struct Problem {
    points: Points,
    full: Laplace,
    map: LocalMap,
    target: LocalSum,
}

/// The pool pass: norms and both races, in parallel over blocks of tiles.
fn pool_pass(problem: &Problem, shares: &[f64], capacity: usize, seed: Seed) -> Pool {
    const TILES: usize = 512;
    let tiles: Vec<_> = problem.points.tiles().collect();
    // Rough totals, as a pilot coreset would give them: from every 97th tile.
    let mut scratch = vec![[0.0; TILE]; problem.points.dim()];
    let norms: f64 = 97.0
        * tiles
            .iter()
            .step_by(97)
            .map(|t| problem.map.norms(t, &mut scratch).iter().sum::<f64>())
            .sum::<f64>();
    let total: f64 = shares.iter().sum();
    tiles
        .par_chunks(TILES)
        .enumerate()
        .map(|(block, tiles)| {
            let mut race = Race::with_totals(capacity, total, norms);
            let mut rng = seed.stream(Purpose::Pool, block as u64);
            let mut scratch = vec![[0.0; TILE]; problem.points.dim()];
            for (t, tile) in tiles.iter().enumerate() {
                let first = (block * TILES + t) * TILE;
                let norms = problem.map.norms(tile, &mut scratch);
                let mut lane = [0.0; TILE];
                lane[..tile.len].copy_from_slice(&shares[first..first + tile.len]);
                race.enter(tile, &lane, &norms, |r| (first + r) as u64, &mut rng);
            }
            race
        })
        .collect::<Vec<_>>()
        .into_iter()
        .fold(Race::with_totals(capacity, total, norms), Race::merge)
        .finish()
}

fn run(
    problem: &Problem,
    size: usize,
    seed: u64,
    shares: &[f64],
    settings: &CalibrationSettings,
    choice: f64,
) -> Outcome {
    let seed = Seed(seed);
    let started = Instant::now();
    let capacity = (pool_capacity(size, problem.points.dim()) as f64 * choice) as usize;
    let pool = pool_pass(problem, shares, capacity, seed);
    let pool_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let calibrated = calibrate(&pool, &problem.map, &problem.target, size, seed, settings);
    let solve_seconds = started.elapsed().as_secs_f64();
    let rows = calibrated.rows.iter().zip(&calibrated.weights);
    let core =
        Points::from_rows(problem.points.dim(), rows.map(|(&p, &w)| (pool.candidates[p].z.as_slice(), w)));
    let full = Gaussian { mean: problem.full.theta.clone(), precision: problem.full.hessian.clone() };
    let precision = vec![PRIOR_PRECISION; core.dim()];
    let certificate = Certificate::new(&core, &full, &precision, Some(calibrated.predicted)).unwrap();
    let own = newton(&core, &problem.full.theta, 1e-12);
    let draws = if std::env::var("DRAWS").is_ok() { half_variance(problem, &core) } else { f64::NAN };
    Outcome {
        kl: kl(&own, &problem.full),
        certified: certificate.kl,
        predicted: calibrated.predicted,
        rows: core.len(),
        pool_seconds,
        solve_seconds,
        draws,
        rounds: calibrated.rounds,
        solves: calibrated.solves,
        deficient: certificate.deficiencies.len(),
    }
}

/// ½Var(L − L̃) over draws of the coreset's posterior (Laplace proposals, importance weighted to be the
/// full posterior's own draws).
fn half_variance(problem: &Problem, core: &Points) -> f64 {
    let dim = core.dim();
    let mut rng = Seed(5).stream(Purpose::Chain, 0);
    let c = problem.map.whitening();
    let draws: Vec<Vec<f64>> = (0..100)
        .map(|_| {
            let xi: Vec<f64> = (0..dim).map(|_| normal(&mut rng)).collect();
            // θ = θ̂ + C ξ
            (0..dim)
                .map(|i| problem.full.theta[i] + (i..dim).map(|j| c[(j, i)] * xi[j]).sum::<f64>())
                .collect()
        })
        .collect();
    let value = |points: &Points, theta: &[f64]| -> f64 {
        (0..points.len())
            .into_par_iter()
            .map(|i| {
                let tile = points.tile(i / TILE);
                let r = i % TILE;
                let s: f64 = tile.z.iter().zip(theta).map(|(l, t)| l[r] * t).sum();
                -tile.w[r] * sigmoid_parts(s).2
            })
            .sum()
    };
    let d: Vec<f64> = draws.iter().map(|t| value(&problem.points, t) - value(core, t)).collect();
    let mean = d.iter().sum::<f64>() / d.len() as f64;
    0.5 * d.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (d.len() - 1) as f64
}

fn prepare(name: &str) -> Result<Problem, Failure> {
    let points = load(name)?;
    let started = Instant::now();
    let full = newton(&points, &vec![0.0; points.dim()], 1e-10);
    let seconds = started.elapsed().as_secs_f64();
    let map = LocalMap::new(full.theta.clone(), full.hessian.as_ref())?;
    let target = map.sum_of(&full.gradient, full.curvature.as_ref());
    println!(
        "{name}: {} × {}, d = {}, |b|² {:.2}; {} passes from 0, {:.2} s",
        points.len(),
        points.dim(),
        map.feature_count(),
        target.norm_squared(),
        full.passes,
        seconds,
    );
    Ok(Problem { points, full, map, target })
}

fn main() -> Result<(), Failure> {
    let mut settings = CalibrationSettings::default();
    let mut choice = 1.0;
    let mut seeds = 3;
    let mut jobs: Vec<(String, usize)> = Vec::new();
    let mut variants = Vec::new();
    for argument in std::env::args().skip(1) {
        if let Some((name, size)) = argument.split_once(':') {
            jobs.push((name.to_string(), size.parse()?));
        } else if argument == "/" {
            variants.push((settings, choice));
        } else if let Some((key, value)) = argument.split_once('=') {
            match key {
                "choice" => choice = value.parse()?,
                "selected" => settings.selected = value.parse()?,
                "rounds" => settings.rounds = value.parse()?,
                "nearness" => settings.nearness = value.parse()?,
                "tolerance" => settings.tolerance = value.parse()?,
                "seeds" => seeds = value.parse()?,
                _ => return Err(format!("what is {key}?").into()),
            }
        }
    }
    variants.push((settings, choice));
    let mut current: Option<(String, Problem, Vec<Vec<f64>>)> = None;
    for (name, size) in &jobs {
        if current.as_ref().is_none_or(|c| &c.0 != name) {
            let problem = prepare(name)?;
            let all = (0..seeds).map(|seed| shares(&problem.points, 6, Seed(seed))).collect();
            current = Some((name.clone(), problem, all));
        }
        let (_, problem, all) = current.as_ref().ok_or("no data")?;
        for (settings, choice) in &variants {
            let outcomes: Vec<Outcome> = (0..seeds)
                .map(|seed| run(problem, *size, seed, &all[seed as usize], settings, *choice))
                .collect();
            let mut kls: Vec<f64> = outcomes.iter().map(|o| o.kl).collect();
            kls.sort_by(f64::total_cmp);
            let median = 0.5 * (kls[(kls.len() - 1) / 2] + kls[kls.len() / 2]);
            let mean = |f: fn(&Outcome) -> f64| outcomes.iter().map(f).sum::<f64>() / outcomes.len() as f64;
            let off = outcomes.iter().map(|o| (o.certified / o.kl).ln().abs().exp()).fold(0.0, f64::max);
            println!(
                "{name:>16} M {size:5}  KL median {median:8.2e} max {:8.2e}  predicted {:8.2e} certified off ×{off:.2}  rows {:5.0}  pool {:.2} s solve {:.2} s  rounds {:.0} solves {:.0} deficient {:.0}  ½Var {:8.2e}  [selected {} rounds {} nearness {:e} choice {choice}]",
                kls[kls.len() - 1],
                mean(|o| o.predicted),
                mean(|o| o.rows as f64),
                mean(|o| o.pool_seconds),
                mean(|o| o.solve_seconds),
                mean(|o| o.rounds as f64),
                mean(|o| o.solves as f64),
                mean(|o| o.deficient as f64),
                mean(|o| o.draws),
                settings.selected,
                settings.rounds,
                settings.nearness,
            );
        }
    }
    Ok(())
}
