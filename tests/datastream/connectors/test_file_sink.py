"""Files out: part files, buckets, rolling, formats, failures."""

import datetime
import errno
import os
import pickle
import re
from decimal import Decimal

import cloudpickle
import pytest
from support.worlds.surroundings import Surroundings

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.common.serialization import BulkWriterFactory, ByteArraySchema, Encoder
from flinkbuf.datastream.connectors.bucket_assigner import DateTimeBucketAssigner
from flinkbuf.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
)
from flinkbuf.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
)
from flinkbuf.datastream.formats.json import (
    JsonLinesFormat,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.sinks.file_sink import PartFileCommitter
from flinkbuf.streaming.sinks.part_file import PartFile, PartFileInfo, PendingFile
from flinkbuf.streaming.sinks.sink import CommitRequest, CommitState
from flinkbuf.streaming.sinks.sink_factories import SinkWriterFactory
from flinkbuf.streaming.sources.file_split import FileSplit
from flinkbuf.types.types import Types
from flinkbuf.types.values import Instant, Row

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
ROW = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])


class Sink:
    """One subtask of a sink, with time that the test moves."""

    def __init__(self, sink):
        self.around = Surroundings()
        self.operator = self.around.open(pickle.loads(cloudpickle.dumps(SinkWriterFactory(sink)))())

    def write(self, *values):
        for value in values:
            self.operator.process_element(value, NO_TIMESTAMP)

    def end(self):
        self.operator.end_input(1)
        self.operator.finish()
        self.operator.close()


