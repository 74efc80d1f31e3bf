"""Iceberg tables written exactly once whatever fails, and read as they are, as they were, and as they grow."""

import datetime
import gc
import os
import random
from decimal import Decimal
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg is not installed: pip install 'pyiceberg[sql-sqlite]'")

import pyiceberg.io.pyarrow  # noqa: E402
from pyiceberg.catalog import load_catalog  # noqa: E402
from pyiceberg.exceptions import CommitFailedException  # noqa: E402
from pyiceberg.transforms import DayTransform, IdentityTransform  # noqa: E402
from support.worlds.failing_sinks import fail_behind_first_commit, play, values_of, write_with_failures  # noqa: E402
from support.worlds.global_commits import GlobalSink  # noqa: E402

from flinkbuf.common import Configuration, Duration, Types, WatermarkStrategy  # noqa: E402
from flinkbuf.datastream import RuntimeExecutionMode, StreamExecutionEnvironment  # noqa: E402
from flinkbuf.datastream.connectors.iceberg import IcebergSink, IcebergSource, IcebergTableError  # noqa: E402
from flinkbuf.streaming.chain.operator_config import ExecutionSettings  # noqa: E402
from flinkbuf.streaming.lakes import iceberg_sink, iceberg_source, table_commits  # noqa: E402
from flinkbuf.streaming.lakes.table_commits import LakeTableError  # noqa: E402

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
NUMBERS = pa.schema([("n", pa.int64()), ("word", pa.string())])
# The library leaves its connections to sqlite to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


class Lake:
    """A catalog in a file, and one table."""

    def __init__(self, folder, schema=NUMBERS):
        self.folder = folder
        self.properties = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        self.catalog = load_catalog("lake", **self.properties)
        self.catalog.create_namespace_if_not_exists("db")
        self.table = self.catalog.create_table("db.numbers", schema)

    def sink(self, row_type="n bigint, word string"):
        builder = IcebergSink.builder().set_catalog("lake", self.properties).set_table("db.numbers")
        return builder if row_type is None else builder.set_row_type(row_type)

    def ready(self, row_type="n bigint, word string"):
        """A sink as sink_to() makes it for records."""
        return self.sink(row_type).build().of_records(None)

    def source(self):
        return IcebergSource.builder().set_catalog("lake", self.properties).set_table("db.numbers")

    @property
    def rows(self):
        found = self.table.refresh().scan().to_arrow().to_pylist()
        return sorted((tuple(row.values()) for row in found), key=str)

    @property
    def numbers(self):
        return sorted(row[0] for row in self.rows)

    @property
    def snapshots(self):
        return [each.summary for each in self.table.refresh().snapshots()]

    def append(self, *numbers):
        self.table.refresh().append(pa.table({"n": list(numbers), "word": [str(each) for each in numbers]}, NUMBERS))
        return self.table.current_snapshot().snapshot_id

    @property
    def files(self):
        return list(Path(self.folder, "warehouse").rglob("*.parquet"))


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path)
    yield made
    made.catalog.close()


def environment(parallelism=1, **options):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    for key, value in options.items():
        config.set_string(key.replace("__", ".").replace("_", "-"), value)
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)


def element(number):
    return number, str(number)


def numbers_read(source, limit=99, parallelism=2):
    rows = environment(parallelism).from_source(source, NO_WATERMARKS, "rows").execute_and_collect(limit=limit)
    return sorted(row[0] for row in rows)


# --- the sink


def test_rows_are_visible_when_the_checkpoint_behind_them_counts(lake):
    sink = GlobalSink(lake.ready(), parallelism=2)
    sink.process_element((1, "a"))
    sink.process_element((2, None))
    sink.snapshot(1)
    sink.process_element((3, "c"))
    assert lake.rows == []
    sink.notify_checkpoint_complete(1)
    assert lake.rows == [(1, "a"), (2, None)] and len(lake.snapshots) == 1  # both writers in one snapshot
    assert lake.snapshots[0]["flink.max-committed-checkpoint-id"] == "1"
    sink.snapshot(2)
    sink.snapshot(3)  # nothing was written
    sink.notify_checkpoint_complete(3)
    assert lake.numbers == [1, 2, 3] and len(lake.snapshots) == 2
    sink.process_element((4, "never committed"))
    sink.close()
    assert lake.numbers == [1, 2, 3] and len(lake.files) == 3


