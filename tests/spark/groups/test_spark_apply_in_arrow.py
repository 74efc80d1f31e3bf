"""`apply_in_arrow` on Spark: groups are those of Spark's own `groupBy`; arguments that are refused; large groups."""

from collections.abc import Iterator
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.process_memory import resident_kib
from support.programs.connect_client import found_by_client

import flinkbuf as fb

pytest.importorskip("pyspark.sql")
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

pytestmark = pytest.mark.spark

SUMS = "name string, least bigint, count bigint, total bigint"

# Keys of several columns: expressions over `n` that give few values, some of them in several forms.
KEYS = {
    "doubles": [
        "array(0D, -0D, double('NaN'), -double('NaN'), null, 1.5D)[n % 6]",
        "array('', 'a', 'é', null)[n % 4]",
        "cast(n % 2 as decimal(20, 2))",
        "date_add(date'2024-02-28', int(n % 2))",
    ],
    "structs": [
        "struct(array(0D, -0D, null)[n % 3] as a, named_struct('b', if(n % 2 = 0, 'x', null)) as b)",
        "array(float(0), float('-0.0'), float('NaN'), null)[n % 4]",
        "n % 2 = 0",
        "null",
    ],
    "lists": [
        "array(array(), array(0D), array(-0D), array(double('NaN'), null), null)[n % 5]",
        "if(n % 3 = 0, null, n % 2)",
        "array(x'', x'00', x'0000', null)[n % 3]",
        "timestamp_micros(n % 2 - 1)",
        "make_dt_interval(0, int(n % 3))",
        "timestamp_ntz'2024-03-31 02:30:00'",
    ],
}


def count_and_sum(name, batches):
    """Give the rows of a group in one line, whatever its key is."""
    numbers = [number for batch in batches for number in batch["n"].to_pylist()]
    sums = {"least": [min(numbers)], "count": [len(numbers)], "total": [sum(numbers)]}
    yield pa.record_batch({"name": [name], **sums})


@pytest.fixture
def settings(spark):
    """Set what a test needs of Spark, and what was there before again at its end."""
    before = {}

    def change(**values):
        for name, value in values.items():
            name = "spark.sql." + name.replace("_", ".")
            before[name] = spark.conf.get(name)
            spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)


def test_groups_are_those_of_spark(spark, settings):
    """For keys of each type, beside `groupBy`, in one query."""
    # Adaptive execution would join the partitions, and see to it that equal keys meet.
    settings(adaptive_enabled="false", codegen_wholeStage="false")
    rows = spark.range(0, 200, 1, 1).toDF("n")
    ours, theirs = [], []
    for name, keys in KEYS.items():
        columns = [f"a.key {place}" for place in range(len(keys))]
        keyed = rows.select(*[F.expr(key).alias(column) for key, column in zip(keys, columns, strict=True)], "n")
        ours.append(fb.apply_in_arrow(keyed, columns, partial(count_and_sum, name), SUMS))
        grouped = keyed.groupBy(*[f"`{column}`" for column in columns]).agg(F.min("n"), F.count("*"), F.sum("n"))
        theirs.append(grouped.select(F.lit(name), "min(n)", "count(1)", "sum(n)"))
    found, wanted = ({tuple(row) for row in reduce(DataFrame.union, each).collect()} for each in (ours, theirs))
    assert found == wanted
    assert {name for name, *_ in found} == KEYS.keys()


def test_a_function_for_spark_is_taken_as_it_is_and_gives_the_same(spark):
    def span(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches)
        yield pa.record_batch({"b": [key[1].as_py()], "a": [key[0].as_py()], "names": [",".join(first.schema.names)]})

    rows = spark.range(100).selectExpr("id % 3 as a", "string(id % 2) as b", "id as c")
    schema = "a bigint, b string, names string"
    found = sorted(map(tuple, fb.apply_in_arrow(rows, ["a", 1], span, schema).collect()))
    assert found == [(a, b, "a,b,c") for a in range(3) for b in "01"]
    if "Iterator" in str(GroupedData.applyInArrow.__doc__):
        theirs = rows.groupBy("a", "b").applyInArrow(span, schema).collect()
        assert sorted(map(tuple, theirs)) == found


