//! The local engine gives the same blocks wherever units end, and reports the first failure in the data.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tithe::base::error::{ErrorKind, Result};
use tithe::base::progress::Silent;
use tithe::data::block::{Block, Column, Field, Kind, Segment};
use tithe::data::source::{Scan, Source, Unit};
use tithe::data::table::{Roles, Table};
use tithe::engine::pass::Pass;
use tithe::engine::{Engine, EngineSettings, LocalEngine, Missing};

/// Rows 0, 1, 2, … in units of given sizes, each delivered in pieces of at most `piece` rows.
#[derive(Clone, Debug)]
struct Cut {
    fields: Vec<Field>,
    units: Vec<usize>,
    piece: usize,
    /// True if units know their position.
    placed: bool,
    /// Units that fail at their second row.
    failing: Vec<usize>,
    /// The unit at which the scan itself fails.
    scan_fails: Option<usize>,
    /// One row in so many has a missing value.
    hole: usize,
    /// Number of rows missing at the end of later scans.
    shrinks: usize,
    /// Number of rows that the source has beyond those it announces.
    unannounced: usize,
    /// Rows decoded so far.
    decoded: Arc<AtomicUsize>,
    scans: Arc<AtomicUsize>,
}

impl Cut {
    fn new(units: Vec<usize>, piece: usize, placed: bool) -> Cut {
        let field = |name: &str| Field {
            name: name.to_string(),
            kind: Kind::Number,
            data_type: arrow_schema::DataType::Float64,
        };
        let fields = vec![field("x"), field("y")];
        Cut {
            fields,
            units,
            piece,
            placed,
            failing: Vec::new(),
            scan_fails: None,
            hole: usize::MAX,
            shrinks: 0,
            unannounced: 0,
            decoded: Arc::default(),
            scans: Arc::default(),
        }
    }
}

impl Source for Cut {
    fn fields(&self) -> &[Field] {
        &self.fields
    }

    fn rows(&self) -> Option<u64> {
        self.placed.then(|| (self.units.iter().sum::<usize>() - self.unannounced) as u64)
    }

    fn scan(&self, columns: &[usize]) -> Result<Box<dyn Scan>> {
        assert_eq!(columns, [0, 1]);
        let mut cut = self.clone();
        if self.scans.fetch_add(1, Ordering::Relaxed) > 0
            && let Some(last) = cut.units.last_mut()
        {
            *last -= self.shrinks;
        }
        Ok(Box::new(CutScan { cut, next: 0 }))
    }
}

struct CutScan {
    cut: Cut,
    next: usize,
}

impl Scan for CutScan {
    fn next_unit(&mut self) -> Result<Option<Box<dyn Unit>>> {
        if self.cut.scan_fails == Some(self.next) {
            return Err(failure(0));
        }
        let Some(&rows) = self.cut.units.get(self.next) else { return Ok(None) };
        let first = self.cut.units[..self.next].iter().sum();
        self.next += 1;
        let fails = self.cut.failing.contains(&(self.next - 1));
        Ok(Some(Box::new(CutUnit { cut: self.cut.clone(), first, rows, fails })))
    }
}

struct CutUnit {
    cut: Cut,
    first: usize,
    rows: usize,
    fails: bool,
}

fn failure(row: u64) -> tithe::base::error::Error {
    let (column, what, help) = (None, "broken".to_string(), None);
    ErrorKind::Cell { path: "data".into(), row, column, what, help }.into()
}

impl Unit for CutUnit {
    fn first_row(&self) -> Option<u64> {
        self.cut.placed.then_some(self.first as u64)
    }

    fn file(&self) -> &Path {
        Path::new("data")
    }

    fn decode(self: Box<Self>, emit: &mut dyn FnMut(Segment) -> Result<()>) -> Result<()> {
        if self.fails {
            // The row is counted from the start of the unit.
            return Err(failure(1));
        }
        for start in (0..self.rows).step_by(self.cut.piece) {
            let rows = start..self.rows.min(start + self.cut.piece);
            let len = rows.len();
            self.cut.decoded.fetch_add(len, Ordering::Relaxed);
            let value =
                |row: usize| if (row + 1).is_multiple_of(self.cut.hole) { f64::NAN } else { row as f64 };
            let x: Vec<f64> = rows.map(|row| value(self.first + row)).collect();
            let y = vec![1.0; len];
            emit(Segment { columns: vec![Column::Number(x.into()), Column::Number(y.into())], len })?;
        }
        Ok(())
    }
}

/// Records every block.
#[derive(serde::Serialize)]
struct Protocol;

