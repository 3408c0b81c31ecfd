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

/// Frauds among card payments, in the order of time: 28 heavy-tailed components, an amount and a time. One row in 579 is
/// positive, and several components of a positive row are far from the others by a factor that they share.
pub fn frauds(rows: usize, seed: u64) -> Named {
    const SHIFTS: [f64; 17] =
        [-1.0, 0.9, -1.6, 1.5, -0.7, -0.4, -1.3, 0.2, -0.7, -1.4, 0.9, -1.5, 0.0, -1.9, 0.0, -1.1, -1.5];
    let heavy = StudentT::new(4.0).expect("degrees of freedom");
    table(30, rows, seed, |n, rng| {
        let time = n as f64 / rows as f64;
        let is_fraud = open_unit(rng) < 492.0 / 284_807.0 * (1.5 - time);
        let [common, amount] = normals::<2>(rng);
        let mut row: Vec<f64> = (0..28)
            .map(|c| {
                let own: f64 = heavy.sample(rng);
                let shift = SHIFTS.get(c).copied().unwrap_or(0.0);
                if is_fraud { 1.5 * own + shift * (0.7 * common).exp() } else { own }
            })
            .collect();
        row.extend([(3.0 + 1.5 * amount).exp(), time, f64::from(u8::from(is_fraud))]);
        row
    })
}

/// Delays of flights: four numbers, and one 0/1 column per carrier, origin and month.
pub fn flights(rows: usize, seed: u64) -> Named {
    const LEVELS: [usize; 3] = [14, 3, 12];
    table(4 + LEVELS.iter().map(|count| count - 1).sum::<usize>(), rows, seed, |_, rng| {
        let mut row = normals::<4>(rng).to_vec();
        let mut s = -1.3 + 0.3 * row[0] - 0.2 * row[1] + 0.4 * row[2];
        for count in LEVELS {
            // Frequent levels first; the last one is the reference.
            let level = ((open_unit(rng).powf(1.7) * count as f64) as usize).min(count - 1);
            s += 0.4 * ((3 * level + count) as f64).sin();
            row.extend((0..count - 1).map(|k| f64::from(u8::from(k == level))));
        }
        row.push(label(rng, s));
        row
    })
}

/// Ten independent normal columns.
pub fn ten_normals(rows: usize, seed: u64) -> Named {
    table(10, rows, seed, |_, rng| {
        let mut row = normals::<10>(rng).to_vec();
        let s = row.iter().enumerate().map(|(c, x)| x * [0.5, -0.3, 0.2][c % 3]).sum::<f64>();
        row.push(label(rng, s - 0.5));
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
