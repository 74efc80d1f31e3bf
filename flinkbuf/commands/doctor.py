"""``python -m flinkbuf doctor``: what is wrong with this environment, said before a job finds it out."""

from __future__ import annotations

import contextlib
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from flinkbuf.commands.environment_checks import (
    FAULT,
    OK,
    Finding,
    Surroundings,
    findings_of,
    workers_of,
)
from flinkbuf.commands.output import print_json, say
from flinkbuf.log import printable_line
from flinkbuf.runtime.picture.plain_words import plural

if TYPE_CHECKING:
    from pyspark import SparkContext

ABOUT = """Look at what jobs need of this machine: Python and packages, Java, addresses and ports, disks, limits, clock.

Nothing is changed: files that are written are deleted again. Inside a Spark session, and with --master, the Python of
Spark's workers is compared with this one."""
EXAMPLES = """examples:
  python -m flinkbuf doctor
  python -m flinkbuf doctor --checkpoint-dir s3://bucket/checkpoints
  python -m flinkbuf doctor --bind-address 0.0.0.0 --advertised-address driver.example --port 7000-7010
  python -m flinkbuf doctor --master spark://master:7077 --json

exit codes: 0 without a fault, warnings or not; 1 with one; 2 if the command line is wrong."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of ``python -m flinkbuf doctor``."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description, parser.epilog = ABOUT, EXAMPLES
    parser.add_argument("--checkpoint-dir", default="", metavar="DIR", help="directory or URI of checkpoints")
    parser.add_argument("--temporary-dir", default="", metavar="DIR", help="default: Python's own")
    parser.add_argument("--bind-address", default="127.0.0.1", metavar="HOST", help="default: 127.0.0.1")
    parser.add_argument("--advertised-address", default="", metavar="HOST", help="default: the one to listen at")
    parser.add_argument("--port", default="0", metavar="PORTS", help="ports of the driver, such as 7000-7010")
    parser.add_argument("--data-port", default="0", metavar="PORTS", help="ports of task managers")
    parser.add_argument("--master", metavar="URL", help="start a session of Spark there, and look at its workers")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(options: Namespace) -> int:
    """Print what was found; return the exit code."""
    surroundings = Surroundings(
        options.bind_address,
        options.advertised_address,
        options.port,
        options.data_port,
        options.temporary_dir,
        options.checkpoint_dir,
    )
    found: list[Finding] = []
    for finding in _all(surroundings, options.master):
        found.append(finding)
        if not options.json:
            _print(finding)
    faults = sum(each.state == FAULT for each in found)
    warnings = sum(each.state not in (OK, FAULT) for each in found)
    if options.json:
        print_json({"faults": faults, "warnings": warnings, "findings": [asdict(each) for each in found]})
    else:
        say(f"{_count(faults, 'fault')}, {_count(warnings, 'warning')}")
    return 1 if faults else 0


def _count(number: int, noun: str) -> str:
    return plural(number, noun) if number else f"no {noun}s"


def _print(finding: Finding) -> None:
    print(f"{finding.state:<7}  {printable_line(finding.subject)}: {printable_line(finding.text)}", flush=True)
    for line in finding.advice.splitlines():
        print(f"         → {printable_line(line)}", flush=True)


def _all(surroundings: Surroundings, master: str | None) -> Iterator[Finding]:
    yield from findings_of(surroundings)
    try:
        with _session(master) as context:
            if context is not None:
                yield from workers_of(context)
    except Exception as error:
        what = str(error).strip().partition("\n")[0]
        text = f"a small job could not be run{f' on {master}' if master else ''}: {type(error).__name__}: {what}"
        yield Finding("spark workers", FAULT, text, "look at the master's address, and at the log of Spark")


@contextlib.contextmanager
def _session(master: str | None) -> Iterator[SparkContext | None]:
    """Give the context of the active session of this program, or of a new one at `master`; None: there is none."""
    if master is None:
        module = sys.modules.get("pyspark")
        yield None if module is None else module.SparkContext._active_spark_context
        return
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    session = SparkSession.builder.master(master).appName("flinkbuf doctor").getOrCreate()
    try:
        yield session.sparkContext
    finally:
        session.stop()
