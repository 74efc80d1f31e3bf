"""The file of one subpartition of a hash-style blocking partition."""

import os

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from flinkbuf._core.buffer cimport FB_DATA_BUFFER, Buffer, fb_buffer_new_unpooled, fb_buffer_slice_release
from flinkbuf._core.errors cimport FB_ESTATE, check, fail
from flinkbuf._core.file_channel cimport raise_file_failure

cdef dict STORAGES = {"file": FB_BOUNDED_FILE, "mmap": FB_BOUNDED_MMAP, "file-mmap": FB_BOUNDED_FILE_MMAP}


cdef fb_bounded_storage storage_named(str name) except *:
    if name not in STORAGES:
        raise ValueError(f"storage must be one of {', '.join(STORAGES)}, got {name!r}")
    return STORAGES[name]


cdef class BoundedData:
    """Buffers in a file, each behind eight bytes: written once, then read any number of times; iterable.

    Parameters
    ----------
    path : path-like
        Must not exist.
    storage : {"file", "mmap", "file-mmap"}, default "file"
        Written and read through the file; in mapped memory; written through the file and mapped to be read.
    region_limit : int, optional
        Bytes of the largest mapped part; by default as large as can be.

    References
    ----------
    Flink ``BoundedData``.

    Examples
    --------
    >>> import tempfile
    >>> from flinkbuf._core.buffer import Buffer
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     data = BoundedData(f"{directory}/0.data")
    ...     data.write([Buffer.copy_of(b"one"), Buffer.copy_of(b"two")])
    ...     data.finish()
    ...     [bytes(buffer) for buffer in data], data.size
    ([b'one', b'two'], 22)
    """

    def __cinit__(self, path, str storage="file", uint64_t region_limit=0):
        cdef fb_file_failure failure
        cdef fb_bounded_storage kind = storage_named(storage)
        cdef int code
        self.path = os.fsdecode(path)
        encoded = os.fsencode(path)
        cdef const char* name = PyBytes_AS_STRING(encoded)
        with nogil:
            code = fb_bounded_data_open(&self.c, kind, name, region_limit, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)

    def __dealloc__(self):
        with nogil:
            fb_bounded_data_close(&self.c)

    def write(self, buffers):
        """Write buffers, which stay the caller's."""
        cdef fb_file_failure failure
        cdef fb_buffer_slice* slices
        cdef uint32_t count = <uint32_t>len(buffers)
        cdef int code
        held = list(buffers)
        slices = <fb_buffer_slice*>PyMem_Malloc(max(1, count) * sizeof(fb_buffer_slice))
        if slices is NULL:
            raise MemoryError
        try:
            for i, buffer in enumerate(held):
                (<Buffer?>buffer).check_held()
                slices[<uint32_t>i] = (<Buffer>buffer).c
            with nogil:
                code = fb_bounded_data_write(&self.c, slices, count, &failure)
        finally:
            PyMem_Free(slices)
        if code < 0:
            raise_file_failure(&failure, self.path)

    def finish(self, bint syncs=False):
        """End writing; `syncs`: and wait until everything is on the disk."""
        cdef fb_file_failure failure
        cdef int code
        with nogil:
            code = fb_bounded_data_finish(&self.c, syncs, &failure)
        if code < 0:
            raise_file_failure(&failure, self.path)

    def delete(self):
        """Remove the file; who reads it goes on."""
        fb_bounded_data_delete(&self.c)

    cdef read_next(self, fb_bounded_reader* reader):
        cdef fb_file_failure failure
        cdef fb_buffer_slice slice
        cdef fb_buffer_slice room
        cdef int step
        check(fb_buffer_new_unpooled(NULL, self.c.largest + FB_BOUNDED_HEADER_ROOM, FB_DATA_BUFFER, &room))
        with nogil:
            step = fb_bounded_reader_next(reader, True, room.buffer, &slice, NULL, &failure)
        if step != FB_BOUNDED_READ or slice.buffer is not room.buffer:
            fb_buffer_slice_release(&room)
        if step < 0:
            raise_file_failure(&failure, self.path)
        return Buffer.adopt(slice) if step == FB_BOUNDED_READ else None

    def __iter__(self):
        return iter(BoundedReader(self).read, None)

    @property
    def size(self):
        """Bytes of all buffers with their headers."""
        return self.c.size

    @property
    def buffer_count(self):
        """Buffers of data, and events."""
        return self.c.data_count, self.c.event_count


cdef class BoundedReader:
    """Reads all buffers of a `BoundedData` that is finished, one after the other."""

    cdef fb_bounded_reader c
    cdef BoundedData data

    def __cinit__(self, BoundedData data not None):
        cdef fb_file_failure failure
        cdef int code
        self.data = data
        if not data.c.is_finished:
            fail(FB_ESTATE, f"{data.path} is still being written")
        with nogil:
            code = fb_bounded_reader_open(&self.c, &data.c, &failure)
        if code < 0:
            raise_file_failure(&failure, data.path)

    def __dealloc__(self):
        fb_bounded_reader_close(&self.c)

    def read(self):
        """Return the next buffer; None behind the last one."""
        return self.data.read_next(&self.c)
