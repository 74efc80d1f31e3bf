from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from "columns/session_slots.h" nogil:
    const uint32_t FB_NO_SLOT
    struct fb_session_slots:
        int64_t gap_ms
        uint32_t count
        uint32_t open_count
        uint32_t part_count
        uint32_t late_count
    struct fb_session_spans:
        int64_t* keys
        int64_t* starts
        int64_t* ends
        uint8_t* given
    void fb_session_slots_open(fb_session_slots* self, int64_t gap_ms, int64_t lateness_ms)
    void fb_session_slots_clear(fb_session_slots* self)
    size_t fb_session_slots_bytes(const fb_session_slots* self)
    int fb_session_slots_add(fb_session_slots* self, const uint32_t* keys, const int64_t* times, int64_t rows,
                             uint32_t key_count, uint32_t* slots)
    void fb_session_slots_take_parts(fb_session_slots* self, int64_t* parts, uint32_t* into)
    int64_t fb_session_slots_take_changed(fb_session_slots* self, int64_t* slots)
    int64_t fb_session_slots_changed_room(const fb_session_slots* self)
    int64_t fb_session_slots_advance(fb_session_slots* self, int64_t watermark, int64_t* ended)
    void fb_session_slots_all(const fb_session_slots* self, int64_t* slots)
    void fb_session_slots_describe(const fb_session_slots* self, const int64_t* slots, int64_t rows,
                                   const fb_session_spans* to)
    int fb_session_slots_restore(fb_session_slots* self, const fb_session_spans* spans, int64_t rows,
                                 uint32_t key_count, uint32_t* slots)


cdef class SessionSlots:
    cdef fb_session_slots c
