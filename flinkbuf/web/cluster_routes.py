"""What Flink's REST API says of the whole: overview, configuration, task managers. Flink: ClusterOverviewHandler, …"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Final

from flinkbuf._version import __version__
from flinkbuf.runtime.picture.job_details import manager_json
from flinkbuf.runtime.picture.job_picture import JobPicture, ManagerPicture
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.web.job_routes import configuration_entries
from flinkbuf.web.router import Cluster, HttpError, Json, Request, Router

router = Router()
FLINK_VERSION: Final = "2.2.1"  # whose API this is
NO_COMMIT: Final = "DeadD0d0"  # Flink's word for one that is not known
REFRESH_MS: Final = 1_000
MIB: Final = 1 << 20  # what Flink gives resources in; all else is in bytes
NONE: Final = 0  # of what only a Java process has


@router.route("GET", "/overview")
def overview(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """Task managers, slots, jobs."""
    pictures = [job.picture for job in cluster.jobs.values()]
    listed = [manager for picture in pictures for manager in _managers(picture)]
    states = Counter(picture.status for picture in pictures)
    over = sum(states[each] for each in (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED))
    return {
        "taskmanagers": len(listed),
        "slots-total": sum(each["slotsNumber"] for each in listed),
        "slots-available": sum(each["freeSlots"] for each in listed),
        "jobs-running": len(pictures) - over - states[JobStatus.SUSPENDED],
        "jobs-finished": states[JobStatus.FINISHED],
        "jobs-cancelled": states[JobStatus.CANCELED],
        "jobs-failed": states[JobStatus.FAILED],
        "flink-version": FLINK_VERSION,
        "flink-commit": NO_COMMIT,
        "flinkbuf-version": __version__,
    }


def _managers(picture: JobPicture) -> list[Json]:
    if picture.is_over:  # they are gone, and stay in its picture only
        return []
    taken = Counter(each.manager_id for each in picture.attempts() if each.state.is_deployed)
    return [manager_json(each, taken[each.id]) for each in picture.managers]


@router.route("GET", "/config")
def config(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """What a page has to know before all else."""
    offset_s = -(time.altzone if time.localtime().tm_isdst > 0 else time.timezone)
    return {
        "refresh-interval": REFRESH_MS,
        "timezone-name": time.tzname[time.localtime().tm_isdst > 0],
        "timezone-offset": offset_s * 1000,
        "flink-version": FLINK_VERSION,
        "flink-revision": NO_COMMIT,
        "flinkbuf-version": __version__,
        "features": {
            "web-submit": False,
            "web-cancel": cluster.can_command,
            "web-rescale": any(job.rescale is not None for job in cluster.jobs.values()),
            "web-history": False,
        },
    }


@router.route("GET", "/jobmanager/config")
def settings(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> list[Json]:
    """What the newest job was configured with: there is no cluster that could be."""
    newest = next(reversed(cluster.jobs.values()), None) if cluster.jobs else None
    return configuration_entries({} if newest is None else newest.configuration)


@router.route("GET", "/taskmanagers")
def task_managers(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """All of them."""
    return {
        "taskmanagers": [
            _full(manager, picture)
            for picture in (job.picture for job in cluster.jobs.values())
            if not picture.is_over
            for manager in picture.managers
        ]
    }


def manager_of(cluster: Cluster, parts: Mapping[str, str]) -> tuple[ManagerPicture, JobPicture]:
    """Return the task manager that a path names; where several jobs have one of that name, the newest job's."""
    for picture in reversed([job.picture for job in cluster.jobs.values()]):
        for manager in () if picture.is_over else picture.managers:
            if manager.id == parts["taskmanagerid"]:
                return manager, picture
    raise HttpError(404, f"Could not find TaskExecutor {parts['taskmanagerid']}.")


@router.route("GET", "/taskmanagers/:taskmanagerid")
def task_manager(cluster: Cluster, request: Request, parts: Mapping[str, str]) -> Json:
    """One of them, with its memory."""
    manager, picture = manager_of(cluster, parts)
    made = _full(manager, picture)
    resource = made["totalResource"]
    taken = made["slotsNumber"] - made["freeSlots"]
    return made | {
        "allocatedSlots": [{"jobId": picture.job_id, "resource": resource} for _ in range(taken)],
        "metrics": _memory(manager.metrics),
    }


def _full(manager: ManagerPicture, picture: JobPicture) -> Json:
    taken = sum(each.manager_id == manager.id and each.state.is_deployed for each in picture.attempts())
    made, metrics = manager_json(manager, taken), manager.metrics
    del made["metrics"]
    managed = metrics.get("managed_memory_total") or 0
    resource = {
        "cpuCores": 1.0,
        "taskHeapMemory": NONE,
        "taskOffHeapMemory": NONE,
        "managedMemory": managed // MIB,
        "networkMemory": metrics.get("totalMemory", 0) // MIB,
        "extendedResources": {},
    }
    return {
        **made,
        "jmxPort": -1,
        "totalResource": resource,
        "freeResource": resource
        if not taken
        else {**resource, "cpuCores": 0.0, "managedMemory": 0, "networkMemory": 0},
        "hardware": _hardware(managed, metrics),
        "memoryConfiguration": _memory_configuration(managed, metrics),
    }


def _hardware(managed: int, metrics: Json) -> Json:
    limit = _memory_of(metrics)
    return {
        "cpuCores": os.cpu_count() or 1,
        "physicalMemory": limit,
        "freeMemory": max(0, limit - (metrics.get("resident_bytes") or 0)),
        "managedMemory": managed,
    }


def _memory_of(metrics: Json) -> int:
    """What the process may have: all of its machine, unless somebody has set a limit."""
    return metrics.get("memory_limit_bytes") or metrics.get("machine_bytes") or 0


def _memory_configuration(managed: int, metrics: Json) -> Json:
    names = "frameworkHeap taskHeap frameworkOffHeap taskOffHeap networkMemory managedMemory jvmMetaspace jvmOverhead"
    made = dict.fromkeys(names.split(), NONE)
    network = metrics.get("totalMemory", 0)
    total = {"totalFlinkMemory": managed + network, "totalProcessMemory": _memory_of(metrics)}
    return made | {"managedMemory": managed, "networkMemory": network} | total


def _memory(metrics: Json) -> Json:
    """Flink's TaskManagerMetricsInfo: what the process holds stands for the heap, since Python has no other."""
    names = "nonHeapUsed nonHeapCommitted nonHeapMax directCount directUsed directMax mappedCount mappedUsed mappedMax"
    resident, limit = metrics.get("resident_bytes") or 0, metrics.get("memory_limit_bytes")
    total, used = metrics.get("totalMemorySegments", 0), metrics.get("usedMemorySegments", 0)
    size = metrics.get("totalMemory", 0) // total if total else 0
    return {
        "heapUsed": resident,
        "heapCommitted": resident,
        "heapMax": -1 if limit is None else limit,
        **dict.fromkeys(names.split(), NONE),
        "nettyShuffleMemorySegmentsAvailable": total - used,
        "nettyShuffleMemorySegmentsUsed": used,
        "nettyShuffleMemorySegmentsTotal": total,
        "nettyShuffleMemoryAvailable": (total - used) * size,
        "nettyShuffleMemoryUsed": used * size,
        "nettyShuffleMemoryTotal": total * size,
        "garbageCollectors": [],
    }
