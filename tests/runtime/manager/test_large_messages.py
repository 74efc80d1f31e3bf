"""What a task manager says instead of a message that is too large, and that its tasks alone are concerned."""

import pytest

from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.control.secure_link import MESSAGE_LIMIT, MessageTooLargeError
from flinkbuf.runtime.manager import large_messages
from flinkbuf.runtime.manager.large_messages import instead_of
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    CheckpointAcknowledgement,
    CheckpointRefusal,
    HeartbeatReport,
    ManagerLeaving,
    OperatorEventReport,
    TasksSampled,
    TaskStateReport,
)

SESSION = "5e" * 16
FIRST, SECOND = AttemptId("ab" * 16, 0, 0), AttemptId("cd" * 16, 1, 0)
SIZE = str(MessageTooLargeError(MESSAGE_LIMIT + 1))
LARGE = {"few": {"type": "IntCounter", "value": 3}, "names": {"type": "ListAccumulator", "value": ["x" * 3000]}}
SMALL = {"few": {"type": "IntCounter", "value": 3}}
TEXT = r"accumulator 'names' \(ListAccumulator\) has grown to 30\d\d bytes.* at most 67108864 can be told"


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    monkeypatch.setattr(large_messages, "ACCUMULATORS_MAX", 2000)


def test_a_heartbeat_goes_without_accumulators_and_the_task_whose_they_are_fails():
    report = HeartbeatReport(SESSION, 7, (FIRST, SECOND), {"m": {}}, {str(FIRST): LARGE, str(SECOND): SMALL})
    instead = instead_of(report, SIZE)
    assert instead.messages == (HeartbeatReport(SESSION, 7, (FIRST, SECOND), {"m": {}}),)
    assert list(instead.failing) == [FIRST]
    with pytest.raises(ValueError, match=TEXT):
        raise instead.failing[FIRST]
    assert Failure.of(instead.failing[FIRST]).can_restart is False


def test_accumulators_that_are_too_large_only_together_fail_no_task():
    report = HeartbeatReport(SESSION, 7, (FIRST, SECOND), {}, {str(FIRST): SMALL, str(SECOND): SMALL})
    instead = instead_of(report, SIZE)
    assert instead.messages[0].accumulators == {} and instead.failing == {}


@pytest.mark.parametrize(("state", "said"), [("FINISHED", "FAILED"), ("FAILED", "FAILED"), ("CANCELED", "CANCELED")])
def test_the_last_report_of_a_task_says_what_was_too_large(state, said):
    (report,) = instead_of(TaskStateReport(SESSION, FIRST, state, None, LARGE), SIZE).messages
    assert (report.attempt, report.state, report.accumulators) == (FIRST, said, {})
    assert report.failure.can_restart is False
    with pytest.raises(ValueError, match=TEXT):
        raise report.failure.to_exception()


def test_a_task_that_has_failed_keeps_its_reason():
    failure = Failure("builtins.KeyError", "thirty")
    (report,) = instead_of(TaskStateReport(SESSION, FIRST, "FAILED", failure, LARGE), SIZE).messages
    assert (report.failure, report.accumulators) == (failure, {})


def test_a_checkpoint_whose_state_no_message_holds_is_refused_with_what_to_set():
    (refusal,) = instead_of(CheckpointAcknowledgement(SESSION, FIRST, 4, SubtaskState()), SIZE).messages
    assert isinstance(refusal, CheckpointRefusal)
    assert (refusal.attempt, refusal.checkpoint_id) == (FIRST, 4)
    for word in ("execution.checkpointing.dir", "data-inline-threshold", str(MESSAGE_LIMIT)):
        assert word in refusal.failure.message


def test_an_event_for_a_coordinator_fails_its_task_and_a_sample_of_threads_goes_empty():
    instead = instead_of(OperatorEventReport(SESSION, FIRST, "op", b""), SIZE)
    assert instead.messages == () and list(instead.failing) == [FIRST]
    (sampled,) = instead_of(TasksSampled(SESSION, 3, {"large": 1}), SIZE).messages
    assert sampled.request == 3 and "large" not in sampled.tree


def test_for_others_there_is_no_other_way():
    assert instead_of(ManagerLeaving("x"), SIZE) is None
