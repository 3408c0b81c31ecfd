"""Coresets: building, fitting, writing, and passing them to other tools."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrow import ArrowTable
from ._data import DataLike, Path, Vector, array_columns, is_name, is_sparse, name_of, native, reading, streamed
from ._errors import InputTypeError, SettingError
from ._options import BuildOptions, ColumnName, DataFitOptions, by_name, checked, takes, whole, word
from ._posterior import Posterior
from ._progress import Watcher
from ._show import count, counted, described, number, table

if TYPE_CHECKING:
    from typing import Unpack

__all__ = ["Certificate", "Coreset", "build", "fit", "read_coreset"]


@takes(BuildOptions)
def build(
    data: DataLike,
    y: Vector | None = None,
    *,
    weight: ColumnName | Vector | None = None,
    columns: Sequence[str] | None = None,
    encoding: Coreset | Path | None = None,
    progress: bool | None = None,
    **options: Unpack[BuildOptions],
) -> Coreset:
    """Build a coreset: a few weighted rows that represent all rows of the data.

    Parameters
    ----------
    data:
        A path, glob or directory, or a list of them (Parquet, CSV, TSV, NDJSON, LIBSVM, Arrow); a NumPy array or a
        SciPy sparse matrix with ``y``; any object with ``__arrow_c_stream__``: pandas, polars, pyarrow, a DuckDB
        relation; or what gives such objects piece by piece: a polars LazyFrame, a pyarrow dataset, a generator of data
        frames or Arrow batches. Data that can be read only once and does not fit in ``memory`` is written to a
        temporary file.
    y:
        The labels, if they are not a column of ``data``.
    weight:
        The column of weights, or an array of them, if the data is weighted.
    columns:
        Column names for a NumPy array; by default ``x1``, ``x2``, ….
    encoding:
        A coreset whose columns, levels, means and scales to use instead of learning them, so that the two coresets can
        be merged.
    progress:
        Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
    **options:
        The keyword arguments of :class:`BuildOptions`.

    Examples
    --------
    >>> import tithe
    >>> X, y = tithe.generate("mixture", 20_000)
    >>> core = tithe.build(X, y, size=300)
    >>> len(core) <= 300
    True
    >>> core.certificate.verdict
    'indistinguishable'
    """
    settings = checked("build", BuildOptions, options)
    known = None if encoding is None else coreset_of("encoding", encoding)
    data = streamed(data)
    ready = _prepared(data, y, weight, columns, settings, known)
    with Watcher(progress) as watcher, reading(data):
        return judged(Coreset(_native.build(ready, settings, watcher)), watcher)


@takes(DataFitOptions)
def fit(
    data: DataLike,
    y: Vector | None = None,
    *,
    weight: ColumnName | Vector | None = None,
    columns: Sequence[str] | None = None,
    keep: Path | None = None,
    progress: bool | None = None,
    **options: Unpack[DataFitOptions],
) -> Posterior:
    """Draw from the posterior of data of any size.

    If fitting all rows takes too long, a coreset is built and fitted. Its draws are then compared with all rows, and
    corrected if they are inaccurate: :attr:`Posterior.verified` and ``repr`` say what was found.

    Parameters
    ----------
    data, y, weight, columns:
        As for :func:`build`.
    keep:
        Fit a coreset, and write it to this file.
    progress:
        Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
    **options:
        The keyword arguments of :class:`DataFitOptions`.

    Examples
    --------
    >>> import tithe
    >>> X, y = tithe.generate("mixture", 20_000)
    >>> posterior = tithe.fit(X, y, size=300)
    >>> posterior.verified["verdict"]
    'indistinguishable'
    """
    settings = checked("fit", DataFitOptions, options)
    if keep is not None and not isinstance(keep, (str, os.PathLike)):
        raise InputTypeError(f"keep must be the path of a file, but has the type {type(keep).__name__}")
    settings["keep"] = keep is not None
    data = streamed(data)
    ready = _prepared(data, y, weight, columns, settings, None)
    with Watcher(progress) as watcher, reading(data):
        drawn, core = _native.fit(ready, settings, watcher)
    if keep is not None and core is not None:
        core.write(os.fspath(keep))
    return Posterior(drawn, None if core is None else Coreset(core))


def _prepared(
    data: DataLike,
    y: Vector | None,
    weight: ColumnName | Vector | None,
    columns: Sequence[str] | None,
    settings: dict[str, Any],
    known: Coreset | None,
) -> _native.Data:
    """Data for the native module; completes the settings with the names of label and weight, and the encoding."""
    label, used = settings.get("label"), settings.get("features")
    weight_name = name_of(weight) if is_name(weight, data) else None
    weights = None if weight_name is not None else weight
    if weights is not None:
        weight_name = "weight"
    is_array = isinstance(data, np.ndarray) or is_sparse(data)
    if known is not None:
        label, used = label_of(known, label), [*known.columns, known._facts["encoding"]["weight"]]
        chosen = True if "design" in known._facts["encoding"] else None
        columns = columns or array_columns(data, known.columns, "the encoding has", chosen=chosen)
    if y is not None and label is None:
        label = response_of(settings.get("formula")) or "y"
    if is_array and y is None and label is None and settings.get("formula") is None:
        raise InputTypeError("X without y: give the labels as the second argument")
    if columns is not None and not is_array:
        raise SettingError("columns: has an effect only with an array; other data has column names already")
    ready = native(
        data,
        y,
        weight=weights,
        label=label,
        weight_name=weight_name or "weight",
        columns=columns,
        used=None if used is None else {*used, label, weight_name},
        exclude=settings.get("exclude") or [],
    )
    settings |= {"label": label, "weight": weight_name, "encoding": None if known is None else known._native.encoding()}
    return ready


def response_of(formula: str | None) -> str | None:
    """The label that a formula names; the native module checks it."""
    left = (formula or "").partition("~")[0].strip()
    return left.removeprefix("`").removesuffix("`") or None


def read_coreset(path: Path) -> Coreset:
    """Read a coreset that ``Coreset.write`` or the command line wrote."""
    with reading(path):
        return Coreset(_native.Coreset.read(os.fspath(path)))


def judged(core: Coreset, watcher: Watcher) -> Coreset:
    """Return a new coreset, and warn if it is too small."""
    if warning := too_small(core):
        watcher.warned(warning)
    return core


#: KL divergence, in nats, at which the steps of a coreset of coresets have lost more than a good coreset does.
_MUCH = 0.05


def too_small(core: Coreset) -> str | None:
    """The warning for a coreset that has too few rows according to its certificate."""
    certificate = core.certificate
    if certificate is None:
        return None
    if certificate.verdict == "moved" and certificate.movement is not None:
        distance, radius = certificate.movement
        return (
            f"the coreset may be inaccurate: its posterior is {number(distance)} standard deviations from where a part "
            f"was matched, and only {number(radius)} were measured; verify the posterior against the data"
        )
    kl = certificate.steps_kl if certificate.composed else certificate.kl
    if kl is None or (kl <= _MUCH if certificate.composed else certificate.try_size is None):
        return None
    size = "use a larger size" + (f", such as size={certificate.try_size}" if certificate.try_size else "")
    return (
        f"the coreset is too small: with {counted(len(core), 'row')}, the KL divergence to the posterior of all rows "
        f"is {'about ' if certificate.composed else ''}{number(kl)} nats; {size}"
    )


def coreset_of(name: str, value: Coreset | Path) -> Coreset:
    """Return a coreset, or read one from its path."""
    if isinstance(value, Coreset):
        return value
    if isinstance(value, (str, os.PathLike)):
        return read_coreset(value)
    raise InputTypeError(f"{name} must be a Coreset or the path of one, but has the type {type(value).__name__}")


def label_of(known: Coreset, label: str | None) -> str:
    """The label of a known encoding; raises if another one is named."""
    own = str(known._facts["encoding"]["label"]["column"])
    if label is not None and label != own:
        raise SettingError(f"label is '{label}', but the encoding has the label '{own}'")
    return own


@dataclass(frozen=True)
class Certificate:
    """How far the posterior of a coreset is from the posterior of the full data.

    For a coreset built from other coresets, the comparison is with the posterior of those input coresets, and the
    verdict is on all steps together: ``"estimated"`` (see ``steps_kl``), ``"moved"`` if the posterior is outside the
    radius in which a part was matched, or ``"unknown"``.
    """

    #: ``"exact"``, ``"indistinguishable"``, ``"good"``, ``"not verified"`` or ``"too small"``.
    verdict: str
    #: KL divergence, in nats, from its posterior to that of the full data (or of the input coresets).
    kl: float
    #: The largest error of a coefficient's mean, in posterior standard deviations.
    max_mean_error: float = 0.0
    #: The smallest ratio of a coefficient's standard deviation to that of the full posterior.
    sd_ratio_min: float = 1.0
    #: The largest such ratio.
    sd_ratio_max: float = 1.0
    #: Number of posterior draws at which the two were compared; 0 if only their normal approximations were.
    draws: int = 0
    #: A larger size to try if this one is too small.
    try_size: int | None = None
    #: Whether it was built from other coresets, by a stream or a merge; ``Posterior.verify`` then checks the full data.
    composed: bool = False
    #: Estimate of the KL divergence of all its steps together; ``None`` if a step had no certificate.
    steps_kl: float | None = None
    #: Largest distance of the posterior from where a part was matched, and its trust radius, in standard deviations.
    movement: tuple[float, float] | None = None

    def __str__(self) -> str:
        if self.verdict == "exact":
            return "exact: the likelihood is that of the full data"
        advice = f" (try size={self.try_size})" if self.try_size else ""
        against = " to the input coresets" if self.composed else ""
        how = f"at {self.draws} draws" if self.draws else "of normal approximations"
        return (
            f"{self.verdict}{advice}: KL {number(self.kl)} nats{against} {how}, largest mean error "
            f"{number(self.max_mean_error)} sd, sd ratios {number(self.sd_ratio_min)} to {number(self.sd_ratio_max)}"
        )


class Coreset(ArrowTable[_native.Coreset]):
    """A few weighted rows that represent all rows of the data, and how they were selected.

    Created by :func:`build` or :func:`read_coreset`.
    """

    def __init__(self, native: _native.Coreset) -> None:
        if not isinstance(native, _native.Coreset):
            raise InputTypeError("create a Coreset with tithe.build or tithe.read_coreset")
        self._native = native
        self._facts: dict[str, Any] = json.loads(native.facts())

    def __len__(self) -> int:
        return self._native.len()

    @property
    def provenance(self) -> dict[str, Any]:
        """How it was made: settings, seed and intermediate results."""
        return dict(self._facts["provenance"])

    @property
    def n_rows(self) -> int:
        """Number of rows of the data that it represents."""
        return int(self._facts["provenance"]["rows"])

    @property
    def certificate(self) -> Certificate | None:
        """How far its posterior is from that of the full data; ``None`` for methods without a certificate.

        For a coreset built from other coresets it describes the last step; all steps together are covered only to
        second order.
        """
        facts = self._facts["provenance"]
        if facts["exact"]:
            return Certificate("exact", 0.0)
        calibration = facts.get("calibration")
        if calibration is None:
            return None
        found = calibration["certificate"]
        verdict: Any = found["verdict"]
        try_size = None
        if isinstance(verdict, dict):
            try_size = int(verdict["TooSmall"]["try_size"])
            verdict = "too small"
        by_draws = found.get("by_draws")
        if by_draws is None and verdict != "too small":
            verdict = "not verified"
        composition = facts.get("composition")
        movement = None
        if composition is not None:
            moved = composition.get("movement")
            movement = None if moved is None else (moved["distance"], moved["radius"])
            verdict = "unknown" if composition["kl"] is None else "estimated"
            if movement is not None and movement[0] > movement[1]:
                verdict = "moved"
        errors = found["mean_shifts"] if by_draws is None else by_draws["mean_errors"]
        compared = found if by_draws is None else by_draws
        ratios = compared["sd_ratios"]
        return Certificate(
            verdict=verdict.lower(),
            kl=compared["kl"],
            max_mean_error=max((abs(error) for error in errors), default=0.0),
            sd_ratio_min=min(ratios, default=1.0),
            sd_ratio_max=max(ratios, default=1.0),
            draws=0 if by_draws is None else int(by_draws["draws"]),
            try_size=try_size,
            composed=composition is not None,
            steps_kl=None if composition is None else composition["kl"],
            movement=movement,
        )

    @property
    def warnings(self) -> list[str]:
        """Warnings from when it was built."""
        return list(self._facts["provenance"]["warnings"])

    @property
    def has_intercept(self) -> bool:
        """Whether the model has an intercept."""
        return bool(self._facts["encoding"]["intercept"])

    @property
    def coefficients(self) -> list[str]:
        """Names of the model's coefficients, the intercept first."""
        return list(self._facts["coefficients"])

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are features."""
        return [feature["column"] for feature in self._facts["encoding"]["features"]]

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of :attr:`X`."""
        return self.coefficients[int(self.has_intercept) :]

    @property
    def classes(self) -> list[Any]:
        """The label's two values, the negative one first."""
        label = self._facts["encoding"]["label"]
        return [label["negative"], label["positive"]]

    @property
    def X(self) -> npt.NDArray[np.float64]:
        """The rows in your own units, text columns one-hot; no intercept."""
        return self._native.x().reshape(len(self), len(self.feature_names))

    @property
    def y(self) -> npt.NDArray[np.int64]:
        """The labels, 1 for the positive class and 0 for the other."""
        return self._native.y()

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """Weight of each row in the log-likelihood."""
        return self._native.weights()

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Positions of the rows in the data, from 0."""
        return self._native.rows()

    @property
    def center(self) -> npt.NDArray[np.float64]:
        """What the model subtracts from each column of :attr:`X`."""
        return np.array(self._facts["center"][int(self.has_intercept) :])

    @property
    def scale(self) -> npt.NDArray[np.float64]:
        """What the model then divides each column by; priors are on this scale."""
        return np.array(self._facts["scale"][int(self.has_intercept) :])

    def fit(
        self,
        *,
        prior: str | None = None,
        intercept_prior: str | None = None,
        prior_for: Mapping[str, str] | None = None,
        sampler: Literal["nuts", "mala", "mala-plain", "laplace"] = "nuts",
        chains: int = 4,
        draws: int = 1000,
        warmup: int = 1000,
        seed: int = 0,
        threads: int | None = None,
        verify: DataLike | None = None,
        progress: bool | None = None,
    ) -> Posterior:
        """Draw from the posterior.

        Parameters
        ----------
        prior, intercept_prior, prior_for:
            ``"normal:SCALE"``, ``"cauchy:SCALE"``, ``"student:DEGREES:SCALE"``, ``"laplace:SCALE"``,
            ``"spike-slab:SPIKE:SLAB:INCLUSION"`` or ``"flat"``, on the standardised scale: for all coefficients, for
            the intercept, and for single coefficients by name. By default those that the coreset was built for;
            if only ``prior`` is given, the intercept has ``"normal:10"``, or ``prior`` if that is wider.
        sampler:
            ``"nuts"``, ``"mala"``, ``"mala-plain"`` (the paper's) or ``"laplace"``.
        chains, draws, warmup, seed:
            Number of chains, draws kept and warmup iterations per chain; the same seed gives the same draws.
        verify:
            The data that the coreset was built from, to compare the draws with and correct them if needed: see
            :meth:`Posterior.corrected`, which takes arrays too.
        threads, progress:
            As for :func:`build`.

        Examples
        --------
        >>> import tithe
        >>> X, y = tithe.generate("mixture", 20_000)
        >>> posterior = tithe.build(X, y, size=300).fit(draws=500)
        >>> posterior.draws.shape
        (4, 500, 11)
        """
        options = {
            "prior": None if prior is None else word("prior", prior),
            "intercept_prior": None if intercept_prior is None else word("intercept_prior", intercept_prior),
            "prior_for": by_name(word, "prior_for", prior_for),
            "sampler": word("sampler", sampler),
            "chains": whole("chains", chains),
            "draws": whole("draws", draws),
            "warmup": whole("warmup", warmup),
            "seed": whole("seed", seed),
            "threads": None if threads is None else whole("threads", threads),
        }
        with Watcher(progress) as watcher:
            posterior = Posterior(self._native.fit(options, watcher), self)
        return posterior if verify is None else posterior.corrected(verify, threads=threads, progress=progress)

    def _lines(self) -> list[tuple[str, str]]:
        facts = self._facts["provenance"]
        dropped = f"; {count(facts['rows_dropped'])} dropped" if facts["rows_dropped"] else ""
        lines = [
            ("rows", f"{count(len(self))} weighted rows represent {count(self.n_rows)} rows{dropped}"),
            ("model", f"{count(len(self.coefficients))} coefficients; {facts['method']}, seed {facts['seed']}"),
        ]
        certificate, composition = self.certificate, facts.get("composition")
        if composition is not None:
            steps = composition["kl"]
            adds = "" if steps is None else f"; the steps add {number(steps)} nats (estimate)"
            depth = f"at most {counted(composition['depth'], 'compression step')} from the data"
            made = f"{counted(composition['parts'], 'coreset')}, {depth}{adds}"
            lines.append(("built from", f"built from {made}"))
        if certificate is not None:
            lines.append(("certificate", str(certificate)))
        elif composition is None:
            lines.append(("certificate", f"none: the method {facts['method']} has no certificate"))
        return lines

    def __repr__(self) -> str:
        return described("tithe.Coreset", self._lines())

    def _repr_html_(self) -> str:
        return table("tithe.Coreset", self._lines(), self.warnings)

    def __reduce__(self) -> tuple[Any, ...]:
        return _coreset_from_bytes, (self._native.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coreset) and self._native.to_bytes() == other._native.to_bytes()


def _coreset_from_bytes(data: bytes) -> Coreset:
    return Coreset(_native.Coreset.from_bytes(data))
