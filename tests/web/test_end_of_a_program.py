"""The end of a program is seen by those who look at its jobs, and keeps nobody else waiting."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from support.pages.chromium import PROGRAM as PROGRAM_OF_CHROMIUM
from support.pages.chromium import chromium

from flinkbuf.web.served_job import LOOKING_S, SHOWN_S, ServedJob


class Clock:
    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def job(clock):
    return ServedJob(SimpleNamespace(picture=SimpleNamespace(is_over=False)), linger_ms=60_000, clock=clock)


def test_a_job_that_nobody_looks_at_keeps_nobody_waiting(job):
    assert job.linger_s == 0
    job.end()
    assert job.linger_s == 0
    job.was_looked_at()  # afterwards: what was looked for was there
    assert job.linger_s == 0


def test_who_looks_at_a_job_has_a_minute_to_see_its_end(job, clock):
    job.was_looked_at()
    clock.now_s += 30
    assert job.linger_s == 0, "it runs"
    job.end()
    assert job.linger_s == 60
    clock.now_s += 59
    assert job.linger_s == 1
    clock.now_s += 2
    assert job.linger_s == 0


def test_others_have_a_moment_after_the_first_who_has_seen_it(job, clock):
    job.was_looked_at()
    job.end()
    clock.now_s += 20
    assert not job.is_end_seen
    job.was_looked_at()
    assert job.is_end_seen and job.linger_s == SHOWN_S
    clock.now_s += 1
    job.was_looked_at()
    assert job.linger_s == SHOWN_S - 1


def test_who_has_not_looked_for_long_is_gone(job, clock):
    job.was_looked_at()
    clock.now_s += LOOKING_S + 1
    job.end()
    assert job.linger_s == 0


# ---- whole programs

PROGRAM = """
import sys, time
from flinkbuf.common import Configuration
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.web import serving

serving.QUIET_S = 0.2  # until it says that it waits

def look(value):
    if value == 1:
        sys.stdin.readline()  # until the test has looked
        raise ValueError("no such airport: JFQ")
    return value

settings = {"execution.target": "embedded", "rest.port": "0", "rest.linger-timeout": sys.argv[1]}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
env.set_parallelism(1)
env.from_collection([0, 1]).map(look).print()
env.execute("airports")
"""


class Program:
    def __init__(self, path, linger):
        path.write_text(PROGRAM)
        command = [sys.executable, str(path), linger]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, **pipes)
        line = self.process.stderr.readline()
        found = re.search(r"can be looked at: http://([^:]+):(\d+)/\?token=(\S+)#/job/(\w+)", line)
        assert found, line + self.process.stderr.read()
        self.link = line[found.start() :].partition("can be looked at: ")[2].strip()
        self.host, self.port, self.token, self.job_id = found[1], int(found[2]), found[3], found[4]

    def ask(self, path):
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=10)) as connection:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
            return json.loads(connection.getresponse().read())

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """Wait for its end; return what it has said meanwhile."""
        said = self.process.communicate(timeout=60)[1]
        assert self.process.returncode == 1, said
        return said


@pytest.fixture
def start(tmp_path):
    made = []

    def start_it(linger):
        made.append(Program(tmp_path / "program.py", linger))
        return made[-1]

    yield start_it
    for each in made:
        each.process.kill()
        each.process.communicate()


def test_who_looks_at_a_program_that_fails_is_told_why(start):
    program = start("10 min")
    path = f"/jobs/{program.job_id}"
    assert program.ask(f"{path}/picture")["failure"] is None
    program.go_on()
    while (picture := program.ask(f"{path}/picture?subtasks=0"))["state"] in ("CREATED", "RUNNING"):
        time.sleep(0.05)
    assert (picture["state"], picture["failure"]) == ("FAILED", "ValueError: no such airport: JFQ")
    assert picture["answers"][0]["answer"] == "Failed" and "JFQ" in picture["answers"][0]["detail"]
    result = program.ask(f"{path}/execution-result")["job-execution-result"]
    assert result["failure-cause"]["class"] == "builtins.ValueError"
    said = program.end()  # soon: not after ten minutes
    assert "ValueError: no such airport: JFQ" in said


@pytest.mark.skipif(PROGRAM_OF_CHROMIUM is None, reason="there is no chromium")
def test_a_page_that_is_open_shows_the_failure_of_a_program_that_is_gone(start):
    program = start("10 min")
    with chromium() as browser:
        page = browser.page(program.link)
        page.wait_for("document.querySelector('[data-question=\"1\"] .answer')?.innerText.startsWith('Running')")
        program.go_on()
        said = program.end()
        page.wait_for("document.querySelector('footer.is-whole')")
        page.run("new Promise((resolve) => setTimeout(resolve, 4000))")  # longer than it takes to say that it is lost
        assert page.text(".banner").startswith("Failed: ValueError: no such airport: JFQ")
        assert page.text("[data-question='1'] .answer") == "Failed"
        assert page.run("document.querySelectorAll('#subtasks tbody tr').length") == 1
        assert ", in look" in page.text("#failures pre")
    assert "ValueError: no such airport: JFQ" in said


def test_a_program_that_nobody_looks_at_ends_at_once(start):
    program = start("10 min")
    program.ask("/jobs/overview")  # whoever gathers figures does not look at a job
    program.go_on()
    assert "is open" not in program.end()


def test_it_waits_no_longer_than_it_is_told(start):
    program = start("2500 ms")
    program.ask(f"/jobs/{program.job_id}")
    program.go_on()
    assert "a page of this program is open and has not shown its end: it stays until then, at most " in program.end()


def test_ctrl_c_ends_the_wait(start):
    program = start("10 min")
    program.ask(f"/jobs/{program.job_id}")
    program.go_on()
    while "a page of this program is open" not in (line := program.process.stderr.readline()):
        assert line, "it has ended before"
    program.process.send_signal(signal.SIGINT)
    assert "Traceback" not in program.end()
