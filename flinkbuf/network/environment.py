"""NetworkEnvironment: result partitions of this process for other processes, and theirs for this one.

One environment a process: a pool of buffers, one I/O thread in C that owns every socket and timer, the partitions that
tasks of this process write, a server that sends them to whoever asks, and a client that asks other processes.
Records never pass through Python here; tasks write partitions and read gates, and the I/O thread moves buffers as far
as credit allows.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from flinkbuf._core.io.dialer import Dialer
from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.partition.read_buffer_pool import ReadBufferPool
from flinkbuf._core.wire.partition_client import PartitionClient
from flinkbuf._core.wire.partition_manager import PartitionManager
from flinkbuf._core.wire.partition_server import PartitionServer
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import CancelTaskError, RemoteTransportError
from flinkbuf.log import logger
from flinkbuf.metrics import Gauge, Meter, MetricGroup
from flinkbuf.network.blocking_storage import BLOCKING_TYPES
from flinkbuf.network.compression import BufferDecompressor
from flinkbuf.network.input_gate import InputGate
from flinkbuf.network.io_manager import IOManager
from flinkbuf.network.metrics import NetworkMetrics, gate_metrics, partition_metrics
from flinkbuf.network.owners import Owners
from flinkbuf.network.partition import ResultPartition, ResultPartitionID
from flinkbuf.network.ports import listen, open_first_free, parse_ports

if TYPE_CHECKING:
    from flinkbuf.network.tls_tunnel import TlsTunnel

CONSUMER_PATIENCE_MS = 30_000  # how long a clean exit waits for readers that make no progress
CONNECT_TIMEOUT_S = 120  # Flink's, unless something else is set
CLOSE_PATIENCE_MS = 5_000  # how long close() waits for threads that write
_CLOSED = "its network environment was closed"
_RELEASED = "it was released: no task needs it any more"
_POLL_S = 0.005

T = TypeVar("T")


@dataclass(frozen=True)
class RemoteChannel:
    """One subpartition of a partition in another process.

    Parameters
    ----------
    host, port : str, int
        The address of its `NetworkEnvironment`, or of a Flink TaskManager's data port.
    partition_id : ResultPartitionID, bytes or str
        60 bytes, or their 120 hex digits.
    subpartition_index : int
        0-based.
    """

    host: str
    port: int
    partition_id: ResultPartitionID | bytes | str
    subpartition_index: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition_id", _partition_id(self.partition_id))
        if not isinstance(self.host, str):
            raise TypeError(f"host must be a name or number as text, got {self.host!r}")
        if not hasattr(self.port, "__index__"):  # numpy's are whole numbers, too
            raise TypeError(f"port must be an int, got {self.port!r}")
        if not 0 < self.port < 65536:
            raise ValueError(f"port must be from 1 to 65535, got {self.port}")
        _check_index(self.subpartition_index)


@dataclass(frozen=True)
class LocalChannel:
    """One subpartition of a partition in the same process; read without a copy and without a socket.

    Parameters
    ----------
    partition_id : ResultPartitionID, bytes or str
        60 bytes, or their 120 hex digits. It need not be created yet.
    subpartition_index : int
        0-based.
    """

    partition_id: ResultPartitionID | bytes | str
    subpartition_index: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "partition_id", _partition_id(self.partition_id))
        _check_index(self.subpartition_index)


def _partition_id(value: object) -> ResultPartitionID:
    return ResultPartitionID.from_hex(value) if isinstance(value, str) else ResultPartitionID(value)


def _check_index(index: int) -> None:
    if not hasattr(index, "__index__"):
        raise TypeError(f"subpartition_index must be an int, got {index!r}")
    if not 0 <= index < 2**31:
        raise ValueError(f"subpartition_index must be from 0 to 2147483647, got {index}")


@dataclass(frozen=True)
class GateBuffers:
    """How many buffers a gate with remote channels needs.

    Attributes
    ----------
    exclusive : int
        For each channel alone.
    min_floating, max_floating : int
        Shared by all channels: guaranteed, and at most.
    """

    exclusive: int
    min_floating: int
    max_floating: int


def gate_buffers(num_channels: int, config: NetworkConfig) -> GateBuffers:
    """Share out what the configuration grants a gate.

    Exclusive buffers are optional: where ``read-buffer.required-per-gate.max`` is too small for them, all buffers
    float. One floating buffer is always guaranteed, so that a channel without any of its own gets on. Then there may be
    one more for each channel: a producer in Flink that was promised a buffer for data that turned out to be empty
    keeps the promise for later, and with it the buffer.

    References
    ----------
    Flink ``InputGateSpecUtils``.

    Examples
    --------
    >>> gate_buffers(100, NetworkConfig())
    GateBuffers(exclusive=2, min_floating=1, max_floating=8)
    >>> gate_buffers(1000, NetworkConfig(read_buffer_required_per_gate_max=1000))
    GateBuffers(exclusive=0, min_floating=1000, max_floating=2008)
    >>> gate_buffers(1000, NetworkConfig(buffers_per_channel=0))
    GateBuffers(exclusive=0, min_floating=1, max_floating=1008)
    """
    wanted = num_channels * config.buffers_per_channel
    limit = config.read_buffer_required_per_gate_max
    required = min(limit if limit is not None else wanted + 1, wanted + 1)
    exclusive = min(config.buffers_per_channel, (required - 1) // num_channels)
    minimum = required - exclusive * num_channels
    maximum = wanted + config.floating_buffers_per_gate - exclusive * num_channels
    if exclusive == 0:
        maximum = max(maximum, num_channels + config.floating_buffers_per_gate)
    return GateBuffers(exclusive, minimum, max(minimum, maximum))


def _decompressor_of(config: NetworkConfig) -> object:
    """What restores the buffers that the configuration's codec compressed."""
    if config.compression_codec == "LZ4":
        return BufferDecompressor("LZ4", config.segment_size)
    return _LateDecompressor(config.compression_codec, config.segment_size)


