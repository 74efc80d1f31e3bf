#include "wire/buffer_manager.h"

/* ---- lists, under the lock -------------------------------------------------------------------------- */

static void push_buffer(struct fb_buffer** list, uint32_t* count, struct fb_buffer* buffer) {
  buffer->next = *list;
  *list = buffer;
  ++*count;
}

static struct fb_buffer* pop_buffer(struct fb_buffer** list, uint32_t* count) {
  struct fb_buffer* buffer = *list;

  if (buffer == NULL) return NULL;
  *list = buffer->next;
  --*count;
  return buffer;
}

static uint32_t available_count(const struct fb_buffer_manager* self) {
  return self->exclusive_count + self->floating_count;
}

/* ---- exclusive buffers ------------------------------------------------------------------------------ */

/* The buffer's last holder is done: it waits again, or goes home for good. */
static void recycle_exclusive(struct fb_buffer* buffer) {
  struct fb_buffer_manager* self = buffer->owner;
  struct fb_buffer* surplus = NULL;
  bool is_released;

  fb_buffer_reset(buffer, recycle_exclusive, self);
  self->owner->retain(self); /* whoever releases the manager gives up the buffer's reference as soon as it waits */
  pthread_mutex_lock(&self->lock);
  is_released = self->is_released;
  if (!is_released) {
    push_buffer(&self->exclusive, &self->exclusive_count, buffer);
    if (available_count(self) > self->required) surplus = pop_buffer(&self->floating, &self->floating_count);
  }
  pthread_mutex_unlock(&self->lock);
  if (is_released) {
    fb_buffer_reset(buffer, NULL, self->network_pool);
    fb_network_buffer_pool_recycle_unpooled(self->network_pool, &buffer, 1);
    self->owner->drop(self);
  } else if (surplus != NULL) {
    fb_buffer_release(surplus); /* one came, one went: no new credit */
  } else {
    self->owner->on_credit(self, 1);
  }
  self->owner->drop(self);
}

void fb_buffer_manager_add_exclusive(struct fb_buffer_manager* self, struct fb_buffer** buffers, uint32_t count) {
  pthread_mutex_lock(&self->lock);
  for (uint32_t i = 0; i < count; i++) {
    fb_buffer_reset(buffers[i], recycle_exclusive, self);
    push_buffer(&self->exclusive, &self->exclusive_count, buffers[i]);
  }
  pthread_mutex_unlock(&self->lock);
  for (uint32_t i = 0; i < count; i++) self->owner->retain(self);
}

/* ---- floating buffers ------------------------------------------------------------------------------- */

/* Whether another floating buffer should be borrowed now. */
static bool wants_more(struct fb_buffer_manager* self) {
  bool wants;

  pthread_mutex_lock(&self->lock);
  wants = !self->is_released && !self->is_waiting && available_count(self) < self->required;
  pthread_mutex_unlock(&self->lock);
  return wants;
}

/* Keeps a borrowed buffer if it is still wanted; another thread may have brought one meanwhile. */
static bool keep_buffer(struct fb_buffer_manager* self, struct fb_buffer* buffer) {
  bool is_wanted;

  pthread_mutex_lock(&self->lock);
  is_wanted = !self->is_released && available_count(self) < self->required;
  if (is_wanted) push_buffer(&self->floating, &self->floating_count, buffer);
  pthread_mutex_unlock(&self->lock);
  return is_wanted;
}

/* Registers with the pool. False: it has a buffer after all, or is destroyed, or another thread was faster. */
static bool start_waiting(struct fb_buffer_manager* self) {
  bool is_first;

  pthread_mutex_lock(&self->lock);
  is_first = !self->is_released && !self->is_waiting;
  if (is_first) self->is_waiting = true;
  pthread_mutex_unlock(&self->lock);
  if (!is_first) return false;
  self->owner->retain(self); /* for the pool, which may call until it has */
  if (fb_local_buffer_pool_add_listener(self->pool, &self->listener)) return true;
  pthread_mutex_lock(&self->lock);
  self->is_waiting = false;
  pthread_mutex_unlock(&self->lock);
  self->owner->drop(self);
  return false;
}

/* Borrows until enough are waiting or the pool has none; returns how many came. */
static uint32_t borrow_floating(struct fb_buffer_manager* self) {
  uint32_t count = 0;

  while (wants_more(self)) {
    struct fb_buffer* buffer = NULL;
    if (fb_local_buffer_pool_request(self->pool, FB_NO_CHANNEL, &buffer) < 0) break; /* destroyed: the gate closes */
    if (buffer == NULL) {
      if (start_waiting(self)) break;
    } else if (keep_buffer(self, buffer)) {
      count++;
    } else {
      fb_buffer_release(buffer);
    }
  }
  return count;
}

