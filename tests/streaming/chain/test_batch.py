"""Tasks in batch execution: sorted inputs, one key at a time.

Flink: SortingDataInputTest, MultiInputSortingDataInputsTest, BatchExecutionInternalTimeServiceTest,
BatchExecutionStateBackendTest.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.worlds.stream_tasks import (
    END,
    InputConfig,
    ListSink,
    ListSource,
    chain_of,
    edge,
    make_task,
    operator,
    run_all,
)

import flinkbuf as fb
from flinkbuf._core.operators.stream_operator import MAX_WATERMARK, NO_TIMESTAMP
from flinkbuf.common import Time, WatermarkStrategy
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from flinkbuf.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkbuf.datastream.window import TumblingEventTimeWindows
from flinkbuf.network.io_manager import IOManager
from flinkbuf.runtime.manager.memory_manager import MemoryManager, OperatorMemory
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, SortKey
from flinkbuf.streaming.chain.operator_setup import make_context
from flinkbuf.streaming.task.task_state import TaskState
from flinkbuf.testing import ManualClock

PAIR = fb.Types.TUPLE([fb.Types.STRING(), fb.Types.INT()])
BATCH = ExecutionSettings(is_batch=True, sorted_inputs_memory=1 << 20)
BY_FIRST = SortKey(lambda pair: pair[0], fb.Types.STRING())
PLAIN = None


class Paths:
    """Where sorted runs go, as an I/O manager says it."""

    def __init__(self, folder):
        self.folder = folder
        self.count = 0

    def partition_path(self):
        self.count += 1
        return self.folder / f"run-{self.count}"


def at(value, timestamp):
    return fb.types.StreamRecord(value, timestamp)


def batch_task(taken, made, inputs, sort_keys, *, settings=BATCH, type=PAIR, **options):
    """A task of the last operator of a stream, with inputs of records, and the tasks that send them."""
    pool = fb.NetworkBufferPool(256, segment_size=4096)
    partitions = [fb.ResultPartition(pool, 1) for _ in inputs]
    gates = [fb.InputGate([(partition, 0)]) for partition in partitions]
    sources = [
        make_task(
            chain_of(
                operator(
                    "source", lambda items=items: ListSource(items), is_source=True, network_edges=(edge(0, type),)
                ),
                partition_count=1,
            ),
            [],
            [partition],
        )
        for items, partition in zip(inputs, partitions, strict=True)
    ]
    transformation = made._transformation
    head = operator(
        transformation.name, transformation.factory, is_keyed=transformation.is_keyed, key_type=transformation.key_type
    )
    configs = tuple(InputConfig(type, (index,), key) for index, key in enumerate(sort_keys))
    chain = chain_of(head, operator("sink", lambda: ListSink(taken)), inputs=configs)
    options = {"make_context": make_context, "clock": ManualClock(), **options}
    task = make_task(chain, gates, [], settings=settings, **options)
    return task, sources


def run_batch(made, *inputs, sort_keys=(BY_FIRST,), **options):
    taken = []
    task, sources = batch_task(taken, made, inputs, sort_keys, **options)
    run_all(*sources, task)
    if task.error is not None:
        raise task.error
    return taken


ENV = StreamExecutionEnvironment.get_execution_environment()


def stream():
    return ENV.from_collection([], PAIR)


def keyed(made=None):
    return (made or stream()).key_by(lambda pair: pair[0], fb.Types.STRING())


class Show(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_current_key(), value, ctx.timestamp(), ctx.timer_service().current_watermark()


def values(taken):
    return [each.value if isinstance(each, fb.types.StreamRecord) else each for each in taken if each != END]


EVENTS = [at(("b", 1), 9), at(("a", 2), 7), at(("b", 3), 4), at(("a", 4), 7), at(("a", 5), 1)]


def test_records_of_a_key_come_together_in_order_of_time():
    taken = run_batch(keyed().process(Show()), EVENTS)
    assert values(taken) == [
        ("a", ("a", 5), 1, NO_TIMESTAMP),
        ("a", ("a", 2), 7, NO_TIMESTAMP),
        ("a", ("a", 4), 7, NO_TIMESTAMP),
        ("b", ("b", 3), 4, NO_TIMESTAMP),
        ("b", ("b", 1), 9, NO_TIMESTAMP),
    ]
    assert taken[-1] == END
    assert taken.count(END) == 1


def test_sorting_takes_its_memory_from_the_slot_and_gives_it_back():
    memory = MemoryManager(1 << 20)
    used = []

    class Looks(Show):
        def process_element(self, value, ctx):
            used.append(memory.total_bytes - memory.available_bytes)
            yield from super().process_element(value, ctx)

    def with_memory(*, config, **rest):
        return make_context(config=config, memory=OperatorMemory(memory, config.operator_id), **rest)

    taken, made = [], keyed().process(Looks())
    task, sources = batch_task(taken, made, [EVENTS], (BY_FIRST,), make_context=with_memory)
    run_all(*sources, task)
    assert task.error is None
    assert set(used) == {1 << 19}, "half of what is left, of what it would have liked to have"
    assert len(values(taken)) == len(EVENTS)
    assert memory.is_empty


def test_watermarks_before_the_end_are_not_passed_on():
    taken = run_batch(keyed().process(Show()), [fb.types.Watermark(3), *EVENTS, fb.types.Watermark(20)])
    assert [each for each in taken if isinstance(each, fb.types.Watermark)] == [END]


WORDS = st.sampled_from(["", "a", "b", "word", "longer words"])
RECORDS = st.lists(st.tuples(WORDS, st.integers(0, 5)), max_size=60)


@given(RECORDS)
@settings(deadline=None, max_examples=15)
def test_nothing_is_lost_and_the_order_is_that_of_key_and_time(records):
    items = [at((key, number), time) for number, (key, time) in enumerate(records)]
    found = [(key, time, value[1]) for key, value, time, _ in values(run_batch(keyed().process(Show()), items))]
    wanted = sorted((len(key.encode()), key, time, number) for number, (key, time) in enumerate(records))
    assert found == [(key, time, number) for _, key, time, number in wanted]


class Timers(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", fb.Types.LONG()))

    def process_element(self, value, ctx):
        assert (self.count.value() is None) == (value[1] in (1, 2))  # of another key nothing is left
        self.count.update((self.count.value() or 0) + 1)
        timers = ctx.timer_service()
        timers.register_processing_time_timer(value[1])
        timers.register_event_time_timer(100 - value[1])
        timers.register_event_time_timer(1000)
        timers.delete_event_time_timer(1000)

    def on_timer(self, timestamp, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(timestamp + 1)
        timers.register_processing_time_timer(timestamp + 1)
        yield ctx.get_current_key(), timestamp, self.count.value(), timers.current_watermark()


def test_timers_fire_at_the_end_of_their_key_and_state_goes_then():
    items = [at((key, number), number) for number, key in enumerate("xabab") if key != "x"]
    assert values(run_batch(keyed().process(Timers()), items)) == [
        ("a", 97, 2, MAX_WATERMARK),
        ("a", 99, 2, MAX_WATERMARK),
        ("a", 1, 2, MAX_WATERMARK),
        ("a", 3, 2, MAX_WATERMARK),
        ("b", 96, 2, MAX_WATERMARK),
        ("b", 98, 2, MAX_WATERMARK),
        ("b", 2, 2, MAX_WATERMARK),
        ("b", 4, 2, MAX_WATERMARK),
    ]


def test_a_reduction_gives_one_result_a_key():
    reduced = keyed().reduce(lambda one, two: (one[0], one[1] + two[1]))
    assert run_batch(reduced, EVENTS) == [at(("a", 11), MAX_WATERMARK), at(("b", 4), MAX_WATERMARK), END]


def test_windows_of_a_key_fire_in_order_when_it_ends():
    windows = keyed().window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    summed = windows.reduce(lambda one, two: (one[0], one[1] + two[1]))
    assert run_batch(summed, EVENTS) == [at(("a", 5), 4), at(("a", 6), 9), at(("b", 3), 4), at(("b", 1), 9), END]


def test_windows_over_all_records_are_those_of_one_key():
    windows = stream().window_all(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    summed = windows.reduce(lambda one, two: (one[0] + two[0], one[1] + two[1]))
    assert run_batch(summed, EVENTS, sort_keys=(SortKey(),)) == [at(("ab", 8), 4), at(("aab", 7), 9), END]


def test_records_are_stamped_and_make_no_watermarks():
    class Second:
        def extract_timestamp(self, value, record_timestamp):
            return value[1]

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    made = stream().assign_timestamps_and_watermarks(strategy)
    assert run_batch(made, [("a", 3), ("b", 1)], sort_keys=(PLAIN,)) == [at(("a", 3), 3), at(("b", 1), 1), END]


class Sides(KeyedCoProcessFunction):
    def process_element1(self, value, ctx):
        ctx.timer_service().register_event_time_timer(50)
        yield 1, value, ctx.timestamp()

    def process_element2(self, value, ctx):
        yield 2, value, ctx.timestamp()

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key()


def test_two_sorted_inputs_are_read_as_one():
    left = [at(("b", 1), 3), at(("a", 2), 5), at(("b", 3), 9)]
    right = [at(("a", 4), 4), at(("c", 5), 0), at(("b", 6), 5), at(("a", 7), 8)]
    taken = run_batch(keyed().connect(keyed()).process(Sides()), left, right, sort_keys=(BY_FIRST, BY_FIRST))
    assert values(taken) == [
        (2, ("a", 4), 4),
        (1, ("a", 2), 5),
        (2, ("a", 7), 8),
        ("timer", "a"),
        (1, ("b", 1), 3),
        (2, ("b", 6), 5),
        (1, ("b", 3), 9),
        ("timer", "b"),
        (2, ("c", 5), 0),
    ]
    assert taken[-1] == END


def test_an_input_that_is_empty_holds_nothing_up():
    taken = run_batch(keyed().connect(keyed()).process(Sides()), [], EVENTS[:2], sort_keys=(BY_FIRST, BY_FIRST))
    assert values(taken) == [(2, ("a", 2), 7), (2, ("b", 1), 9)]
    assert run_batch(keyed().process(Show()), []) == [END]


RULES = MapStateDescriptor("rules", fb.Types.STRING(), fb.Types.INT())


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value[0], ctx.get_broadcast_state(RULES).get(value[0])

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


class KeyedRules(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)
        yield value[0], ctx.get_broadcast_state(RULES).get(value[0])

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key()


MANY = [("b", 1), *[("x", number) for number in range(3000)], ("a", 2)]


def test_broadcast_records_come_before_all_others():
    made = stream().connect(stream().broadcast(RULES)).process(Rules())
    taken = run_batch(made, [("a", 0), ("b", 0)], MANY, sort_keys=(PLAIN, PLAIN))
    assert values(taken) == [("a", 2), ("b", 1)]


def test_broadcast_records_come_before_sorted_ones():
    made = keyed().connect(stream().broadcast(RULES)).process(KeyedRules())
    taken = run_batch(made, [("b", 0), ("a", 0), ("b", 0)], MANY, sort_keys=(BY_FIRST, PLAIN))
    assert values(taken) == [("a", 2), ("timer", "a"), ("b", 1), ("b", 1), ("timer", "b")]


LARGE = [(f"key {number % 500}", number) for number in range(12_000)]
SMALL_MEMORY = ExecutionSettings(is_batch=True, sorted_inputs_memory=64 * 1024)


def test_what_memory_does_not_hold_is_in_files_meanwhile(tmp_path):
    paths = Paths(tmp_path)
    reduced = keyed().reduce(lambda one, two: (one[0], one[1] + two[1]))
    taken = run_batch(reduced, LARGE, settings=SMALL_MEMORY, io_manager=paths)
    wanted = {}
    for key, number in LARGE:
        wanted[key] = wanted.get(key, 0) + number
    assert dict(values(taken)) == wanted
    assert len(values(taken)) == len(wanted)
    assert paths.count == 1
    assert list(tmp_path.iterdir()) == []


def test_files_lie_where_the_io_manager_says(tmp_path):
    with IOManager([tmp_path]) as manager:
        taken = run_batch(keyed().process(Show()), LARGE, settings=SMALL_MEMORY, io_manager=manager)
        assert len(values(taken)) == len(LARGE)
        assert list(tmp_path.rglob("*.sort.*")) == []


def test_a_disk_that_refuses_fails_the_task(tmp_path):
    paths = Paths(tmp_path / "nowhere")
    with pytest.raises(OSError, match="nowhere"):
        run_batch(keyed().process(Show()), LARGE, settings=SMALL_MEMORY, io_manager=paths)


def test_files_go_with_a_task_that_fails(tmp_path):
    class Fails(KeyedProcessFunction):
        def process_element(self, value, ctx):
            assert list(tmp_path.iterdir())
            raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        run_batch(keyed().process(Fails()), LARGE, settings=SMALL_MEMORY, io_manager=Paths(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_files_go_with_a_task_that_is_cancelled(tmp_path):
    class Cancels(KeyedProcessFunction):
        def process_element(self, value, ctx):
            assert list(tmp_path.iterdir())
            task.cancel()
            yield value

    taken = []
    made = keyed().process(Cancels())
    task, sources = batch_task(taken, made, [LARGE], (BY_FIRST,), settings=SMALL_MEMORY, io_manager=Paths(tmp_path))
    run_all(*sources, task)
    assert task.state is TaskState.CANCELED
    assert list(tmp_path.iterdir()) == []


def test_a_selector_that_fails_is_found_with_its_record():
    key = SortKey(lambda pair: pair[1] // 0, fb.Types.INT())
    with pytest.raises(ZeroDivisionError) as caught:
        run_batch(keyed().process(Show()), [("a", 1)], sort_keys=(key,))
    assert "('a', 1)" in "".join(caught.value.__notes__)


def test_undeclared_keys_are_told_apart():
    key = SortKey(lambda pair: [pair[1], float(pair[1]), pair[1] == 1][pair[1] % 3])
    made = stream().key_by(key.selector).process(Show())
    taken = run_batch(made, [("x", number) for number in (1, 0, 1, 2, 0)], sort_keys=(key,))
    assert sorted((repr(each[0]), each[1][1]) for each in values(taken)) == [
        ("0", 0),
        ("0", 0),
        ("1.0", 1),
        ("1.0", 1),
        ("False", 2),
    ]


def test_state_of_ended_keys_is_not_kept():
    seen = []

    class Counts(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("s", fb.Types.INT()))

        def process_element(self, value, ctx):
            self.state.update(value[1])
            seen.append(len(self.state.tokens()))
            yield value

    run_batch(keyed().process(Counts()), LARGE[:2000])
    assert set(seen) == {1}


def test_a_process_function_without_keys_sees_event_time_end():
    class Plain(ProcessFunction):
        def process_element(self, value, ctx):
            yield value[1], ctx.timer_service().current_watermark()

    taken = run_batch(stream().process(Plain()), [("a", 1)], sort_keys=(PLAIN,))
    assert taken == [(1, NO_TIMESTAMP), END]
