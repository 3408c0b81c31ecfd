"""Streams and merging: the same bytes as the command line, atomic adds, states on disk, and errors."""

import copy
import json
import pickle
import subprocess
import sys
import threading

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
from test_manners import run_script

import tithe

#: Four complete blocks and an incomplete one.
BLOCK = 4500
SETTINGS = {"size": 300, "block": BLOCK}


@pytest.fixture(scope="module")
def by_command(command, folder):
    """The bytes of the command line's snapshot of all rows."""
    words = ["stream", "data.parquet", "--label", "y", "--size", 300, "--block", BLOCK, "--state", "by-command"]
    command(*words, "-o", "streamed.parquet", cwd=folder)
    return (folder / "streamed.parquet").read_bytes()


def bytes_of(core):
    return core._native.to_bytes()


def parts_of(table, rows=1700):
    return [table.slice(start, rows) for start in range(0, len(table), rows)]


def reader_of(table):
    return pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=777)))


def matrix_of(table):
    return np.column_stack([table[name].to_numpy() for name in table.column_names[:-1]]), table["y"].to_numpy()


WAYS = {
    "a path": lambda stream, folder, table: stream.add(folder / "data.parquet"),
    "a table": lambda stream, folder, table: stream.add(table),
    "tables": lambda stream, folder, table: [stream.add(part) for part in parts_of(table)],
    "frames": lambda stream, folder, table: [stream.add(part.to_pandas()) for part in parts_of(table)],
    "polars": lambda stream, folder, table: [stream.add(pl.from_arrow(part)) for part in parts_of(table)],
    "a reader": lambda stream, folder, table: stream.add(reader_of(table)),
    "batches": lambda stream, folder, table: [stream.add(batch) for batch in table.to_batches(max_chunksize=999)],
    "arrays": lambda stream, folder, table: [stream.add(*matrix_of(part)) for part in parts_of(table)],
    "columns first": lambda stream, folder, table: stream.add(*map(np.asfortranarray, matrix_of(table))),
    "a query": lambda stream, folder, table: stream.add(duckdb.sql(f"select * from '{folder / 'data.parquet'}'")),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_gives_the_command_lines_bytes(way, folder, table, by_command):
    with tithe.Stream(label="y", **SETTINGS) as stream:
        WAYS[way](stream, folder, table)
        assert (stream.rows, stream.blocks, stream.pending) == (20_000, 4, 2_000)
        assert bytes_of(stream.snapshot()) == by_command


def test_rows_may_come_one_at_a_time(matrix):
    X, y = matrix[0][:700], matrix[1][:700]
    with tithe.Stream(size=100, block=600) as stream:
        for row in range(700):
            stream.add(X[row : row + 1], y[row : row + 1])
        at_once = tithe.Stream(size=100, block=600)
        at_once.add(X, y)
        assert stream.snapshot() == at_once.snapshot()


def test_a_stream_of_one_block_is_a_build(table, core):
    with tithe.Stream(label="y", size=300) as stream:
        for part in parts_of(table):
            stream.add(part)
        assert stream.snapshot() == core


def test_a_state_goes_on_here_and_on_the_command_line(command, folder, table, by_command, tmp_path):
    state = tmp_path / "state"
    with tithe.Stream(state, label="y", **SETTINGS) as stream:
        stream.add(table.slice(0, 5_000))
    with tithe.Stream(str(state), **SETTINGS) as stream:
        assert stream.rows == 5_000 and stream.state == str(state)
        # The columns are known by now, including the names for columns of an array.
        stream.add(*matrix_of(table.slice(5_000, 6_000)))
        stream.save()
        assert bytes_of(tithe.Stream.read_snapshot(state)) == bytes_of(stream.snapshot())
    pyarrow.parquet.write_table(table.slice(11_000), tmp_path / "rest.parquet")
    words = ["stream", "rest.parquet", "--size", 300, "--block", BLOCK, "--state", "state", "-o", "all.parquet"]
    command(*words, cwd=tmp_path)
    assert (tmp_path / "all.parquet").read_bytes() == by_command
    with tithe.Stream(state, **SETTINGS) as stream:
        assert stream.rows == 20_000 and bytes_of(stream.snapshot()) == by_command


def test_rows_fed_again_are_skipped(table, by_command, tmp_path):
    with tithe.Stream(tmp_path, label="y", **SETTINGS) as stream:
        stream.add(table.slice(0, 7_000))
    with tithe.Stream(tmp_path, label="y", replay=True, **SETTINGS) as stream:
        for part in parts_of(table):
            stream.add(part)
        assert stream.rows == 20_000 and bytes_of(stream.snapshot()) == by_command
    with (
        pytest.raises(
            tithe.StateError, match=r"contains 13000 more rows than were fed again(.|\n)*leave out replay=True"
        ),
        tithe.Stream(tmp_path, label="y", replay=True, **SETTINGS) as stream,
    ):
        stream.add(table.slice(0, 7_000))
    with tithe.Stream(tmp_path, label="y", replay=True, **SETTINGS) as stream:
        stream.add(table.slice(0, 7_000))
        with pytest.raises(tithe.StateError, match="does not belong to the rows fed again"):
            stream.add(table.slice(1, 13_000))
        stream.add(table.slice(7_000))


def test_an_add_is_in_as_a_whole_or_not_at_all(table, by_command, tmp_path):
    x3 = table["x3"].to_numpy().copy()
    x3[19_000] = np.nan
    broken = table.set_column(2, "x3", pa.array(x3, from_pandas=False))
    with tithe.Stream(tmp_path, label="y", **{**SETTINGS, "block": 1000}) as other:
        with pytest.raises(tithe.MissingValuesError, match=r"'x3' \(1 missing, the first in row 19001\)"):
            other.add(broken)
        assert other.rows == 0
        with pytest.raises(tithe.NoRowsError, match="the stream is empty"):
            other.snapshot()
    with tithe.Stream(label="y", **SETTINGS) as stream:
        stream.add(table.slice(0, 5_000))

        def batches():
            yield from table.slice(5_000, 9_000).to_batches(max_chunksize=500)
            raise RuntimeError("the database went away")

        with pytest.raises(tithe.MalformedError, match="the database went away"):
            stream.add(pa.RecordBatchReader.from_batches(table.schema, batches()))
        assert stream.rows == 5_000
        stream.add(table.slice(5_000))
        assert bytes_of(stream.snapshot()) == by_command


def test_rows_that_wait_are_the_streams_own(table, by_command):
    with tithe.Stream(label="y", **SETTINGS) as stream:
        for part in parts_of(table):
            X, y = matrix_of(part)
            X, y = np.asfortranarray(X), y.astype(float)
            stream.add(X, y)
            X[:], y[:] = -7.0, 1.0  # the caller's buffer, for the next rows
        wanted = tithe.Stream(label="y", **SETTINGS)
        wanted.add(*matrix_of(table))
        np.testing.assert_array_equal(stream.snapshot().X, wanted.snapshot().X)
        np.testing.assert_array_equal(stream.snapshot().weights, wanted.snapshot().weights)


def test_a_stream_that_nobody_closed_is_saved(tmp_path):
    out = run_script(f"""
        import tithe
        stream = tithe.Stream({str(tmp_path)!r}, size=100)
        stream.add(*tithe.generate("mixture", 1000))
        print(stream.rows)
    """)
    assert out == "1000\n"
    with tithe.Stream(tmp_path, size=100) as stream:
        assert stream.rows == 1000


def test_streams_in_memory_pickle_and_those_on_disk_do_not(table, by_command, tmp_path):
    stream = tithe.Stream(label="y", **SETTINGS)
    stream.add(table.slice(0, 11_000))
    for again in [pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream)]:
        assert repr(again) == repr(stream) and again.snapshot() == stream.snapshot()
        again.add(table.slice(11_000))
        assert bytes_of(again.snapshot()) == by_command and stream.rows == 11_000
    assert pickle.loads(pickle.dumps(tithe.Stream(size=7))).rows == 0
    rebuild, (packed, *rest) = stream.__reduce__()
    newer = packed[0].replace('"version":2', '"version":99')
    with pytest.raises(tithe.WrongFileError, match=r"has format version 99(.|\n)*use a newer tithe"):
        rebuild((newer, *packed[1:]), *rest)
    with pytest.raises(tithe.WrongFileError, match="is damaged"):
        rebuild((packed[0].replace('"rows":11000', '"rows":11001'), *packed[1:]), *rest)
    with (
        tithe.Stream(tmp_path, label="y") as kept,
        pytest.raises(TypeError, match=r"a stream with a state on disk cannot be pickled.*state="),
    ):
        pickle.dumps(kept)


