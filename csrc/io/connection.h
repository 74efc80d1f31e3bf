/* Connections of the I/O thread: bytes in, pieces out, and one last word about how each ended.
 *
 * They know no frame: bytes and events go to the handler. What is sent is queued as pieces (a small head that
 * is copied, and a slice of a buffer, or a part of a file, that is not) and leaves at the end of the turn, many pieces in one
 * system call. Reads and writes of one connection are bounded in each turn.
 *
 * Owner:   a connection or listener belongs to the reactor; its pointer is not used after on_closed() or
 *          fb_connection_close_listener(). Handlers and contexts are borrowed until then.
 * Threads: the I/O thread only. Handlers must not block. */
#ifndef FB_CONNECTION_H
#define FB_CONNECTION_H

#include "io/carrier.h"
#include "io/file_region.h"
#include "io/reactor.h"
#include "io/tcp.h"
#include "memory/buffer.h"

struct fb_connection; /* opaque */
struct fb_listener;   /* opaque */

#define FB_CONNECTION_HEAD_MAX 112 /* bytes of a piece that are copied */

/* What a connection tells. Each may be NULL, except on_bytes; target and on_filled come together. */
struct fb_connection_handler {
  /* An outgoing connection stands. */
  void (*on_connected)(struct fb_connection* connection);
  /* Asked before bytes are received: memory for exactly the next ones of the stream, as many as it says; 0:
   * no preference. They are received there without a copy and reported to on_filled, before any on_bytes. */
  size_t (*target)(struct fb_connection* connection, uint8_t** memory);
  void (*on_filled)(struct fb_connection* connection, size_t size);
  /* The next bytes of the stream, valid during the call. */
  void (*on_bytes)(struct fb_connection* connection, const uint8_t* data, size_t size);
  /* The peer has ended its side; ours may go on. NULL: the connection is finished then. */
  void (*on_end)(struct fb_connection* connection);
  /* The queue was over its high mark and is at or under the low one again. */
  void (*on_writable)(struct fb_connection* connection);
  /* The last call. `reason` is NULL where this side closed, else a sentence with the peer's address and the
   * system's text, or the carrier's with its code; `code` FB_OK, FB_EIO, FB_ETIMEOUT (it could not be made in
   * time), FB_EFINISHED (the peer ended it), FB_ENOMEM. */
  void (*on_closed)(struct fb_connection* connection, int code, const char* reason);
};

/* Listens at *address, which becomes the one in use. Each new connection is given to on_accept, which gives
 * it a handler, or it is closed. FB_ENOMEM, FB_EIO with errno, FB_ESTATE (the reactor is being closed). */
int fb_connection_listen(struct fb_reactor* self, struct fb_tcp_address* address, int backlog,
                         void (*on_accept)(struct fb_connection* connection, void* context), void* context,
                         struct fb_listener** listener);
/* No connection is accepted any more; those that were stay. */
void fb_connection_close_listener(struct fb_listener* self);
/* Starts to connect; on_connected or on_closed says how it went, never before this returns. Errors as
 * listen(). */
int fb_connection_connect(struct fb_reactor* self, const struct fb_tcp_address* peer, int64_t timeout_ms,
                          const struct fb_connection_handler* handler, void* context,
                          struct fb_connection** connection);

/* A connection whose bytes somebody carries: one end of a local pair of sockets, and what both share. */
struct fb_carried {
  int fd;
  struct fb_carrier* carrier;
};
/* Takes one over with `carried`'s descriptor and reference, also on failure; *connection has no handler yet. The
 * peer is the one that the carrier speaks with. connect_timeout_ms 0: it stands. Otherwise it is on its way, and
 * stands when the carrier has written one byte, before any others; on_connected or on_closed says how it went.
 * FB_ENOMEM, FB_EIO with errno, FB_ESTATE. */
int fb_connection_adopt(struct fb_reactor* self, const struct fb_tcp_address* peer, const struct fb_carried* carried,
                        int64_t connect_timeout_ms, struct fb_connection** connection);

void fb_connection_set_handler(struct fb_connection* self, const struct fb_connection_handler* handler, void* context);
void* fb_connection_context(const struct fb_connection* self);
const char* fb_connection_peer(const struct fb_connection* self); /* "127.0.0.1:6121" */

/* Queues at most FB_CONNECTION_HEAD_MAX bytes, copied, then `body` (NULL or empty: none), whose reference is
 * taken over on every path. FB_ERELEASED (closed, shut down or finished), FB_EARGUMENT, FB_ENOMEM: nothing
 * was queued. */
int fb_connection_send(struct fb_connection* self, const uint8_t* head, size_t head_size, struct fb_buffer_slice* body);
/* The same with a part of a file behind the head; its reference is taken over on every path. A file that turns out to be
 * shorter, or cannot be read, ends the connection, with path and offset in the reason: the peer was promised bytes. */
int fb_connection_send_region(struct fb_connection* self, const uint8_t* head, size_t head_size,
                              struct fb_file_region* region);
/* Bytes at which it is writable again, and over which it is not: 64 KiB and 256 KiB at first. A sender that
 * heeds is_writable() keeps the queue at the high mark and one piece, however slow the peer. */
void fb_connection_set_marks(struct fb_connection* self, size_t low, size_t high);
/* Reads nothing while more than `size` bytes are queued: what a peer says may cost memory only as far as it takes the
 * answers. 0, as at first: no such limit. One of two peers that may both be full of answers must not have one. */
void fb_connection_set_deaf_over(struct fb_connection* self, size_t size);
bool fb_connection_is_writable(const struct fb_connection* self);
/* Ends this side once what is queued has left; the peer's bytes still come. */
void fb_connection_shutdown(struct fb_connection* self);
/* The same, drops what still comes, and closes when the peer has ended its side, or takes nothing for some
 * seconds: what was sent last is read before the connection goes. */
void fb_connection_finish(struct fb_connection* self);
/* Closes now; what is queued is dropped. on_closed follows at the end of the turn. Idempotent. */
void fb_connection_close(struct fb_connection* self);

#endif
