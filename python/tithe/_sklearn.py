"""scikit-learn estimators: the posterior as a classifier, and the coreset as a way to make data small."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import ClassifierTags, check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ._coreset import Coreset, build
from ._data import default_names
from ._errors import TitheWarning
from ._posterior import Posterior

__all__ = ["CoresetSampler", "LogisticRegression"]


def _two_classes(y: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Tell the two classes apart; other targets are refused in scikit-learn's words."""
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
    """Rows each once, in an order of their own, weighted by how often they came.

    Data that is fitted whole gives the same draws in whatever order its rows come, and whether a row comes twice or
    weighs twice: chains would amplify even a difference in the last digit.
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


class _Fitted:
    """What the two estimators share: from checked arrays to a coreset."""

    def _coreset(self, X: Any, y: Any, sample_weight: Any, **settings: Any) -> tuple[Coreset, npt.NDArray[np.int64]]:
        """Build a coreset; gives it with the rows of ``X`` that it was built from (those that weigh anything)."""
        self.classes_, codes = _two_classes(y)
        rows = np.arange(X.shape[0])
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            # A row of no weight is no row: it must not move the scale of a column either.
            rows = np.flatnonzero(weights > 0)
            if len(rows) < len(weights):
                X, codes, weights = X[rows], codes[rows], weights[rows]
        present = np.unique(codes)
        if len(present) < 2:
            only = _few(self.classes_[present])
            raise ValueError(f"two classes are needed to tell apart, but the data has only 1 class: {only}")
        names = self._names(X.shape[1])
        label = "y"
        while label in names:
            label = "_" + label
        with warnings.catch_warnings():
            # Small data is kept whole, as any estimator would.
            warnings.simplefilter("ignore", TitheWarning)
            core = build(X, codes, label=label, weight=weights, columns=names, progress=False, **settings)
        return core, rows

    def _names(self, count: int) -> Sequence[str]:
        """The names of a data frame's columns, where the model can have them."""
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
    """Bayesian logistic regression for two classes, fitted to a coreset of the data.

    Parameters
    ----------
    size:
        Rows of the coreset; smaller data is fitted whole.
    prior, intercept_prior:
        Priors on the standardised scale, as :meth:`tithe.Coreset.fit` takes them.
    fit_intercept, standardize, method:
        As :func:`tithe.build` takes them.
    sampler, chains, draws, warmup:
        How to draw, as :meth:`tithe.Coreset.fit` takes them.
    random_state:
        Seed of the coreset and of the draws.
    n_jobs:
        Threads; ``None`` is one a core.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    coef_, coef_sd_ : ndarray of shape (1, n_features)
        Mean and standard deviation of each coefficient, on the data's own scale.
    intercept_, intercept_sd_ : ndarray of shape (1,)
    coreset_ : Coreset
        Where the data is no larger than ``size``: all its rows, equal ones merged, in an order of their own.
    posterior_ : Posterior

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
        prior: str = "normal:2",
        intercept_prior: str | None = None,
        fit_intercept: bool = True,
        standardize: bool = True,
        method: str = "calibrated",
        sampler: str = "nuts",
        chains: int = 4,
        draws: int = 1000,
        warmup: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.size = size
        self.prior = prior
        self.intercept_prior = intercept_prior
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.method = method
        self.sampler = sampler
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LogisticRegression:
        """Build a coreset and draw from its posterior."""
        X, y = validate_data(self, X, y, accept_sparse="csr")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if X.shape[0] <= self.size:
            X, y, sample_weight = _merged(X, y, sample_weight)
        core, _ = self._coreset(
            X,
            y,
            sample_weight,
            size=self.size,
            method=self.method,
            intercept=self.fit_intercept,
            standardize=self.standardize,
            seed=seed,
            threads=self.n_jobs,
        )
        self._draw_from(core, seed)
        return self

    def _draw_from(self, core: Coreset, seed: int) -> None:
        self.coreset_ = core
        self.posterior_: Posterior = core.fit(
            prior=self.prior,
            intercept_prior=self.intercept_prior,
            sampler=self.sampler,
            chains=self.chains,
            draws=self.draws,
            warmup=self.warmup,
            seed=seed,
            threads=self.n_jobs,
            progress=False,
        )
        first = int(core.has_intercept)
        mean, sd = self.posterior_.mean, self.posterior_.sd
        self.coef_, self.coef_sd_ = mean[None, first:], sd[None, first:]
        self.intercept_, self.intercept_sd_ = (mean[:1], sd[:1]) if first else (np.zeros(1), np.zeros(1))

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Give the probability of each class for each row, the mean over all draws."""
        X = self._checked(X)
        return self.posterior_.predict_proba(X, threads=self.n_jobs, progress=False)

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Give its logarithm."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Give the likelier class for each row."""
        likely = self.predict_proba(X)[:, 1] > 0.5
        chosen: npt.NDArray[Any] = self.classes_[likely.astype(int)]
        return chosen

    def predict_interval(self, X: Any, interval: float = 0.9) -> npt.NDArray[np.float64]:
        """Give for each row the interval of the second class's probability."""
        X = self._checked(X)
        return self.posterior_.predict_interval(X, interval=interval, threads=self.n_jobs, progress=False)

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", reset=False)


class CoresetSampler(_Fitted, BaseEstimator):
    """Makes data small for any estimator that takes weights.

    Parameters
    ----------
    size, method, fit_intercept, standardize:
        As :func:`tithe.build` takes them.
    random_state, n_jobs:
        Seed and threads.

    Attributes
    ----------
    coreset_ : Coreset
    rows_ : ndarray
        Positions of the chosen rows.
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

    def __init__(
        self,
        size: int = 1000,
        *,
        method: str = "calibrated",
        fit_intercept: bool = True,
        standardize: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.size = size
        self.method = method
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CoresetSampler:
        """Choose rows and weigh them."""
        X, y = validate_data(self, X, y, accept_sparse="csr")
        self.coreset_, rows = self._coreset(
            X,
            y,
            sample_weight,
            size=self.size,
            method=self.method,
            intercept=self.fit_intercept,
            standardize=self.standardize,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            threads=self.n_jobs,
        )
        self.rows_ = rows[self.coreset_.rows]
        self.weights_ = self.coreset_.weights
        return self

    def fit_resample(self, X: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any, npt.NDArray[np.float64]]:
        """Give the chosen rows of ``X`` and ``y`` (data frames stay data frames) and their weights."""
        self.fit(X, y, sample_weight)
        return _take(X, self.rows_), _take(y, self.rows_), self.weights_


def _take(values: Any, rows: npt.NDArray[np.int64]) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "tocsr"):
        return values.tocsr()[rows]
    return values[rows] if hasattr(values, "__array__") and not isinstance(values, list) else np.asarray(values)[rows]
