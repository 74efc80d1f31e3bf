"""A sink with one committer as a job runs it: writers, what they give the committer, checkpoints, and kills."""

import pickle
from dataclasses import replace

import cloudpickle
from support.worlds.failing_sinks import stored

from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.sink_factories import GlobalCommitterFactory, SinkWriterFactory
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.values import StreamRecord

WITH_CHECKPOINTS = ExecutionSettings(checkpointing_enabled=True)


class GlobalSink:
    """Looks like the harness of one operator, for ``failing_sinks``; elements go to the writers in turn."""

    def __init__(self, sink, restore=None, parallelism=1, job="job", settings=WITH_CHECKPOINTS, takes_batches=False):
        of_writers, of_committer = restore or (None, None)
        make_writer = SinkWriterFactory(sink, takes_batches, is_committed_behind=True)
        self.committer = self._harness(GlobalCommitterFactory(sink), of_committer, job, settings)
        self.writers = [
            self._harness(make_writer, of_writers, job, settings, parallelism=parallelism, subtask_index=index)
            for index in range(parallelism)
        ]
        self.operator = self
        self._next = 0
        self.opened = []
        try:
            for each in (*self.writers, self.committer):  # in a job in any order
                self.opened.append(each)
                each.open()
        except BaseException:
            self.close()
            raise

    def _harness(self, factory, restore, job, settings, **where):
        operator = pickle.loads(cloudpickle.dumps(factory))()
        harness = OperatorHarness(operator, restore=restore, settings=settings, is_keyed=False, **where)
        harness.context.task = replace(harness.context.task, job_id=job)
        harness.context.operator_id = "c" * 32
        return harness

    def process_element(self, element):
        self.writers[self._next % len(self.writers)].process_element(element)
        self._next += 1

    def _send(self):
        for writer in self.writers:
            for each in writer.take_output():
                if isinstance(each, StreamRecord):
                    self.committer.process_element(cloudpickle.loads(cloudpickle.dumps(each.value)))

    def snapshot(self, checkpoint_id):
        of_writers = [stored(writer.snapshot(checkpoint_id)) for writer in self.writers]
        self._send()
        return of_writers, stored(self.committer.snapshot(checkpoint_id))

    def notify_checkpoint_complete(self, checkpoint_id):
        self.committer.notify_checkpoint_complete(checkpoint_id)

    def end_input(self):
        for writer in self.writers:
            writer.end_input()
        self._send()
        self.committer.end_input()

    def finish(self):
        for each in (*self.writers, self.committer):
            each.finish()

    def end(self, checkpoint_id):
        """The job comes to its end."""
        self.end_input()
        self.finish()
        self.snapshot(checkpoint_id)
        self.notify_checkpoint_complete(checkpoint_id)
        self.close()

    def close(self):
        for each in self.opened:
            each.close()
