"""Outputs: data frames, ArviZ, predictions, pickles, and the display in notebooks."""

import dataclasses
import inspect
import pickle
from types import SimpleNamespace

import arviz
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import tithe


def test_frames_hold_the_same_rows(core, table):
    arrow = core.to_arrow()
    assert arrow.column_names == [*table.column_names, "weight", "row"]
    assert isinstance(core.to_pandas(), pd.DataFrame) and isinstance(core.to_polars(), pl.DataFrame)
    pd.testing.assert_frame_equal(core.to_pandas(), core.to_polars().to_arrow().to_pandas())
    whole = table.to_pandas()
    pd.testing.assert_frame_equal(core.to_pandas()[table.column_names], whole.iloc[core.rows].reset_index(drop=True))
    np.testing.assert_array_equal(core.X, whole.iloc[core.rows].to_numpy()[:, :-1])
    np.testing.assert_array_equal(core.y, (whole["y"].iloc[core.rows] > 0).astype(int))
    assert pa.table(core).equals(arrow)
    assert len(core) == len(core.weights) == len(core.rows)


@pytest.mark.parametrize("sampler", ["nuts", "mala", "laplace"])
def test_arviz_finds_the_same_summary(core, sampler):
    posterior = core.fit(sampler=sampler, seed=3)
    data = posterior.to_arviz()
    ours, theirs = posterior.summary(), arviz.summary(data, round_to="none")
    assert list(theirs.index) == list(ours.index) == posterior.coefficients
    for name in ["mean", "sd", "mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat"]:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, err_msg=name)
    assert data.posterior.sizes == {"chain": 4, "draw": 1000}
    wanted = {
        "nuts": {
            "lp",
            "acceptance_rate",
            "step_size",
            "diverging",
            "energy",
            "tree_depth",
            "n_steps",
            "reached_max_treedepth",
        },
        "mala": {"lp", "acceptance_rate", "step_size"},
        "laplace": {"lp"},
    }
    assert set(data.sample_stats.data_vars) == wanted[sampler]


def test_coefficients_called_as_arvizs_dimensions_are_kept(matrix):
    names = ["chain", "draw", "draw_"]
    posterior = tithe.build(matrix[0][:2000, :3], matrix[1][:2000], columns=names, size=100).fit(chains=2, draws=50)
    data = posterior.to_arviz()
    assert list(data.posterior.data_vars) == ["intercept", "chain_", "draw__", "draw_"]
    for place, name in enumerate(data.posterior.data_vars):
        np.testing.assert_array_equal(data.posterior[name], posterior.draws[:, :, place])


def test_arviz_gets_the_rows_with_their_weights(core, posterior, tmp_path):
    data = posterior.to_arviz(posterior_predictive=True, seed=4)
    np.testing.assert_array_equal(data.observed_data["y"], core.y)
    np.testing.assert_array_equal(data.constant_data["row"], core.rows)
    found = data.log_likelihood["y"]
    assert found.dims == ("chain", "draw", "row") and found.shape == (4, 1000, len(core))
    # One draw, written out: w·ln p(y).
    theta = posterior.draws[2, 7]
    chance = 1 / (1 + np.exp(-(theta[0] + core.X @ theta[1:])))
    np.testing.assert_allclose(found[2, 7], core.weights * np.log(np.where(core.y == 1, chance, 1 - chance)), rtol=1e-9)
    # At the mode, the weighted labels sum to the weighted probabilities; the prior and the draws move this by little.
    labels = data.posterior_predictive["y"].to_numpy()
    assert set(np.unique(labels)) == {0, 1}
    mass = np.average(labels, axis=-1, weights=core.weights)
    wanted = np.average(core.y, weights=core.weights)
    # The mean of 4,000 draws is within 6 standard errors except once in 10⁸ runs.
    assert abs(mass.mean() - wanted) < 6 * mass.std() / np.sqrt(mass.size) + 1e-3
    assert np.isfinite(arviz.loo(data, var_name="y").elpd_loo)
    posterior.write(tmp_path / "posterior.parquet")
    again = tithe.read_posterior(tmp_path / "posterior.parquet")
    assert "log_likelihood" not in again.to_arviz().groups()
    np.testing.assert_array_equal(again.to_arviz(core).log_likelihood["y"], found)
    with pytest.raises(tithe.SettingError, match="posterior_predictive: needs the rows"):
        again.to_arviz(posterior_predictive=True)
    with pytest.raises(tithe.SettingError, match="coreset: is not the one"):
        again.to_arviz(tithe.build(core.X, core.y, label="y", size=100))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(posterior)).to_arviz().log_likelihood["y"], found)


