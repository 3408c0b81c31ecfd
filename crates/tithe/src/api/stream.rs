//! A stream that reads files: data is added as it arrives, and a coreset of all rows so far is available at any time.

use super::Data;
use crate::base::error::Result;
use crate::base::progress::Silent;
use crate::data::block::Kind;
use crate::stream::Stream;
use crate::stream::feed::{Fed, feed};

impl Stream {
    /// Adds all rows of a table. The first table defines the columns; later ones must have them too. How rows with missing
    /// values are treated is a setting of the stream, not of the table.
    ///
    /// # Errors
    /// If the files cannot be read, their columns differ from those of the stream, or a row cannot be used. The rows before
    /// that row are added.
    pub fn add(&mut self, data: &Data) -> Result<()> {
        // A text column may look like numbers in one of many files.
        let text = self.fields().unwrap_or_default().into_iter().filter(|field| field.kind == Kind::Text);
        let source = data.source(text.map(|field| field.name).collect())?;
        if source.rows() == Some(0) {
            // Without rows, the types of its columns are unknown.
            return Ok(());
        }
        let columns = self.take_columns(&*source, data.roles())?;
        feed(source.scan(&columns)?, data.reading_threads(), false, &Silent, &mut |fed| match fed {
            Fed::Rows(rows) => self.push(rows, &Silent),
            Fed::Bad(error) => Err(error),
            Fed::Nothing => self.save_if_due(),
        })?;
        self.save_if_due()
    }

    /// The number of rows added.
    pub fn rows(&self) -> u64 {
        self.progress().rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::StreamSettings;

    /// Writes rows `from..to` of a table with the columns `x`, `city` and `y`.
    fn day(folder: &std::path::Path, from: usize, to: usize) -> Data {
        let path = folder.join(format!("{from}.csv"));
        let rows: String = (from..to)
            .map(|n| format!("{},{},{}\n", n * 37 % 101, ["a", "b"][n % 2], u8::from(n * 37 % 101 > n % 67)))
            .collect();
        std::fs::write(&path, format!("x,city,y\n{rows}")).expect("a file");
        Data::new(path, "y")
    }

    fn settings() -> StreamSettings {
        StreamSettings { block: 500, ..StreamSettings::with_rows(100) }
    }

    #[test]
    fn a_stream_of_files_resumes_and_represents_all_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (day(folder.path(), 0, 1200), day(folder.path(), 1200, 2000));
        let state = folder.path().join("state");
        let mut stream = Stream::open(&state, &settings(), None).expect("a stream");
        stream.add(&first).expect("the first day");
        stream.save().expect("saved");
        drop(stream);

        let mut resumed = Stream::open(&state, &settings(), Some(1)).expect("the same stream");
        assert_eq!(resumed.rows(), 1200);
        resumed.add(&second).expect("the second day");
        let coreset = resumed.snapshot(&Silent).expect("a coreset");
        assert_eq!((coreset.rows_represented(), coreset.len() <= 100), (2000, true));

        let mut in_memory = Stream::in_memory(&settings(), None).expect("a stream");
        in_memory.add(&first).and_then(|()| in_memory.add(&second)).expect("both days");
        let other = in_memory.snapshot(&Silent).expect("a coreset");
        assert_eq!(other.weights, coreset.weights);
    }

    #[test]
    fn tables_with_other_columns_are_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut stream = Stream::in_memory(&settings(), None).expect("a stream");
        let data = day(folder.path(), 0, 1200);
        stream.add(&data).expect("a day");
        let label = stream.add(&Data::new(folder.path().join("0.csv"), "city")).expect_err("another label");
        assert_eq!(label.to_string(), "label is 'city', but the stream has the label 'y'");
        let features = stream.add(&data.exclude(["city"])).expect_err("a feature less");
        assert!(features.to_string().contains("has the feature 'city', which is now excluded"), "{features}");
        assert_eq!(stream.rows(), 1200);
    }
}
