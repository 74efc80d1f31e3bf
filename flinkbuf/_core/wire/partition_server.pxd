from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from flinkbuf._core.io.dialer cimport fb_carried
from flinkbuf._core.wire.partition_manager cimport PartitionManager, fb_partition_manager
from flinkbuf._core.io.reactor cimport Reactor, fb_reactor
from flinkbuf._core.io.tcp cimport fb_tcp_address

cdef extern from "wire/preface.h" nogil:
    enum:
        FB_PREFACE_MIN_SECRET

cdef extern from "wire/admission.h" nogil:
    enum:
        FB_ADMISSION_REASON_SIZE

cdef extern from "wire/partition_server.h" nogil:
    struct fb_partition_server:
        pass
    struct fb_partition_server_options:
        const uint8_t* secret
        size_t secret_size
        int64_t proof_timeout_ms
        uint32_t max_unproven
        uint32_t max_connections
        uint32_t max_waiting
        int64_t request_timeout_ms
        uint32_t max_channels
        size_t low_mark
        size_t high_mark
    struct fb_partition_server_counters:
        uint32_t connections
        uint32_t unproven
        uint32_t channels
        uint64_t buffers
        uint64_t bytes
        uint64_t refused
    int fb_partition_server_open(fb_reactor* reactor, fb_partition_manager* manager, fb_tcp_address* address,
                                 const fb_partition_server_options* options, fb_partition_server** self)
    void fb_partition_server_close(fb_partition_server* self)
    void fb_partition_server_get_counters(fb_partition_server* self, fb_partition_server_counters* counters)
    int fb_partition_server_adopt(fb_partition_server* self, const fb_tcp_address* peer, const fb_carried* carried)
    void fb_partition_server_note_refusal(fb_partition_server* self, const char* reason)
    void fb_partition_server_last_refusal(fb_partition_server* self, char* reason)


cdef class PartitionServer:
    cdef fb_partition_server* c
    cdef Reactor reactor
    cdef PartitionManager manager
    cdef readonly str host
    cdef readonly int port
    cdef object __weakref__