SCRIPT = [1, 2, ("snap", 1), 3, ("done", 1), 4, 5, ("snap", 2), 6, ("snap", 3), ("done", 3), 7]


@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
def test_wherever_it_fails_each_row_is_there_once(lake, cut):
    snapshots = {}
    sink = lake.ready()
    play(GlobalSink(sink, parallelism=2), SCRIPT[:cut], snapshots, element)  # killed: nothing is closed
    done = max(snapshots, default=0)
    left = values_of(SCRIPT[SCRIPT.index(("snap", done)) + 1 :] if done else SCRIPT)
    restore = snapshots.get(done)
    other = GlobalSink(sink, restore)
    other.process_element((99, "lost"))
    other.snapshot(done + 1)  # of which nobody hears that it counts
    last = GlobalSink(sink, restore, parallelism=1 + cut % 3)
    for value in left:
        last.process_element(element(value))
    last.end(9)
    assert lake.rows == [element(number) for number in values_of(SCRIPT)]


@pytest.mark.parametrize("seed", range(2))
def test_random_failures(lake, seed):
    chance = random.Random(seed)
    sink = lake.sink().set_buffer_size(chance.choice([1, 1 << 20])).build().of_records(None)
    rows = [element(number) for number in range(20)]
    killed = []
    write_with_failures(rows, lambda snapshot: GlobalSink(sink, snapshot, 2), killed.append, chance).close()
    assert lake.numbers == list(range(20))


def test_a_committer_that_dies_behind_the_commit_is_found_to_have_made_it(lake):
    first = GlobalSink(lake.ready())
    first.process_element((1, "a"))
    snapshot = first.snapshot(1)
    first.notify_checkpoint_complete(1)
    lake.append(2)  # and another writer goes on behind it
    for _ in range(2):
        GlobalSink(lake.ready(), snapshot).close()
    assert lake.numbers == [1, 2] and len(lake.snapshots) == 2


def test_a_commit_whose_snapshot_has_expired_is_found_by_its_files(lake, monkeypatch):
    """Without a scan, which refuses tables whose rows others delete by their values."""
    sink = lake.ready()
    snapshots = {}
    first = GlobalSink(sink)
    play(first, [1, ("snap", 1), ("done", 1)], snapshots, element)
    lake.append(2)
    lake.append(3)
    lake.table.refresh().maintenance.expire_snapshots().by_id(lake.table.snapshots()[0].snapshot_id).commit()
    play(first, [4, ("snap", 2)], snapshots, element)
    for checkpoint, numbers in ((1, [1, 2, 3]), (2, [1, 2, 3, 4]), (2, [1, 2, 3, 4])):
        with monkeypatch.context() as patch:
            patch.delattr("pyiceberg.table.Table.scan")
            GlobalSink(sink, snapshots[checkpoint]).close()
        assert lake.numbers == numbers


def test_files_that_were_removed_before_their_commit_do_not_come_into_the_table(lake):
    sink = lake.ready()
    first = GlobalSink(sink)
    first.process_element((1, "a"))
    snapshot = first.snapshot(1)
    lake.files[0].unlink()
    with pytest.raises(LakeTableError, match="what checkpoint 1 has .* cannot be committed: file .* not exist"):
        GlobalSink(sink, snapshot)
    assert lake.rows == []


def test_a_commit_that_two_programs_make_at_once_is_made_once(lake, monkeypatch, caplog):
    monkeypatch.setattr(table_commits, "_FIRST_WAIT_S", 0.001)
    sink = lake.ready()
    sleeper = GlobalSink(sink)
    sleeper.process_element((1, "a"))
    snapshot = sleeper.snapshot(1)
    committer = sleeper.committer.operator._committer
    append = committer.append

    def sleep_before(commit):
        committer.append = append
        GlobalSink(sink, snapshot).close()  # it has taken the job over and commits
        append(commit)

    committer.append = sleep_before
    sleeper.notify_checkpoint_complete(1)
    assert lake.numbers == [1] and len(lake.snapshots) == 1
    assert "could not be committed yet" in caplog.text


