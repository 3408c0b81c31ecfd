//! `tithe groups`: scales and group effects of a hierarchical model.

use serde_json::json;
use tithe::base::error::{ErrorKind, Result};
use tithe::mcmc::diagnostics::CoefficientSummary;
use tithe::results::file::read_posterior;
use tithe::results::fit::Fit;
use tithe::results::groups::GroupPosterior;

use crate::args::{GroupOrder, GroupsArgs};
use crate::show::{self, counted, number, printable};

/// Prints scales and a table of groups.
pub fn run(args: &GroupsArgs) -> Result<()> {
    let fit = read_posterior(&args.posterior)?;
    let Some(groups) = &fit.groups else {
        return Err(ErrorKind::WrongFile {
            path: args.posterior.clone(),
            what: "has no group effects".to_string(),
            help: Some("fit a formula with a group term, such as \"y ~ x + (1 | g)\"".into()),
        }
        .into());
    };
    let chosen = chosen(groups, args);
    if args.show.json {
        let record = json!({"scales": groups.scale_summary, "effects": chosen});
        show::print(&format!("{record}\n"));
        return Ok(());
    }
    let all = groups.effect_summary.len();
    let mut text = scales_table(&fit);
    text += &table("group effect", chosen.iter().copied());
    if chosen.len() < all {
        text += &format!("{} of {}\n", chosen.len(), counted(all as u64, "group effect"));
    }
    show::print(&text);
    Ok(())
}

/// The group effects to show, in order.
fn chosen<'a>(groups: &'a GroupPosterior, args: &GroupsArgs) -> Vec<&'a CoefficientSummary> {
    let named = |summary: &&CoefficientSummary| {
        args.term.as_ref().is_none_or(|term| summary.name.starts_with(&format!("{term}[")))
    };
    let mut chosen: Vec<&CoefficientSummary> = groups.effect_summary.iter().filter(named).collect();
    match args.sort {
        GroupOrder::Name => {}
        GroupOrder::Mean => chosen.sort_by(|a, b| b.mean.total_cmp(&a.mean)),
        GroupOrder::Size => chosen.sort_by(|a, b| b.mean.abs().total_cmp(&a.mean.abs())),
        GroupOrder::Sd => chosen.sort_by(|a, b| b.sd.total_cmp(&a.sd)),
        GroupOrder::Ess => chosen.sort_by(|a, b| a.ess_bulk.total_cmp(&b.ess_bulk)),
    }
    chosen.truncate(args.top.unwrap_or(usize::MAX));
    chosen
}

/// The table of scales and correlations; empty for models without group effects.
pub fn scales_table(fit: &Fit) -> String {
    let Some(groups) = &fit.groups else { return String::new() };
    let counts = groups.factors.iter().map(|factor| {
        let prior = factor.prior.scales.first().map(ToString::to_string).unwrap_or_default();
        let lkj = factor.prior.correlation.map_or(String::new(), |eta| format!(", correlations lkj:{eta}"));
        format!(
            "{}: {} (sd {prior} on the model's scale{lkj})\n",
            printable(&factor.name),
            counted(factor.levels.len() as u64, "group")
        )
    });
    format!("{}{}", table("scale", groups.scale_summary.iter()), counts.collect::<String>())
}

fn table<'a>(heading: &str, rows: impl Iterator<Item = &'a CoefficientSummary> + Clone) -> String {
    let width =
        rows.clone().map(|row| printable(&row.name).chars().count()).max().unwrap_or(0).max(heading.len());
    let mut text = format!(
        "{heading:<width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6} {:>6}\n",
        "mean", "sd", "5 %", "median", "95 %", "R-hat", "ESS"
    );
    for row in rows {
        text += &format!(
            "{:<width$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6.3} {:>6.0}\n",
            printable(&row.name),
            number(row.mean),
            number(row.sd),
            number(row.q05),
            number(row.q50),
            number(row.q95),
            row.r_hat,
            row.ess_bulk.min(row.ess_tail),
        );
    }
    text
}