def test_a_state_has_one_writer(tmp_path):
    with tithe.Stream(tmp_path, size=100) as stream:
        stream.add(*tithe.generate("mixture", 1000))
        with pytest.raises(tithe.StateError, match=r"is being written by another stream(.|\n)*read_snapshot") as caught:
            tithe.Stream(tmp_path, size=100)
        assert isinstance(caught.value, OSError) and isinstance(caught.value, ValueError)
        assert "--" not in str(caught.value)
    assert stream.closed and stream.rows == 1000 and "closed" in repr(stream)
    with pytest.raises(tithe.SettingError, match="stream is closed"):
        stream.add(*tithe.generate("mixture", 10))
    with pytest.raises(tithe.SettingError, match="stream is closed"):
        stream.snapshot()
    stream.close()
    tithe.Stream(tmp_path, size=100).close()


def test_other_settings_are_named(tmp_path):
    with tithe.Stream(tmp_path, size=100) as stream:
        stream.add(*tithe.generate("mixture", 1000))
    with pytest.raises(tithe.StateError, match=r"made with other settings: block is 50000 .*; seed is 0 .*1 now"):
        tithe.Stream(tmp_path, size=100, block=70, seed=1)
    with (
        tithe.Stream(tmp_path, label="z", size=100) as stream,
        pytest.raises(tithe.SettingError, match="label is 'z', but the stream has the label 'y'"),
    ):
        stream.add(*tithe.generate("mixture", 10))


