"""Digests of records: the same in any order, whatever buffers they lie in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf._core.record.record_digest import RecordDigests

RECORDS = st.lists(st.binary(max_size=200), max_size=40)
BYTES = fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())


def digests_of(records, segment_size=4096, channel_count=3):
    digests = RecordDigests(channel_count)
    config = fb.NetworkConfig(segment_size=segment_size)
    partitioner = fb.by_key(len, key_type="int")
    for channel, buffer in fb.write_buffers(records, BYTES, channel_count, partitioner, config=config):
        digests.add(channel, buffer)
    return [digests.value(channel) for channel in range(channel_count)]


@given(records=RECORDS, order=st.randoms(use_true_random=False), segment_size=st.sampled_from([4096, 32768]))
def test_order_and_buffers_make_no_difference(records, order, segment_size):
    expected = digests_of(records)
    order.shuffle(records)
    assert digests_of(records, segment_size) == expected


@given(records=RECORDS, more=st.binary(max_size=20))
def test_each_record_counts(records, more):
    assert digests_of(records) != digests_of([*records, more])


def test_there_is_one_for_each_channel_only():
    digests = RecordDigests(2)
    assert digests.value(1) == 0
    for call in (lambda: digests.value(2), lambda: digests.add(2, b"")):
        with pytest.raises(IndexError, match="channel 2 of 2"):
            call()
