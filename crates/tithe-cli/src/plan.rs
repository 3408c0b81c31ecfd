//! Turns command-line arguments into checked settings of the library.

use std::path::{Path, PathBuf};

use tithe::base::error::{Error, ErrorKind, Result};
use tithe::base::machine::physical_memory;
use tithe::base::rng::Seed;
use tithe::coreset::Method;
use tithe::coreset::build::BuildSettings;
use tithe::coreset::file::read_coreset;
use tithe::coreset::selection::Size;
use tithe::coreset::sensitivity::CenterRule;
use tithe::data::sink::find_story;
use tithe::data::source::{OpenOptions, Source, UniqueKeys, find_inputs, open};
use tithe::data::table::{Roles, Table};
use tithe::encoding::full_data::open_as;
use tithe::encoding::survey::EncodingSettings;
use tithe::encoding::{Encoding, Unseen};
use tithe::engine::{EngineSettings, Missing};
use tithe::mcmc::Settings;
use tithe::model::PriorChoice;
use tithe::results::fit::FitSettings;
use tithe::stream::StreamSettings;

use crate::args::{
    BuildArgs, CentersArg, ChoiceArgs, ColumnArgs, DataArgs, EngineArgs, FitArgs, MethodArg, MissingArg,
    PriorArgs, ReadingArgs, StreamArgs, UnseenArg,
};

/// Column names from a list that was split at every comma: rejoins the parts of names in double quotes.
pub fn names(parts: &[String]) -> Vec<String> {
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
    OpenOptions {
        format: args.format,
        header: !args.no_header,
        zero_based: args.zero_based.then_some(true),
        text: names(&args.text),
        // Half of the memory is for the bytes of standard input, half for its decoded rows.
        memory: memory / 2,
        ..OpenOptions::default()
    }
}

/// Opens the data; rejects an `output` that is one of its files.
pub fn open_data(
    args: &DataArgs,
    columns: &ColumnArgs,
    memory: u64,
    output: Option<&Path>,
) -> Result<Box<dyn Source>> {
    // Without --features all columns are used, so a key that appears only in later rows would be missed.
    let refuse_late_keys = columns.features.is_none();
    let options = OpenOptions { refuse_late_keys, ..open_options(&args.reading, memory) };
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
        let help = Some("name another file with -o".to_string());
        return Err(ErrorKind::WrongFile { path: output.to_path_buf(), what, help }.into());
    }
    Ok(())
}

/// Rejects coresets given as data, unless their weights are used: each row represents many.
pub fn refuse_coresets(table: &Table) -> Result<()> {
    // Skips standard input, which is not a file.
    for file in table.source().files().into_iter().filter(|file| file.is_file()) {
        let Some(story) = find_story(&file)?.filter(|story| story.kind == "coreset") else { continue };
        let [weight, row] =
            ["weight_column", "row_column"].map(|key| story.json[key].as_str().unwrap_or(key));
        let is_weighted = table.weight().is_some_and(|field| field.name == weight);
        if !is_weighted || table.features().iter().any(|field| field.name == row) {
            return Err(ErrorKind::WrongFile {
                what: format!("is a coreset: its column '{weight}' says how many rows each row represents"),
                help: Some(format!(
                    "to make it smaller, use `tithe merge {} --size …`; to use it as data, add --weight {weight} --exclude {row}",
                    file.display()
                )),
                path: file,
            }
            .into());
        }
    }
    Ok(())
}

/// The roles of the columns.
pub fn roles(args: &ColumnArgs, source: &dyn Source) -> Result<Roles> {
    let label = match &args.label {
        Some(label) => label.clone(),
        None if source.is_sparse() => "label".to_string(),
        None => {
            let names: Vec<&str> = source.fields().iter().take(20).map(|field| field.name.as_str()).collect();
            let what =
                format!("required: name the column with the two classes (columns: {})", names.join(", "));
            return Err(Error::setting("--label", what));
        }
    };
    Ok(Roles {
        label,
        weight: args.weight.clone(),
        features: args.features.as_deref().map(names),
        exclude: names(&args.exclude),
    })
}