def test_damage_is_named_and_repaired(table, tmp_path):
    with tithe.Stream(tmp_path, label="y", **SETTINGS) as stream:
        stream.add(table.slice(0, 5_000))
        stream.save()
        stream.add(table.slice(5_000, 100))
    newest = max(tmp_path.glob("pending-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(
        tithe.WrongFileError, match=r"pending-\d+.parquet' is damaged(.|\n)*tithe.Stream.repair\("
    ) as it:
        tithe.Stream(tmp_path, label="y", **SETTINGS)
    assert "--" not in str(it.value)
    rows, lost = tithe.Stream.repair(tmp_path)
    assert (rows, lost) == (5_000, 100)
    with tithe.Stream(tmp_path, label="y", **SETTINGS) as stream:
        assert stream.rows == 5_000
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["manifest"]["version"] = 99
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(tithe.WrongFileError, match=r"format version 99(.|\n)*use a newer tithe"):
        tithe.Stream(tmp_path, label="y", **SETTINGS)


def test_wrong_states_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(tithe.StateError, match=r"is not the state of a stream: it contains 'notes.txt'"):
        tithe.Stream(tmp_path)
    with pytest.raises(tithe.FileError, match="cannot make the directory"):
        tithe.Stream(tmp_path / "notes.txt")
    with pytest.raises(tithe.InputTypeError, match="state must be the path of a directory, but has the type int"):
        tithe.Stream(3)
    with pytest.raises(tithe.StateError, match=r"has no rows yet(.|\n)*feed it with tithe.Stream"):
        tithe.Stream.read_snapshot(tmp_path / "none")
    with pytest.raises(tithe.StateError, match="is not there"):
        tithe.Stream.repair(tmp_path / "none")
    with pytest.raises(tithe.SettingError, match="block must be at least 1"):
        tithe.Stream(block=0)
    with pytest.raises(tithe.SettingError, match="unseen must be error or reference, but is 'maybe'"):
        tithe.Stream(unseen="maybe")


def test_wrong_data_is_refused(table):
    X, y = matrix_of(table.slice(0, 1_000))
    with tithe.Stream(**SETTINGS) as stream:
        with pytest.raises(tithe.InputTypeError, match="X without y"):
            stream.add(X)
        with pytest.raises(tithe.InputTypeError, match="a list is not data"):
            stream.add(X.tolist(), y)
        with pytest.raises(tithe.InputTypeError, match=r"item 0 of the generator has the type numpy\.ndarray"):
            stream.add((row for row in X), y)
        with pytest.raises(tithe.SettingError, match="label is required"):
            stream.add(table)
        with pytest.raises(tithe.ColumnError, match="has 999 rows where the data has 1000"):
            stream.add(X, y[1:])
        stream.add(X[:0], y[:0])
        stream.add(table.slice(0, 0).to_pandas())
        assert stream.rows == 0
        stream.add(X, y)
        with pytest.raises(tithe.ColumnError, match="X has 9 features, but the stream has 10: x1, x2"):
            stream.add(X[:, 1:], y)
        with pytest.raises(tithe.UnknownColumnError, match="there is no column 'x4' to use as feature"):
            stream.add(table.drop_columns(["x4"]).slice(0, 100))
        with pytest.raises(tithe.ColumnError, match="column 'x2': holds text and held number before"):
            stream.add(table.slice(0, 5).to_pandas().assign(x2="much"))
        with pytest.raises(tithe.SettingError, match="weight cannot be used with this stream"):
            stream.add(X, y, weight=np.ones(1_000))
        assert stream.rows == 1_000


def test_weights_text_and_later_levels():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"x": generator.normal(size=3000), "city": generator.choice(["Rome", "Oslo"], 3000)})
    frame["bought"] = np.where(generator.random(3000) < 1 / (1 + np.exp(-frame["x"])), "yes", "no")
    frame["often"] = generator.integers(1, 4, 3000).astype(float)
    settings = {"label": "bought", "positive": "yes", "size": 200, "block": 1000}
    with tithe.Stream(weight="often", **settings) as stream:
        stream.add(frame)
        core = stream.snapshot()
        assert core.provenance["mass"] == frame["often"].sum() and core.classes == ["no", "yes"]
        assert core.columns == ["x", "city"]
        with pytest.raises(tithe.ColumnError, match=r"column 'city': the level 'Lima'(.|\n)*unseen=\"reference\""):
            stream.add(frame.assign(city="Lima"))
    with tithe.Stream(weight="often", unseen="reference", **settings) as stream:
        stream.add(frame)
        stream.add(frame.assign(city="Lima"))
        assert stream.snapshot().n_rows == 6000
    with tithe.Stream(**settings) as stream:
        features = frame[["x", "city"]]
        stream.add(features, frame["bought"], weight=frame["often"].to_numpy())
        assert stream.snapshot().provenance["mass"] == frame["often"].sum()


