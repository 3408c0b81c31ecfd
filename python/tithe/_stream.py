"""Streams: coresets of rows that arrive in parts; and merging coresets that were built separately."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _native
from ._coreset import Coreset, coreset_of, judged, label_of, response_of
from ._data import DataLike, Path, Vector, array_columns, is_sparse, native, reading, streamed
from ._errors import InputTypeError
from ._options import ColumnName, MergeOptions, StreamOptions, checked, column, default_of, takes, whole
from ._progress import Watcher
from ._show import count, counted, described, table

if TYPE_CHECKING:
    from typing import Unpack

__all__ = ["Stream", "merge"]


@takes(StreamOptions)
class Stream:
    """A coreset of rows that arrive in parts, without end, in little memory.

    Rows are divided into blocks. Each block becomes a coreset, and two coresets of a level become one of the next
    level, so only a few are held. With ``state``, the stream is saved in a directory: it can be stopped or killed at
    any moment and resumes when it is opened again, here or by ``tithe stream``. Without ``state``, it is held in memory
    and can be pickled.

    Each :meth:`add` takes all of its rows or none: after an error or Ctrl-C the stream is as it was before.

    Parameters
    ----------
    state:
        The directory of the stream; it is created if it does not exist. A directory has one writer at a time.
    weight:
        The column of weights, if the data is weighted.
    columns:
        Column names for NumPy arrays; by default ``x1``, ``x2``, ….
    encoding:
        A coreset whose columns, levels, means and scales to use instead of learning them.
    progress:
        Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
    **options:
        The keyword arguments of :class:`StreamOptions`.

    Examples
    --------
    >>> import tithe
    >>> with tithe.Stream(size=300, block=4_000) as stream:
    ...     for day in range(5):
    ...         stream.add(*tithe.generate("mixture", 3_000, seed=day))
    ...     core = stream.snapshot()
    >>> core.n_rows, len(core) <= 300
    (15000, True)
    """

    def __init__(
        self,
        state: Path | None = None,
        *,
        weight: ColumnName | None = None,
        columns: Sequence[str] | None = None,
        encoding: Coreset | Path | None = None,
        progress: bool | None = None,
        **options: Unpack[StreamOptions],
    ) -> None:
        if state is not None and not isinstance(state, (str, os.PathLike)):
            raise InputTypeError(f"state must be the path of a directory, but has the type {type(state).__name__}")
        self._options = checked("Stream", StreamOptions, options)
        self._options["weight"] = None if weight is None else column("weight", weight)
        known = None if encoding is None else coreset_of("encoding", encoding)
        if known is not None:
            label_of(known, self._options.get("label"))
        self._state = None if state is None else os.fspath(state)
        self._columns = None if columns is None else [str(name) for name in columns]
        self._last = (0, 0, 0, 0, 0, 0)
        self._progress = progress
        with Watcher(progress) as watcher:
            settings = {**self._options, "encoding": None if known is None else known._native.encoding()}
            self._native = _native.Stream.open(self._state, settings, watcher)

    def add(self, data: DataLike, y: Vector | None = None, *, weight: Vector | None = None) -> None:
        """Add rows: all of them, or none if one of them is invalid.

        ``data`` is anything that :func:`build` takes; ``y`` and ``weight`` are arrays, if they are not columns of it.
        Data that arrives batch by batch is read once and not kept. Data without rows is not an error.

        The first data decides which columns there are. A stream with a state on disk is saved now and then, so that
        saving takes a small part of the time, and when it is closed.
        """
        names = self._native.names()
        label, weight_name = self._options.get("label"), self._options.get("weight")
        features, exclude = self._options.get("features"), self._options.get("exclude") or []
        if y is not None:
            label = label or (names[1] if names else response_of(self._options.get("formula")) or "y")
        if weight is not None:
            weight_name = weight_name or (names and names[2]) or "weight"
        columns = self._columns
        if isinstance(data, np.ndarray) or is_sparse(data):
            if y is None:
                raise InputTypeError("X without y: give the labels as the second argument")
            if names:
                chosen = bool(exclude) or features is not None or self._options.get("formula") is not None
                columns = array_columns(data, names[0], "the stream has", chosen=chosen)
        used: set[str | None] | None = None
        if names:
            used = {*names[0], *names[1:]}
        elif features is not None:
            used = {*features, label, weight_name}
        data = streamed(data)
        ready = native(
            data,
            y,
            weight=weight,
            label=label,
            weight_name=weight_name or "weight",
            columns=columns,
            used=used,
            exclude=exclude,
            may_be_empty=True,
        )
        with Watcher(self._progress) as watcher, reading(data):
            self._native.add(ready, label, weight_name if weight is not None else None, watcher)

    def snapshot(self) -> Coreset:
        """Return the coreset of all rows added so far. The stream continues; another thread may be adding to it."""
        with Watcher(self._progress) as watcher:
            return judged(Coreset(self._native.snapshot(watcher)), watcher)

    def save(self) -> None:
        """Save all rows added so far to the state on disk, now."""
        with Watcher(False) as watcher:
            self._native.save(watcher)

    def close(self) -> None:
        """Save and release the state, so that another stream can write to it. A closed stream takes no more rows."""
        self._close(complete=True)

    def _close(self, complete: bool) -> None:
        self._last = self._counts()
        with Watcher(False) as watcher:
            self._native.close(complete, watcher)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Rows added before an error are kept.
        self._close(complete=kind is None)

    @staticmethod
    def read_snapshot(state: Path, *, threads: int | None = None, progress: bool | None = None) -> Coreset:
        """Return the coreset of a state on disk, as last saved; another process may be writing there."""
        threads = None if threads is None else whole("threads", threads)
        with Watcher(progress) as watcher:
            return judged(Coreset(_native.Stream.read_snapshot(os.fspath(state), threads, watcher)), watcher)

    @staticmethod
    def repair(state: Path) -> tuple[int, int | None]:
        """Return to the last intact state if files of a state are damaged.

        Returns how many rows the state contains, and how many must be added again (``None`` if that is unknown).
        """
        with Watcher(False) as watcher:
            return _native.Stream.repair(os.fspath(state), watcher)

    @property
    def state(self) -> str | None:
        """The directory of the stream; ``None`` for a stream in memory."""
        return self._state

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._native.progress() is None

    @property
    def rows(self) -> int:
        """Number of rows added."""
        return self._counts()[0]

    @property
    def blocks(self) -> int:
        """Number of complete blocks."""
        return self._counts()[1]

    @property
    def pending(self) -> int:
        """Number of rows in the block that is not yet complete; a snapshot includes them."""
        return self._counts()[2]

    @property
    def rows_dropped(self) -> int:
        """Number of added rows that are not used because of a missing value (``missing="drop"``)."""
        return self._counts()[3]

    @property
    def bad_rows(self) -> int:
        """Number of rows that could not be read and were skipped."""
        return self._counts()[4]

    def _counts(self) -> tuple[int, int, int, int, int, int]:
        return self._native.progress() or self._last

    def _lines(self) -> list[tuple[str, str]]:
        where = "in memory" if self._state is None else f"in '{self._state}'"
        rows, blocks, pending, dropped, bad, coresets = self._counts()
        block = self._options.get("block", default_of(StreamOptions, "block"))
        held = f"{counted(blocks, 'block')} of {count(block)} rows in {counted(coresets, 'coreset')}"
        lines = [
            ("rows", f"{counted(rows, 'row')}, {where}" + (", closed" if self.closed else "")),
            ("held", f"{held}, and {counted(pending, 'row')} of the next block"),
        ]
        if dropped:
            lines.append(("dropped", f"{counted(dropped, 'row')} for missing values"))
        if bad:
            lines.append(("skipped", f"{counted(bad, 'row')} that could not be read"))
        return lines

    def __repr__(self) -> str:
        return described("tithe.Stream", self._lines())

    def _repr_html_(self) -> str:
        return table("tithe.Stream", self._lines())

    def __reduce__(self) -> tuple[Any, ...]:
        if self._state is not None:
            raise InputTypeError(
                "a stream with a state on disk cannot be pickled, because only one stream may write there: "
                "close it, and open it again with the same state="
            )
        return _unpacked, (self._native.pack(), self._options, self._columns, self._progress)


def _unpacked(
    packed: tuple[str, list[bytes | None], bytes | None, bytes | None],
    options: dict[str, Any],
    columns: list[str] | None,
    progress: bool | None,
) -> Stream:
    stream = Stream.__new__(Stream)
    stream._state, stream._options, stream._columns, stream._progress = None, options, columns, progress
    stream._last = (0, 0, 0, 0, 0, 0)
    stream._native = _native.Stream.unpack(*packed, options)
    return stream


@takes(MergeOptions)
def merge(
    coresets: Iterable[Coreset | Path], *, progress: bool | None = None, **options: Unpack[MergeOptions]
) -> Coreset:
    """Merge coresets that were built separately: by other people, on other days, on other machines.

    They must have the same label, classes, intercept, levels, and features in the same order; pass ``encoding`` to
    :func:`build` to ensure that. Means and scales that each learnt from its own rows are pooled. Rows are numbered as
    if the data had been read one after the other.

    Parameters
    ----------
    coresets:
        Coresets, or paths of their files. If they have at most ``size`` rows together, all rows are kept.
    progress:
        Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
    **options:
        The keyword arguments of :class:`MergeOptions`.

    Examples
    --------
    >>> import tithe
    >>> days = [tithe.build(*tithe.generate("mixture", 5_000, seed=day), size=300) for day in range(3)]
    >>> core = tithe.merge(days, size=300)
    >>> core.n_rows, len(core) <= 300
    (15000, True)
    """
    if isinstance(coresets, (str, os.PathLike, Coreset)) or not isinstance(coresets, Iterable):
        raise InputTypeError("merge takes a list of coresets: tithe.merge([a, b])")
    parts = []
    for at, each in enumerate(coresets):
        name = f"coresets[{at}]" if isinstance(each, Coreset) else str(each)
        parts.append((name, coreset_of(f"coresets[{at}]", each)._native))
    settings = checked("merge", MergeOptions, options)
    with Watcher(progress) as watcher:
        return judged(Coreset(_native.merge(parts, settings, watcher)), watcher)
