"""What breaks at a moment that the seed chose: each kind is a function of the world, which picks whom it hits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    CancelTask,
    DeployTasks,
    HeartbeatReport,
    HeartbeatRequest,
    OperatorEventReport,
    ReleaseManager,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.master_actions import CoordinatorFailed, ManagerSaid

if TYPE_CHECKING:
    from simulation.world.managers import SimManager
    from simulation.world.tasks import SimTask
    from simulation.world.world import World

OLD_SESSION = "0" * 32


def cause(world: World, kind: str) -> None:
    """Have it happen, if there is anybody that it can happen to."""
    if world.end is None:
        world.note("trouble:", kind)
        KINDS[kind](world)


def _manager(world: World) -> SimManager | None:
    living = world.provider.living()
    return world.rng.choice(living) if living else None


def _running(world: World) -> list[SimTask]:
    managers = [each for each in world.provider.managers.values() if each.is_alive]
    return [task for manager in managers for task in manager.tasks.values() if not task.is_gone]


def _kill(world: World) -> None:
    manager = _manager(world)
    if manager is not None:
        manager.kill("kill -9")


def _kill_between(world: World) -> None:
    """In the middle of what it has begun."""
    manager = _manager(world)
    if manager is not None:
        manager.dies_after = world.rng.randint(0, 20)


def _kill_program(world: World) -> None:
    """Its manager ends, as by an error of its own."""
    manager = world.provider.managers.get("program")
    if manager is not None:
        manager.kill("an error of its own")


def _break(world: World) -> None:
    manager = _manager(world)
    if manager is not None:
        manager.connection.break_off("connection reset")


def _hang(world: World) -> None:
    manager = _manager(world)
    if manager is not None:
        manager.connection.hang(("up", "down"), world.never_ms)


def _lose_machine(world: World) -> None:
    """Its processes go on, and nobody can end them."""
    manager = _manager(world)
    if manager is not None:
        manager.connection.is_out_of_reach = True
        manager.connection.hang(("up", "down"), world.never_ms)


def _hang_for_a_while(world: World) -> None:
    manager = _manager(world)
    if manager is not None:
        timeout_ms = world.config.heartbeat_timeout_ms
        manager.connection.hang(("up", "down"), world.now_ms + world.between((timeout_ms // 5, timeout_ms * 2)))


def _deafen(world: World) -> None:
    """One way only."""
    manager = _manager(world)
    if manager is not None:
        timeout_ms = world.config.heartbeat_timeout_ms
        until_ms = world.rng.choice((world.never_ms, world.now_ms + world.between((timeout_ms // 5, timeout_ms * 2))))
        manager.connection.hang((world.rng.choice(("up", "down")),), until_ms)


def _stall_manager(world: World) -> None:
    """User code holds the interpreter, or the process was stopped."""
    manager = _manager(world)
    if manager is not None:
        manager.was_ill = True
        manager.inbox.hold_up(world.between((100, world.config.heartbeat_timeout_ms * 2)))


def _stall_driver(world: World) -> None:
    world.inbox.hold_up(world.between((100, world.config.heartbeat_timeout_ms)))


def _fail_coordinator(world: World) -> None:
    if any(operator.has_coordinator for vertex in world.plan.vertices for operator in vertex.operators):
        world.tell(CoordinatorFailed(world.failure("an enumerator")))


def _old_session(world: World) -> None:
    """Both ends hear somebody who believes in an older job master."""
    tasks = _running(world)
    if not tasks:
        return
    task = world.rng.choice(tasks)
    failure = Failure("builtins.ValueError", "of an old session")
    said = (
        TaskStateReport(OLD_SESSION, task.attempt, world.rng.choice(("RUNNING", "FINISHED", "FAILED")), failure),
        HeartbeatReport(OLD_SESSION, 1, ()),
        OperatorEventReport(OLD_SESSION, task.attempt, "0" * 32, b"hello"),
    )
    world.tell(ManagerSaid(task.manager.id, world.rng.choice(said)))
    newer = replace(task.attempt, attempt_number=task.attempt.attempt_number + 7)
    told = (
        CancelTask(OLD_SESSION, task.attempt),
        ReleaseManager(OLD_SESSION, "of an old session"),
        DeployTasks(OLD_SESSION, (replace(task.descriptor, attempt=newer),)),
        HeartbeatRequest(OLD_SESSION, 1),
    )
    task.manager.inbox.put(world.rng.choice(told))


def _old_attempt(world: World) -> None:
    """A report that was under way for long, or of an attempt that never was."""
    subtasks = [(vertex.id, index) for vertex in world.plan.vertices for index in range(vertex.parallelism)]
    vertex_id, index = world.rng.choice(subtasks)
    current = world.invariants.number_of(vertex_id, index)
    number = world.rng.choice([each for each in (current - 1, current - 2, current + 99) if each >= 0])
    managers = world.provider.living()
    manager_id = world.rng.choice(managers).id if managers else "nobody"
    state = world.rng.choice(("INITIALIZING", "RUNNING", "FINISHED", "CANCELED", "FAILED"))
    failure = Failure("builtins.ValueError", "of an old attempt") if state == "FAILED" else None
    attempt = AttemptId(vertex_id, index, number)
    world.tell(ManagerSaid(manager_id, TaskStateReport(world.session_id, attempt, state, failure)))


def _register_again(world: World) -> None:
    """The first message comes a second time, even from a process that has gone."""
    managers = list(world.provider.managers.values())
    if managers:
        world.rng.choice(managers).register()


def _stranger(world: World) -> None:
    """Somebody whom nobody started."""
    tasks = _running(world)
    if tasks:
        report = TaskStateReport(
            world.session_id, world.rng.choice(tasks).attempt, "FAILED", Failure("x", "a stranger")
        )
        world.tell(ManagerSaid("stranger", report))


def _wake(world: World) -> None:
    world.tell(TimePassed())


def _fail_task(world: World) -> None:
    tasks = _running(world)
    if tasks:
        task = world.rng.choice(tasks)
        task.fail(world.failure(f"{task.attempt} at some moment"))


def _cut_channel(world: World) -> None:
    """A task loses what it reads, and who wrote that knows nothing of it."""
    tasks = [task for task in _running(world) if task.descriptor.gates]
    if tasks:
        task = world.rng.choice(tasks)
        task.fail(world.echo(f"{task.attempt} cannot read any more"))


def _fail_two_tasks(world: World) -> None:
    _fail_task(world)
    _fail_task(world)


KINDS: dict[str, Callable[[World], None]] = {
    "kill a manager": _kill,
    "kill a manager between two steps": _kill_between,
    "end the program's manager": _kill_program,
    "break a connection": _break,
    "hang a connection": _hang,
    "lose a machine": _lose_machine,
    "hang a connection for a while": _hang_for_a_while,
    "deafen a connection": _deafen,
    "stall a manager": _stall_manager,
    "stall the driver": _stall_driver,
    "fail a coordinator": _fail_coordinator,
    "speak for an old session": _old_session,
    "speak for an old attempt": _old_attempt,
    "register again": _register_again,
    "a stranger speaks": _stranger,
    "wake without need": _wake,
    "fail a task": _fail_task,
    "fail two tasks": _fail_two_tasks,
    "cut a channel": _cut_channel,
}
