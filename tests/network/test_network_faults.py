"""What a broken network, a slow or mad peer, and a full machine do to two environments: the right result or one error.

Whatever happens to the bytes between them, the consumer ends with exactly the records that were written, or with one
error that names the other side; what it was given before that is right; nothing hangs, and buffers, threads and files
are all returned. The one thing that nobody can see is a bit flipped inside a record's own value: Flink's protocol has
no checksum of data, and the test below says that such a flip changes that one record and nothing else.

FLINKBUF_FAULT_SEED sets the seed of all that is random here.
"""

import gc
import itertools
import os
import random
import re
import socket
import struct
import time

import pytest
from support.data.frames import Frame, FrameDecoder
from support.faults.fault_job import HANG_S, TYPE, Pair, Task, nothing_left, records_of
from support.faults.fault_proxy import (
    ACKNOWLEDGE,
    ADD_CREDIT,
    BACKLOG,
    BUFFER_RESPONSE,
    CLOSE,
    CLOSE_REQUEST,
    DATA_BUFFER,
    END_OF_DATA,
    END_OF_PARTITION,
    PARTITION_REQUEST,
    REQUESTS,
    RESET,
    RESPONSES,
    STALL,
    FaultProxy,
    after,
    at_frame,
    delay,
    drop,
    flip,
    frames,
    repeat,
    reset_at_close,
    split,
    swap,
    wait_until,
)
from support.process_memory import resident_kib

import flinkbuf as fb

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads and files are counted in /proc")

SEED = int(os.environ.get("FLINKBUF_FAULT_SEED", "7"))
RECORDS = records_of(2000)  # 72 KB: 18 buffers
EXCLUSIVE = pytest.mark.parametrize("buffers_per_channel", [0, 2])
ERRORS = (
    fb.errors.RemoteTransportError,
    fb.errors.CorruptDataError,
    fb.errors.CancelTaskError,
    fb.errors.PartitionNotFoundError,
)


@pytest.fixture(autouse=True)
def everything_is_returned():
    with nothing_left():
        yield


@pytest.fixture
def pair(buffers_per_channel):
    with Pair(buffers_per_channel) as pair:
        yield pair


def check(exchange, address):
    """The consumer has exactly the records, or an error that names the address after nothing but right ones."""
    if exchange.consumer.error is None:
        assert exchange.received == RECORDS
        return None
    error = exchange.consumer.error
    assert isinstance(error, ERRORS), repr(error)
    assert f"127.0.0.1:{address[1]}" in str(error)
    assert exchange.received == RECORDS[: len(exchange.received)]
    if exchange.producer.error is not None:
        assert isinstance(exchange.producer.error, fb.errors.RemoteTransportError), repr(exchange.producer.error)
        assert re.search(r"the reader of subpartition 0 .*127\.0\.0\.1:\d+", str(exchange.producer.error))
    return error


def run(pair, faults, **options):
    """One job through a proxy with faults; gives the consumer's error or None, checked, and the job."""
    with FaultProxy(pair.there.address, faults, **options) as proxy:
        exchange = pair.start(proxy.address, RECORDS).end()
        return check(exchange, proxy.address), exchange


# ---- a network that is slow, and cuts and joins what it carries ----------------------------------------------------


@EXCLUSIVE
@pytest.mark.parametrize("direction", [REQUESTS, RESPONSES])
def test_a_slow_network_changes_nothing(pair, direction):
    assert run(pair, {direction: delay(SEED)})[0] is None


@EXCLUSIVE
@pytest.mark.parametrize("size", [1, 7, 46, 4097])
def test_a_stream_may_be_cut_anywhere(pair, size):
    assert run(pair, {REQUESTS: split(1), RESPONSES: split(size)})[0] is None


# ---- a connection that ends or stops in the middle -----------------------------------------------------------------


def cuts():
    """Where a stream of responses is cut: inside each part of the first frame, at its end, later and last."""
    return [0, 1, 8, 9, 30, 46, 47, 48, 2000, 47 + 4096, 47 + 4097, 30_000, 72_000]


