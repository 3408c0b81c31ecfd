//! Four figures that compare the theorems of the paper with measurements.

use tithe::base::error::Result;
use tithe_plot::{Axis, Chart, Color, Curve, Level, Line, Marker, Panel, Point, Scale};

use super::{averaged, span};
use crate::approach::Approach;
use crate::page::{Claim, Section, Verdict, short};
use crate::runner::Context;
use crate::tables::Table;
use crate::theory::guarantee::{AUTHORS, DELTA, EPSILON};
use crate::theory::{evidence, guarantee, lower_bound, mixture};

/// Colour of bounds.
const BOUND: Color = Color::INK;
/// Colour of measurements with the paper's algorithm.
const MEASURED: Color = Color::BLUE;
/// Colour of measurements with an idealised clustering.
const IDEAL: Color = Color::SKY;

/// Runs the cells of all four figures and creates their sections.
pub fn make(context: &Context<'_>) -> Result<Vec<Section>> {
    Ok(vec![lower_bounds(context)?, mixtures(context)?, guarantees(context)?, evidences(context)?])
}

fn curve(name: &str, points: Vec<Point>, color: Color, marker: Marker, line: Line) -> Curve {
    Curve { name: name.to_string(), points, color, marker, line }
}

fn lower_bounds(context: &Context<'_>) -> Result<Section> {
    let results = context.run(&lower_bound::cells(context.profile))?;
    let done = &results.done;
    let points = |value: &dyn Fn(&lower_bound::LowerBoundOutcome) -> f64| -> Vec<Point> {
        done.iter().map(|d| Point::new(d.cell.radius, value(&d.outcome))).collect()
    };
    let between = done
        .iter()
        .filter(|d| {
            d.outcome.lower <= d.outcome.found * 1.000_001 && d.outcome.found <= d.outcome.lemma * 1.000_001
        })
        .count();
    let (_, slack) = span(done.iter().map(|d| d.outcome.lemma / d.outcome.found));
    let (_, gap) = span(done.iter().map(|d| d.outcome.found / d.outcome.lower));
    let panel = Panel {
        title: "N = 100 vectors, D = 10, ε′ = 0.5".to_string(),
        x: Axis::new("radius R", Scale::Log),
        y: Axis::new("sensitivity σₙ", Scale::Log),
        curves: vec![
            curve("Upper bound (Cor. 3.7)", points(&|o| o.upper), BOUND, Marker::None, Line::Dashed),
            curve(
                "Lemma 3.1, one cluster per vector",
                points(&|o| o.lemma),
                IDEAL,
                Marker::Diamond,
                Line::Solid,
            ),
            curve("Found by optimisation", points(&|o| o.found), MEASURED, Marker::Circle, Line::Solid),
            curve("Lower bound (Thm. 3.4)", points(&|o| o.lower), BOUND, Marker::None, Line::Dotted),
        ],
        levels: Vec::new(),
    };
    let table = Table::new("theory-lower-bound")
        .number("radius", done, |d| d.cell.radius)
        .count("seed", done, |d| d.cell.seed as usize)
        .number("lower_bound", done, |d| d.outcome.lower)
        .number("found", done, |d| d.outcome.found)
        .number("lemma_3_1", done, |d| d.outcome.lemma)
        .number("upper_bound", done, |d| d.outcome.upper)
        .number("epsilon", done, |d| d.outcome.epsilon);
    Ok(Section {
        slug: "theory-lower-bound",
        title: "Theorem 3.4 and Corollary 3.7: bounds of sensitivities",
        caption: "Sensitivity of the vectors in the theorem, by radius: the largest ratio found by gradient ascent over the ball, and \
                  the bounds below and above it."
            .to_string(),
        chart: Chart { title: "Sensitivity and its bounds".to_string(), panels: vec![panel], columns: 1 },
        tables: vec![table],
        claims: vec![Claim {
            claim: "Theorem 3.4 ≤ sensitivity ≤ Lemma 3.1 ≤ Corollary 3.7 on the theorem's vectors".to_string(),
            verdict: Verdict::of_share(between, done.len()),
            found: format!(
                "at {between} of {} radii; the bound of the lemma is at most {} times the largest ratio found, which is at most {} \
                 times the lower bound",
                done.len(),
                short(slack),
                short(gap)
            ),
        }],
        details: String::new(),
        missing: results.missing,
    })
}

