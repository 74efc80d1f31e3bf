"""Who may run a job, and from which checkpoint: the steps on files by which job masters agree on it.

Each function is a generator of steps on one directory, and is given what each step found: so a test plays every order
in which the steps of several job masters may come, and stops any of them at any place.

Whoever makes ``lease-<n>`` holds the job in epoch n, which is its fencing token. What makes it safe that the holder
before it may live on, and learns of it late:

* A holder first writes (a pointer to a checkpoint, a job, a result) and then looks whether there is a higher lease; if
  there is, what it wrote does not count, and it deletes nothing any more.
* A new holder first makes its lease and then reads. So of the two, one sees the other.
* What a new holder found it writes down in ``base-<n>`` before it begins. From then on nothing that older epochs still
  write is believed: the new one may have undone what belongs to it.

Flink: LeaderElectionService, StateHandleStore, JobGraphStore, JobResultStore.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from flinkbuf.checkpoints.damage import damaged
from flinkbuf.errors import FlinkbufError

T = TypeVar("T")
Steps = Generator[Any, Any, T]

_SEAL = struct.Struct("<8sI")
POINTERS = "checkpoints"  # the folder of those

_MAGIC = b"fb-ha\x00\x00\x01"
_NAME = re.compile(r"(lease|base|job|result|released)-(\d+)|(checkpoints)/(\d+)-(\d+)")


class LeaseLostError(FlinkbufError):
    """Another job master has taken the job over: this one must stop, and delete nothing."""


# ---- steps, and what each finds


@dataclass(frozen=True)
class ListNames:
    """The names in the directory, or in a folder of it: a list of texts that begin with the folder."""

    folder: str = ""


@dataclass(frozen=True)
class Create:
    """Make a file that is not there: whether we were the one who made it."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Write:
    """Write a file at once, or replace it; it lasts."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Read:
    """The bytes of a file; None: there is none."""

    name: str


@dataclass(frozen=True)
class Touch:
    """Say that a file's owner lives: whether it is still there."""

    name: str


@dataclass(frozen=True)
class Delete:
    """Delete a file, if it is there."""

    name: str


# ---- what they agree on


@dataclass(frozen=True)
class Pointer:
    """A checkpoint that counts: where its ``_metadata`` is, and who completed it."""

    checkpoint_id: int
    epoch: int
    path: str

    @property
    def name(self) -> str:
        """The file that says so."""
        return f"{POINTERS}/{self.checkpoint_id}-{self.epoch}"


@dataclass(frozen=True)
class HaPrevious:
    """What the holders before this one left.

    Attributes
    ----------
    job_id : str or None
        None: no job was ever stored.
    job : bytes or None
        As it was stored.
    pointers : tuple of Pointer
        Checkpoints that count, oldest first.
    is_finished : bool
        It has come to its end and is not run again.
    result : str
        How, by the name of its state.
    """

    job_id: str | None = None
    job: bytes | None = None
    job_epoch: int = 0
    pointers: tuple[Pointer, ...] = ()
    is_finished: bool = False
    result: str = ""

    @property
    def checkpoint(self) -> str | None:
        """The ``_metadata`` to begin from; None: from the beginning."""
        return self.pointers[-1].path if self.pointers else None

    @property
    def checkpoint_id(self) -> int:
        """Its number; 0: there is none."""
        return self.pointers[-1].checkpoint_id if self.pointers else 0


def seal(payload: bytes) -> bytes:
    """Return bytes behind a checksum."""
    return _SEAL.pack(_MAGIC, zlib.crc32(payload)) + payload


def unseal(data: bytes, path: str) -> bytes:
    """Return what was sealed; CorruptDataError if it is not as it was."""
    if len(data) < _SEAL.size or data[:8] != _MAGIC:
        raise damaged(path, 0, "it does not begin as it was written")
    payload = data[_SEAL.size :]
    if _SEAL.unpack_from(data)[1] != zlib.crc32(payload):
        raise damaged(path, _SEAL.size, f"the checksum of the {len(payload)} bytes from here on is another")
    return payload


def highest_epoch(names: Iterable[str]) -> int:
    """Return the epoch of the latest lease; 0: nobody ever held one."""
    return max(_epochs(names, "lease"), default=0)


def _epochs(names: Iterable[str], kind: str) -> list[int]:
    matches = (_NAME.fullmatch(name) for name in names)
    return [int(match[2]) for match in matches if match and match[1] == kind]


# ---- to become the holder


def take_over(seen: int, holder: bytes) -> Steps[tuple[int, HaPrevious] | None]:
    """Try to become the holder after epoch `seen`, which is given up; None: somebody else was quicker."""
    epoch = seen + 1
    if not (yield Create(f"lease-{epoch}", holder)):
        return None
    try:
        yield from look(epoch)
        previous = yield from read_previous(epoch)
        yield Write(f"base-{epoch}", _base(previous))
        yield from look(epoch)
    except LeaseLostError:
        return None
    return epoch, previous


def look(epoch: int) -> Steps[None]:
    """Look whether somebody has taken over.

    Raises
    ------
    LeaseLostError
        If so.
    """
    latest = highest_epoch((yield ListNames()))
    if latest > epoch:
        message = f"another job master has taken the job over (epoch {latest}; ours is {epoch}): this one stops"
        raise LeaseLostError(message)


