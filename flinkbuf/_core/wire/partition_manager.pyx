"""The result partitions of a process by id: what the server and local channels look up."""

from flinkbuf._core.ground.errors cimport FB_ESTATE, check, fail
from flinkbuf._core.wire.frame cimport FB_PARTITION_ID_SIZE
from flinkbuf._core.partition.result_partition cimport ResultPartition

cdef enum:
    MAX_USED_IDS = 10000


cdef bytes checked_id(partition_id):
    cdef bytes data = bytes(partition_id)
    if len(data) != FB_PARTITION_ID_SIZE:
        raise ValueError(f"a partition id has {FB_PARTITION_ID_SIZE} bytes, got {len(data)}")
    return data


cdef class PartitionManager:
    """Result partitions by their id of 60 bytes, as it stands in a PartitionRequest.

    A partition is forgotten when all its readers and its producer are done with it. An id is used once: one that is
    taken again is refused as long as its partition is registered, and after that until at least 10,000 others came.
    Close the servers that use the manager before it.

    References
    ----------
    Flink ``ResultPartitionManager``.
    """

    def __cinit__(self):
        self.partitions = {}
        self.used_ids = {}
        self.sweep_size = 16
        check(fb_partition_manager_open(&self.c))

    def __dealloc__(self):
        if self.c is not NULL:
            fb_partition_manager_close(self.c)

    def __len__(self):
        """Partitions that are registered now."""
        self.check_open()
        return fb_partition_manager_count(self.c)

    cdef int check_open(self) except -1:
        if self.is_closed:
            raise RuntimeError("the partition manager is closed")
        return 0

    def register(self, partition_id, ResultPartition partition not None):
        """Make `partition` known under `partition_id` (60 bytes), before anybody reads it.

        Raises
        ------
        RuntimeError
            If the id is taken, or was used before, by one of the 10,000 partitions before this one.
        """
        cdef bytes key = checked_id(partition_id)
        cdef int code
        self.check_open()
        partition.check_open()
        code = FB_ESTATE
        if key not in self.used_ids:
            code = fb_partition_manager_register(self.c, key, partition.c)
        if code < 0:
            fail(code, f"registering a second partition as {key.hex()}" if code == FB_ESTATE else None)
        self.remember(key)
        self.partitions[key] = partition
        if len(self.partitions) > self.sweep_size:
            self.sweep()
        partition.manager = self  # which it tells of its end, and that may come after this was closed

    cdef int remember(self, bytes key) except -1:
        """Keep an id, and let the oldest go: a process may register partitions for months.

        Ids are drawn at random, so who uses one twice does so by mistake, and soon.
        """
        self.used_ids[key] = None
        if len(self.used_ids) > MAX_USED_IDS:
            del self.used_ids[next(iter(self.used_ids))]
        return 0

    cdef int sweep(self) except -1:
        """Let go of those that are over; of each only the id stays, and that for a while."""
        cdef ResultPartition partition
        for key, partition in self.partitions.copy().items():
            if partition.is_over():
                self.partitions.pop(key, None)
        self.sweep_size = max(16, 2 * len(self.partitions))
        return 0

    def unregister(self, partition_id):
        """Forget the partition; who reads it goes on. Return whether it was there."""
        self.check_open()
        return bool(fb_partition_manager_unregister(self.c, checked_id(partition_id)))

    def close(self):
        """Release every partition that is still registered. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        with nogil:
            fb_partition_manager_clear(self.c)
        self.partitions.clear()
