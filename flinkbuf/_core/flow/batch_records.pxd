cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint8_t, uint64_t

from flinkbuf._core.columns.arrow_column cimport ArrowBatch, ArrowPlan, ArrowSchema, fb_arrow_fault
from flinkbuf._core.columns.arrow_rows cimport fb_arrow_rows
from flinkbuf._core.flow.batch_reader cimport BatchBuilder
from flinkbuf._core.ground.data_view cimport fb_data_output
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef class RecordsToBatch:
    cdef TypeCodec codec
    cdef BatchBuilder batch
    cdef fb_data_output output      # of the records whose columns are not made yet
    cdef size_t[513] starts         # where each of them begins, and the last one ends
    cdef uint32_t waiting
    cdef readonly int64_t count     # of the batch

    @cython.final
    cdef int add(self, object value) except -1
    @cython.final
    cdef int make_columns(self) except -1
    @cython.final
    cdef int refuse(self, int64_t taken) except -1
    @cython.final
    cdef int forget_waiting(self) except -1
    @cython.final
    cdef object take(self)


cdef class BatchToRecords:
    cdef TypeCodec codec
    cdef ArrowPlan plan
    cdef ArrowSchema* planned_for   # the schema that the plan was made for, where it is known to be still there
    cdef object planned_owner
    cdef ArrowBatch batch           # None: there is none at hand
    cdef fb_arrow_rows rows
    cdef fb_arrow_fault fault
    cdef fb_data_output packed      # the rows of the chunk, each behind its length
    cdef const uint8_t* position
    cdef uint32_t row               # of the chunk: which comes next
    cdef uint32_t packed_to         # and up to which they are packed
    cdef int64_t next_row
    cdef object batches             # iterator of those that follow

    @cython.final
    cdef int begin(self, ArrowBatch batch) except -1
    @cython.final
    cdef int next_chunk(self) except -1
    @cython.final
    cdef int pack(self) except -1
    @cython.final
    cdef PyObject* take(self) except? NULL
