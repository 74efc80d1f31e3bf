"""Programs that are drivers of Spark of their own, in processes of their own."""

import os
import sys
from pathlib import Path

import flinkbuf as fb
from flinkbuf.spark.java import find_java

PACKAGE_HOME = Path(fb.__file__).parent.parent


def driver_environment(**more):
    """What every such process gets: the Java that was found, loopback only, this interpreter for the workers."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "FLINKBUF_"))}
    return {
        **variables,
        "JAVA_HOME": str(find_java()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(PACKAGE_HOME),
        **more,
    }
