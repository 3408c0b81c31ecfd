"""The same data in every form gives the same coreset; column names and types are preserved."""

import pathlib

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
import scipy.sparse

import tithe

#: Blocks that end inside batches, row groups and units.
BLOCK = 3000


@pytest.fixture(scope="module")
def by_command(command, folder):
    command(
        "build",
        "data.parquet",
        "--label",
        "y",
        "--size",
        300,
        "--block-rows",
        BLOCK,
        "-o",
        "by-command.parquet",
        cwd=folder,
    )
    return (folder / "by-command.parquet").read_bytes()


def reader_of(table):
    batches = table.to_batches(max_chunksize=777)
    return pa.RecordBatchReader.from_batches(table.schema, iter(batches))


WAYS = {
    "path": lambda folder, table: folder / "data.parquet",
    "string": lambda folder, table: str(folder / "data.parquet"),
    "glob": lambda folder, table: str(folder / "dat*.parquet"),
    "pandas": lambda folder, table: table.to_pandas(),
    "pandas with an index": lambda folder, table: table.to_pandas().set_index(np.arange(len(table))[::-1]),
    "polars": lambda folder, table: pl.from_arrow(table),
    "pyarrow table": lambda folder, table: table,
    "pyarrow reader": lambda folder, table: reader_of(table),
    "pyarrow dataset": lambda folder, table: pa.dataset.dataset(folder / "data.parquet").scanner().to_reader(),
    "pyarrow dataset itself": lambda folder, table: pa.dataset.dataset(folder / "data.parquet"),
    "DuckDB relation": lambda folder, table: duckdb.sql(f"select * from '{folder / 'data.parquet'}'"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_gives_the_same_bytes(way, folder, table, by_command, tmp_path):
    core = tithe.build(WAYS[way](folder, table), label="y", size=300, block_rows=BLOCK)
    core.write(tmp_path / "core.parquet")
    assert (tmp_path / "core.parquet").read_bytes() == by_command


@pytest.mark.parametrize("layout", ["C", "F", "reversed", "every second column of a wider one", "with a frame's y"])
def test_numpy_of_any_layout_gives_the_same_bytes(layout, matrix, by_command, tmp_path):
    X, y = matrix
    if layout == "F":
        X = np.asfortranarray(X)
    elif layout == "reversed":
        X, y = np.ascontiguousarray(X[::-1])[::-1], np.ascontiguousarray(y[::-1])[::-1]
        assert X.strides[0] < 0
    elif layout == "every second column of a wider one":
        wide = np.zeros((len(X), 20))
        wide[:, ::2] = X
        X = wide[:, ::2]
    elif layout == "with a frame's y":
        y = pd.Series(y, index=np.arange(len(y))[::-1])
    core = tithe.build(X, y, size=300, block_rows=BLOCK)
    core.write(tmp_path / "core.parquet")
    assert (tmp_path / "core.parquet").read_bytes() == by_command


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_with_y_beside_it(frame, table, matrix, by_command):
    columns = {name: table[name].to_numpy() for name in table.column_names[:-1]}
    core = tithe.build(frame(columns), matrix[1], size=300, block_rows=BLOCK)
    assert core._native.to_bytes() == by_command


def test_what_comes_once_and_is_too_large_goes_through_a_file(table, by_command):
    core = tithe.build(reader_of(table), label="y", size=300, block_rows=BLOCK, memory="100KiB")
    assert core._native.to_bytes() == by_command


def test_threads_and_memory_change_nothing(folder, by_command):
    for settings in [{"threads": 1}, {"threads": 3}, {"memory": 0}]:
        core = tithe.build(folder / "data.parquet", label="y", size=300, block_rows=BLOCK, **settings)
        assert core._native.to_bytes() == by_command


def test_sparse_rows_are_those_of_a_libsvm_file(command, tmp_path):
    generator = np.random.default_rng(1)
    X = scipy.sparse.random(3000, 12, density=0.3, random_state=generator, format="csr")
    y = np.where(X @ generator.normal(size=12) + generator.logistic(size=3000) > 0, 1.0, -1.0)
    lines = []
    for n in range(X.shape[0]):
        row = X[n].tocoo()
        pairs = " ".join(f"{i + 1}:{float(v)!r}" for i, v in sorted(zip(row.coords[-1], row.data, strict=True)))
        lines.append(f"{y[n]:+.0f} {pairs}\n")
    (tmp_path / "data.libsvm").write_text("".join(lines))
    command("build", "data.libsvm", "--size", 300, "-o", "core.parquet", cwd=tmp_path)
    for same in [X, X.tocsc(), X.tocoo(), scipy.sparse.csr_array(X)]:
        assert (
            tithe.build(same, y, label="label", size=300)._native.to_bytes() == (tmp_path / "core.parquet").read_bytes()
        )
    dense = tithe.build(X.toarray(), y, label="label", size=300, standardize=False)
    sparse = tithe.build(X, y, label="label", size=300, standardize=False)
    np.testing.assert_array_equal(dense.weights, sparse.weights)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", ">f8", ">i4"])
def test_every_type_of_number_is_read(dtype):
    generator = np.random.default_rng(2)
    values = generator.integers(0, 100, size=(2000, 3))
    y = values[:, 0] + generator.normal(size=2000) * 30 > 50
    core = tithe.build(values.astype(dtype), y, size=200)
    wanted = tithe.build(values.astype(float), y, size=200)
    np.testing.assert_array_equal(core.X, wanted.X)
    np.testing.assert_array_equal(core.weights, wanted.weights)
    assert core.to_arrow().schema.field("y").type == pa.bool_()


def test_names_and_types_survive(tmp_path):
    generator = np.random.default_rng(3)
    n = 3000
    frame = pd.DataFrame(
        {
            "age": generator.integers(18, 90, n).astype("int32"),
            "income": generator.lognormal(size=n).astype("float32"),
            "member": generator.random(n) < 0.5,
            "city": pd.Categorical(generator.choice(["Rome", "Oslo", "Lima"], n)),
            "bought": generator.choice(["yes", "no"], n),
        }
    )
    core = tithe.build(frame, label="bought", positive="yes", size=200)
    assert core.classes == ["no", "yes"]
    assert core.coefficients[:4] == ["intercept", "age", "income", "member"]
    assert [name.partition("=")[0] for name in core.coefficients[4:]] == ["city", "city"]
    types = dict(zip(core.to_arrow().schema.names, core.to_arrow().schema.types, strict=True))
    assert (types["age"], types["income"], types["member"], types["city"]) == (
        pa.int32(),
        pa.float32(),
        pa.bool_(),
        pa.string(),
    )
    rows = frame.iloc[core.rows].reset_index(drop=True)
    ours = core.to_pandas()
    for name in ["age", "income", "member"]:
        np.testing.assert_array_equal(ours[name], rows[name])
    assert list(ours["city"]) == list(rows["city"].astype(str))
    np.testing.assert_array_equal(core.y, (rows["bought"] == "yes").astype(int))
    np.testing.assert_array_equal(core.X[:, 0], rows["age"])
    for i, name in enumerate(core.feature_names[3:], start=3):
        np.testing.assert_array_equal(core.X[:, i], (rows["city"].astype(str) == name.partition("=")[2]).astype(float))


def test_weights_by_name_and_by_array(matrix):
    X, y = matrix
    weights = np.random.default_rng(4).integers(1, 4, len(y)).astype(float)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(1, 11)]).assign(y=y, weight=weights)
    by_array = tithe.build(X, y, weight=weights, size=300)
    assert by_array == tithe.build(frame, label="y", weight="weight", size=300)
    assert by_array.provenance["mass"] == weights.sum()


