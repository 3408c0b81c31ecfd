"""Compares the time of a pass on Spark with Spark's own column sums, on a standalone cluster on this machine.

    benchmarks/run spark [millions of rows, 20]

All measurements run in one session after a warm-up run; each is the best of three. Compare the ratios, not the times.
"""

from __future__ import annotations

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import pyarrow as pa
from pyspark.sql import functions as F
from standalone import Standalone

import tithe
import tithe.spark

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = 40


def generated(folder: pathlib.Path, millions: int) -> pathlib.Path:
    """Write the paper's Mixture data in 40 files."""
    parts = folder / f"mixture{millions}"
    parts.mkdir(parents=True)
    for part in range(PARTS):
        rows = millions * 1_000_000 // PARTS
        tithe.generate("mixture", rows, seed=part, path=str(parts / f"part-{part:05}.parquet"))
    return parts


def counting(batches):
    """Count the rows of the batches."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": [rows]})


def best(work, times: int = 3) -> float:
    """Return the shortest run time of a function after a warm-up run."""
    work()
    took = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


class Timed:
    """Records the run time of each pass."""

    def __init__(self) -> None:
        self.passes: list[tuple[str, float]] = []
        self._call = tithe.spark._Reader.__call__

    def __enter__(self) -> Timed:
        def call(reader, name: str, task: bytes) -> list[bytes]:
            start = time.perf_counter()
            outcomes = self._call(reader, name, task)
            self.passes.append((name, time.perf_counter() - start))
            return outcomes

        tithe.spark._Reader.__call__ = call
        return self

    def __exit__(self, *_: object) -> None:
        tithe.spark._Reader.__call__ = self._call


def memory() -> float:
    """Return the peak memory of the driver's Python process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Start a cluster on this machine and run the benchmark."""
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        small, parts = generated(folder, 2), generated(folder, millions)
        with Standalone(folder / "cluster", memory="3g") as cluster:
            # One partition per file.
            settings = {"spark.executor.memory": "2g", "spark.sql.files.openCostInBytes": str(1 << 30)}
            session = cluster.session(**settings)
            measure(session, small, parts, millions)
            session.stop()


def measure(session, small: pathlib.Path, parts: pathlib.Path, millions: int) -> None:
    """Print the times of Spark's sums, of counting rows, and of the passes."""
    frame = session.read.parquet(str(parts))
    columns = frame.columns
    sums = best(lambda: frame.agg(*[F.sum(name) for name in columns]).collect())
    count = best(lambda: frame.mapInArrow(counting, "rows long").agg(F.sum("rows")).collect())
    print(f"{millions}M rows x {len(columns) - 1}, {PARTS} files, 2 workers with one core each")
    print(f"agg(sum of all columns)     {sums:6.2f} s")
    print(f"mapInArrow counting rows    {count:6.2f} s   {count / sums:.2f} of agg")

    before = 0.0
    for title, data, few in [("DataFrame", frame, session.read.parquet(str(small))), ("files", str(parts), str(small))]:
        for _ in range(3):
            tithe.spark.build(few, label="y", size=1000)
        before = max(before, memory()) if title == "DataFrame" else before
        tithe.spark.build(data, label="y", size=1000)
        with Timed() as timed:
            core = tithe.spark.build(data, label="y", size=1000)
        print(f"{title}: {len(timed.passes)} passes, {sum(took for _, took in timed.passes):.1f} s", flush=True)
        for name, took in timed.passes:
            print(f"  {name:26}{took:6.2f} s   {took / sums:.2f} of agg, {took / count:.2f} of counting", flush=True)
    print(f"peak memory of the driver: {before:.0f} MiB after 2M rows, {memory():.0f} MiB after {millions}M rows")

    core.write("core.parquet")
    certified = subprocess.run(
        [ROOT / "target/release/tithe", "certify", "core.parquet", "--data", parts, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(certified.stdout)
    kl = found["certificate"]["kl"]
    print(f"KL of the certificate: {core.certificate.kl:.2e}; computed on one machine from all files: {kl:.2e}")
    pathlib.Path("core.parquet").unlink()


if __name__ == "__main__":
    main()
