cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from flinkbuf._core.columns.arrow_column cimport ArrowBatch, ArrowPlan, ArrowSchema, fb_arrow_fault
from flinkbuf._core.columns.arrow_key cimport fb_arrow_key
from flinkbuf._core.columns.arrow_rows cimport fb_arrow_rows
from flinkbuf._core.record.channel_selector cimport ChannelSelector
from flinkbuf._core.ground.data_view cimport fb_data_output
from flinkbuf._core.columns.range_selector cimport BatchRanges
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef class RowChunks:
    cdef TypeCodec codec
    cdef ChannelSelector selector
    cdef ArrowPlan plan
    cdef ArrowSchema* planned_for   # the schema that the plan was made for, where it is known to be still there
    cdef object planned_owner
    cdef ArrowBatch batch
    cdef fb_arrow_rows rows
    cdef fb_arrow_key key
    cdef BatchRanges ranges         # of a range partitioner
    cdef fb_arrow_fault fault
    cdef fb_data_output scratch
    cdef const uint32_t* channels   # of all rows of the batch, where the caller has chosen; else NULL
    cdef int64_t next_row
    cdef uint32_t position          # in the chunk: written so far
    cdef uint64_t* counts           # rows that each channel was chosen for

    @cython.final
    cdef int bind(self, ArrowBatch batch) except -1
    @cython.final
    cdef int bind_key(self) except -1
    @cython.final
    cdef int next_chunk(self) except -1
    @cython.final
    cdef int find_channels(self) except -1 nogil
    @cython.final
    cdef list channel_counts(self)
    @cython.final
    cdef int raise_fault(self) except -1
    @cython.final
    cdef int pack(self, uint32_t start, uint32_t count, size_t* size) except -1
