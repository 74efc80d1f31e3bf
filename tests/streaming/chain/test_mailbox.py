"""The loop of a task. Flink: MailboxProcessorTest, MailboxExecutorImplTest, TaskMailboxProcessorTest."""

import threading

import pytest

from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf.streaming.chain.mailbox import (
    MailboxClosedError,
    MailboxProcessor,
    OperatorMailboxExecutor,
    TaskMailbox,
)
from flinkbuf.streaming.chain.metrics import BACK_PRESSURED, IDLE, TaskTimes


class Ticks:
    """A clock that a test moves, in milliseconds."""

    def __init__(self):
        self.time_ms = 0

    def __call__(self):
        return self.time_ms * 1_000_000


def processor_of(default_action, ticks=None):
    return MailboxProcessor(default_action, TaskMailbox(TaskBell()), TaskTimes(ticks or Ticks()))


def executor_of(processor, priority=0):
    return OperatorMailboxExecutor(processor, priority)


def test_the_default_action_runs_until_the_loop_is_suspended():
    calls = []

    def act(controller):
        calls.append(len(calls))
        if len(calls) == 10:
            controller.suspend()

    processor = processor_of(act)
    processor.run_mailbox_loop()
    assert calls == list(range(10))


def test_a_suspended_loop_goes_on_when_it_is_run_again():
    calls = []

    def act(controller):
        calls.append(True)
        if len(calls) % 3 == 0:
            controller.suspend()

    processor = processor_of(act)
    processor.run_mailbox_loop()
    assert len(calls) == 3
    processor.run_mailbox_loop()
    assert len(calls) == 6


def test_a_loop_suspended_before_it_runs_returns_before_the_default_action():
    processor = processor_of(lambda controller: pytest.fail("not called"))
    processor.suspend()
    processor.run_mailbox_loop()


def test_a_suspended_default_action_is_not_called_until_it_is_resumed():
    calls, suspensions = [], []

    def act(controller):
        calls.append(threading.get_ident())
        if len(calls) == 1:
            suspensions.append(controller.suspend_default_action())
            mailbox.submit(lambda: order.append("mail"))
            threading.Timer(0.02, suspensions[0].resume).start()
        else:
            order.append("resumed")
            controller.suspend()

    order = []
    processor = processor_of(act)
    mailbox = executor_of(processor)
    processor.run_mailbox_loop()
    assert order == ["mail", "resumed"]
    assert len(calls) == 2


def test_another_thread_resumes_it_again_and_again():
    suspensions = threading.Semaphore(0)
    current, calls = [], []

    def resume():
        for _ in range(200):
            suspensions.acquire(timeout=10)
            current.pop().resume()

    def act(controller):
        calls.append(True)
        if len(calls) > 200:
            controller.suspend()
            return
        current.append(controller.suspend_default_action())
        suspensions.release()

    thread = threading.Thread(target=resume)
    thread.start()
    processor_of(act).run_mailbox_loop()
    thread.join(10)
    assert len(calls) == 201


def test_an_old_suspension_does_not_resume_a_new_one():
    processor = processor_of(lambda controller: None)
    old = processor.suspend_default_action()
    old.resume()
    old.resume()
    new = processor.suspend_default_action()
    old.resume()
    assert processor.is_default_action_suspended
    new.resume()
    assert not processor.is_default_action_suspended


def test_it_cannot_be_suspended_twice():
    processor = processor_of(lambda controller: None)
    processor.suspend_default_action()
    with pytest.raises(RuntimeError, match="suspended already"):
        processor.suspend_default_action()


def test_any_ring_resumes_what_waits_for_the_bell():
    calls = []

    def act(controller):
        calls.append(True)
        if len(calls) == 1:
            seen = bell.seen()
            bell.ring()  # before it is suspended: not lost
            controller.suspend_default_action(IDLE, seen)
        else:
            controller.suspend()

    processor = processor_of(act)
    bell = processor.mailbox.bell
    processor.run_mailbox_loop()
    assert len(calls) == 2


def test_resuming_after_the_end_does_nothing():
    processor = processor_of(lambda controller: None)
    suspension = processor.suspend_default_action()
    processor.close()
    thread = threading.Thread(target=suspension.resume)
    thread.start()
    thread.join(10)
    assert processor.is_default_action_suspended


def test_a_mail_that_puts_itself_again_does_not_starve_the_default_action():
    calls = []

    def again():
        calls.append("mail")
        mailbox.submit(again)

    def act(controller):
        calls.append("action")
        if calls.count("action") == 5:
            controller.suspend()

    processor = processor_of(act)
    mailbox = executor_of(processor)
    mailbox.submit(again)
    processor.run_mailbox_loop()
    assert calls == ["mail", "action"] * 5


def test_all_mails_of_a_batch_run_before_the_default_action():
    calls = []

    def act(controller):
        calls.append("action")
        controller.suspend()

    processor = processor_of(act)
    for name in "abc":
        executor_of(processor).submit(lambda name=name: calls.append(name))
    processor.run_mailbox_loop()
    assert calls == ["a", "b", "c", "action"]


def test_an_error_of_a_mail_ends_the_loop():
    processor = processor_of(lambda controller: None)

    def fail():
        raise LookupError("mail")

    executor_of(processor).submit(fail)
    with pytest.raises(LookupError, match="mail"):
        processor.run_mailbox_loop()


