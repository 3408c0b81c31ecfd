"""Without the optional packages: what needs none works, and the rest says what to install."""

import re
import subprocess
import sys

import pytest

import tithe

#: Imports of these fail as if they were not installed.
BARE = "import sys; sys.modules.update(dict.fromkeys({packages!r}))\n"
OPTIONAL = ["arviz", "pandas", "polars", "pyarrow", "pyspark", "py4j", "scipy", "sklearn", "tqdm"]


def _run(code: str, packages=tuple(OPTIONAL)):
    code = BARE.format(packages=list(packages)) + code
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)


def test_the_package_works_with_numpy_alone():
    done = _run(
        "from tithe import *\n"
        "import tithe\n"
        "core = tithe.build(*tithe.generate('mixture', 3000), size=100)\n"
        "posterior = core.fit(chains=2, draws=50)\n"
        "assert posterior.predict_proba(core.X).shape == (len(core), 2)\n"
        "assert hasattr(tithe, 'LogisticRegression') and not isinstance(core, tithe.LogisticRegression)\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("use", "missing", "message"),
    [
        ("tithe.LogisticRegression(size=100)", "sklearn", "tithe.LogisticRegression needs sklearn: {tithe[sklearn]}"),
        ("tithe.CoresetSampler()", "sklearn", "tithe.CoresetSampler needs sklearn: {tithe[sklearn]}"),
        ("import tithe.spark", "pyspark", "tithe.spark needs pyspark: {tithe[spark]}"),
        ("core.to_pandas()", "pandas", "to_pandas needs pandas: {tithe[pandas]}"),
        ("core.to_polars()", "polars", "to_polars needs polars: {tithe[polars]}"),
        ("core.to_arrow()", "pyarrow", "to_arrow needs pyarrow: {tithe[arrow]}"),
        ("core.fit(chains=2, draws=50).summary()", "pandas", "summary needs pandas: {tithe[pandas]}"),
        ("core.fit(chains=2, draws=50).to_arviz()", "arviz", "to_arviz needs arviz: {tithe[arviz]}"),
        ("core.fit(chains=2, draws=50).plot()", "arviz", "plot needs arviz: {tithe[arviz]}"),
        ("tithe.build(iter([core]), label='y')", "pyarrow", "a generator .* needs pyarrow: {tithe[arrow]}"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(use, missing, message):
    done = _run(
        f"import tithe\ncore = tithe.build(*tithe.generate('mixture', 1000), size=1000, method='uniform')\n{use}\n",
        [missing],
    )
    last = done.stderr.splitlines()[-1]
    pattern = message.replace("{", r"pip install '").replace("}", "'").replace("[", r"\[").replace("]", r"\]")
    assert done.returncode == 1 and re.search(f"^ImportError: {pattern}$", last), done.stderr


def test_every_public_name_exists():
    assert all(hasattr(tithe, name) for name in tithe.__all__)
