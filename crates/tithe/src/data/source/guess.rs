//! Guesses the kind of a column from its first values, for formats without types.

use crate::data::block::Kind;

/// Counts of the values of a column by apparent type; missing values are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Guess {
    numbers: usize,
    truths: usize,
    words: usize,
    /// Those of the words that are numbers with a percent sign, a currency or separated thousands.
    formatted: usize,
    /// Those of the words that are dates.
    dates: usize,
    /// Those of the dates that have a time of day.
    times: usize,
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

    /// Adds text that is neither a number nor a truth value.
    pub fn text(&mut self, text: &[u8]) {
        self.word();
        // Text that does not begin and end like a date need not be examined further.
        if text.len() < 8 || !text.iter().any(u8::is_ascii_digit) {
            return;
        }
        if let Some((_, has_time)) = std::str::from_utf8(text).ok().and_then(super::dates::parse) {
            self.dates += 1;
            self.times += usize::from(has_time);
        }
    }

    /// If it is a column of text whose values are all dates: whether they have times of day.
    pub fn looks_like_dates(self) -> Option<bool> {
        let are_dates = self.dates > 0 && self.dates == self.words && self.numbers + self.truths == 0;
        are_dates.then_some(self.times > 0)
    }

    pub fn formatted(&mut self) {
        self.words += 1;
        self.formatted += 1;
    }

    /// True if it is a column of text whose values are all numbers written for readers.
    pub fn looks_numeric(self) -> bool {
        self.kind() == Kind::Text && self.formatted == self.words && self.truths == 0
    }

    /// True if all values are missing.
    pub fn is_undecided(&self) -> bool {
        *self == Guess::default()
    }

    /// The kind that most values suggest. A few words or booleans among numbers are errors in the data, which are reported
    /// when the column is read; they do not make it a text column.
    pub fn kind(self) -> Kind {
        let Guess { numbers, truths, words, .. } = self;
        match (words, truths) {
            (0, 0) => Kind::Number,
            (0, _) if numbers == 0 => Kind::Boolean,
            _ if words + truths < numbers => Kind::Number,
            _ => Kind::Text,
        }
    }
}
