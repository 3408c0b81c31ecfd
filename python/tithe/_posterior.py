"""Posteriors: draws with their diagnostics, predictions, ArviZ, and the check against the full data."""

from __future__ import annotations

import inspect
import json
import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from . import _native
from ._arrow import ArrowTable
from ._data import DataLike, Path, Vector, array_columns, native, reading, streamed
from ._effects import effect, plot_effect
from ._errors import InputTypeError, SettingError
from ._extras import needed_for
from ._options import Option, ReadOptions, checked, optional, real, takes, truth, whole, word
from ._progress import Watcher
from ._show import count, counted, described, number, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    import pandas

    from ._coreset import Coreset

__all__ = ["Posterior", "Verification", "read_posterior", "verify"]


#: The columns of a summary, in order.
_SUMMARY = ["mean", "sd", "q05", "q50", "q95", "mcse_mean", "mcse_sd", "ess_bulk", "ess_tail", "r_hat"]


class CorrectOptions(ReadOptions, total=False):
    """The options of :meth:`Posterior.corrected`."""

    force: Annotated[bool, Option(False, truth, "Continue even if this is not the data of the posterior.")]


class VerifyOptions(CorrectOptions, total=False):
    """The options of :func:`verify`."""

    draws: Annotated[
        int | None,
        Option(
            None,
            optional(whole),
            "Number of draws to evaluate, evenly spaced; by default 400, and more if the importance weights are "
            "unreliable or the verdict is close.",
        ),
    ]


def read_posterior(path: Path) -> Posterior:
    """Read a posterior that ``Posterior.write`` or the command line wrote."""
    with reading(path):
        return Posterior(_native.Posterior.read(os.fspath(path)))


