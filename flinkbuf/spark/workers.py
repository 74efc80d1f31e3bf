"""Whether Spark's Python workers can import flinkbuf: asked before a job if the driver can know, else said by them.

Spark starts its workers with an interpreter of its own choice, by default the first ``python3`` on the path, which in
an environment that was not activated is another one than the driver's. What Spark then shows is a ModuleNotFoundError
out of its own unpickling; here is the sentence that says what to set.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from flinkbuf._version import build_version

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark import SparkContext

P = ParamSpec("P")
R = TypeVar("R")

PROBE_TIMEOUT_S = 30.0
_PROBE = "import flinkbuf._core.memory.buffer, flinkbuf._version; print(flinkbuf._version.build_version())"

_checked: weakref.WeakSet[SparkContext] = weakref.WeakSet()


def is_local(context: SparkContext) -> bool:
    """Whether all tasks run on this machine: a master ``local`` or ``local[...]``, but not ``local-cluster``."""
    master = context.master or ""
    return master == "local" or master.startswith("local[")


def check_workers(context: SparkContext) -> None:
    """Refuse to start what cannot run, where workers run on this machine: a master ``local`` or ``local[...]``.

    Costs the start of one interpreter, once for each context that passes. On other masters workers tell, see `shipped`.

    Raises
    ------
    RuntimeError
        If the workers' interpreter cannot import flinkbuf, or finds another version or build; with what to set.
    """
    if context in _checked or not is_local(context):
        return
    try:
        done = subprocess.run(
            [context.pythonExec, "-c", _PROBE],
            env=_worker_environment(context),
            cwd=_of_jvm(context, "getProperty", "user.dir"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        _checked.add(context)  # Spark will say it better; to ask again might take as long again
        return
    last_line = done.stderr.strip().rpartition("\n")[2]
    if done.returncode and last_line.startswith(("ImportError:", "ModuleNotFoundError:")):
        which = f"the workers of {context.master} run {context.pythonExec}, which cannot import flinkbuf"
        if "is flinkbuf's source" in last_line:  # the directory is wrong, not the interpreter
            raise RuntimeError(f"{which}: {last_line.partition(': ')[2]}")
        raise RuntimeError(
            f"{which} ({last_line}): before Spark starts, set the environment variable PYSPARK_PYTHON to the "
            f"interpreter that has it, such as this program's own, {sys.executable}"
        )
    found = done.stdout.strip()
    if done.returncode == 0 and found != build_version():
        raise RuntimeError(
            f"the workers of {context.master} run {context.pythonExec}, which has flinkbuf {found} where this program "
            f"has {build_version()}: before Spark starts, set the environment variable PYSPARK_PYTHON to the "
            f"interpreter that has the same, such as this program's own, {sys.executable}"
        )
    _checked.add(context)


def _worker_environment(context: SparkContext) -> dict[str, str]:
    """Return the environment that Spark starts a worker with, as far as it decides on what can be imported."""
    from pyspark import SparkFiles

    files = SparkFiles.getRootDirectory()  # where addPyFile() puts what workers shall import
    added = [files, *(os.path.join(files, name) for name in context._python_includes or ())]
    paths = [*added, context.environment.get("PYTHONPATH"), _of_jvm(context, "getenv", "PYTHONPATH")]
    return {**os.environ, **context.environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _of_jvm(context: SparkContext, method: str, name: str) -> str | None:
    """Return a variable or property of the process that starts the workers."""
    jvm: JVMView = context._jvm
    return getattr(jvm.java.lang.System, method)(name)


@dataclass(frozen=True)
class shipped(Generic[P, R]):
    """A function for the tasks of Spark that says in one sentence what to do where flinkbuf cannot be imported.

    Pickled, it is a small function that travels whole, so that it needs no flinkbuf where it arrives, and the bytes of
    the real one, which are looked at only after flinkbuf was found in the same build. What arrives is the real one:
    nothing is added to a call.
    """

    function: Callable[P, R]

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Call the function, on the driver."""
        return self.function(*arguments, **named)

    def __reduce__(self) -> tuple[object, ...]:
        from pyspark import cloudpickle

        return _unpack, (cloudpickle.dumps(self.function, pickle.HIGHEST_PROTOCOL), build_version())


def _unpack(data: bytes, version: str) -> object:
    """Return the function in `data`; runs in the worker, where it knows nothing but what it imports itself."""
    import pickle
    import sys

    advice = (
        f"Install flinkbuf {version}, the driver's version, on every node, for the interpreter that Spark starts "
        "there; or name an interpreter that has it: set the environment variable PYSPARK_PYTHON before the program "
        "starts Spark, or spark.pyspark.python for spark-submit"
    )
    python = f"this worker of Spark runs {sys.executable} (Python {sys.version.split()[0]}), which"
    try:
        import flinkbuf._core.memory.buffer  # noqa: F401 - the compiled part
        from flinkbuf._version import build_version
    except ImportError as error:
        raise RuntimeError(f"{python} cannot import flinkbuf ({error}). {advice}") from None
    if build_version() != version:
        raise RuntimeError(f"{python} has flinkbuf {build_version()}, another version. {advice}")
    return pickle.loads(data)


# Cloudpickle sends a function of the main module whole, and any other one as the name of its module.
_unpack.__module__ = "__main__"
