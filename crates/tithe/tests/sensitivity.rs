//! The sensitivity bound against independent reference values, and the fast version against the plain one.

use proptest::prelude::*;
use serde_json::Value;
use tithe::coreset::kmeans::{Centers, groups};
use tithe::coreset::sensitivity::{Bound, CenterRule, Distances, plain_shares};
use tithe::data::points::{Lane, Points};

type Rows = Vec<(Vec<f64>, f64)>;

fn fast_shares(
    rows: &Rows,
    centers: &Centers,
    radius: f64,
    theta_star: &[f64],
    rule: CenterRule,
) -> Vec<f64> {
    let points = Points::from_rows(centers.dim(), rows.iter().map(|(z, w)| (z.as_slice(), *w)));
    let theta_star = theta_star.iter().any(|t| *t != 0.0).then(|| theta_star.to_vec());
    let bound = Bound::new(centers.clone(), groups(&points, centers), radius, theta_star, rule);
    let (mut distances, mut shares) = (Distances::default(), Lane::ZERO);
    points
        .tiles()
        .flat_map(|tile| {
            bound.shares(&tile, &mut distances, &mut shares);
            shares[..tile.len].to_vec()
        })
        .collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("an array").iter().map(|v| v.as_f64().expect("a number")).collect()
}

fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().expect("an array").iter().map(numbers).collect()
}

fn assert_close(ours: &[f64], theirs: &[f64], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (n, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1e-300), "{what}, row {n}: {a} against {b}");
    }
}

#[test]
fn all_reference_cases_agree_to_1e_12() {
    let text = include_str!("fixtures/sensitivity.json");
    let oracle: Value = serde_json::from_str(text).expect("the fixture");
    let cases = oracle["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 10);
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let rows: Rows = matrix(&case["z"]).into_iter().zip(numbers(&case["w"])).collect();
        let dim = rows[0].0.len();
        let centers = Centers::new(dim, matrix(&case["centers"]).concat());
        let radius = case["radius"].as_f64().expect("a radius");
        let theta_star = numbers(&case["theta_star"]);
        let expect = &case["expect"];

        let points = Points::from_rows(dim, rows.iter().map(|(z, w)| (z.as_slice(), *w)));
        let found = groups(&points, &centers);
        assert_close(&found.mass, &numbers(&expect["group_mass"]), &format!("{name}: mass"));
        assert_close(
            &[found.score],
            &[expect["score"].as_f64().expect("a score")],
            &format!("{name}: score"),
        );
        for (i, mean) in expect["group_mean"].as_array().expect("means").iter().enumerate() {
            if found.mass[i] > 0.0 {
                for (a, b) in found.mean[i * dim..].iter().zip(numbers(mean)) {
                    assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{name}: mean {a} against {b}");
                }
            }
        }
        for (rule, key) in [(CenterRule::Exact, "share_exact"), (CenterRule::Quick, "share_shortcut")] {
            let expected = numbers(&expect[key]);
            let plain = plain_shares(&rows, &centers, radius, &theta_star, rule);
            assert_close(&plain, &expected, &format!("{name}: plain {key}"));
            let fast = fast_shares(&rows, &centers, radius, &theta_star, rule);
            assert_close(&fast, &expected, &format!("{name}: fast {key}"));
        }
    }
}

#[test]
fn a_row_between_two_centres_belongs_to_the_first() {
    let rows: Rows =
        [[0.0, 0.0], [-500.0, -500.0], [0.0, 0.0], [-500.0, 0.0]].map(|z| (z.to_vec(), 1.0)).into();
    let centers = Centers::new(2, vec![1e6, 1e6, -500.0, -500.0, 0.0, 0.0, 0.0, 0.0]);
    for rule in [CenterRule::Exact, CenterRule::Quick] {
        let fast = fast_shares(&rows, &centers, 2.3, &[0.3, 0.1], rule);
        assert_close(&fast, &plain_shares(&rows, &centers, 2.3, &[0.3, 0.1], rule), "a tie");
        // The two rows at the origin are a cluster of their own.
        assert_close(&fast[..1], &[0.5], "a tie");
    }
}

#[test]
fn rows_near_a_mean_that_is_far_from_its_centre() {
    let near = |n: i32| [1.0 + 1e-5 * f64::from(n), 2.0 - 2e-5 * f64::from(n * n % 7)];
    let rows: Rows = (-20..20).map(|n| (near(n).to_vec(), 1.0)).chain([(vec![-9.0, 3.0], 2.0)]).collect();
    let centers = Centers::new(2, vec![1000.0, 700.0, -1500.0, 900.0]);
    let fast = fast_shares(&rows, &centers, 2.5, &[0.0, 0.0], CenterRule::Exact);
    assert_close(&fast, &plain_shares(&rows, &centers, 2.5, &[0.0, 0.0], CenterRule::Exact), "far");
}

fn any_rows() -> impl Strategy<Value = (Rows, usize)> {
    (1usize..6, 1usize..200, 0.0f64..3.0, 0.0f64..4.0).prop_flat_map(|(dim, n, spread, weight_spread)| {
        let z = prop_oneof![
            8 => -spread..=spread,
            1 => Just(0.0),
            1 => prop_oneof![Just(300.0), Just(-500.0)],
        ];
        let row = (prop::collection::vec(z, dim), (-weight_spread..=weight_spread).prop_map(f64::exp));
        (prop::collection::vec(row, n), Just(dim))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random weights, clusters of no row or one, zero rows, and distant rows whose terms underflow.
    #[test]
    fn fast_equals_plain(
        (rows, dim) in any_rows(),
        k in 1usize..6,
        radius in prop_oneof![Just(0.0), 0.01f64..5.0],
        with_theta in any::<bool>(),
        exact in any::<bool>(),
    ) {
        let mut q: Vec<f64> = rows.iter().cycle().take(k).flat_map(|(z, _)| z.clone()).collect();
        if k > 2 {
            q[..dim].fill(1e6); // an empty group
        }
        let centers = Centers::new(dim, q);
        let theta_star: Vec<f64> = (0..dim).map(|d| if with_theta { 0.3 - d as f64 * 0.2 } else { 0.0 }).collect();
        let rule = if exact { CenterRule::Exact } else { CenterRule::Quick };
        let plain = plain_shares(&rows, &centers, radius, &theta_star, rule);
        let fast = fast_shares(&rows, &centers, radius, &theta_star, rule);
        for (a, b) in fast.iter().zip(&plain) {
            prop_assert!((a - b).abs() <= 1e-9 * b, "{a} against {b}");
        }
    }
}
