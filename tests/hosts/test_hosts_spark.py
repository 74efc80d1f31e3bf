"""A standalone cluster of Spark on hosts of its own, through all doors, and what lies between the hosts broken.

Whatever it is, what comes out is exact, or an error comes within the time that is set which says where it was; and
nothing stays on any host.
"""

import json
import re
import shutil
import sys
import time

import pytest
from support.hosts.hosts import SHARED
from support.hosts.spark_hosts import (
    BLOCK_PORT,
    DATA_PORTS,
    DRIVER_PORT,
    FLINKBUF_DRIVER_PORTS,
    PAGE_PORT,
    PATIENT_S,
    WORKERS,
    SparkHosts,
)
from support.programs.hosts_job import TOKEN, check_output
from support.waiting import wait_until

pytestmark = pytest.mark.hosts

ENDED_S = 60
S3_PORT = 9100
SLOW_S = 6  # so long an exchange takes that is to be disturbed


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SparkHosts(tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture(scope="module")
def shared_driver(cluster):
    drivers = []

    def get():
        if not drivers or drivers[-1].process.poll() is not None:
            drivers.append(cluster.start_driver())
        return drivers[-1]

    yield get
    if drivers and drivers[-1].process.poll() is None:
        drivers[-1].stop()
    deadline = time.monotonic() + 30
    while (left := cluster.leftovers()) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left


@pytest.fixture
def driver(cluster, shared_driver):
    """One that runs, on a network that is whole; nothing is left of what it was asked for."""
    found = shared_driver()
    yield found
    cluster.hosts.mend()
    wait_until(lambda: not cluster.sockets_left(), 30)
    for path in cluster.hosts.shared.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def ranges(*texts):
    return [tuple(map(int, (str(text).split("-") * 2)[:2])) for text in texts]


def close_all_other_ports(hosts):
    """Let in at the ports that the deployment guide says, and at no other."""
    spark = [f"{BLOCK_PORT}-{BLOCK_PORT + 8}", "7076"]
    hosts.set(list(WORKERS), "driver", both=False, ports=ranges(*spark, DRIVER_PORT, FLINKBUF_DRIVER_PORTS))
    hosts.set("driver", list(WORKERS), both=False, ports=ranges(*spark))
    hosts.set(list(WORKERS), list(WORKERS), ports=ranges(*spark, DATA_PORTS))
    hosts.set(None, "outside", both=False, ports=[])
    hosts.set("outside", "driver", both=False, ports=ranges(PAGE_PORT))


def test_all_doors_with_no_more_ports_open_than_the_guide_says(cluster, driver):
    close_all_other_ports(cluster.hosts)
    said = driver.result("all_doors")
    assert [each["hosts"] for each in said.values()] == [list(WORKERS)] * 4


def test_the_drivers_port_is_named_when_it_is_closed(cluster, driver):
    cluster.hosts.set(list(WORKERS), "driver", both=False, ports=ranges(BLOCK_PORT, DRIVER_PORT))
    driver.ask("exchange_rdd", mode="pipelined", parts=4)
    error = driver.answer(60)["error"]
    assert re.search(r"worker\d cannot reach the driver at driver:710\d: no answer", error)
    assert "spark.flinkbuf.driver.port" in error


@pytest.mark.parametrize("door", ["exchange_rdd", "job"])
def test_the_data_port_is_named_when_it_is_closed(cluster, driver, door):
    cluster.hosts.set(list(WORKERS), list(WORKERS), ports=ranges(f"{BLOCK_PORT}-{BLOCK_PORT + 8}"))
    arguments = {"mode": "pipelined", "parts": 4} if door == "exchange_rdd" else {"options": ONCE}
    driver.ask(door, **arguments)
    error = driver.answer(60)["error"]
    assert re.search(r"10\.77\.0\.\d:720\d: connecting took too long", error), error
    assert "taskmanager.data.port" in error


ONCE = {"restart-strategy.type": "none"}
DISTURBANCES = {
    "a slow line that loses": {"delay_s": 0.005, "loss": 0.02},
    "50 ms and 100 Mbit/s": {"delay_s": 0.05, "bytes_a_second": 12.5e6},
    "a link is cut for a moment": {"one": "worker1", "other": "worker2", "is_cut": True, "seconds": 1.5},
    "a link is cut": {"one": "worker1", "other": "worker2", "is_cut": True},
    "a link is cut one way": {"one": "worker1", "other": "worker2", "both": False, "is_cut": True},
    "a host is cut off": {"one": "worker3", "is_cut": True},
    "a host hears all and is not heard": {"one": "worker3", "both": False, "is_cut": True},
    "the driver is cut off from one": {"one": "driver", "other": "worker3", "is_cut": True},
    "half is cut off": {"one": ["worker2", "worker3"], "other": ["worker1", "driver", "master"], "is_cut": True},
}
IS_EXACT = ["a slow line that loses", "50 ms and 100 Mbit/s", "a link is cut for a moment"]


def disturb(hosts, name):
    changes = dict(DISTURBANCES[name])
    seconds = changes.pop("seconds", None)
    hosts.set(**changes)
    if seconds:
        time.sleep(seconds)
        hosts.mend()


@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_an_exchange_is_exact_or_ends_in_time(cluster, driver, disturbance):
    said = disturbed(cluster, driver, disturbance, "exchange_rdd", "pipelined")
    check_exact_or_where(disturbance, said)


def disturbed(cluster, driver, disturbance, door, mode):
    """Return what comes of a slow exchange that is disturbed once all its tasks are at work."""
    driver.ask(door, mode=mode, parts=4, seconds=SLOW_S)
    wait_until(lambda: len(list(cluster.hosts.shared.glob("works-*"))) == 4, 40)
    disturb(cluster.hosts, disturbance)
    return driver.answer(ENDED_S)


def check_exact_or_where(disturbance, said):
    """The result was compared by the driver; an error says between which hosts it was."""
    if disturbance in IS_EXACT:
        assert "error" not in said, said["error"]
    elif "error" in said:
        assert re.search(r"10\.77\.0\.\d:\d+", said["error"]), said["error"]


@pytest.mark.parametrize("disturbance", ["a link is cut for a moment", "a host is cut off"])
def test_an_exchange_of_data_frames_is_exact_or_ends_in_time(cluster, driver, disturbance):
    said = disturbed(cluster, driver, disturbance, "exchange_frame", "pipelined")
    check_exact_or_where(disturbance, said)


@pytest.mark.parametrize("door", ["exchange_rdd", "exchange_frame"])
def test_a_blocking_exchange_is_exact_without_the_host_that_is_cut_off(cluster, driver, door):
    """Spark computes again what was there, once it has given the host up."""
    said = disturbed(cluster, driver, "a host is cut off", door, "blocking")
    assert "error" not in said, said["error"]


@pytest.mark.parametrize("disturbance", [each for each in DISTURBANCES if each not in IS_EXACT])
def test_a_job_goes_on_behind_every_disturbance(cluster, driver, disturbance):
    hosts = cluster.hosts
    driver.ask("job")
    wait_until(lambda: len(list(hosts.shared.glob("checkpoints/*/chk-*/_metadata"))) > 0, 40)
    disturb(hosts, disturbance)
    time.sleep(8)
    (hosts.shared / "go-on").touch()
    time.sleep(PATIENT_S)
    hosts.mend()
    said = driver.answer(ENDED_S)
    assert "error" not in said, said["error"]
    check_output(hosts.shared)


def test_the_page_is_seen_from_another_host(cluster, driver):
    driver.ask("job")
    job_id = driver.job_id()
    fetch = """
import sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": f"Bearer {sys.argv[2]}"})
print(urllib.request.urlopen(request, timeout=10).read().decode())
"""
    said = cluster.hosts["outside"].run(sys.executable, "-c", fetch, f"http://driver:{PAGE_PORT}/jobs", TOKEN)
    assert {"id": job_id, "status": "CREATED"} in json.loads(said)["jobs"]
    (cluster.hosts.shared / "go-on").touch()
    assert "error" not in driver.answer(ENDED_S)
    check_output(cluster.hosts.shared)


def test_a_driver_that_dies_is_taken_over_on_another_host(cluster, driver):
    """Its process is killed; the job is noted in a directory that both hosts have."""
    options = {"high-availability.storageDir": f"{SHARED}/ha", "high-availability.lease-timeout": "3 s"}
    shared = cluster.hosts.shared
    driver.ask("job", options=options)
    job_id = driver.job_id()
    wait_until(lambda: len(list(shared.glob("checkpoints/*/chk-[3-9]/_metadata"))) > 0, 40)
    driver.process.kill()
    second = cluster.start_driver(host="driver2")
    second.ask("job", options=options)
    assert second.job_id() == job_id
    (shared / "go-on").touch()
    said = second.answer(ENDED_S)
    assert said["result"]["job"] == job_id
    assert said["result"]["restored"] >= 2
    check_output(shared)
    second.stop()


# ---- checkpoints on an S3 server of another host


@pytest.fixture(scope="module")
def s3(cluster):
    """moto's server on a host of its own, and the options of a job that has its checkpoints there."""
    pytest.importorskip("moto.server", reason="an S3 server is needed: pip install 'moto[s3]' flask flask-cors")
    host = cluster.hosts["outside"]
    server = host.start(sys.executable, "-m", "moto.server", "-H", "0.0.0.0", "-p", S3_PORT)
    make = f"""
import time, urllib.request
for _ in range(300):
    try:
        urllib.request.urlopen(urllib.request.Request("http://outside:{S3_PORT}/checkpoints", method="PUT"), timeout=5)
        break
    except OSError:
        time.sleep(0.1)
else:
    raise SystemExit("the S3 server does not come up")
"""
    host.run(sys.executable, "-c", make)
    cluster.resting["outside"] = cluster._own_processes(host)
    yield lambda name: {
        "execution.checkpointing.dir": f"s3://checkpoints/{name}?endpoint_override=outside:{S3_PORT}&scheme=http&"
        "region=us-east-1",
        "execution.checkpointing.data-inline-threshold": "0 b",
    }
    server.kill()
    cluster.resting["outside"] = cluster._own_processes(host)


def wait_for_objects(cluster, name, at_least):
    """Wait until so many checkpoints were completed in the bucket."""
    script = f"""
import re, urllib.request
text = urllib.request.urlopen("http://outside:{S3_PORT}/checkpoints?list-type=2&prefix={name}/", timeout=10).read()
print(max(map(int, re.findall(r"chk-(\\d+)/_metadata", text.decode())), default=0))
"""
    outside = cluster.hosts["outside"]
    assert wait_until(lambda: int(outside.run(sys.executable, "-c", script)) >= at_least, 60, 0.2)


S3_DISTURBANCES = {
    "a slow line that loses": {"one": "outside", "delay_s": 0.005, "loss": 0.02},
    "50 ms and 10 Mbit/s": {"one": "outside", "delay_s": 0.05, "bytes_a_second": 1.25e6},
    "one worker is cut off from it": {"one": "outside", "other": "worker3", "is_cut": True, "seconds": 8},
    "the driver is cut off from it": {"one": "outside", "other": "driver", "is_cut": True, "seconds": 8},
    "it hears all and is not heard": {"one": "outside", "both": False, "is_cut": True, "seconds": 8},
}


@pytest.mark.parametrize("disturbance", S3_DISTURBANCES)
def test_a_job_with_checkpoints_on_s3_is_exact_behind_every_disturbance(cluster, driver, s3, disturbance):
    changes = dict(S3_DISTURBANCES[disturbance])
    seconds = changes.pop("seconds", 0)
    name = re.sub(r"\W+", "-", disturbance)
    driver.ask("job", options=s3(name))
    wait_for_objects(cluster, name, 1)
    cluster.hosts.set(**changes)
    time.sleep(seconds)
    if seconds:
        cluster.hosts.mend()
    time.sleep(2)
    (cluster.hosts.shared / "go-on").touch()
    said = driver.answer(ENDED_S)
    assert "error" not in said, said["error"]
    check_output(cluster.hosts.shared)
