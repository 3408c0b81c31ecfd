"""Invalid input from Python: each case with its exception class and message."""

import errno
import pickle
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

import tithe

N = 200
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(N, 3))
Y = (X[:, 0] + GENERATOR.normal(size=N) > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)


def with_nan():
    frame = FRAME.copy()
    frame.loc[[7, 9], "b"] = np.nan
    return frame


def of_objects():
    frame = FRAME.copy()
    frame["b"] = [[1, 2]] * N
    return frame


CASES = {
    "y with strings": (
        lambda: tithe.build(X, np.where(Y, "red", "green")),
        tithe.ColumnError,
        ValueError,
        "column 'y': the label's values are 'green', 'red'(.|\n)*positive=\"red\"",
    ),
    "three classes": (
        lambda: tithe.build(X, np.arange(N) % 3),
        tithe.ColumnError,
        ValueError,
        "column 'y': .*(two|2)",
    ),
    "one class": (
        lambda: tithe.build(X, np.ones(N)),
        tithe.ColumnError,
        ValueError,
        "column 'y'",
    ),
    "NaN in X": (
        lambda: tithe.build(with_nan(), label="y"),
        tithe.MissingValuesError,
        ValueError,
        r"'b' \(2 missing, the first in row 8\)(.|\n)*help: .*exclude=.*missing=\"drop\"",
    ),
    "NaN in y": (
        lambda: tithe.build(X, np.where(np.arange(N) == 3, np.nan, Y)),
        tithe.MissingValuesError,
        ValueError,
        r"'y' \(1 missing, the first in row 4\)",
    ),
    "infinity": (
        lambda: tithe.build(np.where(np.arange(N)[:, None] == 5, np.inf, X), Y),
        tithe.MissingValuesError,
        ValueError,
        "1 infinite, the first in row 6",
    ),
    "an object column": (
        lambda: tithe.build(of_objects(), label="y"),
        tithe.InputTypeError,
        TypeError,
        r"column 'b' contains Python objects \(list\).*exclude=",
    ),
    "a column of mixed objects": (
        lambda: tithe.build(FRAME.assign(b=[1, "x"] * (N // 2)), label="y"),
        tithe.InputTypeError,
        TypeError,
        r"column 'b' contains Python objects \(int, str\)",
    ),
    "mismatched lengths": (
        lambda: tithe.build(X, Y[:-1]),
        tithe.ColumnError,
        ValueError,
        "column 'y': has 199 rows where the data has 200",
    ),
    "mismatched lengths of a frame and y": (
        lambda: tithe.build(FRAME[["a", "b"]], Y[:-1]),
        tithe.ColumnError,
        ValueError,
        "column 'y': has 199 rows where the data has 200",
    ),
    "mismatched lengths of a frame and words": (
        lambda: tithe.build(FRAME[["a", "b"]], ["u", "v"]),
        tithe.ColumnError,
        ValueError,
        "column 'y': has 2 rows where the data has 200",
    ),
    "an empty frame": (
        lambda: tithe.build(FRAME.iloc[:0], label="y"),
        tithe.NoRowsError,
        ValueError,
        "the data has no rows",
    ),
    "an empty array": (
        lambda: tithe.build(X[:0], Y[:0]),
        tithe.NoRowsError,
        ValueError,
        "the data has no rows",
    ),
    "an empty stream": (
        lambda: tithe.build(pa.RecordBatchReader.from_batches(pa.Table.from_pandas(FRAME).schema, []), label="y"),
        tithe.NoRowsError,
        ValueError,
        "the data has no rows",
    ),
    "no columns": (
        lambda: tithe.build(X[:, :0], Y),
        tithe.SettingError,
        ValueError,
        "features must leave at least one column",
    ),
    "a generator of arrays": (
        lambda: tithe.build((row for row in X), Y),
        tithe.InputTypeError,
        TypeError,
        "item 0 of the generator has the type numpy.ndarray: yield data frames or Arrow batches",
    ),
    "a generator with nothing": (
        lambda: tithe.build(iter([]), label="y"),
        tithe.NoRowsError,
        ValueError,
        "the generator is empty",
    ),
    "batches with other columns": (
        lambda: tithe.build(iter([FRAME, FRAME.rename(columns={"a": "A"})]), label="y"),
        tithe.SchemaMismatchError,
        ValueError,
        "batch 1 has the columns A, b, c, y, but batch 0 a, b, c, y",
    ),
    "batches with other types": (
        lambda: tithe.build(iter([FRAME, FRAME.assign(a="one")]), label="y"),
        tithe.SchemaMismatchError,
        ValueError,
        "column 'a' has the type .*string in batch 1, but double in batch 0",
    ),
    "a URL": (
        lambda: tithe.build("s3://bucket/clicks.parquet", label="y"),
        tithe.InputTypeError,
        TypeError,
        r"'s3://bucket/clicks.parquet' is a URL.*polars.scan_parquet\('s3://bucket/clicks.parquet'\)",
    ),
    "a list of lists": (
        lambda: tithe.build(X.tolist(), Y),
        tithe.InputTypeError,
        TypeError,
        "a list is not data.*numpy.asarray",
    ),
    "a dict": (lambda: tithe.build({"a": [1]}, Y), tithe.InputTypeError, TypeError, "a dict is not data"),
    "None": (lambda: tithe.build(None), tithe.InputTypeError, TypeError, "NoneType is not data"),
    "complex numbers": (
        lambda: tithe.build(X.astype(complex), Y),
        tithe.InputTypeError,
        TypeError,
        r"dtype complex128.*astype\(float\)",
    ),
    "an array of objects": (
        lambda: tithe.build(X.astype(object), Y),
        tithe.InputTypeError,
        TypeError,
        "dtype object",
    ),
    "durations": (
        lambda: tithe.build(FRAME.assign(b=pd.Timedelta("1d")), label="y"),
        tithe.ColumnError,
        ValueError,
        "column 'b': values of type Duration.*cannot be used(.|\n)*exclude=\"b\"",
    ),
    "a structured array": (
        lambda: tithe.build(np.zeros(3, dtype=[("a", float)]), Y),
        tithe.InputTypeError,
        TypeError,
        "structured array",
    ),
    "a masked array": (
        lambda: tithe.build(np.ma.masked_array(X, mask=X > 1), Y),
        tithe.InputTypeError,
        TypeError,
        r"X is a masked array; use X.filled\(numpy.nan\)",
    ),
    "a masked y": (
        lambda: tithe.build(X, np.ma.masked_array(Y, mask=X[:, 0] > 1)),
        tithe.InputTypeError,
        TypeError,
        "y is a masked array",
    ),
    "complex numbers in a frame": (
        lambda: tithe.build(FRAME.assign(b=1j), label="y"),
        tithe.InputTypeError,
        TypeError,
        "the data cannot be read as Arrow.*complex128",
    ),
    "y that is in the frame too": (
        lambda: tithe.build(FRAME, Y),
        tithe.ColumnError,
        ValueError,
        "column 'y': is already in the data; name it with label=",
    ),
    "two columns of one name": (
        lambda: tithe.build(FRAME.set_axis(["a", "a", "c", "y"], axis="columns"), label="y"),
        tithe.InputTypeError,
        TypeError,
        "Duplicate column names",
    ),
    "a sparse vector": (
        lambda: tithe.build(scipy.sparse.csr_array(X[:, 0]), Y),
        tithe.InputTypeError,
        TypeError,
        "X must have two dimensions",
    ),
    "1-D X": (lambda: tithe.build(X[:, 0], Y), tithe.InputTypeError, TypeError, r"two dimensions.*reshape\(-1, 1\)"),
    "2-D y": (lambda: tithe.build(X, X[:, :2]), tithe.InputTypeError, TypeError, "y must have one dimension"),
    "X without y": (lambda: tithe.build(X), tithe.InputTypeError, TypeError, "X without y"),
    "no label": (
        lambda: tithe.build(FRAME),
        tithe.SettingError,
        ValueError,
        r"label is required: .*\(columns: a, b, c, y\)",
    ),
    "a label that is not there": (
        lambda: tithe.build(FRAME, label="Y"),
        tithe.UnknownColumnError,
        KeyError,
        r"no column 'Y' to use as label \(did you mean 'y'\?\)",
    ),
    "y with a path": (lambda: tithe.build("x.csv", Y), tithe.InputTypeError, TypeError, "label="),
    "a path to nothing": (
        lambda: tithe.build("nowhere/*.parquet", label="y"),
        tithe.NoInputError,
        FileNotFoundError,
        "nowhere",
    ),
    "a size of no rows": (
        lambda: tithe.build(X, Y, size=0),
        tithe.SettingError,
        ValueError,
        "size must be at least 1",
    ),
    "a size of half a row": (
        lambda: tithe.build(X, Y, size=0.5),
        tithe.SettingError,
        ValueError,
        "size must be a whole number, but is 0.5",
    ),
    "a size that is a truth": (
        lambda: tithe.build(X, Y, size=True),
        tithe.SettingError,
        ValueError,
        "size must be a whole number, but is True",
    ),
    "an endless seed": (
        lambda: tithe.build(X, Y, seed=2**70),
        tithe.SettingError,
        ValueError,
        "seed must be less than",
    ),
    "a KL in words": (
        lambda: tithe.build(X, Y, kl="small"),
        tithe.SettingError,
        ValueError,
        "kl must be a number, but is 'small'",
    ),
    "a reference point without names": (
        lambda: tithe.build(X, Y, theta_star=[0.0]),
        tithe.SettingError,
        ValueError,
        "theta_star must be a dict by coefficient",
    ),
    "a prior that is a number": (
        lambda: tithe.build(X, Y, size=50).fit(prior=2),
        tithe.SettingError,
        ValueError,
        "prior must be a string, but is 2",
    ),
    "size and kl": (
        lambda: tithe.build(X, Y, size=10, kl=0.1),
        tithe.SettingError,
        ValueError,
        "give only one of the three",
    ),
    "an unknown method": (
        lambda: tithe.build(X, Y, method="best"),
        tithe.SettingError,
        ValueError,
        "method must be calibrated or sensitivity or uniform, but is 'best'",
    ),
    "clusters without bounds": (
        lambda: tithe.build(X, Y, method="uniform", clusters=6),
        tithe.SettingError,
        ValueError,
        "clusters has no effect with this method(.|\n)*leave out clusters",
    ),
    "a delta without epsilon": (
        lambda: tithe.build(X, Y, delta=0.05),
        tithe.SettingError,
        ValueError,
        "delta has no effect without a guarantee(.|\n)*epsilon=",
    ),
    "a wrong radius": (
        lambda: tithe.build(X, Y, radius="wide"),
        tithe.SettingError,
        ValueError,
        "radius must be a number, auto or auto:A, but is 'wide'",
    ),
    "a label that is no name": (
        lambda: tithe.build(X, Y, label=0.5),
        tithe.SettingError,
        ValueError,
        "label must be the name of a column, but has the type float",
    ),
    "a wrong memory": (
        lambda: tithe.build(X, Y, memory="4 apples"),
        tithe.SettingError,
        ValueError,
        "memory must be a size such as '4GiB' or a number of bytes, but is '4 apples'",
    ),
    "negative weights": (
        lambda: tithe.build(X, Y, weight=-np.ones(N)),
        tithe.ColumnError,
        ValueError,
        "column 'weight'",
    ),
    "pandas' NA in y": (
        lambda: tithe.build(X, pd.Series(["a", "b", pd.NA, "a"] * (N // 4), dtype="string"), positive="a"),
        tithe.MissingValuesError,
        ValueError,
        r"'y' \(50 missing, the first in row 3\)",
    ),
    "pandas' NA in an object column": (
        lambda: tithe.build(FRAME.assign(b=pd.Series(["u", pd.NA] * (N // 2), dtype=object)), label="y"),
        tithe.MissingValuesError,
        ValueError,
        r"'b' \(100 missing, the first in row 2\)",
    ),
    "a column of arrays": (
        lambda: tithe.build(FRAME.assign(b=[np.ones(2)] * N), label="y"),
        tithe.InputTypeError,
        TypeError,
        r"column 'b' contains Python objects \(ndarray\).*exclude=",
    ),
    "more memory than this machine has": (
        lambda: tithe.build(X, Y, memory="999999999999TiB"),
        tithe.SettingError,
        ValueError,
        r"memory must be less than 2\*\*64 bytes, but is '999999999999TiB'",
    ),
    "a memory of no digits": (
        lambda: tithe.build(X, Y, memory="."),
        tithe.SettingError,
        ValueError,
        "memory must be a size such as '4GiB' or a number of bytes, but is '.'",
    ),
    "a prior for a number": (
        lambda: tithe.build(X, Y, size=50).fit(prior_for={1: "normal:1"}),
        tithe.SettingError,
        ValueError,
        "prior_for must contain names of coefficients, but contains 1",
    ),
    "a reference point by numbers": (
        lambda: tithe.build(X, Y, theta_star={1: 0.0}),
        tithe.SettingError,
        ValueError,
        "theta_star must contain names of coefficients, but contains 1",
    ),
    "an intercept in words": (
        lambda: tithe.build(X, Y, intercept="no"),
        tithe.SettingError,
        ValueError,
        "intercept must be True or False, but is 'no'",
    ),
    "weights to check a coreset that has none": (
        lambda: tithe.build(X, Y, size=50).fit(draws=50).verify(X, Y, weight=np.ones(N)),
        tithe.SettingError,
        ValueError,
        "weight cannot be used: the coreset was built without weights; remove it here",
    ),
    "an unknown recipe": (
        lambda: tithe.generate("cake", 10),
        tithe.SettingError,
        ValueError,
        "'cake' is not one of binary5",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_data_is_refused_in_words(case):
    work, kind, python_kind, message = CASES[case]
    with pytest.raises(tithe.TitheError) as caught:
        work()
    assert type(caught.value) is kind
    assert isinstance(caught.value, python_kind)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "--" not in str(caught.value), "words of the command line"


@pytest.fixture(scope="module")
def posterior():
    return tithe.build(FRAME, label="y", size=100).fit(draws=100)


def test_a_feature_missing_when_predicting(posterior):
    with pytest.raises(
        tithe.UnknownColumnError, match=r"no column 'b' to use as a feature(.|\n)*the columns are: a, c"
    ):
        posterior.predict_proba(FRAME[["a", "c"]])
    with pytest.raises(tithe.ColumnError, match="X has 2 features, but the posterior was fitted with 3: a, b, c"):
        posterior.predict_proba(X[:, :2])


def test_a_value_missing_when_predicting(posterior):
    with pytest.raises(tithe.CellError, match="row 8, column 'b': the value is missing"):
        posterior.predict_proba(with_nan(), missing="error")
    assert np.isnan(posterior.predict_proba(with_nan())[7]).all()


def test_an_unseen_level_when_predicting():
    frame = FRAME.assign(city=np.where(X[:, 1] > 0, "Rome", "Oslo"))
    posterior = tithe.build(frame, label="y", size=100).fit(draws=100)
    other = frame.assign(city="Lima")
    with pytest.raises(tithe.CellError, match=r"the level 'Lima' did not occur(.|\n)*unseen=\"reference\""):
        posterior.predict_proba(other)
    reference = next(name for name in ["Rome", "Oslo"] if f"city={name}" not in posterior.coefficients)
    np.testing.assert_array_equal(
        posterior.predict_proba(other, unseen="reference"), posterior.predict_proba(frame.assign(city=reference))
    )


def test_wrong_settings_of_a_fit(posterior):
    core = tithe.build(FRAME, label="y", size=100)
    with pytest.raises(tithe.SettingError, match=r"sampler must be one of .*, but is 'gibbs'"):
        core.fit(sampler="gibbs")
    with pytest.raises(tithe.SettingError, match="chains must be at least 1"):
        core.fit(chains=0)
    with pytest.raises(tithe.SettingError, match="names a coefficient 'd' that does not exist"):
        core.fit(prior_for={"d": "normal:1"})
    with pytest.raises(tithe.SettingError, match="prior"):
        core.fit(prior="normal:-1")


def from_the_future(data: bytes) -> bytes:
    """The bytes of a file whose metadata say version 3."""
    assert data.count(b'"version":1,') == 1
    return data.replace(b'"version":1,', b'"version":3,')


@pytest.mark.parametrize("kind", ["coreset", "posterior"])
def test_a_pickle_from_a_newer_version(kind, posterior, tmp_path):
    thing = posterior if kind == "posterior" else tithe.build(FRAME, label="y", size=100)
    rebuild, (data, *_) = thing.__reduce__()
    with pytest.raises(
        tithe.WrongFileError, match=rf"'the pickled {kind}' has format version 3(.|\n)*use a newer tithe"
    ):
        rebuild(from_the_future(data))
    with pytest.raises(tithe.MalformedError, match="it is damaged or truncated"):
        rebuild(data[: len(data) // 2])
    with pytest.raises(tithe.WrongFileError, match="was not written by tithe"):
        rebuild(b"something else")
    pickled = pickle.dumps(thing)
    assert pickle.loads(pickled) == thing


def test_files_that_are_something_else(tmp_path, posterior):
    posterior.write(tmp_path / "posterior.parquet")
    with pytest.raises(
        tithe.WrongFileError, match=r"is a posterior, not a coreset(.|\n)*make a coreset with tithe.build"
    ):
        tithe.read_coreset(tmp_path / "posterior.parquet")
    with pytest.raises(tithe.FileError, match="cannot read") as caught:
        tithe.read_coreset(tmp_path / "nothing.parquet")
    assert isinstance(caught.value, OSError)
    with pytest.raises(tithe.FileError, match="cannot write"):
        posterior.write(tmp_path / "no" / "folder" / "x.parquet")


@pytest.mark.parametrize(
    "work",
    [
        lambda path, posterior: tithe.build(path, label="y"),
        lambda path, posterior: tithe.build([str(path), "other.csv"], label="y"),
        lambda path, posterior: tithe.build(FRAME, encoding=path),
        lambda path, posterior: tithe.read_coreset(path),
        lambda path, posterior: tithe.read_posterior(path),
        lambda path, posterior: posterior.verify(path),
        lambda path, posterior: posterior.predict_proba(path),
        lambda path, posterior: tithe.Stream(label="y").add(path),
    ],
)
def test_a_file_that_is_not_there_is_named(work, posterior, tmp_path):
    path = tmp_path / "nothing.parquet"
    with pytest.raises(tithe.NoInputError, match=r"cannot read '.*nothing.parquet': No such file") as caught:
        work(path, posterior)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert isinstance(error, FileNotFoundError) and isinstance(error, tithe.FileError)
        assert (error.filename, error.errno, str(error)) == (str(path), errno.ENOENT, str(caught.value))


def test_a_stream_whose_producer_fails():
    def batches():
        yield pa.RecordBatch.from_pandas(FRAME)
        raise RuntimeError("the database went away")

    reader = pa.RecordBatchReader.from_batches(pa.Schema.from_pandas(FRAME), batches())
    with pytest.raises(tithe.MalformedError, match="the database went away"):
        tithe.build(reader, label="y")


@pytest.mark.parametrize(
    ("name", "value"),
    [("features", ["x1"]), ("exclude", ["x1"]), ("intercept", False), ("standardize", False), ("positive", 0)],
)
def test_what_contradicts_a_known_encoding_is_refused(name, value):
    data = tithe.generate("mixture", 3000)
    known = tithe.build(*data, size=50)
    with pytest.raises(tithe.SettingError, match=rf"{name} contradicts the given encoding"):
        tithe.build(*data, size=50, encoding=known, **{name: value})


def test_more_than_the_memory_holds_is_refused():
    with pytest.raises(tithe.SettingError, match="rows needs more memory than this machine has"):
        tithe.generate("mixture", 10**12)
    core = tithe.build(*tithe.generate("mixture", 3000), size=50)
    for draws in (10**12, 2**62):
        with pytest.raises(tithe.SettingError, match=r"draws needs .* GiB"):
            core.fit(draws=draws)
