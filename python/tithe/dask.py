"""Coresets of Dask data frames: the same passes as on one machine, run where the partitions are.

>>> core = tithe.dask.build(frame, label="y", size=1000)      # doctest: +SKIP

Any scheduler of Dask works: threads, processes, or a cluster with the package on its workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from ._extras import needed_for

with needed_for("tithe.dask", extra="dask"):
    import dask.dataframe as dd
    import pyarrow as pa
    from dask.base import compute
    from dask.delayed import delayed

from ._engine import JOINED, Outcome, Run, build_with, columns_of, do, finished, join, verify_with
from ._errors import InputTypeError
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
    data: dd.DataFrame,
    *,
    persist: bool = False,
    encoding: Coreset | Path | None = None,
    progress: bool | None = None,
    **options: Unpack[PassOptions],
) -> Coreset:
    """Build a coreset of a Dask data frame: calibrated and certified as on one machine.

    The same partitions, seed and settings give the same bytes, on any number of workers.

    Parameters
    ----------
    data:
        The data frame. It is computed again in every pass, about six times.
    persist:
        Keep the used columns in the workers' memory from the first pass to the last. Worth it if computing the data
        frame takes longer than the passes, and required if it gives other rows each time.
    encoding:
        A coreset whose columns, levels, means and scales to use instead of learning them.
    progress:
        Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
    **options:
        The keyword arguments of :class:`PassOptions`.
    """
    return build_with(_columns(data), partial(_reader, data, persist), encoding, progress, dict(options))


def verify(
    posterior: Posterior,
    data: dd.DataFrame,
    *,
    label: str | None = None,
    draws: int | None = None,
    force: bool = False,
    progress: bool | None = None,
) -> Verification:
    """Check a posterior against all rows of a data frame in one pass, and correct it: see :func:`tithe.verify`."""
    reader = partial(_reader, data, False)
    columns = _columns(data)
    return verify_with(posterior, columns, reader, label=label, draws=draws, force=force, progress=progress)


def _columns(data: Any) -> _native.Data:
    if not isinstance(data, dd.DataFrame):
        raise InputTypeError(f"data must be a Dask data frame, but has the type {type(data).__qualname__}")
    schema = pa.Schema.from_pandas(data._meta, preserve_index=False)
    # Nothing is known about Python objects without rows; text is what can be used.
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in schema]
    return columns_of(pa.schema(fields))


@contextmanager
def _reader(data: dd.DataFrame, persist: bool, names: Sequence[str]) -> Iterator[Run]:
    """Run tasks on the partitions with these columns."""
    frame = data[list(names)]
    parts = (frame.persist() if persist else frame).to_delayed()
    work, joining = delayed(do, pure=False), delayed(join, pure=False)

    def run(name: str, task: bytes) -> list[bytes]:
        outcomes = [work(task, number, names, part) for number, part in enumerate(parts)]
        while len(outcomes) > JOINED:
            groups = [outcomes[start : start + JOINED] for start in range(0, len(outcomes), JOINED)]
            outcomes = [joining(task, group) for group in groups]
        found: tuple[Outcome, ...] = compute(*outcomes)  # type: ignore[no-untyped-call]
        return finished(found)

    yield run
