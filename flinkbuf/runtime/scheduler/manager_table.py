"""Which task managers a job has, and whose end it still waits for.

Flink: SlotManager and the part of JobMaster that registers task executors.
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkbuf.runtime.protocol.messages import PROGRAM_MANAGER, RegisterManager
from flinkbuf.runtime.scheduler.heartbeat import HeartbeatMonitor
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.runtime.scheduler.manager import Manager
from flinkbuf.runtime.scheduler.slots import SlotPool


class ManagerTable:
    """Registered task managers, their slots and heartbeats.

    Attributes
    ----------
    registered : dict
        `Manager` by id.
    slots : SlotPool
    run : int
        How often task managers were asked for.
    leaving : dict
        Managers that were told to end and may still run, by id: until when the job waits for their end.
    """

    def __init__(self, slot_count: int, config: JobMasterConfig) -> None:
        self.config = config
        self.registered: dict[str, Manager] = {}
        self.slots = SlotPool(slot_count)
        self.heartbeats = HeartbeatMonitor(config.heartbeat_interval_ms, config.heartbeat_timeout_ms)
        self.run = 0
        self.leaving: dict[str, int] = {}

    def ask(self, slots: Iterable[int]) -> tuple[int, ...]:
        """Return the slots without a manager that no run is to bring; a new run is to bring them."""
        wanted = tuple(self.slots.unasked(slots))
        if wanted:
            self.run += 1
            self.slots.ask(wanted, self.run)
        return wanted

    def refusal(self, manager_id: str, message: RegisterManager) -> str | None:
        """Return why a task manager is refused; None if it is wanted, or is registered already."""
        known = self.registered.get(manager_id)
        if known is not None:
            same = (known.registration.run, known.registration.index) == (message.run, message.index)
            return None if same else f"a task manager {manager_id} is registered already, with other slots"
        if manager_id == PROGRAM_MANAGER:
            return None if manager_id not in self.leaving else "the program's task manager was told to end"
        slots = range(message.index, message.index + message.slot_count)
        if not self.slots.expects(slots, message.run):
            return f"the job does not wait for slots {slots.start} to {slots.stop - 1} of run {message.run} (any more)"
        return None

    def add(self, manager_id: str, message: RegisterManager, now_ms: int) -> Manager:
        """Register a task manager that is not refused."""
        manager = Manager(manager_id, message, now_ms, now_ms)
        self.registered[manager_id] = manager
        if not manager.is_program:
            self.slots.fill(manager_id, manager.slots)
        self.heartbeats.watch(manager_id, now_ms, may_be_silent=manager.is_program)
        return manager

    def heard(self, manager: Manager, now_ms: int) -> None:
        """Note a sign of life of a manager."""
        manager.heard_ms = now_ms
        self.heartbeats.heard(manager.id, now_ms)

    def remove(self, manager_id: str) -> Manager | None:
        """Remove a manager that is gone, or given up; return it if it was registered."""
        manager = self.registered.pop(manager_id, None)
        if manager is not None:
            self.slots.free(manager_id)
            self.heartbeats.forget(manager_id)
        return manager

    def wait_for_end(self, manager_id: str, now_ms: int) -> None:
        """Note that a manager was told to end: `leaving` has it until it has ended."""
        self.leaving[manager_id] = now_ms + self.config.release_timeout_ms

    @property
    def left_ms(self) -> int:
        """Return when the last manager told to end counts as gone."""
        return max(self.leaving.values(), default=0)

    def still_leaving(self, now_ms: int) -> bool:
        """Return whether a manager that was told to end may still be there."""
        return now_ms < self.left_ms

    @property
    def has_program(self) -> bool:
        """Return whether the program's own task manager is registered."""
        return PROGRAM_MANAGER in self.registered

    def of_slot(self, slot: int | None) -> Manager:
        """Return the manager of a slot, or the program's own for None."""
        return self.registered[PROGRAM_MANAGER if slot is None else self.slots.holder[slot]]