def test_a_commit_goes_behind_those_of_others_and_an_answer_that_was_lost_does_no_harm(lake, monkeypatch, caplog):
    monkeypatch.setattr(table_commits, "_FIRST_WAIT_S", 0.001)
    sink = GlobalSink(lake.ready())
    committer = sink.committer.operator._committer
    append, failures = committer.append, iter(["other", "lost", "behind"])

    def fail(commit):
        place = next(failures, None)
        if place == "other":
            lake.append(7)  # the table is another one than that which was looked at
        if place != "lost":
            append(commit)
        if place is not None:
            raise CommitFailedException(f"the answer was {place}")

    committer.append = fail
    sink.process_element((1, "a"))
    sink.snapshot(1)
    sink.notify_checkpoint_complete(1)
    assert lake.numbers == [1, 7] and len(lake.snapshots) == 2
    assert "retry" not in str(lake.table.refresh().properties)


def test_two_jobs_and_another_writer_append_to_one_table(lake):
    sinks = [GlobalSink(lake.ready(), job=job) for job in ("one", "two")]
    for checkpoint in range(1, 4):
        for number, each in enumerate(sinks):
            each.process_element((10 * checkpoint + number, "x"))
            each.snapshot(checkpoint)
        lake.append(10 * checkpoint + 2)
        for each in sinks:
            each.notify_checkpoint_complete(checkpoint)
    assert lake.numbers == sorted(10 * checkpoint + number for checkpoint in range(1, 4) for number in range(3))


def test_another_job_that_begins_from_an_older_savepoint_says_so_once(lake, caplog):
    sink = lake.ready()
    snapshots = {}
    play(GlobalSink(sink), [1, ("snap", 1), 2, ("snap", 2), 3, ("snap", 3)], snapshots, element)
    GlobalSink(sink, snapshots[3]).close()
    GlobalSink(sink, snapshots[3], job="another").close()
    assert "come again" not in caplog.text
    GlobalSink(sink, snapshots[2], job="another").close()
    assert caplog.text.count("goes on from checkpoint 2, and ") == 1 and "up to checkpoint 3" in caplog.text


def test_a_job_that_goes_back_to_an_older_checkpoint_writes_again_and_says_so(lake, caplog):
    snapshots = {}
    script = [1, ("snap", 1), ("done", 1), 2, ("snap", 2), ("done", 2), 3, ("snap", 3), ("done", 3)]
    play(GlobalSink(lake.ready()), script, snapshots, element)
    again = GlobalSink(lake.ready(), snapshots[1])
    assert "goes on from checkpoint 1" in caplog.text and "up to checkpoint 3" in caplog.text
    again.process_element(element(2))
    again.end(2)
    assert lake.numbers == [1, 2, 2, 3]  # lost would be worse


def test_without_checkpoints_there_is_one_snapshot_at_the_end(lake):
    for _ in range(2):  # the second attempt of a job whose first one failed behind the commit
        each = GlobalSink(lake.ready(), parallelism=2, settings=ExecutionSettings())
        for number in range(5):
            each.process_element(element(number))
        each.end_input()
        each.finish()
        each.close()
    assert lake.numbers == list(range(5)) and len(lake.snapshots) == 1


def test_a_committer_of_a_batch_job_that_begins_again_finds_its_commit_and_leaves_the_files_alone(lake, monkeypatch):
    """The writers have ended, and their files are given to it once more."""
    failures = fail_behind_first_commit(monkeypatch, iceberg_sink.IcebergCommitter)
    env = environment(2, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__delay="1 ms")
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([(1, "a"), (2, "b")]).as_columns("n bigint, word string").sink_to(lake.sink().build())
    env.execute()
    assert next(failures, None) is None
    assert lake.numbers == [1, 2]