fn mixtures(context: &Context<'_>) -> Result<Section> {
    let cells = mixture::cells(context.profile);
    let results = context.run(&cells)?;
    let done = &results.done;
    let mut radii: Vec<f64> = cells.iter().map(|cell| cell.radius).collect();
    radii.sort_by(f64::total_cmp);
    radii.dedup();
    let mut panels = Vec::new();
    let mut worst = f64::NEG_INFINITY;
    let mut ends = Vec::new();
    for &radius in &radii {
        let own: Vec<_> = done.iter().filter(|d| d.cell.radius == radius).collect();
        let measured = |value: &dyn Fn(&mixture::MixtureBoundOutcome) -> f64| {
            averaged(&own.iter().map(|d| (d.cell.rows as f64, value(&d.outcome))).collect::<Vec<_>>())
        };
        let components = measured(&|o| o.by_components);
        let clustering = measured(&|o| o.by_clustering);
        let bound = averaged(&own.iter().map(|d| (d.cell.rows as f64, d.cell.bound())).collect::<Vec<_>>())
            .into_iter()
            .map(|point| Point { bar: None, ..point })
            .collect::<Vec<_>>();
        for (measured, bound) in components.iter().zip(&bound) {
            worst = worst.max(measured.y / bound.y);
        }
        let limit = own.first().map(|d| d.cell.limit());
        if let (Some(last), Some(limit)) = (components.last(), limit) {
            ends.push(format!("R = {radius}: {} (limit {})", short(last.y), short(limit)));
        }
        panels.push(Panel {
            title: format!("Mixture, R = {radius}"),
            x: Axis::new("rows N", Scale::Log),
            y: Axis::new("mean sensitivity bound m\u{304}", Scale::Log),
            curves: vec![
                curve("Bound on the expectation (Prop. 3.8)", bound, BOUND, Marker::None, Line::Dashed),
                curve("Measured, k-means with k = 2", clustering, MEASURED, Marker::Circle, Line::Solid),
                curve("Measured, clusters = components", components, IDEAL, Marker::Diamond, Line::None),
            ],
            levels: limit
                .map(|y| Level {
                    name: "Limit of the bound".to_string(),
                    y,
                    color: Color::GREY,
                    line: Line::Dotted,
                })
                .into_iter()
                .collect(),
        });
    }
    let table = Table::new("theory-mixture")
        .count("rows", done, |d| d.cell.rows)
        .number("radius", done, |d| d.cell.radius)
        .count("seed", done, |d| d.cell.seed as usize)
        .number("mean_bound_components", done, |d| d.outcome.by_components)
        .number("mean_bound_k_means", done, |d| d.outcome.by_clustering)
        .number("proposition_3_8", done, |d| d.cell.bound())
        .number("limit", done, |d| d.cell.limit());
    Ok(Section {
        slug: "theory-mixture",
        title: "Proposition 3.8: the expected mean sensitivity of a Gaussian mixture",
        caption: "Mean sensitivity bound of the Mixture data by the number of rows, the bound of the proposition (minimised over r), \
                  and its limit."
            .to_string(),
        chart: Chart { title: "Mean sensitivity of a Gaussian mixture".to_string(), panels, columns: 3 },
        tables: vec![table],
        claims: vec![Claim {
            claim: "The expected mean sensitivity of a Gaussian mixture is bounded for all N (Proposition 3.8)".to_string(),
            verdict: Verdict::of(worst <= 1.0),
            found: format!("measured values are at most {} times the bound; with the most rows, {}", short(worst), ends.join(", ")),
        }],
        details: String::new(),
        missing: results.missing,
    })
}

