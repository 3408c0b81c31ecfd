"""scikit-learn estimators: the posterior as a classifier, and the coreset as a way to reduce data."""

from __future__ import annotations

import contextlib
import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import ClassifierTags, _safe_indexing, check_consistent_length, check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from ._coreset import Coreset, build, response_of, too_small
from ._data import default_names
from ._errors import SettingError, TitheWarning
from ._options import truth, whole
from ._posterior import Posterior
from ._stream import Stream, merge

__all__ = ["CoresetSampler", "LogisticRegression"]


def _two_classes(y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The two classes and their codes; other targets are reported in scikit-learn's words."""
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    classes, codes = np.unique(y, return_inverse=True)
    if kind != "binary" or len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}; "
            f"it has {len(classes)} classes: {_few(classes)}"
        )
    return classes, codes.astype(np.int64)


def _merged(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, npt.NDArray[np.float64]]:
    """The distinct rows in a fixed order, weighted by how often they occur.

    When all rows are fitted, the draws must not depend on the order of the rows, nor on whether a row occurs twice or
    has weight 2: chains would amplify even a difference in the last digit.
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if hasattr(X, "tocsr"):
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        ends = X.indptr
        keys = [X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in itertools.pairwise(ends)]
    else:
        keys = [row.tobytes() for row in np.ascontiguousarray(X) + X.dtype.type(0)]
    places: dict[tuple[bytes, Any], int] = {}
    mass: dict[tuple[bytes, Any], float] = {}
    for row, key in enumerate(zip(keys, np.asarray(y).tolist(), strict=True)):
        places.setdefault(key, row)
        mass[key] = mass.get(key, 0.0) + weights[row]
    order = sorted(places, key=lambda key: (key[0], str(key[1])))
    rows = np.array([places[key] for key in order], dtype=np.int64)
    return X[rows], y[rows], np.array([mass[key] for key in order])


def _few(values: npt.NDArray[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:5])
    return shown + (", …" if len(values) > 5 else "")


def _has_text(X: Any) -> bool:
    """Whether it is a data frame with text or categories, which scikit-learn would not convert to numbers."""
    if hasattr(X, "iloc"):
        return any(
            dtype.kind == "O" and (str(dtype) != "object" or any(isinstance(value, str) for value in X.iloc[:, i]))
            for i, dtype in enumerate(X.dtypes)
        )
    types = getattr(X, "dtypes", None) or getattr(getattr(X, "schema", None), "types", None)
    text = ("string", "large_string", "string_view", "dictionary", "categorical", "enum")
    return isinstance(types, list) and any(str(each).lower().startswith(text) for each in types)


def _label(names: Sequence[str]) -> str:
    """A name for the label that is not the name of a feature."""
    label = "y"
    while label in names:
        label = "_" + label
    return label


def _cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _threads(n_jobs: Any) -> int | None:
    """Number of threads by scikit-learn's rules: -1 is all cores, -2 all but one."""
    if n_jobs is None:
        return None
    number = whole("n_jobs", n_jobs, least=-(2**31))
    if number == -1:
        return None
    if number == 0:
        raise SettingError("n_jobs must not be 0; use 1 for one thread, -1 for one per core")
    return number if number > 0 else max(1, _cores() + 1 + number)


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Ignore the warning that all rows are kept: for an estimator, that is expected with small data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TitheWarning)
        yield


