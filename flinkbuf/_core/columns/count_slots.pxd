from libc.stdint cimport int64_t, uint32_t

cdef extern from "columns/count_slots.h" nogil:
    struct fb_count_slots:
        int64_t size
        uint32_t count
        uint32_t open_count
    struct fb_count_windows:
        int64_t* keys
        int64_t* slots
        int64_t* rows
    void fb_count_slots_open(fb_count_slots* self, int64_t size)
    void fb_count_slots_clear(fb_count_slots* self)
    size_t fb_count_slots_bytes(const fb_count_slots* self)
    int fb_count_slots_add(fb_count_slots* self, const uint32_t* keys, int64_t rows, uint32_t key_count,
                           uint32_t* slots, const fb_count_windows* full, int64_t* full_count)
    void fb_count_slots_all(const fb_count_slots* self, const fb_count_windows* to)
    int fb_count_slots_restore(fb_count_slots* self, const fb_count_windows* windows, int64_t count,
                               uint32_t key_count)


cdef class CountSlots:
    cdef fb_count_slots c
