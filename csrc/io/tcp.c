/* accept4, SOCK_CLOEXEC */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ground/errors.h"

#ifdef MSG_NOSIGNAL
#define SEND_FLAGS MSG_NOSIGNAL
#else
#define SEND_FLAGS 0
#endif

enum { KEEP_IDLE_S = 5, KEEP_INTERVAL_S = 2, KEEP_COUNT = 3 };

/* Darwin's names. */
#if !defined(TCP_KEEPIDLE) && defined(TCP_KEEPALIVE)
#define TCP_KEEPIDLE TCP_KEEPALIVE
#endif

/* ---- addresses ------------------------------------------------------------------------------------- */

const struct addrinfo* fb_tcp_address_choose(const struct addrinfo* found) {
  for (const struct addrinfo* at = found; at != NULL; at = at->ai_next)
    if (at->ai_family == AF_INET) return at;
  return found;
}

int fb_tcp_address_resolve(struct fb_tcp_address* self, const char* host, uint16_t port) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  const struct addrinfo* chosen;
  struct addrinfo* found;
  char service[8];
  int failed;

  if (host == NULL || host[0] == 0) return FB_EARGUMENT;
  snprintf(service, sizeof service, "%u", port);
  failed = getaddrinfo(host, service, &hints, &found);
  if (failed != 0) {
    if (failed != EAI_SYSTEM) errno = EINVAL;
    return FB_EIO;
  }
  memset(self, 0, sizeof(*self));
  chosen = fb_tcp_address_choose(found);
  memcpy(&self->bytes, chosen->ai_addr, chosen->ai_addrlen);
  self->size = chosen->ai_addrlen;
  freeaddrinfo(found);
  return FB_OK;
}

void fb_tcp_address_text(const struct fb_tcp_address* self, char* text) {
  char host[INET6_ADDRSTRLEN + 16] = "?";

  getnameinfo((const struct sockaddr*)&self->bytes, self->size, host, sizeof host, NULL, 0, NI_NUMERICHOST);
  snprintf(text, FB_ADDRESS_TEXT_SIZE, self->bytes.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
           fb_tcp_address_port(self));
}

uint16_t fb_tcp_address_port(const struct fb_tcp_address* self) {
  if (self->bytes.ss_family == AF_INET) return ntohs(((const struct sockaddr_in*)&self->bytes)->sin_port);
  if (self->bytes.ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6*)&self->bytes)->sin6_port);
  return 0;
}

/* ---- sockets --------------------------------------------------------------------------------------- */

/* Closes without losing the errno that is to be reported. */
static void close_quietly(int fd) {
  int kept = errno;
  close(fd);
  errno = kept;
}

static int set_flag(int fd, int level, int option, int value) {
  return setsockopt(fd, level, option, &value, sizeof value);
}

#ifndef SOCK_NONBLOCK
static int set_non_blocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return -1;
  return fcntl(fd, F_SETFD, FD_CLOEXEC);
}
#endif

static int new_socket(int family) {
#ifdef SOCK_NONBLOCK
  return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
#else
  int fd = socket(family, SOCK_STREAM, 0);
  if (fd >= 0 && set_non_blocking(fd) < 0) {
    close_quietly(fd);
    return -1;
  }
  return fd;
#endif
}

