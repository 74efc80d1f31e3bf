"""The valve against what stream elements of several channels mean together. Flink: StatusWatermarkValveTest."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.streaming.time.valve import StatusWatermarkValve

MIN = -(2**63)
MAX = 2**63 - 1
IDLE, ACTIVE = "idle", "active"


class Recorder:
    """Keeps what a valve lets out, in order."""

    def __init__(self):
        self.elements = []

    def emit_watermark(self, timestamp):
        self.elements.append(timestamp)

    def emit_watermark_status(self, is_idle):
        self.elements.append(IDLE if is_idle else ACTIVE)


class Valve:
    """A valve of which one sees after each input what came out."""

    def __init__(self, channel_count):
        self.output = Recorder()
        self.valve = StatusWatermarkValve(channel_count, self.output)

    def give(self, element, channel=0):
        self.output.elements.clear()
        if element in (IDLE, ACTIVE):
            self.valve.input_watermark_status(element == IDLE, channel)
        else:
            self.valve.input_watermark(element, channel)
        return list(self.output.elements)


def test_one_channel_lets_watermarks_through_that_increase():
    valve = Valve(1)
    assert [valve.give(timestamp) for timestamp in (0, 25, 25, 3, 26, MAX, MAX)] == [[0], [25], [], [], [26], [MAX], []]


def test_one_channel_tells_each_change_of_status_once_and_drops_watermarks_while_idle():
    valve = Valve(1)
    assert valve.give(ACTIVE) == []
    assert valve.give(5) == [5]
    assert valve.give(IDLE) == [IDLE]
    assert valve.give(IDLE) == []
    assert valve.give(100) == []  # and forgets it
    assert valve.give(ACTIVE) == [ACTIVE]
    assert valve.give(ACTIVE) == []
    assert valve.give(7) == [7]


def test_nothing_comes_out_until_every_channel_has_a_watermark():
    valve = Valve(3)
    assert valve.give(10, 0) == []
    assert valve.give(5, 1) == []
    assert valve.give(12, 1) == []
    assert valve.give(8, 2) == [8]


def test_only_the_lowest_channel_moves_event_time():
    valve = Valve(3)
    for channel, timestamp in enumerate((10, 20, 8)):
        valve.give(timestamp, channel)
    assert valve.give(30, 1) == []
    assert valve.give(15, 0) == []
    assert valve.give(18, 2) == [15]
    assert valve.give(17, 0) == [17]
    assert valve.give(40, 0) == [18]


def test_channels_that_go_idle_one_by_one_hold_nothing_back():
    valve = Valve(3)
    for channel, timestamp in enumerate((10, 15, 25)):
        valve.give(timestamp, channel)
    assert valve.give(IDLE, 1) == []  # it was not the one they waited for
    assert valve.give(IDLE, 0) == [25]
    assert valve.give(26, 2) == [26]


def test_a_channel_that_is_idle_before_its_first_watermark_is_not_waited_for():
    valve = Valve(2)
    assert valve.give(5, 0) == []
    assert valve.give(IDLE, 1) == [5]
    assert valve.give(6, 0) == [6]


@pytest.mark.parametrize("last_to_leave", [0, 1, 2])
def test_when_all_are_idle_the_highest_watermark_goes_out_before_the_status(last_to_leave):
    valve = Valve(3)
    for channel, timestamp in enumerate((10, 15, 25)):
        valve.give(timestamp, channel)
    first, second = (channel for channel in range(3) if channel != last_to_leave)
    out = valve.give(IDLE, first) + valve.give(IDLE, second) + valve.give(IDLE, last_to_leave)
    assert out[-2:] == [25, IDLE]


def test_a_channel_that_resumes_behind_counts_only_when_it_has_caught_up():
    valve = Valve(2)
    valve.give(10, 0)
    valve.give(10, 1)
    assert valve.give(IDLE, 1) == []
    assert valve.give(20, 0) == [20]
    assert valve.give(ACTIVE, 1) == []
    assert valve.give(15, 1) == []  # still behind
    assert valve.give(25, 0) == [25]  # and not waited for
    assert valve.give(25, 1) == []  # caught up
    assert valve.give(30, 0) == []  # it is waited for now
    assert valve.give(28, 1) == [28]


def test_nothing_comes_out_while_all_active_channels_are_behind():
    valve = Valve(3)
    for channel, timestamp in enumerate((10, 5, 5)):
        valve.give(timestamp, channel)
    assert valve.give(IDLE, 1) == []
    assert valve.give(IDLE, 2) == [10]
    assert valve.give(20, 0) == [20]
    assert valve.give(ACTIVE, 1) == []
    assert valve.give(IDLE, 0) == []
    assert valve.give(15, 1) == []
    assert valve.give(19, 1) == []
    assert valve.give(IDLE, 1) == [IDLE]  # what is unaligned can become idle, too


def test_the_valve_is_active_again_with_its_first_channel():
    valve = Valve(2)
    assert valve.give(IDLE, 0) + valve.give(IDLE, 1) == [IDLE]
    assert valve.give(7, 0) == []
    assert valve.give(ACTIVE, 1) == [ACTIVE]
    assert valve.give(ACTIVE, 0) == []


def test_an_input_without_channels_is_refused():
    with pytest.raises(ValueError, match="at least one channel, got 0"):
        StatusWatermarkValve(0, Recorder())


class Definition:
    """What a valve does, worked out anew from all channels each time."""

    def __init__(self, channel_count):
        self.watermarks = [MIN] * channel_count
        self.active = [True] * channel_count
        self.aligned = [True] * channel_count
        self.last = MIN
        self.is_idle = False

    def give(self, element, channel):
        if element == IDLE:
            return self.leave(channel) if self.active[channel] else []
        if element == ACTIVE:
            return [] if self.active[channel] else self.resume(channel)
        if not self.active[channel] or element <= self.watermarks[channel]:
            return []
        self.watermarks[channel] = element
        self.aligned[channel] = self.aligned[channel] or element >= self.last
        return self.lowest()

    def lowest(self):
        aligned = [watermark for watermark, counts in zip(self.watermarks, self.aligned, strict=True) if counts]
        return self.higher(min(aligned)) if aligned else []

    def higher(self, watermark):
        if watermark <= self.last:
            return []
        self.last = watermark
        return [watermark]

    def leave(self, channel):
        self.active[channel] = self.aligned[channel] = False
        if not any(self.active):
            self.is_idle = True
            return [*self.higher(max(self.watermarks)), IDLE]
        return self.lowest() if self.watermarks[channel] == self.last else []

    def resume(self, channel):
        self.active[channel] = True
        self.aligned[channel] = self.watermarks[channel] >= self.last
        was_idle, self.is_idle = self.is_idle, False
        return [ACTIVE] if was_idle else []


STEPS = st.lists(st.tuples(st.one_of(st.integers(0, 30), st.sampled_from([IDLE, ACTIVE])), st.integers(0, 6)))


@given(channel_count=st.integers(1, 7), steps=STEPS)
def test_the_valve_lets_out_what_its_definition_says(channel_count, steps):
    valve, definition = Valve(channel_count), Definition(channel_count)
    for element, channel in steps:
        if channel < channel_count:
            assert valve.give(element, channel) == definition.give(element, channel)


def test_of_many_channels_too_the_lowest_counts():
    """Enough of them for a heap of several floors, in which a wrong parent shows."""
    random, channel_count = Random(1), 40
    valve, definition = Valve(channel_count), Definition(channel_count)
    for step in range(4_000):
        element = random.choice([step + random.randrange(200)] * 8 + [IDLE, ACTIVE])
        channel = random.randrange(channel_count)
        assert valve.give(element, channel) == definition.give(element, channel)
    assert definition.last > 3_000
