"""``python -m flinkbuf run script.py``: a program with settings from the command line.

The script is run as ``python script.py`` would; what the options say holds wherever the program says nothing itself.
Flink: CliFrontend.
"""

from __future__ import annotations

import contextlib
import os
import pkgutil
import re
import sys
import traceback
from argparse import REMAINDER, ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TextIO

from flinkbuf import __path__
from flinkbuf.common import options as flink_options
from flinkbuf.common.configuration import PROPERTIES_VARIABLE, Configuration, default_configuration
from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkbuf.jobs.failure import JobFailedError
from flinkbuf.log import printable

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
_PACKAGE = str(Path(__file__).parent) + os.sep
_COMPILED = "flinkbuf/_core/"  # frames of Cython's know no more of their path
# A program may lie in a folder that is called flinkbuf, too: what is ours is what the package has.
_OURS = "|".join(
    [
        "__init__[.]py",
        *(f"{each.name}/.*" if each.ispkg else f"{each.name}[.]py" for each in pkgutil.iter_modules(__path__)),
    ]
)
_FRAME_OF_OURS = re.compile(rf'  File "(?:[^"\n]*/)?flinkbuf/(?:{_OURS})", line .*\n(?:    .*\n)*')

HELP = """Run a program as `python SCRIPT` would, with settings from the command line.

What is said here holds wherever the program says nothing itself: env.set_parallelism(2) in it wins over -p 4.
Options of the script come behind its name."""
EXAMPLES = """examples:
  python -m flinkbuf run -p 4 flights.py --year 2013
  python -m flinkbuf run -t embedded -D pipeline.operator-chaining.enabled=false flights.py
  python -m flinkbuf run -D restart-strategy.type=fixed-delay -D restart-strategy.fixed-delay.attempts=3 flights.py

exit codes: what the script exits with; 1 if it raised an exception, such as that of a failed job; 2 if the command line
is wrong; 130 after Ctrl-C."""


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
        properties = _properties(arguments)
    except (ValueError, NotImplementedError) as error:
        arguments.parser.error(str(error))
    with _as_program(script, arguments.arguments, properties) as program:
        try:
            code = compile(script.read_bytes(), str(script), "exec")
            exec(code, program.__dict__)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            report(error, sys.stderr)
            return FAILED
        finally:
            sys.stdout.flush()
    return 0


def _properties(arguments: Namespace) -> str:
    """What the environment variable shall hold: its own pairs, then those of the command line; all of them checked."""
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
    return "\n".join(["# set by python -m flinkbuf run", *(f"{k}: {v}" for k, v in configuration.to_dict().items())])


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


def report(error: BaseException, stream: TextIO) -> None:
    """Print an exception: first the user's function that raised it, then its operator, then where the job was started.

    Frames of flinkbuf's own are left out where there is one of the user's to show. What an exception's text, which may
    hold a record, would command the terminal is shown instead.
    """
    stream.write(printable("".join(_report_of(error))))


def _report_of(error: BaseException) -> Iterator[str]:
    frames = list(_frames(error.__traceback__))
    script = frames[_first_of_program(frames) :]
    call = next((place for place, frame in enumerate(script) if _is_ours(frame)), len(script))
    started, inside = script[:call], [frame for frame in script[call:] if not _is_ours(frame)]
    if isinstance(error, JobFailedError):
        yield _FRAME_OF_OURS.sub("", error.failure.text + "\n")
    elif inside and getattr(error, "operator_name", None) is not None:
        yield from traceback.format_exception(type(error), error, _chained(inside))
        if not getattr(error, "__notes__", None):  # Python before 3.11
            yield (f"in operator {error.operator_name!r} of task {error.task_name}\n")  # type: ignore[attr-defined]
    else:
        yield from traceback.format_exception(type(error), error, _chained(script))
        return
    if started:
        yield "\nThe job was started here:\n"
        yield from traceback.format_tb(_chained(started))


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_ours(trace: TracebackType) -> bool:
    return trace.tb_frame.f_code.co_filename.startswith((_PACKAGE, _COMPILED))


def _first_of_program(frames: list[TracebackType]) -> int:
    """Behind the frames of this module."""
    own = [place for place, frame in enumerate(frames) if frame.tb_frame.f_code.co_filename == __file__]
    return own[0] + 1 if own else 0


def _chained(frames: list[TracebackType]) -> TracebackType | None:
    """The same frames as one traceback, without those between them."""
    chained: TracebackType | None = None
    for frame in reversed(frames):
        chained = TracebackType(chained, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return chained
