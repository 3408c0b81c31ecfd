//! Sources as users have them: files of every format, several files, compressed files, damaged files.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int32Array, Int64Array, NullArray, RecordBatch, StringArray,
};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{
    FileMetaData, ParquetMetaDataBuilder, ParquetMetaDataOptions, ParquetMetaDataReader,
    ParquetMetaDataWriter,
};
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use tempfile::TempDir;
use tithe::base::error::{Error, ErrorKind, Remedy, Result};
use tithe::data::block::{Column, INEXACT, Kind, MISSING};
use tithe::data::source::memory::{Batches, Columns};
use tithe::data::source::{Format, Input, OpenOptions, Source, open, open_inputs};

/// All rows of some columns as text that preserves every difference.
fn read(source: &dyn Source, columns: &[usize]) -> Result<Vec<Vec<String>>> {
    let mut scan = source.scan(columns)?;
    let mut all = Vec::new();
    while let Some(unit) = scan.next_unit()? {
        if let Some(first_row) = unit.first_row() {
            assert_eq!(first_row, all.len() as u64);
        }
        assert_eq!(unit.first_row().is_some(), source.rows().is_some());
        unit.decode(&mut |segment| {
            for row in 0..segment.len {
                all.push(segment.columns.iter().map(|column| cell(column, row)).collect());
            }
            Ok(())
        })?;
    }
    if let Some(rows) = source.rows() {
        assert_eq!(rows, all.len() as u64);
    }
    Ok(all)
}

fn cell(column: &Column, row: usize) -> String {
    match column {
        Column::Number(values) => match values[row].to_bits() {
            bits if bits == MISSING.to_bits() => "missing".to_string(),
            bits if bits == INEXACT.to_bits() => "inexact".to_string(),
            _ => format!("{:?}", values[row]),
        },
        Column::Text { codes, levels } => {
            levels.get(codes[row] as usize).map_or("missing".to_string(), |level| format!("'{level}'"))
        }
    }
}

fn everything(source: &dyn Source) -> Result<Vec<Vec<String>>> {
    let usable = source
        .fields()
        .iter()
        .enumerate()
        .filter(|(_, field)| !matches!(field.kind, Kind::Time | Kind::Unsupported));
    read(source, &usable.map(|(column, _)| column).collect::<Vec<_>>())
}

fn open_path(path: &Path) -> Result<Box<dyn Source>> {
    open(&[path.display().to_string()], &OpenOptions::default())
}

fn open_bytes(bytes: &[u8], options: &OpenOptions) -> Result<Box<dyn Source>> {
    let input = Input::from_reader("standard input", bytes, options.memory)?;
    open_inputs(vec![input], options)
}

fn refused(outcome: Result<Box<dyn Source>>) -> Error {
    match outcome {
        Ok(_) => panic!("expected an error"),
        Err(error) => error,
    }
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.display().to_string()
}

