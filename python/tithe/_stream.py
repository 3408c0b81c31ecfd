"""Streams: coresets of rows that come in parts, without end; and merging what was made apart."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from . import _native
from ._coreset import Coreset, coreset_of, judged, label_of
from ._data import DataLike, Path, Vector, array_columns, is_sparse, naming_missing_files, native
from ._errors import InputTypeError, SettingError
from ._options import build_options, truth, whole, word
from ._progress import Watcher
from ._show import count, counted, described, table

__all__ = ["Stream", "merge"]


class Stream:
    """The coreset of rows that come in parts, without end, in little memory.

    Rows are cut into blocks; every block becomes a coreset, and two of a level become one of the next, so that only a
    few are held. With ``state`` the stream lives in a directory, can be stopped or killed at any moment, and goes on
    where it was when it is opened again, here or by ``tithe stream``. Without, it lives in memory, and pickles.

    Each :meth:`add` is in as a whole or not at all: after an error or Ctrl-C the stream is what it was before.

    Parameters
    ----------
    state:
        The directory of the stream; it is made if it is not there. A directory has one writer at a time.
    label, positive, weight, features, exclude, columns, text, missing, intercept, standardize, max_levels:
        As for :func:`build`; ``weight`` names a column.
    size, epsilon, delta, method, seed, clusters, radius, theta_star, centers, collapse, constant, prior_scale:
        What coreset to keep, as for :func:`build`.
    block:
        Rows in a block. A stream of a single block is :func:`build`, to the byte.
    warmup_rows:
        Rows from which levels and moments are learnt; by default those of the first block.
    encoding:
        A coreset whose columns, levels, means and scales to take in place of learning them.
    unseen:
        What to do with a level of text that comes later: ``"error"``, or ``"reference"`` to take it for the reference.
    skip_bad:
        Leave out rows of files that cannot be read, at most so many.
    replay:
        The rows to come are those from the first on: rows that are in are skipped, and must be the same.
    format, header, zero_based, threads, progress:
        As for :func:`build`.

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
        label: str | None = None,
        size: int | None = None,
        block: int = 50_000,
        epsilon: float | None = None,
        delta: float = 0.05,
        method: str | None = None,
        positive: object = None,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        text: Sequence[str] = (),
        missing: str = "error",
        intercept: bool = True,
        standardize: bool = True,
        max_levels: int = 100,
        warmup_rows: int | None = None,
        encoding: Coreset | Path | None = None,
        unseen: str = "error",
        skip_bad: int | None = None,
        replay: bool = False,
        seed: int = 0,
        threads: int | None = None,
        format: str | None = None,
        header: bool = True,
        zero_based: bool = False,
        clusters: int = 6,
        radius: float | str = "auto:3",
        theta_star: Mapping[str, float] | None = None,
        centers: str = "exact",
        collapse: bool = True,
        constant: float = 4.0,
        prior_scale: float = 2.0,
        progress: bool | None = None,
    ) -> None:
        if state is not None and not isinstance(state, (str, os.PathLike)):
            raise InputTypeError(f"state: must be the path of a directory, but is of type {type(state).__name__}")
        for name, value in (("label", label), ("weight", weight)):
            if value is not None and not isinstance(value, str):
                raise SettingError(f"{name}: must be the name of a column, but is of type {type(value).__name__}")
        known = None if encoding is None else coreset_of("encoding", encoding)
        if known is not None:
            label_of(known, label)
        self._state = None if state is None else os.fspath(state)
        self._columns = None if columns is None else [str(name) for name in columns]
        self._last = (0, 0, 0, 0, 0, 0)
        self._progress = progress
        self._options: dict[str, Any] = {
            **build_options(
                label=label,
                weight=weight,
                features=features,
                exclude=exclude,
                positive=positive,
                intercept=intercept,
                standardize=standardize,
                max_levels=max_levels,
                missing=missing,
                size=size,
                epsilon=epsilon,
                delta=delta,
                constant=constant,
                method=method,
                clusters=clusters,
                radius=radius,
                theta_star=theta_star,
                centers=centers,
                collapse=collapse,
                prior_scale=prior_scale,
                seed=seed,
                format=format,
                header=header,
                zero_based=zero_based,
                text=text,
                threads=threads,
            ),
            "block": whole("block", block, least=1),
            "warmup_rows": None if warmup_rows is None else whole("warmup_rows", warmup_rows, least=1),
            "unseen": word("unseen", unseen),
            "skip_bad": None if skip_bad is None else whole("skip_bad", skip_bad),
            "replay": truth("replay", replay),
        }
        with Watcher(progress) as watcher:
            options = {**self._options, "encoding": None if known is None else known._native.encoding()}
            self._native = _native.Stream.open(self._state, options, watcher)

    def add(self, data: DataLike, y: Vector | None = None, *, weight: Vector | None = None) -> None:
        """Take in rows: all of them, or none if something is wrong with one.

        ``data`` is anything that :func:`build` takes; ``y`` and ``weight`` stand beside it where they are no columns
        of it. What comes batch by batch is read once and not kept. No rows are no error.

        The first data decides which columns there are. With a state on disk, what is in is saved when that takes but
        a small part of the time, and when the stream is closed.
        """
        names = self._native.names()
        label, weight_name = self._options["label"], self._options["weight"]
        if y is not None:
            label = label or (names[1] if names else "y")
        if weight is not None:
            weight_name = weight_name or (names and names[2]) or "weight"
        columns = self._columns
        if isinstance(data, np.ndarray) or is_sparse(data):
            if y is None:
                raise InputTypeError("X without y: give the labels as the second argument")
            if names:
                chosen = bool(self._options["exclude"]) or self._options["features"] is not None
                columns = array_columns(data, names[0], "the stream has", chosen=chosen)
        used: set[str | None] | None = None
        if names:
            used = {*names[0], *names[1:]}
        elif self._options["features"] is not None:
            used = {*self._options["features"], label, weight_name}
        ready = native(
            data,
            y,
            weight=weight,
            label=label,
            weight_name=weight_name or "weight",
            columns=columns,
            used=used,
            exclude=self._options["exclude"],
            may_be_empty=True,
        )
        with Watcher(self._progress) as watcher, naming_missing_files(data):
            self._native.add(ready, label, weight_name if weight is not None else None, watcher)

    def snapshot(self) -> Coreset:
        """Give the coreset of all rows that are in. The stream goes on; another thread may be adding to it."""
        with Watcher(self._progress) as watcher:
            return judged(Coreset(self._native.snapshot(watcher)), watcher)

    def save(self) -> None:
        """Write all that is in to the state on disk, now."""
        with Watcher(False) as watcher:
            self._native.save(watcher)

    def close(self) -> None:
        """Save, and let others write to the state. A closed stream takes no more rows."""
        self._close(complete=True)

    def _close(self, complete: bool) -> None:
        self._last = self._told()
        with Watcher(False) as watcher:
            self._native.close(complete, watcher)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What was added before an error is in.
        self._close(complete=kind is None)

    @staticmethod
    def read_snapshot(state: Path, *, threads: int | None = None, progress: bool | None = None) -> Coreset:
        """Give the coreset of what a state on disk says is in; somebody may be writing there."""
        threads = None if threads is None else whole("threads", threads)
        with Watcher(progress) as watcher:
            return judged(Coreset(_native.Stream.read_snapshot(os.fspath(state), threads, watcher)), watcher)

    @staticmethod
    def repair(state: Path) -> tuple[int, int | None]:
        """Fall back to the last state that is whole, where files of a state are damaged.

        Gives how many rows are in, and how many must be added again (``None`` if nothing says how many).
        """
        with Watcher(False) as watcher:
            return _native.Stream.repair(os.fspath(state), watcher)

    @property
    def state(self) -> str | None:
        """The directory; ``None`` for a stream in memory."""
        return self._state

    @property
    def closed(self) -> bool:
        """Whether it takes no more rows."""
        return self._native.progress() is None

    @property
    def rows(self) -> int:
        """How many rows are in."""
        return self._told()[0]

    @property
    def blocks(self) -> int:
        """How many whole blocks they make."""
        return self._told()[1]

    @property
    def pending(self) -> int:
        """How many rows wait for their block to fill; a snapshot has them too."""
        return self._told()[2]

    @property
    def rows_dropped(self) -> int:
        """How many of the rows are in, but not in use, for a missing value (``missing="drop"``)."""
        return self._told()[3]

    @property
    def bad_rows(self) -> int:
        """How many rows could not be read and were left out."""
        return self._told()[4]

    def _told(self) -> tuple[int, int, int, int, int, int]:
        return self._native.progress() or self._last

    def _lines(self) -> list[tuple[str, str]]:
        where = "in memory" if self._state is None else f"in '{self._state}'"
        rows, blocks, pending, dropped, bad, coresets = self._told()
        held = f"{counted(blocks, 'block')} of {count(self._options['block'])} in {counted(coresets, 'coreset')}"
        lines = [
            ("rows", f"{counted(rows, 'row')}, {where}" + (", closed" if self.closed else "")),
            ("held", f"{held}, and {counted(pending, 'row')} of the next"),
        ]
        if dropped:
            lines.append(("dropped", f"{counted(dropped, 'row')} for missing values"))
        if bad:
            lines.append(("left out", f"{counted(bad, 'row')} that could not be read"))
        return lines

    def __repr__(self) -> str:
        return described("tithe.Stream", self._lines())

    def _repr_html_(self) -> str:
        return table("tithe.Stream", self._lines())

    def __reduce__(self) -> tuple[Any, ...]:
        if self._state is not None:
            raise InputTypeError(
                "a stream with a state on disk does not pickle, for it has the only right to write there: "
                "close it and open it again with the same state="
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


def merge(
    coresets: Iterable[Coreset | Path],
    *,
    size: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.05,
    method: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    clusters: int = 6,
    radius: float | str = "auto:3",
    theta_star: Mapping[str, float] | None = None,
    centers: str = "exact",
    collapse: bool = True,
    constant: float = 4.0,
    prior_scale: float = 2.0,
    progress: bool | None = None,
) -> Coreset:
    """Join coresets that were made apart: by other people, on other days, on other machines.

    They must have the same label, classes, intercept, features in the same order, and levels; :func:`build` takes an
    ``encoding`` for that. Means and scales that each learnt from its own rows are pooled. Rows count as if the data
    had been read one after the other.

    Parameters
    ----------
    coresets:
        Coresets, or paths of their files.
    size, epsilon, delta, method, seed, threads, progress:
        As for :func:`build`. Coresets that have no more than ``size`` rows together are kept as they are.
    clusters, radius, theta_star, centers, collapse, constant, prior_scale:
        Details of the method.

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
    options = build_options(
        size=size,
        epsilon=epsilon,
        delta=delta,
        constant=constant,
        method=method,
        clusters=clusters,
        radius=radius,
        theta_star=theta_star,
        centers=centers,
        collapse=collapse,
        prior_scale=prior_scale,
        seed=seed,
        threads=threads,
    )
    with Watcher(progress) as watcher:
        return judged(Coreset(_native.merge(parts, options, watcher)), watcher)
