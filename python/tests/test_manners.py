"""How the package behaves while it works: Ctrl-C, threads, memory, progress, warnings, documentation."""

import doctest
import inspect
import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pyarrow as pa
import pytest

import tithe


def run_script(text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(text)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "work",
    [
        "core.fit(draws=2_000_000)",
        "tithe.build(*big, size=2000, memory=0, threads=1)",
        "tithe.build(endless(), label='y')",
    ],
)
def test_ctrl_c_stops_within_a_second(work):
    out = run_script(f"""
        import os, signal, threading, time
        import numpy as np, pyarrow as pa, tithe
        core = tithe.build(*tithe.generate("mixture", 5000), size=1000)
        big = tithe.generate("mixture", 1_000_000)
        schema = pa.schema([("x", pa.float64()), ("y", pa.int64())])
        def endless():
            def batches():
                while True:
                    time.sleep(0.01)
                    yield pa.record_batch([np.random.rand(10), np.random.randint(0, 2, 10)], schema=schema)
            return pa.RecordBatchReader.from_batches(schema, batches())
        asked = []
        def ask():
            asked.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.4, ask).start()
        try:
            while True:  # The first time may be over before it is asked.
                {work}
        except KeyboardInterrupt:
            print(time.perf_counter() - asked[0])
        import sys; sys.stdout.flush(); os._exit(0)
    """)
    assert float(out) < 1.0


def test_two_builds_in_two_threads_run_at_once(table):
    # Each build waits for the data of the other: run one after the other, they would never end.
    meeting = threading.Barrier(2, timeout=60)

    def batches():
        for batch in table.to_batches(max_chunksize=5000):
            meeting.wait()
            yield batch

    results = {}

    def work(name):
        reader = pa.RecordBatchReader.from_batches(table.schema, batches())
        results[name] = tithe.build(reader, label="y", size=300)

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert results["a"] == results["b"] == tithe.build(table, label="y", size=300)


def test_python_goes_on_while_a_build_works(matrix):
    ticks, done = [], threading.Event()

    def work():
        tithe.build(*matrix, size=1000, threads=1)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        ticks.append(1)
    thread.join()
    assert len(ticks) > 5


def test_numpy_is_not_copied_as_a_whole():
    out = run_script("""
        import resource, numpy as np, tithe
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        n = 1_500_000
        generator = np.random.default_rng(0)
        X = np.empty((n, 10))
        for part in np.array_split(X, 100):
            part[:] = generator.normal(size=part.shape)
        y = X[:, 0] > 0
        y[::3] = True
        tithe.build(X[:1000], y[:1000], size=200)
        before = peak()
        tithe.build(X, y, size=300)
        print(X.nbytes / 2**20, peak() - before)
    """)
    matrix, grown = map(float, out.split())
    assert matrix > 110
    assert grown < 0.6 * matrix, f"{grown} MiB more at the peak for a matrix of {matrix} MiB"


def test_progress_is_shown_by_tqdm_when_asked_for(matrix, capsys):
    tithe.build(*matrix, size=300, progress=True)
    assert "rows" in capsys.readouterr().err
    tithe.build(*matrix, size=300)
    assert capsys.readouterr().err == ""


def test_warnings_are_pythons(matrix):
    X, y = matrix
    with pytest.warns(tithe.TitheWarning, match="all are kept") as caught:
        core = tithe.build(X[:50], y[:50])
    assert pathlib.Path(caught[0].filename).name == "test_manners.py"
    assert len(core.warnings) == 1 and len(core) == 50


def test_a_coreset_that_is_too_small_warns(matrix):
    with pytest.warns(tithe.TitheWarning, match=r"too small: with 1 row, the KL .* is .* nats") as caught:
        one = tithe.build(*matrix, size=1)
    assert len(caught) == 1 and pathlib.Path(caught[0].filename).name == "test_manners.py"
    with pytest.warns(
        tithe.TitheWarning,
        match="too small: with 1 row, the KL divergence to the posterior of all rows is about|may be inaccurate",
    ):
        tithe.merge([one, tithe.build(*matrix, encoding=one, size=100)], size=1)
    with tithe.Stream(size=1) as stream:
        stream.add(*matrix)
        with pytest.warns(tithe.TitheWarning, match="too small|may be inaccurate"):
            stream.snapshot()


