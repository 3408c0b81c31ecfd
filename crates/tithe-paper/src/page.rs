//! The page: every figure with its plot, its claims and the numbers that bear on them, in Markdown.

use std::fmt::Write;

use tithe_plot::Chart;

use crate::approach::Approach;
use crate::data::Set;
use crate::runner::Context;
use crate::tables::Table;

/// How a claim fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds here.
    Holds,
    /// It holds in part.
    Partly,
    /// It does not hold here.
    Fails,
}

impl Verdict {
    /// Holds or fails.
    pub fn of(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::Fails }
    }

    /// Holds if all do, fails if none does.
    pub fn of_share(holding: usize, all: usize) -> Verdict {
        match holding {
            _ if holding == all => Verdict::Holds,
            0 => Verdict::Fails,
            _ => Verdict::Partly,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Partly => "partly",
            Verdict::Fails => "does not hold",
        }
    }
}

/// A claim, and what was found of it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What is claimed.
    pub claim: String,
    /// How it fares.
    pub verdict: Verdict,
    /// The numbers.
    pub found: String,
}

/// A figure on the page.
pub struct Section {
    /// The name of its files.
    pub slug: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What is seen.
    pub caption: String,
    /// The plot.
    pub chart: Chart,
    /// Its numbers.
    pub tables: Vec<Table>,
    /// What it says.
    pub claims: Vec<Claim>,
    /// A table in Markdown, where numbers should be read.
    pub details: String,
    /// Cells that were not run.
    pub missing: usize,
}

/// The page.
pub fn markdown(context: &Context<'_>, sections: &[Section]) -> String {
    let mut page = format!(
        "# The paper's experiments, run again\n\nHuggins, Campbell and Broderick, *Coresets for Scalable Bayesian \
         Logistic Regression* (2016), with Tithe {}. Profile: {}. Every number behind a plot is in `tables/`, as CSV and \
         Parquet, with its seed.\n",
        env!("CARGO_PKG_VERSION"),
        context.profile
    );
    page += &settings(context);
    if sections.iter().any(|section| !section.claims.is_empty()) {
        page += "\n## Claims\n\n| claim | here | numbers |\n| --- | --- | --- |\n";
        for claim in sections.iter().flat_map(|section| &section.claims) {
            let cell = |text: &str| text.replace('|', "\\|");
            let (what, found) = (cell(&claim.claim), cell(&claim.found));
            let _ = writeln!(page, "| {what} | **{}** | {found} |", claim.verdict.word());
        }
    }
    for section in sections {
        let _ = write!(
            page,
            "\n## {}\n\n![{}](plots/{}.svg)\n\n{}\n",
            section.title, section.title, section.slug, section.caption
        );
        if section.missing > 0 {
            let _ = write!(page, "\n**{} cells of this figure were not run.**\n", section.missing);
        }
        if !section.details.is_empty() {
            let _ = write!(page, "\n{}", section.details);
        }
    }
    page
}

/// What was run of each set.
fn settings(context: &Context<'_>) -> String {
    let mut text = "\n| data | repeats of Figure 2 (of streams) | posteriors drawn by | sizes of calibrated coresets |\n\
                    | --- | ---: | --- | --- |\n"
        .to_string();
    for set in context.library.available() {
        let drawing = context.profile.drawing(set);
        let sizes = context.profile.sizes(set, Approach::Calibrated);
        let _ = writeln!(
            text,
            "| {} | {} ({}) | {}, {} × {} draws after {} | {} |",
            context.library.title(set),
            context.profile.repeats(set, Approach::Coreset),
            context.profile.repeats(set, Approach::Stream),
            drawing.sampler,
            drawing.chains,
            drawing.draws,
            drawing.warmup,
            sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
        );
    }
    let absent: Vec<&str> = Set::ALL
        .into_iter()
        .filter(|set| !context.library.available().contains(set))
        .map(Set::slug)
        .collect();
    if !absent.is_empty() {
        let _ = write!(text, "\nNot there, and so left out: {}.\n", absent.join(", "));
    }
    text
}

/// A number to three digits, as one reads it.
pub fn short(value: f64) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    if !(1e-2..1e4).contains(&value.abs()) {
        return format!("{value:.1e}");
    }
    let digits = (2 - value.abs().log10().floor() as i32).max(0) as usize;
    format!("{value:.digits$}")
}

/// Mean and standard deviation; no deviation of a single value.
pub fn mean_and_sd(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}
