"""The command line: ``python -m flinkbuf``, also installed as ``flinkbuf``."""

from argparse import ArgumentParser
from collections.abc import Sequence

from flinkbuf._version import build_version
from flinkbuf.commands import checkpoint as checkpoint_command
from flinkbuf.commands import compact as compact_command
from flinkbuf.commands import doctor as doctor_command
from flinkbuf.commands import history as history_command
from flinkbuf.commands import inspect as inspect_command
from flinkbuf.commands import recover as recovery_command
from flinkbuf.commands import run as script
from flinkbuf.commands import top as top_command
from flinkbuf.demo import flights


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code of the process.

    Examples
    --------
    >>> main(["version"])  # doctest: +ELLIPSIS
    flinkbuf ...
    0
    """
    about = "Apache Flink's data plane for people who write Python on Spark"
    parser = ArgumentParser(prog="flinkbuf", description=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("version", help="print the version")
    script.add_arguments(commands.add_parser("run", help="run a program with settings from the command line"))
    about_checkpoint = "list, show and verify checkpoints and savepoints"
    checkpoint_command.add_arguments(commands.add_parser("checkpoint", help=about_checkpoint))
    about_inspect = "what is in a data set, a manifest or a partition file"
    inspect_command.add_arguments(commands.add_parser("inspect", help=about_inspect))
    about_compact = "small files of a data set become few large ones"
    compact_command.add_arguments(commands.add_parser("compact", help=about_compact))
    recovery_command.add_arguments(commands.add_parser("recover", help="go on with jobs whose programs are gone"))
    history_command.add_arguments(commands.add_parser("history", help="look at jobs that have ended, in a browser"))
    top_command.add_arguments(commands.add_parser("top", help="look at a running job, in this terminal"))
    about_doctor = "what is wrong with this environment, before a job finds it out"
    doctor_command.add_arguments(commands.add_parser("doctor", help=about_doctor))
    about_demo = "336,776 real flights, moved by fb.exchange and by partitionBy, analysed, timed and compared"
    flights.add_arguments(commands.add_parser("demo", help=about_demo, description=about_demo))
    options = parser.parse_args(arguments)
    if options.command == "run":
        return script.main(options)
    if options.command == "checkpoint":
        return checkpoint_command.main(options)
    if options.command == "inspect":
        return inspect_command.main(options)
    if options.command == "compact":
        return compact_command.main(options)
    if options.command == "recover":
        return recovery_command.main(options)
    if options.command == "history":
        return history_command.main(options)
    if options.command == "top":
        return top_command.main(options)
    if options.command == "doctor":
        return doctor_command.main(options)
    if options.command == "demo":
        return flights.main(options)
    print(f"flinkbuf {build_version()}")
    return 0
