"""Fixtures of all tests: the command line, and the same data in several forms."""

import json
import os
import pathlib
import subprocess

import arviz
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tithe

# ArviZ's compiled Monte Carlo errors do not work with current NumPy.
arviz.Numba.disable_numba()

ROOT = pathlib.Path(__file__).resolve().parents[2]
TITHE = pathlib.Path(os.environ.get("TITHE", ROOT / "target/debug/tithe")).resolve()


@pytest.fixture(scope="session")
def command():
    """Run a command and return the JSON that it printed."""

    def run(*words, cwd):
        done = subprocess.run([TITHE, *map(str, words), "--json"], cwd=cwd, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def folder(command, tmp_path_factory):
    """A folder with data.parquet, and core.parquet: 300 weighted rows of its 20,000."""
    path = tmp_path_factory.mktemp("tithe")
    command("generate", "mixture", "--rows", 20000, "-o", "data.parquet", cwd=path)
    command("build", "data.parquet", "--label", "y", "--size", 300, "-o", "core.parquet", cwd=path)
    return path


@pytest.fixture(scope="session")
def table(folder) -> pa.Table:
    """The same data as a pyarrow table."""
    return pyarrow.parquet.read_table(folder / "data.parquet")


@pytest.fixture(scope="session")
def matrix(table):
    """The same data as a matrix and its labels."""
    names = table.column_names
    return np.column_stack([table[name].to_numpy() for name in names[:-1]]), table["y"].to_numpy()


@pytest.fixture(scope="session")
def core(folder) -> tithe.Coreset:
    return tithe.read_coreset(folder / "core.parquet")


@pytest.fixture(scope="session")
def posterior(core) -> tithe.Posterior:
    return core.fit(seed=5)
