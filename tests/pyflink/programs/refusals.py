"""What programs get wrong: arguments that are refused, and functions that fail."""

from pyflink.common import Row, Types
from pyflink.common.time import Time
from pyflink.datastream import (
    CoMapFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
)
from pyflink.datastream.state import AggregatingStateDescriptor, ReducingStateDescriptor
from pyflink.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class NotAMap(FlatMapFunction):
    def flat_map(self, value):
        return [value]


class FailsInOpen(MapFunction):
    def open(self, runtime_context):
        raise RuntimeError("the purpose of open")

    def map(self, value):
        return value


class FailsInGenerator(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        raise KeyError(f"the purpose of {value}")


class FailsInTimer(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp, ctx):
        raise ArithmeticError("the purpose of on_timer")


class FailsOnTheRight(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        raise LookupError("the purpose of map2")


class FailsInWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        raise OSError("the purpose of process")


class TimerWithoutKey(ProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)
        return []


def _refused(attempt):
    """Whether there is an exception; its class says little, as most of PyFlink's are Java's."""
    try:
        attempt()
    except Exception:
        return "refused"
    return "taken"


def _is_type_error(attempt):
    try:
        attempt()
    except TypeError:
        return True
    return False


def _failure(stream, word):
    """Whether the job fails, and whether its exception tells the user's."""
    try:
        list(stream.execute_and_collect())
    except Exception as error:
        return f"{word}: {word in f'{type(error).__name__} {error}'}"
    return "no failure"


def functions_of_another_kind(env):
    stream = env.from_collection([1])
    keyed = stream.key_by(lambda value: value)
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    attempts = [
        lambda: stream.map(5),
        lambda: stream.map(NotAMap()),
        lambda: stream.flat_map(5),
        lambda: stream.filter("x"),
        lambda: stream.key_by(5),
        lambda: keyed.reduce(5),
        lambda: keyed.sum(1.5),
        lambda: keyed.min(None),
        lambda: stream.connect(stream).map(lambda value: value),
        lambda: stream.partition_custom(5, lambda value: value),
        lambda: stream.partition_custom(lambda key, count: 0, 5),
        lambda: windows.reduce(5),
        lambda: windows.aggregate(lambda one, two: one),
        lambda: windows.reduce(lambda one, two: one, 5),
        lambda: ReducingStateDescriptor("name", 5, Types.INT()),
        lambda: AggregatingStateDescriptor("name", lambda value: value, Types.INT()),
        lambda: stream.broadcast(5),
        lambda: env.from_collection(5),
        lambda: env.from_collection(None),
    ]
    return [_is_type_error(attempt) for attempt in attempts]


def keyed_streams_cannot_be_set(env):
    keyed = env.from_collection([1]).key_by(lambda value: value)
    attempts = {
        "name": lambda: keyed.name("a"),
        "get_name": lambda: keyed.get_name(),
        "uid": lambda: keyed.uid("a"),
        "parallelism": lambda: keyed.set_parallelism(2),
        "max_parallelism": lambda: keyed.set_max_parallelism(2),
        "force_non_parallel": lambda: keyed.force_non_parallel(),
        "buffer_timeout": lambda: keyed.set_buffer_timeout(1),
        "start_new_chain": lambda: keyed.start_new_chain(),
        "disable_chaining": lambda: keyed.disable_chaining(),
        "slot_sharing_group": lambda: keyed.slot_sharing_group("a"),
        "shuffle": lambda: keyed.shuffle(),
        "rebalance": lambda: keyed.rebalance(),
        "rescale": lambda: keyed.rescale(),
        "forward": lambda: keyed.forward(),
        "broadcast": lambda: keyed.broadcast(),
    }
    return [f"{name}: {_refused(attempt)}" for name, attempt in attempts.items()]


def numbers_out_of_range(env):
    stream = env.from_collection([1])
    attempts = [
        lambda: stream.map(bool).set_parallelism(0),
        lambda: stream.set_parallelism(2),
        lambda: stream.map(bool).force_non_parallel().set_parallelism(2),
        lambda: stream.map(bool).set_max_parallelism(0),
        lambda: stream.map(bool).set_max_parallelism(40000),
        lambda: env.set_parallelism(0),
        lambda: env.set_max_parallelism(40000),
        lambda: env.set_buffer_timeout(-2),
        lambda: stream.set_buffer_timeout(-2),
        lambda: env.enable_checkpointing(-5),
        lambda: stream.set_uid_hash("xyz"),
        lambda: TumblingEventTimeWindows.of(Time.seconds(1), Time.seconds(2)),
        lambda: TumblingEventTimeWindows.of(Time.seconds(0)),
        lambda: SlidingEventTimeWindows.of(Time.seconds(1), Time.seconds(0)),
        lambda: EventTimeSessionWindows.with_gap(Time.seconds(0)),
        lambda: OutputTag(""),
        lambda: OutputTag("a", 5),
        lambda: env.get_config().set_auto_watermark_interval(-1),
    ]
    return [_refused(attempt) for attempt in attempts]


def graphs_that_make_no_sense(env):
    env.set_parallelism(2)
    stream = env.from_collection([1], Types.INT())
    texts = env.from_collection(["a"], Types.STRING())
    stream_of_tuples = env.from_collection([(1, 2)], Types.TUPLE([Types.INT(), Types.INT()]))
    attempts = [
        lambda: env.execute("nothing to do"),
        lambda: env.get_execution_plan(),
        lambda: stream.union(texts),
        lambda: stream.project(0),
        lambda: stream_of_tuples.project(2),
        lambda: stream_of_tuples.project(),
        lambda: (stream.forward().print(), env.get_execution_plan()),
    ]
    return [_refused(attempt) for attempt in attempts]


def rows_used_wrongly(env):
    attempts = [
        lambda: Row(1, a=2),
        lambda: Row(a=1).b,
        lambda: Row(a=1)["b"],
        lambda: Row(1)[3],
        lambda: Row(1).as_dict(),
        lambda: setattr(Row(a=1), "a", 2),
        lambda: hash(Row([1])),
        lambda: Types.ROW_NAMED(["a"], [Types.INT()]).get_field_index("b"),
    ]
    return [_refused(attempt) for attempt in attempts]


def functions_that_fail(env):
    stream = env.from_collection([1, 0, 2])
    other = env.from_collection([1])
    return [
        _failure(stream.map(lambda value: 1 // value), "ZeroDivisionError"),
        _failure(stream.map(lambda value: {}[value]).rebalance().map(str), "KeyError"),
        _failure(stream.flat_map(lambda value: None), "TypeError"),
        _failure(stream.flat_map(lambda value: 7), "TypeError"),
        _failure(stream.filter(lambda value: value.missing), "missing"),
        _failure(stream.key_by(lambda value: value["k"]).map(str), "TypeError"),
        _failure(other.map(FailsInOpen()), "the purpose of open"),
        _failure(other.process(FailsInGenerator()), "the purpose of 1"),
    ]


def functions_that_fail_later(env):
    stream = env.from_collection([1])
    keyed = stream.key_by(lambda value: value)
    return [
        _failure(keyed.process(FailsInTimer()), "the purpose of on_timer"),
        _failure(stream.connect(stream).map(FailsOnTheRight()), "the purpose of map2"),
        _failure(keyed.count_window(1).process(FailsInWindow()), "the purpose of process"),
        _failure(stream.process(TimerWithoutKey()), ""),
        _failure(keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).process(FailsInWindow()), "timestamp"),
        _failure(env.from_collection([1, 2]).key_by(lambda value: 0).sum(3), ""),
    ]


def values_that_do_not_fit(env):
    stream = env.from_collection([1])
    misfits = [
        (2**31, Types.INT()),
        (200, Types.BYTE()),
        (2**63, Types.LONG()),
        ("a", Types.INT()),
        (None, Types.INT()),
        (1, Types.STRING()),
        ("a", Types.DOUBLE()),
        (Row(1), Types.ROW([Types.INT(), Types.STRING()])),
        (5, Types.LIST(Types.INT())),
    ]
    answers = []
    for value, type_info in misfits:
        try:
            answers.append(list(stream.map(lambda _, value=value: value, type_info).execute_and_collect()))
        except Exception:
            answers.append("refused")
    return answers
