"""Model matrices of formulas against formulaic, an independent implementation.

``bs`` and ``poly`` follow formulaic (and so R and patsy). ``ns`` follows R's package splines; formulaic has none,
so it is compared with a transcription of R's source to SciPy.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import scipy.interpolate
import scipy.linalg

import tithe

if TYPE_CHECKING:
    from collections.abc import Sequence

formulaic = pytest.importorskip("formulaic")

_ROWS = 900


def _levels(rng: np.random.Generator, names: Sequence[str], rows: int = _ROWS) -> pd.Categorical:
    """Random levels; the first name is the most frequent, so that both packages have the same reference level."""
    weights = np.arange(len(names), 0, -1, dtype=float) ** 1.5
    return pd.Categorical(rng.choice(names, size=rows, p=weights / weights.sum()))


def _table(kind: str) -> pd.DataFrame:
    rng = np.random.default_rng(len(kind))
    numbers = {name: rng.normal(size=_ROWS) for name in ["u", "v", "w"]}
    table = pd.DataFrame(numbers)
    table["a"] = _levels(rng, ["a1", "a2", "a3"])
    table["b"] = _levels(rng, ["b1", "b2", "b3", "b4"])
    table["p"] = rng.gamma(2.0, size=_ROWS) + 0.1
    table["f"] = _levels(rng, ["no", "yes"])
    if kind == "wide range":
        table["u"] = 1000.0 + 50.0 * table["u"]
        table["v"] = table["v"] * 1e-3
    if kind == "few values":
        table["u"] = rng.integers(0, 12, size=_ROWS).astype(float)
        table["v"] = rng.integers(-2, 9, size=_ROWS).astype(float)
    if kind == "uniform":
        table["u"], table["v"] = rng.uniform(-1, 1, size=_ROWS), rng.uniform(2, 9, size=_ROWS)
    table["y"] = rng.integers(0, 2, size=_ROWS)
    return table


TABLES = {kind: _table(kind) for kind in ["normal", "wide range", "few values", "uniform"]}

FORMULAS = [
    "u",
    "u + v",
    "0 + u + v",
    "u - 1",
    "-1 + u + a",
    "a",
    "0 + a",
    "a + b",
    "0 + a + b",
    "a:b",
    "0 + a:b",
    "a * b",
    "0 + a * b",
    "a / b",
    "a + a:b",
    "b + a:b",
    "a:u",
    "u + a:u",
    "a * u",
    "0 + a * u",
    "a:u + b:u",
    "u:v",
    "u * v",
    "(u + v + w)^2",
    "(u + v + w)**3",
    "(u + v + a)^2",
    "(a + b + f)^2",
    "a * b * f",
    "a * b * u",
    "a:b:u",
    "a:b:f",
    "(u + a) * (v + b)",
    "(u + a):(v + b)",
    "u * v * w - u:v:w",
    "(u + v + w)^2 - v",
    "u / a",
    "a / u",
    "(a + b) / u",
    "log(p)",
    "log1p(p) + exp(v / 10)",
    "sqrt(p) + abs(v)",
    "log10(p) * a",
    "I(u^2) + I(u * v)",
    "I((u + 2 * v) / (1 + p))",
    "I(-u) + I(2 - u - v)",
    "I(p^1.5):a",
    "center(u) + scale(v)",
    "center(u) * scale(v)",
    "scale(log(p)) + center(v):a",
    "poly(u, 2)",
    "poly(u, 3) + poly(v, 2)",
    "poly(v, 4)",
    "poly(p, 2, raw=True)",
    "poly(u, 2):a",
    "poly(u, 2) * v",
    "bs(p)",
    "bs(p, df=5)",
    "bs(p, df=6) + u",
    "bs(p, df=4, degree=2)",
    "bs(p, df=3, degree=1)",
    "bs(p, knots=[1, 2, 3])",
    "bs(p, df=5):a",
    "a * bs(p, df=4)",
    "bs(log(p), df=5)",
    "bs(p, df=4):u",
    "bs(p, df=4):poly(v, 2)",
    "C(a)",
    "C(a, ref='a2')",
    "C(a, ref='a3') * b",
    "C(b, ref='b4'):u + a",
    ". - y",
    "(u + a + b)^2 + p",
]


def _theirs(formula: str) -> str:
    """The formula in formulaic's dialect."""
    for level in ["a2", "a3", "b4"]:
        formula = formula.replace(f", ref='{level}')", f", contr.treatment('{level}'))")
    for name in ["log1p", "log10", "sqrt", "abs", "exp"]:
        formula = formula.replace(f"{name}(", f"np.{name}(")
    formula = formula.replace("log(", "np.log(")
    inner, depth, changed = formula, 0, []
    # Within functions, formulaic has Python's operators.
    for character in inner:
        depth += {"(": 1, ")": -1}.get(character, 0)
        changed.append("**" if character == "^" and depth > 0 and "I(" in formula else character)
    return "".join(changed)


