"""The binding of csrc/gate/input_gate.h: which of a consumer's channels have something to read."""

import operator
import os
import threading
import time

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.errno cimport EINVAL, errno
from libc.stdint cimport INT64_MAX, uint16_t
from libc.string cimport memcpy, memset

from flinkbuf._core.memory.buffer cimport (
    Buffer, fb_buffer_data_type, fb_buffer_new_unpooled, fb_buffer_slice, fb_buffer_slice_data,
    fb_buffer_slice_release, fb_buffer_slice_retain,
)
from flinkbuf._core.memory.buffer_codec cimport BlockDecompressor, fb_buffer_codec, fb_buffer_codec_read_header
from flinkbuf._core.memory.local_buffer_pool cimport (
    LocalBufferPool, fb_buffer_pool_usage, fb_local_buffer_pool_get_usage,
)
from flinkbuf._core.ground.errors cimport (
    FB_EARGUMENT, FB_ECORRUPT, FB_EIO, FB_ENOT_FOUND, FB_ERELEASED, FB_ESTATE, FB_ETIMEOUT, check, fail,
)
from flinkbuf._core.wire.frame cimport FB_CHANNEL_ID_SIZE, FB_PARTITION_ID_SIZE, fb_frame_channel_id_seal
from flinkbuf._core.partition.result_partition cimport ResultPartition
from flinkbuf._core.io.tcp cimport fb_tcp_address, fb_tcp_address_resolve
from flinkbuf._core.ground.wakeup cimport TaskBell

from flinkbuf.errors import CancelTaskError, CorruptDataError, PartitionNotFoundError, RemoteTransportError, located

cdef enum:
    WAIT_SLICE_MS = 100


cdef bytes resolve(str host, uint16_t port):
    """The address of a name, as the core keeps it."""
    cdef fb_tcp_address address
    cdef bytes encoded = host.encode()
    cdef const char* name = encoded
    cdef int code
    cdef int error = 0
    memset(&address, 0, sizeof(address))  # addresses are compared byte by byte
    with nogil:
        code = fb_tcp_address_resolve(&address, name, port)
        error = errno
    if code < 0:
        known = "" if error == EINVAL else f": {os.strerror(error)}"  # EINVAL: no name of a host at all
        raise RemoteTransportError(f"the address of {host}:{port} cannot be found{known}")
    return (<const char*>&address)[:sizeof(address)]


cdef dict totals_of(dict figures):
    """The sums over the channels of a gate that is closed."""
    channels = figures["channels"]
    sums = {name: sum([each[name] for each in channels]) for name in ("bytes", "buffers", "queued")}
    return {**sums, "credit": sum([max(each["credit"], 0) for each in channels]),
            "oldest_ms": max([each["oldest_ms"] for each in channels], default=0), "pool": figures["pool"]}


cdef class RecordCounts:
    def __cinit__(self, uint32_t channel_count):
        self.channel_count = channel_count
        self.values = <uint64_t*>PyMem_Calloc(2 * <size_t>channel_count, sizeof(uint64_t))
        if self.values is NULL:
            raise MemoryError(f"no memory for the counts of {channel_count} channels")
        self.bases = self.values + channel_count

    def __dealloc__(self):
        PyMem_Free(self.values)


