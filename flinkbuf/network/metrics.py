"""What a network environment is doing: figures of its channels, gates, partitions and pools at one moment.

The counters are kept in C, always; a snapshot reads them. Nothing runs in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition

_LONG_ID = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{112}\b")
_FIGURES = ("records", "buffers", "bytes", "queued", "backlog", "credit", "oldest ms")
ROWS_MAX = 50  # of a table; the text says how many more there are


@dataclass(frozen=True)
class PoolMetrics:
    """A local buffer pool. Counters run since it was created.

    References
    ----------
    Flink ``outPoolUsage``, ``inPoolUsage``.
    """

    size: int
    """Buffers that it may have now."""
    stock: int
    """Idle ones that it holds."""
    requested: int
    """All that it has, in use or idle."""
    peak: int
    """The most that it ever had."""
    full_channels: int
    """Subpartitions that have reached their quota."""
    blocked: int
    """Requests that wait now."""
    granted: int
    refused: int
    """Requests that got none and did not wait."""
    overdrafts: int
    waits: int
    waited_ms: int

    @property
    def used(self) -> int:
        """Buffers in use."""
        return max(0, self.requested - self.stock)


@dataclass(frozen=True)
class SubpartitionMetrics:
    """One reader's queue of a result partition."""

    subpartition_index: int
    records: int
    """Written to it; broadcast ones count for each subpartition."""
    buffers: int
    """Added, events included."""
    bytes: int
    """Taken by its reader."""
    queued: int
    """Buffers and events that wait, the open one included."""
    backlog: int
    """Data buffers among them that may be taken."""
    credit: int | None
    """Buffers that a reader in another process has room for; None: the reader is local, or there is none."""
    oldest_ms: int
    """For how long at most the first unread byte has waited; 0: all is read."""


@dataclass(frozen=True)
class PartitionMetrics:
    """A result partition of this process."""

    partition_id: str
    """120 hex digits."""
    type: str
    state: str
    """Words of: open, finished, closed, released."""
    subpartitions: tuple[SubpartitionMetrics, ...]
    pool: PoolMetrics | None
    """None after its writer has closed it."""
    soft_back_pressured_ms: int
    """The writer waited before a record, although it might have gone on."""
    hard_back_pressured_ms: int
    """The writer waited for a buffer."""


@dataclass(frozen=True)
class ChannelMetrics:
    """One channel of an input gate."""

    channel_index: int
    source: str | None
    """What it reads; None: a partition that was given as it is."""
    records: int
    """Handed out by a `RecordReader`, up to the last whole buffer."""
    buffers: int
    """Taken, events included."""
    bytes: int
    queued: int
    """Buffers and events that have arrived and wait."""
    backlog: int
    """Data buffers that wait at the sender, as it said last."""
    credit: int | None
    """Free buffers for what the sender has; None: a local channel, which needs none."""
    oldest_ms: int
    """How long the first one has waited; 0: none does."""
    is_finished: bool


@dataclass(frozen=True)
class GateMetrics:
    """An input gate of this process."""

    gate_index: int
    """In the order of creation."""
    state: str
    """open, finished or closed."""
    channels: tuple[ChannelMetrics, ...]
    pool: PoolMetrics | None
    """Floating buffers; None without channels to other processes."""
    idle_ms: int
    """It was waited for, and had nothing."""
    announced_buffer_size: int | None
    """Bytes, with buffer debloating."""


