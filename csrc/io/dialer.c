#include "io/dialer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "ground/errors.h"

struct waiting_call {
  struct fb_call call;
  struct waiting_call* next;
};

struct fb_dialer {
  pthread_mutex_t lock; /* of the queue */
  struct waiting_call *first, *last;
  int bell[2]; /* a pair of sockets: the taker's end, and the one that rings */
};

int fb_dialer_open(struct fb_dialer** self) {
  struct fb_dialer* opened = calloc(1, sizeof(*opened));
  int code;

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  code = fb_tcp_pair(opened->bell);
  if (code < 0) goto no_bell;
  if (pthread_mutex_init(&opened->lock, NULL) != 0) goto no_lock;
  *self = opened;
  return FB_OK;

no_lock:
  code = FB_ENOMEM;
  close(opened->bell[0]);
  close(opened->bell[1]);
no_bell:
  free(opened);
  return code;
}

void fb_dialer_close(struct fb_dialer* self) {
  struct fb_call call;

  if (self == NULL) return;
  while (fb_dialer_take(self, &call)) {
    fb_carrier_fail(call.carried.carrier, FB_EIO, "nobody dials any more");
    close(call.carried.fd);
    fb_carrier_drop(call.carried.carrier);
  }
  close(self->bell[0]);
  close(self->bell[1]);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

int fb_dialer_fd(const struct fb_dialer* self) { return self->bell[0]; }

static void put_call(struct fb_dialer* self, struct waiting_call* call) {
  uint8_t byte = 0;
  struct iovec ring = {&byte, 1};

  pthread_mutex_lock(&self->lock);
  call->next = NULL;
  if (self->last != NULL) self->last->next = call;
  else self->first = call;
  self->last = call;
  pthread_mutex_unlock(&self->lock);
  /* A bell that is full of rings has been heard or will be. */
  fb_tcp_write(self->bell[1], &ring, 1);
}

int fb_dialer_connect(struct fb_dialer* self, struct fb_reactor* reactor, const struct fb_tcp_address* peer,
                      int64_t timeout_ms, const struct fb_connection_handler* handler, void* context,
                      struct fb_connection** connection) {
  struct waiting_call* call = calloc(1, sizeof *call);
  struct fb_carrier* carrier = fb_carrier_new();
  int fds[2], code = FB_ENOMEM, error;

  if (call == NULL || carrier == NULL) goto failed;
  code = fb_tcp_pair(fds);
  if (code < 0) goto failed;
  fb_carrier_retain(carrier); /* adopt() takes one over, whatever comes of it */
  code = fb_connection_adopt(reactor, peer, &(struct fb_carried){fds[0], carrier}, timeout_ms, connection);
  if (code < 0) {
    error = errno;
    close(fds[1]);
    errno = error;
    goto failed;
  }
  fb_connection_set_handler(*connection, handler, context);
  *call = (struct waiting_call){.call = {{fds[1], carrier}, *peer, timeout_ms}};
  put_call(self, call);
  return FB_OK;

failed:
  if (carrier != NULL) fb_carrier_drop(carrier);
  free(call);
  return code;
}

bool fb_dialer_take(struct fb_dialer* self, struct fb_call* call) {
  struct waiting_call* taken;

  pthread_mutex_lock(&self->lock);
  taken = self->first;
  if (taken != NULL) self->first = taken->next;
  if (self->first == NULL) self->last = NULL;
  pthread_mutex_unlock(&self->lock);
  if (taken == NULL) return false;
  *call = taken->call;
  free(taken);
  return true;
}