@EXCLUSIVE
@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_a_connection_that_ends_anywhere_is_an_error_that_names_the_peer(pair, end):
    rng = random.Random(SEED)
    for count in cuts() + [rng.randrange(72_000) for _ in range(20)]:
        error, _ = run(pair, {RESPONSES: after(count, end)})
        assert isinstance(error, fb.errors.RemoteTransportError), count
    for count in [0, 1, 9, 50, 96, 97, 98, 110, 126]:
        error, _ = run(pair, {REQUESTS: after(count, end)})
        assert error is None or isinstance(error, fb.errors.RemoteTransportError), (
            count
        )  # too late to matter, or an error


@EXCLUSIVE
def test_a_producer_is_told_of_a_reader_that_was_lost(pair):
    """Before it has written everything: 2,000 records fit into the buffers of the producer's side."""
    records = records_of(20_000)
    with FaultProxy(pair.there.address, {RESPONSES: after(50_000, RESET)}) as proxy:
        exchange = pair.start(proxy.address, records)
        exchange.producer.end()  # by itself: what is released is no more to be told anything
        exchange.end()
    assert isinstance(exchange.consumer.error, fb.errors.RemoteTransportError)
    assert isinstance(exchange.producer.error, fb.errors.RemoteTransportError)
    assert re.search(
        r"the reader of subpartition 0 was lost: connection with 127\.0\.0\.1:\d+", str(exchange.producer.error)
    )


@EXCLUSIVE
def test_an_environment_does_not_end_well_if_what_was_written_was_not_read(buffers_per_channel):
    """All is written before the reader is lost: the producing task has ended, its environment has not."""
    with Pair(buffers_per_channel) as pair:
        partition_id = fb.network.ResultPartitionID.random()
        with (
            FaultProxy(pair.there.address, {RESPONSES: after(2000, STALL)}) as proxy,
            pytest.raises(
                fb.errors.RemoteTransportError, match="was not read to its end: the reader of subpartition 0 was lost"
            ),
        ):
            with pair.there:
                partition = pair.there.create_partition(partition_id, 1)
                gate = pair.here.create_gate([fb.network.RemoteChannel(*proxy.address, partition_id, 0)])
                pair.write(partition, records_of(300))
                gate.request_partitions()
                assert wait_until(lambda: proxy.counts[RESPONSES] == 2000)
                proxy.cut()
        gate.close()
        pair.there = fb.NetworkEnvironment(pair.config, num_segments=pair.num_segments)  # for the pair to close


@EXCLUSIVE
def test_a_reader_that_has_had_enough_is_no_error(buffers_per_channel):
    """It takes leave: its producer drops the rest, also in its environment's end."""
    with Pair(buffers_per_channel) as pair:
        partition_id = fb.network.ResultPartitionID.random()
        with pair.there:
            partition = pair.there.create_partition(partition_id, 1)
            producer = Task(pair.write, partition, records_of(20_000))
            producer.start()
            with pair.here.create_gate([fb.network.RemoteChannel(*pair.there.address, partition_id, 0)]) as gate:
                taken = list(itertools.islice(fb.RecordReader(gate, TYPE), 100))
            assert producer.end().error is None
        assert taken == records_of(100)
        pair.there = fb.NetworkEnvironment(pair.config, num_segments=pair.num_segments)


@EXCLUSIVE
@pytest.mark.parametrize("count", [9, 30, 47, 2000, 47 + 4096, 30_000])
def test_a_stalled_connection_goes_on_or_ends_and_can_be_left(pair, count):
    """Half-sent frames too: nobody can know whether the rest will come, until the connection ends."""
    error, _ = run(pair, {RESPONSES: after(count, 0.2)})
    assert error is None
    error, _ = run(pair, {RESPONSES: after(count, 0.1, RESET)})
    assert isinstance(error, fb.errors.RemoteTransportError)
    with FaultProxy(pair.there.address, {RESPONSES: after(count, STALL)}) as proxy:
        exchange = pair.start(proxy.address, RECORDS)
        assert exchange.is_stalled(proxy, 0.1)
        closed_at = time.monotonic()
        exchange.gate.close()  # by another thread than the one that waits
        exchange.consumer.end()
        assert time.monotonic() - closed_at < 5
        assert isinstance(exchange.consumer.error, fb.errors.CancelTaskError) and "closed" in str(
            exchange.consumer.error
        )
        exchange.end()