def read_previous(epoch: int) -> Steps[HaPrevious]:
    """Return what holders before `epoch` left; it counts if its lease was there before this began."""
    names = frozenset((yield ListNames()))
    names |= frozenset((yield ListNames(POINTERS)))
    began = max((each for each in _epochs(names, "base") if each < epoch), default=0)
    if not began:
        return HaPrevious()
    base = json.loads(unseal((yield from _existing(epoch, f"base-{began}")), f"base-{began}"))
    stored = f"job-{began}" in names
    job_epoch = began if stored else base["job_epoch"]
    if f"result-{began}" in names:
        result = unseal((yield from _existing(epoch, f"result-{began}")), f"result-{began}").decode()
        return HaPrevious(job_epoch=job_epoch, is_finished=True, result=result)
    if base["is_finished"] and not stored:
        return HaPrevious(job_epoch=job_epoch, is_finished=True, result=base["result"])
    pointers = yield from _pointers(names, began, base)
    if not job_epoch:
        return HaPrevious(pointers=pointers)
    job_id, job = decode_job((yield from _existing(epoch, f"job-{job_epoch}")), f"job-{job_epoch}")
    return HaPrevious(job_id, job, job_epoch, pointers)


def _pointers(names: frozenset[str], began: int, base: Any) -> Steps[tuple[Pointer, ...]]:
    """What that holder found and has not removed since, and what it has added."""
    found = [pointer for pointer in (Pointer(*each) for each in base["pointers"]) if pointer.name in names]
    for name in names:
        match = _NAME.fullmatch(name)
        if match and match[3] and int(match[5]) == began:
            data = yield Read(name)
            if data is not None:  # a later one has replaced it, and is in the list
                found.append(Pointer(int(match[4]), began, unseal(data, name).decode()))
    return tuple(sorted(found, key=lambda each: each.checkpoint_id))


def _existing(epoch: int, name: str) -> Steps[bytes]:
    data = yield Read(name)
    if data is None:
        yield from look(epoch)  # a later holder may have tidied up
        raise FileNotFoundError(f"{name} was there a moment ago: somebody else deletes files of this job")
    return data


def _base(previous: HaPrevious) -> bytes:
    text = json.dumps(
        {
            "pointers": [[each.checkpoint_id, each.epoch, each.path] for each in previous.pointers],
            "job_epoch": previous.job_epoch,
            "is_finished": previous.is_finished,
            "result": previous.result,
        }
    )
    return seal(text.encode())


# ---- as the holder


def renew(epoch: int) -> Steps[None]:
    """Say that we live."""
    if not (yield Touch(f"lease-{epoch}")):
        raise LeaseLostError(f"lease-{epoch} is gone: the directory of the job was deleted, or taken over")
    yield from look(epoch)


def store_job(epoch: int, job_id: str, job: bytes, facts: dict[str, str]) -> Steps[None]:
    """Store what the job is, before it starts."""
    yield Write(f"job-{epoch}", _encode_job(job_id, job, facts))
    yield from look(epoch)
    for older in _epochs((yield ListNames()), "job"):
        if older < epoch:
            yield Delete(f"job-{older}")


def add_checkpoint(pointer: Pointer) -> Steps[None]:
    """Let a checkpoint count, or hear that nothing that is done here counts any more."""
    yield Write(pointer.name, seal(pointer.path.encode()))
    yield from look(pointer.epoch)


def remove_checkpoint(epoch: int, pointer: Pointer) -> Steps[None]:
    """Let a checkpoint not count any more; its files may go unless somebody has taken over, who may need them.

    Looked at before, too: whoever has taken over begins from this pointer perhaps, and so does the one after it.
    """
    yield from look(epoch)
    yield Delete(pointer.name)
    yield from look(epoch)


def finish(epoch: int, result: str) -> Steps[None]:
    """Say that the job is over for good; then what was needed to run it again goes."""
    yield Write(f"result-{epoch}", seal(result.encode()))
    yield from look(epoch)
    for name in sorted([*(yield ListNames()), *(yield ListNames(POINTERS))]):
        match = _NAME.fullmatch(name)
        if match and _is_over(match, epoch):
            yield Delete(name)


def _is_over(match: re.Match[str], epoch: int) -> bool:
    """Whether a file is not needed when the job has ended in an epoch: the next one may run it again already."""
    if match[3] or match[1] == "job":
        return int(match[5] or match[2]) <= epoch
    return int(match[2]) < epoch


def release(epoch: int) -> Steps[None]:
    """Let go without an end: whoever comes next need not wait."""
    yield Write(f"released-{epoch}", seal(b""))


# ---- the stored job: what it is called, then the job


def _encode_job(job_id: str, job: bytes, facts: dict[str, str]) -> bytes:
    head = json.dumps({**facts, "job_id": job_id}).encode()
    return seal(struct.pack("<I", len(head)) + head + job)


def decode_job(data: bytes, path: str) -> tuple[str, bytes]:
    """Return the job's id and what was stored."""
    facts, job = _job_parts(data, path)
    return facts["job_id"], job


def facts_of(data: bytes, path: str) -> dict[str, str]:
    """Return what a stored job is called."""
    return _job_parts(data, path)[0]


def _job_parts(data: bytes, path: str) -> tuple[dict[str, str], bytes]:
    payload = unseal(data, path)
    (size,) = struct.unpack_from("<I", payload)
    return json.loads(payload[4 : 4 + size]), payload[4 + size :]
