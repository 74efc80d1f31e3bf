"""What can go wrong in a run, and how often: drawn once, at its beginning."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Odds:
    """Shares of 1 and milliseconds."""

    latency_ms: tuple[int, int]  # of a message
    loss: float  # messages that vanish; an operator's event never does
    doubling: float  # messages that come twice
    start_ms: tuple[int, int]  # until a manager that was asked for registers
    start_never: float
    start_twice: float
    run_fails: float
    register_twice: float
    setup_ms: tuple[int, int]  # of a task, to each of its next states
    work_ms: tuple[int, int]  # of a task that is RUNNING
    task_fails: float
    task_lasts: float  # until the world is healed
    input_is_endless: bool  # a task that is to be cancelled does not end for any other reason
    report_ms: tuple[int, int]  # from a task's error to its report
    task_is_lazy: float  # it comes out when it was interrupted some times
    task_is_deaf: float  # it never comes out of a cancel
    echo: float  # whoever reads from a task that is gone fails
    exit_ms: tuple[int, int]  # of a process that was stopped
    faults: tuple[tuple[int, str], ...]  # when something breaks, and what
    cancel_ms: int | None  # when the user cancels
    cancels_again: bool
    heal_ms: int  # from then on nothing new goes wrong


FAULTS = (
    "kill a manager",
    "kill a manager",
    "end the program's manager",
    "break a connection",
    "break a connection",
    "hang a connection",
    "lose a machine",
    "hang a connection for a while",
    "deafen a connection",
    "stall a manager",
    "stall the driver",
    "fail a coordinator",
    "speak for an old session",
    "speak for an old attempt",
    "register again",
    "a stranger speaks",
    "wake without need",
    "fail a task",
    "fail a task",
    "fail two tasks",
    "cut a channel",
    "cut a channel",
)


def draw_odds(
    rng: Random, start_ms: int, can_be_deaf: bool, spans_ms: tuple[int, ...] = (3_000, 20_000, 60_000)
) -> Odds:
    """Calm runs and wild ones: each kind of trouble is off in about half of all runs."""
    span = rng.choice(spans_ms)
    return Odds(
        latency_ms=rng.choice(((0, 1), (0, 1), (1, 20), (5, 900))),
        loss=_maybe(rng, 0.25, (0.02, 0.1, 0.3)),
        doubling=_maybe(rng, 0.2, (0.05, 0.3)),
        start_ms=rng.choice(((1, 50), (100, 2_000), (10, 20_000))),
        start_never=_maybe(rng, 0.25, (0.05, 0.3)),
        start_twice=_maybe(rng, 0.25, (0.1, 0.5)),
        run_fails=_maybe(rng, 0.15, (0.2, 0.5)),
        register_twice=_maybe(rng, 0.2, (0.5,)),
        setup_ms=rng.choice(((0, 1), (0, 30), (10, 2_000))),
        work_ms=rng.choice(((0, 10), (10, span // 2), (span // 4, span))),
        task_fails=_maybe(rng, 0.5, (0.05, 0.2, 0.5)),
        task_lasts=_maybe(rng, 0.6, (0.3, 1.0)),
        input_is_endless=rng.random() < 0.6,
        report_ms=rng.choice(((0, 0), (0, 300), (100, 2_000))),
        task_is_lazy=_maybe(rng, 0.3, (0.1, 0.5)),
        task_is_deaf=_maybe(rng, 0.2, (0.05, 0.2)) if can_be_deaf else 0.0,
        echo=rng.choice((0.0, 0.5, 1.0, 1.0)),
        exit_ms=rng.choice(((0, 5), (10, 3_000))),
        faults=_faults(rng, start_ms, span),
        cancel_ms=start_ms + rng.randint(0, span) if rng.random() < 0.25 else None,
        cancels_again=rng.random() < 0.3,
        heal_ms=start_ms + span,
    )


def _maybe(rng: Random, likelihood: float, shares: tuple[float, ...]) -> float:
    return rng.choice(shares) if rng.random() < likelihood else 0.0


def _faults(rng: Random, start_ms: int, span: int) -> tuple[tuple[int, str], ...]:
    kinds = rng.sample(FAULTS, rng.choice((1, 2, 4, len(FAULTS))))
    count = rng.choice((0, 1, 2, 4, 8, 16))
    return tuple(sorted((start_ms + rng.randint(0, span), rng.choice(kinds)) for _ in range(count)))


def calm_odds(start_ms: int) -> Odds:
    """Nothing goes wrong, and nothing takes long."""
    return Odds(
        latency_ms=(0, 1),
        loss=0.0,
        doubling=0.0,
        start_ms=(1, 50),
        start_never=0.0,
        start_twice=0.0,
        run_fails=0.0,
        register_twice=0.0,
        setup_ms=(0, 1),
        work_ms=(0, 10),
        task_fails=0.0,
        task_lasts=0.0,
        input_is_endless=False,
        report_ms=(0, 0),
        task_is_lazy=0.0,
        task_is_deaf=0.0,
        echo=1.0,
        exit_ms=(0, 5),
        faults=(),
        cancel_ms=None,
        cancels_again=False,
        heal_ms=start_ms + 1_000,
    )
