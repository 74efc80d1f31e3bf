"""Reads what a task's gates, partitions and operators count, for whoever watches; from any thread.

Nothing is counted for this: the core and the chain keep their counters anyway. Flink: TaskIOMetricGroup,
InternalOperatorIOMetricGroup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from flinkbuf.metrics import HistogramStatistics, MetricGroup
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition
from flinkbuf.streaming.chain import OperatorChain
from flinkbuf.streaming.error_location import bounded_repr

NO_WATERMARK = -(2**63)
TEXT_LIMIT = 200  # characters of a user's gauge that gives neither number nor short text


def input_figures(gates: Iterable[InputGate]) -> dict[str, Any]:
    """Return what was read and what waits to be read, over all channels."""
    channels = [channel for gate in gates for channel in gate.figures()["channels"]]
    return {
        "bytes_in": sum(channel["bytes"] for channel in channels),
        "buffers_in": sum(channel["buffers"] for channel in channels),
        "queued_in": sum(channel["queued"] for channel in channels),
    }


def output_figures(partitions: Sequence[ResultPartition]) -> dict[str, Any]:
    """Return what was written and what waits for its readers."""
    usages = [usage for partition in partitions if (usage := _pool_usage(partition)) is not None]
    size = sum(usage["size"] for usage in usages)
    used = sum(usage["requested"] - usage["stock"] for usage in usages)
    return {
        # The first counts full buffers only, the second what a timeout has flushed, too.
        "bytes_out": sum(max(each.total_written_bytes, each.total_read_bytes) for each in partitions),
        "buffers_out": sum(partition.total_buffer_count for partition in partitions),
        "queued_out": sum(partition.queued_buffer_count for partition in partitions),
        "out_pool_usage": used / size if size else 0.0,
        "soft_back_pressured_ms": sum(partition.soft_back_pressured_ms for partition in partitions),
        "hard_back_pressured_ms": sum(partition.hard_back_pressured_ms for partition in partitions),
    }


def _pool_usage(partition: ResultPartition) -> dict[str, int] | None:
    """None: its writer is done with it."""
    with suppress(Exception):  # closed just now
        return None if partition.is_closed else partition.buffer_pool_usage()
    return None


def watermark_of(chain: OperatorChain, input_watermarks: Sequence[int]) -> int | None:
    """Return how far event time has come in a task: the lowest of its inputs, or what its source has sent."""
    if input_watermarks:
        lowest = min(input_watermarks)
    else:
        head = chain.made_head
        lowest = NO_WATERMARK if head is None else head.counters.output_watermark
    return None if lowest == NO_WATERMARK else lowest


def operator_figures(chain: OperatorChain) -> tuple[dict[str, Any], ...]:
    """Return what each operator counts, and the metrics that its function registered."""
    return tuple(
        {
            "operator_id": made.config.operator_id,
            "name": made.config.name,
            "records_in": made.counters.records_in,
            "records_out": made.counters.records_out,
            "input_watermark": _known(made.counters.input_watermark),
            "output_watermark": _known(made.counters.output_watermark),
            "metrics": user_metrics(made.context.metrics),
        }
        for made in chain.operators
    )


def _known(watermark: int) -> int | None:
    return None if watermark == NO_WATERMARK else watermark


def user_metrics(group: MetricGroup | None) -> dict[str, Any]:
    """Return a group's metrics as JSON can carry them; a gauge that raises has no value.

    Examples
    --------
    >>> from flinkbuf.metrics import Counter, Gauge
    >>> group = MetricGroup()
    >>> _ = group.register("seen", Counter()), group.register("bad", Gauge(lambda: 1 / 0))
    >>> user_metrics(group)
    {'seen': 0, 'bad': None}
    """
    values: dict[str, Any] = {}
    for name, _ in group or ():
        values[name] = None
    if group is None or not values:
        return values
    with suppress(Exception):
        return {name: _plain(value) for name, value in group.sample().items()}
    for name, metric in group:  # one of them raises
        with suppress(Exception):
            alone = MetricGroup()
            alone.register(name, metric)
            values[name] = _plain(alone.sample()[name])
    return values


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):  # numpy's
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, HistogramStatistics):
        shown = {"count": len(value), "min": value.min, "max": value.max, "mean": value.mean}
        shown |= {f"p{percent}": value.quantile(percent / 100) for percent in (50, 75, 95, 98, 99)}
        return {key: _plain(each) for key, each in shown.items()}
    return (value if isinstance(value, str) else bounded_repr(value))[:TEXT_LIMIT]
