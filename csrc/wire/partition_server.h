/* The serving side of the wire: sends subpartitions as far as their readers' credit allows.
 *
 * A client asks for a subpartition with some credit; each data buffer costs one, events are free. A reader
 * with something to send stands in its connection's queue; the queue is served in turns, one buffer each,
 * until the socket has enough, so that several buffers leave in one system call. A partition that is not
 * there yet is waited for. What goes wrong with one channel is told to that channel; only bytes that are no frames
 * end the connection, with the reason first. With a secret, clients prove that they know it before anything else
 * of theirs is read (admission.h). Without one, connections and what waits for them are bounded, and who asks for
 * nothing goes. Flink: NettyServer, PartitionRequestServerHandler,
 * PartitionRequestQueue, CreditBasedSequenceNumberingViewReader.
 *
 * Owner:   borrows the manager, which outlives it; holds a reference on the reactor and on each partition it reads.
 * Threads: open and close from any but the I/O thread, where everything else runs. */
#ifndef FB_PARTITION_SERVER_H
#define FB_PARTITION_SERVER_H

#include "io/tcp.h"
#include "wire/admission.h"
#include "wire/partition_manager.h"

struct fb_partition_server; /* opaque */

struct fb_partition_server_options {
  int64_t request_timeout_ms; /* how long a request waits for its partition; 0: 10000 */
  uint32_t max_channels;      /* of one connection; 0: 65536 */
  size_t low_mark;            /* bytes queued for a connection when it is served again; 0: 65536 */
  size_t high_mark;           /* and when it is served no more; 0: 131072 */
  const uint8_t* secret;      /* copied; NULL: plain Flink, nothing is proven */
  size_t secret_size;         /* bytes, at least FB_PREFACE_MIN_SECRET */
  int64_t proof_timeout_ms;   /* how long a client may take to prove itself, or to ask for something; 0: 10000 */
  uint32_t max_unproven;      /* connections that wait for that; 0: as admission.h says */
  /* Without a secret, when everybody may come: */
  uint32_t max_connections; /* 0: as many as fb_admission_strangers_max() */
  uint32_t max_waiting;     /* requests of one connection that wait for their partitions; 0: 4096 */
};

struct fb_partition_server_counters {
  uint32_t connections; /* that are served */
  uint32_t unproven;    /* that have not proved themselves, or were refused and are not closed yet */
  uint32_t channels;    /* requests that are served, or wait for their partition */
  uint64_t buffers;     /* sent, events included */
  uint64_t bytes;       /* of these, without the frames' own */
  uint64_t refused;     /* connections that could not prove themselves, or whose first bytes were no frame */
};

/* Listens at *address, which becomes the one in use; NULL: nowhere, connections come by adopt(). FB_ENOMEM, FB_EIO
 * with errno, FB_ESTATE (the reactor is closed), FB_EARGUMENT (the secret is too short). */
int fb_partition_server_open(struct fb_reactor* reactor, struct fb_partition_manager* manager,
                             struct fb_tcp_address* address, const struct fb_partition_server_options* options,
                             struct fb_partition_server** self);
/* Closes its connections and lets go of every partition. */
void fb_partition_server_close(struct fb_partition_server* self);
void fb_partition_server_get_counters(struct fb_partition_server* self, struct fb_partition_server_counters* counters);
/* Serves a peer whose bytes somebody carries; what `carried` holds is taken over, also on failure. Any thread but the
 * I/O thread. FB_ENOMEM, FB_EIO with errno, FB_ESTATE (the reactor is closed). */
int fb_partition_server_adopt(struct fb_partition_server* self, const struct fb_tcp_address* peer,
                              const struct fb_carried* carried);
/* Counts a connection that was refused before it came here. */
void fb_partition_server_note_refusal(struct fb_partition_server* self, const char* reason);
/* Why the last connection was refused, with its address, into FB_ADMISSION_REASON_SIZE bytes; empty if none was. */
void fb_partition_server_last_refusal(struct fb_partition_server* self, char* reason);

#endif