def text_sink(folder, encoder=None):
    builder = FileSink.for_row_format(str(folder), encoder or Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def contents(folder):
    """The texts of all files below, by path; the last part of part files' names without what is random."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = re.sub(r"[0-9a-f]{16}-\d+\.\d+\.\d+\.", "", str(path.relative_to(folder)))
            found[re.sub(UUID, "*", name)] = path.read_text()
    return found


def test_part_files_are_hidden_until_the_end_of_the_job(tmp_path):
    sink = Sink(text_sink(tmp_path).build())
    sink.write("a", 1, None)
    assert list(contents(tmp_path)) == [".part-*-0.inprogress.*"]
    sink.operator.end_input(1)
    assert list(contents(tmp_path)) == [".part-*-0.inprogress.*"]
    sink.operator.finish()
    sink.operator.close()
    assert contents(tmp_path) == {"part-*-0": "a\n1\nNone\n"}


def test_a_job_that_fails_leaves_hidden_files_only(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    sink = Sink(text_sink(tmp_path).build())
    sink.write("a")
    sink.operator.close()
    assert list(contents(tmp_path)) == [".part-*-0.inprogress.*"]
    assert len(os.listdir("/proc/self/fd")) == before
    assert list(FileSource.for_record_stream_format(JsonLinesFormat(), str(tmp_path)).build()._discover()) == []


def test_no_record_no_file(tmp_path):
    sink = Sink(text_sink(tmp_path).build())
    sink.end()
    assert contents(tmp_path) == {}


def test_names_of_part_files(tmp_path):
    config = OutputFileConfig.builder().with_part_prefix("flights").with_part_suffix(".txt").build()
    sink = Sink(text_sink(tmp_path).with_output_file_config(config).build())
    sink.write("a")
    sink.end()
    assert contents(tmp_path) == {"flights-*-0.txt": "a\n"}


def test_a_new_part_begins_when_one_is_too_large(tmp_path):
    policy = RollingPolicy.default_rolling_policy(part_size=4)
    sink = Sink(text_sink(tmp_path).with_rolling_policy(policy).build())
    sink.write("aa", "b", "c", "dddd", "e")  # 3 bytes, 5: more than 4; 2, 7; 2
    sink.end()
    assert contents(tmp_path) == {"part-*-0": "aa\nb\n", "part-*-1": "c\ndddd\n", "part-*-2": "e\n"}


@pytest.mark.parametrize(("rollover", "inactivity"), [(1_000, 10_000), (10_000, 300)])
def test_a_part_that_is_too_old_is_complete(tmp_path, rollover, inactivity):
    policy = RollingPolicy.default_rolling_policy(10**6, rollover, inactivity)
    sink = Sink(text_sink(tmp_path).with_rolling_policy(policy).with_bucket_check_interval(100).build())
    sink.write("a")
    sink.around.time.advance_to(250)
    sink.write("b")
    sink.around.time.advance_to(500)
    sink.write("c")
    sink.around.time.advance_to(1_200)
    sink.write("d")
    sink.end()
    assert contents(tmp_path) == {"part-*-0": "a\nb\nc\n", "part-*-1": "d\n"}


def test_the_default_policy_at_its_edges():
    policy = RollingPolicy.default_rolling_policy(10, 100, 50)
    part = PartFileInfo("", creation_ms=1_000, last_update_ms=1_040, size=10)
    assert not policy.should_roll_on_event(part, "x") and not policy.should_roll_on_checkpoint(part)
    assert not policy.should_roll_on_processing_time(part, 1_089)
    assert policy.should_roll_on_processing_time(part, 1_090)
    part.last_update_ms = 1_099
    assert not policy.should_roll_on_processing_time(part, 1_099)
    assert policy.should_roll_on_processing_time(part, 1_100)
    part.size = 11
    assert policy.should_roll_on_event(part, "x") and policy.should_roll_on_checkpoint(part)
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, -1)):
        with pytest.raises(ValueError, match="must be greater than zero"):
            RollingPolicy.default_rolling_policy(*wrong)


def test_a_checkpoint_completes_parts_where_the_policy_says_so(tmp_path):
    policy = RollingPolicy.on_checkpoint_rolling_policy()
    sink = Sink(text_sink(tmp_path).with_rolling_policy(policy).build())
    sink.write("a")
    sink.operator.prepare_snapshot_pre_barrier(1)
    sink.write("b")
    sink.end()
    assert contents(tmp_path) == {"part-*-0": "a\n", "part-*-1": "b\n"}


class ByParity(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"parity={element % 2}"


def test_each_bucket_has_parts_of_its_own(tmp_path):
    sink = Sink(text_sink(tmp_path).with_bucket_assigner(ByParity()).build())
    sink.write(1, 2, 3, 4)
    sink.end()
    assert contents(tmp_path) == {"parity=0/part-*-0": "2\n4\n", "parity=1/part-*-0": "1\n3\n"}


def test_buckets_are_hours_unless_something_else_is_said(tmp_path):
    sink = Sink(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build())
    sink.write("a")
    sink.end()
    hour = datetime.datetime.fromtimestamp(0).strftime("%Y-%m-%d--%H")
    assert contents(tmp_path) == {f"{hour}/part-*-0": "a\n"}


@pytest.mark.parametrize(
    ("format", "zone", "directory"),
    [
        ("yyyy-MM-dd--HH", "UTC", "2020-01-02--03"),
        ("yyyy/M/d HH:mm:ss.SSS", "UTC", "2020/1/2 03:04:05.678"),
        ("'year='yyyy'/{x}'", "UTC", "year=2020/{x}"),
        ("yyyy''MM", "UTC", "2020'01"),
        ("yyyy-MM-dd--HH", "America/Los_Angeles", "2020-01-01--19"),
    ],
)
def test_date_formats_are_java_s(format, zone, directory):
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, 678_000, datetime.timezone.utc)
    assigner = pickle.loads(pickle.dumps(DateTimeBucketAssigner(format, zone)))
    assert assigner.directory_at(round(moment.timestamp() * 1_000)) == directory


def test_a_letter_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="a date format knows .* got 'QQ'"):
        BucketAssigner.date_time_bucket_assigner("QQ")


def test_committing_twice_is_harmless_and_a_lost_file_is_an_error(tmp_path, caplog):
    (tmp_path / ".a").write_text("x")
    pending = PendingFile(str(tmp_path / ".a"), str(tmp_path / "a"))
    pending.commit()
    pending.commit()
    assert contents(tmp_path) == {"a": "x"}
    gone = PendingFile(str(tmp_path / ".gone"), str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError, match="another process has removed it.*gone"):
        PartFileCommitter().commit([CommitRequest(gone)])
    PartFileCommitter().commit([request := CommitRequest(gone, is_restored=True)])
    assert request.state is CommitState.COMMITTED and "committed before" in caplog.text


def test_a_full_disk_says_the_path():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")

    def full_file(file):
        os.dup2(os.open("/dev/full", os.O_WRONLY), file.fileno())
        return Writer(file)

    class Writer:
        def __init__(self, file):
            self.file = file

        def add_element(self, element):
            self.file.write(element)

        def flush(self):
            self.file.flush()

        def finish(self):
            self.file.flush()

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        part = PartFile(os.path.join(folder, "part-0"), PartFileInfo("", 0, 0), full_file)
        with pytest.raises(OSError, match=r"part-0\.inprogress") as caught:
            part.write(b"x" * 10_000_000, 0)
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(OSError, match=r"part-0\.inprogress"):
            part.finish()
        part.abandon()


def test_a_writer_that_says_how_much_it_wrote_is_believed_and_the_file_is_not_asked(tmp_path):
    class HoldsBack:
        """Writes nothing before it is flushed, so the file does not know what has come."""

        def __init__(self, file):
            self.file, self.held = file, b""

        def add_element(self, element):
            self.held += element
            return len(element)

        def finish(self):
            self.file.write(self.held)

    part = PartFile(str(tmp_path / "part-0"), PartFileInfo("", 0, 0), HoldsBack)
    part.write(b"four", 0)
    part.write(b"five5", 0)
    assert part.info.size == 9
    part.finish()


def test_what_is_no_encoder_or_factory_is_refused(tmp_path):
    with pytest.raises(TypeError, match="must be an Encoder"):
        FileSink.for_row_format(str(tmp_path), "text")
    with pytest.raises(TypeError, match="must be a BulkWriterFactory"):
        FileSink.for_bulk_format(str(tmp_path), "text")
    with pytest.raises(TypeError, match="a function from a record to bytes"):
        Encoder("text")
    builder = FileSink.for_bulk_format(str(tmp_path), BulkWriterFactory(print))
    with pytest.raises(ValueError, match="OnCheckpointRollingPolicy for bulk format"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())
    with pytest.raises(ValueError, match="interval must be greater than zero"):
        builder.with_bucket_check_interval(0)


def test_an_error_of_an_encoder_comes_out_as_it_is(tmp_path):
    sink = Sink(text_sink(tmp_path, Encoder(lambda element: 1 / element)).build())
    with pytest.raises(ZeroDivisionError):
        sink.write(0)
    assert sink.operator.is_in_function and sink.operator.value_in_hand == 0
    sink.operator.close()


def test_text_of_a_declared_type_is_flink_s():
    encoder = Encoder.simple_string_encoder("UTF-16-BE", Types.TUPLE([Types.BOOLEAN()]))
    assert pickle.loads(pickle.dumps(encoder))((True,)) == "(true)\n".encode("UTF-16-BE")


class PlainWriter:
    def __init__(self, file):
        self.add_element = file.write

    def flush(self):
        pass

    def finish(self):
        pass


def test_a_part_file_s_name_is_on_the_disk_before_a_checkpoint_counts_it(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")) or fsync(handle)
    )
    folder = tmp_path / "new" / "bucket"
    part = PartFile(str(folder / "part-0"), PartFileInfo("bucket", 0, 0), PlainWriter)
    part.write(b"1", 0)
    path = part.persist().path
    assert synced == [path, str(tmp_path), str(folder.parent), str(folder)], "the file, then each name above it"
    part.persist()
    part.finish()
    assert synced[4:] == [path, path], "a name is written once"


def test_a_part_file_that_ends_before_a_checkpoint_has_its_name_on_the_disk(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")) or fsync(handle)
    )
    part = PartFile(str(tmp_path / "part-0"), PartFileInfo("", 0, 0), PlainWriter)
    pending = part.finish()
    assert synced == [pending.in_progress_path, str(tmp_path.parent), str(tmp_path)]


# Formats


def bulk(folder, factory):
    builder = FileSink.for_bulk_format(str(folder), factory)
    return Sink(builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())


def test_csv_is_written_as_it_is_read(tmp_path):
    schema = (
        CsvSchema.builder()
        .add_number_column("id")
        .add_string_column("name")
        .add_array_column("tags", "/")
        .add_boolean_column("ok")
        .set_column_separator(";")
        .set_use_header()
        .set_null_value("-")
        .build()
    )
    sink = bulk(tmp_path, CsvBulkWriters.for_schema(schema))
    sink.write(Row(1, 'a;"b"', ["x", "y"], True), Row(None, None, None, False))
    sink.end()
    assert contents(tmp_path) == {"part-*-0": 'id;name;tags;ok\n1;"a;""b""";x/y;true\n-;-;-;false\n'}
    other = bulk(tmp_path, CsvBulkWriters.for_schema(schema))
    with pytest.raises(ValueError, match="a row of 1 fields for 4 columns"):
        other.write(Row(1))
    other.operator.close()


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\r"])
def test_csv_quotes_whatever_a_reader_takes_for_a_line_end(tmp_path, separator):
    schema = CsvSchema.builder().add_string_column("a").add_number_column("b").set_line_separator(separator).build()
    rows = [Row("\r", 1), Row("x\ny", 2), Row("\r\n", 3), Row("plain", 4)]
    sink = bulk(tmp_path, CsvBulkWriters.for_schema(schema))
    sink.write(*rows)
    sink.end()
    path = part_of(tmp_path)
    assert list(CsvReaderFormat.for_schema(schema).read_split(FileSplit(path, 0, os.stat(path).st_size))) == rows


def test_a_field_of_csv_may_be_long(tmp_path):
    schema = CsvSchema.builder().add_string_column("a").add_number_column("b").build()
    sink = bulk(tmp_path, CsvBulkWriters.for_schema(schema))
    sink.write(Row("x" * 300_000, 1))
    sink.end()
    path = part_of(tmp_path)
    read = CsvReaderFormat.for_schema(schema).read_split(FileSplit(path, 0, os.stat(path).st_size))
    assert list(read) == [Row("x" * 300_000, 1)]


@pytest.mark.parametrize("kind", [Types.LONG(), Types.DOUBLE(), Types.BIG_DEC()])
def test_digits_of_python_s_source_are_no_number_of_csv(kind):
    read = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["n"], [kind])).build()
    assert read.deserialize(b"1000")[0] == 1000
    with pytest.raises(CorruptDataError, match="column 'n': '1_000' is no number"):
        read.deserialize(b"1_000")


