//! Figure 2: discrepancy and test log-likelihood by size.

use std::fmt::Write;

use tithe::base::error::Result;
use tithe_plot::{Axis, Chart, Color, Level, Line, Panel, Point, Scale};

use super::fig1::curve_of;
use super::{averaged, grouped, span, with_commas};
use crate::approach::Approach;
use crate::data::Set;
use crate::page::{Claim, Section, Verdict, mean_and_sd, short};
use crate::posterior::{Subset, SubsetOutcome, Truth, TruthOutcome};
use crate::runner::{Context, Done, Results};
use crate::tables::Table;

/// The colour of the Laplace approximation in all plots.
const LAPLACE: Color = Color::ORANGE;

type Cells = [Done<Subset, SubsetOutcome>];

/// Runs the cells and creates the section.
pub fn make(context: &Context<'_>, cells: &[Subset], truths: &Results<Truth>) -> Result<Section> {
    let results = context.run(cells)?;
    let sets: Vec<(Set, &TruthOutcome)> =
        truths.done.iter().map(|truth| (truth.cell.set, &truth.outcome)).collect();
    let columns = 3.min(sets.len().max(1));
    let mut panels = Vec::new();
    for row in sets.chunks(columns) {
        // Fill each row of the grid, so that the two panels of a data set are in the same column.
        panels.extend(row.iter().map(|(set, truth)| mmd_panel(context, *set, truth, &results.done)));
        panels.extend((row.len()..columns).filter(|_| sets.len() > columns).map(|_| Panel::gap()));
        panels.extend(row.iter().map(|(set, truth)| likelihood_panel(*set, truth, &results.done)));
        panels.extend((row.len()..columns).filter(|_| sets.len() > columns).map(|_| Panel::gap()));
    }
    Ok(Section {
        slug: "fig2",
        title: "Figure 2: quality of posteriors",
        caption: "Polynomial MMD² (degree 3, offset 0.2) to the posterior of the full data, and negative test log-likelihood, by \
                  coreset size: mean and one standard deviation over repeats. The noise floor is the MMD² between the two \
                  halves of the draws from the full-data posterior."
            .to_string(),
        chart: Chart { title: "MMD and negative test log-likelihood by size".to_string(), panels, columns },
        claims: claims(context, &sets, &results.done),
        details: details(context, &sets, &results.done),
        tables: vec![table(&results.done), truth_table(truths)],
        missing: results.missing + truths.missing,
    })
}

fn values(
    set: Set,
    approach: Approach,
    done: &Cells,
    value: impl Fn(&SubsetOutcome) -> f64,
) -> Vec<(f64, f64)> {
    done.iter()
        .filter(|d| d.cell.set == set && d.cell.approach == approach)
        .map(|d| (d.cell.size as f64, value(&d.outcome)))
        .collect()
}

fn size_axis() -> Axis {
    Axis::new("subset size M (rows)", Scale::Log).between(125.0, 12_500.0)
}

fn level(name: &str, y: f64, color: Color, line: Line) -> Level {
    Level { name: name.to_string(), y, color, line }
}

fn mmd_panel(context: &Context<'_>, set: Set, truth: &TruthOutcome, done: &Cells) -> Panel {
    let curves = Approach::ALL.map(|approach| {
        curve_of(approach, averaged(&values(set, approach, done, |o| o.quality.mmd_squared)))
    });
    Panel {
        title: format!("{} ({} × {})", context.library.title(set), with_commas(truth.rows), truth.dimension),
        x: size_axis(),
        y: Axis::new("polynomial MMD²", Scale::Log),
        curves: curves.to_vec(),
        levels: vec![
            level("Laplace, all rows", truth.laplace.mmd_squared, LAPLACE, Line::Dotted),
            level("Noise floor", truth.noise_floor, Color::GREY, Line::Dashed),
        ],
    }
}

fn likelihood_panel(set: Set, truth: &TruthOutcome, done: &Cells) -> Panel {
    let curves = Approach::ALL.map(|approach| {
        curve_of(approach, averaged(&values(set, approach, done, |o| o.quality.negative_log_likelihood)))
    });
    let means =
        |curve: &tithe_plot::Curve| curve.points.iter().map(|point: &Point| point.y).collect::<Vec<_>>();
    let (low, high) =
        span(curves.iter().flat_map(means).chain([truth.negative_log_likelihood]).collect::<Vec<_>>());
    let scale = if high > 3.0 * low { Scale::Log } else { Scale::Linear };
    Panel {
        title: format!("{} test rows", with_commas(truth.test_rows)),
        x: size_axis(),
        y: Axis::new("neg. test log-lik. (nats/row)", scale),
        curves: curves.to_vec(),
        levels: vec![
            level("Laplace, all rows", truth.laplace.negative_log_likelihood, LAPLACE, Line::Dotted),
            level("Full-data posterior", truth.negative_log_likelihood, Color::INK, Line::Dashed),
        ],
    }
}