class Posterior(ArrowTable[_native.Posterior]):
    """Draws of the coefficients on the data's own scale, with their diagnostics.

    Created by :func:`fit`, :meth:`Coreset.fit` or :func:`read_posterior`.
    """

    def __init__(self, native: _native.Posterior, coreset: Coreset | None = None) -> None:
        if not isinstance(native, _native.Posterior):
            raise InputTypeError("create a Posterior with Coreset.fit or tithe.read_posterior")
        self._native = native
        self._facts: dict[str, Any] = json.loads(native.facts())
        self._coreset = coreset

    @property
    def coefficients(self) -> list[str]:
        """Names of the coefficients, the intercept first: ``column``, or ``column=level``."""
        return list(self._facts["coefficients"])

    @property
    def draws(self) -> npt.NDArray[np.float64]:
        """The draws, with shape (chains, draws, coefficients)."""
        settings = self._facts["settings"]
        return self._native.draws().reshape(settings["chains"], settings["draws"], len(self.coefficients))

    @property
    def scales(self) -> dict[str, npt.NDArray[np.float64]]:
        """Draws of the standard deviations and correlations of group effects, each with shape (chains, draws).

        The names are ``sd(1|store)`` and ``cor(1,x|store)``. Empty for a model without group effects.
        """
        drawn = self._native.group_draws()
        if drawn is None:
            return {}
        names, settings = self._facts["scales"], self._facts["settings"]
        values = drawn[0].reshape(settings["chains"], settings["draws"], len(names))
        return {name: values[:, :, i] for i, name in enumerate(names)}

    @property
    def group_effects(self) -> dict[str, npt.NDArray[np.float64]]:
        """Draws of the group effects by term, such as ``1|store``, each with shape (chains, draws, groups).

        :attr:`groups` has the names of the groups. Empty for a model without group effects.
        """
        drawn = self._native.group_draws()
        if drawn is None:
            return {}
        settings, first = self._facts["settings"], 0
        found: dict[str, npt.NDArray[np.float64]] = {}
        values = drawn[1].reshape(settings["chains"], settings["draws"], -1)
        for factor in self._facts["factors"]:
            width, groups = len(factor["effects"]), len(factor["levels"])
            own = values[:, :, first : first + width * groups].reshape(*values.shape[:2], groups, width)
            found |= {f"{effect}|{factor['name']}": own[..., k] for k, effect in enumerate(factor["effects"])}
            first += width * groups
        return found

    @property
    def groups(self) -> dict[str, list[str]]:
        """The names of the groups of each grouping column."""
        return {factor["name"]: list(factor["levels"]) for factor in self._facts["factors"] or []}

    def group_summary(self) -> pandas.DataFrame:
        """Summarise scales, correlations and group effects as :meth:`summary` does the coefficients."""
        with needed_for("group_summary"):
            import pandas

        summaries = json.loads(self._native.group_summaries()) or [[], []]
        rows = [row for part in summaries for row in part]
        frame = pandas.DataFrame(rows, columns=["name", *_SUMMARY]).set_index("name")
        frame.index.name = None
        return frame.astype(float)

    @property
    def stats(self) -> dict[str, npt.NDArray[Any]]:
        """Sampler statistics of each draw under ArviZ's names, with shape (chains, draws)."""
        settings = self._facts["settings"]
        shape = settings["chains"], settings["draws"]
        return {name: values.reshape(shape) for name, values in self._native.stats().items()}

    @property
    def findings(self) -> list[str]:
        """Problems with the draws and their remedies; empty if there are none."""
        return list(self._facts["findings"])

    @property
    def verified(self) -> dict[str, Any] | None:
        """What a comparison of the draws with all rows found; ``None`` if there was none.

        Its keys are ``verdict``, ``rows``, ``draws``, ``kl``, ``kl_error``, ``largest_mean_error``, ``k_hat``,
        ``efficiency``, all for the draws as they were drawn, and ``corrected``: whether they were resampled.
        """
        found = self._facts["verified"]
        return None if found is None else dict(found)

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
        with needed_for("summary"):
            import pandas

        frame = pandas.DataFrame(self._facts["summary"], index=self.coefficients)
        return frame[_SUMMARY].astype(float)

    def to_arviz(
        self,
        coreset: Coreset | None = None,
        *,
        log_likelihood: bool = True,
        posterior_predictive: bool = False,
        seed: int = 0,
    ) -> Any:
        """Convert the draws, and the weighted rows that they were fitted to, to ArviZ.

        The groups are ``posterior`` and ``sample_stats``, and for the rows of the coreset ``observed_data`` (the label
        as 0 and 1), ``constant_data`` (``weight``), ``log_likelihood`` and on request ``posterior_predictive``.
        Returns an ``InferenceData`` with ArviZ before version 1, and an xarray ``DataTree`` with ArviZ 1. Its
        ``summary`` equals :meth:`summary` except for one column: ArviZ 1 computes ``ess_tail`` at other quantiles than
        5 % and 95 %. Coefficients named ``chain``, ``draw`` and ``row``, like dimensions, become ``chain_``, ``draw_``
        and ``row_``.

        The rows of a coreset are not a random sample of the data. ``log_likelihood`` is therefore weighted: its sum is
        the log-likelihood of the coreset, and ``arviz.loo`` leaves out one row with all its weight, which compares
        models on the same coreset but does not estimate the accuracy for one row of the data. Predictive draws are of
        single labels: weight them, as in ``np.average(draws, axis=-1, weights=core.weights)``, before you compare them.

        Parameters
        ----------
        coreset:
            The coreset that the posterior was fitted to; needed only if the posterior was read from a file.
        log_likelihood:
            Whether to include the log-likelihood: as many numbers as draws times rows.
        posterior_predictive:
            Whether to draw labels for the rows of the coreset.
        seed:
            Seed of these labels.
        """
        with needed_for("to_arviz"):
            import arviz

        values = self.draws
        draws = {name: values[:, :, i] for i, name in enumerate(_beside_dimensions(self.coefficients))}
        attributes = {"inference_library": "tithe", "sampler": self._facts["sampler"]}
        groups: dict[str, Any] = {"posterior": draws, "sample_stats": self.stats}
        about: dict[str, Any] = {}
        effects = self.group_effects
        if effects:
            draws |= self.scales | effects
            about = {"coords": self.groups, "dims": {name: [name.split("|", 1)[1]] for name in effects}}
        core = None if effects else self._rows_of(coreset)
        if core is not None:
            (label,) = _beside_dimensions([str(self._facts["encoding"]["label"]["column"])])
            groups |= {"observed_data": {label: core.y}, "constant_data": {"weight": core.weights}}
            about = {"coords": {"row": core.rows}, "dims": {label: ["row"], "weight": ["row"]}}
            if log_likelihood or posterior_predictive:
                first = int(core.has_intercept)
                logits = values[..., first:] @ core.X.T + (values[..., :1] if first else 0.0)
                if log_likelihood:
                    groups["log_likelihood"] = {label: -core.weights * np.logaddexp(0.0, (1 - 2 * core.y) * logits)}
                if posterior_predictive:
                    chance = np.exp(-np.logaddexp(0.0, -logits))
                    random = np.random.default_rng(whole("seed", seed)).random(logits.shape)
                    groups["posterior_predictive"] = {label: (random < chance).astype(np.int64)}
        elif posterior_predictive:
            raise SettingError(
                "posterior_predictive: needs the rows that the posterior was fitted to; pass the coreset"
            )
        # ArviZ 1 takes the groups as one dictionary and returns a DataTree; earlier versions take them by name.
        by_name = "posterior" in inspect.signature(arviz.from_dict).parameters
        made = arviz.from_dict(**groups, **about) if by_name else arviz.from_dict(groups, **about)
        made.posterior.attrs.update(attributes)
        return made

    def plot(self, kind: str = "forest", **settings: Any) -> Any:
        """Plot with ArviZ: ``plot_<kind>`` of the draws, such as ``forest``, ``trace``, ``pair``, ``energy``."""
        with needed_for("plot"):
            import arviz

        plot = getattr(arviz, f"plot_{kind}", None)
        if plot is None:
            raise SettingError(f"kind must be a plot of ArviZ {arviz.__version__}, but is '{kind}'")
        return plot(self.to_arviz(), **settings)

    def effect(
        self,
        column: str,
        *,
        by: str | None = None,
        values: Sequence[Any] | None = None,
        at: Mapping[str, Any] | None = None,
        interval: float = 0.9,
    ) -> pandas.DataFrame:
        """Predict the probability of the positive class where one column varies, as a data frame.

        The other columns are held at their means (0 if they were not centred), 0/1 columns at 0 and text at its
        reference level, or at the values in ``at``. ``by`` names a second column: text gives one curve per level,
        numbers one at the mean and one a standard deviation to each side. Splines, polynomials and interactions of a
        formula show their joint effect. ``values`` are the values of the column, by default two standard deviations to
        both sides of the mean, or all levels.
        """
        return effect(self, column, by, values, at, interval)

    def plot_effect(
        self,
        column: str,
        *,
        by: str | None = None,
        values: Sequence[Any] | None = None,
        at: Mapping[str, Any] | None = None,
        interval: float = 0.9,
        ax: Any = None,
    ) -> Any:
        """Plot :meth:`effect` with bands for the intervals, on Matplotlib axes; returns the axes."""
        table = self.effect(column, by=by, values=values, at=at, interval=interval)
        label = self._facts["encoding"]["label"]
        positive = f"{label['positive']:g}" if isinstance(label["positive"], float) else str(label["positive"])
        return plot_effect(table, column, by, f"{label['column']} = {positive}", ax)

    def _rows_of(self, coreset: Coreset | None) -> Coreset | None:
        """The coreset that the posterior was fitted to, as far as it is known."""
        if coreset is None:
            return self._coreset
        basis = self._facts["basis"]
        if basis["kind"] != "coreset" or coreset.provenance != basis["provenance"]:
            raise SettingError("coreset: is not the one that the posterior was fitted to")
        return coreset

    def predict_proba(
        self,
        data: DataLike,
        *,
        unseen: Literal["error", "reference"] = "error",
        missing: Literal["empty", "error"] = "empty",
        threads: int | None = None,
        progress: bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """Predict the probability of each class (:attr:`classes`) for each row: the mean over all draws.

        ``unseen="reference"`` treats a text level that was not in the data as the reference level. A row in which a
        feature is missing has NaN; with ``missing="error"`` it is an error.
        """
        mean = self._predict(data, 0.9, unseen, missing, threads, progress)[0]
        return np.column_stack([1.0 - mean, mean])

    def predict_interval(
        self,
        data: DataLike,
        *,
        interval: float = 0.9,
        unseen: Literal["error", "reference"] = "error",
        missing: Literal["empty", "error"] = "empty",
        threads: int | None = None,
        progress: bool | None = None,
    ) -> npt.NDArray[np.float64]:
        """Predict, for each row, an interval that contains the positive class's probability with this probability."""
        _, _, lower, upper = self._predict(data, interval, unseen, missing, threads, progress)
        return np.column_stack([lower, upper])

    def sample_action(
        self,
        actions: DataLike,
        *,
        groups: Vector | None = None,
        unseen: Literal["error", "reference"] = "error",
        seed: int | None = None,
    ) -> Any:
        """Choose actions by Thompson sampling: each with the probability that it is the best.

        ``actions`` is a table or an array in memory with a row per action that could be taken: the features of the
        action and of the situation. One draw of the coefficients is taken from the posterior, and the row with the
        highest probability of the positive class under this draw is chosen. Uncertain actions are therefore tried
        now and then, and less often as data arrives.

        Returns the number of the chosen row. With ``groups``, an array with a value per row, rows with the same value
        belong to one decision, each decision has a draw of its own, and the result is an array with the number of the
        chosen row for each, in the order in which the groups first appear. A ``seed`` makes the choice repeatable.

        Examples
        --------
        >>> import tithe
        >>> X, y = tithe.generate("mixture", 20_000)
        >>> posterior = tithe.build(X, y, size=300).fit()
        >>> int(posterior.sample_action(X[:3], seed=1)) in (0, 1, 2)
        True
        """
        try:
            count = len(actions)  # type: ignore[arg-type]
        except TypeError:
            raise InputTypeError("actions must be a table or an array in memory") from None
        if isinstance(actions, (str, os.PathLike)) or count == 0:
            raise InputTypeError("actions must be a table or an array in memory, with a row for each action")
        number = np.zeros(count, dtype=np.int64)
        if groups is not None:
            values = np.asarray(groups)
            if values.shape != (count,):
                raise SettingError(f"groups must have a value for each of the {count} rows of actions")
            _, first, number = np.unique(values, return_index=True, return_inverse=True)
            number = np.argsort(np.argsort(first))[number]
        generator = np.random.default_rng(None if seed is None else whole("seed", seed))
        settings = self._facts["settings"]
        draws = generator.integers(settings["chains"] * settings["draws"], size=number.max() + 1)
        ready = native(actions, columns=self._array_columns(actions), used=self._features(), may_be_empty=True)
        with Watcher(False) as watcher:
            scores = self._native.log_odds(ready, draws[number].tolist(), word("unseen", unseen), watcher)
        order = np.lexsort((np.arange(count), -scores, number))
        best = order[np.searchsorted(number[order], np.arange(number.max() + 1))]
        return best if groups is not None else int(best[0])

    def _predict(
        self,
        data: DataLike,
        interval: float,
        unseen: str,
        missing: str,
        threads: int | None,
        progress: bool | None,
    ) -> tuple[npt.NDArray[np.float64], ...]:
        data = streamed(data)
        ready = native(data, columns=self._array_columns(data), used=self._features(), may_be_empty=True)
        # An array without the incomplete rows could not be matched with the data.
        if word("missing", missing) not in ("empty", "error"):
            raise SettingError(f"missing must be 'empty' or 'error', but is '{missing}'")
        options = checked("predict", ReadOptions, {"threads": threads})
        with Watcher(progress) as watcher, reading(data):
            return self._native.predict(
                ready, options, real("interval", interval), word("unseen", unseen), missing, watcher
            )

    def _features(self) -> list[str]:
        """The columns that the posterior was fitted with."""
        return [feature["column"] for feature in self._facts["encoding"]["features"]]

    def _array_columns(self, data: Any) -> list[str] | None:
        # A formula need not use all columns of the array.
        chosen = True if "design" in self._facts["encoding"] else None
        return array_columns(data, self._features(), "the posterior was fitted with", chosen=chosen)

    @takes(VerifyOptions)
    def verify(
        self,
        data: DataLike,
        y: Vector | None = None,
        *,
        weight: Vector | None = None,
        progress: bool | None = None,
        **options: Unpack[VerifyOptions],
    ) -> Verification:
        """Check the posterior against the full data: see :func:`verify`."""
        return verify(self, data, y, weight=weight, progress=progress, **options)

    @takes(CorrectOptions)
    def corrected(
        self,
        data: DataLike,
        y: Vector | None = None,
        *,
        weight: Vector | None = None,
        progress: bool | None = None,
        **options: Unpack[CorrectOptions],
    ) -> Posterior:
        """Check the posterior against the full data, and return it with accurate draws.

        Accurate draws stay as they are. Others are resampled in proportion to their importance weights; if even that
        does not make them accurate, :attr:`findings` says so. :attr:`verified` has the figures.

        Parameters
        ----------
        data, y, weight:
            As for :func:`verify`.
        progress:
            Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
        **options:
            The keyword arguments of :class:`CorrectOptions`.
        """
        settings = checked("corrected", CorrectOptions, {"force": False, **options})
        data = streamed(data)
        ready = self._full_data(data, y, weight)
        with Watcher(progress) as watcher, reading(data):
            force = settings.pop("force")
            return Posterior(_native.corrected(self._native, ready, settings, force, watcher), self._coreset)

    def _full_data(self, data: DataLike, y: Vector | None, weight: Vector | None) -> _native.Data:
        """The data that the posterior was made from, for the native module."""
        encoding = self._facts["encoding"]
        if weight is not None and encoding["weight"] is None:
            raise SettingError(
                "weight cannot be used: the coreset was built without weights; "
                "remove it here, or build with weight= too"
            )
        return native(
            data,
            y,
            weight=weight,
            label=encoding["label"]["column"],
            weight_name=encoding["weight"] or "weight",
            columns=self._array_columns(data) if y is not None else None,
            used={*self._features(), encoding["label"]["column"], encoding["weight"]},
        )

    def _lines(self) -> list[tuple[str, str]]:
        settings, basis = self._facts["settings"], self._facts["basis"]
        if basis["kind"] == "coreset":
            rows = f"{count(basis['size'])} weighted rows that represent {count(basis['provenance']['rows'])}"
        else:
            rows = f"all {count(basis['rows'])} rows"
        worst = max((row["r_hat"] for row in self._facts["summary"] if row["r_hat"] is not None), default=float("nan"))
        least = min((row["ess_bulk"] for row in self._facts["summary"] if row["ess_bulk"] is not None), default=0.0)
        verdict = f"{counted(len(self.findings), 'warning')} (see .findings)" if self.findings else "no warnings"
        return [
            ("coefficients", f"{count(len(self.coefficients))} coefficients, fitted to {rows}"),
            (
                "draws",
                f"{settings['chains']} chains of {count(settings['draws'])} draws by {self._facts['sampler']}, "
                f"seed {settings['seed']}",
            ),
            ("diagnostics", f"largest R-hat {number(worst)}, smallest ESS {number(least)}: {verdict}"),
            *self._verified_line(),
        ]

    def _verified_line(self) -> list[tuple[str, str]]:
        found = self.verified
        if found is None:
            return []
        verdict = "inaccurate, therefore resampled" if found["corrected"] else str(found["verdict"])
        figures = f"KL {number(found['kl'])} nats, largest mean error {number(found['largest_mean_error'])} sd"
        return [("verified", f"verified against all rows: {verdict} ({figures}, {count(found['draws'])} draws)")]

    def __repr__(self) -> str:
        return described("tithe.Posterior", self._lines())

    def _repr_html_(self) -> str:
        return table("tithe.Posterior", self._lines(), self.findings)

    def __reduce__(self) -> tuple[Any, ...]:
        return _posterior_from_bytes, (self._native.to_bytes(), self._coreset)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Posterior) and self._native.to_bytes() == other._native.to_bytes()


