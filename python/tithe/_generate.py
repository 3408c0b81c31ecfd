"""The paper's synthetic data."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from . import _native
from ._data import Path
from ._options import whole, word
from ._progress import Watcher

__all__ = ["generate"]

Recipe: TypeAlias = Literal["binary5", "binary10", "mixture"]


@overload
def generate(
    recipe: Recipe, rows: int, *, seed: int = 0, path: None = None, progress: bool | None = None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]: ...


@overload
def generate(recipe: Recipe, rows: int, *, seed: int = 0, path: Path, progress: bool | None = None) -> None: ...


def generate(
    recipe: Recipe, rows: int, *, seed: int = 0, path: Path | None = None, progress: bool | None = None
) -> Any:
    """Generate the paper's synthetic data (its Section 4): ``"binary5"``, ``"binary10"`` or ``"mixture"``.

    Returns ``X`` and ``y`` (−1 and +1). With ``path``, it writes a Parquet, CSV or LIBSVM file of any size instead,
    with columns ``x1``, ``x2``, … and ``y``.

    Examples
    --------
    >>> import tithe
    >>> X, y = tithe.generate("binary5", 1000)
    >>> X.shape, sorted(set(y))
    ((1000, 5), [np.float64(-1.0), np.float64(1.0)])
    """
    rows = whole("rows", rows, least=1)
    with Watcher(progress) as watcher:
        target = None if path is None else os.fspath(path)
        made = _native.generate(word("recipe", recipe), rows, whole("seed", seed), target, watcher)
    if made is None:
        return None
    columns, labels = made
    return columns.reshape(-1, rows).T, labels
