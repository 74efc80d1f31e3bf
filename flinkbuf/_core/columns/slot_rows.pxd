from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from "columns/slot_rows.h" nogil:
    struct fb_slot_rows:
        uint32_t count
        size_t row_count
    struct fb_slot_rows_taken:
        int64_t capacity
        int64_t count
        int64_t* rows
        int64_t* numbers
        int64_t* times
        uint8_t* had_partner
        uint32_t* slots
    struct fb_slot_rows_probe:
        const uint32_t* slots
        const int64_t* times
        int64_t count
        int64_t lower
        int64_t upper
        uint8_t* had_partner
        int64_t row
    struct fb_slot_rows_cursor:
        uint32_t slot
        uint32_t given
    int fb_slot_rows_grow(fb_slot_rows* self, uint32_t count)
    void fb_slot_rows_clear(fb_slot_rows* self)
    size_t fb_slot_rows_bytes(const fb_slot_rows* self)
    bint fb_slot_rows_has(const fb_slot_rows* self, const uint32_t* slots, int64_t rows)
    int fb_slot_rows_insert(fb_slot_rows* self, const uint32_t* slots, const int64_t* times, const uint8_t* had_partner,
                            int64_t rows, int64_t number)
    void fb_slot_rows_pairs(fb_slot_rows* self, fb_slot_rows_probe* probe, fb_slot_rows_taken* taken)
    void fb_slot_rows_withdraw(fb_slot_rows* self, fb_slot_rows_probe* probe, fb_slot_rows_taken* taken)
    void fb_slot_rows_find(const fb_slot_rows* self, const fb_slot_rows_probe* probe, int64_t* numbers)
    void fb_slot_rows_expire(fb_slot_rows* self, int64_t limit, fb_slot_rows_taken* taken)
    void fb_slot_rows_between(const fb_slot_rows* self, int64_t lower, int64_t upper, fb_slot_rows_cursor* cursor,
                              fb_slot_rows_taken* taken)
    void fb_slot_rows_first(const fb_slot_rows* self, int64_t* numbers)
    int64_t fb_slot_rows_earliest(const fb_slot_rows* self)
    int fb_slot_rows_keep(fb_slot_rows* self, const uint32_t* slots, uint32_t count)


cdef class RowProbe:
    cdef fb_slot_rows_probe c
    cdef object slots       # arrays that the probe points to
    cdef object times
    cdef readonly object had_partner


cdef class SlotRows:
    cdef fb_slot_rows c

    cdef int check_slots(self, object slots) except -1
