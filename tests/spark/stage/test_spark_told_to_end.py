"""Drivers and Python workers of Spark that are told to end (SIGTERM)."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.programs.spark_driver import driver_environment
from support.programs.told_to_end import EXPECTED
from support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("does_not_hang")]
PROGRAM = Path(__file__).parents[2] / "support" / "programs" / "told_to_end.py"


@pytest.fixture
def run(tmp_path):
    begun = []

    def begin(target, *options):
        with (tmp_path / f"log-{len(begun)}").open("w") as log:
            command = [sys.executable, str(PROGRAM), str(tmp_path), target, "map", *options]
            environment = driver_environment(TMPDIR=str(tmp_path))
            begun.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment))
        begun[-1].text = (tmp_path / f"log-{len(begun) - 1}").read_text
        return begun[-1]

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_for(process, condition):
    wait_until(lambda: condition() or process.poll() is not None, 180)
    assert process.poll() is None, process.text()


def results(directory):
    paths = (path for path in (directory / "out").rglob("*") if path.is_file() and path.name[0] not in "._")
    return sorted(line for path in paths for line in path.read_text().splitlines())


def processes(directory):
    return {int(path.name[8:]) for path in directory.glob("process-*")}


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_driver_stops_its_job_with_a_savepoint_and_leaves_no_process(run, tmp_path):
    options = [f"execution.checkpointing.savepoint-dir={tmp_path}/savepoints", "execution.checkpointing.interval=1 min"]
    driver = run("spark", "execution.termination.mode=SAVEPOINT", *options)
    wait_for(driver, (tmp_path / "running").exists)
    workers = processes(tmp_path)
    begun_s = time.monotonic()
    os.kill(driver.pid, signal.SIGTERM)
    assert driver.wait(60) == 143, driver.text()
    assert time.monotonic() - begun_s < 27
    assert "is ended" not in driver.text()
    text = driver.text()
    assert "Traceback" not in text and "the program closes what it has opened" in text
    (path,) = re.findall(r"was stopped with savepoint (\S+):", text)
    wait_until(lambda: not any(map(is_alive, workers)), 20)
    (tmp_path / "go-on").touch()
    again = run("local", f"execution.state-recovery.path={path}", *options)
    assert again.wait(60) == 0, again.text()
    assert results(tmp_path) == EXPECTED


def test_a_worker_says_that_it_was_told_to_end_and_its_log_has_fields(run, tmp_path):
    patient = ["heartbeat.interval=20 s", "heartbeat.timeout=60 s", "log.format=JSON"]
    checkpoints = ["execution.checkpointing.interval=50 ms", f"execution.checkpointing.dir={tmp_path}/checkpoints"]
    driver = run("spark", *checkpoints, *patient)
    wait_for(driver, lambda: (tmp_path / "running").exists() and len(processes(tmp_path)) == 2)
    worker = min(processes(tmp_path))
    begun_s = time.monotonic()
    os.kill(worker, signal.SIGTERM)
    wait_for(driver, lambda: "begins again: " in driver.text())
    assert time.monotonic() - begun_s < 20
    assert "was told to end (SIGTERM)" in driver.text()
    wait_until(lambda: not is_alive(worker), 10)
    (tmp_path / "go-on").touch()
    assert driver.wait(120) == 0, driver.text()
    assert results(tmp_path) == EXPECTED
    lines = [json.loads(line) for line in driver.text().splitlines() if line.startswith('{"time"')]
    opened = [line for line in lines if line["message"] == "opened"]
    assert {line["subtask"] for line in opened} == {0, 1} and {line["attempt"] for line in opened} >= {0, 1}
    assert {line["process"] for line in opened} == processes(tmp_path)
    assert all(line["job"] == "counts" and line["task"] for line in opened)
    (restart,) = [line for line in lines if "begins again" in line["message"]]
    assert restart["job"] == "counts" and "task" not in restart