def test_csv_messages():
    read = CsvRowDeserializationSchema.Builder(ROW).set_field_delimiter("|").set_null_literal("n").build()
    write = CsvRowSerializationSchema.Builder(ROW).set_field_delimiter("|").set_null_literal("n")
    write = write.set_line_delimiter("").build()
    assert read.deserialize(b"1|a") == (1, "a") and read.get_produced_type() == ROW
    assert read.deserialize(write.serialize((None, 'x"|y'))) == (None, 'x"|y')
    with pytest.raises(CorruptDataError, match="is no row of this schema: column 'id'"):
        read.deserialize(b"x|a")
    lenient = CsvRowDeserializationSchema.Builder(ROW).set_ignore_parse_errors(True).build()
    assert lenient.deserialize(b"x,a") is None
    with pytest.raises(TypeError, match="Type information must not be None"):
        CsvRowSerializationSchema.Builder(None)


def test_json_messages():
    type_info = Types.ROW_NAMED(
        ["n", "when", "day", "at", "d", "data"],
        [
            Types.LONG(),
            Types.SQL_TIMESTAMP(),
            Types.SQL_DATE(),
            Types.SQL_TIME(),
            Types.DOUBLE(),
            Types.BASIC_ARRAY(Types.STRING()),
        ],
    )
    row = (1, datetime.datetime(2020, 1, 2, 3, 4, 5), datetime.date(2020, 1, 2), datetime.time(3, 4), 0.5, ["a"])
    write = JsonRowSerializationSchema.builder().with_type_info(type_info).build()
    read = JsonRowDeserializationSchema.builder().type_info(type_info).build()
    data = write.serialize(row)
    assert b'"when":"2020-01-02T03:04:05Z"' in data
    assert read.deserialize(data) == row
    assert read.deserialize(b'{"when":"2020-01-02T04:04:05+01:00"}')[1] == row[1]
    lenient = JsonRowDeserializationSchema.builder().type_info(type_info).ignore_parse_errors().build()
    assert lenient.deserialize(b"{") is None
    with pytest.raises(CorruptDataError, match="is no row of this type"):
        read.deserialize(b"{")
    for builder in (JsonRowSerializationSchema.builder(), JsonRowDeserializationSchema.builder()):
        with pytest.raises(TypeError, match="Typeinfo should be set"):
            builder.build()