def test_sparse_rows_flow_too():
    generator = np.random.default_rng(1)
    X = scipy.sparse.random(3000, 12, density=0.3, random_state=generator, format="csr")
    y = X @ generator.normal(size=12) + generator.logistic(size=3000) > 0
    with tithe.Stream(size=300) as stream:
        stream.add(X[:1000], y[:1000])
        stream.add(X[1000:], y[1000:])
        assert stream.snapshot() == tithe.build(X, y, size=300)


def test_rows_that_cannot_be_read_are_counted(tmp_path):
    X, y = tithe.generate("mixture", 2000)
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(y=y)
    frame.to_csv(tmp_path / "data.csv", index=False)
    with (tmp_path / "data.csv").open("a") as file:
        file.write("1.0\n")
    with tithe.Stream(label="y", size=100) as stream:
        with pytest.raises(tithe.CellError, match="row 2001"):
            stream.add(tmp_path / "data.csv")
        assert stream.rows == 0
    with tithe.Stream(label="y", size=100, skip_bad=1) as stream:
        with pytest.warns(tithe.TitheWarning, match="skipped"):
            stream.add(tmp_path / "data.csv")
        assert (stream.rows, stream.bad_rows) == (2000, 1) and "1 row that could not be read" in repr(stream)


def test_rows_that_are_dropped_are_counted():
    X, y = tithe.generate("mixture", 2000)
    X[[3, 700], 1] = np.nan
    with tithe.Stream(size=100, missing="drop") as stream:
        stream.add(X, y)
        assert (stream.rows, stream.rows_dropped) == (2000, 2) and "2 rows for missing values" in repr(stream)
        assert stream.snapshot().provenance["rows_dropped"] == 2


