//! The examples at the end of each command's help.

pub const PROGRAM: &str = "\
Examples:
  tithe inspect churn.csv                                     what is in the table, and a command to start with
  tithe fit churn.csv --label churned -o posterior.parquet    draws from the posterior
  tithe report posterior.parquet --data churn.csv -o report.html

An existing output file is replaced when the new one is complete; a file that is read is never overwritten.";

pub const BUILD: &str = "\
Examples:
  tithe build claims.parquet --label claimed --size 1000 -o core.parquet
  tithe build 'logs/*.csv.gz' --label clicked --kl 0.01 -o core.parquet
  tithe build survey.csv --label satisfied --missing indicator --min-level-rows 50 -o core.parquet";

pub const STREAM: &str = "\
Examples:
  producer | tithe stream --format csv --label y --size 1000 --state state
  tithe stream --watch incoming --label y --size 1000 --state state
  tithe stream --state state --snapshot -o core.parquet";

pub const MERGE: &str = "\
Examples:
  tithe merge monday.parquet tuesday.parquet -o both.parquet
  tithe merge 'parts/*.parquet' --size 1000 -o all.parquet";

pub const FIT: &str = "\
Examples:
  tithe fit claims.csv --label claimed -o posterior.parquet
  tithe fit core.parquet --prior cauchy:2.5 -o posterior.parquet
  tithe fit survey.csv --label satisfied --missing indicator --interval 0.95 -o posterior.parquet";

pub const VERIFY: &str = "\
Examples:
  tithe verify posterior.parquet --data claims.csv
  tithe verify posterior.parquet --data claims.csv --write corrected.parquet --resample";

pub const CHECK: &str = "\
Examples:
  tithe check posterior.parquet --data test.csv
  tithe check posterior.parquet --data claims.csv --loo 2000 --json";

pub const CERTIFY: &str = "\
Examples:
  tithe certify core.parquet --data claims.csv";

pub const COMPARE: &str = "\
Examples:
  tithe compare posterior.parquet whole.parquet --test test.csv --plot both.svg
  tithe compare without-age.parquet with-age.parquet --loo claims.csv";

pub const PREDICT: &str = "\
Examples:
  tithe predict posterior.parquet new.csv -o predictions.csv
  tithe predict posterior.parquet new.parquet --unseen reference --interval 0.95 -o predictions.parquet";

pub const REPORT: &str = "\
Examples:
  tithe report posterior.parquet -o report.html
  tithe report posterior.parquet --data claims.csv --interval 0.95 -o report.html";

pub const EXPORT: &str = "\
Examples:
  tithe export core.parquet --to stan -o model";

pub const GENERATE: &str = "\
Examples:
  tithe generate mixture --rows 1000000 -o mixture.parquet";

pub const DEMO: &str = "\
Examples:
  tithe demo";

pub const PAPER: &str = "\
Examples:
  tithe paper fig2 --data sets";

pub const INSPECT: &str = "\
Examples:
  tithe inspect churn.csv --label churned
  tithe inspect posterior.parquet";

pub const COMPLETIONS: &str = "\
Examples:
  tithe completions bash > ~/.local/share/bash-completion/completions/tithe";

pub const MAN: &str = "\
Examples:
  tithe man --dir man1";
