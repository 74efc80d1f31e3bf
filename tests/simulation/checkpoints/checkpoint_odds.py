"""What a job with checkpoints does and how it can go wrong, drawn from the seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from simulation.world.odds import Odds

from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig

DIRECTORY = "sim://disk/checkpoints"
SAVEPOINTS = "sim://disk/savepoints"


# What a job master wants done, and what breaks soon after: faults that meet by chance too seldom.
MOMENTS = (
    "a checkpoint is stored",
    "a checkpoint is given up",
    "a pointer is written",
    "the job begins again",
    "the job is stopped with a savepoint",
)
MOMENT_FAULTS = (
    "fail a task",
    "fail a task",
    "fail two tasks",
    "kill a manager",
    "kill the driver",
    "cut the driver off",
)


A_TASK_IS_DEPLOYED = "a task is deployed"
SLEEP = "put the driver to sleep"
NAPS_MS = (4_000, 8_000, 20_000)  # longer than a lease: the one who takes over has begun, and takes checkpoints


@dataclass(frozen=True)
class DriverFault:
    """What happens to a program, and for how long."""

    at_ms: int
    kind: str
    for_ms: int


DRIVER_FAULTS = ("die", "die", "sleep", "sleep", "cut off", "cut off behind")


@dataclass(frozen=True)
class Moment:
    """One of them."""

    when: str
    fault: str
    share: float  # of such moments
    delay_ms: tuple[int, int]


@dataclass(frozen=True)
class FlowOdds:
    """Shares of 1, milliseconds and counts."""

    split_size: int  # records
    run_length: int  # of records that are sent together, at most
    emit_ms: tuple[int, int]  # between two of them
    channel_ms: tuple[int, int]
    process_ms: tuple[int, int]
    is_incremental: bool
    sync_fails: float
    async_ms: tuple[int, int]
    async_fails: float
    async_hangs: float
    savepoint_factor: int  # how much longer the writing of a savepoint takes
    coordinator_ms: tuple[int, int]
    coordinator_fails: float
    fs_ms: tuple[int, int]  # half of what an operation of a driver on the disk takes
    fs_fails: float  # before it has done anything
    fs_fails_behind: float  # it is done, but nobody is told so
    fs_hangs: float
    fs_is_late: float  # later than anybody waits
    savepoints_ms: tuple[int, ...]  # when the user asks for one
    stops_ms: tuple[int, ...]  # when the user stops the job with one
    rescales: bool  # afterwards
    is_ha: bool  # other programs take the job over
    lease_timeout_ms: int
    standbys_ms: tuple[int, ...]  # when programs are started that wait until they may
    driver_faults: tuple[DriverFault, ...]
    claims: bool
    moments: tuple[Moment, ...]  # at which something breaks, besides what breaks at any time


def draw_flow(rng: Random, odds: Odds, start_ms: int) -> FlowOdds:
    """Calm ones and wild ones."""
    span = odds.heal_ms - start_ms
    size = rng.choice((10, 25, 60))
    run_length = rng.choice((1, 3, 5))
    is_ha = rng.random() < 0.4
    pace = max(1, span * run_length // (size * rng.choice((1, 2, 4))))
    return FlowOdds(
        split_size=size,
        run_length=run_length,
        emit_ms=(1, pace),
        channel_ms=rng.choice(((0, 1), (1, 30), (1, max(2, span // 20)), (1, max(2, span // 10)))),
        process_ms=rng.choice(((0, 0), (0, 5), (1, 60), (1, max(2, pace // 2)))),
        is_incremental=rng.random() < 0.6,
        sync_fails=_maybe(rng, 0.1, (0.02, 0.1)),
        async_ms=rng.choice(((0, 2), (0, 50), (10, max(20, span // 10)))),
        async_fails=_maybe(rng, 0.25, (0.02, 0.1)),
        async_hangs=_maybe(rng, 0.2, (0.02, 0.05)),
        savepoint_factor=rng.choice((1, 1, 10)),
        coordinator_ms=rng.choice(((0, 1), (0, 50), (10, max(20, span // 30)))),
        coordinator_fails=_maybe(rng, 0.15, (0.1,)),
        fs_ms=rng.choice(((0, 1), (0, 25), (5, max(10, span // 40)))),
        fs_fails=_maybe(rng, 0.2, (0.02, 0.1)),
        fs_fails_behind=_maybe(rng, 0.2, (0.02, 0.1)),
        fs_hangs=_maybe(rng, 0.15, (0.02, 0.05)),
        fs_is_late=_maybe(rng, 0.2, (0.05, 0.1)),
        savepoints_ms=_times(rng, start_ms, span, (0, 0, 1, 3)),
        stops_ms=_times(rng, start_ms, span * 2 // 3, (0, 0, 1, 2, 2)),
        rescales=rng.random() < 0.6,
        is_ha=is_ha,
        lease_timeout_ms=rng.choice((1_500, 3_000)),
        standbys_ms=_times(rng, start_ms, span, (0, 1, 1, 2)) if is_ha else (),
        driver_faults=_driver_faults(rng, start_ms, span) if is_ha else (),
        claims=rng.random() < 0.4,
        moments=_moments(rng, is_ha),
    )


def draw_checkpointing(rng: Random, odds: Odds, start_ms: int, can_be_taken_over: bool) -> CheckpointCoordinatorConfig:
    """As a user could set it."""
    span = odds.heal_ms - start_ms
    interval_ms = max(10, span // rng.choice((4, 12, 30)))
    is_exactly_once = rng.random() < 0.85
    is_unaligned = is_exactly_once and rng.random() < 0.4
    return CheckpointCoordinatorConfig(
        interval_ms=interval_ms,
        timeout_ms=interval_ms * rng.choice((1, 3, 20)) + 100 + 8 * odds.latency_ms[1],
        min_pause_ms=rng.choice((0, 0, interval_ms // 2, interval_ms * 2)),
        max_concurrent=1 if is_unaligned else rng.choice((1, 1, 2, 3)),
        tolerable_failures=rng.choice((-1, -1, 0, 2)),
        retained=rng.choice((1, 1, 2, 3)),
        is_exactly_once=is_exactly_once,
        is_unaligned=is_unaligned,
        aligned_timeout_ms=rng.choice((0, 20, interval_ms // 4)) if is_unaligned else 0,
        after_tasks_finish=rng.random() < 0.85,
        retention=rng.choice(("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS")),
        directory=DIRECTORY if can_be_taken_over or rng.random() < 0.8 else "",
        savepoint_directory=SAVEPOINTS,
    )


def _driver_faults(rng: Random, start_ms: int, span: int) -> tuple[DriverFault, ...]:
    count = rng.choice((1, 1, 2, 4))
    faults = (
        DriverFault(start_ms + rng.randint(0, span), rng.choice(DRIVER_FAULTS), rng.choice((100, 500, 2_000, 8_000)))
        for _ in range(count)
    )
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def _moments(rng: Random, is_ha: bool) -> tuple[Moment, ...]:
    if is_ha and rng.random() < 0.3:  # what was given up, and nobody could take back, meets a restart and a crash
        storm = (
            Moment("a pointer is written", "cut the driver off", rng.choice((0.1, 0.3)), (0, 0)),
            Moment("a pointer is written", "fail a task", rng.choice((0.1, 0.3)), (0, 5)),
            Moment("a checkpoint is given up", "fail a task", 0.5, (0, 300)),
            Moment("the job begins again", "kill the driver", 0.5, rng.choice(((0, 300), (0, 3_000)))),
        )
        return tuple(each for each in storm if rng.random() < 0.85)
    count = rng.choice((0, 0, 1, 2, 3))
    return tuple(
        Moment(rng.choice(MOMENTS), rng.choice(MOMENT_FAULTS), rng.choice((0.1, 0.5)), rng.choice(((0, 5), (0, 300))))
        for _ in range(count)
    )


def draw_naps(seed: int) -> tuple[Moment, ...]:
    """A program that sleeps between the deployment of its tasks and their beginning, while another one takes over.

    Drawn apart from all else, so that the seeds without it keep their stories.
    """
    rng = Random(f"the naps of {seed}")
    if rng.random() > 0.4:
        return ()
    return (Moment(A_TASK_IS_DEPLOYED, SLEEP, rng.choice((0.05, 0.2)), (0, 0)),)


def _maybe(rng: Random, likelihood: float, shares: tuple[float, ...]) -> float:
    return rng.choice(shares) if rng.random() < likelihood else 0.0


def _times(rng: Random, start_ms: int, span: int, counts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(start_ms + rng.randint(0, span * 3 // 2) for _ in range(rng.choice(counts))))
