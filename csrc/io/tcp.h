/* Sockets that never block: opened, accepted and connected, with their peers' addresses as text.
 *
 * All of these leave the reason in errno when they give FB_EIO. Sockets are closed on exec, send small
 * pieces at once (TCP_NODELAY), and never raise SIGPIPE. Peers that vanished, with no packet to say so, are noticed
 * as fast as fb_tcp_set_patience() asks for; by themselves some systems take hours, or never do.
 *
 * Owner:   the caller owns the descriptors.
 * Threads: any; resolve() may wait for a name server, the others do not wait. */
#ifndef FB_TCP_H
#define FB_TCP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define FB_ADDRESS_TEXT_SIZE 80 /* bytes for "[IPv6 address]:port" and its end */

struct fb_tcp_address {
  struct sockaddr_storage bytes;
  socklen_t size;
};

/* Finds the address of a name or a number, such as "worker-3", "127.0.0.1" or "::1". FB_EIO (errno EINVAL: no
 * such name), FB_EARGUMENT. */
int fb_tcp_address_resolve(struct fb_tcp_address* self, const char* host, uint16_t port);
/* Of several addresses of a name an IPv4 one, as Java takes it: where a name has both, listening at 127.0.0.1 or
 * 0.0.0.0 is what most do, and whoever asks for "localhost" has to come there. */
struct addrinfo;
const struct addrinfo* fb_tcp_address_choose(const struct addrinfo* found);
/* "127.0.0.1:6121" or "[::1]:6121" into FB_ADDRESS_TEXT_SIZE bytes. */
void fb_tcp_address_text(const struct fb_tcp_address* self, char* text);
uint16_t fb_tcp_address_port(const struct fb_tcp_address* self);

/* Listens; *address becomes the one in use, with the port that port 0 stood for. FB_EIO. */
int fb_tcp_listen(struct fb_tcp_address* address, int backlog, int* fd);
/* FB_OK with a connection, 1 if there is none now, FB_EIO. */
int fb_tcp_accept(int listener, int* fd, struct fb_tcp_address* peer);
/* FB_OK: connected; 1: on its way, the socket will be writable when it is decided; FB_EIO. */
int fb_tcp_connect(const struct fb_tcp_address* peer, int* fd);
/* Two sockets of this process that talk with each other. FB_EIO. */
int fb_tcp_pair(int fds[2]);
/* The errno of a socket: how a connect ended, why it hung up; 0: nothing wrong. */
int fb_tcp_error(int fd);
/* When a peer whose machine does not answer counts as gone. One that answers is never given up, however little it
 * reads or says: its system acknowledges packets for it, also while it is stopped. */
struct fb_tcp_patience {
  uint32_t keep_idle_s;     /* silence before the peer's system is probed; 0: 5 */
  uint32_t keep_interval_s; /* between probes; 0: 2 */
  uint32_t keep_count;      /* unanswered probes; 0: 3 */
  uint32_t dead_ms;         /* without an answer to what is sent again; 0: as the system does, some 15 minutes */
};
/* Has the system probe the peer of a connection that stands, while nothing is under way. */
void fb_tcp_set_patience(int fd, const struct fb_tcp_patience* patience);

/* While something is under way it is the caller's to look now and then: what the system offers also ends connections
 * whose peer answers, but does not read. */
enum fb_tcp_pulse {
  FB_TCP_IDLE = 0,   /* nothing is under way, or the system does not say */
  FB_TCP_ALIVE = 1,  /* the peer's system has acknowledged what it should have by now */
  FB_TCP_SILENT = 2, /* something was sent again, and nothing has been acknowledged for `window_ms` */
};
enum fb_tcp_pulse fb_tcp_feel_pulse(int fd, uint32_t window_ms);
/* That offer, for sockets at which nobody looks: 0 leaves it as it is. */
void fb_tcp_set_user_timeout(int fd, uint32_t timeout_ms);

/* Writes what fits now. Bytes; 0 if nothing fits; FB_EIO. */
int64_t fb_tcp_write(int fd, const struct iovec* ranges, size_t count);
/* The same where more follows at once, which is to travel with it. */
int64_t fb_tcp_write_more(int fd, const struct iovec* ranges, size_t count);
/* Reads what is there. Bytes; 0 if nothing is there; FB_EFINISHED: the peer has ended its side; FB_EIO. */
int64_t fb_tcp_read(int fd, const struct iovec* ranges, size_t count);

#endif
