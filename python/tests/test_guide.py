"""The examples print what the guide shows; the notebook runs."""

import doctest
import re

import guide
import nbclient
import nbformat
import pytest

NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?")


#: NumPy pads short numbers.
PADDING = re.compile(r"\s+(?=[,\]])")
#: Figures that depend on the random draws: another order of additions gives others.
RANDOM = re.compile(r"(smallest ESS|Pareto k) [\d.e-]+")


class Roughly(doctest.OutputChecker):
    """Words must be the same; numbers may differ by 5 %, and numbers below a thousandth count as equal."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        want, got = (PADDING.sub("", RANDOM.sub(r"\1", text)) for text in (want, got))
        words = [" ".join(NUMBER.sub("#", text).split()) for text in (want, got)]
        pairs = zip(NUMBER.findall(want), NUMBER.findall(got), strict=False)
        numbers = [[float(number.replace(",", "")) for number in pair] for pair in pairs]
        return words[0] == words[1] and all(abs(a - b) <= 0.05 * abs(a) + 1e-3 for a, b in numbers)


@pytest.mark.filterwarnings("ignore::tithe.TitheWarning")
def test_the_guides_examples_print_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.DocTestRunner(checker=Roughly(), optionflags=flags).run(guide.examples())
    assert results.attempted > 20 and results.failed == 0


def test_the_notebook_runs(tmp_path):
    notebook = nbformat.read(guide.ROOT / "docs/python.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("indistinguishable" in output.get("data", {}).get("text/html", "") for output in shown)
    assert any("image/png" in output.get("data", {}) for output in shown)
