"""Compares Tithe with NumPy and nutpie: a gradient with NumPy, NUTS with nutpie on the same weighted rows, and the time from a
million rows in Parquet to 4 x 1000 draws with nutpie on all rows.

    python benchmarks/posterior.py TITHE GRADIENT [gradient] [ess] [million]

TITHE is the command-line program and GRADIENT the example `gradient`, both release builds. Prints one JSON object per line.
Requires the packages in benchmarks/posterior-requirements.txt.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

CORES = os.cpu_count()


def report(**values):
    print(json.dumps(values), flush=True)


def run(*command, cwd=None):
    done = subprocess.run([str(word) for word in command], cwd=cwd, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def gradient(program):
    """Value and gradient of the weighted log-likelihood, 1,000 x 10."""
    rows, dim = 1000, 10
    rng = np.random.default_rng(1)
    z, w = rng.uniform(-2, 2, (rows, dim)), rng.uniform(1, 2, rows)
    theta = 0.3 - 0.1 * np.arange(dim)

    def value_and_gradient():
        s = z @ theta
        value = -(w @ np.logaddexp(0, -s))
        return value, z.T @ (w / (1 + np.exp(s)))

    best = np.inf
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(5000):
            value_and_gradient()
        best = min(best, (time.perf_counter() - start) / 5000)
    ours = run(program, rows, dim)["seconds"]
    report(benchmark="gradient", rows=rows, dim=dim, tithe=ours, numpy=best, ratio=best / ours)


def nutpie_model(x, y, weight):
    """The same posterior for nutpie: a PyMC model compiled with numba, with prior N(0, 4I)."""
    import nutpie
    import pymc as pm

    sign = 2 * y - 1
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 2, shape=x.shape[1])
        pm.Potential("likelihood", -pm.math.sum(weight * pm.math.log1pexp(-sign * pm.math.dot(x, theta))))
    return nutpie.compile_pymc_model(model)


def draw(model, chains=4, draws=1000, tune=1000):
    import nutpie

    start = time.perf_counter()
    trace = nutpie.sample(model, chains=chains, draws=draws, tune=tune, cores=min(chains, CORES), seed=1, progress_bar=False)
    return trace, time.perf_counter() - start


def least_ess(trace):
    import arviz

    return float(arviz.ess(trace.posterior)["theta"].min())


def exported(tithe, folder, core):
    run(tithe, "export", core, "--to", "numpyro", "-o", "export", "--json", cwd=folder)
    data = json.loads((folder / "export" / "data.json").read_text())
    return tuple(np.asarray(data[key], dtype=float) for key in ("X", "y", "weight"))


def ess(tithe, folder):
    """Effective sample size per second on the same weighted rows: the minimum over coefficients."""
    run(tithe, "generate", "mixture", "--rows", 1_000_000, "-o", "data.parquet", "--json", cwd=folder)
    run(tithe, "build", "data.parquet", "--label", "y", "--size", 1000, "-o", "core.parquet", "--json", cwd=folder)
    model = nutpie_model(*exported(tithe, folder, "core.parquet"))
    draw(model, draws=50, tune=50)
    ours, theirs = [], []
    for _ in range(3):
        record = run(tithe, "fit", "core.parquet", "--intercept-prior", "normal:2", "--json", cwd=folder)
        ours.append(min(c["ess_bulk"] for c in record["summary"]) / record["seconds"])
        trace, seconds = draw(model)
        theirs.append(least_ess(trace) / seconds)
    report(benchmark="ess-per-second", rows=1000, dim=11, tithe=max(ours), nutpie=max(theirs), ratio=max(ours) / max(theirs))


def million(tithe, folder):
    """Time from a Parquet file with a million rows to 4 x 1000 draws. nutpie uses all rows; to keep the benchmark short it
    makes 10 draws after 10 warm-up iterations, and its time is multiplied by 100. Its mean number of steps per draw is printed."""
    import pyarrow.parquet

    if not (folder / "data.parquet").exists():
        run(tithe, "generate", "mixture", "--rows", 1_000_000, "-o", "data.parquet", "--json", cwd=folder)
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        run(tithe, "build", "data.parquet", "--label", "y", "--size", 1000, "-o", "core.parquet", "--json", cwd=folder)
        run(tithe, "fit", "core.parquet", "--intercept-prior", "normal:2", "-o", "post.parquet", "--json", cwd=folder)
        best = min(best, time.perf_counter() - start)
    start = time.perf_counter()
    table = pyarrow.parquet.read_table(folder / "data.parquet")
    x = np.column_stack([np.ones(table.num_rows)] + [table[f"x{d}"].to_numpy() for d in range(1, 11)])
    x[:, 1:] = (x[:, 1:] - x[:, 1:].mean(axis=0)) / x[:, 1:].std(axis=0)
    model = nutpie_model(x, (table["y"].to_numpy() > 0).astype(float), np.ones(table.num_rows))
    reading = time.perf_counter() - start
    trace, seconds = draw(model, draws=10, tune=10)
    steps = float(trace.sample_stats["n_steps"].mean()) if "n_steps" in trace.sample_stats else None
    total = reading + 100 * seconds
    report(benchmark="million", tithe=best, nutpie=total, nutpie_measured=seconds, nutpie_steps=steps, ratio=total / best)


if __name__ == "__main__":
    tithe, program, *names = sys.argv[1:]
    tithe, names = pathlib.Path(tithe).resolve(), names or ["gradient", "ess", "million"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            if name == "gradient":
                gradient(program)
            else:
                {"ess": ess, "million": million}[name](tithe, pathlib.Path(folder))
