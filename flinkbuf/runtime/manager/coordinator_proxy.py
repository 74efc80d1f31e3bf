"""A source operator's coordinator, as seen from the operator: events go to the job master's process.

Flink: OperatorEventGateway, TaskOperatorEventGateway.
"""

from __future__ import annotations

from collections.abc import Callable

from flinkbuf.log import logger
from flinkbuf.runtime.protocol.operator_events import ReaderEnded, ReaderRegistered, decode_event, encode_event
from flinkbuf.streaming.chain.operator_context import MailboxExecutor, OperatorEventHandler


class CoordinatorProxy:
    """The `OperatorEventGateway` of a source operator.

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
        self._operator: OperatorEventHandler | None = None

    def register_reader(self, subtask_index: int, operator: OperatorEventHandler) -> None:
        """Tell the coordinator that the operator's reader runs: events for the reader may come now."""
        self._operator = operator
        self._send(encode_event(ReaderRegistered()))

    def handle_event(self, subtask_index: int, event: object) -> None:
        """Send an event of the operator to the coordinator."""
        self._send(encode_event(event))

    def reader_ended(self, subtask_index: int) -> None:
        """Tell the coordinator that the operator has come to its end."""
        self._send(encode_event(ReaderEnded()))

    def deliver(self, payload: bytes) -> None:
        """Bring an event of the coordinator to the operator, in one mail; from any thread.

        A checkpoint that is triggered after it is a mail behind this one. With a second mail for the event that
        checkpoint would come between, and a split that the coordinator no longer has would be in no reader's state.
        """

        def handle() -> None:
            if self._operator is not None:
                self._operator.handle_event(decode_event(payload))

        try:
            self._mailbox.submit(handle, "event of a source's coordinator")
        except RuntimeError as closed:  # the task has ended meanwhile
            logger.debug("a source operator that has ended was sent %d bytes: %s", len(payload), closed)
