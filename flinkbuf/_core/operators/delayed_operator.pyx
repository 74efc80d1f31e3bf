"""Operators in which records wait for others: until there are enough of them, or the first has waited long enough.

Nothing waits longer than a checkpoint, an idle status or the input: before a barrier, a status and the end goes on, all
of it leaves. So such an operator has no state.
"""

from libc.stdint cimport int64_t

from flinkbuf._core.operators.stream_operator cimport StreamOperator


cdef class DelayedOperator(StreamOperator):
    """Has what waits leave in time; what that is, and what becomes of it, says the subclass.

    Parameters
    ----------
    lifecycle : object, optional
        Has open(runtime_context) and close().
    max_delay_ms : int, default -1
        How long a record may wait for others; -1: as long as event time stands still. In batch execution nobody waits
        for it.
    """

    def __init__(self, lifecycle=None, int64_t max_delay_ms=-1):
        self.lifecycle, self.max_delay_ms = lifecycle, max_delay_ms

    cdef bint has_waiting(self) noexcept:
        """Whether a record waits."""
        return False

    cdef int flush_all(self) except -1:
        """Have all that waits leave."""
        raise NotImplementedError(f"{type(self).__name__}.flush_all")

    def open(self):
        if self.context.settings.is_batch:
            self.max_delay_ms = -1
        if self.lifecycle is not None:
            self.lifecycle.open(self.context.runtime_context)

    def close(self):
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.lifecycle is not None:
            self.lifecycle.close()

    cpdef process_watermark_status(self, bint is_idle):
        self.flush_all()
        self.output.emit_watermark_status(is_idle)

    def prepare_snapshot_pre_barrier(self, int64_t checkpoint_id):
        """What came before the barrier leaves before it."""
        self.flush_all()

    def end_input(self, int input_number):
        self.flush_all()

    def finish(self):
        self.flush_all()

    cdef int begin_delay(self) except -1:
        """The first record has come; a timer that waits since an earlier one is used again."""
        self.began_ms = self.context.processing_time.now_ms()
        if self.timer is None:
            self.set_timer()
        return 0

    def set_timer(self):
        """Have what waits leave when its first record has waited long enough."""
        self.timer = self.context.processing_time.register_timer(self.began_ms + self.max_delay_ms - 1, self.end_delay)

    def end_delay(self, timestamp):
        """The timer; what waits now may have begun to after it was set."""
        self.timer = None
        if not self.has_waiting():
            return
        if self.context.processing_time.now_ms() - self.began_ms >= self.max_delay_ms:
            self.flush_all()
        else:
            self.set_timer()
