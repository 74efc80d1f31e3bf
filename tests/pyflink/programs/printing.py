"""What print() writes, which the runner reads; and what files hold."""

import tempfile
from decimal import Decimal
from pathlib import Path

from pyflink.common import Encoder, Row, Types
from pyflink.datastream.connectors.file_system import FileSink


def _printed(env, values, type_info=None):
    stream = env.from_collection(range(len(values)))
    stream = (
        stream.map(lambda index: values[index], type_info) if type_info else stream.map(lambda index: values[index])
    )
    stream.print()


def print_untyped(env):
    row = Row("a", Row(1, None))
    env.from_collection(
        [1, "a", True, 1.5, 1e20, "q'q", 2**70, (1, "t"), (1,), [1, [2]], {"k": 1}, row, Row(x=1, y=2)]
    ).print()
    env.execute("printing")


def print_none(env):
    _printed(env, [None])
    env.execute()


def print_basic_types(env):
    _printed(env, ["a", "", "b c"], Types.STRING())
    env.execute()
    _printed(env, [1, -1], Types.LONG())
    env.execute()
    _printed(env, [True, False], Types.BOOLEAN())
    env.execute()


def print_fractions(env):
    _printed(
        env,
        [0.1, 1e20, 1e-5, 100.0, 1e7, 9999999.0, 0.001, 123456.789, float("inf"), float("nan"), -0.0],
        Types.DOUBLE(),
    )
    env.execute()
    _printed(env, [1.5, 0.1, 1e10], Types.FLOAT())
    env.execute()
    _printed(env, [Decimal("1.50")], Types.BIG_DEC())
    env.execute()


def print_rows(env):
    _printed(env, [Row(1, "a"), Row(None, None)], Types.ROW([Types.INT(), Types.STRING()]))
    env.execute()
    named = Types.ROW_NAMED(["a", "b", "c"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
    _printed(env, [Row(a=1, b="x", c=0.5), Row(2, "y", 1.0)], named)
    env.execute()
    env.from_collection([Row(1, "z", 2.0), Row(a=3, b=None, c=-1.0)], named).print()
    env.execute()


def print_tuples_lists_and_maps(env):
    _printed(env, [(1, "a"), (2, "b")], Types.TUPLE([Types.INT(), Types.STRING()]))
    env.execute()
    _printed(env, [[1, 2], []], Types.LIST(Types.INT()))
    env.execute()
    _printed(env, [["a"], ["b", "c"]], Types.LIST(Types.STRING()))
    env.execute()
    _printed(env, [{"a": 1}, {}], Types.MAP(Types.STRING(), Types.INT()))
    env.execute()


def print_with_identifier(env):
    env.from_collection([1, "a"]).print("here")
    env.execute()
    env.from_collection(["text"], Types.STRING()).print("there")
    env.execute()


def print_in_parallel(env):
    env.set_parallelism(2)
    env.from_collection([5, 5, 5, 5], Types.INT()).rebalance().print()
    env.execute()


def print_in_parallel_with_identifier(env):
    env.set_parallelism(2)
    env.from_collection([1, 2, 3, 4], Types.INT()).map(lambda value: "same", Types.STRING()).print("id")
    env.execute()


def print_in_one_task_of_a_parallel_job(env):
    env.set_parallelism(2)
    env.from_collection([3, 1, 2]).map(lambda value: value * 2).print("one").set_parallelism(1).name("printer")
    env.execute()


def text_of_records_in_files(env):
    """What `Encoder.simple_string_encoder` makes of records, by their declared type."""
    streams = [
        env.from_collection([Row("a", 1, 1.5, True), Row(None, 2, 1e10, False)], MIXED),
        env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()])),
        env.from_collection([1.0, 1e10], Types.DOUBLE()),
        env.from_collection([True], Types.BOOLEAN()),
        env.from_collection([{"a": 1}], Types.MAP(Types.STRING(), Types.INT())),
        env.from_collection(["ä"], Types.STRING()),
    ]
    return [_file_of(env, stream) for stream in streams]


MIXED = Types.ROW([Types.STRING(), Types.INT(), Types.DOUBLE(), Types.BOOLEAN()])


def _file_of(env, stream):
    with tempfile.TemporaryDirectory() as folder:
        stream.sink_to(FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build())
        try:
            env.execute()
        except Exception as error:
            return type(error).__name__
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        return [line for file in files for line in file.read_bytes().decode("utf-8", "replace").splitlines()]
