"""Programs and task managers that are told to end (SIGTERM): jobs stop as was said, and leave nothing behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.programs.told_to_end import EXPECTED
from support.waiting import wait_until

PROGRAM = str(Path(__file__).parents[1] / "support" / "programs" / "told_to_end.py")
FAST_S = 20.0  # of a busy machine; the grace period is 25 s
SAVEPOINT = "execution.termination.mode=SAVEPOINT"


class Program:
    """One run of the program, with temporary files of its own."""

    def __init__(self, directory, *arguments):
        self.directory = directory
        self.temporary = directory / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.log = directory / f"log-{len(list(directory.glob('log-*')))}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, PROGRAM, str(directory), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(self.temporary)},
            )

    @property
    def text(self):
        return self.log.read_text()

    def wait_for(self, name):
        wait_until(lambda: (self.directory / name).exists() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text

    def children(self):
        """All processes below it."""
        found, new = [], [self.process.pid]
        while new:
            pid = new.pop()
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                new += map(int, task.read_text().split())
            found += [each for each in new if each not in found]
        return found

    def tell(self, within_s=FAST_S):
        """Tell it to end; return its exit code, when all that was below it is gone as well."""
        children, begun_s = self.children(), time.monotonic()
        os.kill(self.process.pid, signal.SIGTERM)
        code = self.process.wait(60)
        assert time.monotonic() - begun_s < within_s, self.text
        wait_until(lambda: not [pid for pid in children if is_alive(pid)], 5)
        assert list(self.temporary.iterdir()) == [], "temporary files are left"
        return code


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def run(tmp_path):
    begun = []
    yield lambda *arguments: begun.append(Program(tmp_path, *arguments)) or begun[-1]
    for program in begun:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()


def results(directory):
    """What the sink has committed."""
    paths = (path for path in (directory / "out").rglob("*") if path.is_file())
    return sorted(line for path in paths if path.name[0] not in "._" for line in path.read_text().splitlines())


def checkpoints(directory, interval="50 ms"):
    return [f"execution.checkpointing.interval={interval}", f"execution.checkpointing.dir={directory}/checkpoints"]


def newest(directory):
    """The path of the newest whole checkpoint."""
    numbers = {int(path.parent.name[4:]): path.parent for path in directory.glob("checkpoints/*/chk-*/_metadata")}
    return numbers[max(numbers)]


def ends_well(program):
    assert "Traceback" not in program.text, program.text
    assert "the program closes what it has opened" in program.text


@pytest.mark.parametrize("target", ["embedded", "local"])
@pytest.mark.parametrize(
    ("slow", "sign"), [("open", "opening"), ("map", "running"), ("close", "closing"), ("cancel", "cancelling")]
)
def test_a_program_that_is_told_to_end_ends_in_each_phase(run, tmp_path, target, slow, sign):
    program = run(target, slow, *checkpoints(tmp_path))
    program.wait_for(sign)
    assert program.tell() == 143
    ends_well(program)
    assert "the program sees" not in program.text, "it ends before it hears of its job"
    assert "SIGTERM: job 'counts' is suspended" in program.text
    assert "SIGTERM: the program ends with exit code 143" in program.text


# With an interval of 1 ms there is always one under way.
@pytest.mark.parametrize(("backend", "interval"), [("hashmap", "1 ms"), ("rocksdb", "50 ms")])
def test_a_suspended_job_goes_on_from_its_newest_checkpoint(run, tmp_path, backend, interval):
    options = [*checkpoints(tmp_path, interval), f"state.backend.type={backend}"]
    first = run("local", "map", *options)
    first.wait_for("running")
    wait_until(lambda: list(tmp_path.glob("checkpoints/*/chk-*/_metadata")))
    assert first.tell() == 143
    ends_well(first)
    (tmp_path / "go-on").touch()
    second = run("local", "map", *options, f"execution.state-recovery.path={newest(tmp_path)}")
    assert second.process.wait(60) == 0, second.text
    assert results(tmp_path) == EXPECTED


@pytest.mark.parametrize(("target", "backend"), [("embedded", "rocksdb"), ("local", "hashmap")])
def test_a_job_stops_with_a_savepoint_and_goes_on_from_it(run, tmp_path, target, backend):
    options = [
        f"execution.checkpointing.savepoint-dir={tmp_path}/savepoints",
        SAVEPOINT,
        f"state.backend.type={backend}",
    ]
    options += checkpoints(tmp_path, "10 min")
    first = run(target, "map", *options)
    first.wait_for("running")
    assert first.tell() == 143
    ends_well(first)
    (path,) = re.findall(r"was stopped with savepoint (\S+):", first.text)
    (tmp_path / "go-on").touch()
    second = run(target, "map", *options, f"execution.state-recovery.path={path}")
    assert second.process.wait(60) == 0, second.text
    assert results(tmp_path) == EXPECTED


def test_a_drained_job_is_done(run, tmp_path):
    drain = "execution.termination.drain=true"
    program = run("local", "map", SAVEPOINT, drain, f"execution.checkpointing.savepoint-dir={tmp_path}/savepoints")
    program.wait_for("running")
    assert program.tell() == 0
    ends_well(program)
    assert "job 'counts' drains and stops with a savepoint" in program.text
    assert "the program ends with exit code 0" in program.text


def test_a_program_that_reads_its_job_goes_on_reading_until_the_savepoint_is_whole(run, tmp_path):
    options = [SAVEPOINT, f"execution.checkpointing.savepoint-dir={tmp_path}/savepoints", *checkpoints(tmp_path)]
    program = run("local", "read", *options)
    program.wait_for("running")
    assert program.tell() == 143
    ends_well(program)
    assert "was stopped with savepoint" in program.text


def test_without_a_savepoint_in_time_the_job_is_suspended(run, tmp_path):
    options = [SAVEPOINT, f"execution.checkpointing.savepoint-dir={tmp_path}/savepoints", *checkpoints(tmp_path)]
    program = run("local", "cancel", *options, "execution.termination.grace-period=6 s")
    program.wait_for("cancelling")
    assert program.tell() == 143
    ends_well(program)
    assert "job 'counts' has no savepoint (" in program.text


def test_a_job_that_others_may_take_over_is_left_to_them_at_once(run, tmp_path):
    options = [f"high-availability.storageDir={tmp_path}/ha", "execution.checkpointing.interval=50 ms"]
    first = run("local", "map", *options, "high-availability.lease-timeout=5 min")
    first.wait_for("running")
    second = run("local", "map", *options, "high-availability.lease-timeout=5 min")
    wait_until(lambda: "waiting to take it over" in second.text, 200)
    third = run("local", "map", *options, "high-availability.lease-timeout=5 min")
    wait_until(lambda: "waiting to take it over" in third.text, 200)
    os.kill(third.process.pid, signal.SIGTERM)  # while it waits, nothing is there that could be stopped
    assert third.process.wait(60) == 143, third.text
    ends_well(third)
    os.kill(first.process.pid, signal.SIGTERM)
    assert first.process.wait(60) == 143, first.text
    ends_well(first)
    (tmp_path / "go-on").touch()
    assert second.process.wait(200) == 0, second.text
    assert results(tmp_path) == EXPECTED


def test_a_cancelled_job_keeps_nothing(run, tmp_path):
    program = run("local", "map", "execution.termination.mode=CANCEL", *checkpoints(tmp_path))
    program.wait_for("running")
    wait_until(lambda: list(tmp_path.glob("checkpoints/*/chk-*/_metadata")))
    assert program.tell() == 143
    ends_well(program)
    assert "job 'counts' is cancelled" in program.text
    assert not list(tmp_path.glob("checkpoints/*/chk-*"))


@pytest.mark.parametrize(("slow", "sign", "mode"), [("after", "after", "SUSPEND"), ("map", "running", "NONE")])
def test_without_a_job_or_where_it_is_not_wanted_the_signal_does_what_it_always_does(run, slow, sign, mode):
    program = run("embedded", slow, f"execution.termination.mode={mode}")
    program.wait_for(sign)
    os.kill(program.process.pid, signal.SIGTERM)
    assert program.process.wait(FAST_S) == -signal.SIGTERM
    assert "SIGTERM" not in program.text and "closes" not in program.text


def test_a_second_signal_ends_the_program_at_once(run, tmp_path):
    program = run("local", "cancel", *checkpoints(tmp_path), "task.cancellation.interval=0")
    program.wait_for("cancelling")
    children = program.children()
    os.kill(program.process.pid, signal.SIGTERM)
    time.sleep(0.2)
    os.kill(program.process.pid, signal.SIGTERM)
    assert program.process.wait(10) == 143
    assert "closes" not in program.text
    wait_until(lambda: not [pid for pid in children if is_alive(pid)], 5)


def test_the_end_of_the_grace_period_is_the_end(run, tmp_path):
    program = run("embedded", "cancel", "execution.termination.grace-period=500 ms")
    program.wait_for("opening")
    time.sleep(1.0)  # a function sleeps
    begun_s = time.monotonic()
    os.kill(program.process.pid, signal.SIGTERM)
    assert program.process.wait(FAST_S) == 143
    assert time.monotonic() - begun_s < 10
    assert "is ended" in program.text or "closes" in program.text


# ---- a task manager


def test_a_task_manager_that_is_told_to_end_says_so_and_its_tasks_begin_again_at_once(run, tmp_path):
    slow_to_notice = ["heartbeat.interval=20 s", "heartbeat.timeout=60 s"]
    restart = "restart-strategy.exponential-delay.initial-backoff=10 ms"
    program = run("local", "map", *checkpoints(tmp_path), *slow_to_notice, restart)
    program.wait_for("running")
    launcher = next(pid for pid in program.children() if len(list_children(pid)) == 2)
    manager = list_children(launcher)[0]
    begun_s = time.monotonic()
    os.kill(manager, signal.SIGTERM)
    wait_until(lambda: "begins again: " in program.text)
    assert time.monotonic() - begun_s < 10
    assert "was told to end (SIGTERM)" in program.text
    wait_until(lambda: not is_alive(manager), 5)
    (tmp_path / "go-on").touch()
    assert program.process.wait(60) == 0, program.text
    assert results(tmp_path) == EXPECTED
    assert "Traceback" not in program.text


def list_children(pid):
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