def test_json_lines_are_written_as_they_are_read(tmp_path):
    sink = Sink(text_sink(tmp_path, JsonLinesFormat.encoder()).build())
    sink.write({"a": [1, None]}, "é", Decimal("1.5"), datetime.date(2020, 1, 2))
    sink.end()
    assert contents(tmp_path) == {"part-*-0": '{"a":[1,null]}\n"é"\n1.5\n"2020-01-02"\n'}
    with pytest.raises(TypeError, match="object .* has no form in JSON"):
        JsonLinesFormat.encoder()(object())


def test_byte_arrays_are_messages_as_they_are():
    assert ByteArraySchema().deserialize(ByteArraySchema().serialize(bytearray(b"a"))) == b"a"


# Parquet

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

from flinkbuf.datastream.formats import parquet  # noqa: E402
from flinkbuf.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat  # noqa: E402

NESTED = Types.ROW_NAMED(
    ["id", "name", "ok", "share", "tags", "inner", "map", "when", "day", "amount"],
    [
        Types.INT(),
        Types.STRING(),
        Types.BOOLEAN(),
        Types.DOUBLE(),
        Types.LIST(Types.LONG()),
        Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]),
        Types.MAP(Types.STRING(), Types.INT()),
        Types.SQL_TIMESTAMP(),
        Types.SQL_DATE(),
        Types.BIG_DEC(),
    ],
)
NESTED_ROW = Row(
    1,
    "a",
    True,
    0.5,
    [1, 2],
    Row(3, "z"),
    {"k": 1},
    datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    datetime.date(2020, 1, 2),
    Decimal("1.5"),
)


