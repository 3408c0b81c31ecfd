"""The keyword arguments that several functions share: type, default, check and documentation of each in one place."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar, get_type_hints

import numpy as np

from ._data import name_of
from ._errors import SettingError

#: Takes the name of an argument and its value; returns the value as the native module takes it, or raises.
Check: TypeAlias = "Callable[[str, Any], Any]"
#: The name of a column: text, or an integer or a tuple as pandas allows.
ColumnName: TypeAlias = str | int | tuple[str | int, ...]

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def byte_count(name: str, size: Any) -> int:
    """Check a size in bytes: a number, or a string such as ``"4GiB"``."""
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-zA-Z]*)\s*", str(size))
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise SettingError(f"{name} must be a size such as '4GiB' or a number of bytes, but is '{size}'")
    wanted = float(match[1]) * unit
    if wanted >= 2**64:
        raise SettingError(f"{name} must be less than 2**64 bytes, but is '{size}'")
    return int(wanted)


def whole(name: str, value: Any, *, least: int = 0) -> int:
    """Check an integer."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise SettingError(f"{name} must be a whole number, but is {value!r}")
    number = int(value.__index__())
    if number < least:
        raise SettingError(f"{name} must be at least {least}, but is {number}")
    if number >= 2**64:
        raise SettingError(f"{name} must be less than 2**64, but is {number}")
    return number


def real(name: str, value: Any) -> float:
    """Check a number."""
    if isinstance(value, (str, bytes, bool, np.bool_)) or not (
        hasattr(value, "__float__") or hasattr(value, "__index__")
    ):
        raise SettingError(f"{name} must be a number, but is {value!r}")
    return float(value)


def word(name: str, value: Any) -> str:
    """Check a string."""
    if not isinstance(value, str):
        raise SettingError(f"{name} must be a string, but is {value!r}")
    return value


def truth(name: str, value: Any) -> bool:
    """Check a boolean; a string such as "no" would otherwise count as true."""
    if not isinstance(value, (bool, np.bool_, int)) or value not in (0, 1):
        raise SettingError(f"{name} must be True or False, but is {value!r}")
    return bool(value)


def column(name: str, value: Any) -> str:
    """Check the name of a column: text, or an integer or a tuple as pandas allows."""
    if isinstance(value, bool) or not isinstance(value, (str, int, np.integer, tuple)):
        raise SettingError(f"{name} must be the name of a column, but has the type {type(value).__name__}")
    return name_of(value)


def by_name(check: Check, name: str, value: Any) -> list[tuple[str, Any]]:
    """Check values by coefficient; ``None`` counts as an empty dict."""
    if value is not None and not isinstance(value, Mapping):
        raise SettingError(f"{name} must be a dict by coefficient, but is {value!r}")
    for each in value or {}:
        if not isinstance(each, str):
            raise SettingError(f"{name} must contain names of coefficients, but contains {each!r}")
    return [(each, check(name, number)) for each, number in (value or {}).items()]


def words(name: str, value: Iterable[str]) -> list[str]:
    """Check a list of strings; a single string is one of them."""
    return [word(name, each) for each in ([value] if isinstance(value, str) else value)]


def names_of(name: str, value: Iterable[ColumnName] | None) -> list[str] | None:
    """Check a list of column names; a single string is one name, not a list of letters."""
    if value is None:
        return None
    if isinstance(value, str):
        return [value]
    names = list(value)
    for each in names:
        if isinstance(each, bool) or not isinstance(each, (str, int, np.integer, tuple)):
            raise SettingError(f"{name} must contain names of columns, but contains {each!r}")
    return [name_of(each) for each in names]


def optional(check: Check) -> Check:
    """Allow ``None`` as well."""
    return lambda name, value: None if value is None else check(name, value)


def _standardize(name: str, value: Any) -> str:
    """Check which columns to standardise; ``True`` is the default, ``False`` none."""
    if isinstance(value, (bool, np.bool_)):
        return "numeric" if value else "none"
    return word(name, value)