fn guarantees(context: &Context<'_>) -> Result<Section> {
    let results = context.run(&guarantee::cells(context.profile))?;
    let done = &results.done;
    let by_constant: Vec<Point> =
        done.iter().rev().map(|d| Point::new(d.cell.constant, 100.0 * d.outcome.failures())).collect();
    let quantile = |p: f64| -> Vec<Point> {
        done.iter().rev().map(|d| Point::new(d.outcome.size as f64, d.outcome.quantile(p))).collect()
    };
    // The smallest constant that is large enough in practice, to compare with the authors' constant.
    let authors = done.iter().find(|d| d.cell.constant == AUTHORS);
    let least = done
        .iter()
        .filter(|d| d.outcome.failures() <= DELTA)
        .map(|d| d.cell.constant)
        .fold(f64::INFINITY, f64::min);
    let mut found = format!("the share of failures is at most δ for c ≥ {}", short(least));
    if let Some(authors) = authors {
        found += &format!(
            "; with the authors' c = 4: M = {}, 0.95-quantile of the error {} (ε = {EPSILON} is guaranteed), {} failures in {}",
            authors.outcome.size,
            short(authors.outcome.quantile(1.0 - DELTA)),
            authors.outcome.errors.iter().filter(|error| **error > EPSILON).count(),
            authors.outcome.errors.len()
        );
    }
    let holds = authors.is_some_and(|authors| authors.outcome.failures() <= DELTA);
    let panels = vec![
        Panel {
            title: "How often the guarantee fails".to_string(),
            x: Axis::new("constant c", Scale::Log),
            y: Axis::new("coresets with error above ε (%)", Scale::Linear).between(-4.0, 104.0),
            curves: vec![curve("Measured", by_constant, MEASURED, Marker::Circle, Line::Solid)],
            levels: vec![Level {
                name: format!("δ = {DELTA}"),
                y: 100.0 * DELTA,
                color: BOUND,
                line: Line::Dashed,
            }],
        },
        Panel {
            title: "Size of the error".to_string(),
            x: Axis::new("coreset size M", Scale::Log),
            y: Axis::new("largest relative error", Scale::Log),
            curves: vec![
                curve("Median", quantile(0.5), MEASURED, Marker::Square, Line::Dashed),
                curve("0.95-quantile", quantile(1.0 - DELTA), MEASURED, Marker::Diamond, Line::Solid),
            ],
            levels: vec![Level {
                name: format!("ε = {EPSILON}"),
                y: EPSILON,
                color: BOUND,
                line: Line::Dotted,
            }],
        },
    ];
    let table = Table::new("theory-guarantee")
        .number("constant", done, |d| d.cell.constant)
        .count("draws", done, |d| d.outcome.size as usize)
        .number("mean_bound", done, |d| d.outcome.mean_bound)
        .count("seeds", done, |d| d.outcome.errors.len())
        .number("share_above_epsilon", done, |d| d.outcome.failures())
        .number("median_error", done, |d| d.outcome.quantile(0.5))
        .number("error_quantile_95", done, |d| d.outcome.quantile(0.95));
    Ok(Section {
        slug: "theory-guarantee",
        title: "Theorem 3.2: the (ε, δ) guarantee and its constant",
        caption: format!(
            "Coresets of 20,000 rows with two columns (R = 1, ε = {EPSILON}, δ = {DELTA}). Left: share of coresets whose error \
             exceeds ε, by the constant c. Right: largest relative error over the ball, by coreset size."
        ),
        chart: Chart { title: "The guarantee, by its constant".to_string(), panels, columns: 2 },
        tables: vec![table],
        claims: vec![Claim {
            claim: "With probability 1 − δ the coreset's relative error is at most ε (Theorem 3.2)"
                .to_string(),
            verdict: Verdict::of(holds),
            found,
        }],
        details: String::new(),
        missing: results.missing,
    })
}

