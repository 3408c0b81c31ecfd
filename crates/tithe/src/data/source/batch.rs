//! Converts Arrow arrays to columns: any numeric type to `f64`, any text to codes and levels.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Schema, TimeUnit};

use crate::base::error::{Error, ErrorKind, Remedy, Result};
use crate::base::machine::memory_limit;
use crate::data::block::{Column, Field, INEXACT, Kind, MISSING, MISSING_CODE, Segment, TextBuilder};

/// Decoded batches up to this many bytes are not compared with the memory limit.
const LITTLE: u64 = 64 << 20;

type Decoded<T> = std::result::Result<T, ArrowError>;

/// The columns of a schema.
pub(super) fn fields_of(schema: &Schema) -> Vec<Field> {
    schema
        .fields()
        .iter()
        .map(|field| Field {
            name: field.name().clone(),
            kind: kind_of(field.data_type()),
            data_type: field.data_type().clone(),
        })
        .collect()
}

fn kind_of(data_type: &DataType) -> Kind {
    match data_type {
        // Categories, with keys of any type.
        DataType::Dictionary(_, values) => match kind_of(values) {
            Kind::Unsupported | Kind::Time => Kind::Unsupported,
            Kind::Number | Kind::Boolean | Kind::Text => Kind::Text,
        },
        DataType::Boolean => Kind::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Text,
        DataType::Null => Kind::Number,
        data_type if data_type.is_numeric() => Kind::Number,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Kind::Time,
        _ => Kind::Unsupported,
    }
}

/// Makes a column a text column.
pub(super) fn make_text(field: &mut Field) -> Result<()> {
    if field.kind == Kind::Unsupported && !field.data_type.is_temporal() {
        return Err(ErrorKind::Column {
            column: field.name.clone(),
            what: format!("values of type {} cannot be read as text", field.data_type),
            help: Some(Remedy::ExcludeColumn(Some(field.name.clone())).into()),
        }
        .into());
    }
    if field.kind != Kind::Text {
        field.kind = Kind::Text;
        field.data_type = DataType::Utf8;
    }
    Ok(())
}

/// What to read: positions in the file's schema, ascending and without duplicates, and for each requested column its
/// position among them and its kind.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    pub roots: Vec<usize>,
    picks: Vec<(usize, Kind)>,
}

impl Projection {
    pub fn new(fields: &[Field], columns: &[usize]) -> Projection {
        let mut roots = columns.to_vec();
        roots.sort_unstable();
        roots.dedup();
        let picks = columns
            .iter()
            .map(|column| (roots.partition_point(|root| root < column), fields[*column].kind))
            .collect();
        Projection { roots, picks }
    }

    /// A projection of batches that have all columns.
    pub fn from_whole(fields: &[Field], columns: &[usize]) -> Projection {
        let picks = columns.iter().map(|&column| (column, fields[column].kind)).collect();
        Projection { roots: Vec::new(), picks }
    }

    pub fn segment(&self, batch: &RecordBatch) -> Decoded<Segment> {
        // A column of nulls takes no bytes in a file, however many rows it claims.
        let bytes = (batch.num_rows() as u64).saturating_mul(8).saturating_mul(self.picks.len() as u64);
        if bytes > LITTLE && bytes > memory_limit().unwrap_or(u64::MAX) {
            return Err(ArrowError::MemoryError(format!("{} rows do not fit into memory", batch.num_rows())));
        }
        let columns = self.picks.iter().map(|&(at, kind)| column(batch.column(at), kind));
        Ok(Segment { columns: columns.collect::<Decoded<_>>()?, len: batch.num_rows() })
    }
}

/// Runs an external decoder on bytes that may be damaged: its errors and panics become errors that name the file.
pub(super) fn guarded<T, E: Display>(
    path: &Path,
    format: &str,
    decoder: impl FnOnce() -> std::result::Result<T, E>,
) -> Result<T> {
    let reason = match catch_unwind(AssertUnwindSafe(decoder)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => format!(" ({error})"),
        Err(_) => String::new(),
    };
    Err(Error::malformed(path, format!("cannot be read as {format}: it is damaged or truncated{reason}")))
}

fn column(array: &ArrayRef, kind: Kind) -> Decoded<Column> {
    if kind == Kind::Text { text(array) } else { numbers(array) }
}

