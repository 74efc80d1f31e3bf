from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from flinkbuf._core.value.codec cimport Codec
from flinkbuf._core.ground.data_view cimport fb_data_input, fb_data_output, fb_data_output_size
from flinkbuf._core.value.inline_codec cimport get, inline_put, put
from libc.stddef cimport size_t

cdef class TypeCodec(Codec):
    cdef int check_arguments(self, padding) except -1
    cdef TypeCodec as_key(self)
    cdef int fail_encode(self, fb_data_output* output, size_t used) except -1


cdef inline int encode_value(TypeCodec codec, object value, fb_data_output* output) except -1:
    """Appends `value` at output.pos. After a failure output.pos is where it was."""
    cdef size_t used = fb_data_output_size(output)
    cdef uint8_t* pos = (<inline_put>put)(&codec.node, <PyObject*>value, output.pos, output)
    if pos == NULL:
        return codec.fail_encode(output, used)
    output.pos = pos
    return 0


cdef inline PyObject* decode_value(TypeCodec codec, fb_data_input* input) except NULL:
    """Reads one value at input.pos and moves past it; a new reference. CorruptDataError leaves input.pos there."""
    cdef const uint8_t* pos = input.pos
    cdef PyObject* value = get(&codec.node, &pos, input)
    input.pos = pos
    return value
