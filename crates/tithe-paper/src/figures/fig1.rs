//! Figure 1: time to build, and mean sensitivity.

use tithe::base::error::Result;
use tithe_plot::{Axis, Chart, Color, Curve, Line, Marker, Panel, Point, Scale};

use super::{averaged, grouped, span};
use crate::approach::Approach;
use crate::data::Set;
use crate::page::{Claim, Section, Verdict, mean_and_sd, short};
use crate::runner::{Context, Results};
use crate::sensitivity::{self, CLUSTERS, DEFAULT_CLUSTERS, DEFAULT_RADIUS, MeanBound, RADII, Scaling};
use crate::tables::Table;
use crate::timing;

/// Figure 1a: time to build as a share of the total time.
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
            y: Axis::new("time to build (% of total)", Scale::Linear).between(0.0, 100.0),
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
                    "Building takes a small share of the time, except for very small sizes: {}",
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
        title: "Figure 1a: time to build",
        caption: "Time to build the coreset, as a percentage of the time to build it and to run 10,000 iterations of MALA, on \
                  one core, with k = 6."
            .to_string(),
        chart: Chart { title: "Time to build as a share of the total time, by size".to_string(), panels, columns: 3 },
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

/// Figure 1b or 1c: mean sensitivity bound by number of rows.
pub fn sensitivities(
    context: &Context<'_>,
    slug: &'static str,
    set: Set,
    scaling: Scaling,
) -> Result<Section> {
    let limit = context.library.get(set)?.train.rows();
    let results = context.run(&sensitivity::cells(context.profile, set, scaling, limit))?;
    let bounds = |radius: f64, clusters: usize| -> Vec<(f64, Vec<f64>)> {
        let cells = results.done.iter().filter(|d| d.cell.radius == radius && d.cell.clusters == clusters);
        grouped(&cells.map(|d| (d.cell.rows as f64, d.outcome.mean_bound)).collect::<Vec<_>>())
    };
    let title = context.library.title(set);
    let panels = sensitivity_panels(title, span(results.done.iter().map(|d| d.outcome.mean_bound)), &bounds);
    let how = match scaling {
        Scaling::AsIs => "unscaled rows",
        Scaling::UnitRows => {
            "each column scaled to [0, 1], then each row to length 1, as Webspam is distributed"
        }
    };
    Ok(Section {
        slug,
        title: if slug == "fig1b" {
            "Figure 1b: mean sensitivity, Binary10"
        } else {
            "Figure 1c: mean sensitivity, real data"
        },
        caption: format!(
            "Mean sensitivity bound of {title} ({how}) by the number of rows: median over {} clusterings; error bars from the \
             minimum to the maximum.",
            context.profile.clusterings()
        ),
        chart: Chart { title: format!("Mean sensitivity of {title}"), panels, columns: 2 },
        claims: claims(title, &bounds),
        tables: vec![table(slug, &results)],
        details: String::new(),
        missing: results.missing,
    })
}

/// The bounds of all clusterings, by number of rows, for a radius and a number of clusters.
type Bounds<'a> = &'a dyn Fn(f64, usize) -> Vec<(f64, Vec<f64>)>;

/// Two panels: one curve per radius, and one curve per number of clusters.
fn sensitivity_panels(title: &str, (low, high): (f64, f64), bounds: Bounds<'_>) -> Vec<Panel> {
    // The median over clusterings, with an error bar from the minimum to the maximum.
    let points = |radius: f64, clusters: usize| -> Vec<Point> {
        bounds(radius, clusters)
            .into_iter()
            .map(|(x, ys)| Point { x, y: median(&ys), bar: (ys.len() > 1).then(|| span(ys)) })
            .collect()
    };
    let curve = |name: String, i: usize, count: usize, marker: Marker, points: Vec<Point>| Curve {
        name,
        points,
        color: Color::ramp(i as f64 / (count - 1) as f64),
        marker,
        line: Line::Solid,
    };
    // Both panels have the same range, so that they can be compared.
    let with_range = |axis: Axis| if low < high { axis.between(0.8 * low, 1.25 * high) } else { axis };
    let panel = |title: String, curves: Vec<Curve>| Panel {
        title,
        x: Axis::new("data set size N (rows)", Scale::Log),
        y: with_range(Axis::new("mean sensitivity bound m\u{304}", Scale::Log)),
        curves,
        levels: Vec::new(),
    };
    let by_radius = RADII.iter().enumerate().map(|(i, &radius)| {
        let points = points(radius, DEFAULT_CLUSTERS);
        curve(format!("R = {radius}"), i, RADII.len(), Marker::Circle, points)
    });
    let by_clusters = CLUSTERS.iter().enumerate().map(|(i, &clusters)| {
        let points = points(DEFAULT_RADIUS, clusters);
        curve(format!("k = {clusters}"), i, CLUSTERS.len(), Marker::Square, points)
    });
    vec![
        panel(format!("{title}: R varies, k = {DEFAULT_CLUSTERS}"), by_radius.collect()),
        panel(format!("{title}: k varies, R = {DEFAULT_RADIUS}"), by_clusters.collect()),
    ]
}

