"""A target with a task manager for each slot, all on threads of this process, that talk over its network.

What it shares with targets of several processes: partitions cross sockets, and tasks that have to run in the program
run in a task manager of their own. A test can have one of the managers die.
"""

import itertools

from flinkbuf.config import NetworkConfig
from flinkbuf.network.environment import NetworkEnvironment
from flinkbuf.runtime.driver.in_process_manager import InProcessManager
from flinkbuf.runtime.manager.shuffle import NetworkShuffle

_numbers = itertools.count()


class LoopbackTarget:
    name = "loopback"
    is_in_process = False
    managers_come_together = False

    def __init__(self):
        self.providers = []

    def shares_files(self):
        return True

    def can_restart_in_place(self, graph):
        return True

    def check(self, graph, settings):
        pass

    def make_provider(self, job):
        self.providers.append(LoopbackProvider(job))
        return self.providers[-1]


class LoopbackProvider:
    def __init__(self, job):
        self.job = job
        self.managers = {}  # by id

    def start(self, run, indexes):
        for index in indexes:
            manager_id = f"loopback-{next(_numbers)}"
            manager = InProcessManager(
                self.job,
                self.job.bundle,
                shuffle_of(),
                manager_id=manager_id,
                run=run,
                index=index,
                slot_count=1,
            )
            self.managers[manager_id] = manager
            manager.start()

    def stop(self, manager_id, reason):
        if manager_id in self.managers:
            self.managers[manager_id].stop(reason)

    def kill(self, manager_id):
        """It is gone, and the job is told so before it knows it itself."""
        self.job.manager_lost(manager_id, "its process was killed")
        self.managers[manager_id].stop("killed")

    def close(self):
        left = [manager_id for manager_id, manager in self.managers.items() if not manager.close(10)]
        assert not left

    def program_shuffle(self):
        return shuffle_of()


def shuffle_of():
    return NetworkShuffle(NetworkEnvironment(NetworkConfig(), num_segments=256))