def test_several_paths_are_one_data_set(table, folder, tmp_path, by_command):
    for i in range(2):
        pa.parquet.write_table(table.slice(i * 10_000, 10_000), tmp_path / f"part-{i}.parquet")
    parts = [tmp_path / "part-0.parquet", str(tmp_path / "part-1.parquet")]
    for data in [parts, tmp_path, pathlib.Path(tmp_path)]:
        assert tithe.build(data, label="y", size=300, block_rows=BLOCK)._native.to_bytes() == by_command


def test_truths_read_as_text_are_words_wherever_they_come_from(tmp_path):
    generator = np.random.default_rng(5)
    truths = generator.random((2000, 2)) < 0.5
    y = truths[:, 0] ^ (generator.random(2000) < 0.2)
    frame = pd.DataFrame({"x1": truths[:, 0], "x2": truths[:, 1], "y": y})
    frame.to_parquet(tmp_path / "data.parquet")
    by_array = tithe.build(truths, y, text=["x1"])
    assert by_array.coefficients[1].startswith("x1=") and by_array.coefficients[1] in ("x1=false", "x1=true")
    for data in [frame, pl.from_pandas(frame), tmp_path / "data.parquet"]:
        assert tithe.build(data, label="y", text=["x1"]) == by_array


@pytest.mark.parametrize("choice", [{"exclude": ["x2", "x10"]}, {"features": [f"x{i}" for i in (1, *range(3, 10))]}])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
def test_a_posterior_takes_the_array_it_came_from(matrix, choice, form):
    X, y = matrix[0][:3000], matrix[1][:3000]
    posterior = tithe.build(form(X), y, size=200, **choice).fit(chains=2, draws=50)
    assert posterior.verify(form(X), y).same_data
    wanted = posterior.predict_proba(form(X[:, [0, *range(2, 9)]]))
    np.testing.assert_array_equal(posterior.predict_proba(form(X)), wanted)
    with pytest.raises(tithe.ColumnError, match="X has 7 features, but the posterior was fitted with 8: x1, x3"):
        posterior.predict_proba(form(X[:, :7]))


