"""Positions in a data set whose subpartitions are logs: how far a reader that follows it has come.

Within a generation of a data set rows are only added, behind those of their subpartition that were there. So a position
is the number of rows that lie before it in each subpartition, as an offset of a Kafka partition is; it stays right when
files are replaced by others with the same rows. An overwrite begins a new generation, whose rows are others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from flinkbuf.partition_files.manifest import Manifest
from flinkbuf.partition_files.part_reader import Piece, Span, cut_spans


@dataclass(frozen=True)
class LogPosition:
    """How many rows of each subpartition lie before a place in a generation of a data set.

    Examples
    --------
    >>> LogPosition("0123456789abcdef", (3, 0)).to_json()
    {'generation': '0123456789abcdef', 'rows': [3, 0]}
    """

    generation: str
    rows: tuple[int, ...]

    @classmethod
    def begin_of(cls, manifest: Manifest) -> LogPosition:
        """The place before all rows."""
        return cls(manifest.generation, (0,) * manifest.layout.subpartition_count)

    @classmethod
    def end_of(cls, manifest: Manifest) -> LogPosition:
        """The place behind all rows that a version has."""
        counts = [sum(column) for column in zip(*(file.records for file in manifest.files), strict=True)]
        return cls(manifest.generation, tuple(counts)) if counts else cls.begin_of(manifest)

    def to_json(self) -> dict[str, object]:
        """What Spark keeps of it."""
        return {"generation": self.generation, "rows": list(self.rows)}

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> LogPosition:
        """Read it again; ValueError if it is something else."""
        generation, rows = found.get("generation"), found.get("rows")
        if not isinstance(generation, str) or not isinstance(rows, list) or not all(type(each) is int for each in rows):
            raise ValueError(f"{dict(found)!r:.200} is no position in a data set: the checkpoint is of another source")
        return cls(generation, tuple(rows))

    def check_reaches(self, other: LogPosition) -> None:
        """Refuse a place that lies before another one of the same generation.

        Raises
        ------
        ValueError
            The data set has not all rows that it had.
        """
        if any(here < there for here, there in zip(self.rows, other.rows, strict=True)):
            raise ValueError(
                f"the data set ends after {sum(self.rows)} rows, before row {sum(other.rows)}, up to which it is to be "
                "read: it was put back to an older state, or its file system does not show the latest one yet"
            )

    def towards(self, end: LogPosition, row_count: int) -> LogPosition:
        """A position on the way to a later one, at most so many rows behind this one: of all subpartitions alike.

        Examples
        --------
        >>> LogPosition("", (0, 5, 0)).towards(LogPosition("", (8, 5, 4)), 6).rows
        (4, 5, 2)
        """
        ahead = [last - first for first, last in zip(self.rows, end.rows, strict=True)]
        total = sum(ahead)
        if total <= row_count:
            return end
        shares = [each * row_count // total for each in ahead]
        left = row_count - sum(shares)
        for index, each in enumerate(ahead):
            if left and shares[index] < each:
                shares[index], left = shares[index] + 1, left - 1
        return LogPosition(self.generation, tuple(map(sum, zip(self.rows, shares, strict=True))))


def pieces_between(
    manifest: Manifest,
    start: LogPosition,
    end: LogPosition,
    subpartitions: Collection[int],
    task_size: int | None = None,
) -> list[tuple[Piece, ...]]:
    """Cut the rows between two positions into tasks, as `cut_pieces`.

    Parameters
    ----------
    manifest : Manifest
        A version of the positions' generation that has all these rows.
    start, end : LogPosition
    subpartitions : collection of int
        Those to be read.
    task_size : int, optional
        Bytes.

    Raises
    ------
    ValueError
        If it has not all of them.
    """
    LogPosition.end_of(manifest).check_reaches(end)
    wanted = []
    for index in sorted(subpartitions):
        spans, position = [], 0
        for file in manifest.files:
            first = max(0, start.rows[index] - position)
            last = min(file.records[index], end.rows[index] - position)
            if first < last:
                spans.append(Span(file, index, None if last - first == file.records[index] else (first, last)))
            position += file.records[index]
        wanted.append(spans)
    return cut_spans(wanted, task_size)
