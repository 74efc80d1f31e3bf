"""Timers of a keyed operator: at most one for each time, key and namespace, in event and in processing time.

Timers are kept by time: a heap of times, and for each time those that are due. They fire in the order of their times;
those of one time in the order in which their namespaces and keys were registered. A snapshot takes references to those
of a time; the first change afterwards is made to a copy. Reads no clock but the one it was given, and asks it to be
called for the earliest timer only. Flink: InternalTimerServiceImpl.
"""

from operator import index

cimport cython
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t
from libc.stdlib cimport free, realloc

from flinkbuf._core.state.key_context cimport given_key

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1

cdef enum:
    SLACK = 64  # times without timers that the heap may hold before it is made anew


@cython.no_gc  # nothing that it holds can hold it, and there may be millions
@cython.freelist(1024)
cdef class Timer:
    """The only timer of its time."""

    def __cinit__(self, token, namespace):
        self.token = token
        self.namespace = namespace


cdef class Bucket:
    """The timers of a time that has had more than one. Those of an earlier epoch than its queue's are a snapshot's."""

    def __cinit__(self, dict spaces, int64_t epoch):
        self.spaces = spaces
        self.epoch = epoch

    cdef dict copied(self):
        return {namespace: dict(tokens) for namespace, tokens in self.spaces.items()}


cdef object whole(object time):
    """A time as an int, which it may be in numpy's sense only."""
    if PyLong_CheckExact(time):
        return time
    if isinstance(time, bool) or not hasattr(time, "__index__"):
        raise TypeError(f"a timer's time is a whole number of milliseconds, got {time!r}")
    return index(time)


cdef int64_t checked_time(object time) except? -1:
    cdef int overflow = 0
    cdef int64_t timestamp
    timestamp = PyLong_AsLongLongAndOverflow(time, &overflow)
    if overflow != 0:
        raise OverflowError(f"a timer's time must fit 64 bits, got {time}")
    return timestamp