static bool on_buffer_available(struct fb_buffer_listener* listener, struct fb_buffer* buffer) {
  struct fb_buffer_manager* self = (struct fb_buffer_manager*)listener;
  bool is_kept;

  pthread_mutex_lock(&self->lock);
  self->is_waiting = false;
  pthread_mutex_unlock(&self->lock);
  is_kept = keep_buffer(self, buffer);
  if (is_kept) self->owner->on_credit(self, 1 + borrow_floating(self));
  self->owner->drop(self); /* the registration that has ended */
  return is_kept;
}

static void on_pool_destroyed(struct fb_buffer_listener* listener) {
  struct fb_buffer_manager* self = (struct fb_buffer_manager*)listener;

  /* It stays "waiting": there will never be another buffer. */
  self->owner->drop(self);
}

void fb_buffer_manager_require(struct fb_buffer_manager* self, uint32_t required) {
  uint32_t came;

  pthread_mutex_lock(&self->lock);
  self->required = required;
  pthread_mutex_unlock(&self->lock);
  came = borrow_floating(self);
  if (came > 0) self->owner->on_credit(self, came);
}

struct fb_buffer* fb_buffer_manager_take(struct fb_buffer_manager* self) {
  struct fb_buffer* buffer;

  pthread_mutex_lock(&self->lock);
  if (self->required > 0) self->required--;
  buffer = pop_buffer(&self->floating, &self->floating_count);
  if (buffer == NULL) buffer = pop_buffer(&self->exclusive, &self->exclusive_count);
  pthread_mutex_unlock(&self->lock);
  return buffer;
}

static void release_list(struct fb_buffer* list) {
  while (list != NULL) {
    struct fb_buffer* next = list->next;
    fb_buffer_release(list);
    list = next;
  }
}

void fb_buffer_manager_release_floating(struct fb_buffer_manager* self) {
  struct fb_buffer* floating;

  pthread_mutex_lock(&self->lock);
  self->required = 0;
  floating = self->floating;
  self->floating = NULL;
  self->floating_count = 0;
  pthread_mutex_unlock(&self->lock);
  release_list(floating);
}

/* ---- life ------------------------------------------------------------------------------------------- */

int fb_buffer_manager_open(struct fb_buffer_manager* self, const struct fb_buffer_manager_owner* owner,
                           struct fb_network_buffer_pool* network_pool, struct fb_local_buffer_pool* pool) {
  *self = (struct fb_buffer_manager){
      .listener = {.on_buffer_available = on_buffer_available, .on_pool_destroyed = on_pool_destroyed},
      .owner = owner,
      .network_pool = network_pool,
      .pool = pool};
  if (pthread_mutex_init(&self->lock, NULL) != 0) return FB_ENOMEM;
  self->is_open = true;
  return FB_OK;
}

void fb_buffer_manager_close(struct fb_buffer_manager* self) {
  if (!self->is_open) return;
  pthread_mutex_destroy(&self->lock);
  self->is_open = false;
}

/* All of one channel in one go: the network pool shares out anew once, not once a buffer. */
static void return_exclusive(struct fb_buffer_manager* self, struct fb_buffer* list) {
  while (list != NULL) {
    struct fb_buffer* batch[64];
    uint32_t count = 0;
    for (; list != NULL && count < sizeof batch / sizeof batch[0]; count++) {
      batch[count] = list;
      list = list->next;
      fb_buffer_reset(batch[count], NULL, self->network_pool);
    }
    fb_network_buffer_pool_recycle_unpooled(self->network_pool, batch, count);
    while (count-- > 0) self->owner->drop(self);
  }
}

void fb_buffer_manager_release(struct fb_buffer_manager* self) {
  struct fb_buffer *floating, *exclusive;
  bool was_waiting;

  pthread_mutex_lock(&self->lock);
  was_waiting = self->is_waiting;
  self->is_released = true;
  self->required = 0;
  floating = self->floating;
  exclusive = self->exclusive;
  self->floating = self->exclusive = NULL;
  self->floating_count = self->exclusive_count = 0;
  pthread_mutex_unlock(&self->lock);
  /* Not registered (any more): whoever is being told drops the registration's reference. */
  if (was_waiting && fb_local_buffer_pool_remove_listener(self->pool, &self->listener)) self->owner->drop(self);
  release_list(floating);
  return_exclusive(self, exclusive);
}

uint32_t fb_buffer_manager_available(struct fb_buffer_manager* self) {
  uint32_t count;

  pthread_mutex_lock(&self->lock);
  count = available_count(self);
  pthread_mutex_unlock(&self->lock);
  return count;
}

uint32_t fb_buffer_manager_required(struct fb_buffer_manager* self) {
  uint32_t required;

  pthread_mutex_lock(&self->lock);
  required = self->required;
  pthread_mutex_unlock(&self->lock);
  return required;
}
