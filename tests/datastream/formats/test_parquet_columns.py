"""Parquet files as columns from the start: rows as read record by record, whatever is cut, skipped or restored."""

import datetime
import decimal

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from support.programs.embedded import embedded  # noqa: E402
from support.worlds.source_attempt import numbers_with_a_cut  # noqa: E402

from flinkbuf._core.flow.batch_records import RecordsToBatch  # noqa: E402
from flinkbuf.common import Time, Types, WatermarkStrategy  # noqa: E402
from flinkbuf.datastream.columns import count, sum_  # noqa: E402
from flinkbuf.datastream.connectors.file_system import FileEnumeratorProvider, FileSource  # noqa: E402
from flinkbuf.datastream.formats.parquet import ParquetColumnarRowInputFormat  # noqa: E402
from flinkbuf.datastream.window import TumblingEventTimeWindows  # noqa: E402
from flinkbuf.errors import CorruptDataError  # noqa: E402
from flinkbuf.records.arrow_batches import arrow_schema, batch_builder, record_type  # noqa: E402
from flinkbuf.streaming.sources.file_source import FileColumnSource  # noqa: E402
from flinkbuf.streaming.sources.file_split import FileSplit, split_file  # noqa: E402

DDL = (
    "yes boolean, tiny tinyint, small smallint, n int, big bigint, half float, x double, price decimal(12, 3), "
    "name string, raw binary, day date, moment timestamp_ltz, local timestamp_ntz, tags array<int>, "
    "place struct<x: double, name: string>, counts map<string, bigint>"
)
SCHEMA = arrow_schema(DDL)
WHOLE = 1 << 40
MAY_BE_SLOW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def integers(bits):
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def moments(zone=None):
    first, last = datetime.datetime(1890, 1, 1), datetime.datetime(2200, 1, 1)
    return st.datetimes(first, last).map(lambda moment: moment.replace(tzinfo=zone))


VALUES = {
    "yes": st.booleans(),
    "tiny": integers(8),
    "small": integers(16),
    "n": integers(32),
    "big": integers(64),
    "half": st.floats(width=32),
    "x": st.floats(),
    "price": st.decimals(-1000, 1000, places=3),
    "name": st.text(max_size=5),
    "raw": st.binary(max_size=5),
    "day": st.dates(datetime.date(1900, 1, 1)),
    "moment": moments(datetime.timezone.utc).map(
        lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000)
    ),
    "local": moments(),
    "tags": st.lists(st.none() | integers(32), max_size=3),
    "place": st.fixed_dictionaries({"x": st.none() | st.floats(), "name": st.none() | st.text(max_size=3)}),
    "counts": st.dictionaries(st.text(max_size=2), st.none() | integers(64), max_size=2).map(
        lambda each: [*each.items()]
    ),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}), max_size=12)


def columns(batches, schema):
    """What is compared: NaN is no value that equals itself."""
    return str(pa.Table.from_batches(list(batches), schema).combine_chunks().to_pylist())


def from_records(file_format, split, description):
    """What as_columns() has made of the records of a format."""
    codec = record_type(description).codec
    gathered = RecordsToBatch(codec, batch_builder(codec, description, 1 << 20, 1 << 30))
    rows = list(file_format.read_split(split))
    for row in rows:
        gathered.add_record(row)
    return [gathered.finish()] if rows else []


def from_columns(file_format, split, wanted=None, max_rows=4, max_bytes=1 << 22):
    batches = list(file_format.of_batches(wanted, max_rows, max_bytes).read_batches(split))
    assert all(0 < batch.num_rows <= max_rows for batch in batches)
    return batches


@MAY_BE_SLOW
@given(rows=ROWS, group=st.integers(1, 13), skipped=st.integers(0, 12))
def test_columns_are_those_of_the_records(tmp_path, rows, group, skipped):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=group)
    file_format = ParquetColumnarRowInputFormat(DDL)
    expected = columns(from_records(file_format, FileSplit(path, 0, WHOLE), DDL), SCHEMA)
    assert columns(from_columns(file_format, FileSplit(path, 0, WHOLE)), SCHEMA) == expected
    skipped = min(skipped, len(rows))
    rest = columns(from_columns(file_format, FileSplit(path, 0, WHOLE, skipped)), SCHEMA)
    assert rest == str(pa.Table.from_pylist(rows, SCHEMA).slice(skipped).to_pylist())


