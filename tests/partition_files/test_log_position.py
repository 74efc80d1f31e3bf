"""Whoever follows a data set from position to position reads each of its rows once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf.partition_files.data_set import DATA, PartitionDataSet, new_job
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.log_position import LogPosition, pieces_between
from flinkbuf.partition_files.manifest import Layout
from flinkbuf.partition_files.part_reader import read_pieces
from flinkbuf.partition_files.part_writer import write_part

pa = pytest.importorskip("pyarrow")

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])
TYPE = fb.as_type("k bigint, n bigint")
FIELDS = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in SCHEMA.names]
COUNT = 3
LAYOUT = Layout({"type": "struct", "fields": FIELDS}, repr(TYPE), ("k",), COUNT, 128)


def append(data_set, rows, operation="append"):
    """Commit rows as a job of one task would."""
    job = new_job()
    batch = pa.record_batch([[key for key, _ in rows], [number for _, number in rows]], schema=SCHEMA)
    parts = write_part(
        [batch], LAYOUT, TYPE, lambda: data_set.begin_part(job, JobOwner.of_this_process(), 0), memory=1 << 20
    )
    return data_set.commit(job, LAYOUT, parts, operation)


def read_between(data_set, start, end, task_size=None, manifest=None):
    """Rows by what tasks read."""
    pieces = pieces_between(manifest or data_set.manifest(), start, end, range(COUNT), task_size)
    found = []
    for each in pieces:
        for batch in read_pieces(data_set.directory(DATA), each, SCHEMA, 3):
            found += [(row["k"], row["n"]) for row in batch.to_pylist()]
    return found


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_rows_between_positions_are_those_that_were_added(tmp_path_factory, data):
    data_set = PartitionDataSet(str(tmp_path_factory.mktemp("log") / "set"))
    logs = [[] for _ in range(COUNT)]
    added = 0
    for size in data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=5)):
        rows = [(data.draw(st.integers(0, 5)), added + index) for index in range(size)]
        added += size
        before = LogPosition.end_of(data_set.manifest()).rows if data_set.exists() else (0,) * COUNT
        after = LogPosition.end_of(append(data_set, rows))
        whole = read_between(data_set, LogPosition(after.generation, before), after)
        assert sorted(whole) == sorted(rows)
        for index in range(COUNT):
            one = [number == index for number in range(COUNT)]
            first = tuple(b if wanted else a for a, b, wanted in zip(after.rows, before, one, strict=True))
            logs[index] += read_between(data_set, LogPosition(after.generation, first), after)
    generation, ends = after.generation, after.rows
    first = [data.draw(st.integers(0, each)) for each in ends]
    last = [data.draw(st.integers(low, high)) for low, high in zip(first, ends, strict=True)]
    found = read_between(
        data_set,
        LogPosition(generation, tuple(first)),
        LogPosition(generation, tuple(last)),
        data.draw(st.sampled_from([None, 1, 100])),
    )
    expected = [row for log, low, high in zip(logs, first, last, strict=True) for row in log[low:high]]
    assert sorted(found) == sorted(expected)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=6), st.integers(1, 150))
def test_a_step_towards_an_end_is_as_long_as_it_may_be(pairs, row_count):
    start = LogPosition("", tuple(first for first, _ in pairs))
    end = LogPosition("", tuple(first + more for first, more in pairs))
    found = start.towards(end, row_count)
    assert all(a <= b <= c for a, b, c in zip(start.rows, found.rows, end.rows, strict=True))
    assert sum(found.rows) - sum(start.rows) == min(row_count, sum(more for _, more in pairs))


def test_an_overwrite_begins_a_generation_and_an_append_does_not(tmp_path):
    data_set = PartitionDataSet(str(tmp_path / "set"))
    generations = [append(data_set, [(1, 1)], operation).generation for operation in ("append", "append", "overwrite")]
    assert generations[0] == generations[1] != generations[2]
    assert append(data_set, [(1, 2)]).generation == generations[2]


def test_a_data_set_that_was_put_back_is_refused(tmp_path):
    data_set = PartitionDataSet(str(tmp_path / "set"))
    begin, end = (LogPosition.end_of(append(data_set, [(n, n)])) for n in range(2))
    with pytest.raises(ValueError, match="ends after 1 rows, before row 2, .* put back to an older state"):
        pieces_between(data_set.manifest(1), begin, end, range(COUNT))


@pytest.mark.parametrize(
    "found", [{}, {"generation": 3, "rows": []}, {"generation": "a", "rows": [1.5]}, {"rows": [1]}]
)
def test_what_is_no_position_is_refused(found):
    with pytest.raises(ValueError, match="no position in a data set: the checkpoint is of another source"):
        LogPosition.from_json(found)
    position = LogPosition("a", (1, 2))
    assert LogPosition.from_json(position.to_json()) == position