/// A table with columns of many types.
fn table(rows: usize) -> RecordBatch {
    let word = |row: usize| (row % 5 != 4).then(|| ["red", "green", "blue"][row % 3]);
    let dictionary: DictionaryArray<Int32Type> = (0..rows).map(word).collect();
    let price = Decimal128Array::from_iter_values((0..rows).map(|row| row as i128 * 25))
        .with_precision_and_scale(10, 2)
        .unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("x", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 3.0)))),
        (
            "holes",
            Arc::new(Float64Array::from_iter((0..rows).map(|row| (row % 2 == 0).then_some(row as f64)))),
        ),
        ("single", Arc::new(Float32Array::from_iter_values((0..rows).map(|row| row as f32 / 4.0)))),
        ("count", Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row as i32 - 2)))),
        ("large", Arc::new(Int64Array::from_iter_values((0..rows).map(|row| (1i64 << 53) + row as i64)))),
        ("price", Arc::new(price)),
        ("truth", Arc::new(BooleanArray::from_iter((0..rows).map(|row| (row != 1).then_some(row % 2 == 0))))),
        ("word", Arc::new(StringArray::from_iter((0..rows).map(word)))),
        ("dictionary", Arc::new(dictionary)),
        ("nothing", Arc::new(NullArray::new(rows))),
        ("day", Arc::new(Date32Array::from_iter_values(0..rows as i32))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

const KINDS: [Kind; 11] = [
    Kind::Number,
    Kind::Number,
    Kind::Number,
    Kind::Number,
    Kind::Number,
    Kind::Number,
    Kind::Boolean,
    Kind::Text,
    Kind::Text,
    Kind::Number,
    Kind::Time,
];

/// The expected rows of `table`, computed without Arrow arrays.
fn expected(rows: usize) -> Vec<Vec<String>> {
    (0..rows)
        .map(|row| {
            let word = if row % 5 == 4 {
                "missing".to_string()
            } else {
                format!("'{}'", ["red", "green", "blue"][row % 3])
            };
            let truth = ["1.0", "0.0"][row % 2];
            vec![
                format!("{:?}", row as f64 / 3.0),
                if row % 2 == 0 { format!("{:?}", row as f64) } else { "missing".to_string() },
                format!("{:?}", row as f64 / 4.0),
                format!("{:?}", row as f64 - 2.0),
                if row == 0 { "9007199254740992.0".to_string() } else { "inexact".to_string() },
                format!("{:?}", row as f64 / 4.0),
                if row == 1 { "missing".to_string() } else { truth.to_string() },
                word.clone(),
                word,
                "missing".to_string(),
            ]
        })
        .collect()
}

fn parquet_bytes(batch: &RecordBatch, group: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn arrow_bytes(batch: &RecordBatch, pieces: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    pieces_of(batch, pieces).iter().for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

fn stream_bytes(batch: &RecordBatch, pieces: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &batch.schema()).unwrap();
    pieces_of(batch, pieces).iter().for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

fn pieces_of(batch: &RecordBatch, rows: usize) -> Vec<RecordBatch> {
    (0..batch.num_rows())
        .step_by(rows)
        .map(|start| batch.slice(start, rows.min(batch.num_rows() - start)))
        .collect()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn typed_formats_give_the_same_rows() {
    let batch = table(100);
    let memory = Batches::new(batch.schema(), pieces_of(&batch, 30)).unwrap();
    assert_eq!(everything(&memory).unwrap(), expected(100));
    for (bytes, rows) in [
        (parquet_bytes(&batch, 30), Some(100)),
        (arrow_bytes(&batch, 30), Some(100)),
        (stream_bytes(&batch, 30), None),
        (gzip(&parquet_bytes(&batch, 30)), Some(100)),
        (gzip(&stream_bytes(&batch, 30)), None),
    ] {
        for memory in [0, 1 << 20] {
            let source = open_bytes(&bytes, &OpenOptions { memory, ..OpenOptions::default() }).unwrap();
            assert_eq!(source.rows(), rows);
            assert_eq!(source.fields().iter().map(|field| field.kind).collect::<Vec<_>>(), KINDS);
            let schema = batch.schema();
            for (field, given) in source.fields().iter().zip(schema.fields()) {
                assert_eq!((&field.name, &field.data_type), (given.name(), given.data_type()));
            }
            for _ in 0..2 {
                assert_eq!(everything(&*source).unwrap(), expected(100));
            }
            let some: Vec<Vec<String>> = expected(100)
                .iter()
                .map(|row| vec![row[7].clone(), row[0].clone(), row[7].clone()])
                .collect();
            assert_eq!(read(&*source, &[7, 0, 7]).unwrap(), some);
            assert_eq!(read(&*source, &[]).unwrap().len(), 100);
        }
    }
}

#[test]
fn parquet_is_read_with_every_codec() {
    use parquet::basic::Compression;
    let batch = table(100);
    for codec in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::BROTLI(Default::default()),
        Compression::LZ4_RAW,
        Compression::ZSTD(Default::default()),
    ] {
        let properties = WriterProperties::builder().set_compression(codec).build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let source = open_bytes(&bytes, &OpenOptions::default()).unwrap();
        assert_eq!(everything(&*source).unwrap(), expected(100), "{codec}");
    }
}

/// The first row of each unit of a scan, and the lengths of its segments.
fn units(source: &dyn Source, columns: &[usize]) -> Vec<(Option<u64>, Vec<usize>)> {
    let mut scan = source.scan(columns).unwrap();
    let mut units = Vec::new();
    while let Some(unit) = scan.next_unit().unwrap() {
        let first_row = unit.first_row();
        let mut lengths = Vec::new();
        unit.decode(&mut |segment| {
            lengths.push(segment.len);
            Ok(())
        })
        .unwrap();
        units.push((first_row, lengths));
    }
    units
}

#[test]
fn large_row_groups_of_parquet_are_divided_at_block_boundaries() {
    let folder = TempDir::new().unwrap();
    let short = RecordBatch::try_from_iter([("a", numbers(0..70_001)), ("b", words(0..70_001))]).unwrap();
    let long = RecordBatch::try_from_iter([("a", numbers(0..400_000)), ("b", words(0..400_000))]).unwrap();
    let paths = [("1.parquet", &short), ("2.parquet", &long)]
        .map(|(name, batch)| write(&folder, name, parquet_bytes(batch, 1 << 20)));
    let source = open(&paths, &OpenOptions::default()).unwrap();
    let units = units(&*source, &[0, 1]);
    // Every unit starts where the last one ended, and its segments end where blocks do.
    let mut row = 0;
    for (first_row, lengths) in &units {
        assert_eq!(*first_row, Some(row as u64));
        for (number, length) in lengths.iter().enumerate() {
            row += length;
            let last_of_file = row == 70_001 || row == 470_001;
            assert!(row % 65_536 == 0 || last_of_file, "segment {number} ends at {row}");
        }
    }
    assert_eq!(row, 470_001);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert!(units.len() >= (2 * cores).min(5), "{units:?}");
    let rows = everything(&*source).unwrap();
    let expected =
        (0..70_001).chain(0..400_000).map(|n| vec![format!("{:?}", f64::from(n)), format!("'{}'", word(n))]);
    assert!(rows.into_iter().eq(expected));
}

/// The same file with metadata that claims so many rows for its only row group.
fn claiming(bytes: &[u8], rows: i64) -> Vec<u8> {
    // With the number of pages, because a row group with an unknown number is never divided.
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    let mut reader = ParquetMetaDataReader::new().with_metadata_options(Some(options));
    reader.try_parse(&Bytes::copy_from_slice(bytes)).unwrap();
    let metadata = reader.finish().unwrap();
    let file = metadata.file_metadata();
    let group = metadata.row_group(0).clone().into_builder().set_num_rows(rows).build().unwrap();
    let file = FileMetaData::new(file.version(), rows, None, None, file.schema_descr_ptr(), None);
    let claimed = ParquetMetaDataBuilder::new(file).add_row_group(group).build();
    // The footer ends with its length and the magic bytes.
    let end = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
    let mut patched = bytes[..end - length].to_vec();
    ParquetMetaDataWriter::new(&mut patched, &claimed).finish().unwrap();
    patched
}

#[test]
fn row_groups_with_a_wrong_row_count_are_rejected() {
    for rows in [60_000, 300_000] {
        let batch = RecordBatch::try_from_iter([("a", numbers(0..rows))]).unwrap();
        let bytes = parquet_bytes(&batch, 1 << 20);
        let outcome = |claim: i32| {
            let source = open_bytes(&claiming(&bytes, claim.into()), &OpenOptions::default()).unwrap();
            let mut scan = source.scan(&[0]).unwrap();
            let mut read = 0;
            while let Some(unit) = scan.next_unit()? {
                unit.decode(&mut |segment| {
                    read += segment.len;
                    Ok(())
                })?;
            }
            Ok(read)
        };
        assert_eq!(outcome(rows).unwrap(), rows as usize);
        let source = open_bytes(&claiming(&bytes, rows.into()), &OpenOptions::default()).unwrap();
        assert_eq!(units(&*source, &[0]).len() > 1, rows > 65_536, "only a large group is cut");
        for claim in [rows - 1000, rows - 1, rows + 1, rows + 1000] {
            let error: Result<usize> = outcome(claim);
            let message = error.expect_err("another number of rows").to_string();
            assert!(message.contains("row group 0"), "{claim} of {rows}: {message}");
        }
    }
}

/// A decompressor allocates as many bytes as a buffer claims, and aborts the program if the allocation fails.
#[test]
fn compressed_arrow_that_claims_more_than_memory_is_rejected() {
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1.5; 1_000]));
    let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
    let mut bytes = Vec::new();
    let lz4 = arrow_ipc::writer::IpcWriteOptions::default()
        .try_with_compression(Some(arrow_ipc::CompressionType::LZ4_FRAME))
        .unwrap();
    let mut writer =
        arrow_ipc::writer::FileWriter::try_new_with_options(&mut bytes, &batch.schema(), lz4).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    assert_eq!(everything(&*open_bytes(&bytes, &OpenOptions::default()).unwrap()).unwrap().len(), 1_000);
    let length = 8_000i64.to_le_bytes();
    let places: Vec<usize> = (0..bytes.len() - 8).filter(|&at| bytes[at..at + 8] == length).collect();
    assert_eq!(places.len(), 1);
    bytes[places[0]..places[0] + 8].copy_from_slice(&(1i64 << 50).to_le_bytes());
    let source = open_bytes(&bytes, &OpenOptions::default()).unwrap();
    let error = everything(&*source).unwrap_err().to_string();
    assert!(error.contains("a compressed buffer claims to be larger than it can be"), "{error}");
}

