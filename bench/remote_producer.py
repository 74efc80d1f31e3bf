"""What benchmarks between two processes share: a process that writes, and one record sent there and back.

What the other process needs is pickled to it: functions of a module, and what `functools.partial` makes of them.
"""

import multiprocessing
from time import perf_counter

SPAWN = multiprocessing.get_context("spawn")


class RemoteProducer:
    """A process that writes one partition whenever it is asked to, and the environment that reads them here.

    `open_environment` opens one in either process; ``write(env, partition_id, answer)`` writes a partition there, and
    calls `answer` when it can be asked for.
    """

    def __init__(self, open_environment, write):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = SPAWN.Process(target=write_when_asked, args=(theirs, open_environment, write), daemon=True)
        self.process.start()
        self.env = open_environment()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.pipe.send(False)
        self.process.join()
        self.env.close()

    def open_gate(self, channel_count=1):
        """Have a partition written; return the gate that reads all of it."""
        import flinkbuf as fb

        self.pipe.send(True)
        address, partition_id = self.pipe.recv()
        return self.env.create_gate(
            [fb.network.RemoteChannel(*address, partition_id, index) for index in range(channel_count)]
        )


def write_when_asked(pipe, open_environment, write):
    """The other process, until it is told to end."""
    import flinkbuf as fb

    with open_environment() as env:
        while pipe.recv():
            partition_id = fb.network.ResultPartitionID.random()
            write(env, partition_id, lambda name=partition_id: pipe.send((env.address, name)))


def send_back(pipe, open_environment, open_type, address, partition_id):
    """Another process: writes each record that it reads."""
    import flinkbuf as fb

    answer_id = fb.network.ResultPartitionID.random()
    with open_environment() as env, env.create_partition(answer_id, 1) as partition:
        pipe.send((env.address, answer_id))
        echo(partition, env.create_gate([fb.network.RemoteChannel(*address, partition_id, 0)]), open_type())


def echo(partition, gate, type_information):
    """Write each record that comes back into the partition."""
    import flinkbuf as fb

    with gate, fb.RecordWriter(partition, type_information, buffer_timeout_ms=-1) as writer:
        for record in fb.RecordReader(gate, type_information):
            writer.emit(record)
            writer.flush()


def round_trips(open_environment, open_type, record, count):
    """Seconds of each round trip of one record between two processes."""
    import flinkbuf as fb

    partition_id = fb.network.ResultPartitionID.random()
    pipe, theirs = multiprocessing.Pipe()
    with open_environment() as env, env.create_partition(partition_id, 1) as partition:
        arguments = (theirs, open_environment, open_type, env.address, partition_id)
        process = SPAWN.Process(target=send_back, args=arguments, daemon=True)
        process.start()
        address, answer_id = pipe.recv()
        with env.create_gate([fb.network.RemoteChannel(*address, answer_id, 0)]) as gate:
            seconds = time_round_trips(partition, gate, open_type(), record, count)
        process.join()
    return seconds


def time_round_trips(partition, gate, type_information, record, count):
    """Seconds from each emit() to the record's return."""
    import flinkbuf as fb

    seconds = []
    reader = iter(fb.RecordReader(gate, type_information))
    with fb.RecordWriter(partition, type_information, buffer_timeout_ms=-1) as writer:
        for _ in range(count):
            started = perf_counter()
            writer.emit(record)
            writer.flush()
            returned = next(reader)
            seconds.append(perf_counter() - started)
            assert returned == record
    assert next(reader, None) is None
    return seconds