/// How columns are encoded.
pub fn encoding(args: &ColumnArgs) -> EncodingSettings {
    EncodingSettings {
        intercept: !args.no_intercept,
        standardize: !args.no_standardize,
        positive: args.positive.clone(),
        max_levels: args.max_levels,
        known: None,
        unseen: Unseen::Error,
    }
}

/// How to treat rows with unusable values.
pub fn missing(args: &ColumnArgs) -> Missing {
    match args.missing {
        MissingArg::Error => Missing::Error,
        MissingArg::Drop => Missing::Drop,
    }
}

/// Memory for decoded rows: as given, or half of the machine's.
pub fn memory(args: &EngineArgs) -> u64 {
    args.memory.unwrap_or_else(|| physical_memory().map_or(4 << 30, |bytes| bytes / 2))
}

/// Settings of the engine.
pub fn engine(args: &EngineArgs, missing: Missing) -> EngineSettings {
    EngineSettings { threads: args.threads, memory: memory(args), missing, block_rows: args.block_rows }
}

/// Settings of a build.
pub fn build(args: &BuildArgs) -> Result<BuildSettings> {
    let mut settings = choice(&args.choice, encoding(&args.columns))?;
    if let Some(target) = args.kl {
        settings.size = Size::Kl { target };
    }
    if let Some(path) = &args.encoding {
        settings.encoding.known = Some(known_encoding(path, &args.columns)?);
    }
    settings.check()?;
    Ok(settings)
}

/// The encoding of a coreset, for other rows with the same columns.
fn known_encoding(path: &Path, columns: &ColumnArgs) -> Result<Encoding> {
    let mut known = read_coreset(path)?.encoding;
    encoding(columns).check_against(
        &known,
        columns.label.as_deref(),
        columns.features.as_deref().map(names).as_deref(),
        &names(&columns.exclude),
    )?;
    // These rows may have weights even if the rows of that coreset had none.
    known.weight = columns.weight.clone().or(known.weight);
    Ok(known)
}

/// Settings of a stream.
pub fn stream(args: &StreamArgs) -> Result<StreamSettings> {
    let mut settings = choice(&args.choice, encoding(&args.columns))?;
    if let Some(path) = &args.encoding {
        settings.encoding.known = Some(known_encoding(path, &args.columns)?);
    }
    settings.encoding.unseen = unseen(args.unseen);
    let warmup_rows = args.warmup_rows.unwrap_or(args.block);
    Ok(StreamSettings { build: settings, missing: missing(&args.columns), block: args.block, warmup_rows })
}

/// How to treat unseen levels.
pub fn unseen(arg: UnseenArg) -> Unseen {
    match arg {
        UnseenArg::Error => Unseen::Error,
        UnseenArg::Reference => Unseen::Reference,
    }
}

/// How many rows to select, and how.
pub fn choice(args: &ChoiceArgs, encoding: EncodingSettings) -> Result<BuildSettings> {
    let size = match args.epsilon {
        Some(epsilon) => Size::Guarantee { epsilon, delta: args.delta, constant: args.constant },
        None => Size::Rows(args.size.unwrap_or(1000)),
    };
    let method = match args.method {
        None if args.epsilon.is_some() => Method::Sensitivity,
        None | Some(MethodArg::Calibrated) => Method::Calibrated,
        Some(MethodArg::Sensitivity) => Method::Sensitivity,
        Some(MethodArg::Uniform) => Method::Uniform,
    };
    refuse_unused_flags(args, method)?;
    let default = BuildSettings::default();
    let settings = BuildSettings {
        method,
        size,
        clusters: args.clusters.unwrap_or(default.clusters),
        radius: args.radius.unwrap_or(default.radius),
        theta_star: args.theta_star.as_deref().map(coefficients).transpose()?.unwrap_or_default(),
        centers: match args.centers {
            None => default.centers,
            Some(CentersArg::Exact) => CenterRule::Exact,
            Some(CentersArg::Quick) => CenterRule::Quick,
        },
        collapse: !args.no_collapse,
        seed: Seed(args.seed),
        encoding,
        prior_scale: args.prior_scale.unwrap_or(default.prior_scale),
    };
    settings.check()?;
    Ok(settings)
}

