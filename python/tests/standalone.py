"""A real Spark cluster on this machine: a master and workers as separate processes, on loopback."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pyspark
from pyspark.sql import SparkSession

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_SUBMIT = "org.apache.spark.deploy.SparkSubmit"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Standalone:
    """A master and several workers with one core each; a context manager, so that no process remains."""

    def __init__(self, folder: pathlib.Path, workers: int = 2, memory: str = "1g") -> None:
        self.folder, self._workers, self._memory = folder, workers, memory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def _start(self, name: str, main: str, *words: str) -> None:
        self._run(name, main, "--host", "127.0.0.1", "--webui-port", "0", *words)

    def _run(self, name: str, main: str, *words: str) -> None:
        home = pathlib.Path(pyspark.__file__).parent
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_DAEMON_MEMORY": "768m" if main == _SUBMIT else "256m",
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            command = [str(home / "bin/spark-class"), main, *words]
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(process)

    def __enter__(self) -> Standalone:
        self.folder.mkdir(parents=True, exist_ok=True)
        port = _free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("master", _MASTER, "--port", str(port))
        self._wait_for("master", "Starting Spark master", port)
        for number in range(self._workers):
            limits = ["--cores", "1", "--memory", self._memory, "--work-dir", str(self.folder / f"work{number}")]
            self._start(f"worker{number}", _WORKER, *limits, self.url)
        for number in range(self._workers):
            self._wait_for(f"worker{number}", "Successfully registered", None)
        return self

    def _wait_for(self, name: str, words: str, port: int | None) -> None:
        log = self.folder / f"{name}.log"
        for _ in range(600):
            if words in log.read_text(errors="replace") and (port is None or self._listens(port)):
                return
            time.sleep(0.1)
        raise RuntimeError(f"the {name} did not start:\n{log.read_text(errors='replace')[-2000:]}")

    @staticmethod
    def _listens(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def session(self, **settings: str) -> SparkSession:
        """Start a session on the cluster."""
        # The executors run the Python that the driver names.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        builder = SparkSession.builder.master(self.url).appName("tithe")
        standard = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "600m",
            "spark.local.dir": str(self.folder / "scratch"),
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
        }
        for key, value in {**standard, **settings}.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session

    def connect(self) -> str:
        """Start a Spark Connect server whose executors are this cluster's; returns its address."""
        port = _free_port()
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "600m",
            "spark.local.dir": str(self.folder / "scratch"),
            "spark.sql.artifact.isolation.enabled": "false",
            "spark.sql.files.openCostInBytes": str(1 << 30),
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
        }
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        self._run("connect", _SUBMIT, "--master", self.url, "--class", _CONNECT, *words, "spark-internal")
        self._wait_for("connect", "Spark Connect server started", port)
        return f"sc://127.0.0.1:{port}"

    def executors(self) -> list[int]:
        """Return the process ids of the executors."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and self.url.encode() not in words:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in self._workers_ids():
                    found.append(int(process.name))
        return sorted(found)

    def _workers_ids(self) -> list[int]:
        # spark-class replaces itself with Java.
        return [process.pid for process in self._processes[1:]]

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
