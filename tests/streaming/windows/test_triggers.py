"""When windows fire, and that nothing of a trigger stays. Flink: EventTimeTriggerTest and its sisters."""

import pytest
from support.models.window_programs import state_left

from flinkbuf.streaming.windows.count_windows import GlobalWindows
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows, ProcessingTimeSessionWindows
from flinkbuf.streaming.windows.time_triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    Min,
    ProcessingTimeTrigger,
)
from flinkbuf.streaming.windows.time_windows import TumblingEventTimeWindows, TumblingProcessingTimeWindows
from flinkbuf.streaming.windows.trigger import Trigger, TriggerResult
from flinkbuf.streaming.windows.triggers import (
    CountTrigger,
    DeltaTrigger,
    NeverTrigger,
    ProcessingTimeoutTrigger,
    PurgingTrigger,
)
from flinkbuf.streaming.windows.window_functions import AllWindowFunction
from flinkbuf.streaming.windows.window_operation import WindowOperatorFactory
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.duration import Time


class Values(AllWindowFunction):
    def apply(self, window, inputs):
        yield sorted(inputs)


class Windows:
    """Windows with a trigger; each method returns what fired."""

    def __init__(self, assigner, trigger, lateness_ms=0):
        factory = WindowOperatorFactory(
            assigner, trigger=trigger, window_function=Values(), allowed_lateness_ms=lateness_ms
        )
        self.harness = OperatorHarness(factory.general())
        self.harness.open()

    def fired(self):
        return [element.value for element in self.harness.take_output() if hasattr(element, "value")]

    def element(self, value, timestamp=None):
        self.harness.process_element(value, timestamp)
        return self.fired()

    def watermark(self, timestamp):
        self.harness.process_watermark(timestamp)
        return self.fired()

    def clock(self, now):
        self.harness.set_processing_time(now)
        return self.fired()

    def is_clean(self):
        return state_left(self.harness) == []


def event_time(trigger, lateness_ms=0):
    return Windows(TumblingEventTimeWindows(100, 0), trigger, lateness_ms)


def processing_time(trigger):
    return Windows(TumblingProcessingTimeWindows(100, 0), trigger)


def test_results_say_what_to_do():
    assert [(each.is_fire(), each.is_purge()) for each in TriggerResult] == [
        (False, False),
        (True, True),
        (True, False),
        (False, True),
    ]
    assert repr(TriggerResult.FIRE) == "<TriggerResult.FIRE: (True, False)>"


def test_event_time_fires_at_the_end_and_at_each_late_record():
    windows = event_time(EventTimeTrigger.create(), lateness_ms=50)
    assert windows.element(1, 5) == []
    assert windows.watermark(98) == []
    assert windows.watermark(99) == [[1]]
    assert windows.element(2, 7) == [[1, 2]]
    assert windows.clock(10_000) == []
    assert windows.watermark(149) == []
    assert windows.is_clean()


def test_processing_time_fires_when_the_clock_has_passed_the_end():
    windows = processing_time(ProcessingTimeTrigger.create())
    assert windows.element(1) == []
    assert windows.watermark(10_000) == []
    assert windows.clock(99) == []
    assert windows.clock(100) == [[1]]
    assert windows.is_clean()


@pytest.mark.parametrize("assigner", [TumblingProcessingTimeWindows(100, 0), ProcessingTimeSessionWindows(100)])
def test_processing_time_fires_at_the_end_of_the_input_where_that_is_wanted(assigner):
    windows = Windows(assigner, ProcessingTimeTrigger.create(fires_at_end=True))
    windows.element(1)
    windows.clock(10)
    windows.element(2)
    assert windows.watermark(10_000) == []
    assert windows.clock(110) == [[1, 2]]
    assert windows.is_clean()
    windows.element(3)
    assert windows.watermark(2**63 - 1) == [[3]]