def test_an_error_of_the_default_action_ends_the_loop():
    def act(controller):
        raise LookupError("action")

    with pytest.raises(LookupError, match="action"):
        processor_of(act).run_mailbox_loop()


def test_a_reported_error_ends_the_loop_before_other_mails():
    processor = processor_of(lambda controller: None)
    executor_of(processor).submit(lambda: pytest.fail("it comes later"))
    error = LookupError("from another thread")
    thread = threading.Thread(target=processor.report_throwable, args=(error,))
    thread.start()
    thread.join(10)
    with pytest.raises(LookupError) as caught:
        processor.run_mailbox_loop()
    assert caught.value is error


def test_a_step_does_not_wait():
    calls = []

    def act(controller):
        calls.append("action")
        if len(calls) == 2:
            suspensions.append(controller.suspend_default_action())

    suspensions = []
    processor = processor_of(act)
    assert processor.run_mailbox_step() and processor.run_mailbox_step()
    assert not processor.run_mailbox_step()
    executor_of(processor).submit(lambda: calls.append("mail"))
    assert processor.run_mailbox_step()
    suspensions[0].resume()
    assert processor.run_mailbox_step()
    assert calls == ["action", "action", "mail", "action"]


def test_only_its_own_thread_runs_the_loop():
    processor, errors = processor_of(lambda controller: None), []

    def run():
        with pytest.raises(RuntimeError, match="task's thread") as caught:
            processor.run_mailbox_loop()
        errors.append(caught.value)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert errors


def test_it_does_not_run_after_its_end():
    processor = processor_of(lambda controller: None)
    processor.prepare_close()
    with pytest.raises(RuntimeError, match="QUIESCED"):
        processor.run_mailbox_loop()


# ---- the executor ------------------------------------------------------------------------------------------


def test_yield_runs_one_mail():
    processor, calls = processor_of(lambda controller: None), []
    mailbox = executor_of(processor)
    mailbox.submit(lambda: calls.append(1))
    mailbox.submit(lambda: calls.append(2))
    mailbox.yield_()
    assert calls == [1]
    assert mailbox.try_yield() and calls == [1, 2]
    assert not mailbox.try_yield()


def test_yield_waits_for_a_mail():
    processor, calls = processor_of(lambda controller: None), []
    mailbox = executor_of(processor)
    threading.Timer(0.02, lambda: mailbox.submit(lambda: calls.append(1))).start()
    mailbox.yield_()
    assert calls == [1]


def test_yield_runs_mails_of_operators_behind_and_not_of_those_before():
    processor, calls = processor_of(lambda controller: None), []
    first, second, third = (executor_of(processor, priority) for priority in (1, 2, 3))
    for name, mailbox in [("first", first), ("third", third), ("second", second)]:
        mailbox.submit(lambda name=name: calls.append(name))
    second.yield_()
    assert second.try_yield() and not second.try_yield()
    assert calls == ["third", "second"]
    assert first.try_yield() and calls[2:] == ["first"]


def test_after_close_mails_are_refused_and_waiting_ones_are_dropped():
    processor = processor_of(lambda controller: None)
    mailbox = executor_of(processor)
    mailbox.submit(lambda: pytest.fail("dropped"))
    processor.close()
    with pytest.raises(MailboxClosedError):
        mailbox.submit(lambda: None)
    with pytest.raises(MailboxClosedError):
        mailbox.yield_()


def test_an_error_of_a_mail_is_located_and_goes_on():
    processor, located = processor_of(lambda controller: None), []
    mailbox = OperatorMailboxExecutor(processor, 1, located.append)

    def fail():
        raise LookupError

    mailbox.submit(fail)
    with pytest.raises(LookupError) as caught:
        mailbox.yield_()
    assert located == [caught.value]


def test_the_last_mails_run_when_it_is_drained():
    processor, calls = processor_of(lambda controller: None), []
    executor_of(processor).submit(lambda: calls.append(1))
    processor.prepare_close()
    processor.drain()
    assert calls == [1]


def test_an_operator_knows_whether_its_task_is_idle():
    processor = processor_of(lambda controller: None)
    mailbox = executor_of(processor)
    assert not mailbox.is_idle
    processor.suspend_default_action()
    assert mailbox.is_idle
    mailbox.submit(lambda: None)
    assert not mailbox.is_idle


# ---- numbers -----------------------------------------------------------------------------------------------


def test_mails_are_counted():
    processor = processor_of(lambda controller: controller.suspend())
    for _ in range(3):
        executor_of(processor).submit(lambda: None)
    assert processor.mailbox.size == 3
    processor.run_mailbox_loop()
    assert processor.mails_processed == 4  # one of them ends the loop
    assert processor.mailbox.size == 0


@pytest.mark.parametrize("state", [IDLE, BACK_PRESSURED])
def test_time_in_mails_is_not_idle_time(state):
    ticks = Ticks()
    processor = processor_of(lambda controller: None, ticks)

    def work():
        ticks.time_ms += 5

    ticks.time_ms = 1
    suspension = processor.suspend_default_action(state)
    ticks.time_ms += 10
    executor_of(processor).submit(work)
    processor.run_mailbox_step()
    ticks.time_ms += 20
    suspension.resume()
    ticks.time_ms += 2
    assert processor.times.total_ms(state) == 30
    assert processor.times.total_ms(0) == 8
