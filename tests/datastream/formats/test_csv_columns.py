"""CSV files as columns from the start: rows and errors as read record by record, whatever bytes a file has."""

import decimal
import gzip

import pytest

pa = pytest.importorskip("pyarrow")
from hypothesis import HealthCheck, example, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from support.programs.embedded import embedded  # noqa: E402
from support.worlds.source_attempt import numbers_with_a_cut  # noqa: E402

from flinkbuf._core.flow.batch_records import RecordsToBatch  # noqa: E402
from flinkbuf.common import Types, WatermarkStrategy  # noqa: E402
from flinkbuf.datastream.columns import count, sum_  # noqa: E402
from flinkbuf.datastream.connectors.file_system import FileEnumeratorProvider, FileSource  # noqa: E402
from flinkbuf.datastream.formats import csv_columns  # noqa: E402
from flinkbuf.datastream.formats.csv import CsvReaderFormat, CsvSchema  # noqa: E402
from flinkbuf.errors import CorruptDataError  # noqa: E402
from flinkbuf.records.arrow_batches import arrow_schema, batch_builder  # noqa: E402
from flinkbuf.streaming.sources.file_source import FileColumnSource  # noqa: E402
from flinkbuf.streaming.sources.file_split import FileSplit, split_file  # noqa: E402

WHOLE = 1 << 40
SETTINGS = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
PAIRS = CsvSchema.builder().add_string_column("s").add_number_column("n").build()
TYPES = (
    CsvSchema.builder()
    .add_string_column("s")
    .add_boolean_column("yes")
    .add_number_column("tiny", "tinyint")
    .add_number_column("n")
    .add_number_column("half", "float")
    .add_number_column("x", "double")
    .add_number_column("price", Types.BIG_DEC())
    .build()
)


def schema_of(build):
    return build(CsvSchema.builder().add_string_column("s").add_number_column("n")).build()


def from_records(file_format, split):
    """What as_columns() has made of the records of a format, as a text: NaN is no value that equals itself."""
    row_type = file_format.get_produced_type()
    gathered = RecordsToBatch(row_type.codec, batch_builder(row_type.codec, row_type, 1 << 20, 1 << 30))
    for row in file_format.read_split(split):
        gathered.add_record(row)
    return str(gathered.finish().to_pylist() if gathered.count else [])


def from_columns(file_format, split, wanted=None, max_rows=5, max_bytes=1 << 20):
    batches = list(file_format.of_batches(wanted, max_rows, max_bytes).read_batches(split))
    assert all(0 < batch.num_rows <= max_rows for batch in batches)
    return str([row for batch in batches for row in batch.to_pylist()])


def outcome(read, *arguments):
    try:
        return read(*arguments)
    except CorruptDataError as error:
        return f"error: {error}"


PLAIN = st.sampled_from(["", "a", "7", "-3", " 4", "0x1F", "1_0", "1.5", "NULL", 'h"i', "\xe9", "#", "'", "\r"])
QUOTED = st.sampled_from(['"b"', '"b,c"', '"d\ne"', '"f""g"', '""', '"', '"j"k', '"NULL"', '"\r\n"'])
FIELDS = PLAIN | QUOTED
LINES = st.lists(st.lists(FIELDS, min_size=1, max_size=3).map(",".join), max_size=7)
HEADS = st.sampled_from(["", "s,n", "n,s", '"n",x,s', "s", "a,b", "\ufeffs,n"])


@settings(max_examples=120, **SETTINGS)
@given(
    head=HEADS,
    lines=LINES,
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    block=st.sampled_from([1, 7, 1000]),
    build=st.sampled_from(
        [
            lambda builder: builder,
            lambda builder: builder.set_null_value("NULL"),
            lambda builder: builder.set_use_header(),
            lambda builder: builder.set_use_header().set_strict_headers(),
            lambda builder: builder.set_skip_first_data_row(),
            lambda builder: builder.set_use_header().set_skip_first_data_row(),
            lambda builder: builder.disable_quote_char(),
        ]
    ),
)
@example("", ['"a\nb",1', "c,x"], "\n", 1, lambda builder: builder)
def test_any_file_is_read_as_by_records(tmp_path, head, lines, end, block, build):
    path = tmp_path / "a.csv"
    path.write_bytes(end.join([head, *lines] if head else lines).encode())
    file_format = CsvReaderFormat.for_schema(schema_of(build))
    split = FileSplit(str(path), 0, WHOLE)
    assert outcome(from_columns, file_format, split, None, 5, block) == outcome(from_records, file_format, split)