def test_continuous_event_time_fires_at_each_multiple_and_at_the_end():
    windows = event_time(ContinuousEventTimeTrigger.of(Time.milliseconds(20)))
    assert windows.element(1, 25) == []
    assert windows.watermark(39) == []
    assert windows.watermark(40) == [[1]]
    assert windows.element(2, 45) == []
    assert windows.watermark(85) == [[1, 2], [1, 2]]  # at 60 and at 80
    assert windows.watermark(99) == [[1, 2]]
    assert windows.is_clean()


def test_continuous_event_time_fires_at_once_when_late():
    windows = event_time(ContinuousEventTimeTrigger.of(Time.milliseconds(20)), lateness_ms=50)
    windows.watermark(120)
    assert windows.element(1, 25) == [[1]]


def test_continuous_processing_time_fires_at_each_multiple_and_at_the_end():
    windows = processing_time(ContinuousProcessingTimeTrigger.of(Time.milliseconds(30)))
    windows.clock(10)
    assert windows.element(1) == []
    assert windows.clock(30) == []
    assert windows.clock(31) == [[1]]
    assert windows.clock(95) == [[1], [1]]  # at 60 and at 90
    assert windows.clock(100) == [[1]]  # at 99, where the window ends
    assert windows.is_clean()


@pytest.mark.parametrize("make", [ContinuousEventTimeTrigger, ContinuousProcessingTimeTrigger])
def test_an_interval_is_longer_than_nothing(make):
    with pytest.raises(ValueError, match="longer than 0 ms, got 0"):
        make(0)


def test_min_is_the_lower_one():
    assert Min().reduce(3, 2) == 2


def test_continuous_triggers_of_sessions_go_on_with_the_earliest_firing():
    windows = Windows(EventTimeSessionWindows(30), ContinuousEventTimeTrigger.of(Time.milliseconds(20)))
    windows.element(1, 5)
    windows.element(2, 47)
    assert windows.element(3, 25) == []  # joins the two: next firing at 20
    assert windows.watermark(20) == [[1, 2, 3]]
    assert windows.watermark(59) == [[1, 2, 3]]
    assert windows.watermark(1000) == [[1, 2, 3], [1, 2, 3]]  # at 60 and at the end, 76
    assert windows.is_clean()
    windows = Windows(ProcessingTimeSessionWindows(30), ContinuousProcessingTimeTrigger.of(Time.milliseconds(20)))
    windows.element(1)
    windows.clock(15)
    windows.element(2)
    assert windows.clock(1000) == [[1, 2], [1, 2], [1, 2]]  # at 20, at 40 and at the end, 44
    assert windows.is_clean()


def test_count_fires_at_each_nth_record():
    windows = event_time(CountTrigger.of(2))
    assert [windows.element(value, 5) for value in range(5)] == [[], [[0, 1]], [], [[0, 1, 2, 3]], []]
    assert windows.watermark(99) == []
    assert windows.is_clean()


def test_counts_of_sessions_that_merge_are_added():
    windows = Windows(EventTimeSessionWindows(10), CountTrigger.of(3))
    windows.element(1, 0)
    windows.element(2, 15)
    assert windows.element(3, 8) == [[1, 2, 3]]


def test_purging_drops_contents_at_each_firing():
    windows = event_time(PurgingTrigger.of(CountTrigger.of(2)))
    assert [windows.element(value, 5) for value in range(4)] == [[], [[0, 1]], [], [[2, 3]]]
    windows.watermark(99)
    assert windows.is_clean()


def test_purging_leaves_other_results_as_they_are():
    class Purges(CountTrigger):
        def on_element(self, element, timestamp, window, ctx):
            return TriggerResult.PURGE

    windows = event_time(PurgingTrigger.of(Purges(2)))
    assert windows.element(1, 5) == []
    assert windows.watermark(99) == []


def test_never_never_fires():
    windows = Windows(GlobalWindows.create(), NeverTrigger())
    assert windows.element(1, 5) == windows.watermark(2**63 - 1) == windows.clock(10**9) == []
    assert not NeverTrigger().can_merge()