cdef class AbstractInputGate:
    """What a record reader reads: an input gate, or several as one."""

    def __dealloc__(self):
        self.release_held()

    def share_bell(self, TaskBell bell not None):
        """Ring the bell of the task that reads here, which waits for more than this gate; before the first read.

        Raises
        ------
        RuntimeError
            It rings another one, belongs to a union (which takes the bell then), or is read already.
        """
        if self.bell is bell:
            return
        self.set_bell(bell)
        self.bell = bell

    def poll(self, timeout_ms=0):
        """Take the next buffer or event.

        Parameters
        ----------
        timeout_ms : int or None, default 0
            How long to wait for one, in milliseconds; None waits until there is one or the gate is finished.

        Returns
        -------
        tuple of (int, Buffer) or None
            Channel index and what came from it; None if nothing came in time, or nothing will come any more.
        """
        cdef fb_gate_item item
        cdef int64_t left = INT64_MAX if timeout_ms is None else timeout_ms
        while not self.poll_item(&item):
            if self.has_finished() or left <= 0:
                return None
            self.wait(min(left, WAIT_SLICE_MS))
            left -= WAIT_SLICE_MS
        return item.channel_index, Buffer.adopt(item.slice)

    cdef int poll_item(self, fb_gate_item* item) except -1:
        """1 and an item whose slice the caller owns, with the bytes as they were before any compression, or 0."""
        cdef int code = 1
        if self.held.slice.buffer is NULL:
            code = self.take_item(item)
            if code == 0 or not item.slice.is_compressed:
                return code
            self.held = item[0]  # kept until it is restored: who asks again is told again
        return self.restore(item)

    cdef int release_held(self) except -1:
        """Give back what was taken from the channels, but not handed out."""
        fb_buffer_slice_release(&self.held.slice)
        return 0

    cdef int restore(self, fb_gate_item* item) except -1:
        """Put the original of the compressed buffer in hand into *item."""
        cdef Buffer original
        cdef uint32_t channel_index = self.held.channel_index
        decompressor = self.decompressor_of(channel_index)
        where = f"channel {channel_index}, buffer {self.held.sequence_number}"
        if decompressor is None:
            raise RuntimeError(
                f"{where} is compressed, but the gate has no decompressor: give it one with "
                "decompressor=fb.network.BufferDecompressor(codec), codec being the sender's "
                "taskmanager.network.compression.codec (NetworkConfig.compression_codec)")
        if isinstance(decompressor, BlockDecompressor) and self.restore_block(decompressor, item) == 1:
            return 1
        fb_buffer_slice_retain(&self.held.slice)
        compressed = Buffer.adopt(self.held.slice)
        try:
            with compressed:
                original = Buffer.copy_of(decompressor.decompress(compressed), self.held.slice.data_type)
        except CorruptDataError as error:
            source = self.source_of(channel_index)
            raise located(CorruptDataError(
                f"{where}: {error}" + (f" (channel {channel_index} is {source})" if source else "")),
                channel_index=channel_index) from error
        item[0] = self.held
        item.slice = original.c
        fb_buffer_slice_retain(&item.slice)
        fb_buffer_slice_release(&self.held.slice)
        return 1

    cdef int restore_block(self, BlockDecompressor decompressor, fb_gate_item* item) except -1:
        """1: the original of the buffer in hand is in *item. 0: it has none, and decompress() says why."""
        cdef fb_buffer_codec* codec = decompressor.buffer_codec.c
        cdef fb_gate_item held = self.held
        cdef fb_buffer_slice original
        cdef uint32_t size = 0
        cdef int code = fb_buffer_codec_read_header(
            fb_buffer_slice_data(&held.slice), held.slice.size, decompressor.segment_size, &size)
        if code < 0:
            return 0
        check(fb_buffer_new_unpooled(NULL, size, <fb_buffer_data_type>held.slice.data_type, &original))
        fb_buffer_slice_retain(&held.slice)  # another thread may close the gate now
        with nogil:
            code = codec.decompress(codec, fb_buffer_slice_data(&held.slice), held.slice.size,
                                    <uint8_t*>fb_buffer_slice_data(&original), size, &size)
        fb_buffer_slice_release(&held.slice)
        if code < 0:
            fb_buffer_slice_release(&original)
            return 0
        item[0] = held
        item.slice = original
        fb_buffer_slice_release(&self.held.slice)
        return 1

    def close(self):
        """Give up all channels; what is queued for them is dropped by their partitions. Idempotent. Several threads may
        call it; another one that reads this gate gets a `CancelTaskError`."""
        self.close_once()

    cdef int close_once(self) except -1:
        cdef object me = threading.get_ident()
        while self.closer is not None and self.closer != me:
            time.sleep(0.001)  # another thread closes it: done when that is
        if self.closer == me or self.has_closed:
            return 0
        self.closer = me
        try:
            self.close_channels()
            self.has_closed = True
        finally:
            self.closer = None
        return 0

    cdef int close_channels(self) except -1:
        """Close it, once; `closer` is this thread."""
        raise NotImplementedError

    cdef str source_of(self, uint32_t channel_index):
        """What a channel reads and from where, in words; None for a partition given as an object."""
        raise NotImplementedError

    cdef int take_item(self, fb_gate_item* item) except -1:
        """1 and an item as it came, whose slice the caller owns, or 0."""
        raise NotImplementedError

    cdef int take_priority(self, fb_gate_item* item) except -1:
        """1 and a priority event, which overtakes what is being read; its slice is the caller's. 0: there is none."""
        raise NotImplementedError

    cdef int set_bell(self, TaskBell bell) except -1:
        """Have `bell` rung from now on."""
        raise NotImplementedError

    cdef tuple members(self):
        """The gates it is made of."""
        raise NotImplementedError

    cdef int wait(self, int64_t timeout_ms) except -1:
        """Sleep, without the GIL, until something may be taken; whether it may."""
        raise NotImplementedError

    cdef bint has_finished(self):
        """Whether nothing will come any more."""
        return False

    cdef object decompressor_of(self, uint32_t channel_index):
        return None

    cdef int show_counts(self, RecordCounts counts, uint32_t offset) except -1:
        """Take `counts`, where this gate's channels begin at `offset`, for the records that are read from here on."""
        return 0


