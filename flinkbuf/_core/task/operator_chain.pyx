"""What stands between the operators of one chain: a call to the next operator, or to several.

Per record and operator: two counters and one call through a table, no list and no look at a tag where an operator has
one consumer. A value that goes one way goes by reference; where it goes several, each but the last of a chain gets a
copy of what can change. A record counts once as emitted, however many take it. Flink: OperatorChain's outputs:
ChainingOutput, CopyingChainingOutput, BroadcastingOutputCollector, CountingOutput.
"""

cimport cython
from libc.stdint cimport INT64_MIN, int64_t

from flinkbuf._core.value.own_value cimport own_copy
from flinkbuf._core.operators.function_operator cimport FilterOperator
from flinkbuf._core.operators.stream_operator cimport Input, Output


cdef class OperatorCounters:
    """Numbers of one operator, or of a task, that its thread writes and any thread reads."""

    def __cinit__(self):
        self.input_watermark = self.output_watermark = INT64_MIN


cdef class EdgeOutput(Output):
    """One edge from an operator to one of its consumers.

    A record of another side output, or a main record on the edge of a side output, is not for it. Watermarks are
    dropped while the edge is announced as idle, and only a status that differs from the announced one goes on.
    """

    cpdef collect(self, object value, int64_t timestamp):
        if self.tag is None:
            self.counters.records_out += 1
            self.push(value, timestamp)

    cpdef collect_side(self, str tag_id, object value, int64_t timestamp):
        if self.tag is not None and self.tag == tag_id:
            self.counters.records_out += 1
            self.push(value, timestamp)

    cpdef emit_watermark(self, int64_t timestamp):
        if self.is_idle:
            return
        self.counters.output_watermark = timestamp
        self.push_watermark(timestamp)

    cpdef emit_watermark_status(self, bint is_idle):
        if self.is_idle != is_idle:
            self.is_idle = is_idle
            self.push_status(is_idle)

    cpdef emit_latency_marker(self, object marker):
        self.push_marker(marker)

    # What each kind of edge has of its own. A record that comes here is for this edge and was counted.

    cdef int push(self, object value, int64_t timestamp) except -1:
        raise NotImplementedError(f"{type(self).__name__}.push")

    cdef int push_watermark(self, int64_t timestamp) except -1:
        raise NotImplementedError(f"{type(self).__name__}.push_watermark")

    cdef int push_status(self, bint is_idle) except -1:
        raise NotImplementedError(f"{type(self).__name__}.push_status")

    cdef int push_marker(self, object marker) except -1:
        raise NotImplementedError(f"{type(self).__name__}.push_marker")

    cpdef send_waiting(self):
        """Have records that wait for others go on: a barrier comes, or the end."""

    cdef bint is_network(self) noexcept:
        return False


@cython.final
cdef class ChainingOutput(EdgeOutput):
    """To an operator of the same chain: a call."""

    def __init__(self, OperatorCounters counters not None, Input target not None,
                 OperatorCounters target_counters not None, str tag=None, bint copies=False):
        self.copies = copies
        self.counters = counters
        self.target = target
        self.filter = target if isinstance(target, FilterOperator) else None
        self.target_counters = target_counters
        self.tag = tag

    cpdef collect(self, object value, int64_t timestamp):
        if self.tag is None:
            self.give(value, timestamp)

    cdef int push(self, object value, int64_t timestamp) except -1:
        self.target_counters.records_in += 1
        if self.copies:
            return self.give_copy(value, timestamp)
        self.target.process_element(value, timestamp)
        return 0

    cdef int give_copy(self, object value, int64_t timestamp) except -1:
        """A copy, unless nobody would have it: streams that go several ways mostly begin each way with a filter."""
        if self.filter is None or not self.filter.drops(value):
            self.target.process_element(self.copy_of(value), timestamp)
        return 0

    cdef object copy_of(self, object value):
        """A record of which what can change belongs to this way alone."""
        try:
            return own_copy(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"the record {value!r:.80} goes several ways in one task, and each needs a copy of its own: {error}; "
                f"set pipeline.object-reuse, and all ways share one object"
            ) from error

    cdef int push_watermark(self, int64_t timestamp) except -1:
        self.target_counters.input_watermark = timestamp
        self.target.process_watermark(timestamp)
        return 0

    cdef int push_status(self, bint is_idle) except -1:
        self.target.process_watermark_status(is_idle)
        return 0

    cdef int push_marker(self, object marker) except -1:
        self.target.process_latency_marker(marker)
        return 0


@cython.final
cdef class BroadcastingOutput(Output):
    """To any number of edges: each record to all of the main output, or to all of its side output.

    What nobody listens to is dropped silently.
    """

    def __init__(self, OperatorCounters counters not None, OperatorCounters task_counters not None, edges):
        cdef EdgeOutput edge
        self.counters = counters
        self.task_counters = task_counters
        self.edges = list(edges)
        self.main_edges = []
        self.side_edges = {}
        for edge in self.edges:
            if edge.tag is None:
                self.main_edges.append(edge)
                self.is_main_network |= edge.is_network()
            else:
                self.side_edges.setdefault(edge.tag, []).append(edge)
        if len(self.main_edges) == 1:
            self.only_main = self.main_edges[0]

    cpdef collect(self, object value, int64_t timestamp):
        self.counters.records_out += 1
        self.task_counters.records_out += self.is_main_network
        if self.only_main is not None:
            self.only_main.push(value, timestamp)
        else:
            self.push_main(value, timestamp)

    cdef int push_main(self, object value, int64_t timestamp) except -1:
        cdef EdgeOutput edge
        for edge in self.main_edges:
            edge.push(value, timestamp)
        return 0

    cpdef collect_side(self, str tag_id, object value, int64_t timestamp):
        cdef EdgeOutput edge
        cdef bint is_sent = False
        edges = self.side_edges.get(tag_id)
        if edges is None:
            return
        self.counters.records_out += 1
        for edge in edges:
            edge.push(value, timestamp)
            is_sent |= edge.is_network()
        self.task_counters.records_out += is_sent

    cpdef emit_watermark(self, int64_t timestamp):
        cdef EdgeOutput edge
        for edge in self.edges:
            edge.emit_watermark(timestamp)

    cpdef emit_watermark_status(self, bint is_idle):
        cdef EdgeOutput edge
        for edge in self.edges:
            edge.emit_watermark_status(is_idle)

    cpdef emit_latency_marker(self, object marker):
        cdef EdgeOutput edge
        for edge in self.edges:
            edge.push_marker(marker)
