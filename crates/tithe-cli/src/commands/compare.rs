//! `tithe compare`: compares two posteriors.

use std::path::Path;

use serde_json::{Value, json};
use tithe::base::error::{Error, ErrorKind, Result};
use tithe::data::source::{Input, find_inputs};
use tithe::encoding::full_data::open_as;
use tithe::engine::{EngineSettings, LocalEngine, Missing};
use tithe::results::check::{CheckSettings, Loo, check};
use tithe::results::compare::{Comparison, Scores, compare, score};
use tithe::results::file::read_posterior;
use tithe::results::fit::Fit;
use tithe_plot::{Axis, Chart, Color, Curve, Line, Marker, Panel, Point, Scale};

use crate::args::CompareArgs;
use crate::commands::create_output;
use crate::plan;
use crate::show::{self, Watcher, count, number, printable, range};

/// Maximum number of bytes of standard input held in memory.
const MEMORY: u64 = 1 << 28;
/// Pixels per unit of the chart, for PNG.
const PIXELS_PER_UNIT: f32 = 2.0;

/// Compares the posteriors, prints the result and writes the plot.
pub fn run(args: &CompareArgs) -> Result<()> {
    let picture = args.plot.as_deref().map(Picture::of).transpose()?;
    let (fit, reference) = (read_posterior(&args.posterior)?, read_posterior(&args.reference)?);
    if !args.loo.is_empty() {
        return compare_loo(args, &fit, &reference);
    }
    if let Some(plot) = &args.plot {
        plan::refuse_overwriting(&[args.posterior.clone(), args.reference.clone()], plot)?;
    }
    let output = args.plot.as_deref().map(create_output).transpose()?;
    let compared = compare(&fit, &reference, args.kernel)?;
    let scores = match args.data.data.is_empty() {
        true => None,
        false => {
            // Standard input can be read only once.
            let inputs = find_inputs(&args.data.data, MEMORY)?;
            Some((test_scores(args, inputs.clone(), &fit)?, test_scores(args, inputs, &reference)?))
        }
    };
    if let (Some(picture), Some(output)) = (picture, output) {
        let path = output.path().to_path_buf();
        let drawn = picture.draw(&chart(args, &fit, &reference));
        output.write(&drawn.map_err(|what| Error::malformed(&path, what))?)?;
    }
    if args.show.json {
        show::print_record("compare", record(args, &compared, scores));
    } else {
        show::print(&table(args, &compared, scores));
    }
    Ok(())
}

/// Compares two models by leave-one-out cross-validation on the rows that both were fitted to, and prints the result.
fn compare_loo(args: &CompareArgs, fit: &Fit, reference: &Fit) -> Result<()> {
    let inputs = find_inputs(&args.loo, MEMORY)?;
    let of = |fit: &Fit, path: &Path| left_out(args, inputs.clone(), fit, path);
    let (own, other) = (of(fit, &args.posterior)?, of(reference, &args.reference)?);
    let difference = own.minus(&other).ok_or_else(|| -> Error {
        ErrorKind::OtherData {
            what: "the posteriors use different rows of it, because of missing values".to_string(),
        }
        .into()
    })?;
    if args.show.json {
        let record = json!({
            "posterior": show::path(&args.posterior),
            "reference": show::path(&args.reference),
            "loo": {"posterior": own, "reference": other, "difference": difference},
        });
        show::print_record("compare", record);
        return Ok(());
    }
    let mut text = format!("{:<12} {:>12} {:>10} {:>22}\n", "", "elpd", "se", "effective parameters");
    for (name, loo) in [("posterior", &own), ("reference", &other)] {
        text += &format!(
            "{name:<12} {:>12} {:>10} {:>22}\n",
            number(loo.elpd),
            number(loo.se),
            number(loo.effective_parameters)
        );
    }
    text += &format!("{:<12} {:>12} {:>10}\n", "difference", number(difference.elpd), number(difference.se));
    let verdict = match difference.elpd {
        elpd if elpd.abs() < 2.0 * difference.se => {
            "the data does not tell which model predicts better".to_string()
        }
        elpd if elpd > 0.0 => format!("{} predicts better", args.posterior.display()),
        _ => format!("{} predicts better", args.reference.display()),
    };
    let rows = count(own.sampled as u64);
    show::print(
        &(text + &format!("{verdict} (leave-one-out cross-validation, {rows} rows left out one by one)\n")),
    );
    Ok(())
}

