"""Delta tables written exactly once whatever fails, and read as they are, as they were, and as they grow."""

import datetime
import json
import random
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: pip install deltalake")

from support.worlds.failing_sinks import fail_behind_first_commit, play, values_of, write_with_failures  # noqa: E402
from support.worlds.global_commits import GlobalSink  # noqa: E402

from flinkbuf.common import Configuration, Duration, Types, WatermarkStrategy  # noqa: E402
from flinkbuf.datastream import RuntimeExecutionMode, StreamExecutionEnvironment  # noqa: E402
from flinkbuf.datastream.connectors.delta import DeltaSink, DeltaSource, DeltaTableError  # noqa: E402
from flinkbuf.streaming.chain.operator_config import ExecutionSettings  # noqa: E402
from flinkbuf.streaming.lakes import delta_sink, table_commits  # noqa: E402
from flinkbuf.streaming.lakes.delta_source import with_all_fields  # noqa: E402
from flinkbuf.streaming.lakes.delta_table import partition_text, partition_value  # noqa: E402
from flinkbuf.streaming.lakes.table_commits import LakeTableError  # noqa: E402

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def environment(parallelism=1, **options):
    config = Configuration()
    config.set_string("execution.target", "embedded")
    for key, value in options.items():
        config.set_string(key.replace("__", ".").replace("_", "-"), value)
    return StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(parallelism)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "table")


def builder(path, row_type="n bigint, word string"):
    return DeltaSink.builder().set_table(path).set_row_type(row_type)


def ready(sink):
    """The sink as sink_to() makes it for records."""
    return sink.of_records(None)


def rows_of(path, version=None):
    table = deltalake.DeltaTable(path, version=version)
    return sorted(tuple(row.values()) for row in table.to_pyarrow_table().to_pylist())


def numbers_of(path):
    return [row[0] for row in rows_of(path)]


def version_of(path):
    return deltalake.DeltaTable(path).version()


def element(number):
    return number, str(number)


def read(env, source, name="rows"):
    return env.from_source(source, NO_WATERMARKS, name)


# --- the sink


def test_rows_are_visible_when_the_checkpoint_behind_them_counts(path):
    sink = GlobalSink(ready(builder(path).build()), parallelism=2)
    sink.process_element((1, "a"))
    sink.process_element((2, None))
    sink.snapshot(1)
    sink.process_element((3, "c"))
    assert rows_of(path) == []
    sink.notify_checkpoint_complete(1)
    assert rows_of(path) == [(1, "a"), (2, None)] and version_of(path) == 1  # both writers in one version
    sink.snapshot(2)
    sink.snapshot(3)  # nothing was written
    sink.notify_checkpoint_complete(3)
    assert numbers_of(path) == [1, 2, 3] and version_of(path) == 2
    sink.snapshot(4)
    sink.notify_checkpoint_complete(4)
    assert version_of(path) == 2
    sink.process_element((4, "never committed"))
    sink.close()
    assert numbers_of(path) == [1, 2, 3]
    assert len(list(Path(path).glob("*.parquet"))) == 3  # the writer has taken away what it had begun


SCRIPT = [1, 2, ("snap", 1), 3, ("done", 1), 4, 5, ("snap", 2), 6, ("snap", 3), ("done", 3), 7, 8]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
def test_wherever_it_fails_each_row_is_there_once(path, parallelism, cut):
    snapshots = {}
    sink = ready(builder(path).build())
    play(GlobalSink(sink, parallelism=2), SCRIPT[:cut], snapshots, element)  # killed: nothing is closed
    done = max(snapshots, default=0)
    left = values_of(SCRIPT[SCRIPT.index(("snap", done)) + 1 :] if done else SCRIPT)
    restore = snapshots.get(done)
    other = GlobalSink(sink, restore, parallelism)
    other.process_element((99, "lost"))
    other.snapshot(done + 1)  # of which nobody hears that it counts
    last = GlobalSink(sink, restore, parallelism)
    for value in left:
        last.process_element(element(value))
    last.end(9)
    assert rows_of(path) == [element(number) for number in values_of(SCRIPT)]


@pytest.mark.parametrize("seed", range(4))
def test_random_failures(path, seed):
    chance = random.Random(seed)
    sink = ready(builder(path).set_file_size(chance.choice([1, 1 << 20])).build())
    rows = [element(number) for number in range(40)]
    parallelism = chance.choice([1, 2])
    killed = []
    write_with_failures(rows, lambda snapshot: GlobalSink(sink, snapshot, parallelism), killed.append, chance).close()
    assert rows_of(path) == sorted(rows)


