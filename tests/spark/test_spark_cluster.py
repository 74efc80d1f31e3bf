"""exchange() where executors are processes of their own: local-cluster, and a standalone master and worker.

Each job runs in a driver process of its own, since one Python process holds one SparkContext.
"""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from support.programs.spark_driver import PACKAGE_HOME, driver_environment

JOB = """
    import sys
    import flinkbuf as fb
    from pyspark import SparkConf, SparkContext

    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.pyspark.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": PACKAGE_HOME,
    }
    sc = SparkContext(conf=SparkConf().setMaster(MASTER).setAppName("flinkbuf test").setAll(settings.items()))
    records = sc.parallelize(range(20_000), 4).map(lambda number: (number, "name %d" % (number % 97)))

    def gather(part):
        import os
        found = {}
        for number, name in part:
            found.setdefault(name, []).append(number)
        yield os.getpid(), {name: sorted(numbers) for name, numbers in found.items()}

    expected = {"name %d" % name: list(range(name, 20_000, 97)) for name in range(97)}
    for mode, num_partitions in (("pipelined", 2), ("blocking", 4)):
        moved = fb.exchange(records, 1, type="n bigint, name string", num_partitions=num_partitions, mode=mode)
        parts = moved.mapPartitions(gather).collect()
        merged = {}
        for pid, found in parts:
            assert not merged.keys() & found.keys(), "a key is in two partitions"
            merged.update(found)
        assert merged == expected, "records were lost, doubled or changed"
        assert len({pid for pid, _ in parts}) > 1, "all partitions were read in one process"
    assert [len(summary.tasks) for summary in fb.spark.exchange_summaries()] == [2], "the tasks met at the driver"
    big = sc.parallelize([b"x" * 5_000_000] * 3, 3)
    assert fb.exchange(big, type=fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())).map(len).collect() == [5_000_000] * 3
    try:
        fb.exchange(records, 1, type="n bigint, name string", mode="pipelined")
    except ValueError as error:
        assert "runs 4 tasks at once" in str(error) and "has slots for 2" in str(error), error
    else:
        raise AssertionError("4 tasks in 2 slots")
    sc.stop()
    print("moved", sum(map(len, merged.values())))
"""

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def environment():
    return driver_environment()


def run_job(master, environment, folder):
    """Run the job against `master` in a driver of its own and return what it printed."""
    program = f"MASTER, PACKAGE_HOME = {master!r}, {str(PACKAGE_HOME)!r}\n{textwrap.dedent(JOB)}"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=folder, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_exchange_between_executors_of_a_local_cluster(environment, tmp_path):
    import pyspark

    # local-cluster starts its executors through the scripts of a Spark home.
    environment = {**environment, "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    assert run_job("local-cluster[2,1,1024]", environment, tmp_path).strip().endswith("moved 20000")


@pytest.fixture
def standalone_master(environment, tmp_path):
    """A master and two workers on loopback, out of the jars in the pyspark package; gone at the end."""
    import pyspark

    home = Path(pyspark.__file__).parent
    # What Spark's own start scripts would set for the processes that launch the executors.
    environment = {**environment, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
    jars = home / "jars" / "*"
    java = [str(Path(environment["JAVA_HOME"]) / "bin" / "java"), "-Xmx512m", "-cp", str(jars)]
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [[*java, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for index in range(2):
        commands.append(
            [
                *java,
                f"{deploy}.worker.Worker",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "600m",
                "--work-dir",
                str(tmp_path / f"work{index}"),
                master,
            ]
        )
    processes = []
    try:
        for index, command in enumerate(commands):
            with open(tmp_path / f"process{index}.log", "wb") as log:
                process = subprocess.Popen(
                    command, env=environment, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True
                )
            processes.append(process)
            if index == 0:
                wait_for_port(port, processes[0], tmp_path / "process0.log")
        yield master
    finally:
        for process in reversed(processes):
            stop(process)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port, process, log):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"the master did not listen within 60 s:\n{log.read_text()}")


def stop(process):
    """End the process and the executors that it started: they are one group."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
    except ProcessLookupError:
        process.wait(20)


def test_exchange_between_workers_of_a_standalone_cluster(standalone_master, environment, tmp_path):
    assert run_job(standalone_master, environment, tmp_path).strip().endswith("moved 20000")
