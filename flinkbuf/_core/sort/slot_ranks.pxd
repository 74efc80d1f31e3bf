from libc.stdint cimport int64_t, uint8_t, uint32_t

from flinkbuf._core.columns.slot_aggregate cimport fb_slot_choice

cdef extern from "sort/slot_ranks.h" nogil:
    enum:
        FB_SLOT_RANKS_MAX_WORDS
    struct fb_slot_ranks:
        uint32_t limit
        uint32_t words
        uint32_t texts
        uint32_t descending
        bint is_newest_first
        uint32_t count
    struct fb_slot_rank_rows:
        const uint32_t* slots
        const int64_t* orders
        int64_t count
        int64_t base
        uint8_t* kept
        int64_t* places
        int64_t lost
    struct fb_slot_rank_changes:
        uint32_t* slots
        int64_t* ranks
        int64_t* numbers
        uint8_t* kinds
        int64_t count
    int fb_slot_ranks_grow(fb_slot_ranks* self, uint32_t count)
    void fb_slot_ranks_clear(fb_slot_ranks* self)
    size_t fb_slot_ranks_bytes(const fb_slot_ranks* self)
    int fb_slot_ranks_add(fb_slot_ranks* self, fb_slot_rank_rows* rows)
    int64_t fb_slot_ranks_changes_room(const fb_slot_ranks* self)
    void fb_slot_ranks_changes(const fb_slot_ranks* self, bint by_rank, fb_slot_rank_changes* changes)
    void fb_slot_ranks_counts(const fb_slot_ranks* self, const fb_slot_choice* choice, int64_t* to)
    void fb_slot_ranks_numbers(const fb_slot_ranks* self, const fb_slot_choice* choice, int64_t* to)


cdef class SlotRanks:
    cdef fb_slot_ranks c
