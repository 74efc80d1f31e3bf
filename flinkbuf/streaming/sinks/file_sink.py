"""A sink of files: each subtask writes part files into buckets, and they appear under their names all at once.

Flink: FileSink, FileWriter, FileWriterBucket, FileCommitter.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Protocol

from flinkbuf.log import logger
from flinkbuf.streaming.file_place import is_remote
from flinkbuf.streaming.sinks.part_file import (
    PartFile,
    PartFileInfo,
    PartInProgress,
    PartWriter,
    PendingFile,
    RemotePartFile,
)
from flinkbuf.streaming.sinks.part_owner import PartOwner, remove_leftovers
from flinkbuf.streaming.sinks.sink import CommitRequest, Committer, Sink, SinkContext, SinkWriter, WriterContext

if TYPE_CHECKING:
    from flinkbuf.streaming.time.processing_time import TimerHandle

DEFAULT_BUCKET_CHECK_INTERVAL_MS = 60_000
_BUCKETS_KEPT = 1_000  # if there are more, those with nothing in them are forgotten at checkpoints


class AssignsBuckets(Protocol):
    """Chooses the directory of a record; `flinkbuf.datastream.connectors.bucket_assigner` has those of users."""

    def get_bucket_id(self, element: Any, context: SinkContext) -> str:
        """Return the directory, relative to the base path; empty: the base path itself."""
        ...


class RollsParts(Protocol):
    """Decides when a part file is complete; `flinkbuf.datastream.connectors.rolling_policy` has those of users."""

    def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
        """Return whether a record begins another part."""
        ...

    def should_roll_on_processing_time(self, part: PartFileInfo, now_ms: int) -> bool:
        """Return whether the part is complete at this time."""
        ...

    def should_roll_on_checkpoint(self, part: PartFileInfo) -> bool:
        """Return whether a checkpoint ends the part."""
        ...


@dataclass(frozen=True)
class FileSinkOptions:
    """What a sink of files was built with."""

    base_path: str
    create_writer: Callable[[IO[bytes]], PartWriter]
    bucket_assigner: AssignsBuckets
    rolling_policy: RollsParts
    part_prefix: str = "part"
    part_suffix: str = ""
    bucket_check_interval_ms: int = DEFAULT_BUCKET_CHECK_INTERVAL_MS
    is_resumable: bool = False  # a part can go on behind any of its records: the format has no end of its own


class PartFileSink(Sink):
    """Writes part files; `flinkbuf.datastream.connectors.file_system.FileSink` is its face."""

    def __init__(self, options: FileSinkOptions) -> None:
        self.options = options

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Write the files of one subtask."""
        return PartFileWriter(self.options, context)

    def restore_writer(self, context: WriterContext, states: Sequence[PartInProgress]) -> SinkWriter:
        """Go on with the parts that were in progress."""
        return PartFileWriter(self.options, context, states)

    def create_committer(self) -> Committer:
        """Return what renames complete files."""
        return PartFileCommitter()


class Bucket:
    """One directory: at most one part in progress, and those that are complete."""

    def __init__(self, bucket_id: str, options: FileSinkOptions, writer_id: str) -> None:
        self.bucket_id = bucket_id
        self._options = options
        self._writer_id = writer_id
        self._next_part = 0
        self._part: PartFile | None = None
        self.pending: list[PendingFile] = []

    def write(self, element: object, now_ms: int, owner: PartOwner) -> None:
        """Add a record to the part in progress, or to the first of a new one."""
        if self._part is not None and self._options.rolling_policy.should_roll_on_event(self._part.info, element):
            self.finish_part()
        if self._part is None:
            self._part = self._open_part(PartFileInfo(self.bucket_id, now_ms, now_ms), owner)
        self._part.write(element, now_ms)

    def resume(self, part: PartInProgress, owner: PartOwner) -> None:
        """Go on with a part that a checkpoint has in progress; if there is one already, that one is complete."""
        self.finish_part()
        self._part = self._open_part(replace(part.info), owner, part)

    def roll_by_time(self, now_ms: int) -> None:
        """End the part in progress if it is too old."""
        part = self._part
        if part is not None and self._options.rolling_policy.should_roll_on_processing_time(part.info, now_ms):
            self.finish_part()

    def prepare_commit(self, is_at_end: bool) -> None:
        """End the part in progress if the policy or its format wants it at a checkpoint, and at the end in any case."""
        part, options = self._part, self._options
        if part is None:
            return
        if is_at_end or not options.is_resumable or options.rolling_policy.should_roll_on_checkpoint(part.info):
            self.finish_part()

    def persist(self) -> PartInProgress | None:
        """Return what a checkpoint keeps of the part in progress, if there is one."""
        return None if self._part is None else self._part.persist()

    def finish_part(self) -> None:
        """End the part in progress."""
        part, self._part = self._part, None
        if part is not None:
            try:
                self.pending.append(part.finish())
            except BaseException:
                part.abandon()
                raise

    def close(self) -> None:
        """Leave a part in progress as it is."""
        part, self._part = self._part, None
        if part is not None:
            part.abandon()

    @property
    def is_active(self) -> bool:
        """Return whether a part is in progress or waits."""
        return self._part is not None or bool(self.pending)

    def _open_part(self, info: PartFileInfo, owner: PartOwner, begins_with: PartInProgress | None = None) -> PartFile:
        options = self._options
        name = f"{options.part_prefix}-{self._writer_id}-{self._next_part}{options.part_suffix}"
        self._next_part += 1
        path = os.path.join(options.base_path, self.bucket_id, name)
        kind = RemotePartFile if is_remote(path) else PartFile
        return kind(path, info, options.create_writer, owner.hidden_name(name), begins_with)