@dataclass(frozen=True)
class NetworkMetrics:
    """All of it at one moment; `str` and ``rich`` show tables. It can be pickled and sent elsewhere.

    Attributes
    ----------
    host, port : str, int
        Where others find the environment.
    totals : mapping of str to number
        The whole process by Flink's names: memory segments, and what went over sockets.
    partitions : tuple of PartitionMetrics
    gates : tuple of GateMetrics
        Those that somebody still holds.
    """

    host: str
    port: int
    totals: Mapping[str, int | float]
    partitions: tuple[PartitionMetrics, ...]
    gates: tuple[GateMetrics, ...]

    def __str__(self) -> str:
        return "\n\n".join(_as_text(*table) for table in self._tables())

    def __rich__(self) -> object:
        from rich.console import Group
        from rich.table import Table

        shown = []
        for title, header, rows, note in self._tables():
            table = Table(title=title, title_justify="left", caption=note or None, caption_justify="left", box=None)
            for index, name in enumerate(header):
                table.add_column(name, justify="left" if index == 0 else "right", no_wrap=True)
            for row in rows:
                table.add_row(*row)
            shown.append(table)
        return Group(*shown)

    def _tables(self) -> Iterator[tuple[str, Sequence[str], list[Sequence[str]], str]]:
        """Title, header, rows and a note: of the process, of the partitions, of the gates."""
        totals: list[Sequence[str]] = [(name, _number(value)) for name, value in self.totals.items()]
        yield f"network {self.host}:{self.port}", ("", ""), totals, ""
        header = ("partition", "sub", *_FIGURES, "soft ms", "hard ms")
        yield ("out", header, *_cut(row for partition in self.partitions for row in _partition_rows(partition)))
        header = ("gate", "channel", *_FIGURES, "idle ms", "source")
        yield ("in", header, *_cut(row for gate in self.gates for row in _gate_rows(gate)))


def partition_metrics(partition_id: str, partition: ResultPartition) -> PartitionMetrics:
    """Look at one partition."""
    subpartitions = tuple(
        SubpartitionMetrics(subpartition_index=index, **_known_credit(figures))
        for index, figures in enumerate(partition.subpartition_usage())
    )
    states = [state for state in ("finished", "closed", "released") if getattr(partition, f"is_{state}")]
    return PartitionMetrics(
        partition_id,
        partition.partition_type,
        " ".join(states) or "open",
        subpartitions,
        None if partition.is_closed else PoolMetrics(**partition.buffer_pool_usage()),
        partition.soft_back_pressured_ms,
        partition.hard_back_pressured_ms,
    )


def gate_metrics(gate_index: int, gate: InputGate) -> GateMetrics:
    """Look at one gate."""
    figures = gate.figures()
    channels = tuple(
        ChannelMetrics(channel_index=index, **_known_credit(channel))
        for index, channel in enumerate(figures["channels"])
    )
    is_finished = all(channel.is_finished for channel in channels)
    return GateMetrics(
        gate_index,
        "finished" if is_finished else "closed" if gate.is_closed else "open",
        channels,
        None if figures["pool"] is None else PoolMetrics(**figures["pool"]),
        figures["idle_ms"],
        figures["announced_buffer_size"],
    )


def _known_credit(figures: dict[str, Any]) -> dict[str, Any]:
    return figures | {"credit": None} if figures["credit"] < 0 else figures


def _partition_rows(partition: PartitionMetrics) -> Iterator[Sequence[str]]:
    name = f"{partition.partition_id[:8]}… {partition.state}"
    times = (_number(partition.soft_back_pressured_ms), _number(partition.hard_back_pressured_ms))
    for each in partition.subpartitions:
        yield (name, str(each.subpartition_index), *_figures(each), *times)


def _gate_rows(gate: GateMetrics) -> Iterator[Sequence[str]]:
    for each in gate.channels:
        name = f"{gate.gate_index} {gate.state}"
        source = _LONG_ID.sub(r"\1…", each.source or "-")
        yield (name, str(each.channel_index), *_figures(each), _number(gate.idle_ms), source)


def _figures(each: SubpartitionMetrics | ChannelMetrics) -> Iterator[str]:
    for value in (each.records, each.buffers, each.bytes, each.queued, each.backlog, each.credit, each.oldest_ms):
        yield _number(value)


def _number(value: int | float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _cut(rows: Iterable[Sequence[str]]) -> tuple[list[Sequence[str]], str]:
    listed = list(rows)
    hidden = len(listed) - ROWS_MAX
    return listed[:ROWS_MAX], f"and {hidden:,} more" if hidden > 0 else ""


def _as_text(title: str, header: Sequence[str], rows: list[Sequence[str]], note: str) -> str:
    lines = [header, *rows] if any(header) else rows
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))] if lines else []
    text = [title]
    for line in lines:
        first, *others = zip(line, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        text.append("  " + "  ".join(cells))
    return "\n".join(text + ([f"  {note}"] if note else []))