def _positive(_: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    return str(value)


def _radius(name: str, value: Any) -> float | str:
    return value if isinstance(value, str) else real(name, value)


@dataclass(frozen=True)
class Option:
    """A keyword argument: its default, its check, and its description for the docstrings."""

    default: Any
    check: Check
    text: str


class FileOptions(TypedDict, total=False):
    """How files are read."""

    format: Annotated[
        Literal["parquet", "csv", "tsv", "ndjson", "libsvm", "arrow", "arrow-stream"] | None,
        Option(
            None,
            optional(word),
            "Format of the files, if it should not be detected: ``parquet``, ``csv``, ``tsv``, ``ndjson``, ``libsvm``, "
            "``arrow`` or ``arrow-stream``.",
        ),
    ]
    header: Annotated[bool, Option(True, truth, "CSV and TSV: whether the first row holds the column names.")]
    delimiter: Annotated[
        str | None,
        Option(
            None,
            optional(word),
            "CSV and TSV: the character between fields: ``comma``, ``semicolon``, ``tab``, ``pipe``, or the character "
            "itself; by default it is detected.",
        ),
    ]
    decimal: Annotated[
        Literal["point", "comma"] | None,
        Option(
            None,
            optional(word),
            "CSV and TSV: the decimal separator, ``point`` or ``comma``; by default it is detected.",
        ),
    ]
    null_values: Annotated[
        Sequence[str], Option((), words, "CSV and TSV: words for missing values, besides NA, N/A, NaN and null.")
    ]
    numbers: Annotated[
        Sequence[str],
        Option(
            (),
            names_of,
            "CSV and TSV: columns to read as numbers although they have percent signs (``8 %`` is 0.08), currencies or "
            "separated thousands.",
        ),
    ]
    zero_based: Annotated[bool, Option(False, truth, "LIBSVM: feature indices start at 0 even if 0 does not occur.")]


class ThreadOptions(TypedDict, total=False):
    """How many threads are used."""

    threads: Annotated[
        int | None,
        Option(None, optional(whole), "Number of threads; by default one per core. The result does not depend on it."),
    ]


class MemoryOptions(TypedDict, total=False):
    """How much memory the rows may use."""

    memory: Annotated[
        int | str | None,
        Option(
            None,
            optional(byte_count),
            'Bytes for decoded rows, such as ``"4GiB"``. By default half of the machine\'s memory; 1 GiB for data that '
            "can be read only once; 0 for arrays, which are in memory already. The result does not depend on it.",
        ),
    ]


class SelectionOptions(TypedDict, total=False):
    """How many rows a coreset has, and how they are selected."""

    size: Annotated[int | None, Option(None, optional(partial(whole, least=1)), "Number of rows; by default 1000.")]
    epsilon: Annotated[
        float | None,
        Option(
            None,
            optional(real),
            "Instead of ``size``: as many rows as the paper's theorem asks for to keep the relative error of the "
            'log-likelihood below ``epsilon``. The default method is then ``"sensitivity"``.',
        ),
    ]
    delta: Annotated[float, Option(0.05, real, "With ``epsilon``: the probability that the guarantee fails.")]
    method: Annotated[
        Literal["calibrated", "sensitivity", "uniform"] | None,
        Option(
            None,
            optional(word),
            '``"calibrated"`` (default), ``"sensitivity"`` (the paper\'s Algorithm 1) or ``"uniform"`` (the baseline).',
        ),
    ]
    seed: Annotated[int, Option(0, whole, "Seed of the random numbers; the same seed gives the same bytes.")]
    clusters: Annotated[int, Option(6, whole, "Number of clusters for the sensitivity bounds.")]
    radius: Annotated[
        float | str,
        Option(
            "auto:3",
            _radius,
            'Radius of the ball of parameters: a number, or ``"auto:A"`` for A divided by the square root of the '
            "k-means score.",
        ),
    ]
    theta_star: Annotated[
        Mapping[str, float] | None,
        Option(None, partial(by_name, real), "Centre of the ball: coefficients by name, on the data's own scale."),
    ]
    centers: Annotated[
        Literal["exact", "quick"],
        Option(
            "exact",
            word,
            'What represents a cluster: its mean without the row itself (``"exact"``), or its centre, as in the '
            'paper\'s experiments (``"quick"``).',
        ),
    ]
    collapse: Annotated[bool, Option(True, truth, "Merge equal rows if that gives an exact coreset.")]
    constant: Annotated[float, Option(4.0, real, "With ``epsilon``: the constant of the paper's size rule.")]
    prior: Annotated[
        str | None,
        Option(
            None,
            optional(word),
            "Prior of the coefficients for which the coreset is calibrated and certified, as :meth:`Coreset.fit` takes "
            'it; ``"normal:2"`` by default.',
        ),
    ]
    intercept_prior: Annotated[str | None, Option(None, optional(word), "The same for the intercept.")]
    prior_for: Annotated[
        Mapping[str, str] | None, Option(None, partial(by_name, word), "The same for single coefficients, by name.")
    ]
    certificate: Annotated[
        Literal["draws", "normal"],
        Option(
            "draws",
            word,
            'What the certificate compares: log-likelihoods at posterior draws (``"draws"``), or only normal '
            'approximations (``"normal"``), which leaves the coreset unverified.',
        ),
    ]


class ColumnOptions(TypedDict, total=False):
    """Which columns are used, and how they enter the model."""

    formula: Annotated[
        str | None,
        Option(
            None,
            optional(word),
            'Formula of the model, as in R: ``"y ~ age * city + bs(income, df=5) + log(visits + 1)"``. It replaces '
            "``label``, ``features`` and ``intercept``.",
        ),
    ]
    label: Annotated[
        ColumnName | None,
        Option(None, optional(column), 'Column with the two classes; with ``y``, the name to give it (``"y"``).'),
    ]
    positive: Annotated[object, Option(None, _positive, "Positive value of the label; required if the label is text.")]
    features: Annotated[
        Sequence[ColumnName] | None, Option(None, names_of, "Columns to use as features; by default all the others.")
    ]
    exclude: Annotated[Sequence[ColumnName], Option((), names_of, "Columns to exclude; they may contain anything.")]
    text: Annotated[
        Sequence[ColumnName],
        Option((), names_of, 'Columns to read as text (categories); booleans become ``"false"`` and ``"true"``.'),
    ]
    dates: Annotated[
        Sequence[ColumnName],
        Option(
            (),
            names_of,
            "Columns of text that are dates. They enter the model as days (since 2000-01-01), month, weekday and hour, "
            "like columns of a date type.",
        ),
    ]
    missing: Annotated[
        Literal["error", "drop", "indicator", "mean"],
        Option(
            "error",
            word,
            'What to do with missing values: ``"error"``; ``"drop"`` such rows; ``"indicator"`` uses the mean of '
            'numbers with a coefficient for "missing", and a level for missing text; ``"mean"`` uses the mean and '
            "the reference level.",
        ),
    ]
    intercept: Annotated[bool, Option(True, truth, "Whether the model has an intercept.")]
    standardize: Annotated[
        Literal["numeric", "all", "none"] | bool,
        Option(
            "numeric",
            _standardize,
            'Which columns to centre and scale: ``"numeric"`` (numbers are centred and scaled; 0/1 columns and levels '
            'are centred), ``"all"`` (columns of numbers, those of 0 and 1 too) or ``"none"``.',
        ),
    ]
    max_levels: Annotated[int, Option(100, whole, "Most levels that a text column may have.")]
    groups: Annotated[
        str,
        Option(
            None,
            word,
            'Effects that vary by group: ``"1 | shop"``, ``"1 + price | shop"``, or ``"1 + price || shop"`` without '
            "correlations.",
        ),
    ]
    min_level_rows: Annotated[
        int, Option(0, whole, 'Levels in fewer rows than this are grouped into the level ``"other"``.')
    ]


class BlockOptions(TypedDict, total=False):
    """How the passes of a build read the data."""

    kl: Annotated[
        float | None,
        Option(
            None,
            optional(real),
            "Instead of ``size``: as few rows as bring the KL divergence to the full posterior below this, in nats.",
        ),
    ]
    block_rows: Annotated[
        int | None,
        Option(
            None,
            optional(whole),
            "Rows per block; by default it depends on the number of columns. The result depends on it.",
        ),
    ]


class StreamBlockOptions(TypedDict, total=False):
    """How a stream is divided into blocks, and how it treats new levels."""

    block: Annotated[
        int,
        Option(
            50_000,
            partial(whole, least=1),
            "Rows per block. A stream of a single block gives the same bytes as :func:`build`.",
        ),
    ]
    warmup_rows: Annotated[
        int | None,
        Option(
            None,
            optional(partial(whole, least=1)),
            "Rows from which levels, means and scales are learnt; by default those of the first block.",
        ),
    ]
    unseen: Annotated[
        Literal["error", "reference"],
        Option(
            "error",
            word,
            "What to do with a text level that was not present when the encoding was learnt: "
            '``"error"``, or ``"reference"`` to treat it as the reference level.',
        ),
    ]
    skip_bad: Annotated[
        int | None, Option(None, optional(whole), "Skip rows of files that cannot be read, at most this many.")
    ]
    replay: Annotated[
        bool,
        Option(
            False,
            truth,
            "The data starts again from its first row: rows that the stream already contains are skipped, and must be "
            "the same.",
        ),
    ]


class DrawOptions(TypedDict, total=False):
    """How to draw from a posterior."""

    prior: Annotated[
        str | None,
        Option(
            None,
            optional(word),
            'Prior of the coefficients, as :meth:`Coreset.fit` takes it; ``"normal:2"`` by default.',
        ),
    ]
    intercept_prior: Annotated[str | None, Option(None, optional(word), "The same for the intercept.")]
    prior_for: Annotated[
        Mapping[str, str] | None, Option(None, partial(by_name, word), "The same for single coefficients, by name.")
    ]
    group_prior: Annotated[
        str | None,
        Option(
            None,
            optional(word),
            'Prior of the standard deviations of group effects: ``"half-normal:SCALE"``, '
            '``"half-student:DEGREES:SCALE"``, ``"half-cauchy:SCALE"`` or ``"exponential:RATE"``; '
            '``"half-student:3:2.5"`` by default.',
        ),
    ]
    sampler: Annotated[
        str, Option("nuts", word, '``"nuts"``, ``"mala"``, ``"mala-plain"`` (the paper\'s) or ``"laplace"``.')
    ]
    chains: Annotated[int, Option(4, whole, "Number of chains.")]
    draws: Annotated[int, Option(1000, whole, "Draws kept per chain.")]
    warmup: Annotated[int, Option(1000, whole, "Warm-up iterations per chain.")]
    seed: Annotated[int, Option(0, whole, "Seed of the random numbers; the same seed gives the same bytes.")]


class FittedRowsOptions(TypedDict, total=False):
    """Which rows are fitted: all, or a coreset."""

    whole: Annotated[
        bool,
        Option(
            False,
            truth,
            "Fit all rows, however long that takes. By default they are fitted if that takes at most about ten "
            "seconds on one core per chain.",
        ),
    ]
    size: Annotated[
        int | None,
        Option(
            None,
            optional(partial(whole, least=1)),
            "Fit a coreset with this number of rows; by default 1000 or 20 per coefficient, and more if these are too "
            "few.",
        ),
    ]
    kl: Annotated[
        float | None,
        Option(
            None,
            optional(real),
            "Instead of ``size``: as few rows as bring the KL divergence to the full posterior below this, in nats.",
        ),
    ]
    block_rows: Annotated[
        int | None,
        Option(
            None,
            optional(whole),
            "Rows per block; by default it depends on the number of columns. The result depends on it.",
        ),
    ]


class DataFitOptions(
    ColumnOptions, FittedRowsOptions, DrawOptions, FileOptions, ThreadOptions, MemoryOptions, total=False
):
    """The options of :func:`tithe.fit`."""


class BuildOptions(
    ColumnOptions, SelectionOptions, BlockOptions, FileOptions, ThreadOptions, MemoryOptions, total=False
):
    """The options of :func:`tithe.build`."""


class PassOptions(BuildOptions, total=False):
    """The options of a build whose passes run on a cluster."""

    weight: Annotated[str | None, Option(None, optional(column), "The column of weights, if the data is weighted.")]


class StreamOptions(ColumnOptions, SelectionOptions, StreamBlockOptions, FileOptions, ThreadOptions, total=False):
    """The options of :class:`tithe.Stream`."""

    half_life: Annotated[
        float | None,
        Option(
            None,
            optional(real),
            "Forget: every row loses half of its weight in each ``half_life`` further rows, so that old data fades "
            "towards the prior. By default rows keep their weights.",
        ),
    ]


class MergeOptions(SelectionOptions, ThreadOptions, total=False):
    """The options of :func:`tithe.merge`."""


class ReadOptions(FileOptions, ThreadOptions, MemoryOptions, total=False):
    """The options of everything that reads data whose columns are known."""


@cache
def options_of(kind: type) -> dict[str, tuple[Any, Option]]:
    """Type and option of each keyword argument, by name."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: (hint.__origin__, hint.__metadata__[0]) for name, hint in hints.items()}


def default_of(kind: type, name: str) -> Any:
    """The default of a keyword argument."""
    return options_of(kind)[name][1].default


def checked(function: str, kind: type, given: Mapping[str, object]) -> dict[str, Any]:
    """Check the keyword arguments that a function was given; returns them as the native module takes them."""
    options = options_of(kind)
    for name in given:
        if name not in options:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
    return {name: options[name][1].check(name, value) for name, value in given.items()}


Documented = TypeVar("Documented", bound="Callable[..., Any]")


def takes(kind: type) -> Callable[[Documented], Documented]:
    """Show the keyword arguments of a TypedDict in place of ``**options``, in the signature and the docstring.

    A class is decorated for its ``__init__``. Type checkers see the same arguments by ``Unpack``.
    """

    def decorate(target: Documented) -> Documented:
        function: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=hint)
            for name, (hint, option) in options_of(kind).items()
            if name not in signature.parameters
        ]
        function.__signature__ = signature.replace(parameters=[*own, *shared])
        target.__doc__ = re.sub(
            r"^( *)\*\*options:\n(?:\1 +.*\n)+",
            lambda match: "".join(
                textwrap.indent(f"{each.name}:\n{_wrapped(options_of(kind)[each.name][1].text)}\n", match[1])
                for each in shared
            ),
            target.__doc__ or "",
            flags=re.MULTILINE,
        )
        return target

    return decorate


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text,
        108,
        initial_indent="    ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
