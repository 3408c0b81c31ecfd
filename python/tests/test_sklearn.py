"""The estimators together with scikit-learn's own tools."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression as Plain
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import check_estimator

import tithe

#: Fewer draws than by default, because the checks fit several hundred times.
FAST = {"chains": 2, "draws": 300, "warmup": 300}


@pytest.mark.parametrize(
    "estimator", [tithe.LogisticRegression(**FAST), tithe.CoresetSampler()], ids=lambda e: type(e).__name__
)
def test_scikit_learns_own_checks_pass(estimator, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    results = check_estimator(estimator, on_skip=None, on_fail="raise")
    assert len(results) > 40
    skipped = {result["check_name"] for result in results if result["status"] != "passed"}
    assert skipped == set()


@pytest.fixture(scope="module")
def frame(table):
    return table.to_pandas()


def test_it_is_the_posterior_of_the_coreset(matrix):
    X, y = matrix
    model = tithe.LogisticRegression(size=300, random_state=0).fit(X, y)
    core = model.coreset_
    assert len(core) <= 300 and list(model.classes_) == [-1, 1]
    assert model.coef_.shape == model.coef_sd_.shape == (1, 10)
    np.testing.assert_array_equal(model.coef_[0], model.posterior_.summary()["mean"].iloc[1:])
    np.testing.assert_array_equal(model.coef_sd_[0], model.posterior_.summary()["sd"].iloc[1:])
    plain = Plain(C=4.0).fit(X, y)
    assert np.all(np.abs(model.coef_[0] - plain.coef_[0]) < 0.2 * model.coef_sd_[0] + 0.01)
    assert abs(model.score(X, y) - plain.score(X, y)) < 0.005
    interval = model.predict_interval(X[:50])
    probability = model.predict_proba(X[:50])[:, 1]
    assert np.all((interval[:, 0] < probability) & (probability < interval[:, 1]))
    assert np.all(model.predict_interval(X[:50], interval=0.5)[:, 1] <= interval[:, 1])


def test_it_works_in_pipelines_searches_and_cross_validation(frame):
    X, y = frame.drop(columns="y").iloc[:4000, :4], np.where(frame["y"].iloc[:4000] > 0, "good", "bad")
    model = tithe.LogisticRegression(size=300, random_state=0, **FAST)
    pipeline = make_pipeline(PolynomialFeatures(2, include_bias=False), model).fit(X, y)
    assert pipeline.score(X, y) > 0.75
    scores = cross_val_score(model, X, y, cv=3)
    assert scores.min() > 0.75
    scores = cross_val_score(model, X, y, cv=3, scoring="neg_log_loss")
    assert scores.min() > -0.5
    search = GridSearchCV(model, {"prior": ["normal:0.01", "normal:2"]}, cv=3, scoring="neg_log_loss").fit(X, y)
    assert search.best_params_ == {"prior": "normal:2"}
    assert list(search.best_estimator_.feature_names_in_) == list(X.columns)
    assert search.best_estimator_.posterior_.coefficients == ["intercept", *X.columns]
    with pytest.raises(ValueError, match="feature names"):
        search.predict(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="feature"):
        search.predict(X.iloc[:, :3])


def test_the_same_random_state_gives_the_same_model(matrix):
    X, y = matrix[0][:3000], matrix[1][:3000]
    model = tithe.LogisticRegression(size=300, random_state=7, **FAST)
    first, second = model.fit(X, y).coef_, clone(model).fit(X, y).coef_
    np.testing.assert_array_equal(first, second)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_column_may_be_called_anything(frame):
    X = frame[["x1", "x2"]].set_axis(["intercept", "y"], axis="columns")
    model = tithe.LogisticRegression(size=200, random_state=0, **FAST).fit(X, frame["y"])
    assert model.coef_.shape == (1, 2)


def test_the_sampler_makes_data_small_for_others(frame, matrix):
    sampler = tithe.CoresetSampler(size=400, random_state=1)
    X, y, weights = sampler.fit_resample(frame.drop(columns="y"), frame["y"])
    assert isinstance(X, pd.DataFrame) and isinstance(y, pd.Series) and len(X) == len(y) == len(weights) <= 400
    pd.testing.assert_frame_equal(X, frame.drop(columns="y").iloc[sampler.rows_])
    small, full = (Plain(C=4.0).fit(*data).coef_[0] for data in [(X, y, weights), matrix])
    # Both regularise on slightly different scales; the posterior's sd is about 0.03.
    np.testing.assert_allclose(small, full, atol=0.01)
    array = tithe.CoresetSampler(size=400, random_state=1).fit_resample(*matrix)
    np.testing.assert_array_equal(array[0], X.to_numpy())


def test_rows_of_no_weight_are_no_rows(matrix):
    X, y = matrix[0][:2000], matrix[1][:2000]
    weights = np.ones(2000)
    weights[::4] = 0
    sampler = tithe.CoresetSampler(size=200, random_state=0).fit(X, y, weights)
    assert not np.any(sampler.rows_ % 4 == 0)
    kept = weights > 0
    other = tithe.CoresetSampler(size=200, random_state=0).fit(X[kept], y[kept], weights[kept])
    np.testing.assert_array_equal(sampler.weights_, other.weights_)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            np.arange(100) % 3,
            "Only binary classification is supported. The type of the target is multiclass; it has 3 classes",
        ),
        (np.zeros(100), "only 1 class: 0"),
        (np.linspace(0, 1, 100), "Unknown label type: continuous"),
        (np.where(np.arange(100) % 2, None, "a"), "None|missing|type"),
    ],
)
def test_wrong_targets_are_refused(y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tithe.LogisticRegression().fit(np.random.default_rng(0).normal(size=(100, 2)), y)


def test_partial_fit_is_a_stream(matrix):
    X, y = matrix
    model = tithe.LogisticRegression(size=300, random_state=0)
    assert not hasattr(model, "coef_")
    for start in range(0, 20_000, 3_000):
        model.partial_fit(X[start : start + 3_000], y[start : start + 3_000], classes=[-1, 1])
    assert model.coreset_.n_rows == 20_000 and len(model.coreset_) <= 300
    whole = tithe.LogisticRegression(size=300, random_state=0).fit(X, y)
    # Half a standard deviation; the Monte Carlo error is a fiftieth of one.
    assert np.all(np.abs(model.coef_ - whole.coef_) < 0.5 * whole.coef_sd_)
    np.testing.assert_allclose(model.coef_sd_, whole.coef_sd_, rtol=0.2)
    assert model.score(X, y) > 0.94
    # A pickled model resumes, and so does one whose draws were used in between.
    again = pickle.loads(pickle.dumps(model))
    more = tithe.generate("mixture", 4_000, seed=9)
    before = model.coef_
    for each in (model, again):
        each.partial_fit(*more)
    assert again.coreset_ == model.coreset_ and again.coreset_.n_rows == 24_000
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert not np.array_equal(before, model.coef_)


def test_partial_fit_goes_on_after_fit(frame):
    X, y = frame.drop(columns="y"), np.where(frame["y"] > 0, "good", "bad")
    model = tithe.LogisticRegression(size=300, random_state=0, **FAST).fit(X[:8_000], y[:8_000])
    # Rows of a single class carry information too.
    good = np.flatnonzero(y[8_000:] == "good") + 8_000
    bad = np.flatnonzero(y[8_000:] == "bad") + 8_000
    for rows in [good, bad]:
        model.partial_fit(X.iloc[rows], y[rows])
    assert model.coreset_.n_rows == 20_000
    whole = tithe.LogisticRegression(size=300, random_state=0).fit(X, y)
    assert np.all(np.abs(model.coef_ - whole.coef_) < 0.5 * whole.coef_sd_)
    assert list(model.classes_) == ["bad", "good"] and model.coreset_.columns == list(X.columns)
    # `fit` starts again.
    assert model.fit(X[:5_000], y[:5_000]).coreset_.n_rows == 5_000


def test_weights_in_partial_fit(matrix):
    X, y = matrix[0][:4_000], matrix[1][:4_000]
    weights = np.random.default_rng(0).integers(0, 3, 4_000).astype(float)
    model = tithe.LogisticRegression(size=300, random_state=0, **FAST)
    model.partial_fit(X[:2_000], y[:2_000], classes=[-1, 1], sample_weight=weights[:2_000])
    model.partial_fit(X[2_000:], y[2_000:], sample_weight=weights[2_000:])
    assert model.coreset_.provenance["mass"] == weights.sum()
    assert model.coreset_.n_rows == np.count_nonzero(weights)


def test_wrong_calls_of_partial_fit_are_refused(matrix):
    X, y = matrix[0][:500], matrix[1][:500]
    model = tithe.LogisticRegression(size=100, random_state=0, **FAST)
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="There are 3 classes: -1, 0, 1"):
        model.partial_fit(X, y, classes=[-1, 0, 1])
    with pytest.raises(ValueError, match=r"y holds -1\.0, but the classes are 1, 2"):
        model.partial_fit(X, y, classes=[1, 2])
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.where(X > 2, np.nan, X), y, classes=[-1, 1])
    positive = y > 0
    model.partial_fit(X[positive], y[positive], classes=[-1, 1])
    with pytest.raises(NotFittedError, match="so far all rows have the class 1"):
        model.predict(X)
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, 1:], y)
    model.partial_fit(X[~positive], y[~positive])
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("n_jobs", [-1, -2, -1000, 2, None])
def test_jobs_are_counted_as_scikit_learn_does(matrix, n_jobs):
    X, y = matrix[0][:2000], matrix[1][:2000]
    model = tithe.LogisticRegression(size=200, random_state=0, n_jobs=n_jobs, **FAST).fit(X, y)
    other = tithe.LogisticRegression(size=200, random_state=0, n_jobs=1, **FAST).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))
    assert tithe.CoresetSampler(size=200, random_state=0, n_jobs=n_jobs).fit(X, y).coreset_ == model.coreset_


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"n_jobs": "all"}, "n_jobs must be a whole number"),
        ({"size": None}, "size must be a whole number, but is None"),
        ({"size": "a"}, "size must be a whole number, but is 'a'"),
        ({"size": 0}, "size must be at least 1"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False"),
    ],
)
def test_wrong_settings_are_refused_by_their_names(matrix, setting, message):
    X, y = matrix[0][:500], matrix[1][:500]
    for work in [
        lambda: tithe.LogisticRegression(**setting).fit(X, y),
        lambda: tithe.LogisticRegression(**setting).partial_fit(X, y, classes=[-1, 1]),
        lambda: tithe.CoresetSampler(**setting).fit(X, y),
    ]:
        with pytest.raises(tithe.SettingError, match=message):
            work()


def test_a_size_that_is_too_small_warns(matrix):
    for work in [
        lambda: tithe.LogisticRegression(size=14, random_state=0, **FAST).fit(*matrix),
        lambda: (
            tithe.LogisticRegression(size=14, random_state=0, **FAST).partial_fit(*matrix, classes=[-1, 1]).coreset_
        ),
        lambda: tithe.CoresetSampler(size=14, random_state=0).fit(*matrix),
    ]:
        message = r"too small: with \d+ rows, .*size=\d+|from the posterior of all rows, and weights do not correct"
        with pytest.warns(tithe.TitheWarning, match=message) as caught:
            work()
        assert len([each for each in caught if each.category is tithe.TitheWarning]) == 1
        assert caught[0].filename == __file__


def test_the_sampler_gives_pyarrow_back(table):
    sampler = tithe.CoresetSampler(size=100, random_state=0)
    X, y, weights = sampler.fit_resample(table.drop(["y"]), table["y"])
    assert X.equals(table.drop(["y"]).take(sampler.rows_)) and y.equals(table["y"].take(sampler.rows_))
    assert len(X) == len(weights)


def _people(n=4000):
    generator = np.random.default_rng(8)
    age = generator.integers(18, 80, n).astype(float)
    city = generator.choice(["Rome", "Oslo", "Lima"], n, p=[0.5, 0.3, 0.2])
    chance = 1 / (1 + np.exp(2 - 0.05 * age - 0.8 * (city == "Oslo")))
    return pd.DataFrame({"age": age, "city": city}), np.where(generator.random(n) < chance, "yes", "no")


@pytest.mark.parametrize("kind", ["strings", "categories", "polars"])
def test_text_columns_of_data_frames_are_categories(kind):
    X, y = _people()
    X = {"strings": X, "categories": X.astype({"city": "category"}), "polars": pl.from_pandas(X)}[kind]
    model = tithe.LogisticRegression(size=300, random_state=0, **FAST).fit(X, y)
    assert model.coreset_.feature_names == ["age", "city=Lima", "city=Oslo"]
    assert list(model.feature_names_in_) == ["age", "city"] and model.n_features_in_ == 2
    built = tithe.build(X, (y == "yes").astype(int), size=300, seed=model._seed)
    np.testing.assert_array_equal(model.coef_[0], built.fit(**FAST, seed=model._seed).mean[1:])
    assert abs(model.coef_[0][2] - 0.8) < 6 * model.coef_sd_[0][2]
    np.testing.assert_array_equal(model.predict_proba(X[:20]), model.posterior_.predict_proba(X[:20]))
    assert model.score(X, y) > 0.6 and set(model.predict(X)) == {"yes", "no"}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[["city", "age"]])
    added = clone(model).partial_fit(X[:2000], y[:2000], classes=["no", "yes"]).partial_fit(X[2000:], y[2000:])
    np.testing.assert_allclose(added.coef_, model.coef_, atol=0.5 * model.coef_sd_.max())
    X_small, y_small, weights = tithe.CoresetSampler(size=100, random_state=0).fit_resample(X, y)
    assert type(X_small) is type(X) and len(X_small) == len(y_small) == len(weights)


def test_a_kl_takes_the_place_of_a_size(matrix):
    model = tithe.LogisticRegression(kl=0.01, random_state=0, **FAST).fit(*matrix)
    assert len(model.coreset_) < 200 and model.coreset_.certificate.kl <= 0.01


def test_class_weights_are_row_weights(matrix):
    X, y = matrix[0][:3000], matrix[1][:3000]
    weights = np.where(y > 0, 3.0, 1.0)
    wanted = tithe.LogisticRegression(size=200, random_state=0, **FAST).fit(X, y, weights)
    model = tithe.LogisticRegression(size=200, random_state=0, class_weight={1: 3.0, -1: 1.0}, **FAST)
    np.testing.assert_array_equal(model.fit(X, y).coef_, wanted.coef_)
    assert clone(model).fit(X, y, np.full(3000, 2.0)).coreset_ == clone(wanted).fit(X, y, 2 * weights).coreset_
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y)
    plain = Plain(C=4.0, class_weight="balanced").fit(X, y)
    assert np.all(np.abs(balanced.coef_ - plain.coef_) < 0.3 * balanced.coef_sd_ + 0.01)
    with pytest.raises(ValueError, match="'balanced' needs all rows at once"):
        clone(balanced).partial_fit(X, y, classes=[-1, 1])
