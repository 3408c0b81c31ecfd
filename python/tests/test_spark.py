"""The Spark engine on a real cluster: a master and two workers, started and stopped here."""

import datetime
import decimal
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F
from standalone import Standalone

import tithe
import tithe.spark

PARTS, ROWS = 8, 5000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Standalone(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def spark(cluster):
    session = cluster.session()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Eight files of 5,000 rows, with a text column and an unused column."""
    folder = tmp_path_factory.mktemp("parts")
    X, y = tithe.generate("mixture", PARTS * ROWS, seed=3)
    words = np.array(["red", "green", "blue"])[np.arange(len(y)) ** 2 % 7 % 3]
    columns = {f"x{i}": X[:, i] for i in range(4)} | {"colour": words, "y": y, "tags": [["a"]] * len(y)}
    table = pa.table(columns)
    for part in range(PARTS):
        name = folder / f"part-{part:05}.parquet"
        pyarrow.parquet.write_table(table.slice(part * ROWS, ROWS), name)
    return folder


@pytest.fixture(scope="module")
def frame(spark, parts):
    """The same data as a DataFrame with one partition per file."""
    spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))
    return spark.read.parquet(str(parts))


@pytest.fixture(scope="module")
def local(frame):
    """The coreset built on one machine from the files in Spark's order: the largest first."""
    order = frame.select(F.spark_partition_id().alias("part"), F.input_file_name().alias("file")).distinct()
    files = [row["file"].removeprefix("file://") for row in order.orderBy("part").collect()]
    assert len(files) == PARTS
    return tithe.build(files, label="y", exclude=["tags"], size=200, block_rows=ROWS)


@pytest.fixture(scope="module")
def core(frame):
    return tithe.spark.build(frame, label="y", exclude=["tags"], size=200, block_rows=ROWS)


def test_one_partition_a_file_gives_the_bytes_of_one_machine(frame, local, core):
    assert frame.rdd.getNumPartitions() == PARTS
    assert core.certificate.kl < 1e-3
    assert core == local
    assert core.provenance["passes"] == local.provenance["passes"] <= 10


def test_files_read_by_the_workers_give_the_bytes_of_one_machine(spark, parts):
    settings = {"label": "y", "exclude": ["tags"], "size": 200, "block_rows": ROWS}
    assert tithe.spark.build(str(parts), **settings) == tithe.build(str(parts), **settings)


def test_other_partitions_give_as_good_a_coreset(frame, core):
    # With five skewed partitions, one of them empty, other rows are selected.
    place = F.when(F.col("x0") < -1.5, 0).when(F.col("x0") < 3, 1).otherwise(3)
    skewed = frame.drop("tags").repartitionByRange(5, place).persist()
    other = tithe.spark.build(skewed, label="y", size=200)
    again = tithe.spark.build(skewed, label="y", size=200)
    skewed.unpersist()
    assert other == again
    assert other.certificate.kl < 1e-3
    assert other.provenance["rows"] == PARTS * ROWS
    assert other.provenance["fingerprint"] == core.provenance["fingerprint"]


def test_verify_and_predict(frame, core):
    posterior = core.fit(seed=1)
    found = tithe.spark.verify(posterior, frame, label="y", draws=50)
    assert found.same_data and found.n_rows == PARTS * ROWS and found.kl < 0.01
    with pytest.raises(tithe.OtherDataError):
        tithe.spark.verify(posterior, frame.limit(1000), draws=50)
    rows = frame.where("x0 > 0").limit(100)
    predicted = tithe.spark.predict(posterior, rows).toArrow()
    assert predicted.column_names[-5:] == [
        "tags",
        "probability",
        "probability_sd",
        "probability_lower",
        "probability_upper",
    ]
    expected = posterior.predict_proba(predicted.select(["x0", "x1", "x2", "x3", "colour"]))[:, 1]
    np.testing.assert_array_equal(predicted["probability"].to_numpy(), expected)
    # predict does not change the data frame.
    assert tithe.spark.predict(posterior, rows).columns == predicted.column_names and len(rows.columns) == 7
    with pytest.raises(tithe.ColumnError, match="'x2': is a feature of the posterior"):
        tithe.spark.predict(posterior, frame.drop("x2"))
    with pytest.raises(tithe.SettingError, match="interval"):
        tithe.spark.predict(posterior, frame, interval=90)


def test_vectors_decimals_and_words(spark):
    from pyspark.ml.linalg import Vectors

    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 3))
    y = rng.random(3000) < 1 / (1 + np.exp(-X[:, 0] + X[:, 2]))
    dense = [Vectors.dense(x) if i % 2 else Vectors.sparse(2, [0, 1], x) for i, x in enumerate(X[:, :2].tolist())]
    prices = [decimal.Decimal(f"{x:.4f}") for x in X[:, 2]]
    rows = list(zip(dense, prices, y.tolist(), strict=True))
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import BooleanType, DecimalType, StructType

    schema = StructType().add("v", VectorUDT()).add("price", DecimalType(12, 4)).add("bought", BooleanType())
    plain = spark.createDataFrame(rows, schema).withColumnRenamed("price", "unit `price`, p.a.")
    frame = plain.repartition(2).persist()
    core = tithe.spark.build(frame, label="bought", size=100)
    assert core.coefficients == ["intercept", "v_0", "v_1", "unit `price`, p.a."]
    gone = spark.createDataFrame([(None, decimal.Decimal(1), True)], schema)
    gone = plain.union(gone.withColumnRenamed("price", "unit `price`, p.a."))
    with pytest.raises(tithe.MissingValuesError, match=r"'v_0' .1 missing"):
        tithe.spark.build(gone, label="bought", size=100, persist=True)
    assert tithe.spark.build(gone, label="bought", size=100, exclude=["v"]).n_rows == 3001
    posterior = core.fit(seed=1)
    scored = tithe.spark.predict(posterior, frame.limit(5)).select("v", "probability").collect()
    assert len(scored) == 5 and all(0 < row["probability"] < 1 for row in scored)
    frame.unpersist()


