"""Prepares data for the native module; copies only what it must."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import (
    ColumnError,
    FileError,
    InputTypeError,
    NoInputError,
    NoRowsError,
    SchemaMismatchError,
    SettingError,
    TitheError,
)
from ._extras import needed_for


class ArrowStream(Protocol):
    """Any object with the Arrow PyCapsule stream interface: pandas, polars, pyarrow, DuckDB and more."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a stream of record batches."""
        ...


Path: TypeAlias = "str | os.PathLike[str]"
Vector: TypeAlias = "npt.ArrayLike"
#: What is read as data; SciPy's sparse matrices and some data frames share no type.
DataLike: TypeAlias = "Path | Sequence[Path] | npt.NDArray[Any] | ArrowStream | Iterable[ArrowStream] | Any"


def _kind_of(data: Any) -> str:
    """Package and class of an object, such as ``pandas.DataFrame``, whatever submodule defines it."""
    return f"{type(data).__module__.partition('.')[0]}.{type(data).__qualname__}"


def name_of(column: Any) -> str:
    """The name of a column: text as it is, other labels as text, and levels of a MultiIndex joined by dots."""
    return ".".join(map(str, column)) if isinstance(column, tuple) else str(column)


def is_name(value: Any, data: Any) -> bool:
    """Whether a value names a column, and is no array of values: text, or a label of a data frame."""
    if isinstance(value, str):
        return True
    is_label = isinstance(value, (int, tuple)) and not isinstance(value, bool)
    return is_label and value in getattr(data, "columns", ())


def is_path(data: Any) -> bool:
    """Whether data is a path or a list of paths."""
    if isinstance(data, (str, os.PathLike)):
        return True
    return isinstance(data, (list, tuple)) and bool(data) and all(isinstance(d, (str, os.PathLike)) for d in data)


@contextlib.contextmanager
def reading(data: Any) -> Iterator[None]:
    """Raise what Python expects: ``FileNotFoundError`` with the name of the file, or the error of a generator."""
    try:
        yield
    except TitheError as error:
        if isinstance(data, Batches) and data.raised is not None:
            raise data.raised from None
        if not isinstance(error, FileError):
            raise
        paths = [os.fspath(path) for path in _paths(data)] if is_path(data) else []
        for path in paths:
            if f"'{path}'" in str(error) and not os.path.exists(path):
                raise NoInputError(str(error), path) from None
        raise


def _paths(data: Any) -> Sequence[Path]:
    return [data] if isinstance(data, (str, os.PathLike)) else data


def is_sparse(data: Any) -> bool:
    """Whether data is a SciPy sparse matrix or array."""
    return type(data).__module__.startswith("scipy.sparse")


def default_names(count: int) -> list[str]:
    """Names for columns without names."""
    return [f"x{i}" for i in range(1, count + 1)]


def array_columns(data: Any, features: Sequence[str], owner: str, *, chosen: bool | None = None) -> list[str] | None:
    """Column names for an array, which has none: the known features in order, if there are as many columns.

    A wider array may be the one that the features were ``chosen`` from: the names ``x1``, ``x2``, … then give their
    positions. If it is not known whether they were chosen and they are its first columns, it could be other data, which
    is an error.
    """
    if not (isinstance(data, np.ndarray) or is_sparse(data)) or data.ndim != 2:
        return None
    width = int(data.shape[1])
    if width == len(features):
        return list(features)
    by_place = default_names(width)
    if chosen is None:
        chosen = list(features) != by_place[: len(features)]
    if chosen and set(features) <= set(by_place):
        return by_place
    shown = ", ".join(features[:20]) + (", …" if len(features) > 20 else "")
    raise ColumnError(f"X has {width} features, but {owner} {len(features)}: {shown}")


