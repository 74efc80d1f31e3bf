"""The ways to run a program: on what, how wide, and disturbed by what."""

import dataclasses
import itertools
import random

BACKENDS = ("hashmap", "rocksdb")
TARGETS = ("embedded", "local", "spark")
WIDTHS = (1, 2, 3)
HASH_SEEDS = ("1", "20")
CALM, RAISE, KILL, MOVE = "calm", "raise", "kill", "move"


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to run any program.

    Its fault is ``calm``: nothing happens; ``raise``: a function raises once at a record, after a checkpoint or two,
    and results count exactly once; ``kill``: its process is killed instead (local processes only); ``move``: the job is
    stopped with a savepoint when its sources are somewhere in between, and another job with `width_after` and
    `backend_after` goes on from it.
    """

    target: str = "embedded"
    backend: str = "hashmap"
    width: int = 1
    is_batch: bool = False
    fault: str = CALM
    cut: float = 0.5  # how far the sources get before the fault
    place: str = "source"  # where the fault is: at a source, somewhere within, or at the output
    width_after: int = 2
    backend_after: str = "rocksdb"
    is_unaligned: bool = False
    is_chained: bool = True
    cache_entries: int = 1  # of RocksDB's objects: with 1 nearly every value is read back from its bytes
    hash_seed: str = HASH_SEEDS[0]

    def __str__(self):
        words = [self.target, self.backend, f"p={self.width}", "batch" if self.is_batch else "streaming"]
        if self.fault == MOVE:
            words.append(f"moved at {self.cut} to {self.backend_after} p={self.width_after}")
        elif self.fault != CALM:
            words.append(f"{self.fault} at {self.cut} in {self.place}{' unaligned' if self.is_unaligned else ''}")
        if not self.is_chained:
            words.append("unchained")
        return f"{' '.join(words)} seed={self.hash_seed}"


def calm_ways(target="embedded"):
    """Every way without a fault."""
    return [
        Way(target, backend, width, is_batch, hash_seed=seed)
        for backend, width, is_batch, seed in itertools.product(BACKENDS, WIDTHS, (False, True), HASH_SEEDS)
        if not (is_batch and backend == "rocksdb")  # state of a batch job is in memory, whatever the backend
    ]


def some_way(rng, targets=("embedded",), faults=(CALM, CALM, RAISE, MOVE)):
    """A way at random."""
    target = rng.choice(targets)
    fault = rng.choice(faults)
    if fault == KILL and target != "local":
        fault = RAISE
    way = Way(
        target,
        rng.choice(BACKENDS),
        rng.choice(WIDTHS),
        is_batch=fault == CALM and rng.random() < 0.4,
        fault=fault,
        cut=rng.randrange(0, 11) / 10,
        place=rng.choice(("source", "within", "output")),
        is_unaligned=rng.random() < 0.3,
        is_chained=rng.random() < 0.8,
        cache_entries=rng.choice((1, 1, 10_000)),
        hash_seed=rng.choice(HASH_SEEDS),
    )
    if fault == MOVE:
        backend_after = rng.choice(BACKENDS)
        return dataclasses.replace(way, width_after=rng.choice(WIDTHS), backend_after=backend_after, is_unaligned=False)
    return way


def ways_of(number, count, **options):
    """A few ways for a program, another few for each number: those that differ most come first.

    Over many programs every pair of values of two fields occurs.
    """
    rng = random.Random(number)
    return [some_way(rng, **options) for _ in range(count)]
