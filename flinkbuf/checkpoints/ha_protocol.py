"""Who may run a job, and from which checkpoint: the steps on files by which job masters agree on it.

Each function is a generator of steps on one directory, and is given what each step found or raised: so a test plays
every order in which the steps of several job masters may come, fails any of them, and stops any of them at any place.

The job master that makes ``lease-<n>`` holds the job in epoch n, which is its fencing token, and is the only one to
write the files of that number. ``state-<n>`` lists the checkpoints that count. What makes it safe that an earlier
holder may live on, and learns late that it has lost the job:

* A holder first writes (what counts, a job, a result) and then looks whether there is a higher lease. If there is, what
  it wrote does not count, and it deletes nothing any more.
* A new holder first makes its lease and then reads. So of the two, one sees the other.
* A new holder writes what it found into its own ``state-<n>`` before it begins. From then on the files of earlier
  epochs are not read any more: an earlier holder can neither add to what counts nor take from it.

A step that fails may have been done all the same. So a holder that does not know whether a checkpoint counts finds out
before it does anything else about checkpoints, and before it tells its job master: `add_checkpoint`. A step that has
failed must not be done later on its own (NFS: a hard mount).

Flink: LeaderElectionService, StateHandleStore, PossibleInconsistentStateException, JobGraphStore, JobResultStore.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
import zlib
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flinkbuf.checkpoints.damage import damaged
from flinkbuf.errors import FlinkbufError

T = TypeVar("T")
Steps = Generator["Step", Any, T]

_SEAL = struct.Struct("<8sI")

_MAGIC = b"fb-ha\x00\x00\x01"
_NAME = re.compile(r"(lease|state|job|result|released)-(\d+)")


class LeaseLostError(FlinkbufError):
    """Another job master has taken the job over: this one must stop, and delete nothing."""


# ---- steps, and what each finds


@dataclass(frozen=True)
class ListNames:
    """List the names in the directory."""


@dataclass(frozen=True)
class Create:
    """Make a file that does not exist; answers whether this holder made it."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Write:
    """Write a file at once, or replace it; durable."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Read:
    """Read the bytes of a file; None: it does not exist."""

    name: str


@dataclass(frozen=True)
class Touch:
    """Show that a file's owner lives; answers whether the file still exists."""

    name: str


@dataclass(frozen=True)
class Delete:
    """Delete a file, if it exists."""

    name: str


@dataclass(frozen=True)
class Pause:
    """Wait a while before the next try; raises LeaseLostError if the holder gives the job back meanwhile."""

    why: str


Step = ListNames | Create | Write | Read | Touch | Delete | Pause


# ---- the state that holders agree on


@dataclass(frozen=True)
class Pointer:
    """A checkpoint that counts: where its ``_metadata`` is, and the epoch in which it was completed."""

    checkpoint_id: int
    epoch: int
    path: str


@dataclass(frozen=True)
class HaState:
    """The checkpoints that count and the facts of the job, as a holder has written them down.

    Attributes
    ----------
    pointers : tuple of Pointer
        Checkpoints that count, oldest first.
    job_epoch : int
        The epoch that stored the job which this holder has found; 0: none.
    is_finished : bool
        The job which this holder has found had come to its end.
    result : str
        How that ended.
    program : str
        What tells the program of that from others.
    """

    pointers: tuple[Pointer, ...] = ()
    job_epoch: int = 0
    is_finished: bool = False
    result: str = ""
    program: str = ""

    def with_checkpoint(self, pointer: Pointer) -> HaState:
        """Return the state with one more checkpoint."""
        others = self.without_checkpoint(pointer.checkpoint_id).pointers
        return replace(self, pointers=tuple(sorted((*others, pointer), key=lambda each: each.checkpoint_id)))

    def without_checkpoint(self, checkpoint_id: int) -> HaState:
        """Return the state without a checkpoint."""
        return replace(self, pointers=tuple(each for each in self.pointers if each.checkpoint_id != checkpoint_id))

    def to_bytes(self) -> bytes:
        """Return the state as bytes."""
        pointers = [[each.checkpoint_id, each.epoch, each.path] for each in self.pointers]
        return seal(json.dumps({**self.__dict__, "pointers": pointers}).encode())

    @classmethod
    def of(cls, data: bytes, path: str) -> HaState:
        """Read the bytes of `to_bytes`; CorruptDataError if they are not as they were."""
        fields = json.loads(unseal(data, path))
        return cls(**{**fields, "pointers": tuple(Pointer(*each) for each in fields["pointers"])})