def test_a_committer_that_dies_behind_the_commit_is_found_to_have_made_it(path):
    sink = ready(builder(path).build())
    first = GlobalSink(sink)
    first.process_element((1, "a"))
    snapshot = first.snapshot(1)
    first.notify_checkpoint_complete(1)
    for _ in range(2):  # the checkpoint counts, and nobody knows that its commit was made
        GlobalSink(sink, snapshot).close()
    assert numbers_of(path) == [1] and version_of(path) == 1


def test_a_commit_that_two_programs_make_at_once_is_made_once(path, monkeypatch):
    monkeypatch.setattr(table_commits, "_FIRST_WAIT_S", 0.001)
    sink = ready(builder(path).build())
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
    assert numbers_of(path) == [1] and version_of(path) == 1


def test_a_commit_that_fails_is_tried_again_and_an_answer_that_was_lost_does_no_harm(path, monkeypatch, caplog):
    monkeypatch.setattr(table_commits, "_FIRST_WAIT_S", 0.001)
    sink = GlobalSink(ready(builder(path).build()))
    committer = sink.committer.operator._committer
    append, failures = committer.append, iter(["before", "behind"])

    def fail(commit):
        place = next(failures, None)
        if place != "before":
            append(commit)
        if place is not None:
            raise OSError(f"the answer was lost {place} the commit")

    committer.append = fail
    sink.process_element((1, "a"))
    sink.snapshot(1)
    sink.notify_checkpoint_complete(1)
    assert numbers_of(path) == [1] and caplog.text.count("could not be committed yet: the answer was lost") == 2


def test_two_jobs_and_another_writer_append_to_one_table(path):
    sink = ready(builder(path).build())
    sinks = [GlobalSink(sink, job=job) for job in ("one", "two")]
    for checkpoint in range(1, 6):
        for number, each in enumerate(sinks):
            each.process_element((10 * checkpoint + number, "x"))
            each.snapshot(checkpoint)
        for each in sinks:
            each.notify_checkpoint_complete(checkpoint)
        deltalake.write_deltalake(path, pa.table({"n": [10 * checkpoint + 2], "word": ["y"]}), mode="append")
    assert numbers_of(path) == sorted(10 * checkpoint + number for checkpoint in range(1, 6) for number in range(3))


def test_another_job_that_begins_from_an_older_savepoint_says_so_once(path, caplog):
    sink = ready(builder(path).build())
    snapshots = {}
    play(GlobalSink(sink), [1, ("snap", 1), 2, ("snap", 2), 3, ("snap", 3)], snapshots, element)
    GlobalSink(sink, snapshots[3]).close()
    GlobalSink(sink, snapshots[3], job="another").close()
    assert "come again" not in caplog.text
    GlobalSink(sink, snapshots[2], job="another").close()
    assert caplog.text.count("goes on from checkpoint 2, and ") == 1 and "up to checkpoint 3" in caplog.text


def test_a_job_that_goes_back_to_an_older_checkpoint_writes_again_and_says_so(path, caplog):
    sink = ready(builder(path).build())
    first = GlobalSink(sink)
    snapshots = {}
    play(
        first,
        [1, ("snap", 1), ("done", 1), 2, ("snap", 2), ("done", 2), 3, ("snap", 3), ("done", 3)],
        snapshots,
        element,
    )
    again = GlobalSink(sink, snapshots[1])
    assert "goes on from checkpoint 1" in caplog.text and "up to checkpoint 3" in caplog.text
    again.process_element(element(2))
    again.end(2)
    assert numbers_of(path) == [1, 2, 2, 3]  # lost would be worse


def test_without_checkpoints_there_is_one_version_at_the_end(path):
    plain = ExecutionSettings()
    sink = ready(builder(path).build())
    for _ in range(2):  # the second attempt of a job whose first one failed behind the commit
        each = GlobalSink(sink, parallelism=2, settings=plain)
        for number in range(5):
            each.process_element(element(number))
        each.end_input()
        each.finish()
        each.close()
    assert numbers_of(path) == list(range(5)) and version_of(path) == 1


def test_a_committer_of_a_batch_job_that_begins_again_finds_its_commit_and_leaves_the_files_alone(path, monkeypatch):
    """The writers have ended, and their files are given to it once more."""
    failures = fail_behind_first_commit(monkeypatch, delta_sink.DeltaCommitter)
    env = environment(2, restart_strategy__type="fixed-delay", restart_strategy__fixed_delay__delay="1 ms")
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([(1, "a"), (2, "b")]).as_columns("n bigint, word string").sink_to(builder(path).build())
    env.execute()
    assert next(failures, None) is None
    assert numbers_of(path) == [1, 2]


