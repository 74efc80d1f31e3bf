"""The last 10,000 stimuli of a job master with its actions: an error of its own can be replayed.

Entries are small, whatever the job does: numbers that only people look at, and what a task reads and writes, are left
out, and no exception of the user's is kept alive.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import DeployTasks, HeartbeatReport, TaskStateReport
from flinkbuf.runtime.scheduler.master_actions import CoordinatorFailed, EndJob, ManagerSaid, RunFailed, SendTo

LIMIT = 10_000

Entry = tuple[int, object, list[object]]  # milliseconds since 1970, stimulus, actions


class Story:
    """The last entries, oldest first.

    Examples
    --------
    >>> from flinkbuf.runtime.protocol.job_status import JobStatus
    >>> from flinkbuf.runtime.scheduler.master_actions import StartJob, StatusChanged
    >>> story = Story()
    >>> story.note(12, StartJob(), [StatusChanged(JobStatus.RUNNING)])
    >>> story.entries()
    [(12, StartJob(), [StatusChanged(status=<JobStatus.RUNNING: 1>)])]
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._entries: deque[Entry] = deque(maxlen=limit)

    def note(self, now_ms: int, stimulus: object, actions: list[object]) -> None:
        """Note a stimulus and its actions; before they are performed."""
        self._entries.append((now_ms, _brief(stimulus), [_brief(action) for action in actions]))

    def entries(self) -> list[Entry]:
        """Return a copy of the entries."""
        return list(self._entries)

    def text(self, count: int) -> str:
        """Return the last entries, one a line, as a log shows them."""
        return "\n".join(f"{now_ms} {stimulus} -> {actions}" for now_ms, stimulus, actions in self.entries()[-count:])


def _brief(item: object) -> object:
    if isinstance(item, (ManagerSaid, SendTo)):
        message = _brief_message(item.message)
        return item if message is item.message else replace(item, message=message)
    if isinstance(item, (RunFailed, CoordinatorFailed, EndJob)) and item.failure is not None:
        return replace(item, failure=_brief_failure(item.failure))
    return item


def _brief_message(message: object) -> object:
    if isinstance(message, HeartbeatReport):
        return replace(message, metrics={}, accumulators={}, manager_metrics={})
    if isinstance(message, TaskStateReport) and (message.metrics or message.accumulators or message.failure):
        failure = None if message.failure is None else _brief_failure(message.failure)
        return replace(message, metrics={}, accumulators={}, failure=failure)
    if isinstance(message, DeployTasks):
        tasks = tuple(replace(task, partitions=(), gates=()) for task in message.tasks)
        return replace(message, tasks=tasks, places=b"")
    return message


def _brief_failure(failure: Failure) -> Failure:
    return replace(failure, exception=None)
