"""Events between source operators and the coordinator of their source.

Flink: org.apache.flink.runtime.source.event. Frozen: they become messages between processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkbuf.streaming.sources.source import SourceSplit


@dataclass(frozen=True)
class SplitsAssigned:
    """To a reader: read these, too. Flink: AddSplitEvent."""

    splits: tuple[SourceSplit, ...]


@dataclass(frozen=True)
class NoMoreSplits:
    """To a reader: no more come. Flink: NoMoreSplitsEvent."""


@dataclass(frozen=True)
class SplitRequested:
    """From a reader: it has nothing to do. Flink: RequestSplitEvent."""

    host: str | None = None


@dataclass(frozen=True)
class SourceEvent:
    """Either way: something of the source's own. Flink: SourceEventWrapper."""

    event: object


@dataclass(frozen=True)
class WatermarkReported:
    """From a source operator: how far it is; the highest number while it is idle. Flink: ReportedWatermarkEvent."""

    watermark: int


@dataclass(frozen=True)
class AlignmentAnnounced:
    """To a source operator: how far it may go. Flink: WatermarkAlignmentEvent."""

    max_watermark: int
