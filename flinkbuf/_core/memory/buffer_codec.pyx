"""The binding of csrc/memory/buffer_codec.h: codecs of single buffers, LZ4 in C and ZSTD by its package."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.string cimport memcpy

from flinkbuf._core.ground.byte_order cimport fb_store_le32
from flinkbuf._core.ground.errors cimport FB_ECORRUPT, FB_ETOO_LARGE, check, fail

cdef extern from "Python.h":
    enum:
        PyBUF_READ

cdef struct package_codec:
    fb_buffer_codec c  # the first member: a pointer to it is one to the whole
    PyObject* package  # a ZstdPackage


cdef class ZstdPackage:
    """What the package makes, kept for the next buffer: one object for each thread that works at the time.

    Only methods written in C are called, so that no signal handler of Python runs in the middle of a partition."""

    def __cinit__(self, package):
        self.package = package
        self.compressors, self.decompressors = [], []

    cdef object take_compressor(self):
        # Level and checksum as Flink's compressor has them.
        return self.compressors.pop() if self.compressors else self.package.ZstdCompressor(level=3, write_checksum=True)

    cdef object take_decompressor(self):
        return self.decompressors.pop() if self.decompressors else self.package.ZstdDecompressor()

    cdef bytes compress(self, const uint8_t* data, uint32_t size):
        compressor = self.take_compressor()
        frame = compressor.compress(PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ))
        self.compressors.append(compressor)
        return frame

    cdef bytes decompress(self, const uint8_t* frame, uint32_t frame_size, uint32_t size):
        view = PyMemoryView_FromMemory(<char*>frame, frame_size, PyBUF_READ)
        # A frame may state its own size, and that much is allocated before anything is decoded.
        stated = self.package.frame_content_size(view)
        if stated not in (-1, size):
            raise self.package.ZstdError(f"its frame states an original of {stated} bytes")
        decompressor = self.take_decompressor()
        original = decompressor.decompress(view, max_output_size=size, allow_extra_data=False)
        self.decompressors.append(decompressor)
        return original


cdef int package_compress(fb_buffer_codec* self, const uint8_t* data, uint32_t size, uint8_t* to, uint32_t capacity,
                          uint32_t* written) noexcept with gil:
    cdef bytes frame
    try:
        frame = (<ZstdPackage>(<package_codec*>self).package).compress(data, size)
    except Exception:
        return FB_ETOO_LARGE  # it stays as it is
    cdef size_t needed = <size_t>PyBytes_GET_SIZE(frame) + FB_BUFFER_CODEC_HEADER_SIZE
    if needed >= size or needed > capacity:
        return FB_ETOO_LARGE
    fb_store_le32(to, <uint32_t>PyBytes_GET_SIZE(frame))
    fb_store_le32(to + 4, size)
    memcpy(to + FB_BUFFER_CODEC_HEADER_SIZE, PyBytes_AS_STRING(frame), <size_t>PyBytes_GET_SIZE(frame))
    written[0] = <uint32_t>needed
    return 0


cdef int package_decompress(fb_buffer_codec* self, const uint8_t* block, uint32_t block_size, uint8_t* to,
                            uint32_t capacity, uint32_t* written) noexcept with gil:
    cdef uint32_t size = 0
    cdef bytes original
    cdef int code = fb_buffer_codec_read_header(block, block_size, capacity, &size)
    if code < 0:
        return code
    try:
        original = (<ZstdPackage>(<package_codec*>self).package).decompress(
            block + FB_BUFFER_CODEC_HEADER_SIZE, block_size - FB_BUFFER_CODEC_HEADER_SIZE, size)
    except Exception:
        return FB_ECORRUPT
    if PyBytes_GET_SIZE(original) != <Py_ssize_t>size:
        return FB_ECORRUPT
    memcpy(to, PyBytes_AS_STRING(original), size)
    written[0] = size
    return 0


cdef void package_free(fb_buffer_codec* self) noexcept with gil:
    Py_DECREF(<object>(<package_codec*>self).package)
    PyMem_RawFree(self)


cdef fb_buffer_codec* new_package_codec(ZstdPackage package) except NULL:
    cdef package_codec* codec = <package_codec*>PyMem_RawMalloc(sizeof(package_codec))
    if codec is NULL:
        raise MemoryError("no memory for a codec")
    codec.c.name = "ZSTD"
    codec.c.compress = package_compress
    codec.c.decompress = package_decompress
    codec.c.free = package_free
    codec.c.references = 1
    Py_INCREF(package)
    codec.package = <PyObject*>package
    return &codec.c


cdef class BufferCodec:
    """The codec of one partition or gate; any number of threads may use it.

    ``BufferCodec("LZ4")`` is in C and needs nothing; ``BufferCodec("ZSTD", zstandard)`` is given the package.
    """

    def __cinit__(self, str name not None, package=None):
        if name == "LZ4":
            self.c = fb_buffer_codec_lz4()
        elif name == "ZSTD" and package is not None:
            self.package = ZstdPackage(package)
            self.c = new_package_codec(self.package)
        else:
            raise ValueError(f"codec must be LZ4, or ZSTD with its package, got {name!r}")
        self.name = name

    def __dealloc__(self):
        fb_buffer_codec_release(self.c)

    def compress(self, data not None):
        """The block of a buffer, or None where that is not smaller."""
        cdef Py_buffer view
        cdef bytes block
        cdef uint8_t* to
        cdef uint32_t written = 0
        cdef int code
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if view.len > 0x7fffffff:
                fail(FB_ETOO_LARGE, f"a buffer of {view.len} bytes")
            block = PyBytes_FromStringAndSize(NULL, view.len)
            to = <uint8_t*>PyBytes_AS_STRING(block)
            with nogil:
                code = self.c.compress(
                    self.c, <const uint8_t*>view.buf, <uint32_t>view.len, to, <uint32_t>view.len, &written)
        finally:
            PyBuffer_Release(&view)
        if code == FB_ETOO_LARGE:
            return None
        check(code)
        return block[:written]

    def decompress(self, data not None, uint32_t capacity):
        """The original of a block, of at most `capacity` bytes; CorruptDataError for what is no block."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if view.len > 0x7fffffff:
                fail(FB_ETOO_LARGE, f"a block of {view.len} bytes")
            return self.original_of(<const uint8_t*>view.buf, <uint32_t>view.len, capacity)
        finally:
            PyBuffer_Release(&view)

    cdef bytes original_of(self, const uint8_t* block, uint32_t block_size, uint32_t capacity):
        cdef bytes original
        cdef uint8_t* to
        cdef uint32_t size = 0
        cdef int code = fb_buffer_codec_read_header(block, block_size, capacity, &size)
        check(code)
        if self.package is not None:  # its exception says more than a code
            original = self.package.decompress(
                block + FB_BUFFER_CODEC_HEADER_SIZE, block_size - FB_BUFFER_CODEC_HEADER_SIZE, size)
            if PyBytes_GET_SIZE(original) != <Py_ssize_t>size:
                fail(FB_ECORRUPT, f"it holds {len(original)} bytes where its header states {size}")
            return original
        original = PyBytes_FromStringAndSize(NULL, size)
        to = <uint8_t*>PyBytes_AS_STRING(original)
        with nogil:
            code = self.c.decompress(self.c, block, block_size, to, size, &size)
        check(code)
        return original


cdef class BlockDecompressor:
    """What a gate restores compressed buffers with: a codec, and how large an original may be."""

    def __cinit__(self, *args, **options):
        pass

    def __init__(self, BufferCodec codec not None, uint32_t segment_size):
        self.buffer_codec = codec
        self.segment_size = segment_size


cdef fb_buffer_codec* pointer_of(BufferCodec codec) noexcept:
    return NULL if codec is None else codec.c