@settings(max_examples=50, **SETTINGS)
@given(lines=LINES, end=st.sampled_from(["\n", "\r\n"]), size=st.integers(1, 40), block=st.sampled_from([1, 7, 1000]))
def test_any_range_is_read_as_by_records(tmp_path, lines, end, size, block):
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(lines).encode())
    file_format = CsvReaderFormat.for_schema(PAIRS, is_splittable=True)
    for split in split_file(str(path), path.stat().st_size, size):
        assert outcome(from_columns, file_format, split, None, 5, block) == outcome(from_records, file_format, split)


NUMBERS = st.sampled_from(
    ["", "1", "-0", "+2", "1e3", ".5", "5.", "nan", "-inf", "NaN(1)", "1e400", "0.1", "16777217", "x"]
)
ROWS = st.fixed_dictionaries(
    {
        "s": st.sampled_from(["", "a", "nan(", "\U0001f600"]),
        "yes": st.sampled_from(["", "true", "False", "tRuE", " true", "1"]) | st.just("true"),
        "tiny": st.sampled_from(["", "127", " 1", "-128", "٣"]) | st.just("128"),
        "n": st.sampled_from(["", "9223372036854775807"]) | st.integers(-9, 9).map(str),
        "half": NUMBERS | st.floats(width=32).map(str),
        "x": NUMBERS | st.floats().map(str),
        "price": st.sampled_from(["", "1.5", " 2", "1E2", "-0.000000000000000001", "NaN"]),
    }
)


@settings(max_examples=50, **SETTINGS)
@given(rows=st.lists(ROWS, max_size=3))
def test_any_value_is_that_of_the_records(tmp_path, rows):
    path = tmp_path / "a.csv"
    path.write_text("".join(",".join(row.values()) + "\n" for row in rows))
    file_format, split = CsvReaderFormat.for_schema(TYPES), FileSplit(str(path), 0, WHOLE)
    try:
        expected = from_records(file_format, split)
    except (CorruptDataError, OverflowError, TypeError, ValueError):
        with pytest.raises(CorruptDataError, match=str(path)):
            from_columns(file_format, split)
    else:
        assert from_columns(file_format, split) == expected


def test_bytes_that_are_no_text_become_the_same_signs(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xff\xc3,1\n" + b"b,2\n" * 3)
    file_format, split = CsvReaderFormat.for_schema(PAIRS), FileSplit(str(path), 0, WHOLE)
    assert from_columns(file_format, split) == from_records(file_format, split)


def test_a_compressed_file_is_read_whole(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'"a\nb",1\n' * 9 + b"c,x\n"))
    split = FileSplit(str(path), 0, 10)
    for is_splittable in (False, True):
        file_format = CsvReaderFormat.for_schema(PAIRS, is_splittable)
        told = outcome(from_columns, file_format, split, None, 5, 30)
        assert told == outcome(from_records, file_format, split)
        assert f"{path}, line {2 if is_splittable else 19}: " in told


def test_a_number_that_does_not_fit_is_told_with_its_file_and_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,1\nb,300\n")
    file_format = CsvReaderFormat.for_schema(PAIRS)
    with pytest.raises(CorruptDataError, match=f"{path}: column 'n' is int8 to as_columns.*300"):
        from_columns(file_format, FileSplit(str(path), 0, WHOLE), "n tinyint")
    narrow = CsvSchema.builder().add_string_column("s").add_number_column("n", "tinyint").build()
    with pytest.raises(CorruptDataError, match=rf"{path}: .*Row\(s='b', n=300\)"):
        from_columns(CsvReaderFormat.for_schema(narrow), FileSplit(str(path), 0, WHOLE))


