"""What coresets and posteriors have in common: each is a table that anybody who speaks Arrow can read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Generic, TypeVar

from . import _native
from ._data import Path

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: What the native module holds the table as.
Native = TypeVar("Native", _native.Coreset, _native.Posterior)


class ArrowTable(Generic[Native]):
    """A table of the native module's, in the forms that others take."""

    _native: Native

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.stream()

    def to_arrow(self) -> pyarrow.Table:
        """Give the table as it is written: see :meth:`write`."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Give the same as a pandas frame."""
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Give the same as a polars frame."""
        import polars

        return polars.DataFrame(self)

    def write(self, path: Path) -> None:
        """Write it as a Parquet file, which the command line reads too."""
        self._native.write(os.fspath(path))
