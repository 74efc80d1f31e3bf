# Timestamps and watermarks are milliseconds; INT64_MIN is "no timestamp" and the watermark before the first, INT64_MAX
# the watermark at the end of event time. Methods are cpdef: a subclass in Python costs a look at its type, no more.

from libc.stdint cimport int64_t

from flinkbuf._core.state.key_context cimport KeyContext
from flinkbuf._core.value.type_codec cimport TypeCodec


cdef class Output:
    cpdef collect(self, object value, int64_t timestamp)
    cpdef collect_side(self, str tag_id, object value, int64_t timestamp)
    cpdef emit_watermark(self, int64_t timestamp)
    cpdef emit_watermark_status(self, bint is_idle)
    cpdef emit_latency_marker(self, object marker)


cdef class StreamOperator


cdef class Input:
    cpdef process_element(self, object value, int64_t timestamp)
    cpdef process_watermark(self, int64_t timestamp)
    cpdef process_watermark_status(self, bint is_idle)
    cpdef process_latency_marker(self, object marker)


cdef class ConvertingOutput(Output):
    cdef Output output
    cdef StreamOperator operator
    cdef TypeCodec codec


cdef class StreamOperator(Input):
    cdef readonly object context            # OperatorContext; from setup()
    cdef readonly Output output             # from setup()
    cdef readonly KeyContext key_context    # None: the operator is not keyed
    cdef readonly object timers             # TimerServices, or None: it has no timers
    cdef readonly object value_in_hand      # what the user's function was called with last
    cdef readonly bint is_in_function       # a call of the user's function has not returned
    cdef object output_codec                # None: nobody declared the type of its records

    cpdef emit_watermark(self, int64_t timestamp)


cdef class MultipleInputOperator(StreamOperator):
    cdef readonly list inputs               # OperatorInput, in order
    cdef object combined                    # CombinedWatermark of the inputs

    cpdef process_input_element(self, Py_ssize_t index, object value, int64_t timestamp)


cdef class OperatorInput(Input):
    cdef MultipleInputOperator operator
    cdef Py_ssize_t index