fn numbers(range: std::ops::Range<i32>) -> ArrayRef {
    Arc::new(range.map(f64::from).collect::<Float64Array>())
}

fn words(range: std::ops::Range<i32>) -> ArrayRef {
    Arc::new(range.map(|n| Some(word(n))).collect::<StringArray>())
}

fn word(n: i32) -> String {
    format!("w{}", n % 7)
}

/// Number of bytes that the numeric columns of a source keep alive, added up over columns.
fn bytes_held(source: &dyn Source, columns: &[usize]) -> usize {
    let mut scan = source.scan(columns).unwrap();
    let mut held = 0;
    while let Some(unit) = scan.next_unit().unwrap() {
        unit.decode(&mut |segment| {
            for column in &segment.columns {
                let Column::Number(values) = column else { panic!("numbers expected") };
                held += values.inner().capacity();
            }
            Ok(())
        })
        .unwrap();
    }
    held
}

#[test]
fn columns_of_arrow_do_not_keep_unused_columns_alive() {
    let columns = (0..20).map(|c| {
        let values: Vec<f64> = (0..1000).map(|row| f64::from(row * c)).collect();
        (format!("x{c}"), Arc::new(Float64Array::from(values)) as ArrayRef)
    });
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for bytes in [arrow_bytes(&batch, 1000), stream_bytes(&batch, 1000)] {
        let source = open_bytes(&bytes, &OpenOptions::default()).unwrap();
        let held = bytes_held(&*source, &[3, 4]);
        assert!((16_000..20_000).contains(&held), "{held} bytes");
    }
}