def _posterior_from_bytes(data: bytes, coreset: Coreset | None = None) -> Posterior:
    return Posterior(_native.Posterior.from_bytes(data), coreset)


def _beside_dimensions(names: list[str]) -> list[str]:
    """Names that do not clash with xarray's dimensions, as a variable ``draw`` would."""
    free = []
    for name in names:
        other = name
        while other in ("chain", "draw", "row") or (other != name and other in names):
            other += "_"
        free.append(other)
    return free


@dataclass(frozen=True, eq=False)
class Verification:
    """The result of checking a posterior against the full data."""

    #: ``"indistinguishable"``, ``"good"``, ``"correctable"`` or ``"too-far"``.
    verdict: str
    #: KL divergence from the posterior that was sampled to that of the full data, in nats.
    kl: float
    #: The largest error of a coefficient's mean, in posterior standard deviations.
    max_mean_error: float
    #: Pareto k of the importance weights; below 0.7 they are reliable.
    k_hat: float
    #: Effective independent draws per weighted draw.
    efficiency: float
    #: Number of rows of the data.
    n_rows: int
    #: Whether it is the data that the posterior was made from.
    same_data: bool
    #: Names of the coefficients.
    coefficients: list[str]
    #: Mean, sd, 5 % and 95 % of each coefficient as drawn, by name.
    drawn: dict[str, dict[str, float]]
    #: The same under the full data.
    corrected: dict[str, dict[str, float]]
    #: Importance weights of the evaluated draws; they sum to 1.
    weights: npt.NDArray[np.float64]
    #: Indices of the evaluated draws among all draws of all chains.
    draws: npt.NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Verification):
            return NotImplemented
        return all(_same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    def summary(self) -> pandas.DataFrame:
        """Summarise the coefficients as drawn, and corrected to the full data."""
        with needed_for("summary"):
            import pandas

        frames = {"drawn": self.drawn, "corrected": self.corrected}
        made = {name: pandas.DataFrame.from_dict(facts, orient="index") for name, facts in frames.items()}
        return pandas.concat(made, axis="columns")

    def _lines(self) -> list[tuple[str, str]]:
        return [
            (
                "verdict",
                f"{self.verdict}: KL {number(self.kl)} nats, largest mean error {number(self.max_mean_error)} sd, "
                f"on {count(self.n_rows)} rows",
            ),
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


@takes(VerifyOptions)
def verify(
    posterior: Posterior,
    data: DataLike,
    y: Vector | None = None,
    *,
    weight: Vector | None = None,
    progress: bool | None = None,
    **options: Unpack[VerifyOptions],
) -> Verification:
    """Check a posterior against the full data in one pass, and correct it.

    Parameters
    ----------
    posterior:
        The posterior.
    data:
        The data that the coreset was built from, in any order and format; other data is an error unless ``force``.
    y, weight:
        Labels and weights, if they are not columns of ``data``.
    progress:
        Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
    **options:
        The keyword arguments of :class:`VerifyOptions`.

    Examples
    --------
    >>> import tithe
    >>> X, y = tithe.generate("mixture", 20_000)
    >>> posterior = tithe.build(X, y, size=300).fit()
    >>> tithe.verify(posterior, X, y).verdict
    'indistinguishable'
    """
    data = streamed(data)
    ready = posterior._full_data(data, y, weight)
    settings = checked("verify", VerifyOptions, {"draws": None, "force": False, **options})
    with Watcher(progress) as watcher, reading(data):
        draws, force = settings.pop("draws"), settings.pop("force")
        found = _native.verify(posterior._native, ready, settings, draws, force, watcher)
    return verification(posterior, *found)


def verification(
    posterior: Posterior, record: str, weights: npt.NDArray[np.float64], chosen: npt.NDArray[np.int64]
) -> Verification:
    """Convert the native module's result."""
    facts = json.loads(record)
    names = posterior.coefficients
    return Verification(
        verdict=facts["verdict"],
        kl=facts["kl"],
        max_mean_error=facts["max_mean_error"],
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
