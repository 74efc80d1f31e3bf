"""The state of column operators in snapshots: rows of keys and partial results, as pages by key group.

An operator keeps its groups in memory, whatever the job's backend is. A snapshot copies the columns at once, which
costs what memory costs; pages are made of the copy later, on another thread. A page is read back by whoever has its key
group, so a job goes on at another parallelism. Flink: HeapSnapshotStrategy, by columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flinkbuf._core.state.state_codec import GroupWriter
from flinkbuf.checkpoints.state_index import StateMeta
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.column_batch import ColumnBatch, PageReader, PageWriter
from flinkbuf.records.column_exchange import RowKeys, parts_by_number
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.keyed_snapshot import StateSections

KIND = "columns"
_PART_BYTES = 1 << 26  # of columns that are put in the order of key groups at once
_PAGE_BYTES = 1 << 16  # of a page, if there are many key groups: as many bytes more are then put in order


class ColumnState(Protocol):
    """What a column operator keeps of its rows, by key."""

    name: str

    def frozen_rows(self) -> Sequence[object]:
        """Return all there is as batches, which nobody changes; the key columns come first."""
        ...

    def restore_rows(self, batch: object) -> None:
        """Take a batch of a snapshot, or a part of it."""
        ...


@dataclass(frozen=True)
class FrozenColumns:
    """The state of a column operator at the moment of a snapshot."""

    meta: StateMeta
    batches: Sequence[object]
    key_count: int

    @staticmethod
    def of(state: ColumnState, key_count: int) -> FrozenColumns:
        """Return what a state holds now."""
        return FrozenColumns(meta_of(state), state.frozen_rows(), key_count)

    def write(self, writer: StateSections, buffers: GroupWriter, key_groups: KeyGroups) -> None:
        """Write a page for each key group and batch that has rows of it."""
        pages = PageWriter()
        part_bytes = max(_PART_BYTES, _PAGE_BYTES * (key_groups.last - key_groups.first + 1))
        for batch in (part for whole in self.batches for part in _parts_of(whole, part_bytes)):
            names = tuple(batch.schema.names[: self.key_count])
            groups = RowKeys(names, key_groups.max_parallelism).of(batch)
            for group, rows in parts_by_number(ColumnBatch(batch), groups, key_groups.max_parallelism):
                if group not in key_groups:
                    raise RuntimeError(
                        f"a row of the state {self.meta.name!r} is in key group {group}, but this subtask has "
                        f"{key_groups.first} to {key_groups.last}"
                    )
                writer.put_pieces(group, pages.write_pieces(rows))

    def release(self) -> None:
        """Do nothing: the batches are a copy, which holds up nobody."""


def _parts_of(batch: Any, most_bytes: int) -> Iterator[Any]:
    """Yield the rows of a batch in parts of about as many bytes: no more is copied at once."""
    count = max(1, batch.num_rows * most_bytes // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, count):
        yield batch.slice(start, count)


def meta_of(state: ColumnState) -> StateMeta:
    """Return how a snapshot describes the state."""
    return StateMeta(state.name, KIND, is_internal=True)


def restore_columns(state: ColumnState, sections: Iterable[tuple[int, Any]]) -> None:
    """Give a state the rows of the sections of its key groups.

    Raises
    ------
    CorruptDataError
        If these are no rows of such a state.
    TypeError
        If they are of another program's.
    """
    pages = PageReader()
    for key_group, data in sections:
        batch = pages.read(bytes(data)).batch
        try:
            state.restore_rows(batch)
        except CorruptDataError:
            raise
        except (ArithmeticError, LookupError, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise CorruptDataError(
                f"key group {key_group} of the state {state.name!r} has rows that cannot be restored: "
                f"{type(error).__name__}: {error}"
            ) from error