type Seen = Vec<(u64, Vec<(u64, f64)>)>;

impl Pass for Protocol {
    const ID: &'static str = "test-protocol";
    const LABEL: &'static str = "recording the blocks";
    type State = Seen;
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, _worker: &mut (), block: &Block) -> Result<Seen> {
        let Column::Number(x) = &block.columns[0] else { panic!("numbers") };
        assert_eq!(block.len, x.len());
        Ok(vec![(block.index, x.iter().enumerate().map(|(row, x)| (block.position(row), *x)).collect())])
    }

    fn merge(&self, state: &mut Seen, next: Seen) {
        state.extend(next);
    }
}

/// Fails at some blocks.
#[derive(serde::Serialize)]
struct Failing(Vec<u64>);

impl Pass for Failing {
    const ID: &'static str = "test-failing";
    const LABEL: &'static str = "failing";
    type State = ();
    type Worker = ();

    fn worker(&self) {}

    fn visit(&self, _worker: &mut (), block: &Block) -> Result<()> {
        match self.0.contains(&block.index) {
            true => Err(ErrorKind::Changed { what: format!("block {}", block.index) }.into()),
            false => Ok(()),
        }
    }

    fn merge(&self, _state: &mut (), _next: ()) {}
}

fn engine(cut: &Cut, threads: usize, memory: u64, block_rows: usize) -> LocalEngine<'static> {
    let roles = Roles { label: "y".into(), ..Roles::default() };
    let table = Table::new(Box::new(cut.clone()), &roles).expect("a table");
    let settings = EngineSettings {
        threads: Some(threads),
        memory,
        missing: Missing::Drop,
        block_rows: Some(block_rows),
    };
    LocalEngine::new(table, &settings, &Silent).expect("an engine")
}

