"""A source operator's coordinator, as seen from the operator: what it is told goes to the job master's process.

Flink: OperatorEventGateway, TaskOperatorEventGateway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkbuf.jobs.operator_events import ReaderEnded, ReaderRegistered, decode_event, encode_event
from flinkbuf.log import logger
from flinkbuf.streaming.operator_context import MailboxExecutor
from flinkbuf.streaming.source_coordinator import ReaderGateway


class CoordinatorProxy:
    """What a source operator finds under ``extras["coordinator"]``: it has what `SourceCoordinator` has for operators.

    Parameters
    ----------
    send : callable
        Sends bytes to the coordinator; from any thread.
    mailbox : MailboxExecutor
        The operator's: events are read on the task's thread, where their classes' own code may take its time and fail.
    """

    def __init__(self, send: Callable[[bytes], None], mailbox: MailboxExecutor) -> None:
        self._send = send
        self._mailbox = mailbox
        self._gateway: ReaderGateway | None = None

    def register_reader(self, subtask_index: int, gateway: ReaderGateway) -> None:
        """The operator's reader runs, and events for it go through `gateway`."""
        self._gateway = gateway
        self._send(encode_event(ReaderRegistered()))

    def handle_event(self, subtask_index: int, event: Any) -> None:
        """The operator says something."""
        self._send(encode_event(event))

    def reader_ended(self, subtask_index: int) -> None:
        """The operator has come to its end."""
        self._send(encode_event(ReaderEnded()))

    def deliver(self, payload: bytes) -> None:
        """The coordinator says something; from any thread."""

        def hand_on() -> None:
            if self._gateway is not None:
                self._gateway.send(decode_event(payload))

        try:
            self._mailbox.submit(hand_on, "event of a source's coordinator")
        except RuntimeError as closed:  # the task has ended meanwhile
            logger.debug("a source operator that has ended was sent %d bytes: %s", len(payload), closed)
