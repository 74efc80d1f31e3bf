from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "ground/byte_order.h" nogil:
    uint16_t fb_load_be16(const uint8_t* from_)
    uint32_t fb_load_be32(const uint8_t* from_)
    uint64_t fb_load_be64(const uint8_t* from_)
    void fb_store_be16(uint8_t* to, uint16_t value)
    void fb_store_be32(uint8_t* to, uint32_t value)
    void fb_store_be64(uint8_t* to, uint64_t value)
    uint16_t fb_load_le16(const uint8_t* from_)
    uint32_t fb_load_le32(const uint8_t* from_)
    uint64_t fb_load_le64(const uint8_t* from_)
    void fb_store_le16(uint8_t* to, uint16_t value)
    void fb_store_le32(uint8_t* to, uint32_t value)
    void fb_store_le64(uint8_t* to, uint64_t value)