#[test]
fn numbers_in_memory_are_not_copied() {
    let values: Vec<f64> = (0..100_000).map(f64::from).collect();
    let pointer = values.as_ptr();
    let source =
        Columns::new(vec![("a".to_string(), vec![0.5; 100_000]), ("b".to_string(), values)]).unwrap();
    assert_eq!(source.rows(), Some(100_000));
    let mut scan = source.scan(&[1]).unwrap();
    let mut places = Vec::new();
    while let Some(unit) = scan.next_unit().unwrap() {
        let first_row = unit.first_row();
        unit.decode(&mut |segment| {
            if let Column::Number(values) = &segment.columns[0] {
                places.push((first_row, segment.len, values.as_ptr() as usize - pointer as usize));
            }
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(places, [(Some(0), 65_536, 0), (Some(65_536), 34_464, 65_536 * 8)]);
    let uneven = Columns::new(vec![("a".to_string(), vec![1.0]), ("b".to_string(), vec![])]);
    assert_eq!(uneven.err().unwrap().to_string(), "column 'b': has 0 rows where 'a' has 1");
    let twice = Columns::new(vec![("a".to_string(), vec![]), ("a".to_string(), vec![])]);
    assert_eq!(twice.err().unwrap().to_string(), "'data in memory': two columns are named 'a'");
}

#[test]
fn all_members_of_compressed_text_are_read() {
    let folder = TempDir::new().unwrap();
    let members = [gzip(b"a,b\n1,x\n2,"), gzip(b"y\n3,z\n")].concat();
    let frames =
        [zstd::encode_all(&b"a,b\n1,x\n2,"[..], 1).unwrap(), zstd::encode_all(&b"y\n3,z\n"[..], 1).unwrap()]
            .concat();
    for (name, content) in [("a.csv.gz", members), ("misnamed.txt", frames)] {
        let source = open(&[write(&folder, name, content)], &OpenOptions::default()).unwrap();
        assert_eq!(everything(&*source).unwrap(), [["1.0", "'x'"], ["2.0", "'y'"], ["3.0", "'z'"]]);
    }
    let libsvm = write(&folder, "b.gz", gzip(b"1 1:2\n-1 2:1\n"));
    let source = open(&[libsvm], &OpenOptions::default()).unwrap();
    assert!(source.is_sparse());
    assert_eq!(everything(&*source).unwrap(), [["1.0", "2.0", "0.0"], ["-1.0", "0.0", "1.0"]]);
}

#[test]
fn damaged_compression_is_reported() {
    let folder = TempDir::new().unwrap();
    let text: String = (0..50_000).map(|row| format!("{row},{}\n", row * 31 % 1013)).collect();
    let packed = gzip(format!("a,b\n{text}").as_bytes());
    let path = write(&folder, "a.csv.gz", &packed[..packed.len() / 2]);
    let outcome = open(std::slice::from_ref(&path), &OpenOptions::default());
    let error = outcome.and_then(|source| everything(&*source).map(|_| ())).unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("'{path}': the gzip data is damaged or truncated")),
        "{error}"
    );
}

#[test]
fn a_large_file_is_the_same_through_many_chunks() {
    let folder = TempDir::new().unwrap();
    let text: String =
        (0..300_000).map(|row| format!("{},{row},w{}\n", row as f64 / 7.0, row % 10)).collect();
    let path = write(&folder, "a.csv", format!("x,n,w\n{text}"));
    let source = open(&[path], &OpenOptions::default()).unwrap();
    let rows = everything(&*source).unwrap();
    assert_eq!(rows.len(), 300_000);
    for (row, cells) in rows.iter().enumerate() {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        let expected =
            [format!("{:?}", row as f64 / 7.0), format!("{:?}", row as f64), format!("'w{}'", row % 10)];
        assert_eq!(cells, expected);
    }
}

#[test]
fn globs_and_directories_are_sorted_and_skip_other_files() {
    let folder = TempDir::new().unwrap();
    for (name, content) in [("b.csv", "a\n3\n"), ("a.csv", "a\n1\n2\n"), ("c.csv", "a\n4\n")] {
        write(&folder, name, content);
    }
    write(&folder, "_SUCCESS", "");
    write(&folder, ".a.csv.crc", "crc");
    fs::create_dir(folder.path().join("nested")).unwrap();
    let name = folder.path().display().to_string();
    for named in [
        vec![name.clone()],
        vec![format!("{name}/*.csv")],
        vec![format!("{name}/[ab].csv"), format!("{name}/c.csv")],
    ] {
        let source = open(&named, &OpenOptions::default()).unwrap();
        assert_eq!(everything(&*source).unwrap().concat(), ["1.0", "2.0", "3.0", "4.0"]);
    }
    let fails = |named: &[String]| refused(open(named, &OpenOptions::default())).to_string();
    let twice = [format!("{name}/*.csv"), format!("{name}/b.csv")];
    assert_eq!(fails(&twice), format!("'{name}/b.csv': is named twice"));
    let stdin_twice = ["-".to_string(), "-".to_string()];
    assert_eq!(fails(&stdin_twice), "'-': is named twice");
    assert_eq!(fails(&[format!("{name}/*.parquet")]), format!("'{name}/*.parquet': no file matches"));
    assert_eq!(
        fails(&[format!("{name}/nested")]),
        format!("'{name}/nested': the directory holds no data files")
    );
    let missing = fails(&[format!("{name}/none.csv")]);
    assert!(missing.starts_with(&format!("cannot read '{name}/none.csv': ")), "{missing}");
    assert_eq!(fails(&[]), "'': name a file, a directory, or - for standard input");
    assert_eq!(fails(&[write(&folder, "empty", "")]), format!("'{name}/empty': is empty"));
}

#[cfg(unix)]
#[test]
fn a_pipe_is_kept_to_be_read_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let writer = std::thread::spawn({
        let path = path.clone();
        move || fs::write(path, "a\n1\n2\n")
    });
    let source = open_path(&path).unwrap();
    writer.join().unwrap().unwrap();
    for _ in 0..2 {
        assert_eq!(everything(&*source).unwrap().concat(), ["1.0", "2.0"]);
    }
}

