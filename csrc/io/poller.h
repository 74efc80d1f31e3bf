/* Which descriptors are ready: epoll on Linux, poll() elsewhere or with FB_USE_POLL.
 *
 * Readiness is reported as long as it lasts (level-triggered).
 *
 * Owner:   the watches belong to the caller and stay where they are from add() to remove().
 * Threads: one, the reactor's. */
#ifndef FB_POLLER_H
#define FB_POLLER_H

#include <stdbool.h>
#include <stdint.h>

#if !defined(__linux__) && !defined(FB_USE_POLL)
#define FB_USE_POLL 1
#endif

enum { FB_READABLE = 1, FB_WRITABLE = 2, FB_HUNG_UP = 4 };

/* One watched descriptor; embedded in what it belongs to. */
struct fb_watch {
  int fd;           /* -1: not watched */
  uint8_t interest; /* FB_READABLE, FB_WRITABLE; FB_HUNG_UP is always told */
  uint32_t place;   /* the poller's */
};

struct fb_ready {
  struct fb_watch* watch;
  uint8_t events;
};

#ifdef FB_USE_POLL
struct pollfd;
struct fb_poller {
  struct pollfd* fds;
  struct fb_watch** watches;
  uint32_t count;
  uint32_t capacity;
  uint32_t next; /* where the next wait() starts to report, so that nobody starves */
  bool is_open;
};
#else
struct fb_poller {
  int fd;
  bool is_open;
};
#endif

/* FB_EIO with errno. All-zero is closed. */
int fb_poller_open(struct fb_poller* self);
void fb_poller_close(struct fb_poller* self);
/* Watches `fd`. FB_ENOMEM, FB_EIO. */
int fb_poller_add(struct fb_poller* self, struct fb_watch* watch, int fd, uint8_t interest);
/* Nothing happens if the interest is the same. */
void fb_poller_change(struct fb_poller* self, struct fb_watch* watch, uint8_t interest);
/* Before the descriptor is closed. Sets watch->fd to -1; one that is not watched is left alone. */
void fb_poller_remove(struct fb_poller* self, struct fb_watch* watch);
/* Waits up to timeout_ms (< 0: for ever) and fills at most `capacity` of `ready`. Their number; 0 also when a
 * signal came; FB_EIO. */
int fb_poller_wait(struct fb_poller* self, int64_t timeout_ms, struct fb_ready* ready, uint32_t capacity);

#endif
