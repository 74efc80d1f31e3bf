"""Where records come from, and the iterator that takes them out again."""

import tempfile
from pathlib import Path

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.connectors.number_seq import NumberSequenceSource


def collections_of_every_kind(env):
    kinds = [[3, 1, 2], (4, 5), "abc", {"k": 1, "l": 2}, {7}, range(3), (n * n for n in range(4)), iter(["x", "y"])]
    streams = [env.from_collection(kind).map(lambda value: repr(value)) for kind in kinds]
    return sorted(streams[0].union(*streams[1:]).execute_and_collect())


def collection_of_mixed_values(env):
    values = [
        1,
        "a",
        None,
        2.5,
        True,
        (1, "t"),
        [1, [2]],
        {"k": {1, 2}},
        Row(1, "b"),
        Row(x=1, y=None),
        2**70,
        b"bytes",
    ]
    return list(env.from_collection(values).map(lambda value: repr(value)).execute_and_collect())


def empty_collections(env):
    untyped = list(env.from_collection([]).map(lambda value: value).execute_and_collect())
    typed = list(env.from_collection([], Types.LONG()).execute_and_collect())
    return [untyped, typed]


def typed_rows(env):
    type_info = Types.ROW_NAMED(["name", "count"], [Types.STRING(), Types.INT()])
    rows = [Row("a", 1), Row(name="b", count=2), Row(count=3, name="c"), Row(None, None)]
    stream = env.from_collection(rows, type_info)
    return [list(stream.execute_and_collect()), list(stream.map(lambda row: (row.name, row[1])).execute_and_collect())]


def number_sequence(env):
    source = env.from_source(NumberSequenceSource(1, 20), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    return list(source.map(lambda number: number * 10, Types.LONG()).execute_and_collect())


def number_sequence_in_parallel(env):
    env.set_parallelism(2)
    source = env.from_source(NumberSequenceSource(-5, 5), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    return sorted(source.execute_and_collect())


def lines_of_files(env):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.txt").write_text("first\n\nthird ä\n", encoding="utf-8")
        Path(folder, "two.txt").write_text("no line end", encoding="utf-8")
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
        lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        return sorted(lines.execute_and_collect())


def iterator_of_results(env):
    stream = env.from_collection(range(10), Types.LONG()).map(lambda number: number + 1, Types.LONG())
    limited = list(stream.execute_and_collect(limit=3))
    with stream.execute_and_collect("named job") as results:
        first, second = results.next(), next(results)
        rest = sum(results)
    return [limited, first, second, rest]


def several_jobs_of_one_environment(env):
    first = env.from_collection([1, 2]).map(lambda number: number * 2)
    results = [list(first.execute_and_collect())]
    second = env.from_collection([5]).map(lambda number: number + 1)
    return [*results, list(second.execute_and_collect())]
