"""Fixtures that several test files share: one small Spark for all of them."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# Spark starts its workers with the first python3 on PATH unless it is told otherwise.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# A busy machine is no failure: hypothesis measures nothing here.
settings.register_profile("flinkbuf", deadline=None)
settings.load_profile("flinkbuf")


def pytest_configure(config):
    # py4j leaves the sockets of collect() to the garbage collector, whenever that comes.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark():
    """A quiet ``local[2]`` session with few shuffle partitions; it is stopped at the end of the run."""
    from pyspark.sql import SparkSession

    from flinkbuf.spark.java import use_java

    use_java()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",  # tests provoke failures; what matters of them comes back as an exception
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent),  # functions of test modules run in the workers
    }
    builder = SparkSession.builder.master("local[2]").appName("flinkbuf tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def sc(spark):
    """The session's SparkContext."""
    return spark.sparkContext
