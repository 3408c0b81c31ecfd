//! Robustness: are results similar for 4 ≤ k ≤ 8 and 2.5 ≤ a ≤ 3.5?

use tithe::base::error::Result;
use tithe_plot::{Axis, Chart, Color, Curve, Level, Line, Marker, Panel, Scale};

use super::fig2::named_table;
use super::{averaged, grouped, span};
use crate::approach::Approach;
use crate::page::{Claim, Section, Verdict, mean_and_sd, short};
use crate::posterior::{Subset, Truth, robustness_size};
use crate::runner::{Context, Results};

/// Runs the cells and creates the section.
pub fn make(context: &Context<'_>, cells: &[Subset], truths: &Results<Truth>) -> Result<Section> {
    let results = context.run(cells)?;
    let sets: Vec<&Truth> = truths
        .done
        .iter()
        .map(|truth| &truth.cell)
        .filter(|truth| results.done.iter().any(|d| d.cell.set == truth.set))
        .collect();
    let values = |truth: &Truth, by: &dyn Fn(&Subset) -> Option<f64>| -> Vec<(f64, f64)> {
        let own = results.done.iter().filter(|d| d.cell.set == truth.set);
        own.filter_map(|d| by(&d.cell).map(|x| (x, d.outcome.quality.mmd_squared))).collect()
    };
    let by_clusters = |cell: &Subset| (cell.a == 3.0).then_some(cell.clusters as f64);
    let by_radius = |cell: &Subset| (cell.clusters == cell.set.clusters()).then_some(cell.a);
    let mut panels = Vec::new();
    let mut claims = Vec::new();
    for truth in &sets {
        let title = context.library.title(truth.set);
        let floor =
            truths.done.iter().find(|done| done.cell.set == truth.set).map(|done| done.outcome.noise_floor);
        let panel = |label: &str, range: (f64, f64), points| Panel {
            title: title.to_string(),
            x: Axis::new(label, Scale::Linear).between(range.0, range.1),
            y: Axis::new("polynomial MMD²", Scale::Log),
            curves: vec![Curve {
                name: Approach::Coreset.title().to_string(),
                points,
                color: Approach::Coreset.color(),
                marker: Marker::Circle,
                line: Line::Solid,
            }],
            levels: floor
                .map(|y| Level { name: "Noise floor".to_string(), y, color: Color::GREY, line: Line::Dashed })
                .into_iter()
                .collect(),
        };
        panels.push(panel("clusters k (a = 3)", (3.5, 8.5), averaged(&values(truth, &by_clusters))));
        panels.push(panel("radius constant a", (2.3, 3.7), averaged(&values(truth, &by_radius))));
        for (what, by) in
            [("k = 4 to 8", &by_clusters as &dyn Fn(&Subset) -> Option<f64>), ("a = 2.5 to 3.5", &by_radius)]
        {
            let groups = grouped(&values(truth, by));
            // A comparison needs at least two values.
            if groups.len() < 2 {
                continue;
            }
            let (low, high) = span(groups.iter().map(|(_, ys)| mean_and_sd(ys).0));
            let spread =
                groups.iter().map(|(_, ys)| mean_and_sd(ys)).filter_map(|(mean, sd)| sd.map(|sd| sd / mean));
            claims.push(Claim {
                claim: format!("Results are similar for {what}: {title}"),
                verdict: Verdict::of(high / low < 3.0),
                found: format!(
                    "mean MMD² between {} and {}; standard deviation over repeats up to {} times the mean",
                    short(low),
                    short(high),
                    short(span(spread).1)
                ),
            });
        }
    }
    Ok(Section {
        slug: "robustness",
        title: "Robustness to k and a",
        caption: format!(
            "MMD² of the paper's coreset with {} rows, for other numbers of clusters k and other radii R = a/√I: mean and one \
             standard deviation over repeats.",
            robustness_size(context.profile)
        ),
        chart: Chart { title: "MMD for other k and a".to_string(), panels, columns: 2 },
        tables: vec![named_table("robustness", &results.done)],
        claims,
        details: String::new(),
        missing: results.missing,
    })
}
