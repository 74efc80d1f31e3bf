"""A random sample of mutants of what decides, and the share that tests or a short simulation catch.

``python -m mutants --sample 100`` in the folder tests, or ``make test-mutants SAMPLE=100``. The mutants are those of
cosmic-ray. They are run here: its own runner writes each into the tree and starts an interpreter for it, which takes
longer than most of these tests do. Here a process that has loaded pytest forks for each mutant, and the fork's import
of the module brings the changed code; nothing is written.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.plugins
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).parents[2]
SIMULATED = ("tests/simulation/test_simulation.py::test_every_seed_holds_what_must_hold",)
CHECKPOINTED = ("tests/simulation/test_checkpoints.py::test_every_seed_holds_what_must_hold",)
BATCHES = ("tests/simulation/test_batch.py::test_every_seed_holds_what_must_hold",)
BARRIERS = ("test_barrier_handler.py", "test_barrier_tracker.py", "test_barriers.py", "test_checkpointed_inputs.py")
MASTER = (
    "tests/runtime/scheduler",
    "tests/runtime/checkpoint",
    "tests/runtime/master",
    "tests/runtime/test_job_master_in_any_order.py",
    "tests/runtime/test_restart_log.py",
    "tests/runtime/test_accumulators_of_jobs.py",
)
PICTURE = (
    "tests/runtime/picture",
    "tests/runtime/checkpoint/test_checkpoint_statistics.py",
    "tests/commands/test_top_command.py",
    "tests/commands/test_checkpoint_command.py",
    "tests/web/test_routes.py",
    "tests/web/test_prometheus.py",
)
WINDOWS = (
    "tests/streaming/windows",
    "tests/core/operators/test_window_operator.py",
    "tests/core/operators/test_aligned_window_operator.py",
    "tests/core/operators/test_session_window_operator.py",
    "tests/datastream/test_joined_streams.py",
)
AREAS = {  # what is changed, the tests that should see it, and what is simulated then
    "runtime/scheduler/*.py": (MASTER, (*SIMULATED, *CHECKPOINTED, *BATCHES)),
    "runtime/checkpoint/*.py": (MASTER, (*SIMULATED, *CHECKPOINTED, *BATCHES)),
    "runtime/master/*.py": (MASTER, (*SIMULATED, *CHECKPOINTED, *BATCHES)),
    "runtime/picture/*_*.py": (PICTURE, ()),
    "streaming/checkpoint/barrier_*.py": (
        tuple(f"tests/streaming/checkpoint/{name}" for name in BARRIERS),
        CHECKPOINTED,
    ),
    "checkpoints/ha_*.py": (
        (
            "tests/checkpoints/test_ha_protocol.py",
            "tests/checkpoints/test_ha_store.py",
            "tests/runtime/driver/test_leadership.py",
        ),
        CHECKPOINTED,
    ),
    "streaming/time/valve.py": (("tests/streaming/time/test_valve.py",), ()),
    "streaming/state/timers.py": (("tests/streaming/time/test_processing_time.py", *WINDOWS), ()),
    "streaming/chain/mailbox.py": (
        ("tests/streaming/chain/test_mailbox.py", "tests/streaming/task/test_stream_task.py"),
        (),
    ),
    "streaming/windows/*.py": (WINDOWS, ()),
}
RUNS = 40  # seeds of each simulation
MEMORY = 4 << 30  # bytes of one mutant: a loop that has no end any more may also grow
CPU_S = 300  # of one mutant; more: it does not end


@dataclass(frozen=True)
class Mutant:
    """One change."""

    area: str
    path: Path
    operator: str
    occurrence: int

    def code(self) -> str | None:
        """The changed file; None: nothing that runs is changed, or an argument's `*` became what is no Python."""
        source = self.path.read_text()
        changed = mutate_code(source, cosmic_ray.plugins.get_operator(self.operator)(), self.occurrence)
        try:
            return None if changed is None or _running(changed) == _running(source) else changed
        except SyntaxError:
            return None

    def __str__(self) -> str:
        source, changed = self.path.read_text().splitlines(), (self.code() or "").splitlines()
        line = next((n for n, pair in enumerate(zip(source, changed, strict=False)) if pair[0] != pair[1]), 0)
        head = f"{self.path.relative_to(ROOT)}:{line + 1} {self.operator.removeprefix('core/')}"
        return f"{head}\n    - {source[line].strip()}\n    + {changed[line].strip()}"