fn claims(title: &str, bounds: Bounds<'_>) -> Vec<Claim> {
    let medians = |radius: f64, clusters: usize| -> Vec<(f64, f64)> {
        bounds(radius, clusters).into_iter().map(|(x, ys)| (x, median(&ys))).collect()
    };
    let default = medians(DEFAULT_RADIUS, DEFAULT_CLUSTERS);
    let from = default.iter().map(|(x, _)| *x).fold(0.0, f64::max) / 100.0;
    let (low, high) = span(default.iter().filter(|(x, _)| *x >= from).map(|(_, y)| *y));
    let last = |radius: f64, clusters: usize| medians(radius, clusters).last().map_or(f64::NAN, |(_, y)| *y);
    let by_radius: Vec<f64> = RADII.iter().map(|&radius| last(radius, DEFAULT_CLUSTERS)).collect();
    let steps: Vec<f64> = by_radius.windows(2).map(|pair| pair[1] / pair[0]).collect();
    let (least_step, most_step) = span(steps.iter().copied());
    let inner = CLUSTERS.iter().filter(|k| (4..=8).contains(*k));
    let (least_k, most_k) = span(inner.map(|&clusters| last(DEFAULT_RADIUS, clusters)));
    vec![
        Claim {
            claim: format!("Mean sensitivity does not grow with N: {title}"),
            verdict: Verdict::of(high / low < 1.3),
            found: format!(
                "m\u{304} is between {} and {} over the last two decades of N (R = 3, k = 6)",
                short(low),
                short(high)
            ),
        },
        Claim {
            claim: format!("Mean sensitivity grows exponentially in R: {title}"),
            verdict: Verdict::of(least_step > 1.2 && most_step / least_step < 4.0),
            found: format!(
                "R = 1 to 5: {}; each step multiplies m\u{304} by {} to {}",
                by_radius.iter().map(|y| short(*y)).collect::<Vec<_>>().join(", "),
                short(least_step),
                short(most_step)
            ),
        },
        Claim {
            claim: format!("Mean sensitivity is robust to k: {title}"),
            verdict: Verdict::of(most_k / least_k < 1.5),
            found: format!("k = 4 to 8: {} to {}", short(least_k), short(most_k)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A mean bound of `R² k` at 100 and 10,000 rows, in two clusterings that differ by a factor of 3.
    fn bounds(radius: f64, clusters: usize) -> Vec<(f64, Vec<f64>)> {
        let bound = radius * radius * clusters as f64;
        [100.0, 10_000.0].map(|rows| (rows, vec![bound, 3.0 * bound])).to_vec()
    }

    #[test]
    fn panels_have_one_curve_per_setting_with_medians_and_ranges() {
        let panels = sensitivity_panels("Data", (1.0, 100.0), &bounds);
        let names = |panel: &Panel| panel.curves.iter().map(|curve| curve.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&panels[0]), ["R = 1", "R = 2", "R = 3", "R = 4", "R = 5"]);
        assert_eq!(names(&panels[1]), ["k = 2", "k = 4", "k = 6", "k = 8", "k = 12"]);
        // R = 2 and k = 6: bounds 24 and 72.
        let point = Point { x: 100.0, y: 48.0, bar: Some((24.0, 72.0)) };
        assert_eq!(panels[0].curves[1].points[0], point);
        assert!(panels.iter().all(|panel| panel.y.range == Some((0.8, 125.0))));
    }

    #[test]
    fn claims_follow_from_the_bounds() {
        let claims = claims("Data", &bounds);
        // Constant in N; R² grows by factors of 4 to 1.5625 per step; proportional to k, so k = 8 is twice k = 4.
        assert_eq!(
            claims.iter().map(|claim| claim.verdict).collect::<Vec<_>>(),
            [Verdict::Holds, Verdict::Holds, Verdict::Fails]
        );
        assert!(claims[1].found.ends_with("by 1.56 to 4.00"), "{}", claims[1].found);
        assert_eq!(claims[2].found, "k = 4 to 8: 72.0 to 144");
    }
}
