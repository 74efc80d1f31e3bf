"""``python -m flinkbuf run script.py``: a program with settings from the command line.

The script is run as ``python script.py`` would; what the options say holds wherever the program says nothing itself.
Flink: CliFrontend.
"""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import REMAINDER, ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from flinkbuf.common import options as flink_options
from flinkbuf.common.configuration import PROPERTIES_VARIABLE, Configuration, default_configuration
from flinkbuf.datastream.program.forgotten import forget_all
from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkbuf.runtime.driver.error_report import report
from flinkbuf.runtime.manager.task_log import log_to_stderr

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130

HELP = """Run a program as `python SCRIPT` would, with settings from the command line.

What is said here holds wherever the program says nothing itself: env.set_parallelism(2) in it wins over -p 4.
Options of the script come behind its name."""
EXAMPLES = """examples:
  python -m flinkbuf run -p 4 flights.py --year 2013
  python -m flinkbuf run -t embedded -D pipeline.operator-chaining.enabled=false flights.py
  python -m flinkbuf run -D restart-strategy.type=fixed-delay -D restart-strategy.fixed-delay.attempts=3 flights.py

exit codes: what the script exits with; 1 if it raised an exception, such as that of a failed job; 2 if the command line
is wrong; 130 after Ctrl-C; 143 after SIGTERM while a job runs, 0 if the job was drained."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of ``python -m flinkbuf run``."""
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description, parser.epilog = HELP, EXAMPLES
    parser.add_argument(
        "-p", "--parallelism", type=int, metavar="N", help="subtasks of each operator (default: one for each core)"
    )
    parser.add_argument(
        "-t",
        "--target",
        choices=flink_options.TARGETS,
        help="where jobs run: local, processes of this machine; spark, Spark's executors; embedded, threads of the "
        "program, for debugging (default: spark if the program has a session, else local)",
    )
    parser.add_argument(
        "-D",
        dest="settings",
        action="append",
        type=_pair,
        default=[],
        metavar="KEY=VALUE",
        help="a setting by Flink's key; may be given several times",
    )
    parser.add_argument("--no-progress", action="store_true", help="do not show running jobs on the terminal")
    parser.add_argument("script", metavar="SCRIPT", help="the program, a Python file")
    parser.add_argument("arguments", nargs=REMAINDER, metavar="...", help="what the script finds in sys.argv")
    parser.set_defaults(parser=parser)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key.strip() and equals) or "\n" in text:
        raise ArgumentTypeError(f"it must be KEY=VALUE, got {text!r}")
    return key.strip(), value.strip()


def main(arguments: Namespace) -> int:
    """Run the script; return the exit code of the process."""
    script = Path(arguments.script)
    if not script.is_file():
        arguments.parser.error(f"there is no Python file {arguments.script!r}")
    try:
        configuration = _configuration(arguments)
    except (ValueError, NotImplementedError) as error:
        arguments.parser.error(str(error))
    form = flink_options.read(configuration, flink_options.LOG_FORMAT)
    if form is not None:  # from the script's first line on
        log_to_stderr(form)
    pairs = (f"{key}: {value}" for key, value in configuration.to_dict().items())
    properties = "\n".join(["# set by python -m flinkbuf run", *pairs])
    with _as_program(script, arguments.arguments, properties) as program:
        try:
            code = compile(script.read_bytes(), str(script), "exec")
            exec(code, program.__dict__)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            forget_all()
            report(error, sys.stderr)
            return FAILED
        finally:
            sys.stdout.flush()
    return 0


def _configuration(arguments: Namespace) -> Configuration:
    """Return what the environment variable holds, then what the command line says; all of it checked."""
    configuration = default_configuration()
    pairs = dict(arguments.settings)
    if flink_options.REST_TOKEN.key in pairs:
        raise ValueError(
            f"{flink_options.REST_TOKEN.key} on a command line is seen by every user of this machine (ps): write the "
            f"token to a file with mode 600, and say -D {flink_options.REST_TOKEN_FILE.key}=FILE"
        )
    if arguments.parallelism is not None:
        if arguments.parallelism < 1:
            raise ValueError(f"the parallelism must be at least 1, got {arguments.parallelism}")
        pairs[flink_options.PARALLELISM.key] = str(arguments.parallelism)
    if arguments.target is not None:
        pairs[flink_options.TARGET.key] = arguments.target
    if arguments.no_progress:
        pairs[flink_options.PROGRESS.key] = "false"
    configuration.add_all(Configuration.from_dict(pairs))
    StreamExecutionEnvironment(configuration)  # refuses what makes no sense
    return configuration


@contextlib.contextmanager
def _as_program(script: Path, arguments: list[str], properties: str) -> Iterator[ModuleType]:
    """Let everything be as if the script had been started by itself; put back afterwards."""
    program = ModuleType("__main__")
    program.__file__ = str(script)
    program.__dict__["__builtins__"] = __builtins__
    before = (sys.modules["__main__"], sys.argv, list(sys.path), os.environ.get(PROPERTIES_VARIABLE))
    sys.modules["__main__"], sys.argv = program, [str(script), *arguments]
    sys.path[:1] = [str(script.resolve().parent)]
    os.environ[PROPERTIES_VARIABLE] = properties
    try:
        yield program
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = before[0], before[1], before[2]
        if before[3] is None:
            del os.environ[PROPERTIES_VARIABLE]
        else:
            os.environ[PROPERTIES_VARIABLE] = before[3]
