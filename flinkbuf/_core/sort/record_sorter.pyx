"""Sorts records by key and time, more of them than memory holds; what memory does not hold is in files meanwhile."""

from os import fsencode

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MIN

from flinkbuf._core.ground.errors cimport FB_EIO, FB_ENOMEM, FB_NEEDS_BUFFER, check, fail

from flinkbuf.errors import CorruptDataError


cdef class RecordSorter:
    """Takes records with their keys, and gives them sorted by key and timestamp.

    Keys are compared as bytes, as Java has them: signed. A key that another begins with comes first. Records of one key
    and timestamp stay in the order in which they were added; those without a timestamp come before the others.

    Parameters
    ----------
    memory_bytes : int, default 134217728
        What it may use, at least 64 KiB; only a record that is larger itself takes more.
    make_path : callable, optional
        Called once, when memory is full: where the files go, such as ``IOManager().partition_path``. Without it there
        is no more than memory holds.
    max_fan_in : int, default 128
        How many sorted runs are merged at once.

    Notes
    -----
    Threads: one at a time. Sorting and disk I/O release the GIL. ``close()``, or the end of the object, removes the
    files.

    References
    ----------
    Flink ``ExternalSorter``, as ``SortingDataInput`` uses it.

    Examples
    --------
    >>> sorter = RecordSorter()
    >>> for key, timestamp, record in [(b"b", 1, b"one"), (b"a", 5, b"two"), (b"b", 0, b"three")]:
    ...     sorter.add(key, timestamp, record)
    >>> sorter.finish()
    >>> list(sorter)
    [(b'a', 5, b'two'), (b'b', 0, b'three'), (b'b', 1, b'one')]
    """

    def __cinit__(self, size_t memory_bytes=134217728, make_path=None, *, uint32_t max_fan_in=128):
        cdef int code = fb_record_sorter_open(&self.c, memory_bytes, max_fan_in)
        if code < 0:
            raise ValueError(
                f"a sorter has at least 65536 bytes of memory and merges at least 2 runs at once, got {memory_bytes} "
                f"and {max_fan_in}"
            )
        self.make_path = make_path

    def __dealloc__(self):
        fb_record_sorter_close(&self.c)

    @property
    def record_count(self):
        """How many records were added."""
        return self.c.record_count

    def add(self, key, timestamp, record):
        """Add one record; `timestamp` None: it has none. Key and record are bytes, or something that gives bytes.

        Raises
        ------
        OSError
            It had to be spilled, and the disk took it not; names file and offset.
        MemoryError
            Memory is full, and nobody said where files go.
        RuntimeError
            After ``finish()``.
        """
        cdef bytes key_bytes = key if type(key) is bytes else bytes(memoryview(key))
        cdef bytes record_bytes = record if type(record) is bytes else bytes(memoryview(record))
        self.put(<const uint8_t*>PyBytes_AS_STRING(key_bytes), PyBytes_GET_SIZE(key_bytes),
                 INT64_MIN if timestamp is None else timestamp,
                 <const uint8_t*>PyBytes_AS_STRING(record_bytes), PyBytes_GET_SIZE(record_bytes))

    cdef int put(self, const uint8_t* key, size_t key_size, int64_t timestamp, const uint8_t* record,
                 size_t record_size) except -1:
        cdef int code = fb_record_sorter_add(&self.c, key, key_size, timestamp, record, record_size)
        if code == FB_NEEDS_BUFFER:
            self.spill_now()
            code = fb_record_sorter_add(&self.c, key, key_size, timestamp, record, record_size)
        return check(code)

    cdef int spill_now(self) except -1:
        cdef int code
        if not self.has_path:
            if self.make_path is None:
                raise MemoryError(
                    f"the sorter's memory is full after {self.c.record_count} records, and it was not told where to "
                    f"put more"
                )
            path = fsencode(self.make_path())
            check(fb_record_sorter_set_path(&self.c, path))
            self.has_path = True
        with nogil:
            code = fb_record_sorter_spill(&self.c)
        return self.check_code(code)

    def finish(self):
        """No more is added: sort what there is. OSError and CorruptDataError name file and offset."""
        cdef int code
        with nogil:
            code = fb_record_sorter_finish(&self.c)
        self.check_code(code)
        self.is_finished = True

    cdef int advance(self) except -1:
        """1: `head` is the next record, good until the next call; 0: that was all."""
        cdef int code
        if fb_record_sorter_may_wait(&self.c):
            with nogil:
                code = fb_record_sorter_next(&self.c, &self.head)
        else:
            code = fb_record_sorter_next(&self.c, &self.head)
        return self.check_code(code)

    cdef int check_code(self, int code) except -1:
        """Raise what the file layer says, or the code's own error."""
        if code >= 0:
            return code
        if self.c.failure.code != code:
            return fail(code)
        text = fb_file_failure_text(&self.c.failure).decode("utf-8", "replace")
        if code == FB_ENOMEM:
            raise MemoryError(text)
        if code != FB_EIO:
            raise CorruptDataError(text)
        raise OSError(self.c.failure.error, text) if self.c.failure.error else OSError(text)

    def close(self):
        """Free the memory and remove the files. A second call does nothing."""
        fb_record_sorter_close(&self.c)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.is_finished:
            raise RuntimeError("the records are sorted when finish() was called")
        if not self.advance():
            raise StopIteration
        key = (<const char*>self.head.key)[:self.head.key_size]
        record = (<const char*>self.head.record)[:self.head.record_size]
        return key, None if self.head.timestamp == INT64_MIN else self.head.timestamp, record
