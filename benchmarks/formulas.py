"""Times a build from a formula against a build from a table with the formula's columns.

    benchmarks/formulas.py [path of tithe] [rows]

Needs pyarrow and NumPy. The formula has ten columns, their squares and their products: 65 columns and an intercept.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = [f"x{at}" for at in range(1, 11)]
FORMULA = f"y ~ ({' + '.join(COLUMNS)})^2 + {' + '.join(f'I({name}^2)' for name in COLUMNS)}"


def tables(folder: Path, rows: int) -> tuple[Path, Path]:
    """A table of ten columns, and the same with their squares and products."""
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=rows) for name in COLUMNS}
    margin = 0.3 * columns["x1"] - 0.2 * columns["x2"] * columns["x3"] + 0.1 * columns["x4"] ** 2 - 0.5
    label = (rng.random(rows) < 1 / (1 + np.exp(-margin))).astype(np.int64)
    narrow, wide = folder / "narrow.parquet", folder / "wide.parquet"
    pq.write_table(pa.table({**columns, "y": label}), narrow)
    made = dict(columns)
    made |= {f"{name}^2": columns[name] * columns[name] for name in COLUMNS}
    made |= {f"{a}:{b}": columns[a] * columns[b] for i, a in enumerate(COLUMNS) for b in COLUMNS[i + 1 :]}
    pq.write_table(pa.table({**made, "y": label}), wide)
    return narrow, wide


def timed(command: list[str]) -> tuple[float, dict[str, object]]:
    """Seconds of the fastest of three runs, and the record of the last one."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run([*command, "--json", "--quiet"], check=True, capture_output=True, text=True)
        seconds.append(time.perf_counter() - start)
    return min(seconds), json.loads(done.stdout)


def main() -> None:
    """Build both coresets and print the times."""
    program = sys.argv[1] if len(sys.argv) > 1 else "tithe"
    rows = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        narrow, wide = tables(folder, rows)
        for memory in [[], ["--memory", "64MiB"]]:
            common = ["--size", "2000", "-o", str(folder / "core.parquet"), *memory]
            ours, record = timed([program, "build", str(narrow), "--formula", FORMULA, *common])
            theirs, _ = timed([program, "build", str(wide), "--label", "y", *common])
            sizes = [path.stat().st_size / 1e6 for path in (narrow, wide)]
            print(f"{rows} rows {' '.join(memory)}: formula {ours:.2f} s from {sizes[0]:.0f} MB, ", end="")
            print(f"columns {theirs:.2f} s from {sizes[1]:.0f} MB, ratio {ours / theirs:.2f}")
        print(f"certificate: {record.get('certificate')}")
        print(f"peak memory of a run: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
