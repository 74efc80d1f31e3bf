"""Whether Spark can run a barrier stage over an RDD: asked before it starts, since Spark itself says so late or never.

A barrier stage needs a slot for every task at once, takes no dynamic allocation, and no union, coalesce or zip
within the stage. Spark looks for slots for ten minutes before it gives up.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

REGISTRATION_S = 30.0  # spark.scheduler.maxRegisteredResourcesWaitingTime: how long executors may take to appear
_LOOK_S = 0.1


def check_barrier_stage(data: RDD[Any], task_count: int) -> None:
    """Refuse, in one sentence with the numbers and the way out, what Spark would not run as a barrier stage.

    Parameters
    ----------
    data : RDD
        What the tasks read.
    task_count : int
        How many tasks the stage has; where that is not the number of partitions of `data`, a shuffle comes before it.

    Raises
    ------
    ValueError
        If there are fewer slots than tasks, dynamic allocation is on, or the RDD is made in a way that a barrier stage
        does not allow.
    """
    _check_allocation(data.context)
    _check_slots(data, task_count)
    if data.getNumPartitions() == task_count:
        _check_chain(data, task_count)


def _check_allocation(context: SparkContext) -> None:
    conf = context.getConf()
    is_on = (conf.get("spark.dynamicAllocation.enabled") or "false").lower() == "true"
    if is_on and not _is_local(context):
        raise ValueError(
            "a pipelined exchange needs all of its tasks to run at once, which Spark does not promise with dynamic "
            "allocation: set spark.dynamicAllocation.enabled=false for this application, or use mode='blocking'"
        )


def _check_slots(data: RDD[Any], task_count: int) -> None:
    context = data.context
    # Executors that have just been asked for may still be on their way.
    deadline = 0.0 if _is_local(context) else context.startTime / 1000 + REGISTRATION_S
    while (slots := slot_count(data)) < task_count and time.time() < deadline:
        time.sleep(_LOOK_S)
    if slots >= task_count:
        return
    cpus = context.getConf().get("spark.task.cpus") or "1"
    more = (
        f"start Spark with local[{task_count}]"
        if _is_local(context)
        else "give the application more executors or cores"
    )
    fewer = f"pass num_partitions={slots}, " if slots else ""
    raise ValueError(
        f"a pipelined exchange with {task_count} partitions runs {task_count} tasks at once, but {context.master} has "
        f"slots for {slots} (spark.task.cpus={cpus}): {fewer}{more}, or use mode='blocking'"
    )


def slot_count(data: RDD[Any]) -> int:
    """Return how many tasks can run at once with the resources that `data` asks for, by what Spark itself counts."""
    from py4j.protocol import Py4JError

    scala_context: Any = data.context._jsc.sc()
    try:
        profile = (
            data._jrdd.rdd().getResourceProfile() or scala_context.resourceProfileManager().defaultResourceProfile()
        )
        return int(scala_context.maxNumConcurrentTasks(profile))
    except (Py4JError, TypeError):  # Spark's own method, of no public interface
        return data.context.defaultParallelism


def _is_local(context: SparkContext) -> bool:
    master = context.master or ""
    return master == "local" or master.startswith("local[")


def _check_chain(data: RDD[Any], task_count: int) -> None:
    """Walk through the RDDs that would be computed in the same stage."""
    from py4j.java_gateway import is_instance_of

    gateway = data.context._gateway
    waiting = [data._jrdd.rdd()]
    if waiting[0].isBarrier():
        raise ValueError(
            "the data are made in a barrier stage, such as that of another pipelined exchange, and two in one stage could "
            "wait for each other: use mode='blocking' for one of the two, or put a shuffle such as repartition() between"
        )
    seen = set()
    while waiting:
        rdd = waiting.pop()
        if rdd.id() in seen:
            continue
        seen.add(rdd.id())
        if rdd.getNumPartitions() != task_count:
            raise ValueError(
                f"the {task_count} partitions of the data are put together from the {rdd.getNumPartitions()} of "
                f"{rdd.toString()}, by a union or coalesce for example, which Spark does not do within a barrier stage: put "
                f"a shuffle between, such as data.repartition({task_count}), or use mode='blocking'"
            )
        dependencies = rdd.dependencies()
        for index in range(dependencies.size()):
            dependency = dependencies.apply(index)
            if not is_instance_of(gateway, dependency, "org.apache.spark.ShuffleDependency"):
                waiting.append(dependency.rdd())
