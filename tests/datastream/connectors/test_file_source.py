"""Files as sources: text, CSV, JSON lines and Parquet, bounded and watched."""

import contextlib
import errno
import gzip
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.worlds.surroundings import ManualTime, Surroundings

from flinkbuf.common.serialization import SimpleStringSchema
from flinkbuf.datastream.connectors.base import Boundedness
from flinkbuf.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSource,
    FileSplitAssignerProvider,
    StreamFormat,
)
from flinkbuf.datastream.formats.csv import CsvReaderFormat, CsvSchema
from flinkbuf.datastream.formats.json import JsonLinesFormat
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.sources.file_source import FileReader
from flinkbuf.streaming.sources.file_split import FileSplit, find_files, split_file
from flinkbuf.streaming.sources.source_coordinator import CoordinatorStore
from flinkbuf.streaming.sources.source_events import SplitRequested
from flinkbuf.streaming.sources.source_factories import SourceOperatorFactory
from flinkbuf.streaming.sources.split_reader import rows_behind
from flinkbuf.types.duration import Duration
from flinkbuf.types.types import Types

TEXT_LINES = StreamFormat.text_line_format()


class Job:
    """Subtasks that read one source in turn."""

    def __init__(self, source, parallelism=1):
        self.time = ManualTime()
        factory = SourceOperatorFactory(source)
        self.coordinator = factory.create_coordinator(parallelism, self.time, CoordinatorStore(), self.failed)
        self.failures = []
        self.coordinator.start()
        self.subtasks = []
        for index in range(parallelism):
            around = Surroundings(
                subtask_index=index, parallelism=parallelism, time=self.time, coordinator=self.coordinator
            )
            around.operator = around.open(factory())
            self.subtasks.append(around)

    def failed(self, error):
        self.failures.append(error)

    def turn(self):
        """One turn of each subtask; their statuses."""
        statuses = []
        for around in self.subtasks:
            around.mailbox.run()
            statuses.append(around.operator.emit_next(around.output, 10))
        return statuses

    @property
    def values(self):
        return [value for around in self.subtasks for value in around.output.values]

    def close(self):
        for around in self.subtasks:
            around.operator.close()
        self.coordinator.close()


def read(source, parallelism=1):
    job = Job(source, parallelism)
    try:
        for _ in range(10_000):
            if set(job.turn()) == {3}:
                return job.values
        raise AssertionError("the source did not come to an end")
    finally:
        job.close()


def lines_source(*paths):
    return FileSource.for_record_stream_format(TEXT_LINES, *map(str, paths))


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("split_size", [None, 1, 5, 1_000])
def test_every_line_of_every_file_comes_once(tmp_path, parallelism, split_size):
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("a1\na2\r\na3")
    (tmp_path / "b" / "c").write_text("c1\n\nc3\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "z.gz").write_bytes(gzip.compress(b"z1\nz2\n"))
    source = lines_source(tmp_path).set_file_enumerator(FileEnumeratorProvider(split_size)).build()
    assert source.boundedness is Boundedness.BOUNDED
    expected = ["a1", "a2", "a3", "z1", "z2", "c1", "", "c3"]  # files before directories
    values = read(source, parallelism)
    assert sorted(values) == sorted(expected)
    if parallelism == 1:
        assert values == expected


def test_splits_are_given_out_in_the_order_wanted(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(name)
    backwards = FileSplitAssignerProvider(lambda splits: splits[::-1])
    assert read(lines_source(tmp_path).set_split_assigner(backwards).build()) == ["c", "b", "a"]


def test_a_missing_path_ends_the_job_before_it_begins(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Job(lines_source(tmp_path / "nowhere").build())


def test_what_is_no_format_or_no_path_is_refused():
    with pytest.raises(TypeError, match="must be a StreamFormat, got str 'text'"):
        FileSource.for_record_stream_format("text", "/data")
    with pytest.raises(TypeError, match="must be a BulkFormat"):
        FileSource.for_bulk_file_format(TEXT_LINES, "/data")
    with pytest.raises(ValueError, match="at least one path"):
        FileSource.for_record_stream_format(TEXT_LINES)
    with pytest.raises(ValueError, match="on this machine or on HDFS"):
        lines_source("s3://bucket/data")
    with pytest.raises(ValueError, match="at least 1 byte"):
        FileEnumeratorProvider(0)


def test_a_format_of_the_user_reads_whole_files(tmp_path):
    class Sizes(StreamFormat):
        def read_file(self, file, path):
            yield os.path.basename(path), len(file.read())

    (tmp_path / "a").write_text("12345")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"123"))
    source = FileSource.for_record_stream_format(Sizes(), str(tmp_path)).build()
    assert read(source, 2) == [("a", 5), ("b.gz", 3)]


def test_a_snapshot_of_a_reader_goes_on_behind_what_was_emitted(tmp_path):
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(30)))
    job = Job(lines_source(tmp_path).build())
    job.turn()
    job.turn()
    emitted = job.values
    (split,) = job.subtasks[0].operator._reader.snapshot_state(1)
    job.close()
    assert split == FileSplit(str(tmp_path / "a"), 0, 80, skipped=len(emitted))
    again = Job(lines_source(tmp_path).build())
    again.subtasks[0].operator._reader._waiting.append(split)
    again.turn(), again.turn(), again.turn()
    assert emitted + again.values[: 30 - len(emitted)] == [str(number) for number in range(30)]
    again.close()


