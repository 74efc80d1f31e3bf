from libc.stdint cimport uint8_t

cdef extern from "ground/sha256.h" nogil:
    enum:
        FB_SHA256_SIZE
    struct fb_sha256:
        pass
    struct fb_sha256_hmac:
        pass
    void fb_sha256_open(fb_sha256* self)
    void fb_sha256_add(fb_sha256* self, const void* data, size_t size)
    void fb_sha256_finish(fb_sha256* self, uint8_t* digest)
    void fb_sha256_hmac_open(fb_sha256_hmac* self, const void* key, size_t size)
    void fb_sha256_hmac_add(fb_sha256_hmac* self, const void* data, size_t size)
    void fb_sha256_hmac_finish(fb_sha256_hmac* self, uint8_t* digest)
    bint fb_sha256_is_equal(const void* left, const void* right, size_t size)
    int fb_sha256_random(void* to, size_t size)
