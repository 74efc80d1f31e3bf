/* Connections that somebody else makes: the I/O thread asks for one, a thread that can (tls_tunnel.py) takes the
 * call, dials in its own way, and carries the bytes (carrier.h).
 *
 * Owner:   calls that nobody took go with the dialer; their connections end.
 * Threads: open, fd, take and close from any, close after the others; connect on the I/O thread. */
#ifndef FB_DIALER_H
#define FB_DIALER_H

#include "io/connection.h"

struct fb_dialer; /* opaque */

/* FB_ENOMEM; FB_EIO with errno: no descriptors are left. */
int fb_dialer_open(struct fb_dialer** self);
void fb_dialer_close(struct fb_dialer* self);
/* Readable after a call came: read what is there, then take all calls. Not the caller's to close. */
int fb_dialer_fd(const struct fb_dialer* self);

/* As fb_connection_connect(), of which it takes the place. FB_ENOMEM, FB_EIO with errno, FB_ESTATE. */
int fb_dialer_connect(struct fb_dialer* self, struct fb_reactor* reactor, const struct fb_tcp_address* peer,
                      int64_t timeout_ms, const struct fb_connection_handler* handler, void* context,
                      struct fb_connection** connection);

struct fb_call {
  struct fb_carried carried; /* the carrier's end of the pair, and its reference: the taker's to close and drop */
  struct fb_tcp_address peer;
  int64_t timeout_ms; /* for the connection to stand */
};
/* false: none waits. */
bool fb_dialer_take(struct fb_dialer* self, struct fb_call* call);

#endif