# ---- frames that come twice, not at all, or in another order -------------------------------------------------------


@EXCLUSIVE
def test_data_that_come_twice_not_at_all_or_out_of_order_are_an_error(pair):
    rng = random.Random(SEED)
    for fault, nth in itertools.product([repeat, drop, swap], [0, 1, 5, rng.randrange(2, 16)]):
        at = swap(BUFFER_RESPONSE, nth) if fault is swap else at_frame(BUFFER_RESPONSE, fault, nth)
        error, _ = run(pair, {RESPONSES: frames(at)})
        assert isinstance(error, fb.errors.CorruptDataError), (fault, nth)
        assert re.search(r"sequence number -?\d+ came where \d+ was expected|without credit", str(error)), (fault, nth)


@EXCLUSIVE
def test_requests_that_come_twice_are_harmless_or_an_error(pair):
    for kind in (PARTITION_REQUEST, ADD_CREDIT, ACKNOWLEDGE, CLOSE_REQUEST):
        for nth in (0, 2):
            run(pair, {REQUESTS: frames(at_frame(kind, repeat, nth))})
    for nth in (0, 1):
        run(pair, {RESPONSES: frames(at_frame(BACKLOG, repeat, nth))})


@EXCLUSIVE
def test_connections_that_come_in_another_order_carry_the_same(buffers_per_channel):
    """Four channels over four connections, which the server sees in reverse."""
    with (
        Pair(buffers_per_channel, max_num_tcp_connections=4) as pair,
        FaultProxy(pair.there.address, {REQUESTS: delay(SEED), RESPONSES: delay(SEED + 1)}, hold=4) as proxy,
    ):
        partition_id = fb.network.ResultPartitionID.random()
        partition = pair.there.create_partition(partition_id, 4)
        producer = Task(write_to_each, partition, 4)
        producer.start()
        with pair.here.create_gate(
            [fb.network.RemoteChannel(*proxy.address, partition_id, i) for i in range(4)]
        ) as gate:
            reader = fb.RecordReader(gate, TYPE)
            received = [[] for _ in range(4)]
            for record in reader:
                received[reader.channel_index].append(record)
        assert producer.end().error is None
        assert proxy.connection_count == 4
        assert received == [records_of(1000, i) for i in range(4)]


def write_to_each(partition, count):
    with partition, fb.RecordWriter(partition, TYPE, "rebalance", buffer_timeout_ms=5) as writer:
        for records in zip(*(records_of(1000, i) for i in range(count)), strict=True):
            for channel, record in enumerate(records):
                writer.emit_to(record, channel)


# ---- flipped bits --------------------------------------------------------------------------------------------------

# Which frame, in which direction, and how many of its bytes: data and requests from the second on, where there are.
TARGETS = {
    "data": (RESPONSES, BUFFER_RESPONSE, DATA_BUFFER, 1, 47),
    "end of data": (RESPONSES, BUFFER_RESPONSE, END_OF_DATA, 0, 52),
    "end of partition": (RESPONSES, BUFFER_RESPONSE, END_OF_PARTITION, 0, 51),
    "backlog": (RESPONSES, BACKLOG, None, 0, 29),
    "request": (REQUESTS, PARTITION_REQUEST, None, 0, 97),
    "credit": (REQUESTS, ADD_CREDIT, None, 1, 29),
    "acknowledgement": (REQUESTS, ACKNOWLEDGE, None, 0, 25),
    "leave": (REQUESTS, CLOSE_REQUEST, None, 0, 9),
}
COUNT_OF_CREDIT = range(9, 13)  # the bytes of an AddCredit that say how much


@pytest.mark.long
@EXCLUSIVE
@pytest.mark.parametrize("target", TARGETS)
def test_no_flipped_bit_outside_records_gives_a_wrong_result(pair, target):
    """Every bit of one frame of each kind, but for its records.

    One kind of flip stalls a channel: credit that got smaller on its way is lost, and both sides wait for each other,
    as Flink's do. It ends with the connection, as any stall.
    """
    direction, kind, data_type, nth, size = TARGETS[target]
    for bit in range(8 * size):
        if target == "request" and 9 <= bit // 8 < 69 and bit % 8 != SEED % 8:
            continue  # each flipped partition id is waited for: one bit of each byte will do
        with FaultProxy(pair.there.address, {direction: frames(at_frame(kind, flip(bit), nth, data_type))}) as proxy:
            exchange = pair.start(proxy.address, RECORDS)
            if target == "credit" and bit // 8 in COUNT_OF_CREDIT and exchange.is_stalled(proxy, 0.25):
                proxy.cut()
                assert isinstance(exchange.consumer.end().error, fb.errors.RemoteTransportError)
            exchange.end()
            check(exchange, proxy.address)