def _matrix(table: pd.DataFrame, formula: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], tithe.Coreset]:
    core = tithe.build(table, formula=f"y ~ {formula}", method="uniform", size=3000, standardize="none", progress=False)
    return core.X, core.rows, core


def _compare(table: pd.DataFrame, formula: str) -> None:
    ours, rows, core = _matrix(table, formula)
    spec = _theirs(formula).replace(".", " + ".join(table.columns), 1) if formula.startswith(".") else _theirs(formula)
    matrix = formulaic.model_matrix(spec, table, context={"np": np})
    has_intercept = "Intercept" in matrix.columns
    assert core.has_intercept == has_intercept
    theirs = matrix.drop(columns="Intercept") if has_intercept else matrix
    # Only combinations of levels that occur have columns here.
    theirs = theirs.loc[:, (theirs != 0).any()].to_numpy(dtype=float)
    assert ours.shape[1] == theirs.shape[1], (core.feature_names, list(matrix.columns))
    scale = np.maximum(1.0, np.abs(theirs).max(axis=0))
    assert np.abs((ours - theirs[rows]) / scale).max() < 1e-12, core.feature_names


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_matrices_are_those_of_formulaic(formula: str, kind: str) -> None:
    _compare(TABLES[kind], formula)


def test_random_formulas_have_the_matrices_of_formulaic() -> None:
    random_ = random.Random(20)
    atoms = ["u", "v", "w", "a", "b", "f", "log(p)", "center(u)", "poly(v, 2)", "bs(p, df=4)", "I(u * w)"]

    def expression(depth: int) -> str:
        if depth == 0:
            return random_.choice(atoms)
        operator = random_.choice(["+", "+", "*", ":", "/"])
        return f"({expression(depth - 1)} {operator} {expression(random_.randrange(depth))})"

    tried = 0
    while tried < 60:
        formula = random_.choice(["", "0 + "]) + " + ".join(expression(random_.randrange(3)) for _ in range(2))
        columns = formulaic.model_matrix(_theirs(formula), TABLES["normal"], context={"np": np}).shape[1]
        if columns > 120:
            continue
        tried += 1
        _compare(TABLES["normal"], formula)


def _natural(x: np.ndarray[Any, Any], inner: Sequence[float], low: float, high: float) -> np.ndarray[Any, Any]:
    """R's ``splines::ns`` without an intercept, transcribed to SciPy."""
    knots = np.concatenate([[low] * 4, inner, [high] * 4])
    count = len(knots) - 4
    basis = [scipy.interpolate.BSpline(knots, np.eye(count)[i], 3) for i in range(count)]
    inside = np.clip(x, low, high)
    values = np.column_stack([b(inside) + b.derivative()(inside) * (x - inside) for b in basis])
    second = np.array([[b.derivative(2)(bound) for b in basis] for bound in (low, high)])
    q, _ = scipy.linalg.qr(second[:, 1:].T)
    return (values[:, 1:] @ q)[:, 2:]


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_natural_splines_are_those_of_r(kind: str) -> None:
    table = TABLES[kind]
    x = table["p"].to_numpy()
    for formula, inner in [
        ("ns(p, df=4)", np.quantile(x, [0.25, 0.5, 0.75])),
        ("ns(p, knots=[1, 2])", [1.0, 2.0]),
        ("ns(p)", []),
    ]:
        ours, rows, _ = _matrix(table, formula)
        theirs = _natural(x, list(inner), x.min(), x.max())
        assert np.abs(ours - theirs[rows]).max() < 1e-12, formula


