"""The opt-in suite of `make test-interop`: flinkbuf against the classes of Apache Flink, which that target fetches.

FLINKBUF_INTEROP is the folder with Flink's jars and our compiled peer. Without it nothing here is collected.
"""

import os
import signal
from pathlib import Path

import pytest
from support.waiting import wait_until

import flinkbuf as fb

HOME = os.environ.get("FLINKBUF_INTEROP")
TEST_SECONDS = 120

collect_ignore_glob = [] if HOME else ["*.py"]
OURS = []  # environments that tests have open


@pytest.fixture(autouse=True)
def watchdog():
    """A test that hangs fails instead, and shows what our side was waiting for."""

    def expire(signum, frame):
        for environment in OURS:
            print(environment.metrics())
        raise TimeoutError(f"the test has taken more than {TEST_SECONDS} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def start_peer(tmp_path_factory):
    """Starts JVMs; what still runs at the end is ended."""
    from flink_peer import FlinkPeer

    from flinkbuf.spark.java import find_java

    home = Path(HOME)
    (jars,) = {path.parent for path in home.rglob("flink-dist-*.jar")}
    names = [jar for jar in jars.glob("*.jar") if jar.name.startswith(("flink-dist-", "log4j-"))]
    classpath = os.pathsep.join(map(str, [home / "classes", *names]))
    log = Path(__file__).parent / "java" / "log4j2.properties"
    peers = []

    def start():
        peers.append(FlinkPeer(find_java() / "bin" / "java", classpath, log, tmp_path_factory.mktemp("flink")))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


@pytest.fixture(scope="session")
def peer(start_peer):
    """The JVM that most tests share."""
    return start_peer()


@pytest.fixture
def open_flink(peer):
    """Opens networks of Flink TaskManagers; at the end each must have all of its segments."""
    from flink_peer import FlinkEnvironment

    opened = []

    def open(config=None, options=()):
        opened.append(FlinkEnvironment(peer, config or fb.NetworkConfig(), options))
        return opened[-1]

    yield open
    for environment in opened:
        environment.close()


@pytest.fixture
def open_ours():
    """Opens networks of ours; at the end each must have all of its segments."""

    def open(config=None, **options):
        OURS.append(fb.NetworkEnvironment(config, **options))
        return OURS[-1]

    yield open
    while OURS:
        environment = OURS.pop()
        release_all(environment)
        environment.close()


def release_all(environment):
    pool = environment.pool
    for gate in list(environment._gates):
        gate.close()
    for partition in environment._partitions.values():
        partition.close()
        partition.release()
    wait_until(lambda: pool.available_segment_count == pool.total_segment_count)
