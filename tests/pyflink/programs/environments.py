"""Names, plans, settings of environments, and values that programs handle: nothing here starts a job, or hardly."""

import json

from pyflink.common import Configuration, Duration, Row, RowKind, Types, WatermarkStrategy
from pyflink.common.time import Instant, Time
from pyflink.datastream import (
    CheckpointingMode,
    CoMapFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
)
from pyflink.datastream.window import TumblingEventTimeWindows


class Echo(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


class KeyedEcho(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


class BothSides(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return value


def _plan(env):
    """The plan without its ids, which count on from job to job: each node with its inputs' positions and strategies."""
    nodes = json.loads(env.get_execution_plan())["nodes"]
    position = {node["id"]: place for place, node in enumerate(nodes)}
    keys = ("type", "pact", "contents", "parallelism")
    return [
        [
            *(node[key] for key in keys),
            [[position[edge["id"]], edge["ship_strategy"], edge["side"]] for edge in node.get("predecessors", [])],
        ]
        for node in nodes
    ]


def names_of_streams(env):
    stream = env.from_collection([1])
    keyed = stream.key_by(lambda value: value)
    window = TumblingEventTimeWindows.of(Time.seconds(1))
    streams = [
        stream,
        stream.map(lambda value: value),
        stream.flat_map(lambda value: [value]),
        stream.filter(bool),
        stream.process(Echo()),
        keyed.process(KeyedEcho()),
        keyed.reduce(lambda one, two: one),
        keyed.sum(),
        keyed.map(lambda value: value),
        stream.connect(stream).map(BothSides()),
        keyed.window(window).reduce(lambda one, two: one),
        keyed.count_window(2).reduce(lambda one, two: one),
        stream.assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps()),
        stream.map(lambda value: value).name("my map"),
        env.from_collection([(1, 2)], Types.TUPLE([Types.INT(), Types.INT()])).project(1),
    ]
    return [stream.get_name() for stream in streams]


def plan_of_a_map(env):
    env.set_parallelism(2)
    env.from_collection([1], Types.INT()).map(lambda value: value, Types.INT()).print()
    return _plan(env)[0:1] + _plan(env)[-1:]


def plan_with_names(env):
    env.set_parallelism(2)
    stream = env.from_collection([1]).name("numbers").uid("numbers")
    stream = stream.map(lambda value: value, Types.INT()).name("same").uid("same").set_parallelism(3)
    stream.set_description("the same again").print().name("out")
    return _plan(env)


def plan_of_a_union(env):
    env.set_parallelism(2)
    left, right = env.from_collection([1], Types.INT()), env.from_collection([2], Types.INT())
    left.union(right).print("both")
    return _plan(env)


def plan_of_printing_twice(env):
    stream = env.from_collection([1], Types.INT())
    stream.print().name("one")
    stream.print().name("two").set_parallelism(1)
    return _plan(env)


def defaults_of_environments(env):
    config, checkpoints = env.get_config(), env.get_checkpoint_config()
    return [
        env.get_max_parallelism(),
        env.get_buffer_timeout(),
        env.is_chaining_enabled(),
        env.get_checkpoint_interval(),
        env.is_unaligned_checkpoints_enabled(),
        env.is_force_unaligned_checkpoints(),
        config.is_closure_cleaner_enabled(),
        config.get_auto_watermark_interval(),
        config.get_latency_tracking_interval(),
        config.get_max_parallelism(),
        config.get_task_cancellation_interval(),
        config.get_task_cancellation_timeout(),
        config.has_auto_generated_uids_enabled(),
        config.is_object_reuse_enabled(),
        config.get_global_job_parameters(),
        config.is_use_snapshot_compression(),
        checkpoints.is_checkpointing_enabled(),
        checkpoints.get_checkpoint_interval(),
        checkpoints.get_checkpoint_timeout(),
        checkpoints.get_min_pause_between_checkpoints(),
        checkpoints.get_max_concurrent_checkpoints(),
        checkpoints.is_fail_on_checkpointing_errors(),
        checkpoints.get_tolerable_checkpoint_failure_number(),
        checkpoints.is_unaligned_checkpoints_enabled(),
    ]


def settings_of_environments(env):
    env.set_parallelism(3).set_max_parallelism(64).set_buffer_timeout(7).disable_operator_chaining()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE)
    config, checkpoints = env.get_config(), env.get_checkpoint_config()
    config.set_auto_watermark_interval(0).enable_object_reuse().set_global_job_parameters({"a": "b"})
    checkpoints.set_checkpoint_timeout(1000).set_min_pause_between_checkpoints(20).set_max_concurrent_checkpoints(2)
    answers = [env.get_parallelism(), env.get_max_parallelism(), env.get_buffer_timeout(), env.is_chaining_enabled()]
    answers += [env.get_checkpoint_interval(), env.get_checkpointing_mode(), config.get_auto_watermark_interval()]
    answers += [config.is_object_reuse_enabled(), config.get_global_job_parameters(), config.get_parallelism()]
    answers += [checkpoints.get_checkpoint_timeout(), checkpoints.get_max_concurrent_checkpoints()]
    return answers


def configurations(env):
    one = Configuration()
    one.set_string("text", "b").set_integer("number", 5).set_boolean("switch", True).set_float("share", 1.5)
    two = Configuration(one)
    two.add_all(Configuration().set_string("more", "x"), "some.")
    return [
        sorted(one.to_dict().items()),
        sorted(two.key_set()),
        one.get_string("missing", "default"),
        one.get_string("missing", None),
        one.get_string("number", ""),
        Configuration().set_string("n", "5").get_integer("n", 0),
        Configuration().set_string("n", "TRUE").get_boolean("n", False),
        Configuration().set_string("n", "2.5").get_float("n", 0.0),
        one.contains_key("text"),
        [one.remove_config("text"), one.remove_config("text"), one.contains_key("text")],
        Configuration().set_string("a", "b") == Configuration().set_string("a", "b"),
        [Configuration.parse_list_value(text) for text in ("a;b", "[a, b]", "", "a")],
        str(Configuration().set_string("a", "b")),
    ]


def rows_as_values(env):
    row, named = Row(1, "a"), Row(b=1, a="x")
    renamed = Row(1, 2)
    renamed.set_field_names(["x", "y"])
    return [
        [row, named, Row(), Row(Row(1), [Row(2)]), renamed, renamed.y],
        [str(row), str(named), len(named), list(named), tuple(row), named["a"], named.b, row[-1], list(row[0:1])],
        [row == Row(1, "a"), row == Row(1, "b"), row != Row(1, "b"), named == Row(b=1, a="x")],
        [hash(row) == hash(Row(1, "a")), len({Row(1), Row(1)}), 1 in row],
        [Row(a=1, b=Row(c=2)).as_dict(), Row(a=1, b=Row(c=2)).as_dict(True), Row("a", "b")(1, 2)],
        [list(Row.of_kind(RowKind.DELETE, 1)), Row.of_kind(RowKind.DELETE, 1).get_row_kind(), row.get_row_kind()],
        [str(kind) for kind in RowKind],
        [named.get_fields_by_names(["a", "b"])],
    ]


def times_as_values(env):
    return [
        [Time.days(1).to_milliseconds(), Time.minutes(2).to_milliseconds(), str(Time.seconds(1))],
        [Time.seconds(1) == Time.milliseconds(1000), Duration.of_seconds(1) == Duration.of_millis(1000)],
        [Instant.of_epoch_milli(-1500).seconds, Instant.of_epoch_milli(-1500).nanos, Instant(1, 5).to_epoch_milli()],
        [Instant(1, 5) == Instant(1, 5), Instant(1, 5) == Instant(1, 6)],
    ]


def types_as_values(env):
    row = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LONG()])
    return [
        [Types.INT() == Types.INT(), Types.INT() == Types.LONG(), Types.LIST(Types.INT()) == Types.LIST(Types.INT())],
        [
            row.get_field_names(),
            [str(each) for each in row.get_field_types()],
            row.get_field_index("b"),
            Types.ROW([Types.INT()]).get_field_names(),
        ],
        [str(OutputTag("a", Types.INT()).type_info), str(OutputTag("a").type_info), OutputTag("a", Types.INT()).tag_id],
    ]
