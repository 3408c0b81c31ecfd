"""Numbers and tables as people read them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable


def count(number: int) -> str:
    """Write a whole number with commas."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Write how many there are of something."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def number(value: float) -> str:
    """Write a number to four significant digits."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4g}"


def described(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Write facts in a few lines, as ``repr`` does."""
    return f"<{title}: " + "\n  ".join(text for _, text in facts) + ">"


def table(title: str, facts: Iterable[tuple[str, str]], lines: Iterable[str] = ()) -> str:
    """Write facts as a small HTML table."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in facts
    )
    below = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    return f"<div><strong>{html.escape(title)}</strong><table>{rows}</table>{below}</div>"
