"""What coresets and posteriors share: each is a table with an Arrow stream interface."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, TypeVar

from . import _native
from ._data import Path
from ._extras import needed_for

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: The native object that holds the table.
Native = TypeVar("Native", _native.Coreset, _native.Posterior)


class ArrowTable(Generic[Native]):
    """A table of the native module, with conversions to other libraries."""

    _native: Native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.stream()

    def to_arrow(self) -> pyarrow.Table:
        """Convert to a pyarrow table: the one that :meth:`write` writes."""
        with needed_for("to_arrow"):
            import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Convert to a pandas data frame."""
        with needed_for("to_pandas", extra="pandas"):
            import pandas  # noqa: F401  # pyarrow would not say which extra is missing

            frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Convert to a polars data frame."""
        with needed_for("to_polars"):
            import polars

        return polars.DataFrame(self)

    def write(self, path: Path) -> None:
        """Write a Parquet file, which the command line can read too."""
        self._native.write(os.fspath(path))
