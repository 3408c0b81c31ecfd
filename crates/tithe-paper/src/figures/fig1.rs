//! Figure 1: the share of the time spent building, and mean sensitivities.

use tithe::base::error::Result;
use tithe_plot::{Axis, Chart, Color, Curve, Line, Marker, Panel, Point, Scale};

use super::{averaged, grouped, span};
use crate::approach::Approach;
use crate::data::Set;
use crate::page::{Claim, Section, Verdict, mean_and_sd, short};
use crate::runner::{Context, Results};
use crate::sensitivity::{self, CLUSTERS, MeanBound, RADII, Scaling, USUAL_CLUSTERS, USUAL_RADIUS};
use crate::tables::Table;
use crate::timing;

/// Figure 1a.
pub fn times(context: &Context<'_>, sets: &[Set]) -> Result<Section> {
    let results = context.run(&timing::cells(context.profile, sets))?;
    let done = &results.done;
    let percents = |set: Set, approach: Approach| -> Vec<(f64, f64)> {
        done.iter()
            .filter(|d| d.cell.set == set && d.cell.approach == approach)
            .map(|d| (d.cell.size as f64, d.outcome.percent()))
            .collect()
    };
    let panels = sets
        .iter()
        .map(|&set| Panel {
            title: context.library.title(set).to_string(),
            x: Axis::new("subset size M (rows)", Scale::Log),
            y: Axis::new("time spent building (%)", Scale::Linear).between(0.0, 100.0),
            curves: [Approach::Coreset, Approach::Calibrated]
                .map(|approach| curve_of(approach, averaged(&percents(set, approach))))
                .to_vec(),
            levels: Vec::new(),
        })
        .collect();
    let claims = sets
        .iter()
        .flat_map(|set| {
            let by_size = grouped(&percents(*set, Approach::Coreset));
            let (first, last) = (by_size.first()?.clone(), by_size.last()?.clone());
            let (small, large) = (mean_and_sd(&first.1).0, mean_and_sd(&last.1).0);
            Some(Claim {
                claim: format!(
                    "Building is a small share of the time except for very small sizes: {}",
                    context.library.title(*set)
                ),
                verdict: Verdict::of(large < 20.0),
                found: format!("{} % at M = {}, {} % at M = {}", short(small), first.0, short(large), last.0),
            })
        })
        .collect();
    let table = Table::new("fig1a")
        .text("data", done, |d| d.cell.set.slug().to_string())
        .text("method", done, |d| d.cell.approach.slug().to_string())
        .count("size", done, |d| d.cell.size)
        .count("seed", done, |d| d.cell.repeat as usize)
        .count("timed_iterations", done, |d| d.cell.iterations)
        .number("build_seconds", done, |d| d.outcome.build_seconds)
        .number("mala_10000_seconds", done, |d| d.outcome.draw_seconds)
        .number("build_percent", done, |d| d.outcome.percent());
    Ok(Section {
        slug: "fig1a",
        title: "Figure 1a: time spent building",
        caption: "Share of the time that building the coreset takes of building and 10,000 iterations of MALA, on one \
                  core, k = 6."
            .to_string(),
        chart: Chart { title: "Share of time spent building by size".to_string(), panels, columns: 3 },
        tables: vec![table],
        claims,
        details: String::new(),
        missing: results.missing,
    })
}

pub(super) fn curve_of(approach: Approach, points: Vec<Point>) -> Curve {
    Curve {
        name: approach.title().to_string(),
        points,
        color: approach.color(),
        marker: approach.marker(),
        line: Line::Solid,
    }
}

