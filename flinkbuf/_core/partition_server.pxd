from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t

from flinkbuf._core.partition_manager cimport PartitionManager, fb_partition_manager
from flinkbuf._core.reactor cimport Reactor, fb_reactor

cdef extern from "tcp.h" nogil:
    struct fb_address:
        pass
    int fb_address_resolve(fb_address* self, const char* host, uint16_t port)
    uint16_t fb_address_port(const fb_address* self)

cdef extern from "partition_server.h" nogil:
    struct fb_partition_server:
        pass
    struct fb_partition_server_options:
        int64_t request_timeout_ms
        uint32_t max_channels
        size_t low_mark
        size_t high_mark
    struct fb_partition_server_counters:
        uint32_t connections
        uint32_t channels
        uint64_t buffers
    int fb_partition_server_open(fb_reactor* reactor, fb_partition_manager* manager, fb_address* address,
                                 const fb_partition_server_options* options, fb_partition_server** self)
    void fb_partition_server_close(fb_partition_server* self)
    void fb_partition_server_get_counters(fb_partition_server* self, fb_partition_server_counters* counters)


cdef class PartitionServer:
    cdef fb_partition_server* c
    cdef Reactor reactor
    cdef PartitionManager manager
    cdef readonly str host
    cdef readonly int port
    cdef object __weakref__