@dataclass(frozen=True)
class HaPrevious:
    """The state that the holders before this one left.

    Attributes
    ----------
    job_id : str or None
        None: no job was ever stored.
    job : bytes or None
        As it was stored.
    state : HaState
    """

    job_id: str | None = None
    job: bytes | None = None
    state: HaState = HaState()

    @property
    def pointers(self) -> tuple[Pointer, ...]:
        """Return the checkpoints that count, oldest first."""
        return self.state.pointers

    @property
    def job_epoch(self) -> int:
        """Return the epoch that stored the job; 0: none."""
        return self.state.job_epoch

    @property
    def is_finished(self) -> bool:
        """Return whether the job has come to its end and is not run again."""
        return self.state.is_finished

    @property
    def result(self) -> str:
        """Return how the job ended."""
        return self.state.result

    @property
    def program(self) -> str:
        """Return what tells the job's program from others; '' if no job was stored."""
        return self.state.program

    @property
    def checkpoint(self) -> str | None:
        """Return the ``_metadata`` to begin from; None: from the beginning."""
        return self.pointers[-1].path if self.pointers else None

    @property
    def checkpoint_id(self) -> int:
        """Return the number of the checkpoint to begin from; 0: there is none."""
        return self.pointers[-1].checkpoint_id if self.pointers else 0


def seal(payload: bytes) -> bytes:
    """Return bytes behind a checksum."""
    return _SEAL.pack(_MAGIC, zlib.crc32(payload)) + payload


def unseal(data: bytes, path: str) -> bytes:
    """Return the bytes that were sealed; CorruptDataError if they are not as they were."""
    if len(data) < _SEAL.size or data[:8] != _MAGIC:
        raise damaged(path, 0, "it does not begin as it was written")
    payload = data[_SEAL.size :]
    if _SEAL.unpack_from(data)[1] != zlib.crc32(payload):
        raise damaged(path, _SEAL.size, f"the checksum of the {len(payload)} bytes from here on is another")
    return payload


def highest_epoch(names: Iterable[str]) -> int:
    """Return the epoch of the latest lease; 0: no job master ever held one."""
    return max(_epochs(names, "lease"), default=0)


def _epochs(names: Iterable[str], kind: str) -> list[int]:
    matches = (_NAME.fullmatch(name) for name in names)
    return [int(match[2]) for match in matches if match and match[1] == kind]


# ---- to become the holder


def take_over(seen: int, holder: bytes) -> Steps[tuple[int, HaPrevious] | None]:
    """Try to become the holder after epoch `seen`, which is given up; None: another job master was quicker."""
    epoch = seen + 1
    if not (yield Create(f"lease-{epoch}", holder)):
        return None
    try:
        yield from look(epoch)
        previous = yield from read_previous(epoch)
        yield from write_state(epoch, previous.state)
    except LeaseLostError:
        return None
    return epoch, previous


def look(epoch: int) -> Steps[None]:
    """Look for a higher lease: whether another job master has taken over.

    Raises
    ------
    LeaseLostError
        If another job master has.
    """
    latest = highest_epoch((yield ListNames()))
    if latest > epoch:
        message = f"another job master has taken the job over (epoch {latest}; ours is {epoch}): this one stops"
        raise LeaseLostError(message)


def read_previous(epoch: int) -> Steps[HaPrevious]:
    """Return the state that holders before `epoch` left; it counts if the lease of `epoch` existed before the call."""
    names = frozenset((yield ListNames()))
    began = max((each for each in _epochs(names, "state") if each < epoch), default=0)
    if not began:
        return HaPrevious()
    state = HaState.of((yield from _existing(epoch, f"state-{began}")), f"state-{began}")
    if f"result-{began}" in names:
        text = unseal((yield from _existing(epoch, f"result-{began}")), f"result-{began}")
        result, program = json.loads(text)
        return HaPrevious(state=HaState((), began, True, result, program))
    if f"job-{began}" in names:
        state = replace(state, job_epoch=began, is_finished=False, result="")
    if state.is_finished or not state.job_epoch:
        return HaPrevious(state=state)
    name = f"job-{state.job_epoch}"
    facts, job = decode_job((yield from _existing(epoch, name)), name)
    return HaPrevious(facts["job_id"], job, replace(state, program=facts["program"]))