@pytest.mark.parametrize("line_count", [0, 3, 5])
def test_a_file_with_fewer_records_than_were_read_is_another_one(tmp_path, line_count):
    (tmp_path / "a").write_text("x\n" * line_count)
    split = FileSplit(str(tmp_path / "a"), 0, 1000, skipped=5)
    reader = FileReader(SimpleNamespace(), TEXT_LINES)
    if line_count == 5:
        assert list(reader.open_split(split)) == []
    else:
        with pytest.raises(CorruptDataError, match=f"a: 5 rows were read of it .* now there are {line_count}: another"):
            reader.open_split(split)


@pytest.mark.parametrize("cut", [1, 3, 4, 7])
@pytest.mark.parametrize("skipped", range(9))
def test_rows_behind_those_that_were_read(cut, skipped):
    rows = pa.record_batch({"a": list(range(7))})
    batches = [rows.slice(start, cut) for start in range(0, 7, cut)]
    found = []
    is_missing = skipped > 7
    with pytest.raises(CorruptDataError, match="here: 8 .* are 7") if is_missing else contextlib.nullcontext():
        found += rows_behind(batches, skipped, "here")
    assert [row["a"] for batch in found for row in batch.to_pylist()] == list(range(skipped, 7))
    assert all(batch.num_rows for batch in found)


# A directory that is watched


def test_files_that_appear_are_read_once(tmp_path):
    (tmp_path / "a").write_text("1\n")
    source = lines_source(tmp_path).monitor_continuously(Duration.of_millis(100)).build()
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    job = Job(source, parallelism=2)

    def seen():
        job.coordinator._enumerator.handle_found(source._discover(), None)
        for _ in range(4):
            statuses = job.turn()
        assert set(statuses) == {1}
        return sorted(job.values)

    assert seen() == ["1"]
    assert seen() == ["1"]
    (tmp_path / ".hidden").write_text("no\n")
    (tmp_path / "b").write_text("2\n3\n")
    assert seen() == ["1", "2", "3"]
    (tmp_path / "b").write_text("changed\n")  # a file is read as it was found
    assert seen() == ["1", "2", "3"]
    state = job.coordinator.snapshot(1)
    assert state == ([str(tmp_path / "a"), str(tmp_path / "b")], [])
    job.close()


def test_the_directory_is_listed_at_the_interval(tmp_path):
    job = Job(lines_source(tmp_path).monitor_continuously(Duration.of_millis(1)).build())
    (tmp_path / "a").write_text("1\n")
    for now_ms in range(1, 500):
        job.time.now = now_ms
        if job.subtasks[0].mailbox.woken.wait(0.01):
            job.subtasks[0].mailbox.woken.clear()
            job.turn()
        if job.values:
            break
    assert job.values == ["1"]
    job.close()