def test_what_dead_attempts_have_left_goes_with_vacuum(path):
    sink = ready(builder(path).build())
    first = GlobalSink(sink)
    first.process_element((1, "a"))
    first.snapshot(1)  # it dies, and the checkpoint does not count
    last = GlobalSink(sink)
    last.process_element((1, "a"))
    last.end(2)
    assert len(list(Path(path).glob("*.parquet"))) == 2
    table = deltalake.DeltaTable(path)
    gone = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert len(gone) == 1 and len(list(Path(path).glob("*.parquet"))) == 1
    assert rows_of(path) == [(1, "a")]


def test_files_that_vacuum_has_removed_before_their_commit_do_not_come_into_the_table(path):
    sink = ready(builder(path).set_partition_by("word").build())
    first = GlobalSink(sink)
    for word in ("a b", "%"):
        first.process_element((1, word))
    snapshot = first.snapshot(1)
    (file, _) = Path(path).glob("*/*.parquet")
    data = file.read_bytes()
    file.unlink()
    with pytest.raises(LakeTableError, match="what checkpoint 1 has .* cannot be committed: file word=.* not exist"):
        GlobalSink(sink, snapshot)
    assert rows_of(path) == []
    file.write_bytes(data)
    GlobalSink(sink, snapshot).close()
    assert rows_of(path) == [(1, "%"), (1, "a b")]


def test_a_file_is_ended_when_it_is_large_enough(path, monkeypatch):
    monkeypatch.setattr("flinkbuf.streaming.lakes.parquet_writer.ROWS_PER_GROUP", 10)
    monkeypatch.setattr(table_commits, "ROWS_PER_GROUP", 10)
    sink = GlobalSink(ready(builder(path).set_file_size(1).build()))
    for number in range(35):
        sink.process_element(element(number))
    sink.end(1)
    assert numbers_of(path) == list(range(35))
    assert len(list(Path(path).glob("*.parquet"))) == 4 and version_of(path) == 1


def test_a_file_that_cannot_be_ended_is_removed(path, monkeypatch):
    def fail(self):
        raise OSError("the disk is full")

    monkeypatch.setattr(table_commits, "ROWS_PER_GROUP", 1)
    sink = GlobalSink(ready(builder(path).set_file_size(1).build()))
    with monkeypatch.context() as patched:
        patched.setattr(delta_sink.OpenDeltaFile, "finish", fail)
        with pytest.raises(OSError, match="the disk is full"):
            sink.process_element((1, "a"))
            sink.snapshot(1)
    sink.close()
    assert list(Path(path).glob("*.parquet")) == []


ODD = ["plain", "with space", "a/b", "50%", "k=v", "ü☃", "..", "#~&?", "quote\"'", "__HIVE_DEFAULT_PARTITION__"]


def test_partitions_of_any_value_are_read_back(path):
    rows = [(number, name, number % 2 == 0) for number, name in enumerate([*ODD, None])]
    sink = builder(path, "n bigint, name string, even boolean").set_partition_by("name", "even").build()
    written = GlobalSink(ready(sink), parallelism=2)
    for row in rows:
        written.process_element(row)
    written.end(1)
    assert rows_of(path) == rows
    assert (
        sorted(
            map(tuple, read(environment(), DeltaSource.builder().set_table(path).build()).execute_and_collect(limit=99))
        )
        == rows
    )
    with pytest.raises(ValueError, match="'name' is an empty string, which a Delta table cannot tell from null"):
        again = GlobalSink(ready(builder(path, "n bigint, name string, even boolean").build()))
        again.process_element((1, "", True))
        again.snapshot(1)


def test_partitions_of_each_type(path):
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("i", pa.int32()),
            ("b", pa.bool_()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("price", pa.decimal128(10, 2)),
        ]
    )
    day, at = datetime.date(2024, 2, 29), datetime.datetime(1969, 12, 31, 23, 59, 59, 123456)
    utc = at.replace(tzinfo=datetime.timezone.utc)
    rows = [
        {"n": 1, "i": -7, "b": True, "day": day, "at": utc, "local": at, "price": Decimal("1.50")},
        {"n": 2, "i": None, "b": None, "day": None, "at": None, "local": None, "price": None},
    ]
    env = environment()
    table = pa.Table.from_pylist(rows, schema)
    sink = DeltaSink.builder().set_table(path).set_partition_by("i", "b", "day", "at", "local", "price").build()
    env.from_collection(table).as_columns().sink_to(sink)
    env.execute()
    found = deltalake.DeltaTable(path).to_pyarrow_table().select(schema.names).sort_by("n")
    assert found.to_pylist() == rows
    for source in (
        DeltaSource.builder().set_table(path).build(),
        DeltaSource.builder().set_table(path).set_starting_version(0).build(),
    ):
        with read(environment(), source).as_columns().execute_and_collect_batches() as batches:
            assert pa.Table.from_batches(list(batches)).select(schema.names).sort_by("n").to_pylist() == rows