#[test]
fn parts_of_different_formats_and_widths_agree() {
    let folder = TempDir::new().unwrap();
    let number = |name: &str, array: ArrayRef| RecordBatch::try_from_iter([(name, array)]).unwrap();
    let whole = number("a", Arc::new(Int32Array::from(vec![1, 2])));
    let single = number("a", Arc::new(Float32Array::from(vec![0.5])));
    let none = number("a", Arc::new(NullArray::new(1)));
    let named = [
        write(&folder, "1.parquet", parquet_bytes(&whole, 1)),
        write(&folder, "2.arrow", arrow_bytes(&single, 1)),
        write(&folder, "3.arrow", arrow_bytes(&none, 1)),
    ];
    let source = open(&named, &OpenOptions::default()).unwrap();
    assert_eq!(source.rows(), Some(4));
    assert_eq!(source.fields()[0].data_type, arrow_schema::DataType::Float64);
    assert_eq!(everything(&*source).unwrap().concat(), ["1.0", "2.0", "0.5", "missing"]);

    let with_text = [named[0].clone(), write(&folder, "4.csv", "a\n7\n")];
    let source = open(&with_text, &OpenOptions::default()).unwrap();
    assert_eq!(source.rows(), None);
    assert_eq!(everything(&*source).unwrap().concat(), ["1.0", "2.0", "7.0"]);
}

