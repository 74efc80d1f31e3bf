"""Jobs that outlive their program: killed, started again, recovered without it, and one that only stood still."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parents[1] / "support" / "programs" / "ha_program.py")
OUTAGE_PROGRAM = str(Path(__file__).parents[1] / "support" / "programs" / "ha_outage_program.py")
KEYS, COUNT = 5, 300  # as the program has them
EXPECTED = sorted(f"{key} {count}" for key in range(KEYS) for count in range(1, COUNT + 1))


class Program:
    """One run of the program."""

    def __init__(self, directory, *command):
        self.directory = directory
        self.log = directory / f"log-{len(list(directory.glob('log-*')))}"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *(command or (PROGRAM, str(directory)))], stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def text(self):
        return self.log.read_text()

    def wait_for(self, pattern, timeout_s=60):
        deadline = time.monotonic() + timeout_s
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < deadline and self.process.poll() is None, self.text
            time.sleep(0.05)
        return found

    def signal(self, number):
        os.kill(self.process.pid, number)

    def end(self, code=0):
        assert self.process.wait(120) == code, self.text
        return self.text


@pytest.fixture
def programs():
    begun = []
    yield lambda *arguments: begun.append(Program(*arguments)) or begun[-1]
    for program in begun:
        if program.process.poll() is None:
            program.signal(signal.SIGCONT)
            program.process.kill()
            program.process.wait()


def results(directory):
    lines = []
    for path in (directory / "out").rglob("*"):
        if path.is_file() and not path.name.startswith((".", "_")):
            lines += path.read_text().splitlines()
    return sorted(lines)


def epochs(directory):
    """That stand in the names of files in progress."""
    names = " ".join(path.name for path in (directory / "out").rglob(".*"))
    return set(map(int, re.findall(r"\.inprogress\.[0-9a-f]{16}-\d+\.\d+\.(\d+)\.", names)))


def job_id(program):
    return program.wait_for(r"/([0-9a-f]{32})/chk-").group(1)


def test_a_program_that_is_started_again_goes_on_with_its_job(programs, tmp_path):
    first = programs(tmp_path)
    first.wait_for("checkpoint 4 is complete")
    first.signal(signal.SIGKILL)
    second = programs(tmp_path)
    assert second.wait_for(r"goes on from checkpoint (\d+)").group(1) >= "4"
    (tmp_path / "go-on").touch()
    assert second.end().splitlines()[-1] == job_id(first)
    assert results(tmp_path) == EXPECTED
    third = programs(tmp_path).end()
    assert "has ended before, FINISHED, and is not run again" in third
    assert third.splitlines()[-1] == job_id(first)
    assert results(tmp_path) == EXPECTED


def test_a_second_program_waits_until_the_first_is_gone(programs, tmp_path):
    first = programs(tmp_path)
    first.wait_for("checkpoint 2 is complete")
    second = programs(tmp_path)
    second.wait_for("is held by .*waiting to take it over")
    first.wait_for("checkpoint 20 is complete")
    assert "goes on from" not in second.text
    first.signal(signal.SIGKILL)
    second.wait_for("goes on from checkpoint")
    (tmp_path / "go-on").touch()
    second.end()
    assert results(tmp_path) == EXPECTED


@pytest.mark.long
def test_a_job_can_be_recovered_without_its_program(programs, tmp_path):
    first = programs(tmp_path)
    first.wait_for("checkpoint 4 is complete")
    first.signal(signal.SIGKILL)
    (tmp_path / "go-on").touch()
    code = "import sys; from flinkbuf.runtime.driver.recovery import recover; print(recover(sys.argv[1]))"
    assert "[('counts', 'FINISHED')]" in programs(tmp_path, "-c", code, str(tmp_path / "ha")).end()
    assert results(tmp_path) == EXPECTED
    assert programs(tmp_path, "-c", code, str(tmp_path / "ha")).end().endswith("[]\n")


@pytest.mark.long
def test_a_program_that_stood_still_while_its_job_was_taken_over_does_no_harm(programs, tmp_path):
    first = programs(tmp_path)
    first.wait_for("checkpoint 4 is complete")
    assert epochs(tmp_path) == {1}
    first.signal(signal.SIGSTOP)
    second = programs(tmp_path)
    second.wait_for("goes on from checkpoint")
    second.wait_for("checkpoint [0-9]+ is complete")
    assert 2 in epochs(tmp_path)  # on its way from the lease to the tasks in their processes
    first.signal(signal.SIGCONT)
    assert "JobSuspendedError: job 'counts' was suspended: another job master has taken" in first.end(code=1)
    (tmp_path / "go-on").touch()
    second.end()
    assert results(tmp_path) == EXPECTED


def test_a_program_that_is_interrupted_cancels_its_job_for_good(programs, tmp_path):
    first = programs(tmp_path)
    first.wait_for("checkpoint 4 is complete")
    first.signal(signal.SIGINT)
    first.process.wait(60)
    assert "has ended before, CANCELED" in programs(tmp_path).end(code=1)


@pytest.mark.long
def test_a_checkpoint_that_was_noted_before_the_directory_failed_loses_no_record(programs, tmp_path):
    """Begun from an older one while the next program finds it, the job would lose what lies between."""
    first = programs(tmp_path, OUTAGE_PROGRAM, str(tmp_path))
    first.wait_for("begins again")
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("restarted-*"))) < 2:
        assert time.monotonic() < deadline and first.process.poll() is None, first.text
        time.sleep(0.05)
    first.signal(signal.SIGKILL)
    (tmp_path / "second").touch()
    (tmp_path / "go-on").touch()
    second = programs(tmp_path, OUTAGE_PROGRAM, str(tmp_path))
    assert int(second.wait_for(r"goes on from checkpoint (\d+)").group(1)) >= 5
    second.end()
    assert results(tmp_path) == EXPECTED


ANOTHER_PROGRAM = """
import sys
from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
options = {"execution.target": "embedded", "high-availability.storageDir": sys.argv[1] + "/ha"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
env.from_collection([1, 2, 3]).map(lambda number: -number).print()
env.execute("counts")
"""


@pytest.mark.long
def test_another_program_of_the_same_name_does_not_get_the_job_of_one_that_was_killed(programs, tmp_path):
    first = programs(tmp_path)
    first.wait_for("checkpoint 4 is complete")
    another = programs(tmp_path, "-c", ANOTHER_PROGRAM, str(tmp_path))
    refusal = r"ValueError: job 'counts' in \S+ belongs to another program, with the operators Source: numbers, Map, "
    assert re.search(refusal, another.end(code=1)), "at once: it does not wait until the job is free"
    first.signal(signal.SIGKILL)
    first.process.wait()
    another = programs(tmp_path, "-c", ANOTHER_PROGRAM, str(tmp_path))
    assert re.search(refusal + ".*execution.state-recovery.path to /", another.end(code=1))
    (tmp_path / "go-on").touch()
    programs(tmp_path).end()
    assert results(tmp_path) == EXPECTED
