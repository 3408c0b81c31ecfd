"""Coresets of Ray datasets: the same passes as on one machine, run where the blocks are.

>>> core = tithe.ray.build(dataset, label="y", size=1000)      # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ._extras import needed_for

with needed_for("tithe.ray", extra="ray"):
    import pyarrow as pa
    import ray
    import ray.data

from ._engine import JOINED, Run, build_with, columns_of, do, finished, join, verify_with
from ._errors import InputTypeError, NoRowsError
from ._options import PassOptions, takes

if TYPE_CHECKING:
    from typing import Unpack

    from . import _native
    from ._coreset import Coreset
    from ._data import Path
    from ._posterior import Posterior, Verification

__all__ = ["build", "verify"]


@takes(PassOptions)
def build(
    data: ray.data.Dataset,
    *,
    encoding: Coreset | Path | None = None,
    progress: bool | None = None,
    **options: Unpack[PassOptions],
) -> Coreset:
    """Build a coreset of a Ray dataset: calibrated and certified as on one machine.

    The used columns are computed once and kept in Ray's object store, which moves to disk what does not fit. The same
    blocks, seed and settings give the same bytes, on any number of workers.

    Parameters
    ----------
    data:
        The dataset.
    encoding:
        A coreset whose columns, levels, means and scales to use instead of learning them.
    progress:
        Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
    **options:
        The keyword arguments of :class:`PassOptions`.
    """
    return build_with(_columns(data), partial(_reader, data), encoding, progress, dict(options))


def verify(
    posterior: Posterior,
    data: ray.data.Dataset,
    *,
    label: str | None = None,
    draws: int | None = None,
    force: bool = False,
    progress: bool | None = None,
) -> Verification:
    """Check a posterior against all rows of a dataset in one pass, and correct it: see :func:`tithe.verify`."""
    columns, reader = _columns(data), partial(_reader, data)
    return verify_with(posterior, columns, reader, label=label, draws=draws, force=force, progress=progress)


def _columns(data: Any) -> _native.Data:
    if not isinstance(data, ray.data.Dataset):
        raise InputTypeError(f"data must be a Ray dataset, but has the type {type(data).__qualname__}")
    schema = data.schema()
    if schema is None:
        raise NoRowsError("the data has no rows")
    return columns_of(pa.schema(zip(schema.names, map(_type, schema.types), strict=True)))


def _type(kind: Any) -> pa.DataType:
    """The type of a column; that of NumPy if blocks are data frames of pandas."""
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.from_numpy_dtype(kind)
    except (TypeError, ValueError, NotImplementedError, pa.ArrowNotImplementedError):
        return pa.string()


@contextmanager
def _reader(data: ray.data.Dataset, names: Sequence[str]) -> Iterator[Run]:
    """Run tasks on the blocks with these columns."""
    kept = data.select_columns(list(names)).materialize()
    blocks = [ref for bundle in kept.iter_internal_ref_bundles() for ref in bundle.block_refs]
    work, joining = ray.remote(do), ray.remote(_join)

    def run(name: str, task: bytes) -> list[bytes]:
        sent = ray.put(task)
        outcomes = [work.options(name=name).remote(sent, number, names, block) for number, block in enumerate(blocks)]
        while len(outcomes) > JOINED:
            groups = [outcomes[start : start + JOINED] for start in range(0, len(outcomes), JOINED)]
            outcomes = [joining.remote(sent, *group) for group in groups]
        return finished(ray.get(outcomes))

    yield run


def _join(task: bytes, *outcomes: Any) -> Any:
    return join(task, outcomes)
