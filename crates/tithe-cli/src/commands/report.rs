//! `tithe report`: writes a self-contained HTML report of a posterior.

use std::fmt::Write;

use serde_json::json;
use tithe::base::error::{ErrorKind, Result};
use tithe::data::sink::find_metadata;
use tithe::mcmc::diagnostics::{CoefficientSummary, quantile};
use tithe::results::file::{prior_scale, read_posterior};
use tithe::results::fit::{Basis, Fit};
use tithe_plot::{Axis, Chart, Color, Curve, Line, Marker, Panel, Point, Scale, escaped};

use crate::args::ReportArgs;
use crate::commands::{certificate, create_output, problems, rows_fitted};
use crate::plan;
use crate::show::{self, count, counted, number, represented};

/// Maximum number of coefficients whose draws are plotted, to limit the length of the page.
const MAX_PLOTTED: usize = 12;
/// Number of points of a density curve and of a trace plot.
const DENSITY_POINTS: usize = 80;
const TRACE_POINTS: usize = 150;
const CHAIN_COLORS: [Color; 6] =
    [Color::BLUE, Color::VERMILION, Color::GREEN, Color::PURPLE, Color::ORANGE, Color::SKY];

/// Writes the report.
pub fn run(args: &ReportArgs) -> Result<()> {
    let fit = read_posterior(&args.posterior)?;
    plan::refuse_overwriting(std::slice::from_ref(&args.posterior), &args.output)?;
    if args.output.is_file()
        && let Some(metadata) = find_metadata(&args.output)?
    {
        let what = format!("is a {}, which the report would overwrite", metadata.kind);
        let help = Some("use a file name that ends in .html".into());
        return Err(ErrorKind::WrongFile { path: args.output.clone(), what, help }.into());
    }
    create_output(&args.output)?.write(page(&fit).as_bytes())?;
    if args.show.json {
        show::print(&format!("{}\n", json!({"output": show::path(&args.output), "findings": fit.findings})));
    } else {
        show::print(&format!("report written to {}\n", args.output.display()));
    }
    Ok(())
}

fn page(fit: &Fit) -> String {
    let label = &fit.encoding.label;
    let title = format!("Posterior of {} = {}", label.column, label.positive);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{}{}{}{}{}{}</body>\n</html>\n",
        overview(fit),
        certificate_section(fit),
        coefficients(fit),
        draws(fit),
        priors(fit),
        provenance(fit),
        title = escaped(&title),
    )
}

