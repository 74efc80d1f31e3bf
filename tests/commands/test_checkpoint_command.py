"""python -m flinkbuf checkpoint, and recover: what a user sees of checkpoints that lie somewhere."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.data.checkpoint_files import JOB_ID, write_checkpoint, written

from flinkbuf.checkpoints.locations import checkpoint_location
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.commands import checkpoint as checkpoint_command
from flinkbuf.commands import recover as recovery_command
from flinkbuf.commands.cli import main
from flinkbuf.runtime.picture.plain_words import size_text

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"
SAVEPOINT = str(GOLDEN / "savepoint-v1")
OPERATORS = {
    "Source: numbers": ("numbers", ["SourceReaderState"], []),
    "ruled": ("ruled", ["rules"], ["user-timers: event time", "user-timers: processing time"]),
    "every state": (
        "every state",
        [],
        [
            "by rest",
            "count",
            "kept",
            "mean",
            "numbers",
            "sum",
            "undeclared",
            "user-timers: event time",
            "user-timers: processing time",
        ],
    ),
    "TumblingEventTimeWindows": (
        "windows",
        [],
        ["window-contents", "window-timers: event time", "window-timers: processing time"],
    ),
}


def run(capsys, *arguments):
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def savepoint(tmp_path):
    """A copy, to be damaged."""
    shutil.copytree(SAVEPOINT, tmp_path / "savepoint-copy")
    return tmp_path / "savepoint-copy"


def test_show_says_all_of_a_savepoint_as_json(capsys):
    code, out, _ = run(capsys, "checkpoint", "show", "--json", SAVEPOINT)
    found = json.loads(out)
    assert (code, found["kind"], found["checkpoint_id"], found["job_name"]) == (0, "savepoint", 1, "golden savepoint")
    operators = {each["name"]: each for vertex in found["vertices"] for each in vertex["operators"]}
    for name, (uid, lists, keyed) in OPERATORS.items():
        operator = operators[name]
        assert operator["uid"] == uid
        assert [each["name"] for each in operator["operator_states"]] == lists
        assert [each["name"] for each in operator["keyed_states"]] == keyed
    numbers, every = operators["Source: numbers"], operators["every state"]
    assert (numbers["splits"], numbers["coordinator_size"]) == (2, 5)
    assert operators["ruled"]["operator_states"][0]["mode"] == "broadcast"
    assert (every["backend"], every["key_type"]) == ("hashmap", "Types.LONG()")
    types = {each["name"]: (each["kind"], each["type"], each["has_ttl"]) for each in every["keyed_states"]}
    assert types["by rest"] == ("map", "Types.MAP(Types.STRING(), Types.INT())", False)
    assert types["kept"] == ("value", "Types.LONG()", True)
    sizes = sum(each["size"] for each in every["keyed_states"])
    assert sum(every["key_groups"].values()) == sizes and set(every["key_groups"]) <= set(map(str, range(16)))
    assert found["files"] == len(os.listdir(SAVEPOINT)) - 1
    in_files = sum(os.path.getsize(os.path.join(SAVEPOINT, name)) for name in os.listdir(SAVEPOINT) if name[0] != "_")
    assert found["size"] == in_files + found["size_in_metadata"]


def test_show_says_it_in_words(capsys):
    code, out, _ = run(capsys, "checkpoint", "show", SAVEPOINT + "/_metadata")
    assert code == 0
    for text in (
        "savepoint 1 of job 'golden savepoint' (",
        "every state: 2 subtasks, at most 16\n",
        "Source: Collection Source: 1 subtasks, 1 finished, at most 16\n",
        "value, with time to live  Types.LONG()",
        "list        2 splits  ",
        "every state: 7 key groups by keys of Types.LONG(), ",
    ):
        assert text in out
    assert "\x1b" not in out


def test_show_tells_what_is_in_flight(capsys, monkeypatch):
    """State of operators that nobody can read: what is said is what the metadata say."""
    monkeypatch.setattr("flinkbuf.checkpoints.description.operator_index", lambda *arguments: ())
    monkeypatch.setattr(
        "flinkbuf.checkpoints.description._keyed_states",
        lambda *arguments: {
            "backend": "rocksdb",
            "key_type": None,
            "keyed_states": [],
            "key_groups": {},
            "shared_files": 1,
            "shared_size": 100,
        },
    )
    code, out, _ = run(capsys, "checkpoint", "show", str(GOLDEN / "job-v1" / "chk-7"))
    assert code == 0
    assert f"checkpoint 7 of job 'a job' ({JOB_ID})\ntaken 2023-11-14T22:13:20+00:00" in out
    assert "427 B of state in 2 files, 100 B of them shared with others; 25 B in _metadata itself" in out
    assert "in flight: 7 B of 1 input channels\nin flight: 3 B of 1 output channels" in out
    assert "1 files" in out


def test_list_finds_checkpoints_of_all_jobs(capsys, tmp_path, savepoint):
    storage = storage_of(str(tmp_path))
    write_checkpoint(storage, 3)
    written(storage, checkpoint_location(storage.directory, JOB_ID, 4), b"not complete")
    code, out, _ = run(capsys, "checkpoint", "list", str(tmp_path), "--json")
    rows = {os.path.basename(row["path"]): row for row in json.loads(out)}
    assert code == 0 and rows.keys() == {"savepoint-copy", "chk-3", "chk-4"}
    assert (rows["chk-3"]["job_name"], rows["chk-3"]["size"], rows["chk-3"]["kind"]) == ("a job", 417, "checkpoint")
    assert (rows["chk-4"]["is_complete"], rows["chk-4"]["checkpoint_id"]) == (False, 4)
    assert (rows["savepoint-copy"]["kind"], rows["savepoint-copy"]["checkpoint_id"]) == ("savepoint", 1)
    code, out, _ = run(capsys, "checkpoint", "list", str(tmp_path))
    assert code == 0 and len(out.splitlines()) == 4
    assert "checkpoint, not complete" in out and "golden savepoint" in out and "417 B" in out


HOSTILE = "a job\x1b]0;owned\x07\r\n\x9b2J"


@pytest.mark.parametrize("rich", [True, False])
def test_names_in_checkpoints_command_no_terminal(capsys, monkeypatch, rich):
    if not rich:
        monkeypatch.setitem(sys.modules, "rich", None)
    row = {"kind": "savepoint", "is_complete": True, "checkpoint_id": 1, "written": "now", "job_name": HOSTILE}
    whole = {**row, "size": 1, "path": f"/{HOSTILE}"}
    monkeypatch.setattr(checkpoint_command, "list_rows", lambda *_: [whole, {**whole, "damage": HOSTILE}])
    for more in ((), ("--json",)):
        _, out, err = run(capsys, "checkpoint", "list", "/x", *more)
        assert not set("\x1b\x07\x9b\r") & set(out + err)
        assert "owned" in out
    assert json.loads(out)[0]["job_name"] == HOSTILE


def test_list_of_nothing_says_so(capsys, tmp_path):
    assert run(capsys, "checkpoint", "list", str(tmp_path)) == (0, f"no checkpoints or savepoints at {tmp_path}\n", "")
    code, out, err = run(capsys, "checkpoint", "list", str(tmp_path / "nothing"))
    assert (code, out) == (1, "") and "No such file or directory" in err


def test_a_damaged_checkpoint_is_listed_as_such(capsys, savepoint):
    with open(savepoint / "_metadata", "r+b") as file:
        file.seek(50)
        file.write(b"\xff")
    code, out, err = run(capsys, "checkpoint", "list", str(savepoint.parent))
    assert code == 1 and "damaged" in out
    assert f"{savepoint}/_metadata is damaged at byte 40" in err
    for command in ("show", "verify"):
        code, _, err = run(capsys, "checkpoint", command, str(savepoint))
        assert code == 1 and f"{savepoint}/_metadata is damaged at byte 40" in err


def test_what_is_no_checkpoint_is_named(capsys, tmp_path):
    for command in ("show", "verify"):
        code, out, err = run(capsys, "checkpoint", command, str(tmp_path))
        assert (code, out) == (1, "")
        assert err == f"there is no checkpoint or savepoint at {tmp_path}: it has no file _metadata\n"


def test_verify_reads_every_byte(capsys):
    code, out, err = run(capsys, "checkpoint", "verify", SAVEPOINT)
    assert (code, err) == (0, "")
    assert out == "11 states, 10.4 KiB: all are as they were written\n"


def test_verify_finds_every_byte_that_is_not_as_it_was(capsys, savepoint):
    """One bit of each byte of each file, one after the other."""
    storage = storage_of(str(savepoint))
    for path in sorted(savepoint.iterdir()):
        good = path.read_bytes()
        for place in range(0, len(good), 1 if len(good) < 600 else 7):
            path.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
            assert checkpoint_command.verify(storage, str(savepoint)).problems, f"{path} at {place}"
        path.write_bytes(good)
    assert not checkpoint_command.verify(storage, str(savepoint)).problems


def test_verify_goes_on_behind_what_is_damaged_or_gone(capsys, savepoint):
    files = sorted(path for path in savepoint.iterdir() if path.name != "_metadata")
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-3])
    code, out, err = run(capsys, "checkpoint", "verify", "--json", str(savepoint))
    found = json.loads(out)
    assert (code, err) == (1, "")
    assert found["states"] == 11
    messages = " ".join(each["message"] for each in found["problems"])
    assert str(files[0]) in messages and f"{files[1]} is damaged at byte" in messages
    assert all(": " in each["what"] for each in found["problems"])
    code, out, err = run(capsys, "checkpoint", "verify", str(savepoint))
    assert code == 1
    assert out == f"11 states, 10.4 KiB: {len(found['problems'])} are damaged or gone\n"
    assert len(err.splitlines()) == len(found["problems"])


def test_it_needs_no_rich_and_writes_no_colours_into_pipes(savepoint):
    program = (
        "import sys; sys.modules['rich'] = None; from flinkbuf.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "checkpoint", "show", str(savepoint)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Operator" in done.stdout and done.stderr == ""


def test_a_terminal_has_a_table(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run(capsys, "checkpoint", "show", SAVEPOINT)
    assert "Types.TUPLE([Types.LONG(), Types.LONG()])" in out, "what stands in brackets is no markup"


@pytest.mark.parametrize("arguments", [["checkpoint", "--help"], ["recover", "--help"], ["checkpoint", "show", "-h"]])
def test_help_has_examples(capsys, arguments):
    with pytest.raises(SystemExit):
        main(arguments)
    out = capsys.readouterr().out
    assert "examples:" in out or "PATH" in out


@pytest.mark.parametrize("size, text", [(0, "0 B"), (999, "999 B"), (1023, "1.0 KiB"), (1 << 20, "1.0 MiB")])
def test_sizes(size, text):
    assert size_text(size) == text


@pytest.mark.parametrize(
    "ends, code, text",
    [
        ([("a", "FINISHED"), ("b", "FINISHED")], 0, "a: FINISHED\nb: FINISHED\n"),
        ([("a", "FINISHED"), ("b", "FAILED")], 1, "a: FINISHED\nb: FAILED\n"),
        ([], 0, "no unfinished jobs at /ha\n"),
    ],
)
def test_recover_says_how_each_job_has_ended(capsys, monkeypatch, ends, code, text):
    asked = []

    def recover(*place, falls_back, serve):
        asked.append((*place, falls_back, callable(serve)))
        return ends

    monkeypatch.setattr(recovery_command, "recover", recover)
    assert run(capsys, "recover", "/ha", "--cluster-id", "nightly") == (code, text, "")
    assert asked == [("/ha", "nightly", False, True)]  # with page and REST


def test_recover_of_nothing_is_an_error(capsys, tmp_path):
    code, _, err = run(capsys, "recover", str(tmp_path / "nothing"))
    assert code == 1 and "No such file or directory" in err