def test_texts_of_partitions_are_the_values_again():
    for value, type_ in (
        (Decimal("-1.50"), pa.decimal128(10, 2)),
        (Decimal("-0.05"), pa.decimal128(38, 18)),
        (-(2**63), pa.int64()),
        (datetime.date(1, 1, 1), pa.date32()),
        (datetime.datetime(1583, 1, 1, 0, 0, 0, 1), pa.timestamp("us")),
        (datetime.datetime(1, 1, 1), pa.timestamp("us")),
        (Decimal("1E-9"), pa.decimal128(20, 10)),
        ("x", pa.large_string()),
        (None, pa.bool_()),
    ):
        scalar = pa.scalar(value, type_)
        assert partition_value(partition_text(scalar, "x"), type_).equals(scalar), value
    assert partition_text(pa.scalar(Decimal(0), pa.decimal128(20, 10)), "x") == "0.0000000000"  # and no exponent
    for text in ("2024-01-02T03:04:05.000001Z", "2024-01-02 03:04:05.000001"):
        found = partition_value(text, pa.timestamp("us", "UTC")).as_py()
        assert found == datetime.datetime(2024, 1, 2, 3, 4, 5, 1, datetime.timezone.utc)
    assert partition_value("2024-01-02 03:04:05", pa.timestamp("us")).as_py() == datetime.datetime(2024, 1, 2, 3, 4, 5)


def test_times_of_any_unit_are_microseconds_in_a_new_table(path):
    instants = [0, 1_000_000_000, None]
    types = [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("ns"), pa.timestamp("ns", "Europe/Berlin")]
    table = pa.table(
        {f"t{n}": pa.array(instants, pa.int64()).cast(each) for n, each in enumerate(types)} | {"n": [1, 2, 3]}
    )

    def write(table):
        env = environment()
        env.from_collection(table).as_columns().sink_to(DeltaSink.builder().set_table(path).build())
        env.execute()

    write(table)
    found = deltalake.DeltaTable(path).to_pyarrow_table().sort_by("n")
    assert [each.type for each in found.schema] == [pa.timestamp("us")] * 3 + [pa.timestamp("us", "UTC"), pa.int64()]
    for name in table.column_names:
        assert found[name].cast(table.schema.field(name).type).equals(table[name]), name
    with pytest.raises(Exception, match="'t2' is timestamp.us. in the files.*would lose data"):
        write(table.set_column(2, "t2", pa.array([1, 2, 3], pa.timestamp("ns"))))
    inside = pa.table({"of": pa.array([{"t": 1}], pa.struct([("t", pa.timestamp("ns"))]))})
    with pytest.raises(TypeError, match="no times of nanoseconds, as column 'of' has"):
        env = environment()
        sink = DeltaSink.builder().set_table(path + "-other").build()
        env.from_collection(inside).as_columns().sink_to(sink)


def test_a_column_stream_is_written_as_columns(path, capsys):
    table = pa.table({"word": ["a", "b", None], "n": pa.array([1, 2, 3], pa.int32())})
    env = environment(2)
    deltalake.DeltaTable.create(path, pa.schema([("n", pa.int64()), ("word", pa.string())]))
    sink = env.from_collection(table).as_columns().sink_to(DeltaSink.builder().set_table(path).build())
    assert sink.name("table").uid("table").set_parallelism(2)._transformation.factory.takes_batches
    env.explain()
    assert "table: Writer  x 2" in (told := capsys.readouterr().out) and "Sink: table: Committer  x 1" in told
    env.execute()
    assert rows_of(path) == [(1, "a"), (2, "b"), (3, None)]
    assert version_of(path) == 1