fn evidences(context: &Context<'_>) -> Result<Section> {
    let results = context.run(&evidence::cells(context.profile))?;
    let done = &results.done;
    let mut curves: Vec<Curve> = Approach::IN_MEMORY
        .map(|approach| {
            let own = done.iter().filter(|d| d.cell.approach == approach);
            let points = own.map(|d| Point::new(d.outcome.bound(), d.outcome.error())).collect();
            curve(approach.title(), points, approach.color(), approach.marker(), Line::None)
        })
        .to_vec();
    let (low, high) = span(done.iter().map(|d| d.outcome.bound()));
    curves.insert(
        0,
        curve(
            "Bound of Proposition 2.1",
            vec![Point::new(low, low), Point::new(high, high)],
            BOUND,
            Marker::None,
            Line::Dashed,
        ),
    );
    let within = done.iter().filter(|d| d.outcome.error() <= d.outcome.bound()).count();
    let ratios = |approach: Approach| {
        span(
            done.iter()
                .filter(|d| d.cell.approach == approach)
                .map(|d| d.outcome.error() / d.outcome.bound()),
        )
        .1
    };
    let table = Table::new("theory-evidence")
        .text("method", done, |d| d.cell.approach.slug().to_string())
        .count("size", done, |d| d.cell.size)
        .count("seed", done, |d| d.cell.seed as usize)
        .number("log_evidence", done, |d| d.outcome.full)
        .number("log_evidence_coreset", done, |d| d.outcome.coreset)
        .number("epsilon_found", done, |d| d.outcome.epsilon)
        .number("error", done, |d| d.outcome.error())
        .number("proposition_2_1", done, |d| d.outcome.bound());
    Ok(Section {
        slug: "theory-evidence",
        title: "Proposition 2.1: the error of the marginal likelihood",
        caption: "Error of the log evidence, computed by numerical integration (5,000 rows, two coefficients, prior N(0, 4I) restricted \
                  to the ball of radius 4), and the bound ε|ln E| with the ε measured over the ball."
            .to_string(),
        chart: Chart {
            title: "Error of the log evidence".to_string(),
            panels: vec![Panel {
                title: "5,000 rows, D = 2".to_string(),
                x: Axis::new("bound ε |ln E| (nats)", Scale::Log),
                y: Axis::new("|ln E − ln Ẽ| (nats)", Scale::Log),
                curves,
                levels: Vec::new(),
            }],
            columns: 1,
        },
        tables: vec![table],
        claims: vec![Claim {
            claim: "|ln E − ln Ẽ| ≤ ε |ln E| (Proposition 2.1)".to_string(),
            verdict: Verdict::of_share(within, done.len()),
            found: format!(
                "in {within} of {} cases; the error is at most {} times the bound for coresets, {} times for calibrated coresets",
                done.len(),
                short(ratios(Approach::Coreset)),
                short(ratios(Approach::Calibrated))
            ),
        }],
        details: String::new(),
        missing: results.missing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Library;
    use crate::profile::Profile;
    use crate::runner::testing::Log;

    #[test]
    fn bounds_of_the_theorems_hold() {
        let folder = tempfile::tempdir().expect("a directory");
        let log = Log::default();
        let context = Context {
            profile: Profile::Quick,
            library: Library::new(None, Profile::Quick),
            folder: folder.path().to_path_buf(),
            threads: 2,
            deadline: None,
            watch: &log,
        };
        for section in [lower_bounds(&context), mixtures(&context)] {
            let section = section.expect("a section");
            assert_eq!((section.missing, section.claims.len()), (0, 1));
            assert_eq!(section.claims[0].verdict, Verdict::Holds, "{}", section.claims[0].found);
            let curves = section.chart.panels.iter().flat_map(|panel| &panel.curves);
            assert!(
                curves.flat_map(|curve| &curve.points).all(|point| point.y.is_finite() && point.y >= 1.0)
            );
        }
    }
}
