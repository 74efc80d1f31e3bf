#include "io/carrier.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/errors.h"

struct fb_carrier {
  _Atomic unsigned references;
  pthread_mutex_t lock; /* of what follows */
  int code;
  char reason[FB_CARRIER_REASON_SIZE];
};

struct fb_carrier* fb_carrier_new(void) {
  struct fb_carrier* self = calloc(1, sizeof(*self));

  if (self == NULL) return NULL;
  atomic_init(&self->references, 1);
  if (pthread_mutex_init(&self->lock, NULL) == 0) return self;
  free(self);
  return NULL;
}

void fb_carrier_retain(struct fb_carrier* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed);
}

void fb_carrier_drop(struct fb_carrier* self) {
  /* Release what this owner did, and acquire what the others did before it is freed. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) > 1) return;
  pthread_mutex_destroy(&self->lock);
  free(self);
}

void fb_carrier_fail(struct fb_carrier* self, int code, const char* reason) {
  pthread_mutex_lock(&self->lock);
  if (self->code == FB_OK) {
    self->code = code;
    snprintf(self->reason, sizeof self->reason, "%s", reason);
  }
  pthread_mutex_unlock(&self->lock);
}

int fb_carrier_failure(struct fb_carrier* self, char* reason) {
  int code;

  pthread_mutex_lock(&self->lock);
  code = self->code;
  memcpy(reason, self->reason, sizeof self->reason);
  pthread_mutex_unlock(&self->lock);
  return code;
}
