"""The loop of a task: mails first, then a piece of its work, and sleep where there is neither.

One thread runs it and is the only one that touches operators. The default action processes a batch of input; it is
suspended while there is nothing to do for it. Flink: MailboxProcessor, MailboxExecutorImpl.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Protocol

from flinkbuf._core.task.task_mailbox import MAX_PRIORITY, MIN_PRIORITY, Mail, MailboxClosedError, TaskMailbox
from flinkbuf.streaming.chain.metrics import BUSY, TaskTimes

__all__ = [
    "MAX_PRIORITY",
    "MIN_PRIORITY",
    "Mail",
    "MailboxClosedError",
    "MailboxProcessor",
    "OperatorMailboxExecutor",
    "Suspension",
    "TaskMailbox",
]


class Bell(Protocol):
    """What a task sleeps on: `flinkbuf._core.ground.wakeup.TaskBell`."""

    def seen(self) -> int:
        """Return the count of rings so far; ask before looking for work."""
        ...

    def wait(self, seen: int, timeout_ms: int) -> bool:
        """Sleep while the count is still `seen`."""
        ...

    def ring(self) -> None:
        """Wake the sleeping thread; from any thread."""
        ...


class Suspension:
    """The default action is not called until this is resumed. Flink: ``MailboxDefaultAction.Suspension``."""

    def __init__(self, processor: MailboxProcessor, seen: int | None) -> None:
        self._processor = processor
        self._seen = seen  # bell's count when there was nothing to do; None: only resume() helps

    def resume(self) -> None:
        """Call the default action again; from any thread, any number of times."""
        processor = self._processor
        if processor.mailbox.is_mailbox_thread:
            processor.resume(self)
        else:
            processor.steer(lambda: processor.resume(self), "resume default action")

    def has_been_rung(self, bell: Bell) -> bool:
        """Return whether the bell has rung since the suspension, so that there may be work."""
        return self._seen is not None and bell.seen() != self._seen


class MailboxProcessor:
    """Runs mails and the default action on the thread that calls `run_mailbox_loop`.

    Parameters
    ----------
    default_action : callable
        Called with this processor, again and again; it does a bounded piece of work, and may suspend itself.
    mailbox : TaskMailbox
    times : TaskTimes
        Gets told whether the task is busy.
    """

    def __init__(self, default_action: Callable[[MailboxProcessor], None], mailbox: TaskMailbox, times: TaskTimes):
        self.mailbox = mailbox
        self.times = times
        self.mails_processed = 0
        self.last_latency_ns = 0  # how long the last mail waited
        self._default_action = default_action
        self._is_suspended = False
        self._suspension: Suspension | None = None

    @property
    def is_default_action_suspended(self) -> bool:
        """Return whether only mails are to be done."""
        return self._suspension is not None

    def run_mailbox_loop(self) -> None:
        """Run until `suspend`, or until a mail or the default action raises."""
        self._is_suspended = False
        self._check_usable()
        while not self._is_suspended:
            self._process_mails(waits=True)
            if not self._is_suspended:
                self._default_action(self)

    def run_mailbox_step(self) -> bool:
        """Do what can be done now without waiting: mails, then the default action once; returns whether anything was.

        For tests and for code that drives a task by hand.
        """
        self._is_suspended = False
        self._check_usable()
        before = self.mails_processed
        self._process_mails(waits=False)
        if self._is_suspended or self._suspension is not None:
            return self.mails_processed > before
        self._default_action(self)
        return True

    def _check_usable(self) -> None:
        if not self.mailbox.is_mailbox_thread:
            raise RuntimeError("the mailbox loop runs on the task's thread only")
        if self.mailbox.state != "OPEN":
            raise RuntimeError(f"the mailbox loop cannot run: the mailbox is {self.mailbox.state}")

    def _process_mails(self, waits: bool) -> None:
        mailbox = self.mailbox
        mailbox.post_due_timers()
        if mailbox.create_batch():
            while not self._is_suspended and (mail := mailbox.try_take_from_batch()) is not None:
                self._run(mail)
        while self._suspension is not None and not self._is_suspended:
            seen = mailbox.bell.seen()
            next_timer_ms = mailbox.post_due_timers()
            if (next_mail := mailbox.try_take(MIN_PRIORITY)) is not None:
                self._run(next_mail)
            elif self._suspension.has_been_rung(mailbox.bell):
                self._suspension.resume()
            elif waits:
                mailbox.sleep(seen, next_timer_ms)
            else:
                break

    def run_mails_until(self, is_over: Callable[[], bool]) -> None:
        """Run mails and nothing else until this holds; it is asked after each mail and each ring."""
        mailbox = self.mailbox
        while not is_over():
            seen = mailbox.bell.seen()
            next_timer_ms = mailbox.post_due_timers()
            if (mail := mailbox.try_take(MIN_PRIORITY)) is not None:
                self._run(mail)
            elif not is_over():
                mailbox.sleep(seen, next_timer_ms)

    def _run(self, mail: Mail) -> None:
        self.mails_processed += 1
        self.last_latency_ns = max(self.times.ticks() - mail.put_ns, 0)
        if self._suspension is None:
            mail.action()
            return
        before = self.times.enter(BUSY)
        mail.action()
        if self._suspension is not None:
            self.times.enter(before)

    # ---- the default action -----------------------------------------------------------------------------

    def suspend_default_action(self, state: int = BUSY, seen: int | None = None) -> Suspension:
        """Do not call the default action again until the suspension is resumed.

        Parameters
        ----------
        state : int
            What the task is meanwhile, for its `TaskTimes`.
        seen : int, optional
            The bell's count from before it was found that there is nothing to do: any ring since then resumes.
        """
        if not self.mailbox.is_mailbox_thread:
            raise RuntimeError("the default action is suspended on the task's thread only")
        if self._suspension is not None:
            raise RuntimeError("the default action is suspended already")
        self._suspension = Suspension(self, seen)
        self.times.enter(state)
        return self._suspension

    def resume(self, suspension: Suspension) -> None:
        """End a suspension, on the task's thread; nothing happens if another has come since."""
        if self._suspension is suspension:
            self._suspension = None
            self.times.enter(BUSY)

    # ---- the loop, from any thread ----------------------------------------------------------------------

    def steer(self, action: Callable[[], object], description: str) -> None:
        """Add a mail before all others; nothing happens if the mailbox takes none any more."""
        with contextlib.suppress(MailboxClosedError):
            self.mailbox.put_first(Mail(action, MAX_PRIORITY, description))

    def suspend(self) -> None:
        """End `run_mailbox_loop`; it can be called again."""
        self.steer(self._suspend, "suspend mailbox loop")

    def _suspend(self) -> None:
        self._is_suspended = True

    def report_throwable(self, error: BaseException) -> None:
        """End the loop with this error."""

        def fail() -> None:
            raise error

        self.steer(fail, "report throwable")

    # ---- the end ----------------------------------------------------------------------------------------

    def prepare_close(self) -> None:
        """Take no mail any more."""
        self.mailbox.quiesce()

    def drain(self) -> None:
        """Run the mails that are left."""
        for mail in self.mailbox.drain():
            self._run(mail)

    def close(self) -> None:
        """Drop the mails that were not run; idempotent."""
        self.mailbox.close()