def test_a_range_has_the_row_groups_that_begin_in_it(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(100)}), path, row_group_size=9)
    file_format, size = ParquetColumnarRowInputFormat("n bigint"), path.stat().st_size
    for split_size in (40, 333, size):
        for split in split_file(str(path), size, split_size):
            found = [n for batch in from_columns(file_format, split) for n in batch["n"].to_pylist()]
            assert found == [row.n for row in file_format.read_split(split)]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.array([1, None], pa.int8()), "n bigint"),
        (pa.array([1, None], pa.uint32()), "n int"),
        (pa.array(["a", None]).dictionary_encode(), "n string"),
        (pa.array(["a", None], pa.large_string()), "n string"),
        (pa.array([1.5, None], pa.float32()), "n double"),
        (pa.array([decimal.Decimal("1.5"), None], pa.decimal128(4, 1)), "n decimal(20, 4)"),
        (pa.array([0, None], pa.timestamp("ns", "Asia/Tokyo")), "n timestamp_ltz"),
        (pa.array([None, None], pa.null()), "n int"),
    ],
)
def test_a_column_of_another_type_is_cast_where_its_values_stay(tmp_path, given, wanted):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"other": [7, 8], "n": given}), path)
    (batch,) = from_columns(ParquetColumnarRowInputFormat(wanted), FileSplit(path, 0, WHOLE))
    assert batch.schema == arrow_schema(wanted)
    records = from_records(ParquetColumnarRowInputFormat(wanted), FileSplit(path, 0, WHOLE), wanted)
    assert columns([batch], batch.schema) == columns(records, batch.schema)


@pytest.mark.parametrize(
    ("table", "wanted", "said"),
    [
        ({"m": [1]}, "n bigint", "no column is called n; there are m"),
        ({"n": ["a"]}, "n bigint", "column 'n' is int64 to as_columns.. and is string now.*: tell|column 'n' is int64"),
        ({"n": [1.5]}, "n bigint", "column 'n' is int64 to as_columns.. and is double now"),
        ({"n": [1.5]}, "n float", "column 'n' is float to as_columns.. and is double now"),
        ({"n": [1 << 40]}, "n int", "column 'n' is int32 to as_columns.. and is int64 now.*1099511627776.*tell as_"),
        ({"n": pa.array([1001], pa.timestamp("ns"))}, "n timestamp_ntz", "column 'n' .* would lose data"),
        ({"n": [1, None]}, "n bigint not null", "column 'n' has a null, and may have none"),
    ],
)
def test_a_file_with_other_columns_is_refused(tmp_path, table, wanted, said):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table(table), path)
    with pytest.raises(CorruptDataError, match=f"{path}: {said}"):
        from_columns(ParquetColumnarRowInputFormat(wanted), FileSplit(path, 0, WHOLE))


def test_names_are_compared_as_the_format_says(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"A": [1], "N": [2]}), path)
    file_format = ParquetColumnarRowInputFormat("n bigint, a bigint", is_case_sensitive=False)
    assert from_columns(file_format, FileSplit(path, 0, WHOLE))[0].to_pylist() == [{"n": 2, "a": 1}]
    pq.write_table(pa.table({"N": [1], "n": [2]}), path)
    with pytest.raises(CorruptDataError, match="several columns are called n; there are N, n"):
        from_columns(ParquetColumnarRowInputFormat("n bigint", is_case_sensitive=False), FileSplit(path, 0, WHOLE))


def test_a_damaged_file_says_which_it_is(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(50_000)}), path, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[100:5000] = bytes(4900)
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match=str(path)):
        from_columns(ParquetColumnarRowInputFormat("n bigint"), FileSplit(str(path), 0, WHOLE), None, 60_000)
    path.write_bytes(b"nothing")
    with pytest.raises(CorruptDataError, match=str(path)):
        from_columns(ParquetColumnarRowInputFormat("n bigint"), FileSplit(str(path), 0, WHOLE))
    with pytest.raises(FileNotFoundError, match="missing"):
        from_columns(ParquetColumnarRowInputFormat("n bigint"), FileSplit("/missing", 0, WHOLE))


