"""Fixtures that several test files share: one small Spark for all of them."""

import asyncio
import gc
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from support.known_flakes import KNOWN_FLAKES

TESTS = Path(__file__).parent

# Spark starts its workers with the first python3 on PATH unless it is told otherwise.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# Threads of this process, unless a test asks for more: the quickest that there is.
os.environ["FLINKBUF_PROPERTIES"] = "execution.target: embedded"

# A shell has what it starts beside itself ignore Ctrl-C, and all that this starts; some tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no failure: hypothesis measures nothing here.
settings.register_profile("flinkbuf", deadline=None)
settings.load_profile("flinkbuf")


def pytest_configure(config):
    # py4j leaves the sockets of collect() to the garbage collector, whenever that comes.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


def pytest_unconfigure():
    """Nobody waits at the end of a run for who has looked at a page."""
    if "flinkbuf.web.serving" in sys.modules:
        sys.modules["flinkbuf.web.serving"].close_servers()


def pytest_collection_modifyitems(items):
    """A test has one try. Those that are known to fail by chance, by name and reason, have two."""
    second_try = pytest.mark.flaky(reruns=1)
    for item in items:
        if item.nodeid.partition("[")[0] in KNOWN_FLAKES:
            item.add_marker(second_try)


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"at the first try: {report.nodeid}")
        report.toterminal(terminalreporter._tw)


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
        # functions of test modules run in the workers
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(
            str(folder) for folder in (TESTS, *(TESTS / "spark").glob("**/"))
        ),
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


@pytest.fixture
def does_not_hang(sc):
    """A job of Spark that hangs keeps no slot from the tests that follow."""
    timer = threading.Timer(60, sc.cancelAllJobs)
    timer.start()
    yield
    timer.cancel()
    timer.join()


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_looked_through_once():
    """Collected tests and imported modules stay to the end: the many collections of garbage need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def loops_have_run():
    """libuv keeps two descriptors for the whole process from its first loop on."""
    from flinkbuf.async_io.loop import new_event_loop

    loop = new_event_loop()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def wait_for_timers():
    """A timer of a test has rung when the test goes on, but its thread may not be gone yet."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(1)


@pytest.fixture
def nothing_is_left(loops_have_run):
    """No thread and no open descriptor may outlive a test."""
    wait_for_timers()
    gc.collect()  # what earlier tests have left to it is not missed afterwards
    threads, descriptors = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    yield
    wait_for_timers()
    gc.collect()
    assert threading.active_count() == threads
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
