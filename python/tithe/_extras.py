"""Optional packages: what is missing, and the extra that installs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

#: The extra of each optional package whose name differs from it.
_EXTRAS = {
    "matplotlib": "arviz",
    "py4j": "spark",
    "pyarrow": "arrow",
    "pyspark": "spark",
    "sklearn": "sklearn",
    "tqdm": "progress",
    "xarray": "arviz",
}


@contextlib.contextmanager
def needed_for(purpose: str, *, extra: str | None = None) -> Iterator[None]:
    """Say what to install if an import in the block fails because an optional package is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "tithe":
            raise
        raise missing(purpose, package, extra) from None


def missing(purpose: str, package: str, extra: str | None = None) -> ImportError:
    """The error for an optional package that is not installed."""
    extra = extra or _EXTRAS.get(package, package)
    return ImportError(f"{purpose} needs {package}: pip install 'tithe[{extra}]'", name=package)


def placeholder(name: str, package: str) -> type:
    """A class in place of one that needs a missing package: it can be imported, but not used."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise missing(f"tithe.{name}", package)

    return type(name, (), {"__module__": "tithe", "__new__": refuse, "__doc__": f"Needs {package}."})
