"""Bayesian logistic regression on a few hundred weighted rows that represent all rows of the data.

>>> import tithe
>>> X, y = tithe.generate("mixture", 20_000)
>>> core = tithe.build(X, y, size=300)
>>> posterior = core.fit()
>>> posterior.summary().loc["x1", "mean"].round(1)
np.float64(1.0)
"""

from __future__ import annotations

from importlib import import_module as _import_module
from importlib import metadata as _metadata
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING, Any

from ._coreset import Certificate, Coreset, build, fit, read_coreset
from ._errors import (
    CellError,
    ChangedError,
    ClusterError,
    ColumnError,
    EncodingMismatchError,
    FileError,
    FormulaError,
    InputTypeError,
    MalformedError,
    MissingValuesError,
    NoInputError,
    NoRowsError,
    NumericalError,
    OtherDataError,
    SchemaMismatchError,
    SettingError,
    StateError,
    TitheError,
    TitheWarning,
    UnknownColumnError,
    WrongFileError,
)
from ._extras import placeholder as _placeholder
from ._generate import generate
from ._posterior import Posterior, Verification, read_posterior, verify
from ._stream import Stream, merge

if TYPE_CHECKING:
    from ._sklearn import CoresetSampler, LogisticRegression

__version__ = _metadata.version("tithe")

__all__ = [
    "CellError",
    "Certificate",
    "ChangedError",
    "ClusterError",
    "ColumnError",
    "Coreset",
    "CoresetSampler",
    "EncodingMismatchError",
    "FileError",
    "FormulaError",
    "InputTypeError",
    "LogisticRegression",
    "MalformedError",
    "MissingValuesError",
    "NoInputError",
    "NoRowsError",
    "NumericalError",
    "OtherDataError",
    "Posterior",
    "SchemaMismatchError",
    "SettingError",
    "StateError",
    "Stream",
    "TitheError",
    "TitheWarning",
    "UnknownColumnError",
    "Verification",
    "WrongFileError",
    "build",
    "fit",
    "generate",
    "merge",
    "read_coreset",
    "read_posterior",
    "verify",
]


def __getattr__(name: str) -> Any:
    # Import scikit-learn and engines only when they are used.
    if name in ("CoresetSampler", "LogisticRegression"):
        if _find_spec("sklearn") is None:
            # `from tithe import *` must work without it.
            return _placeholder(name, "sklearn")
        from . import _sklearn

        return getattr(_sklearn, name)
    if name in ("dask", "ray", "spark"):
        return _import_module(f"tithe.{name}")
    raise AttributeError(f"module 'tithe' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
