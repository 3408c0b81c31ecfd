//! Turns command-line arguments into checked settings of the library.

use std::path::{Path, PathBuf};

use tithe::base::error::{ErrorKind, Help, Remedy, Result, Setting};
use tithe::base::machine::memory_limit;
use tithe::coreset::Method;
use tithe::coreset::build::BuildSettings;
use tithe::coreset::file::read_coreset;
use tithe::coreset::sensitivity::CenterRule;
use tithe::data::sink::find_metadata;
use tithe::data::source::{OpenOptions, Source, find_inputs, open};
use tithe::data::table::Table;
use tithe::encoding::full_data::open_as;
use tithe::encoding::{Encoding, Standardize, Unseen};
use tithe::engine::{EngineSettings, Missing};
use tithe::options::coefficients::read_coefficients;
use tithe::options::{BuildOptions, ColumnOptions, DataFitOptions, FitOptions, ReadOptions, StreamOptions};
use tithe::results::predict::Incomplete;
use tithe::stream::StreamSettings;

use crate::args::{
    BuildArgs, CentersArg, ChoiceArgs, ColumnArgs, DataArgs, EngineArgs, FitArgs, IncompleteArg, MethodArg,
    ReadingArgs, StandardizeArg, StreamArgs, UnseenArg,
};

/// Column names from a list that was split at every comma: rejoins the parts of names in double quotes.
fn names(parts: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut is_open = false;
    for part in parts {
        match names.last_mut().filter(|_| is_open) {
            Some(name) => *name += &format!(",{part}"),
            None => names.push(part.clone()),
        }
        let name = names.last().map_or("", String::as_str);
        is_open = name.starts_with('"') && (name.len() == 1 || !name.ends_with('"'));
    }
    let unquoted = |name: &String| name.strip_prefix('"')?.strip_suffix('"').map(str::to_string);
    names.iter().map(|name| unquoted(name).unwrap_or_else(|| name.clone())).collect()
}

/// How files are read.
pub fn open_options(args: &ReadingArgs, memory: u64) -> OpenOptions {
    let options = ReadOptions {
        format: args.format,
        header: Some(!args.no_header),
        zero_based: args.zero_based,
        text: names(&args.text),
        numbers: names(&args.numbers),
        delimiter: args.delimiter,
        decimal: args.decimal,
        null_values: args.null_values.clone(),
    };
    // Half of the memory is for the bytes of standard input, half for its decoded rows.
    options.open_options(memory / 2)
}

/// Opens the data; rejects an `output` that is one of its files.
pub fn open_data(
    args: &DataArgs,
    columns: &ColumnOptions,
    memory: u64,
    output: Option<&Path>,
) -> Result<Box<dyn Source>> {
    // Without --features all columns are used, so a key that appears only in later rows would be missed.
    let refuse_late_keys = columns.features.is_none();
    let mut options = OpenOptions { refuse_late_keys, ..open_options(&args.reading, memory) };
    options.text.extend(columns.text_columns()?);
    let source = open(&args.data, &options)?;
    if let Some(output) = output {
        // The shell may have redirected a file to standard input.
        let standard_input = args.data.iter().any(|name| name == "-").then(|| PathBuf::from("/dev/stdin"));
        let files: Vec<PathBuf> = source.files().into_iter().chain(standard_input).collect();
        refuse_overwriting(&files, output)?;
    }
    Ok(source)
}

/// Opens the data that a coreset or posterior was made from; rejects an `output` that is one of its files or in `own`.
pub fn open_full_data(
    args: &DataArgs,
    encoding: &Encoding,
    memory: u64,
    output: Option<&Path>,
    own: impl IntoIterator<Item = Option<PathBuf>>,
) -> Result<Table> {
    let inputs = find_inputs(&args.data, memory / 2)?;
    if let Some(output) = output {
        let files: Vec<PathBuf> =
            inputs.iter().map(|input| input.path().to_path_buf()).chain(own.into_iter().flatten()).collect();
        refuse_overwriting(&files, output)?;
    }
    open_as(encoding, inputs, &open_options(&args.reading, memory))
}

/// Rejects an output file that is also an input.
pub fn refuse_overwriting(files: &[PathBuf], output: &Path) -> Result<()> {
    let Ok(target) = output.canonicalize() else { return Ok(()) };
    if files.iter().any(|file| file.canonicalize().is_ok_and(|file| file == target)) {
        let what = "is both input and output; writing it would destroy the data".to_string();
        let help = Some(Remedy::using("name another file", Setting::Output).into());
        return Err(ErrorKind::WrongFile { path: output.to_path_buf(), what, help }.into());
    }
    Ok(())
}

