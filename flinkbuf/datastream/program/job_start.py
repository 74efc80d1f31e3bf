"""From a program to a job: where it runs, what it begins with, and whether another program has left it.

Flink: StreamExecutionEnvironment.executeAsync, SavepointRestoreSettings, AbstractJobClusterExecutor.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from flinkbuf.checkpoints.storage import location_of
from flinkbuf.common import checkpoint_options, job_options, options
from flinkbuf.common.checkpoint_options import HighAvailability
from flinkbuf.common.configuration import Configuration
from flinkbuf.common.web_options import web_settings_of
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.driver.job_files import JobFiles
from flinkbuf.runtime.driver.running_job import RunningJob
from flinkbuf.runtime.driver.stored_job import StoredJob, restored_by
from flinkbuf.runtime.driver.target import Target, target_named
from flinkbuf.runtime.graph.job_graph import JobGraph, build_job_graph
from flinkbuf.runtime.graph.operator_ids import operator_ids
from flinkbuf.runtime.graph.program_identity import ProgramIdentity, text_of_program
from flinkbuf.runtime.graph.restored_graph import adopt_max_parallelism
from flinkbuf.runtime.graph.stream_graph import GraphSettings, StreamGraph, build_stream_graph
from flinkbuf.runtime.graph.transformation import OperatorTransformation
from flinkbuf.runtime.master.restart_strategy import NoRestart
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.time.clock import Clock

if TYPE_CHECKING:
    from flinkbuf.runtime.driver.ended_job import EndedJob
    from flinkbuf.runtime.driver.recovery import TakenJob
    from flinkbuf.runtime.driver.rescalable_job import RescalableJob

    ProgramJob = RunningJob | RescalableJob | EndedJob


@dataclass(frozen=True)
class JobStart:
    """All that a job is made of.

    Attributes
    ----------
    stored : StoredJob
    target : Target
    restored : RestoredCheckpoint or None
        What it begins with.
    taken : TakenJob or None
        It is noted for other programs, and perhaps taken over from one.
    graph_at : callable
        Given a parallelism and what it begins with; returns the graph of the same program.
    program : str
        What tells the program from others, if it is noted for them.
    place : ExecutionPlace or None
        Under which name it is noted.
    """

    stored: StoredJob
    target: Target
    restored: RestoredCheckpoint | None
    taken: TakenJob | None
    graph_at: Callable[[int, RestoredCheckpoint | None], JobGraph]
    program: str = ""
    place: ExecutionPlace | None = None

    def _run(
        self,
        clock: Clock | None,
        on_end: list[Callable[[BaseException | None], None]],
        graph: JobGraph | None = None,
        restored: RestoredCheckpoint | None = None,
        job_id: str | None = None,
    ) -> RunningJob:
        """One run of a job that nobody else can take over."""
        stored = self.stored
        return RunningJob(
            graph or stored.graph,
            stored.settings,
            self.target,
            clock=clock,
            restart_strategy=stored.restart_strategy,
            config=stored.config,
            on_end=on_end,
            bundle_fields=stored.bundle_fields,
            job_id=job_id,
            checkpointing=stored.checkpointing,
            restored=restored or self.restored,
        )

    def make(
        self,
        *,
        clock: Clock | None,
        on_end: Iterable[Callable[[BaseException | None], None]],
        is_rescalable: bool = False,
    ) -> ProgramJob:
        """Make the job; it is not started yet. A job that had ended for good is not run again.

        With `is_rescalable` its parallelism can be changed, unless it is a batch job, or noted for other programs.
        """
        if is_rescalable and self.taken is None and not self.stored.settings.is_batch:
            from flinkbuf.runtime.driver.rescalable_job import RescalableJob

            directory = self.stored.checkpointing.savepoint_directory
            return RescalableJob(partial(self._run, clock), self.graph_at, on_end, directory)
        stored, taken = self.stored, self.taken
        if taken is not None and taken.result is not None:
            from flinkbuf.runtime.driver.ended_job import EndedJob

            taken.lease.release()
            return EndedJob(stored.graph, taken.result, taken.store.path, on_end)
        try:
            job = RunningJob(
                stored.graph,
                stored.settings,
                self.target,
                clock=clock,
                restart_strategy=stored.restart_strategy,
                config=stored.config,
                on_end=on_end,
                bundle_fields=stored.bundle_fields,
                job_id=None if taken is None else taken.job_id,
                checkpointing=stored.checkpointing if taken is None else taken.checkpointing(stored.checkpointing),
                restored=self.restored,
                leadership=None if taken is None else taken.leadership(),
            )
            if taken is not None:  # whoever finds it noted can go on with it: before anything of it runs
                taken.lease.store_job(job.job_id, stored.to_bytes(), self.program)
        except BaseException:
            if self.place is not None:
                self.place.give_back()
            if taken is not None:
                taken.lease.release()
            raise
        return job


class Program(Protocol):
    """A StreamExecutionEnvironment, as the start of its job asks it."""

    _configuration: Configuration
    _operators: list[OperatorTransformation]

    def _stream_graph(self, job_name: str | None, runs_in_program: bool) -> StreamGraph: ...

    def _execution_settings(self, is_batch: bool = False) -> ExecutionSettings: ...

    def _master_config(self, subtask_count: int = 0) -> JobMasterConfig: ...

    def _bundle_fields(self, files: JobFiles) -> dict[str, object]: ...

    def _shown_parameters(self) -> dict[str, str]: ...


def start_of(
    env: Program,
    job_name: str | None,
    files: JobFiles,
    target_name: str | None,
    *,
    can_be_taken_over: bool,
) -> JobStart:
    """Look at what the program's configuration says of its start; waits where another program holds the job.

    Parameters
    ----------
    env : StreamExecutionEnvironment
    job_name : str or None
    files : JobFiles
    target_name : str or None
        Where it runs; what the configuration says if None.
    can_be_taken_over : bool
        Whether the job is noted for other programs, if that is configured.

    Raises
    ------
    FileNotFoundError, CorruptDataError
        What it is to begin with is not there, or damaged.
    ValueError
        It does not fit the program.
    """
    configuration = env._configuration
    target = target_named(target_name or job_options.target_name(configuration))
    stream_graph = env._stream_graph(job_name, target.is_in_process)
    availability = checkpoint_options.high_availability_of(configuration) if can_be_taken_over else None
    place, program, taken = None, None, None
    if availability is not None:
        place = ExecutionPlace.next(availability, stream_graph.settings.job_name)
        program = _identity(stream_graph)
    try:
        taken = None if place is None else _take(place, program)
        restored = _restored(env, taken, stream_graph.settings.is_batch)
        if restored is not None:
            adopt_max_parallelism(stream_graph, restored.metadata)
        stored = _stored(env, build_job_graph(stream_graph), files, target, availability)
    except BaseException:
        if place is not None:
            place.give_back()
        if taken is not None:
            taken.lease.release()
        raise
    graph_at = partial(_graph_at, list(env._operators), stream_graph.settings, operator_ids(stream_graph))
    return JobStart(stored, target, restored, taken, graph_at, "" if program is None else program.to_text(), place)


def _graph_at(
    operators: list[OperatorTransformation],
    settings: GraphSettings,
    ids: dict[int, str],
    parallelism: int,
    restored: RestoredCheckpoint | None,
) -> JobGraph:
    """Return the graph of a program with another parallelism, its operators under the ids that they have."""
    stream_graph = build_stream_graph(
        operators, replace(settings, parallelism=parallelism, rescaled_from=settings.parallelism)
    )
    stream_graph.known_ids = ids  # they follow from what is chained, and that may be other operators now
    if restored is not None:
        adopt_max_parallelism(stream_graph, restored.metadata)
    return build_job_graph(stream_graph)


@dataclass(frozen=True)
class ExecutionPlace:
    """Which job of a name an execution is: a program that is started again runs them in the same order.

    Attributes
    ----------
    availability : HighAvailability
    job_name : str
    number : int
        From 1, for each name in each cluster and directory.
    """

    availability: HighAvailability
    job_name: str
    number: int

    @classmethod
    def next(cls, availability: HighAvailability, job_name: str) -> ExecutionPlace:
        """Return the place of one more execution in this process."""
        key = availability.directory, availability.cluster_id, job_name
        with _counting:
            _executions[key] += 1
            return cls(availability, job_name, _executions[key])

    def give_back(self) -> None:
        """It was not begun: the next one, tried again perhaps, is in its place."""
        key = self.availability.directory, self.availability.cluster_id, self.job_name
        with _counting:
            if _executions[key] == self.number:
                _executions[key] -= 1

    @property
    def noted_as(self) -> str:
        """The name under which other programs find the job."""
        return self.job_name if self.number == 1 else f"{self.job_name} #{self.number}"


_executions: Counter[tuple[str, str, str]] = Counter()
_counting = threading.Lock()


def _identity(graph: StreamGraph) -> ProgramIdentity:
    """A job without a name is known by the whole text of its program, too: many programs have such a job."""
    is_named = graph.settings.job_name not in (options.DEFAULT_JOB_NAME, options.DEFAULT_BATCH_JOB_NAME)
    return ProgramIdentity.of(graph, "" if is_named else text_of_program())


def _take(place: ExecutionPlace, program: ProgramIdentity | None) -> TakenJob:
    from flinkbuf.checkpoints.ha_store import HaStore
    from flinkbuf.runtime.driver.recovery import TakenJob

    availability = place.availability
    store = HaStore(availability.directory, availability.cluster_id, place.noted_as)
    taken = TakenJob.take(store, availability.lease_timeout_ms, program=program, falls_back=availability.falls_back)
    assert taken is not None, "this waiting is never given up"
    return taken


def _restored(env: Program, taken: TakenJob | None, is_batch: bool) -> RestoredCheckpoint | None:
    """A job that went on elsewhere has come further than what its program began with."""
    if taken is not None and (taken.restored is not None or taken.result is not None):
        return taken.restored
    recovery = checkpoint_options.recovery_of(env._configuration)
    if recovery is None:
        return None
    if is_batch:
        raise ValueError(
            f"a batch job cannot begin with the state of {recovery.path}: it keeps none beyond one key; run it with "
            "execution.runtime-mode STREAMING"
        )
    return restored_by(recovery)


def check_checkpoints(graph: JobGraph, settings: ExecutionSettings) -> None:
    """Refuse a job without checkpoints whose source cannot do without.

    Raises
    ------
    ValueError
        With the reason that the source's factory gives as ``why_checkpoints``.
    """
    if settings.checkpointing_enabled:
        return
    for vertex in graph.vertices:
        for operator in vertex.chain.operators:
            reason = getattr(operator.factory, "why_checkpoints", None)
            if reason is not None:
                raise ValueError(f"{operator.name!r} needs checkpoints: {reason}")


def ends_of(graph: JobGraph) -> list[Callable[[BaseException | None], None]]:
    """Return what the factories of a job want to be called with at its end: their ``end``."""
    factories = (operator.factory for vertex in graph.vertices for operator in vertex.chain.operators)
    return [factory.end for factory in factories if hasattr(factory, "end")]


def _stored(
    env: Program, graph: JobGraph, files: JobFiles, target: Target, availability: HighAvailability | None
) -> StoredJob:
    configuration, settings = env._configuration, env._execution_settings(graph.settings.is_batch)
    check_checkpoints(graph, settings)
    checkpointing = checkpoint_options.checkpointing_of(configuration)
    restart = job_options.restart_of(configuration, has_checkpoints=settings.checkpointing_enabled)
    recovery = checkpoint_options.recovery_of(configuration)
    stored = StoredJob(
        graph,
        replace(settings, cached_files=files.local_cache() if target.name != "spark" else {}),
        target.name,
        None if isinstance(restart, NoRestart) else restart,
        env._master_config(sum(vertex.parallelism for vertex in graph.vertices)),
        replace(checkpointing, interval_ms=0) if settings.is_batch else checkpointing,
        env._bundle_fields(files),
        configuration=configuration.shown(),
        job_parameters=env._shown_parameters(),
        web_settings=web_settings_of(configuration),
        recovery=None if recovery is None else replace(recovery, path=location_of(recovery.path)),
    )
    return stored if availability is None else replace(stored, lease_timeout_ms=availability.lease_timeout_ms)
