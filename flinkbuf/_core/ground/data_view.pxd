from libc.stdint cimport int64_t, uint8_t

cdef extern from "ground/data_view.h" nogil:
    struct fb_data_output:
        uint8_t* start
        uint8_t* pos
        uint8_t* end
        uint8_t* scratch
        size_t scratch_capacity
        int64_t record_number
    struct fb_data_input:
        const uint8_t* start
        const uint8_t* pos
        const uint8_t* end
        int64_t record_number
        int64_t channel
    void fb_data_output_close(fb_data_output* self)
    void fb_data_output_start(fb_data_output* self, uint8_t* start, uint8_t* end)
    void fb_data_output_start_scratch(fb_data_output* self)
    bint fb_data_output_in_scratch(const fb_data_output* self)
    size_t fb_data_output_size(const fb_data_output* self)
    int fb_data_output_reserve(fb_data_output* self, size_t size)
    void fb_data_output_prune(fb_data_output* self, size_t limit)
    size_t fb_data_input_left(const fb_data_input* self)
