"""The mailbox of a task: order, priorities, batches, and its end. Flink: TaskMailboxImplTest."""

import threading

import pytest

from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.task.task_mailbox import MAX_PRIORITY, MIN_PRIORITY, Mail, MailboxClosedError, TaskMailbox


@pytest.fixture
def mailbox():
    return TaskMailbox(TaskBell())


def mail(name, mail_priority=1):
    return Mail(lambda: name, mail_priority, name)


def names(mails):
    return [each.description for each in mails]


def take_all(mailbox, mail_priority=MIN_PRIORITY):
    taken = []
    while (each := mailbox.try_take(mail_priority)) is not None:
        taken.append(each)
    return names(taken)


def in_other_thread(action):
    result = []
    thread = threading.Thread(target=lambda: result.append(action()))
    thread.start()
    thread.join(10)
    return result[0]


def error_in_other_thread(action):
    def run():
        with pytest.raises(RuntimeError) as caught:
            action()
        return caught.value

    return in_other_thread(run)


def test_mails_are_taken_in_the_order_in_which_they_were_put(mailbox):
    for name in "abc":
        mailbox.put(mail(name))
    assert take_all(mailbox) == ["a", "b", "c"]


def test_what_is_put_first_overtakes_what_waits(mailbox):
    mailbox.put(mail("a"))
    mailbox.put_first(mail("b"))
    assert take_all(mailbox) == ["b", "a"]


def test_what_another_thread_puts_first_overtakes_what_waits(mailbox):
    mailbox.put(mail("a"))
    mailbox.create_batch()
    mailbox.put(mail("b"))
    in_other_thread(lambda: mailbox.put_first(mail("c")))
    in_other_thread(lambda: mailbox.put_first(mail("d")))
    assert take_all(mailbox) == ["d", "c", "a", "b"]


def test_what_another_thread_puts_first_is_at_the_front_of_the_next_batch(mailbox):
    mailbox.put(mail("a"))
    in_other_thread(lambda: mailbox.put_first(mail("b")))
    assert mailbox.create_batch()
    assert names([mailbox.try_take_from_batch(), mailbox.try_take_from_batch()]) == ["b", "a"]


def test_a_batch_does_not_see_what_comes_later(mailbox):
    mailbox.put(mail("a"))
    mailbox.put(mail("b"))
    mailbox.create_batch()
    mailbox.put(mail("c"))
    assert names([mailbox.try_take_from_batch(), mailbox.try_take_from_batch()]) == ["a", "b"]
    assert mailbox.try_take_from_batch() is None
    assert mailbox.has_mail_waiting
    assert mailbox.create_batch()
    assert mailbox.try_take_from_batch().description == "c"


def test_a_batch_of_nothing_is_none(mailbox):
    assert not mailbox.create_batch()
    assert not mailbox.has_mail_waiting


def test_drain_gives_the_batch_and_then_the_queue(mailbox):
    for name in "ab":
        mailbox.put(mail(name))
    mailbox.create_batch()
    mailbox.put(mail("c"))
    assert names(mailbox.drain()) == ["a", "b", "c"]
    assert mailbox.size == 0 and not mailbox.has_mail_waiting


@pytest.mark.parametrize("is_batched", [False, True])
def test_mails_of_lower_priority_are_skipped_and_keep_their_place(mailbox, is_batched):
    for name, mail_priority in [("a", 1), ("b", 3), ("c", 2), ("d", 3), ("e", 1)]:
        mailbox.put(mail(name, mail_priority))
    if is_batched:
        mailbox.create_batch()
    assert mailbox.take(2).description == "b"
    assert take_all(mailbox, 3) == ["d"]
    assert mailbox.try_take(3) is None
    assert mailbox.has_mail_waiting
    assert take_all(mailbox) == ["a", "c", "e"]


def test_the_batch_is_looked_at_before_the_queue(mailbox):
    mailbox.put(mail("a", 1))
    mailbox.create_batch()
    mailbox.put(mail("b", MAX_PRIORITY))
    assert mailbox.take(0).description == "a"


def test_many_producers_lose_nothing_and_keep_their_order(mailbox):
    def produce(producer):
        for number in range(1000):
            mailbox.put(Mail(lambda: None, 1, f"{producer} {number}"))

    threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(4)]
    for thread in threads:
        thread.start()
    taken = [mailbox.take(MIN_PRIORITY).description.split() for _ in range(4000)]
    for thread in threads:
        thread.join()
    assert mailbox.try_take(MIN_PRIORITY) is None
    for producer in "0123":
        assert [int(number) for by, number in taken if by == producer] == list(range(1000))


def test_take_waits_for_a_mail_of_another_thread(mailbox):
    threading.Timer(0.02, lambda: mailbox.put(mail("late"))).start()
    assert mailbox.take(MIN_PRIORITY).description == "late"


def test_take_has_timers_posted_before_it_waits():
    posted = []

    def post():
        if not posted:
            posted.append(True)
            mailbox.put(mail("timer"))

    mailbox = TaskMailbox(TaskBell(), post)
    assert mailbox.take(MIN_PRIORITY).description == "timer"


def test_after_quiesce_nothing_is_put_and_what_is_there_is_taken(mailbox):
    mailbox.put(mail("a"))
    mailbox.quiesce()
    assert mailbox.state == "QUIESCED"
    for put in (mailbox.put, mailbox.put_first):
        with pytest.raises(MailboxClosedError, match="quiesced.*'b'"):
            put(mail("b"))
    assert take_all(mailbox) == ["a"]


def test_after_close_nothing_is_put_or_taken(mailbox):
    mailbox.put(mail("a"))
    assert names(mailbox.close()) == ["a"]
    with pytest.raises(MailboxClosedError):
        mailbox.put(mail("b"))
    with pytest.raises(MailboxClosedError):
        mailbox.try_take(MIN_PRIORITY)
    with pytest.raises(MailboxClosedError):
        mailbox.take(MIN_PRIORITY)
    assert mailbox.close() == []


def test_a_producer_is_told_that_the_mailbox_closed(mailbox):
    mailbox.close()
    assert isinstance(error_in_other_thread(lambda: mailbox.put(mail("a"))), MailboxClosedError)


@pytest.mark.parametrize("name", ["create_batch", "try_take_from_batch", "drain", "quiesce", "close"])
def test_only_the_tasks_thread_takes(mailbox, name):
    assert "only the task's thread" in str(error_in_other_thread(getattr(mailbox, name)))


def test_the_thread_that_binds_is_the_tasks(mailbox):
    def take_over():
        mailbox.bind()
        mailbox.put(mail("a"))
        return mailbox.try_take(MIN_PRIORITY).description

    assert in_other_thread(take_over) == "a"
    assert not mailbox.is_mailbox_thread


def test_each_mail_rings_the_bell(mailbox):
    seen = mailbox.bell.seen()
    mailbox.put(mail("a"))
    assert mailbox.bell.wait(seen, 0)
    seen = mailbox.bell.seen()
    mailbox.put_first(mail("b"))
    assert mailbox.bell.wait(seen, 0)
