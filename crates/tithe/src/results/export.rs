//! Exports a coreset to other tools: its weighted rows as JSON, with a complete model for Stan, PyMC or NumPyro.

use serde_json::{Value, json};

use crate::base::error::Result;
use crate::coreset::Coreset;
use crate::model::{Prior, Priors};

/// The tools that a model can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Stan.
    Stan,
    /// PyMC.
    Pymc,
    /// NumPyro.
    Numpyro,
}

/// The exported files: names and contents.
pub fn export(coreset: &Coreset, priors: &Priors, tool: Tool) -> Result<Vec<(&'static str, String)>> {
    coreset.refuse_groups("exported")?;
    let names = coreset.encoding.distinct_names()?;
    let (model_name, model) = match tool {
        Tool::Stan => ("model.stan", stan(&names, priors)),
        Tool::Pymc => ("model.py", pymc(&names, priors)),
        Tool::Numpyro => ("model.py", numpyro(&names, priors)),
    };
    let mut data = data(coreset, &names)?;
    if let (Tool::Stan, Some(data)) = (tool, data.as_object_mut()) {
        // Stan reads only numbers; the names are in a comment at the start of its model.
        data.retain(|key, _| !["coefficients", "label"].contains(&key.as_str()));
    }
    Ok(vec![("data.json", format!("{data}\n")), (model_name, model)])
}

/// The data of the models: standardised rows, and labels 0 and 1.
fn data(coreset: &Coreset, names: &[String]) -> Result<Value> {
    let points = coreset.points()?;
    let dim = names.len();
    let (center, scale) = coreset.encoding.transform();
    let labels = coreset.labels()?;
    let row = |n: usize, is_positive: bool| -> Vec<f64> {
        points.row(n).iter().map(|z| if is_positive { z + 0.0 } else { 0.0 - z }).collect()
    };
    let x: Vec<Vec<f64>> = labels.iter().enumerate().map(|(n, label)| row(n, *label)).collect();
    let y: Vec<u8> = labels.into_iter().map(u8::from).collect();
    Ok(json!({
        "N": points.len(),
        "D": dim,
        "X": x,
        "y": y,
        "weight": points.weights(),
        "center": center,
        "scale": scale,
        "intercept": u8::from(coreset.encoding.intercept),
        "coefficients": names,
        "label": coreset.encoding.label,
        "rows": coreset.provenance.rows,
    }))
}

/// The comment at the start of every model.
fn heading(comment: &str, names: &[String], priors: &Priors) -> String {
    let mut lines = vec![
        "Bayesian logistic regression on a coreset: each row represents `weight` rows of the full data.".to_string(),
        "X is standardised; theta and its priors are on that scale. On the data's own scale the coefficients are"
            .to_string(),
        "beta = theta / scale, and the intercept is theta[intercept] - sum(beta * center).".to_string(),
        "The coefficients, in order, and their priors:".to_string(),
    ];
    let name_of = |name: &String| name.replace(['\n', '\r'], " ");
    lines.extend(
        names.iter().zip(&priors.coefficients).map(|(name, prior)| format!("  {}: {prior}", name_of(name))),
    );
    lines.iter().map(|line| format!("{comment} {line}\n")).collect()
}

/// One line per run of equal priors, written by `line(first, last, prior)` with positions from 0.
fn prior_lines(priors: &Priors, line: impl Fn(usize, usize, &Prior) -> Option<String>) -> String {
    let mut text = String::new();
    let mut first = 0;
    for run in priors.coefficients.chunk_by(|a, b| a == b) {
        text.extend(line(first, first + run.len(), &run[0]).map(|line| line + "\n"));
        first += run.len();
    }
    text
}

fn stan(names: &[String], priors: &Priors) -> String {
    let prior = prior_lines(priors, |from, to, prior| {
        let range = format!("theta[{}:{to}]", from + 1);
        Some(match *prior {
            Prior::Flat => return None,
            Prior::Normal { scale } => format!("  {range} ~ normal(0, {scale});"),
            Prior::Cauchy { scale } => format!("  {range} ~ cauchy(0, {scale});"),
            Prior::StudentT { degrees, scale } => format!("  {range} ~ student_t({degrees}, 0, {scale});"),
            Prior::Laplace { scale } => format!("  {range} ~ double_exponential(0, {scale});"),
            Prior::SpikeSlab { spike, slab, inclusion } => format!(
                "  for (d in {}:{to}) target += log_mix({inclusion}, normal_lpdf(theta[d] | 0, {slab}), normal_lpdf(theta[d] | 0, {spike}));",
                from + 1
            ),
        })
    });
    heading("//", names, priors)
        + "data {
  int<lower=0> N;
  int<lower=1> D;
  matrix[N, D] X;
  array[N] int<lower=0, upper=1> y;
  vector<lower=0>[N] weight;
  vector[D] center;
  vector<lower=0>[D] scale;
  int<lower=0, upper=1> intercept;
}
transformed data {
  vector[N] sign;
  for (n in 1:N) sign[n] = 2 * y[n] - 1;
}
parameters {
  vector[D] theta;
}
model {
" + &prior
        + "  target += -dot_product(weight, log1p_exp(-(sign .* (X * theta))));
}
generated quantities {
  vector[D] beta = theta ./ scale;
  if (intercept) beta[1] = theta[1] - dot_product(tail(beta, D - 1), tail(center, D - 1));
}
"
}

