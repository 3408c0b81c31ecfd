"""Dask and Ray on real local clusters: the bytes of one machine, errors of the data, many partitions."""

import os

import numpy as np
import pandas as pd
import pytest

import tithe

PARTS, ROWS = 5, 4_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A directory of part files, each as long as a block."""
    folder = tmp_path_factory.mktemp("parts")
    for part in range(PARTS):
        tithe.generate("mixture", ROWS, seed=part, path=folder / f"part-{part}.parquet")
    return folder


@pytest.fixture(scope="module")
def expected(files):
    """What one machine builds from the files."""
    return tithe.build(files, label="y", size=300, block_rows=ROWS)


@pytest.fixture(scope="module")
def dask_cluster():
    """Two worker processes of Dask."""
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("dask.dataframe")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


@pytest.fixture(scope="module")
def ray_cluster(tmp_path_factory):
    """A local cluster of Ray with two cores."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    # Ray's workers import from the current directory first, which has the package's sources.
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("ray"))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()
    os.chdir(before)


def frames(files):
    return [pd.read_parquet(path) for path in sorted(files.glob("*.parquet"))]


def test_dask_gives_the_bytes_of_one_machine(dask_cluster, files, expected):
    import dask.dataframe as dd

    data = dd.read_parquet(files, split_row_groups=False)
    assert data.npartitions == PARTS
    core = tithe.dask.build(data, label="y", size=300, block_rows=ROWS)
    assert core == expected
    assert tithe.dask.build(data, label="y", size=300, block_rows=ROWS, persist=True) == expected
    posterior = core.fit(seed=1)
    assert tithe.dask.verify(posterior, data).verdict == "indistinguishable"
    assert tithe.dask.verify(posterior, data).kl == pytest.approx(posterior.verify(files).kl, rel=1e-9)


def test_ray_gives_the_bytes_of_one_machine(ray_cluster, files, expected):
    data = ray_cluster.data.from_pandas(frames(files))
    core = tithe.ray.build(data, label="y", size=300, block_rows=ROWS)
    assert core == expected
    posterior = core.fit(seed=1)
    assert tithe.ray.verify(posterior, data).kl == pytest.approx(posterior.verify(files).kl, rel=1e-9)
    read = ray_cluster.data.read_parquet(str(files)).filter(expr="x1 > 0")
    assert tithe.ray.build(read, label="y", size=300).n_rows == sum((frame.x1 > 0).sum() for frame in frames(files))


def test_text_and_many_partitions(files):
    import dask
    import dask.dataframe as dd

    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": generator.integers(18, 80, 6_000),
            "city": generator.choice(["Rome", "Oslo"], 6_000),
            "bought": generator.random(6_000) < 0.4,
        }
    )
    with dask.config.set(scheduler="synchronous"):
        data = dd.from_pandas(frame, npartitions=150)
        core = tithe.dask.build(data, label="bought", size=200)
    assert core.n_rows == 6_000
    assert core.coefficients == ["intercept", "age", "city=Rome"] or core.coefficients == [
        "intercept",
        "age",
        "city=Oslo",
    ]
    whole = tithe.build(frame, label="bought", size=200).fit(seed=1)
    assert np.allclose(core.fit(seed=1).mean, whole.mean, atol=4 * whole.sd.max() / 50)


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_an_error_in_the_data_names_the_column(engine, request, files):
    cluster = request.getfixturevalue(f"{engine}_cluster")
    parts = frames(files)
    parts[3].loc[7, "x2"] = np.nan
    parts[1].loc[5, "x4"] = np.inf
    if engine == "dask":
        import dask.dataframe as dd

        data = dd.concat([dd.from_pandas(part, npartitions=1) for part in parts])
    else:
        data = cluster.data.from_pandas(parts)
    build = getattr(tithe, engine).build
    with pytest.raises(tithe.MissingValuesError, match=r"'x2'|'x4'"):
        build(data, label="y", size=300)
    core = build(data, label="y", size=300, missing="drop")
    assert core.provenance["rows_dropped"] == 2
    with pytest.raises(tithe.UnknownColumnError, match="clicked"):
        build(data, label="clicked")
    with pytest.raises(tithe.InputTypeError, match="must be a"):
        build(parts[0], label="y")