def test_plots_are_arvizs(posterior):
    import matplotlib

    matplotlib.use("Agg")
    assert posterior.plot("forest", var_names=["x1", "x2"]) is not None
    with pytest.raises(tithe.SettingError, match=r"kind must be a plot of ArviZ \S+, but is 'cake'"):
        posterior.plot("cake")


def test_arviz_1_gets_its_groups_as_one_dictionary(posterior, monkeypatch):
    # It needs a newer Python than these tests run on.
    def from_dict(data, *, name=None, sample_dims=None, coords=None, dims=None):
        return SimpleNamespace(posterior=SimpleNamespace(attrs={}), data=data)

    monkeypatch.setattr(arviz, "from_dict", from_dict)
    made = posterior.to_arviz()
    assert list(made.data) == ["posterior", "sample_stats", "observed_data", "constant_data", "log_likelihood"]
    assert list(made.data["posterior"]) == posterior.coefficients
    assert made.posterior.attrs["inference_library"] == "tithe"


def test_predictions_are_the_command_lines(command, folder, posterior, table, matrix):
    posterior.write(folder / "by-python.parquet")
    table, X = table.slice(0, 1000), matrix[0][:1000]
    pyarrow.parquet.write_table(table, folder / "new.parquet")
    command("predict", "by-python.parquet", "new.parquet", "-o", "predicted.parquet", "--interval", 0.8, cwd=folder)
    wanted = pd.read_parquet(folder / "predicted.parquet")
    for data in [folder / "new.parquet", table, table.to_pandas(), X, np.asfortranarray(X)]:
        probabilities = posterior.predict_proba(data)
        np.testing.assert_array_equal(probabilities[:, 1], wanted["probability"])
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    interval = posterior.predict_interval(table, interval=0.8)
    np.testing.assert_array_equal(interval, wanted[["probability_lower", "probability_upper"]])


def test_no_rows_have_no_probabilities(posterior, table, matrix):
    for data in [table.slice(0, 0), table.to_pandas()[:0], pl.from_arrow(table)[:0], matrix[0][:0]]:
        assert posterior.predict_proba(data).shape == posterior.predict_interval(data).shape == (0, 2)


def test_checks_can_be_compared(posterior, matrix):
    found = posterior.verify(*matrix)
    assert found == posterior.verify(*matrix) and found != posterior.verify(*matrix, draws=200)
    assert found == pickle.loads(pickle.dumps(found)) and found != "another thing"
    odd = dataclasses.replace(found, k_hat=float("nan"), drawn={"x1": {"mean": float("nan")}})
    assert odd == pickle.loads(pickle.dumps(odd)) and odd != found
    assert found != dataclasses.replace(found, weights=found.weights[::-1])


def test_the_check_has_the_same_arguments_as_a_method():
    function, method = (inspect.signature(each).parameters for each in (tithe.verify, tithe.Posterior.verify))
    assert list(function.values())[1:] == list(method.values())[1:]


def test_the_check_against_all_data_is_the_command_lines(command, folder, posterior, table, matrix):
    posterior.write(folder / "to-verify.parquet")
    record = command("verify", "to-verify.parquet", "--data", "data.parquet", cwd=folder)
    for data in [(folder / "data.parquet",), (table,), matrix]:
        found = tithe.verify(posterior, *data)
        assert (found.kl, found.verdict, found.n_rows) == (record["kl"], record["verdict"], 20_000)
        assert found.corrected == record["corrected"] and found.drawn == record["drawn"]
    assert found.same_data and found.weights.sum() == pytest.approx(1.0)
    assert found.summary().loc["x1", ("corrected", "mean")] == record["corrected"]["x1"]["mean"]
    assert posterior.verify(*matrix).kl == found.kl
    with pytest.raises(tithe.OtherDataError, match="not the data that it was made from"):
        tithe.verify(posterior, matrix[0][1:], matrix[1][1:])
    assert not tithe.verify(posterior, matrix[0][1:], matrix[1][1:], force=True).same_data