const PYTHON_DATA: &str = r#"data = json.loads((pathlib.Path(__file__).parent / "data.json").read_text())
names = data["coefficients"]
X, y, weight = (np.asarray(data[key], dtype=float) for key in ("X", "y", "weight"))
center, scale = np.asarray(data["center"]), np.asarray(data["scale"])
sign = 2 * y - 1


def to_user_scale(theta):
    """Coefficients on the data's own scale; the last axis of theta is the coefficients'."""
    beta = np.asarray(theta) / scale
    if data["intercept"]:
        beta[..., 0] -= beta[..., 1:] @ center[1:]
    return beta
"#;

fn pymc(names: &[String], priors: &Priors) -> String {
    let prior = prior_lines(priors, |from, to, prior| {
        let n = to - from;
        let name = format!("\"theta_{from}\"");
        let line = match *prior {
            Prior::Flat => format!("pm.Flat({name}, shape={n})"),
            Prior::Normal { scale } => format!("pm.Normal({name}, 0, {scale}, shape={n})"),
            Prior::Cauchy { scale } => format!("pm.Cauchy({name}, 0, {scale}, shape={n})"),
            Prior::StudentT { degrees, scale } => {
                format!("pm.StudentT({name}, nu={degrees}, mu=0, sigma={scale}, shape={n})")
            }
            Prior::Laplace { scale } => format!("pm.Laplace({name}, 0, {scale}, shape={n})"),
            Prior::SpikeSlab { spike, slab, inclusion } => format!(
                "pm.NormalMixture({name}, w=[{}, {inclusion}], mu=[0, 0], sigma=[{spike}, {slab}], shape={n})",
                1.0 - inclusion
            ),
        };
        Some(format!("    parts.append({line})"))
    });
    heading("#", names, priors)
        + "import json\nimport pathlib\n\nimport numpy as np\nimport pymc as pm\n\n"
        + PYTHON_DATA
        + "\n\nwith pm.Model(coords={\"coefficient\": names}) as model:\n    parts = []\n"
        + &prior
        + r#"    theta = pm.Deterministic("theta", pm.math.concatenate(parts), dims="coefficient")
    pm.Potential("likelihood", -pm.math.sum(weight * pm.math.log1pexp(-sign * pm.math.dot(X, theta))))


if __name__ == "__main__":
    with model:
        posterior = pm.sample(random_seed=1)
    beta = to_user_scale(posterior.posterior["theta"].values)
    for name, draws in zip(names, np.moveaxis(beta, -1, 0)):
        print(f"{name}: mean {draws.mean():.4g}, sd {draws.std(ddof=1):.4g}")
"#
}

fn numpyro(names: &[String], priors: &Priors) -> String {
    let prior = prior_lines(priors, |from, to, prior| {
        let n = to - from;
        let line = match *prior {
            Prior::Flat => format!("dist.ImproperUniform(dist.constraints.real, (), ({n},))"),
            Prior::Normal { scale } => format!("dist.Normal(0, {scale}).expand([{n}])"),
            Prior::Cauchy { scale } => format!("dist.Cauchy(0, {scale}).expand([{n}])"),
            Prior::StudentT { degrees, scale } => {
                format!("dist.StudentT({degrees}, 0, {scale}).expand([{n}])")
            }
            Prior::Laplace { scale } => format!("dist.Laplace(0, {scale}).expand([{n}])"),
            Prior::SpikeSlab { spike, slab, inclusion } => format!(
                "dist.MixtureSameFamily(dist.Categorical(jnp.array([{}, {inclusion}])), dist.Normal(0, jnp.array([{spike}, {slab}]))).expand([{n}])",
                1.0 - inclusion
            ),
        };
        Some(format!("    parts.append(numpyro.sample(\"theta_{from}\", {line}))"))
    });
    heading("#", names, priors)
        + "import json\nimport pathlib\n\nimport jax\nimport jax.numpy as jnp\nimport numpy as np\nimport numpyro\nimport numpyro.distributions as dist\n\nnumpyro.enable_x64()\n\n"
        + PYTHON_DATA
        + "\n\ndef model():\n    parts = []\n"
        + &prior
        + r#"    theta = numpyro.deterministic("theta", jnp.concatenate(parts))
    numpyro.factor("likelihood", -jnp.sum(weight * jax.nn.softplus(-sign * (X @ theta))))


def fit(chains=4, draws=1000, warmup=1000, seed=1):
    """Draws of theta: chains x draws x coefficients."""
    kernel = numpyro.infer.NUTS(model, dense_mass=True)
    mcmc = numpyro.infer.MCMC(
        kernel, num_warmup=warmup, num_samples=draws, num_chains=chains, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.PRNGKey(seed))
    return np.asarray(mcmc.get_samples(group_by_chain=True)["theta"])


if __name__ == "__main__":
    beta = to_user_scale(fit())
    for name, draws in zip(names, np.moveaxis(beta, -1, 0)):
        print(f"{name}: mean {draws.mean():.4g}, sd {draws.std(ddof=1):.4g}")
"#
}
