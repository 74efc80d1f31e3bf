"""The demo's stream once more, with checkpoints, and one of its own workers is killed while it runs.

Results go to files, whose parts count when the checkpoint behind them is complete: what is in them afterwards is to be
what a run without a kill found.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from flinkbuf.common import Configuration
from flinkbuf.common.job_client import JobClient
from flinkbuf.common.restart_strategy import RestartStrategies
from flinkbuf.common.serialization import Encoder
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.connectors.file_system import FileSink
from flinkbuf.demo import stream
from flinkbuf.demo.stream import Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHECKPOINT_EVERY_MS = 250
CHECKPOINTS_BEFORE = 3  # complete ones before the kill
RESTART_DELAY_MS = 100
LOOK_EVERY_S = 0.01


@dataclass
class KillOutcome:
    """What a run with a kill took, and whether it found the same.

    Attributes
    ----------
    process_id : int
        Who was killed; 0 if the job was done before.
    after : float
        Seconds from the start of the job until the kill.
    checkpoint : int
        Which one the job went on from; 0: none, it began anew.
    recovery : float
        Seconds from the kill until all tasks were running again.
    seconds : float
        The whole run.
    checkpoints : int
        How many were complete in the end.
    is_equal : bool
        Whether its files hold what the other run found.
    """

    process_id: int = 0
    after: float = 0.0
    checkpoint: int = 0
    recovery: float = 0.0
    seconds: float = 0.0
    checkpoints: int = 0
    is_equal: bool = False


def run_and_kill(flights: DataFrame, cores: int, expected: list[Result]) -> KillOutcome:
    """Run the stream with checkpoints, kill one of its workers, and compare what it wrote with `expected`."""
    settings = Configuration().set_string("execution.target", "spark")
    environment = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(cores)
    environment.enable_checkpointing(CHECKPOINT_EVERY_MS)
    environment.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, RESTART_DELAY_MS))
    with TemporaryDirectory() as folder:
        sink = FileSink.for_row_format(folder, Encoder(_line)).build()
        stream.results_of(environment.from_data_frame(flights)).sink_to(sink)
        started = time.perf_counter()
        client = environment.execute_async("a year of flights, and a kill")
        outcome = _kill(client, started)
        client.get_job_execution_result().result()
        outcome.seconds = time.perf_counter() - started
        outcome.is_equal = sorted(_written(Path(folder))) == sorted(expected)
    outcome.checkpoints = client.details()["checkpoints"]["counts"]["completed"]
    return outcome


def _kill(client: JobClient, started: float) -> KillOutcome:
    """Wait for the first checkpoints, end a worker, and see the job go on."""
    result = client.get_job_execution_result()
    while not result.done():
        details = client.details()
        workers = [manager["process_id"] for manager in details["taskmanagers"] if manager["process_id"] != os.getpid()]
        if workers and details["checkpoints"]["counts"]["completed"] >= CHECKPOINTS_BEFORE:
            os.kill(workers[-1], signal.SIGKILL)
            killed = time.perf_counter()
            checkpoint = _until_running_again(client)
            return KillOutcome(workers[-1], killed - started, checkpoint, time.perf_counter() - killed)
        time.sleep(LOOK_EVERY_S)
    return KillOutcome()


def _until_running_again(client: JobClient) -> int:
    """Return the checkpoint that the job went on from, when all of its tasks run again."""
    result = client.get_job_execution_result()
    while True:
        details = client.details()
        is_running = all(vertex["status"] in ("RUNNING", "FINISHED") for vertex in details["vertices"])
        if result.done() or (details["restarts"] and is_running):
            restored = details["checkpoints"]["latest"]["restored"]
            return restored["id"] if restored else 0
        time.sleep(LOOK_EVERY_S)


def _line(result: Result) -> bytes:
    return json.dumps(list(result)).encode() + b"\n"


def _written(folder: Path) -> list[Result]:
    """Read what counts: parts that are hidden do not."""
    parts = [path for path in folder.rglob("part-*") if path.is_file()]
    return [tuple(json.loads(line)) for path in parts for line in path.read_text("utf-8").splitlines()]