class _Unannotated(ast.NodeTransformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def _running(source: str) -> str:
    """What of a file runs: annotations are never looked at."""
    return ast.dump(_Unannotated().visit(ast.parse(source)))


def mutants() -> Iterator[Mutant]:
    """All that there are, in a fixed order."""
    for area in AREAS:
        for path in sorted((ROOT / "flinkbuf").glob(area)):
            nodes = list(ast_nodes(get_ast(path.read_text())))
            for operator in sorted(cosmic_ray.plugins.operator_names()):
                kind = cosmic_ray.plugins.get_operator(operator)
                if not kind.arguments():
                    positions = sum(1 for node in nodes for _ in kind().mutation_positions(node))
                    yield from (Mutant(area, path, operator, number) for number in range(positions))


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Brings the changed code of one module."""

    def __init__(self, path: Path, code: str) -> None:
        self._name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        self._path, self._code = path, code

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Of that module only."""
        return importlib.util.spec_from_file_location(name, self._path, loader=self) if name == self._name else None

    def create_module(self, spec: object) -> None:
        """As always."""

    def exec_module(self, module: object) -> None:
        """Run the changed code."""
        exec(compile(self._code, str(self._path), "exec"), module.__dict__)


def outcome(mutant: Mutant, code: str) -> str:
    """Which of the two catches it: "tests", "simulation", or "" for neither."""
    tests, simulated = AREAS[mutant.area]
    for name, chosen in (("tests", tests), ("simulation", simulated)):
        if chosen and not _passes(mutant, code, chosen):
            return name
    return ""


def _passes(mutant: Mutant, code: str, chosen: tuple[str, ...]) -> bool:
    child = os.fork()
    if child == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sys.meta_path.insert(0, Changed(mutant.path, code))
        status = 1
        try:
            doctests = [] if chosen is AREAS[mutant.area][1] else ["--doctest-modules", str(mutant.path)]
            # Rewriting of assertions would load a file that is asked for its doctests past the change.
            status = int(pytest.main([*chosen, *doctests, "--assert=plain", "-x", "-q", "-p", "no:cacheprovider"]))
        finally:
            os._exit(min(status, 100))
    deadline = time.monotonic() + 20 * CPU_S
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.02)
    else:
        os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return status == 0


def main() -> int:
    """As the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further one after so long")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ["SIMULATION_RUNS"] = str(RUNS)
    everything = list(mutants())
    random.Random(options.seed).shuffle(everything)
    counts: Counter[str] = Counter()
    for area, (tests, simulated) in AREAS.items():
        path = next((ROOT / "flinkbuf").glob(area))
        if not _passes(Mutant(area, path, "", 0), path.read_text(), (*tests, *simulated)):
            sys.exit(f"the tests of {area} fail without any change")
    print(f"{len(everything)} mutants", flush=True)
    until = time.monotonic() + 60 * options.minutes
    for mutant in everything:
        if sum(counts.values()) == options.sample or time.monotonic() > until:
            break
        code = mutant.code()
        if code is None:
            continue
        caught = outcome(mutant, code)
        counts[caught] += 1
        if sum(counts.values()) % 10 == 0:
            print(f"so far {dict(counts)}", flush=True)
        if not caught:
            print(f"survives: {mutant}", flush=True)
    count = sum(counts.values())
    print(f"of {count}: tests caught {counts['tests']}, simulation {counts['simulation']} more, {counts['']} survive")
    print(f"{100 * (count - counts['']) / max(count, 1):.1f} % caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())