def test_delta_fires_at_a_record_far_from_the_one_at_the_last_firing():
    windows = Windows(GlobalWindows.create(), DeltaTrigger.of(3, lambda old, new: abs(new - old)))
    assert [bool(windows.element(value)) for value in (10, 12, 13, 14, 17, 18, 2)] == [
        False,
        False,
        False,
        True,
        False,
        True,
        True,
    ]


def test_delta_takes_none_as_a_record():
    windows = Windows(GlobalWindows.create(), PurgingTrigger(DeltaTrigger.of(0, lambda old, new: int(old != new))))
    assert windows.element(None) == []
    assert windows.element(None) == []
    windows = Windows(TumblingEventTimeWindows(100, 0), DeltaTrigger.of(0, lambda old, new: int(old != new)))
    windows.element(1, 5)
    windows.watermark(99)
    assert windows.is_clean()


def test_a_timeout_fires_what_the_trigger_inside_has_not():
    windows = Windows(
        GlobalWindows.create(),
        PurgingTrigger.of(ProcessingTimeoutTrigger.of(CountTrigger.of(3), Time.milliseconds(50))),
    )
    assert windows.element(1) == []
    windows.clock(40)
    assert windows.element(2) == []
    assert windows.clock(51) == [[1, 2]]
    assert windows.clock(200) == []
    assert [windows.element(value) for value in (3, 4, 5)] == [[], [], [[3, 4, 5]]]
    assert windows.clock(500) == []  # the full window took its timeout back
    assert windows.is_clean()


def test_a_timeout_may_count_from_the_last_record():
    trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(10), Time.milliseconds(50), reset_timer_on_new_record=True)
    windows = Windows(GlobalWindows.create(), trigger)
    windows.element(1)
    windows.clock(40)
    windows.element(2)
    assert windows.clock(89) == []
    assert windows.clock(91) == [[1, 2]]


def test_a_timeout_may_leave_the_state_of_the_trigger_inside():
    for should_clear, fires in [(True, [[], []]), (False, [[], [[1, 2, 3]]])]:
        trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(3), Time.milliseconds(50), False, should_clear)
        windows = Windows(GlobalWindows.create(), trigger)
        windows.element(1)
        assert windows.clock(51) == [[1]]
        assert [windows.element(value) for value in (2, 3)] == fires


def test_a_timeout_passes_timers_of_event_time_on():
    trigger = ProcessingTimeoutTrigger.of(EventTimeTrigger(), Time.milliseconds(50))
    windows = event_time(trigger)
    windows.element(1, 5)
    assert windows.watermark(99) == [[1]]
    assert windows.is_clean()


def test_a_trigger_says_whether_it_can_merge():
    assert [
        trigger.can_merge()
        for trigger in (
            EventTimeTrigger(),
            ProcessingTimeTrigger(),
            CountTrigger(1),
            PurgingTrigger(CountTrigger(1)),
            PurgingTrigger(NeverTrigger()),
            DeltaTrigger(1, max),
            ProcessingTimeoutTrigger(CountTrigger(1), 5),
        )
    ] == [True, True, True, True, False, False, False]


def test_a_trigger_needs_all_its_methods():
    class Half(Trigger):
        def on_element(self, element, timestamp, window, ctx):
            return TriggerResult.CONTINUE

    with pytest.raises(TypeError, match="abstract"):
        Half()


def test_a_context_gives_metrics_and_the_time():
    seen = []

    class Looks(EventTimeTrigger):
        def on_element(self, element, timestamp, window, ctx):
            seen.append((ctx.get_current_processing_time(), ctx.get_current_watermark(), isinstance(ctx, self.kind)))
            ctx.get_metric_group().counter("seen").inc()
            ctx.register_event_time_timer(window.start)
            ctx.delete_event_time_timer(window.start)
            return TriggerResult.CONTINUE

        kind = Trigger.OnMergeContext

    windows = event_time(Looks())
    windows.clock(7)
    windows.watermark(3)
    windows.element(1, 5)
    assert seen == [(7, 3, True)]
