from libc.stdint cimport int64_t, uint32_t, uint64_t

from flinkbuf._core.gate.input_gate cimport AbstractInputGate
from flinkbuf._core.flow.record_reader cimport RecordReader
from flinkbuf._core.flow.record_writer cimport RecordWriter
from flinkbuf._core.ground.wakeup cimport TaskBell, fb_wakeup


cdef class RecordExchange:
    cdef readonly RecordWriter writer
    cdef readonly RecordReader reader
    cdef AbstractInputGate gate  # the reader's
    cdef tuple gates            # those it is made of
    cdef object records         # an iterator; None once it has ended
    cdef object check           # called now and then; None: nobody wants to
    cdef TaskBell task_bell     # what becomes possible rings it
    cdef fb_wakeup* bell        # its
    cdef uint32_t turn          # records that may be read before it looks at the clock again
    cdef uint32_t read_limit    # of a turn
    cdef uint32_t write_limit
    cdef int64_t read_ahead_ns  # how much more time reading has had than writing
    cdef int64_t read_since_ns  # 0: reading has no turn
    cdef int64_t look_at_ns     # when `check` is due
    cdef int64_t back_pressured_ns
    cdef int64_t idle_ns
    cdef uint64_t read_count
    cdef uint64_t buffers_in
    cdef uint64_t bytes_in
    cdef uint32_t peak_buffers
    cdef bint is_leaving        # it reads no more

    cdef object take(self)
    cdef object next_turn(self)
    cdef int end_read_turn(self) except -1
    cdef bint write_turn(self, uint64_t seen) except -1
    cdef int end_writing(self) except -1
    cdef int leave_gate(self) except -1
    cdef int is_done(self) except -1
    cdef int count_input(self) except -1
    cdef int is_consumed(self) except -1
    cdef int sleep(self, uint64_t seen) except -1
    cdef int look_around(self) except -1
