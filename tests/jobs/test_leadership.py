"""Who holds a job: renewed until it is over, told once when it is lost, and after that nothing counts."""

import threading

import pytest

from flinkbuf.checkpoints.ha_store import LeaseLostError
from flinkbuf.jobs.leadership import Leadership


class Lease:
    epoch = 3

    def __init__(self):
        self.calls = []
        self.error = None
        self.renewed = threading.Event()

    def _called(self, *call):
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def renew(self):
        self.renewed.set()
        self._called("renew")

    def add_checkpoint(self, checkpoint_id, path):
        self._called("add", checkpoint_id, path)

    def remove_checkpoint(self, checkpoint_id):
        self._called("remove", checkpoint_id)

    def finish(self, result):
        self._called("finish", result)

    def release(self):
        self._called("release")


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
    assert leadership.finish("FINISHED")
    leadership.close(is_over_for_good=True)
    assert lease.calls == [("finish", "FINISHED")]


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


def test_a_checkpoint_is_forgotten_before_its_files_are_and_the_lease_looked_at_between(lease):
    leadership = Leadership(lease, 30_000)
    assert leadership.may_discard(4)
    assert lease.calls == [("remove", 4), ("renew",)]
    lease.error = LeaseLostError("gone")
    assert not leadership.may_discard(5)
