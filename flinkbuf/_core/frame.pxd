from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef extern from "wire/frame.h" nogil:
    enum:
        FB_FRAME_HEAD_MAX
        FB_FRAME_TAIL_MAX
        FB_CHANNEL_ID_SIZE
        FB_PARTITION_ID_SIZE
        FB_FRAME_ID_COUNT
        FB_FRAMES_ALL
        FB_FRAMES_OF_CLIENTS
        FB_FRAMES_OF_SERVERS
    enum fb_frame_id:
        FB_BUFFER_RESPONSE
        FB_ERROR_RESPONSE
        FB_PARTITION_REQUEST
    enum fb_frame_step:
        FB_FRAME_NEEDS_INPUT
        FB_FRAME_BODY_STARTS
        FB_FRAME_PART
        FB_FRAME_BODY
        FB_FRAME_ENDS
    struct fb_frame:
        uint8_t id
        uint8_t data_type
        bint is_compressed
        bint has_receiver
        int32_t subpartition
        int32_t last_subpartition
        int32_t sequence_number
        int32_t backlog
        int32_t credit
        int32_t buffer_size
        int32_t segment
        uint32_t part_count
        uint32_t body_size
        uint8_t* receiver
        uint8_t* partition
    struct fb_frame_limits:
        uint32_t accepted
        uint32_t max_data
        uint32_t max_event
        uint32_t max_error
        uint32_t max_parts
    struct fb_frame_decoder:
        fb_frame frame
        const uint8_t* bytes
        uint32_t size
        uint32_t offset
        uint32_t part_size
        uint64_t stream_offset
        char* error
    void fb_frame_channel_id_seal(uint8_t* id)
    const char* fb_frame_name(uint8_t id)
    int fb_frame_write_head(const fb_frame* self, uint8_t* to)
    int fb_frame_write_tail(const fb_frame* self, uint8_t* to)
    uint64_t fb_frame_size(const fb_frame* self)
    void fb_frame_decoder_open(fb_frame_decoder* self, const fb_frame_limits* limits)
    int fb_frame_decoder_next(fb_frame_decoder* self, const uint8_t** data, size_t* size)
    bint fb_frame_decoder_is_between(const fb_frame_decoder* self)
    int fb_frame_split_error(fb_frame* self, const uint8_t* body, size_t size)


cdef class Frame:
    cdef fb_frame c
    cdef readonly bytes body
    cdef readonly tuple part_sizes

    @staticmethod
    cdef Frame adopt(const fb_frame* frame, bytes body, tuple part_sizes)


cdef class FrameDecoder:
    cdef fb_frame_decoder c
    cdef list body   # what came of the current frame's body
    cdef list parts  # sizes of its parts
    cdef int take(self, int step, list frames) except -1
