"""`python -m flinkbuf inspect` shows what is there, and says in a sentence what is not."""

import json
import struct
import sys
from pathlib import Path

import pytest

import flinkbuf as fb
from flinkbuf.commands.cli import main
from flinkbuf.partition_files.data_set import PartitionDataSet, new_job
from flinkbuf.partition_files.job_owner import JobOwner
from flinkbuf.partition_files.manifest import Layout
from flinkbuf.partition_files.part_writer import write_part

FIELDS = [("k", "string"), ("n", "long"), ("d", {"type": "array", "elementType": "double", "containsNull": True})]
SCHEMA = {"type": "struct", "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in FIELDS]}
TYPE = fb.as_type("k string, n bigint, d array<double>")
LAYOUT = Layout(SCHEMA, repr(TYPE), ("k",), 4, 128)
ROWS = [(f"key {index % 7}", index, [0.5 * index]) for index in range(1000)]


def add_rows(data_set, compression=None):
    pa = pytest.importorskip("pyarrow")
    job = new_job()
    keys, numbers, lists = zip(*ROWS, strict=True)
    batch = pa.record_batch({"k": keys, "n": numbers, "d": lists})

    def begin():
        return data_set.begin_part(job, JobOwner.of_this_process(), 0)

    parts = write_part([batch], LAYOUT, TYPE, begin, memory=1 << 20, compression=compression)
    data_set.commit(job, LAYOUT, parts, "append")


@pytest.fixture
def data_set(tmp_path):
    data_set = PartitionDataSet(str(tmp_path / "set"))
    add_rows(data_set)
    add_rows(data_set, "LZ4")
    return data_set


def inspect(capsys, *arguments):
    code = main(["inspect", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_data_set_is_told_in_full(data_set, capsys):
    code, text, _ = inspect(capsys, "--json", data_set.path)
    found = json.loads(text)
    assert code == 0
    assert (found["kind"], found["version"], found["records"]) == ("data set", 2, 2000)
    assert found["columns"] == [
        {"name": "k", "type": "string"},
        {"name": "n", "type": "bigint"},
        {"name": "d", "type": "array<double>"},
    ]
    assert sum(each["records"] for each in found["subpartitions"]) == 2000
    assert [each["compression"] for each in found["files"]] == [None, "LZ4"]
    assert len(found["first_records"]) == 5
    assert found["first_records"][0]["d"] == [0.5 * found["first_records"][0]["n"]]


def test_one_subpartition_and_more_rows(data_set, capsys):
    _, text, _ = inspect(capsys, "--json", data_set.path, "--subpartition", 0, "--rows", 100_000)
    found = json.loads(text)
    (subpartition,) = found["subpartitions"]
    assert len(found["first_records"]) == subpartition["records"] > 0
    assert all(row["k"] in {f"key {index}" for index in range(7)} for row in found["first_records"])


@pytest.mark.parametrize("suffix", ["", ".shuffle.data", ".shuffle.index"])
def test_a_partition_file_is_told_buffer_by_buffer(data_set, capsys, suffix):
    file = data_set.manifest().files[1]
    code, text, _ = inspect(capsys, "--json", data_set.base_path(file) + suffix)
    found = json.loads(text)
    assert code == 0
    assert (found["kind"], found["records"], found["num_partitions"]) == ("partition file", 1000, 4)
    assert found["regions"][-1]["is_broadcast"]
    assert sum(each["records"] for each in found["subpartitions"]) == 1000
    assert sum(each["compressed_buffers"] for each in found["subpartitions"]) > 0
    assert all(each["events"] == 1 for each in found["subpartitions"])
    assert found["first_records"]


def test_a_partition_file_alone_says_all_but_its_records(data_set, capsys, tmp_path):
    base = data_set.base_path(data_set.manifest().files[0])
    for suffix in (".shuffle.data", ".shuffle.index"):
        (tmp_path / ("alone" + suffix)).write_bytes(Path(base + suffix).read_bytes())
    code, text, _ = inspect(capsys, "--json", tmp_path / "alone")
    found = json.loads(text)
    assert code == 0
    assert (found["num_partitions"], found["records"], found["first_records"]) == (4, None, None)


def test_tables_for_people(data_set, capsys):
    code, text, _ = inspect(capsys, data_set.path)
    assert code == 0
    assert "2,000 records in 2 files" in text
    assert "4 subpartitions, key: k" in text
    assert "first records:" in text
    code, text, _ = inspect(capsys, data_set.base_path(data_set.manifest().files[1]))
    assert code == 0
    assert "shared by all" in text
    assert "Compressed" in text
    code, text, _ = inspect(capsys, Path(data_set.directory("_manifests"), "1.json"))
    assert "version 1, append of" in text


def test_tables_by_rich_in_a_terminal(data_set, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert inspect(capsys, data_set.path)[0] == 0


def test_long_tables_end_with_what_is_left_out(data_set, capsys, monkeypatch):
    monkeypatch.setattr("flinkbuf.commands.inspect.SHOWN", 2)
    _, text, _ = inspect(capsys, data_set.path)
    assert "… and 2 more: --all prints them" in text
    _, text, _ = inspect(capsys, data_set.path, "--all")
    assert "more:" not in text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path / "nothing", "is no partition file"),
        (lambda path: path, "holds no data set"),
        (lambda path: Path(__file__), "is no partition file"),
        (lambda path: "s3://bucket/x", "not in a file system of this machine"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(tmp_path, capsys, make, message):
    code, text, error = inspect(capsys, make(tmp_path))
    assert (code, text) == (1, "")
    assert message in error
    assert error.count("\n") == 1


def test_damage_is_said_in_one_line_with_its_place(data_set, capsys):
    file = data_set.manifest().files[0]
    data = Path(data_set.base_path(file) + ".shuffle.data")
    whole = data.read_bytes()
    data.write_bytes(b"\xff" + whole[1:])
    for path in (data, data_set.path):
        code, _, error = inspect(capsys, path, "--rows", 100_000)
        assert code == 1
        assert f"cannot read {data} at byte 0: this is no header of a block" in error
    data.write_bytes(whole)
    index = Path(data_set.base_path(file) + ".shuffle.index")
    entries = index.read_bytes()
    index.write_bytes(bytes(len(entries)))
    code, _, error = inspect(capsys, data)
    assert code == 1
    assert "shuffle.data at byte 0: it goes on behind the last region" in error
    # Whole in itself, and not what the manifest tells of: one subpartition has what is the next one's.
    numbers = list(struct.unpack("<16q", entries))
    first = next(
        place
        for place in range(3)
        if sum(numbers[2 * place : 2 * place + 2]) == numbers[2 * place + 2] and numbers[2 * place + 3]
    )
    numbers[2 * first + 1] += numbers[2 * first + 3]
    numbers[2 * first + 2], numbers[2 * first + 3] = numbers[2 * first] + numbers[2 * first + 1], 0
    index.write_bytes(struct.pack("<16q", *numbers))
    code, _, error = inspect(capsys, data)
    assert code == 1
    assert "shuffle.index: at byte 0: the checksum is not the manifest's" in error
    index.unlink()
    code, _, error = inspect(capsys, data)
    assert "was never finished" in error


def test_files_of_killed_jobs_are_counted(data_set, capsys):
    data_set.begin_part(new_job(), JobOwner.of_this_process(), 0)
    job = new_job()
    Path(data_set.begin_part(job, JobOwner.of_this_process(), 0) + ".shuffle.data").write_bytes(b"")
    _, text, _ = inspect(capsys, data_set.path)
    assert "1 files belong to no version" in text


def test_a_wrong_subpartition(data_set, capsys):
    code, _, error = inspect(capsys, data_set.path, "--subpartition", 4)
    assert (code, error) == (1, "there is no subpartition 4; there are 4, from 0\n")


def test_help_has_examples(capsys):
    with pytest.raises(SystemExit):
        main(["inspect", "--help"])
    assert "python -m flinkbuf inspect /data/flights" in capsys.readouterr().out