@EXCLUSIVE
def test_a_flipped_bit_inside_a_record_changes_that_record_alone(pair):
    """Nothing in Flink's protocol tells: there is no checksum of data. What is not a value's own bits, is seen."""
    rng = random.Random(SEED)
    outcomes = []
    for _ in range(300):
        bit = 8 * 47 + rng.randrange(8 * 4000)
        with FaultProxy(
            pair.there.address, {RESPONSES: frames(at_frame(BUFFER_RESPONSE, flip(bit), 1, DATA_BUFFER))}
        ) as proxy:
            exchange = pair.start(proxy.address, RECORDS).end()
        if exchange.consumer.error is not None:
            outcomes.append("seen")
            assert isinstance(exchange.consumer.error, (fb.errors.CorruptDataError, UnicodeDecodeError))
            assert str(proxy.address[1]) in str(exchange.consumer.error) or not isinstance(
                exchange.consumer.error, fb.errors.CorruptDataError
            )
        else:
            outcomes.append("not seen")
            assert len(exchange.received) == len(RECORDS)
        wrong = [i for i, (got, sent) in enumerate(zip(exchange.received, RECORDS, strict=False)) if got != sent]
        assert len(wrong) <= 1, "a flipped bit changed more than its record"
    assert outcomes.count("seen") > 20 and outcomes.count("not seen") > 20  # the test sees both


# ---- peers that do not read, or not write --------------------------------------------------------------------------