def _existing(epoch: int, name: str) -> Steps[bytes]:
    data = yield Read(name)
    if data is None:
        yield from look(epoch)  # a later holder may have tidied up
        raise FileNotFoundError(f"{name} was there a moment ago: another program deletes files of this job")
    return data


# ---- as the holder


def renew(epoch: int) -> Steps[None]:
    """Renew the lease: show that its holder lives."""
    if not (yield Touch(f"lease-{epoch}")):
        raise LeaseLostError(f"lease-{epoch} is gone: the directory of the job was deleted, or taken over")
    yield from look(epoch)


def store_job(epoch: int, facts: dict[str, str], job: bytes) -> Steps[None]:
    """Store what the job is, before it starts; its `facts` have ``job_id`` and ``program``."""
    yield Write(f"job-{epoch}", _encode_job(facts, job))
    yield from look(epoch)
    for older in _epochs((yield ListNames()), "job"):
        if older < epoch:
            yield Delete(f"job-{older}")


def write_state(epoch: int, state: HaState) -> Steps[None]:
    """Write the state that counts; raises if this holder's writes count no longer."""
    yield Write(f"state-{epoch}", state.to_bytes())
    yield from look(epoch)


def add_checkpoint(epoch: int, state: HaState, pointer: Pointer) -> Steps[HaState]:
    """Let a checkpoint count; return what counts with it. One at a time, and never beside `write_state`.

    If the directory fails on the way, this goes on until it knows whether the checkpoint counts: the next holder would
    begin from it, whatever this holder has decided.

    Raises
    ------
    OSError
        The checkpoint does not count, and never will.
    LeaseLostError
        Another holder decides what counts.
    """
    after = state.with_checkpoint(pointer)
    try:
        yield from write_state(epoch, after)
    except OSError as error:
        if not (yield from _settle(epoch, after, f"whether checkpoint {pointer.checkpoint_id} counts", error)):
            raise
    return after


def _settle(epoch: int, after: HaState, what: str, error: OSError) -> Steps[bool]:
    """Find out whether a failed write was done, and make it durable if so. Another text is an older one."""
    while True:
        try:
            is_there = (yield Read(f"state-{epoch}")) == after.to_bytes()
            if is_there:
                yield Write(f"state-{epoch}", after.to_bytes())
            yield from look(epoch)
            return is_there
        except OSError as again:
            error = again
        yield Pause(f"{what} is not known: {error}")


def finish(epoch: int, result: str, program: str) -> Steps[None]:
    """Note that the job is over for good; then the files needed to run it again are deleted."""
    yield Write(f"result-{epoch}", seal(json.dumps([result, program]).encode()))
    yield from look(epoch)
    with contextlib.suppress(OSError):  # the job is over, whatever files are left
        for name in sorted((yield ListNames())):
            match = _NAME.fullmatch(name)
            if match and _is_over(match, epoch):
                yield Delete(name)


def _is_over(match: re.Match[str], epoch: int) -> bool:
    """Return whether a file is not needed after the job's end in an epoch: the next may run it again already."""
    return int(match[2]) < epoch or (match[1] == "job" and int(match[2]) == epoch)


def release(epoch: int) -> Steps[None]:
    """Give the lease back without an end of the job, so that the next holder need not wait."""
    yield Write(f"released-{epoch}", seal(b""))


# ---- the stored job: what it is called, then the job


def _encode_job(facts: dict[str, str], job: bytes) -> bytes:
    head = json.dumps(facts).encode()
    return seal(struct.pack("<I", len(head)) + head + job)


def decode_job(data: bytes, path: str) -> tuple[dict[str, str], bytes]:
    """Return the facts of a stored job, and the job."""
    payload = unseal(data, path)
    (size,) = struct.unpack_from("<I", payload)
    return json.loads(payload[4 : 4 + size]), payload[4 + size :]