def test_a_coresets_encoding_takes_the_array_it_came_from(matrix):
    core = tithe.build(*matrix, exclude=["x2"], size=200)
    assert tithe.build(*matrix, encoding=core, size=200).columns == core.columns


@pytest.mark.parametrize("odd", [[1, 2], 1j, {"a": 1}, np.ones(2)], ids=lambda odd: type(odd).__name__)
def test_columns_that_are_not_needed_may_hold_anything(matrix, odd):
    X, y = matrix[0][:2000], matrix[1][:2000]
    plain = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    frame = plain.assign(odd=[odd] * 2000)
    core = tithe.build(plain, label="y", size=200)
    assert tithe.build(frame, label="y", features=["a", "b"], size=200) == core
    assert tithe.build(frame, label="y", exclude=["odd"], size=200) == core
    assert tithe.build(frame, encoding=core, size=200).columns == ["a", "b"]
    posterior = core.fit(chains=2, draws=50)
    assert posterior.verify(frame).same_data
    np.testing.assert_array_equal(posterior.predict_proba(frame), posterior.predict_proba(plain))
    with tithe.Stream(label="y", features=["a", "b"], size=200) as stream:
        stream.add(frame)
        stream.add(frame)
        assert stream.rows == 4000
    assert "odd" in frame and frame["odd"].notna().all(), "the user's frame is as it was"


@pytest.mark.parametrize("kind", ["truths", "words", "dictionary", "chunks"])
def test_labels_of_pyarrow(matrix, kind):
    X, y = matrix[0][:2000], matrix[1][:2000] > 0
    words = pa.array(np.where(y, "yes", "no").tolist())
    labels = {
        "truths": pa.array(y),
        "words": words,
        "dictionary": words.dictionary_encode(),
        "chunks": pa.chunked_array([pa.array(y)]),
    }[kind]
    positive = None if kind in ("truths", "chunks") else "yes"
    core = tithe.build(X, labels, positive=positive, size=200)
    np.testing.assert_array_equal(core.y, y[core.rows])


@pytest.mark.parametrize("dtype", ["string", "Int64", "boolean", object])
def test_missing_labels_of_pandas_can_be_dropped(matrix, dtype):
    X, y = matrix[0][:2000], matrix[1][:2000] > 0
    values = pd.Series(np.where(y, "yes", "no") if dtype in ("string", object) else y.astype(int), dtype=dtype)
    values[3] = pd.NA
    positive = "yes" if dtype in ("string", object) else None
    core = tithe.build(X, values, positive=positive, missing="drop", size=200)
    assert core.n_rows == 1999


