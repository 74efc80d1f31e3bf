"""Compaction changes files and no row: not which, not in which order, not for whom who reads or follows meanwhile."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_files.test_log_position import COUNT, LAYOUT, append, read_between

from flinkbuf.commands.cli import main
from flinkbuf.partition_files import compaction
from flinkbuf.partition_files.compaction import compact, compact_newest, compact_run, newest_run, small_runs
from flinkbuf.partition_files.data_set import PartitionDataSet, new_job
from flinkbuf.partition_files.log_position import LogPosition
from flinkbuf.partition_files.manifest import DataFile, Manifest

pytest.importorskip("pyarrow")


def log(data_set, index):
    """The rows of a subpartition, in order."""
    end = LogPosition.end_of(data_set.manifest())
    rows = tuple(count if number == index else 0 for number, count in enumerate(end.rows))
    return read_between(data_set, LogPosition(end.generation, (0,) * COUNT), LogPosition(end.generation, rows))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_each_subpartition_stays_the_log_that_it_was(tmp_path_factory, data):
    data_set = PartitionDataSet(str(tmp_path_factory.mktemp("log") / "set"))
    followed, position, number = [], None, 0
    for step in data.draw(st.lists(st.sampled_from(["append", "compact", "newest", "follow"]), max_size=10)):
        if step == "append" or not data_set.exists():
            size = data.draw(st.integers(0, 5))
            append(data_set, [(data.draw(st.integers(0, 5)), number + index) for index in range(size)])
            number += size
            continue
        before = [log(data_set, index) for index in range(COUNT)]
        if step == "compact":
            assert len(compact(data_set).files) <= 1
        elif step == "newest":
            compact_newest(data_set, data_set.manifest(), 2)
        else:
            end = LogPosition.end_of(data_set.manifest())
            begin = position or LogPosition(end.generation, (0,) * COUNT)
            position = begin.towards(end, data.draw(st.integers(1, 6)))
            followed += read_between(data_set, begin, position)
        assert [log(data_set, index) for index in range(COUNT)] == before
        assert data_set.manifest().record_count == number
    if position:
        followed += read_between(data_set, position, LogPosition.end_of(data_set.manifest()))
        assert sorted(row[1] for row in followed) == list(range(number))


def test_what_others_do_meanwhile_stands(tmp_path, monkeypatch):
    data_set = PartitionDataSet(str(tmp_path / "set"))
    for number in range(4):
        append(data_set, [(number, number)])
    run = data_set.manifest().files[1:3]
    rewrite = compaction.rewrite_part

    def meanwhile(work):
        def rewrite_late(*arguments, **options):
            monkeypatch.setattr(compaction, "rewrite_part", rewrite)
            work()
            return rewrite(*arguments, **options)

        monkeypatch.setattr(compaction, "rewrite_part", rewrite_late)
        return compact_run(data_set, data_set.manifest(), run)

    appended = meanwhile(lambda: append(data_set, [(9, 9)]))
    assert [file.record_count for file in appended.files] == [1, 2, 1, 1]
    assert appended.operation == "compact"
    assert appended.generation == data_set.manifest(1).generation
    assert compact_run(data_set, data_set.manifest(), run) == appended, "they are rewritten already"
    run = appended.files[1:3]
    assert meanwhile(lambda: compact(data_set)).version == 7, "another one was first"
    append(data_set, [(1, 1), (2, 2)])
    run = data_set.manifest().files
    assert meanwhile(lambda: append(data_set, [(5, 5)], "overwrite")).operation == "overwrite"
    assert data_set.manifest().record_count == 1
    other = replace(LAYOUT, subpartition_count=1)
    manifest = data_set.manifest()
    data_set.commit(new_job(), other, [], "overwrite")
    assert compact_run(data_set, manifest, manifest.files).layout == other, "it reads by the layout of its files"
    append(data_set, [(5, 5)], "overwrite")
    data_set.sweep(0)
    assert len(data_set.sweep(0)) == 0
    assert [len(list((tmp_path / "set" / name).iterdir())) for name in ("data", "_manifests", "_jobs")] == [2, 1, 0]


def test_readers_of_the_version_before_have_their_files_for_the_retention(tmp_path):
    data_set = PartitionDataSet(str(tmp_path / "set"))
    for number in range(3):
        append(data_set, [(number, number)])
    old = data_set.manifest()
    compact(data_set)
    begin, end = LogPosition.begin_of(old), LogPosition.end_of(old)
    assert len(read_between(data_set, begin, end, manifest=old)) == 3
    data_set.sweep(0)
    with pytest.raises(FileNotFoundError, match="is gone: it was replaced"):
        read_between(data_set, begin, end, manifest=old)
    assert len(read_between(data_set, begin, end)) == 3


def stored_files(sizes):
    name = "part-{:016x}-00000-00000000"
    return [DataFile(name.format(at), size, 0, 0, (1,), (size,), (0,), 4096) for at, size in enumerate(sizes)]


def test_small_neighbours_are_put_together_up_to_a_size():
    runs = small_runs(stored_files([5, 5, 100, 3, 90, 9, 200, 1]), 100)
    assert [[file.data_size for file in run] for run in runs] == [[5, 5], [3, 90]]


def test_many_appends_leave_few_files_and_each_row_is_rewritten_seldom():
    sizes, rewritten = [], 0
    for _ in range(2000):
        sizes.append(1)
        run = newest_run(stored_files(sizes), 16, 1 << 30)
        if run:
            size = sum(file.data_size for file in run)
            assert size == sum(sizes[-len(run) :])
            sizes[-len(run) :] = [size]
            rewritten += size
        assert len(sizes) <= 16 + 8
    assert sum(sizes) == 2000
    assert rewritten <= 2000 * 8
    assert not newest_run(stored_files([50] * 20), 4, 50), "they are not small"
    assert not newest_run(stored_files([40] * 20), 4, 50), "together they would be too large"


def test_a_write_compacts_beyond_a_number_of_files_and_reads_no_more_manifests_than_at_first(tmp_path, monkeypatch):
    data_set = PartitionDataSet(str(tmp_path / "set"))
    parsed = []
    parse = Manifest.parse
    monkeypatch.setattr(Manifest, "parse", lambda data, path: parsed.append(path) or parse(data, path))
    counts = []
    for number in range(40):
        parsed.clear()
        manifest = append(data_set, [(number, number)])
        counts.append(len(parsed))
        manifest = compact_newest(data_set, manifest, 8)
        assert len(manifest.files) <= 8 + 3
    assert set(counts[2:]) == {counts[2]}
    assert manifest.record_count == 40


def test_a_compaction_that_fails_leaves_the_rows_and_no_file(tmp_path, monkeypatch, caplog):
    data_set = PartitionDataSet(str(tmp_path / "set"))
    for number in range(3):
        last = append(data_set, [(number, number)])

    def fail(*arguments, **options):
        raise OSError("the disk is full")

    monkeypatch.setattr(data_set, "_link_next", fail)
    with pytest.raises(OSError, match="disk is full"):
        compact(data_set)
    assert compact_newest(data_set, last, 2) == last
    assert "its small files stay: the disk is full" in caplog.text
    assert len(list((tmp_path / "set" / "data").iterdir())) == 6


def test_the_command_tells_what_it_did(tmp_path, capsys):
    data_set = PartitionDataSet(str(tmp_path / "set"))
    assert main(["compact", data_set.path]) == 1
    assert "holds no data set" in capsys.readouterr().err
    for number in range(3):
        append(data_set, [(number, number)])
    for said in ("3 files became 1, version 4", "no small files lie side by side"):
        assert main(["compact", data_set.path, "--retention", "0s"]) == 0
        assert said in capsys.readouterr().out
    assert main(["compact", data_set.path, "--retention", "soon"]) == 1