def test_a_file_that_has_become_shorter_is_another(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [1, 2]}), path)
    assert not from_columns(ParquetColumnarRowInputFormat("n bigint"), FileSplit(path, 0, WHOLE, 2))
    with pytest.raises(CorruptDataError, match="3 rows were read of it before .* and now there are 2: another file"):
        from_columns(ParquetColumnarRowInputFormat("n bigint"), FileSplit(path, 0, WHOLE, 3))


def test_wide_rows_make_small_batches(tmp_path):
    path = str(tmp_path / "a.parquet")
    texts = pa.array([f"{n}" * 1000 for n in range(10, 60)])
    pq.write_table(pa.table({"s": texts, "n": range(50)}), path, use_dictionary=False, compression="none")
    wide = from_columns(
        ParquetColumnarRowInputFormat("s string, n bigint"), FileSplit(path, 0, WHOLE), None, 50, 10_000
    )
    assert max(batch.num_rows for batch in wide) == 4
    thin = from_columns(
        ParquetColumnarRowInputFormat("s string, n bigint"), FileSplit(path, 0, WHOLE), "n bigint", 50, 10_000
    )
    assert [batch.num_rows for batch in thin] == [50]


def write_files(folder):
    for number, (rows, group) in enumerate(((40, 7), (0, 1), (25, 100), (3, 1))):
        table = pa.table({"n": pa.array(range(100 * number, 100 * number + rows), pa.int64())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
    return sorted([*range(40), *range(200, 225), *range(300, 303)])


def file_source(folder):
    builder = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat("n bigint"), str(folder))
    return builder.set_file_enumerator(FileEnumeratorProvider(200)).build()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_goes_on_behind_each_batch(tmp_path, parallelism):
    expected, source = write_files(tmp_path), file_source(tmp_path)
    for turns in range(0, 60, 2 if parallelism == 1 else 5):
        # As batches of other sizes, or as records: what was read is counted in rows.
        then = source if turns % 2 else source.of_batches(None, 3, 1 << 22)[0]
        assert numbers_with_a_cut(source.of_batches(None, 4, 1 << 22)[0], then, parallelism, turns) == expected, turns


def reads_columns(stream):
    graph = stream._stream._env._stream_graph(None, runs_in_program=True)
    return isinstance(graph.nodes[0].transformation.factory.source, FileColumnSource)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_program_reads_columns_without_saying_so(tmp_path, parallelism):
    for number in range(3):
        table = pa.table({"k": [number % 2] * 60, "x": [1.0] * 60, "n": pa.array([number] * 60, pa.int32())})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=25)
    file_format = ParquetColumnarRowInputFormat("n int, x double, k bigint")
    builder = FileSource.for_bulk_file_format(file_format, str(tmp_path))
    source = builder.set_file_enumerator(FileEnumeratorProvider(400)).build()
    rows = embedded(parallelism).from_source(source, WatermarkStrategy.no_watermarks(), "files")
    assert rows.as_columns().schema() == arrow_schema("n int, x double, k bigint")
    stream = rows.as_columns("k bigint, n bigint")
    assert reads_columns(stream)
    stream = stream.with_columns(at=lambda batch: batch["n"]).assign_timestamps_and_watermarks("at")
    sums = stream.key_by("k").window(TumblingEventTimeWindows.of(Time.hours(1))).aggregate(rows=count(), n=sum_("n"))
    assert sorted(sums.execute_and_collect()) == [(0, 120, 120), (1, 60, 60)]


