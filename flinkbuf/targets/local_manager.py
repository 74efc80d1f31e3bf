"""A task manager as a process on the program's machine: what it is told to be, and its life from fork to exit."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

from flinkbuf.control.control_client import ControlClient
from flinkbuf.runtime.manager.arrow_memory import system_memory
from flinkbuf.runtime.manager.garbage_collector import rare_collections
from flinkbuf.runtime.manager.interpreter_turns import short_turns
from flinkbuf.runtime.manager.job_bundle import JobBundle
from flinkbuf.runtime.manager.running_task import RunningTask
from flinkbuf.runtime.manager.shuffle import network_shuffle
from flinkbuf.runtime.manager.task_log import log_to_stderr
from flinkbuf.runtime.manager.task_manager import TaskManager
from flinkbuf.runtime.protocol.control_link import ControlLink

CONNECT_TIMEOUT_S = 30.0  # the program is on this machine, but its threads may be busy


@dataclass(frozen=True)
class ManagerOrder:
    """The settings of one task manager of a job; JSON on their way to the launcher.

    Attributes
    ----------
    manager_id : str
    run, index : int
        What it registers with.
    host, port
        Where the job listens.
    group_id, secret : str
        Of the control plane; the secret in hex digits.
    sys_path : list of str
        Where the program finds its modules.
    working_directory : str
    environment : dict
        The program's environment variables.
    log_level : int
        Of the program's root logger.
    log_format : str
        ``TEXT`` or ``JSON``.
    """

    manager_id: str
    run: int
    index: int
    host: str
    port: int
    group_id: str
    secret: str = field(repr=False)
    sys_path: list[str]
    working_directory: str
    environment: dict[str, str] = field(repr=False)
    log_level: int
    log_format: str


def run_local_manager(order: ManagerOrder, bundle_bytes: bytes) -> None:
    """Be a task manager until the job lets it go; all is freed then."""
    _be_like_the_program(order)
    bundle = JobBundle.from_bytes(bundle_bytes)
    assert bundle.network is not None
    tls = bundle.network.tls if bundle.network.data_ssl_enabled else None
    client = ControlClient.connect(
        (order.host, order.port), order.group_id, bytes.fromhex(order.secret), tls=tls, timeout_s=CONNECT_TIMEOUT_S
    )
    try:
        shuffle = network_shuffle(bundle, bundle.network, host=order.host, num_segments=bundle.network_segments)
    except BaseException:
        client.close()
        raise
    manager = TaskManager(
        bundle,
        ControlLink(client),
        manager_id=order.manager_id,
        run=order.run,
        index=order.index,
        slot_count=1,
        shuffle=shuffle,
        make_task=RunningTask,
    )
    with rare_collections(), short_turns(), system_memory():
        manager.run_until_signal()


def _be_like_the_program(order: ManagerOrder) -> None:
    """Modules, relative paths, environment and log as functions would find them in the program itself."""
    os.environ.clear()
    os.environ.update(order.environment)
    sys.path[:] = order.sys_path
    os.chdir(order.working_directory)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # what was forked draws what its siblings draw; the module random sees to that itself
    log_to_stderr(order.log_format, order.log_level)
