"""How the last transactions of Kafka ended, as far as this process knows: it outlives a job's attempts."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flinkbuf.streaming.sinks.kafka_coordinators import ProducerOwner

_MOST_KNOWN = 10_000  # transactional ids; of more the one is forgotten that was noted the longest time ago


@dataclass(frozen=True)
class KnownEnding:
    """How the last transaction of a transactional id ended, as far as this process knows."""

    producer_id: int
    epoch: int  # of the producer that knows it
    was_committed: bool
    is_being_settled: bool = False  # by a transaction that ends in the same way
    settled: frozenset[str] = frozenset()  # topics in which nothing waits for the end of this one or one before


class KnownEndings:
    """Endings by transactional id, for any thread.

    What a producer notes that another one of this process has shut out is not taken: it is older than what is known.

    Examples
    --------
    >>> endings = KnownEndings()
    >>> endings.note("sink-0", KnownEnding(4_000, 7, True))
    >>> endings.note("sink-0", KnownEnding(4_000, 6, False))
    >>> endings.forget(("sink-0", 4_000, 6))
    >>> endings.get("sink-0").was_committed
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, KnownEnding] = {}  # what was noted last is the last one

    def get(self, transactional_id: str) -> KnownEnding | None:
        """Return how the last transaction ended; None: it is not known."""
        with self._lock:
            return self._known.get(transactional_id)

    def note(self, transactional_id: str, ending: KnownEnding) -> None:
        """Keep how a transaction ended."""
        with self._lock:
            known = self._known.get(transactional_id)
            if known is not None and known.producer_id == ending.producer_id and known.epoch > ending.epoch:
                return
            self._known.pop(transactional_id, None)
            self._known[transactional_id] = ending
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]

    def forget(self, owner: ProducerOwner) -> None:
        """Forget how the last transaction of a producer ended, or of one before it."""
        transactional_id, producer_id, epoch = owner
        with self._lock:
            known = self._known.get(transactional_id)
            if known is not None and known.producer_id == producer_id and known.epoch <= epoch:
                del self._known[transactional_id]


_BY_SERVERS: dict[frozenset[tuple[str, int]], KnownEndings] = {}
_LOCK = threading.Lock()


def endings_at(servers: tuple[tuple[str, int], ...]) -> KnownEndings:
    """Return the endings that this process knows of transactions at some brokers."""
    with _LOCK:
        return _BY_SERVERS.setdefault(frozenset(servers), KnownEndings())
