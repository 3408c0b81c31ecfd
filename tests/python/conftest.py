"""What the tests share: the program, and a coreset with its posterior."""

import json
import os
import pathlib
import subprocess

import pytest

TITHE = pathlib.Path(os.environ.get("TITHE", "target/release/tithe")).resolve()


@pytest.fixture(scope="session")
def tithe():
    """Runs a command line and gives back what it printed as JSON."""

    def run(*words, cwd):
        done = subprocess.run([TITHE, *map(str, words), "--json"], cwd=cwd, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def folder(tithe, tmp_path_factory):
    """A folder with core.parquet: 300 weighted rows of 20,000."""
    path = tmp_path_factory.mktemp("tithe")
    tithe("generate", "mixture", "--rows", 20000, "-o", "data.parquet", cwd=path)
    tithe("build", "data.parquet", "--label", "y", "--size", 300, "-o", "core.parquet", cwd=path)
    return path


@pytest.fixture(scope="session")
def fitted(tithe, folder):
    """The record of the fit that wrote post.parquet."""
    return tithe("fit", "core.parquet", "-o", "post.parquet", "--seed", 5, cwd=folder)
