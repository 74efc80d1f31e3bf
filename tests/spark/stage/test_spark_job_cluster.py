"""Programs where executors are processes of their own, and where the driver dies; each in a driver of its own."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyspark
import pytest
from support.programs.spark_driver import PACKAGE_HOME, driver_environment

pytestmark = [pytest.mark.spark, pytest.mark.long]

START = """
    import os, signal, sys, time
    from pyspark import SparkConf, SparkContext
    from flinkbuf.common import Configuration, Types
    from flinkbuf.datastream import StreamExecutionEnvironment

    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": PACKAGE_HOME,
    }
    sc = SparkContext(conf=SparkConf().setMaster(MASTER).setAppName("flinkbuf test").setAll(settings.items()))
    configuration = Configuration()
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.attempts", "3")
    configuration.set_string("restart-strategy.fixed-delay.delay", "10 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
"""
KILLED_EXECUTOR = """
    import tempfile
    from flinkbuf.spark.stage.barrier_stage import slot_count

    while slot_count(sc.parallelize(range(2), 2)) < 2:  # on a busy machine executors take their time
        time.sleep(0.1)
    folder = tempfile.mkdtemp()

    def parent_of(pid):
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])

    def kill_executor_once(n):
        try:
            os.mkdir(folder + "/killed")
        except FileExistsError:
            return n
        os.kill(parent_of(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
        time.sleep(30)

    found = []
    numbers = env.from_rdd(sc.parallelize(range(1_000), 2), Types.LONG())
    numbers.map(lambda n: kill_executor_once(n) if n == 700 else n).add_sink(found.append)
    client = env.execute_async("outlives an executor")
    client.get_job_execution_result().result()
    assert set(found) == set(range(1_000)), "records were lost"
    print("restarted", len(found) >= 1_000)
    doubled = env.from_rdd(sc.parallelize(range(10), 2), Types.LONG()).map(lambda n: 2 * n, Types.LONG()).to_rdd()
    print("sum", doubled.sum())
    executors = env.from_collection(range(20)).rebalance().map(lambda n: parent_of(os.getppid()))
    print("executors", len(set(executors.execute_and_collect(limit=99))))

    def forever():
        while True:
            yield 1

    found = []
    env.add_source(forever).rebalance().map(lambda n: n).add_sink(found.append)
    client = env.execute_async("is left alone")
    while not found:
        time.sleep(0.05)
    sc.stop()
    try:
        client.get_job_execution_result().result()
    except RuntimeError as error:
        print("SparkContext was stopped" in str(error))
"""
LONG_JOB = """
    def pid_of(n):
        time.sleep(0.01)
        return os.getpid()

    def forever():
        while True:
            yield 1

    pids = set()
    for pid in env.add_source(forever).rebalance().map(pid_of).execute_and_collect():
        pids.add(pid)
        if len(pids) == 2:
            print("pids", *pids, flush=True)
            pids.add(0)
"""


def start(body, master):
    program = textwrap.dedent(
        f"MASTER, PACKAGE_HOME = {master!r}, {str(PACKAGE_HOME)!r}\n" + START.replace("\n    ", "\n")
    )
    program += textwrap.dedent(body)
    environment = driver_environment(
        SPARK_HOME=str(Path(pyspark.__file__).parent),  # whose scripts start the executors of a local-cluster
        SPARK_LOCAL_HOSTNAME="localhost",
    )
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_job_outlives_the_loss_of_an_executor():
    driver = start(KILLED_EXECUTOR, "local-cluster[2,1,1024]")
    try:
        out, errors = driver.communicate(timeout=150)
    finally:
        driver.kill()
    assert driver.returncode == 0, errors[-4000:]
    assert out.split() == ["restarted", "True", "sum", "90", "executors", "2", "True"]


def processes_of(session):
    """All that live in a session, and belong to it still."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry))
    return found


def test_nothing_outlives_a_driver_that_is_killed():
    driver = start(LONG_JOB, "local[2]")
    try:
        line = driver.stdout.readline()
        assert line.startswith("pids "), driver.stderr.read()[-4000:]
        workers = [int(pid) for pid in line.split()[1:] if pid != "0"]
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        deadline = time.monotonic() + 30
        while any(map(is_alive, workers)) or processes_of(driver.pid):
            assert time.monotonic() < deadline, f"{workers} and {processes_of(driver.pid)} are still there"
            time.sleep(0.1)
    finally:
        driver.kill()
        driver.stdout.close()
        driver.stderr.close()


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
