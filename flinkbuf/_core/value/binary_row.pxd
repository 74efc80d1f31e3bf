from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "value/binary_row.h" nogil:
    enum:
        FB_BINARY_ROW_MAX_INLINE
    ctypedef long long fb_wide_int  # 16 bytes in truth; passed on, never looked at
    struct fb_binary_section:
        const uint8_t* start
        uint32_t count
    uint64_t fb_binary_row_round(uint64_t size)
    uint64_t fb_binary_row_null_size(uint32_t field_count)
    uint64_t fb_binary_row_fixed_size(uint32_t field_count)
    uint64_t fb_binary_row_array_head(uint64_t count)
    uint64_t fb_binary_row_array_fixed_size(uint64_t count, uint32_t width)
    uint64_t fb_binary_row_slot(uint64_t offset, uint64_t size)
    uint64_t fb_binary_row_inline_slot(const uint8_t* bytes_, size_t size)
    void fb_binary_row_put_slot(uint8_t* to, uint32_t width, uint64_t slot)
    int32_t fb_binary_row_hash(const uint8_t* row, size_t size)
    int fb_binary_row_open(const uint8_t* start, uint64_t size, uint32_t field_count, fb_binary_section* row)
    int fb_binary_row_open_array(const uint8_t* start, uint64_t size, uint32_t width, fb_binary_section* array)
    int fb_binary_row_open_map(const uint8_t* start, uint64_t size, uint32_t key_width, uint32_t value_width,
                               fb_binary_section* keys, fb_binary_section* values)
    bint fb_binary_row_is_null(const fb_binary_section* self, uint32_t i)
    uint64_t fb_binary_row_load_slot(const fb_binary_section* self, uint32_t i)
    int fb_binary_row_take_part(fb_binary_section* self, uint32_t i, const uint8_t** part, uint64_t* size)
    int fb_binary_row_take_bytes(fb_binary_section* self, uint32_t i, const uint8_t** bytes_, uint64_t* size)
    int fb_binary_row_take_decimal(fb_binary_section* self, uint32_t i, uint32_t precision, fb_wide_int* unscaled)
    int fb_binary_row_take_timestamp(fb_binary_section* self, uint32_t i, int64_t* millis, uint32_t* nanos)
    bint fb_binary_row_has_digits(fb_wide_int unscaled, uint32_t precision)
    uint32_t fb_binary_row_put_digits(fb_wide_int unscaled, uint8_t* to)
    fb_wide_int fb_binary_row_load_digits(const uint8_t* from_, uint32_t size)
