"""A keyed function with state and timers gives the same results wherever it is stopped and however it goes on."""

from importlib.util import find_spec

from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.operators.process_operator import KeyedProcessOperator
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.chain.process_functions import KeyedProcessFunction
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.state.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.time.time_domain import TimeDomain
from flinkbuf.testing import ManualClock, OperatorHarness
from flinkbuf.types.types import Types
from flinkbuf.types.values import Watermark

MAX_PARALLELISM = 16
BACKENDS = ["hashmap", "rocksdb"] if find_spec("rocksdict") else ["hashmap"]
KEYS = ["a", "b", 1, True, None, (2, "c")]


class Everything(KeyedProcessFunction):
    """Uses three kinds of state and both kinds of timers; timers set timers."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.by_size = runtime_context.get_map_state(MapStateDescriptor("by size", Types.LONG(), None))

    def process_element(self, value, ctx):
        _, number = value
        count = (self.count.value() or 0) + 1
        self.count.update(None if number == 7 else count)
        self.seen.add(number)
        self.by_size.put(number % 3, (number, count))
        timers = ctx.timer_service()
        timers.register_event_time_timer(number)
        timers.register_processing_time_timer(number + 2)
        if number % 4 == 0:
            timers.delete_event_time_timer(number - 1)
        yield "record", count

    def on_timer(self, timestamp, ctx):
        if ctx.time_domain() is TimeDomain.EVENT_TIME and timestamp % 5 == 0:
            ctx.timer_service().register_event_time_timer(timestamp + 3)
        if timestamp % 6 == 0:
            self.seen.clear()
        yield (
            repr(ctx.get_current_key()),
            timestamp,
            ctx.time_domain().name,
            list(self.seen),
            sorted(self.by_size.items()),
        )


class Job:
    """All subtasks of one operator; a record goes to the subtask that has its key."""

    def __init__(self, parallelism, snapshots=None, now_ms=0, backend="hashmap"):
        self.harnesses = []
        for subtask in range(parallelism):
            operator = KeyedProcessOperator(
                Everything(), lambda value: value[0], TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME
            )
            self.harnesses.append(
                OperatorHarness(
                    operator,
                    parallelism=parallelism,
                    max_parallelism=MAX_PARALLELISM,
                    subtask_index=subtask,
                    restore=snapshots,
                    clock=ManualClock(now_ms),
                    settings=ExecutionSettings(state_backend=backend),
                )
            )
            self.harnesses[-1].open()

    def play(self, script):
        for kind, key, number in script:
            for harness in self.harnesses:
                groups = harness.context.keyed_state.key_groups
                if kind == "record" and groups.grouper().group_of(key) in groups:
                    harness.process_element((key, number), number)
                elif kind == "watermark":
                    harness.process_watermark(number)
                elif kind == "clock":
                    harness.set_processing_time(number)

    def output(self):
        found = [element for harness in self.harnesses for element in harness.take_output()]
        return sorted(repr(element) for element in found if not isinstance(element, Watermark))

    def stop(self):
        snapshots = [OperatorSnapshot.decode(harness.snapshot().encode()) for harness in self.harnesses]
        for harness in self.harnesses:
            harness.close()
        return snapshots


@st.composite
def scripts(draw):
    script, watermark, clock = [], 0, 0
    for kind in draw(st.lists(st.sampled_from(["record", "record", "watermark", "clock"]), max_size=25)):
        if kind == "record":
            script.append((kind, draw(st.sampled_from(KEYS)), draw(st.integers(watermark + 1, watermark + 30))))
        elif kind == "watermark":
            watermark += draw(st.integers(0, 8))
            script.append((kind, None, watermark))
        else:
            clock += draw(st.integers(0, 8))
            script.append((kind, None, clock))
    return script


@settings(max_examples=60, deadline=None)
@given(script=scripts(), cuts=st.lists(st.integers(0, 25), max_size=3), data=st.data())
def test_results_do_not_depend_on_where_a_job_is_stopped_and_at_which_parallelism_it_goes_on(script, cuts, data):
    straight = Job(1)
    straight.play(script)
    expected = straight.output()
    found, begin, snapshots = [], 0, None
    for cut in [*sorted(cuts), len(script)]:
        now_ms = max((number for kind, _, number in script[:begin] if kind == "clock"), default=0)
        backend = data.draw(st.sampled_from(BACKENDS))
        job = Job(data.draw(st.integers(1, 5)), snapshots, now_ms, backend)
        before = max((number for kind, _, number in script[:begin] if kind == "watermark"), default=None)
        if before is not None:
            # Event time is not in a snapshot: in a job it comes again from upstream. (A timer that was late would fire
            # then, and not with the next watermark: the scripts have none.)
            job.play([("watermark", None, before)])
        job.play(script[begin:cut])
        found += job.output()
        snapshots, begin = job.stop(), max(begin, cut)
    assert sorted(found) == expected
