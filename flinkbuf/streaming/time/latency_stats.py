"""How long records take from a source to an operator, as the markers among them tell.

Flink: LatencyStats.
"""

from __future__ import annotations

from flinkbuf.metrics import Histogram
from flinkbuf.types.values import LatencyMarker

GRANULARITIES = ("single", "operator", "subtask")  # metrics.latency.granularity
DEFAULT_HISTORY_SIZE = 128  # metrics.latency.history-size


class LatencyStats:
    """The latencies that one operator has seen, one histogram for each kind of origin.

    Parameters
    ----------
    granularity : {"single", "operator", "subtask"}
        Whether all markers go into one histogram, those of each source into its own, or those of each subtask of each
        source.
    history_size : int, default 128
        Latencies that a histogram remembers.

    Examples
    --------
    >>> stats = LatencyStats("operator")
    >>> stats.note(LatencyMarker(1_000, bytes(16), 0), now_ms=1_005)
    >>> {key: histogram.count for key, histogram in stats.histograms.items()}
    {'source_id.00000000000000000000000000000000': 1}
    """

    def __init__(self, granularity: str = "operator", history_size: int = DEFAULT_HISTORY_SIZE) -> None:
        if granularity not in GRANULARITIES:
            raise ValueError(f"metrics.latency.granularity is one of {', '.join(GRANULARITIES)}, got {granularity!r}")
        self.granularity = granularity
        self.history_size = history_size
        self.histograms: dict[str, Histogram] = {}

    def note(self, marker: LatencyMarker, now_ms: int) -> None:
        """A marker has come to this operator."""
        key = self._key_of(marker)
        histogram = self.histograms.get(key)
        if histogram is None:
            histogram = self.histograms[key] = Histogram(self.history_size)
        histogram.update(now_ms - marker.marked_time)

    def _key_of(self, marker: LatencyMarker) -> str:
        if self.granularity == "single":
            return ""
        source = f"source_id.{marker.operator_id.hex()}"
        return source if self.granularity == "operator" else f"{source}.source_subtask_index.{marker.subtask_index}"
