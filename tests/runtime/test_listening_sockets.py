"""What a job listens at is what SECURITY.md says, in all of its processes."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LISTENING = "0A"  # the state in the system's table
PROGRAM = """
import sys
from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource

pairs = dict(each.split("=") for each in sys.argv[1:])
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(pairs)).set_parallelism(2)
source = DataGeneratorSource(int, 10**9, records_per_second=100)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
numbers.key_by(lambda value: value % 7, Types.LONG()).map(lambda value: value)
job = env.execute_async("listens")
while job.get_job_status().result().name != "RUNNING" or not all(
    each["status"] == "RUNNING" for each in job._job.details()["vertices"]
):
    pass
print("runs", flush=True)
sys.stdin.read()
job.cancel().result()
"""


def processes_of(process_id):
    """It and all that it has started."""
    found = [process_id]
    for children in Path(f"/proc/{process_id}/task").glob("*/children"):
        for child in children.read_text().split():
            found += processes_of(int(child))
    return found


def listening(process_id):
    """Return addresses at which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{process_id}/fd").iterdir():
        with contextlib.suppress(OSError):
            if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor)):
                inodes.add(found[1])
    addresses = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for row in Path(f"/proc/{process_id}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = row.split()[:10]
            if inode in inodes and (state == LISTENING or table.startswith("udp")):
                addresses.append(local.partition(":")[0])
    return addresses


@contextlib.contextmanager
def running(**settings):
    command = [sys.executable, "-c", PROGRAM, *(f"{key.replace('_', '.')}={value}" for key, value in settings.items())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout.readline() == "runs\n"
            yield program.pid
        finally:
            program.stdin.close()
            program.wait(60)


@pytest.mark.parametrize("is_seen", [True, False], ids=["with a page", "without"])
def test_an_embedded_job_listens_for_its_page_alone(is_seen):
    with running(execution_target="embedded", rest_enabled=str(is_seen).lower()) as process_id:
        found = [listening(each) for each in processes_of(process_id)]
    assert found == [["0100007F"] if is_seen else []]


def test_a_job_on_processes_has_one_socket_for_control_and_one_for_each_managers_data():
    with running(execution_target="local", rest_enabled="true") as process_id:
        found = {each: listening(each) for each in processes_of(process_id)}
    assert found.pop(process_id) == ["0100007F"] * 2, "the page and control"
    assert sorted(found.values())[-2:] == [["0100007F"]] * 2, "task managers: data"
    assert [each for each in found.values() if each not in ([], ["0100007F"])] == []
    assert sum(map(len, found.values())) == 2
