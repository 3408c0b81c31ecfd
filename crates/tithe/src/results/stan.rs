//! Writes draws as CmdStan does: one CSV file per chain, for ArviZ, R's posterior package and CmdStan's tools.

use std::fmt::Write;

use crate::base::error::Result;
use crate::data::sink::Output;
use crate::mcmc::Sampler;
use crate::mcmc::draws::Stats;
use crate::results::fit::Fit;

/// Writes one file per chain; the files appear only after all of them are complete.
pub fn write_stan_csv(fit: &Fit, mut outputs: Vec<Output>) -> Result<()> {
    use std::io::Write as _;
    fit.refuse_groups("written in this format")?;
    for (chain, output) in outputs.iter_mut().enumerate() {
        let text = chain_text(fit, chain);
        let written = output.writer().write_all(text.as_bytes());
        written.map_err(|error| crate::base::error::Error::io("write", output.path(), error))?;
    }
    outputs.into_iter().try_for_each(Output::commit)
}

/// Makes names valid for Stan: letters, digits and underscores, beginning with a letter, unique and not reserved.
fn stan_names(names: &[String]) -> Vec<String> {
    let mut legal: Vec<String> = Vec::new();
    for name in names {
        let mut word: String =
            name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if !word.starts_with(|c: char| c.is_ascii_alphabetic()) {
            word.insert_str(0, "b_");
        }
        let word = word.trim_end_matches('_').to_string();
        let mut free = word.clone();
        let mut number = 2;
        while legal.contains(&free) {
            free = format!("{word}_{number}");
            number += 1;
        }
        legal.push(free);
    }
    legal
}

/// One chain as CmdStan writes it: settings in comments, a header and one line per draw.
fn chain_text(fit: &Fit, chain: usize) -> String {
    let names = stan_names(&fit.draws.names);
    let draws = &fit.draws.chains[chain];
    let mut text = settings_text(fit, chain);
    for (legal, name) in names.iter().zip(&fit.draws.names) {
        if legal != name {
            let _ = writeln!(text, "# '{}' is {legal}", name.replace(['\n', '\r'], " "));
        }
    }
    let header: Vec<&str> = ["lp__"]
        .into_iter()
        .chain(statistics_names(&draws.stats).iter().copied())
        .chain(names.iter().map(String::as_str))
        .collect();
    let _ = writeln!(text, "{}", header.join(","));
    if let Some(step) = draws.stats.step_size() {
        let _ = write!(text, "# Adaptation terminated\n# Step size = {step}\n");
    }
    let dim = fit.draws.dim().max(1);
    for (i, beta) in draws.theta.chunks_exact(dim).enumerate() {
        let _ = write!(text, "{}", draws.lp[i]);
        push_statistics(&mut text, &draws.stats, i);
        for value in beta {
            let _ = write!(text, ",{value}");
        }
        text.push('\n');
    }
    text
}

/// The settings as comments of the form `name = value`, which CmdStan's readers expect.
fn settings_text(fit: &Fit, chain: usize) -> String {
    let engine = match fit.sampler {
        Sampler::Nuts => {
            "#   algorithm = hmc (Default)\n#     hmc\n#       engine = nuts (Default)\n#         nuts\n#           max_depth = 10 (Default)\n"
        }
        Sampler::Mala { .. } => "#   algorithm = mala\n",
        Sampler::Laplace => "#   algorithm = laplace\n",
    };
    format!(
        "# stan_version_major = 2\n# stan_version_minor = 36\n# stan_version_patch = 0\n# model = tithe\n# method = sample (Default)\n#   sample\n#     num_samples = {}\n#     num_warmup = {}\n#     save_warmup = false (Default)\n#     thin = 1 (Default)\n{engine}# id = {}\n# random\n#   seed = {}\n",
        fit.settings.draws,
        fit.settings.warmup,
        chain + 1,
        fit.settings.seed.0
    )
}

/// Stan's names of a sampler's statistics.
fn statistics_names(stats: &Stats) -> &'static [&'static str] {
    match stats {
        Stats::Hamiltonian { .. } => {
            &["accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__", "energy__"]
        }
        Stats::Metropolis { .. } => &["accept_stat__", "stepsize__"],
        Stats::Independent => &[],
    }
}

/// Appends the statistics of draw `i`, in the order of [`statistics_names`].
fn push_statistics(text: &mut String, stats: &Stats, i: usize) {
    let _ = match stats {
        Stats::Hamiltonian { acceptance_rate, diverging, energy, tree_depth, n_steps, step_size, .. } => {
            write!(
                text,
                ",{},{step_size},{},{},{},{}",
                acceptance_rate[i],
                tree_depth[i],
                n_steps[i],
                u8::from(diverging[i]),
                energy[i]
            )
        }
        Stats::Metropolis { acceptance_rate, step_size } => {
            write!(text, ",{},{step_size}", acceptance_rate[i])
        }
        Stats::Independent => Ok(()),
    };
}
