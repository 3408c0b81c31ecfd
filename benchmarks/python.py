"""Compares the Python package with the command line: run time and memory.

    python benchmarks/python.py TITHE [time] [numpy] [duckdb] [threads]

TITHE is the command-line program; the package must be installed from a wheel built with the same profile.
"""

import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import tithe

REPEATS = 7


def run_script(script: str, *arguments: object) -> list[float]:
    """Run a script in a separate process and return the numbers that it prints."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(script), *map(str, arguments)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return [float(word) for word in done.stdout.split()]


def seconds(work) -> float:
    """Return the run time of a function."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def over_the_command_line(program: str, folder: Path) -> None:
    """A million rows of ten columns from Parquet, with the command line and in a running Python process."""
    data = folder / "million.parquet"
    tithe.generate("mixture", 1_000_000, path=data)
    core = folder / "core.parquet"

    def by_command() -> None:
        subprocess.run([program, "build", data, "--label", "y", "-o", core, "--quiet"], check=True, capture_output=True)

    def by_python() -> None:
        tithe.build(data, label="y", progress=False).write(core)

    by_command(), by_python()
    # Alternate, so that other load on the machine affects both.
    pairs = [(seconds(by_command), seconds(by_python)) for _ in range(REPEATS)]
    command, python = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(p / c for c, p in pairs)
    print(f"1M x 10 from Parquet: command line {command:.3f} s, Python {python:.3f} s, ratio {ratio:.3f}")
    X, y = tithe.generate("mixture", 1_000_000)
    for order in "FC":
        matrix = X.copy(order=order)
        times = [seconds(lambda m=matrix: tithe.build(m, y, progress=False)) for _ in range(REPEATS)]
        print(f"1M x 10 from NumPy ({order} order): {statistics.median(times):.3f} s")


def no_copy_of_numpy() -> None:
    """Additional peak memory of a build from a matrix with 4 million rows."""
    script = """
        import resource, sys, numpy as np, tithe
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        generator = np.random.default_rng(0)
        X = np.empty((4_000_000, 10), order=sys.argv[1])
        y = np.empty(len(X), dtype=bool)
        # In parts, so that temporary arrays do not raise the peak before the build.
        for part, label in zip(np.array_split(X, 200), np.array_split(y, 200)):
            part[:] = generator.normal(size=part.shape)
            label[:] = part[:, 0] + generator.normal(size=len(part)) > 0
        tithe.build(X[:1000], y[:1000], size=200)
        before = peak()
        tithe.build(X, y)
        print(X.nbytes / 2**20, peak() - before)
    """
    for order in "CF":
        matrix, grown = run_script(script, order)
        print(f"NumPy ({order} order), 4M x 10: {matrix:.0f} MiB; a build adds {grown:.0f} MiB at its peak")


def larger_than_memory(folder: Path) -> None:
    """A DuckDB query over 20 million rows in Parquet."""
    data = folder / "twenty.parquet"
    tithe.generate("mixture", 20_000_000, path=data)
    script = """
        import resource, sys, time, duckdb, tithe
        duckdb.sql("set enable_progress_bar = false")
        query = duckdb.sql(f"select * from '{sys.argv[1]}' where x1 > -100")
        start = time.perf_counter()
        core = tithe.build(query, label="y")
        assert core.n_rows == 20_000_000
        print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
    """
    took, peak = run_script(script, data)
    print(f"DuckDB query over 20M x 10 in Parquet: {took:.1f} s, peak memory {peak:.2f} GiB")


def two_at_once() -> None:
    """Two builds with one thread each, one after the other and at the same time."""
    X, y = tithe.generate("mixture", 1_000_000)

    def work() -> None:
        tithe.build(X, y, threads=1, progress=False)

    def at_once() -> None:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    work()
    single, double = (statistics.median(seconds(job) for _ in range(5)) for job in (work, at_once))
    print(f"two builds with one thread each: {2 * single:.3f} s one after the other, {double:.3f} s at the same time")


def main() -> None:
    """Run the benchmarks given on the command line."""
    program, *targets = sys.argv[1:]
    targets = targets or ["time", "numpy", "duckdb", "threads"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "time" in targets:
            over_the_command_line(program, folder)
        if "numpy" in targets:
            no_copy_of_numpy()
        if "duckdb" in targets:
            larger_than_memory(folder)
        if "threads" in targets:
            two_at_once()


if __name__ == "__main__":
    main()