def part_of(folder):
    (path,) = folder.glob("part-*")
    return str(path)


def test_parquet_is_read_as_it_was_written(tmp_path):
    sink = bulk(tmp_path, ParquetBulkWriters.for_row_type(NESTED))
    sink.write(NESTED_ROW, Row(*[None] * 10))
    sink.end()
    path = part_of(tmp_path)
    assert pyarrow.parquet.read_table(path).column("inner").to_pylist() == [{"x": 3, "y": "z"}, None]
    some = Types.ROW_NAMED(["name", "id", "tags"], [Types.STRING(), Types.INT(), Types.LIST(Types.LONG())])
    rows = list(ParquetColumnarRowInputFormat(some).read_split(FileSplit(path, 0, os.stat(path).st_size)))
    assert rows == [("a", 1, [1, 2]), (None, None, None)] and rows[0].name == "a"


def test_maps_and_rows_come_out_of_parquet_as_they_went_in(tmp_path):
    inner = Types.ROW_NAMED(["x", "m"], [Types.INT(), Types.MAP(Types.STRING(), Types.INT())])
    row_type = Types.ROW_NAMED(
        ["map", "row", "when", "at", "rows", "rows_by_key"],
        [
            Types.MAP(Types.STRING(), Types.INT()),
            inner,
            Types.INSTANT(),
            Types.TIMESTAMP_LTZ(),
            Types.LIST(inner),
            Types.MAP(Types.INT(), inner),
        ],
    )
    one = Row(3, {"k": 4})
    written = Row({"a": 1, "b": 2}, one, Instant(1, 5_000), Instant(1, 5_000), [one, one], {1: one})
    sink = bulk(tmp_path, ParquetBulkWriters.for_row_type(row_type))
    sink.write(written, Row(*[None] * 6))
    sink.end()
    path = part_of(tmp_path)
    found = list(ParquetColumnarRowInputFormat(row_type).read_split(FileSplit(path, 0, os.stat(path).st_size)))
    assert found[0].when == Instant(1, 5_000)
    assert found[0].at == datetime.datetime(1970, 1, 1, 0, 0, 1, 5, datetime.timezone.utc)
    assert [found[0][index] for index in (0, 1, 4, 5)] == [written[index] for index in (0, 1, 4, 5)]
    assert (
        found[1] == Row(*[None] * 6)
        and found[0].row.x == 3
        and found[0].rows[1].m == {"k": 4}
        and found[0].rows_by_key[1].x == 3
    )