/* Best effort: a system that lacks one of these still carries data. */
static void set_options(int fd) {
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
#ifdef SO_NOSIGPIPE
  set_flag(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
}

static int or_default(uint32_t value, int otherwise) { return value > 0 && value <= INT_MAX ? (int)value : otherwise; }

void fb_tcp_set_patience(int fd, const struct fb_tcp_patience* patience) {
  set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
  set_flag(fd, IPPROTO_TCP, TCP_KEEPIDLE, or_default(patience->keep_idle_s, KEEP_IDLE_S));
#endif
#ifdef TCP_KEEPINTVL
  set_flag(fd, IPPROTO_TCP, TCP_KEEPINTVL, or_default(patience->keep_interval_s, KEEP_INTERVAL_S));
  set_flag(fd, IPPROTO_TCP, TCP_KEEPCNT, or_default(patience->keep_count, KEEP_COUNT));
#endif
}

void fb_tcp_set_user_timeout(int fd, uint32_t timeout_ms) {
  if (timeout_ms == 0) return;
#ifdef TCP_USER_TIMEOUT
  set_flag(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, or_default(timeout_ms, INT_MAX));
#elif defined(TCP_RXT_CONNDROPTIME)
  set_flag(fd, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, or_default((timeout_ms + 999) / 1000, INT_MAX));
#else
  (void)fd;
#endif
}

#if defined(__linux__) && defined(TCP_INFO)
enum fb_tcp_pulse fb_tcp_feel_pulse(int fd, uint32_t window_ms) {
  struct tcp_info info;
  socklen_t size = sizeof info;
  int outstanding = 0; /* bytes that are not acknowledged, or not even sent */

  if (ioctl(fd, TIOCOUTQ, &outstanding) < 0 || outstanding == 0) return FB_TCP_IDLE;
  memset(&info, 0, sizeof info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0) return FB_TCP_IDLE;
  /* An answer sets both counts back: also one that says that there is no room. */
  if (info.tcpi_retransmits == 0 && info.tcpi_probes == 0) return FB_TCP_ALIVE;
  return info.tcpi_last_ack_recv >= window_ms ? FB_TCP_SILENT : FB_TCP_ALIVE;
}
#else
enum fb_tcp_pulse fb_tcp_feel_pulse(int fd, uint32_t window_ms) {
  (void)fd, (void)window_ms;
  return FB_TCP_IDLE;
}
#endif

int fb_tcp_listen(struct fb_tcp_address* address, int backlog, int* fd) {
  int opened = new_socket(address->bytes.ss_family);

  if (opened < 0) return FB_EIO;
  set_flag(opened, SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(opened, (const struct sockaddr*)&address->bytes, address->size) < 0 || listen(opened, backlog) < 0)
    goto failed;
  address->size = sizeof address->bytes;
  if (getsockname(opened, (struct sockaddr*)&address->bytes, &address->size) < 0) goto failed;
  *fd = opened;
  return FB_OK;

failed:
  close_quietly(opened);
  return FB_EIO;
}

int fb_tcp_accept(int listener, int* fd, struct fb_tcp_address* peer) {
  peer->size = sizeof peer->bytes;
  for (;;) {
#ifdef SOCK_NONBLOCK
    *fd = accept4(listener, (struct sockaddr*)&peer->bytes, &peer->size, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
    *fd = accept(listener, (struct sockaddr*)&peer->bytes, &peer->size);
    if (*fd >= 0 && set_non_blocking(*fd) < 0) {
      close_quietly(*fd);
      return FB_EIO;
    }
#endif
    if (*fd >= 0) break;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 1;
    /* A connection that was gone before it was accepted says nothing about the next. */
    if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO) return FB_EIO;
  }
  set_options(*fd);
  return FB_OK;
}

int fb_tcp_connect(const struct fb_tcp_address* peer, int* fd) {
  int opened = new_socket(peer->bytes.ss_family);

  if (opened < 0) return FB_EIO;
  set_options(opened);
  *fd = opened;
  if (connect(opened, (const struct sockaddr*)&peer->bytes, peer->size) == 0) return FB_OK;
  /* A connect that a signal interrupted goes on by itself. */
  if (errno == EINPROGRESS || errno == EINTR) return 1;
  close_quietly(opened);
  *fd = -1;
  return FB_EIO;
}

int fb_tcp_pair(int fds[2]) {
#ifdef SOCK_NONBLOCK
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0 ? FB_OK : FB_EIO;
#else
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0) return FB_EIO;
  for (int i = 0; i < 2; i++) {
    if (set_non_blocking(fds[i]) < 0) {
      close_quietly(fds[0]);
      close_quietly(fds[1]);
      return FB_EIO;
    }
#ifdef SO_NOSIGPIPE
    set_flag(fds[i], SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
  }
  return FB_OK;
#endif
}

int fb_tcp_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 ? errno : error;
}

/* ---- bytes ----------------------------------------------------------------------------------------- */

static int64_t send_ranges(int fd, const struct iovec* ranges, size_t count, int flags) {
  struct msghdr message = {.msg_iov = (struct iovec*)ranges};
  ssize_t written;

  message.msg_iovlen = (__typeof__(message.msg_iovlen))count;
  do {
    written = sendmsg(fd, &message, SEND_FLAGS | flags);
  } while (written < 0 && errno == EINTR);
  if (written >= 0) return written;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : FB_EIO;
}

int64_t fb_tcp_write(int fd, const struct iovec* ranges, size_t count) { return send_ranges(fd, ranges, count, 0); }

int64_t fb_tcp_write_more(int fd, const struct iovec* ranges, size_t count) {
#ifdef MSG_MORE
  return send_ranges(fd, ranges, count, MSG_MORE);
#else
  return send_ranges(fd, ranges, count, 0);
#endif
}

int64_t fb_tcp_read(int fd, const struct iovec* ranges, size_t count) {
  ssize_t got;

  do {
    got = readv(fd, ranges, (int)count);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return got;
  if (got == 0) return FB_EFINISHED;
  return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : FB_EIO;
}
