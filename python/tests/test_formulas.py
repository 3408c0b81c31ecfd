"""Model matrices of formulas against formulaic, an independent implementation.

``bs`` and ``poly`` follow formulaic (and so R and patsy); ``ns`` follows R's package splines, which formulaic does not have, and is
compared with a transcription of R's source to SciPy.
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


def test_intervals_have_indicators() -> None:
    table = TABLES["normal"]
    ours, rows, core = _matrix(table, "cut(p, [1, 2.5])")
    p = table["p"].to_numpy()[rows]
    assert core.feature_names == ["cut(p)=(1, 2.5]", "cut(p)=> 2.5"]
    assert np.array_equal(ours, np.column_stack([(p > 1) & (p <= 2.5), p > 2.5]).astype(float))
