from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from flinkbuf._core.io.dialer cimport Dialer, fb_dialer
from flinkbuf._core.io.reactor cimport Reactor, fb_reactor

cdef extern from "wire/preface.h" nogil:
    enum:
        FB_PREFACE_MIN_SECRET

cdef extern from "wire/partition_client.h" nogil:
    struct fb_partition_client:
        pass
    struct fb_partition_client_options:
        int64_t connect_timeout_ms
        uint32_t connect_retries
        uint32_t backoff_initial_ms
        uint32_t backoff_max_ms
        uint32_t request_timeout_ms
        uint32_t max_data
        bint keeps_connections
        fb_dialer* dialer
        const uint8_t* secret
        size_t secret_size
        int64_t proof_timeout_ms
    struct fb_partition_client_counters:
        uint32_t connections
        uint32_t channels
        uint64_t buffers
        uint64_t bytes
    int fb_partition_client_open(fb_reactor* reactor, const fb_partition_client_options* options,
                                 fb_partition_client** self)
    void fb_partition_client_close(fb_partition_client* self)
    void fb_partition_client_get_counters(fb_partition_client* self, fb_partition_client_counters* counters)


cdef class PartitionClient:
    cdef fb_partition_client* c
    cdef Reactor reactor
    cdef Dialer dialer
    cdef object gates  # closed before the client; held weakly, by number
    cdef object __weakref__
    cdef int check_open(self) except -1
