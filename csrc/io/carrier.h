/* Somebody in this process who carries the bytes of a connection over the network in its own way (TLS): the
 * connection has one end of a local pair of sockets, the carrier the other. What the carrier knows of the
 * connection's end is kept here, for the two to share.
 *
 * Owner:   counted; the connection has a reference and the carrier another.
 * Threads: any. */
#ifndef FB_CARRIER_H
#define FB_CARRIER_H

#define FB_CARRIER_REASON_SIZE 240 /* bytes of a reason and its end */

struct fb_carrier; /* opaque */

/* With one reference; NULL without memory. */
struct fb_carrier* fb_carrier_new(void);
void fb_carrier_retain(struct fb_carrier* self);
void fb_carrier_drop(struct fb_carrier* self);

/* Why the connection ends: `code` and a sentence, cut if it is long. Said before the carrier closes its end; the first
 * one stays. FB_ECORRUPT: one side refused the other. */
void fb_carrier_fail(struct fb_carrier* self, int code, const char* reason);
/* The code, and the sentence into FB_CARRIER_REASON_SIZE bytes; FB_OK and an empty one if nothing was said. */
int fb_carrier_failure(struct fb_carrier* self, char* reason);

#endif
