"""Every block of code in the documentation runs and prints what the page shows; files follow their specification."""

import doctest
import json
import os
import pathlib
import re
import stat
import subprocess

import conftest
import guide
import jsonschema
import pyarrow.parquet
import pytest
from test_guide import NUMBER, Roughly

import tithe

DOCS = guide.ROOT / "docs"
#: Pages whose code other tests run: the guide (test_guide.py) and Spark (test_spark.py).
ELSEWHERE = {"python.md", "spark.md"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
#: What a page expects to be there.
SETUP = {
    "streaming.md": [
        f"tithe generate mixture --rows 20000 --seed {seed} -o {day}.csv --quiet && "
        f"tithe build {day}.csv --label y --seed {seed} -o {day}.parquet --quiet"
        for seed, day in enumerate(["monday", "tuesday"])
    ]
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def covtype() -> pathlib.Path:
    """UCI's Covertype data, which is not part of the sources."""
    folder = pathlib.Path(os.environ.get("TITHE_DATA", guide.ROOT.parent / "shared/data"))
    return folder / "covtype.parquet"


def pages() -> list[pathlib.Path]:
    """The pages with code."""
    texts = {path: path.read_text() for path in sorted(DOCS.rglob("*.md")) if path.name not in ELSEWHERE}
    return [path for path, text in texts.items() if re.search(r"^```(console|python)", text, re.M)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A directory with the program on the path, and a program `producer` that writes labelled rows as CSV."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "tithe").symlink_to(conftest.TITHE)
    producer = programs / "producer"
    producer.write_text(
        "#!/bin/sh\ntithe generate mixture --rows 20000 -o rows.csv --quiet >/dev/null && cat rows.csv\n"
    )
    producer.chmod(producer.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def run_console(text: str, page: str) -> None:
    """Run the commands of a block and compare what they print; a line with … stands for any lines."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, want = part.partition("\n")
        done = subprocess.run(
            command,
            shell=True,
            executable="/bin/bash",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{page}: {command}\n{done.stdout}"
        assert not want.strip() or is_shown(want, done.stdout), f"{page}: {command}\n{done.stdout}"


def is_shown(want: str, got: str) -> bool:
    """Compare an output with what a page shows: … stands for anything, numbers only for numbers where there is one."""
    if "…" not in want:
        return Roughly().check_output(want, got, FLAGS)
    plain = [" ".join(NUMBER.sub("#", text).split()) for text in (want, got)]
    pattern = ".*?".join(re.escape(piece.strip()) for piece in plain[0].split("…"))
    return re.fullmatch(pattern.replace(".*?", r"\s*.*?\s*"), plain[1], re.S) is not None


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(DOCS)))
@pytest.mark.filterwarnings("ignore::tithe.TitheWarning")
def test_the_code_of_a_page_runs(page, place, monkeypatch):
    name, text = str(page.relative_to(DOCS)), page.read_text()
    if "fetch_covtype" in text:
        if not covtype().exists():
            pytest.skip("needs covtype.parquet in the directory TITHE_DATA")
        monkeypatch.setattr("sklearn.datasets.fetch_covtype", fetched_covtype)
    for command in SETUP.get(name, []):
        subprocess.run(command, shell=True, check=True, capture_output=True)
    names: dict[str, object] = {}
    for language, code in BLOCK.findall(text):
        if language == "console":
            run_console(code, name)
        elif language == "python" and ">>>" in code:
            test = doctest.DocTestParser().get_doctest(code, names, name, str(page), 0)
            results = doctest.DocTestRunner(checker=Roughly(), optionflags=FLAGS).run(test, clear_globs=False)
            names = test.globs
            assert results.failed == 0
        elif language == "python":
            exec(compile(code, name, "exec"), names)


def fetched_covtype(as_frame: bool):
    """What scikit-learn downloads, from the file that tests use; other cover types than 2 become 1."""
    frame = pyarrow.parquet.read_table(covtype()).to_pandas()
    frame["Cover_Type"] = frame.pop("label").map({1: 2, -1: 1})
    areas, soils = [f"Wilderness_Area_{i}" for i in range(4)], [f"Soil_Type_{i}" for i in range(40)]
    frame.columns = [*frame.columns[:10], *areas, *soils, "Cover_Type"]
    return type("Bunch", (), {"frame": frame})


# The specification of files.


def schema(name: str) -> jsonschema.Draft202012Validator:
    """A published schema."""
    content = json.loads((DOCS / "schemas" / name).read_text())
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


def metadata(path: pathlib.Path) -> dict:
    """The JSON object in a file."""
    return json.loads(pyarrow.parquet.read_metadata(path).metadata[b"tithe"])


def test_files_follow_their_schemas(command, folder, tmp_path):
    def made(name: str, *words: object) -> pathlib.Path:
        command(*words, "-o", tmp_path / name, "--quiet", cwd=folder)
        return tmp_path / name

    build = ["build", "data.parquet", "--label", "y"]
    text = tmp_path / "text.csv"
    rows = [f"{i % 7},{'abc'[i % 3]},{i % 2 == 0},{'yes' if (i * 7919) % 5 < 2 else 'no'}" for i in range(500)]
    text.write_text("\n".join(["number,letter,flag,bought", *rows]))
    coresets = [
        folder / "core.parquet",
        made("kl.parquet", *build, "--kl", 0.1),
        made("sensitivity.parquet", *build, "--method", "sensitivity", "--epsilon", 0.9, "--delta", 0.5),
        made("uniform.parquet", *build, "--method", "uniform", "--size", 50),
        made("exact.parquet", "build", text, "--label", "bought", "--positive", "yes", "--text", "number"),
        made("unscaled.parquet", *build, "--size", 100, "--standardize", "none", "--no-intercept"),
        made("merged.parquet", "merge", folder / "core.parquet", tmp_path / "uniform.parquet"),
    ]
    for path in coresets:
        schema("coreset-1.json").validate(metadata(path))
    fit = ["fit", "data.parquet", "--label", "y"]
    posteriors = [
        made("nuts.parquet", "fit", folder / "core.parquet", "--draws", 100),
        made("mala.parquet", "fit", folder / "core.parquet", "--sampler", "mala", "--draws", 100),
        made("laplace.parquet", *fit, "--whole", "--sampler", "laplace", "--draws", 100),
        made("verified.parquet", *fit, "--keep", tmp_path / "kept.parquet"),
    ]
    for path in posteriors:
        schema("posterior-1.json").validate(metadata(path))
        encoding = metadata(path)["encoding"]
        definitions = json.loads((DOCS / "schemas/coreset-1.json").read_text())
        jsonschema.Draft202012Validator({**definitions["$defs"]["encoding"], "$defs": definitions["$defs"]}).validate(
            encoding
        )


def test_a_schema_rejects_what_is_not_specified(folder):
    right = metadata(folder / "core.parquet")
    for wrong in (
        {"version": 3},
        {"file": "posterior"},
        {"encoding": {}},
        {"provenance": {**right["provenance"], "mass": -1}},
    ):
        assert not schema("coreset-1.json").is_valid({**right, **wrong})


def test_a_file_of_another_program_can_be_used(folder, tmp_path):
    """A coreset written by these rules alone, with PyArrow."""
    table = pyarrow.parquet.read_table(folder / "core.parquet")
    pyarrow.parquet.write_table(
        table.replace_schema_metadata({b"tithe": json.dumps(metadata(folder / "core.parquet"))}), tmp_path / "a.parquet"
    )
    assert (tithe.read_coreset(tmp_path / "a.parquet").X == tithe.read_coreset(folder / "core.parquet").X).all()