def test_a_row_that_is_changed_after_it_was_given_is_written_as_it_was(tmp_path):
    sink = bulk(tmp_path, ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["l"], [Types.LIST(Types.LONG())])))
    numbers = [0]
    for number in range(3):
        numbers[0] = number
        sink.write(Row(numbers))
    sink.end()
    assert pyarrow.parquet.read_table(part_of(tmp_path)).to_pylist() == [{"l": [0]}, {"l": [1]}, {"l": [2]}]


@pytest.mark.parametrize("split_size", [1, 50, 10_000])
def test_each_row_group_is_read_once_by_ranges(tmp_path, monkeypatch, split_size):
    from flinkbuf.streaming.sources.file_split import split_file

    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", 3)
    sink = bulk(tmp_path, ParquetBulkWriters.for_row_type(ROW))
    sink.write(*[Row(number, str(number)) for number in range(10)])
    sink.end()
    path = part_of(tmp_path)
    assert pyarrow.parquet.ParquetFile(path).metadata.num_row_groups == 4
    format = ParquetColumnarRowInputFormat(ROW, batch_size=2)
    splits = split_file(path, os.stat(path).st_size, split_size)
    assert [row.id for split in splits for row in format.read_split(split)] == list(range(10))


def test_parquet_errors_say_the_path(tmp_path):
    (tmp_path / "a").write_text("no parquet at all")
    split = FileSplit(str(tmp_path / "a"), 0, 100)
    with pytest.raises(CorruptDataError, match="/a: "):
        list(ParquetColumnarRowInputFormat(ROW).read_split(split))
    sink = bulk(tmp_path, ParquetBulkWriters.for_row_type(ROW))
    sink.write(Row(1, "a"))
    sink.end()
    other = Types.ROW_NAMED(["ID", "more"], [Types.INT(), Types.INT()])
    split = FileSplit(part_of(tmp_path), 0, 10**6)
    with pytest.raises(CorruptDataError, match="no column is called ID, more; there are id, name"):
        list(ParquetColumnarRowInputFormat(other).read_split(split))
    upper = Types.ROW_NAMED(["ID"], [Types.INT()])
    assert list(ParquetColumnarRowInputFormat(upper, is_case_sensitive=False).read_split(split)) == [(1,)]


def test_what_has_no_form_in_parquet_is_refused_at_once():
    with pytest.raises(TypeError, match="has no form in Parquet"):
        ParquetBulkWriters.for_row_type(Types.ROW([Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(TypeError, match="holds rows, got"):
        ParquetColumnarRowInputFormat(Types.INT())


def test_without_pyarrow_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match="Parquet files need pyarrow: pip install pyarrow"):
        ParquetColumnarRowInputFormat(ROW)


def test_a_failed_job_leaves_no_parquet_file_under_its_name(tmp_path):
    sink = bulk(tmp_path, ParquetBulkWriters.for_row_type(ROW))
    sink.write(Row(1, "a"))
    sink.operator.close()
    del sink
    assert all(name.startswith(".part") for name in os.listdir(tmp_path))