/// Leave-one-out cross-validation of a posterior on the rows that it was fitted to.
fn left_out(args: &CompareArgs, inputs: Vec<Input>, fit: &Fit, path: &Path) -> Result<Loo> {
    let table = open_as(&fit.encoding, inputs, &plan::open_options(&args.data.reading, 2 * MEMORY))?;
    let watcher = Watcher::new(args.show.quiet);
    let missing = fit.basis.missing();
    let engine = EngineSettings { threads: args.threads, missing, ..EngineSettings::default() };
    let settings = CheckSettings { loo_rows: args.loo_rows.max(2), ..CheckSettings::default() };
    let found = check(&LocalEngine::new(table, &engine, &watcher)?, fit, &settings)?;
    found.loo.ok_or_else(|| {
        let what = match fit.encoding.weight {
            Some(_) => format!(
                "'{}' was fitted to weighted rows, which cannot be left out one by one",
                path.display()
            ),
            None => format!("'{}' was fitted to other rows", path.display()),
        };
        ErrorKind::OtherData { what }.into()
    })
}

/// Image format, chosen by the file extension.
#[derive(Clone, Copy)]
enum Picture {
    Svg,
    Png,
}

impl Picture {
    fn of(path: &Path) -> Result<Picture> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Ok(Picture::Svg),
            Some("png") => Ok(Picture::Png),
            _ => Err(ErrorKind::WrongFile {
                path: path.to_path_buf(),
                what: "has no extension of an image format".to_string(),
                help: Some("use a file name that ends in .svg or .png".into()),
            }
            .into()),
        }
    }

    fn draw(self, chart: &Chart) -> std::result::Result<Vec<u8>, String> {
        match self {
            Picture::Svg => Ok(chart.svg().into_bytes()),
            Picture::Png => chart.png(PIXELS_PER_UNIT),
        }
    }
}

/// How well a posterior predicts the test rows.
fn test_scores(args: &CompareArgs, inputs: Vec<Input>, fit: &Fit) -> Result<Scores> {
    let table = open_as(&fit.encoding, inputs, &plan::open_options(&args.data.reading, 2 * MEMORY))?;
    let watcher = Watcher::new(args.show.quiet);
    let settings =
        EngineSettings { threads: args.threads, missing: Missing::Error, ..EngineSettings::default() };
    score(&LocalEngine::new(table, &settings, &watcher)?, fit, args.draws)
}

/// The result as JSON.
fn record(args: &CompareArgs, compared: &Comparison, scores: Option<(Scores, Scores)>) -> Value {
    let (smallest, largest) = compared.sd_ratio_range();
    json!({
        "posterior": show::path(&args.posterior),
        "reference": show::path(&args.reference),
        "kernel": compared.kernel,
        "mmd": compared.mmd_squared.sqrt(),
        "mmd_squared": compared.mmd_squared,
        "noise_floor": compared.noise_floor,
        "kl": compared.kl,
        "largest_shift": compared.largest_shift(),
        "smallest_sd_ratio": smallest,
        "largest_sd_ratio": largest,
        "coefficients": compared.coefficients,
        "test": scores.map(|(own, reference)| json!({"posterior": own, "reference": reference})),
        "plot": args.plot.as_deref().map(show::path),
    })
}

