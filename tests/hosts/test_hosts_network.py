"""The network of flinkbuf between hosts: a partition on one, a gate on another one, and what lies between them broken.

Whatever it is, either all records arrive as they were written, or both ends have an error within the time that is
configured which names the other end.
"""

import json
import subprocess
import sys
import textwrap
import time

import pytest
from support.hosts.hosts import hosts_or_skip
from support.programs.spark_driver import PACKAGE_HOME
from support.waiting import wait_until

import flinkbuf as fb

pytestmark = pytest.mark.hosts

PROGRAM = PACKAGE_HOME / "tests" / "support" / "programs" / "network_pair.py"
PATIENT_S = 3  # so long a machine may be silent in the tests that cut
SOON = {
    "dead_peer_timeout_ms": PATIENT_S * 1000,
    "netty_client_tcp_keep_idle_s": 1,
    "netty_client_tcp_keep_interval_s": 1,
    "netty_client_tcp_keep_count": 2,
    "netty_client_connect_timeout_s": PATIENT_S,
}
LINES = {
    "at once": {},
    "0.2 ms": {"delay_s": 0.0002},
    "5 ms, 100 Mbit/s": {"delay_s": 0.005, "bytes_a_second": 12.5e6},
    "50 ms": {"delay_s": 0.05},
    "5 ms, 0.1 % lost": {"delay_s": 0.005, "loss": 0.001},
    "0.2 ms, 2 % lost": {"delay_s": 0.0002, "loss": 0.02},
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with hosts_or_skip(["writer", "reader"], tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_is_left(hosts):
    yield
    hosts.mend()
    for host in hosts:
        assert wait_until(lambda host=host: not host.processes(), 10), host.processes()
        assert wait_until(lambda host=host: not host.sockets(), 20), host.sockets()
        assert not host.files()


class Pair:
    """The two processes of one exchange."""

    def __init__(self, hosts, *, records=None, channels=1, size=100, **config):
        self.settings = {
            "host": "writer",
            "partition": fb.network.ResultPartitionID.random().hex(),
            "records": records,
            "channels": channels,
            "size": size,
            "config": config,
        }
        self.hosts = hosts
        self.writer = self.start("writer", "write")
        self.writer.wait_for("\n")
        self.settings["port"] = self.port = int(self.writer.output().split()[1])

    def start(self, host, what):
        command = sys.executable, PROGRAM, what, json.dumps(self.settings)
        return self.hosts[host].start(*command, PYTHONPATH=str(PACKAGE_HOME))

    def read(self, *, is_running=False):
        self.reader = self.start("reader", "read")
        if is_running:
            self.reader.wait_for("reads")
        return self

    def check_exact(self, timeout_s=60):
        found = [self.end_of(process, timeout_s) for process in (self.reader, self.writer)]
        assert [end["errors"] for end in found] == [[], []]
        assert found[0]["counts"] == [self.settings["records"]] * self.settings["channels"]
        return found[0]["seconds"]

    def check_lost(self, timeout_s):
        """Both ends have said why within the time, and where the other one is."""
        for process, other in ((self.reader, f"writer/10.77.0.1:{self.port}"), (self.writer, "10.77.0.2:")):
            errors = self.end_of(process, timeout_s)["errors"]
            assert errors, process.said()
            assert all(error.startswith("RemoteTransportError") for error in errors), errors
            assert all(other.partition("/")[2] in error or other in error for error in errors), errors

    def end_of(self, process, timeout_s):
        process.wait(timeout_s)
        return json.loads(process.output().splitlines()[-1])


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(("channels", "size"), [(1, 8), (8, 10_000)])
def test_all_records_arrive_over_every_line(hosts, line, channels, size):
    hosts.set(**LINES[line])
    Pair(hosts, records=1_000_000 // (size * channels) * 2, channels=channels, size=size).read().check_exact()


def test_a_cut_within_a_frame_that_is_mended_changes_nothing(hosts):
    for cut_after in (100_001, 1_234_567):
        pair = Pair(hosts, records=2_000, size=2_000)
        hosts.set("writer", "reader", both=False, cut_after=cut_after)
        pair.read()
        time.sleep(1.5)
        assert pair.reader.poll() is None
        hosts.mend()
        pair.check_exact()


# Who is cut off from whom: what is sent from the first to the second is lost, or what both send.
CUTS = {
    "both ways": {"one": "writer", "other": "reader"},
    "what the writer sends": {"one": "writer", "other": "reader", "both": False},
    "what the reader sends": {"one": "reader", "other": "writer", "both": False},
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("within_frame", [False, True])
def test_a_cut_for_good_is_an_error_on_both_hosts(hosts, cut, within_frame):
    pair = Pair(hosts, size=2_000, **SOON).read(is_running=True)
    if within_frame:
        hosts.set(**CUTS[cut], cut_after=12_345)
    else:
        hosts.set(**CUTS[cut], is_cut=True)
    pair.check_lost(3 * PATIENT_S)


@pytest.mark.parametrize("name", ["writer", "reader"])
def test_an_interface_that_goes_down_is_an_error_on_both_hosts(hosts, name):
    pair = Pair(hosts, **SOON).read(is_running=True)
    hosts[name].set_interface("down")
    try:
        pair.check_lost(3 * PATIENT_S)
    finally:
        hosts[name].set_interface("up")


def test_a_port_that_is_closed_by_a_firewall_is_named(hosts):
    pair = Pair(hosts, records=10, **SOON)
    hosts.set("reader", "writer", both=False, ports=[(1, 1023)])
    pair.read()
    (error,) = pair.end_of(pair.reader, PATIENT_S + 10)["errors"]
    assert "connecting took too long; is the task there still running, and do firewalls let this host in" in error
    assert f"at TCP 10.77.0.1:{pair.port}?" in error
    assert "The ports to open are those of taskmanager.data.port" in error
    pair.writer.kill()


def test_hosts_end_with_the_process_that_made_them(hosts, tmp_path):
    """Killed, it can clean nothing up: the kernel does."""
    script = f"""
        import sys, time
        sys.path.insert(0, {str(PACKAGE_HOME / "tests")!r})
        from pathlib import Path
        from support.hosts.hosts import Hosts
        with Hosts(["one", "other"], Path({str(tmp_path)!r}) / "made") as hosts:
            hosts["one"].start("sleep", "1234567")
            time.sleep(0.2)
            print(*(host.pid for host in hosts), *hosts["one"].processes(), flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as maker:
        pids = list(map(int, maker.stdout.readline().split()))
        assert len(pids) == 3
        maker.kill()
    for pid in pids:
        assert wait_until(lambda pid=pid: not is_running(pid), 10), pid


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