def test_partitions_and_types_are_those_of_the_table(tmp_path):
    schema = pa.schema(
        [
            pa.field("n", pa.int64(), nullable=False),
            ("word", pa.string()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("price", pa.decimal128(10, 2)),
            ("x", pa.float64()),
            ("data", pa.binary()),
            ("parts", pa.list_(pa.int32())),
            ("flag", pa.bool_()),
        ]
    )
    lake = Lake(tmp_path, schema)
    with lake.table.update_spec() as spec:
        spec.add_field("word", IdentityTransform(), "word")
        spec.add_field("flag", IdentityTransform(), "flag")
    local = datetime.datetime(2024, 2, 29, 1, 2, 3, 4)
    utc = local.replace(tzinfo=datetime.timezone.utc)
    rows = [
        [1, "a/b %", local.date(), utc, local, Decimal("-1.50"), float("inf"), b"\0", [1, None], True],
        [2, None, None, None, None, None, None, None, None, None],
        [3, "", None, None, None, Decimal("0.00"), -0.0, b"", [], False],
    ]
    rows = [dict(zip(schema.names, row, strict=True)) for row in rows]
    env = environment(2)
    columns = env.from_collection(pa.Table.from_pylist(rows, schema)).as_columns()
    columns.sink_to(lake.sink(None).build())
    env.execute()
    assert lake.table.refresh().scan().to_arrow().sort_by("n").to_pylist() == rows
    source = lake.source().build()
    with environment().from_source(source, NO_WATERMARKS, "rows").as_columns().execute_and_collect_batches() as batches:
        assert pa.Table.from_batches(list(batches)).sort_by("n").to_pylist() == rows
    with pytest.raises(ValueError, match="the sink writes the columns n, word, day"):
        lake.ready("n bigint, word string")
    lake.catalog.close()


def test_a_null_where_the_table_takes_none_is_an_error(tmp_path):
    lake = Lake(tmp_path, pa.schema([pa.field("n", pa.int64(), False), ("word", pa.string())]))
    sink = GlobalSink(lake.ready())
    sink.process_element((None, "a"))
    with pytest.raises(ValueError, match="column 'n' of the table takes no nulls"):
        sink.snapshot(1)
    lake.catalog.close()


def test_what_cannot_be_written_is_refused_where_the_program_says_it(lake, tmp_path):
    env = environment()
    pairs = env.from_collection([(1, "a")], Types.ROW_NAMED(["n", "other"], [Types.LONG(), Types.STRING()]))
    with pytest.raises(ValueError, match="the columns n, word, and the column stream has n, other"):
        pairs.sink_to(lake.sink(None).build())
    with pytest.raises(TypeError, match="say output_type=.* or set_row_type"):
        env.from_collection([1, 2]).sink_to(lake.sink(None).build())
    with pytest.raises(TypeError, match="'n' is int64 in the files and is string now"):
        lake.ready("n string, word string")
    with pytest.raises(FileNotFoundError, match=r"there is no Iceberg table lake.db.other: make it with create_table"):
        IcebergSink.builder().set_catalog("lake", lake.properties).set_table("db.other").build().of_columns()
    with lake.table.update_schema() as schema:
        schema.add_column("at", lake.table.schema().find_type("n"))
    with pytest.raises(ValueError, match="the columns n, word, at, and the column stream has n, word"):
        lake.ready()


def test_partitions_that_need_more_of_the_library_say_so(tmp_path):
    try:
        import pyiceberg_core  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("pyiceberg-core is installed")
    lake = Lake(tmp_path, pa.schema([("n", pa.int64()), ("at", pa.timestamp("us"))]))
    with lake.table.update_spec() as spec:
        spec.add_field("at", DayTransform(), "day")
    with pytest.raises(IcebergTableError, match=r"partitioned by day of 'at', which cannot be written here: .*-core"):
        lake.ready("n bigint, at timestamp")
    lake.catalog.close()


def test_partitions_by_floating_point_numbers_are_refused(tmp_path):
    lake = Lake(tmp_path, pa.schema([("n", pa.int64()), ("x", pa.float64())]))
    early = lake.ready("n bigint, x double")
    with lake.table.update_spec() as spec:
        spec.add_field("x", IdentityTransform(), "x")
    for call in (lambda: lake.ready("n bigint, x double"), lambda: GlobalSink(early)):
        with pytest.raises(IcebergTableError, match="partitioned by 'x', which is double: rows with NaN cannot"):
            call()
    lake.catalog.close()


def test_a_column_that_is_gone_before_a_writer_begins_is_missed(lake):
    sink = lake.ready()
    with lake.table.update_schema() as schema:
        schema.rename_column("word", "text")
        schema.add_column("more", lake.table.schema().find_type("n"))
    written = GlobalSink(sink)
    written.process_element((1, "a"))
    written.end(1)
    assert lake.rows == [(1, "a", None)]
    with lake.table.update_schema() as schema:
        schema.delete_column("text")
    with lake.table.refresh().update_schema() as schema:
        schema.add_column("word", lake.table.schema().find_type("n"))
    with pytest.raises(IcebergTableError, match="has lost its column 'word' since the sink was built.* build it again"):
        GlobalSink(sink)


def test_files_that_were_written_before_one_failed_are_removed(tmp_path, monkeypatch):
    lake = Lake(tmp_path)
    with lake.table.update_spec() as spec:
        spec.add_field("word", IdentityTransform(), "word")
    sink = GlobalSink(lake.ready())
    for word in ("a", "b"):
        sink.process_element((1, word))
    write = pyiceberg.io.pyarrow._dataframe_to_data_files

    def fail(*arguments):
        yield next(iter(write(*arguments)))
        raise OSError("the disk is full")

    monkeypatch.setattr(pyiceberg.io.pyarrow, "_dataframe_to_data_files", fail)
    with pytest.raises(OSError, match="the disk is full"):
        sink.snapshot(1)
    first = sink.writers[0].operator._writer._ended[0].path.removeprefix("file://")
    assert Path(first).exists()
    sink.close()
    assert not Path(first).exists()
    lake.catalog.close()


def test_other_partitions_since_files_were_written_are_refused(lake):
    sink = GlobalSink(lake.ready())
    sink.process_element((1, "a"))
    sink.snapshot(1)
    with lake.table.update_spec() as spec:
        spec.add_field("word", IdentityTransform(), "word")
    with pytest.raises(IcebergTableError, match="has got other partitions since files were written"):
        sink.notify_checkpoint_complete(1)


def test_a_checkpoint_of_another_table_is_refused(lake):
    lake.catalog.create_table("db.others", NUMBERS)
    first = GlobalSink(lake.ready())
    first.process_element((1, "a"))
    snapshot = first.snapshot(1)
    with pytest.raises(LakeTableError, match="still to be committed, and the sink writes Iceberg table lake.db.others"):
        GlobalSink(lake.sink().set_table("db.others").build().of_records(None), snapshot)


def test_what_is_missing_or_wrong_is_said_when_it_is_built(lake, monkeypatch):
    for call, words in (
        (lambda: IcebergSink.builder().build(), r"an IcebergSink needs set_table\(...\)"),
        (lambda: lake.sink().set_table("numbers"), "named with its namespace"),
        (lambda: lake.sink().set_buffer_size(0), "at least 1"),
        (lambda: IcebergSource.builder().build(), r"an IcebergSource needs set_table\(...\)"),
        (lambda: lake.source().set_snapshot_id_as_of("x"), "must be a number"),
        (lambda: lake.source().set_timestamp_as_of(datetime.datetime(2024, 1, 1)), "with a time zone"),
        (lambda: lake.source().set_columns("a", "a"), "each once"),
        (lambda: lake.source().monitor_continuously(Duration.of_millis(0)), "greater than zero"),
        (lambda: lake.source().set_snapshot_id_as_of(1).set_start_snapshot_id(1).build(), "begins either with"),
        (lambda: lake.source().set_columns("x").build(), "no column 'x'; it has n, word"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="an Iceberg table has rows"):
        lake.sink("bigint")
    with pytest.raises(IcebergTableError, match="has no snapshot 1, or it has expired"):
        lake.source().set_snapshot_id_as_of(1).build()
    early = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    with pytest.raises(IcebergTableError, match="had no snapshot yet"):
        lake.source().set_timestamp_as_of(early).build()
    assert "sqlite" not in repr(lake.sink()._options)
    monkeypatch.setitem(__import__("sys").modules, "pyiceberg.catalog", None)
    for each in (lake.sink(), lake.source()):
        with pytest.raises(ImportError, match=r"pip install 'flinkbuf\[iceberg\]'"):
            each.build()


# --- the source


def test_the_table_as_it_is_as_it_was_and_what_was_appended(lake):
    assert numbers_read(lake.source().build()) == []
    one, two = lake.append(1, 2), lake.append(3)
    assert numbers_read(lake.source().build()) == [1, 2, 3]
    assert numbers_read(lake.source().set_snapshot_id_as_of(one).build()) == [1, 2]
    now = datetime.datetime.now(datetime.timezone.utc)
    assert numbers_read(lake.source().set_timestamp_as_of(now).build()) == [1, 2, 3]
    assert numbers_read(lake.source().set_start_snapshot_id(one).build()) == [3]
    assert numbers_read(lake.source().set_start_snapshot_id(two).build()) == []
    with pytest.raises(IcebergTableError, match="snapshot 5 is not among those that .* has come from"):
        numbers_read(lake.source().set_start_snapshot_id(5).build())
    lake.table.refresh().delete("n == 1")
    assert numbers_read(lake.source().build()) == [2, 3]
    with pytest.raises(IcebergTableError, match=r"\((overwrite|delete)\) takes rows away.*set_start_snapshot_id\("):
        numbers_read(lake.source().set_start_snapshot_id(one).build())
    last = lake.table.current_snapshot().snapshot_id
    lake.append(4)
    assert numbers_read(lake.source().set_start_snapshot_id(last).build()) == [4]


@pytest.mark.parametrize("is_merged", [False, True])
def test_what_has_expired_before_a_source_saw_it_is_missed(lake, is_merged):
    options = lake.source().monitor_continuously(Duration.of_millis(20)).build().options
    if is_merged:
        merges = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "1"}
        lake.table.transaction().set_properties(merges).commit_transaction()
    first, second = lake.append(1), lake.append(2)
    assert len(iceberg_source.appended(options.place.load(), options.place, None).splits) == 2
    lake.append(3)
    lake.table.refresh().maintenance.expire_snapshots().by_id(first).commit()
    assert len(iceberg_source.appended(options.place.load(), options.place, second).splits) == 1
    for behind, words in (
        (None, "was empty when this source has looked at it"),
        (first, f"snapshot {first} is not among"),
    ):
        with pytest.raises(IcebergTableError, match=words):
            iceberg_source.appended(options.place.load(), options.place, behind)


def test_columns_and_records_are_the_same_rows_and_older_files_have_nulls(lake):
    lake.append(1)
    with lake.table.update_schema() as schema:
        schema.rename_column("word", "name")
        schema.add_column("more", lake.table.schema().find_type("n"))
    lake.table.refresh().append(pa.table({"n": [2], "name": ["two"], "more": [7]}))
    source = lake.source().set_columns("more", "name").build()
    env = environment()
    rows = list(map(tuple, env.from_source(source, NO_WATERMARKS, "rows").execute_and_collect(limit=9)))
    assert sorted(rows, key=str) == sorted([(None, "1"), (7, "two")], key=str)
    wanted = environment().from_source(source, NO_WATERMARKS, "rows").as_columns("name string")
    with wanted.execute_and_collect_batches() as batches:
        assert sorted(each for batch in batches for each in batch["name"].to_pylist()) == ["1", "two"]


def test_snapshots_are_read_as_they_come(lake):
    source = lake.source().monitor_continuously(Duration.of_millis(20)).build()
    with environment(2).from_source(source, NO_WATERMARKS, "rows").execute_and_collect() as records:
        for number in (1, 2, 3):
            lake.append(number)
            assert records.next()[0] == number
        lake.table.refresh().overwrite(pa.table({"n": [9], "word": ["x"]}))
        with pytest.raises(IcebergTableError, match="takes rows away or changes some"):
            records.next()


def test_a_look_at_the_table_leaves_no_connection_open(lake):
    place = lake.source().build().options.place
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    tables = [place.load() for _ in range(10)]
    assert len(os.listdir("/proc/self/fd")) <= before + 1 and len(tables) == 10


def test_a_job_that_fails_reads_and_writes_each_row_once(lake, tmp_path):
    for part in range(4):
        lake.append(*range(part * 50, part * 50 + 50))
    lake.catalog.create_table("db.copy", NUMBERS)
    env = environment(2, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__delay="1 ms")
    env.enable_checkpointing(20)
    flag = str(tmp_path / "failed")

    def slow(row):
        import os
        import time

        time.sleep(0.002)
        if row[0] == 170 and not os.path.exists(flag):
            with open(flag, "w"):
                raise RuntimeError("the planted failure")
        return row

    rows = env.from_source(lake.source().build(), NO_WATERMARKS, "rows")
    rows = rows.map(slow, Types.ROW_NAMED(["n", "word"], [Types.LONG(), Types.STRING()]))
    rows.sink_to(lake.sink(None).set_table("db.copy").build())
    env.execute()
    copy = lake.catalog.load_table("db.copy")
    assert sorted(copy.scan().to_arrow()["n"].to_pylist()) == list(range(200))
    assert Path(flag).exists() and len(list(copy.snapshots())) > 2
