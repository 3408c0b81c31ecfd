//! Labels are looked at before rows are taken in: as long as the encoding is not known, nothing else says that there are two.

use crate::block::{Block, Column, MISSING_CODE, Segment, row_name};
use crate::error::{ErrorKind, Result};
use crate::table::Table;

/// Refuses a block in which there is a third class, beside those of rows that are in already.
pub(super) fn check_classes(table: &Table, earlier: &[Segment], block: &Block) -> Result<()> {
    let label = table.features().len();
    let columns = earlier.iter().map(|rows| &rows.columns[label]).chain([&block.columns[label]]);
    match third_class(columns) {
        None => Ok(()),
        Some((value, row)) => Err(ErrorKind::Column {
            column: table.label().name.clone(),
            what: format!("{} has the label {value}, a third class", row_name(block.position(row))),
            help: Some("a label has two classes: keep the rows of two of them".to_string()),
        }
        .into()),
    }
}

/// A value beyond two in some columns of labels, and its row in the last of them.
fn third_class<'a>(columns: impl Iterator<Item = &'a Column>) -> Option<(String, usize)> {
    let mut classes: Vec<String> = Vec::new();
    for column in columns {
        // Each value once: they are few, or else there is soon a third.
        let mut numbers: Vec<f64> = Vec::new();
        let mut codes_met: Vec<u32> = Vec::new();
        for row in 0..column.len() {
            let is_new = match column {
                Column::Number(values) => {
                    let is_new = !values[row].is_nan() && !numbers.contains(&values[row]);
                    numbers.extend(is_new.then_some(values[row]));
                    is_new
                }
                Column::Text { codes, .. } => {
                    let is_new = codes[row] != MISSING_CODE && !codes_met.contains(&codes[row]);
                    codes_met.extend(is_new.then_some(codes[row]));
                    is_new
                }
            };
            if is_new && !classes.contains(&column.show(row)) {
                classes.push(column.show(row));
                if classes.len() > 2 {
                    return classes.pop().map(|value| (value, row));
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{MISSING, TextBuilder};

    #[test]
    fn a_third_class_is_found_wherever_it_is() {
        let numbers = |values: &[f64]| Column::Number(values.to_vec().into());
        let words = |levels: &[Option<&str>]| {
            let mut text = TextBuilder::default();
            levels.iter().for_each(|level| text.push(*level));
            text.finish()
        };
        let third = |columns: &[Column]| third_class(columns.iter());
        assert_eq!(third(&[numbers(&[0.0, 1.0, MISSING, 0.0]), numbers(&[1.0, 0.0])]), None);
        assert_eq!(third(&[numbers(&[0.0, 1.0]), numbers(&[1.0, 7.0])]), Some(("7".to_string(), 1)));
        assert_eq!(third(&[words(&[Some("a"), None]), words(&[Some("b"), Some("a")])]), None);
        let three = [words(&[Some("a"), Some("b")]), words(&[Some("b"), None, Some("c")])];
        assert_eq!(third(&three), Some(("'c'".to_string(), 2)));
    }
}