class _Fitted:
    """What the two estimators share: their common parameters, and the way from checked arrays to a coreset."""

    classes_: npt.NDArray[Any]

    def __init__(
        self,
        size: int = 1000,
        *,
        kl: float | None = None,
        method: str = "calibrated",
        formula: str | None = None,
        fit_intercept: bool = True,
        standardize: str | bool = "numeric",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.size = size
        self.kl = kl
        self.method = method
        self.formula = formula
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _coreset(self, X: Any, y: Any, sample_weight: Any, seed: int) -> tuple[Coreset, npt.NDArray[np.int64]]:
        """Build a coreset; returns it with the rows of ``X`` that it was built from (those with positive weight)."""
        self.classes_, codes = _two_classes(y)
        rows = np.arange(X.shape[0])
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            # A row with weight 0 must have no effect, not even on the scale of a column.
            rows = np.flatnonzero(weights > 0)
            if len(rows) < len(weights):
                X, codes, weights = _safe_indexing(X, rows), codes[rows], weights[rows]
        present = np.unique(codes)
        if len(present) < 2:
            only = _few(self.classes_[present])
            raise ValueError(f"the data must have two classes, but has only 1 class: {only}")
        # A data frame brings its own names.
        columns = None if _has_text(X) else self._names(X.shape[1])
        names = columns or [str(name) for name in X.columns]
        # Only a calibrated coreset is built for certain priors.
        is_calibrated = self.method == "calibrated"
        prior, intercept_prior = (
            getattr(self, name, None) if is_calibrated else None for name in ("prior", "intercept_prior")
        )
        size = {"size": whole("size", self.size, least=1)} if self.kl is None else {"kl": self.kl}
        settings: dict[str, Any] = size | {
            "method": self.method,
            **self._terms(),
            "standardize": self.standardize,
            "prior": prior,
            "intercept_prior": intercept_prior,
        }
        with _without_warnings():
            core = build(
                X,
                codes,
                label=self._label_for(names),
                weight=weights,
                columns=columns,
                seed=seed,
                threads=_threads(self.n_jobs),
                progress=False,
                **settings,
            )
        return core, rows

    def _terms(self) -> dict[str, Any]:
        """The formula, or whether there is an intercept."""
        if self.formula is not None:
            return {"formula": self.formula}
        return {"intercept": truth("fit_intercept", self.fit_intercept)}

    def _label_for(self, names: Sequence[str]) -> str:
        """The label that the formula names, or one that is not the name of a feature."""
        response = response_of(self.formula)
        if response in names:
            raise ValueError(f"formula has the label '{response}', which is a column of X")
        return response or _label(names)

    def _input(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
        """Check data as scikit-learn does; a data frame with text stays one, and its text becomes categories.

        As in ``validate_data``, ``y=None`` is an error, and ``"no_validation"`` means that there are no labels.
        """
        has_labels = not (isinstance(y, str) and y == "no_validation")
        if has_labels and y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if not _has_text(X):
            given = (y,) if has_labels else ()
            return validate_data(self, X, *given, accept_sparse="csr", reset=reset)
        validate_data(self, X, reset=reset, skip_check_array=True)
        if not has_labels:
            return X
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return X, y

    def _names(self, count: int) -> Sequence[str]:
        """The column names of a data frame, if the model can use them."""
        names = [str(name) for name in getattr(self, "feature_names_in_", [])]
        taken = {"intercept", "weight"}
        if len(names) == count and len(set(names)) == count and not taken & set(names):
            return names
        return default_names(count)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags


class LogisticRegression(_Fitted, ClassifierMixin, BaseEstimator):
    """Bayesian logistic regression for two classes, fitted to a coreset of the data and verified against all rows.

    Parameters
    ----------
    size:
        Rows of the coreset; if the data has no more rows than this, all of them are fitted.
    kl:
        Instead of ``size``, in :meth:`fit`: as few rows as bring the KL divergence to the full posterior below this.
    class_weight:
        Weights of the classes, as scikit-learn takes them: a dict or ``"balanced"``. They multiply ``sample_weight``.
    prior, intercept_prior:
        Priors on the standardised scale, as :meth:`tithe.Coreset.fit` takes them.
    fit_intercept, standardize, method:
        As :func:`tithe.build` takes them.
    formula:
        The model, as :func:`tithe.build` takes it; it decides about the intercept. The columns of an array are ``x1``,
        ``x2``, …; the left side may be empty: ``"~ x1 * x2"``.
    sampler, chains, draws, warmup:
        The sampler, as :meth:`tithe.Coreset.fit` takes them.
    random_state:
        Seed of the coreset and of the draws.
    n_jobs:
        Number of threads; ``None`` and -1 mean one per core, -2 leaves one core free, and so on.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    coef_, coef_sd_ : ndarray of shape (1, n_coefficients)
        Mean and standard deviation of each coefficient, on the data's own scale. Text columns of a data frame have one
        coefficient for each level except the most frequent one; ``coreset_.feature_names`` names them.
    intercept_, intercept_sd_ : ndarray of shape (1,)
    coreset_ : Coreset
        If the data has at most ``size`` rows: all of them, equal rows merged, in a fixed order.
    posterior_ : Posterior
        Its draws are compared with all rows in :meth:`fit`, and resampled if they are inaccurate
        (:attr:`tithe.Posterior.verified`); not so after :meth:`partial_fit`, when the rows are gone.

    After :meth:`partial_fit`, sampling happens when one of these, or a prediction, is next needed.

    Examples
    --------
    >>> import tithe
    >>> X, y = tithe.generate("mixture", 5_000)
    >>> model = tithe.LogisticRegression(size=300, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        size: int = 1000,
        *,
        kl: float | None = None,
        prior: str = "normal:2",
        intercept_prior: str | None = None,
        class_weight: Any = None,
        fit_intercept: bool = True,
        standardize: str | bool = "numeric",
        method: str = "calibrated",
        formula: str | None = None,
        sampler: str = "nuts",
        chains: int = 4,
        draws: int = 1000,
        warmup: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            size,
            kl=kl,
            method=method,
            formula=formula,
            fit_intercept=fit_intercept,
            standardize=standardize,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.prior = prior
        self.class_weight = class_weight
        self.intercept_prior = intercept_prior
        self.sampler = sampler
        self.chains = chains
        self.draws = draws
        self.warmup = warmup

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Build a coreset, draw from its posterior, compare the draws with all rows and correct them if needed."""
        X, y = self._input(X, y)
        sample_weight = self._weighted(y, sample_weight)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.kl is None and X.shape[0] <= whole("size", self.size, least=1) and not _has_text(X):
            X, y, sample_weight = _merged(X, y, sample_weight)
        core, rows = self._coreset(X, y, sample_weight, seed)
        self._seed = seed
        posterior = self._posterior_of(core)
        if core.certificate is None or core.certificate.verdict != "exact":
            codes = np.searchsorted(self.classes_, y)
            kept = (X, codes) if len(rows) == len(codes) else (_safe_indexing(X, rows), codes[rows])
            weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[rows]
            posterior = posterior.corrected(*kept, weight=weights, threads=_threads(self.n_jobs), progress=False)
            # The methods for comparison are never accurate.
            if self.method == "calibrated" and posterior.verified and posterior.verified["verdict"] == "too-far":
                warnings.warn(posterior.findings[-1], TitheWarning, stacklevel=2)
        self._base: Coreset | None = core
        self._stream: Stream | None = None
        self._drawn: tuple[Coreset, Posterior] | None = core, posterior
        return self

    def _weighted(self, y: Any, sample_weight: Any) -> Any:
        """The weights of the rows, multiplied by those of their classes."""
        if self.class_weight is None:
            return sample_weight
        classes = compute_sample_weight(self.class_weight, y)
        if sample_weight is None:
            return classes
        return classes * _check_sample_weight(sample_weight, y, dtype=np.float64, ensure_non_negative=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> LogisticRegression:
        """Add more rows, with or without a :meth:`fit` before; they go through a :class:`tithe.Stream` in memory.

        The first call, if there was no ``fit``, must name the two ``classes``. Calls are cheap: a coreset is built only
        every 50,000 rows, and sampling waits until its result is needed. The first 50,000 rows must contain both
        classes.
        """
        has_begun = hasattr(self, "_drawn")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight='{self.class_weight}' needs all rows at once: give partial_fit a dict by class"
            )
        X, y = self._input(X, y, reset=not has_begun)
        check_classification_targets(y)
        if not has_begun:
            self.__dict__.pop("classes_", None)
        _check_partial_fit_first_call(self, classes)
        if len(self.classes_) != 2:
            raise ValueError(
                "Only binary classification is supported. "
                f"There are {len(self.classes_)} classes: {_few(self.classes_)}"
            )
        others = np.setdiff1d(y, self.classes_)
        if len(others):
            raise ValueError(f"y holds {_few(others)}, but the classes are {_few(self.classes_)}")
        sample_weight = self._weighted(y, sample_weight)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weights > 0)
        codes = np.searchsorted(self.classes_, y).astype(np.int64)
        if not has_begun:
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self._base, self._stream, self._seen = None, None, np.zeros(0, dtype=np.int64)
        stream = self._begun(X) if self._stream is None else self._stream
        with _without_warnings():
            stream.add(_safe_indexing(X, kept), codes[kept], weight=weights[kept])
        if self._base is None:
            self._seen = np.union1d(self._seen, codes[kept])
        self._stream, self._drawn = stream, None
        return self

    def _begun(self, X: Any) -> Stream:
        """A stream with the encoding of the fitted rows, if there are any."""
        columns = None if _has_text(X) else self._names(X.shape[1])
        settings: dict[str, Any] = {
            "size": whole("size", self.size, least=1),
            "method": self.method,
            **self._terms(),
            "standardize": self.standardize,
        }
        return Stream(
            label=self._label_for(columns or [str(name) for name in X.columns]),
            columns=columns,
            encoding=self._base,
            seed=self._seed,
            threads=_threads(self.n_jobs),
            progress=False,
            **settings,
        )

    def _posterior_of(self, core: Coreset) -> Posterior:
        sampler: Any = self.sampler
        return core.fit(
            prior=self.prior,
            intercept_prior=self.intercept_prior,
            sampler=sampler,
            chains=self.chains,
            draws=self.draws,
            warmup=self.warmup,
            seed=self._seed,
            threads=_threads(self.n_jobs),
            progress=False,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_drawn")

    def _up_to_date(self) -> tuple[Coreset, Posterior]:
        """The coreset of all rows so far, and its posterior."""
        check_is_fitted(self)
        if self._drawn is None:
            assert self._stream is not None
            if self._base is None and len(self._seen) < 2:
                raise NotFittedError(
                    "rows of both classes are required, but so far all rows have the class "
                    f"{_few(self.classes_[self._seen])}"
                )
            with _without_warnings():
                core = self._stream.snapshot()
                if self._base is not None:
                    settings: dict[str, Any] = {"size": self.size, "method": self.method, "seed": self._seed}
                    core = merge([self._base, core], threads=_threads(self.n_jobs), progress=False, **settings)
            if warning := too_small(core):
                warnings.warn(warning, TitheWarning, stacklevel=3)
            self._drawn = core, self._posterior_of(core)
        return self._drawn

    @property
    def coreset_(self) -> Coreset:
        """The coreset of all rows that were fitted."""
        return self._up_to_date()[0]

    @property
    def posterior_(self) -> Posterior:
        """The posterior of that coreset."""
        return self._up_to_date()[1]

    def _split(self, values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Separate the intercept from the other coefficients."""
        first = int(self.coreset_.has_intercept)
        return values[:1] if first else np.zeros(1), values[None, first:]

    @property
    def coef_(self) -> npt.NDArray[np.float64]:
        """Mean of each coefficient."""
        return self._split(self.posterior_.mean)[1]

    @property
    def coef_sd_(self) -> npt.NDArray[np.float64]:
        """Standard deviation of each coefficient."""
        return self._split(self.posterior_.sd)[1]

    @property
    def intercept_(self) -> npt.NDArray[np.float64]:
        """Mean of the intercept."""
        return self._split(self.posterior_.mean)[0]

    @property
    def intercept_sd_(self) -> npt.NDArray[np.float64]:
        """Standard deviation of the intercept."""
        return self._split(self.posterior_.sd)[0]

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the probability of each class for each row: the mean over all draws."""
        X = self._checked(X)
        return self.posterior_.predict_proba(X, threads=_threads(self.n_jobs), progress=False)

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Predict the logarithm of the probability of each class."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the more probable class for each row."""
        likely = self.predict_proba(X)[:, 1] > 0.5
        chosen: npt.NDArray[Any] = self.classes_[likely.astype(int)]
        return chosen

    def predict_interval(self, X: Any, interval: float = 0.9) -> npt.NDArray[np.float64]:
        """Predict an interval for the second class's probability, for each row."""
        X = self._checked(X)
        return self.posterior_.predict_interval(X, interval=interval, threads=_threads(self.n_jobs), progress=False)

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._input(X, reset=False)


class CoresetSampler(_Fitted, BaseEstimator):
    """Reduces data to a few weighted rows, for any estimator that takes weights.

    Parameters
    ----------
    size, kl, method, formula, fit_intercept, standardize:
        As :func:`tithe.build` takes them.
    random_state, n_jobs:
        Seed and threads.

    Attributes
    ----------
    coreset_ : Coreset
    rows_ : ndarray
        Positions of the selected rows.
    weights_ : ndarray
        Their weights.
    classes_ : ndarray of shape (2,)

    Examples
    --------
    >>> import tithe
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = tithe.generate("mixture", 5_000)
    >>> X_small, y_small, weights = tithe.CoresetSampler(size=300, random_state=0).fit_resample(X, y)
    >>> model = LogisticRegression().fit(X_small, y_small, sample_weight=weights)
    >>> len(X_small) <= 300 and model.score(X, y) > 0.9
    True
    """

    coreset_: Coreset
    rows_: npt.NDArray[np.int64]
    weights_: npt.NDArray[np.float64]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CoresetSampler:
        """Select rows and compute their weights."""
        X, y = self._input(X, y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.coreset_, rows = self._coreset(X, y, sample_weight, seed)
        if warning := too_small(self.coreset_):
            warnings.warn(warning, TitheWarning, stacklevel=2)
        self.rows_ = rows[self.coreset_.rows]
        self.weights_ = self.coreset_.weights
        return self

    def fit_resample(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, npt.NDArray[np.float64]]:
        """Return the selected rows of ``X`` and ``y`` (data frames stay data frames) and their weights."""
        self.fit(X, y, sample_weight)
        return _take(X, self.rows_), _take(y, self.rows_), self.weights_


def _take(values: Any, rows: npt.NDArray[np.int64]) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "tocsr"):
        return values.tocsr()[rows]
    if type(values).__module__.startswith("pyarrow."):
        return values.take(rows)
    return values[rows] if hasattr(values, "__array__") and not isinstance(values, list) else np.asarray(values)[rows]