class RawClient:
    """A blocking socket that speaks frames and otherwise does what a test says."""

    def __init__(self, address, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(HANG_S)
        self.socket.connect(address)
        self.decoder, self.waiting = FrameDecoder(), []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.socket.close()

    def ask(self, partition_id, credit, subpartition=0):
        request = {"subpartition": subpartition, "last_subpartition": subpartition, "credit": credit}
        frame = Frame("PartitionRequest", partition=bytes(partition_id), receiver=b"r" * 16, **request)
        self.socket.sendall(frame.encode())

    def hear(self):
        while not self.waiting:
            data = self.socket.recv(1 << 16)
            if not data:
                return None
            self.waiting += self.decoder.feed(data)
        return self.waiting.pop(0)


@EXCLUSIVE
@pytest.mark.parametrize(("credit", "silent_s"), [(4, 0.3), (1_000_000, 2.5)])
def test_a_peer_that_stops_reading_costs_no_more_than_the_configured_buffers(buffers_per_channel, credit, silent_s):
    """With little credit and with credit for everything, when the socket is what fills up; then it reads on.

    There it is silent for longer than dead_peer_timeout_ms: its system acknowledges for it, so it is not given up.
    """
    records = [(i, "x" * 1000) for i in range(20_000)]  # 20 MB
    with Pair(buffers_per_channel, dead_peer_timeout_ms=2000) as pair, RawClient(pair.there.address, 8192) as client:
        partition_id = fb.network.ResultPartitionID.random()
        partition = pair.there.create_partition(partition_id, 1)
        before = resident_kib()
        producer = Task(pair.write, partition, records)
        client.ask(partition_id, credit)
        producer.start()
        started = time.monotonic()
        while time.monotonic() - started < silent_s or partition.is_available:
            held = pair.num_segments - pair.there.pool.available_segment_count
            assert held <= max(2, buffers_per_channel) + pair.config.floating_buffers_per_gate + 5  # and the overdraft
            time.sleep(0.01)
        assert producer.is_alive() and not partition.is_available
        assert resident_kib() - before < 4096
        if credit == 1_000_000:
            data = bytearray()
            while (frame := client.hear()).numbers["data_type"] != END_OF_PARTITION:
                data += frame.body if frame.numbers["data_type"] == DATA_BUFFER else b""
            assert len(data) == 4 * len(records) + sum(len(TYPE.serialize(record)) for record in records)
            client.socket.sendall(Frame("CloseRequest").encode())
            assert producer.end().error is None
        else:
            client.socket.close()
            assert isinstance(producer.end().error, fb.errors.RemoteTransportError)


@EXCLUSIVE
def test_a_gate_that_is_not_read_holds_only_its_buffers_and_disturbs_no_other_on_its_connection(pair):
    """Two gates over one connection; the task of one is stuck. The other reads a hundred times what both may hold."""
    ids = [fb.network.ResultPartitionID.random() for _ in range(2)]
    partitions = [pair.there.create_partition(partition_id, 1) for partition_id in ids]
    gates = [
        pair.here.create_gate([fb.network.RemoteChannel(*pair.there.address, partition_id, 0)]) for partition_id in ids
    ]
    amounts = [records_of(20_000), records_of(200_000)]
    producers = [Task(pair.write, *job) for job in zip(partitions, amounts, strict=True)]
    stuck = fb.RecordReader(gates[0], TYPE)
    with gates[0], gates[1]:
        for producer in producers:
            producer.start()
        first = next(stuck)
        assert wait_until(lambda: gates[0].queued_channel_count == 1)
        consumer = Task(list, fb.RecordReader(gates[1], TYPE))
        consumer.start()
        assert consumer.end().result == amounts[1]
        assert producers[1].end().error is None
        assert pair.here._client.counters()["connections"] == 1
        assert producers[0].is_alive()  # it waits for the task that is stuck, and for nobody else
        held = pair.num_segments - pair.here.pool.available_segment_count
        assert held <= 2 * buffers_of_gate(pair)
        assert [first, *stuck] == amounts[0]
        stuck.close()
    producers[0].end()


def buffers_of_gate(pair):
    """All that one gate of one channel may hold."""
    return pair.config.buffers_per_channel + pair.config.floating_buffers_per_gate + 1


# ---- strangers -----------------------------------------------------------------------------------------------------


def strange_words():
    rng = random.Random(SEED)
    request = Frame(
        "PartitionRequest", partition=bytes(60), receiver=bytes(16), subpartition=0, last_subpartition=0, credit=2
    )
    wire = request.encode()
    yield from (b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500))
    yield from (b"SSH-2.0-OpenSSH_9.2\r\n", bytes(10_000), b"\xff" * 10_000, wire[:50], wire + wire[:50], wire * 3)
    yield struct.pack(">IIB", 0x7FFFFFFF, 0xBADC0FFE, 3) + bytes(100)
    for _ in range(200):
        yield rng.randbytes(rng.randrange(1, 3000))
        mad = bytearray(wire)
        for _ in range(rng.randrange(1, 4)):
            mad[rng.randrange(len(mad))] = rng.randrange(256)
        yield bytes(mad)


@EXCLUSIVE
def test_strangers_and_port_scanners_disturb_nobody(pair):
    """They say what they like and go as they like, while jobs run over the same port."""
    job = None
    for number, words in enumerate(strange_words()):
        if job is None:
            job = pair.start(pair.there.address, RECORDS)
        stranger = socket.create_connection(pair.there.address, timeout=HANG_S)
        try:
            stranger.sendall(words)
            if number % 3 == 0:
                reset_at_close(stranger)
            elif number % 3 == 1:
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(1 << 16):
                    pass
        except ConnectionError:
            pass  # it was refused before it had said everything
        finally:
            stranger.close()
        if not job.consumer.is_alive():
            assert check(job.end(), pair.there.address) is None
            job = None
    if job is not None:
        assert check(job.end(), pair.there.address) is None
    assert wait_until(lambda: pair.there._server.counters()["connections"] == 0)


@EXCLUSIVE
def test_a_mad_server_gives_its_clients_an_error_that_names_it(pair):
    rng = random.Random(SEED)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(HANG_S)
        address = listener.getsockname()
        for words in [
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            bytes(100),
            *(rng.randbytes(rng.randrange(1, 500)) for _ in range(50)),
        ]:
            gate = pair.here.create_gate([fb.network.RemoteChannel(*address, fb.network.ResultPartitionID.random(), 0)])
            with gate:
                gate.request_partitions()
                server, _ = listener.accept()
                with server:
                    server.sendall(words)
                    server.shutdown(socket.SHUT_WR)
                    with pytest.raises(ERRORS, match=f"127.0.0.1:{address[1]}"):
                        gate.poll(HANG_S * 1000)


