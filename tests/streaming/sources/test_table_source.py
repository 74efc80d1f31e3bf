"""Tables in memory as streams: all rows once, in parts, as records or columns, from wherever a job was."""

import pickle
import random

import pytest

pa = pytest.importorskip("pyarrow")
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from support.programs.embedded import embedded  # noqa: E402
from support.worlds.source_attempt import BatchAttempt  # noqa: E402

from flinkbuf.common import Types  # noqa: E402
from flinkbuf.datastream.columns import count, sum_  # noqa: E402
from flinkbuf.errors import CorruptDataError  # noqa: E402
from flinkbuf.streaming.sources.table_source import TableSource, plain_table  # noqa: E402


def numbers(count, chunk=None):
    table = pa.table({"n": pa.array(range(count), pa.int64()), "s": [f"{n}" if n % 3 else None for n in range(count)]})
    return table if chunk is None else pa.Table.from_batches(table.to_batches(chunk), table.schema)


@given(st.integers(0, 30), st.integers(1, 9), st.integers(1, 7), st.integers(1, 5), st.integers(1, 4), st.data())
def test_a_job_goes_on_behind_each_batch_or_record(row_count, chunk, max_rows, one, two, data):
    source = TableSource(numbers(row_count, chunk).slice(0))
    turns, reads_records, reads_records_then = data.draw(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()))
    chance = random.Random(turns)

    def reader(is_of_records):
        return source if is_of_records else source.of_batches(None, max_rows, 1 << 22)[0]

    first = BatchAttempt(reader(reads_records), one)
    first.emit(turns, chance)
    second = BatchAttempt(reader(reads_records_then), two, first.checkpoint())
    second.emit(10_000, chance)
    assert sorted(first.rows() + second.rows()) == list(range(row_count))
    first.close(), second.close()


def test_another_table_in_its_place_is_refused():
    first = BatchAttempt(TableSource(numbers(10)), 1)
    first.emit(1, random.Random(0))
    second = BatchAttempt(TableSource(numbers(5)), 1, first.checkpoint())
    with pytest.raises(CorruptDataError, match="behind row 1 of 10 .* now it has 5: give the table that was read"):
        second.emit(10, random.Random(0))
    first.close(), second.close()


def test_a_part_of_a_table_is_pickled_alone():
    part = numbers(100_000).slice(50, 3)
    for source in (TableSource(part), TableSource(part).of_batches("n bigint", 10, 10)[0]):
        data = pickle.dumps(source)
        assert len(data) < 2000
        assert pickle.loads(data)._table.column("n").to_pylist() == [50, 51, 52]


def test_batches_have_so_many_rows_and_bytes():
    wide = pa.table({"s": ["x" * 1000] * 50})
    for max_rows, max_bytes, expected in ((20, 1 << 20, [20, 20, 10]), (20, 15_000, [14, 14, 14, 8]), (5, 1, [1] * 50)):
        attempt = BatchAttempt(TableSource(wide).of_batches(None, max_rows, max_bytes)[0], 1)
        attempt.emit(1000, random.Random(0))
        assert [batch.num_rows for batch in attempt.values] == expected
        attempt.close()


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("make", [lambda table: table, lambda table: table.to_batches()[0]])
def test_a_table_is_rows_and_columns(make, parallelism):
    table = make(numbers(100))
    expected = list(zip(range(100), table.column(1).to_pylist(), strict=True))
    rows = embedded(parallelism).from_collection(table)
    assert rows.get_type() == Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
    assert sorted(rows.map(lambda row: (row.n, row.s)).execute_and_collect()) == expected
    columns = embedded(parallelism).from_collection(table).as_columns(max_rows=7)
    assert columns.schema() == table.schema
    assert sorted(columns.execute_and_collect()) == expected
    picked = embedded(parallelism).from_collection(table).as_columns("s string, n decimal(20, 0)")
    counts = picked.filter(lambda batch: batch["s"].is_valid()).key_by("s").aggregate(rows=count(), n=sum_("n"))
    assert sorted(counts.execute_and_collect()) == sorted((s, 1, n) for n, s in expected if s is not None)


def test_in_one_subtask_rows_come_in_order():
    assert [row.n for row in embedded().from_collection(numbers(50, 7)).as_columns().execute_and_collect()] == [
        *range(50)
    ]


