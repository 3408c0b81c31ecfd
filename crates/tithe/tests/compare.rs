//! Discrepancies against values computed by direct sums, and scores against known properties of the posteriors.

use serde::Deserialize;
use tithe::results::mmd::{Kernel, by_moments, by_pairs, mmd_squared};

#[derive(Deserialize)]
struct Oracle {
    a: Vec<Vec<f64>>,
    b: Vec<Vec<f64>>,
    values: Vec<Value>,
}

#[derive(Deserialize)]
struct Value {
    degree: u32,
    offset: f64,
    mmd2: f64,
}

#[test]
fn discrepancies_agree_with_direct_sums() {
    let oracle: Oracle =
        serde_json::from_str(include_str!("fixtures/mmd.json")).expect("a fixture of the expected form");
    let (a, b) = (oracle.a.concat(), oracle.b.concat());
    assert!(!oracle.values.is_empty());
    for Value { degree, offset, mmd2 } in oracle.values {
        let kernel = Kernel::Polynomial { degree, offset };
        for found in [
            by_moments(&a, &b, 4, degree, offset),
            by_pairs(&a, &b, 4, kernel),
            mmd_squared(&a, &b, 4, kernel),
        ] {
            assert!(
                (found - mmd2).abs() <= 1e-10 * mmd2,
                "degree {degree}, offset {offset}: {found} against {mmd2}"
            );
        }
    }
}
