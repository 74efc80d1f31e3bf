"""What a job master wants sent goes out: whole, in parts, or not at all and the job is told why."""

from types import SimpleNamespace

import pytest

from flinkbuf.control.secure_link import MessageTooLargeError
from flinkbuf.runtime.driver.action_performer import ActionPerformer
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.messages import DeployTasks, HeartbeatRequest
from flinkbuf.runtime.scheduler.master_actions import CoordinatorFailed, SendTo

SESSION = "5e" * 16


class Connection:
    """Takes messages of so many tasks, and none that a task is alone too large for."""

    def __init__(self, limit, refused=()):
        self.limit, self.refused, self.sent = limit, refused, []

    def send(self, message):
        tasks = getattr(message, "tasks", ())
        if len(tasks) > self.limit or any(each.attempt.subtask_index in self.refused for each in tasks):
            raise MessageTooLargeError(1 << 30)
        self.sent.append(message)


def performer(connection, told):
    job = SimpleNamespace(graph=SimpleNamespace(vertices=()), job_id="j", clock=None, session_id=SESSION)
    made = ActionPerformer(job, told.append, None)
    made.connected("m", connection)
    return made


def deployment(count):
    tasks = (
        TaskDeploymentDescriptor(AttemptId("a" * 32, index, 0), "map", count, 128, index, (), ())
        for index in range(count)
    )
    return SendTo("m", DeployTasks(SESSION, tuple(tasks), b"places"))


@pytest.mark.parametrize(("limit", "sizes"), [(9, [5]), (3, [2, 3]), (2, [2, 1, 2]), (1, [1] * 5)])
def test_tasks_that_are_too_large_together_go_in_several_messages_in_their_order(limit, sizes):
    connection, told = Connection(limit), []
    performer(connection, told).perform(deployment(5))
    assert [len(each.tasks) for each in connection.sent] == sizes
    assert [task.attempt.subtask_index for each in connection.sent for task in each.tasks] == list(range(5))
    assert {each.places for each in connection.sent} == {b"places"}
    assert told == []


def test_a_task_that_is_too_large_by_itself_fails_the_job():
    connection, told = Connection(9, refused={1}), []
    performer(connection, told).perform(deployment(2))
    [failed] = told
    assert isinstance(failed, CoordinatorFailed)
    assert failed.failure.message.startswith("DeployTasks for task manager m cannot be sent: a control message of")


def test_what_is_for_a_lost_task_manager_is_not_sent():
    connection, told = Connection(9), []
    made = performer(connection, told)
    made.lost("m")
    made.perform(SendTo("m", HeartbeatRequest(SESSION, 1)))
    assert connection.sent == told == []
