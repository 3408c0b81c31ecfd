"""The package's exceptions: one class per kind of error, each also a subclass of the usual Python exception."""

from __future__ import annotations

import errno


class TitheError(Exception):
    """The base class of all errors of this package."""


class FileError(TitheError, OSError):
    """The operating system refused to read or write a file."""


class NoInputError(FileError, FileNotFoundError):
    """A path, glob or directory with no file to read."""

    errno: int | None

    def __init__(self, message: str = "", filename: str | None = None) -> None:
        super().__init__(message)
        self.errno = errno.ENOENT
        self.filename = filename

    def __str__(self) -> str:  # OSError would show its number and the name instead of the message
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[NoInputError], tuple[str, str | None]]:
        return type(self), (str(self), self.filename)


class MalformedError(TitheError, ValueError):
    """A file or other data that cannot be read at all."""


class CellError(TitheError, ValueError):
    """One value, or one row, that cannot be read."""


class SchemaMismatchError(TitheError, ValueError):
    """Part files whose columns differ."""


class UnknownColumnError(TitheError, KeyError, ValueError):
    """A column that the data does not have."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class ColumnError(TitheError, ValueError):
    """A column whose content cannot be used in its role."""


class MissingValuesError(TitheError, ValueError):
    """Values that are missing, infinite or not exactly representable."""


class NoRowsError(TitheError, ValueError):
    """Data without a usable row."""


class FormulaError(TitheError, ValueError):
    """A formula cannot be used; the message points at the character."""


class SettingError(TitheError, ValueError):
    """An argument with an invalid value."""


class StateError(TitheError, OSError, ValueError):
    """A stream's state that cannot be used: another process writes there, or it was made with other settings."""


class EncodingMismatchError(TitheError, ValueError):
    """Coresets whose columns, classes or levels do not agree."""


class WrongFileError(TitheError, ValueError):
    """A coreset or posterior, on disk or pickled, that this version cannot use."""


class OtherDataError(TitheError, ValueError):
    """Data that differs from the data a posterior was made from."""


class ChangedError(TitheError, RuntimeError):
    """Data that changed between two passes."""


class ClusterError(TitheError, RuntimeError):
    """Work on a cluster that failed."""


class NumericalError(TitheError, ArithmeticError):
    """A computation that failed or did not converge."""


class InputTypeError(TitheError, TypeError):
    """An object that cannot be read as data."""


class TitheWarning(UserWarning):
    """A warning; the work continues."""


for _class in [kind for kind in globals().values() if isinstance(kind, type)]:
    # Users see, and pickles contain, `tithe.ColumnError`.
    _class.__module__ = "tithe"
