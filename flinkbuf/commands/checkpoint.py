"""``python -m flinkbuf checkpoint``: which checkpoints and savepoints there are, what is in them, whether all is whole.

Tables by rich where it is installed, plain columns where it is not; ``--json`` for programs.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator

from flinkbuf.checkpoints.description import Json, describe, list_rows, verify
from flinkbuf.checkpoints.storage import CheckpointStorage, storage_of
from flinkbuf.commands.output import print_json, print_table, say, text_of
from flinkbuf.errors import CorruptDataError
from flinkbuf.log import printable_line
from flinkbuf.runtime.picture.plain_words import size_text

FAILED, WRONG_USE = 1, 2
HELP = """Look into checkpoints and savepoints; nothing is changed, and no value of a job is ever unpickled.

PATH is a directory on this machine, or a URI that pyarrow.fs knows, such as s3://bucket/checkpoints."""
EXAMPLES = """examples:
  python -m flinkbuf checkpoint list /checkpoints
  python -m flinkbuf checkpoint show /checkpoints/savepoint-5e20e1-0123456789ab
  python -m flinkbuf checkpoint show --json 's3://bucket/checkpoints/<job id>/chk-7?region=eu-west-1'
  python -m flinkbuf checkpoint verify /checkpoints/<job id>/chk-7/_metadata

exit codes: 0; 1 if there is no checkpoint, or it is damaged; 2 if the command line is wrong."""
_ABOUT = {
    "list": "checkpoints and savepoints at PATH, in it, or in the directories of jobs in it; newest first",
    "show": "operators by uid, their states with types and sizes, key groups, splits",
    "verify": "read every byte of a checkpoint and check every checksum",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of ``python -m flinkbuf checkpoint``."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description, parser.epilog = HELP, EXAMPLES
    commands = parser.add_subparsers(dest="checkpoint_command", required=True, metavar="list|show|verify")
    for name, about in _ABOUT.items():
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument("path", metavar="PATH", help="a directory, or the _metadata in it")
        command.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: Namespace) -> int:
    """Run one of the commands; return the exit code."""
    try:
        command = {"list": _list, "show": _show, "verify": _verify}[arguments.checkpoint_command]
        return command(storage_of(arguments.path), arguments.path, arguments.json)
    except (OSError, CorruptDataError, ImportError, ValueError) as error:
        say(error, file=sys.stderr)
        return FAILED


def _list(storage: CheckpointStorage, path: str, as_json: bool) -> int:
    rows = list_rows(storage, path)
    if as_json:
        print_json(rows)
    elif not rows:
        say(f"no checkpoints or savepoints at {path}")
    else:
        print_table(
            ("", "Id", "Written", "Job", "Size", "Path"),
            (
                (
                    row["kind"] if row["is_complete"] else f"{row['kind']}, not complete",
                    text_of(row["checkpoint_id"]),
                    row["written"],
                    row.get("job_name", ""),
                    "damaged" if "damage" in row else size_text(row.get("size")),
                    row["path"],
                )
                for row in rows
            ),
        )
    damage = [row["damage"] for row in rows if "damage" in row]
    for message in damage:
        say(message, file=sys.stderr)
    return FAILED if damage else 0


def _show(storage: CheckpointStorage, path: str, as_json: bool) -> int:
    found = describe(storage, path)
    if as_json:
        print_json(found)
        return 0
    say(f"{found['kind']} {found['checkpoint_id']} of job {found['job_name']!r} ({found['job_id']})")
    say(f"taken {found['taken']}, at {found['path']}")
    shared = f", {size_text(found['shared_size'])} of them shared with others" if found["shared_size"] else ""
    inside = size_text(found["size_in_metadata"])
    say(f"{size_text(found['size'])} of state in {found['files']} files{shared}; {inside} in _metadata itself")
    for vertex in found["vertices"]:
        _show_vertex(vertex)
    return 0


def _show_vertex(vertex: Json) -> None:
    say()
    finished = f", {vertex['finished_subtasks']} finished" if vertex["finished_subtasks"] else ""
    name, most = printable_line(vertex["name"]), vertex["max_parallelism"]
    say(f"{name}: {vertex['parallelism']} subtasks{finished}, at most {most}")
    print_table(
        ("Operator", "Uid", "State", "Kind", "Type", "Entries", "Size"),
        (row for operator in vertex["operators"] for row in _state_rows(operator)),
    )
    for operator in vertex["operators"]:
        for line in _key_group_lines(operator):
            say(line)
    for direction, channels in vertex["channel_state"].items():
        if channels["channels"]:
            say(f"in flight: {size_text(channels['size'])} of {channels['channels']} {direction} channels")


def _state_rows(operator: Json) -> Iterator[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    if operator["coordinator_size"] is not None:
        rows.append(("", "enumerator", "", "", size_text(operator["coordinator_size"])))
    for each in operator["operator_states"]:
        what = "splits" if operator["splits"] and each["count"] == operator["splits"] else "elements"
        rows.append((each["name"], each["mode"], "", f"{each['count']} {what}", size_text(each["size"])))
    for each in operator["keyed_states"]:
        kind = f"{each['kind']}, with time to live" if each["has_ttl"] else each["kind"]
        rows.append((each["name"], kind, each["type"], "", size_text(each["size"])))
    if operator["shared_files"]:
        rows.append(
            ("", f"{operator['shared_files']} files", operator["backend"], "", size_text(operator["shared_size"]))
        )
    for index, row in enumerate(rows or [("no state", "", "", "", "")]):
        yield (operator["name"], operator["uid"] or "", *row) if index == 0 else ("", "", *row)


def _key_group_lines(operator: Json) -> Iterator[str]:
    sizes = operator["key_groups"]
    if not sizes:
        return
    largest = sorted(sizes.items(), key=lambda each: -each[1])[:3]
    names = ", ".join(f"{group} ({size_text(size)})" for group, size in largest)
    mean = size_text(round(sum(sizes.values()) / len(sizes)))
    keys = f" by keys of {operator['key_type']}" if operator["key_type"] else ""
    yield f"{operator['name']}: {len(sizes)} key groups{keys}, {mean} each on average; the largest are {names}"


def _verify(storage: CheckpointStorage, path: str, as_json: bool) -> int:
    found = verify(storage, path)
    if as_json:
        problems = [{"what": each.what, "message": each.message} for each in found.problems]
        print_json({"path": path, "states": found.states, "size": found.size, "problems": problems})
    else:
        for each in found.problems:
            say(f"{each.what}: {each.message}", file=sys.stderr)
        end = f"{len(found.problems)} are damaged or gone" if found.problems else "all are as they were written"
        say(f"{found.states} states, {size_text(found.size)}: {end}")
    return FAILED if found.problems else 0
