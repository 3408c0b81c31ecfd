"""ArviZ, pandas and NumPyro read what `tithe fit` and `tithe export` write, and agree with it."""

import json
import runpy

import arviz
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

FACTS = [
    ("mean", "mean"),
    ("sd", "sd"),
    ("mcse_mean", "mcse_mean"),
    ("ess_bulk", "ess_bulk"),
    ("ess_tail", "ess_tail"),
    ("r_hat", "r_hat"),
]


@pytest.fixture(scope="session")
def fitted(command, folder):
    """The record of the fit that wrote post.parquet."""
    return command("fit", "core.parquet", "-o", "post.parquet", "--seed", 5, cwd=folder)


def summary_of(inference_data):
    return arviz.summary(inference_data, round_to="none")


def test_arviz_reads_stan_csv_and_finds_the_same_summary(command, folder):
    record = command("fit", "core.parquet", "-o", "draws.csv", "--output-format", "stan-csv", "--seed", 5, cwd=folder)
    data = arviz.from_cmdstan(posterior=sorted(str(path) for path in folder.glob("draws_*.csv")))
    assert data.posterior.sizes["chain"] == 4 and data.posterior.sizes["draw"] == 1000
    theirs = summary_of(data)
    for ours in record["summary"]:
        for our_name, their_name in FACTS:
            assert theirs.loc[ours["name"], their_name] == pytest.approx(ours[our_name], rel=1e-9), ours["name"]
    assert not data.sample_stats["diverging"].values.any()
    assert {"lp", "acceptance_rate", "step_size", "tree_depth", "n_steps", "energy"} <= set(data.sample_stats.data_vars)


def test_pandas_and_arviz_read_the_parquet_file(folder, fitted):
    table = pd.read_parquet(folder / "post.parquet")
    assert list(table.columns[:4]) == ["chain", "draw", "intercept", "x1"]
    names = [c["name"] for c in fitted["summary"]]
    draws = {name: table[name].to_numpy().reshape(4, 1000) for name in names}
    theirs = summary_of(arviz.from_dict(posterior=draws))
    for ours in fitted["summary"]:
        for our_name, their_name in FACTS:
            assert theirs.loc[ours["name"], their_name] == pytest.approx(ours[our_name], rel=1e-9), ours["name"]
    story = json.loads(pyarrow.parquet.read_metadata(folder / "post.parquet").metadata[b"tithe"])
    assert story["basis"]["provenance"]["rows"] == 20000


def test_the_parquet_and_the_csv_hold_the_same_draws(folder, fitted):
    table = pd.read_parquet(folder / "post.parquet")
    csv = pd.concat(pd.read_csv(folder / f"draws_{chain}.csv", comment="#") for chain in range(1, 5))
    for ours, theirs in [("x7", "x7"), ("lp", "lp__"), ("energy", "energy__"), ("n_steps", "n_leapfrog__")]:
        np.testing.assert_array_equal(table[ours].to_numpy(), csv[theirs].to_numpy())


@pytest.mark.parametrize("prior", ["normal:2", "cauchy:2.5"])
def test_an_exported_numpyro_model_agrees(command, folder, prior):
    out = f"numpyro-{prior.split(':')[0]}"
    command("export", "core.parquet", "--to", "numpyro", "-o", out, "--prior", prior, cwd=folder)
    ours = command("fit", "core.parquet", "--prior", prior, "--draws", 4000, cwd=folder)["summary"]
    module = runpy.run_path(str(folder / out / "model.py"))
    beta = module["to_user_scale"](module["fit"](chains=4, draws=2000))
    assert module["names"] == [c["name"] for c in ours]
    for i, c in enumerate(ours):
        draws = beta[:, :, i]
        # Four combined Monte Carlo errors; 11 coefficients, mean and sd, two priors: a false alarm in 350 seeds.
        error = np.hypot(c["mcse_mean"], arviz.mcse(draws, method="mean"))
        assert abs(draws.mean() - c["mean"]) < 4 * error, c["name"]
        error = np.hypot(c["mcse_sd"], arviz.mcse(draws, method="sd"))
        assert abs(draws.std(ddof=1) - c["sd"]) < 4 * error, c["name"]
