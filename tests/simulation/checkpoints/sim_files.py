"""A disk that several programs use, and that fails as real ones do.

What is played
--------------
* Each operation of a driver takes its time (`fs_ms`) and takes effect at one moment of that; others come between.
* It fails before it has done anything, or behind: it is done, and an error is told (an EIO, a cut connection).
* It hangs until the disk is well again, at the end of all trouble; or it comes late: after a checkpoint's timeout.
* Outages: for a while every operation of one driver fails before it has done anything, or behind.
* A driver that is killed, or sleeps, has operations under way: each is lost, takes effect up to five seconds later, or
  spoils its target (a lease that was just made is empty; what is written under another name first is not there).

Where, and how many at once
---------------------------
The files of drivers: leases, jobs, pointers, results, ``_metadata``, and what they delete. All kinds may meet; in about
half of all runs there are none. Tasks write their state in `AsyncPart`, which fails and hangs by itself.
A disk never loses what was written and reported, and all programs see at once what is there: that is asked of a real
one, too (see `HaDirectory`).

To read what never was there is an error of the program; so is to write one file twice at the same time.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from simulation.checkpoints.sim_threads import current
from simulation.world.invariants import Violation, demand

from flinkbuf.checkpoints import ha_protocol as protocol
from flinkbuf.checkpoints.files import FileEntry, Files, StateInput, StateOutput
from flinkbuf.checkpoints.ha_directory import HaDirectory
from flinkbuf.checkpoints.handles import CheckpointMetadata, StateHandle
from flinkbuf.checkpoints.metadata import decode_metadata

if TYPE_CHECKING:
    from simulation.checkpoints.drivers import Driver

METADATA = "/_metadata"
LATE_MS = 5_000  # after its program has ended an operation takes effect, if it does


class SimDisk:
    """All files, by path. The state of tasks is kept as it is: only what drivers read and write has bytes.

    Attributes
    ----------
    files : dict
    touched_ms : dict
        When leases were made, or renewed.
    deleted : callable or None
        Told of each path before it goes.
    verdict : Violation or None
        The first thing that is wrong: product code that meets errors must not swallow it.
    """

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.touched_ms: dict[str, int] = {}
        self.deleted: Callable[[str], None] | None = None
        self.verdict: Violation | None = None
        self._inline: list[Any] = []
        self._number = 0
        self._written: set[str] = set()  # by operations that are under way

    # ---- the state of tasks

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

    # ---- what is there

    def below(self, location: str) -> list[str]:
        """Files of a directory, and of those in it."""
        return [path for path in self.files if path.startswith(location + "/")]

    def metadata(self, location: str) -> CheckpointMetadata:
        """A checkpoint's."""
        demand(location + METADATA in self.files, "metadata that is needed was deleted:", location)
        return decode_metadata(self.files[location + METADATA], location)

    def checkpoints(self) -> dict[str, CheckpointMetadata]:
        """All that can be found, by location."""
        locations = [path.removesuffix(METADATA) for path in self.files if path.endswith(METADATA)]
        return {location: self.metadata(location) for location in locations}

    # ---- what an operation does when it takes effect

    def put(self, path: str, data: bytes, now_ms: int) -> None:
        """Write or replace a file."""
        self.files[path] = data
        self.touched_ms[path] = now_ms

    def delete(self, path: str) -> None:
        """A file that is not there is no error."""
        if path in self.files:
            if self.deleted is not None:
                self.judge(self.deleted, path)
            self.files.pop(path, None)

    def delete_tree(self, location: str) -> None:
        """All that is in a directory."""
        for path in self.below(location):
            self.delete(path)

    def judge(self, check: Callable[..., None], *arguments: Any) -> None:
        """Note what is wrong; it is raised when the product's code is not around."""
        try:
            check(*arguments)
        except Violation as violation:
            self.verdict = self.verdict or violation

    def begins_writing(self, path: str) -> None:
        """Nobody else does."""
        self.judge(demand, path not in self._written, "two write one file at the same time:", path)
        self._written.add(path)

    def ends_writing(self, path: str) -> None:
        """It is written, or is not."""
        self._written.discard(path)


class Operations:
    """What one driver does on the disk: each operation waits, and may go wrong."""

    def __init__(self, driver: Driver, disk: SimDisk) -> None:
        self.driver = driver
        self.disk = disk
        self.fault_count = 0
        self.out_until_ms = 0  # an outage: nothing works before
        self._is_out_behind = False

    def cut_off(self, until_ms: int, *, is_behind: bool) -> None:
        """Every operation fails until then."""
        self.out_until_ms, self._is_out_behind = until_ms, is_behind

    def do(self, effect: Callable[[], Any], *, share: float = 1.0, spoil: Callable[[], Any] | None = None) -> Any:
        """Have it take effect at some moment, and return what it finds; OSError if it goes wrong.

        `share` of what usually goes wrong does; `spoil` is done instead if the driver ends meanwhile.
        """
        driver = self.driver
        rng, flow, agenda = driver.rng, driver.flow, driver.agenda
        is_ill = not driver.is_healed
        before_ms, behind_ms = (driver.between(flow.fs_ms if is_ill else (0, 2)) for _ in range(2))
        fails = is_out = False
        if is_ill:
            is_out = agenda.now_ms < self.out_until_ms
            fails = rng.random() < flow.fs_fails * share
            if rng.random() < flow.fs_is_late * share:
                self.fault_count += 1
                before_ms += driver.late_ms
        hangs = is_ill and not is_out and rng.random() < flow.fs_hangs * share
        fails_behind = is_ill and (rng.random() < flow.fs_fails_behind * share)
        if is_out:
            fails, fails_behind = not self._is_out_behind, self._is_out_behind

        def begin(wake: Callable[[Any], None]) -> None:
            agenda.after(before_ms, take_effect, wake)

        def take_effect(wake: Callable[[Any], None]) -> None:
            if driver.threads.has_ended:
                self._at_last(effect, spoil)
                return
            if hangs and not driver.is_healed:
                self.fault_count += 1
                agenda.at(driver.run.odds.heal_ms + rng.randint(0, 1_000), take_effect, wake)
                return
            if fails:
                self.fault_count += 1
                agenda.after(behind_ms, wake, OSError(errno.EIO, "the disk failed"))
                return
            try:
                found = effect()
            except OSError as error:
                found = error
            if fails_behind and not isinstance(found, OSError):
                self.fault_count += 1
                found = OSError(errno.EIO, "the disk was cut off")
            agenda.after(behind_ms, wake, _Found(found) if not isinstance(found, OSError) else found)

        found = current().wait(begin=begin)
        return found.value

    def _at_last(self, effect: Callable[[], Any], spoil: Callable[[], Any] | None) -> None:
        """Its program is gone."""
        fate = self.driver.rng.random()
        if fate < 0.3:
            self.driver.agenda.after(self.driver.rng.randint(0, LATE_MS), _quietly, effect)
        elif fate < 0.5 and spoil is not None:
            _quietly(spoil)


