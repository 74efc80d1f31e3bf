"""Spark on YARN, through all doors, with checkpoints on HDFS; containers and daemons that are killed."""

import os
import shutil
import signal
import sys
import time

import pytest
from support.hosts.spark_hosts import WORKERS
from support.hosts.yarn_hosts import URI, YarnHosts
from support.programs.hosts_job import check_output
from support.servers.hadoop_daemons import DATANODE, NAMENODE
from support.waiting import wait_until

pytestmark = pytest.mark.hosts

ENDED_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with YarnHosts(tmp_path_factory.mktemp("yarn")) as made:
        yield made


class SharedDriver:
    """One for all tests that want one; it has all the slots there are."""

    def __init__(self, cluster):
        self.cluster, self.started = cluster, None

    def get(self):
        if self.started is None:
            self.started = self.cluster.start_driver()
        return self.started

    def stop(self):
        if self.started is not None:
            self.started.stop()
            self.started = None
            assert wait_until(lambda: not self.cluster.leftovers(), 30), self.cluster.leftovers()


@pytest.fixture(scope="module")
def shared_driver(cluster):
    shared = SharedDriver(cluster)
    yield shared
    shared.stop()


@pytest.fixture
def driver(shared_driver):
    return shared_driver.get()


@pytest.fixture(autouse=True)
def nothing_is_shared(cluster):
    yield
    for path in cluster.hosts.shared.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def on_hdfs(name, **options):
    return {"execution.checkpointing.dir": f"{URI}/checkpoints/{name}", **options}


def wait_for_checkpoints(cluster, name, at_least):
    """Wait until a job has completed so many, as the NameNode lists them."""
    script = f"""
import sys
from hdfs_native import Client
names = [each.path.split("/") for each in Client("{URI}").list_status("/checkpoints/{name}", True)]
print(max((int(name[-2].split("-")[1]) for name in names if name[-1] == "_metadata"), default=0))
"""

    def count():
        process = cluster.hosts["driver2"].start(sys.executable, "-c", script)
        return process.wait(30) == 0 and int(process.output()) >= at_least

    assert wait_until(count, 60, 0.3)


def test_all_doors(cluster, driver):
    said = driver.result("all_doors")
    assert [each["hosts"] for each in said.values()] == [list(WORKERS)] * 4


def test_a_job_whose_container_is_killed_goes_on(cluster, driver):
    """Another container takes its place, and the job begins again from its checkpoint on HDFS."""
    driver.ask("job", options=on_hdfs("killed"))
    wait_for_checkpoints(cluster, "killed", 2)
    before = cluster.containers()
    _, pid, killed = before[-1]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(cluster.containers()) == len(before) and cluster.containers() != before, 60)
    (cluster.hosts.shared / "go-on").touch()
    said = driver.answer(ENDED_S)
    assert "error" not in said, said["error"]
    assert said["result"]["restored"] >= 2
    assert killed not in {each[2] for each in cluster.containers()}
    check_output(cluster.hosts.shared)


def test_a_job_goes_on_without_a_data_node_and_over_a_new_name_node(cluster, driver):
    driver.ask("job", options=on_hdfs("daemons"))
    wait_for_checkpoints(cluster, "daemons", 2)
    cluster.daemons["worker1", DATANODE].kill()
    time.sleep(1)
    cluster.daemons["master", NAMENODE].kill()
    time.sleep(1)
    cluster.start_daemon("master", NAMENODE)
    cluster.start_daemon("worker1", DATANODE)
    wait_for_checkpoints(cluster, "daemons", 4)
    (cluster.hosts.shared / "go-on").touch()
    said = driver.answer(ENDED_S)
    assert "error" not in said, said["error"]
    check_output(cluster.hosts.shared)


def test_a_driver_that_dies_is_taken_over_from_its_directory_on_hdfs(cluster, shared_driver):
    shared_driver.stop()
    options = on_hdfs(
        "taken", **{"high-availability.storageDir": f"{URI}/ha", "high-availability.lease-timeout": "3 s"}
    )
    first = cluster.start_driver(**{"spark.executor.instances": "2"})
    first.ask("job", options=options)
    job_id = first.job_id()
    wait_for_checkpoints(cluster, "taken", 3)
    first.process.kill()
    second = cluster.start_driver(host="driver2", **{"spark.executor.instances": "2"})
    second.ask("job", options=options)
    assert second.job_id() == job_id
    (cluster.hosts.shared / "go-on").touch()
    said = second.answer(ENDED_S)
    assert "error" not in said, said["error"]
    assert said["result"]["job"] == job_id
    assert said["result"]["restored"] >= 2
    check_output(cluster.hosts.shared)
    second.stop()
