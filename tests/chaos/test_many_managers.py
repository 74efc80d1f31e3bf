"""A job on many task managers of one machine: what its program does for each of them does not grow with their number.

MANAGERS="20 50 100" says how many; `make test-managers` has those.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NUMBERS = list(map(int, os.environ.get("MANAGERS", "10 20").split()))
PROGRAM = Path(__file__).with_name("many_managers.py")
IDLE_CPU = 0.05  # of a program, whatever it runs


@pytest.mark.long
def test_a_job_on_many_task_managers_starts_loses_ten_goes_on_and_ends():
    found = []
    for number in NUMBERS:  # each in a program of its own, whose memory is its own
        done = subprocess.run([sys.executable, PROGRAM, str(number)], stdout=subprocess.PIPE, text=True, timeout=900)
        assert done.returncode == 0
        found.append(json.loads(done.stdout))
    print()
    print("  ".join(found[0]))
    for each in found:
        print("  ".join(f"{value:>{len(key)}}" for key, value in each.items()))
    least, most = found[0], found[-1]
    share = most["managers"] / least["managers"]
    assert most["memory_mb"] - least["memory_mb"] < most["managers"] * 0.5
    assert most["cpu"] < 2 * share * max(least["cpu"], IDLE_CPU)
