"""Runs every program of programs/ on PyFlink or on flinkbuf and writes what came out as JSON.

    python run_programs.py pyflink|flinkbuf[:TARGET] RESULTS.json [WORD...]

A program is a function of programs/*.py that takes ``env``, written for PyFlink; for flinkbuf the imports in its source
are changed, nothing else. TARGET is where flinkbuf runs them: embedded, local or spark. Its result is what it returns,
as text; one that returns nothing has printed its result, so that is the lines which the job has written, sorted where
several subtasks wrote them. With WORDs only programs are run whose ``file.function`` begins with one of them; what the
file says of others stays. Only the two packages are needed. So
``build/pyflink/bin/python tests/pyflink/run_programs.py pyflink tests/pyflink/expected.json WORD`` writes what is
expected of a new program.
"""

import faulthandler
import inspect
import json
import os
import signal
import sys
import time
import traceback
import types
from importlib import import_module, metadata
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
# Seconds between records that are to see another watermark, and before the first of them.
PAUSES = {"pyflink": {"PAUSE_S": "1.2", "START_S": "5"}, "flinkbuf": {"PAUSE_S": "0.25", "START_S": "0"}}

LIMITS_S = {"pyflink": 600, "flinkbuf": 60}  # for one program


def load(path: Path, root: str) -> types.ModuleType:
    """The module of one file of programs, its imports from ``root``."""
    source = path.read_text().replace("from pyflink", f"from {root}")
    module = types.ModuleType(f"{root}_programs_{path.stem}")
    sys.modules[module.__name__] = module  # where pickle looks for the classes of the module
    import_module("cloudpickle").register_pickle_by_value(module)  # other interpreters cannot import it
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def programs(root: str, words: list[str]) -> dict:
    found = {}
    for path in sorted(PROGRAMS.glob("*.py")):
        if words and not any(f"{path.stem}.".startswith(word.partition(".")[0]) for word in words):
            continue
        module = load(path, root)
        for name, function in vars(module).items():
            is_own = inspect.isfunction(function) and function.__module__ == module.__name__
            if is_own and not name.startswith("_") and list(inspect.signature(function).parameters) == ["env"]:
                found[f"{path.stem}.{name}"] = function
    return {name: each for name, each in found.items() if not words or name.startswith(tuple(words))}


class Output:
    """What is written to file descriptor 1 from now on, by a JVM that is started later too."""

    def __init__(self, path: Path, descriptors: tuple[int, ...] = (1,)):
        self.log = os.dup(2)
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        for descriptor in descriptors:
            os.dup2(self.file, descriptor)
        self.position = 0

    def lines(self) -> list[str]:
        """What was written since the last call."""
        sys.stdout.flush()
        text = os.pread(self.file, os.fstat(self.file).st_size - self.position, self.position)
        self.position += len(text)
        return [neutral(line) for line in text.decode().splitlines()]


def text(result) -> object:
    """The result in a form that does not say whose it is: a list of texts, or one text."""
    return [text(part) for part in result] if type(result) is list else neutral(repr(result))


def neutral(line: str) -> str:
    """PyFlink's ``<Row(1, 2)>`` as ``Row(1, 2)``, which in flinkbuf is the expression that makes it."""
    return line.replace("<Row(", "Row(").replace(")>", ")")


def expire(signal_number, frame):
    raise TimeoutError("the program has not ended")


def run(program, env, output: Output, limit_s: int) -> object:
    output.lines()
    signal.alarm(limit_s)
    faulthandler.dump_traceback_later(limit_s + 20, exit=True)  # where no signal gets through
    try:
        result = program(env)
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
    if result is not None:
        return text(result)
    lines = output.lines()
    return sorted(lines) if env.get_parallelism() > 1 else lines


def environments(root: str, target: str):
    """What makes the environment of one program."""
    environment = import_module(f"{root}.datastream").StreamExecutionEnvironment
    if not target:
        return environment.get_execution_environment
    configuration = import_module(f"{root}.common").Configuration().set_string("execution.target", target)
    return lambda: environment.get_execution_environment(configuration)


def start_spark():
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
    settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master("local[8]").appName("programs")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(root: str, path: str, *words: str) -> int:
    root, _, target = root.partition(":")
    os.environ.update(PAUSES[root])
    file = Path(path).resolve()
    signal.signal(signal.SIGALRM, expire)
    # What Spark's workers print comes out of its JVM's standard error.
    output = Output(file.with_suffix(".stdout"), (1, 2) if target == "spark" else (1,))
    if target == "spark":
        session = start_spark()  # noqa: F841 - lives as long as the programs
    new_environment = environments(root, target)
    package = "apache-flink" if root == "pyflink" else root
    versions = {root: metadata.version(package), "python": sys.version.split()[0]}
    before = json.loads(file.read_text()) if words and file.exists() else {}
    answers, failed = before.get("programs", {}), before.get("failed", {})
    for name, program in programs(root, list(words)).items():
        started = time.monotonic()
        env = new_environment()
        env.set_parallelism(1)
        answers.pop(name, None)
        failed.pop(name, None)
        try:
            answers[name] = run(program, env, output, LIMITS_S[root])
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
            os.write(output.log, traceback.format_exc().encode())
        os.write(
            output.log, f"{name}: {time.monotonic() - started:.1f} s{' FAILED' if name in failed else ''}\n".encode()
        )
        everything = {"versions": versions, "programs": dict(sorted(answers.items())), "failed": failed}
        file.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(PROGRAMS.parent))
    sys.exit(main(*sys.argv[1:]))
