"""Spark under failures: a driver on local-cluster, and jobs whose executors or shuffle files vanish half-way.

A test file has a `FailureDriver`: a process with a SparkContext of its own, which serves one case after another, since
its start costs ten seconds. A case is a function of a test module, called there with a `Failures`; it says what is
computed, and `Failures.run` what happens to it meanwhile:

    def keyed(failures):
        moved = fb.exchange(failures.records(), 0, type="key bigint, number bigint", num_partitions=6)
        return failures.run(lambda signs: moved.mapPartitions(signs.results).collect(), "kill", after=2)

    outcome = driver.call(keyed)
    assert outcome.rows == EXPECTED or "indeterminate" in outcome.error and outcome.seconds < 10

The first `after` of the tasks that call `results` come to their end; the others wait until the disturbance has
happened. From then on the upstream of `Failures.records` and `Failures.rows` gives its records in another order, as
Spark may bring them after any shuffle.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2]
PATIENCE_S = 300.0  # a busy machine is no failure
LOOK_S = 0.02
COUNT = 20_000
KEYS = 97
ROWS = "key bigint, number bigint"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.deploy.maxExecutorRetries": "-1",  # else the tenth executor that is killed was the last
    "spark.shuffle.io.maxRetries": "1",  # the executor that is asked is dead
    "spark.shuffle.io.retryWait": "100ms",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.liveUpdate.period": "0",  # the driver looks at how many tasks have ended
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.quantile": "0.1",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "2",
    "spark.dynamicAllocation.maxExecutors": "2",
}


@dataclass(frozen=True)
class Outcome:
    """What became of a job: its rows, sorted, or the error that it ended with.

    Attributes
    ----------
    rows : list, optional
        None: it failed.
    error : str
        The whole text of its error.
    seconds : float
        From the disturbance to the end.
    """

    rows: list[Any] | None
    error: str = ""
    seconds: float = 0.0


def expected() -> list[list[int]]:
    """Return the rows of `Failures.records` and `Failures.rows`, sorted."""
    return sorted([number % KEYS, number] for number in range(COUNT))


# ---- in the test


class FailureDriver:
    """A process with a SparkContext on ``local-cluster[2,1,800]``, which computes the cases that it is given.

    Parameters
    ----------
    **settings : str
        Of Spark, beside `SETTINGS`, with ``_`` for ``.``: ``spark_speculation="true"``.
    """

    def __init__(self, **settings: str) -> None:
        import pyspark
        from support.programs.spark_driver import driver_environment

        self._folder = tempfile.mkdtemp(prefix="flinkbuf-failures-")
        environment = driver_environment(SPARK_HOME=str(Path(pyspark.__file__).parent))
        paths = [environment["PYTHONPATH"], str(TESTS), str(TESTS / "spark")]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        self._log = Path(self._folder, "driver.log").open("w+")  # noqa: SIM115  # closed in close()
        chosen = {name.replace("_", "."): value for name, value in settings.items()}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from support.faults.spark_failures import serve; serve()"],
            env=environment,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._say({"folder": self._folder, "settings": chosen})

    def call(self, case: Callable[..., Outcome], **arguments: Any) -> Outcome:
        """Compute a case, a function of a module below ``tests/spark``, called with a `Failures` and the arguments."""
        self._say({"module": case.__module__.rpartition(".")[2], "case": case.__name__, "arguments": arguments})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("outcome "):
                answer = json.loads(line.removeprefix("outcome "))
                if "failed" in answer:
                    raise AssertionError(answer["failed"])
                return Outcome(**answer)
        self._log.seek(0)
        raise AssertionError(f"the driver has died:\n{self._log.read()[-4000:]}")

    def close(self) -> None:
        """End the process and remove its files."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            for pid in [*descendants(self._process.pid), self._process.pid]:
                os.kill(pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _say(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


# ---- in the driver


def serve() -> None:
    """Compute what standard input asks for, one line each, until it ends."""
    import importlib

    from pyspark.sql import SparkSession

    first = json.loads(sys.stdin.readline())
    folder = Path(first["folder"])
    builder = SparkSession.builder.master("local-cluster[2,1,800]").appName("flinkbuf failures")
    for name, value in {**SETTINGS, "spark.local.dir": str(folder / "local"), **first["settings"]}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        try:
            case = getattr(importlib.import_module(asked["module"]), asked["case"])
            answer = asdict(case(Failures(spark, folder, number), **asked["arguments"]))
        except BaseException:
            answer = {"failed": traceback.format_exc()}
        print("outcome", json.dumps(answer), flush=True)
    spark.stop()


class Failures:
    """What a case has: a session, upstream data, and a way to run a job that is disturbed.

    Attributes
    ----------
    spark, sc
        The session and its context.
    signs : Signs
        What the tasks of this case know of the disturbance.
    """

    def __init__(self, spark: Any, folder: Path, number: int) -> None:
        self.spark, self.sc = spark, spark.sparkContext
        self._folder = folder
        self.signs = Signs(str(folder / f"case-{number}"))
        Path(self.signs.folder).mkdir()
        self._random = random.Random(number)
        wait_for(self._is_whole, "two executors with a slot each")

    def records(self, partitions: int = 4) -> Any:
        """Return an RDD of (key, number) behind a shuffle, in another order once the disturbance has happened."""
        numbers = self.sc.parallelize(range(COUNT), partitions).map(lambda number: (number % KEYS, number))
        return numbers.partitionBy(partitions).mapPartitions(self.signs.in_some_order)

    def rows(self, partitions: int = 4) -> Any:
        """Return a DataFrame of the same."""
        rows = self.spark.range(0, COUNT, 1, partitions).selectExpr(f"id % {KEYS} AS key", "id AS number")
        return rows.repartition(partitions, "key").mapInArrow(self.signs.batches_in_some_order, ROWS)

    def run(self, job: Callable[[Signs], Iterable[Any]], disturbance: str, after: int = 2) -> Outcome:
        """Run a job that collects rows, and disturb it when `after` of its result tasks have ended.

        Parameters
        ----------
        job : callable
            Its result tasks go through `Signs.results` or `Signs.result_batches`.
        disturbance : {"kill", "delete", "reorder", "none"}
            An executor is killed; files of its shuffles are deleted, of one map task each; nothing but another order.
        after : int
            0: when the first task has come to its results, and waits; as in a barrier stage, whose tasks all run.
        """
        self.signs.allow(after)
        happened: list[float] = []
        over = threading.Event()
        watcher = threading.Thread(target=self._disturb, args=(disturbance, after, happened, over))
        watcher.start()
        try:
            rows, error = sorted(list(map(_plain, row)) for row in job(self.signs)), ""
        except Exception as failure:
            rows, error = None, f"{type(failure).__name__}: {failure}"
        ended = time.monotonic()
        over.set()
        watcher.join()
        assert happened, f"the job ended before it was disturbed: {error or 'well'}"
        return Outcome(rows, error, ended - happened[0])

    def _disturb(self, disturbance: str, after: int, happened: list[float], over: threading.Event) -> None:
        try:
            wait_for(lambda: over.is_set() or self._is_due(after), "the result tasks")
            if over.is_set():
                return
            if disturbance == "kill":
                victim = self._random.choice(executors())
                self.signs.will_happen()
                happened.append(time.monotonic())
                os.kill(victim, signal.SIGKILL)
            else:
                if disturbance == "delete":
                    self._delete_shuffle_files()
                self.signs.will_happen()
                happened.append(time.monotonic())
        except BaseException:
            traceback.print_exc()
            self.signs.will_happen()

    def _is_whole(self) -> bool:
        """Whether both executors are there, so that each of them gets some of the tasks."""
        scala: Any = self.sc._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return len(executors()) == 2 and scala.maxNumConcurrentTasks(profile) == 2

    def _is_due(self, after: int) -> bool:
        """Whether so many result tasks have ended, as Spark knows it, and another one waits."""
        if self.signs.count("ended") < after or self.signs.count("waits") < 1:
            return False
        tracker = self.sc.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return any(info is not None and info.numCompletedTasks >= after for info in infos)

    def _delete_shuffle_files(self) -> None:
        """Delete what one map task of each shuffle has written, of those whose files are there."""
        for path in (self._folder / "local").rglob("shuffle_*_*_0.*"):
            map_id = int(path.name.split("_")[2])
            if map_id % 2 == 0:
                path.unlink(missing_ok=True)


def executors() -> list[int]:
    """Return the processes of the executors of this driver."""
    return [pid for pid in descendants(os.getpid()) if "CoarseGrainedExecutorBackend" in _command(pid)]


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue  # it has ended meanwhile
            parents.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, float, bool, type(None))) else int(value)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Return when a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S} s"
        time.sleep(LOOK_S)


