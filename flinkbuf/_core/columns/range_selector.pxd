cimport cython
from libc.stdint cimport int64_t, uint32_t

from flinkbuf._core.columns.arrow_column cimport ArrowBatch, ArrowPlan
from flinkbuf._core.columns.arrow_range cimport fb_arrow_range
from flinkbuf._core.columns.arrow_rows cimport fb_arrow_rows
from flinkbuf._core.record.channel_selector cimport ChannelSelector, KeyField
from flinkbuf._core.ground.data_view cimport fb_data_output
from flinkbuf._core.record.range_bounds cimport fb_range_bounds
from flinkbuf._core.record.range_key cimport fb_range_order
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef class RangeField(KeyField):
    cdef TypeCodec codec
    cdef fb_range_order order


cdef class RangeSelector(ChannelSelector):
    cdef readonly tuple fields
    cdef fb_range_bounds bounds
    cdef fb_data_output key         # of the record at hand
    cdef fb_data_output encoded     # one of its values

    cdef int make_key(self, object record) except -1
    cdef int put_part(self, RangeField field, object value, fb_data_output* key) except -1


cdef class BatchRanges:
    cdef RangeSelector selector
    cdef ArrowPlan plan
    cdef fb_arrow_range c
    cdef fb_range_order* orders

    @cython.final
    cdef int bind(self, ArrowPlan plan) except -1
    @cython.final
    cdef int find_channels(self, const fb_arrow_rows* rows, uint32_t* channels) noexcept nogil
