/* The asking side of the wire: requests subpartitions for remote channels, feeds what arrives to them, grants credit.
 *
 * All channels to one address share a connection (or a few, by their connection index), which is made for the first
 * and ended after the last. Data are received straight into credit buffers. A partition that is not found is
 * asked for again until the back-off is used up. What goes wrong with one channel fails that channel; a connection
 * that breaks fails all of its channels with what is known of the cause. Flink: PartitionRequestClientFactory,
 * NettyPartitionRequestClient, CreditBasedPartitionRequestClientHandler.
 *
 * Owner:   counted: open() gives the first reference, which close() drops; whoever may request, cancel or leave later
 *          than that holds one of its own. Holds a reference on the reactor; borrows channels from request() to cancel().
 * Threads: open, close, request and cancel from any but the I/O thread, where everything else runs. */
#ifndef FB_PARTITION_CLIENT_H
#define FB_PARTITION_CLIENT_H

#include "io/dialer.h"
#include "wire/admission.h"
#include "wire/remote_channel.h"

struct fb_partition_client; /* opaque */

struct fb_partition_client_options {
  int64_t connect_timeout_ms;  /* 0: 120000 */
  uint32_t connect_retries;    /* further attempts to make a connection */
  uint32_t backoff_initial_ms; /* before a partition that was not found is asked for again; 0: it is not */
  uint32_t backoff_max_ms;
  uint32_t request_timeout_ms; /* how long servers wait for a partition before they say "not found" */
  uint32_t max_data;           /* bytes of a data buffer: the segment size; required */
  bool keeps_connections;      /* one without channels stays, for channels to come */
  struct fb_dialer* dialer;    /* makes the connections, and outlives the client; NULL: plain TCP */
  const uint8_t* secret;       /* copied; servers and this side prove to know it (admission.h). NULL: plain Flink */
  size_t secret_size;          /* bytes, at least FB_PREFACE_MIN_SECRET */
  int64_t proof_timeout_ms;    /* how long a server may take to prove itself; 0: 10000 */
};

struct fb_partition_client_counters {
  uint32_t connections;
  uint32_t channels;
  uint64_t buffers; /* received, events and what nobody wanted any more included */
  uint64_t bytes;   /* of these, without the frames' own */
};

/* FB_ENOMEM; FB_EARGUMENT: the secret is too short. `options` is copied. */
int fb_partition_client_open(struct fb_reactor* reactor, const struct fb_partition_client_options* options,
                             struct fb_partition_client** self);
/* Fails the channels that are left, ends the connections, and drops the reference of open(). */
void fb_partition_client_close(struct fb_partition_client* self);
void fb_partition_client_retain(struct fb_partition_client* self);
/* The last one frees it; close() was called before. */
void fb_partition_client_drop(struct fb_partition_client* self);

/* Asks for what the channels read. How it goes is told to them; their listeners are called from now on.
 * FB_ESTATE: the reactor is closed; nothing happened. The channels of a client that is closed fail with FB_ERELEASED. */
int fb_partition_client_request(struct fb_partition_client* self, struct fb_remote_channel** channels, uint32_t count);
/* Tells the producers, and forgets the channels: afterwards nothing is called on them. Those that are not known
 * (any more) are left alone. */
void fb_partition_client_cancel(struct fb_partition_client* self, struct fb_remote_channel** channels, uint32_t count);

/* The same for one channel without waiting: its end was read, and the caller closes it next. Something may still be
 * called on it until the next cancel() of whoever owns its listener, with `count` 0 if need be. */
void fb_partition_client_leave(struct fb_partition_client* self, struct fb_remote_channel* channel);

struct fb_reactor* fb_partition_client_reactor(const struct fb_partition_client* self);
void fb_partition_client_get_counters(struct fb_partition_client* self, struct fb_partition_client_counters* counters);

#endif
