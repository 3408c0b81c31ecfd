//! Valid inputs of every target, from which the search and the tests begin.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tithe::base::progress::Silent;
use tithe::coreset::build::{BuildSettings, CertificateBy, build};
use tithe::coreset::file::coreset_bytes;
use tithe::coreset::selection::Size;
use tithe::data::source::{Input, OpenOptions, open_inputs};
use tithe::data::table::Roles;
use tithe::mcmc::{Sampler, Settings};
use tithe::results::file::posterior_bytes;
use tithe::results::fit::FitSettings;
use tithe::results::fit_grouped::fit_coreset;
use tithe::stream::feed::{Fed, feed};
use tithe::stream::{Stream, StreamSettings};

use super::targets::joined;

/// Inputs by the name of their target.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for table in tables() {
        for control in [0, 0b0000_0010, 0b0110_0001] {
            let input = [&[control][..], &table].concat();
            seeds.push(("table", input.clone()));
            seeds.push(("live", input));
        }
    }
    for text in ["a;b,5;y\n1,5;x;0\n2;;1\n", "a;y\n8 %;1\n$1,200;0\n"] {
        for control in [0, 0b0000_0100, 0b0001_0100, 0b0010_0100] {
            seeds.push(("table", [&[control], text.as_bytes()].concat()));
        }
    }
    for sampler in [Sampler::Nuts, Sampler::Laplace, "mala".parse().expect("a sampler")] {
        seeds.push(("posterior", posterior(sampler)));
    }
    seeds.push(("coreset", coreset(12)));
    seeds.push(("coreset", coreset(1000)));
    seeds.extend([3, 20, 60].map(|rows| ("state", state(rows))));
    for text in ["coefficient,value\na,1\n\"b, c\",-2.5e3\n", r#"{"a": 1, "b, c": -2.5e3}"#] {
        seeds.push(("coefficients", text.as_bytes().to_vec()));
    }
    seeds
}

/// A small table in every format.
fn tables() -> Vec<Vec<u8>> {
    let mut tables: Vec<Vec<u8>> = [
        "a,b,c,y\n1,x,true,0\n-2.5e-3,\"q, \"\"r\"\"\",false,1\n,NA,true,1\n7,z,,0\n",
        "a\tb\ty\n1\tx\t0\n2\tz\t1\n",
        "1 1:0.5 7:2e3\n-1 qid:3 2:1 # comment\n+1 7:1\n",
        "{\"a\": 1, \"b\": \"x\", \"y\": true}\n{\"a\": null, \"b\": \"\\u00e9\", \"y\": false}\n{\"a\": 2.5, \"y\": true}\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    let packed = zstd::encode_all(&tables[0][..], 3).expect("zstd");
    tables.push(packed);
    let batch = batch();
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let options = IpcWriteOptions::default().try_with_compression(compression).expect("options");
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options.clone())
            .expect("a stream");
        writer.write(&batch).and_then(|()| writer.finish()).expect("written");
        drop(writer);
        tables.push(bytes);
        let mut bytes = Vec::new();
        let mut writer =
            FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options).expect("a file");
        writer.write(&batch).and_then(|()| writer.finish()).expect("written");
        drop(writer);
        tables.push(bytes);
    }
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd, Compression::LZ4_RAW] {
        for (encoding, dictionary) in [(Encoding::PLAIN, true), (Encoding::BYTE_STREAM_SPLIT, false)] {
            let properties = WriterProperties::builder()
                .set_compression(compression)
                .set_dictionary_enabled(dictionary)
                .set_column_encoding("a".into(), encoding)
                .build();
            let mut bytes = Vec::new();
            let mut writer =
                ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
            writer.write(&batch).expect("written");
            writer.close().expect("closed");
            tables.push(bytes);
        }
    }
    tables
}

fn batch() -> RecordBatch {
    let columns: [(&str, ArrayRef); 4] = [
        ("a", Arc::new(Float64Array::from(vec![Some(1.0), None, Some(-2.5), Some(7.0)]))),
        ("b", Arc::new(StringArray::from(vec![Some("x"), Some("z"), None, Some("x")]))),
        ("c", Arc::new(BooleanArray::from(vec![true, false, true, true]))),
        ("y", Arc::new(Float64Array::from(vec![0.0, 1.0, 1.0, 0.0]))),
    ];
    RecordBatch::try_from_iter(columns).expect("a table")
}

/// Rows with a column of each kind.
fn text(rows: usize) -> Vec<u8> {
    let mut text = "age,town,member,y\n".to_string();
    for row in 0..rows as u32 {
        let noise = row.wrapping_mul(2_654_435_761) >> 16;
        let town = ["Bern", "Genf", "Chur"][noise as usize % 3];
        text += &format!("{},{town},{},{}\n", noise % 97, noise % 5 == 0, u32::from(noise % 97 > noise % 71));
    }
    text.into_bytes()
}

fn source(rows: usize) -> Box<dyn tithe::data::source::Source> {
    open_inputs(vec![Input::bytes("rows.csv", text(rows))], &OpenOptions::default()).expect("rows")
}

fn roles() -> Roles {
    Roles { label: "y".into(), ..Roles::default() }
}

fn settings(rows: usize) -> BuildSettings {
    BuildSettings { size: Size::Rows(rows), certificate: CertificateBy::Normal, ..BuildSettings::default() }
}

fn coreset(rows: usize) -> Vec<u8> {
    coreset_bytes(&build(source(60), &roles(), &settings(rows)).expect("a coreset")).expect("bytes")
}

fn posterior(sampler: Sampler) -> Vec<u8> {
    let coreset = build(source(60), &roles(), &settings(1000)).expect("a coreset");
    let draws = Settings { chains: 2, draws: 8, warmup: 20, ..Settings::default() };
    let settings = FitSettings { sampler, draws, ..FitSettings::default() };
    posterior_bytes(&fit_coreset(&coreset, &settings, &Silent).expect("a fit")).expect("bytes")
}

fn state(rows: usize) -> Vec<u8> {
    let settings =
        StreamSettings { build: settings(8), block: 16, warmup_rows: 16, ..StreamSettings::default() };
    let mut stream = Stream::in_memory(&settings, Some(1)).expect("a stream");
    let source = source(rows);
    let columns = stream.take_columns(&*source, &roles()).expect("columns");
    feed(source.scan(&columns).expect("a scan"), 1, false, &Silent, &mut |fed| match fed {
        Fed::Rows(rows) => stream.push(rows, &Silent),
        Fed::Bad(error) => Err(error),
        Fed::Nothing => Ok(()),
    })
    .expect("rows");
    let packed = stream.pack().expect("a packed stream");
    let manifest: serde_json::Value = serde_json::from_str(&packed.manifest).expect("JSON");
    let manifest = manifest["manifest"].to_string();
    let optional = |bytes: &Option<Vec<u8>>| bytes.clone().unwrap_or_default();
    let mut sections = vec![manifest.into_bytes(), optional(&packed.residual), optional(&packed.pending)];
    sections.extend(packed.levels.iter().map(optional));
    joined(&sections.iter().map(Vec::as_slice).collect::<Vec<_>>())
}