@cython.no_gc_clear  # __dealloc__ needs the network
cdef class InputGate(AbstractInputGate):
    """A consumer's channels; see `flinkbuf.InputGate`."""

    def __cinit__(self, channels=(), *, channel_count=None, decompressor=None):
        cdef list pairs = [(channel[0], channel[1]) for channel in channels]
        self.c = <fb_input_gate*>PyMem_Malloc(sizeof(fb_input_gate))
        if self.c is NULL:
            raise MemoryError("no memory for an input gate")
        self.c.channels = NULL
        if not pairs and not channel_count:
            raise ValueError("an input gate needs at least one channel")
        check(fb_input_gate_open(self.c, <uint32_t>(channel_count or len(pairs))))
        fb_input_gate_set_priority(self.c, &self.priority)
        self.decompressor = decompressor
        self.sources = [None] * self.c.channel_count
        for index, (source, subpartition_index) in enumerate(pairs):
            self.set_partition(index, source, subpartition_index)

    cdef int set_partition(self, index, source, subpartition_index) except -1:
        cdef ResultPartition partition
        if not isinstance(source, ResultPartition):
            raise TypeError(f"channel {index} needs a ResultPartition to read, got {type(source).__name__}")
        partition = source
        subpartition_index = operator.index(subpartition_index)
        if not 0 <= subpartition_index < partition.c.subpartition_count:
            raise IndexError(f"channel {index} asks for subpartition {subpartition_index} of a partition that has "
                             f"{partition.c.subpartition_count}")
        check(fb_input_gate_set_local(self.c, <uint32_t>index, partition.c, <uint32_t>subpartition_index))
        self.sources[index] = partition
        return 0

    def set_network(self, PartitionClient client not None, PartitionManager manager not None, LocalBufferPool pool,
                    int64_t patience_ms):
        """Give the gate what channels by id need: who asks other processes, where partitions of this one are, a pool
        for floating buffers (None without remote channels; the gate takes it over), and how long a local channel
        waits for its partition."""
        cdef fb_gate_network network
        self.check_usable()
        self.client, self.manager = client, manager
        client.gates[id(self)] = self  # before it is asked: whoever closes the client finds this gate, or was faster
        client.check_open()
        manager.check_open()
        network.client, network.manager, network.patience_ms = client.c, manager.c, patience_ms
        network.pool = network.network_pool = NULL
        if pool is not None:
            self.network_pool = pool.global_pool
            network.network_pool, network.pool = pool.global_pool.c, pool.c
            pool.c = NULL
        check(fb_input_gate_set_network(self.c, &network))

    def set_local(self, uint32_t index, bytes partition_id not None, uint32_t subpartition_index):
        """Channel `index` reads a partition of this process, by its id of 60 bytes; it need not be there yet."""
        self.check_usable()
        if len(partition_id) != FB_PARTITION_ID_SIZE:
            raise ValueError(f"a partition id has {FB_PARTITION_ID_SIZE} bytes, got {len(partition_id)}")
        self.check_set(fb_input_gate_set_local_id(self.c, index, partition_id, subpartition_index), index)
        self.sources[index] = f"subpartition {subpartition_index} of partition {partition_id.hex()} in this process"

    def set_remote(self, uint32_t index, str host not None, uint16_t port, bytes partition_id not None,
                   uint32_t subpartition_index, *, uint32_t exclusive_buffers=2, int64_t timeout_ms=30000,
                   uint32_t connection_index=0, bytes channel_id=None):
        """Channel `index` reads from another process, with `exclusive_buffers` of the network pool for itself."""
        cdef fb_remote_source source
        cdef bytes address = resolve(host, port)
        cdef bytes key = os.urandom(FB_CHANNEL_ID_SIZE) if channel_id is None else channel_id
        cdef uint8_t[FB_CHANNEL_ID_SIZE] id
        cdef int code = FB_ETIMEOUT
        cdef int64_t slice_ms
        if len(partition_id) != FB_PARTITION_ID_SIZE:
            raise ValueError(f"a partition id has {FB_PARTITION_ID_SIZE} bytes, got {len(partition_id)}")
        if len(key) != FB_CHANNEL_ID_SIZE:
            raise ValueError(f"a channel id has {FB_CHANNEL_ID_SIZE} bytes, got {len(key)}")
        memcpy(id, <const char*>key, FB_CHANNEL_ID_SIZE)
        if channel_id is None:
            fb_frame_channel_id_seal(id)
        memcpy(&source.address, <const char*>address, sizeof(fb_tcp_address))
        memcpy(source.partition, <const char*>partition_id, FB_PARTITION_ID_SIZE)
        source.connection_index, source.subpartition_index = connection_index, subpartition_index
        while code == FB_ETIMEOUT:
            self.check_usable()  # it may be closed while it waits for buffers
            slice_ms = min(timeout_ms, <int64_t>WAIT_SLICE_MS)
            timeout_ms -= slice_ms
            self.waiting += 1
            with nogil:
                code = fb_input_gate_set_remote(self.c, index, &source, id, exclusive_buffers, slice_ms)
            self.waiting -= 1
            PyErr_CheckSignals()
            if timeout_ms <= 0:
                break
        self.check_set(code, index)
        self.sources[index] = f"subpartition {subpartition_index} of partition {partition_id.hex()} at {host}:{port}"

    cdef int set_bell(self, TaskBell bell) except -1:
        self.check_usable()
        if self.c.is_requested:
            raise RuntimeError("the input gate is read already")
        if self.c.wakeup != &self.c.own_wakeup:
            raise RuntimeError("the input gate belongs to a union, which is to be given the bell"
                               if self.bell is None else "the input gate rings another task's bell")
        fb_input_gate_set_wakeup(self.c, &bell.c.wakeup)
        return 0

    cdef tuple members(self):
        return (self,)

    cdef int check_set(self, int code, index) except -1:
        return check(code) if code >= 0 else fail(code, f"channel {index}")

    def __dealloc__(self):
        # In a forked child the I/O thread is not there, and what it holds is the parent's.
        if self.c is NULL or not self.is_of_this_process():
            self.held.slice.buffer = NULL
            return
        self.release_held()
        with nogil:
            fb_input_gate_close(self.c)
        PyMem_Free(self.c)

    cdef bint is_of_this_process(self):
        return self.client is None or self.client.reactor.process_id == os.getpid()

    def request_partitions(self):
        """Attach to all partitions; effective once. `poll` does it at its first call."""
        cdef uint32_t failed = 0
        cdef int code
        self.check_usable()
        if self.c.is_requested:
            return
        self.waiting += 1
        with nogil:
            code = fb_input_gate_request_partitions(self.c, &failed)
        self.waiting -= 1
        if code < 0:
            self.fail_channel(code, failed, 0)

    def resume_consumption(self, uint32_t channel_index):
        """Let a channel go on that a checkpoint barrier blocked."""
        self.check_usable()
        check(fb_input_gate_resume(self.c, channel_index))

    def convert_to_priority(self, uint32_t channel_index, int32_t sequence_number):
        """Let a checkpoint barrier that a channel has announced overtake the records before it, as an unaligned one.

        Its producer, which the aligned barrier blocked, goes on: it is not to be resumed once more.

        Parameters
        ----------
        channel_index : int
        sequence_number : int
            Of the announcement.

        Returns
        -------
        bool
            False: it is not there any more, or the channel is local: its producer decides.

        References
        ----------
        Flink ``InputChannel.convertToPriorityEvent``.
        """
        cdef int code
        self.check_usable()
        code = fb_input_gate_convert_to_priority(self.c, channel_index, sequence_number)
        if code == FB_EARGUMENT:
            raise IndexError(f"channel {channel_index} of a gate with {self.c.channel_count}")
        if code == FB_ECORRUPT:
            raise CorruptDataError(f"channel {channel_index}: what was announced as a checkpoint barrier is none")
        return check(code) == 1

    def acknowledge_all_records_processed(self, uint32_t channel_index):
        """Tell the producer of a channel that all of its records, up to EndOfData, have been processed.

        After the channel's EndOfPartition nobody is left to be told, and nothing happens.

        References
        ----------
        Flink ``InputGate.acknowledgeAllRecordsProcessed``.
        """
        self.check_usable()
        if fb_input_gate_acknowledge(self.c, channel_index) < 0:
            raise IndexError(f"channel {channel_index} of a gate with {self.c.channel_count}")

    def set_debloating(self, *, int64_t period_ms, int64_t target_ms, int32_t min_size, int32_t max_size,
                       int32_t threshold_percentages, int32_t samples):
        """Adapt the size of the senders' buffers to what is consumed, from now on; before the first read.

        The parameters are those of ``taskmanager.network.memory.buffer-debloat``, sizes in bytes.
        """
        cdef fb_buffer_debloater_config config
        cdef int code
        self.check_usable()
        config.target_ms, config.min_size, config.max_size = target_ms, min_size, max_size
        config.threshold_percent, config.samples = threshold_percentages, samples
        code = fb_input_gate_set_debloating(self.c, &config, period_ms)
        if code < 0:
            fail(code, f"period_ms={period_ms}, target_ms={target_ms}, min_size={min_size}, max_size={max_size}, "
                       f"threshold_percentages={threshold_percentages}, samples={samples}")

    cdef int close_channels(self) except -1:
        if not self.is_closing:
            self.closed_by = self.closer
        self.is_closing = True
        while self.waiting > 0:
            fb_input_gate_ring(self.c)
            time.sleep(0.001)
        if self.is_of_this_process():
            if self.last_figures is None:
                self.last_figures = self.look()
            self.release_held()
            with nogil:
                fb_input_gate_close(self.c)
        self.sources = []
        return 0

    @property
    def channel_count(self):
        return self.c.channel_count

    @property
    def is_closed(self):
        return self.is_closing or not self.c.is_open

    @property
    def is_finished(self):
        """Whether every channel gave its EndOfPartition."""
        return not self.is_closing and self.c.is_open and fb_input_gate_is_finished(self.c)

    @property
    def has_received_end_of_data(self):
        """Whether every channel gave its EndOfData."""
        return not self.is_closing and self.c.is_open and self.c.ended_data_count == self.c.channel_count

    @property
    def is_drained(self):
        """Whether every channel gave its EndOfData in the mode DRAIN."""
        return not self.is_closing and self.c.is_open and self.c.drained_count == self.c.channel_count

    def figures(self):
        """What the gate has read, and what waits for it, as a dict.

        ``channels``: for each a dict of ``source`` (a text, or None), ``records`` handed out by a `RecordReader` (up to
        the last whole buffer), ``buffers`` and ``bytes`` taken, ``queued``, ``backlog`` (as the sender said last),
        ``credit`` (free buffers; -1: a local channel), ``oldest_ms`` (how long the first one has waited),
        ``is_finished``. ``pool``: the figures of its pool, or None. ``idle_ms``: how long it was waited for.
        ``announced_buffer_size``. After `close` they are the last ones.
        """
        return self.last_figures if self.last_figures is not None else self.look()

    def totals(self):
        """The sums over all channels, as a dict of ``bytes``, ``buffers``, ``queued`` and ``credit`` (of channels to
        other processes) and the highest ``oldest_ms``; ``pool`` as in `figures`. No object is made for a channel."""
        if self.last_figures is not None:
            return totals_of(self.last_figures)
        cdef fb_channel_usage usage
        cdef fb_buffer_pool_usage of_pool
        cdef uint64_t byte_count = 0, buffers = 0, queued = 0, credit = 0
        cdef int64_t oldest_ms = 0
        cdef uint32_t i
        for i in range(self.c.channel_count):
            fb_input_gate_get_channel_usage(self.c, i, &usage)
            byte_count += usage.bytes
            buffers += usage.buffers
            queued += usage.queued
            credit += max(usage.credit, 0)
            oldest_ms = max(oldest_ms, usage.oldest_ms)
        pool = None
        if self.c.pool is not NULL:
            fb_local_buffer_pool_get_usage(self.c.pool, &of_pool)
            pool = of_pool
        return {"bytes": byte_count, "buffers": buffers, "queued": queued, "credit": credit, "oldest_ms": oldest_ms,
                "pool": pool}

    cdef dict look(self):
        cdef fb_channel_usage usage
        cdef fb_buffer_pool_usage of_pool
        cdef uint32_t i
        cdef list channels = []
        for i in range(self.c.channel_count):
            fb_input_gate_get_channel_usage(self.c, i, &usage)
            source = self.sources[i]
            channels.append({
                "source": source if isinstance(source, str) else None,
                "records": 0 if self.record_counts is None else self.record_counts.values[self.record_offset + i],
                "is_finished": bool(self.c.channels[i].has_ended), **usage,
            })
        pool = None
        if self.c.pool is not NULL:
            fb_local_buffer_pool_get_usage(self.c.pool, &of_pool)
            pool = of_pool
        return {"channels": channels, "pool": pool, "idle_ms": self.c.idle_ms,
                "announced_buffer_size": self.announced_buffer_size}

    @property
    def announced_buffer_size(self):
        """Bytes that senders were last asked to fill a buffer with; None without debloating."""
        return self.c.debloater.announced_size if self.c.debloat_period_ms > 0 else None

    @property
    def queued_channel_count(self):
        """Channels that have something to read now."""
        return 0 if self.is_closing or not self.c.is_open else fb_input_gate_queued_channels(self.c)

    cdef int check_usable(self) except -1:
        return self.fail_closed() if self.is_closing or not self.c.is_open else 0

    cdef int fail_closed(self) except -1:
        if self.closed_by is not None and self.closed_by != threading.get_ident():
            raise CancelTaskError("the input gate was closed by another thread")
        raise RuntimeError("the input gate is closed")

    cdef int take_item(self, fb_gate_item* item) except -1:
        cdef int code
        self.check_usable()
        if not self.c.is_requested:
            self.request_partitions()
        code = fb_input_gate_poll(self.c, item)
        return code if code >= 0 else self.fail_channel(code, item.channel_index, 0)

    cdef int take_priority(self, fb_gate_item* item) except -1:
        return 0 if self.is_closing else fb_input_gate_poll_priority(self.c, item)

    cdef bint has_finished(self):
        return fb_input_gate_is_finished(self.c)

    cdef object decompressor_of(self, uint32_t channel_index):
        source = self.sources[channel_index]
        if self.decompressor is None and isinstance(source, ResultPartition):
            return (<ResultPartition>source).decompressor
        return self.decompressor

    cdef int show_counts(self, RecordCounts counts, uint32_t offset) except -1:
        cdef uint32_t i
        if self.record_counts is not None:
            for i in range(self.c.channel_count):
                counts.bases[offset + i] = self.record_counts.values[self.record_offset + i]
                counts.values[offset + i] = counts.bases[offset + i]
        self.record_counts, self.record_offset = counts, offset
        return 0

    cdef str source_of(self, uint32_t channel_index):
        source = self.sources[channel_index] if channel_index < <uint32_t>len(self.sources) else None
        path = getattr(source.storage, "path", None) if isinstance(source, ResultPartition) else None
        if path is not None:
            return f"subpartition {self.c.channels[channel_index].subpartition_index} of {path}"
        return source if isinstance(source, str) else None

    cdef int fail_channel(self, int code, uint32_t channel_index, uint32_t offset) except -1:
        """Raise what went wrong with a channel, with all that is known of the cause; `offset` is added to its index."""
        try:
            return self.raise_failure(code, channel_index, offset)
        except Exception as error:
            located(error, channel_index=channel_index + offset)
            raise

    cdef int raise_failure(self, int code, uint32_t channel_index, uint32_t offset) except -1:
        cdef const char* failure = fb_input_gate_failure(self.c, channel_index)
        cause = None if failure is NULL else failure.decode("utf-8", "replace")
        source = self.sources[channel_index]
        where = f"channel {channel_index + offset}" + (f" ({source})" if isinstance(source, str) else "")
        if code == FB_ENOT_FOUND:
            raise PartitionNotFoundError(f"{where}: {cause or 'no producer has registered this partition in time'}")
        if (code == FB_EIO or code == FB_ETIMEOUT) and self.c.channels[channel_index].remote is not NULL:
            raise RemoteTransportError(f"{where}: {cause}")
        if code == FB_ERELEASED:
            if cause is None:
                return fail(code, f"{where} has not been read to its end")
            raise CancelTaskError(f"{where} has not been read to its end: its producer failed with {cause}")
        if code == FB_EARGUMENT:
            raise IndexError(f"{where} asks for subpartition {self.c.channels[channel_index].subpartition_index}, "
                             "which the partition does not have")
        if code == FB_ESTATE and cause is None:
            raise RuntimeError(f"{where} is read already, and can be read only once")
        return fail(code, f"{where} cannot be read" if cause is None else f"{where}: {cause}")

    cdef int wait(self, int64_t timeout_ms) except -1:
        cdef bint ready
        self.check_usable()
        self.waiting += 1
        with nogil:
            ready = fb_input_gate_wait(self.c, timeout_ms)
        self.waiting -= 1
        PyErr_CheckSignals()
        return ready
