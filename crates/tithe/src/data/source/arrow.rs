//! Arrow IPC files, whose batches are decoded in parallel, and Arrow IPC streams.

use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, StreamReader, read_footer_length};
use arrow_ipc::{Block, Message, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};

use super::batch::{Projection, fields_of, guarded, make_text};
use super::input::{Handle, Input};
use super::part::{Part, check_columns, check_names};
use super::{Scan, Unit};
use crate::base::error::Result;
use crate::base::machine::physical_memory;
use crate::data::block::{Field, Kind, Segment};

type Decoded<T> = std::result::Result<T, ArrowError>;

/// How the batches of an IPC input are found.
enum Layout {
    /// By the footer of a file, which lists their positions.
    File,
    /// One after the other.
    Stream,
}

/// An Arrow IPC file or stream.
pub(super) struct ArrowFile {
    input: Arc<Input>,
    layout: Layout,
    fields: Vec<Field>,
    rows: Option<u64>,
}

impl ArrowFile {
    /// Reads the schema and the lengths of the batches.
    pub fn open_file(input: Arc<Input>) -> Result<ArrowFile> {
        let handle = input.open()?;
        let (schema, rows) = guarded(input.path(), "Arrow", || {
            let contents = Contents::read(&handle, None)?;
            Ok::<_, ArrowError>((
                contents.schema,
                contents.batches.iter().fold(0, |sum: u64, (_, rows)| sum.saturating_add(*rows)),
            ))
        })?;
        ArrowFile::new(input, Layout::File, &schema, Some(rows))
    }

    /// Reads the schema.
    pub fn open_stream(input: Arc<Input>) -> Result<ArrowFile> {
        let handle = input.open()?;
        let reader =
            guarded(input.path(), "an Arrow stream", || open_stream(Box::new(handle.reader(0)), None))?;
        ArrowFile::new(input, Layout::Stream, &reader.schema(), None)
    }

    fn new(input: Arc<Input>, layout: Layout, schema: &Schema, rows: Option<u64>) -> Result<ArrowFile> {
        let fields = fields_of(schema);
        let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        check_names(input.path(), &names, None)?;
        Ok(ArrowFile { input, layout, fields, rows })
    }
}

impl Part for ArrowFile {
    fn file(&self) -> &Path {
        self.input.path()
    }

    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        self.rows
    }

    fn is_undecided(&self, column: usize) -> bool {
        self.fields[column].data_type == DataType::Null
    }

    fn decide(&mut self, column: usize, kind: Kind) {
        self.fields[column].kind = kind;
    }

    fn read_as_text(&mut self, column: usize) -> Result<()> {
        make_text(&mut self.fields[column])
    }

    fn scan(&self, columns: &[usize], first_row: Option<u64>) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        let columns_in_use = Chosen::new(&self.fields, columns);
        let handle = self.input.open()?;
        let path = self.input.path();
        let input = self.input.clone();
        match self.layout {
            Layout::File => {
                let roots = columns_in_use.projection.roots.clone();
                let contents = guarded(path, "Arrow", || Contents::read(&handle, Some(roots)))?;
                Ok(Box::new(FileScan {
                    next: 0,
                    next_row: first_row,
                    plan: Arc::new(FilePlan { input, handle, contents, columns: columns_in_use }),
                }))
            }
            Layout::Stream => self.scan_once(columns, Box::new(handle.reader(0))),
        }
    }

    fn scan_once(&self, columns: &[usize], reader: Box<dyn Read + Send>) -> Result<Box<dyn Scan>> {
        check_columns(&self.fields, columns)?;
        let columns = Chosen::new(&self.fields, columns);
        let reader = guarded(self.input.path(), "an Arrow stream", || {
            open_stream(reader, Some(columns.projection.roots.clone()))
        })?;
        let input = self.input.clone();
        Ok(Box::new(StreamScan { input, reader, columns: Arc::new(columns) }))
    }
}

