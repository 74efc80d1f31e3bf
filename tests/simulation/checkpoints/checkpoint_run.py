"""One seed's whole story: a job, its drivers one after the other (or two at a time), its savepoints and its output."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from simulation.checkpoints.checkpoint_invariants import files_of
from simulation.checkpoints.checkpoint_odds import DriverFault, draw_checkpointing, draw_flow, draw_naps
from simulation.checkpoints.checkpoint_world import CheckpointWorld
from simulation.checkpoints.drivers import Driver
from simulation.checkpoints.ledger import Ledger
from simulation.checkpoints.sim_files import METADATA, SimDisk
from simulation.flow.flow_records import Routes
from simulation.settings import draw_settings
from simulation.world.agenda import Agenda
from simulation.world.invariants import demand
from simulation.world.odds import FAULTS, draw_odds
from simulation.world.plans import random_plan
from simulation.world.world import LAST_OF_STORY, START_MS, _text

from flinkbuf.checkpoints.handles import CheckpointMetadata
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler import master_actions as ma
from flinkbuf.runtime.scheduler.slots import slot_count

STEP_LIMIT = 200_000  # a run may fail again and again, without a pause, until the world is healed
MOST_JOBS = 5
MOST_DRIVERS = 20
SUPERVISED_MS = 5_000
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
        if self.flow.is_ha:
            self.flow = replace(self.flow, moments=(*self.flow.moments, *draw_naps(seed)))
        self.checkpointing = draw_checkpointing(rng, self.odds, START_MS, self.flow.is_ha)
        self._split_counts = {
            index: vertex.parallelism + rng.randint(0, 4) for index, vertex in enumerate(self.plan.vertices)
        }
        self.disk = SimDisk()
        self.disk.deleted = self._deleted
        self.drivers: list[Driver] = []
        self.ledger = Ledger(self.routes_of(self.plan), self.checkpointing.is_exactly_once)
        self.worlds: list[CheckpointWorld] = []
        self.savepoints: dict[str, CheckpointMetadata] = {}  # whole ones, that are their user's
        self.read_splits: set[int] = set()  # to their end, by tasks that have finished
        self.stop_path: str | None = None  # of the savepoint that the job has stopped with
        self.stop_kind: SnapshotKind | None = None
        self.is_over = False
        self._is_found_over = False  # by a program that looked whether it may run the job
        self._request_count = 0
        self.job_number = 1  # one more with each that the user starts
        self.open_requests: dict[int, SnapshotKind] = {}
        self._launch(self.plan, None)
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
            self.agenda.at(self.odds.cancel_ms, lambda: self.worlds and self.world.tell(ma.CancelJob()))
        if self.flow.is_ha:
            self.agenda.after(SUPERVISED_MS, self._supervise)
        for time_ms in self.flow.standbys_ms:
            self.agenda.at(time_ms, self.launch_again)
        for fault in self.flow.driver_faults:
            self.agenda.at(fault.at_ms, self._befall, fault)

    def routes_of(self, plan: JobPlan) -> Routes:
        """Where records go at its parallelism."""
        return Routes(plan, self._split_counts, self.flow.split_size)

    # ---- programs, and the job masters in them

    @property
    def world(self) -> CheckpointWorld:
        """The one whose program has the newest lease of the user's last job."""
        return max(self.worlds, key=lambda world: (world.driver.job_number, world.driver.epoch))

    @property
    def is_healed(self) -> bool:
        """Whether nothing new goes wrong."""
        return self.agenda.now_ms >= self.odds.heal_ms

    def note(self, *line: Any) -> None:
        """A line of the story."""
        self.story.append((self.agenda.now_ms, line))

    def highest_epoch(self, directory: str) -> int:
        """Of all leases of a job that were ever made."""
        prefix = f"{directory}/lease-"
        epochs = (int(path.removeprefix(prefix)) for path in self.disk.files if path.startswith(prefix))
        return max(epochs, default=0)

    def _launch(self, plan: JobPlan, initial: RestoredCheckpoint | None, delay_ms: int = 0) -> None:
        """Start a program."""
        driver = Driver(self, self.job_number, plan, initial)
        self.drivers.append(driver)
        self.agenda.after(delay_ms, driver.start)

    def launch_again(self, delay_ms: int = 0) -> None:
        """Start the program of the job that is there once more: it waits, or goes on with the job."""
        if not self.is_over and len(self.drivers) < MOST_DRIVERS:
            last = next(each for each in reversed(self.drivers) if each.job_number == self.job_number)
            self._launch(last.plan, last.initial, delay_ms)

    def begins(self, driver: Driver, initial: RestoredCheckpoint | None) -> CheckpointWorld:
        """A program has the job, and its job master begins."""
        self.note("a job master begins, epoch", driver.epoch, _name(initial))
        world = CheckpointWorld(driver, initial)
        self.worlds.append(world)
        return world

    def _befall(self, fault: DriverFault) -> None:
        """Mostly the program that holds the job."""
        living = [each for each in self.drivers if not each.threads.has_ended and each.job_number == self.job_number]
        working = [each for each in living if each.is_at_work()]
        if self.is_over or not living:
            return
        driver = working[-1] if working and self.rng.random() < 0.8 else self.rng.choice(living)
        self.note("a program:", fault.kind, fault.for_ms, driver.epoch)
        if fault.kind == "die":
            self._kill(driver)
        elif fault.kind == "sleep":
            driver.sleep(fault.for_ms)
            if self.rng.random() < 0.7:
                self.launch_again(self.rng.randint(0, 2_000))
        else:
            driver.cut_off(fault.for_ms, is_behind=fault.kind == "cut off behind")

    def _kill(self, driver: Driver) -> None:
        if driver.is_at_work() and self.rng.random() < 0.7:
            driver.world.crash_soon()  # type: ignore[union-attr]
        elif driver.world is None or not driver.world.has_finished:
            driver.die()

    def crashed(self, driver: Driver) -> None:
        """Somebody starts the program again."""
        if driver.job_number == self.job_number and not self.is_over:
            last = next(each for each in reversed(self.drivers) if each.job_number == self.job_number)
            self._launch(last.plan, last.initial, self.rng.randint(0, 5_000))

    def _supervise(self) -> None:
        """Whoever runs the programs kills one that hangs, and starts the job's again when there is none."""
        mine = [each for each in self.drivers if each.job_number == self.job_number]
        if self._is_found_over and not any(each.is_at_work() for each in mine):
            self.is_over = True
        if self.is_over:
            return
        for driver in mine:
            if not driver.threads.has_ended and driver.is_stuck():
                self.note("a program hangs and is killed:", driver.epoch)
                driver.die()
        if not any(each.is_at_work() or each.is_waiting() for each in mine):
            self._launch(mine[-1].plan, mine[-1].initial)
        self.agenda.after(SUPERVISED_MS, self._supervise)

    def was_over(self, driver: Driver) -> None:
        """A program has found the end of the job: whoever noted it has told it, or has died before."""
        if driver.job_number == self.job_number:
            self._is_found_over = True

    def _deleted(self, path: str) -> None:
        """A file goes: nobody may need it."""
        for location, metadata in self.savepoints.items():
            demand(path not in files_of(metadata, location), "a savepoint is deleted:", location, path)
        for world in self.worlds:
            if world.is_led and world.invariants.needs(path):
                demand(False, "a file is deleted that a checkpoint needs:", path, world.name)
        for driver in self.drivers:
            if driver.found and driver.world is None and driver.is_led and not driver.threads.has_ended:
                location = driver.found.removesuffix(METADATA)
                needed = path == driver.found or path in files_of(self.disk.metadata(location), location)
                demand(not needed, "a file is deleted that a job is to go on from:", path)

    def ended(self, world: CheckpointWorld, action: ma.EndJob) -> None:
        """A job master has come to its end."""
        if action.status is JobStatus.SUSPENDED:
            return
        if world is not self.world:
            is_noted = world.has_noted_its_end
            demand(not is_noted, "a job has ended, and another program runs it:", world.name, self.world.name)
            return  # its end could not be noted: who goes on with it does not know
        kind, path, self.stop_path, self.stop_kind = self.stop_kind, self.stop_path, None, None
        if path is None and world.invariants.stopped_with is not None:  # it is whole, though the job has failed
            path, kind = world.invariants.stopped_with
        if path is not None and kind is SnapshotKind.SAVEPOINT_SUSPEND and len(self.worlds) < MOST_JOBS:
            self.agenda.after(self.rng.randint(0, 100), self._go_on_from, path)
            return
        self.is_over = True
        is_whole = action.status is JobStatus.FINISHED and path is None
        if is_whole and world.waits_for_final_checkpoint:
            self.ledger.expect_all()

    def _go_on_from(self, path: str) -> None:
        """The user starts the job from a savepoint, perhaps with other parallelisms."""
        metadata = self.disk.metadata(path)
        mode = "CLAIM" if self.flow.claims else "NO_CLAIM"
        if self.flow.claims:
            self.savepoints.pop(path, None)
        plan = self._rescaled(self.world.plan) if self.flow.rescales else self.world.plan
        self._is_found_over = False
        self.job_number += 1  # another job for those who keep them
        self._launch(plan, RestoredCheckpoint(metadata, path, mode))

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
        if self.worlds and not self.is_over and not self.world.has_crashed and self.world.end is None:
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
            self._raise_verdict()
            demand(self.agenda.step_count <= STEP_LIMIT, f"no end after {STEP_LIMIT} steps")
            if self.agenda.now_ms > latest_ms:
                self.world.invariants.nothing_ends()
        while self.agenda.step():
            self._raise_verdict()
            demand(self.agenda.step_count <= STEP_LIMIT, f"after its end the job moves for {STEP_LIMIT} steps")
        demand(self.is_over, "nothing moves any more, and the job is", self.world.invariants.status)
        for world in self.worlds:
            world.invariants.at_the_end()
        self._look_for_litter()
        self._raise_verdict()
        return self

    def _raise_verdict(self) -> None:
        if self.disk.verdict is not None:
            raise self.disk.verdict

    @property
    def _patience_ms(self) -> int:
        config = self.checkpointing
        return 4 * (self.settings.patience_ms + 10 * (config.timeout_ms + config.period_ms))

    def _look_for_litter(self) -> None:
        """Whatever a job master has heard of is deleted, or belongs to something that can be found."""
        found = self.disk.checkpoints()
        for world in self.worlds:
            world.invariants.look_for_litter(found)

    def lines(self) -> Iterable[str]:
        """The story as text."""
        for time_ms, line in self.story:
            yield f"{time_ms - START_MS:>8} {' '.join(map(_text, line))}"


def _name(initial: RestoredCheckpoint | None) -> str:
    return "with nothing" if initial is None else f"with {initial.location or initial.metadata.checkpoint_id}"
