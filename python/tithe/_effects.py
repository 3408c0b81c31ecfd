"""Effects of columns: predicted probabilities where one column varies and the others are held fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import ColumnError
from ._extras import needed_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas

    from ._posterior import Posterior

#: Number of values of a numeric column.
_POINTS = 101


def _typical(coding: Any) -> Any:
    """The value at which a column is held: its mean (0 if not centred), 0 for 0/1 columns, its reference level."""
    if "levels" in coding:
        return coding["levels"]["reference"]
    return coding["number"]["center"] if "number" in coding else 0.0


def _grid(coding: Any) -> list[Any]:
    """The values at which an effect is shown: two standard deviations to both sides, or all levels."""
    if "levels" in coding:
        levels = coding["levels"]
        return sorted([levels["reference"], *levels["levels"]])
    if "number" in coding:
        center, scale = coding["number"]["center"], coding["number"]["scale"]
        return list(np.linspace(center - 2 * scale, center + 2 * scale, _POINTS))
    return [0.0, 1.0]


def _range(encoding: Any, column: str) -> tuple[float, float]:
    """The values of a column in the data, if a spline of it knows them; otherwise everything."""
    low, high = -np.inf, np.inf
    features = [each["column"] for each in encoding["features"]]
    for term in encoding.get("design", {"terms": []})["terms"]:
        for factor in term["factors"]:
            of, basis = factor["values"].get("basis", (None, {}))
            knots = [each["knots"] for each in basis.values() if isinstance(each, dict) and "knots" in each]
            if knots and of == {"column": features.index(column)}:
                low, high = max(low, knots[0][0]), min(high, knots[0][-1])
    return low, high


def _few(coding: Any) -> list[Any]:
    """The values of the column that the curves differ in."""
    if "number" in coding:
        center, scale = coding["number"]["center"], coding["number"]["scale"]
        return [center - scale, center, center + scale]
    return _grid(coding)


def effect(
    posterior: Posterior,
    column: str,
    by: str | None,
    values: Sequence[Any] | None,
    at: Mapping[str, Any] | None,
    interval: float,
) -> pandas.DataFrame:
    """The table behind :meth:`Posterior.effect`."""
    with needed_for("effect"):
        import pandas as pd
    codings = {each["column"]: each["coding"] for each in posterior._facts["encoding"]["features"]}
    for name in [column, *([] if by is None else [by]), *(at or {})]:
        if name not in codings:
            raise ColumnError(f"'{name}' is not a column of the model; its columns are {', '.join(codings)}")
    grid = _grid(codings[column]) if values is None else list(values)
    if values is None and "number" in codings[column]:
        grid = sorted(set(np.clip(grid, *_range(posterior._facts["encoding"], column))))
    if by == column:
        raise ColumnError(f"by must be another column than '{column}'")
    curves = [None] if by is None else _few(codings[by])
    fixed = {name: _typical(coding) for name, coding in codings.items()} | dict(at or {})
    rows = [fixed | {column: value} | ({} if by is None else {by: curve}) for curve in curves for value in grid]
    frame = pd.DataFrame(rows, columns=list(codings))
    mean = posterior.predict_proba(frame, progress=False)[:, 1]
    bounds = posterior.predict_interval(frame, interval=interval, progress=False)
    shown = {name: frame[name] for name in ([column] if by is None else [column, by])}
    return pd.DataFrame(shown | {"mean": mean, "lower": bounds[:, 0], "upper": bounds[:, 1]})


def plot_effect(table: pandas.DataFrame, column: str, by: str | None, label: str, ax: Any) -> Any:
    """Draw the table of an effect, with a band or bars for the intervals."""
    with needed_for("plot_effect", extra="arviz"):
        import matplotlib.pyplot as plt
    if ax is None:
        ax = plt.gca()
    curves: list[tuple[Any, pandas.DataFrame]] = [(None, table)] if by is None else list(table.groupby(by, sort=True))
    for curve, rows in curves:
        name = None
        if curve is not None:
            name = f"{by} = {curve:.4g}" if isinstance(curve, float) else f"{by} = {curve}"
        is_number = rows[column].dtype.kind == "f" and len(rows) > 2
        if is_number:
            (line,) = ax.plot(rows[column], rows["mean"], label=name)
            ax.fill_between(rows[column], rows["lower"], rows["upper"], color=line.get_color(), alpha=0.2, linewidth=0)
        else:
            below, above = rows["mean"] - rows["lower"], rows["upper"] - rows["mean"]
            ax.errorbar(rows[column].astype(str), rows["mean"], [below, above], fmt="o", capsize=3, label=name)
    ax.set_xlabel(column)
    ax.set_ylabel(f"probability of {label}")
    if by is not None:
        ax.legend()
    return ax
