//! Assembles blocks of a fixed number of rows from the segments of units, whose boundaries are anywhere.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::data::block::Segment;

/// A decoded unit.
pub(super) struct UnitDone {
    pub file: PathBuf,
    pub rows: u64,
    /// Its rows, as long as their position in the input is unknown.
    pub waiting: Vec<Segment>,
}

/// Assembles decoded segments into blocks of a fixed number of rows.
pub(super) struct Assembly {
    block_rows: u64,
    /// The number of rows of the input, if known: then the last block is complete as soon as it has its rows.
    rows: Option<u64>,
    /// Earlier blocks are cached and are not assembled.
    first_block: u64,
    units: Vec<Option<UnitDone>>,
    units_placed: usize,
    rows_placed: u64,
    partial: BTreeMap<u64, PartialBlock>,
}

#[derive(Default)]
struct PartialBlock {
    rows: u64,
    parts: BTreeMap<u64, Segment>,
}

pub(super) type CompleteBlock = (u64, Vec<Segment>);

impl Assembly {
    pub fn new(block_rows: usize, rows: Option<u64>, first_block: usize) -> Assembly {
        Assembly {
            block_rows: block_rows as u64,
            rows,
            first_block: first_block as u64,
            units: Vec::new(),
            units_placed: 0,
            rows_placed: 0,
            partial: BTreeMap::new(),
        }
    }

    /// Adds rows at a known position, and returns the blocks that they complete.
    pub fn place(&mut self, first_row: u64, segment: Segment) -> Vec<CompleteBlock> {
        let mut complete = Vec::new();
        let (mut start, len) = (0, segment.len as u64);
        while start < len {
            let row = first_row + start;
            let index = row / self.block_rows;
            let taken = ((index + 1) * self.block_rows - row).min(len - start);
            start += taken;
            if index < self.first_block {
                continue;
            }
            let part = segment.slice((start - taken) as usize..start as usize);
            let block = self.partial.entry(index).or_default();
            block.rows += taken;
            block.parts.insert(row, part);
            let first = index * self.block_rows;
            if (block.rows == self.block_rows || self.rows == Some(first + block.rows))
                && let Some(block) = self.partial.remove(&index)
            {
                complete.push((index, block.parts.into_values().collect()));
            }
        }
        complete
    }

    /// Records a decoded unit, and adds the waiting rows of all units whose position is now known.
    pub fn unit_done(&mut self, ticket: usize, unit: UnitDone) -> Vec<CompleteBlock> {
        if self.units.len() <= ticket {
            self.units.resize_with(ticket + 1, || None);
        }
        self.units[ticket] = Some(unit);
        let mut complete = Vec::new();
        while let Some(Some(unit)) = self.units.get_mut(self.units_placed) {
            let mut row = self.rows_placed;
            self.rows_placed += unit.rows;
            self.units_placed += 1;
            for segment in std::mem::take(&mut unit.waiting) {
                let len = segment.len as u64;
                complete.extend(self.place(row, segment));
                row += len;
            }
        }
        complete
    }

    /// The incomplete block at the end of the input, with the number of the next unit.
    pub fn last_block(&mut self) -> (usize, Option<CompleteBlock>) {
        let last = self.partial.pop_last();
        (self.units.len(), last.map(|(index, block)| (index, block.parts.into_values().collect())))
    }

    /// The number of rows in units whose position is known.
    pub fn rows_placed(&self) -> u64 {
        self.rows_placed
    }

    /// The number of rows of each unit, in order.
    pub fn unit_rows(&self) -> impl Iterator<Item = u64> {
        self.units.iter().map_while(|unit| unit.as_ref().map(|unit| unit.rows))
    }

    /// The files in order, each with its number of rows.
    pub fn rows_by_file(&self) -> Vec<(PathBuf, u64)> {
        let mut files: Vec<(PathBuf, u64)> = Vec::new();
        for unit in self.units.iter().flatten() {
            match files.last_mut() {
                Some((file, rows)) if *file == unit.file => *rows += unit.rows,
                _ => files.push((unit.file.clone(), unit.rows)),
            }
        }
        files
    }

    /// The number of rows in units before `ticket` that come from the same file.
    pub fn rows_before_in_file(&self, ticket: usize) -> u64 {
        let Some(Some(failed)) = self.units.get(ticket) else { return 0 };
        self.units[..ticket]
            .iter()
            .flatten()
            .filter(|unit| unit.file == failed.file)
            .map(|unit| unit.rows)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::Column;

    #[test]
    fn the_last_block_is_complete_if_the_number_of_rows_is_known() {
        let segment = |rows: std::ops::Range<u64>| {
            let len = (rows.end - rows.start) as usize;
            let values: Vec<f64> = rows.map(|row| row as f64).collect();
            Segment { columns: vec![Column::Number(values.into())], len }
        };
        for (rows, complete, left) in [(Some(25), vec![2, 0, 1], None), (None, vec![0, 1], Some(2))] {
            let mut assembly = Assembly::new(10, rows, 0);
            let parts = [22..25, 13..22, 0..7, 7..13];
            let placed = parts.into_iter().flat_map(|part| assembly.place(part.start, segment(part)));
            assert_eq!(placed.map(|(index, _)| index).collect::<Vec<_>>(), complete);
            assert_eq!(assembly.last_block().1.map(|(index, _)| index), left);
        }
    }
}