/// Rejects flags that the method ignores.
fn refuse_unused_flags(args: &ChoiceArgs, method: Method) -> Result<()> {
    let bounds = [
        ("--clusters", args.clusters.is_some()),
        ("--radius", args.radius.is_some()),
        ("--theta-star", args.theta_star.is_some()),
        ("--centers", args.centers.is_some()),
    ];
    let unused = match method {
        Method::Calibrated => None,
        _ if args.prior_scale.is_some() => Some(("--prior-scale", "calibrated")),
        Method::Sensitivity => None,
        Method::Uniform => bounds
            .into_iter()
            .find(|(_, given)| *given)
            .map(|(flag, _)| (flag, "calibrated or --method sensitivity")),
    };
    match unused {
        Some((flag, methods)) => Err(Error::setting(
            flag,
            format!("has no effect with this method; remove it, or use --method {methods}"),
        )),
        None => Ok(()),
    }
}

/// The prior of each coefficient.
pub fn priors(args: &PriorArgs) -> PriorChoice {
    PriorChoice { general: args.prior, intercept: args.intercept_prior, named: args.prior_for.clone() }
}

/// Settings of a fit.
pub fn fit(args: &FitArgs) -> Result<FitSettings> {
    let draws =
        Settings { chains: args.chains, draws: args.draws, warmup: args.warmup, seed: Seed(args.seed) };
    draws.check()?;
    Ok(FitSettings {
        sampler: args.sampler,
        priors: priors(&args.priors),
        draws,
        threads: args.engine.threads,
    })
}

/// Coefficients by name from a file: a JSON object, or lines of `coefficient,value` (a first line
/// `coefficient,value` is a header).
fn coefficients(path: &Path) -> Result<Vec<(String, f64)>> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::io("read", path, error))?;
    let text = text.trim_start_matches('\u{feff}');
    let malformed = |what: String| -> Error {
        let help = Some("write a JSON object, or one `coefficient,value` per line".to_string());
        ErrorKind::Malformed { path: PathBuf::from(path), what, help }.into()
    };
    if text.trim_start().starts_with('{') {
        let UniqueKeys(object) = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        return object
            .into_iter()
            .map(|(name, value)| match value.as_f64() {
                Some(number) => Ok((name, number)),
                None => Err(malformed(format!("the value of '{name}' is not a number"))),
            })
            .collect();
    }
    let values: Vec<(String, f64)> =
        text.lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && line.trim() != "coefficient,value")
            .map(|(number, line)| {
                let (name, value) = line
                    .rsplit_once(',')
                    .ok_or_else(|| malformed(format!("line {} is not `coefficient,value`", number + 1)))?;
                let value = value.trim().parse().map_err(|_| {
                    malformed(format!("line {}: '{}' is not a number", number + 1, value.trim()))
                })?;
                Ok((name.trim().trim_matches('"').to_string(), value))
            })
            .collect::<Result<_>>()?;
    let is_duplicate =
        |(at, (name, _)): &(usize, &(String, f64))| values[..*at].iter().any(|(other, _)| other == name);
    match values.iter().enumerate().find(is_duplicate) {
        _ if values.is_empty() => Err(malformed("is empty".to_string())),
        Some((_, (name, _))) => Err(malformed(format!("'{name}' occurs twice"))),
        None => Ok(values),
    }
}
