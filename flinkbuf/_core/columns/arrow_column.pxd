from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from flinkbuf._core.value.type cimport fb_type
from flinkbuf._core.value.type_codec cimport TypeCodec

cdef extern from "columns/arrow_c_data.h" nogil:
    enum:
        ARROW_FLAG_NULLABLE
    struct ArrowSchema:
        const char* format
        const char* name
        const char* metadata
        int64_t flags
        int64_t n_children
        ArrowSchema** children
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept
    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void** buffers
        ArrowArray** children
        void (*release)(ArrowArray*) noexcept
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept
        int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept
        const char* (*get_last_error)(ArrowArrayStream*) noexcept
        void (*release)(ArrowArrayStream*) noexcept

cdef extern from "columns/arrow_type.h" nogil:
    enum fb_arrow_kind:
        FB_ARROW_INTEGER
        FB_ARROW_LIST
        FB_ARROW_STRUCT
        FB_ARROW_MAP
        FB_ARROW_DICTIONARY
        FB_ARROW_RUN_ENDS
    struct fb_arrow_type:
        fb_arrow_kind kind
        uint32_t width
        bint is_signed
    int fb_arrow_type_parse(const char* format, fb_arrow_type* type)
    bint fb_arrow_type_fits(const fb_arrow_type* arrow, const fb_type* type)

cdef extern from "columns/arrow_column.h" nogil:
    struct fb_arrow_column:
        fb_arrow_type arrow
        const fb_type* type
        const fb_type* nullable
        const char* path
        bint is_required
        uint32_t child_count
        fb_arrow_column* children
        uint32_t place
        uint32_t array_child_count
        bint is_skipped
        int64_t offset
        int64_t length
    struct fb_arrow_fault:
        const fb_arrow_column* column
        const char* reason
        int64_t row
    int fb_arrow_column_bind(fb_arrow_column* self, const ArrowArray* array, fb_arrow_fault* fault)


cdef class ArrowBatch:
    cdef ArrowSchema* schema
    cdef ArrowArray* array
    cdef ArrowArray own         # of a stream; released with the batch
    cdef object owner           # of the structures


cdef class ArrowPlan:
    cdef fb_arrow_column root
    cdef bint is_strict         # the schema says what must not be null, else the codec
    cdef bint is_wrapped        # the root's array is the one child of what comes
    cdef TypeCodec codec        # holds the types
    cdef list paths             # bytes that the columns point to

    cdef int bind(self, ArrowBatch batch) except -1
    cdef int build(self, fb_arrow_column* column, TypeCodec codec, ArrowSchema* schema, str path) except -1
    cdef int build_children(self, fb_arrow_column* column, TypeCodec codec, ArrowSchema* schema, str path) except -1
    cdef int build_fields(self, fb_arrow_column* column, TypeCodec codec, ArrowSchema* schema, str path) except -1


cdef str arrow_name(const char* format_)
cdef str name_of(ArrowSchema* schema)
cdef str path_of(const fb_arrow_column* column)
