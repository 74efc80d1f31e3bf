from libc.stdint cimport int64_t, uint32_t, uint64_t

from flinkbuf._core.columns.arrow_column cimport ArrowArray, ArrowSchema, fb_arrow_column, fb_arrow_type

cdef extern from "columns/slot_table.h" nogil:
    enum:
        FB_SLOT_TABLE_SEEDS
    struct fb_slot_table:
        uint32_t count
    bint fb_slot_table_takes(const fb_arrow_type* type)
    void fb_slot_table_open(fb_slot_table* self, const fb_arrow_column* row, const uint64_t* seeds)
    void fb_slot_table_clear(fb_slot_table* self)
    size_t fb_slot_table_bytes(const fb_slot_table* self)
    int fb_slot_table_find_or_add(fb_slot_table* self, uint32_t* slots, int64_t* new_rows, int64_t* new_count)


cdef class PlainColumns:
    cdef fb_arrow_column root
    cdef tuple formats          # bytes, of each column
    cdef tuple names            # bytes that the columns point to
    cdef object bound           # holds what the columns stand on

    cdef int open(self, ArrowSchema* schema) except -1
    cdef int bind(self, object batch) except -1


cdef object bind_column(fb_arrow_column* column, object capsules)


cdef class KeySlots:
    cdef PlainColumns columns
    cdef fb_slot_table c
