"""Coresets of rows in partitions elsewhere: what the engines for Spark, Dask and Ray have in common.

An engine runs a task, a few bytes, on every partition and returns the outcomes. Nothing is computed in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from . import _native
from ._coreset import Coreset, coreset_of, judged
from ._data import Path
from ._errors import SettingError, TitheError
from ._options import PassOptions, checked, truth, whole
from ._posterior import Posterior, Verification, verification
from ._progress import Watcher

if TYPE_CHECKING:
    import pyarrow as pa

#: Runs a task, which has a name, on every partition.
Run: TypeAlias = Callable[[str, bytes], "list[bytes]"]
#: Returns what runs tasks on these columns of the partitions.
Reader: TypeAlias = Callable[[Sequence[str]], AbstractContextManager[Run]]
#: What a task returns: the number of the partition, and its outcome or its error. An error in the data is returned to
#: the driver, because a retry would not help.
Outcome: TypeAlias = "tuple[int, bytes | None, TitheError | None]"

#: With more partitions than this, the workers join states in groups of this many.
JOINED = 64


def columns_of(schema: pa.Schema) -> _native.Data:
    """The columns of the partitions, for the driver."""
    return _native.Data.stream(schema.empty_table().__arrow_c_stream__(), True, [])


def build_with(
    columns: _native.Data,
    reader: Reader,
    encoding: Coreset | Path | None,
    progress: bool | None,
    options: dict[str, Any],
) -> Coreset:
    """Build a coreset of the rows in all partitions."""
    settings = checked("build", PassOptions, options)
    known = None if encoding is None else coreset_of("encoding", encoding)._native.encoding()
    names = _native.columns_to_build(columns, settings)
    with Watcher(progress) as watcher, reader(names) as run:
        core = _native.build_elsewhere(columns, settings | {"encoding": known}, run, watcher)
        return judged(Coreset(core), watcher)


def verify_with(
    posterior: Posterior,
    columns: _native.Data,
    reader: Reader,
    *,
    label: str | None,
    draws: int | None,
    force: bool,
    progress: bool | None,
) -> Verification:
    """Check a posterior against the rows in all partitions."""
    known = posterior._facts["encoding"]["label"]["column"]
    if label not in (None, known):
        raise SettingError(f"label must be '{known}', as in the posterior, but is '{label}'")
    names = _native.columns_to_verify(posterior._native, columns, {})
    with Watcher(progress) as watcher, reader(names) as run:
        chosen = None if draws is None else whole("draws", draws)
        found = _native.verify_elsewhere(posterior._native, columns, {}, chosen, truth("force", force), run, watcher)
    return verification(posterior, *found)


# The functions that run on the workers.


def do(task: bytes, partition: int, names: Sequence[str], rows: Any) -> Outcome:
    """Run a task on the rows of a partition, a data frame or an Arrow table."""
    import pyarrow as pa

    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    try:
        if table.num_rows == 0:
            return partition, _native.task_on_nothing(partition), None
        stream = table.select(list(names)).__arrow_c_stream__()
        return partition, _native.task_on_stream(task, partition, stream), None
    except TitheError as error:
        return partition, None, error


def join(task: bytes, outcomes: Sequence[Outcome]) -> Outcome:
    """Join the outcomes of several partitions."""
    errors = [outcome for outcome in outcomes if outcome[2] is not None]
    if errors:
        return min(errors, key=lambda outcome: outcome[0])
    first = min(number for number, _, _ in outcomes)
    return first, _native.joined(task, [cast("bytes", outcome) for _, outcome, _ in outcomes]), None


def finished(outcomes: Sequence[Outcome]) -> list[bytes]:
    """The outcomes of a task, or the error of the first partition, whichever worker was faster."""
    for _, _, error in sorted(outcomes, key=lambda outcome: outcome[0]):
        if error is not None:
            raise error
    return [cast("bytes", outcome) for _, outcome, _ in outcomes]
