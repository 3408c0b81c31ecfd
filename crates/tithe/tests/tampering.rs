//! Coreset and posterior files whose metadata or columns were changed: reading them either fails with an error, or gives
//! something that every command can use. Random bytes almost never get past the first check; single changed values do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};
use tithe::base::progress::Silent;
use tithe::coreset::Coreset;
use tithe::coreset::build::{BuildSettings, build};
use tithe::coreset::file::{coreset_bytes, read_coreset_from};
use tithe::coreset::merge::merge;
use tithe::coreset::selection::Size;
use tithe::data::source::{Input, OpenOptions, open_inputs};
use tithe::data::table::Roles;
use tithe::encoding::EncodingSettings;
use tithe::mcmc::{Sampler, Settings};
use tithe::model::{Prior, Priors};
use tithe::results::compare::compare;
use tithe::results::export::{Tool, export};
use tithe::results::file::{posterior_bytes, read_posterior_from};
use tithe::results::fit::{Fit, FitSettings};
use tithe::results::fit_grouped::fit_coreset;

fn coreset(formula: Option<&str>) -> Coreset {
    let mut text = "age,town,member,y\n".to_string();
    for row in 0..400u32 {
        let noise = row.wrapping_mul(2_654_435_761) >> 16;
        let town = ["Bern", "Genf", "Chur"][noise as usize % 3];
        text += &format!(
            "{},{town},{},{}\n",
            noise % 97,
            noise % 5 == 0,
            u32::from(noise % 97 > 30 + noise % 50)
        );
    }
    let source = open_inputs(vec![Input::bytes("data.csv", text.into_bytes())], &OpenOptions::default());
    let roles = Roles { label: "y".into(), ..Roles::default() };
    let encoding = EncodingSettings { formula: formula.map(str::to_string), ..EncodingSettings::default() };
    let settings = BuildSettings { size: Size::Rows(40), encoding, ..BuildSettings::default() };
    build(source.expect("data"), &roles, &settings).expect("a coreset")
}

fn fit(coreset: &Coreset) -> Fit {
    let draws = Settings { chains: 2, draws: 20, warmup: 50, ..Settings::default() };
    let settings = FitSettings { sampler: Sampler::Nuts, draws, ..FitSettings::default() };
    fit_coreset(coreset, &settings, &Silent).expect("a fit")
}

/// A file of ours, taken apart.
struct Parts {
    batch: RecordBatch,
    story: Value,
}

impl Parts {
    fn of(bytes: Vec<u8>) -> Parts {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).expect("Parquet");
        let pairs = builder.metadata().file_metadata().key_value_metadata().expect("metadata").clone();
        let story = pairs.iter().find(|pair| pair.key == "tithe").and_then(|pair| pair.value.clone());
        let batch = builder.with_batch_size(1 << 16).build().expect("a reader").next();
        Parts {
            batch: batch.expect("rows").expect("rows"),
            story: serde_json::from_str(&story.expect("a story")).expect("JSON"),
        }
    }

    fn file(batch: &RecordBatch, story: &Value) -> Input {
        let pairs = vec![KeyValue::new("tithe".to_string(), story.to_string())];
        let properties = WriterProperties::builder().set_key_value_metadata(Some(pairs)).build();
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
        writer.write(batch).expect("written");
        writer.close().expect("closed");
        Input::bytes("tampered", bytes)
    }

    /// The file with each value of its metadata replaced or removed, and with each column changed, one at a time.
    fn tampered(&self) -> Vec<(String, Input)> {
        let mut files = Vec::new();
        let mut paths = Vec::new();
        collect(&self.story, &mut Vec::new(), &mut paths);
        let hostile = [
            json!(null),
            json!(true),
            json!(-1),
            json!(0),
            json!(1),
            json!(2.5),
            json!(1e308),
            json!(-1e308),
            json!(1e-320),
            json!(u64::MAX),
            json!(1u64 << 60),
            json!(""),
            json!("Bern"),
            json!("age"),
            json!([]),
            json!([1.0, 2.0]),
            json!({}),
        ];
        for path in &paths {
            for value in &hostile {
                let mut story = self.story.clone();
                if let Some(place) = at(&mut story, path) {
                    *place = value.clone();
                }
                files.push((format!("{} = {value}", path.join(".")), Parts::file(&self.batch, &story)));
            }
            let mut story = self.story.clone();
            if let Some((last, above)) = path.split_last()
                && let Some(Value::Object(object)) = at(&mut story, above)
            {
                object.remove(last);
                files.push((format!("{} removed", path.join(".")), Parts::file(&self.batch, &story)));
            }
        }
        for column in 0..self.batch.num_columns() {
            for (what, array) in changed(self.batch.column(column)) {
                let name = self.batch.schema().field(column).name().clone();
                let mut columns = self.batch.columns().to_vec();
                columns[column] = array;
                let before = self.batch.schema();
                let fields = before.fields().iter().zip(&columns);
                let fields =
                    fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                let batch = RecordBatch::try_new(schema, columns).expect("a table");
                files.push((format!("column {name} {what}"), Parts::file(&batch, &self.story)));
            }
        }
        for (rows, what) in [(0, "no rows"), (1, "one row"), (self.batch.num_rows() / 2, "half of the rows")]
        {
            files.push((what.to_string(), Parts::file(&self.batch.slice(0, rows), &self.story)));
        }
        files
    }
}