def test_everything_pickles(core, posterior, matrix, tmp_path):
    verification = posterior.verify(*matrix)
    for thing in [core, posterior]:
        again = pickle.loads(pickle.dumps(thing))
        assert again == thing and repr(again) == repr(thing)
    assert pickle.loads(pickle.dumps(core)).fit(seed=5, draws=100) == core.fit(seed=5, draws=100)
    again = pickle.loads(pickle.dumps(verification))
    assert (again.kl, list(again.weights)) == (verification.kl, list(verification.weights))
    assert pickle.loads(pickle.dumps(core.certificate)) == core.certificate
    for error in [tithe.UnknownColumnError("no"), tithe.ColumnError("no"), tithe.FileError("no")]:
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_files_are_the_command_lines(command, folder, core, posterior, tmp_path):
    core.write(tmp_path / "core.parquet")
    assert (tmp_path / "core.parquet").read_bytes() == (folder / "core.parquet").read_bytes()
    posterior.write(tmp_path / "post.parquet")
    command("fit", folder / "core.parquet", "--seed", 5, "-o", "by-command.parquet", cwd=tmp_path)
    assert (tmp_path / "post.parquet").read_bytes() == (tmp_path / "by-command.parquet").read_bytes()
    assert tithe.read_posterior(tmp_path / "by-command.parquet") == posterior


def test_what_a_person_sees(core, posterior, matrix):
    shown = [repr(core), repr(posterior), repr(posterior.verify(*matrix))]
    assert "represent 20,000 rows" in shown[0] and "indistinguishable" in shown[0] and "KL" in shown[0]
    assert "4 chains of 1,000 draws by nuts" in shown[1] and "no warnings" in shown[1]
    assert "indistinguishable" in shown[2]
    for thing in [core, posterior, posterior.verify(*matrix)]:
        page = thing._repr_html_()
        assert "<table>" in page and "20,000" in page
    assert "too small (try size=" in repr(tithe.build(*matrix, size=20))
    assert "none: the method uniform has no certificate" in repr(tithe.build(*matrix, size=60, method="uniform"))


def test_an_exact_coreset_says_so():
    X, y = tithe.generate("binary5", 5000)
    core = tithe.build(X, y)
    assert core.certificate == tithe.Certificate("exact", 0.0)
    assert core.weights.sum() == 5000 and "exact" in repr(core)


def test_priors_and_settings_arrive(core):
    posterior = core.fit(
        prior="cauchy:2.5", intercept_prior="normal:10", prior_for={"x1": "normal:0.01"}, chains=2, draws=300
    )
    assert posterior.priors["x2"] == "cauchy:2.5" and posterior.priors["intercept"] == "normal:10"
    assert posterior.draws.shape == (2, 300, 11)
    assert abs(posterior.mean[1]) < 0.2 < posterior.mean[2]


def test_actions_are_sampled_as_often_as_they_are_best(posterior, matrix):
    X = matrix[0][:3]
    beta = posterior.draws.reshape(-1, len(posterior.coefficients))
    best = (beta[:, :1] + beta[:, 1:] @ X.T).argmax(axis=1)
    expected = np.bincount(best, minlength=3) / len(best)
    count = 4_000
    chosen = posterior.sample_action(np.tile(X, (count, 1)), groups=np.repeat(np.arange(count), 3), seed=2)
    assert (chosen // 3 == np.arange(count)).all()
    found = np.bincount(chosen % 3, minlength=3) / count
    # Five standard errors of a fixed seed.
    assert np.abs(found - expected).max() < 5 * np.sqrt(0.25 / count)
    assert posterior.sample_action(X, seed=5) == posterior.sample_action(X, seed=5)
    for wrong in ("data.parquet", X[:0]):
        with pytest.raises(tithe.InputTypeError, match="actions must be"):
            posterior.sample_action(wrong)
    with pytest.raises(tithe.SettingError, match="groups must have a value"):
        posterior.sample_action(X, groups=[1, 2])