def _quietly(effect: Callable[[], Any]) -> None:
    with contextlib.suppress(OSError):
        effect()


class _Found:
    """What an operation finds, which may be None."""

    def __init__(self, value: Any) -> None:
        self.value = value


class SimDirectory(HaDirectory):
    """The directory of a job's leases and pointers, as one driver sees it."""

    def __init__(self, operations: Operations, path: str, pause: Callable[[str], None] | None = None) -> None:
        super().__init__(path)
        if pause is not None:
            self._pause = pause
        self._operations = operations
        self._disk = operations.disk

    def make(self) -> None:
        """Nothing has to be made."""

    def do(self, step: Any) -> Any:
        """Do one step; return what it finds."""
        disk, now_ms = self._disk, lambda: self._operations.driver.agenda.now_ms
        if isinstance(step, protocol.ListNames):
            return self._operations.do(self._names, share=0.2)
        if isinstance(step, protocol.Pause):
            return self._pause(step.why)
        path = f"{self.path}/{step.name}"
        if isinstance(step, protocol.Read):
            return self._operations.do(lambda: disk.files.get(path), share=0.2)
        if isinstance(step, protocol.Create):

            def create(data: bytes) -> bool:
                if path in disk.files:
                    return False
                disk.put(path, data, now_ms())
                return True

            return self._operations.do(lambda: create(step.data), share=0.2, spoil=lambda: create(b""))
        if isinstance(step, protocol.Write):
            return self._operations.do(lambda: self._write(step, path))
        if isinstance(step, protocol.Touch):
            return self._operations.do(lambda: self._touch(path, now_ms()), share=0.2)
        assert isinstance(step, protocol.Delete), step
        return self._operations.do(lambda: disk.files.pop(path, None) and None)

    def _names(self) -> list[str]:
        prefix = f"{self.path}/"
        return [path.removeprefix(prefix) for path in self._disk.files if path.startswith(prefix)]

    def _write(self, step: protocol.Write, path: str) -> None:
        driver = self._operations.driver
        self._disk.put(path, step.data, driver.agenda.now_ms)
        if step.name.startswith("state-") and driver.world is not None:
            driver.world.moment("a pointer is written")

    def _touch(self, path: str, now_ms: int) -> bool:
        if path not in self._disk.files:
            return False
        self._disk.touched_ms[path] = now_ms
        return True

    def age_ms(self, name: str) -> int | None:
        """How long ago a file was touched."""
        return self._operations.do(lambda: self._age_ms(f"{self.path}/{name}"), share=0.2)

    def _age_ms(self, path: str) -> int | None:
        if path not in self._disk.files:
            return None
        return self._operations.driver.agenda.now_ms - self._disk.touched_ms[path]


class SimFiles(Files):
    """The files of checkpoints, as one driver sees them."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._disk = operations.disk

    def create(self, path: str) -> StateOutput:
        """Drivers write whole files."""
        raise NotImplementedError

    def open(self, path: str) -> StateInput:
        """Read a whole file."""

        def read() -> bytes:
            if path not in self._disk.files:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            return self._disk.files[path]

        return _SimInput(path, self._operations.do(read, share=0.2))

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file."""
        disk, agenda = self._disk, self._operations.driver.agenda

        def write() -> None:
            if path in disk.files:
                raise FileExistsError(path)
            disk.put(path, data, agenda.now_ms)

        disk.begins_writing(path)
        try:
            self._operations.do(write)
        finally:
            disk.ends_writing(path)

    def delete(self, path: str) -> None:
        """One file."""
        self._operations.do(lambda: self._disk.delete(path))

    def delete_tree(self, location: str) -> None:
        """A directory."""
        self._operations.do(lambda: self._disk.delete_tree(location))

    def make_directory(self, location: str) -> None:
        """Nothing has to be made."""

    def entries(self, location: str) -> Sequence[FileEntry]:
        """What lies in a directory."""
        names = {path[len(location) + 1 :].partition("/")[0] for path in self._disk.below(location)}
        return [FileEntry(f"{location}/{name}", f"{location}/{name}" not in self._disk.files) for name in sorted(names)]


class _SimInput(StateInput):
    def __init__(self, path: str, data: bytes) -> None:
        super().__init__(path, len(data))
        self._data = data

    def _read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def close(self) -> None:
        """Nothing is open."""
