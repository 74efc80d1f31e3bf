"""Programs that run a job, or wait until they may: the real high availability, over a disk that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.checkpoints.sim_files import Operations, SimDirectory, SimFiles
from simulation.checkpoints.sim_threads import SimEvent, SimLock, SimThreads, current
from simulation.world.invariants import demand

from flinkbuf.checkpoints.ha_store import HaLease, HaStore, LeaseLostError
from flinkbuf.checkpoints.storage import FILES_OF_SCHEME
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.driver.leadership import Leadership
from flinkbuf.runtime.driver.lease_term import RENEWALS_PER_TIMEOUT
from flinkbuf.runtime.driver.recovery import TakenJob
from flinkbuf.runtime.graph.job_plan import JobPlan

if TYPE_CHECKING:
    from simulation.checkpoints.checkpoint_run import CheckpointRun
    from simulation.checkpoints.checkpoint_world import CheckpointWorld

SCHEME = "sim"
POLL_MS = 500  # between two looks of a program that waits
ENDS = ("result", "released")  # of a lease, as its holder notes them
STUCK_MS = 20_000  # after which whoever runs a program kills it


def _files_of_this_program(uri: str) -> SimFiles:
    return SimFiles(current().threads.operations)  # type: ignore[attr-defined]


FILES_OF_SCHEME[SCHEME] = _files_of_this_program


class WatchedLeadership(Leadership):
    """The real one; remembers whether the end of the job is noted."""

    is_noted = False

    def finish(self, result: str) -> bool:
        """Note that the job is over for good."""
        self.is_noted = super().finish(result)
        return self.is_noted


class Driver:
    """One program, from its start to its end.

    Parameters
    ----------
    run : CheckpointRun
    job_number : int
        Which of the user's jobs it runs.
    plan : JobPlan
    initial : RestoredCheckpoint or None
        What the user begins the job with.

    Attributes
    ----------
    leadership : WatchedLeadership or None
        None: nobody else could run the job.
    world : CheckpointWorld or None
        The job, once it has begun.
    has_begun : bool
        Its job master does something.
    found : str or None
        The checkpoint that it is about to begin from.
    """

    def __init__(self, run: CheckpointRun, job_number: int, plan: JobPlan, initial: RestoredCheckpoint | None) -> None:
        self.run = run
        self.rng, self.flow, self.agenda = run.rng, run.flow, run.agenda
        self.job_number = job_number
        self.plan = plan
        self.initial = initial
        self.epoch = 0
        self.has_begun = False
        self.leadership: WatchedLeadership | None = None
        self.world: CheckpointWorld | None = None
        self.found: str | None = None
        self._has_given_up = False
        self._looked_ms: int | None = None  # when it last began to look whether it may
        self.threads = SimThreads(run.agenda)
        self.operations = self.threads.operations = Operations(self, run.disk)  # type: ignore[attr-defined]
        self.late_ms = run.checkpointing.timeout_ms
        self.directory = f"/ha/job{job_number}"

    @property
    def is_healed(self) -> bool:
        """Whether nothing new goes wrong."""
        return self.run.is_healed

    def between(self, span_ms: tuple[int, int]) -> int:
        """Some time of a span."""
        return self.rng.randint(*span_ms)

    @property
    def is_led(self) -> bool:
        """Whether no other program has a lease of a higher epoch."""
        return not self.flow.is_ha or self.epoch == self.run.highest_epoch(self.directory)

    # ---- its beginning

    def start(self) -> None:
        """Run the job, or wait until it may."""
        if not self.run.is_over or self.job_number != self.run.job_number:
            self.threads.begin(self._main, "main")

    def _main(self) -> None:
        if not self.flow.is_ha:
            self._begin(self.initial, 1)
            return
        store = HaStore("/ha", "default", f"job{self.job_number}")
        store._directory = SimDirectory(self.operations, self.directory)
        while self.world is None and self._is_wanted():
            self._looked_ms = self.agenda.now_ms
            try:
                if self._try(store):
                    self._has_given_up = True
                    return
            except OSError as error:  # the program fails, and is started again
                self.run.note("a program could not begin:", error)
            except LeaseLostError:
                self.run.note("another program was quicker")
            self.threads.sleep((POLL_MS + self.rng.randint(0, 200)) / 1_000)
        self._has_given_up = True

    def _is_wanted(self) -> bool:
        return not self.run.is_over and self.job_number == self.run.job_number

    def _try(self, store: HaStore) -> bool:
        """Take the job if nobody holds it; return whether there is nothing more to do."""
        began_ms = self.agenda.now_ms
        lease = store.try_acquire(self.flow.lease_timeout_ms)
        if lease is None:
            return False
        self.epoch = lease.epoch
        self.agenda.after(1, self._holds_it_alone, began_ms)
        lease.renewed_ms, lease.clock_ms = began_ms, lambda: self.agenda.now_ms
        lease._directory = SimDirectory(self.operations, self.directory, lease._wait)
        lease._one_change, lease._is_released = SimLock(), SimEvent()  # type: ignore[assignment]
        taken = self._taken(store, lease)
        if taken.result is not None:
            self.run.was_over(self)
            return True
        lease.store_job(f"job{self.job_number}", b"the job")
        self.leadership = WatchedLeadership(lease, self.flow.lease_timeout_ms, self.threads)  # type: ignore[arg-type]
        self._begin(taken.restored or self.initial, lease.epoch)
        return True

    def _taken(self, store: HaStore, lease: HaLease) -> TakenJob:
        self.found = lease.previous.checkpoint
        try:
            return TakenJob._of(store, lease, self.flow.lease_timeout_ms, falls_back=False)
        except FileNotFoundError as error:
            self.run.disk.judge(demand, not self.is_led, "what a job is to go on from was deleted:", error)
            raise

    def _begin(self, initial: RestoredCheckpoint | None, epoch: int) -> None:
        if self.threads.has_ended:
            return
        self.epoch = epoch
        self.world = world = self.run.begins(self, initial)
        if self.leadership is not None:  # as in `RunningJob.start`: the job's thread begins behind it
            world.waits_for_disk()
            self.leadership.start(world.lease_lost)
            world.is_free()
        self.has_begun = True

    def _holds_it_alone(self, looked_ms: int) -> None:
        """A program that could not renew its lease has seen that by now, unless it has slept.

        One that has renewed it since `looked_ms`, when this one began to look, hears of this one with its next renewal.
        """
        now_ms, pause_ms = self.agenda.now_ms, self.flow.lease_timeout_ms // RENEWALS_PER_TIMEOUT
        for each in self.run.drivers:
            world = each.world
            is_older = each.job_number == self.job_number and each.epoch < self.epoch
            if world is None or not is_older or not each.has_begun:
                continue
            is_let_go = any(f"{self.directory}/{kind}-{each.epoch}" in self.run.disk.files for kind in ENDS)
            is_over = is_let_go or world.has_crashed or world.has_lost_lease or world.end is not None
            is_spared = now_ms <= each.threads.sleeps_until_ms + pause_ms
            is_renewed = self.run.disk.touched_ms[f"{self.directory}/lease-{each.epoch}"] >= looked_ms
            demand(
                is_over or is_spared or is_renewed,
                "a job is taken over, and its holder goes on:",
                each.epoch,
                self.epoch,
            )

    # ---- what happens to it

    def sleep(self, for_ms: int) -> None:
        """All of its threads rest, and know nothing of it."""
        until_ms = self.agenda.now_ms + for_ms
        self.threads.sleeps_until_ms = max(self.threads.sleeps_until_ms, until_ms)
        if self.world is not None:
            self.world.inbox.hold_up(for_ms)

    def is_at_work(self) -> bool:
        """Whether its job runs under it, as far as it knows."""
        world = self.world
        return world is not None and not world.has_crashed and not world.has_finished

    def is_waiting(self) -> bool:
        """Whether it is started and looks whether it may run the job, or soon is."""
        return self.world is None and not self.threads.has_ended and not self._has_given_up

    def is_stuck(self) -> bool:
        """Whether its disk hangs, and with it the program."""
        since_ms = self._looked_ms if self.world is None else self.world.busy_since_ms
        is_open = not self._has_given_up and (self.world is None or not self.world.has_finished)
        rested_ms = self.threads.sleeps_until_ms
        return is_open and since_ms is not None and self.agenda.now_ms - max(since_ms, rested_ms) > STUCK_MS

    def cut_off(self, for_ms: int, *, is_behind: bool) -> None:
        """Nothing works on its disk."""
        self.operations.cut_off(self.agenda.now_ms + for_ms, is_behind=is_behind)

    def die(self) -> None:
        """It is killed."""
        if self.world is not None:
            self.world.crash()
        else:
            self.threads.end()
            self.run.crashed(self)
