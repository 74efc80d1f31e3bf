"""Files, metadata and the notes for whoever takes a job over: what survives all processes."""

from __future__ import annotations

from typing import Any

from flinkbuf.checkpoints.handles import CheckpointMetadata, StateHandle
from simulation.invariants import demand

METADATA = "/_metadata"


class SimStorage:
    """A file system: a name, and what was written. A handle's bytes are never looked into, only its content.

    Attributes
    ----------
    files : dict
    known : set of str
        Files that a job master has heard of: it has to see to them.
    """

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.known: set[str] = set()
        self._inline: list[Any] = []
        self._number = 0

    def write(self, content: Any, location: str) -> StateHandle:
        """Write a file; without a location the handle holds all of it."""
        if not location:
            self._inline.append(content)
            data = b"%d" % (len(self._inline) - 1)
            return StateHandle(size=len(data), data=data)
        self._number += 1
        path = f"{location}/{self._number}"
        self.files[path] = content
        return StateHandle(size=100, path=path)

    def read(self, handle: StateHandle) -> Any:
        """What was written."""
        if not handle.path:
            return self._inline[int(handle.data)]
        demand(handle.path in self.files, "a file that is needed was deleted:", handle.path)
        return self.files[handle.path]

    def write_metadata(self, location: str, metadata: CheckpointMetadata) -> None:
        """The last file of a checkpoint."""
        self.files[location + METADATA] = metadata

    def metadata(self, location: str) -> CheckpointMetadata:
        """Read it back."""
        demand(location + METADATA in self.files, "metadata that is needed was deleted:", location)
        return self.files[location + METADATA]

    def delete(self, paths: list[str]) -> None:
        """Files that are not there are no error."""
        for path in paths:
            self.files.pop(path, None)

    def below(self, location: str) -> list[str]:
        """Files of a directory."""
        return [path for path in self.files if path.startswith(location + "/")]

    def checkpoints(self) -> dict[str, CheckpointMetadata]:
        """All that can be found, by location."""
        return {path.removesuffix(METADATA): content for path, content in self.files.items() if path.endswith(METADATA)}


class LeaseLost(Exception):
    """Somebody else has a lease of a higher epoch."""


class SimLease:
    """Leases and pointers of one job. Who makes a lease has the next epoch; it is made before pointers are read."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.pointers: dict[tuple[int, int], str] = {}  # by checkpoint id and epoch
        self.is_finished = False

    def take(self) -> int:
        """Have the next epoch."""
        self.epoch += 1
        return self.epoch

    def check(self, epoch: int) -> None:
        """Raise if there is a higher one."""
        if epoch < self.epoch:
            raise LeaseLost

    def add(self, epoch: int, checkpoint_id: int, location: str) -> None:
        """Write the pointer, then see whether it counts."""
        self.pointers[checkpoint_id, epoch] = location
        self.check(epoch)

    def remove(self, epoch: int, checkpoint_id: int) -> None:
        """Forget a checkpoint, then see whether it may be deleted; it may be one that was taken over."""
        for key in [each for each in self.pointers if each[0] == checkpoint_id and each[1] <= epoch]:
            del self.pointers[key]
        self.check(epoch)

    def finish(self, epoch: int) -> None:
        """Note that the job is over for good: nobody takes it over any more."""
        self.check(epoch)
        self.is_finished = True

    @property
    def latest(self) -> str | None:
        """Where the newest checkpoint lies."""
        newest = max(self.pointers, key=lambda pointer: pointer[::-1], default=None)  # of the last one who had any
        return None if newest is None else self.pointers[newest]