def test_a_watched_directory_that_goes_away_is_reported(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    job = Job(lines_source(folder).monitor_continuously(Duration.of_millis(1)).build())
    folder.rmdir()
    for now_ms in range(1, 500):
        job.time.now = now_ms
        job.subtasks[0].mailbox.woken.wait(0.01)
        if job.failures:
            break
    assert isinstance(job.failures[0], FileNotFoundError) and "in" in str(job.failures[0])
    job.close()


def test_a_reader_that_failed_while_it_waited_is_given_nothing_before_it_is_back(tmp_path):
    source = lines_source(tmp_path).monitor_continuously(Duration.of_seconds(10)).build()
    failures, given = [], []
    coordinator = SourceOperatorFactory(source).create_coordinator(1, ManualTime(), CoordinatorStore(), failures.append)
    coordinator.start()
    gateway = SimpleNamespace(send=given.append)
    coordinator.register_reader(0, gateway)
    coordinator.handle_event(0, SplitRequested())
    coordinator.snapshot(1)
    coordinator.notify_checkpoint_complete(1)
    coordinator.reset_reader(0, 1)
    (tmp_path / "a").write_text("x")
    watcher = coordinator._enumerator
    watcher.handle_found(watcher._look(), None)
    assert given == []
    coordinator.register_reader(0, gateway)
    coordinator.handle_event(0, SplitRequested())
    assert [split.path for event in given for split in event.splits] == [str(tmp_path / "a")] and not failures
    coordinator.close()


def test_a_restored_watcher_reads_only_what_is_new(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(name)
    source = lines_source(tmp_path).monitor_continuously(Duration.of_millis(100)).build()
    split = FileSplit(str(tmp_path / "b"), 0, 1)
    factory = SourceOperatorFactory(source)
    coordinator = factory.create_coordinator(1, ManualTime(), CoordinatorStore(), print)
    coordinator.start(checkpoint=([str(tmp_path / "a"), str(tmp_path / "b")], [split]))
    around = Surroundings(coordinator=coordinator)
    operator = around.open(factory())
    for _ in range(4):
        around.mailbox.run()
        operator.emit_next(around.output, 10)
    assert around.output.values == ["b", "c"]
    operator.close(), coordinator.close()


# CSV

SCHEMA = (
    CsvSchema.builder()
    .add_number_column("id", Types.INT())
    .add_string_column("name")
    .add_boolean_column("is_ok")
    .add_array_column("tags", "/")
    .add_number_column("share", Types.DOUBLE())
)


def csv_rows(path, schema, **options):
    return read(FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema, **options), str(path)).build())


def test_csv_fields_become_what_their_columns_say(tmp_path):
    (tmp_path / "a.csv").write_text('1,"a ""b"", c",true,x/y,0.5\r\n-2,,FALSE,,\n\n3,"two\nlines",true,z,1e3')
    rows = csv_rows(tmp_path, SCHEMA.build())
    assert rows == [
        (1, 'a "b", c', True, ["x", "y"], 0.5),
        (-2, "", False, None, None),
        (3, "two\nlines", True, ["z"], 1000.0),
    ]
    assert rows[0].name == 'a "b", c' and rows[0].is_ok is True


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("x,a,true,b,1", "column 'id': invalid literal"),
        ("1,a,perhaps,b,1", "column 'is_ok': 'perhaps' is neither true nor false"),
        ("1,a,true,b,half", "column 'share': could not convert"),
        ("1,a", r"2 fields instead of 5"),
        ('1,"a,true,b,1', "unexpected end of data"),
    ],
)
def test_a_bad_csv_line_says_path_line_and_column(tmp_path, line, error):
    path = tmp_path / "a.csv"
    path.write_text(f"1,a,true,b,1\n2,a,true,b,1\n{line}")
    with pytest.raises(CorruptDataError, match=rf"a\.csv, line 3: {error}"):
        csv_rows(path, SCHEMA.build())