def test_terms_are_those_of_materialised_columns() -> None:
    """The same rows, weights, means and scales, to the last bit."""
    table = TABLES["wide range"]
    formula = "y ~ u + v + a + I(u^2) + sqrt(p) + u:v + a:v"
    ours = tithe.build(table, formula=formula, size=200, progress=False)
    made = table.assign(
        square=table.u * table.u,
        root=np.sqrt(table.p),
        product=table.u * table.v,
        a2=(table.a == "a2") * table.v,
        a3=(table.a == "a3") * table.v,
    )
    features = ["u", "v", "a", "square", "root", "product", "a2", "a3"]
    theirs = tithe.build(made, label="y", features=features, size=200, progress=False)
    for name in ["rows", "weights", "center", "scale", "X", "y"]:
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert ours.certificate is not None
    assert ours.certificate == theirs.certificate


def test_a_row_of_weight_three_counts_as_three_rows() -> None:
    table = TABLES["normal"].assign(times=np.random.default_rng(2).integers(1, 5, size=_ROWS).astype(float))
    source = np.repeat(np.arange(_ROWS), table["times"].astype(int))
    formula = "y ~ poly(u, 3) + bs(p, df=6) + a:u + scale(p) + cut(p, 4)"
    ours = tithe.build(table, formula=formula, weight="times", size=5000, progress=False)
    theirs = tithe.build(table.iloc[source].reset_index(drop=True), formula=formula, size=5000, progress=False)
    assert np.abs(ours.center - theirs.center).max() < 1e-12
    assert np.abs(ours.scale / theirs.scale - 1).max() < 1e-12
    matrix = np.empty_like(ours.X)
    matrix[ours.rows] = ours.X
    assert np.abs(matrix[source[theirs.rows]] - theirs.X).max() < 1e-12


def test_a_formula_works_from_build_to_prediction() -> None:
    table = TABLES["normal"]
    formula = "y ~ a * u + a:b + bs(p, df=5)"
    core = tithe.build(table, formula=formula, size=300, progress=False)
    assert core.feature_names[:3] == ["a=a2", "a=a3", "u"]
    assert "bs(p)[5]" in core.feature_names
    posterior = core.fit(chains=2, draws=300, warmup=300, progress=False)
    assert posterior.verify(table, progress=False).verdict == "indistinguishable"
    # Predictions are those of the matrix.
    draws = posterior.draws.reshape(-1, len(posterior.coefficients))
    margins = core.X @ draws[:, 1:].T + draws[:, 0]
    predicted = posterior.predict_proba(table.iloc[core.rows], progress=False)[:, 1]
    assert np.abs(predicted - (1 / (1 + np.exp(-margins))).mean(axis=1)).max() < 1e-9
    # The least and the largest value may be exceeded in new data.
    beyond = table.head(3).assign(p=[0.0, 100.0, 50.0])
    assert np.isfinite(posterior.predict_proba(beyond, progress=False)).all()
    with pytest.raises(tithe.CellError, match="row 2, column 'a': the level 'new'"):
        posterior.predict_proba(table.head(3).assign(a=["a1", "new", "a2"]), progress=False)
    unseen = table.head(3).assign(a=["a1", "new", "a2"])
    assert np.isfinite(posterior.predict_proba(unseen, unseen="reference", progress=False)).all()


def test_streams_and_merges_use_the_formula() -> None:
    table = TABLES["normal"]
    formula = "y ~ a * u + poly(v, 2)"
    stream = tithe.Stream(formula=formula, size=150, block=300, progress=False)
    for start in range(0, len(table), 250):
        stream.add(table[start : start + 250])
    assert stream.snapshot().coefficients[-2:] == ["a=a2:u", "a=a3:u"]
    first = tithe.build(table[:450], formula=formula, size=100, progress=False)
    other = tithe.build(table[450:], formula=formula, size=100, progress=False)
    with pytest.raises(tithe.EncodingMismatchError, match="other levels, knots or polynomials"):
        tithe.merge([first, other], progress=False)
    same = tithe.build(table[450:], encoding=first, size=100, progress=False)
    assert tithe.merge([first, same], size=100, progress=False).coefficients == first.coefficients


