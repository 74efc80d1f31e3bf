"""A task manager, as the job master knows it. Flink: TaskManagerLocation, InstanceID and ResourceID in one."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkbuf.runtime.protocol.messages import PROGRAM_MANAGER, Json, RegisterManager


@dataclass(eq=False)
class Manager:
    """A task manager that is registered, or was.

    Attributes
    ----------
    metrics : dict
        Of the whole process, as it last reported.
    """

    id: str
    registration: RegisterManager
    registered_ms: int
    heard_ms: int
    metrics: Json = field(default_factory=dict)

    @property
    def host(self) -> str:
        """Return the host the manager runs on."""
        return self.registration.host

    @property
    def endpoint(self) -> str:
        """Return host and port, as Flink shows them."""
        return f"{self.host}:{self.data_port}"

    @property
    def data_port(self) -> int:
        """Return the port where other processes read from the manager; 0: none can."""
        return self.registration.data_port

    @property
    def is_program(self) -> bool:
        """Return whether the manager lives in the program's own process."""
        return self.id == PROGRAM_MANAGER

    @property
    def slots(self) -> range:
        """Return the numbers of the manager's slots."""
        first = self.registration.index
        return range(first, first + self.registration.slot_count)
