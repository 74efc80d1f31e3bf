"""The binding of csrc/gate/buffer_debloater.h: how large senders should make their buffers."""

from flinkbuf._core.ground.errors cimport check, fail


cdef class BufferDebloater:
    """Buffer sizes from the throughput of a gate.

    Parameters
    ----------
    target_ms : int
        How long it should take to consume what is under way, in milliseconds.
    min_size, max_size : int
        Limits of the size in bytes; `max_size` is where it begins.
    threshold_percentages : int
        Changes by less are not announced, unless they reach a limit.
    samples : int
        How many calculations the moving average goes back, roughly.

    Notes
    -----
    No clock is read: all times are given, in milliseconds.

    References
    ----------
    Flink ``BufferDebloater``, ``BufferSizeEMA``, ``ThroughputCalculator``.
    """

    def __cinit__(self, *, int64_t target_ms, int32_t min_size, int32_t max_size, int32_t threshold_percentages,
                  int32_t samples):
        cdef fb_buffer_debloater_config config
        config.target_ms, config.min_size, config.max_size = target_ms, min_size, max_size
        config.threshold_percent, config.samples = threshold_percentages, samples
        cdef int code = fb_buffer_debloater_open(&self.c, &config)
        if code < 0:
            fail(code, f"target_ms={target_ms}, min_size={min_size}, max_size={max_size}, "
                       f"threshold_percentages={threshold_percentages}, samples={samples}")

    def receive(self, uint32_t size, int64_t now_ms):
        """Count `size` bytes that are about to be consumed; the time from now on counts too."""
        fb_buffer_debloater_receive(&self.c, size, now_ms)

    def pause(self, int64_t now_ms):
        """Nothing is there to consume: time does not count until something is received."""
        fb_buffer_debloater_pause(&self.c, now_ms)

    def throughput(self, int64_t now_ms):
        """Bytes per second of active time since the last call."""
        return fb_buffer_debloater_throughput(&self.c, now_ms)

    def average(self, int64_t total_bytes, uint32_t buffer_count):
        """The average size after one more sample: so many bytes over so many buffers."""
        return check(fb_buffer_debloater_average(&self.c, total_bytes, buffer_count))

    def is_negligible(self, int32_t size):
        """Whether `size` is too close to the last announced one to be worth a message."""
        return bool(fb_buffer_debloater_is_negligible(&self.c, size))

    def recalculate(self, int64_t throughput, uint32_t buffers_in_use):
        """The size to announce at this throughput (bytes per second), or None."""
        if throughput < 0:
            raise ValueError(f"throughput must not be below 0 bytes per second, got {throughput}")
        return fb_buffer_debloater_recalculate(&self.c, throughput, buffers_in_use) or None

    @property
    def announced_size(self):
        """The size that was announced last, in bytes; at first `max_size`."""
        return self.c.announced_size