pub(super) fn numbers(array: &ArrayRef) -> Decoded<Column> {
    let exact = |value: f64| value;
    Ok(match array.data_type() {
        DataType::Float64 if array.null_count() == 0 => {
            Column::Number(array.as_primitive::<Float64Type>().values().clone())
        }
        DataType::Float64 => map::<Float64Type>(array, exact),
        DataType::Float32 => map::<Float32Type>(array, f64::from),
        DataType::Float16 => map::<Float16Type>(array, f64::from),
        DataType::Int8 => map::<Int8Type>(array, f64::from),
        DataType::Int16 => map::<Int16Type>(array, f64::from),
        DataType::Int32 => map::<Int32Type>(array, f64::from),
        DataType::UInt8 => map::<UInt8Type>(array, f64::from),
        DataType::UInt16 => map::<UInt16Type>(array, f64::from),
        DataType::UInt32 => map::<UInt32Type>(array, f64::from),
        DataType::Int64 => map::<Int64Type>(array, |value| integer(i128::from(value))),
        DataType::UInt64 => map::<UInt64Type>(array, |value| integer(i128::from(value))),
        &DataType::Decimal32(_, scale) => map::<Decimal32Type>(array, |v| decimal(i128::from(v), scale)),
        &DataType::Decimal64(_, scale) => map::<Decimal64Type>(array, |v| decimal(i128::from(v), scale)),
        &DataType::Decimal128(_, scale) => map::<Decimal128Type>(array, |v| decimal(v, scale)),
        DataType::Decimal256(..) => {
            let shown = ArrayFormatter::try_new(array, &FormatOptions::new())?;
            let value = |row| -> Decoded<f64> {
                if array.is_null(row) {
                    return Ok(MISSING);
                }
                let text = shown.value(row).try_to_string()?;
                Ok(super::token::number(text.as_bytes()).unwrap_or(INEXACT))
            };
            Column::Number((0..array.len()).map(value).collect::<Decoded<Vec<_>>>()?.into())
        }
        DataType::Boolean => {
            let truths = array.as_boolean().iter();
            Column::Number(truths.map(|truth| truth.map_or(MISSING, f64::from)).collect())
        }
        DataType::Null => Column::Number(vec![MISSING; array.len()].into()),
        DataType::Date32 => map::<Date32Type>(array, |days| f64::from(days) * 86_400.0),
        DataType::Date64 => map::<Date64Type>(array, |millis| millis as f64 / 1e3),
        DataType::Timestamp(TimeUnit::Second, _) => map::<TimestampSecondType>(array, |time| time as f64),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            map::<TimestampMillisecondType>(array, |time| time as f64 / 1e3)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            map::<TimestampMicrosecondType>(array, |time| time as f64 / 1e6)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            map::<TimestampNanosecondType>(array, |time| time as f64 / 1e9)
        }
        DataType::Dictionary(_, values) => return numbers(&cast(array, values)?),
        other => return Err(ArrowError::CastError(format!("values of type {other} cannot be used"))),
    })
}

fn map<T: ArrowPrimitiveType>(array: &ArrayRef, value: impl Fn(T::Native) -> f64) -> Column {
    let array = array.as_primitive::<T>();
    Column::Number(if array.null_count() == 0 {
        array.values().iter().map(|native| value(*native)).collect()
    } else {
        array.iter().map(|native| native.map_or(MISSING, &value)).collect()
    })
}

fn integer(value: i128) -> f64 {
    if value.unsigned_abs() <= 1 << 53 { value as f64 } else { INEXACT }
}

/// The `f64` nearest to `value / 10^scale`.
fn decimal(value: i128, scale: i8) -> f64 {
    match scale {
        // Both operands are exact, so the quotient is correctly rounded.
        0..=22 if value.unsigned_abs() <= 1 << 53 => value as f64 / 10f64.powi(i32::from(scale)),
        scale if scale <= 0 => {
            let power = 10i128.checked_pow(u32::from(scale.unsigned_abs()));
            power.and_then(|power| value.checked_mul(power)).map_or(INEXACT, integer)
        }
        _ => fast_float2::parse(format!("{value}e-{scale}")).unwrap_or(INEXACT),
    }
}

