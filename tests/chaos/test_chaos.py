"""Processes of a real job are killed at random moments, and its output is that of a run without faults.

CHAOS_KILLS says how often on local processes, CHAOS_SPARK_KILLS on Spark's local-cluster (0: not at all); CHAOS_SEED
says when and whom.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import chaos_program
import pytest

KILLS = int(os.environ.get("CHAOS_KILLS", "5"))
SPARK_KILLS = int(os.environ.get("CHAOS_SPARK_KILLS", "0"))
SEED = int(os.environ.get("CHAOS_SEED", str(time.time_ns() % 1_000_000)))


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Of a run that nobody disturbs."""
    directory = tmp_path_factory.mktemp("calm")
    (directory / chaos_program.GO_ON).touch()
    env = chaos_program.environment(directory, "embedded")
    chaos_program.build(env, directory)
    env.execute("calm")
    lines = chaos_program.committed(directory)
    spans = chaos_program.COUNT // 2 // chaos_program.SPAN_MS
    assert len(lines) == 2 * spans * chaos_program.KEYS
    return lines


def kill_at_random(directory, count, is_over, longest_s, rng):
    """End processes of the job, one after the other."""
    killed, deadline = 0, time.monotonic() + 60 + count * 10
    while killed < count:
        assert time.monotonic() < deadline, f"only {killed} of {count} could be killed (CHAOS_SEED={SEED})"
        assert not is_over(), f"the job ended after {killed} kills (CHAOS_SEED={SEED})"
        time.sleep(rng.uniform(0.0, longest_s))
        alive = chaos_program.workers(directory)
        if alive:
            victim = rng.choice(alive)
            os.kill(victim, signal.SIGKILL)
            (Path(directory, "pids") / str(victim)).unlink(missing_ok=True)
            killed += 1
    (Path(directory) / chaos_program.GO_ON).touch()


@pytest.mark.long
def test_local_processes_that_are_killed(tmp_path, expected):
    env = chaos_program.environment(tmp_path, "local")
    chaos_program.build(env, tmp_path)
    client = env.execute_async("chaos")
    result = client.get_job_execution_result()
    kill_at_random(tmp_path, KILLS, result.done, 1.2, random.Random(SEED))
    result.result()
    assert chaos_program.committed(tmp_path) == expected, f"CHAOS_SEED={SEED}"
    counts = client.details()["checkpoints"]["counts"]
    print(f"\n{KILLS} kills, {counts} (CHAOS_SEED={SEED})")
    assert counts["restored"] >= 1


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.skipif(not SPARK_KILLS, reason="make test-chaos")
def test_processes_of_spark_that_are_killed(tmp_path, expected):
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, chaos_program.__file__, str(tmp_path)]
    with subprocess.Popen(program, env=surroundings) as driver:
        try:
            kill_at_random(tmp_path, SPARK_KILLS, lambda: driver.poll() is not None, 4.0, random.Random(SEED))
            assert driver.wait(300) == 0
        finally:
            driver.kill()
    assert chaos_program.committed(tmp_path) == expected, f"CHAOS_SEED={SEED}"
