from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.columns.arrow_column cimport fb_arrow_column

cdef extern from "columns/slot_aggregate.h" nogil:
    struct fb_slot_aggregate:
        uint32_t words
        uint32_t count
        uint64_t* cells
        uint8_t* seen
    struct fb_slot_winners:
        int64_t base
        int64_t* rows
        int64_t count
        int64_t lost
    enum fb_slot_order:
        FB_SLOT_NUMBERS
        FB_SLOT_WIDE
        FB_SLOT_TEXTS
    struct fb_slot_extreme:
        fb_slot_order order
        bint is_max
        uint32_t word
    struct fb_slot_choice:
        const int64_t* slots
        int64_t count
    int fb_slot_aggregate_grow(fb_slot_aggregate* self, uint32_t count)
    void fb_slot_aggregate_clear(fb_slot_aggregate* self)
    size_t fb_slot_aggregate_bytes(const fb_slot_aggregate* self)
    bint fb_slot_aggregate_has(const fb_slot_aggregate* self, const uint32_t* slots, int64_t rows)
    void fb_slot_aggregate_count(fb_slot_aggregate* self, uint32_t word, const uint32_t* slots, const uint8_t* valid,
                                 int64_t rows)
    int64_t fb_slot_aggregate_sum_signed(fb_slot_aggregate* self, uint32_t word, const uint32_t* slots,
                                         const fb_arrow_column* column)
    int64_t fb_slot_aggregate_sum_unsigned(fb_slot_aggregate* self, uint32_t word, const uint32_t* slots,
                                           const fb_arrow_column* column)
    int64_t fb_slot_aggregate_sum_floats(fb_slot_aggregate* self, uint32_t word, const uint32_t* slots,
                                         const fb_arrow_column* column)
    int64_t fb_slot_aggregate_sum_wide(fb_slot_aggregate* self, uint32_t word, const uint32_t* slots,
                                       const fb_arrow_column* column)
    void fb_slot_aggregate_deviate(fb_slot_aggregate* self, const uint32_t* slots, const fb_arrow_column* column)
    void fb_slot_aggregate_merge_deviations(fb_slot_aggregate* self, const uint32_t* slots,
                                            const fb_arrow_column* columns)
    int fb_slot_aggregate_extreme(fb_slot_aggregate* self, const fb_slot_extreme* how, const uint32_t* slots,
                                  const fb_arrow_column* column, fb_slot_winners* winners)
    void fb_slot_aggregate_first(fb_slot_aggregate* self, const uint32_t* slots, const uint8_t* valid, int64_t rows,
                                 fb_slot_winners* winners)
    void fb_slot_aggregate_last(fb_slot_aggregate* self, const uint32_t* slots, const uint8_t* valid, int64_t rows,
                                fb_slot_winners* winners)
    void fb_slot_aggregate_take(const fb_slot_aggregate* self, uint32_t word, uint32_t words,
                                const fb_slot_choice* choice, uint64_t* to)
    void fb_slot_aggregate_take_seen(const fb_slot_aggregate* self, const fb_slot_choice* choice, uint8_t* to)
    void fb_slot_aggregate_take_texts(const fb_slot_aggregate* self, uint32_t word, const fb_slot_choice* choice,
                                      const int64_t* offsets, uint8_t* to)
    void fb_slot_aggregate_take_wide(const fb_slot_aggregate* self, uint32_t word, const fb_slot_choice* choice,
                                     double* to)
    void fb_slot_aggregate_link(fb_slot_aggregate* self, uint32_t word, const uint32_t* slots, int64_t rows,
                                int64_t base, int64_t* previous)
    void fb_slot_aggregate_follow(const fb_slot_aggregate* self, uint32_t word, const fb_slot_choice* choice,
                                  const int64_t* previous, const int64_t* ends, int64_t* numbers)


cdef enum sum_kind:
    SUM_SIGNED
    SUM_UNSIGNED
    SUM_FLOATS
    SUM_WIDE


cdef object bind_values(fb_arrow_column* column, object array)
cdef object valid_bytes(object column)
cdef object array_of(object type_, object valid, list parts)


cdef class Choice:
    cdef fb_slot_choice c
    cdef object slots           # int64, or None


cdef class SlotAggregate:
    cdef fb_slot_aggregate c
    cdef readonly object result_type
    cdef readonly tuple state_types
    cdef tuple input_types

    cdef int begin(self, object slots, object slot_count, tuple columns, tuple types) except -1
    cdef object words_of(self, Choice choice, uint32_t word, uint32_t words)
    cdef object seen_of(self, Choice choice)
    cdef int count_valid(self, uint32_t word, object slots, object column) except -1
    cdef int sum_up(self, sum_kind kind, uint32_t word, object slots, object column) except -1
    cdef int add(self, object slots, tuple columns) except -1
    cdef int add_states(self, object slots, tuple columns) except -1
    cdef tuple states_of(self, Choice choice)
    cdef object results_of(self, Choice choice)
    cdef int64_t value_bytes(self) except -1
    cdef int clear_values(self) except -1