cdef class TimerQueue:
    """The timers of one time domain."""

    def __cinit__(self):
        self.buckets = {}

    def __dealloc__(self):
        free(self.heap)

    cdef int64_t head(self) noexcept:
        """The earliest time; the largest number if there is none."""
        return self.heap[0] if self.heap_size else INT64_MAX

    cdef bint register(self, object token, object namespace, object time, int64_t timestamp) except -1:
        """Add a timer; returns whether it is new."""
        cdef Timer single
        cdef Bucket several
        cdef dict tokens
        if self.firing is not None and self.firing_time == timestamp and token in self.firing.get(namespace, ()):
            return False
        bucket = self.buckets.get(time)
        if bucket is None:
            hash(token)
            self.push(timestamp)
            self.buckets[time] = Timer.__new__(Timer, token, namespace)
            return True
        if type(bucket) is Timer:
            single = <Timer>bucket
            if single.token == token and single.namespace == namespace:
                return False
            several = Bucket.__new__(Bucket, {single.namespace: {single.token: None}}, self.epoch)
            self.buckets[time] = several
        else:
            several = <Bucket>bucket
        tokens = several.spaces.get(namespace)
        if tokens is not None and token in tokens:
            return False
        if several.epoch != self.epoch:
            several = self.owned(time, several)
            tokens = several.spaces.get(namespace)
        if tokens is None:
            several.spaces[namespace] = {token: None}
        else:
            tokens[token] = None
        return True

    cdef bint delete(self, object token, object namespace, object time, int64_t timestamp) except -1:
        """Take a timer away; returns whether there was one."""
        cdef Timer single
        cdef Bucket several
        cdef dict tokens
        if self.firing is not None and self.firing_time == timestamp and take(self.firing, token, namespace):
            return True
        bucket = self.buckets.get(time)
        if bucket is None:
            return False
        if type(bucket) is Timer:
            single = <Timer>bucket
            if not (single.token == token and single.namespace == namespace):
                return False
            del self.buckets[time]
        else:
            several = <Bucket>bucket
            tokens = several.spaces.get(namespace)
            if tokens is None or token not in tokens:
                return False
            several = self.owned(time, several)
            take(several.spaces, token, namespace)
            if not several.spaces:
                del self.buckets[time]
        if self.heap_size > 2 * <Py_ssize_t>len(self.buckets) + SLACK:
            self.rebuild()
        return True

    cdef Bucket owned(self, object time, Bucket bucket):
        """The timers of a time, to be changed: no snapshot has them."""
        if bucket.epoch != self.epoch:
            bucket = self.buckets[time] = Bucket.__new__(Bucket, bucket.copied(), self.epoch)
        return bucket

    cdef int push(self, int64_t timestamp) except -1:
        cdef Py_ssize_t place, parent, capacity
        cdef int64_t* heap
        if self.heap_size == self.heap_capacity:
            capacity = 2 * self.heap_capacity + 16
            heap = <int64_t*>realloc(self.heap, capacity * sizeof(int64_t))
            if heap is NULL:
                raise MemoryError(f"no memory for {capacity} timers")
            self.heap = heap
            self.heap_capacity = capacity
        place = self.heap_size
        self.heap_size += 1
        while place > 0:
            parent = (place - 1) >> 1
            if self.heap[parent] <= timestamp:
                break
            self.heap[place] = self.heap[parent]
            place = parent
        self.heap[place] = timestamp
        return 0

    cdef void pop(self) noexcept:
        """Take the earliest time away."""
        cdef Py_ssize_t place = 0, child
        cdef int64_t last
        self.heap_size -= 1
        last = self.heap[self.heap_size]
        while True:
            child = 2 * place + 1
            if child >= self.heap_size:
                break
            if child + 1 < self.heap_size and self.heap[child + 1] < self.heap[child]:
                child += 1
            if self.heap[child] >= last:
                break
            self.heap[place] = self.heap[child]
            place = child
        self.heap[place] = last

    cdef int rebuild(self) except -1:
        """Forget the times whose timers were all deleted."""
        cdef int64_t timestamp
        self.heap_size = 0
        for timestamp in sorted(self.buckets):
            self.heap[self.heap_size] = timestamp
            self.heap_size += 1
        return 0

    cdef int fire(self, int64_t until, KeyContext keys, object callback, InternalTimerService service) except -1:
        """Call back for each timer up to `until`, also for those that are registered meanwhile."""
        cdef int64_t timestamp
        while self.heap_size and self.heap[0] <= until and not (service is not None and service.is_quiesced):
            timestamp = self.heap[0]
            self.pop()
            time = timestamp
            bucket = self.buckets.pop(time, None)
            if bucket is None:
                continue
            if type(bucket) is Timer:
                keys.set_key(given_key((<Timer>bucket).token))
                callback(time, keys.key, (<Timer>bucket).namespace)
                continue
            self.firing_time = timestamp
            self.firing = (
                (<Bucket>bucket).spaces if (<Bucket>bucket).epoch == self.epoch else (<Bucket>bucket).copied()
            )
            for namespace in list(self.firing):
                for token in list(self.firing.get(namespace, ())):
                    if not take(self.firing, token, namespace):
                        continue  # an earlier one deleted it
                    keys.set_key(given_key(token))
                    callback(time, keys.key, namespace)
            self.firing = None
        return 0

    cdef dict frozen(self):
        """All timers as they are now, by time, which nobody changes."""
        self.epoch += 1
        return dict(self.buckets)


def timers_in(dict buckets):
    """What is in the timers of a snapshot, as (time, token, namespace)."""
    for time, bucket in buckets.items():
        if isinstance(bucket, Timer):
            yield time, bucket.token, bucket.namespace
        else:
            for namespace, tokens in (<Bucket?>bucket).spaces.items():
                for token in tokens:
                    yield time, token, namespace


cdef bint take(dict bucket, object token, object namespace) except -1:
    """Take a timer out of those of one time; returns whether it was there."""
    cdef dict tokens = bucket.get(namespace)
    if tokens is None or token not in tokens:
        return False
    del tokens[token]
    if not tokens:
        del bucket[namespace]
    return True


