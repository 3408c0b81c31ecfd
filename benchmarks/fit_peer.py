"""Compares the time to build a calibrated coreset with the time of scikit-learn's fit of the same rows.

python benchmarks/fit_peer.py FIDELITY TITHE   (the example `fidelity` and the command-line program, both release builds)

Both start with the rows in memory. Tithe stops at a squared Newton decrement of 1e-12, that is, at most 1e-6 posterior standard
deviations from the mode. For a million rows this corresponds to a mean gradient of about 1e-9, which is the `tol` given to
scikit-learn. The penalty is the prior N(0, 4I). covtype is standardised and has a column of ones; its file is read from the directory
in TITHE_DATA, or from ../shared/data.
"""

import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression

ROUNDS = 3
TOLERANCE = 1e-9


def columns(path, label):
    table = pq.read_table(path)
    y = table[label].to_numpy()
    x = np.column_stack([table[name].to_numpy().astype(float) for name in table.column_names if name != label])
    return x, y > 0


def standardized(x):
    sd = x.std(axis=0)
    return np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / np.where(sd > 0, sd, 1.0)])


def squared_decrement(model, x, y):
    """The squared Newton decrement at the solution."""
    theta = model.coef_[0]
    z = np.where(y[:, None], x, -x)
    pull = 1 / (1 + np.exp(z @ theta))
    gradient = z.T @ pull - theta / 4
    hessian = (z * (pull * (1 - pull))[:, None]).T @ z + np.eye(len(theta)) / 4
    return gradient @ np.linalg.solve(hessian, gradient)


def compare(fidelity, name, size, x, y):
    best = {"tithe": np.inf, "lbfgs": np.inf, "newton-cholesky": np.inf}
    decrements = {}
    # Alternate, so that other load on the machine affects both sides.
    for _ in range(ROUNDS):
        command = [fidelity, "--seeds", "3", "--only", "calibrated", f"{name}:{size}"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        best["tithe"] = min(best["tithe"], float(printed.splitlines()[-1].split("|")[7]))
        for solver in ("lbfgs", "newton-cholesky"):
            model = LogisticRegression(C=4.0, fit_intercept=False, solver=solver, tol=TOLERANCE, max_iter=2000)
            start = time.perf_counter()
            model.fit(x, y)
            best[solver] = min(best[solver], time.perf_counter() - start)
            decrements[solver] = squared_decrement(model, x, y)
    print(f"{name}, {len(x)} x {x.shape[1]}, M = {size}; fastest of {ROUNDS}")
    print(f"  Tithe, calibrated coreset: {best['tithe']:.3f} s")
    for solver, decrement in decrements.items():
        ratio = best[solver] / best["tithe"]
        print(f"  scikit-learn, {solver}: {best[solver]:.3f} s, {ratio:.2f} times as long (squared Newton decrement: {decrement:.1e})")


def main(fidelity, tithe):
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixture.parquet"
        subprocess.run([tithe, "generate", "mixture", "--rows", "1000000", "-o", path], check=True, capture_output=True)
        x, y = columns(path, "y")
    compare(fidelity, "mixture", 1000, x, y)
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    file = Path(os.environ.get("TITHE_DATA", shared)) / "covtype.parquet"
    if file.is_file():
        x, y = columns(file, "label")
        compare(fidelity, "covtype", 2000, standardized(x), y)
    else:
        print(f"{file} not found: skipped", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
