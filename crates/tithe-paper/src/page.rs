//! The results page in Markdown: each figure with its plot, the claims of the paper, and the measured values.

use std::fmt::Write;

use tithe_plot::Chart;

use crate::approach::Approach;
use crate::data::Set;
use crate::runner::Context;
use crate::tables::Table;

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds in all cases.
    Holds,
    /// It holds in some cases.
    Partly,
    /// It does not hold.
    Fails,
}

impl Verdict {
    /// `Holds` if true, `Fails` if false.
    pub fn of(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::Fails }
    }

    /// `Holds` if all cases hold, `Fails` if none does, otherwise `Partly`.
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

/// A claim of the paper and the evidence for or against it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The claim.
    pub claim: String,
    /// Whether it holds.
    pub verdict: Verdict,
    /// The measured values.
    pub found: String,
}

/// A section of the page: one figure.
pub struct Section {
    /// File name of plot and tables, without extension.
    pub slug: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Caption below the plot.
    pub caption: String,
    /// The plot.
    pub chart: Chart,
    /// The values behind the plot.
    pub tables: Vec<Table>,
    /// Claims that the figure tests.
    pub claims: Vec<Claim>,
    /// A Markdown table below the caption; may be empty.
    pub details: String,
    /// Number of cells that were not run.
    pub missing: usize,
}

/// Creates the page.
pub fn markdown(context: &Context<'_>, sections: &[Section]) -> String {
    let mut page = format!(
        "# The paper's experiments, reproduced\n\nHuggins, Campbell and Broderick, *Coresets for Scalable Bayesian \
         Logistic Regression* (2016), reproduced with Tithe {}. Profile: {}. The values behind each plot, with their \
         seeds, are in `tables/` as CSV and Parquet.\n",
        env!("CARGO_PKG_VERSION"),
        context.profile
    );
    page += &settings(context);
    if sections.iter().any(|section| !section.claims.is_empty()) {
        page += "\n## Claims\n\n| claim | result | measured |\n| --- | --- | --- |\n";
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

/// The table of settings per data set.
fn settings(context: &Context<'_>) -> String {
    let mut text = "\n| data | repeats in Figure 2 (streams) | sampler | sizes of calibrated coresets |\n\
                    | --- | ---: | --- | --- |\n"
        .to_string();
    for set in context.library.available() {
        let drawing = context.profile.drawing(set);
        let sizes = context.profile.sizes(set, Approach::Calibrated);
        let _ = writeln!(
            text,
            "| {} | {} ({}) | {}, {} × {} draws after {} warm-up iterations | {} |",
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
        let _ = write!(text, "\nNot available and therefore left out: {}.\n", absent.join(", "));
    }
    text
}

/// A number with three significant digits, or two in scientific notation if it is very small or large.
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

/// Mean and standard deviation; the latter is `None` for a single value.
pub fn mean_and_sd(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Library;
    use crate::profile::Profile;
    use crate::runner::testing::Log;

    fn section(slug: &'static str, claims: Vec<Claim>) -> Section {
        Section {
            slug,
            title: "A title",
            caption: "A caption.".to_string(),
            chart: Chart { title: String::new(), panels: Vec::new(), columns: 1 },
            tables: Vec::new(),
            claims,
            details: String::new(),
            missing: 0,
        }
    }

    fn page(sections: &[Section]) -> String {
        let log = Log::default();
        let context = Context {
            profile: Profile::Night,
            library: Library::new(None, Profile::Night),
            folder: "out".into(),
            threads: 1,
            deadline: None,
            watch: &log,
        };
        markdown(&context, sections)
    }

    #[test]
    fn every_table_of_the_page_is_rectangular() {
        let claim = |claim: &str| Claim {
            claim: claim.to_string(),
            verdict: Verdict::Partly,
            found: "|a| < 1".to_string(),
        };
        let page = page(&[section("x", vec![claim("|ln E|"), claim("b")])]);
        // Columns are separated by bars without a backslash.
        let columns = |line: &str| line.replace("\\|", "").matches('|').count() - 1;
        let mut width = None;
        let mut tables = 0;
        for line in page.lines() {
            if line.starts_with('|') {
                tables += usize::from(width.is_none());
                let width = *width.get_or_insert(columns(line));
                assert_eq!(columns(line), width, "{line}");
            } else {
                width = None;
            }
        }
        assert_eq!(tables, 2);
        assert!(page.contains("| \\|ln E\\| | **partly** | \\|a\\| < 1 |\n"), "{page}");
    }

    #[test]
    fn sections_link_their_plots_and_count_missing_cells() {
        let mut second = section("second", Vec::new());
        (second.missing, second.details) = (3, "| details |\n".to_string());
        let page = page(&[section("first", Vec::new()), second]);
        let first = page.find("![A title](plots/first.svg)\n\nA caption.\n").expect("the first plot");
        let second = page.find("![A title](plots/second.svg)").expect("the second plot");
        assert!(first < second);
        let missing = page.find("**3 cells of this figure were not run.**").expect("the missing cells");
        assert!(missing > second && page.matches("were not run").count() == 1);
        assert!(page.ends_with("\n| details |\n"));
        assert!(!page.contains("## Claims"), "without claims there is no table of claims");
    }

    #[test]
    fn the_page_lists_settings_of_available_data_and_names_what_is_missing() {
        let page = page(&[]);
        assert!(page.contains("Profile: night."));
        assert!(
            page.contains(
                "| Binary5 | 20 (3) | nuts, 2 × 1000 draws after 200 warm-up iterations | 156, 312,"
            )
        );
        assert!(page.contains("left out: chemreact, webspam, covtype.\n"));
    }

    #[test]
    fn verdicts_follow_the_share_of_cases() {
        assert_eq!(
            [0, 1, 2].map(|n| Verdict::of_share(n, 2)),
            [Verdict::Fails, Verdict::Partly, Verdict::Holds]
        );
        assert_eq!([true, false].map(Verdict::of), [Verdict::Holds, Verdict::Fails]);
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1.00"),
            (12.345, "12.3"),
            (123.45, "123"),
            (1234.5, "1234"),
            (0.012_345, "0.0123"),
            (-0.5, "-0.500"),
            (0.001_26, "1.3e-3"),
            (12_345.0, "1.2e4"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn mean_and_standard_deviation_are_those_of_a_sample() {
        // Squared deviations 9, 1, 1, 1, 0, 0, 4, 16: their sum is 32, divided by 7.
        let (mean, sd) = mean_and_sd(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(mean, 5.0);
        assert!((sd.expect("a deviation") - (32f64 / 7.0).sqrt()).abs() < 1e-15);
        assert_eq!(mean_and_sd(&[3.0]), (3.0, None));
    }
}
