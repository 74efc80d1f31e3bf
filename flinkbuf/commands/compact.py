"""``python -m flinkbuf compact``: the small files of a data set become few large ones."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter

from flinkbuf.commands.output import say
from flinkbuf.config import parse_duration_ms
from flinkbuf.errors import CorruptDataError
from flinkbuf.partition_files.compaction import compact
from flinkbuf.partition_files.data_set import PartitionDataSet

FAILED = 1
HELP = """Rewrite the small files of a data set as few large ones, with the same rows in the same order.

PATH is the directory of a data set. It may be read and written meanwhile: those who have begun to read go on with
the old files, which stay for the retention; streams that follow it go on where they are."""
EXAMPLES = """examples:
  python -m flinkbuf compact /data/flights
  python -m flinkbuf compact /data/flights --retention 5min

exit codes: 0; 1 if there is no data set, or it is damaged; 2 if the command line is wrong."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of ``python -m flinkbuf compact``."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description, parser.epilog = HELP, EXAMPLES
    parser.add_argument("path", metavar="PATH", help="a data set")
    parser.add_argument("--retention", default="1h", metavar="TIME", help="how long the old files stay (default 1h)")


def main(arguments: Namespace) -> int:
    """Compact the data set; return the exit code."""
    try:
        retention_s = parse_duration_ms(arguments.retention) / 1000
        data_set = PartitionDataSet(arguments.path)
        before = data_set.manifest()
        after = compact(data_set, retention_s=retention_s)
    except (OSError, CorruptDataError, ValueError, ImportError) as error:
        say(error, file=sys.stderr)
        return FAILED
    counts = f"{len(before.files)} files became {len(after.files)}"
    found = (
        f"{counts}, version {after.version}" if after.version > before.version else "no small files lie side by side"
    )
    say(f"data set {data_set.path}: {found}")
    return 0