def native(
    data: Any,
    y: Vector | None = None,
    *,
    weight: Vector | None = None,
    label: str | None = None,
    weight_name: str = "weight",
    columns: Sequence[str] | None = None,
    used: Collection[str | None] | None = None,
    exclude: Sequence[str] = (),
    may_be_empty: bool = False,
) -> _native.Data:
    """Prepare any data; the arrays ``y`` and ``weight`` become columns ``label`` and ``weight_name``.

    In a data frame, only the columns ``used`` (``None`` for all) without those to ``exclude`` must be readable.
    """
    beside: list[tuple[str, str, Any]] = []
    if y is not None:
        beside.append((label or "y", *_vector("y", y)))
    if weight is not None:
        beside.append((weight_name, *_vector("weight", weight)))
    if is_path(data):
        if beside:
            raise InputTypeError(
                "y and weight cannot be arrays if the data is in files: name the columns with label= and weight="
            )
        paths = [os.fspath(path) for path in _paths(data)]
        for path in paths:
            _refuse_url(path)
        return _native.Data.paths(paths)
    if isinstance(data, np.ndarray) or is_sparse(data):
        kind, values = _matrix(data)
        width = int(data.shape[1])
        names = default_names(width) if columns is None else [str(name) for name in columns]
        if len(names) != width:
            raise SettingError(f"columns has {len(names)} names for {width} columns")
        rows = data.shape[0]
        for name, _, column in beside:
            if len(column) != rows:
                raise ColumnError(f"column '{name}': has {len(column)} rows where the data has {rows}")
        parts = [(names, kind, values)] if width else []
        return _native.Data.arrays(parts + [([name], own, column) for name, own, column in beside])
    if isinstance(data, Batches):
        data.used, data.exclude = used, exclude
    if _kind_of(data) == "pandas.DataFrame":
        data = _plain_frame(data, used, exclude)
    if hasattr(data, "__arrow_c_stream__"):
        return _stream(data, beside, may_be_empty)
    raise InputTypeError(_refusal(data))


def streamed(data: Any) -> Any:
    """Turn data that comes piece by piece into an Arrow stream; other data is returned as it is."""
    kind = _kind_of(data)
    if kind == "polars.LazyFrame":
        if not hasattr(data, "collect_batches"):
            return data.collect(engine="streaming")
        # The empty frame has the columns, in case that there are no rows.
        return Batches(chain([data.collect_schema().to_frame()], data.collect_batches(maintain_order=True)))
    if kind.startswith("pyarrow.") and hasattr(data, "scanner"):
        return data.scanner().to_reader()
    if isinstance(data, (list, tuple)) and data and all(hasattr(each, "__arrow_c_stream__") for each in data):
        return Batches(iter(data))
    if hasattr(data, "__next__") and not hasattr(data, "__arrow_c_stream__"):
        first = next(data, None)
        if first is None:
            raise NoRowsError("the generator is empty: it gave no batch of rows")
        rest = chain([first], data)
        return list(rest) if is_path(first) else Batches(rest)
    return data


class Batches:
    """Data frames or Arrow batches one after the other as one Arrow stream; keeps the exception of their producer."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces
        self.used: Collection[str | None] | None = None
        self.exclude: Sequence[str] = ()
        self.raised: BaseException | None = None

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        with needed_for("a generator of batches or a LazyFrame"):
            import pyarrow
        first = self._table(0, next(self._pieces))

        def batches() -> Iterator[Any]:
            try:
                yield from first.to_batches()
                for number, piece in enumerate(self._pieces, 1):
                    yield from _like(first.schema, number, self._table(number, piece)).to_batches()
            except BaseException as raised:
                self.raised = raised
                raise

        return pyarrow.RecordBatchReader.from_batches(first.schema, batches()).__arrow_c_stream__()

    def _table(self, number: int, piece: Any) -> Any:
        import pyarrow

        if _kind_of(piece) == "pandas.DataFrame":
            piece = _plain_frame(piece, self.used, self.exclude)
            return pyarrow.Table.from_pandas(piece, preserve_index=False)
        if hasattr(piece, "__arrow_c_stream__") and not _kind_of(piece).endswith(".Series"):
            return pyarrow.table(piece)
        if isinstance(piece, pyarrow.RecordBatch):
            return pyarrow.Table.from_batches([piece])
        raise InputTypeError(
            f"item {number} of the generator has the type {_kind_of(piece)}: yield data frames or Arrow batches, or "
            "give each item to tithe.Stream.add"
        )


def _like(schema: Any, number: int, table: Any) -> Any:
    """A table with the columns and types of the first one."""
    names = table.column_names
    if set(names) != set(schema.names) or len(names) != len(schema.names):
        raise SchemaMismatchError(
            f"batch {number} has the columns {', '.join(names)}, but batch 0 {', '.join(schema.names)}"
        )
    columns = []
    for field in schema:
        column = table[field.name]
        try:
            columns.append(column.cast(field.type))
        except (ValueError, NotImplementedError) as error:
            raise SchemaMismatchError(
                f"column '{field.name}' has the type {column.type} in batch {number}, but {field.type} in batch 0: "
                "convert it to the same type in all batches"
            ) from error
    return type(table).from_arrays(columns, schema=schema)


def _refusal(data: Any) -> str:
    """The error message for an object that is not data."""
    kind = _kind_of(data)
    if isinstance(data, (list, tuple)):
        return "a list is not data: make it an array with numpy.asarray, or a data frame"
    if kind in ("pandas.Series", "polars.Series"):
        return "a single column is not data: give a data frame, and name the label with label="
    if isinstance(data, dict):
        return "a dict is not data: make it a data frame"
    return (
        f"an object of type {kind} is not data: give a path, a NumPy array, a SciPy sparse matrix, or anything with "
        "__arrow_c_stream__ (pandas, polars, pyarrow, DuckDB), or a generator of these"
    )


def _refuse_url(path: str) -> None:
    """Raise an error for an address such as ``s3://…``, which would look like a file that does not exist."""
    scheme, separator, _ = path.partition("://")
    if separator and scheme.isalnum():
        raise InputTypeError(
            f"'{path}' is a URL, and only local files are read: pass a lazy table, such as "
            f"polars.scan_parquet({path!r}) or a pyarrow dataset, or download the file"
        )


