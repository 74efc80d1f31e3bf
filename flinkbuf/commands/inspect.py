"""``python -m flinkbuf inspect``: what is in a data set of partition files, in a manifest, or in one partition file.

Tables by rich where it is installed, plain columns where it is not; ``--json`` for programs.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence

from flinkbuf.commands.output import print_json, print_table, say, text_of
from flinkbuf.errors import CorruptDataError
from flinkbuf.partition_files.description import Json, describe
from flinkbuf.runtime.picture.plain_words import size_text

FAILED = 1
SHOWN = 16  # rows of a table, unless --all is given
HELP = """Look into partition files: regions, subpartitions, buffers, records, sizes, compression, first records.

PATH is the directory of a data set, one of its manifests, or a partition file (with or without .shuffle.data)."""
EXAMPLES = """examples:
  python -m flinkbuf inspect /data/flights
  python -m flinkbuf inspect /data/flights --subpartition 7 --rows 20
  python -m flinkbuf inspect /data/flights/_manifests/3.json
  python -m flinkbuf inspect --json /data/flights/data/part-0123456789abcdef-00000-89abcdef.shuffle.data

exit codes: 0; 1 if nothing of the kind is there, or it is damaged; 2 if the command line is wrong."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of ``python -m flinkbuf inspect``."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description, parser.epilog = HELP, EXAMPLES
    parser.add_argument("path", metavar="PATH", help="a data set, a manifest, or a partition file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rows", type=int, default=5, metavar="N", help="how many records to decode (default 5)")
    parser.add_argument("--subpartition", type=int, metavar="I", help="tell only of this one")
    parser.add_argument("--all", action="store_true", help=f"print tables whole, not only their first {SHOWN} rows")


def main(arguments: Namespace) -> int:
    """Describe what lies at the path; return the exit code."""
    try:
        found = describe(arguments.path, rows=arguments.rows, subpartition=arguments.subpartition)
    except (OSError, CorruptDataError, ValueError, ImportError) as error:
        say(error, file=sys.stderr)
        return FAILED
    if arguments.json:
        print_json(found)
    elif found["kind"] == "data set":
        _show_data_set(found, None if arguments.all else SHOWN)
    else:
        _show_part(found, None if arguments.all else SHOWN)
    return 0


def _show_data_set(found: Json, shown: int | None) -> None:
    say(f"data set {found['path']}, version {found['version']}, {found['operation']} of {found['created']}")
    say(f"{found['records']:,} records in {len(found['files'])} files, {size_text(found['data_size'])}")
    key = ", ".join(found["key"]) if found["key"] else "none, dealt out in turn"
    say(f"{found['num_partitions']} subpartitions, key: {key}")
    others = [str(version) for version in found["versions"] if version != found["version"]]
    if others:
        say(f"other versions that are still there: {', '.join(others)}")
    if found["unreferenced_files"]:
        say(f"{len(found['unreferenced_files'])} files belong to no version: of running or killed jobs")
    say()
    print_table(("Column", "Type"), ((each["name"], each["type"]) for each in found["columns"]))
    say()
    files = [
        (
            each["name"],
            f"{each['records']:,}",
            size_text(each["data_size"]),
            text_of(each["compression"]),
            text_of(each["key_min"]),
            text_of(each["key_max"]),
        )
        for each in found["files"]
    ]
    _print_some(("File", "Records", "Size", "Compression", "Least key", "Greatest key"), files, shown)
    rows = [
        (str(each["index"]), f"{each['records']:,}", size_text(each["size"]), str(each["files"]))
        for each in found["subpartitions"]
    ]
    _print_some(("Subpartition", "Records", "Size", "Files"), rows, shown)
    _show_records(found["first_records"])


def _show_part(found: Json, shown: int | None) -> None:
    say(f"partition file {found['path']}")
    data_set = f", part of {found['data_set']}" if found["data_set"] else ""
    records = f"{found['records']:,} records, " if found["records"] is not None else ""
    say(f"{records}{size_text(found['data_size'])} of data, {size_text(found['index_size'])} of index{data_set}")
    say(f"{found['num_partitions']} subpartitions in {len(found['regions'])} regions")
    say()
    regions = [
        (
            str(each["index"]),
            "shared by all" if each["is_broadcast"] else f"{each['subpartitions']} subpartitions",
            str(each["offset"]),
            size_text(each["size"]),
        )
        for each in found["regions"]
    ]
    _print_some(("Region", "Holds", "Offset", "Size"), regions, shown)
    rows = [
        (
            str(each["index"]),
            "" if each["records"] is None else f"{each['records']:,}",
            str(each["buffers"]),
            str(each["compressed_buffers"]),
            str(each["events"]),
            size_text(each["size"]),
        )
        for each in found["subpartitions"]
    ]
    _print_some(("Subpartition", "Records", "Buffers", "Compressed", "Events", "Size"), rows, shown)
    _show_records(found["first_records"])


def _print_some(names: tuple[str, ...], rows: Sequence[tuple[str, ...]], shown: int | None) -> None:
    if not rows:
        return
    print_table(names, rows[:shown])
    if shown is not None and len(rows) > shown:
        say(f"… and {len(rows) - shown} more: --all prints them")
    say()


def _show_records(records: Iterable[Json] | None) -> None:
    found = list(records or ())
    if found:
        say("first records:")
        print_table(tuple(found[0]), ([text_of(value) for value in each.values()] for each in found))
