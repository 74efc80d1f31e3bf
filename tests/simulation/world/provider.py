"""What starts and stops managers, as a target does: late, not at all, or twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.world.managers import PROGRAM, SimManager

from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.scheduler.master_actions import RunFailed

if TYPE_CHECKING:
    from simulation.world.world import World


class SimProvider:
    """Processes of the job, by manager id."""

    def __init__(self, world: World, slots_each: int) -> None:
        self.world = world
        self.slots_each = slots_each
        self.managers: dict[str, SimManager] = {}  # all there ever were
        self._failed_runs: set[int] = set()
        self._number = 0

    def start_program(self) -> SimManager:
        """The manager beside the job master."""
        return self._launch(PROGRAM, 0, -1, 0)

    def start(self, run: int, indexes: tuple[int, ...]) -> None:
        """Have managers come up for these slots, each with as many neighbours as it has slots."""
        rng, odds = self.world.rng, self.world.odds
        if not self.world.is_healed and rng.random() < odds.run_fails:
            self.world.agenda.after(self.world.between(odds.start_ms), self._fail_run, run, "the run cannot start")
            return
        for first, count in _blocks(indexes, self.slots_each):
            times = 2 if not self.world.is_healed and rng.random() < odds.start_twice else 1
            if not self.world.is_healed and rng.random() < odds.start_never:
                times = 0
            for _ in range(times):
                self._number += 1
                delay_ms = self.world.between((1, 500) if self.world.is_healed else odds.start_ms)
                self.world.agenda.after(delay_ms, self._come_up, f"{self.world.name}m{self._number}", run, first, count)

    def _come_up(self, manager_id: str, run: int, index: int, slot_count: int) -> None:
        if run not in self._failed_runs and not self.world.provider_is_closed:
            manager = self._launch(manager_id, run, index, slot_count)
            if not self.world.is_healed and self.world.rng.random() < self.world.odds.register_twice:
                manager.register()

    def _launch(self, manager_id: str, run: int, index: int, slot_count: int) -> SimManager:
        manager = self.managers[manager_id] = SimManager(self.world, manager_id, run, index, slot_count)
        self.world.note("start of", manager_id, run, index)
        manager.start()
        return manager

    def stop(self, manager_id: str, reason: str) -> None:
        """The process ends soon, whatever it does; its connection is closed."""
        manager = self.managers[manager_id]
        manager.connection.close(reason)
        self.world.agenda.after(self.world.between(self.world.odds.exit_ms), self._stopped, manager, reason)

    def _stopped(self, manager: SimManager, reason: str) -> None:
        if manager.is_alive and not manager.connection.is_out_of_reach:
            manager.kill(reason)
        else:  # the job is told even if it was told before
            self.world.manager_lost(manager.id, reason)

    def ended(self, manager: SimManager, is_clean: bool, reason: str) -> None:
        """A run whose managers come together ends as a whole."""
        if self.world.config.managers_come_together and not is_clean and not manager.is_program:
            self.world.agenda.after(self.world.between((0, 300)), self._fail_run, manager.run, reason)

    def _fail_run(self, run: int, reason: str) -> None:
        if run in self._failed_runs or self.world.provider_is_closed:
            return
        self._failed_runs.add(run)
        for manager in list(self.managers.values()):
            if manager.run == run and manager in self.living():
                manager.kill(f"its run has failed: {reason}")
        self.world.tell(RunFailed(run, self.world.happened(Failure("builtins.RuntimeError", f"run {run}: {reason}"))))

    def living(self) -> list[SimManager]:
        """All that are up and can be reached, but the one in the program."""
        return [
            manager
            for manager in self.managers.values()
            if manager.is_alive and not manager.is_program and not manager.connection.is_out_of_reach
        ]


def _blocks(indexes: tuple[int, ...], size: int) -> list[tuple[int, int]]:
    """(first slot, how many) for each manager; a manager's places are the same every time."""
    blocks: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if blocks and index == sum(blocks[-1]) and index % size:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + 1)
        else:
            blocks.append((index, 1))
    return blocks