class _LateDecompressor:
    """A codec of a package: made when the first compressed buffer comes, which in most jobs is never."""

    def __init__(self, codec: str, segment_size: int) -> None:
        self._codec = codec
        self._segment_size = segment_size
        self._made: BufferDecompressor | None = None

    def decompress(self, data: bytes | bytearray | memoryview) -> bytes:
        if self._made is None:
            self._made = BufferDecompressor(self._codec, self._segment_size)
        return self._made.decompress(data)


class NetworkEnvironment:
    """The network of one process: what tasks write here others read, and the other way round.

    Parameters
    ----------
    config : NetworkConfig, optional
        Every knob. With ``auth=None`` it speaks plain Flink: any Flink 2.2 TaskManager can read from it and be read,
        and so can anybody else who reaches the port. With a secret in `auth` both sides of a connection prove that they
        know it before anything else is said; with files in `tls` connections are encrypted, and both sides show a
        certificate (``flinkbuf.network.tls_tunnel`` says what that costs).
    host : str, default "127.0.0.1"
        Name or number of the address to listen at; ``"0.0.0.0"`` and ``"::"`` are all of the machine's.
    advertised_host : str, optional
        What others shall use instead of `host`; for an address of all, this machine's name if left out.
    num_segments : int, optional
        Buffers of all partitions and gates together; what ``network.memory.min`` holds if left out (2,048 of 32 KiB).
        Memory is taken from the system as it is first used.
    io_manager : IOManager, optional
        Where blocking partitions keep their files; the process's own if left out. It stays the caller's.

    Attributes
    ----------
    address : (str, int)
        Where others find it.
    pool : NetworkBufferPool
        The buffers.

    Raises
    ------
    OSError
        If none of the ports is free, or the system refuses the thread.

    Notes
    -----
    Nothing is shared with a forked child. As a context manager it waits, on a clean exit, for readers of what was
    written (30 s without progress at most), and closes everything: gates, partitions, connections, the thread. If one
    of those readers was lost, it raises `RemoteTransportError`: what was written has not been read.

    References
    ----------
    Flink ``NettyShuffleEnvironment``, ``ResultPartitionManager``, ``NettyConnectionManager``.

    Examples
    --------
    Two processes, here in one:

    >>> import flinkbuf as fb
    >>> here, there = fb.NetworkEnvironment(), fb.NetworkEnvironment()
    >>> partition_id = fb.network.ResultPartitionID.random()
    >>> partition = there.create_partition(partition_id, 1)
    >>> with fb.RecordWriter(partition, fb.Types.STRING()) as writer:
    ...     writer.emit_all(["over", "the", "wire"])
    3
    >>> with here.create_gate([fb.network.RemoteChannel(*there.address, partition_id, 0)]) as gate:
    ...     list(fb.RecordReader(gate, fb.Types.STRING()))
    ['over', 'the', 'wire']
    >>> here.close(); there.close()
    """

    def __init__(
        self,
        config: NetworkConfig | None = None,
        *,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        num_segments: int | None = None,
        io_manager: IOManager | None = None,
    ) -> None:
        if config is not None and not isinstance(config, NetworkConfig):
            raise TypeError(f"config must be a NetworkConfig, got {config!r:.80}")
        self.config = config = config or NetworkConfig()
        self._process_id = os.getpid()
        self._is_closed = False
        self._closing = threading.RLock()  # held by the thread that closes it
        # Of many threads. Who looks through it takes a copy(), which is one step: list(….items()) makes a tuple of each
        # item, for which the collector may run, and with it another thread.
        self._partitions: dict[ResultPartitionID, ResultPartition] = {}
        self._gates: WeakValueDictionary[int, InputGate] = WeakValueDictionary()  # by number, in order of creation
        self._gate_count = 0
        self._gates_lock = threading.Lock()
        self._owners = Owners()
        self._last_metrics: NetworkMetrics | None = None  # when it was closed
        self._io_manager = io_manager
        self._read_pool: ReadBufferPool | None = None  # made with the first blocking partition
        count = num_segments if num_segments is not None else max(16, config.network_memory_min // config.segment_size)
        self.pool = NetworkBufferPool(count, config.segment_size)
        self._reactor = Reactor(
            keep_idle_s=config.netty_client_tcp_keep_idle_s,
            keep_interval_s=config.netty_client_tcp_keep_interval_s,
            keep_count=config.netty_client_tcp_keep_count,
            dead_peer_timeout_ms=config.dead_peer_timeout_ms,
        )
        self._tunnel: TlsTunnel | None = None
        tls = config.tls if config.data_ssl_enabled else None
        dialer = Dialer() if tls else None
        try:
            self._manager = PartitionManager()
            self._server = self._listen(None if tls else host)
            self._client = PartitionClient(
                self._reactor,
                config.segment_size,
                connect_timeout_ms=1000 * (config.netty_client_connect_timeout_s or CONNECT_TIMEOUT_S),
                connect_retries=config.retries,
                backoff_initial_ms=config.request_backoff_initial_ms,
                backoff_max_ms=config.request_backoff_max_ms,
                request_timeout_ms=config.partition_request_timeout_ms,
                keeps_connections=config.tcp_connection_enable_reuse_across_jobs,
                secret=config.auth,
                dialer=dialer,
            )
            if tls and dialer:
                from flinkbuf.network.tls_tunnel import TlsTunnel  # ssl takes a while to import

                listener = self._at_free_port(partial(listen, host))
                self._tunnel = TlsTunnel(tls, self._reactor, self._server, dialer, listener)
        except BaseException:
            self._reactor.close()
            raise
        self.address = (advertised_host or _advertised(host), (self._tunnel or self._server).port)
        self._totals = self._register_totals()

    def _listen(self, host: str | None) -> PartitionServer:
        """Start the server; without `host` it listens nowhere itself."""
        config = self.config

        def open_at(port: int) -> PartitionServer:
            return PartitionServer(
                self._reactor,
                self._manager,
                host,
                port,
                request_timeout_ms=max(1, config.partition_request_timeout_ms),
                secret=config.auth,
            )

        return open_at(0) if host is None else self._at_free_port(open_at)

    def _at_free_port(self, open_at: Callable[[int], T]) -> T:
        """What `open_at` makes of the first port of the configuration that is free."""
        config = self.config
        name, ports = "data_bind_port", config.data_bind_port
        if ports is None:
            name, ports = "data_port", config.data_port
        return open_first_free(parse_ports(ports), open_at, f"{name}={ports!r}")

    def __enter__(self) -> NetworkEnvironment:
        self._check_open()
        return self

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        try:
            if exc is None and not self._is_closed:
                self._wait_for_readers()
        finally:
            self.close()

    def __repr__(self) -> str:
        if self._is_closed:
            return "<NetworkEnvironment closed>"
        return f"<NetworkEnvironment {self.address[0]}:{self.address[1]}, {len(self._manager)} partitions>"

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError("the network environment is closed")
        if self._process_id != os.getpid():
            raise RuntimeError(
                f"the network environment belongs to process {self._process_id}, this is its child {os.getpid()}; "
                "create one in each process, after the fork"
            )

    def create_partition(
        self,
        partition_id: ResultPartitionID | bytes | str,
        subpartition_count: int,
        type: str = "PIPELINED_BOUNDED",
        path: str | os.PathLike[str] | None = None,
        *,
        owner: Hashable | None = None,
    ) -> ResultPartition:
        """Create a result partition that others can ask for from now on.

        Parameters
        ----------
        partition_id : ResultPartitionID, bytes or str
            Its name; each is used once.
        subpartition_count : int
            Readers.
        type : {"PIPELINED_BOUNDED", "PIPELINED", "PIPELINED_APPROXIMATE", "BLOCKING", "BLOCKING_PERSISTENT"}
        path : path, optional
            Blocking only: as in `ResultPartition`.
        owner : hashable, optional
            Whose it is, for `release_owner`: such as one of several tasks of the process.

        Returns
        -------
        ResultPartition
            For a `RecordWriter`. A pipelined one is forgotten once its writer is closed and all readers have read their
            end: at the latest when buffers are asked for next, by `create_partition` or `create_gate`. A blocking one
            stays until `release_partition`, `release_owner` or `close`.

        Raises
        ------
        InsufficientBuffersError
            The pool cannot guarantee ``subpartition_count + 1`` buffers; for a sort-merge partition, two.
        RuntimeError
            The name is taken.
        """
        self._check_open()
        name = _partition_id(partition_id)
        self._forget_consumed()
        partition = self._new_partition(subpartition_count, type, path)
        try:
            self._manager.register(name, partition)
        except BaseException:
            partition.close()
            raise
        self._partitions[name] = partition
        if owner is not None:
            self._owners.add_partition(owner, name, partition)
        if self._is_closed:  # meanwhile, perhaps too early to find this one
            partition.abort(_CLOSED)
            self._check_open()
        return partition

    def _new_partition(
        self, subpartition_count: int, type: str, path: str | os.PathLike[str] | None
    ) -> ResultPartition:
        config = self.config
        if type not in BLOCKING_TYPES:
            return ResultPartition(
                self.pool,
                subpartition_count,
                type,
                path,
                buffers_per_channel=config.buffers_per_channel,
                floating_buffers=config.floating_buffers_per_gate,
                max_buffers_per_channel=config.max_buffers_per_channel,
                max_overdraft=config.max_overdraft_buffers_per_gate,
            )
        if self._read_pool is None:
            self._read_pool = ReadBufferPool(config.batch_shuffle_read_size)
        sorts = subpartition_count >= config.sort_shuffle_min_parallelism
        compresses = config.batch_shuffle_compression_enabled and config.compression_codec != "NONE"
        return ResultPartition(
            self.pool,
            subpartition_count,
            type,
            path,
            io_manager=self._io_manager,
            compression=config.compression_codec if compresses else None,
            storage="sort-merge" if sorts else config.blocking_shuffle_type,
            sort_buffers=max(2, config.sort_shuffle_min_buffers),
            read_pool=self._read_pool,
        )

    def create_gate(
        self, channels: Iterable[RemoteChannel | LocalChannel], *, owner: Hashable | None = None
    ) -> InputGate:
        """Create an input gate over subpartitions of other processes and of this one.

        Partitions are asked for at the first read, or by ``gate.request_partitions()``; one that is not there yet is
        waited for (``network.partition-request-timeout`` and ``network.request-backoff``: 30 s by default).

        Parameters
        ----------
        channels : iterable of RemoteChannel and LocalChannel
            Their order gives the channel indexes.
        owner : hashable, optional
            Whose it is, for `release_gates` and `release_owner`.

        Raises
        ------
        InsufficientBuffersError
            The pool cannot guarantee the gate's buffers; see `gate_buffers`.
        RemoteTransportError
            A host has no address.
        """
        self._check_open()
        config = self.config
        sources = list(channels)
        if not sources:
            raise ValueError("an input gate needs at least one channel")
        self._forget_consumed()
        gate = InputGate(channel_count=len(sources), decompressor=_decompressor_of(config))
        if owner is not None:  # already now: waiting for buffers may take long, and be given up
            self._owners.add_gate(owner, gate)
        try:
            self._fill(gate, sources, config)
        except BaseException:
            gate.close()
            raise
        with self._gates_lock:
            self._gates[self._gate_count] = gate
            self._gate_count += 1
        if self._is_closed:
            gate.close()
            self._check_open()
        return gate

    def _fill(self, gate: InputGate, sources: Sequence[RemoteChannel | LocalChannel], config: NetworkConfig) -> None:
        remote_count = sum(isinstance(source, RemoteChannel) for source in sources)
        buffers = gate_buffers(max(1, remote_count), config)
        pool = None
        if remote_count:
            pool = self.pool.create_buffer_pool(buffers.min_floating, buffers.max_floating)
            # Before exclusive ones are taken: without any floating buffer a channel without exclusive ones would stall.
            pool.reserve_segments(1, config.exclusive_buffers_request_timeout_ms)
        if config.buffer_debloat_enabled:
            gate.set_debloating(
                period_ms=config.buffer_debloat_period_ms,
                target_ms=config.buffer_debloat_target_ms,
                min_size=config.min_segment_size,
                max_size=config.segment_size,
                threshold_percentages=config.buffer_debloat_threshold_percentages,
                samples=config.buffer_debloat_samples,
            )
        gate.set_network(self._client, self._manager, pool, 3 * config.partition_request_timeout_ms)
        for index, source in enumerate(sources):
            if isinstance(source, LocalChannel):
                gate.set_local(index, bytes(_partition_id(source.partition_id)), source.subpartition_index)
                continue
            if not isinstance(source, RemoteChannel):
                raise TypeError(
                    f"channel {index} must be a RemoteChannel or a LocalChannel, got {type(source).__name__}"
                )
            gate.set_remote(
                index,
                source.host,
                source.port,
                bytes(_partition_id(source.partition_id)),
                source.subpartition_index,
                exclusive_buffers=buffers.exclusive,
                timeout_ms=config.exclusive_buffers_request_timeout_ms,
                connection_index=index % config.max_num_tcp_connections,
            )

    def _forget_consumed(self) -> None:
        """Close and forget what was written to its end and read to its end: its buffers are for others now.

        One that was written to its end and lost its reader is kept, for `wait_until_consumed` to tell; its writer was
        told of any other. One that has an owner is closed by nobody else. A blocking one is not consumed by reading.
        """
        for name, partition in self._partitions.copy().items():
            if partition.is_finished and partition.is_reader_lost:
                continue
            if partition.partition_type in BLOCKING_TYPES and not partition.is_released:
                continue
            if self._owners.has(name):
                if partition.is_closed and (partition.is_released or partition.unconsumed_subpartition_count == 0):
                    self._partitions.pop(name, None)
                    self._owners.forget_partition(name)
                continue
            if partition.is_finished and (partition.is_released or partition.unconsumed_subpartition_count == 0):
                with suppress(RuntimeError):  # its writer has a last word to say just now: the next time, then
                    partition.close()
            if partition.is_closed and partition.is_released:
                self._partitions.pop(name, None)

    def release_gates(self, owner: Hashable) -> None:
        """Close an owner's gates: what it read is over. What it wrote stays for its readers. From any thread."""
        for gate in self._owners.take_gates(owner):
            gate.close()

    def release_owner(self, owner: Hashable) -> None:
        """Close an owner's gates and drop its partitions, read or not; nobody else's are touched.

        From any thread, also while the owner writes and reads: it gets a `CancelTaskError`, as do readers of what was
        not written to its end. An owner that has nothing (any more) is no error.

        Examples
        --------
        >>> import flinkbuf as fb
        >>> with fb.NetworkEnvironment() as env:
        ...     partition = env.create_partition(fb.network.ResultPartitionID.random(), 1, owner="task 1")
        ...     env.release_owner("task 1")
        ...     partition.is_released, env
        (True, <NetworkEnvironment 127.0.0.1:..., 0 partitions>)
        """
        self.release_gates(owner)
        for name, partition in self._owners.take_partitions(owner):
            self._release(name, partition)

    def release_partition(self, partition_id: ResultPartitionID | bytes | str) -> None:
        """Drop one partition, read or not: nobody needs it any more. From any thread.

        Who writes or reads it gets a `CancelTaskError`; the files of a blocking one are deleted when the last reader is
        gone, but for those of a BLOCKING_PERSISTENT one that was finished. One that is not here is no error.

        Examples
        --------
        >>> import flinkbuf as fb
        >>> partition_id = fb.network.ResultPartitionID.random()
        >>> with fb.NetworkEnvironment() as env:
        ...     with fb.RecordWriter(env.create_partition(partition_id, 2, "BLOCKING"), fb.Types.INT()) as writer:
        ...         _ = writer.emit_all(range(10))
        ...     for _ in range(2):
        ...         with env.create_gate([fb.network.LocalChannel(partition_id, index) for index in range(2)]) as gate:
        ...             print(sum(fb.RecordReader(gate, fb.Types.INT())))
        ...     env.release_partition(partition_id)
        45
        45
        """
        name = _partition_id(partition_id)
        partition = self._partitions.get(name)
        if partition is not None:
            self._owners.forget_partition(name)
            self._release(name, partition)

    def _release(self, name: ResultPartitionID, partition: ResultPartition) -> None:
        self._partitions.pop(name, None)
        self._manager.unregister(name)
        if not partition.is_finished:
            partition.fail(_RELEASED)
        partition.release()
        partition.abort(_RELEASED, timeout_ms=0)

    def wait_until_consumed(self, timeout_ms: int | None = None) -> bool:
        """Wait until every partition that was finished has been read to its end by all of its readers.

        Parameters
        ----------
        timeout_ms : int, optional
            Milliseconds; no limit if left out.

        Returns
        -------
        bool
            Whether they have.

        Raises
        ------
        RemoteTransportError
            One of them was lost: it went without a word, so nobody knows what it has read.
        CancelTaskError
            Another thread has closed the environment meanwhile.
        """
        self._check_open()
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while self._unread_count() > 0:
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        if self._is_closed:
            raise CancelTaskError("the network environment was closed before everything was read")
        return True

    def _unread_count(self) -> int:
        """Subpartitions that were finished and have not been read to the end."""
        partitions = self._partitions.copy()
        finished = [(name, partition) for name, partition in partitions.items() if partition.is_finished]
        for name, partition in finished:
            if partition.is_reader_lost:
                raise RemoteTransportError(f"partition {name.hex()} was not read to its end: {partition.failure_cause}")
        return sum(partition.unconsumed_subpartition_count for _, partition in finished if not partition.is_released)

    def _wait_for_readers(self) -> None:
        """The same as long as there is progress."""
        seen, since = None, time.monotonic()
        while unread := self._unread_count():
            progress = (unread, sum(partition.total_read_bytes for partition in list(self._partitions.values())))
            if progress != seen:
                seen, since = progress, time.monotonic()
            elif time.monotonic() - since > CONSUMER_PATIENCE_MS / 1000:
                logger.warning(
                    "%d subpartitions at %s:%d were finished, but were not read for %d s: they are dropped",
                    unread,
                    *self.address,
                    CONSUMER_PATIENCE_MS // 1000,
                )
                return
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Close gates, partitions, connections and the thread. What was not read is dropped. Idempotent.

        Any thread may call it, also while others write partitions and read gates: those get a `CancelTaskError` from
        whatever they wait for or do next. A thread that writes, but is busy in the iterable that it was given, is
        waited for 5 s at most; then the buffers that it has begun come home when it comes back.
        """
        if self._process_id != os.getpid():
            self._is_closed = True
            return
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._close_all()

    def _close_all(self) -> None:
        try:
            self._last_metrics = self._sample()
        finally:
            try:
                self._close_partitions(0)  # those who wait for buffers are woken
                for _, gate in self._numbered_gates():
                    gate.close()
                self._close_partitions(CLOSE_PATIENCE_MS)
            finally:
                self._close_network()

    def _close_network(self) -> None:
        if self._tunnel is not None:
            self._tunnel.stop_accepting()
        self._reactor.close()  # and with it client and server
        if self._tunnel is not None:
            self._tunnel.close()
        self._manager.close()
        self._partitions.clear()
        self.pool.close()

    def _close_partitions(self, patience_ms: int) -> None:
        """Close all partitions and fail those that are not finished; writing threads have `patience_ms` to come out."""
        deadline = time.monotonic() + patience_ms / 1000
        for partition in list(self._partitions.values()):
            if partition.is_finished:
                partition.close()
                if partition.partition_type in BLOCKING_TYPES:
                    partition.release()
            else:
                partition.abort(_CLOSED, max(0, int(1000 * (deadline - time.monotonic()))))

    def metrics(self) -> NetworkMetrics:
        """Look at everything that moves: channels, gates, partitions, pools.

        The counters are always kept; this reads them. ``print(env.metrics())`` shows tables, as does rich.

        Returns
        -------
        NetworkMetrics
            As it is now; after `close`, as it was then.

        References
        ----------
        Flink ``NettyShuffleMetricFactory``, with ``network.detailed-metrics``.

        Examples
        --------
        >>> import flinkbuf as fb
        >>> with fb.NetworkEnvironment() as env:
        ...     partition = env.create_partition(fb.network.ResultPartitionID.random(), 1)
        ...     with fb.RecordWriter(partition, fb.Types.INT()) as writer:
        ...         _ = writer.emit_all(range(1000))
        ...     out = env.metrics().partitions[0].subpartitions[0]
        ...     partition.release()
        >>> out.records, out.queued, out.credit
        (1000, 3, None)
        """
        if self._is_closed and self._last_metrics is not None:
            return self._last_metrics
        self._check_open()
        return self._sample()

    def _sample(self) -> NetworkMetrics:
        return NetworkMetrics(
            *self.address,
            self._totals.sample(),
            tuple(partition_metrics(name.hex(), partition) for name, partition in self._partitions.copy().items()),
            tuple(gate_metrics(index, gate) for index, gate in self._numbered_gates()),
        )

    def _numbered_gates(self) -> list[tuple[int, InputGate]]:
        with self._gates_lock:
            return sorted(self._gates.items())

    def _register_totals(self) -> MetricGroup:
        """Figures of the whole process, by Flink's names where it has them."""
        pool, server, client = self.pool, self._server, self._client
        totals = MetricGroup()
        totals.register("totalMemorySegments", Gauge(lambda: pool.total_segment_count))
        totals.register("availableMemorySegments", Gauge(lambda: pool.available_segment_count))
        totals.register("usedMemorySegments", Gauge(lambda: pool.total_segment_count - pool.available_segment_count))
        totals.register("connectionsIn", Gauge(lambda: server.counters()["connections"]))
        totals.register("connectionsOut", Gauge(lambda: client.counters()["connections"]))
        totals.register("connectionsRefused", Gauge(lambda: server.counters()["refused"]))
        for way, end in (("In", client), ("Out", server)):
            totals.register(f"numBuffers{way}", Gauge(partial(_count, end, "buffers")))
            totals.register(f"numBytes{way}", Gauge(partial(_count, end, "bytes")))
            totals.register(f"numBytes{way}PerSecond", Meter(partial(_count, end, "bytes")))
        return totals

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed


def _count(end: PartitionServer | PartitionClient, name: str) -> int:
    return end.counters()[name]


def _advertised(host: str) -> str:
    return socket.gethostname() if host in ("0.0.0.0", "::", "") else host
