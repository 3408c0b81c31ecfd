"""Formats numbers and tables for people to read."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable


def count(number: int) -> str:
    """Format an integer with thousands separators."""
    return f"{number:,}"


def counted(number: int, noun: str) -> str:
    """Format a number with its noun, in the plural unless it is 1."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def number(value: float) -> str:
    """Format a number with four significant digits."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:.4g}"


def described(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """Format facts in a few lines, for ``repr``."""
    return f"<{title}: " + "\n  ".join(text for _, text in facts) + ">"


def table(title: str, facts: Iterable[tuple[str, str]], lines: Iterable[str] = ()) -> str:
    """Format facts as a small HTML table."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in facts
    )
    below = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
    return f"<div><strong>{html.escape(title)}</strong><table>{rows}</table>{below}</div>"
