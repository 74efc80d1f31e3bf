"""`WindowOperator` for sessions that fire at their ends: the windows of a key are joined here, without asking anybody.

State and timers are those of `WindowOperator` with a `MergingWindowSet`: a snapshot of one is the other's.
"""

from libc.stdint cimport INT64_MAX, int64_t

from flinkbuf._core.state.keyed_state cimport KeyedState
from flinkbuf._core.state.state_table cimport StateTable
from flinkbuf._core.operators.time_window cimport TimeWindow, time_window


cdef class SessionWindowOperator(IncrementalWindowOperator):
    """Sessions with their default trigger, without an evictor."""

    def __init__(self, operation):
        IncrementalWindowOperator.__init__(self, operation)
        self.gap_ms = operation.session_gap_ms

    cpdef process_element(self, object value, int64_t timestamp):
        cdef StateTable table = self.contents.table
        cdef TimeWindow session, each, result
        cdef dict windows
        cdef list joined = []
        self.take_key(value)
        session = result = self.session_of(value, timestamp)
        windows = self.windows_of_key()
        for each in windows:
            if each.start <= session.end and session.start <= each.end:
                joined.append(each)
                if each.start < result.start or each.end > result.end:
                    result = time_window(min(each.start, result.start), max(each.end, result.end))
        if not joined and self.is_late(session):
            self.take_late(value, timestamp)
            return
        session = self.join(windows, session, joined, result)
        table.set_namespace(windows[session])
        value = self.add_contents(table.own(self.key_context.token), value)
        if self.is_event_time and session.end - 1 <= self.timer_service.current_watermark and value is not None:
            self.emit_value(session, value, False)  # late, but not too late: the session fires at each such record

    cdef TimeWindow session_of(self, object value, int64_t timestamp):
        """The window of one record."""
        if self.gap_ms == 0:
            return self.assign(value, timestamp)[0]
        if not self.is_event_time:
            timestamp = self.timer_service.current_processing_time()
        if timestamp > INT64_MAX - self.gap_ms:
            raise OverflowError(f"the window of a record with timestamp {timestamp} does not fit into 64 bits")
        return time_window(timestamp, timestamp + self.gap_ms)

    cdef dict windows_of_key(self):
        """State window by window; what is changed in it is changed in the state, unless there was none."""
        windows = (<KeyedState>self.window_sets).table.own(self.key_context.token)
        return {} if windows is None else <dict>windows

    cdef TimeWindow join(self, dict windows, TimeWindow session, list joined, TimeWindow result):
        """Make `session` and those it joined one; returns what they are now, with its timers set."""
        cdef TimeWindow each
        if not joined:
            windows[session] = session
            (<KeyedState>self.window_sets).table.put(self.key_context.token, windows)
            self.set_timers(session)
            return session
        if len(joined) == 1 and joined[0] == result:  # the record lies within
            if self.may_lack_timers:
                self.set_timers(result)
            return <TimeWindow>joined[0]
        if not self.is_event_time:
            self.check_not_past(result)
        state_windows = [windows.pop(each) for each in joined]
        windows[result] = state_windows[0]
        self.set_timers(result)
        for each in joined:
            self.take_timers_back(each)
        if len(state_windows) > 1:
            self.is_in_function = True
            self.contents.merge_namespaces(state_windows[0], state_windows[1:])
            self.is_in_function = False
        return result

    cdef int set_timers(self, TimeWindow session) except -1:
        """The session is evaluated at its end, and cleared when it is over."""
        cdef int64_t last = session.end - 1, cleanup
        if not self.is_event_time:
            self.timer_service.register_processing_time_timer(session, last)
            return 0
        if last > self.timer_service.current_watermark:
            self.timer_service.register_event_time_timer(session, last)
        cleanup = self.cleanup_time(session)
        if cleanup != last and cleanup != INT64_MAX:
            self.timer_service.register_event_time_timer(session, cleanup)
        return 0

    cdef int take_timers_back(self, TimeWindow session) except -1:
        cdef int64_t last = session.end - 1, cleanup
        if not self.is_event_time:
            self.timer_service.delete_processing_time_timer(session, last)
            return 0
        self.timer_service.delete_event_time_timer(session, last)
        cleanup = self.cleanup_time(session)
        if cleanup != last and cleanup != INT64_MAX:
            self.timer_service.delete_event_time_timer(session, cleanup)
        return 0

    def on_event_time(self, timestamp, key, window):
        if self.is_event_time:
            self.end_or_fire(timestamp, window)

    def on_processing_time(self, timestamp, key, window):
        if not self.is_event_time:
            self.end_or_fire(timestamp, window)

    cdef int end_or_fire(self, int64_t timestamp, TimeWindow session) except -1:
        cdef StateTable table = self.contents.table, sets = (<KeyedState>self.window_sets).table
        cdef object token = self.key_context.token
        cdef bint is_over = timestamp == self.cleanup_time(session)
        windows = sets.get(token)
        state_window = None if windows is None else (<dict>windows).get(session)
        if state_window is None:
            return 0  # of a session that was joined to another
        self.value_in_hand = self.in_hand
        self.in_hand.key, self.in_hand.window = self.key_context.key, session
        if timestamp == session.end - 1:
            table.set_namespace(state_window)
            value = table.own(token)
            if value is not None:
                self.emit_value(session, value, is_over)
        if is_over:
            table.set_namespace(state_window)
            table.remove(token)
            self.call_clear(session)
            windows = sets.own(token)
            del (<dict>windows)[session]
            if not <dict>windows:
                sets.remove(token)
        return 0