def test_wanted_columns_alone_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("price,n,s\n1.50,1,a\n,2,b\n")
    builder = (
        CsvSchema.builder().add_string_column("s").add_number_column("n").add_number_column("price", Types.BIG_DEC())
    )
    file_format = CsvReaderFormat.for_schema(builder.set_use_header().build())
    columns = file_format.of_batches("price decimal(5, 2), n int", 10, 1 << 20)
    (batch,) = columns.read_batches(FileSplit(str(path), 0, WHOLE))
    assert batch.schema == arrow_schema("price decimal(5, 2), n int")
    assert batch.to_pylist() == [{"price": decimal.Decimal("1.50"), "n": 1}, {"price": None, "n": 2}]


@pytest.mark.parametrize(
    "build",
    [
        lambda builder: builder.set_allow_comments(),
        lambda builder: builder.set_escape_char("\\"),
        lambda builder: builder.set_column_separator("\xa6"),
        lambda builder: builder.add_array_column("tags"),
    ],
)
def test_what_pyarrow_cannot_read_is_read_by_records(tmp_path, build):
    schema = schema_of(build)
    assert CsvReaderFormat.for_schema(schema).of_batches(None, 10, 1 << 20) is None
    row = ["a", "1", "x;y"][: len(schema)]
    (tmp_path / "a.csv").write_text(schema.column_separator.join(row) + "\n", encoding="utf-8")
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(tmp_path)).build()
    rows = embedded().from_source(source, WatermarkStrategy.no_watermarks(), "files").as_columns()
    assert rows.execute_and_collect(limit=1)[0][:2] == ("a", 1)


def test_a_long_row_is_in_one_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_columns, "BLOCK", 64)
    path = tmp_path / "a.csv"
    path.write_text('"' + "line\n" * 300 + '",1\nb,2\n')
    file_format, split = CsvReaderFormat.for_schema(PAIRS), FileSplit(str(path), 0, WHOLE)
    assert from_columns(file_format, split) == from_records(file_format, split)


def write_files(folder):
    (folder / "a.csv").write_text("".join(f"row {n},{n}\n" for n in range(40)))
    (folder / "b.csv").write_text("")
    (folder / "c.csv").write_text("".join(f'"row, {n}",{n}\r\n\r\n' for n in range(40, 60)))
    return list(range(60))


def file_source(folder, split_size=100):
    builder = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(PAIRS, is_splittable=True), str(folder))
    return builder.set_file_enumerator(FileEnumeratorProvider(split_size)).build()


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_job_goes_on_behind_each_batch(tmp_path, parallelism):
    expected, source = write_files(tmp_path), file_source(tmp_path)
    for turns in range(0, 40, 2 if parallelism == 1 else 5):
        # As batches of other sizes, or as records: what was read is counted in rows.
        then = source if turns % 4 else source.of_batches(None, 3, 1 << 22)[0]
        assert numbers_with_a_cut(source.of_batches(None, 4, 50)[0], then, parallelism, turns) == expected, turns


def test_a_file_that_has_become_shorter_is_another(tmp_path):
    (tmp_path / "a.csv").write_text("a,1\nb,2\n")
    columns = CsvReaderFormat.for_schema(PAIRS).of_batches(None, 10, 10)
    assert not list(columns.read_batches(FileSplit(str(tmp_path / "a.csv"), 0, WHOLE, 2)))
    with pytest.raises(CorruptDataError, match="3 rows were read of it before .* and now there are 2: another file"):
        list(columns.read_batches(FileSplit(str(tmp_path / "a.csv"), 0, WHOLE, 3)))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_program_reads_columns_without_saying_so(tmp_path, parallelism):
    write_files(tmp_path)
    rows = embedded(parallelism).from_source(file_source(tmp_path), WatermarkStrategy.no_watermarks(), "files")
    stream = rows.as_columns()
    assert isinstance(stream._stream._transformation.reads_batches.factory.source, FileColumnSource)
    sums = stream.with_columns(k=lambda batch: pa.array([0] * len(batch))).key_by("k")
    results = list(sums.aggregate(rows=count(), n=sum_("n")).execute_and_collect())
    assert max(results) == (0, 60, sum(range(60)))