def test_what_cannot_be_used_is_refused_before_anything_runs(spark, frame):
    with pytest.raises(tithe.ColumnError, match=r"'tags'(.|\n)*exclude"):
        tithe.spark.build(frame, label="y")
    dated = frame.drop("tags").withColumn("day", F.lit(datetime.datetime(2020, 1, 1)))
    # Dates are used by their parts.
    core = tithe.spark.build(dated, label="y", size=100)
    assert "day.days" in core.coefficients
    with pytest.raises(tithe.UnknownColumnError, match="did you mean 'y'"):
        tithe.spark.build(frame, label="Y")
    with pytest.raises(tithe.InputTypeError, match="not on a cluster"):
        tithe.spark.build(pa.table({"x": [1.0]}), label="y")
    with pytest.raises(TypeError, match="sizes"):
        tithe.spark.build(frame, label="y", sizes=100)
    with pytest.raises(tithe.NoRowsError):
        tithe.spark.build(frame.drop("tags").where("x0 > 1e9"), label="y")


def test_a_poisoned_partition_names_column_and_row(frame):
    bad = _some_value(frame)
    poisoned = frame.drop("tags").withColumn("x2", F.when(F.col("x1") != bad, F.col("x2")))
    with pytest.raises(tithe.MissingValuesError) as caught:
        tithe.spark.build(poisoned, label="y", size=200)
    text = str(caught.value)
    assert "'x2' (1 missing, the first in row" in text
    assert f"x1 = {bad}, x2 = missing" in text
    assert 'missing="drop"' in text
    assert len(text.splitlines()) < 4
    core = tithe.spark.build(poisoned, label="y", size=200, missing="drop")
    assert core.provenance["rows_dropped"] == 1


def _some_value(frame):
    return frame.where("x0 > 0").select(F.max("x1")).first()[0]


def test_an_executor_that_is_killed_changes_nothing(cluster, frame, core):
    before = cluster.executors()
    assert len(before) == 2
    killed = []

    class Killer(tithe.spark._FrameReader):
        def _outcomes(self, task):
            if not killed:
                killed.append(before[0])
                # In the middle of the pass: the tasks are slow enough to still be running.
                threading.Timer(0.5, os.kill, (before[0], signal.SIGKILL)).start()
                return self._frame.mapInArrow(_slow(task, self._names), tithe.spark._OUTCOME)
            return super()._outcomes(task)

    original = tithe.spark._FrameReader
    tithe.spark._FrameReader = Killer
    try:
        again = tithe.spark.build(frame, label="y", exclude=["tags"], size=200, block_rows=ROWS)
    finally:
        tithe.spark._FrameReader = original
    assert killed and killed[0] not in cluster.executors()
    assert again == core


def _slow(task, names):
    """A slow task as a nested function: it is pickled by value, because the workers do not have this file."""

    def work(batches):
        import time

        import tithe.spark

        time.sleep(0.5)
        yield from tithe.spark._do_on_batches(task, names, batches)

    return work