/// Rejects coresets given as data, unless their weights are used: each row represents many.
pub fn refuse_coresets(table: &Table) -> Result<()> {
    // Skips standard input, which is not a file.
    for file in table.source().files().into_iter().filter(|file| file.is_file()) {
        let Some(metadata) = find_metadata(&file)?.filter(|metadata| metadata.kind == "coreset") else {
            continue;
        };
        let [weight, row] =
            ["weight_column", "row_column"].map(|key| metadata.json[key].as_str().unwrap_or(key));
        let is_weighted = table.weight().is_some_and(|field| field.name == weight);
        if !is_weighted || table.features().iter().any(|field| field.name == row) {
            return Err(ErrorKind::WrongFile {
                what: format!("is a coreset: its column '{weight}' says how many rows each row represents"),
                help: Some(Help::from([
                    format!("make it smaller with `tithe merge {} --size …`", file.display()).into(),
                    format!("use it as data with --weight {weight} --exclude {row}").into(),
                ])),
                path: file,
            }
            .into());
        }
    }
    Ok(())
}

/// Which columns are used, and how they enter the model; `encoding` is a coreset whose encoding to use.
pub fn columns(args: &ColumnArgs, encoding: Option<&Path>) -> Result<ColumnOptions> {
    Ok(ColumnOptions {
        formula: args.formula.clone(),
        label: args.label.clone(),
        weight: args.weight.clone(),
        features: args.features.as_deref().map(names),
        exclude: names(&args.exclude),
        dates: names(&args.dates),
        positive: args.positive.clone(),
        intercept: Some(!args.no_intercept),
        standardize: match args.standardize {
            None => args.no_standardize.then_some(Standardize::None),
            Some(StandardizeArg::Numeric) => Some(Standardize::Numeric),
            Some(StandardizeArg::All) => Some(Standardize::All),
            Some(StandardizeArg::None) => Some(Standardize::None),
        },
        max_levels: Some(args.max_levels),
        groups: args.groups.clone(),
        min_level_rows: Some(args.min_level_rows),
        missing: Some(args.missing.missing()),
        known: encoding.map(read_coreset).transpose()?.map(|coreset| coreset.encoding),
    })
}

/// Memory for rows: as given, or half of what the process may use.
pub fn memory(args: &EngineArgs) -> u64 {
    args.memory.unwrap_or_else(|| memory_limit().map_or(4 << 30, |bytes| bytes / 2))
}

/// Settings of the engine.
pub fn engine(args: &EngineArgs, missing: Missing) -> EngineSettings {
    EngineSettings { threads: args.threads, memory: memory(args), missing, block_rows: args.block_rows }
}

/// Settings of a build.
pub fn build(args: &BuildArgs, columns: &ColumnOptions) -> Result<BuildSettings> {
    BuildOptions { kl: args.kl, ..choice(&args.choice)? }.settings(columns)
}

/// Settings of a merge.
pub fn merge(args: &ChoiceArgs) -> Result<BuildSettings> {
    choice(args)?.settings(&ColumnOptions::default())
}

/// Settings of a stream.
pub fn stream(args: &StreamArgs, columns: &ColumnOptions) -> Result<StreamSettings> {
    let options = StreamOptions {
        block: Some(args.block),
        warmup_rows: args.warmup_rows,
        half_life: args.half_life,
        unseen: Some(unseen(args.unseen)),
    };
    options.settings(&choice(&args.choice)?, columns)
}

/// How to treat unseen levels.
pub fn unseen(arg: UnseenArg) -> Unseen {
    match arg {
        UnseenArg::Error => Unseen::Error,
        UnseenArg::Reference => Unseen::Reference,
    }
}

/// How to treat rows without a usable value of every feature.
pub fn incomplete(arg: IncompleteArg) -> Incomplete {
    match arg {
        IncompleteArg::Empty => Incomplete::Empty,
        IncompleteArg::Drop => Incomplete::Drop,
        IncompleteArg::Error => Incomplete::Error,
    }
}

/// How many rows to select, and how.
fn choice(args: &ChoiceArgs) -> Result<BuildOptions> {
    Ok(BuildOptions {
        size: args.size,
        kl: None,
        epsilon: args.epsilon,
        delta: args.delta,
        constant: args.constant,
        method: args.method.map(|method| match method {
            MethodArg::Calibrated => Method::Calibrated,
            MethodArg::Sensitivity => Method::Sensitivity,
            MethodArg::Uniform => Method::Uniform,
        }),
        clusters: args.clusters,
        radius: args.radius,
        theta_star: args.theta_star.as_deref().map(read_coefficients).transpose()?,
        centers: args.centers.map(|centers| match centers {
            CentersArg::Exact => CenterRule::Exact,
            CentersArg::Quick => CenterRule::Quick,
        }),
        collapse: Some(!args.no_collapse),
        priors: args.priors.choice(),
        certificate: args.certificate,
        seed: args.seed,
    })
}

/// How to fit: a coreset uses only [`DataFitOptions::fit`].
pub fn fit(args: &FitArgs) -> DataFitOptions {
    let fit = FitOptions {
        sampler: Some(args.sampler),
        priors: args.priors.choice(),
        group_prior: args.priors.group_prior,
        chains: Some(args.chains),
        draws: Some(args.draws),
        warmup: Some(args.warmup),
        seed: args.seed,
        threads: args.engine.threads,
    };
    DataFitOptions { fit, whole: args.whole, size: args.size, kl: args.kl, keep: args.keep.is_some() }
}