def test_statistics_say_what_the_files_have(path):
    at = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, datetime.timezone.utc)
    table = pa.table(
        {
            "n": [3, 1, None],
            "word": ["b", "a", "c" * 33],
            "x": [1.0, float("nan"), 2.0],
            "at": pa.array([at, at, None], pa.timestamp("us", "UTC")),
            "none": pa.array([None, None, None], pa.int64()),
            "parts": [[1], [], None],
        }
    )
    env = environment()
    env.from_collection(table).as_columns().sink_to(DeltaSink.builder().set_table(path).build())
    env.execute()
    lines = (Path(path) / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    stats = json.loads(next(json.loads(line)["add"]["stats"] for line in lines if "add" in json.loads(line)))
    assert stats == {
        "numRecords": 3,
        "minValues": {"n": 1, "at": "2024-01-02T03:04:05.678Z"},
        "maxValues": {"n": 3, "at": "2024-01-02T03:04:05.679Z"},
        "nullCount": {"n": 1, "word": 0, "x": 0, "at": 1, "none": 3},
    }


def stats_in_log(path):
    lines = (Path(path) / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    return json.loads(next(json.loads(line)["add"]["stats"] for line in lines if "add" in json.loads(line)))


def test_times_at_the_ends_of_the_calendar_and_beyond_it(path):
    instant, day = pa.timestamp("us", "UTC"), pa.date32()
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999, datetime.timezone.utc)
    first = datetime.datetime(1, 1, 1, tzinfo=datetime.timezone.utc)
    table = pa.table(
        {
            "n": [1, 2],
            "last": pa.array([first, last], instant),
            "first": pa.array([first, None], instant),
            "beyond": pa.array([0, 2**58], instant),
            "day": pa.array([0, 4_000_000], day),
            "of": [{"x": 1}, {"x": 2}],
            "of.x": [7, 8],
        }
    )
    env = environment()
    env.from_collection(table).as_columns().sink_to(DeltaSink.builder().set_table(path).build())
    env.execute()
    stats, year_1 = stats_in_log(path), "0001-01-01T00:00:00.000Z"
    assert stats["minValues"] == {"n": 1, "first": year_1} and stats["maxValues"] == {"n": 2, "first": year_1}
    assert "of.x" not in stats["nullCount"]
    found = deltalake.DeltaTable(path).to_pyarrow_table()
    assert found.select(table.column_names).cast(table.schema).equals(table)


def test_what_cannot_be_written_is_refused_where_the_program_says_it(path):
    env = environment()
    pairs = env.from_collection([(1, "a")], Types.ROW_NAMED(["n", "word"], [Types.LONG(), Types.STRING()]))
    for description, words in (("n bigint, other string", "the columns n, other"), ("n string, word string", "'n'")):
        other = f"{path}-{description[2]}"
        deltalake.DeltaTable.create(
            other,
            pa.schema(
                [(each.split()[0], pa.string() if "string" in each else pa.int64()) for each in description.split(", ")]
            ),
        )
        with pytest.raises((ValueError, TypeError), match=words):
            pairs.sink_to(DeltaSink.builder().set_table(other).build())
    with pytest.raises(TypeError, match="say output_type=.* or set_row_type"):
        env.from_collection([1, 2]).sink_to(DeltaSink.builder().set_table(path).build())
    with pytest.raises(TypeError, match="DeltaSink writes rows"):
        env.from_collection([1, 2], Types.LONG()).sink_to(DeltaSink.builder().set_table(path).build())
    unknown = env.from_collection([(1,)]).as_columns("n bigint").map_batches(lambda batch: {"m": batch["n"]})
    with pytest.raises(ValueError, match=r"there is no Delta table .* say set_row_type"):
        unknown.sink_to(DeltaSink.builder().set_table(path).build())
    with pytest.raises(ValueError, match="partitioned by 'day', and its columns are n, word"):
        pairs.sink_to(DeltaSink.builder().set_table(path).set_partition_by("day").build())
    with pytest.raises(ValueError, match="needs a column that it is not partitioned by"):
        pairs.sink_to(DeltaSink.builder().set_table(path).set_partition_by("n", "word").build())
    assert not Path(path).exists()
    with pytest.raises(TypeError, match="cannot be partitioned by column 'x', which is double"):
        env.from_collection([(1, 2.0)]).as_columns("n int, x double").sink_to(
            DeltaSink.builder().set_table(path).set_partition_by("x").build()
        )


def test_rules_that_nobody_would_keep_are_refused(path):
    schema = pa.schema([pa.field("n", pa.int64(), False), ("word", pa.string())])
    table = deltalake.DeltaTable.create(path, schema)
    sink = GlobalSink(ready(builder(path).build()))
    sink.process_element((1, "a"))
    sink.snapshot(1)
    table.alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(DeltaTableError, match=r"rules that DeltaSink does not keep \(delta.constraints.positive\)"):
        sink.notify_checkpoint_complete(1)
    with pytest.raises(DeltaTableError, match="does not keep"):
        ready(builder(path).build())


def test_a_null_where_the_table_takes_none_is_an_error(path):
    deltalake.DeltaTable.create(path, pa.schema([pa.field("n", pa.int64(), False), ("word", pa.string())]))
    sink = GlobalSink(ready(builder(path).build()))
    sink.process_element((None, "a"))
    with pytest.raises(ValueError, match="column 'n' of the table takes no nulls"):
        sink.snapshot(1)


def test_a_table_that_changes_under_the_sink(path):
    sink = GlobalSink(ready(builder(path).build()))
    sink.process_element((1, "a"))
    sink.snapshot(1)
    wider = pa.table({"n": [2], "word": ["b"], "more": [1]})
    deltalake.write_deltalake(path, wider, mode="append", schema_mode="merge")
    sink.notify_checkpoint_complete(1)  # the new column is null in older files
    assert rows_of(path) == [(1, "a", None), (2, "b", 1)]
    sink.process_element((3, "c"))
    sink.snapshot(2)
    deltalake.write_deltalake(path, pa.table({"n": ["x"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(DeltaTableError, match="column 'n' of Delta table .* was int64 .* is string now"):
        sink.notify_checkpoint_complete(2)


def test_a_checkpoint_of_another_table_is_refused(path, tmp_path):
    first = GlobalSink(ready(builder(path).build()))
    first.process_element((1, "a"))
    snapshot = first.snapshot(1)
    with pytest.raises(LakeTableError, match="still to be committed, and the sink writes .*other now"):
        GlobalSink(ready(builder(str(tmp_path / "other")).build()), snapshot)


def test_what_is_missing_or_wrong_is_said_when_it_is_built(path, monkeypatch):
    for call, words in (
        (lambda: DeltaSink.builder().build(), r"a DeltaSink needs set_table\(...\)"),
        (lambda: builder(path).set_partition_by(), "names of columns"),
        (lambda: builder(path).set_partition_by("a", "a"), "each once"),
        (lambda: builder(path).set_file_size(0), "at least 1"),
        (lambda: DeltaSource.builder().build(), r"a DeltaSource needs set_table\(...\)"),
        (lambda: DeltaSource.builder().set_version_as_of(-1), "a number from 0 on"),
        (lambda: DeltaSource.builder().set_timestamp_as_of(datetime.datetime(2024, 1, 1)), "with a time zone"),
        (lambda: DeltaSource.builder().set_columns(), "names of columns"),
        (lambda: DeltaSource.builder().monitor_continuously(Duration.of_millis(0)), "greater than zero"),
        (
            lambda: DeltaSource.builder().set_table(path).set_version_as_of(1).set_starting_version(1).build(),
            "begins either with",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="a Delta table has rows"):
        builder(path, "bigint")
    with pytest.raises(FileNotFoundError, match="there is no Delta table"):
        DeltaSource.builder().set_table(path).build()
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    for each in (builder(path), DeltaSource.builder().set_table(path)):
        with pytest.raises(ImportError, match=r"pip install 'flinkbuf\[delta\]'"):
            each.build()


# --- the source


def numbers_read(source, limit=99, parallelism=2):
    return sorted(row[0] for row in read(environment(parallelism), source).execute_and_collect(limit=limit))


@pytest.fixture
def grown(path):
    """Versions 0 to 4: appended, appended, compacted, appended, deleted from."""
    deltalake.write_deltalake(path, pa.table({"n": [1, 2], "word": ["a", None]}))
    deltalake.write_deltalake(path, pa.table({"n": [3], "word": ["c"]}), mode="append")
    deltalake.DeltaTable(path).optimize.compact()
    deltalake.write_deltalake(path, pa.table({"n": [4], "word": ["d"]}), mode="append")
    deltalake.DeltaTable(path).delete("n = 2")
    return path


def test_the_table_as_it_is_and_as_it_was(grown):
    start = DeltaSource.builder().set_table(grown)
    assert numbers_read(start.build()) == [1, 3, 4]
    for version, numbers in enumerate([[1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3, 4], [1, 3, 4]]):
        assert numbers_read(DeltaSource.builder().set_table(grown).set_version_as_of(version).build()) == numbers
    now = datetime.datetime.now(datetime.timezone.utc)
    assert numbers_read(DeltaSource.builder().set_table(grown).set_timestamp_as_of(now).build()) == [1, 3, 4]


def test_what_versions_append(grown):
    for first in (0, 3, 5):
        source = DeltaSource.builder().set_table(grown).set_starting_version(first).build()
        if first == 5:
            assert numbers_read(source) == []
        else:
            with pytest.raises(
                DeltaTableError, match=r"version 4 .*\(DELETE\) takes rows away.*set_starting_version\(5\)"
            ):
                numbers_read(source)
    kept = str(Path(grown).parent / "kept")
    for n in ([1], [2]):
        deltalake.write_deltalake(kept, pa.table({"n": n}), mode="append")
    assert numbers_read(DeltaSource.builder().set_table(kept).set_starting_version(0).build()) == [1, 2]
    assert numbers_read(DeltaSource.builder().set_table(kept).set_starting_version(1).build()) == [2]


def test_columns_and_records_are_the_same_rows(grown):
    source = DeltaSource.builder().set_table(grown).set_columns("word", "n").build()
    rows = sorted(map(tuple, read(environment(), source).execute_and_collect(limit=9)), key=str)
    with read(environment(), source).as_columns("n bigint").execute_and_collect_batches() as batches:
        assert sorted(n for batch in batches for n in batch["n"].to_pylist()) == [1, 3, 4]
    assert rows == sorted([("a", 1), ("c", 3), ("d", 4)], key=str)
    with pytest.raises(ValueError, match="no column 'x'; it has n, word"):
        DeltaSource.builder().set_table(grown).set_columns("x").build()


def test_files_of_older_schemas_have_nulls(path):
    deltalake.write_deltalake(path, pa.table({"n": [1]}))
    deltalake.write_deltalake(path, pa.table({"n": [2], "more": ["x"]}), mode="append", schema_mode="merge")
    source = DeltaSource.builder().set_table(path).build()
    assert sorted(map(tuple, read(environment(), source).execute_and_collect(limit=9))) == [(1, None), (2, "x")]
    only = DeltaSource.builder().set_table(path).set_columns("more").build()
    assert len(list(read(environment(), only).execute_and_collect(limit=9))) == 2


def test_files_that_are_older_than_fields_of_their_structs_have_nulls(path):
    old = [
        {"n": 1, "of": {"a": 1, "in": {"x": 1}}, "parts": [{"k": 1}, None, {"k": 2}]},
        {"n": 2, "of": None, "parts": None},
        {"n": 3, "of": {"a": None, "in": None}, "parts": []},
        {"n": 4, "of": {"a": 4, "in": {"x": None}}, "parts": [{"k": None}]},
    ]
    new = [{"n": 5, "of": {"a": 5, "in": {"x": 5, "y": "five"}, "b": 5.0}, "parts": [{"k": 5, "l": True}]}]
    deltalake.write_deltalake(path, pa.Table.from_pylist(old))
    deltalake.write_deltalake(path, pa.Table.from_pylist(new), mode="append", schema_mode="merge")

    def filled(row):
        of, parts = row["of"], row["parts"]
        if of is not None:
            inside = None if of["in"] is None else {"x": of["in"]["x"], "y": of["in"].get("y")}
            of = {"a": of["a"], "in": inside, "b": of.get("b")}
        if parts is not None:
            parts = [None if each is None else {"k": each["k"], "l": each.get("l")} for each in parts]
        return {"n": row["n"], "of": of, "parts": parts}

    rows = list(map(filled, old + new))
    source = DeltaSource.builder().set_table(path).build()
    with read(environment(), source).as_columns().execute_and_collect_batches() as batches:
        assert pa.Table.from_batches(list(batches)).sort_by("n").to_pylist() == rows
    assert sorted(row[0] for row in read(environment(), source).execute_and_collect(limit=9)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("skipped", range(5))
def test_a_slice_of_an_older_file_has_nulls_for_new_fields(skipped):
    wanted = pa.list_(pa.struct([("k", pa.int64()), ("l", pa.bool_())]))
    column = pa.array([[{"k": 1}], None, [], [None, {"k": 2}], [{"k": None}]])
    expected = [[{"k": 1, "l": None}], None, [], [None, {"k": 2, "l": None}], [{"k": None, "l": None}]]
    found = with_all_fields(column.slice(skipped, 2), wanted)
    found.validate(full=True)
    assert found.to_pylist() == expected[skipped : skipped + 2]


def test_files_of_other_engines_have_their_names_in_the_log_escaped(path):
    deltalake.write_deltalake(path, pa.table({"n": [1], "name": ["x"]}), partition_by=["name"])
    (old,) = Path(path).glob("name=x/*.parquet")
    new = Path(path, "name=a%20b c", old.name)  # as Hive and Spark escape it, and a blank besides
    new.parent.mkdir()
    old.rename(new)
    log = Path(path) / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace("name=x/", "name=a%2520b%20c/").replace('{"name":"x"}', '{"name":"a b c"}'))
    for start in (DeltaSource.builder().set_table(path), DeltaSource.builder().set_table(path).set_starting_version(0)):
        assert list(map(tuple, read(environment(), start.build()).execute_and_collect(limit=9))) == [(1, "a b c")]


def test_versions_are_read_as_they_come(path):
    deltalake.write_deltalake(path, pa.table({"n": [1]}))
    source = DeltaSource.builder().set_table(path).monitor_continuously(Duration.of_millis(20)).build()
    with read(environment(2), source).execute_and_collect() as records:
        assert records.next()[0] == 1
        for number in (2, 3):
            deltalake.write_deltalake(path, pa.table({"n": [number]}), mode="append")
            assert records.next()[0] == number
        deltalake.DeltaTable(path).optimize.compact()
        deltalake.write_deltalake(path, pa.table({"n": [4]}), mode="append")
        assert records.next()[0] == 4
        deltalake.write_deltalake(path, pa.table({"n": [9]}), mode="overwrite")
        with pytest.raises(DeltaTableError, match="takes rows away"):
            records.next()


@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_table_in_the_place_of_another_is_an_error_for_whoever_reads_on(path, is_made_again):
    for number in (1, 2):
        deltalake.write_deltalake(path, pa.table({"n": [number]}), mode="append")
    source = DeltaSource.builder().set_table(path).monitor_continuously(Duration.of_millis(10)).build()
    with read(environment(), source).execute_and_collect() as records:
        assert sorted((records.next()[0], records.next()[0])) == [1, 2]
        shutil.rmtree(path)
        if is_made_again:
            deltalake.write_deltalake(path, pa.table({"n": [3]}))
        with pytest.raises(DeltaTableError, match="is at version .*, and this source has read version 1: another"):
            records.next()


def test_a_log_whose_files_go_while_it_is_read_is_read_again(path, monkeypatch):
    """As where a table makes way for another, or files of its log are cleaned up."""
    from flinkbuf.streaming.lakes import delta_table

    deltalake.write_deltalake(path, pa.table({"n": [1]}))
    real, tries = deltalake.DeltaTable, []

    def opened(*arguments, **named):
        tries.append(1)
        if len(tries) < 3:
            raise deltalake.exceptions.DeltaError("Kernel error: File not found")
        return real(*arguments, **named)

    monkeypatch.setattr(deltalake, "DeltaTable", opened)
    assert delta_table.DeltaPlace.of(path).open().version() == 0 and len(tries) == 3
    monkeypatch.setattr(deltalake, "DeltaTable", lambda *arguments, **named: opened(tries.clear()))
    with pytest.raises(deltalake.exceptions.DeltaError, match="File not found"):
        delta_table.DeltaPlace.of(path).open()


def test_a_version_that_is_still_to_come_is_waited_for(path):
    deltalake.write_deltalake(path, pa.table({"n": [0]}))
    start = DeltaSource.builder().set_table(path).monitor_continuously(Duration.of_millis(10))
    with read(environment(), start.set_starting_version(2).build()).execute_and_collect() as records:
        for number in (1, 2):
            deltalake.write_deltalake(path, pa.table({"n": [number]}), mode="append")
        assert records.next()[0] == 2


@pytest.mark.parametrize("is_bounded", [True, False])
def test_a_log_that_was_cleaned_is_an_error(grown, is_bounded):
    deltalake.DeltaTable(grown).create_checkpoint()
    for version in (0, 1, 2):
        (Path(grown) / "_delta_log" / f"{version:020d}.json").unlink()
    start = DeltaSource.builder().set_table(grown).set_starting_version(2)
    source = start.build() if is_bounded else start.monitor_continuously(Duration.of_millis(10)).build()
    with pytest.raises(DeltaTableError, match="version 2 .* is not in its log any more, which goes to version 4"):
        numbers_read(source)


def test_a_table_of_deletion_vectors_is_refused(path):
    deltalake.write_deltalake(path, pa.table({"n": [1]}))
    log = Path(path) / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"],
            }
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(DeltaTableError, match="does not read: deletionVectors"):
        DeltaSource.builder().set_table(path).build()


# --- whole jobs


def test_a_job_that_fails_reads_and_writes_each_row_once(path, tmp_path):
    origin = str(tmp_path / "origin")
    for part in range(4):
        deltalake.write_deltalake(origin, pa.table({"n": list(range(part * 50, part * 50 + 50))}), mode="append")
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

    rows = read(env, DeltaSource.builder().set_table(origin).build()).map(slow, Types.ROW_NAMED(["n"], [Types.LONG()]))
    rows.sink_to(DeltaSink.builder().set_table(path).build())
    env.execute()
    assert numbers_of(path) == list(range(200))
    assert Path(flag).exists() and version_of(path) > 2


def test_a_table_on_s3_is_written_and_read():
    pytest.importorskip("moto.server", reason="an S3 server is needed: pip install 'moto[s3]' flask flask-cors")
    from support.servers.s3_server import BUCKET, running_s3_server

    with running_s3_server() as server:
        options = {"AWS_ENDPOINT_URL": f"http://{server.endpoint}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        uri = f"s3://{BUCKET}/lakes/table"
        env = environment(2)
        env.enable_checkpointing(50)
        table = pa.table({"n": list(range(20)), "part": [f"p {n % 3}" for n in range(20)]})
        sink = DeltaSink.builder().set_table(uri).set_storage_options(options).set_partition_by("part").build()
        env.from_collection(table).as_columns().sink_to(sink)
        env.execute()
        source = DeltaSource.builder().set_table(uri).set_storage_options(options).build()
        assert numbers_read(source) == list(range(20))
        assert "AWS_REGION" not in repr(sink.options)