def test_a_snapshot_may_be_taken_while_rows_come(table):
    seen = []
    with tithe.Stream(label="y", **SETTINGS) as stream:
        stream.add(table.slice(0, 5_000))

        def batches():
            for batch in table.slice(5_000).to_batches(max_chunksize=5_000):
                seen.append((stream.rows, stream.snapshot().n_rows))
                yield batch

        stream.add(pa.RecordBatchReader.from_batches(table.schema, batches()))
        assert seen == [(5_000, 5_000)] * 3 and stream.rows == 20_000
        threads = [threading.Thread(target=stream.add, args=(part,)) for part in parts_of(table, 5_000)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert stream.rows == 40_000


def test_what_comes_in_batches_is_not_kept():
    out = run_script("""
        import resource, numpy as np, pyarrow as pa, tithe
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        schema = pa.schema([(f"x{i}", pa.float64()) for i in range(10)] + [("y", pa.bool_())])
        generator = np.random.default_rng(0)
        def reader(count):
            def batches():
                for _ in range(count):
                    X = generator.normal(size=(10_000, 10))
                    yield pa.record_batch([*X.T, X[:, 0] + generator.logistic(size=10_000) > 0], schema=schema)
            return pa.RecordBatchReader.from_batches(schema, batches())
        with tithe.Stream(label="y", size=200) as stream:
            stream.add(reader(20))
            before = peak()
            stream.add(reader(150))
            print(stream.rows, peak() - before)
    """)
    rows, grown = out.split()
    # The rows of the second add are 115 MiB.
    assert rows == "1700000" and float(grown) < 60


def test_an_endless_add_stops_at_ctrl_c(tmp_path):
    out = run_script(f"""
        import os, signal, threading, time
        import numpy as np, pyarrow as pa, tithe
        schema = pa.schema([("x", pa.float64()), ("y", pa.int64())])
        def endless():
            while True:
                yield pa.record_batch([np.random.rand(1000), np.random.randint(0, 2, 1000)], schema=schema)
        asked = []
        def ask():
            asked.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
        with tithe.Stream({str(tmp_path)!r}, label="y", size=100, block=2000) as stream:
            stream.add(pa.RecordBatchReader.from_batches(schema, (next(endless()) for _ in range(3))))
            threading.Timer(0.5, ask).start()
            try:
                stream.add(pa.RecordBatchReader.from_batches(schema, endless()))
            except KeyboardInterrupt:
                print(time.perf_counter() - asked[0], stream.rows)
    """)
    seconds, rows = out.split()
    assert float(seconds) < 1.0 and rows == "3000"
    with tithe.Stream(tmp_path, label="y", size=100, block=2000) as stream:
        assert stream.rows == 3000


def test_what_a_person_sees(table):
    with tithe.Stream(label="y", **SETTINGS) as stream:
        stream.add(table)
        assert repr(stream) == (
            "<tithe.Stream: 20,000 rows, in memory\n"
            "  4 blocks of 4,500 rows in 1 coreset, and 2,000 rows of the next block>"
        )
        assert "<table>" in stream._repr_html_()


@pytest.fixture(scope="module")
def days(table):
    return [tithe.build(part, label="y", size=200, seed=day) for day, part in enumerate(parts_of(table, 5_000))]


def test_merging_gives_the_command_lines_bytes(command, days, tmp_path):
    paths = [tmp_path / f"{day}.parquet" for day in range(4)]
    for core, path in zip(days, paths, strict=True):
        core.write(path)
    command("merge", *paths, "--size", 300, "--seed", 3, "-o", "merged.parquet", cwd=tmp_path)
    wanted = (tmp_path / "merged.parquet").read_bytes()
    for parts in [days, paths, [days[0], str(paths[1]), *days[2:]], iter(days)]:
        assert bytes_of(tithe.merge(parts, size=300, seed=3)) == wanted
    merged = tithe.merge(days, size=300, seed=3)
    assert merged.n_rows == 20_000 and len(merged) <= 300
    # Its certificate describes the last step, and says so.
    assert merged.certificate.composed and merged.certificate.steps_kl > merged.certificate.kl
    assert "built from 4 coresets, at most 1 compression step from the data" in repr(
        merged
    ) and "to the input coresets" in repr(merged)
    assert not days[0].certificate.composed and days[0].certificate.steps_kl is None
    kept = tithe.merge(days, size=5_000)
    assert len(kept) == sum(map(len, days)) and kept.certificate is None and "built from 4 coresets" in repr(kept)
    assert tithe.merge(days[:1]) == days[0]


def test_coresets_that_do_not_go_together_are_refused(days, table, tmp_path):
    other = tithe.build(table.drop_columns(["x2"]), label="y", size=100)
    with pytest.raises(
        tithe.EncodingMismatchError,
        match=r"'coresets\[0\]' and 'coresets\[1\]' have different encodings: the number of features is '10'"
        r"(.|\n)*encoding=coresets\[0\]",
    ) as caught:
        tithe.merge([days[0], other])
    assert isinstance(caught.value, ValueError) and "--" not in str(caught.value)
    days[0].write(tmp_path / "day.parquet")
    with pytest.raises(tithe.EncodingMismatchError, match=r"encoding=\".*day.parquet\""):
        tithe.merge([tmp_path / "day.parquet", other])
    with pytest.raises(tithe.NoRowsError, match="no coresets to merge"):
        tithe.merge([])
    with pytest.raises(tithe.InputTypeError, match=r"a list of coresets"):
        tithe.merge(days[0])
    with pytest.raises(tithe.InputTypeError, match=r"coresets\[1\] must be a Coreset or the path of one"):
        tithe.merge([days[0], table])
    with pytest.raises(tithe.FileError, match="cannot read"):
        tithe.merge(["nowhere.parquet"])
    with pytest.raises(tithe.SettingError, match="size must be at least 1"):
        tithe.merge(days, size=0)


def test_an_encoding_can_be_taken_from_another(command, days, table, matrix, tmp_path):
    days[0].write(tmp_path / "day.parquet")
    pyarrow.parquet.write_table(table, tmp_path / "data.parquet")
    command("build", "data.parquet", "--encoding", "day.parquet", "--size", 200, "-o", "core.parquet", cwd=tmp_path)
    wanted = (tmp_path / "core.parquet").read_bytes()
    for encoding in [days[0], tmp_path / "day.parquet"]:
        assert bytes_of(tithe.build(table, size=200, encoding=encoding)) == wanted
    core = tithe.build(*matrix, size=200, encoding=days[0])
    np.testing.assert_array_equal(core.center, days[0].center)
    assert core.center[0] != tithe.build(*matrix, size=200).center[0]
    weighted = tithe.build(*matrix, weight=np.full(20_000, 2.0), size=200, encoding=days[0])
    assert weighted.provenance["mass"] == 40_000
    with pytest.raises(tithe.SettingError, match="label is 'z', but the encoding has the label 'y'"):
        tithe.build(table, label="z", encoding=days[0])
    with pytest.raises(tithe.ColumnError, match="X has 9 features, but the encoding has 10"):
        tithe.build(matrix[0][:, 1:], matrix[1], encoding=days[0])
    with tithe.Stream(encoding=days[0], **SETTINGS) as stream:
        # One class is enough if the other is known.
        stream.add(matrix[0][matrix[1] > 0], matrix[1][matrix[1] > 0])
        np.testing.assert_array_equal(stream.snapshot().center, days[0].center)


def test_two_processes_cannot_write_to_one_state(tmp_path):
    with tithe.Stream(tmp_path, size=100):
        script = f"import tithe; tithe.Stream({str(tmp_path)!r}, size=100)"
        done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
        assert done.returncode == 1 and "tithe.StateError" in done.stderr


def test_arrays_of_which_some_columns_are_left_out(matrix):
    X, y = matrix
    with tithe.Stream(size=200, exclude=["x2"]) as stream:
        stream.add(X[:5000], y[:5000])
        stream.add(X[5000:], y[5000:])
        assert stream.snapshot() == tithe.build(X, y, size=200, exclude=["x2"])
    with tithe.Stream(size=200) as stream:
        stream.add(X[:, :9], y)
        with pytest.raises(tithe.ColumnError, match="X has 10 features, but the stream has 9"):
            stream.add(X, y)


def test_with_a_half_life_old_rows_count_less():
    block, half_life, blocks = 2_000, 3_000, 7
    X, y = tithe.generate("mixture", blocks * block + 500, seed=3)
    # The relation changes in the course of the data, so weights matter.
    changed = np.arange(len(y)) > 4 * block
    X[changed, 0] *= 0.7
    X[changed, 1] += 0.5
    with tithe.Stream(size=400, block=block, half_life=half_life) as stream:
        stream.add(X, y)
        core = stream.snapshot()
    assert core.provenance["composition"]["half_life"] == half_life
    # A row's age is the number of rows in later blocks.
    end = np.minimum((np.arange(len(y)) // block + 1) * block, len(y))
    weights = 0.5 ** ((len(y) - end) / half_life)
    assert core.provenance["mass"] == pytest.approx(weights.sum(), rel=1e-9)
    expected = tithe.build(X, y, weight=weights, size=1000).fit(seed=1)
    found = core.fit(seed=1)
    # The stream is standardised by its first block and the build by all rows, so the priors differ a little.
    assert np.abs((found.mean - expected.mean) / expected.sd).max() < 0.15
    assert np.abs(found.sd / expected.sd - 1).max() < 0.1
    unweighted = tithe.build(X, y, size=1000).fit(seed=1)
    assert np.abs((unweighted.mean - expected.mean) / expected.sd).max() > 1
    assert np.abs(unweighted.sd / expected.sd - 1).max() > 0.4
    with pytest.raises(tithe.OtherDataError, match="half-life of 3000 rows"):
        found.verify(X, y)


def test_a_half_life_is_part_of_the_state(tmp_path):
    X, y = tithe.generate("mixture", 9_000)
    options = {"size": 200, "block": 1_000, "half_life": 2_500.0}
    whole = tithe.Stream(**options)
    whole.add(X, y)
    with tithe.Stream(tmp_path / "state", **options) as stream:
        stream.add(X[:4_300], y[:4_300])
    with pytest.raises(tithe.StateError, match=r"half-life is 2500.0 in the state and none now"):
        tithe.Stream(tmp_path / "state", size=200, block=1_000)
    with tithe.Stream(tmp_path / "state", **options) as stream:
        stream.add(X[4_300:], y[4_300:])
        assert stream.snapshot() == whole.snapshot()
    assert tithe.Stream.read_snapshot(tmp_path / "state") == whole.snapshot()
    for wrong in (0, -1, float("inf")):
        with pytest.raises(tithe.SettingError, match="half_life must be a number of rows"):
            tithe.Stream(half_life=wrong)


def test_a_stream_forgets_for_ever():
    """After many half-lives the mass is that of a geometric series, and coresets that faded are dropped."""
    block, half_life = 100, 50
    stream = tithe.Stream(size=50, block=block, half_life=half_life)
    X, y = tithe.generate("mixture", 40 * block)
    stream.add(X, y)
    share = 0.5 ** (block / half_life)
    assert stream.snapshot().provenance["mass"] == pytest.approx(block / (1 - share), rel=1e-6)
