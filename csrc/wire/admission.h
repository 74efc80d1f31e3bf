/* Lets connections in: each says the preface first, and is handed on once its peer is proven.
 *
 * Until then nothing but the preface is read from it, within a time limit, and of those that wait only so many
 * are kept: the one that has waited longest goes when one too many comes, for an honest peer is done in two round
 * trips. Who is refused is told why, and kept a little for it to be read; again only so many. Without a secret
 * everybody is let in at once. What was refused is counted, and the last reason kept, for whoever looks.
 *
 * Owner:   borrows the reactor; a connection and what its peer sends belong to the admission from start() until
 *          on_proven() or on_refused().
 * Threads: open, close, the counters and the last reason from any; everything else on the I/O thread. */
#ifndef FB_ADMISSION_H
#define FB_ADMISSION_H

#include "io/connection.h"
#include "wire/preface.h"

struct fb_admission; /* opaque */

struct fb_admission_options {
  const uint8_t* secret; /* copied; NULL: none, everybody is let in */
  size_t secret_size;    /* bytes, at least FB_PREFACE_MIN_SECRET */
  bool is_server;
  int64_t timeout_ms;    /* from start() to the proof; 0: 10000 */
  uint32_t max_unproven; /* that wait for their proof; 0: 1024, or a quarter of the descriptors if that is less */
};

struct fb_admission_handler {
  /* Takes the connection over, first of all with fb_connection_set_handler(). [data, data + size) came behind the
   * preface. */
  void (*on_proven)(struct fb_connection* connection, void* context, const uint8_t* data, size_t size);
  /* The last call, as on_closed of a connection. `code` is FB_ECORRUPT where one side refused the other. `reason` is
   * NULL where stop() or the reactor closed it. May be NULL. */
  void (*on_refused)(struct fb_connection* connection, void* context, int code, const char* reason);
};

struct fb_admission_counters {
  uint32_t unproven; /* connections that were started and neither handed on nor closed */
  uint64_t refused;  /* since the start */
};

/* FB_ENOMEM; FB_EARGUMENT: the secret is too short. */
int fb_admission_open(struct fb_reactor* reactor, const struct fb_admission_options* options,
                      struct fb_admission** self);
/* None of its connections is left: stop() was called, and `unproven` is 0. Wipes the secret. */
void fb_admission_close(struct fb_admission* self);

/* Begins with a connection that stands. FB_ENOMEM, FB_EIO (no random bytes): nothing happened. */
int fb_admission_start(struct fb_admission* self, struct fb_connection* connection,
                       const struct fb_admission_handler* handler, void* context);
/* Closes those that wait. They are gone at the end of the turn. */
void fb_admission_stop(struct fb_admission* self);
/* Counts one that was refused for a reason which somebody else saw; from any thread. */
void fb_admission_note(struct fb_admission* self, const char* reason);

/* How many connections that have proved nothing a process keeps: 1024, or a quarter of the descriptors. */
uint32_t fb_admission_strangers_max(void);

void fb_admission_get_counters(struct fb_admission* self, struct fb_admission_counters* counters);
/* Why the last one was refused, with the peer's address; empty if none was. */
#define FB_ADMISSION_REASON_SIZE 320
void fb_admission_last_reason(struct fb_admission* self, char* reason);

#endif
