"""A process that runs programs, one after the other, as long as it is asked: started once, since starting takes long.

    PYTHONHASHSEED=1 python -m matrix.worker [--spark]

Each line that it reads is JSON, ``{"name": …}`` or ``{"code": …}`` of a program and its ``way``; each that it writes is
what came of it: ``{"records": [[output, order, text], …]}`` or ``{"error": …}``. What jobs print or log goes to
standard error. An empty answer comes when it has started.
"""

import faulthandler
import json
import os
import signal
import sys
import traceback
import warnings

from matrix import written  # noqa: F401 - knows the programs by their names
from matrix.generated import from_code
from matrix.program import PROGRAMS
from matrix.running import run
from matrix.ways import Way


def start_spark():
    """One session for all programs."""
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
    settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {"spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path)}
    builder = SparkSession.builder.master("local[8]").appName("matrix")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def answer(request):
    """Run what a line asks for."""
    program = PROGRAMS[request["name"]] if "name" in request else from_code(request["code"])
    try:
        return {"records": run(program, Way(**request["way"]))}
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        return {"error": f"{type(error).__name__}: {error}", "traceback": told}


def main():
    """Answer until the other end is closed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    warnings.simplefilter("ignore")
    if "--spark" in sys.argv:
        session = start_spark()  # noqa: F841 - lives as long as this process
    answers.write("{}\n")  # from here on it is a program's time
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        print(f"---- {line.strip()[:500]}", file=sys.stderr, flush=True)
        answers.write(json.dumps(answer(request)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
