"""The result partitions of a process by id: what the server and local channels look up."""

from flinkbuf._core.errors cimport FB_ESTATE, check, fail
from flinkbuf._core.frame cimport FB_PARTITION_ID_SIZE
from flinkbuf._core.result_partition cimport ResultPartition


cdef bytes checked_id(partition_id):
    cdef bytes data = bytes(partition_id)
    if len(data) != FB_PARTITION_ID_SIZE:
        raise ValueError(f"a partition id has {FB_PARTITION_ID_SIZE} bytes, got {len(data)}")
    return data


cdef class PartitionManager:
    """Result partitions by their id of 60 bytes, as it stands in a PartitionRequest.

    A partition is forgotten when all its readers and its producer are done with it. Close the servers that use the
    manager before it.

    References
    ----------
    Flink ``ResultPartitionManager``.
    """

    def __cinit__(self):
        self.partitions = {}
        self.used_ids = set()
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
            If the id is taken, or was used before.
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
        self.used_ids.add(key)
        self.partitions[key] = partition
        if len(self.partitions) > self.sweep_size:
            self.sweep()
        partition.manager = self  # which it tells of its end, and that may come after this was closed

    cdef int sweep(self) except -1:
        """Let go of those that are over; of each only the id stays."""
        cdef ResultPartition partition
        for key, partition in list(self.partitions.items()):
            if partition.is_over():
                del self.partitions[key]
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
