from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "io/file_channel.h" nogil:
    struct fb_file_failure:
        int code
        int error
        uint64_t offset
    const char* fb_file_failure_text(const fb_file_failure* failure)


cdef extern from "sort/record_run.h" nogil:
    struct fb_sorted_record:
        const uint8_t* key
        const uint8_t* record
        uint32_t key_size
        uint32_t record_size
        int64_t timestamp


cdef extern from "sort/record_order.h" nogil:
    int fb_record_order_compare(const fb_sorted_record* one, const fb_sorted_record* other)


cdef extern from "sort/record_sorter.h" nogil:
    struct fb_record_sorter:
        fb_file_failure failure
        size_t run_count
        uint64_t record_count
    int fb_record_sorter_open(fb_record_sorter* self, size_t memory_bytes, uint32_t max_fan_in)
    void fb_record_sorter_close(fb_record_sorter* self)
    int fb_record_sorter_set_path(fb_record_sorter* self, const char* base_path)
    int fb_record_sorter_add(fb_record_sorter* self, const uint8_t* key, size_t key_size, int64_t timestamp,
                             const uint8_t* record, size_t record_size)
    int fb_record_sorter_spill(fb_record_sorter* self)
    int fb_record_sorter_finish(fb_record_sorter* self)
    int fb_record_sorter_next(fb_record_sorter* self, fb_sorted_record* record)
    bint fb_record_sorter_may_wait(const fb_record_sorter* self)


cdef class RecordSorter:
    cdef fb_record_sorter c
    cdef object make_path           # gives the path of the files; asked before the first spill; None: no spilling
    cdef bint has_path, is_finished
    cdef fb_sorted_record head      # what advance() has found

    cdef int put(self, const uint8_t* key, size_t key_size, int64_t timestamp, const uint8_t* record,
                 size_t record_size) except -1
    cdef int advance(self) except -1
    cdef int spill_now(self) except -1
    cdef int check_code(self, int code) except -1
