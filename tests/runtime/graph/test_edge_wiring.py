"""Which subtask reads what of which other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.records.partitioner import pointwise_targets
from flinkbuf.runtime.graph.edge_wiring import channels_of, subpartition_count

PARALLELISM = st.integers(1, 40)


@given(PARALLELISM, PARALLELISM, st.booleans())
def test_every_subpartition_is_read_once(producers, consumers, is_pointwise):
    read = [channel for i in range(consumers) for channel in channels_of(i, producers, consumers, is_pointwise)]
    written = [
        (producer, index)
        for producer in range(producers)
        for index in range(subpartition_count(producer, producers, consumers, is_pointwise))
    ]
    assert sorted(read) == written


@given(PARALLELISM, PARALLELISM)
def test_pointwise_reads_only_from_producers_that_send_there(producers, consumers):
    for consumer in range(consumers):
        channels = channels_of(consumer, producers, consumers, is_pointwise=True)
        assert channels == sorted(channels)
        assert len(channels) <= -(-producers // consumers)
        assert all(consumer in pointwise_targets(producer, producers, consumers) for producer, _ in channels)


def test_a_consumer_reads_its_number_modulo_the_count_not_its_place():
    assert [channels_of(i, 2, 5, is_pointwise=True) for i in range(5)] == [
        [(0, 0)],
        [(0, 1)],
        [(0, 2)],
        [(1, 1)],
        [(1, 0)],
    ]


@pytest.mark.parametrize("consumer", [-1, 3])
def test_a_consumer_that_is_not_there_is_refused(consumer):
    with pytest.raises(ValueError, match=f"from 0 to 2, got {consumer}"):
        channels_of(consumer, 2, 3, is_pointwise=False)
