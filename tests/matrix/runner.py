"""Runs programs in workers, compares what came of them with their models, and counts."""

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from matrix.running import gathered
from matrix.values import shown

HOME = Path(__file__).parent.parent
LONGEST_S = 180  # for one program one way
LONGEST_START_S = 600  # of Spark, on a busy machine
SHOWN = 5  # records of a difference


class Worker:
    """A process of one hash seed.

    Parameters
    ----------
    hash_seed : str
    log : file
        What its jobs say.
    is_spark : bool
    """

    def __init__(self, hash_seed, log, is_spark=False):
        paths = [str(HOME), os.environ.get("PYTHONPATH", "")]
        surroundings = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        surroundings.pop("FLINKBUF_PROPERTIES", None)
        command = [sys.executable, "-m", "matrix.worker", *(["--spark"] if is_spark else [])]
        self.process = subprocess.Popen(
            command, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
        if self._line(time.monotonic() + LONGEST_START_S) != b"{}\n":
            self.kill()
            raise RuntimeError(f"a worker has not started; what it said: {log.name}")

    def ask(self, request):
        """The answer; an error if none comes in time."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            line = self._line(time.monotonic() + LONGEST_S)
        except BrokenPipeError:
            line = b""
        if line is None:
            self.process.send_signal(signal.SIGUSR1)  # its log then says where all threads are
            time.sleep(0.5)
            return {"error": f"it did not end in {LONGEST_S} s"}
        return json.loads(line) if line else {"error": f"the worker died: exit code {self.process.wait()}"}

    def _line(self, deadline):
        """A line, b"" if the process has ended, None if the time has come."""
        parts = []
        while not parts or not parts[-1].endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            part = os.read(self.process.stdout.fileno(), 1 << 20)
            if not part:
                return b""
            parts.append(part)
        return b"".join(parts)

    def close(self):
        """Let it come to its end."""
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.kill()

    def kill(self):
        """End it and what it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Runner:
    """Workers for all ways, started when a way needs one, and what has been run so far."""

    def __init__(self, log_path=None):
        self.log_path = log_path or tempfile.mkstemp(prefix="flinkbuf-matrix-", suffix=".log")[1]
        self.log = open(self.log_path, "ab")  # noqa: SIM115 - closed with the runner
        self.workers = {}
        self.programs = 0
        self.runs = Counter()
        self.seconds = Counter()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        for worker in self.workers.values():
            worker.close()
        self.log.close()

    def failure(self, program, way, request=None):
        """What is wrong with a program run one way, as text; None if nothing is."""
        answer = self.answer({**(request or {"name": program.name}), "way": dataclasses.asdict(way)}, way)
        if "error" in answer:
            return f"{answer['error']}\n{answer.get('traceback', '')}".strip()
        found = gathered([tuple(record) for record in answer["records"]], program.order_by)
        return difference(found, expected(program, way), program.order_by)

    def answer(self, request, way):
        """The answer of a worker; one that did not come in time is not asked again."""
        is_spark = way.target == "spark"
        place = way.hash_seed, is_spark
        if place not in self.workers:
            self.workers[place] = Worker(way.hash_seed, self.log, is_spark)
        started = time.monotonic()
        answer = self.workers[place].ask(request)
        self.runs[way.target, way.fault] += 1
        self.seconds[way.target, way.fault] += time.monotonic() - started
        if "error" in answer and "traceback" not in answer:
            worker = self.workers.pop(place)
            worker.kill()
        return answer


def expected(program, way):
    """What must come of a program, gathered."""
    made = program.model(way)
    outputs = made if isinstance(made, dict) else {"out": made}
    order = program.order_by
    records = [
        (name, None if order is None else shown(order(value)), shown(value))
        for name, values in outputs.items()
        for value in values
    ]
    return gathered(records, order)


def difference(found, wanted, order_by=None):
    """What differs, as text; None if nothing does."""
    if found == wanted:
        return None
    if order_by is None:
        missing, extra = wanted - found, found - wanted
        return (
            f"{missing.total()} of {wanted.total()} records are missing, {extra.total()} should not be there\n"
            f"missing: {_few(missing.items())}\nextra: {_few(extra.items())}"
        )
    keys = [key for key in {**wanted, **found} if wanted.get(key) != found.get(key)]
    lines = [f"{len(keys)} of {len(wanted)} keys have other records, or in another order"]
    for key in keys[:2]:
        lines += [f"{key} has    {found.get(key, [])}", f"{key} should {wanted.get(key, [])}"]
    return "\n".join(lines)


def _few(items):
    items = sorted(items)
    return "\n  ".join(map(str, items[:SHOWN])) + (f"\n  and {len(items) - SHOWN} more" if len(items) > SHOWN else "")