def test_both_ways_from_one_source():
    rows = embedded(2).from_collection(numbers(10))
    sums = rows.as_columns().key_by("n").aggregate(n2=sum_("n")).as_records().map(lambda row: row.n2, Types.LONG())
    both = sums.union(rows.map(lambda row: -row.n, Types.LONG()))
    assert sorted(both.execute_and_collect()) == sorted([*range(10), *(-n for n in range(10))])


def test_batches_of_a_list_say_what_their_columns_are():
    batches = numbers(10).to_batches(4)
    stream = embedded().from_collection(batches)
    assert stream.map(lambda batch: batch.num_rows).execute_and_collect(limit=9) == [4, 4, 2]
    columns = embedded().from_collection(batches).as_columns()
    assert columns.schema() == batches[0].schema
    assert [row.n for row in columns.execute_and_collect()] == [*range(10)]
    for mixed in ([*batches, 1], [*batches, batches[0].select(["n"])], []):
        with pytest.raises(ValueError, match="of no declared type"):
            embedded().from_collection(mixed).as_columns()


def test_columns_of_other_kinds_become_plain():
    words = pa.array(["a", "b", None, "a"])
    ends = pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), pa.array([7, None]))
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * 4, pa.binary(16)))
    views = pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0]), words[:2].cast(pa.string_view()))
    table = pa.table(
        {"d": words.dictionary_encode(), "v": words.cast(pa.string_view()), "r": ends, "u": ids, "w": views}
    )
    made = plain_table(table)
    assert made.schema.types == [pa.string(), pa.string(), pa.int64(), pa.binary(16), pa.string()]
    assert made.to_pydict() == {
        "d": ["a", "b", None, "a"],
        "v": ["a", "b", None, "a"],
        "r": [7, None, None, None],
        "u": [bytes(16)] * 4,
        "w": ["a", None, "b", "a"],
    }
    assert plain_table(made).equals(made)
    assert plain_table(table.slice(4)).schema == made.schema


def test_frames_of_polars_are_tables():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"k": ["x", None], "t": [["u"], ["v", None]], "c": pl.Series(["u", "v"], dtype=pl.Categorical)}
    )
    columns = embedded().from_collection(frame).as_columns()
    assert columns.schema().types == [pa.string(), pa.large_list(pa.string()), pa.string()]
    assert columns.execute_and_collect(limit=3) == [("x", ["u"], "u"), (None, ["v", None], "v")]
    assert embedded().from_collection(frame["k"]).execute_and_collect(limit=3) == ["x", None]


def test_frames_of_pandas_are_taken_as_they_are_now():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"k": ["x", "y"], "f": [1.5, float("nan")]}, index=[7, 9])
    columns = embedded().from_collection(frame).as_columns()
    frame.loc[7, "f"] = 8.0
    assert columns.execute_and_collect(limit=3) == [("x", 1.5), ("y", None)]
    assert columns.schema().metadata is None
    named = embedded().from_collection(frame.set_index("k")).as_columns()
    assert named.execute_and_collect(limit=1) == [(8.0, "x")]


UNIONS = pa.table({"u": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])})


@pytest.mark.parametrize(
    ("table", "error", "said"),
    [
        (pa.table({}), ValueError, "a table without columns"),
        (pa.table([[1], [2]], names=["a", "a"]), ValueError, "from_collection.*'a'"),
        (UNIONS, TypeError, "'u' has no counterpart"),
    ],
)
def test_what_is_no_stream_of_rows_is_refused_where_it_is_said(table, error, said):
    with pytest.raises(error, match=said):
        embedded().from_collection(table)


def test_types_are_told_by_the_table():
    with pytest.raises(TypeError, match="a table says itself"):
        embedded().from_collection(numbers(1), "n int, s string")
    rows = embedded().from_collection(numbers(300))
    with pytest.raises(ValueError, match="the column 'm', and the source has n, s"):
        rows.as_columns("m int")
    with pytest.raises(TypeError, match="column 'n' is string"):
        rows.as_columns("n string")
    with pytest.raises(Exception, match="the table of from_collection.*: column 'n' is int8"):
        rows.as_columns("n tinyint").execute_and_collect(limit=300)
