"""Posteriors: draws with their diagnostics, predictions, ArviZ, and the check against the full data."""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrow import ArrowTable
from ._data import DataLike, Path, Vector, array_columns, naming_missing_files, native
from ._errors import InputTypeError, SettingError
from ._options import reading, real, truth, whole, word
from ._progress import Watcher
from ._show import count, described, number, table

if TYPE_CHECKING:
    import pandas

__all__ = ["Posterior", "Verification", "read_posterior", "verify"]


#: The columns of a summary, in the order in which they are read.
_SUMMARY = ["mean", "sd", "q05", "q50", "q95", "mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat"]


def read_posterior(path: Path) -> Posterior:
    """Read a posterior that ``Posterior.write`` or the command line wrote."""
    with naming_missing_files(path):
        return Posterior(_native.Posterior.read(os.fspath(path)))


class Posterior(ArrowTable[_native.Posterior]):
    """Draws of the coefficients on your own scale, with all that is needed to use and to judge them.

    Made by :meth:`Coreset.fit` or :func:`read_posterior`.
    """

    def __init__(self, native: _native.Posterior) -> None:
        if not isinstance(native, _native.Posterior):
            raise InputTypeError("a Posterior is made by Coreset.fit or tithe.read_posterior")
        self._native = native
        self._facts: dict[str, Any] = json.loads(native.facts())

    @property
    def coefficients(self) -> list[str]:
        """Names of the coefficients, the intercept first: ``column``, or ``column=level``."""
        return list(self._facts["coefficients"])

    @property
    def draws(self) -> npt.NDArray[np.float64]:
        """The draws: chains, draws, coefficients."""
        settings = self._facts["settings"]
        return self._native.draws().reshape(settings["chains"], settings["draws"], len(self.coefficients))

    @property
    def stats(self) -> dict[str, npt.NDArray[Any]]:
        """What the sampler noted of each draw, under ArviZ's names: chains, draws."""
        settings = self._facts["settings"]
        shape = settings["chains"], settings["draws"]
        return {name: values.reshape(shape) for name, values in self._native.stats().items()}

    @property
    def findings(self) -> list[str]:
        """What is wrong with the draws and what to do about it; empty if all is well."""
        return list(self._facts["findings"])

    @property
    def priors(self) -> dict[str, str]:
        """The prior of each coefficient."""
        return dict(zip(self.coefficients, self._facts["priors"], strict=True))

    @property
    def classes(self) -> list[Any]:
        """The label's two values, the negative one first."""
        label = self._facts["encoding"]["label"]
        return [label["negative"], label["positive"]]

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """The mean of each coefficient."""
        return np.array([row["mean"] for row in self._facts["summary"]])

    @property
    def sd(self) -> npt.NDArray[np.float64]:
        """The standard deviation of each coefficient."""
        return np.array([row["sd"] for row in self._facts["summary"]])

    def summary(self) -> pandas.DataFrame:
        """Summarise each coefficient: mean, sd, 90 % interval, Monte Carlo errors, effective draws, R-hat."""
        import pandas

        frame = pandas.DataFrame(self._facts["summary"], index=self.coefficients)
        return frame[_SUMMARY].astype(float)

    def to_arviz(self) -> Any:
        """Give the draws as ArviZ has them: groups ``posterior`` and ``sample_stats``.

        ArviZ before 1 gives an ``InferenceData``, ArviZ 1 a tree of xarray's. Its ``summary`` is equal to ours but for
        one column: ArviZ 1 takes ``ess_tail`` at other quantiles than 5 % and 95 %. Coefficients called ``chain`` and
        ``draw``, as its dimensions are, become ``chain_`` and ``draw_``.
        """
        import arviz

        values = self.draws
        draws = {name: values[:, :, i] for i, name in enumerate(_beside_dimensions(self.coefficients))}
        attributes = {"inference_library": "tithe", "sampler": self._facts["sampler"]}
        groups: dict[str, Any] = {"posterior": draws, "sample_stats": self.stats}
        # ArviZ 1 takes the groups as one dictionary and gives a tree of xarray's, earlier ones take them by name.
        by_name = "posterior" in inspect.signature(arviz.from_dict).parameters
        made = arviz.from_dict(**groups) if by_name else arviz.from_dict(groups)
        made.posterior.attrs.update(attributes)
        return made

    def plot(self, kind: str = "forest", **settings: Any) -> Any:
        """Plot with ArviZ: ``plot_<kind>`` of the draws, such as ``forest``, ``trace``, ``pair``, ``energy``."""
        import arviz

        plot = getattr(arviz, f"plot_{kind}", None)
        if plot is None:
            raise SettingError(f"kind: '{kind}' is not among the plots of ArviZ {arviz.__version__}")
        return plot(self.to_arviz(), **settings)

    def predict_proba(
        self, data: DataLike, *, unseen: str = "error", threads: int | None = None, progress: bool | None = None
    ) -> npt.NDArray[np.float64]:
        """Give for each row the probability of either class (:attr:`classes`), the mean over all draws.

        ``unseen="reference"`` takes a level of text that was not there for the reference level.
        """
        mean = self._predict(data, 0.9, unseen, threads, progress)[0]
        return np.column_stack([1.0 - mean, mean])

    def predict_interval(
        self,
        data: DataLike,
        *,
        interval: float = 0.9,
        unseen: str = "error",
        threads: int | None = None,
        progress: bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """Give for each row the interval that holds the positive class's probability with probability ``interval``."""
        _, _, lower, upper = self._predict(data, interval, unseen, threads, progress)
        return np.column_stack([lower, upper])

    def _predict(
        self, data: DataLike, interval: float, unseen: str, threads: int | None, progress: bool | None
    ) -> tuple[npt.NDArray[np.float64], ...]:
        ready = native(data, columns=self._array_columns(data), used=self._features(), may_be_empty=True)
        options = reading(threads=threads)
        with Watcher(progress) as watcher, naming_missing_files(data):
            return self._native.predict(ready, options, real("interval", interval), word("unseen", unseen), watcher)

    def _features(self) -> list[str]:
        """The data's columns that it was fitted with."""
        return [feature["column"] for feature in self._facts["encoding"]["features"]]

    def _array_columns(self, data: Any) -> list[str] | None:
        return array_columns(data, self._features(), "the posterior was fitted with")

    def verify(
        self,
        data: DataLike,
        y: Vector | None = None,
        *,
        weight: Vector | None = None,
        draws: int = 400,
        force: bool = False,
        format: str | None = None,
        header: bool = True,
        zero_based: bool = False,
        threads: int | None = None,
        memory: int | str | None = None,
        progress: bool | None = None,
    ) -> Verification:
        """Check it against the full data: see :func:`verify`."""
        return verify(
            self,
            data,
            y,
            weight=weight,
            draws=draws,
            force=force,
            format=format,
            header=header,
            zero_based=zero_based,
            threads=threads,
            memory=memory,
            progress=progress,
        )

    def _lines(self) -> list[tuple[str, str]]:
        settings, basis = self._facts["settings"], self._facts["basis"]
        if basis["kind"] == "coreset":
            rows = f"{count(basis['size'])} weighted rows for {count(basis['provenance']['rows'])}"
        else:
            rows = f"all {count(basis['rows'])} rows"
        worst = max((row["r_hat"] for row in self._facts["summary"] if row["r_hat"] is not None), default=float("nan"))
        least = min((row["ess_bulk"] for row in self._facts["summary"] if row["ess_bulk"] is not None), default=0.0)
        verdict = "nothing to warn of" if not self.findings else f"{len(self.findings)} to warn of (.findings)"
        return [
            ("coefficients", f"{count(len(self.coefficients))} coefficients of {rows}"),
            (
                "draws",
                f"{settings['chains']} chains of {count(settings['draws'])} draws by {self._facts['sampler']}, "
                f"seed {settings['seed']}",
            ),
            ("diagnostics", f"R-hat up to {number(worst)}, effective draws from {number(least)}: {verdict}"),
        ]

    def __repr__(self) -> str:
        return described("tithe.Posterior", self._lines())

    def _repr_html_(self) -> str:
        return table("tithe.Posterior", self._lines(), self.findings)

    def __reduce__(self) -> tuple[Any, ...]:
        return _posterior_from_bytes, (self._native.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Posterior) and self._native.to_bytes() == other._native.to_bytes()

    __hash__ = None  # type: ignore[assignment]


def _posterior_from_bytes(data: bytes) -> Posterior:
    return Posterior(_native.Posterior.from_bytes(data))


def _beside_dimensions(names: list[str]) -> list[str]:
    """Names that do not hide behind xarray's dimensions, as a variable ``draw`` would."""
    free = []
    for name in names:
        other = name
        while other in ("chain", "draw") or (other != name and other in names):
            other += "_"
        free.append(other)
    return free


@dataclass(frozen=True, eq=False)
class Verification:
    """What a check of a posterior against the full data found."""

    #: ``"indistinguishable"``, ``"good"``, ``"correctable"`` or ``"too-far"``.
    verdict: str
    #: KL from the posterior drawn from to the full data's, in nats.
    kl: float
    #: Pareto k of the importance weights; below 0.7 they can be trusted.
    k_hat: float
    #: Independent draws that one weighted draw is worth.
    efficiency: float
    #: Rows of the data.
    n_rows: int
    #: Whether it is the data that the posterior speaks of.
    same_data: bool
    #: Names of the coefficients.
    coefficients: list[str]
    #: Mean, sd, 5 % and 95 % of each coefficient as drawn, by name.
    drawn: dict[str, dict[str, float]]
    #: The same under the full data.
    corrected: dict[str, dict[str, float]]
    #: Importance weights of the draws looked at; they sum to 1.
    weights: npt.NDArray[np.float64]
    #: Which draws those are, among all draws of all chains.
    draws: npt.NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Verification):
            return NotImplemented
        return all(_same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def summary(self) -> pandas.DataFrame:
        """Give the coefficients as drawn, and corrected to the full data."""
        import pandas

        frames = {"drawn": self.drawn, "corrected": self.corrected}
        made = {name: pandas.DataFrame.from_dict(facts, orient="index") for name, facts in frames.items()}
        return pandas.concat(made, axis="columns")

    def _lines(self) -> list[tuple[str, str]]:
        return [
            ("verdict", f"{self.verdict}: KL {number(self.kl)} nats on {count(self.n_rows)} rows"),
            (
                "importance weights",
                f"Pareto k {number(self.k_hat)}, efficiency {number(100 * self.efficiency)} % "
                f"of {count(len(self.draws))} draws",
            ),
        ]

    def __repr__(self) -> str:
        return described("tithe.Verification", self._lines())

    def _repr_html_(self) -> str:
        return table("tithe.Verification", self._lines())


def _same(one: Any, other: Any) -> bool:
    """Compare parts of a verification: arrays by element, and NaN is equal to NaN."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, (float, np.ndarray)):
        return np.array_equal(one, other, equal_nan=True)
    return bool(one == other)


def verify(
    posterior: Posterior,
    data: DataLike,
    y: Vector | None = None,
    *,
    weight: Vector | None = None,
    draws: int = 400,
    force: bool = False,
    format: str | None = None,
    header: bool = True,
    zero_based: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: bool | None = None,
) -> Verification:
    """Check a posterior against the full data in one pass, and correct it.

    ``data`` (with ``y`` and ``weight`` beside an array) is the data that the coreset was built from, in any order
    and format; other data is refused unless ``force``. ``draws`` is how many of the draws to look at.

    Examples
    --------
    >>> import tithe
    >>> X, y = tithe.generate("mixture", 20_000)
    >>> posterior = tithe.build(X, y, size=300).fit()
    >>> tithe.verify(posterior, X, y).verdict
    'indistinguishable'
    """
    encoding = posterior._facts["encoding"]
    if weight is not None and encoding["weight"] is None:
        raise SettingError(
            "weight: the coreset was built without weights; leave it out here, or build with weight= too"
        )
    ready = native(
        data,
        y,
        weight=weight,
        label=encoding["label"]["column"],
        weight_name=encoding["weight"] or "weight",
        columns=posterior._array_columns(data) if y is not None else None,
        used={*posterior._features(), encoding["label"]["column"], encoding["weight"]},
    )
    options = reading(format=format, header=header, zero_based=zero_based, threads=threads, memory=memory)
    with Watcher(progress) as watcher, naming_missing_files(data):
        found = _native.verify(posterior._native, ready, options, whole("draws", draws), truth("force", force), watcher)
    return verification(posterior, *found)


def verification(
    posterior: Posterior, record: str, weights: npt.NDArray[np.float64], chosen: npt.NDArray[np.int64]
) -> Verification:
    """Read what the native module found."""
    facts = json.loads(record)
    names = posterior.coefficients
    return Verification(
        verdict=facts["verdict"],
        kl=facts["kl"],
        k_hat=float("inf") if facts["k_hat"] is None else facts["k_hat"],
        efficiency=facts["efficiency"],
        n_rows=facts["rows"],
        same_data=facts["same_data"],
        coefficients=names,
        drawn=dict(zip(names, facts["drawn"], strict=True)),
        corrected=dict(zip(names, facts["corrected"], strict=True)),
        weights=weights,
        draws=chosen,
    )