def test_a_group_in_many_batches_and_many_groups_in_one(spark, settings):
    settings(execution_arrow_maxRecordsPerBatch="100")
    rows = spark.range(0, 3000, 1, 2).selectExpr("if(id < 2000, -1, id) as key", "id")

    def sizes(batches):
        yield pa.record_batch({"sizes": [[batch.num_rows for batch in batches]]})

    found = [row.sizes for row in fb.apply_in_arrow(rows, "key", sizes, "sizes array<bigint>").collect()]
    assert len(found) == 1001
    assert sum(map(sum, found)) == 3000 and max(map(max, found)) <= 100
    assert len(max(found, key=len)) >= 20


def test_an_error_of_a_task_names_the_group_and_nothing_comes_of_no_rows(spark):
    rows = spark.range(10).selectExpr("id % 2 as key", "id")

    def wrong(batches):
        yield next(batches).select(["id"])

    with pytest.raises(Exception, match="with the columns id for the group key=[01], where schema= says key, id"):
        fb.apply_in_arrow(rows, "key", wrong, rows.schema).collect()
    empty = fb.apply_in_arrow(rows.where("id > 10"), "*", lambda batches: batches, rows.schema)
    assert empty.collect() == [] and empty.schema == rows.schema


def test_names_that_spark_cannot_find_columns_by(spark):
    rows = spark.range(4).selectExpr("id % 2 as `a.b`", "id as twice", "id as twice")

    def names(key, batches):
        yield pa.record_batch({"names": [next(batches).schema.names]})

    found = fb.apply_in_arrow(rows, ("A.B", 2), names, "names array<string>").collect()
    assert [row.names for row in found] == [["a.b", "twice#1", "twice#2"]] * 4


class Counter:
    def count(self, key, batches):
        yield from batches


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (None, "function must be a function of the batches, or of key and batches; got None"),
        (lambda: [], r"function takes \(batches\) or \(key, batches\) and nothing else that has no default; got"),
        (lambda a, b, c: [], r"got .*<lambda>\(a, b, c\)"),
        (lambda *batches: [], r"got .*<lambda>\(\*batches\)"),
        (lambda batches, *, limit: [], r"\(batches, \*, limit\)"),
        (iter, "does not say what it takes: write lambda batches"),
    ],
)
def test_a_function_of_something_else_is_refused(spark, function, told):
    with pytest.raises(TypeError, match=told):
        fb.apply_in_arrow(spark.range(1), "id", function, "id bigint")


def test_a_function_of_tables_is_refused(spark):
    def of_table(table: pa.Table) -> pa.Table:
        return table

    def of_key_and_table(key, table: "pa.Table"):
        return table

    for function in (of_table, of_key_and_table):
        with pytest.raises(TypeError, match=r"asks for a pyarrow.Table.* pa.Table.from_batches\(batches\)"):
            fb.apply_in_arrow(spark.range(1), "id", function, "id bigint")


@pytest.mark.parametrize(
    "function",
    [
        Counter().count,
        partial(lambda limit, key, batches: batches, 3),
        partial(lambda key, batches, limit: batches, limit=3),
        lambda key, batches, limit=3: batches,
    ],
)
def test_a_method_or_a_partial_function_is_called_with_what_it_needs(spark, function):
    from flinkbuf.spark.groups.apply_in_arrow import _takes_key

    assert _takes_key(function)
    assert not _takes_key(lambda batches, limit=3: batches)
    assert not _takes_key(lambda batches=(): batches)