/// The contents of a file's footer.
struct Contents {
    schema: SchemaRef,
    decoder: FileDecoder,
    /// Position and number of rows of each batch.
    batches: Vec<(Block, u64)>,
}

impl Contents {
    fn read(handle: &Handle, projection: Option<Vec<usize>>) -> Decoded<Contents> {
        let broken = |what: &str| ArrowError::ParseError(what.to_string());
        let trailer_start = handle.len().checked_sub(10).ok_or_else(|| broken("it is too short"))?;
        let trailer = handle.bytes(trailer_start, 10)?;
        let trailer: [u8; 10] = trailer[..].try_into().map_err(|_| broken("it is too short"))?;
        let footer_len = read_footer_length(trailer)?;
        let footer_start = trailer_start
            .checked_sub(footer_len as u64)
            .ok_or_else(|| broken("the footer is longer than the file"))?;
        let footer = handle.bytes(footer_start, footer_len)?;
        let footer = root_as_footer(&footer).map_err(|error| broken(&error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| broken("it has no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(broken("its byte order differs from this machine's"));
        }
        let schema = Arc::new(try_fb_to_schema(schema)?);
        let mut decoder = FileDecoder::new(schema.clone(), footer.version());
        if let Some(projection) = projection {
            decoder = decoder.with_projection(projection);
        }
        for block in footer.dictionaries().iter().flatten() {
            decoder.read_dictionary(block, &read_block(handle, block)?)?;
        }
        let mut batches = Vec::new();
        for block in footer.recordBatches().iter().flatten() {
            batches.push((*block, batch_rows(handle, block)?));
        }
        Ok(Contents { schema, decoder, batches })
    }
}

fn part_of(handle: &Handle, block: &Block, len: i64) -> Decoded<bytes::Bytes> {
    match (u64::try_from(block.offset()), usize::try_from(len)) {
        (Ok(offset), Ok(len)) => Ok(handle.bytes(offset, len)?),
        _ => Err(ArrowError::ParseError("a batch lies outside the file".to_string())),
    }
}

fn read_block(handle: &Handle, block: &Block) -> Decoded<Buffer> {
    let len = i64::from(block.metaDataLength()).checked_add(block.bodyLength()).unwrap_or(-1);
    let bytes = part_of(handle, block, len)?;
    check_lengths(&bytes, usize::try_from(block.metaDataLength()).unwrap_or(0))?;
    Ok(Buffer::from(bytes))
}

/// Returns an error for compressed buffers that claim an impossible size: the decompressor would allocate it unchecked.
fn check_lengths(bytes: &[u8], head: usize) -> Decoded<()> {
    let message = message_in(bytes)?;
    let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else { return Ok(()) };
    if batch.compression().is_none() {
        return Ok(());
    }
    let most = i64::try_from(physical_memory().unwrap_or(u64::MAX)).unwrap_or(i64::MAX);
    for buffer in batch.buffers().iter().flatten().filter(|buffer| buffer.length() > 0) {
        let start = usize::try_from(buffer.offset()).ok().and_then(|offset| head.checked_add(offset));
        let claimed = start.and_then(|start| bytes.get(start..)).and_then(<[u8]>::first_chunk);
        if claimed.is_none_or(|length| i64::from_le_bytes(*length) > most) {
            return Err(ArrowError::ParseError(
                "a compressed buffer claims to be larger than memory".to_string(),
            ));
        }
    }
    Ok(())
}

/// The message at the start of a block. It is preceded by its length, and in the current format by a marker before that.
fn message_in(block: &[u8]) -> Decoded<Message<'_>> {
    let broken = |what: String| ArrowError::ParseError(what);
    let message = match block {
        [0xff, 0xff, 0xff, 0xff, _, _, _, _, message @ ..] => message,
        [_, _, _, _, message @ ..] => message,
        _ => return Err(broken("a batch has no header".to_string())),
    };
    root_as_message(message).map_err(|error| broken(error.to_string()))
}

/// The number of rows of a batch, without reading the batch.
fn batch_rows(handle: &Handle, block: &Block) -> Decoded<u64> {
    let broken = |what: String| ArrowError::ParseError(what);
    let head = part_of(handle, block, i64::from(block.metaDataLength()))?;
    let message = message_in(&head)?;
    let batch = message.header_as_record_batch().ok_or_else(|| broken("a batch is missing".to_string()))?;
    u64::try_from(batch.length()).map_err(|error| broken(error.to_string()))
}

struct FilePlan {
    input: Arc<Input>,
    handle: Handle,
    contents: Contents,
    columns: Chosen,
}

/// The requested columns. All columns of a batch share one allocation: if only some of them are requested, they are
/// copied, so that a block kept in memory does not keep the other columns as well.
struct Chosen {
    projection: Projection,
    among_others: bool,
}

impl Chosen {
    fn new(fields: &[Field], columns: &[usize]) -> Chosen {
        let projection = Projection::new(fields, columns);
        Chosen { among_others: projection.roots.len() < fields.len(), projection }
    }

