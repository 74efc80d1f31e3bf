from libc.stdint cimport uint32_t, uint64_t

from flinkbuf._core.buffer cimport fb_buffer, fb_buffer_slice
from flinkbuf._core.file_channel cimport fb_file_failure

cdef extern from "partition/bounded_data.h" nogil:
    enum:
        FB_BOUNDED_HEADER_ROOM
    enum fb_bounded_storage:
        FB_BOUNDED_FILE
        FB_BOUNDED_MMAP
        FB_BOUNDED_FILE_MMAP
    enum fb_bounded_step:
        FB_BOUNDED_END
        FB_BOUNDED_READ
        FB_BOUNDED_NOT_RESIDENT
    struct fb_file_region:
        pass
    struct fb_bounded_data:
        uint32_t largest
        uint64_t size
        uint64_t data_count
        uint64_t event_count
        bint is_finished
    struct fb_bounded_reader:
        uint64_t position
    int fb_bounded_data_open(fb_bounded_data* self, fb_bounded_storage storage, const char* path,
                             uint64_t region_limit, fb_file_failure* failure)
    int fb_bounded_data_write(fb_bounded_data* self, const fb_buffer_slice* buffers, uint32_t count,
                              fb_file_failure* failure)
    int fb_bounded_data_finish(fb_bounded_data* self, bint syncs, fb_file_failure* failure)
    void fb_bounded_data_delete(fb_bounded_data* self)
    void fb_bounded_data_close(fb_bounded_data* self)
    int fb_bounded_reader_open(fb_bounded_reader* self, fb_bounded_data* data, fb_file_failure* failure)
    void fb_bounded_reader_close(fb_bounded_reader* self)
    int fb_bounded_reader_next(fb_bounded_reader* self, bint may_wait, fb_buffer* into, fb_buffer_slice* slice,
                               fb_file_region* region, fb_file_failure* failure)

cdef fb_bounded_storage storage_named(str name) except *

cdef class BoundedData:
    cdef fb_bounded_data c
    cdef readonly str path
    cdef read_next(self, fb_bounded_reader* reader)
