//! Several files as one source: they must have the same columns, and their rows are concatenated.

use std::hash::RandomState;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::DataType;
use hashbrown::HashSet;

use super::chunk::CHUNK;
use super::csv::{Delimited, Dialect};
use super::format::{Format, detect};
use super::input::Input;
use super::part::{Division, Part, check_columns};
use super::{Delimiter, OpenOptions, Scan, Source, Unit, arrow, libsvm, ndjson, parquet};
use crate::base::error::{Error, ErrorKind, Result, Setting};
use crate::data::block::{Field, Kind};

/// Each unit has at most 1/(this × cores) of the rows that are not yet read.
const SHARES_A_CORE: u64 = 2;

/// Files with the same columns.
pub(super) struct Files {
    parts: Arc<Vec<Box<dyn Part>>>,
    fields: Vec<Field>,
    rows: Option<u64>,
}

impl Files {
    pub fn open(inputs: Vec<Input>, options: &OpenOptions) -> Result<Files> {
        let mut parts =
            inputs.into_iter().map(|input| open_part(input, options)).collect::<Result<Vec<_>>>()?;
        widen(&mut parts, options)?;
        for name in &options.text {
            for part in &mut parts {
                let column = part.fields().iter().position(|field| field.name == *name).ok_or_else(|| {
                    Error::unknown_column(
                        "to read as text",
                        name,
                        part.fields().iter().map(|field| field.name.as_str()),
                    )
                })?;
                part.read_as_text(column)?;
            }
        }
        for name in &options.numbers {
            if options.text.contains(name) {
                let what = format!("must not name '{name}', which is read as text");
                return Err(Error::setting(Setting::Numbers, what));
            }
            for part in &mut parts {
                let column = part.fields().iter().position(|field| field.name == *name).ok_or_else(|| {
                    let names = part.fields().iter().map(|field| field.name.as_str());
                    Error::unknown_column("to read as numbers", name, names)
                })?;
                part.read_as_numbers(column)?;
            }
        }
        let fields = agree(&mut parts)?;
        let rows = parts.iter().try_fold(0, |sum: u64, part| Some(sum.saturating_add(part.rows()?)));
        if let Some(rows) = rows {
            let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
            let division = Division { rows, shares: SHARES_A_CORE * cores };
            parts.iter_mut().for_each(|part| part.divide(division));
        }
        Ok(Files { parts: Arc::new(parts), fields, rows })
    }
}

pub(super) fn open_part(input: Input, options: &OpenOptions) -> Result<Box<dyn Part>> {
    let (compression, mut format) = detect(&input, options.format)?;
    if options.delimiter.is_some() {
        format = match format {
            // Lines such as `1;1:30` look like LIBSVM.
            Format::Csv | Format::Tsv | Format::Libsvm if options.format.is_none() => Format::Csv,
            Format::Csv | Format::Tsv => format,
            _ => {
                let what = format!("has no effect: '{}' is not CSV or TSV", input.path().display());
                return Err(Error::setting(Setting::Delimiter, what));
            }
        };
    }
    let mut input = Arc::new(input);
    if !format.is_text() && compression != super::input::Compression::Plain {
        let path = input.path().to_path_buf();
        input = Arc::new(Input::from_reader(path, compression.decompress(&input)?, options.memory)?);
    }
    let delimited = |usual| Dialect {
        delimiter: options.delimiter.or(usual),
        decimal: options.decimal,
        missing: options.null_values.clone().into(),
        has_header: options.header,
        chunk: CHUNK,
        lenient: options.lenient,
    };
    Ok(match format {
        Format::Csv => Box::new(Delimited::open(input, compression, delimited(None))?),
        Format::Tsv => Box::new(Delimited::open(input, compression, delimited(Some(Delimiter::Tab)))?),
        Format::Ndjson => Box::new(ndjson::Ndjson::open(input, compression, CHUNK, options)?),
        Format::Libsvm => Box::new(libsvm::Libsvm::open(input, compression, CHUNK)?),
        Format::Parquet => Box::new(parquet::ParquetFile::open(input)?),
        Format::ArrowFile => Box::new(arrow::ArrowFile::open_file(input)?),
        Format::ArrowStream => Box::new(arrow::ArrowFile::open_stream(input)?),
    })
}

/// Gives all LIBSVM files the features that any of them has.
pub(super) fn widen(parts: &mut [Box<dyn Part>], options: &OpenOptions) -> Result<()> {
    let sparse = || parts.iter().filter(|part| part.is_sparse());
    // Error messages about the range of indices name the file with the highest index.
    let Some(widest) = sparse().max_by_key(|part| part.indices().map(|indices| indices.last)) else {
        return Ok(());
    };
    let found = sparse().filter_map(|part| part.indices());
    let indices = libsvm::common_indices(widest.file(), found, options.zero_based, options.features)?;
    parts.iter_mut().filter(|part| part.is_sparse()).for_each(|part| part.widen(indices));
    Ok(())
}

