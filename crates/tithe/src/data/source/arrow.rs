//! Arrow IPC files, whose batches are decoded in parallel, and Arrow IPC streams.

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_dictionary, read_footer_length, read_record_batch};
use arrow_ipc::{Block, CompressionType, Message, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};

use super::batch::{Projection, fields_of, guarded, make_text};
use super::input::{Handle, Input};
use super::part::{Part, check_columns, check_names};
use super::{Scan, Unit};
use crate::base::error::Result;
use crate::base::machine::memory_limit;
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
        let reader = guarded(input.path(), "an Arrow stream", || {
            StreamReader::open(Box::new(handle.reader(0)), None)
        })?;
        ArrowFile::new(input, Layout::Stream, &reader.schema, None)
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
            StreamReader::open(reader, Some(columns.projection.roots.clone()))
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
    let head = usize::try_from(block.metaDataLength()).unwrap_or(0);
    check_lengths(&message_in(&bytes)?, bytes.get(head..).unwrap_or_default())?;
    Ok(Buffer::from(bytes))
}

/// A compressed buffer cannot become larger than this many times its size: LZ4 stores the length of a copy in bytes of up to
/// 255, and a block of Zstandard takes at least 4 bytes for 128 KiB.
const LZ4_RATIO: u64 = 256;
const ZSTD_RATIO: u64 = 1 << 16;
/// Claims up to this many bytes are not compared with the memory limit.
const LITTLE: u64 = 64 << 20;

/// Returns an error for compressed buffers that claim an impossible size: the decompressor would allocate it unchecked.
/// `body` is what follows the message.
fn check_lengths(message: &Message<'_>, body: &[u8]) -> Decoded<()> {
    let dictionary = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let Some(batch) = message.header_as_record_batch().or(dictionary) else { return Ok(()) };
    let Some(compression) = batch.compression() else { return Ok(()) };
    let ratio = if compression.codec() == CompressionType::LZ4_FRAME { LZ4_RATIO } else { ZSTD_RATIO };
    let broken = |what: &str| ArrowError::ParseError(what.to_string());
    let mut total = 0u64;
    for buffer in batch.buffers().iter().flatten().filter(|buffer| buffer.length() > 0) {
        let start = usize::try_from(buffer.offset()).ok();
        let claimed = start.and_then(|start| body.get(start..)).and_then(<[u8]>::first_chunk);
        let claimed = claimed.ok_or_else(|| broken("a compressed buffer lies outside its batch"))?;
        // The claim -1 means that the buffer is not compressed.
        let claimed = u64::try_from(i64::from_le_bytes(*claimed)).unwrap_or(0);
        if claimed > (buffer.length() as u64).saturating_mul(ratio) {
            return Err(broken("a compressed buffer claims to be larger than it can be"));
        }
        total = total.saturating_add(claimed);
    }
    // The limit is looked up only for what could exceed it.
    if total > LITTLE && total > memory_limit().unwrap_or(u64::MAX) {
        return Err(broken("the compressed buffers of a batch claim to be larger than memory"));
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

/// The largest length that is allocated before any of the bytes have arrived.
const PREALLOCATED: usize = 1 << 20;
/// The largest head of a message: some bytes per column and per buffer.
const LONGEST_HEAD: usize = 256 << 20;

/// Reads the batches of an Arrow stream, one message after the other. All lengths that a message claims are checked
/// before memory is allocated for them.
struct StreamReader {
    reader: BufReader<Box<dyn Read + Send>>,
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    projection: Option<Vec<usize>>,
}

impl StreamReader {
    fn open(reader: Box<dyn Read + Send>, projection: Option<Vec<usize>>) -> Decoded<StreamReader> {
        let broken = |what: &str| ArrowError::ParseError(what.to_string());
        let mut reader = BufReader::with_capacity(1 << 16, reader);
        let head = read_head(&mut reader)?.ok_or_else(|| broken("it is empty"))?;
        let message = parse(&head)?;
        let schema = message.header_as_schema().ok_or_else(|| broken("it does not begin with a schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(broken("its byte order is another machine's"));
        }
        let schema = Arc::new(try_fb_to_schema(schema)?);
        read_body(&mut reader, message.bodyLength())?;
        Ok(StreamReader { reader, schema, dictionaries: HashMap::new(), projection })
    }

    /// The next batch, or `None` at the end of the stream.
    fn next(&mut self) -> Decoded<Option<RecordBatch>> {
        while let Some(head) = read_head(&mut self.reader)? {
            let message = parse(&head)?;
            let body = read_body(&mut self.reader, message.bodyLength())?;
            check_lengths(&message, &body)?;
            let (body, version) = (Buffer::from(body), message.version());
            if let Some(batch) = message.header_as_dictionary_batch() {
                read_dictionary(&body, batch, &self.schema, &mut self.dictionaries, &version)?;
            } else if let Some(batch) = message.header_as_record_batch() {
                let projection = self.projection.as_deref();
                let schema = self.schema.clone();
                return read_record_batch(&body, batch, schema, &self.dictionaries, projection, &version)
                    .map(Some);
            } else {
                let what = format!("a message is a {:?}, not a batch", message.header_type());
                return Err(ArrowError::ParseError(what));
            }
        }
        Ok(None)
    }
}

fn parse(head: &[u8]) -> Decoded<Message<'_>> {
    root_as_message(head).map_err(|error| ArrowError::ParseError(error.to_string()))
}

/// The head of the next message, which says what follows it; `None` at the end of the stream, which is a length of 0 or
/// the end of the bytes.
fn read_head(reader: &mut impl Read) -> Decoded<Option<Vec<u8>>> {
    let mut length = read_up_to(reader, 4)?;
    if length.is_empty() {
        return Ok(None);
    }
    // The current format has a marker before the length.
    if length == [0xff; 4] {
        length = read_exactly(reader, 4)?;
    }
    let length = length.first_chunk().map(|length| i32::from_le_bytes(*length));
    match length.and_then(|length| usize::try_from(length).ok()) {
        Some(0) => Ok(None),
        Some(length) if length <= LONGEST_HEAD => read_exactly(reader, length).map(Some),
        _ => Err(ArrowError::ParseError("the length of a message cannot be".to_string())),
    }
}

fn read_body(reader: &mut impl Read, length: i64) -> Decoded<Vec<u8>> {
    match usize::try_from(length) {
        Ok(length) => read_exactly(reader, length),
        Err(_) => Err(ArrowError::ParseError("a message has a negative length".to_string())),
    }
}

fn read_exactly(reader: &mut impl Read, length: usize) -> Decoded<Vec<u8>> {
    let bytes = read_up_to(reader, length)?;
    match bytes.len() == length {
        true => Ok(bytes),
        false => Err(ArrowError::ParseError("it ends within a message".to_string())),
    }
}

/// As many bytes as there are, up to `length`; memory grows with the bytes that arrive.
fn read_up_to(reader: &mut impl Read, length: usize) -> Decoded<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length.min(PREALLOCATED));
    reader.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

struct StreamScan {
    input: Arc<Input>,
    reader: StreamReader,
    columns: Arc<Chosen>,
}

impl Scan for StreamScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        let reader = &mut self.reader;
        let batch = guarded(self.input.path(), "an Arrow stream", || reader.next())?;
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