def test_arrays_and_the_estimator_take_formulas() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 4))
    y = (rng.random(2000) < 1 / (1 + np.exp(-X[:, 2] * X[:, 0]))).astype(int)
    core = tithe.build(X, y, formula="clicked ~ x3 * x1", size=200, progress=False)
    assert core.coefficients == ["intercept", "x3", "x1", "x3:x1"]
    model = tithe.LogisticRegression(size=300, formula="~ x3 * x1", random_state=0, draws=200, warmup=200).fit(X, y)
    plain = tithe.LogisticRegression(size=300, random_state=0, draws=200, warmup=200).fit(X, y)
    assert model.score(X, y) > plain.score(X, y) + 0.1
    columns = np.column_stack([X, X[:, 2] * X[:, 0]])
    theirs = tithe.LogisticRegression(size=300, random_state=0, draws=200, warmup=200).fit(columns[:, [2, 0, 4]], y)
    assert np.abs(model.predict_proba(X) - theirs.predict_proba(columns[:, [2, 0, 4]])).max() < 0.02


def test_effects_are_predictions_on_a_grid() -> None:
    table = TABLES["normal"]
    core = tithe.build(table, formula="y ~ bs(p, df=4) * a", size=300, progress=False)
    posterior = core.fit(chains=2, draws=200, warmup=200, progress=False)
    effect = posterior.effect("p", by="a", values=[1.0, 2.0])
    assert list(effect.columns) == ["p", "a", "mean", "lower", "upper"]
    assert len(effect) == 2 * 3
    expected = posterior.predict_proba(effect[["p", "a"]], progress=False)[:, 1]
    assert np.array_equal(effect["mean"], expected)
    assert ((effect["lower"] < effect["mean"]) & (effect["mean"] < effect["upper"])).all()
    assert len(posterior.effect("a")) == 3
    with pytest.raises(tithe.ColumnError, match="'q' is not a column of the model"):
        posterior.effect("q")


@pytest.mark.parametrize(
    ("formula", "error", "message"),
    [
        ("y ~ u + pp", tithe.FormulaError, r"no column 'pp'.*\n  y ~ u \+ pp\n          \^"),
        ("y ~ u + C(a, ref='a9')", tithe.FormulaError, r"no level 'a9' \(did you mean 'a1'"),
        ("y ~ (u + v", tithe.FormulaError, r"this '\(' is never closed"),
        ("y ~ u + lgg(p)", tithe.FormulaError, r"no function 'lgg' \(did you mean 'log'"),
        ("y ~ log(u)", tithe.ColumnError, r"log\(u\) is undefined in row \d+, where u = -"),
        ("y ~ u + log(a)", tithe.FormulaError, "column 'a' is text, but a number is needed"),
        ("y ~ bs(u, df=2)", tithe.FormulaError, "'df' is at least 3"),
        ("y ~ bs(u, knots=[99])", tithe.FormulaError, "knots are between the least value"),
        ("y ~ bs(u, dff=3)", tithe.FormulaError, "bs has no argument 'dff'"),
        ("y ~ 1", tithe.SettingError, "formula must name a column"),
        ("y ~ u + offset(v)", tithe.FormulaError, "offsets are not supported"),
        ("z ~ u", tithe.FormulaError, "no column 'z'"),
    ],
)
def test_formulas_that_cannot_be_used(formula: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tithe.build(TABLES["normal"], formula=formula, size=100, progress=False)


def test_settings_that_contradict_a_formula() -> None:
    for settings in [{"label": "a"}, {"features": ["v"]}, {"intercept": False}]:
        with pytest.raises(tithe.SettingError):
            tithe.build(TABLES["normal"], formula="y ~ u", size=100, progress=False, **settings)


def test_an_interaction_with_too_many_cells_is_refused() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame({name: rng.integers(0, 1000, size=40_000).astype(str) for name in ["g", "h"]})
    table["y"] = rng.integers(0, 2, size=len(table))
    with pytest.raises(tithe.ColumnError, match="column 'g:h': more than 10000 combinations"):
        tithe.build(table, formula="y ~ g:h", size=100, max_levels=1000, progress=False)


def test_collinear_terms_are_named() -> None:
    with pytest.warns(tithe.TitheWarning, match=r"linear combinations of other columns.*I\(u \+ v\)"):
        core = tithe.build(TABLES["normal"], formula="y ~ u + v + I(u + v)", size=100, progress=False)
    assert core.certificate is not None


def test_intervals_have_indicators() -> None:
    table = TABLES["normal"]
    ours, rows, core = _matrix(table, "cut(p, [1, 2.5])")
    p = table["p"].to_numpy()[rows]
    assert core.feature_names == ["cut(p)=(1, 2.5]", "cut(p)=> 2.5"]
    assert np.array_equal(ours, np.column_stack([(p > 1) & (p <= 2.5), p > 2.5]).astype(float))