def test_categories_are_one_hot_whatever_stands_for_them(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=900),
            "g": pd.Categorical([0, 1, 2, 0] * 225),
            "b": pd.Categorical([True, False, True] * 300),
            "f": pd.Categorical([0.5, 1.5, 0.5] * 300),
            "y": pd.Categorical(rng.integers(0, 2, 900)),
        }
    )
    core = tithe.build(frame, label="y", size=80)
    assert core.coefficients == ["intercept", "a", "g=1", "g=2", "b=true", "f=1.5"]
    # Numeric categories do not need positive=.
    assert core.classes == ["0", "1"]
    frame.to_parquet(tmp_path / "frame.parquet")
    again = tithe.build(tmp_path / "frame.parquet", label="y", size=80)
    assert again.coefficients == core.coefficients and (again.weights == core.weights).all()


def _pieces(frame, rows=3000):
    return (frame[start : start + rows] for start in range(0, len(frame), rows))


def test_data_piece_by_piece_gives_the_bytes_of_the_whole(table, core, tmp_path):
    frame, polars_frame = table.to_pandas(), pl.from_arrow(table)
    polars_frame.write_parquet(tmp_path / "a.parquet", row_group_size=2500)
    lazy = pl.scan_parquet(tmp_path / "a.parquet")
    for data in [
        lazy,
        lazy.with_columns(z=pl.col("x1") * 2).drop("z"),
        _pieces(frame),
        _pieces(polars_frame),
        iter(table.to_batches(max_chunksize=1700)),
        [frame[:9000], frame[9000:]],
        pathlib.Path(tmp_path).glob("*.parquet"),
    ]:
        assert tithe.build(data, label="y", size=300) == core
    posterior = core.fit(chains=2, draws=50)
    np.testing.assert_array_equal(posterior.predict_proba(lazy), posterior.predict_proba(table))
    assert posterior.verify(_pieces(frame)) == posterior.verify(table)
    with tithe.Stream(label="y", size=300) as stream:
        stream.add(_pieces(frame))
        assert stream.snapshot() == core
    with pytest.raises(tithe.NoRowsError):
        tithe.build(lazy.filter(pl.col("x1") > 1e9), label="y")


def test_an_error_in_a_generator_is_its_own(table):
    class OwnError(Exception):
        pass

    def broken():
        yield table.slice(0, 5000)
        raise OwnError("the disk is gone")

    with pytest.raises(OwnError, match="the disk is gone"):
        tithe.build(broken(), label="y", size=300)
    with tithe.Stream(label="y", size=300) as stream, pytest.raises(OwnError):
        stream.add(broken())


def test_labels_of_pandas_may_be_integers_and_tuples(table, core):
    names = [*table.column_names]
    frame = table.to_pandas()
    by_number = frame.set_axis(range(len(names)), axis="columns")
    made = tithe.build(by_number, label=len(names) - 1, features=list(range(10)), size=300)
    assert made.columns == [str(i) for i in range(10)]
    np.testing.assert_array_equal(made.weights, core.weights)
    by_level = frame.set_axis(pd.MultiIndex.from_tuples([("x", name) for name in names]), axis="columns")
    by_level["n", "often"] = 1.0
    made = tithe.build(by_level, label=("x", "y"), exclude=[("x", "x2")], weight=("n", "often"), size=300)
    assert made.columns == [f"x.x{i}" for i in range(1, 11) if i != 2]
    posterior = made.fit(chains=2, draws=50)
    assert posterior.predict_proba(by_level).shape == (len(frame), 2)
    with pytest.raises(tithe.SettingError, match="label must be the name of a column, but has the type bool"):
        tithe.build(frame, label=True)


def test_dropped_rows_are_shown(table):
    frame = table.to_pandas()
    frame.loc[3:5, "x1"] = np.nan
    core = tithe.build(frame, label="y", size=300, missing="drop")
    assert "represent 19,997 rows; 3 dropped" in repr(core) and "3 dropped" in core._repr_html_()