@EXCLUSIVE
def test_a_thousand_idle_connections_are_carried_along(pair):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2300:
        pytest.skip(f"the system allows {hard} open files, 2,300 are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2300), hard))
    idle = []
    try:
        for _ in range(1000):
            idle.append(socket.create_connection(pair.there.address, timeout=HANG_S))
        assert wait_until(lambda: pair.there._server.counters()["connections"] >= 1000)
        started = time.monotonic()
        assert check(pair.start(pair.there.address, RECORDS).end(), pair.there.address) is None
        assert time.monotonic() - started < 20
    finally:
        for connection in idle:
            connection.close()
        assert wait_until(lambda: pair.there._server.counters()["connections"] == 0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- a machine that is full ----------------------------------------------------------------------------------------


@EXCLUSIVE
def test_running_out_of_files_is_said_and_passes(pair):
    """No new connection can be made, in or out; those that stand go on; afterwards all is as before."""
    resource = pytest.importorskip("resource")
    gc.collect()  # descriptors of earlier tests would come free in the midst of this one
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    slow = pair.start(pair.there.address, RECORDS + records_of(100_000))
    assert wait_until(lambda: len(slow.received) > 0)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    full = []
    try:
        while True:
            full.append(socket.socket())
    except OSError:
        pass
    try:
        gate = pair.here.create_gate(
            [fb.network.RemoteChannel("127.0.0.1", 9, fb.network.ResultPartitionID.random(), 0)]
        )
        with gate, pytest.raises(fb.errors.RemoteTransportError, match="127.0.0.1:9.*Too many open files"):
            gate.poll(HANG_S * 1000)
        with pytest.raises(OSError, match="descriptors"):
            fb.NetworkEnvironment(pair.config)
        full.pop().close()
        waiting = socket.create_connection(
            pair.there.address, timeout=HANG_S
        )  # its end has no number to be accepted at
        slow.end()
        assert slow.consumer.error is None and slow.received == RECORDS + records_of(100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in full:
            each.close()
    assert wait_until(lambda: pair.there._server.counters()["connections"] == 1)  # it was accepted when there was room
    waiting.close()
    assert check(pair.start(pair.there.address, RECORDS).end(), pair.there.address) is None


def job_under_limit(extra_bytes, buffers_per_channel, report):
    """In a child: a job with no more memory than `extra_bytes` above what the process has."""
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (now + extra_bytes, now + extra_bytes))
    try:
        with Pair(buffers_per_channel, num_segments=2048, segment_size=32768) as pair:
            exchange = pair.start(pair.there.address, RECORDS).end()
            error = exchange.consumer.error or exchange.producer.error
            outcome = "right" if error is None and exchange.received == RECORDS else error
    except BaseException as error:  # also of the threads that the job could not start
        outcome = error
    allowed = (MemoryError, OSError, fb.errors.InsufficientBuffersError, RuntimeError, *ERRORS)
    text = (
        outcome if isinstance(outcome, str) else f"{isinstance(outcome, allowed)} {type(outcome).__name__}: {outcome}"
    )
    os.write(report, text.encode()[:4000])


@EXCLUSIVE
def test_memory_that_the_system_refuses_is_an_error_and_no_crash(buffers_per_channel):
    """A child each: from too little to start a thread to enough for everything."""
    outcomes = []
    for extra_kib in [0, 64, 512, 2048, 8300, 8500, 9000, 12_000, 16_700, 17_000, 20_000, 40_000, 100_000, 1_000_000]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                job_under_limit(extra_kib * 1024, buffers_per_channel, writer)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            text = file.read().decode()
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status), f"with {extra_kib} KiB: killed by signal {os.WTERMSIG(status)}"
        outcomes.append(text)
        assert text == "right" or text.startswith("True "), f"with {extra_kib} KiB: {text!r}"
    assert outcomes[-1] == "right" and outcomes[0] != "right"