def test_csv_options(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("# comment\nname|id\n# another\na\\|b|1\nNULL|NULL\n")
    schema = (
        CsvSchema.builder()
        .add_number_column("id")
        .add_string_column("name")
        .set_column_separator("|")
        .set_escape_char("\\")
        .set_null_value("NULL")
        .set_allow_comments()
        .disable_quote_char()
    )
    assert csv_rows(path, schema.set_use_header().build()) == [(1, "a|b"), (None, None)]
    with pytest.raises(CorruptDataError, match=r"the header is \['name', 'id'\], but the columns are \['id', 'name'\]"):
        csv_rows(path, schema.set_strict_headers().build())
    with pytest.raises(CorruptDataError, match="lacks other"):
        csv_rows(path, schema.set_strict_headers(False).add_string_column("other").build())


def test_a_line_within_quotes_is_no_comment(tmp_path):
    (tmp_path / "a.csv").write_text('#first\n1,"a\n#b\nc"\n#2,no\n3,"#d"\n')
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_allow_comments().build()
    assert csv_rows(tmp_path, schema) == [(1, "a\n#b\nc"), (3, "#d")]


@pytest.mark.parametrize("is_splittable", [False, True])
@pytest.mark.parametrize("size", [4, 100])
def test_the_mark_of_an_encoding_is_no_part_of_the_first_field(tmp_path, is_splittable, size):
    (tmp_path / "a.csv").write_bytes("é,1\nb,2\n\ufeffc,3\n".encode("utf-8-sig"))
    schema = CsvSchema.builder().add_string_column("name").add_number_column("id").build()
    format, path = CsvReaderFormat.for_schema(schema, is_splittable), str(tmp_path / "a.csv")
    whole = os.stat(path).st_size
    splits = split_file(path, whole, size) if is_splittable else [FileSplit(path, 0, whole)]
    found = [row for split in splits for row in format.read_split(split)]
    assert found == [("é", 1), ("b", 2), ("\ufeffc", 3)]


def test_the_first_row_can_be_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("what a fine file\n5\n")
    schema = CsvSchema.builder().add_number_column("a").set_skip_first_data_row().build()
    assert csv_rows(tmp_path, schema) == [(5,)]


@given(
    values=st.lists(st.tuples(st.integers(-99, 99), st.text("ab,\"' é", max_size=4)), max_size=10),
    size=st.integers(1, 40),
)
def test_csv_lines_are_read_once_by_ranges(values, size, tmp_path_factory):
    from flinkbuf.datastream.formats.csv import CsvRowSerializationSchema

    path = tmp_path_factory.getbasetemp() / "ranges.csv"
    type_info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    line_of = CsvRowSerializationSchema.Builder(type_info).build().serialize
    path.write_bytes(b"".join(map(line_of, values)))
    schema = CsvSchema.builder().add_number_column("a", Types.INT()).add_string_column("b").build()
    format = CsvReaderFormat.for_schema(schema, is_splittable=True)
    source = FileSource.for_record_stream_format(format, str(path)).set_file_enumerator(FileEnumeratorProvider(size))
    assert read(source.build()) == values


def test_a_line_end_in_a_field_is_no_line_of_a_range(tmp_path):
    (tmp_path / "a.csv").write_text('1\n"2\n3"\n')
    schema = CsvSchema.builder().add_string_column("a").build()
    with pytest.raises(CorruptDataError, match="line 3: a quoted field holds a line end"):
        csv_rows(tmp_path, schema, is_splittable=True)
    with pytest.raises(ValueError, match="a file with a header is read from its beginning"):
        CsvReaderFormat.for_schema(CsvSchema.builder().set_use_header().build(), is_splittable=True)


@pytest.mark.parametrize("name", ["set_column_separator", "set_quote_char", "set_escape_char"])
def test_separators_are_single_characters(name):
    with pytest.raises(ValueError, match="must be a single char, got ab"):
        getattr(CsvSchema.builder(), name)("ab")


def test_columns_can_be_taken_over_and_removed():
    first = CsvSchema.builder().add_string_column("a").build()
    builder = CsvSchema.builder().add_columns_from(first).add_array_column("b").remove_array_element_separator(1)
    assert len(builder) == builder.size() == 2
    assert builder.build().row_type.field_names == ("a", "b")
    assert builder.clear_columns().build().size() == 0


# JSON lines


def json_values(path, *arguments, split_size=None):
    source = FileSource.for_record_stream_format(JsonLinesFormat(*arguments), str(path))
    return read(source.set_file_enumerator(FileEnumeratorProvider(split_size)).build())


@pytest.mark.parametrize("split_size", [None, 7])
def test_each_line_is_a_json_value(tmp_path, split_size):
    (tmp_path / "a").write_text('{"a": 1}\n\n[1, 2.5]\r\n"é"\nnull')
    assert json_values(tmp_path, split_size=split_size) == [{"a": 1}, [1, 2.5], "é", None]


def test_objects_become_rows(tmp_path):
    type_info = Types.ROW_NAMED(
        ["id", "tags", "inner", "share"],
        [
            Types.INT(),
            Types.LIST(Types.STRING()),
            Types.ROW_NAMED(["x"], [Types.BIG_DEC()]),
            Types.MAP(Types.STRING(), Types.DOUBLE()),
        ],
    )
    (tmp_path / "a").write_text(
        '{"id": 1, "tags": ["a", null], "inner": {"x": 1.10}, "share": {"k": 2}, "more": 0}\n{"id": 2}'
    )
    first, second = json_values(tmp_path, type_info)
    assert first == (1, ["a", None], first.inner, {"k": 2.0}) and str(first.inner.x) == "1.10"
    assert second == (2, None, None, None)
    with pytest.raises(CorruptDataError, match="a, line 2: the field 'tags' is missing"):
        json_values(tmp_path, type_info, True)


@pytest.mark.parametrize("split_size", [None, 5])
@pytest.mark.parametrize(
    ("line", "error"), [("{", "Expecting property name"), ("[1]", "expected an object"), ('{"a": "x"}', "field 'a'")]
)
def test_a_bad_json_line_says_path_and_number(tmp_path, line, error, split_size):
    path = tmp_path / "a.json"
    path.write_text(f'{{"a": 1}}\n\n{line}\n')
    with pytest.raises(CorruptDataError, match=rf"a\.json, line 3: .*{error}"):
        json_values(path, Types.ROW_NAMED(["a"], [Types.INT()]), split_size=split_size)


def test_a_string_schema_reads_what_it_wrote():
    schema = SimpleStringSchema("latin-1")
    assert schema.deserialize(schema.serialize("é")) == "é"


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".deflate"])
@pytest.mark.parametrize("format", [TEXT_LINES, CsvReaderFormat.for_schema(CsvSchema.builder().build())])
def test_what_cannot_be_decompressed_says_the_path(tmp_path, suffix, format):
    (tmp_path / f"broken{suffix}").write_bytes(b"this was never compressed")
    source = FileSource.for_record_stream_format(format, str(tmp_path)).build()
    with pytest.raises(CorruptDataError, match=rf"broken\{suffix} cannot be decompressed: "):
        read(source)


