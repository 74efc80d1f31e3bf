from libc.stdint cimport uint8_t

cdef extern from "wire/frame.h" nogil:
    enum:
        FB_CHANNEL_ID_SIZE
        FB_PARTITION_ID_SIZE
    void fb_frame_channel_id_seal(uint8_t* id)
