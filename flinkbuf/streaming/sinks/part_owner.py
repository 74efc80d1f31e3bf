"""Whose a hidden part file is: so that what dead attempts have left can be told from what still counts.

A hidden name says which sink of which job wrote the file, which subtask, behind which checkpoint it was begun, and in
which epoch: how many programs had held the job by then. A job that goes on from checkpoint n knows of no file that was
begun behind n or a later one, unless another program has taken it over: what that one writes has a higher epoch.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace

from flinkbuf.log import logger
from flinkbuf.streaming.file_place import files_in, is_hidden, is_remote, remote_files

_HIDDEN = re.compile(r"\..+\.inprogress\.([0-9a-f]{16})-(\d+)\.(\d+)\.(?:(\d+)\.)?[0-9a-f-]{36}", re.DOTALL)


@dataclass(frozen=True)
class PartOwner:
    """One subtask of one sink, at one moment.

    Attributes
    ----------
    sink : str
        16 hex digits, those of no other sink and no other job.
    subtask_index, parallelism : int
    checkpoint_id : int
        The last one that the subtask was part of; 0: none.
    epoch : int
        Of the program that holds the job.

    Examples
    --------
    >>> owner = PartOwner.of("job", "operator", subtask_index=1, parallelism=2)
    >>> owner.left_behind(owner.hidden_name("part-0"))
    True
    >>> owner.left_behind(PartOwner.of("job", "operator", 0, 2).hidden_name("part-0"))
    False
    >>> owner.left_behind(PartOwner.of("job", "operator", 1, 2, epoch=2).hidden_name("part-0"))
    False
    """

    sink: str
    subtask_index: int
    parallelism: int
    checkpoint_id: int = 0
    epoch: int = 1

    @staticmethod
    def of(
        job_id: str,
        operator_id: str,
        subtask_index: int,
        parallelism: int,
        checkpoint_id: int | None = None,
        epoch: int = 1,
    ) -> PartOwner:
        """Return the owner of what a subtask writes that begins from a checkpoint, or from nothing."""
        sink = hashlib.sha256(f"{job_id} {operator_id}".encode()).hexdigest()[:16]
        return PartOwner(sink, subtask_index, parallelism, checkpoint_id or 0, epoch)

    def at(self, checkpoint_id: int) -> PartOwner:
        """Return the same behind a checkpoint."""
        return replace(self, checkpoint_id=checkpoint_id)

    def hidden_name(self, name: str) -> str:
        """Return a name for a file in progress that will be called `name`; each call another."""
        place = f"{self.sink}-{self.subtask_index}.{self.checkpoint_id}.{self.epoch}"
        return f".{name}.inprogress.{place}.{uuid.uuid4()}"

    def left_behind(self, hidden_name: str) -> bool:
        """Return whether a file is of an earlier attempt of this subtask and was begun behind the checkpoint.

        At another parallelism the subtasks that there were are dealt out among those that there are. What a program has
        written that took the job over from this one is not left behind; a name without an epoch is an older version's.
        """
        found = _HIDDEN.fullmatch(hidden_name)
        if found is None or found[1] != self.sink or int(found[4] or 0) > self.epoch:
            return False
        return int(found[2]) % self.parallelism == self.subtask_index and int(found[3]) >= self.checkpoint_id


def remove_leftovers(base_path: str, owner: PartOwner) -> int:
    """Delete what earlier attempts of a subtask have left below a directory and no checkpoint knows; returns how many.

    Only for a subtask that has not begun to write.
    """
    count = 0
    for path in _hidden_files(base_path):
        if owner.left_behind(os.path.basename(path)):
            with contextlib.suppress(FileNotFoundError):
                if is_remote(path):
                    remote_files(path).delete(path)
                else:
                    os.remove(path)
                count += 1
    if count:
        logger.info("removed %d hidden files below %s that an attempt which failed had left", count, base_path)
    return count


def _hidden_files(base_path: str) -> Iterator[str]:
    if is_remote(base_path):
        yield from (each.location for each in files_in(base_path) if is_hidden(each.location))
        return
    for folder, _, names in os.walk(base_path):
        yield from (os.path.join(folder, name) for name in names if name.startswith("."))