def test_a_compressed_file_that_is_cut_off_says_the_path(tmp_path):
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"line\n" * 1000)[:-12])
    with pytest.raises(CorruptDataError, match=r"cut\.gz cannot be decompressed: .*end-of-stream"):
        read(lines_source(tmp_path).build())


def test_a_file_that_goes_away_while_its_directory_is_listed_is_left_out(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "d").write_text("d")
    found = find_files([str(tmp_path)])
    names = [next(found)[0]]
    (tmp_path / "b").unlink()
    shutil.rmtree(tmp_path / "folder")
    assert [Path(name).name for name in [*names, *(name for name, _ in found)]] == ["a", "c"]


def test_links_to_directories_are_followed_but_not_in_a_circle(tmp_path):
    (tmp_path / "top" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("a")
    (tmp_path / "top" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "top" / "again").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "top" / "deep" / "up").symlink_to(tmp_path / "top")
    (tmp_path / "top" / "nowhere").symlink_to(tmp_path / "missing")
    names = [os.path.relpath(name, tmp_path) for name, _ in find_files([str(tmp_path / "top")])]
    assert names == ["top/again/a", "top/linked/a"]
    assert read(lines_source(tmp_path / "top").build()) == ["a", "a"]


@pytest.mark.parametrize("place", ["", "inner"])
def test_a_directory_that_cannot_be_read_is_no_empty_one(tmp_path, monkeypatch, place):
    (tmp_path / "inner").mkdir()
    (tmp_path / "a").write_text("a")
    scandir = os.scandir

    def refuse(folder):
        if str(folder) == str(tmp_path / place):
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr("flinkbuf.streaming.sources.file_split.os.scandir", refuse)
    with pytest.raises(PermissionError):
        read(lines_source(tmp_path).build())
