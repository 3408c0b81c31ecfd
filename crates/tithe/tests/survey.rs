//! The survey against plain computations: moments, levels, references, the transform back to the user's scale.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use tithe::base::progress::Silent;
use tithe::base::rng::Seed;
use tithe::data::source::Source;
use tithe::data::source::memory::{Batches, Columns};
use tithe::data::table::{Roles, Table};
use tithe::encoding::EncodingSettings;
use tithe::encoding::survey::{Learnt, survey};
use tithe::encoding::{Coding, LabelValue, Standardize};
use tithe::engine::{EngineSettings, LocalEngine};

fn learn(
    source: Box<dyn Source>,
    weight: Option<&str>,
    settings: &EncodingSettings,
    block_rows: usize,
) -> Learnt {
    let roles = Roles { label: "y".into(), weight: weight.map(str::to_string), ..Roles::default() };
    let table = Table::new(source, &roles).expect("a table");
    let engine_settings =
        EngineSettings { threads: Some(2), block_rows: Some(block_rows), ..EngineSettings::default() };
    let engine = LocalEngine::new(table, &engine_settings, &Silent).expect("an engine");
    survey(&engine, settings, 2, Seed(1)).expect("learnt")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn moments_are_those_of_two_plain_passes(
        rows in prop::collection::vec((-1.0f64..1.0, 0.1f64..5.0), 3..400),
        shift in prop_oneof![Just(0.0), Just(1e3), Just(-1e6)],
        weighted: bool,
        block_rows in 1usize..200,
    ) {
        let x: Vec<f64> = rows.iter().map(|(x, _)| x + shift).collect();
        let w: Vec<f64> = rows.iter().map(|(_, w)| if weighted { *w } else { 1.0 }).collect();
        let y: Vec<f64> = (0..rows.len()).map(|n| (n % 2) as f64).collect();
        let mass: f64 = w.iter().sum();
        let mean = w.iter().zip(&x).map(|(w, x)| w * x).sum::<f64>() / mass;
        let sd = (w.iter().zip(&x).map(|(w, x)| w * (x - mean).powi(2)).sum::<f64>() / mass).sqrt();
        let columns = [("x", &x), ("w", &w), ("y", &y)].map(|(name, values)| (name.to_string(), values.clone()));
        let source = Box::new(Columns::new(columns.to_vec()).expect("columns"));
        let learnt = learn(source, Some("w"), &EncodingSettings::default(), block_rows);
        let Coding::Number { center, scale } = learnt.encoding.features[0].coding else { panic!("a number") };
        prop_assert!((center - mean).abs() <= 1e-12 * (1.0 + shift.abs()), "{center} {mean}");
        // The data itself has lost digits relative to the shift.
        prop_assert!((scale - sd).abs() <= 1e-10 * sd.max(1e-3) * (1.0 + shift.abs() * 1e-3), "{scale} {sd}");
        prop_assert!((learnt.mass - mass).abs() <= 1e-12 * mass);
        prop_assert_eq!((learnt.rows, learnt.rows_read), (rows.len() as u64, rows.len() as u64));
    }

    #[test]
    fn the_way_to_the_users_scale_and_back(theta in prop::collection::vec(-3.0f64..3.0, 5), intercept: bool) {
        let settings = EncodingSettings { intercept, ..EncodingSettings::default() };
        let encoding = learn(mixed(), None, &settings, 100).encoding;
        let theta = &theta[..encoding.dim()];
        let beta = encoding.to_user_scale(theta);
        for (there, back) in theta.iter().zip(encoding.from_user_scale(&beta)) {
            prop_assert!((there - back).abs() < 1e-12);
        }
        // The linear predictor is the same on the user's scale and on the model's.
        let (centers, scales) = encoding.transform();
        for x in [-2.0, 0.0, 7.5] {
            let mut model = 0.0;
            let mut user = 0.0;
            for j in 0..theta.len() {
                let value = if intercept && j == 0 { 1.0 } else { x };
                model += theta[j] * (value - centers[j]) / scales[j];
                user += beta[j] * value;
            }
            prop_assert!((model - user).abs() < 1e-12, "{model} {user}");
        }
    }
}