def test_a_strategy_that_looks_at_records_gets_them(tmp_path):
    pq.write_table(pa.table({"n": [5, 6]}), tmp_path / "a.parquet")
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    assert reads_columns(embedded().from_source(file_source(tmp_path), strategy, "files").as_columns())
    strategy = strategy.with_timestamp_assigner(lambda row, timestamp: row.n)
    stream = embedded().from_source(file_source(tmp_path), strategy, "files").as_columns()
    assert stream.execute_and_collect(limit=2) == [(5,), (6,)]
    stream = embedded().from_source(file_source(tmp_path), strategy, "files").as_columns()
    assert not reads_columns(stream)
    strategy = WatermarkStrategy.for_generator(lambda: None)
    assert not reads_columns(embedded().from_source(file_source(tmp_path), strategy, "files").as_columns())


def test_a_source_that_others_read_too_is_read_once(tmp_path):
    pq.write_table(pa.table({"n": [5, 6], "s": ["a", "b"]}), tmp_path / "a.parquet")
    file_format = ParquetColumnarRowInputFormat("n bigint, s string")
    source = FileSource.for_bulk_file_format(file_format, str(tmp_path)).build()

    def reading(*wanted):
        rows = embedded().from_source(source, WatermarkStrategy.no_watermarks(), "files").uid("files")
        return rows, [rows.as_columns(each) for each in wanted]

    _, (one, two) = reading("n bigint", "n bigint")
    assert reads_columns(one)
    assert sorted(one.union(two).execute_and_collect()) == [(5,), (5,), (6,), (6,)]
    rows, (one,) = reading("s string")
    texts = one.as_records().map(lambda row: row.s, Types.STRING())
    both = texts.union(rows.map(lambda row: row.s * 2, Types.STRING()))
    assert not reads_columns(one)
    assert sorted(both.execute_and_collect()) == ["a", "aa", "b", "bb"]
    _, (one, two) = reading("s string", "n int")
    records = [each.as_records().map(str, Types.STRING()) for each in (one, two)]
    assert reads_columns(one)
    found = sorted(records[0].union(records[1]).execute_and_collect())
    assert found == ["Row(n=5)", "Row(n=6)", "Row(s='a')", "Row(s='b')"]


def test_some_columns_of_records_are_found_by_their_names():
    rows = embedded().from_collection([(1, "a", 2.5)], "n bigint, s string, x double")
    for type_, row in (("x double, n int", (2.5, 1)), ("s string", ("a",))):
        assert rows.as_columns(type_).execute_and_collect(limit=1) == [row]
    with pytest.raises(TypeError, match="column 'n' is int8 to as_columns.. .* do not fit"):
        embedded().from_collection([(300, "a")], "n bigint, s string").as_columns("n tinyint").execute_and_collect(
            limit=1
        )


def test_a_subclass_that_gives_other_rows_is_asked_for_them(tmp_path):
    class Doubled(ParquetColumnarRowInputFormat):
        def read_split(self, split):
            return (type(row)(2 * row.n) for row in super().read_split(split))

    pq.write_table(pa.table({"n": [5]}), tmp_path / "a.parquet")
    source = FileSource.for_bulk_file_format(Doubled("n bigint"), str(tmp_path)).build()
    stream = embedded().from_source(source, WatermarkStrategy.no_watermarks(), "files").as_columns()
    assert stream.execute_and_collect(limit=1) == [(10,)]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("n bigint, m int", "as_columns.. was told of the column 'm', and the source has n"),
        ("n string", "column 'n' is string to as_columns.. and is int64 now"),
    ],
)
def test_what_the_source_has_not_is_refused_where_it_is_said(tmp_path, wanted, said):
    rows = embedded().from_source(file_source(tmp_path), WatermarkStrategy.no_watermarks(), "files")
    with pytest.raises((ValueError, TypeError), match=said):
        rows.as_columns(wanted)


def test_a_type_that_arrow_has_not_is_refused_if_it_is_wanted():
    row_type = Types.ROW_NAMED(["n", "at"], [Types.LONG(), Types.SQL_TIMESTAMP()])
    file_format = ParquetColumnarRowInputFormat(row_type)
    with pytest.raises(TypeError, match="column 'at': .* has no column of Arrow"):
        file_format.of_batches(None, 10, 10)
    assert file_format.of_batches("n bigint", 10, 10).schema == arrow_schema("n bigint")