pub(super) fn text(array: &ArrayRef) -> Decoded<Column> {
    let mut builder = TextBuilder::default();
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().for_each(|level| builder.push(level)),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().for_each(|level| builder.push(level)),
        DataType::Utf8View => array.as_string_view().iter().for_each(|level| builder.push(level)),
        DataType::Null => (0..array.len()).for_each(|_| builder.push(None)),
        DataType::Dictionary(_, values) if kind_of(values) == Kind::Text => codes(array, &mut builder)?,
        DataType::Dictionary(_, values) => return text(&cast(array, values)?),
        DataType::Float64 => print::<Float64Type>(array, &mut builder),
        DataType::Float32 => print::<Float32Type>(array, &mut builder),
        DataType::Float16 => print::<Float16Type>(array, &mut builder),
        _ => {
            let shown = ArrayFormatter::try_new(array, &FormatOptions::new())?;
            let is_decimal = array.data_type().is_decimal();
            for row in 0..array.len() {
                if array.is_null(row) {
                    builder.push(None);
                    continue;
                }
                let text = shown.value(row).try_to_string()?;
                let shortest = match is_decimal && text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.'),
                    false => &text,
                };
                builder.push(Some(shortest));
            }
        }
    }
    Ok(builder.finish())
}

fn print<T: ArrowPrimitiveType<Native: Display>>(array: &ArrayRef, builder: &mut TextBuilder) {
    for value in array.as_primitive::<T>() {
        builder.push(value.map(|value| value.to_string()).as_deref().filter(|text| *text != "NaN"));
    }
}

/// The codes of a dictionary, renumbered: a dictionary may contain unused or duplicate levels.
fn codes(array: &ArrayRef, builder: &mut TextBuilder) -> Decoded<()> {
    let dictionary = array.as_any_dictionary();
    let values = cast(dictionary.values(), &DataType::LargeUtf8)?;
    let values = values.as_string::<i64>();
    let keys = cast(dictionary.keys(), &DataType::Int64)?;
    let mut renumbered: Vec<Option<u32>> = vec![None; values.len()];
    for key in keys.as_primitive::<Int64Type>() {
        let key = key.and_then(|key| usize::try_from(key).ok()).filter(|key| *key < values.len());
        let code = key.map_or(MISSING_CODE, |key| {
            *renumbered[key].get_or_insert_with(|| match values.is_null(key) {
                true => MISSING_CODE,
                false => builder.code(values.value(key)),
            })
        });
        builder.push_code(code);
    }
    Ok(())
}

