"""Compaction: runs of small files become one file with the same rows, in the same order.

Each task of a write leaves a file, and a reader opens all of them. A run of files that lie behind each other in the
manifest is rewritten as one, at their place: so each subpartition stays the log that it was, and whoever follows it by
counting rows goes on where he was. The commit is one of those of a data set. It comes to nothing where others have
replaced one of the files meanwhile; what others append meanwhile stands behind. Readers of the version before have its
files for the retention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flinkbuf.log import logger
from flinkbuf.partition_files.data_set import DATA, RETENTION_S, PartitionDataSet, new_job
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.manifest import DataFile, Manifest
from flinkbuf.partition_files.part_reader import DEFAULT_TASK_SIZE, Piece, read_pieces
from flinkbuf.partition_files.part_writer import rewrite_part
from flinkbuf.partition_files.schema_text import ddl_of
from flinkbuf.records.arrow_batches import arrow_schema, record_type

if TYPE_CHECKING:
    import pyarrow as pa

COMPACT_FILES = 32  # so many small ones make a write compact
_MEMORY = 64 << 20  # bytes of buffers
_MAX_ROWS = 65_536  # of a batch


def small_runs(files: Sequence[DataFile], target: int = DEFAULT_TASK_SIZE) -> list[tuple[DataFile, ...]]:
    """Cut into runs of files that are small, each of two or more that together are no larger than `target` bytes."""
    runs: list[list[DataFile]] = [[]]
    size = 0
    for file in files:
        if file.data_size >= target or size + file.data_size > target:
            runs.append([])
            size = 0
        if file.data_size < target:
            runs[-1].append(file)
            size += file.data_size
    return [tuple(run) for run in runs if len(run) > 1]


def newest_run(
    files: Sequence[DataFile], count: int = COMPACT_FILES, target: int = DEFAULT_TASK_SIZE
) -> tuple[DataFile, ...]:
    """Return the longest run of `count` or more small files at the end of which none has more than half of the bytes.

    So a row lies in a file at least twice as large whenever it is rewritten, which is seldom however many appends there
    are; and besides the newest ones only a few files stay. Empty: there is no such run.
    """
    size = largest = longest = 0
    for number, file in enumerate(reversed(files), 1):
        size, largest = size + file.data_size, max(largest, file.data_size)
        if file.data_size >= target or size > 2 * target:
            break
        if number >= count and largest <= size / 2:
            longest = number
    return tuple(files[len(files) - longest :])


def compact_run(
    data_set: PartitionDataSet, manifest: Manifest, run: Sequence[DataFile], *, retention_s: float = RETENTION_S
) -> Manifest:
    """Rewrite files that lie behind each other as one.

    Parameters
    ----------
    data_set : PartitionDataSet
    manifest : Manifest
        A version of it, the last one or not.
    run : sequence of DataFile
        Of that version.
    retention_s : float, default 3600
        Seconds for which they stay, for readers that have begun.

    Returns
    -------
    Manifest
        The version behind it.
    """
    layout = manifest.layout
    description = ddl_of(layout.schema)
    schema = arrow_schema(description)
    job, owner = new_job(), JobOwner.of_this_process()

    def rows_of(index: int) -> Iterator[pa.RecordBatch]:
        for file in run:  # one by one: the rows of each stand behind those of the one before it
            if file.records[index]:
                yield from read_pieces(data_set.directory(DATA), [Piece.of(file, [index])], schema, _MAX_ROWS)

    compression = next((file.compression for file in reversed(run)), None)
    try:
        files = rewrite_part(
            ((index, rows_of(index)) for index in range(layout.subpartition_count)),
            layout,
            record_type(description),
            lambda: data_set.begin_part(job, owner, 0),
            memory=_MEMORY,
            compression=compression,
        )
        return data_set.commit(job, layout, files, "compact", retention_s=retention_s, replaced=run)
    except BaseException:
        data_set.abort(job, owner)
        raise


def compact(data_set: PartitionDataSet, *, retention_s: float = RETENTION_S) -> Manifest:
    """Rewrite all small files of a data set, in runs of about 64 MiB; returns the version behind it.

    Raises
    ------
    FileNotFoundError
        If there is no data set.
    """
    before = manifest = data_set.manifest()
    for run in small_runs(before.files):
        manifest = compact_run(data_set, before, run, retention_s=retention_s)
    return manifest


def compact_newest(
    data_set: PartitionDataSet, manifest: Manifest, count: int, *, retention_s: float = RETENTION_S
) -> Manifest:
    """Compact what a commit has made too many of; returns the version behind it, which has the commit in any case."""
    run = newest_run(manifest.files, count) if count else ()
    try:
        return compact_run(data_set, manifest, run, retention_s=retention_s) if run else manifest
    except Exception as error:  # the rows are committed; the next commit finds their files still there
        logger.warning(
            "data set %s: version %d is there, but its small files stay: %s", data_set.path, manifest.version, error
        )
        return manifest
