"""What each task of a barrier stage sees to before it meets the others, in jobs and in pipelined exchanges alike."""

from __future__ import annotations

from flinkbuf.config import NetworkConfig
from flinkbuf.errors import PeerFailedError

CONNECT_TIMEOUT_S = 30  # to another task: Flink's 120 are long for a stage whose tasks all run
_IN_PART = "again, having kept the output of the others"


def check_all_run(task_count: int, tasks: str, work: str, where: str = "") -> None:
    """Refuse to run if Spark runs only some tasks of the stage.

    Where a task succeeds at the moment when another fails, or an executor is lost with some of the shuffle's files,
    Spark starts the stage again without those whose output it has. A task that fails has it drop them all, so the
    attempt after this one is whole.

    Parameters
    ----------
    task_count : int
        Tasks of the whole stage.
    tasks, work : str
        What the error calls all of them, and what they do together.
    where : str, optional
        What it begins with.

    Raises
    ------
    PeerFailedError
        If there are others.
    """
    from pyspark import BarrierTaskContext

    count = len(BarrierTaskContext.get().getTaskInfos())
    if count != task_count:
        raise PeerFailedError(
            f"{where}Spark has started {count} of {tasks} {_IN_PART}; {work} is computed whole or not at all. Spark "
            "starts all of them after this failure, within spark.stage.maxConsecutiveAttempts"
        )


def is_refused_part(reason: str) -> bool:
    """Return whether `check_all_run` is why a task has failed, so that no function of a user has run in it."""
    return _IN_PART in reason


def data_plane(config: NetworkConfig | None, secret: bytes) -> NetworkConfig:
    """Return how the tasks send each other records."""
    config = config or NetworkConfig(netty_client_connect_timeout_s=CONNECT_TIMEOUT_S)
    # The environment lives no longer than the task, and neither do its connections.
    return config.replace(tcp_connection_enable_reuse_across_jobs=False, auth=config.auth or secret)
