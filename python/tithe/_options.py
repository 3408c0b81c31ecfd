"""What users say of how to read, encode and choose, as the native module takes it: one dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ._errors import SettingError

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def byte_count(size: int | str | None) -> int | None:
    """Read a size in bytes: a number, or words such as ``"4GiB"``."""
    if size is None:
        return None
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-zA-Z]*)\s*", str(size))
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise SettingError(f"memory: '{size}' is not a size such as '4GiB' or a number of bytes")
    wanted = float(match[1]) * unit
    if wanted >= 2**64:
        raise SettingError(f"memory: '{size}' is more than any machine has; it must be less than 2**64 bytes")
    return int(wanted)


def whole(name: str, value: Any, *, least: int = 0) -> int:
    """Take a whole number, or say which argument is none."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise SettingError(f"{name}: must be a whole number, but is {value!r}")
    number = int(value.__index__())
    if number < least:
        raise SettingError(f"{name}: must be at least {least}, but is {number}")
    if number >= 2**64:
        raise SettingError(f"{name}: must be less than 2**64, but is {number}")
    return number


def real(name: str, value: Any) -> float:
    """Take a number, or say which argument is none."""
    if isinstance(value, (str, bytes, bool, np.bool_)) or not (
        hasattr(value, "__float__") or hasattr(value, "__index__")
    ):
        raise SettingError(f"{name}: must be a number, but is {value!r}")
    return float(value)


def word(name: str, value: Any) -> str:
    """Take a word, or say which argument is none."""
    if not isinstance(value, str):
        raise SettingError(f"{name}: must be a string, but is {value!r}")
    return value


def truth(name: str, value: Any) -> bool:
    """Take a truth, or say which argument is none: any word would be true, even "no"."""
    if not isinstance(value, (bool, np.bool_, int)) or value not in (0, 1):
        raise SettingError(f"{name}: must be True or False, but is {value!r}")
    return bool(value)


def by_name(name: str, value: Any) -> list[tuple[str, Any]]:
    """Take what is given by coefficient."""
    if value is not None and not isinstance(value, Mapping):
        raise SettingError(f"{name}: must be a dict by coefficient, but is {value!r}")
    for each in value or {}:
        if not isinstance(each, str):
            raise SettingError(f"{name}: {each!r} is not the name of a coefficient")
    return list((value or {}).items())


def names_of(name: str, value: Iterable[str] | None) -> list[str] | None:
    """Take a list of names; a single string would be taken letter by letter."""
    if value is None:
        return None
    if isinstance(value, str):
        return [value]
    names = list(value)
    for each in names:
        if not isinstance(each, str):
            raise SettingError(f"{name}: {each!r} is not the name of a column")
    return names


def reading(
    format: str | None = None,
    header: bool = True,
    zero_based: bool = False,
    text: Sequence[str] = (),
    threads: int | None = None,
    memory: int | str | None = None,
    block_rows: int | None = None,
) -> dict[str, Any]:
    """Gather the options of everything that reads data."""
    return {
        "format": None if format is None else word("format", format),
        "header": truth("header", header),
        "zero_based": truth("zero_based", zero_based),
        "text": names_of("text", text) or [],
        "threads": None if threads is None else whole("threads", threads),
        "memory": byte_count(memory),
        "block_rows": None if block_rows is None else whole("block_rows", block_rows),
    }


def build_options(
    *,
    label: str | None = None,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    positive: object = None,
    intercept: bool = True,
    standardize: bool = True,
    max_levels: int = 100,
    missing: str = "error",
    size: int | None = None,
    kl: float | None = None,
    epsilon: float | None = None,
    delta: float = 0.05,
    constant: float = 4.0,
    method: str | None = None,
    clusters: int = 6,
    radius: float | str = "auto:3",
    theta_star: Mapping[str, float] | None = None,
    centers: str = "exact",
    collapse: bool = True,
    prior_scale: float = 2.0,
    seed: int = 0,
    **how: Any,
) -> dict[str, Any]:
    """Gather what a build depends on, wherever its rows are."""
    return {
        "label": label,
        "weight": weight,
        "features": names_of("features", features),
        "exclude": names_of("exclude", exclude) or [],
        "positive": _positive(positive),
        "intercept": truth("intercept", intercept),
        "standardize": truth("standardize", standardize),
        "max_levels": whole("max_levels", max_levels),
        "missing": word("missing", missing),
        "size": None if size is None else whole("size", size, least=1),
        "kl": None if kl is None else real("kl", kl),
        "epsilon": None if epsilon is None else real("epsilon", epsilon),
        "delta": real("delta", delta),
        "constant": real("constant", constant),
        "method": None if method is None else word("method", method),
        "clusters": whole("clusters", clusters),
        "radius": radius if isinstance(radius, str) else real("radius", radius),
        "theta_star": [(name, real("theta_star", value)) for name, value in by_name("theta_star", theta_star)],
        "centers": word("centers", centers),
        "collapse": truth("collapse", collapse),
        "prior_scale": real("prior_scale", prior_scale),
        "seed": whole("seed", seed),
        "encoding": None,
    } | reading(**how)


def _positive(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    return str(value)