def _matrix(data: Any) -> tuple[str, Any]:
    """A two-dimensional NumPy array, or a sparse matrix, as the native module takes it."""
    if data.dtype.names is not None:
        raise InputTypeError("a structured array is not a matrix: make it a data frame, pandas.DataFrame(data)")
    if data.ndim != 2:
        raise InputTypeError(
            f"X must have two dimensions, rows and columns, but has {data.ndim}. "
            "Reshape it: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one row"
        )
    return ("sparse", _compressed(data)) if is_sparse(data) else _usable("X", data)


def _usable(what: str, data: npt.NDArray[Any]) -> tuple[str, npt.NDArray[Any]]:
    """An array of numbers or booleans in a type and a layout that the native module reads in place."""
    kind = data.dtype.kind
    if np.ma.is_masked(data):
        raise InputTypeError(
            f"{what} is a masked array; use {what}.filled(numpy.nan) to turn masked values into missing values"
        )
    if kind == "b":
        return "truths", data.view(np.uint8)
    if kind not in "iuf":
        raise InputTypeError(
            f"{what} has the dtype {data.dtype}, which is not numeric: "
            "convert it with astype(float), or use a data frame, where each column has its own type"
        )
    if data.dtype.itemsize > 8 or data.dtype == np.float16 or not data.dtype.isnative:
        narrow = np.float64 if data.dtype.itemsize > 8 else (np.float32 if data.dtype == np.float16 else None)
        data = data.astype(narrow or data.dtype.newbyteorder("="))
    if not data.flags.aligned or any(stride % data.dtype.itemsize for stride in data.strides):
        data = np.ascontiguousarray(data)
    return "numbers", data


def _vector(what: str, values: Vector) -> tuple[str, Any]:
    """One column as the native module takes it: numbers, booleans or strings."""
    if isinstance(values, np.ma.MaskedArray):
        array: npt.NDArray[Any] = values
    else:
        array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputTypeError(f"{what} must have one dimension, but has the shape {array.shape}")
    if array.dtype.kind in "OUST":
        return _words(what, array)
    kind, array = _usable(what, array)
    return kind, np.ascontiguousarray(array)


