"""What works with Spark Connect: run by test_spark.py in a process of its own, as a session is either remote or not.

python connect.py sc://HOST:PORT FOLDER [PROCESS TO KILL]
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import threading

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tithe
import tithe.spark

SETTINGS = {"label": "y", "exclude": ["tags"], "size": 200, "block_rows": 5000}


def main(url: str, folder: str, executor: int) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    frame = spark.read.parquet(folder)
    order = frame.select(F.spark_partition_id().alias("part"), F.input_file_name().alias("file")).distinct()
    files = [row["file"].removeprefix("file://") for row in order.orderBy("part").collect()]
    local = tithe.build(files, **SETTINGS)
    assert tithe.spark._count_partitions(frame) == len(files) == 8

    assert tithe.spark.build(frame, **SETTINGS) == local
    assert tithe.spark.build(frame, persist=True, **SETTINGS) == local
    assert tithe.spark.build(folder, **SETTINGS) == tithe.build(folder, **SETTINGS)
    tree = tithe.spark.build(frame, strategy="tree", label="y", exclude=["tags"], size=400, block=2500)
    assert tree.n_rows == local.n_rows and tree.provenance["fingerprint"] == local.provenance["fingerprint"]

    posterior = local.fit(seed=1)
    found = tithe.spark.verify(posterior, frame, draws=50)
    assert found.same_data and found.kl < 0.01
    rows = frame.where("x0 > 0").limit(100).withColumn("x1", F.when(F.col("x2") > 0, F.col("x1")))
    predicted = tithe.spark.predict(posterior, rows).toPandas()
    expected = posterior.predict_proba(predicted[["x0", "x1", "x2", "x3", "colour"]])[:, 1]
    np.testing.assert_array_equal(predicted["probability"], expected)
    assert 0 < predicted["probability"].isna().sum() < len(predicted)

    poisoned = frame.drop("tags").withColumn("x2", F.when(F.col("x0") < 1, F.col("x2")))
    with pytest.raises(tithe.MissingValuesError, match="'x2'"):
        tithe.spark.build(poisoned, label="y", size=200)

    batches = spark.readStream.schema(frame.schema).parquet(folder).drop("tags")
    query = batches.writeStream.foreachBatch(tithe.spark.into(tithe.Stream(label="y"))).trigger(availableNow=True)
    with pytest.raises(Exception, match="foreachBatch runs on the server"):
        query.start().awaitTermination()

    if executor:
        threading.Timer(0.3, os.kill, (executor, signal.SIGKILL)).start()
        assert tithe.spark.build(frame, **SETTINGS) == local
        assert not pathlib.Path(f"/proc/{executor}").exists()
    spark.stop()
    print("all of it works")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