/// The paths of all values in a document.
fn collect(value: &Value, path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let mut inside = |key: String, value: &Value| {
        path.push(key);
        paths.push(path.clone());
        collect(value, path, paths);
        path.pop();
    };
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| inside(key.clone(), value)),
        // Long arrays repeat themselves.
        Value::Array(values) => {
            values.iter().take(3).enumerate().for_each(|(key, value)| inside(key.to_string(), value));
        }
        _ => {}
    }
}

fn at<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Object(object) => object.get_mut(key),
        Value::Array(values) => values.get_mut(key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Other columns of the same length.
fn changed(column: &ArrayRef) -> Vec<(&'static str, ArrayRef)> {
    let len = column.len();
    let numbers = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value; len])) };
    let one = |value: Option<f64>| -> ArrayRef {
        Arc::new((0..len).map(|row| if row == len / 2 { value } else { Some(1.0) }).collect::<Float64Array>())
    };
    vec![
        ("as text", Arc::new(StringArray::from(vec!["Bern"; len]))),
        ("as numbers in text", Arc::new(StringArray::from_iter_values((0..len).map(|row| row.to_string())))),
        ("as truth values", Arc::new(BooleanArray::from(vec![true; len]))),
        ("all 0", numbers(0.0)),
        ("all -1", numbers(-1.0)),
        ("all 1e308", numbers(1e308)),
        ("all 2^60", numbers((1u64 << 60) as f64)),
        ("with a NaN", one(Some(f64::NAN))),
        ("with an infinite value", one(Some(f64::INFINITY))),
        ("with a missing value", one(None)),
    ]
}

/// Runs `check` for every file, without panics; it returns whether the file was accepted. Some are, and most are refused.
fn every(files: Vec<(String, Input)>, check: impl Fn(&Input) -> bool) {
    let (mut accepted, mut refused) = (0, 0);
    for (what, file) in files {
        match catch_unwind(AssertUnwindSafe(|| check(&file))) {
            Ok(true) => accepted += 1,
            Ok(false) => refused += 1,
            Err(_) => panic!("it panics: {what}"),
        }
    }
    assert!(accepted > 10 && refused > 100, "{accepted} accepted, {refused} refused");
}

/// Every kind of factor and expression.
const FORMULA: &str = "y ~ town * member + bs(age, df=4) + ns(age, df=2):member + poly(scale(age), 2) + cut(age, [20, 60]) + log(age + 1)";

#[test]
fn tampered_coresets_are_refused_or_usable() {
    tamper_with_coreset(None);
}

#[test]
fn tampered_formulas_are_refused_or_usable() {
    tamper_with_coreset(Some(FORMULA));
}

fn tamper_with_coreset(formula: Option<&str>) {
    let coreset = coreset(formula);
    let intact = Parts::of(coreset_bytes(&coreset).expect("bytes"));
    assert!(read_coreset_from(&Parts::file(&intact.batch, &intact.story)).is_ok());
    let mut files = intact.tampered();
    // Everything but the terms is the same without a formula. Equal kinds of values need not all be changed.
    let mut number = 0;
    files.retain(|(name, _)| {
        number += usize::from(name.contains("design"));
        formula.is_none() || name.contains("design") && number % 7 == 0
    });
    every(files, |file| {
        let Ok(read) = read_coreset_from(file) else { return false };
        let dim = read.encoding.dim();
        let points = read.points().expect("points");
        assert!((0..points.len()).all(|n| points.row(n).iter().all(|z| z.is_finite())));
        assert!(points.weights().iter().all(|weight| weight.is_finite() && *weight >= 0.0));
        assert!(read.labels().is_ok() && read.own_units().is_ok());
        let priors = Priors::same(Prior::Normal { scale: 2.0 }, dim);
        if let Ok(files) = export(&read, &priors, Tool::Numpyro) {
            let data: Value = serde_json::from_str(&files[0].1).expect("JSON");
            assert!(
                data["X"]
                    .as_array()
                    .expect("rows")
                    .iter()
                    .flat_map(|row| row.as_array())
                    .flatten()
                    .all(Value::is_number)
            );
        }
        for (parts, size) in [([&read, &coreset], 1000), ([&coreset, &read], 20), ([&read, &read], 1000)] {
            let named = parts.map(|part| ("part".to_string(), part.clone()));
            let settings = BuildSettings { size: Size::Rows(size), ..BuildSettings::default() };
            if let Ok(merged) = merge(&named, &settings, Some(1), &Silent) {
                let again = coreset_bytes(&merged).expect("bytes");
                assert!(read_coreset_from(&Input::bytes("merged", again)).is_ok());
            }
        }
        let draws = Settings { chains: 1, draws: 5, warmup: 5, ..Settings::default() };
        let settings = FitSettings { sampler: Sampler::Laplace, draws, ..FitSettings::default() };
        let _ = fit_coreset(&read, &settings, &Silent);
        true
    });
}

#[test]
fn tampered_posteriors_are_refused_or_usable() {
    let fit = fit(&coreset(None));
    let intact = Parts::of(posterior_bytes(&fit).expect("bytes"));
    assert!(read_posterior_from(&Parts::file(&intact.batch, &intact.story)).is_ok());
    every(intact.tampered(), |file| {
        let Ok(read) = read_posterior_from(file) else { return false };
        assert!(read.draws.rows().all(|draw| draw.iter().all(|value| value.is_finite())));
        let again = posterior_bytes(&read).expect("bytes");
        assert!(read_posterior_from(&Input::bytes("again", again)).is_ok());
        let _ = compare(&read, &fit, "polynomial:3:1".parse().expect("a kernel"));
        true
    });
}