class PartFileWriter(SinkWriter):
    """Writes the buckets of one subtask.

    Parameters
    ----------
    options : FileSinkOptions
    context : WriterContext
    restored : sequence of PartInProgress
        Parts to go on with.
    """

    def __init__(
        self, options: FileSinkOptions, context: WriterContext, restored: Sequence[PartInProgress] = ()
    ) -> None:
        self._options = options
        self._time = context.processing_time
        self._writer_id = str(uuid.uuid4())
        self._buckets: dict[str, Bucket] = {}
        task, restored_id = context.task, context.restored_checkpoint_id
        self._owner = PartOwner.of(
            task.job_id, context.operator_id, task.subtask_index, task.parallelism, restored_id, task.epoch
        )
        if restored_id is not None or task.attempt_number or task.epoch > 1:  # an earlier attempt may have written
            remove_leftovers(options.base_path, self._owner)
        try:
            for part in restored:
                self._bucket(part.info.bucket_id).resume(part, self._owner)
        except BaseException:
            self._close_buckets()
            raise
        self._timer = self._plan_check()

    def write(self, element: object, context: SinkContext) -> None:
        """Add a record to its bucket."""
        bucket_id = self._options.bucket_assigner.get_bucket_id(element, context)
        bucket = self._buckets.get(bucket_id) or self._bucket(bucket_id)
        bucket.write(element, self._time.now_ms(), self._owner)

    def write_batch(self, batch: object, context: SinkContext) -> None:
        """Add the rows of a batch to its bucket, which does not depend on them."""
        self.write(batch, context)

    def _bucket(self, bucket_id: str) -> Bucket:
        if bucket_id not in self._buckets:
            self._buckets[bucket_id] = Bucket(bucket_id, self._options, self._writer_id)
        return self._buckets[bucket_id]

    def flush(self, end_of_input: bool) -> None:
        """End the parts that a checkpoint, or the end, completes."""
        for bucket in self._buckets.values():
            bucket.prepare_commit(end_of_input)

    def prepare_commit(self) -> Sequence[PendingFile]:
        """Return all files that are complete since the last call."""
        pending = []
        for bucket in self._buckets.values():
            pending += bucket.pending
            bucket.pending = []
        return pending

    def snapshot_state(self, checkpoint_id: int) -> list[PartInProgress]:
        """Return the parts that are in progress."""
        self._owner = self._owner.at(checkpoint_id)
        if len(self._buckets) > _BUCKETS_KEPT:
            self._forget_empty_buckets()
        parts = [bucket.persist() for bucket in self._buckets.values()]
        return [part for part in parts if part is not None]

    def _forget_empty_buckets(self) -> None:
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if bucket.is_active}
        self._writer_id = str(uuid.uuid4())  # one that comes again counts its parts from 0

    def close(self) -> None:
        """Leave the parts in progress under their hidden names."""
        self._timer.cancel()
        self._close_buckets()

    def _close_buckets(self) -> None:
        for bucket in self._buckets.values():
            bucket.close()

    def _plan_check(self) -> TimerHandle:
        return self._time.register_timer(self._time.now_ms() + self._options.bucket_check_interval_ms, self._check)

    def _check(self, timestamp_ms: int) -> None:
        now_ms = self._time.now_ms()
        for bucket in self._buckets.values():
            bucket.roll_by_time(now_ms)
        self._timer = self._plan_check()


class PartFileCommitter(Committer):
    """Gives files their names."""

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Rename each file; a file that has its name already is done."""
        for request in requests:
            file: PendingFile = request.committable
            if file.commit():
                continue
            if not request.is_restored:
                raise FileNotFoundError(
                    errno.ENOENT,
                    "a part file is gone that was to get its name; another process has removed it",
                    str(file),
                )
            # It had its name before the job failed, and its reader has taken it away.
            logger.warning("%s is not there any more; it is taken for one that was committed before", file)
            request.signal_already_committed()
