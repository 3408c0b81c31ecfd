"""The code in the guide: examples with their output, and blocks by heading."""

import doctest
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs/python.md"


def block(heading: str) -> str:
    """The first block of code under a heading."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?^```python\n(.*?)^```", GUIDE.read_text(), re.S | re.M)
    assert found, heading
    return found[1]


def examples() -> doctest.DocTest:
    """All lines after ``>>>``, in order."""
    text = re.sub(r"^```.*$", "", GUIDE.read_text(), flags=re.M)
    return doctest.DocTestParser().get_doctest(text, {}, "docs/python.md", str(GUIDE), 0)