#[test]
fn a_column_missing_at_first_takes_the_kind_it_has_elsewhere() {
    let folder = TempDir::new().unwrap();
    let named = [
        write(&folder, "1.csv", "a,b\nNA,1\n"),
        write(&folder, "2.csv", "a,b\nx,\n"),
        write(&folder, "3.csv", "a,b\n,2\n"),
    ];
    let source = open(&named, &OpenOptions::default()).unwrap();
    assert_eq!(source.fields()[0].kind, Kind::Text);
    assert_eq!(everything(&*source).unwrap(), [["missing", "1.0"], ["'x'", "missing"], ["missing", "2.0"]]);
}

#[test]
fn parts_that_differ_are_rejected_by_name() {
    let folder = TempDir::new().unwrap();
    let first = write(&folder, "1.csv", "a,b\n1,2\n");
    let fails = |content: &str| {
        let second = write(&folder, "2.csv", content);
        let error = refused(open(&[first.clone(), second.clone()], &OpenOptions::default()));
        assert!(matches!(error.kind(), ErrorKind::SchemaMismatch { .. }));
        error.to_string().replace(&first, "1.csv").replace(&second, "2.csv")
    };
    assert_eq!(fails("a,b,c\n1,2,3\n"), "'1.csv' and '2.csv' differ: the first has no column 'c'");
    assert_eq!(
        fails("a,c\n1,2\n"),
        "'1.csv' and '2.csv' differ: column 2 is 'b' in the first and 'c' in the second"
    );
    assert_eq!(
        fails("a,b\n1,x\n"),
        "'1.csv' and '2.csv' differ: column 'b' holds numbers in the first and text in the second"
    );
}

#[test]
fn libsvm_parts_get_the_features_of_all() {
    let folder = TempDir::new().unwrap();
    let named = [write(&folder, "1.svm", "1 1:5\n"), write(&folder, "2.svm", "-1 3:7\n")];
    let source = open(&named, &OpenOptions::default()).unwrap();
    assert_eq!(source.rows(), Some(2));
    assert_eq!(everything(&*source).unwrap(), [["1.0", "5.0", "0.0", "0.0"], ["-1.0", "0.0", "0.0", "7.0"]]);
    let options = OpenOptions { features: Some(5), zero_based: Some(true), ..OpenOptions::default() };
    let source = open(&named, &options).unwrap();
    let names: Vec<&str> = source.fields().iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["label", "x0", "x1", "x2", "x3", "x4", "x5"]);
    let options = OpenOptions { text: vec!["x3".to_string()], ..OpenOptions::default() };
    let source = open(&named, &options).unwrap();
    assert_eq!(read(&*source, &[3]).unwrap().concat(), ["'0'", "'7'"]);
}

