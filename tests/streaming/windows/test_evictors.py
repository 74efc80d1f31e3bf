"""Records dropped from windows. Flink: EvictingWindowOperatorTest for the operator, the evictors' rules here."""

import pytest

from flinkbuf.streaming.windows.evictors import CountEvictor, DeltaEvictor, TimeEvictor, TimestampedValue
from flinkbuf.types.duration import Time

MIN = -(2**63)


def elements(*timestamps):
    return [TimestampedValue(number, timestamp) for number, timestamp in enumerate(timestamps)]


def left(evictor, given, when="before"):
    given = list(given)
    getattr(evictor, f"evict_{when}")(given, len(given), None, None)
    return [element.value for element in given]


def test_count_keeps_the_last_ones():
    assert left(CountEvictor.of(2), elements(1, 2, 3)) == [1, 2]
    assert left(CountEvictor.of(5), elements(1, 2, 3)) == [0, 1, 2]
    assert left(CountEvictor.of(0), elements(1, 2, 3)) == []


def test_time_keeps_what_is_younger_than_its_length():
    evictor = TimeEvictor.of(Time.milliseconds(10))
    assert left(evictor, elements(5, 20, 10, 11)) == [1, 3]
    assert left(evictor, []) == []


def test_time_keeps_all_where_there_are_no_timestamps():
    assert left(TimeEvictor.of(Time.milliseconds(10)), elements(MIN, MIN)) == [0, 1]


def test_delta_keeps_what_is_near_the_last_record():
    evictor = DeltaEvictor.of(2, lambda old, new: abs(new - old))
    assert left(evictor, elements(0, 0, 0, 0)) == [2, 3]
    assert left(evictor, []) == []


@pytest.mark.parametrize(
    "evictor",
    [
        CountEvictor.of(1, True),
        TimeEvictor.of(Time.milliseconds(1), True),
        DeltaEvictor.of(1, lambda old, new: abs(new - old), True),
    ],
)
def test_each_may_do_its_work_after_the_function(evictor):
    assert left(evictor, elements(1, 2), "before") == [0, 1]
    assert left(evictor, elements(1, 2), "after") == [1]
