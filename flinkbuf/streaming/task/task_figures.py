"""Reads what a task's gates, partitions and operators count, for pages and metrics; from any thread.

Nothing is counted for this: the core and the chain keep their counters anyway. Flink: TaskIOMetricGroup,
InternalOperatorIOMetricGroup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from flinkbuf._core.task.record_writer_output import PageOutput
from flinkbuf.metrics import HistogramStatistics, MetricGroup, read_metric
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.partition import ResultPartition
from flinkbuf.streaming.chain.chain import ChainedOperator, OperatorChain
from flinkbuf.streaming.chain.error_location import bounded_repr

NO_WATERMARK = -(2**63)
TEXT_LIMIT = 200  # characters of a user's gauge that gives neither number nor short text
# What a heartbeat carries of one operator: it comes every second, from each subtask.
METRICS_LIMIT = 100
ITEMS_LIMIT = 20  # of a gauge that gives a mapping
NAME_LIMIT = 200  # characters, groups included


def input_figures(gates: Iterable[InputGate]) -> dict[str, Any]:
    """Return what was read and what waits to be read, over all channels."""
    totals = [gate.totals() for gate in gates]
    pools = [each["pool"] for each in totals if each["pool"] is not None]
    return {
        "bytes_in": sum(each["bytes"] for each in totals),
        "buffers_in": sum(each["buffers"] for each in totals),
        "queued_in": sum(each["queued"] for each in totals),
        "credit_in": sum(each["credit"] for each in totals),
        "in_pool_usage": _usage(pools),
    }


def output_figures(partitions: Sequence[ResultPartition]) -> dict[str, Any]:
    """Return what was written and what waits for its readers."""
    usages = [usage for partition in partitions if (usage := _pool_usage(partition)) is not None]
    return {
        # The first counts full buffers only, the second what a timeout has flushed, too.
        "bytes_out": sum(max(each.total_written_bytes, each.total_read_bytes) for each in partitions),
        "buffers_out": sum(partition.total_buffer_count for partition in partitions),
        "queued_out": sum(partition.queued_buffer_count for partition in partitions),
        "out_pool_usage": _usage(usages),
        "soft_back_pressured_ms": sum(partition.soft_back_pressured_ms for partition in partitions),
        "hard_back_pressured_ms": sum(partition.hard_back_pressured_ms for partition in partitions),
    }


def _pool_usage(partition: ResultPartition) -> dict[str, int] | None:
    """Return the used share of a partition's pool; None: its writer is done with it."""
    with suppress(Exception):  # closed just now
        return None if partition.is_closed else partition.buffer_pool_usage()
    return None


def _usage(pools: Sequence[Mapping[str, int]]) -> float:
    """Return which share of all buffers that they may have is in use."""
    size = sum(pool["size"] for pool in pools)
    used = sum(max(0, pool["requested"] - pool["stock"]) for pool in pools)
    return round(used / size, 4) if size else 0.0


def watermark_of(chain: OperatorChain, input_watermarks: Sequence[int]) -> int | None:
    """Return how far event time has come in a task: the lowest of its inputs, or what its source has sent."""
    if input_watermarks:
        lowest = min(input_watermarks)
    else:
        head = chain.made_head
        lowest = NO_WATERMARK if head is None else head.counters.output_watermark
    return None if lowest == NO_WATERMARK else lowest


def operator_figures(chain: OperatorChain) -> tuple[dict[str, object], ...]:
    """Return what each operator counts, and the metrics that its function registered."""
    return tuple(_of_operator(made, chain) for made in chain.operators)


def row_figures(chain: OperatorChain) -> dict[str, int]:
    """Return how many rows came into a task, and left it, in batches of columns."""
    head = chain.made_head
    rows_in = 0 if head is None else _rows_in(head)
    return {
        "rows_in": rows_in or 0,
        "rows_out": sum(sum(_rows_written(made).values()) for made in chain.operators),
    }


def _rows_in(made: ChainedOperator) -> int | None:
    """Return how many rows an operator was given in batches; None: its records are none."""
    count: int | None = getattr(made.operator, "rows_in", None)
    return count


def _rows_written(made: ChainedOperator) -> dict[str | None, int]:
    """Return how many rows an operator has given to other tasks, by side output; each once, however many take it."""
    return {edge.tag: edge.row_count for edge in made.edges if isinstance(edge, PageOutput)}


def _rows_out(made: ChainedOperator, chain: OperatorChain) -> int | None:
    """Return how many rows an operator has given on: what those who take them were given."""
    rows = _rows_written(made)
    for edge in made.config.chained_edges:
        count = _rows_in(chain.operator_at(edge.target))
        if count is not None:
            rows[edge.output_tag] = max(count, rows.get(edge.output_tag, 0))
    return sum(rows.values()) if rows else None


def _of_operator(made: ChainedOperator, chain: OperatorChain) -> dict[str, object]:
    context, counters = made.context, made.counters
    figures = {
        "operator_id": made.config.operator_id,
        "name": made.config.name,
        "records_in": counters.records_in,
        "records_out": counters.records_out,
        "rows_in": _rows_in(made),
        "rows_out": _rows_out(made, chain),
        "input_watermark": _known(counters.input_watermark),
        "output_watermark": _known(counters.output_watermark),
        "metrics": user_metrics(context.metrics),
    }
    if context.metrics is not None and (labels := _labels_of(context.metrics)):
        figures["labels"] = labels
    if context.latency is not None:
        figures["latency"] = {
            key: _plain(histogram.statistics()) for key, histogram in context.latency.histograms.copy().items()
        }
    return figures


def _labels_of(group: MetricGroup) -> dict[str, dict[str, str]]:
    """Return labels by name of the metrics that travel: the groups with a key and a value."""
    named = (
        (name, variables) for (name, _), variables in islice(zip(group, group.variables(), strict=False), METRICS_LIMIT)
    )
    return {name: dict(variables) for name, variables in named if variables}


def _known(watermark: int) -> int | None:
    return None if watermark == NO_WATERMARK else watermark


def user_metrics(group: MetricGroup | None) -> dict[str, object]:
    """Return a group's metrics as JSON can carry them, the first `METRICS_LIMIT`; a gauge that raises has no value.

    Examples
    --------
    >>> from flinkbuf.metrics import Counter, Gauge
    >>> group = MetricGroup()
    >>> _ = group.register("seen", Counter()), group.register("bad", Gauge(lambda: 1 / 0))
    >>> user_metrics(group)
    {'seen': 0, 'bad': None}
    """
    values: dict[str, object] = {}
    for name, metric in islice(group or (), METRICS_LIMIT):
        values[name[:NAME_LIMIT]] = None
        with suppress(Exception):
            values[name[:NAME_LIMIT]] = _plain(read_metric(metric))
    return values


def _plain(value: object) -> object:
    if hasattr(value, "item"):  # numpy's
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key)[:NAME_LIMIT]: _plain(each) for key, each in islice(value.items(), ITEMS_LIMIT)}
    if isinstance(value, HistogramStatistics):
        shown = {"count": len(value), "min": value.min, "max": value.max, "mean": value.mean}
        shown |= {f"p{percent}": value.quantile(percent / 100) for percent in (50, 75, 95, 98, 99)}
        return {key: _plain(each) for key, each in shown.items()}
    return (value if isinstance(value, str) else bounded_repr(value))[:TEXT_LIMIT]
