//! Checks that labels have only two values before rows are added to a stream, as long as its encoding is not known.

use crate::base::error::{ErrorKind, Result};
use crate::data::block::{Block, Column, MISSING_CODE, row_name};

/// The values of the label so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    numbers: Vec<f64>,
    words: Vec<String>,
}

impl Classes {
    /// Adds the labels of a block, in column `label` with the name `name`.
    ///
    /// # Errors
    /// At the first row with a third value.
    pub fn add(&mut self, block: &Block, label: usize, name: &str) -> Result<()> {
        let Some(column) = block.columns.get(label) else { return Ok(()) };
        match self.third(column) {
            None => Ok(()),
            Some(row) => Err(ErrorKind::Column {
                column: name.to_string(),
                what: format!(
                    "{} has the label {}, a third class",
                    row_name(block.position(row)),
                    column.show(row)
                ),
                help: Some("a label has two classes: keep the rows of two of them".into()),
            }
            .into()),
        }
    }

    /// The first row with a third value.
    fn third(&mut self, column: &Column) -> Option<usize> {
        match column {
            Column::Number(values) => values.iter().position(|value| {
                if !value.is_nan() && !self.numbers.contains(value) {
                    self.numbers.push(*value);
                }
                self.numbers.len() > 2
            }),
            Column::Text { codes, levels } => {
                let mut met = vec![false; levels.len()];
                codes.iter().position(|code| {
                    let is_new = *code != MISSING_CODE && !std::mem::replace(&mut met[*code as usize], true);
                    if is_new && !self.words.contains(&levels[*code as usize]) {
                        self.words.push(levels[*code as usize].clone());
                    }
                    self.words.len() > 2
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::block::{MISSING, TextBuilder};

    #[test]
    fn a_third_class_is_found_wherever_it_is() {
        let numbers = |values: &[f64]| Column::Number(values.to_vec().into());
        let words = |levels: &[Option<&str>]| {
            let mut text = TextBuilder::default();
            levels.iter().for_each(|level| text.push(*level));
            text.finish()
        };
        let mut classes = Classes::default();
        assert_eq!(classes.third(&numbers(&[0.0, 1.0, MISSING, -0.0])), None);
        assert_eq!(classes.third(&numbers(&[1.0, 7.0])), Some(1));
        let mut classes = Classes::default();
        assert_eq!(classes.third(&words(&[Some("a"), None])), None);
        assert_eq!(classes.third(&words(&[Some("b"), Some("a")])), None);
        assert_eq!(classes.third(&words(&[Some("b"), None, Some("c")])), Some(2));
    }
}