def test_outcomes_of_many_partitions_are_joined_on_the_workers(frame, monkeypatch):
    plain = tithe.spark.build(frame, label="y", exclude=["tags"], method="uniform", size=100, block_rows=ROWS)
    monkeypatch.setattr(tithe.spark, "JOINED", 3)
    joined = tithe.spark.build(frame, label="y", exclude=["tags"], method="uniform", size=100, block_rows=ROWS)
    np.testing.assert_array_equal(plain.rows, joined.rows)


def test_errors_travel(frame):
    # The workers find an unseen level, and the error is the same as on one machine.
    core = tithe.spark.build(frame.where("colour != 'blue'").drop("tags"), label="y", size=100)
    posterior = core.fit(seed=1)
    with pytest.raises(tithe.ColumnError, match=r"'colour': the level 'blue' in row \d{1,4} "):
        tithe.spark.verify(posterior, frame, force=True)
    assert pickle.loads(pickle.dumps(tithe.ColumnError("a"))).args == ("a",)


def test_a_tree_reads_the_data_once(frame, core):
    settings = {"label": "y", "exclude": ["tags"], "size": 400, "block": 2500}
    tree = tithe.spark.build(frame, strategy="tree", **settings)
    assert tree.n_rows == PARTS * ROWS and len(tree) <= 400
    assert tree.provenance["fingerprint"] == core.provenance["fingerprint"]
    found = tithe.spark.verify(tree.fit(seed=1), frame, draws=100)
    assert found.same_data and found.kl < 0.1, found.kl
    assert tithe.spark.build(frame, strategy="tree", encoding=core, **settings).n_rows == PARTS * ROWS
    with pytest.raises(tithe.SettingError, match="strategy must be passes or tree, but is 'bush'"):
        tithe.spark.build(frame, label="y", strategy="bush")


def test_predict_drops_or_refuses_incomplete_rows_on_request(frame, core):
    posterior = core.fit(seed=1)
    rows = frame.drop("tags").limit(40).withColumn("x2", F.when(F.col("x1") > 0, F.col("x2"))).persist()
    complete = rows.where("x2 is not null").count()
    assert 0 < complete < 40
    found = tithe.spark.predict(posterior, rows).toPandas()
    assert len(found) == 40 and found["probability"].notna().sum() == complete
    assert (found["probability"].isna() == found["x2"].isna()).all()
    assert tithe.spark.predict(posterior, rows, missing="drop").count() == complete
    with pytest.raises(Exception, match="'x2'"):
        tithe.spark.predict(posterior, rows, missing="error").toPandas()
    with pytest.raises(tithe.SettingError, match="missing must be empty, drop or error, but is 'ignore'"):
        tithe.spark.predict(posterior, rows, missing="ignore")
    rows.unpersist()


def test_structured_streaming_takes_each_batch_once(spark, frame, parts, core, tmp_path):
    """The example of the guide, stopped half-way, with a batch that is delivered again."""
    (tmp_path / "in").mkdir()
    files = sorted(parts.iterdir())

    def run(stream):
        rows = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "in"))
        query = (
            rows.drop("tags")
            .writeStream.foreachBatch(tithe.spark.into(stream))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for half in (files[:4], files[4:]):
        for file in half:
            (tmp_path / "in" / file.name).write_bytes(file.read_bytes())
        with tithe.Stream(tmp_path / "state", label="y", size=200, block=4000) as stream:
            run(stream)
    with tithe.Stream(tmp_path / "state", label="y", size=200, block=4000) as stream:
        assert stream.rows == PARTS * ROWS
        # The rows before the last batch are recorded, so it is not added again.
        with pytest.raises(tithe.StateError, match="another query"):
            tithe.spark.into(stream)(frame.drop("tags").limit(10), 0)
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", _query(tmp_path / "state"))
        tithe.spark.into(stream)(frame.drop("tags").limit(10), 3)
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
        assert stream.rows == PARTS * ROWS
        again = stream.snapshot()
    assert again.provenance["fingerprint"] == core.provenance["fingerprint"]


def _query(state):
    return json.loads((state / "spark-batch.json").read_text())["query"]


def test_spark_connect_gives_the_same_bytes(parts, tmp_path):
    """The client is a process of its own; the server's executors are those of a second cluster."""
    script = pathlib.Path(__file__).with_name("connect.py")
    with Standalone(tmp_path / "cluster") as cluster:
        url = cluster.connect()
        for _ in range(300):
            if len(cluster.executors()) == 2:
                break
            time.sleep(0.1)
        words = [sys.executable, "-P", str(script), url, str(parts), str(cluster.executors()[0])]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK")}
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout.endswith("all of it works\n")
