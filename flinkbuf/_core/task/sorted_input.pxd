from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t

from flinkbuf._core.ground.data_view cimport fb_data_output
from flinkbuf._core.record.key_token cimport KeyTokens
from flinkbuf._core.flow.record_reader cimport RecordReader
from flinkbuf._core.sort.record_sorter cimport RecordSorter
from flinkbuf._core.task.stream_input cimport TaskTurn
from flinkbuf._core.operators.stream_operator cimport Input, StreamOperator
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef class SortedInput(Input):
    cdef readonly int index
    cdef RecordReader reader
    cdef readonly RecordSorter sorter
    cdef StreamOperator operator    # who knows that the user's selector was called when it fails
    cdef Input target
    cdef object selector            # None: all records have one key
    cdef KeyTokens tokens
    cdef TypeCodec value_codec
    cdef fb_data_output key_bytes   # of the record at hand
    cdef bint is_undeclared
    cdef readonly int64_t last_watermark

    cdef int encode_key(self, object value) except -1
    cdef object decode(self)


cdef class SortedMerge:
    cdef list live                  # inputs that have not ended, in order
    cdef TaskTurn turn
    cdef object ends
    cdef object on_end
    cdef uint8_t* key               # the current one
    cdef size_t key_size, key_capacity
    cdef bint has_key

    cpdef int emit_next(self) except -1
    cdef SortedInput smallest(self)
    cdef int take_key(self, SortedInput source) except -1
    cdef int advance(self, SortedInput source) except -1