/// The common columns of all parts; an error if they differ.
fn agree(parts: &mut [Box<dyn Part>]) -> Result<Vec<Field>> {
    let Some(first) = parts.first() else { return Ok(Vec::new()) };
    let mut fields = first.fields().to_vec();
    for part in parts.iter() {
        check_same_names(&**first, &**part)?;
    }
    for (column, field) in fields.iter_mut().enumerate() {
        // The first file that knows the kind of the column decides for files in which all its first values are missing.
        let decisive = parts.iter().position(|part| !part.is_undecided(column));
        let Some(decisive) = decisive else { continue };
        let wanted = parts[decisive].fields()[column].clone();
        for part in parts.iter_mut().filter(|part| part.is_undecided(column)) {
            part.decide(column, wanted.kind);
        }
        let mut data_type = wanted.data_type.clone();
        for part in parts.iter() {
            let other = &part.fields()[column];
            if other.kind != wanted.kind {
                return Err(ErrorKind::SchemaMismatch {
                    first: parts[decisive].file().to_path_buf(),
                    second: part.file().to_path_buf(),
                    what: format!(
                        "column '{}' holds {} in the first and {} in the second",
                        field.name,
                        in_words(wanted.kind),
                        in_words(other.kind)
                    ),
                }
                .into());
            }
            if other.data_type != data_type && other.data_type != DataType::Null {
                data_type = match wanted.kind {
                    Kind::Number => DataType::Float64,
                    Kind::Text => DataType::Utf8,
                    Kind::Boolean | Kind::Time | Kind::Unsupported => data_type,
                };
            }
        }
        *field = Field { data_type, ..wanted };
    }
    Ok(fields)
}

fn check_same_names(first: &dyn Part, second: &dyn Part) -> Result<()> {
    let (a, b) = (first.fields(), second.fields());
    let differ = |what| -> Result<()> {
        let (first, second) = (first.file().to_path_buf(), second.file().to_path_buf());
        Err(ErrorKind::SchemaMismatch { first, second, what }.into())
    };
    if a.len() > b.len()
        && let Some(field) = first_lacking(a, b)
    {
        return differ(format!("the second has no column '{}'", field.name));
    }
    if a.len() < b.len()
        && let Some(field) = first_lacking(b, a)
    {
        return differ(format!("the first has no column '{}'", field.name));
    }
    match a.iter().zip(b).position(|(a, b)| a.name != b.name) {
        None => Ok(()),
        Some(at) => differ(format!(
            "column {} is '{}' in the first and '{}' in the second",
            at + 1,
            a[at].name,
            b[at].name
        )),
    }
}

/// The first column that is not among the others.
fn first_lacking<'a>(fields: &'a [Field], others: &[Field]) -> Option<&'a Field> {
    let names: HashSet<&str, RandomState> = others.iter().map(|field| field.name.as_str()).collect();
    fields.iter().find(|field| !names.contains(field.name.as_str()))
}

pub(super) fn in_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "numbers",
        Kind::Boolean => "true or false",
        Kind::Text => "text",
        Kind::Time => "dates",
        Kind::Unsupported => "something that cannot be used",
    }
}

impl Source for Files {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        self.rows
    }

    fn is_sparse(&self) -> bool {
        self.parts.iter().all(|part| part.is_sparse())
    }

    fn files(&self) -> Vec<PathBuf> {
        self.parts.iter().map(|part| part.file().to_path_buf()).collect()
    }

    fn looks_numeric(&self, column: usize) -> Option<String> {
        self.parts.iter().find_map(|part| part.looks_numeric(column)).map(str::to_string)
    }

    fn looks_like_dates(&self, column: usize) -> Option<bool> {
        let has_time: Option<Vec<bool>> =
            self.parts.iter().map(|part| part.looks_like_dates(column)).collect();
        has_time.map(|parts| parts.contains(&true))
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        Ok(Box::new(FilesScan {
            parts: self.parts.clone(),
            columns: columns.to_vec(),
            next: 0,
            next_row: self.rows.map(|_| 0),
            current: None,
        }))
    }
}

/// Scans one file after the other.
struct FilesScan {
    parts: Arc<Vec<Box<dyn Part>>>,
    columns: Vec<usize>,
    next: usize,
    /// Position of the next file's first row, if the number of rows is known for all files.
    next_row: Option<u64>,
    current: Option<Box<dyn Scan>>,
}

impl Scan for FilesScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(unit) = current.next_unit()? {
                    return Ok(Some(unit));
                }
                self.current = None;
            }
            let Some(part) = self.parts.get(self.next) else { return Ok(None) };
            self.current = Some(part.scan(&self.columns, self.next_row)?);
            self.next += 1;
            self.next_row = self.next_row.zip(part.rows()).map(|(row, rows)| row.saturating_add(rows));
        }
    }
}