cdef class InternalTimerService:
    """The timers of one name of one operator.

    Parameters
    ----------
    name : str
        Stands in snapshots.
    keys : KeyContext
        Whose key a timer belongs to; set before a timer fires.
    target : object
        Has ``on_event_time(timestamp, key, namespace)`` and ``on_processing_time`` likewise.
    clock : ProcessingTimeService
        Says the time and calls back.
    """

    def __cinit__(self, str name not None, KeyContext keys not None, target, clock):
        self.name = name
        self.keys = keys
        self.clock = clock
        self.on_event_time = target.on_event_time
        self.on_processing_time = target.on_processing_time
        self.event_time = TimerQueue()
        self.processing_time = TimerQueue()
        self.current_watermark = INT64_MIN
        self.physical_time = INT64_MAX

    def current_processing_time(self):
        """Milliseconds since 1970, from the task's clock."""
        return self.clock.now_ms()

    cpdef register_event_time_timer(self, object namespace, object time):
        """Call back once the watermark has come to `time`; one that is past already, with the next watermark."""
        time = whole(time)
        self.event_time.register(self.keys.token, namespace, time, checked_time(time))

    cpdef delete_event_time_timer(self, object namespace, object time):
        """Take the timer away if there is one."""
        time = whole(time)
        self.event_time.delete(self.keys.token, namespace, time, checked_time(time))

    cpdef register_processing_time_timer(self, object namespace, object time):
        """Call back once the clock has passed `time`."""
        time = whole(time)
        if self.processing_time.register(self.keys.token, namespace, time, checked_time(time)):
            self.arm()

    cpdef delete_processing_time_timer(self, object namespace, object time):
        """Take the timer away if there is one."""
        time = whole(time)
        self.processing_time.delete(self.keys.token, namespace, time, checked_time(time))

    cpdef advance_watermark(self, int64_t timestamp):
        """Event time has come to `timestamp`: fire what is due."""
        self.current_watermark = timestamp
        if self.event_time.heap_size and self.event_time.heap[0] <= timestamp:
            self.event_time.fire(timestamp, self.keys, self.on_event_time, None)

    cdef int arm(self) except -1:
        """Wait for the earliest timer, and for no other."""
        cdef int64_t head = self.processing_time.head()
        if self.is_quiesced or self.processing_time.heap_size == 0 or head >= self.physical_time:
            return 0
        if self.physical is not None:
            self.physical.cancel()
        self.physical_time = head
        self.physical = self.clock.register_timer(head, self.fire_processing_time)
        return 0

    def fire_processing_time(self, int64_t timestamp):
        """The clock has passed `timestamp`."""
        if self.is_quiesced:
            return
        self.physical = None
        # While timers fire, those that they register wait for what is armed at the end.
        self.physical_time = INT64_MIN
        self.processing_time.fire(timestamp, self.keys, self.on_processing_time, self)
        self.physical_time = INT64_MAX
        self.arm()

    def quiesce(self):
        """Fire nothing more in processing time."""
        self.is_quiesced = True
        if self.physical is not None:
            self.physical.cancel()
            self.physical = None

    def freeze(self):
        """The timers of both domains, for a snapshot; `timers_in` goes over each."""
        return self.event_time.frozen(), self.processing_time.frozen()

    def restore(self, event_time, processing_time):
        """Add timers out of a snapshot, given as (time, token, namespace)."""
        for time, token, namespace in event_time:
            self.event_time.register(token, namespace, time, time)
        for time, token, namespace in processing_time:
            self.processing_time.register(token, namespace, time, time)
        self.arm()

    def __sizeof__(self):
        capacity = self.event_time.heap_capacity + self.processing_time.heap_capacity
        return object.__sizeof__(self) + capacity * sizeof(int64_t)

    def __len__(self):
        queues = (self.event_time, self.processing_time)
        return sum([1 for queue in queues for _ in timers_in((<TimerQueue>queue).buckets)])


cdef class BatchTimerService(InternalTimerService):
    """Timers of one key at a time, in batch execution.

    Nothing fires while the key has records to come; when it ends all its timers do, first those of event time, then
    those of processing time, each in order of time. Meanwhile event time is at its end, and what they register is
    ignored: a key would never end. Flink: BatchExecutionInternalTimeService.
    """

    cpdef register_event_time_timer(self, object namespace, object time):
        """Call back when the key ends."""
        time = whole(time)
        cdef int64_t timestamp = checked_time(time)
        if self.current_watermark != INT64_MAX:
            self.event_time.register(self.keys.token, namespace, time, timestamp)

    cpdef register_processing_time_timer(self, object namespace, object time):
        """Call back when the key ends, behind the timers of event time."""
        time = whole(time)
        cdef int64_t timestamp = checked_time(time)
        if self.current_watermark != INT64_MAX:
            self.processing_time.register(self.keys.token, namespace, time, timestamp)

    cpdef advance_watermark(self, int64_t timestamp):
        if timestamp == INT64_MAX:
            self.end_key()

    cpdef end_key(self):
        """No more records of the key follow."""
        if self.event_time.heap_size == 0 and self.processing_time.heap_size == 0:
            return
        self.current_watermark = INT64_MAX
        self.event_time.fire(INT64_MAX, self.keys, self.on_event_time, None)
        self.processing_time.fire(INT64_MAX, self.keys, self.on_processing_time, None)
        self.current_watermark = INT64_MIN
