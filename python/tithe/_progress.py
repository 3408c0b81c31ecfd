"""Progress bars with tqdm, if it is installed, and Python warnings."""

from __future__ import annotations

import sys
import warnings
from types import TracebackType
from typing import Any

from ._errors import TitheWarning


def _is_interactive() -> bool:
    """Whether there is a terminal or a notebook to draw on."""
    shell = sys.modules.get("IPython")
    if shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell":
        return True
    return bool(getattr(sys.stderr, "isatty", lambda: False)())


class Watcher:
    """Shows the progress of the native module; a context manager, so that no bar remains."""

    def __init__(self, progress: bool | None, *, warn: bool = True) -> None:
        self._tqdm: Any = None
        self._bar: Any = None
        self._warn = warn
        self.warnings: list[str] = []
        if progress or (progress is None and _is_interactive()):
            try:
                from tqdm.auto import tqdm
            except ImportError:
                if progress:
                    warnings.warn("progress=True needs tqdm: pip install 'tithe[progress]'", TitheWarning, stacklevel=4)
            else:
                self._tqdm = tqdm

    def started(self, name: str, total: int | None, unit: str) -> None:
        """Start the bar of the next pass."""
        if self._tqdm is None:
            return
        if self._bar is not None:
            self._bar.close()
        self._bar = self._tqdm(total=total, desc=name, unit=f" {unit}", unit_scale=True, leave=False)

    def advanced(self, count: int) -> None:
        """Advance the bar."""
        if self._bar is not None:
            self._bar.update(count)

    def warned(self, text: str) -> None:
        """Keep a warning until the work is done."""
        self.warnings.append(text)

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        if kind is None and self._warn:
            for text in self.warnings:
                # Attribute the warning to the caller of the public function.
                warnings.warn(text, TitheWarning, stacklevel=3)
