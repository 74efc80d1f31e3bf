#include "io/poller.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "ground/errors.h"

/* A wait is cut to what the system call can express; the caller looks at its clock anyway. */
static int clipped_timeout(int64_t timeout_ms) {
  if (timeout_ms < 0) return -1;
  return timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;
}

#ifdef FB_USE_POLL

#include <poll.h>

int fb_poller_open(struct fb_poller* self) {
  *self = (struct fb_poller){.is_open = true};
  return FB_OK;
}

void fb_poller_close(struct fb_poller* self) {
  free(self->fds);
  free(self->watches);
  *self = (struct fb_poller){0};
}

static int grow_watches(struct fb_poller* self) {
  uint32_t capacity = self->capacity > 0 ? 2 * self->capacity : 16;
  struct fb_watch** watches = realloc(self->watches, capacity * sizeof *watches);
  struct pollfd* fds;

  if (watches == NULL) return FB_ENOMEM;
  self->watches = watches;
  fds = realloc(self->fds, capacity * sizeof *fds);
  if (fds == NULL) return FB_ENOMEM;
  self->fds = fds;
  self->capacity = capacity;
  return FB_OK;
}

static short flags_of(uint8_t interest) {
  return (short)((interest & FB_READABLE ? POLLIN : 0) | (interest & FB_WRITABLE ? POLLOUT : 0));
}

static uint8_t events_of(short flags) {
  return (uint8_t)((flags & POLLIN ? FB_READABLE : 0) | (flags & POLLOUT ? FB_WRITABLE : 0) |
                   (flags & (POLLERR | POLLHUP | POLLNVAL) ? FB_HUNG_UP : 0));
}

int fb_poller_add(struct fb_poller* self, struct fb_watch* watch, int fd, uint8_t interest) {
  if (self->count == self->capacity && grow_watches(self) < 0) return FB_ENOMEM;
  self->watches[self->count] = watch;
  self->fds[self->count] = (struct pollfd){.fd = fd, .events = flags_of(interest)};
  *watch = (struct fb_watch){.fd = fd, .interest = interest, .place = self->count++};
  return FB_OK;
}

void fb_poller_change(struct fb_poller* self, struct fb_watch* watch, uint8_t interest) {
  if (watch->fd < 0) return;
  watch->interest = interest;
  self->fds[watch->place].events = flags_of(interest);
}

void fb_poller_remove(struct fb_poller* self, struct fb_watch* watch) {
  if (watch->fd < 0) return;
  self->count--;
  self->fds[watch->place] = self->fds[self->count];
  self->watches[watch->place] = self->watches[self->count];
  self->watches[watch->place]->place = watch->place;
  watch->fd = -1;
}

int fb_poller_wait(struct fb_poller* self, int64_t timeout_ms, struct fb_ready* ready, uint32_t capacity) {
  int ready_count = poll(self->fds, self->count, clipped_timeout(timeout_ms));
  uint32_t filled = 0;

  if (ready_count < 0) return errno == EINTR ? 0 : FB_EIO;
  if (self->next >= self->count) self->next = 0;
  for (uint32_t i = 0; i < self->count && filled < capacity && filled < (uint32_t)ready_count; i++) {
    uint32_t at = self->next + i < self->count ? self->next + i : self->next + i - self->count;
    if (self->fds[at].revents == 0) continue;
    ready[filled++] = (struct fb_ready){self->watches[at], events_of(self->fds[at].revents)};
    if (filled == capacity) self->next = at + 1;
  }
  return (int)filled;
}

#else

#include <sys/epoll.h>

enum { EVENTS_AT_ONCE = 64 };

int fb_poller_open(struct fb_poller* self) {
  self->fd = epoll_create1(EPOLL_CLOEXEC);
  self->is_open = self->fd >= 0;
  return self->is_open ? FB_OK : FB_EIO;
}

void fb_poller_close(struct fb_poller* self) {
  if (!self->is_open) return;
  close(self->fd);
  *self = (struct fb_poller){0};
}

static struct epoll_event event_for(struct fb_watch* watch) {
  struct epoll_event event = {.data = {.ptr = watch}};
  if (watch->interest & FB_READABLE) event.events |= EPOLLIN;
  if (watch->interest & FB_WRITABLE) event.events |= EPOLLOUT;
  return event;
}

static uint8_t events_of(uint32_t flags) {
  return (uint8_t)((flags & EPOLLIN ? FB_READABLE : 0) | (flags & EPOLLOUT ? FB_WRITABLE : 0) |
                   (flags & (EPOLLERR | EPOLLHUP) ? FB_HUNG_UP : 0));
}

int fb_poller_add(struct fb_poller* self, struct fb_watch* watch, int fd, uint8_t interest) {
  struct epoll_event event;

  *watch = (struct fb_watch){.fd = fd, .interest = interest};
  event = event_for(watch);
  if (epoll_ctl(self->fd, EPOLL_CTL_ADD, fd, &event) == 0) return FB_OK;
  watch->fd = -1;
  return errno == ENOMEM ? FB_ENOMEM : FB_EIO;
}

void fb_poller_change(struct fb_poller* self, struct fb_watch* watch, uint8_t interest) {
  struct epoll_event event;

  if (watch->fd < 0 || watch->interest == interest) return;
  watch->interest = interest;
  event = event_for(watch);
  epoll_ctl(self->fd, EPOLL_CTL_MOD, watch->fd, &event);
}

void fb_poller_remove(struct fb_poller* self, struct fb_watch* watch) {
  if (watch->fd < 0) return;
  epoll_ctl(self->fd, EPOLL_CTL_DEL, watch->fd, NULL);
  watch->fd = -1;
}

int fb_poller_wait(struct fb_poller* self, int64_t timeout_ms, struct fb_ready* ready, uint32_t capacity) {
  struct epoll_event events[EVENTS_AT_ONCE];
  int limit = capacity < EVENTS_AT_ONCE ? (int)capacity : EVENTS_AT_ONCE;
  int count = epoll_wait(self->fd, events, limit, clipped_timeout(timeout_ms));

  if (count < 0) return errno == EINTR ? 0 : FB_EIO;
  for (int i = 0; i < count; i++) ready[i] = (struct fb_ready){events[i].data.ptr, events_of(events[i].events)};
  return count;
}

#endif
