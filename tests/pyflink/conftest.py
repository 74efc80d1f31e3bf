"""One set of PyFlink programs (programs/), run on flinkbuf and on PyFlink.

``expected.json`` holds what PyFlink answered; test_expected.py holds flinkbuf to it in every run of the tests. With
FLINKBUF_PYFLINK, the folder of an environment that has PyFlink (`make test-pyflink`), PyFlink is asked again.
"""

import json
import sys
from pathlib import Path

import pytest
from support.programs.pyflink_programs import EXPECTED, PYFLINK, answers_of

# The programs import PyFlink, which is not here; the runner brings them to life.
collect_ignore = ["programs", "speed_programs.py", "run_programs.py", "run_speed.py"]


@pytest.fixture(scope="session")
def expected():
    """What PyFlink answered when this was written: by name of program."""
    return json.loads(EXPECTED.read_text())["programs"]


@pytest.fixture(scope="session")
def ours(tmp_path_factory):
    return answers_of(sys.executable, "flinkbuf:embedded", tmp_path_factory.mktemp("flinkbuf"))


@pytest.fixture(scope="session", params=["local", "spark"])
def ours_elsewhere(request, tmp_path_factory):
    """What they answer where tasks are other processes."""
    return answers_of(sys.executable, f"flinkbuf:{request.param}", tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def theirs(tmp_path_factory):
    python = str(Path(PYFLINK, "bin", "python").absolute())
    return answers_of(python, "pyflink", tmp_path_factory.mktemp("pyflink"), shares=2)
