"""Tasks on threads, and somebody who has them take checkpoints together."""

import threading
import time

from support.worlds.stream_tasks import KeptSnapshots, ListSink, ListSource, chain_of, edge, make_task, operator

from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.task.task_events import CheckpointAcknowledged, CheckpointDeclined, EndOfDataReached

CHECKPOINTING = ExecutionSettings(checkpointing_enabled=True)
OPTIONS = CheckpointOptions()


class EndlessSource(ListSource):
    """Numbers without an end, until it is stopped; its position is its state."""

    def __init__(self, limit=None, pause_s=0.0):
        super().__init__([])
        self.limit, self.pause_s, self.ending = limit, pause_s, None

    def emit_next(self, output, max_records):
        for _ in range(max_records):
            if self.ending is not None:
                return self.ending
            if self.limit is not None and self.position >= self.limit:
                return InputStatus.END_OF_DATA
            self.position += 1
            if self.pause_s:
                time.sleep(self.pause_s)
            output.collect(self.position, self.position)
            if output.must_yield():
                break
        return InputStatus.MORE_AVAILABLE

    def stop(self, is_drain):
        self.ending = InputStatus.END_OF_DATA if is_drain else InputStatus.STOPPED


class CountingSink(ListSink):
    """Keeps what comes; how many records that were is its state. Slow, if wanted."""

    def __init__(self, items, pause_s=0.0):
        super().__init__(items)
        self.count, self.pause_s = 0, pause_s

    def initialize_state(self, snapshot):
        self.count = snapshot or 0

    def snapshot_state(self, checkpoint_id):
        return self.count

    def process_element(self, value, timestamp):
        self.count += 1
        if self.pause_s:
            time.sleep(self.pause_s)
        super().process_element(value, timestamp)


class Group:
    """Tasks that run together: what they report, and all of them as a job master tells them."""

    def __init__(self):
        self.tasks, self.sources, self.snapshots, self.events, self.threads = [], [], {}, [], []
        self.changed = threading.Condition()

    def report(self, event):
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def add(self, config, gates=(), partitions=(), name="task", settings=CHECKPOINTING, **options):
        kept = self.snapshots[name] = KeptSnapshots()
        options = {"write_snapshot": kept.write, **options}
        task = make_task(config, gates, partitions, name=name, settings=settings, report=self.report, **options)
        self.tasks.append(task)
        if not config.inputs:
            self.sources.append(task)
        return task

    def add_source(self, partition, make, name="source", partitioner="rebalance", **options):
        config = operator(name, make, is_source=True, network_edges=(edge(0, partitioner=partitioner),))
        return self.add(chain_of(config, partition_count=1), [], [partition], name=name, **options)

    def start(self):
        for task in self.tasks:
            thread = threading.Thread(target=task.run, daemon=True)
            self.threads.append(thread)
            thread.start()
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *error):
        for task in self.tasks:
            task.cancel()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()

    def trigger(self, checkpoint_id, options=OPTIONS, tasks=None, timestamp_ms=0):
        for task in self.sources if tasks is None else tasks:
            while not task.trigger_checkpoint(checkpoint_id, timestamp_ms, options):
                assert not task.is_over, f"{task.info.task_name} is over: {task.error}"
                time.sleep(0.001)

    def told(self, kind, checkpoint_id=None):
        return [
            event
            for event in list(self.events)
            if isinstance(event, kind) and (checkpoint_id is None or event.checkpoint_id == checkpoint_id)
        ]

    def wait_until(self, is_so, timeout_s=20):
        with self.changed:
            assert self.changed.wait_for(is_so, timeout_s), [
                (task.info.task_name, task.state, task.error) for task in self.tasks
            ] + self.events

    def wait_for_all(self, checkpoint_id, count=None):
        """Until every task has acknowledged it."""
        wanted = len(self.tasks) if count is None else count
        self.wait_until(lambda: len(self.told(CheckpointAcknowledged, checkpoint_id)) >= wanted)

    def complete(self, checkpoint_id):
        for task in self.tasks:
            task.notify_checkpoint_complete(checkpoint_id)

    def abort(self, checkpoint_id):
        for task in self.tasks:
            task.notify_checkpoint_aborted(checkpoint_id)

    def join(self, timeout_s=20):
        for thread in self.threads:
            thread.join(timeout_s)
            assert not thread.is_alive(), [(task.info.task_name, task.state) for task in self.tasks]

    def state_of(self, name, checkpoint_id):
        """What the only operator of a task, or its last one, has left."""
        return next(iter(self.snapshots[name].snapshots[checkpoint_id].operators.values()))


__all__ = [name for name in dir() if not name.startswith("_")]
EndOfDataReached, CheckpointDeclined  # for those who import from here
