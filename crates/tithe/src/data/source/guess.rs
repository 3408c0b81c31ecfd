//! What a column of a format without types holds, by its first values.

use crate::data::block::Kind;

/// How many values of a column looked like what so far; missing ones look like nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Guess {
    numbers: usize,
    truths: usize,
    words: usize,
}

impl Guess {
    pub fn number(&mut self) {
        self.numbers += 1;
    }

    pub fn truth(&mut self) {
        self.truths += 1;
    }

    pub fn word(&mut self) {
        self.words += 1;
    }

    /// True if no value said anything.
    pub fn is_undecided(&self) -> bool {
        *self == Guess::default()
    }

    /// A few words or truths among numbers, wherever they stand, are mistakes, which reading the column will tell, and not a column of
    /// text.
    pub fn kind(self) -> Kind {
        let Guess { numbers, truths, words } = self;
        match (words, truths) {
            (0, 0) => Kind::Number,
            (0, _) if numbers == 0 => Kind::Boolean,
            _ if words + truths < numbers => Kind::Number,
            _ => Kind::Text,
        }
    }
}
