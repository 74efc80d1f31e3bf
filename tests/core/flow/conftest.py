"""Fixtures of the tests of readers and writers."""

import pytest

import flinkbuf as fb


@pytest.fixture
def pool():
    with fb.NetworkBufferPool(64, segment_size=4096) as pool:
        yield pool
        assert pool.available_segment_count == 64, "a segment did not come home"