/// Two numbers.
const ROW_BYTES: usize = 16;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn blocks_do_not_depend_on_how_rows_arrive(
        units in prop::collection::vec(0usize..40, 0..12),
        piece in 1usize..20,
        placed: bool,
        threads in 1usize..5,
        memory in prop_oneof![Just(0u64), 1u64..8_000, Just(1 << 20)],
        block_rows in 1usize..50,
        hole in prop_oneof![Just(usize::MAX), 2usize..5],
    ) {
        let rows: usize = units.iter().sum();
        let expected: Seen = (0..rows)
            .step_by(block_rows)
            .enumerate()
            .map(|(index, start)| {
                let end = rows.min(start + block_rows);
                let usable = (start..end).filter(|row| !(row + 1).is_multiple_of(hole));
                (index as u64, usable.map(|row| (row as u64, row as f64)).collect())
            })
            .collect();
        let cut = Cut { hole, ..Cut::new(units.clone(), piece, placed) };
        let engine = engine(&cut, threads, memory, block_rows);
        // Every row is decoded once; then the blocks that fit come from memory, and units with a row outside them are decoded
        // again.
        let kept = (memory as usize / ROW_BYTES / block_rows * block_rows).min(rows);
        let kept = if rows * ROW_BYTES <= memory as usize { rows } else { kept };
        let ends = units.iter().scan(0, |end, unit| { *end += unit; Some(*end) });
        let skipped = ends.take_while(|end| *end <= kept).last().unwrap_or(0);
        for (pass, decoded) in [(1, rows), (2, rows - skipped), (3, rows - skipped)] {
            let before = cut.decoded.load(Ordering::Relaxed);
            let seen = engine.run(&Protocol).expect("no failure").unwrap_or_default();
            prop_assert_eq!(&seen, &expected);
            prop_assert_eq!(engine.passes(), pass);
            if hole == usize::MAX {
                prop_assert_eq!(cut.decoded.load(Ordering::Relaxed) - before, decoded);
            }
        }
    }

    #[test]
    fn the_first_block_that_fails_is_reported(
        units in prop::collection::vec(10usize..40, 2..12),
        placed: bool,
        threads in 1usize..5,
        memory in prop_oneof![Just(0u64), 1u64..8_000, Just(1 << 20)],
        failing: prop::sample::Index,
    ) {
        let blocks = units.iter().sum::<usize>().div_ceil(16);
        let failing = failing.index(blocks) as u64;
        let engine = engine(&Cut::new(units, 7, placed), threads, memory, 16);
        let expected = format!("the data changed between two passes: block {failing}");
        // The first pass fails and keeps nothing; then a pass with some blocks in memory fails.
        prop_assert_eq!(engine.run(&Failing(vec![failing])).expect_err("a failure").to_string(), &expected[..]);
        let seen = engine.run(&Protocol).expect("no failure").expect("blocks");
        prop_assert_eq!(seen.len(), blocks);
        prop_assert_eq!(engine.run(&Failing(vec![failing])).expect_err("a failure").to_string(), &expected[..]);
        let kept = memory as usize / ROW_BYTES / 16;
        if (failing as usize) < kept && kept < blocks {
            let both = Failing(vec![failing, blocks as u64 - 1]);
            prop_assert_eq!(engine.run(&both).expect_err("a failure").to_string(), &expected[..]);
        }
    }

    #[test]
    fn data_that_shrinks_between_two_passes_is_noticed(
        units in prop::collection::vec(10usize..40, 1..12),
        placed: bool,
        threads in 1usize..5,
        share in 0.0f64..0.9,
    ) {
        let rows = units.iter().sum::<usize>();
        let cut = Cut { shrinks: 3, ..Cut::new(units, 7, placed) };
        let engine = engine(&cut, threads, ((rows * ROW_BYTES) as f64 * share) as u64, 16);
        engine.run(&Protocol).expect("no failure");
        let error = engine.run(&Protocol).expect_err("a change").to_string();
        let expected = format!("the data changed between two passes: it had {rows} rows, and then {}", rows - 3);
        prop_assert_eq!(error, expected);
    }

    #[test]
    fn more_rows_than_announced_are_rejected(
        units in prop::collection::vec(10usize..40, 1..12),
        unannounced in 1usize..10,
        threads in 1usize..5,
        memory in prop_oneof![Just(0), Just(u64::MAX)],
    ) {
        let rows = units.iter().sum::<usize>();
        let cut = Cut { unannounced, ..Cut::new(units, 7, true) };
        let error = engine(&cut, threads, memory, 16).run(&Protocol).expect_err("too many rows").to_string();
        prop_assert!(error.ends_with(&format!("the source announced {} rows, but had {rows}", rows - unannounced)), "{error}");
    }

    #[test]
    fn the_first_failure_in_the_data_is_reported(
        units in prop::collection::vec(2usize..40, 1..12),
        failing in prop::collection::vec(0usize..12, 1..4),
        placed: bool,
        threads in 1usize..5,
    ) {
        let failing: Vec<usize> = failing.iter().map(|unit| unit % units.len()).collect();
        let first = *failing.iter().min().expect("one");
        let row = units[..first].iter().sum::<usize>() + 2;
        let cut = Cut { failing, ..Cut::new(units, 7, placed) };
        let error = engine(&cut, threads, 0, 16).run(&Protocol).expect_err("a failure");
        prop_assert_eq!(error.to_string(), format!("'data', row {row}: broken"));
    }

    #[test]
    fn a_unit_that_fails_ahead_of_the_scan_comes_first(
        units in prop::collection::vec(2usize..40, 2..12),
        threads in 1usize..5,
    ) {
        let row = units[0] + 2;
        let cut = Cut { failing: vec![1], scan_fails: Some(units.len()), ..Cut::new(units, 7, true) };
        let error = engine(&cut, threads, 0, 16).run(&Protocol).expect_err("a failure");
        prop_assert_eq!(error.to_string(), format!("'data', row {row}: broken"));
    }
}

#[test]
fn a_file_that_is_replaced_between_two_passes_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data.csv");
    std::fs::write(&path, "x,y\n1,0\n2,1\n").expect("a file");
    let name = path.display().to_string();
    for memory in [0, 1 << 20] {
        let source =
            tithe::data::source::open(std::slice::from_ref(&name), &Default::default()).expect("a source");
        let table = Table::new(source, &Roles { label: "y".into(), ..Roles::default() }).expect("a table");
        let settings = EngineSettings { memory, ..EngineSettings::default() };
        let engine = LocalEngine::new(table, &settings, &Silent).expect("an engine");
        engine.run(&Protocol).expect("no failure");
        std::fs::write(folder.path().join("new"), "x,y\n1,0\n3,1\n").expect("a file");
        std::fs::rename(folder.path().join("new"), &path).expect("renamed");
        match (memory, engine.run(&Protocol)) {
            (0, Err(error)) => {
                let what =
                    format!("the data changed between two passes: '{name}' was written to or replaced");
                assert_eq!(error.to_string(), what);
            }
            // Rows in memory do not change.
            (1.., Ok(_)) => {}
            (_, outcome) => panic!("{memory}: {outcome:?}"),
        }
    }
}

#[test]
fn no_blocks_give_no_state() {
    let engine = engine(&Cut::new(Vec::new(), 1, true), 2, 0, 8);
    assert!(engine.run(&Protocol).expect("no failure").is_none());
}
