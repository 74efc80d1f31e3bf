"""One seed's whole story: a job, its drivers one after the other (or two at a time), its savepoints and its output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from flinkbuf.checkpoints.handles import CheckpointMetadata
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.jobs.graphs.job_plan import JobPlan
from flinkbuf.jobs.job_status import JobStatus
from flinkbuf.jobs.master import master_actions as ma
from flinkbuf.jobs.master.checkpoint_config import RestoredCheckpoint
from flinkbuf.jobs.master.restart_strategy import FixedDelayRestart
from flinkbuf.jobs.master.slots import slot_count
from simulation.agenda import Agenda
from simulation.checkpoint_odds import draw_checkpointing, draw_flow
from simulation.checkpoint_world import CheckpointWorld
from simulation.flow_records import Routes
from simulation.invariants import demand
from simulation.ledger import Ledger
from simulation.odds import FAULTS, draw_odds
from simulation.plans import random_plan
from simulation.settings import draw_settings
from simulation.sim_storage import SimLease, SimStorage
from simulation.world import LAST_OF_STORY, START_MS, _text

STEP_LIMIT = 200_000  # a run may fail again and again, without a pause, until the world is healed
MOST_JOBS = 5
MORE_FAULTS = ("kill a manager between two steps", "kill a manager between two steps", "fail a task")


class CheckpointRun:
    """Everything of one run.

    Parameters
    ----------
    seed : int
        All is drawn from it.
    keeps_story : bool
        Keep every line of the story, not only the last.
    """

    def __init__(self, seed: int, *, keeps_story: bool = False) -> None:
        self.seed = seed
        self.rng = rng = Random(seed)
        self.agenda = Agenda(START_MS)
        self.story: deque[tuple[int, tuple[Any, ...]]] = deque(maxlen=None if keeps_story else LAST_OF_STORY)
        self.plan = random_plan(rng)
        self.settings = draw_settings(rng, slot_count(self.plan))
        if rng.random() < 0.6:
            patient = FixedDelayRestart(attempts=1_000, delay_ms=rng.choice((0, 50, 1_000)))
            self.settings = replace(self.settings, restart=patient)
        self.odds = self._draw_odds()
        self.flow = draw_flow(rng, self.odds, START_MS)
        self.checkpointing = draw_checkpointing(rng, self.odds, START_MS, self.flow.crash_ms is not None)
        self._split_counts = {
            index: vertex.parallelism + rng.randint(0, 4) for index, vertex in enumerate(self.plan.vertices)
        }
        self.storage, self.lease = SimStorage(), SimLease()
        self.ledger = Ledger(self.routes_of(self.plan), self.checkpointing.is_exactly_once)
        self.worlds: list[CheckpointWorld] = []
        self.savepoints: dict[str, CheckpointMetadata] = {}  # whole ones, that are their user's
        self.read_splits: set[int] = set()  # to their end, by tasks that have finished
        self.stop_path: str | None = None  # of the savepoint that the job has stopped with
        self.stop_kind: SnapshotKind | None = None
        self.is_over = False
        self._request_count = 0
        self.job_number = 1  # one more with each that the user starts
        self.open_requests: dict[int, SnapshotKind] = {}
        self._start(self.lease.take(), self.plan, None)
        self._plan_user()

    def _draw_odds(self) -> Any:
        rng, can_be_deaf = self.rng, self.settings.cancellation_timeout_ms > 0
        odds = draw_odds(rng, START_MS, can_be_deaf, spans_ms=(10_000, 20_000, 60_000))
        odds = replace(  # quicker than without checkpoints, else there is hardly ever one to begin from
            odds,
            start_ms=rng.choice(((1, 50), (100, 2_000))),
            setup_ms=rng.choice(((0, 1), (0, 30), (10, 400))),
            loss=rng.choice((*[0.0] * 8, 0.02, 0.1)),
            task_fails=rng.choice((*[0.0] * 7, 0.05, 0.1, 0.3)),
            start_never=rng.choice((*[0.0] * 8, 0.1)),
            run_fails=rng.choice((*[0.0] * 9, 0.2)),
            work_ms=(0, odds.heal_ms - START_MS),
            cancel_ms=odds.cancel_ms if rng.random() < 0.5 else None,
        )
        kinds = self.rng.sample((*FAULTS, *MORE_FAULTS), 4)
        span = odds.heal_ms - START_MS
        more = [
            (START_MS + self.rng.randint(0, span), self.rng.choice(kinds)) for _ in range(self.rng.choice((0, 2, 6)))
        ]
        return replace(odds, faults=tuple(sorted((*odds.faults, *more))))

    def _plan_user(self) -> None:
        for time_ms in self.flow.savepoints_ms:
            self.agenda.at(time_ms, self._ask, SnapshotKind.SAVEPOINT)
            kind = SnapshotKind.FULL_CHECKPOINT if time_ms % 2 else SnapshotKind.CHECKPOINT
            self.agenda.at(time_ms + time_ms % 1_000, self._ask, kind)
        for time_ms in self.flow.stops_ms:
            kind = self.rng.choice((*[SnapshotKind.SAVEPOINT_SUSPEND] * 3, SnapshotKind.SAVEPOINT_TERMINATE))
            self.agenda.at(time_ms, self._ask, kind)
        if self.odds.cancel_ms is not None:
            self.agenda.at(self.odds.cancel_ms, lambda: self.world.tell(ma.CancelJob()))
        if self.flow.crash_ms is not None:
            self.agenda.at(self.flow.crash_ms, self._crash)

    def routes_of(self, plan: JobPlan) -> Routes:
        """Where records go at its parallelism."""
        return Routes(plan, self._split_counts, self.flow.split_size)

    # ---- job masters

    @property
    def world(self) -> CheckpointWorld:
        """The newest."""
        return self.worlds[-1]

    def _start(self, epoch: int, plan: JobPlan, initial: RestoredCheckpoint | None) -> None:
        self.story.append((self.agenda.now_ms, ("a job master begins, epoch", epoch, _name(initial))))
        self.worlds.append(CheckpointWorld(self, epoch, plan, initial))

    def _crash(self) -> None:
        """The driver dies; or it does not, and somebody believes that it has."""
        world = self.world
        if world.end is not None or self.is_over:
            return
        if self.flow.lives_on:
            self._take_over(world)
            self.agenda.after(self.rng.randint(0, 3_000), world.look_at_lease)
        else:
            world.crash_soon()

    def crashed(self, world: CheckpointWorld) -> None:
        """Somebody takes over when its lease is too old."""
        if world is self.world:
            self.agenda.after(self.rng.randint(0, 5_000), self._take_over, world)

    def _take_over(self, before: CheckpointWorld) -> None:
        """Make the lease, then look for the latest checkpoint; or see that the job was over before its driver died."""
        if not before.lease.is_finished:
            self.agenda.after(self.rng.randint(0, 100), self._begin_again, before.lease.take(), before)
        elif before.end is None:
            self.is_over = True

    def _begin_again(self, epoch: int, before: CheckpointWorld) -> None:
        location, initial = self.lease.latest, before.initial
        if location is not None:
            metadata = self.storage.metadata(location)  # a savepoint that it was about to stop with is its user's
            mode = "NO_CLAIM" if metadata.is_savepoint else "CLAIM"
            initial = RestoredCheckpoint(metadata, location, mode)
        self._start(epoch, before.plan, initial)

    def ended(self, world: CheckpointWorld, action: ma.EndJob) -> None:
        """A job master has come to its end."""
        if world is not self.world or action.status is JobStatus.SUSPENDED:
            return
        kind, path, self.stop_path, self.stop_kind = self.stop_kind, self.stop_path, None, None
        if path is None and world.invariants.stopped_with is not None:  # it is whole, though the job has failed
            path, kind = world.invariants.stopped_with
        if path is not None and kind is not None:
            self._expect_cut(path)
        if path is not None and kind is SnapshotKind.SAVEPOINT_SUSPEND and len(self.worlds) < MOST_JOBS:
            self.agenda.after(self.rng.randint(0, 100), self._go_on_from, path)
            return
        self.is_over = True
        is_whole = action.status is JobStatus.FINISHED and path is None
        if is_whole and world.waits_for_final_checkpoint:
            self.ledger.expect_all()

    def _expect_cut(self, path: str) -> None:
        """Nothing is committed that the savepoint does not hold."""

    def _go_on_from(self, path: str) -> None:
        """The user starts the job from a savepoint, perhaps with other parallelisms."""
        metadata = self.storage.metadata(path)
        mode = "CLAIM" if self.flow.claims else "NO_CLAIM"
        if self.flow.claims:
            self.savepoints.pop(path, None)
        plan = self._rescaled(self.world.plan) if self.flow.rescales else self.world.plan
        self.job_number += 1
        self.lease = SimLease(self.lease.epoch)  # another job for those who keep them: what is left of this one goes
        self._start(self.lease.take(), plan, RestoredCheckpoint(metadata, path, mode))

    def _rescaled(self, plan: JobPlan) -> JobPlan:
        widths: dict[str | None, int] = {}
        vertices = []
        for vertex in plan.vertices:
            width = self.rng.randint(1, 4)
            if vertex.co_location_group is not None:
                width = widths.setdefault(vertex.co_location_group, width)
            vertices.append(replace(vertex, parallelism=width))
        return replace(plan, vertices=tuple(vertices))

    # ---- the user

    def _ask(self, kind: SnapshotKind) -> None:
        if not self.is_over and not self.world.has_crashed and self.world.end is None:
            self._request_count += 1
            self.world.tell(ma.TriggerSavepoint(self._request_count, kind))

    def answered(self, world: CheckpointWorld, action: ma.RequestAnswered) -> None:
        """What has become of a savepoint, or of a checkpoint that was asked for."""
        kind = world.invariants.asked[action.request]
        if action.path and kind.is_synchronous:
            self.stop_path, self.stop_kind = action.path, kind

    # ---- the run

    def run(self) -> CheckpointRun:
        """All of it, until nothing moves any more."""
        latest_ms = self.odds.heal_ms + self._patience_ms
        while not self.is_over and self.agenda.step():
            demand(self.agenda.step_count <= STEP_LIMIT, f"no end after {STEP_LIMIT} steps")
            if self.agenda.now_ms > latest_ms:
                self.world.invariants.nothing_ends()
        while self.agenda.step():
            demand(self.agenda.step_count <= STEP_LIMIT, f"after its end the job moves for {STEP_LIMIT} steps")
        demand(self.is_over, "nothing moves any more, and the job is", self.world.invariants.status)
        for world in self.worlds:
            world.invariants.at_the_end()
        self._look_for_litter()
        return self

    @property
    def _patience_ms(self) -> int:
        config = self.checkpointing
        return 4 * (self.settings.patience_ms + 10 * (config.timeout_ms + config.period_ms))

    def _look_for_litter(self) -> None:
        """Whatever a job master has heard of is deleted, or belongs to something that can be found."""
        found = self.storage.checkpoints()
        for world in self.worlds:
            world.invariants.look_for_litter(found)

    def lines(self) -> Iterable[str]:
        """The story as text."""
        for time_ms, line in self.story:
            yield f"{time_ms - START_MS:>8} {' '.join(map(_text, line))}"


def _name(initial: RestoredCheckpoint | None) -> str:
    return "with nothing" if initial is None else f"with {initial.location or initial.metadata.checkpoint_id}"
