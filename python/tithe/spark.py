"""Coresets of Spark DataFrames: the same passes as on one machine, run where the rows are.

>>> core = tithe.spark.build(df, label="y", size=1000)      # doctest: +SKIP

The driver runs one pass after the other; each is a ``mapInArrow`` that streams the rows of a partition into the native
code and returns a small state. Nothing is computed in Python.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ._extras import needed_for

with needed_for("tithe.spark", extra="spark"):
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql.types import DecimalType, StructField, StructType

from . import _native
from ._coreset import Coreset
from ._data import Path, is_path, native
from ._engine import JOINED, build_with, columns_of, verify_with
from ._errors import ClusterError, ColumnError, InputTypeError, NoRowsError, SettingError, StateError, TitheError
from ._options import (
    MergeOptions,
    PassOptions,
    StreamBlockOptions,
    checked,
    names_of,
    options_of,
    real,
    takes,
    whole,
)
from ._posterior import Posterior, Verification
from ._stream import Stream, merge

try:
    from py4j.protocol import Py4JJavaError
except ModuleNotFoundError:
    # The client of Spark Connect comes without it.
    _SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
else:
    _SPARK_ERRORS = (PySparkException, Py4JJavaError)

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import Column

__all__ = ["build", "into", "predict", "verify"]

SparkData: TypeAlias = "DataFrame | Path | Sequence[Path]"
Batches: TypeAlias = "Iterator[pa.RecordBatch]"
Join: TypeAlias = "Callable[[bytes, Sequence[bytes]], bytes]"

#: Tasks per core if the workers read the files themselves.
_TASKS_PER_CORE = 4
#: The number of cores to assume with Spark Connect, which does not report it.
_CORES = 16
#: The columns that :func:`predict` adds.
_PREDICTED = ("probability", "probability_sd", "probability_lower", "probability_upper")
#: What a task returns: the partition, and its outcome or its error.
_OUTCOME = "partition long, outcome binary, error binary"


class SparkOptions(PassOptions, StreamBlockOptions, total=False):
    """The options of :func:`build`."""


@takes(SparkOptions)
def build(
    data: SparkData,
    *,
    strategy: Literal["passes", "tree"] = "passes",
    persist: bool = False,
    encoding: Coreset | Path | None = None,
    progress: bool | None = None,
    **options: Unpack[SparkOptions],
) -> Coreset:
    """Build a coreset of a Spark DataFrame: calibrated and certified as on one machine.

    The result depends on the partitioning as it depends on ``block_rows``: the same partitions, seed and settings give
    the same bytes.

    Parameters
    ----------
    data:
        A DataFrame; or paths of files that all workers can read. The workers then read them, one partition per file,
        which is faster but has no filters and partition columns of Spark.
    strategy:
        ``"passes"`` reads the data about six times, as :func:`tithe.build` does. ``"tree"`` is for data that can be
        read only once: each partition becomes a coreset by its own :class:`tithe.Stream`, and these are merged.
        Only ``"tree"`` takes the options of a stream (``block``, ``warmup_rows``, ``unseen``). Without ``encoding``, it
        learns the columns from the first ``warmup_rows`` (50,000) rows, which are then read twice.
    persist:
        Keep the used columns in the cluster's memory from the first pass to the last. Worth it if reading or computing
        the DataFrame takes longer than the passes, and required if it gives other rows, or the same rows in another
        order, each time.
    encoding:
        A coreset whose columns, levels, means and scales to use instead of learning them.
    progress:
        Show a progress bar (needs tqdm); by default on a terminal and in a notebook.
    **options:
        The keyword arguments of :class:`SparkOptions`.

    Notes
    -----
    Vector columns of Spark ML are split: ``v`` with three numbers becomes ``v_0``, ``v_1`` and ``v_2``.
    """
    data, options["exclude"] = _without(data, names_of("exclude", options.get("exclude")) or [])
    if strategy == "tree":
        if persist:
            raise SettingError('persist: has no effect with strategy="tree", which reads the data once')
        return _tree(data, progress, encoding, cast("dict[str, Any]", options))
    if strategy != "passes":
        raise SettingError(f"strategy must be passes or tree, but is '{strategy}'")
    given = cast("dict[str, Any]", options)
    table = _Table(data, persist, checked("build", PassOptions, given))
    return build_with(table.columns, table.reader, encoding, progress, given)


def verify(
    posterior: Posterior,
    data: SparkData,
    *,
    label: str | None = None,
    draws: int | None = None,
    force: bool = False,
    progress: bool | None = None,
) -> Verification:
    """Check a posterior against all rows of a DataFrame in one pass, and correct it: see :func:`tithe.verify`.

    ``label`` is optional, because the posterior contains the names of its columns. If given, it must be the same.
    """
    table = _Table(data, persist=False, options={})
    return verify_with(posterior, table.columns, table.reader, label=label, draws=draws, force=force, progress=progress)


def predict(
    posterior: Posterior,
    df: DataFrame,
    *,
    interval: float = 0.9,
    unseen: Literal["error", "reference"] = "error",
    missing: Literal["empty", "drop", "error"] = "empty",
) -> DataFrame:
    """Add to each row the probability of the positive class: its mean, sd and interval over all draws.

    The new columns are ``probability``, ``probability_sd``, ``probability_lower`` and ``probability_upper``; they are
    null in rows in which a feature is missing. With ``missing="drop"`` such rows are left out, with ``"error"`` they
    fail the job. Like every DataFrame, the result is computed when its rows are needed.
    """
    if not 0 < real("interval", interval) < 1:
        raise SettingError(f"interval must be between 0 and 1, but is {interval}")
    if unseen not in ("error", "reference"):
        raise SettingError(f"unseen must be error or reference, but is '{unseen}'")
    if missing not in ("empty", "drop", "error"):
        raise SettingError(f"missing must be empty, drop or error, but is '{missing}'")
    taken = next((name for name in _PREDICTED if name in df.columns), None)
    if taken is not None:
        raise ColumnError(f"column '{taken}': already exists, and predict adds a column of that name; rename it")
    there = dict(_columns(df))
    features = [feature["column"] for feature in posterior._facts["encoding"]["features"]]
    # A part of a date, such as day.month, is computed from its column.
    features = list(dict.fromkeys(name if name in there else name.rpartition(".")[0] or name for name in features))
    absent = next((name for name in features if name not in there), None)
    if absent is not None:
        raise ColumnError(f"column '{absent}': is a feature of the posterior, but the DataFrame does not have it")
    inputs = F.struct(*[there[name].alias(f"c{i}") for i, name in enumerate(features)]).alias("inputs")
    # A copy of the list: adding to it must not change the schema of the DataFrame.
    schema = StructType(list(df.schema.fields))
    for name in _PREDICTED:
        schema = schema.add(name, "double")
    rows = _numbered(df.select("*", inputs))
    return rows.mapInArrow(partial(_predict, posterior, interval, unseen, missing, features), schema)


def into(stream: Stream) -> Callable[[DataFrame, int], None]:
    """Return a function that adds the batches of Structured Streaming to a stream.

    Use it as ``foreachBatch(tithe.spark.into(stream))``. Spark may deliver a batch again after a failure. A stream with
    a state on disk adds it only once: the number of rows before each batch is saved with the state
    (``spark-batch.json``).
    """
    note = None if stream.state is None else pathlib.Path(stream.state) / "spark-batch.json"

    def take(batch: DataFrame, number: int) -> None:
        if _is_connect(batch):
            raise ClusterError(
                "with Spark Connect, foreachBatch runs on the server, where this stream is not: use a classic Spark "
                "session, or write the batches to files and let `tithe stream --watch` read them"
            )
        if batch.isEmpty():
            return
        if note is not None:
            query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            known: dict[str, Any] = {"batch": -1, "rows_before": 0, "query": query}
            if note.exists():
                known = json.loads(note.read_text())
            if known["query"] != query:
                raise StateError(
                    f"the state in '{stream.state}' contains batches of another query, whose numbers do not apply "
                    f"here: resume that query from its checkpoint, or remove '{note}' if none of these rows were "
                    "added"
                )
            is_in = stream.rows > known["rows_before"]
            if number < known["batch"] or (number == known["batch"] and is_in):
                return
            fresh = note.with_suffix(".new")
            fresh.write_text(json.dumps({"batch": number, "rows_before": stream.rows, "query": query}))
            fresh.replace(note)
        stream.add(_flat(batch).toArrow())
        if note is not None:
            stream.save()

    return take


def _tree(data: Any, progress: bool | None, encoding: Coreset | Path | None, settings: dict[str, Any]) -> Coreset:
    """Build a coreset of each partition on its worker, and merge them: the paper's parallel setting."""
    seed, warmup_rows = whole("seed", settings.pop("seed", 0)), settings.pop("warmup_rows", 50_000)
    # Each partition uses one core.
    settings.pop("threads", None)
    if not hasattr(data, "mapInArrow"):
        raise SettingError('strategy: "tree" needs a DataFrame')
    frame = _flat(data)
    # A stream of the first rows learns the columns, and reports columns that cannot be used.
    with Stream(encoding=encoding, seed=seed, progress=progress, **settings) as first:
        first.add(frame.limit(whole("warmup_rows", warmup_rows, least=1)).toArrow())
        if first.rows == 0:
            raise NoRowsError("the data has no rows")
        known = first.snapshot()
    chosen = {name: value for name, value in settings.items() if name in options_of(MergeOptions)}
    names = [feature["column"] for feature in known._facts["encoding"]["features"]]
    names += [known._facts["encoding"]["label"]["column"], settings.get("weight")]
    # A part of a date, such as day.month, is computed from its column.
    parts = [name if name in frame.columns else name.rpartition(".")[0] for name in names if name is not None]
    frame = frame.select([F.col(_quoted(name)) for name in dict.fromkeys(parts)])
    with _TreeReader(frame, settings | {"seed": seed}, known, chosen | {"seed": seed}) as run:
        cores = sorted((pickle.loads(core) for core in run("a coreset of each partition", b"")), key=_number)
    return merge([core for _, core in cores if core is not None], seed=seed, progress=progress, **chosen)


