from libc.stdint cimport uint8_t, uint32_t

cdef extern from "memory/buffer_codec.h" nogil:
    enum:
        FB_BUFFER_CODEC_HEADER_SIZE
    struct fb_buffer_codec:
        const char* name
        int (*compress)(fb_buffer_codec* self, const uint8_t* data, uint32_t size, uint8_t* to, uint32_t capacity,
                        uint32_t* written) noexcept nogil
        int (*decompress)(fb_buffer_codec* self, const uint8_t* block, uint32_t block_size, uint8_t* to,
                          uint32_t capacity, uint32_t* written) noexcept nogil
        void (*free)(fb_buffer_codec* self) noexcept nogil
        uint32_t references
    fb_buffer_codec* fb_buffer_codec_lz4()
    void fb_buffer_codec_retain(fb_buffer_codec* self)
    void fb_buffer_codec_release(fb_buffer_codec* self)
    uint32_t fb_buffer_codec_compress_in_place(fb_buffer_codec* self, uint8_t* data, uint32_t size, uint8_t* scratch)
    int fb_buffer_codec_read_header(const uint8_t* block, uint32_t block_size, uint32_t capacity,
                                    uint32_t* original_size)

cdef class ZstdPackage:
    cdef object package
    cdef list compressors, decompressors
    cdef object take_compressor(self)
    cdef object take_decompressor(self)
    cdef bytes compress(self, const uint8_t* data, uint32_t size)
    cdef bytes decompress(self, const uint8_t* frame, uint32_t frame_size, uint32_t size)

cdef class BufferCodec:
    cdef fb_buffer_codec* c    # a reference
    cdef ZstdPackage package   # None: it is in C
    cdef readonly str name
    cdef bytes original_of(self, const uint8_t* block, uint32_t block_size, uint32_t capacity)

cdef class BlockDecompressor:
    cdef readonly BufferCodec buffer_codec
    cdef readonly uint32_t segment_size

cdef fb_buffer_codec* pointer_of(BufferCodec codec) noexcept  # None: NULL, no compression