const STYLE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: .3rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
p.lead { color: #555; margin-top: 0 } .wide { overflow-x: auto }
table { border-collapse: collapse } th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap }
th { border-bottom: 1px solid #999; font-weight: 600 } tr + tr td { border-top: 1px solid #eee }
th:first-child, td:first-child { text-align: left } td.name { white-space: normal; overflow-wrap: anywhere }
table.facts td { text-align: left; white-space: normal; vertical-align: top }
table.facts td:first-child { white-space: nowrap }
.ok, .warning { border-left: 4px solid #009e73; background: #f0f8f5; padding: .6rem 1rem }
.warning { border-color: #d55e00; background: #fdf3ec } .ok p, .warning p { margin: .3rem 0 }
svg { max-width: 100%; height: auto } .note { color: #555; font-size: .9rem }
";

/// What was fitted, and the warnings of the diagnostics.
fn overview(fit: &Fit) -> String {
    let settings = &fit.settings;
    let mut html = format!(
        "<p class=\"lead\">{} of {} ({}), fitted to {}.</p>\n",
        counted(settings.chains as u64, "chain"),
        counted(settings.draws as u64, "draw"),
        fit.sampler,
        match &fit.basis {
            Basis::Coreset { size, provenance } =>
                format!("{} representing {}", counted(*size, "weighted row"), counted(provenance.rows, "row")),
            Basis::Data { rows, rows_dropped, .. } => rows_fitted(*rows, *rows_dropped),
        }
    );
    if let Some(found) = &fit.verified {
        let _ =
            writeln!(html, "<p>Verified against all rows: {}.</p>", escaped(&certificate::verified(found)));
    }
    let warnings = problems(fit);
    if warnings.is_empty() {
        let worst = |value: fn(&CoefficientSummary) -> f64, pick: fn(f64, f64) -> f64| {
            fit.summary.iter().map(value).filter(|value| value.is_finite()).reduce(pick)
        };
        let mut figures = Vec::new();
        if let Some(r_hat) = worst(|c| c.r_hat, f64::max) {
            figures.push(format!("Largest R-hat {r_hat:.3}"));
        }
        if let Some(ess) = worst(|c| c.ess_bulk.min(c.ess_tail), f64::min) {
            figures.push(format!("at least {} effective draws per coefficient", count(ess as u64)));
        }
        let _ = writeln!(
            html,
            "<div class=\"ok\"><p><b>The diagnostics found no problems.</b> {}.</p></div>",
            figures.join("; ")
        );
    } else {
        html += "<div class=\"warning\">";
        for warning in warnings {
            let _ = write!(html, "<p>{}</p>", escaped(&warning));
        }
        html += "</div>\n";
    }
    html
}

/// The certificate of the coreset, if there is one.
fn certificate_section(fit: &Fit) -> String {
    let Basis::Coreset { provenance, .. } = &fit.basis else { return String::new() };
    let lines = certificate::lines_for_posterior(provenance, &fit.encoding.coefficient_names());
    let items = lines.lines().map(|line| {
        let line = line.trim().replacen("certificate: ", "verdict: ", 1);
        format!("<li>{}</li>", escaped(&line))
    });
    match lines.is_empty() {
        true => String::new(),
        false => format!("<h2>Certificate</h2>\n<ul>{}</ul>\n", items.collect::<String>()),
    }
}

/// The table of coefficients, with a plot of each interval.
fn coefficients(fit: &Fit) -> String {
    let effects = effects(fit);
    let (low, high) = effects
        .iter()
        .flatten()
        .fold((0.0f64, 0.0f64), |(low, high), effect| (low.min(effect.low), high.max(effect.high)));
    let (_, scales) = fit.encoding.transform();
    let unit = if scales.iter().any(|scale| *scale != 1.0) { "sd" } else { "unit" };
    let mut html = format!(
        "<h2>Coefficients</h2>\n<div class=\"wide\"><table>\n<tr><th>coefficient</th><th>effect of one {unit}</th><th>mean</th>\
         <th>sd</th><th>5 %</th><th>95 %</th><th>odds ratio</th><th>R-hat</th><th>ESS bulk</th><th>ESS tail</th></tr>\n"
    );
    for (c, effect) in fit.summary.iter().zip(&effects) {
        let _ = writeln!(
            html,
            "<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{:.3}</td><td>{:.0}</td><td>{:.0}</td></tr>",
            escaped(&c.name),
            effect.as_ref().map_or(String::new(), |effect| effect.strip(low, high)),
            number(c.mean),
            number(c.sd),
            number(c.q05),
            number(c.q95),
            effect.as_ref().map_or(String::new(), |_| number(c.q50.exp())),
            c.r_hat,
            c.ess_bulk,
            c.ess_tail,
        );
    }
    html + &format!(
        "</table></div>\n<p class=\"note\">Coefficients are in the units of the data. The odds ratio is the posterior median \
         for an increase by one unit. The plot shows the median and 90 % interval of the effect on the log-odds: of one {unit} \
         for a numeric column, of 1 compared with 0 for a column that holds only these, of the level compared with the \
         reference level for a text column. All effects share one axis; the grey line marks zero.</p>\n"
    )
}

/// The effect of one standard deviation of a numeric column, or of a level compared with its reference, in log-odds.
struct Effect {
    low: f64,
    middle: f64,
    high: f64,
}

/// The effects of all coefficients; `None` for the intercept, and for values that are not finite.
fn effects(fit: &Fit) -> Vec<Option<Effect>> {
    let (_, scales) = fit.encoding.transform();
    let effect = |(i, (c, scale)): (usize, (&CoefficientSummary, &f64))| {
        let is_intercept = fit.encoding.intercept && i == 0;
        let effect = Effect { low: c.q05 * scale, middle: c.q50 * scale, high: c.q95 * scale };
        let drawable = (effect.high - effect.low).is_finite() && effect.middle.is_finite();
        (!is_intercept && drawable).then_some(effect)
    };
    fit.summary.iter().zip(&scales).enumerate().map(effect).collect()
}

impl Effect {
    /// A small plot of the interval on an axis from `low` to `high`.
    fn strip(&self, low: f64, high: f64) -> String {
        const WIDTH: f64 = 180.0;
        let at = |value: f64| 6.0 + (WIDTH - 12.0) * (value - low) / (high - low).max(f64::MIN_POSITIVE);
        format!(
            "<svg width=\"{WIDTH}\" height=\"16\" viewBox=\"0 0 {WIDTH} 16\"><path d=\"M{zero:.1} 0V16\" stroke=\"#aaa\"/>\
             <path d=\"M{:.1} 8H{:.1}\" stroke=\"#0072b2\" stroke-width=\"2.5\"/>\
             <circle cx=\"{:.1}\" cy=\"8\" r=\"3.5\" fill=\"#0072b2\"/></svg>",
            at(self.low),
            at(self.high),
            at(self.middle),
            zero = at(0.0),
        )
    }
}

/// Density and trace plots of the coefficients with the fewest effective draws.
fn draws(fit: &Fit) -> String {
    let mut order: Vec<usize> = (0..fit.summary.len()).collect();
    // Coefficients without a number of effective draws come first.
    let effective = |i: usize| {
        let c = &fit.summary[i];
        if c.ess_bulk.is_nan() || c.ess_tail.is_nan() { 0.0 } else { c.ess_bulk.min(c.ess_tail) }
    };
    order.sort_by(|&a, &b| effective(a).total_cmp(&effective(b)));
    order.truncate(MAX_PLOTTED);
    order.sort_unstable();
    let panels = order.iter().flat_map(|&i| {
        let chains = fit.draws.coefficient(i);
        let name = &fit.summary[i].name;
        [density_panel(name, &chains), trace_panel(name, &chains)]
    });
    let chart = Chart { title: "Draws".to_string(), panels: panels.collect(), columns: 2 };
    let which = match fit.summary.len() {
        all if all > MAX_PLOTTED => {
            format!("The {MAX_PLOTTED} of {all} coefficients with the fewest effective draws. ")
        }
        _ => String::new(),
    };
    format!(
        "<h2>Draws</h2>\n<p class=\"note\">{which}Left: density of the draws of each chain; the curves should agree. Right: \
         trace of each chain; it should look like noise around a constant level.</p>\n{}",
        chart.svg()
    )
}

fn density_panel(name: &str, chains: &[Vec<f64>]) -> Panel {
    panel(name, name, "density", chains, density)
}

fn trace_panel(name: &str, chains: &[Vec<f64>]) -> Panel {
    panel(name, "draw", "", chains, |draws| {
        let step = draws.len().div_ceil(TRACE_POINTS).max(1);
        draws.iter().enumerate().step_by(step).map(|(i, draw)| Point::new(i as f64 + 1.0, *draw)).collect()
    })
}

fn panel(title: &str, x: &str, y: &str, chains: &[Vec<f64>], points: impl Fn(&[f64]) -> Vec<Point>) -> Panel {
    let curve = |(chain, draws): (usize, &Vec<f64>)| Curve {
        name: format!("chain {}", chain + 1),
        points: points(draws),
        color: CHAIN_COLORS[chain % CHAIN_COLORS.len()],
        marker: Marker::None,
        line: Line::Solid,
    };
    Panel {
        title: title.to_string(),
        x: Axis::new(x, Scale::Linear),
        y: Axis::new(y, Scale::Linear),
        curves: chains.iter().enumerate().map(curve).collect(),
        levels: Vec::new(),
    }
}

/// A Gaussian kernel density, with Silverman's bandwidth `0.9·min(sd, IQR/1.34)·n^(−1/5)`.
fn density(draws: &[f64]) -> Vec<Point> {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let sd = (sorted.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let spread = (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / 1.34;
    let width = 0.9 * if spread > 0.0 { sd.min(spread) } else { sd } * n.powf(-0.2);
    if width.is_nan() || width <= 0.0 {
        return Vec::new();
    }
    let (low, high) = (first - 2.0 * width, last + 2.0 * width);
    let at = |k: usize| low + (high - low) * k as f64 / (DENSITY_POINTS - 1) as f64;
    let height = |x: f64| {
        let sum: f64 = sorted.iter().map(|draw| (-0.5 * ((x - draw) / width).powi(2)).exp()).sum();
        sum / (n * width * (2.0 * std::f64::consts::PI).sqrt())
    };
    (0..DENSITY_POINTS).map(|k| Point::new(at(k), height(at(k)))).collect()
}

fn priors(fit: &Fit) -> String {
    let mut html = format!(
        "<h2>Priors</h2>\n<p class=\"note\">{}</p>\n<table class=\"facts\">\n",
        match prior_scale(&fit.encoding) {
            "standardised" => "On the standardised scale.",
            _ => "In the units of the data.",
        }
    );
    // Coefficients with the same prior share a row.
    let mut by_prior: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, prior) in fit.draws.names.iter().zip(&fit.priors.coefficients) {
        let prior = prior.to_string();
        match by_prior.iter_mut().find(|(known, _)| *known == prior) {
            Some((_, names)) => names.push(name),
            None => by_prior.push((prior, vec![name])),
        }
    }
    for (prior, names) in by_prior {
        html += &fact(&prior, &names.join(", "));
    }
    html + "</table>\n"
}

/// Everything needed to reproduce the posterior.
fn provenance(fit: &Fit) -> String {
    let mut html = "<h2>Provenance</h2>\n<table class=\"facts\">\n".to_string();
    let label = &fit.encoding.label;
    html += &fact(
        "label",
        &format!("{} (positive: {}, negative: {})", label.column, label.positive, label.negative),
    );
    if let Some(weight) = &fit.encoding.weight {
        html += &fact("weights from", weight);
    }
    let warnings = match &fit.basis {
        Basis::Coreset { size, provenance } => {
            let facts = provenance;
            html += &fact("coreset", &represented(*size, facts.rows));
            if facts.rows_dropped > 0 {
                html += &fact("rows dropped", &count(facts.rows_dropped));
            }
            let exact = if facts.exact { ", exact: the likelihood equals the full data's" } else { "" };
            html += &fact("method", &(format!("{:?}", facts.method).to_lowercase() + exact));
            html += &fact("coreset seed", &facts.seed.0.to_string());
            &facts.warnings
        }
        Basis::Data { rows, rows_dropped, warnings, .. } => {
            html += &fact("rows", &count(*rows));
            if *rows_dropped > 0 {
                html += &fact("rows dropped", &count(*rows_dropped));
            }
            warnings
        }
    };
    html += &fact("data fingerprint", &fit.basis.fingerprint().to_string());
    html += &fact(
        "sampler",
        &format!("{}, {} warm-up iterations", fit.sampler, count(fit.settings.warmup as u64)),
    );
    html += &fact("sampler seed", &fit.settings.seed.0.to_string());
    for warning in warnings {
        html += &fact("warning", warning);
    }
    html += &fact("created by", concat!("tithe ", env!("CARGO_PKG_VERSION")));
    html + "</table>\n"
}

fn fact(name: &str, value: &str) -> String {
    format!("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value))
}