/// Figure 1b or 1c.
pub fn sensitivities(
    context: &Context<'_>,
    slug: &'static str,
    set: Set,
    scaling: Scaling,
) -> Result<Section> {
    let most = context.library.get(set)?.train.rows();
    let results = context.run(&sensitivity::cells(context.profile, set, scaling, most))?;
    let bounds = |radius: f64, clusters: usize| -> Vec<(f64, Vec<f64>)> {
        let cells = results.done.iter().filter(|d| d.cell.radius == radius && d.cell.clusters == clusters);
        grouped(&cells.map(|d| (d.cell.rows as f64, d.outcome.mean_bound)).collect::<Vec<_>>())
    };
    // The median of the clusterings, with a bar from the least to the most.
    let points = |radius: f64, clusters: usize| -> Vec<Point> {
        bounds(radius, clusters)
            .into_iter()
            .map(|(x, ys)| Point { x, y: median(&ys), bar: (ys.len() > 1).then(|| span(ys)) })
            .collect()
    };
    let curve = |name: String, place: f64, points: Vec<Point>| Curve {
        name,
        points,
        color: Color::ramp(place),
        marker: Marker::Circle,
        line: Line::Solid,
    };
    // Both panels reach equally far, so that they can be compared.
    let (low, high) = span(results.done.iter().map(|d| d.outcome.mean_bound));
    let reach = |axis: Axis| if low < high { axis.between(0.8 * low, 1.25 * high) } else { axis };
    let panel = |title: String, curves: Vec<Curve>| Panel {
        title,
        x: Axis::new("data set size N (rows)", Scale::Log),
        y: reach(Axis::new("mean sensitivity bound m\u{304}", Scale::Log)),
        curves,
        levels: Vec::new(),
    };
    let by_radius = RADII
        .iter()
        .enumerate()
        .map(|(i, &radius)| {
            let place = i as f64 / (RADII.len() - 1) as f64;
            curve(format!("R = {radius}"), place, points(radius, USUAL_CLUSTERS))
        })
        .collect();
    let by_clusters = CLUSTERS
        .iter()
        .enumerate()
        .map(|(i, &clusters)| {
            let place = i as f64 / (CLUSTERS.len() - 1) as f64;
            Curve {
                marker: Marker::Square,
                ..curve(format!("k = {clusters}"), place, points(USUAL_RADIUS, clusters))
            }
        })
        .collect();
    let title = context.library.title(set);
    let panels = vec![
        panel(format!("{title}: R varies, k = {USUAL_CLUSTERS}"), by_radius),
        panel(format!("{title}: k varies, R = {USUAL_RADIUS}"), by_clusters),
    ];
    let how = match scaling {
        Scaling::AsIs => "as they are",
        Scaling::UnitRows => {
            "every column between 0 and 1, then every row scaled to length 1, as Webspam is given out"
        }
    };
    Ok(Section {
        slug,
        title: if slug == "fig1b" {
            "Figure 1b: mean sensitivity, Binary10"
        } else {
            "Figure 1c: mean sensitivity, a real set"
        },
        caption: format!(
            "Mean sensitivity bound by the number of rows of {title} (rows {how}); median over {} clusterings, bars from \
             the least to the most.",
            context.profile.clusterings()
        ),
        chart: Chart { title: format!("Mean sensitivity of {title}"), panels, columns: 2 },
        claims: claims(title, &bounds),
        tables: vec![table(slug, &results)],
        details: String::new(),
        missing: results.missing,
    })
}

fn claims(title: &str, bounds: &dyn Fn(f64, usize) -> Vec<(f64, Vec<f64>)>) -> Vec<Claim> {
    let medians = |radius: f64, clusters: usize| -> Vec<(f64, f64)> {
        bounds(radius, clusters).into_iter().map(|(x, ys)| (x, median(&ys))).collect()
    };
    let usual = medians(USUAL_RADIUS, USUAL_CLUSTERS);
    let from = usual.iter().map(|(x, _)| *x).fold(0.0, f64::max) / 100.0;
    let (low, high) = span(usual.iter().filter(|(x, _)| *x >= from).map(|(_, y)| *y));
    let last = |radius: f64, clusters: usize| medians(radius, clusters).last().map_or(f64::NAN, |(_, y)| *y);
    let by_radius: Vec<f64> = RADII.iter().map(|&radius| last(radius, USUAL_CLUSTERS)).collect();
    let steps: Vec<f64> = by_radius.windows(2).map(|pair| pair[1] / pair[0]).collect();
    let (least_step, most_step) = span(steps.iter().copied());
    let inner = CLUSTERS.iter().filter(|k| (4..=8).contains(*k));
    let (least_k, most_k) = span(inner.map(|&clusters| last(USUAL_RADIUS, clusters)));
    vec![
        Claim {
            claim: format!("Mean sensitivity is flat in N: {title}"),
            verdict: Verdict::of(high / low < 1.3),
            found: format!(
                "over the last two decades of N, m\u{304} lies between {} and {} (R = 3, k = 6)",
                short(low),
                short(high)
            ),
        },
        Claim {
            claim: format!("Mean sensitivity grows exponentially in R: {title}"),
            verdict: Verdict::of(least_step > 1.2 && most_step / least_step < 4.0),
            found: format!(
                "R = 1 … 5: {}; each step multiplies it by {} to {}",
                by_radius.iter().map(|y| short(*y)).collect::<Vec<_>>().join(", "),
                short(least_step),
                short(most_step)
            ),
        },
        Claim {
            claim: format!("Mean sensitivity is robust in k: {title}"),
            verdict: Verdict::of(most_k / least_k < 1.5),
            found: format!("k = 4 … 8: {} to {}", short(least_k), short(most_k)),
        },
    ]
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    tithe::mcmc::diagnostics::quantile(&sorted, 0.5)
}

fn table(name: &str, results: &Results<MeanBound>) -> Table {
    let done = &results.done;
    Table::new(name)
        .text("data", done, |d| d.cell.set.slug().to_string())
        .count("rows", done, |d| d.cell.rows)
        .count("clusters", done, |d| d.cell.clusters)
        .number("radius", done, |d| d.cell.radius)
        .count("seed", done, |d| d.cell.repeat as usize)
        .number("mean_bound", done, |d| d.outcome.mean_bound)
        .number("score", done, |d| d.outcome.score)
}