/// The schema with plain text read as a dictionary, as most files store it, which is much faster to convert to codes. Other
/// categories are read as plain values, because the reader does not support every dictionary type.
pub(super) fn with_dictionaries(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            Arc::new(field.as_ref().clone().with_data_type(dictionary))
        }
        DataType::Dictionary(_, values) if kind_of(values) != Kind::Text => {
            Arc::new(field.as_ref().clone().with_data_type((**values).clone()))
        }
        _ => field.clone(),
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Turns the column of this name into one of text.
pub(super) fn column_as_text(fields: &mut [Field], name: &str) -> Result<()> {
    match fields.iter_mut().find(|field| field.name == name) {
        Some(field) => make_text(field),
        None => Err(Error::unknown_column(
            "to read as text",
            name,
            fields.iter().map(|field| field.name.as_str()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::EXACT;
    use super::*;
    use arrow_array::*;
    use arrow_buffer::i256;

    fn as_numbers(array: impl Array + 'static) -> Vec<u64> {
        match numbers(&(Arc::new(array) as ArrayRef)).unwrap() {
            Column::Number(values) => values.iter().map(|value| value.to_bits()).collect(),
            Column::Text { .. } => panic!("text"),
        }
    }

    fn bits(values: &[f64]) -> Vec<u64> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    fn as_text(array: impl Array + 'static) -> Vec<Option<String>> {
        match text(&(Arc::new(array) as ArrayRef)).unwrap() {
            Column::Text { codes, levels } => {
                let mut sorted = levels.to_vec();
                sorted.sort();
                sorted.dedup();
                assert_eq!(sorted.len(), levels.len(), "a level occurs twice");
                assert!((0..levels.len() as u32).all(|code| codes.contains(&code)), "a level does not occur");
                codes.iter().map(|&code| levels.get(code as usize).cloned()).collect()
            }
            Column::Number(_) => panic!("numbers"),
        }
    }

    fn words<const N: usize>(levels: [Option<&str>; N]) -> Vec<Option<String>> {
        levels.map(|level| level.map(str::to_string)).into()
    }

    #[test]
    fn every_numeric_type_becomes_f64() {
        assert_eq!(as_numbers(Float64Array::from(vec![Some(1.5), None])), bits(&[1.5, MISSING]));
        assert_eq!(as_numbers(Float32Array::from(vec![0.1f32])), bits(&[f64::from(0.1f32)]));
        assert_eq!(as_numbers(Int8Array::from(vec![-3])), bits(&[-3.0]));
        assert_eq!(as_numbers(UInt32Array::from(vec![u32::MAX])), bits(&[4_294_967_295.0]));
        let edge = 1i64 << 53;
        assert_eq!(
            as_numbers(Int64Array::from(vec![Some(edge), Some(edge + 1), Some(-edge - 1), None])),
            bits(&[EXACT, INEXACT, INEXACT, MISSING])
        );
        assert_eq!(as_numbers(UInt64Array::from(vec![u64::MAX])), bits(&[INEXACT]));
        assert_eq!(
            as_numbers(BooleanArray::from(vec![Some(true), Some(false), None])),
            bits(&[1.0, 0.0, MISSING])
        );
        assert_eq!(as_numbers(NullArray::new(1)), bits(&[MISSING]));
    }

    #[test]
    fn decimals_are_the_nearest_numbers() {
        let decimals = |values: Vec<i128>, scale| {
            Decimal128Array::from(values).with_precision_and_scale(38, scale).unwrap()
        };
        assert_eq!(as_numbers(decimals(vec![123, -5], 2)), bits(&[1.23, -0.05]));
        assert_eq!(
            as_numbers(decimals(vec![12_345_678_901_234_567_890_123], 10)),
            bits(&["1234567890123.4567890123".parse().unwrap()])
        );
        assert_eq!(as_numbers(decimals(vec![1 << 54], 0)), bits(&[INEXACT]));
        let wide = Decimal256Array::from(vec![i256::from_i128(125)]).with_precision_and_scale(50, 2).unwrap();
        assert_eq!(as_numbers(wide), bits(&[1.25]));
        assert_eq!(as_text(decimals(vec![300, 250], 2)), words([Some("3"), Some("2.5")]));
    }

    #[test]
    fn numbers_as_text_are_as_short_as_possible() {
        assert_eq!(
            as_text(Float64Array::from(vec![Some(3.0), Some(2.5), None, Some(f64::NAN)])),
            words([Some("3"), Some("2.5"), None, None])
        );
        assert_eq!(as_text(Float32Array::from(vec![0.1f32])), words([Some("0.1")]));
        assert_eq!(as_text(Int64Array::from(vec![i64::MAX])), words([Some("9223372036854775807")]));
        assert_eq!(as_text(BooleanArray::from(vec![true])), words([Some("true")]));
        assert_eq!(as_text(Date32Array::from(vec![0])), words([Some("1970-01-01")]));
    }

    #[test]
    fn dictionaries_keep_only_levels_that_occur() {
        let values = StringArray::from(vec![Some("a"), Some("b"), None, Some("a"), Some("unused")]);
        let keys = Int8Array::from(vec![Some(1), Some(0), Some(2), Some(3), None]);
        let array = DictionaryArray::new(keys, Arc::new(values));
        assert_eq!(as_text(array), words([Some("b"), Some("a"), None, Some("a"), None]));
        let numbers = DictionaryArray::new(
            Int32Array::from(vec![1, 0, 1]),
            Arc::new(Float64Array::from(vec![0.5, 7.0])) as ArrayRef,
        );
        assert_eq!(as_numbers(numbers), bits(&[7.0, 0.5, 7.0]));
        assert_eq!(as_text(StringViewArray::from(vec![Some("x"), None])), words([Some("x"), None]));
    }

    #[test]
    fn dictionaries_of_any_values_are_categories() {
        let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int8), Box::new(values));
        for values in [DataType::Utf8, DataType::Int64, DataType::Float64, DataType::Boolean] {
            assert_eq!(kind_of(&dictionary(values.clone())), Kind::Text, "{values}");
        }
        assert_eq!(kind_of(&dictionary(DataType::Binary)), Kind::Unsupported);
        let truths = Arc::new(BooleanArray::from(vec![false, true])) as ArrayRef;
        let array = DictionaryArray::new(Int8Array::from(vec![Some(1), None, Some(0)]), truths);
        assert_eq!(as_text(array), words([Some("true"), None, Some("false")]));
        // Reads the values instead of a dictionary.
        let schema = Schema::new(vec![arrow_schema::Field::new("b", dictionary(DataType::Boolean), true)]);
        assert_eq!(*with_dictionaries(&schema).field(0).data_type(), DataType::Boolean);
    }

    #[test]
    fn doubles_without_nulls_are_not_copied() {
        let array = Float64Array::from(vec![1.0, 2.0]);
        let pointer = array.values().as_ptr();
        match numbers(&(Arc::new(array) as ArrayRef)).unwrap() {
            Column::Number(values) => assert_eq!(values.as_ptr(), pointer),
            Column::Text { .. } => panic!("text"),
        }
    }
}
