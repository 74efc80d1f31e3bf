# Records of a stream with tag and timestamp beside them, not in an object: Flink's StreamElementSerializer.

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t

from flinkbuf._core.ground.byte_order cimport fb_load_be64, fb_store_be64
from flinkbuf._core.value.codec cimport make_room
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output
from flinkbuf._core.value.type cimport FB_ELEMENT_RECORD, FB_ELEMENT_RECORD_WITH_TIMESTAMP

cdef enum:
    HEAD_BYTES = 9  # of a record with a timestamp, before the value
    BARE_HEAD_BYTES = 1


cdef inline uint8_t* put_head(bint is_timed, int64_t timestamp, uint8_t* pos, fb_data_output* out) except NULL:
    """What stands before the value; returns where that goes."""
    if out.end - pos < HEAD_BYTES:
        pos = make_room(out, pos, HEAD_BYTES)
    if not is_timed:
        pos[0] = FB_ELEMENT_RECORD
        return pos + BARE_HEAD_BYTES
    pos[0] = FB_ELEMENT_RECORD_WITH_TIMESTAMP
    fb_store_be64(pos + 1, <uint64_t>timestamp)
    return pos + HEAD_BYTES


cdef inline bint get_head(fb_data_input* source, bint* is_timed, int64_t* timestamp) noexcept:
    """Moves source.pos to the value of a record; false: it is another element, or not one at all."""
    cdef const uint8_t* pos = source.pos
    cdef Py_ssize_t left = source.end - pos
    if left >= HEAD_BYTES and pos[0] == FB_ELEMENT_RECORD_WITH_TIMESTAMP:
        is_timed[0] = True
        timestamp[0] = <int64_t>fb_load_be64(pos + 1)
        source.pos = pos + HEAD_BYTES
        return True
    if left >= BARE_HEAD_BYTES and pos[0] == FB_ELEMENT_RECORD:
        is_timed[0] = False
        source.pos = pos + BARE_HEAD_BYTES
        return True
    return False
