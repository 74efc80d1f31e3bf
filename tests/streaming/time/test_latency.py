"""Latency markers: sent by sources at an interval, counted by every operator."""

import pytest
from support.worlds.surroundings import OPERATOR_ID, Surroundings

from flinkbuf._core.operators.function_operator import MapOperator
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sources.iterator_source import CollectionSourceOperator
from flinkbuf.streaming.time.latency_stats import LatencyStats
from flinkbuf.types.values import LatencyMarker

ORIGINS = [(bytes([1]) * 16, 0), (bytes([1]) * 16, 1), (bytes([2]) * 16, 0)]


def test_a_source_emits_one_marker_an_interval():
    around = Surroundings(subtask_index=3, settings=ExecutionSettings(latency_tracking_interval_ms=100))
    source = around.open(CollectionSourceOperator([]))
    assert around.output.elements == []  # operators emit when all are open
    around.time.advance_to(351)
    expected = [LatencyMarker(time, bytes.fromhex(OPERATOR_ID), 3) for time in (1, 101, 201, 301)]
    assert around.output.elements == expected
    source.close()
    around.time.advance_to(1_000)
    assert around.output.elements == expected


def test_a_pause_is_not_made_up_for():
    around = Surroundings(settings=ExecutionSettings(latency_tracking_interval_ms=100))
    around.open(CollectionSourceOperator([]))
    around.time.now = 1_000  # the task did something else all the while
    around.time.advance_to(1_050)
    assert len(around.output.elements) <= 2


def test_without_an_interval_there_are_none():
    around = Surroundings()
    around.open(CollectionSourceOperator([]))
    around.time.advance_to(10_000)
    assert around.output.elements == []


def test_an_operator_counts_a_marker_and_sends_it_on():
    around = Surroundings()
    operator = around.open(MapOperator(str))
    around.time.advance_to(30)
    marker = LatencyMarker(10, bytes(16), 0)
    operator.process_latency_marker(marker)
    assert around.output.elements == [marker]
    (histogram,) = around.context.latency.histograms.values()
    assert list(histogram.statistics().values) == [20]


@pytest.mark.parametrize(
    ("granularity", "keys"),
    [
        ("single", [""]),
        ("operator", [f"source_id.{'01' * 16}", f"source_id.{'02' * 16}"]),
        (
            "subtask",
            [
                f"source_id.{'01' * 16}.source_subtask_index.0",
                f"source_id.{'01' * 16}.source_subtask_index.1",
                f"source_id.{'02' * 16}.source_subtask_index.0",
            ],
        ),
    ],
)
def test_granularity_decides_what_shares_a_histogram(granularity, keys):
    stats = LatencyStats(granularity, history_size=2)
    for operator_id, subtask_index in ORIGINS * 3:
        stats.note(LatencyMarker(0, operator_id, subtask_index), now_ms=5)
    assert sorted(stats.histograms) == keys
    assert all(len(histogram.statistics()) == 2 for histogram in stats.histograms.values())


def test_another_granularity_is_refused():
    with pytest.raises(ValueError, match="one of single, operator, subtask, got 'all'"):
        LatencyStats("all")
