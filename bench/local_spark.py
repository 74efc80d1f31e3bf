"""The one Spark session of all benchmarks that run in this process: quiet, on two cores."""

import functools
import os
import sys

CORES = 2
AVRO_JAR = os.environ.get("FLINKBUF_AVRO_JAR", "")  # of spark-avro, which PySpark does not bring


@functools.cache
def session():
    """Return it; the first call starts Spark."""
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.executorEnv.PYTHONPATH": os.path.dirname(os.path.abspath(__file__)),
    }
    if AVRO_JAR:
        settings["spark.jars"] = AVRO_JAR
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