/// 40 rows: a number, a boolean, a text column (b 20 times, a and c 10 times each), a text label.
fn mixed() -> Box<dyn Source> {
    let columns: [(&str, ArrayRef); 4] = [
        ("x", Arc::new((0..40).map(|n| Some(f64::from(n) * 0.5)).collect::<Float64Array>())),
        ("t", Arc::new((0..40).map(|n| Some(n % 3 == 0)).collect::<BooleanArray>())),
        ("s", Arc::new((0..40).map(|n| Some(["a", "b", "b", "c"][n % 4])).collect::<StringArray>())),
        ("y", Arc::new((0..40).map(|n| Some(n % 5 == 0)).collect::<BooleanArray>())),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    Box::new(Batches::new(batch.schema(), vec![batch]).expect("batches"))
}

#[test]
fn levels_are_sorted_and_the_most_frequent_is_the_reference() {
    for block_rows in [1, 7, 100] {
        let learnt = learn(mixed(), None, &EncodingSettings::default(), block_rows);
        let encoding = learnt.encoding;
        assert_eq!(encoding.coefficient_names(), ["intercept", "x", "t", "s=a", "s=c"]);
        let levels = Coding::Levels {
            reference: "b".into(),
            levels: vec!["a".into(), "c".into()],
            centers: vec![0.25, 0.25],
        };
        let boolean = Coding::Indicator { center: 14.0 / 40.0 };
        assert_eq!((&encoding.features[1].coding, &encoding.features[2].coding), (&boolean, &levels));
        assert_eq!(encoding.label.positive, LabelValue::Boolean(true));
        assert_eq!(learnt.warnings, Vec::<String>::new());
    }
}

#[test]
fn ties_for_the_reference_go_to_the_first_level_alphabetically() {
    let columns: [(&str, ArrayRef); 2] = [
        ("s", Arc::new(StringArray::from(vec!["z", "m", "m", "z", "k"]))),
        ("y", Arc::new(Float64Array::from(vec![0.0, 1.0, 0.0, 1.0, 0.0]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let source = Box::new(Batches::new(batch.schema(), vec![batch]).expect("batches"));
    let encoding = learn(source, None, &EncodingSettings::default(), 2).encoding;
    assert_eq!(encoding.coefficient_names(), ["intercept", "s=k", "s=z"]);
}

/// 40 rows: a number, a number that is 0 or 1, a number that is 0 or 2, a boolean and text.
fn indicators() -> Box<dyn Source> {
    let number = |value: &dyn Fn(i32) -> f64| -> ArrayRef {
        Arc::new((0..40).map(|n| Some(value(n))).collect::<Float64Array>())
    };
    let columns: [(&str, ArrayRef); 6] = [
        ("x", number(&|n| f64::from(n) * 0.5)),
        ("zero_one", number(&|n| f64::from(n % 4 == 0))),
        ("zero_two", number(&|n| 2.0 * f64::from(n % 4 == 0))),
        ("t", Arc::new((0..40).map(|n| Some(n % 4 == 0)).collect::<BooleanArray>())),
        ("s", Arc::new((0..40).map(|n| Some(["a", "b", "b", "c"][n % 4])).collect::<StringArray>())),
        ("y", number(&|n| f64::from(n % 5 == 0))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    Box::new(Batches::new(batch.schema(), vec![batch]).expect("batches"))
}

#[test]
fn zeros_and_ones_are_centred_but_not_scaled_unless_all_columns_are() {
    let sd = f64::sqrt(0.25 * 0.75);
    let sd_x = 0.5 * f64::sqrt((40.0 * 40.0 - 1.0) / 12.0);
    let expected = |standardize, intercept| -> [(f64, f64); 6] {
        let transforms = match standardize {
            Standardize::Numeric => {
                [(9.75, sd_x), (0.25, 1.0), (0.5, 2.0 * sd), (0.25, 1.0), (0.25, 1.0), (0.25, 1.0)]
            }
            Standardize::All => {
                [(9.75, sd_x), (0.25, sd), (0.5, 2.0 * sd), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)]
            }
            Standardize::None => [(0.0, 1.0); 6],
        };
        transforms.map(|(center, scale)| (if intercept { center } else { 0.0 }, scale))
    };
    for block_rows in [1, 7, 100] {
        for standardize in [Standardize::Numeric, Standardize::All, Standardize::None] {
            for intercept in [true, false] {
                let settings = EncodingSettings { standardize, intercept, ..EncodingSettings::default() };
                let encoding = learn(indicators(), None, &settings, block_rows).encoding;
                let (centers, scales) = encoding.transform();
                let skipped = usize::from(intercept);
                let found = centers.iter().zip(&scales).skip(skipped);
                for (found, expected) in found.zip(expected(standardize, intercept)) {
                    let error = (found.0 - expected.0).abs() + (found.1 - expected.1).abs();
                    assert!(error < 1e-12, "{standardize:?}: {found:?}, not {expected:?}");
                }
                // A boolean and a column of zeros and ones give the same points.
                if standardize == Standardize::Numeric {
                    assert_eq!(encoding.features[1].coding, encoding.features[3].coding);
                }
            }
        }
    }
}
