"""Jobs that go on: from a checkpoint or savepoint that was named, or where another program has left them.

A job that is noted in a directory (``high-availability.storageDir``) is taken over by the same program started again,
by a second one that waits, or without the program by `recover`. Flink: JobManagerRunner, JobGraphStore, Dispatcher.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from flinkbuf.checkpoints.ha_protocol import HaPrevious
from flinkbuf.checkpoints.ha_store import HaLease, HaStore
from flinkbuf.checkpoints.locations import child, normalized, parent
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import logger
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig, RestoredCheckpoint
from flinkbuf.runtime.driver.checkpoint_log import log_stop
from flinkbuf.runtime.driver.job_result import JobResult
from flinkbuf.runtime.driver.leadership import Leadership
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.driver.stored_job import DEFAULT_LEASE_TIMEOUT_MS, StoredJob, restored_by, restored_from
from flinkbuf.runtime.driver.target import Target, target_named
from flinkbuf.runtime.graph.program_identity import ProgramIdentity
from flinkbuf.runtime.process.termination import TerminationSettings, the_termination

Serve = Callable[[RunningJob, StoredJob], Callable[[], None]]
CHECKPOINTS: Final = "checkpoints"  # below the directory of a job, where no other one was configured


@dataclass(frozen=True)
class TakenJob:
    """A job that this program holds now.

    Attributes
    ----------
    store : HaStore
    lease : HaLease
    lease_timeout_ms : int
    job_id : str or None
        Of the job as it was before; None: there was none.
    restored : RestoredCheckpoint or None
        The latest checkpoint of that.
    result : JobResult or None
        It had ended for good.
    """

    store: HaStore
    lease: HaLease
    lease_timeout_ms: int
    job_id: str | None
    restored: RestoredCheckpoint | None
    result: JobResult | None

    @classmethod
    def take(
        cls,
        store: HaStore,
        lease_timeout_ms: int,
        is_cancelled: Callable[[], bool] = lambda: False,
        program: ProgramIdentity | None = None,
        falls_back: bool = False,
    ) -> TakenJob | None:
        """Wait until no other program holds the job, and take it; None if the waiting was given up.

        Raises
        ------
        ValueError
            The job was left by another program than `program`.
        """
        _check_program(store, store.peek(), program)  # before waiting for a job that is not this one

        def waiting(text: str) -> None:
            logger.warning("job %r is held by %s: waiting to take it over", store.job_name, text)

        lease = store.acquire(lease_timeout_ms, is_cancelled, waiting)
        if lease is None:
            return None
        try:
            _check_program(store, lease.previous, program)
            return cls._of(store, lease, lease_timeout_ms, falls_back)
        except BaseException:
            lease.release()
            raise

    @classmethod
    def _of(cls, store: HaStore, lease: HaLease, lease_timeout_ms: int, falls_back: bool) -> TakenJob:
        previous, restored = lease.previous, None
        if previous.is_finished:
            return cls(store, lease, lease_timeout_ms, previous.job_id, None, _result_of(previous.result))
        if previous.checkpoint is not None:
            older = [each.path for each in reversed(previous.pointers[:-1])]
            restored = restored_from(previous.checkpoint, older=older, falls_back=falls_back)
            for pointer in previous.pointers:
                if pointer.checkpoint_id > restored.metadata.checkpoint_id:  # what comes next has these numbers
                    lease.remove_checkpoint(pointer.checkpoint_id)
            # Checkpoints of the job are its own; a savepoint that it was about to stop with belongs to the user.
            if not restored.metadata.is_savepoint:
                restored = replace(restored, claim_mode="CLAIM")
        if previous.job_id is not None:
            begins = "what it began with" if restored is None else f"checkpoint {restored.metadata.checkpoint_id}"
            logger.warning("job %r (%s) is taken over and goes on from %s", store.job_name, previous.job_id, begins)
        return cls(store, lease, lease_timeout_ms, previous.job_id, restored, None)

    def leadership(self) -> Leadership:
        """Return the `Leadership` that keeps the job's lease."""
        return Leadership(self.lease, self.lease_timeout_ms)

    def checkpointing(self, config: CheckpointCoordinatorConfig) -> CheckpointCoordinatorConfig:
        """Return the configuration for a job held by this program."""
        directory = config.directory or child(normalized(self.store.path), CHECKPOINTS)
        return replace(config, directory=directory, epoch=self.lease.epoch)


