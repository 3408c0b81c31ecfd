"""`tithe check` agrees with scikit-learn, ArviZ and statsmodels, and tables with holes and dates work as in Python."""

import arviz
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score, roc_curve

import tithe


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(11)
    n = 6000
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "age": rng.uniform(20, 70, size=n),
            "plan": rng.choice(["a", "b", "c"], size=n, p=[0.5, 0.3, 0.2]),
        }
    )
    odds = 0.8 * frame["x"] - 0.04 * (frame["age"] - 45) + (frame["plan"] == "c") - 0.5
    frame["y"] = (rng.uniform(size=n) < expit(odds)).astype(int)
    return frame


@pytest.fixture(scope="module")
def checked(table, command, tmp_path_factory):
    """The folder of a fit of all rows, the draws, and the records of its check."""
    folder = tmp_path_factory.mktemp("check")
    table.to_csv(folder / "data.csv", index=False)
    fit = command("fit", "data.csv", "--label", "y", "--whole", "-o", "post.parquet", "--seed", 3, cwd=folder)
    check = command("check", "post.parquet", "--data", "data.csv", "--draws", 4000, "--loo", 6000, cwd=folder)
    sampled = command("check", "post.parquet", "--data", "data.csv", "--draws", 4000, "--loo", 500, cwd=folder)
    return folder, fit, check, sampled


def design(table):
    return np.column_stack(
        [np.ones(len(table)), table["x"], table["age"], table["plan"] == "b", table["plan"] == "c"]
    ).astype(float)


def margins(folder, table):
    draws = pd.read_parquet(folder / "post.parquet")
    beta = draws[["intercept", "x", "age", "plan=b", "plan=c"]].to_numpy()
    return beta, design(table) @ beta.T


def test_scores_are_those_of_scikit_learn(checked, table):
    folder, _, check, _ = checked
    _, eta = margins(folder, table)
    p, y = expit(eta).mean(axis=1), table["y"].to_numpy()
    # The AUC is computed from bins of the log-odds of width 0.005.
    assert check["auc"] == pytest.approx(roc_auc_score(y, p), abs=1e-4)
    assert check["log_loss"] == pytest.approx(log_loss(y, p), rel=1e-9)
    assert check["brier"] == pytest.approx(brier_score_loss(y, p), rel=1e-9)
    order = np.argsort(p)
    for group, rows in zip(check["calibration"], np.array_split(order, len(check["calibration"])), strict=True):
        assert group["predicted"] == pytest.approx(p[rows].mean(), abs=2e-3)
        assert group["observed"] == pytest.approx(y[rows].mean(), abs=0.02)
    false_alarms, hits, _ = roc_curve(y, p)
    # Without the point (0, 0), where scikit-learn's curve rises vertically.
    ours = np.array(check["roc"])[1:]
    assert np.abs(np.interp(ours[:, 0], false_alarms, hits) - ours[:, 1]).max() < 0.01


def test_leave_one_out_is_that_of_arviz(checked, table):
    folder, _, check, sampled = checked
    _, eta = margins(folder, table)
    y = table["y"].to_numpy()
    likelihood = -np.logaddexp(0, np.where(y[:, None] == 1, -eta, eta)).T.reshape(4, 1000, -1)
    data = arviz.from_dict(posterior={"b": np.zeros((4, 1000))}, log_likelihood={"y": likelihood})
    theirs = arviz.loo(data, reff=1.0)
    assert check["loo"]["elpd"] == pytest.approx(theirs.elpd_loo, abs=0.02)
    assert check["loo"]["se"] == pytest.approx(theirs.se, rel=1e-3)
    assert check["loo"]["effective_parameters"] == pytest.approx(theirs.p_loo, abs=0.05)
    assert check["loo"]["sampling_error"] == 0 and check["loo"]["unreliable"] == 0
    # A sample of the rows is within four of its errors (exceeded in 6e-5 of all samples), which are small.
    loo = sampled["loo"]
    assert abs(loo["elpd"] - theirs.elpd_loo) < 4 * loo["sampling_error"] < 4.0
    assert loo["se"] == pytest.approx(theirs.se, rel=0.02)
    if hasattr(arviz, "loo_subsample"):
        other = arviz.loo_subsample(data, observations=500, method="lpd")
        assert loo["elpd"] == pytest.approx(other.elpd, abs=4 * (loo["sampling_error"] + other.subsampling_se))


