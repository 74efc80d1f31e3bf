"""Attempts whose cancel was sent and is not confirmed.

A cancel is sent again until the task manager confirms it. That the task then takes its time is the task manager's
affair. Flink: Execution.sendCancelRpcCall, three tries.
"""

from __future__ import annotations

from collections import deque

from flinkbuf.runtime.scheduler.execution_graph import Execution
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig


class Cancellations:
    """Cancels to send again, and task managers that do not answer.

    Parameters
    ----------
    config : JobMasterConfig
    """

    def __init__(self, config: JobMasterConfig) -> None:
        self.attempts = config.cancel_attempts
        self.retry_ms = config.cancel_retry_ms
        self._sent: deque[tuple[int, int, Execution]] = deque()  # when to look, tries, attempt; in order of time

    def sent(self, execution: Execution, now_ms: int, tries: int = 1) -> None:
        """Note that a cancel was sent just now."""
        self._sent.append((now_ms + self.retry_ms, tries, execution))

    @property
    def next_deadline_ms(self) -> int | None:
        """Return when to call `due` next."""
        while self._sent and not is_unheard(self._sent[0][2]):
            self._sent.popleft()
        return self._sent[0][0] if self._sent else None

    def due(self, now_ms: int) -> tuple[list[Execution], list[Execution]]:
        """Return executions to cancel again now, and those to give up: their task managers do not answer."""
        again, in_vain = [], []
        while self._sent and self._sent[0][0] <= now_ms:
            due_ms, tries, execution = self._sent.popleft()
            if not is_unheard(execution):
                continue
            # A very late call means that this process stood still: the answer may be among the messages not read yet.
            if tries < self.attempts or now_ms - due_ms > self.retry_ms:
                again.append(execution)
                self.sent(execution, now_ms, min(tries + 1, self.attempts))
            else:
                in_vain.append(execution)
        return again, in_vain


def is_unheard(execution: Execution) -> bool:
    """Return whether an attempt's cancel was sent and not confirmed."""
    return execution.state is ExecutionState.CANCELING and not execution.is_cancel_heard
