"""A small job over two environments of one process, and how it ended: what the tests of faults run."""

import contextlib
import gc
import sys
import threading
import time
import traceback

from support.faults.fault_proxy import open_files, threads, wait_until

import flinkbuf as fb

TYPE = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.STRING()])
NUM_SEGMENTS = 64
HANG_S = 20  # nothing here takes a tenth of it


def config_of(buffers_per_channel, **knobs):
    """Small buffers, so that little data makes many frames; and little patience."""
    return fb.NetworkConfig(
        **{
            "segment_size": 4096,
            "buffers_per_channel": buffers_per_channel,
            "request_backoff_initial_ms": 5,
            "request_backoff_max_ms": 10,
            "partition_request_timeout_ms": 50,
            "buffer_timeout_ms": 5,
            "tcp_connection_enable_reuse_across_jobs": False,
            **knobs,
        }
    )


def records_of(count, channel=0):
    """Records that say where they belong: losing, repeating or moving one shows."""
    return [(i, f"record {i} of channel {channel}") for i in range(count)]


class Task(threading.Thread):
    """A thread that keeps what its function returned or raised, and with what it is busy if it hangs."""

    def __init__(self, function, *args):
        super().__init__(daemon=True)
        self.function, self.args, self.result, self.error, self.seconds = function, args, None, None, None

    def run(self):
        started = time.monotonic()
        try:
            self.result = self.function(*self.args)
        except BaseException as error:
            self.error = error
        self.seconds = time.monotonic() - started

    def end(self, seconds=HANG_S):
        self.join(seconds)
        if self.is_alive():
            frame = sys._current_frames().get(self.ident)
            where = "".join(traceback.format_stack(frame)) if frame else "?"
            raise AssertionError(f"{self.function.__name__} hangs:\n{where}")
        return self


@contextlib.contextmanager
def nothing_left():
    """What the block opened is closed after it: threads and files are as many as before."""
    gc.collect()
    files, count = open_files(), threads()
    yield
    gc.collect()
    assert wait_until(lambda: threads() <= count), f"{threads() - count} threads are left"
    assert wait_until(lambda: open_files() == files), f"open before {files}, after {open_files()}"


class Pair:
    """Two environments: `there` produces, `here` consumes. Leaving it all segments have to be home."""

    def __init__(self, buffers_per_channel, num_segments=NUM_SEGMENTS, **knobs):
        self.config = config_of(buffers_per_channel, **knobs)
        self.num_segments = num_segments
        self.there = fb.NetworkEnvironment(self.config, num_segments=num_segments)
        self.here = fb.NetworkEnvironment(self.config, num_segments=num_segments)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if error is None:
                self.check_home()
        finally:
            self.here.close()
            self.there.close()

    def check_home(self):
        for side in (self.there, self.here):
            pool = side.pool
            assert wait_until(lambda pool=pool: pool.available_segment_count == self.num_segments), (
                f"{self.num_segments - pool.available_segment_count} segments are away"
            )

    def write(self, partition, records, broken=lambda error: None):
        """The producing task: what went wrong with it is raised after the partition is closed."""
        try:
            with fb.RecordWriter(partition, TYPE, buffer_timeout_ms=self.config.buffer_timeout_ms) as writer:
                writer.emit_all(records)
        finally:
            partition.close()

    def start(self, address, records, read=None):
        """Start a job of one channel through `address`; gives its `Exchange`."""
        return Exchange(self, address, records, read or list)


class Exchange:
    """One job: partition, gate, and the two tasks that use them."""

    def __init__(self, pair, address, records, read):
        self.pair, self.received = pair, []
        self.partition_id = fb.network.ResultPartitionID.random()
        self.partition = pair.there.create_partition(self.partition_id, 1)
        self.gate = pair.here.create_gate([fb.network.RemoteChannel(*address, self.partition_id, 0)])
        self.producer = Task(pair.write, self.partition, records)
        self.consumer = Task(self._read)
        self.producer.start()
        self.consumer.start()

    def _read(self):
        try:
            with fb.RecordReader(self.gate, TYPE) as reader:
                for record in reader:
                    self.received.append(record)
        finally:
            self.gate.close()

    def is_stalled(self, proxy, patience_s):
        """Wait for the end of the consumer; True if nothing has moved for `patience_s` before it came."""
        seen, since = None, time.monotonic()
        while self.consumer.is_alive():
            moved = (len(self.received), *proxy.counts.values())
            if moved != seen:
                seen, since = moved, time.monotonic()
            elif time.monotonic() - since > patience_s:
                return True
            self.consumer.join(0.002)
        return False

    def end(self):
        """Wait for both tasks, and give the partition up if nobody has read it."""
        self.consumer.end()
        self.partition.release()
        self.producer.end()
        return self