def _check_program(store: HaStore, previous: HaPrevious, program: ProgramIdentity | None) -> None:
    if program is None or not previous.program:
        return
    left_by = ProgramIdentity.of_text(previous.program)
    if left_by.digest == program.digest:
        return
    differs = f"with the operators {left_by.operators}; this one has {program.operators}"
    if left_by.operators == program.operators:
        differs = "whose operators have the same names"
    state = ""
    if previous.checkpoint is not None:
        state = (
            "; if this is a changed version of it, set execution.state-recovery.path to "
            f"{parent(previous.checkpoint)} as well, to begin with its state"
        )
    raise ValueError(
        f"job {store.job_name!r} in {store.path} belongs to another program, {differs}. Give this job a name of its "
        "own (env.execute(name) or pipeline.name), or set another high-availability.cluster-id or "
        f"high-availability.storageDir{state}"
    )


def _result_of(text: str) -> JobResult:
    try:
        return JobResult.of_text(text)
    except CorruptDataError:
        return JobResult("", text)


def recover(
    storage_dir: str,
    cluster_id: str | None = None,
    *,
    falls_back: bool = False,
    serve: Serve | None = None,
) -> list[tuple[str, str]]:
    """Go on with all jobs that were left unfinished, without their programs; return how each has ended.

    Waits for those that other programs still hold, and for the end of all. A job whose record is damaged is named by
    its directory, and keeps no other from going on.

    Parameters
    ----------
    storage_dir : str
        ``high-availability.storageDir`` of the programs.
    cluster_id : str, optional
        Only jobs of this ``high-availability.cluster-id``.
    falls_back : bool
        A job whose newest checkpoint is damaged begins from the newest one that is whole.
    serve : callable, optional
        Given a job that is about to begin, and what was stored of it: has it looked at; returns what ends that.
    """
    found = HaStore.unfinished(storage_dir, cluster_id)
    stores = found.stores
    for path, problem in found.unreadable.items():
        logger.error("the job in %s cannot be gone on with, the others are: %s", path, problem)
    ends: dict[int, str] = {}
    is_over = threading.Event()

    def go_on(index: int, store: HaStore) -> None:
        try:
            ends[index] = _go_on(store, is_over.is_set, falls_back, serve)
        except BaseException as error:
            logger.error("job %r could not be taken over", store.job_name, exc_info=error)
            ends[index] = f"{type(error).__name__}: {error}"

    threads = [
        threading.Thread(target=go_on, args=each, name=f"recover {each[1].job_name}", daemon=True)
        for each in enumerate(stores)
    ]
    for thread in threads:
        thread.start()
    watched = the_termination.watch(TerminationSettings())  # SIGTERM ends the wait; jobs are suspended at the exit
    try:
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.1)
    finally:  # Ctrl-C: what was not begun is not
        is_over.set()
        the_termination.forget(watched)
    unreadable = [(path, f"{type(problem).__name__}: {problem}") for path, problem in found.unreadable.items()]
    return [(store.job_name, ends[index]) for index, store in enumerate(stores)] + unreadable


def _go_on(store: HaStore, is_cancelled: Callable[[], bool], falls_back: bool, serve: Serve | None) -> str:
    taken = TakenJob.take(store, _lease_timeout_ms(store), is_cancelled, falls_back=falls_back)
    if taken is None:
        return "another program holds it"
    if taken.result is not None:
        taken.lease.release()
        return taken.result.status
    ends: list[Callable[[], None]] = []
    try:
        previous = taken.lease.previous
        if previous.job is None:
            raise LookupError(f"job {taken.store.job_name!r} was never begun: start its program again")
        stored = StoredJob.from_bytes(previous.job)
        job = stored_running_job(taken, stored, lambda error: [end() for end in ends])
        if serve is not None:
            ends.append(serve(job, stored))
    except BaseException:
        taken.lease.release()
        raise
    try:
        job.run()
    except Exception as error:
        logger.error("job %r ended with %s", store.job_name, type(error).__name__, exc_info=error)
    log_stop(store.job_name, job.picture.savepoint)
    return job.status.name


def _lease_timeout_ms(store: HaStore) -> int:
    """Return the timeout of the job's own program, which renews its lease several times within that."""
    job = store.peek().job
    return DEFAULT_LEASE_TIMEOUT_MS if job is None else StoredJob.from_bytes(job).lease_timeout_ms


def stored_running_job(
    taken: TakenJob, stored: StoredJob, *on_end: Callable[[BaseException | None], object]
) -> RunningJob:
    """Make the job again from what was stored."""
    leadership = Leadership(taken.lease, stored.lease_timeout_ms)
    return RunningJob(
        stored.graph,
        stored.settings,
        _target_of(stored.target_name),
        restart_strategy=stored.restart_strategy,
        config=stored.config,
        on_end=on_end,
        bundle_fields=stored.bundle_fields,
        job_id=taken.job_id,
        checkpointing=taken.checkpointing(stored.checkpointing),
        restored=taken.restored or restored_by(stored.recovery),
        leadership=leadership,
    )


def _target_of(name: str) -> Target:
    if name == "spark":
        from pyspark.sql import SparkSession  # started as Spark's own tools would: the session is the program's

        SparkSession.builder.getOrCreate()
    return target_named(name)
