"""Savepoints that were asked for: each is answered once."""

import pytest

from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.driver.savepoint_requests import SavepointError, SavepointRequests
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.scheduler.master_actions import RequestAnswered, TriggerSavepoint


def test_each_has_its_own_number_and_answer():
    requests = SavepointRequests()
    first, first_path = requests.ask(SnapshotKind.SAVEPOINT, "/a")
    second, second_path = requests.ask(SnapshotKind.SAVEPOINT_SUSPEND, "/b")
    assert first == TriggerSavepoint(1, SnapshotKind.SAVEPOINT, "/a") and second.request == 2
    requests.answered(RequestAnswered(2, path="/b/savepoint"))
    assert second_path.result(0) == "/b/savepoint" and not first_path.done()


def test_a_checkpoint_is_answered_with_its_number():
    requests = SavepointRequests()
    stimulus, number = requests.ask(SnapshotKind.FULL_CHECKPOINT)
    requests.answered(RequestAnswered(stimulus.request, path="/checkpoints/chk-7", checkpoint_id=7))
    assert number.result(0) == 7


def test_a_refusal_has_its_words_and_its_cause():
    requests = SavepointRequests()
    stimulus, path = requests.ask(SnapshotKind.SAVEPOINT, "")
    cause = OSError("disk full")
    requests.answered(RequestAnswered(stimulus.request, failure=Failure.of(cause)))
    with pytest.raises(SavepointError, match="disk full") as caught:
        path.result(0)
    assert caught.value.__cause__ is cause


def test_the_end_of_the_job_answers_what_is_open_and_later_answers_are_nobodys():
    requests = SavepointRequests()
    stimulus, path = requests.ask(SnapshotKind.SAVEPOINT, "")
    requests.end("the job is FAILED")
    requests.answered(RequestAnswered(stimulus.request, path="/late"))
    with pytest.raises(SavepointError, match="the job is FAILED"):
        path.result(0)