def _is_missing(value: Any) -> bool:
    """Whether a value is ``None``, NaN or a missing value of pandas; arrays and other objects are not compared."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(value != value)


def _words(what: str, array: npt.NDArray[Any]) -> tuple[str, Any]:
    """A column of Python objects: all strings, all numbers or all booleans."""
    values = array.tolist()
    present = [value for value in values if not _is_missing(value)]
    if array.dtype.kind == "S":
        raise InputTypeError(f"{what} contains bytes: decode them to strings first")
    if all(isinstance(value, str) for value in present):
        return "text", [value if isinstance(value, str) else None for value in values]
    if all(isinstance(value, (bool, np.bool_)) for value in values):
        return "truths", np.array(values, dtype=bool).view(np.uint8)
    if all(isinstance(value, (int, float, np.number, np.bool_)) for value in present):
        return "numbers", np.array([np.nan if _is_missing(value) else value for value in values], dtype=float)
    kinds = sorted({type(value).__name__ for value in present})
    raise InputTypeError(
        f"{what} contains Python objects of several types ({', '.join(kinds)}); convert them to one type"
    )


def _compressed(data: Any) -> tuple[Any, Any, Any, int]:
    """A SciPy sparse matrix as compressed rows."""
    rows = data.tocsr()
    kind, values = _usable("X", rows.data)
    if kind == "truths":
        values = values.astype(np.float64)
    indices = rows.indices
    if indices.dtype not in (np.dtype(np.int32), np.dtype(np.int64)):
        indices = indices.astype(np.int64)
    return rows.indptr.tolist(), indices, np.ascontiguousarray(values), int(data.shape[1])


#: Classes with all rows in memory, so that keeping their batches needs no more memory.
_HELD = {"pandas.DataFrame", "polars.DataFrame", "pyarrow.Table", "pyarrow.RecordBatch", "pyarrow.lib.Table"}


def _stream(data: Any, beside: list[tuple[str, str, Any]], may_be_empty: bool) -> _native.Data:
    """Data from any object with an Arrow stream."""
    kind = _kind_of(data)
    if kind in ("pandas.Series", "polars.Series"):
        raise InputTypeError(_refusal(data))
    held = kind in _HELD
    if held and not may_be_empty and hasattr(data, "__len__") and len(data) == 0 and kind != "pyarrow.RecordBatch":
        raise NoRowsError("the data has no rows")
    try:
        capsule = data.__arrow_c_stream__()
    except TitheError:
        raise
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputTypeError(f"the data cannot be read as Arrow: {error}") from error
    if beside and not held:
        raise InputTypeError(
            "y and weight can be arrays only if the data is in memory; for a stream, name the columns with label= "
            "and weight="
        )
    taken = [str(name) for name in getattr(data, "column_names", getattr(data, "columns", ()))]
    plain = []
    for name, own, column in beside:
        if name in taken:
            raise ColumnError(
                f"column '{name}': is already in the data; name it with label= or weight= and give no array, "
                "or give the array another name with label="
            )
        if own != "text" and len(column) != len(data):
            raise ColumnError(f"column '{name}': has {len(column)} rows where the data has {len(data)}")
        plain.append((name, own, column))
    return _native.Data.stream(capsule, held, plain)


def _plain_frame(data: Any, used: Collection[str | None] | None, exclude: Sequence[str]) -> Any:
    """A pandas data frame without its index, with strings as column names."""
    data = data.reset_index(drop=True)
    if not all(isinstance(name, str) for name in data.columns):
        data = data.set_axis([name_of(name) for name in data.columns], axis="columns")
    for name, dtype in list(data.dtypes.items()):
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
            continue
        # A part of a date, such as day.month, is computed from its column.
        is_used = used is None or name in used or any(part.rpartition(".")[0] == name for part in used if part)
        if name in exclude or not is_used:
            # It may not convert to Arrow; the name stays, for messages that list the columns.
            data[name] = None
        elif type(dtype).__name__ == "PeriodDtype":
            # Read like every date; Arrow would pass the number of the period.
            data[name] = data[name].dt.to_timestamp()
        elif isinstance(dtype, np.dtype) and dtype.kind == "O":
            _refuse_objects(name, data[name])
    return data


def _refuse_objects(name: str, values: Any) -> None:
    """Raise an error unless a column contains only numbers, only booleans or only strings."""
    kinds = sorted({type(value).__name__ for value in values if not _is_missing(value)})
    if kinds not in ([], ["str"], ["bool"], ["float"], ["int"], ["float", "int"]):
        raise InputTypeError(
            f"column '{name}' contains Python objects ({', '.join(kinds)}), not numbers, booleans or strings: "
            "convert it with astype(...), or leave it out with exclude="
        )