class _Table:
    """Data on a cluster: its columns for the driver, and a reader of its partitions."""

    def __init__(self, data: Any, persist: bool, options: dict[str, Any]) -> None:
        self._persist, self._options = persist, options
        self._frame: DataFrame | None = None
        if hasattr(data, "mapInArrow"):
            self._frame = _flat(data)
            self.columns = columns_of(_arrow_schema(self._frame))
        elif is_path(data):
            self.columns = native(data)
        else:
            raise InputTypeError(
                f"an object of type {type(data).__module__}.{type(data).__qualname__} is not on a cluster: give a "
                "Spark DataFrame or paths of files; use tithe.build for data frames and arrays on one machine"
            )

    def reader(self, names: Sequence[str]) -> _Reader:
        """Return a reader that runs tasks on the partitions, with these columns."""
        if self._frame is None:
            return _FileReader(self.columns.files(), self._options)
        return _FrameReader(self._frame.select([F.col(_quoted(name)) for name in names]), self._persist)


class _Reader:
    """Runs tasks on all partitions; a context manager, so that no job and no cached data remains."""

    def __init__(self, session: SparkSession, partitions: int, join: Join = _native.joined) -> None:
        self._join = join
        self._session = session
        self._tag = f"tithe-{uuid.uuid4()}"
        self._partitions = partitions

    def __enter__(self) -> _Reader:
        self._session.addTag(self._tag)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._session.interruptTag(self._tag)
        self._session.removeTag(self._tag)
        self._describe(None)

    def _describe(self, job: str | None) -> None:
        """Name the next jobs in Spark's web interface, where the session can."""
        if (context := _context(self._session)) is not None:
            context.setLocalProperty("spark.job.description", job)

    def _outcomes(self, task: bytes) -> DataFrame:
        raise NotImplementedError

    def __call__(self, name: str, task: bytes) -> list[bytes]:
        """Run a task on every partition and return the outcomes, joined in groups if there are many."""
        self._describe(f"tithe: {name}")
        frame, count = self._outcomes(task), self._partitions
        while count > JOINED:
            count = -(-count // JOINED)
            group = F.floor(F.col("partition") / JOINED).cast("long")
            frame = frame.withColumn("partition", group).repartition(count, "partition")
            frame = frame.mapInArrow(partial(_join, self._join, task), _OUTCOME)
        with _explained():
            rows = frame.toArrow()
        errors = [error for error in rows["error"].to_pylist() if error is not None]
        if errors:
            # The error of the first partition, so that the message does not depend on timing.
            raise min((pickle.loads(error) for error in errors), key=lambda numbered: numbered[0])[1]
        outcomes: list[bytes] = rows["outcome"].to_pylist()
        return outcomes


class _FrameReader(_Reader):
    """The partitions of a DataFrame, streamed to Python by Spark."""

    def __init__(self, frame: DataFrame, persist: bool, join: Join = _native.joined) -> None:
        self._names = frame.columns
        self._frame, self._persist = _numbered(frame), persist
        # Counting the partitions may compute shuffles of the DataFrame, so persist it first.
        if persist:
            self._frame.persist()
        super().__init__(frame.sparkSession, _count_partitions(self._frame), join)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        super().__exit__(kind, *rest)
        if self._persist:
            self._frame.unpersist()

    def _outcomes(self, task: bytes) -> DataFrame:
        return self._frame.mapInArrow(partial(_do_on_batches, task, self._names), _OUTCOME)


class _FileReader(_Reader):
    """Files that the workers read themselves, one partition per file."""

    def __init__(self, files: Sequence[str], options: dict[str, Any]) -> None:
        session = SparkSession.getActiveSession()
        if session is None:
            raise SettingError("data: paths need a Spark session; start one first")
        super().__init__(session, len(files))
        self._files, self._options = files, options
        # Several files per task keep the overhead small; several tasks per core balance the load.
        context = _context(session)
        cores = _CORES if context is None else context.defaultParallelism
        tasks = min(len(files), _TASKS_PER_CORE * cores)
        self._numbers = session.range(0, len(files), 1, tasks)

    def _outcomes(self, task: bytes) -> DataFrame:
        return self._numbers.mapInArrow(partial(_do_on_files, task, self._files, self._options), _OUTCOME)


class _TreeReader(_FrameReader):
    """The partitions of a DataFrame, each turned into a coreset on its worker."""

    def __init__(self, frame: DataFrame, settings: dict[str, Any], known: Coreset, chosen: dict[str, Any]) -> None:
        super().__init__(frame, persist=False, join=partial(_merge, chosen))
        self._work = partial(_stream_of_batches, settings, known, self._names)

    def _outcomes(self, task: bytes) -> DataFrame:
        return self._frame.mapInArrow(self._work, _OUTCOME)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Say what to do if a job fails because the workers do not have this package."""
    try:
        yield
    except _SPARK_ERRORS as error:
        if "No module named 'tithe'" in str(error):
            raise ClusterError(
                "the workers do not have tithe: install the same wheel there, or ship it with the job"
            ) from None
        raise


def _is_connect(frame: DataFrame) -> bool:
    """Whether a DataFrame belongs to Spark Connect, which knows neither a context nor partitions."""
    return ".connect." in type(frame).__module__


def _context(session: SparkSession) -> Any:
    """The context of a classic session."""
    return getattr(session, "sparkContext", None)


def _count_partitions(frame: DataFrame) -> int:
    """Count the partitions, with Spark Connect by a job that reads no columns."""
    if _is_connect(frame):
        with _explained():
            return frame.select(F.lit(0).alias("c0")).mapInArrow(_one_row, "partition long").count()
    return frame.rdd.getNumPartitions()


# The functions that run on the workers.


def _one_row(batches: Batches) -> Batches:
    """Return a single row for a partition."""
    for _ in batches:
        pass
    yield pa.RecordBatch.from_arrays([pa.array([0], pa.int64())], ["partition"])


def _outcome(partition: int, work: Callable[[], bytes]) -> pa.RecordBatch:
    """Run a task; an error in the data is returned to the driver, because a retry would not help."""
    outcome, error = None, None
    try:
        outcome = work()
    except TitheError as raised:
        error = pickle.dumps((partition, raised))
    return _row(partition, outcome, error)


def _row(partition: int, outcome: bytes | None, error: bytes | None) -> pa.RecordBatch:
    columns = [pa.array([partition], pa.int64()), pa.array([outcome], pa.binary()), pa.array([error], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["partition", "outcome", "error"])


class _Upstream:
    """Batches for the native code, with their column names; keeps the exception that their producer raised."""

    def __init__(self, names: Sequence[str], batches: Batches) -> None:
        self._names, self._batches = list(names), batches
        self.raised: BaseException | None = None

    def __iter__(self) -> Batches:
        try:
            for batch in self._batches:
                yield batch.rename_columns(self._names)
        except BaseException as raised:
            self.raised = raised
            raise


def _do_on_batches(task: bytes, names: Sequence[str], batches: Batches) -> Batches:
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    upstream = _Upstream(names, batches)
    rows = iter(upstream)

    def work() -> bytes:
        first = next(rows, None)
        if first is None:
            return _native.task_on_nothing(partition)
        stream = pa.RecordBatchReader.from_batches(first.schema, chain([first], rows))
        try:
            return _native.task_on_stream(task, partition, stream.__arrow_c_stream__())
        except TitheError:
            if upstream.raised is not None:
                raise upstream.raised from None
            raise

    yield _outcome(partition, work)


def _stream_of_batches(settings: dict[str, Any], known: Coreset, names: Sequence[str], batches: Batches) -> Batches:
    """Build a coreset of a partition, with the known encoding."""
    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    # Each partition has its own seed.
    own = settings | {"seed": (settings["seed"] + partition * 0x9E3779B97F4A7C15) % 2**64}

    def work() -> bytes:
        with Stream(encoding=known, threads=1, progress=False, **own) as stream:
            for batch in batches:
                stream.add(pa.Table.from_batches([batch.rename_columns(list(names))]))
            return pickle.dumps((partition, stream.snapshot() if stream.rows else None))

    yield _outcome(partition, work)


def _number(numbered: tuple[int, Coreset | None]) -> int:
    return numbered[0]


def _merge(chosen: dict[str, Any], _task: bytes, outcomes: Sequence[bytes]) -> bytes:
    """Merge coresets, in the order of their partitions."""
    cores = sorted((pickle.loads(outcome) for outcome in outcomes), key=_number)
    there = [core for _, core in cores if core is not None]
    return pickle.dumps((cores[0][0], merge(there, progress=False, threads=1, **chosen) if there else None))


def _do_on_files(task: bytes, files: Sequence[str], options: dict[str, Any], batches: Batches) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _outcome(number, partial(_native.task_on_file, task, number, files[number], options))


def _join(join: Join, task: bytes, batches: Batches) -> Batches:
    """Join the outcomes of each group of partitions."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            groups.setdefault(row["partition"], []).append(row)
    for group, rows in sorted(groups.items()):
        errors = [row["error"] for row in rows if row["error"] is not None]
        if errors:
            first = min(errors, key=lambda error: pickle.loads(error)[0])
            yield _row(group, None, first)
        else:
            yield _outcome(group, partial(join, task, [row["outcome"] for row in rows]))


def _predict(
    posterior: Posterior,
    interval: float,
    unseen: Literal["error", "reference"],
    missing: Literal["empty", "drop", "error"],
    features: Sequence[str],
    batches: Batches,
) -> Batches:
    for batch in batches:
        if batch.num_rows == 0:
            continue
        inputs = pa.RecordBatch.from_struct_array(batch.column(batch.num_columns - 1))
        inputs = pa.Table.from_batches([inputs]).rename_columns(list(features))
        handled = "error" if missing == "error" else "empty"
        found = posterior._predict(inputs, interval, unseen, handled, threads=1, progress=False)
        columns = [*batch.columns[:-1], *[pa.array(column, from_pandas=True) for column in found]]
        # Spark matches columns by position.
        predicted = pa.RecordBatch.from_arrays(columns, [*batch.schema.names[:-1], *_PREDICTED])
        yield predicted.filter(predicted["probability"].is_valid()) if missing == "drop" else predicted


# The columns of a DataFrame.


def _numbered(df: DataFrame) -> DataFrame:
    """Rename the columns, because ``mapInArrow`` does not support dots in names."""
    return df.toDF(*[f"c{i}" for i in range(len(df.columns))])


_ARROW_TYPES = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "char": pa.string(),
    "varchar": pa.string(),
    "void": pa.null(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "array": pa.list_(pa.null()),
    "map": pa.map_(pa.string(), pa.null()),
    "struct": pa.struct([]),
}


def _arrow_schema(df: DataFrame) -> pa.Schema:
    """The Arrow schema that the workers will see; without the contents of nested columns."""
    fields = []
    for field in df.schema.fields:
        kind = field.dataType
        if isinstance(kind, DecimalType):
            fields.append(pa.field(field.name, pa.decimal128(kind.precision, kind.scale)))
        else:
            fields.append(pa.field(field.name, _ARROW_TYPES.get(kind.typeName(), pa.binary())))
    return pa.schema(fields)


def _without(data: Any, exclude: list[str]) -> tuple[Any, list[str]]:
    """Drop excluded columns of a DataFrame first; returns the names that it does not have, to be reported later."""
    if not hasattr(data, "mapInArrow"):
        return data, exclude
    kept = [F.col(_quoted(name)) for name in data.columns if name not in exclude]
    return data.select(kept), [name for name in exclude if name not in data.columns]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _columns(df: DataFrame) -> Iterator[tuple[str, Column]]:
    """All columns by name, with Spark ML vectors split into their elements."""
    for field in df.schema.fields:
        column = F.col(_quoted(field.name))
        if not _is_vector(field):
            yield field.name, column
            continue
        from pyspark.ml.functions import vector_to_array

        size = _vector_size(df, field)
        values = F.when(column.isNotNull(), vector_to_array(column))
        for i in range(size):
            # A vector of another length counts as missing.
            yield f"{field.name}_{i}", F.when(F.size(values) == size, values[i])


def _is_vector(field: StructField) -> bool:
    return field.dataType.typeName() == "vectorudt"


def _vector_size(df: DataFrame, field: StructField) -> int:
    """The length of the vectors in a column, from its metadata or its first row."""
    known = (field.metadata or {}).get("ml_attr", {}).get("num_attrs")
    if known is not None:
        return int(known)
    first = df.select(_quoted(field.name)).where(F.col(_quoted(field.name)).isNotNull()).first()
    if first is None:
        raise NoRowsError(f"column '{field.name}': contains no vector, so the length of its vectors is unknown")
    return int(first[0].size)


def _flat(df: DataFrame) -> DataFrame:
    """The DataFrame with vectors split into their elements."""
    if not any(_is_vector(field) for field in df.schema.fields):
        return df
    return df.select([column.alias(name) for name, column in _columns(df)])