def test_odds_ratios_and_marginal_effects_are_those_of_maximum_likelihood(checked, table):
    statsmodels = pytest.importorskip("statsmodels.api")
    _, fit, check, _ = checked
    found = statsmodels.Logit(table["y"], design(table)).fit(disp=0)
    names = ["x", "age", "plan=b", "plan=c"]
    ratios = {ratio["name"]: ratio for ratio in fit["odds_ratios"]}
    effects = {effect["name"]: effect for effect in check["effects"]}
    by_statsmodels = found.get_margeff(at="overall", method="dydx").margeff
    for name, beta, sd, effect in zip(names, found.params[1:], found.bse[1:], by_statsmodels, strict=True):
        # The priors move a coefficient by less than a tenth of its standard error; draws add a few hundredths.
        assert abs(np.log(ratios[name]["median"]) - beta) < 0.2 * sd
        assert np.log(ratios[name]["upper"] / ratios[name]["lower"]) == pytest.approx(2 * 1.645 * sd, rel=0.08)
        assert effects[name]["mean"] == pytest.approx(effect, rel=0.05, abs=1e-4)


def test_two_models_are_compared_by_leave_one_out(checked, command):
    folder, _, _, _ = checked
    command("fit", "data.csv", "--label", "y", "--whole", "--exclude", "x", "-o", "fewer.parquet", cwd=folder)
    record = command("compare", "post.parquet", "fewer.parquet", "--loo", "data.csv", cwd=folder)
    difference = record["loo"]["difference"]
    assert difference["elpd"] > 5 * difference["se"] > 0
    assert record["command"] == "compare" and record["record_version"] == 1


def test_missing_values_and_dates_have_the_same_treatment_everywhere(table, tmp_path):
    rng = np.random.default_rng(5)
    frame = table.copy()
    frame.loc[rng.uniform(size=len(frame)) < 0.1, "age"] = np.nan
    frame["plan"] = frame["plan"].where(rng.uniform(size=len(frame)) > 0.1, None)
    frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, len(frame)), unit="D")
    core = tithe.build(frame, label="y", size=300, missing="indicator")
    for name in ["age=(missing)", "plan=(missing)", "day.days", "day.month=02", "day.weekday=Mon"]:
        assert name in core.coefficients
    posterior = core.fit(seed=2)
    # A file gives the same coreset, and predictions follow the rule.
    frame.to_parquet(tmp_path / "data.parquet", index=False)
    again = tithe.build(tmp_path / "data.parquet", label="y", size=300, missing="indicator")
    assert again.coefficients == core.coefficients
    assert np.array_equal(again.weights, core.weights)
    core.write(tmp_path / "core.parquet")
    assert np.array_equal(tithe.read_coreset(tmp_path / "core.parquet").fit(seed=2).draws, posterior.draws)
    p = posterior.predict_proba(frame.drop(columns="y").head(50))
    assert np.isfinite(p).all()
    # Against scikit-learn on the columns made by hand.
    age = frame["age"].fillna(frame["age"].mean())
    X = np.column_stack(
        [frame["x"], age, frame["age"].isna(), frame["plan"] == "b", frame["plan"] == "c", frame["plan"].isna()]
    )
    by_hand = LogisticRegression(C=1e6, max_iter=2000).fit(X, frame["y"]).predict_proba(X)[:, 1]
    ours = posterior.predict_proba(frame.drop(columns="y"))
    ours = ours[:, 1] if ours.ndim == 2 else ours
    assert np.corrcoef(ours, by_hand)[0, 1] > 0.98