@pytest.mark.parametrize(
    ("key", "kind", "told"),
    [
        ("c", ValueError, "there is no column 'c': the columns are a, m, s, v"),
        (4, ValueError, "the key names column 4, and there are 4: a, m, s, v"),
        ((), ValueError, "a key needs at least one field"),
        (["a", "A"], ValueError, "the key names a column twice: a, a"),
        (len, TypeError, "is a function of a record.*make it a column"),
        (1.5, TypeError, "a key is a field's name or index"),
        ("m", TypeError, r"column 'm' is map<string,int>, by which rows cannot be grouped: group by"),
        ("v", TypeError, r"column 'v' is .*void.*map<.*by which rows cannot be grouped"),
        ("s", TypeError, r"column 's'.* its collation takes for equal .* such as lower"),
        ("*", TypeError, "column 'm'"),
    ],
)
def test_a_key_that_has_no_groups_is_refused(spark, key, kind, told):
    rows = spark.sql(
        "select 1 a, map('x', 1) m, 'x' collate UTF8_LCASE s, array(named_struct('n', null, 'm', map(1, 1))) v"
    )
    with pytest.raises(kind, match=told):
        fb.apply_in_arrow(rows, key, lambda batches: batches, rows.schema)


def test_what_is_no_data_frame_with_an_end_is_refused(spark, sc):
    rows = spark.range(3)
    with pytest.raises(TypeError, match=r'takes the DataFrame itself, not df.groupBy\("id"\): say key="id"'):
        fb.apply_in_arrow(rows.groupBy("id"), "id", lambda batches: batches, "id bigint")
    with pytest.raises(TypeError, match=r"takes a DataFrame of PySpark, got pyspark.*RDD"):
        fb.apply_in_arrow(sc.emptyRDD(), "id", lambda batches: batches, "id bigint")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(TypeError, match=r"a streaming DataFrame never has them: .*foreachBatch\(\)"):
        fb.apply_in_arrow(stream, "value", lambda batches: batches, stream.schema)
    with pytest.raises(ValueError, match="columns of the same name: a"):
        fb.apply_in_arrow(rows, "id", lambda batches: batches, "a int, a int")
    with pytest.raises(ValueError, match="schema= names no column"):
        fb.apply_in_arrow(rows, "id", lambda batches: batches, "")
    months = rows.selectExpr("id", "make_ym_interval(1, 1) as months")
    with pytest.raises(
        TypeError, match="column 'months' is interval year to month, which Spark cannot bring to Python"
    ):
        fb.apply_in_arrow(months, "id", lambda batches: batches, "id bigint")


# ---------------------------------------------------------------- large groups, and Spark Connect


@pytest.mark.long
def test_a_group_of_ten_million_rows_takes_no_more_memory_than_a_batch(spark):
    count = 10_000_000
    rows = spark.range(0, count, 1, 4).selectExpr("1 as key", "id")

    def measure(batches):
        total = rows = 0
        start = None
        for batch in batches:
            rows, total = rows + batch.num_rows, total + pc.sum(batch["id"]).as_py()
            if rows >= 1_000_000 and start is None:
                start = resident_kib()
        yield pa.record_batch({"rows": [rows], "total": [total], "growth": [resident_kib() - start]})

    (found,) = fb.apply_in_arrow(rows, "key", measure, "rows bigint, total bigint, growth bigint").collect()
    assert (found.rows, found.total) == (count, count * (count - 1) // 2)
    assert found.growth < 20_000, f"the worker grew by {found.growth} KiB over nine million rows"


CONNECT_PROGRAM = """
from test_spark_apply_in_arrow import SUMS, count_and_sum

rows = spark.range(0, 1000, 1, 4).selectExpr("id % 7 AS key", "id AS n")
groups = fb.apply_in_arrow(rows, "key", lambda key, batches: count_and_sum(str(key[0]), batches), SUMS)
found["groups"] = [list(row) for row in groups.collect()]
for name, data in {"grouped": rows.groupBy("key"), "stream": spark.readStream.format("rate").load()}.items():
    try:
        fb.apply_in_arrow(data, "value", count_and_sum, SUMS)
    except TypeError as error:
        found[name] = str(error)
"""


@pytest.mark.long
def test_groups_over_a_real_connect_server():
    found = found_by_client(CONNECT_PROGRAM, Path(__file__).parent)
    wanted = [[str(key), key, len(range(key, 1000, 7)), sum(range(key, 1000, 7))] for key in range(7)]
    assert sorted(found["groups"]) == wanted
    assert "takes the DataFrame itself" in found["grouped"] and "foreachBatch" in found["stream"]