fn means(
    set: Set,
    approach: Approach,
    done: &Cells,
    value: impl Fn(&SubsetOutcome) -> f64,
) -> Vec<(f64, f64)> {
    grouped(&values(set, approach, done, value)).into_iter().map(|(x, ys)| (x, mean_and_sd(&ys).0)).collect()
}

fn claims(context: &Context<'_>, sets: &[(Set, &TruthOutcome)], done: &Cells) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (set, truth) in sets {
        let title = context.library.title(*set);
        claims.extend(discrepancy_claim(*set, title, done));
        let calibrated = [Approach::Calibrated, Approach::Stream];
        claims.extend(calibrated.iter().flat_map(|a| noise_floor_claim(*set, title, *a, truth, done)));
        claims.extend(likelihood_claim(*set, title, truth, done));
    }
    claims
}

/// Pairs of a coreset's and uniform subsampling's mean value, for each size that both have.
fn coreset_and_uniform(set: Set, done: &Cells, value: impl Fn(&SubsetOutcome) -> f64) -> Vec<(f64, f64)> {
    let uniform = means(set, Approach::Uniform, done, &value);
    means(set, Approach::Coreset, done, &value)
        .into_iter()
        .filter_map(|(size, own)| {
            uniform.iter().find(|(other, _)| *other == size).map(|(_, theirs)| (own, *theirs))
        })
        .collect()
}

/// The paper's claim about the MMD: much smaller than uniform subsampling's on generated data, similar on real data.
fn discrepancy_claim(set: Set, title: &str, done: &Cells) -> Option<Claim> {
    let pairs = coreset_and_uniform(set, done, |o| o.quality.mmd_squared);
    let gains: Vec<f64> = pairs.into_iter().map(|(coreset, uniform)| (uniform / coreset).log10()).collect();
    if gains.is_empty() {
        return None;
    }
    let (worst, best) = span(gains.iter().copied());
    let (claim, verdict) = if set.recipe().is_some() {
        let verdict = match worst {
            worst if worst >= 1.0 => Verdict::Holds,
            _ if best < 1.0 => Verdict::Fails,
            _ => Verdict::Partly,
        };
        let claim = "The coreset's MMD² is 1 to 2 orders of magnitude smaller than that of uniform subsampling, and never larger";
        (format!("{claim}: {title}"), verdict)
    } else {
        let close = gains.iter().filter(|gain| **gain > -0.15).count();
        (
            format!("The coreset's MMD² is similar to that of uniform subsampling or smaller: {title}"),
            Verdict::of_share(close, gains.len()),
        )
    };
    let better = gains.iter().filter(|gain| **gain > 0.0).count();
    let found = format!(
        "log₁₀(MMD² of uniform / MMD² of coreset): {} to {}; the coreset is better at {better} of {} sizes",
        signed(worst),
        signed(best),
        gains.len()
    );
    Some(Claim { claim, verdict, found })
}

/// Our claim about calibrated coresets: their MMD² is within a factor of 2 of the noise floor.
fn noise_floor_claim(
    set: Set,
    title: &str,
    approach: Approach,
    truth: &TruthOutcome,
    done: &Cells,
) -> Option<Claim> {
    let mmd = means(set, approach, done, |o| o.quality.mmd_squared);
    let large = mmd.into_iter().filter(|(size, _)| *size >= 625.0);
    let ratios: Vec<f64> = large.map(|(_, mmd)| mmd / truth.noise_floor).collect();
    if ratios.is_empty() {
        return None;
    }
    let (low, high) = span(ratios.iter().copied());
    Some(Claim {
        claim: format!("{} with at least 625 rows reaches the noise floor: {title}", approach.title()),
        verdict: Verdict::of_share(ratios.iter().filter(|r| **r < 2.0).count(), ratios.len()),
        found: format!("mean MMD² / noise floor: {} to {}", short(low), short(high)),
    })
}

/// The paper's claim about predictions: at most 0.005 nats per row worse than those of uniform subsampling.
fn likelihood_claim(set: Set, title: &str, truth: &TruthOutcome, done: &Cells) -> Option<Claim> {
    let pairs = coreset_and_uniform(set, done, |o| o.quality.negative_log_likelihood);
    let excesses: Vec<f64> = pairs.into_iter().map(|(coreset, uniform)| coreset - uniform).collect();
    if excesses.is_empty() {
        return None;
    }
    let good = excesses.iter().filter(|excess| **excess < 0.005).count();
    let (low, high) = span(excesses.iter().copied());
    Some(Claim {
        claim: format!("The coreset predicts test rows at least as well as uniform subsampling: {title}"),
        verdict: Verdict::of_share(good, excesses.len()),
        found: format!(
            "negative test log-likelihood, coreset − uniform: {} to {} nats per row; full data {}",
            signed(low),
            signed(high),
            short(truth.negative_log_likelihood)
        ),
    })
}

