"""Who holds a job: renewed until it is over, told once when it is lost, and after that nothing counts."""

import threading
from types import SimpleNamespace

import pytest

from flinkbuf.checkpoints.ha_store import LeaseLostError
from flinkbuf.runtime.driver.leadership import Leadership
from flinkbuf.runtime.driver.threads import Threads


class Lease:
    epoch = 3
    store = SimpleNamespace(path="/ha/job")

    def __init__(self):
        self.now_ms = 0
        self.renewed_ms = 0
        self.calls = []
        self.error = None
        self.renewed = threading.Event()

    def _called(self, *call):
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def clock_ms(self):
        return self.now_ms

    def renew(self):
        self.renewed.set()
        self._called("renew")
        self.renewed_ms = self.now_ms

    def give_up(self, reason):
        self.calls.append(("give up",))

    def add_checkpoint(self, checkpoint_id, path):
        self._called("add", checkpoint_id, path)

    def remove_checkpoint(self, checkpoint_id):
        self._called("remove", checkpoint_id)

    def finish(self, result):
        self._called("finish", result)

    def release(self):
        self._called("release")


class NoThreads(Threads):
    """What `start` does by itself is seen alone."""

    def begin(self, work, name):
        return None


@pytest.fixture
def lease():
    return Lease()


def test_a_lease_is_renewed_until_the_end_and_then_given_back(lease):
    lost = []
    leadership = Leadership(lease, 30)
    leadership.start(lost.append)
    assert lease.renewed.wait(30)
    leadership.close(is_over_for_good=False)
    assert lease.calls[-1] == ("release",) and lost == []


def test_a_job_that_is_over_for_good_is_not_given_back(lease):
    leadership = Leadership(lease, 30_000)
    leadership.start(print)
    assert lease.renewed.wait(30)
    assert leadership.finish("FINISHED")
    leadership.close(is_over_for_good=True)
    assert lease.calls == [("renew",), ("finish", "FINISHED")]


def test_it_is_told_once_that_another_one_has_taken_over(lease):
    lost, heard = [], threading.Event()
    lease.error = LeaseLostError("epoch 4 is there")
    leadership = Leadership(lease, 30)

    def hear(reason):
        lost.append(reason)
        heard.set()

    leadership.start(hear)
    assert heard.wait(30)
    assert not leadership.add_checkpoint(1, "/c")
    assert not leadership.finish("FINISHED")
    assert lost == ["epoch 4 is there"] and leadership.is_lost
    leadership.close(is_over_for_good=False)
    assert ("release",) not in lease.calls and ("add", 1, "/c") not in lease.calls


def test_a_storage_that_is_away_for_a_while_does_not_end_it(lease, caplog):
    lost = []
    lease.error = OSError("stale file handle")
    leadership = Leadership(lease, 3)
    leadership.start(lost.append)
    assert lease.renewed.wait(30)
    while "stale file handle" not in caplog.text:
        threading.Event().wait(0.01)
    lease.error = None
    assert leadership.add_checkpoint(1, "/c")
    leadership.close(is_over_for_good=False)
    assert lost == []


def test_a_lease_that_cannot_be_renewed_for_as_long_as_it_lasts_is_given_up(lease):
    lost, heard = [], threading.Event()
    lease.error = OSError("stale file handle")
    leadership = Leadership(lease, 30)
    leadership.start(lambda reason: (lost.append(reason), heard.set()))
    assert lease.renewed.wait(30) and not heard.is_set()
    lease.now_ms = 30  # since the last renewal, which was before the start
    lease_is_spared_once = not heard.wait(0.05)
    lease.now_ms = 40
    assert heard.wait(30) and lease_is_spared_once
    (reason,) = lost
    assert "its lease in /ha/job could not be renewed for 0.04 s (the last error was stale file handle)" in reason
    assert "start the program again" in reason
    assert not leadership.add_checkpoint(1, "/c") and not leadership.finish("FINISHED") and leadership.is_lost
    leadership.close(is_over_for_good=False)
    assert lease.calls[-1] == ("give up",)


def test_an_old_lease_is_renewed_before_the_job_begins(lease):
    lease.now_ms = 10_000  # since it was made
    leadership = Leadership(lease, 30_000, NoThreads())
    leadership.start(pytest.fail)
    assert lease.calls == [("renew",)] and not leadership.is_lost


def test_a_new_lease_is_not_renewed_twice_when_the_job_begins(lease):
    lease.now_ms = 9_999
    leadership = Leadership(lease, 30_000, NoThreads())
    leadership.start(pytest.fail)
    assert lease.calls == []


def test_whoever_was_overtaken_while_the_job_was_made_ready_hears_of_it_before_it_begins(lease):
    lost = []
    lease.now_ms, lease.error = 10_000, LeaseLostError("epoch 4 is there")
    leadership = Leadership(lease, 30_000, NoThreads())
    leadership.start(lost.append)
    assert lost == ["epoch 4 is there"] and leadership.is_lost


@pytest.mark.parametrize(("age_ms", "is_lost"), [(29_999, False), (30_000, True)])
def test_a_lease_that_cannot_be_renewed_when_the_job_begins_is_given_up_where_it_is_over(lease, age_ms, is_lost):
    lost = []
    lease.now_ms, lease.error = age_ms, OSError("stale file handle")
    leadership = Leadership(lease, 30_000, NoThreads())
    leadership.start(lost.append)
    assert leadership.is_lost == is_lost and (("give up",) in lease.calls) == is_lost
    if is_lost:
        assert "could not be renewed for 30 s (the last error was stale file handle)" in lost[0]


def test_a_directory_that_hangs_is_given_up_as_well(lease):
    lost, heard, hangs = [], threading.Event(), threading.Event()
    lease.renew = hangs.wait
    leadership = Leadership(lease, 3)
    leadership.start(lambda reason: (lost.append(reason), heard.set()))
    lease.now_ms = 1_000_000
    while not heard.wait(0.002):
        lease.now_ms += 1
    leadership.close(is_over_for_good=False)  # waits for no answer
    assert "(the directory has not answered)" in lost[0]
    hangs.set()


def test_a_checkpoint_is_forgotten_before_its_files_are_and_the_lease_looked_at_between(lease):
    leadership = Leadership(lease, 30_000)
    assert leadership.may_discard(4)
    assert lease.calls == [("remove", 4), ("renew",)]
    lease.error = LeaseLostError("gone")
    assert not leadership.may_discard(5)