/// The result as a table.
fn table(args: &CompareArgs, compared: &Comparison, scores: Option<(Scores, Scores)>) -> String {
    let names = compared.coefficients.iter().map(|pair| printable(&pair.name).chars().count());
    let width = names.max().unwrap_or(0).max("coefficient".len());
    let mut text = format!("{:<width$} {:^21} | {:^21} |\n", "", "posterior", "reference");
    text += &format!(
        "{:<width$} {:>10} {:>10} | {:>10} {:>10} | {:>10} {:>10}\n",
        "coefficient", "mean", "sd", "mean", "sd", "error (sd)", "sd ratio"
    );
    for pair in &compared.coefficients {
        text += &format!(
            "{:<width$} {:>10} {:>10} | {:>10} {:>10} | {:>10} {:>10}\n",
            printable(&pair.name),
            number(pair.mean),
            number(pair.sd),
            number(pair.reference_mean),
            number(pair.reference_sd),
            number(pair.shift),
            number(pair.sd_ratio)
        );
    }
    let (smallest, largest) = compared.sd_ratio_range();
    text += &format!(
        "{} compared with {}\n  MMD² {} (kernel {}); between two halves of the reference: {}\n",
        args.posterior.display(),
        args.reference.display(),
        number(compared.mmd_squared),
        compared.kernel,
        number(compared.noise_floor)
    );
    text += &match compared.kl {
        Some(kl) => format!("  KL {} nats (normal approximations)\n", number(kl)),
        None => "  KL not computed: too few draws to estimate the covariance\n".to_string(),
    };
    text += &format!(
        "  largest error of a posterior mean: {} sd; posterior sd ratios: {}\n",
        number(compared.largest_shift()),
        range(smallest, largest)
    );
    if let Some((own, reference)) = scores {
        let rows = [
            ("negative log-likelihood", own.negative_log_likelihood, reference.negative_log_likelihood),
            ("log score", own.log_score, reference.log_score),
            ("Brier score", own.brier, reference.brier),
        ];
        text += &format!("  on {} test rows (lower is better):\n", count(own.rows));
        text += &format!("    {:<24} {:>12} {:>12}\n", "", "posterior", "reference");
        for (name, own, reference) in rows {
            text += &format!("    {name:<24} {own:>12.6} {reference:>12.6}\n");
        }
    }
    if let Some(plot) = &args.plot {
        text += &format!("  plot written to {}\n", plot.display());
    }
    text
}

/// Means and 90 % intervals of both posteriors, relative to the reference's means, in its standard deviations.
fn chart(args: &CompareArgs, fit: &Fit, reference: &Fit) -> Chart {
    let own = |name: &str| fit.summary.iter().find(|summary| summary.name == name);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for (i, base) in reference.summary.iter().enumerate() {
        let scaled = |value: f64| (value - base.mean) / base.sd;
        let point = |x: f64, mean: f64, low: f64, high: f64| Point {
            x,
            y: scaled(mean),
            bar: Some((scaled(low), scaled(high))),
        };
        let place = i as f64 + 1.0;
        theirs.push(point(place - 0.15, base.mean, base.q05, base.q95));
        if let Some(own) = own(&base.name) {
            ours.push(point(place + 0.15, own.mean, own.q05, own.q95));
        }
    }
    let curve = |path: &Path, points: Vec<Point>, color: Color, marker: Marker| Curve {
        name: path.display().to_string(),
        points,
        color,
        marker,
        line: Line::None,
    };
    Chart {
        title: "Coefficients of two posteriors".to_string(),
        panels: vec![Panel {
            title: "Means and 90 % intervals".to_string(),
            x: Axis::categories(
                "coefficient",
                reference.summary.iter().map(|summary| summary.name.clone()).collect(),
            ),
            y: Axis::new("difference from the reference mean (reference sd)", Scale::Linear),
            curves: vec![
                curve(&args.reference, theirs, Color::GREY, Marker::Square),
                curve(&args.posterior, ours, Color::BLUE, Marker::Circle),
            ],
            levels: Vec::new(),
        }],
        columns: 1,
    }
}
