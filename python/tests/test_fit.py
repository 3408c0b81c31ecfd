"""Data to verified draws in one step: `tithe.fit`, `Posterior.corrected` and the estimator."""

import inspect

import numpy as np
import pytest

import tithe

FAST = {"chains": 2, "draws": 300, "warmup": 300}


def test_a_fit_in_one_step_is_the_command_lines(command, folder, table, tmp_path):
    path = folder / "data.parquet"
    line = ["fit", path, "--label", "y", "--size", 300, "--keep", "core.parquet", "-o", "post.parquet"]
    record = command(*line, "--chains", 2, "--draws", 300, "--warmup", 300, cwd=tmp_path)
    for data in [path, table]:
        posterior = tithe.fit(data, label="y", size=300, keep=tmp_path / "core-2.parquet", **FAST)
        posterior.write(tmp_path / "post-2.parquet")
        for name in ["core", "post"]:
            one, other = (tmp_path / f"{name}{end}.parquet" for end in ["", "-2"])
            assert one.read_bytes() == other.read_bytes()
    assert posterior.verified == record["verified"] and posterior.verified["verdict"] == "indistinguishable"
    assert "verified against all rows: indistinguishable" in repr(posterior)
    assert "verified" in posterior._repr_html_()
    # The coreset is that of a build, and its draws can be verified afterwards.
    core = tithe.build(path, label="y", size=300)
    assert core == tithe.read_coreset(tmp_path / "core.parquet")
    plain = core.fit(**FAST)
    assert plain.verified is None and "verified" not in repr(plain)
    assert core.fit(verify=path, **FAST) == plain.corrected(table) == posterior


def test_all_rows_are_fitted_if_that_is_quick(matrix):
    X, y = matrix[0][:500], matrix[1][:500]
    posterior = tithe.fit(X, y, **FAST)
    assert "fitted to all 500 rows" in repr(posterior) and posterior.verified is None
    assert posterior == tithe.fit(X, y, whole=True, **FAST)
    with pytest.raises(tithe.SettingError, match="size has no effect where all rows are fitted"):
        tithe.fit(X, y, whole=True, size=100)
    with pytest.raises(tithe.InputTypeError, match="keep must be the path of a file"):
        tithe.fit(X, y, keep=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sizes'"):
        tithe.fit(X, y, sizes=3)
    with pytest.raises(tithe.InputTypeError, match="X without y"):
        tithe.fit(X)


def test_the_arguments_are_the_flags_of_the_command():
    names = set(inspect.signature(tithe.fit).parameters)
    assert {
        "label",
        "size",
        "kl",
        "whole",
        "keep",
        "prior",
        "sampler",
        "chains",
        "features",
        "missing",
        "memory",
    } <= names


def test_inaccurate_draws_are_corrected(matrix):
    X, y = matrix
    core = tithe.build(X, y, size=60)
    posterior = core.fit()
    found = posterior.verify(X, y)
    assert found.verdict == "correctable" and found.max_mean_error > 0.02, repr(found)
    corrected = posterior.corrected(X, y)
    assert corrected.verified["corrected"] and corrected.draws.shape == posterior.draws.shape
    again = corrected.verify(X, y)
    assert again.kl < 1e-12 and again.verdict == "indistinguishable"
    assert "therefore resampled" in repr(corrected)
    # The means are those of importance weights for all draws.
    exact = posterior.verify(X, y, draws=4000)
    wanted = np.array([exact.corrected[name]["mean"] for name in corrected.coefficients])
    assert np.all(np.abs(corrected.mean - wanted) < 0.02 * corrected.sd)
    with pytest.raises(tithe.OtherDataError):
        posterior.corrected(X[1:], y[1:])


def test_the_estimator_verifies_its_draws(matrix):
    X, y = matrix
    model = tithe.LogisticRegression(size=300, random_state=0, **FAST).fit(X, y)
    assert model.posterior_.verified["verdict"] == "indistinguishable"
    assert model.posterior_.verified["rows"] == len(X)
    # All rows of small data are fitted.
    small = tithe.LogisticRegression(size=300, random_state=0, **FAST).fit(X[:200], y[:200])
    assert small.posterior_.verified is None
    # Rows without weight do not count.
    weights = np.ones(3000)
    weights[::3] = 0
    model = tithe.LogisticRegression(size=300, random_state=0, **FAST).fit(X[:3000], y[:3000], weights)
    assert model.posterior_.verified["rows"] == 2000
