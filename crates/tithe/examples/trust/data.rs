//! Data whose posteriors are far from normal, or change with time: what a certificate must not be wrong about.

#![allow(dead_code)]

use rand_distr::{Distribution, StandardNormal, StudentT};
use tithe::base::rng::{Purpose, Rng, Seed, open_unit};

/// Columns by name.
pub type Named = Vec<(String, Vec<f64>)>;

/// A label with log-odds `s`.
pub fn label(rng: &mut Rng, s: f64) -> f64 {
    f64::from(u8::from(open_unit(rng) < 1.0 / (1.0 + (-s).exp())))
}

/// Columns of rows that `row` fills, the label last.
pub fn table(columns: usize, rows: usize, seed: u64, row: impl Fn(usize, &mut Rng) -> Vec<f64>) -> Named {
    let mut rng = Seed(seed).stream(Purpose::Generate, 0);
    let names = (0..columns).map(|c| format!("x{c}")).chain(["y".to_string()]);
    let mut data: Named = names.map(|name| (name, Vec::with_capacity(rows))).collect();
    for n in 0..rows {
        for ((_, column), value) in data.iter_mut().zip(row(n, &mut rng)) {
            column.push(value);
        }
    }
    data
}

/// Standard normal numbers.
pub fn normals<const N: usize>(rng: &mut Rng) -> [f64; N] {
    std::array::from_fn(|_| StandardNormal.sample(rng))
}

/// Two numbers and ten levels of three to twelve rows each, one 0/1 column per level.
pub fn rare_levels(rows: usize, seed: u64) -> Named {
    table(12, rows, seed, |n, rng| {
        let x = normals::<2>(rng);
        let mut row = x.to_vec();
        // Level k has the rows n ≡ k (mod 97) as long as n < 97 (3 + k).
        let level = (n % 97 < 10 && n < 97 * (3 + n % 97)).then_some(n % 97);
        row.extend((0..10).map(|k| f64::from(u8::from(level == Some(k)))));
        let effect = level.map_or(0.0, |k| k as f64 / 3.0 - 1.5);
        row.push(label(rng, -1.0 + 0.6 * x[0] - 0.8 * x[1] + effect));
        row
    })
}

/// A 0/1 column that nearly always goes with the positive class.
pub fn nearly_separated(rows: usize, seed: u64) -> Named {
    table(4, rows, seed, |n, rng| {
        let x = normals::<3>(rng);
        let z = f64::from(u8::from(n % 80 == 0));
        let mut row = x.to_vec();
        row.extend([z, label(rng, -0.5 + 0.5 * x[0] - 0.7 * x[1] + 6.0 * z)]);
        row
    })
}

/// Heavy-tailed columns and a rare positive class.
pub fn rare_events(rows: usize, seed: u64) -> Named {
    let heavy = StudentT::new(4.0).expect("degrees of freedom");
    table(8, rows, seed, |_, rng| {
        let mut row: Vec<f64> = (0..8).map(|_| heavy.sample(rng)).collect();
        let s = -5.2 + 0.3 * row[0] - 0.25 * row[1] + 0.2 * row[2] + 0.2 * row[3];
        row.push(label(rng, s));
        row
    })
}

/// Rare events in the order of time: heavy-tailed columns, an amount, and a time that the rate of events depends on.
pub fn rare_events_in_time(rows: usize, seed: u64) -> Named {
    let heavy = StudentT::new(4.0).expect("degrees of freedom");
    table(14, rows, seed, |n, rng| {
        let time = n as f64 / rows as f64;
        let mut row: Vec<f64> = (0..12).map(|_| heavy.sample(rng)).collect();
        let [amount] = normals::<1>(rng).map(|x| (3.0 + 1.5 * x).exp());
        let s = -7.5 + 0.3 * row[0] - 0.25 * row[1]
            + 0.2 * row[2]
            + 0.2 * row[3]
            + 0.15 * amount.ln()
            + 0.8 * time;
        row.extend([amount, time, label(rng, s)]);
        row
    })
}

/// Means that drift by three standard deviations, and one coefficient that changes its sign halfway.
pub fn drifting(rows: usize, seed: u64) -> Named {
    table(6, rows, seed, |n, rng| {
        let time = n as f64 / rows as f64;
        let x = normals::<6>(rng).map(|x| x + 3.0 * time);
        let sign = if time < 0.5 { 1.0 } else { -1.0 };
        let s = -1.0 + 0.5 * sign * x[0] - 0.4 * x[1] + 0.3 * x[2];
        let mut row = x.to_vec();
        row.push(label(rng, s));
        row
    })
}
