"""Whether Spark can run a barrier stage over an RDD: asked before it starts, since Spark itself says so late or never.

A barrier stage needs a slot for every task at once, takes no dynamic allocation, and no union, coalesce or zip
within the stage. Spark looks for slots for ten minutes before it gives up.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.log import logger
from flinkbuf.spark.workers import is_local

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import RDD, SparkContext

REGISTRATION_S = 30.0  # spark.scheduler.maxRegisteredResourcesWaitingTime: how long executors may take to appear
REPLACEMENT_S = 60.0  # so long a cluster may take to replace one that was lost
_LOOK_S = 0.1


@dataclass(frozen=True)
class StageUser:
    """The user of a barrier stage, as messages that refuse the stage name it and its ways out.

    Attributes
    ----------
    name : str
        Such as "a pipelined exchange".
    log_name : str
        What its lines in the log begin with.
    needs : str
        What of his the tasks are, such as "with {count} partitions"; `count` is filled in.
    fewer : str
        How to do with fewer tasks, such as "pass num_partitions={slots}"; `slots` is filled in.
    otherwise : str
        How to do without a barrier stage.
    once : str
        What of him in the same stage would be one too many, and what to do about it.
    """

    name: str
    log_name: str
    needs: str
    fewer: str
    otherwise: str
    once: str


def check_barrier_stage(data: RDD[object], task_count: int, user: StageUser) -> None:
    """Refuse, in one sentence with the numbers and the way out, what Spark would not run as a barrier stage.

    Parameters
    ----------
    data : RDD
        What the tasks read.
    task_count : int
        How many tasks the stage has; where that is not the number of partitions of `data`, a shuffle comes before it.
    user : StageUser
        Who wants the stage.

    Raises
    ------
    ValueError
        If there are fewer slots than tasks, dynamic allocation is on, or the RDD is made in a way that a barrier stage
        does not allow.
    """
    check_allocation(data.context, user)
    check_slots(data, task_count, user)
    if data.getNumPartitions() == task_count:
        check_chain(data, task_count, user)


def check_allocation(context: SparkContext, user: StageUser) -> None:
    """Refuse dynamic allocation, which Spark never runs a barrier stage with."""
    conf = context.getConf()
    is_on = (conf.get("spark.dynamicAllocation.enabled") or "false").lower() == "true"
    if is_on and not is_local(context):
        raise ValueError(
            f"{user.name} needs all of its tasks to run at once, which Spark does not promise with dynamic "
            f"allocation: set spark.dynamicAllocation.enabled=false for this application, or {user.otherwise}"
        )


def check_slots(data: RDD[object], task_count: int, user: StageUser) -> None:
    """Refuse more tasks than can run at once, after giving executors that are on their way the time to come."""
    context = data.context
    slots = slot_count(data)
    if slots < task_count and not is_local(context):
        slots = _wait_for_slots(data, slots, task_count, user)
    if slots >= task_count:
        return
    cpus = context.getConf().get("spark.task.cpus") or "1"
    more = (
        f"start Spark with local[{task_count}]" if is_local(context) else "give the application more executors or cores"
    )
    fewer = f"{user.fewer.format(slots=slots)}, " if slots and user.fewer else ""
    raise ValueError(
        f"{user.name} {user.needs.format(count=task_count)} runs {task_count} tasks at once, but {context.master} has "
        f"slots for {slots} (spark.task.cpus={cpus}): {fewer}{more}, or {user.otherwise}"
    )


def slots_at_once(context: SparkContext, wanted: int) -> int:
    """Return how many tasks can run at once, or soon can; it need not be more than `wanted`."""
    slots = slot_count(context.parallelize((), max(1, wanted)))
    if slots >= wanted or is_local(context):
        return slots
    return max(slots, expected_slot_count(context))


def _wait_for_slots(data: RDD[object], slots: int, task_count: int, user: StageUser) -> int:
    """Give executors time to appear, after the start or after one was lost; returns the slots that there are then."""
    context = data.context
    deadline = context.startTime / 1000 + REGISTRATION_S
    expected = max(expected_slot_count(context), _greatest_slot_count(context))
    if expected >= task_count:
        deadline = max(deadline, time.time() + REPLACEMENT_S)
        logger.warning(
            "%s: %s has slots for %d tasks at once where %d are needed and %d are to be expected; waiting up to "
            "%d s for its executors to come, or to come back",
            user.log_name,
            context.master,
            slots,
            task_count,
            expected,
            REPLACEMENT_S,
        )
    while slots < task_count and time.time() < deadline:
        time.sleep(_LOOK_S)
        slots = slot_count(data)
    return slots


def expected_slot_count(context: SparkContext) -> int:
    """Return how many tasks could run at once when the cluster was at its largest, or as many as it was asked for.

    A cluster replaces executors that are lost, so what it had it will have again; what it never had will not come.
    """
    conf = context.getConf()
    cpus = int(conf.get("spark.task.cpus") or 1)
    asked = int(conf.get("spark.executor.instances") or 0) * (int(conf.get("spark.executor.cores") or 1) // cpus)
    try:
        return max(asked, _most_at_once(_lives_of_executors(context, cpus)))
    except Exception:  # Spark's own store, of no public interface
        return asked


def _greatest_slot_count(context: SparkContext) -> int:
    """Return how many tasks can run at once if the application gets all the cores that it may have; 0: nothing says.

    A standalone cluster gives what it has, up to ``spark.cores.max``; a ``local-cluster`` says how many it will have.
    """
    conf, master = context.getConf(), context.master or ""
    cpus = int(conf.get("spark.task.cpus") or 1)
    if master.startswith("local-cluster["):
        workers, cores, _ = master.removeprefix("local-cluster[").rstrip("]").split(",")
        return int(workers) * (int(cores) // cpus)
    most, cores_each = int(conf.get("spark.cores.max") or 0), int(conf.get("spark.executor.cores") or 0)
    return most // cores_each * (cores_each // cpus) if cores_each else most // cpus


def _lives_of_executors(context: SparkContext, cpus: int) -> list[tuple[int, int | None, int]]:
    """Return of each executor when it came and went, in ms, and its slots."""
    executors = context._jsc.sc().statusStore().executorList(False)
    lives = []
    for index in range(executors.size()):
        executor = executors.apply(index)
        if executor.id() != "driver":
            gone = executor.removeTime()
            ended = gone.get().getTime() if gone.isDefined() else None
            lives.append((executor.addTime().getTime(), ended, executor.totalCores() // cpus))
    return lives


def _most_at_once(lives: list[tuple[int, int | None, int]]) -> int:
    """Return the most slots that there were at any moment.

    Examples
    --------
    >>> _most_at_once([(0, 50, 2), (10, None, 2), (60, None, 2)])  # one was replaced
    4
    """
    return max(
        (
            sum(slots for came, went, slots in lives if came <= now and (went is None or now < went))
            for now, _, _ in lives
        ),
        default=0,
    )


def slot_count(data: RDD[object]) -> int:
    """Return how many tasks can run at once with the resources that `data` asks for, by what Spark itself counts."""
    from py4j.protocol import Py4JError

    scala_context: JavaObject = data.context._jsc.sc()
    try:
        profile = (
            data._jrdd.rdd().getResourceProfile() or scala_context.resourceProfileManager().defaultResourceProfile()
        )
        return int(scala_context.maxNumConcurrentTasks(profile))
    except (Py4JError, TypeError):  # Spark's own method, of no public interface
        return data.context.defaultParallelism


def check_chain(data: RDD[object], task_count: int, user: StageUser) -> None:
    """Refuse RDDs, of those that would be computed in the same stage, which Spark does not compute in one."""
    from py4j.java_gateway import is_instance_of

    gateway = data.context._gateway
    waiting = [data._jrdd.rdd()]
    if waiting[0].isBarrier():
        raise ValueError(f"the data are made in a barrier stage, such as that of {user.once}")
    seen = set()
    while waiting:
        rdd = waiting.pop()
        if rdd.id() in seen:
            continue
        seen.add(rdd.id())
        if rdd.getNumPartitions() != task_count:
            raise ValueError(
                f"the {task_count} partitions of the data are put together from the {rdd.getNumPartitions()} of "
                f"{rdd.toString()}, by a union or coalesce for example, which Spark does not do within a barrier "
                f"stage: put a shuffle between, such as data.repartition({task_count}), or {user.otherwise}"
            )
        dependencies = rdd.dependencies()
        for index in range(dependencies.size()):
            dependency = dependencies.apply(index)
            if not is_instance_of(gateway, dependency, "org.apache.spark.ShuffleDependency"):
                waiting.append(dependency.rdd())