# ---- in the tasks


@dataclass(frozen=True)
class Signs:
    """Files in a folder, by which the tasks of a case and its driver tell each other how far they are."""

    folder: str

    @property
    def has_happened(self) -> bool:
        """Whether the disturbance has, or is about to."""
        return os.path.exists(os.path.join(self.folder, "happened"))

    def will_happen(self) -> None:
        """Say that it does."""
        self._leave("happened")

    def count(self, kind: str) -> int:
        """Return how many signs of a kind tasks have left."""
        return sum(name.startswith(kind) for name in os.listdir(self.folder))

    def allow(self, count: int) -> None:
        """Let so many result tasks come to their end before the disturbance."""
        for number in range(count):
            self._leave(f"allowed-{number}")

    def in_some_order(self, records: Iterable[Any]) -> Iterator[Any]:
        """Give the records sorted, and the other way round where the disturbance has happened.

        A copy of a task that Spark started for its slowness gives them the other way round, too.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        is_other = self.has_happened or context.attemptNumber() > 0
        yield from sorted(records, reverse=is_other)

    def batches_in_some_order(self, batches: Iterable[Any]) -> Iterator[Any]:
        """As `in_some_order`, for rows in Arrow batches."""
        import pyarrow as pa

        rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        columns = list(zip(*self.in_some_order(rows), strict=True)) or [(), ()]
        yield pa.record_batch([pa.array(column, pa.int64()) for column in columns], ["key", "number"])

    def results(self, records: Iterable[Any]) -> Iterator[Any]:
        """Give the records, now or when the disturbance has happened."""
        records = iter(records)
        first = next(records, None)  # those of a pipelined exchange run from here on
        is_allowed = self._take()
        if not is_allowed:
            self._leave(f"waits-{os.getpid()}-{time.monotonic_ns()}")
            wait_for(lambda: self.has_happened, "the disturbance")
        if first is not None:
            yield first
        yield from records
        if is_allowed:
            self._leave(f"ended-{os.getpid()}-{time.monotonic_ns()}")

    result_batches = results  # batches are given on as records are

    def _take(self) -> bool:
        for name in os.listdir(self.folder):
            if name.startswith("allowed"):
                try:
                    os.unlink(os.path.join(self.folder, name))
                except FileNotFoundError:
                    continue  # another task was quicker
                return True
        return False

    def _leave(self, name: str) -> None:
        Path(self.folder, name).touch()
