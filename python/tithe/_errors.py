"""The package's exceptions: one class for each kind of error, each also what Python people would catch."""

from __future__ import annotations

import errno


class TitheError(Exception):
    """Anything that went wrong in this package."""


class FileError(TitheError, OSError):
    """The operating system refused to read or write a file."""


class NoInputError(FileError, FileNotFoundError):
    """A path, glob or directory that names nothing to read."""

    def __init__(self, message: str = "", filename: str | None = None) -> None:
        super().__init__(message)
        self.errno = errno.ENOENT
        self.filename = filename

    def __str__(self) -> str:  # OSError would show its number and the name in place of the message
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[NoInputError], tuple[str, str | None]]:
        return type(self), (str(self), self.filename)


class MalformedError(TitheError, ValueError):
    """Data that as a whole is not what it should be."""


class CellError(TitheError, ValueError):
    """One value, or one row, that cannot be read."""


class SchemaMismatchError(TitheError, ValueError):
    """Part files whose columns differ."""


class UnknownColumnError(TitheError, KeyError, ValueError):
    """A column that the data does not have."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class ColumnError(TitheError, ValueError):
    """A column whose content cannot serve its purpose."""


class MissingValuesError(TitheError, ValueError):
    """Values that are missing, infinite or not exactly representable."""


class NoRowsError(TitheError, ValueError):
    """Data that holds no usable row."""


class SettingError(TitheError, ValueError):
    """An argument that makes no sense."""


class StateError(TitheError, OSError, ValueError):
    """A stream's state that cannot be used as it is: somebody writes there, or it was made with other settings."""


class EncodingMismatchError(TitheError, ValueError):
    """Coresets whose columns, classes or levels do not agree."""


class WrongFileError(TitheError, ValueError):
    """A coreset or posterior, on disk or pickled, that this version cannot use."""


class OtherDataError(TitheError, ValueError):
    """Data that is not what a posterior was made from."""


class ChangedError(TitheError, RuntimeError):
    """Data that is not the same each time it is read."""


class ClusterError(TitheError, RuntimeError):
    """Work on other machines that cannot be used."""


class NumericalError(TitheError, ArithmeticError):
    """A computation that did not reach a usable answer."""


class InputTypeError(TitheError, TypeError):
    """An object that cannot be read as data."""


class TitheWarning(UserWarning):
    """Something to know, though the work goes on."""


for _class in [kind for kind in globals().values() if isinstance(kind, type)]:
    # What users see and pickle is `tithe.ColumnError`.
    _class.__module__ = "tithe"