class OperatorMailboxExecutor:
    """The mailbox as one operator sees it: its mails, and those of the operators behind it.

    Parameters
    ----------
    processor : MailboxProcessor
    mail_priority : int
        The operator's place in the chain, from 1; 0 for the task itself.
    locate : callable
        Called with an error that one of its mails has raised, before it goes on.
    """

    def __init__(
        self, processor: MailboxProcessor, mail_priority: int, locate: Callable[[BaseException], None] | None = None
    ) -> None:
        self._processor = processor
        self._priority = mail_priority
        self._locate = locate

    def submit(self, mail: Callable[[], object], description: str = "") -> None:
        """Call ``mail()`` on the task's thread; from any thread. MailboxClosedError after the task's end."""
        self._processor.mailbox.put(Mail(self._located(mail), self._priority, description))

    def _located(self, mail: Callable[[], object]) -> Callable[[], object]:
        locate = self._locate
        if locate is None:
            return mail

        def run() -> None:
            try:
                mail()
            except BaseException as error:
                locate(error)
                raise

        return run

    def yield_(self) -> None:
        """Wait for one mail of this operator or of those behind it, and run it; on the task's thread only.

        Mails of operators before it stay where they are, so that they do not run inside a call of their own.
        """
        self._processor._run(self._processor.mailbox.take(self._priority))

    def try_yield(self) -> bool:
        """Run one such mail if there is one; return whether there was."""
        mailbox = self._processor.mailbox
        mailbox.post_due_timers()
        mail = mailbox.try_take(self._priority)
        if mail is None:
            return False
        self._processor._run(mail)
        return True

    @property
    def is_idle(self) -> bool:
        """Return whether the task has nothing to do: no input, no mail."""
        processor = self._processor
        is_open = processor.mailbox.state == "OPEN"
        return is_open and processor.is_default_action_suspended and not processor.mailbox.has_mail_waiting