/// A number with its sign.
fn signed(value: f64) -> String {
    let text = if value.abs() < 0.01 { format!("{value:+.1e}") } else { format!("{value:+.2}") };
    text.replace('-', "−")
}

fn details(context: &Context<'_>, sets: &[(Set, &TruthOutcome)], done: &Cells) -> String {
    let mut text = String::from(
        "MMD² by coreset size M: mean over repeats. In parentheses: KL divergence between normal approximations, in nats; \
         median.\n\n| data | M | uniform | coreset | \
         calibrated | calibrated stream | noise floor | Laplace |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (set, truth) in sets {
        let mut sizes: Vec<usize> = done.iter().filter(|d| d.cell.set == *set).map(|d| d.cell.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let cell = |approach: Approach| {
                let cells: Vec<&SubsetOutcome> = done
                    .iter()
                    .filter(|d| d.cell.set == *set && d.cell.size == size && d.cell.approach == approach)
                    .map(|d| &d.outcome)
                    .collect();
                if cells.is_empty() {
                    return "–".to_string();
                }
                let mmd: Vec<f64> = cells.iter().map(|o| o.quality.mmd_squared).collect();
                let mut kl: Vec<f64> = cells.iter().filter_map(|o| o.quality.kl).collect();
                kl.sort_by(f64::total_cmp);
                let kl = kl.get(kl.len() / 2).map_or("–".to_string(), |kl| short(*kl));
                format!("{} ({kl})", short(mean_and_sd(&mmd).0))
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                context.library.title(*set),
                size,
                cell(Approach::Uniform),
                cell(Approach::Coreset),
                cell(Approach::Calibrated),
                cell(Approach::Stream),
                short(truth.noise_floor),
                short(truth.laplace.mmd_squared)
            );
        }
    }
    text
}

/// All cells, with their seeds.
pub(super) fn table(done: &Cells) -> Table {
    named_table("fig2", done)
}

pub(super) fn named_table(name: &str, done: &Cells) -> Table {
    Table::new(name)
        .text("data", done, |d| d.cell.set.slug().to_string())
        .text("method", done, |d| d.cell.approach.slug().to_string())
        .count("size", done, |d| d.cell.size)
        .count("clusters", done, |d| d.cell.clusters)
        .number("a", done, |d| d.cell.a)
        .count("seed", done, |d| d.cell.repeat as usize)
        .text("sampler", done, |d| d.cell.drawing.sampler.to_string())
        .count("draws", done, |d| d.cell.drawing.chains * d.cell.drawing.draws)
        .count("distinct_rows", done, |d| d.outcome.rows)
        .number("mmd_squared", done, |d| d.outcome.quality.mmd_squared)
        .maybe("kl", done, |d| d.outcome.quality.kl)
        .number("largest_shift_sd", done, |d| d.outcome.quality.largest_shift)
        .number("smallest_sd_ratio", done, |d| d.outcome.quality.smallest_sd_ratio)
        .number("largest_sd_ratio", done, |d| d.outcome.quality.largest_sd_ratio)
        .number("negative_test_log_likelihood", done, |d| d.outcome.quality.negative_log_likelihood)
        .number("brier", done, |d| d.outcome.quality.brier)
        .maybe("certified_kl", done, |d| d.outcome.certified_kl)
        .maybe("radius", done, |d| d.outcome.radius)
        .maybe("mean_bound", done, |d| d.outcome.mean_bound)
        .number("build_seconds", done, |d| d.outcome.build_seconds)
        .number("draw_seconds", done, |d| d.outcome.draw_seconds)
}

fn truth_table(truths: &Results<Truth>) -> Table {
    let done = &truths.done;
    Table::new("full-data")
        .text("data", done, |d| d.cell.set.slug().to_string())
        .count("rows", done, |d| d.outcome.rows)
        .count("test_rows", done, |d| d.outcome.test_rows)
        .count("dimension", done, |d| d.outcome.dimension)
        .text("sampler", done, |d| d.cell.drawing.sampler.to_string())
        .count("draws", done, |d| d.cell.drawing.chains * d.cell.drawing.draws)
        .number("least_ess", done, |d| d.outcome.least_ess)
        .number("noise_floor", done, |d| d.outcome.noise_floor)
        .number("negative_test_log_likelihood", done, |d| d.outcome.negative_log_likelihood)
        .number("brier", done, |d| d.outcome.brier)
        .number("laplace_mmd_squared", done, |d| d.outcome.laplace.mmd_squared)
        .maybe("laplace_kl", done, |d| d.outcome.laplace.kl)
        .number("laplace_negative_test_log_likelihood", done, |d| d.outcome.laplace.negative_log_likelihood)
        .number("seconds", done, |d| d.seconds)
}