    fn segment(&self, batch: &RecordBatch) -> Decoded<Segment> {
        let segment = self.projection.segment(batch)?;
        Ok(if self.among_others { segment.detached() } else { segment })
    }
}

struct FileScan {
    plan: Arc<FilePlan>,
    next: usize,
    next_row: Option<u64>,
}

impl Scan for FileScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let Some((_, rows)) = self.plan.contents.batches.get(self.next) else { return Ok(None) };
        let unit = FileUnit { plan: self.plan.clone(), batch: self.next, first_row: self.next_row };
        self.next += 1;
        self.next_row = self.next_row.and_then(|row| row.checked_add(*rows));
        Ok(Some(Box::new(unit)))
    }
}

struct FileUnit {
    plan: Arc<FilePlan>,
    batch: usize,
    first_row: Option<u64>,
}

impl Unit for FileUnit {
    fn first_row(&self) -> Option<u64> {
        self.first_row
    }

    fn file(&self) -> &Path {
        self.plan.input.path()
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        let plan = &*self.plan;
        let segment = guarded(plan.input.path(), "Arrow", || {
            let (block, rows) = &plan.contents.batches[self.batch];
            let bytes = read_block(&plan.handle, block)?;
            let batch = plan.contents.decoder.read_record_batch(block, &bytes)?;
            let batch = batch.ok_or_else(|| ArrowError::ParseError("a batch is missing".to_string()))?;
            match batch.num_rows() as u64 == *rows {
                true => plan.columns.segment(&batch),
                false => Err(ArrowError::ParseError("a batch has the wrong number of rows".to_string())),
            }
        })?;
        if segment.len > 0 { emit(segment) } else { Ok(()) }
    }
}

type Stream = StreamReader<BufReader<Box<dyn Read + Send>>>;

fn open_stream(reader: Box<dyn Read + Send>, projection: Option<Vec<usize>>) -> Decoded<Stream> {
    StreamReader::try_new(BufReader::with_capacity(1 << 16, reader), projection)
}

struct StreamScan {
    input: Arc<Input>,
    reader: Stream,
    columns: Arc<Chosen>,
}

impl Scan for StreamScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let reader = &mut self.reader;
        let batch = guarded(self.input.path(), "an Arrow stream", || reader.next().transpose())?;
        Ok(batch.map(|batch| -> Box<dyn Unit> {
            Box::new(StreamUnit { input: self.input.clone(), columns: self.columns.clone(), batch })
        }))
    }
}

struct StreamUnit {
    input: Arc<Input>,
    columns: Arc<Chosen>,
    batch: RecordBatch,
}

impl Unit for StreamUnit {
    fn first_row(&self) -> Option<u64> {
        None
    }

    fn file(&self) -> &Path {
        self.input.path()
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        let segment = guarded(self.input.path(), "an Arrow stream", || self.columns.segment(&self.batch))?;
        if segment.len > 0 { emit(segment) } else { Ok(()) }
    }
}