def test_a_coreset_that_is_large_enough_does_not_warn(matrix):
    with warnings.catch_warnings():
        warnings.simplefilter("error", tithe.TitheWarning)
        tithe.build(*matrix, size=300)


def test_spark_is_loaded_when_it_is_first_named():
    script = "import sys, tithe; print('pyspark' in sys.modules); print(tithe.spark.build.__name__)"
    assert run_script(script).split() == ["False", "build"]


def test_nothing_native_is_shown_unwrapped():
    from tithe import _native

    public = {name: getattr(tithe, name) for name in tithe.__all__}
    native = {value for _, value in inspect.getmembers(_native) if callable(value)}
    assert native and not any(value in native for value in public.values() if callable(value))
    assert set(tithe.__all__) <= set(dir(tithe))
    for name, value in public.items():
        assert inspect.getdoc(value), name
        for method, function in inspect.getmembers(value, inspect.isfunction):
            if not method.startswith("_"):
                assert inspect.getdoc(function), f"{name}.{method}"


def test_the_stub_names_what_the_native_module_has():
    from tithe import _native

    stub = (pathlib.Path(tithe.__file__).parent / "_native.pyi").read_text()
    for name, value in inspect.getmembers(_native):
        if not name.startswith("_"):
            assert f"class {name}" in stub or f"def {name}(" in stub, name
            for method in vars(value) if inspect.isclass(value) else []:
                assert method.startswith("_") or f"def {method}(" in stub, f"{name}.{method}"


@pytest.mark.parametrize(
    "module", ["tithe", "tithe._coreset", "tithe._posterior", "tithe._generate", "tithe._sklearn", "tithe._stream"]
)
def test_the_examples_in_the_docstrings_run(module):
    __import__(module)
    found = doctest.testmod(sys.modules[module])
    assert found.attempted > 0 and found.failed == 0


def test_scikit_learn_is_loaded_only_when_used():
    assert run_script("import sys, tithe; print('sklearn' in sys.modules, 'pandas' in sys.modules)").split() == [
        "False",
        "False",
    ]


def test_a_seed_is_all_that_matters(matrix):
    a, b = (tithe.build(*matrix, size=300, seed=seed) for seed in (1, 2))
    assert a != b and a == tithe.build(*matrix, size=300, seed=1)
    assert not np.array_equal(a.fit(seed=1, draws=50).draws, a.fit(seed=2, draws=50).draws)


def test_work_goes_on_in_a_forked_process():
    out = run_script("""
        import os, signal
        import tithe
        data = tithe.generate("mixture", 20_000)
        core = tithe.build(*data, size=300, threads=2)
        core.fit(draws=20, warmup=20, threads=2)
        def streamed():
            with tithe.Stream(size=300, block=10_000) as stream:
                stream.add(*data)
                return stream.snapshot().weights.tolist()
        rows = streamed()
        if (child := os.fork()) == 0:
            signal.alarm(60)
            again = tithe.build(*data, size=300, threads=2)
            again.fit(draws=20, warmup=20, threads=2)
            os._exit(0 if (again.weights.tolist(), streamed()) == (core.weights.tolist(), rows) else 1)
        print(os.waitpid(child, 0)[1])
    """)
    assert out == "0\n"


def test_a_build_uses_no_more_threads_than_it_may():
    out = run_script("""
        import os, time
        import tithe
        data = tithe.generate("mixture", 20_000)
        before = len(os.listdir("/proc/self/task"))
        tithe.build(*data, size=300, threads=1)
        for _ in range(100):  # threads end a moment after their work
            more = len(os.listdir("/proc/self/task")) - before
            if more <= 0:
                break
            time.sleep(0.1)
        print(more)
    """)
    assert int(out) <= 0


def test_public_types_are_known():
    place = pathlib.Path(sys.executable).parent
    pyright = shutil.which("pyright", path=place)
    if pyright is None or shutil.which("node") is None:
        pytest.skip("pyright is not installed")
    # pyright looks for the package with the first Python on the path.
    environment = os.environ | {"PATH": f"{place}{os.pathsep}{os.environ['PATH']}"}
    words = [pyright, "--ignoreexternal", "--verifytypes", "tithe", "--outputjson"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    found = json.loads(done.stdout)["typeCompleteness"]
    assert found["completenessScore"] >= 0.95, [symbol["name"] for symbol in found["symbols"] if symbol["diagnostics"]]