#[test]
fn columns_are_read_as_text_on_demand() {
    let options = |names: &[&str]| OpenOptions {
        text: names.iter().map(|name| name.to_string()).collect(),
        ..OpenOptions::default()
    };
    let source = open_bytes(b"zip,n\n01234,1\n,2\n", &options(&["zip"])).unwrap();
    assert_eq!(source.fields()[0].kind, Kind::Text);
    assert_eq!(everything(&*source).unwrap(), [["'01234'", "1.0"], ["missing", "2.0"]]);

    let bytes = parquet_bytes(&table(3), 10);
    let source = open_bytes(&bytes, &options(&["holes", "large", "truth", "day", "price"])).unwrap();
    assert_eq!(
        read(&*source, &[1, 4, 6, 10, 5]).unwrap(),
        [
            ["'0'", "'9007199254740992'", "'true'", "'1970-01-01'", "'0'"],
            ["missing", "'9007199254740993'", "missing", "'1970-01-02'", "'0.25'"],
            ["'2'", "'9007199254740994'", "'true'", "'1970-01-03'", "'0.5'"]
        ]
    );
    let error = refused(open_bytes(&bytes, &options(&["hole"])));
    assert_eq!(error.to_string(), "there is no column 'hole' to read as text (did you mean 'holes'?)");
}

#[test]
fn unsupported_types_are_rejected_only_when_used() {
    let bytes: ArrayRef = Arc::new(arrow_array::BinaryArray::from_iter_values([b"a", b"b"]));
    let number: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
    let batch = RecordBatch::try_from_iter([("number", number), ("bytes", bytes)]).unwrap();
    let source = open_bytes(&parquet_bytes(&batch, 10), &OpenOptions::default()).unwrap();
    assert!(source.scan(&[0]).is_ok());
    let error = source.scan(&[0, 1]).err().unwrap();
    assert_eq!(error.to_string(), "column 'bytes': values of type Binary cannot be used");
    assert_eq!(error.help(), Some(Remedy::ExcludeColumn(Some("bytes".to_string())).into()));
}

#[test]
fn errors_name_standard_input() {
    let error = refused(open_bytes(b"a,b\n1\n", &OpenOptions::default()));
    assert_eq!(error.to_string(), "'standard input', row 1: has 1 field where the header has 2");
    assert_eq!(refused(open_bytes(b"", &OpenOptions::default())).to_string(), "'standard input': is empty");
}

#[test]
fn damage_is_an_error_that_names_the_file() {
    let batch = table(2000);
    for (format, bytes) in [
        ("Parquet", parquet_bytes(&batch, 500)),
        ("Arrow", arrow_bytes(&batch, 500)),
        ("an Arrow stream", stream_bytes(&batch, 500)),
    ] {
        let cut = &bytes[..bytes.len() / 2];
        let outcome = open_bytes(cut, &OpenOptions::default()).and_then(|source| everything(&*source));
        let message = outcome.unwrap_err().to_string();
        let start = format!("'standard input': cannot be read as {format}: it is damaged or truncated");
        assert!(message.starts_with(&start), "{message}");
    }
    // Damage within a page is found only when it is decoded.
    let mut bytes = parquet_bytes(&batch, 500);
    bytes[4..40].fill(0xff);
    let source = open_bytes(&bytes, &OpenOptions::default()).unwrap();
    let message = everything(&*source).unwrap_err().to_string();
    assert!(message.starts_with("'standard input': cannot be read as Parquet"), "{message}");
}

fn try_all(bytes: &[u8], format: Option<Format>) {
    let options = OpenOptions { format, ..OpenOptions::default() };
    if let Ok(source) = open_bytes(bytes, &options)
        && let Ok(mut scan) = source.scan(
            &(0..source.fields().len())
                .filter(|&column| !matches!(source.fields()[column].kind, Kind::Time | Kind::Unsupported))
                .collect::<Vec<_>>(),
        )
    {
        while let Ok(Some(unit)) = scan.next_unit() {
            let _ = unit.decode(&mut |_| Ok(()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        try_all(&bytes, None);
        for (_, format) in Format::NAMES {
            try_all(&bytes, Some(format));
        }
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "[0-9a,:\"# \t\r\n.eN-]{0,200}") {
        try_all(text.as_bytes(), None);
        for format in [Format::Csv, Format::Tsv, Format::Libsvm] {
            try_all(text.as_bytes(), Some(format));
        }
    }

    #[test]
    fn no_damage_makes_a_reader_panic(
        places in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        which in 0usize..3,
    ) {
        let batch = table(20);
        let mut bytes = match which {
            0 => parquet_bytes(&batch, 8),
            1 => arrow_bytes(&batch, 8),
            _ => stream_bytes(&batch, 8),
        };
        for (place, value) in places {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        try_all(&bytes, None);
    }
}
