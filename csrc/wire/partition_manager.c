#include "wire/partition_manager.h"

#include <stdlib.h>
#include <string.h>

#define ID_SIZE 60
#define BUCKETS 256

struct entry {
  uint8_t id[ID_SIZE];
  struct fb_result_partition* partition;
  struct entry* next;
};

struct observer {
  struct fb_reactor* reactor;
  struct fb_task* task;
  struct observer* next;
};

struct fb_partition_manager {
  pthread_mutex_t lock;
  struct entry* buckets[BUCKETS];
  struct observer* observers;
  uint32_t count;
  struct fb_wakeup_list bells;
  _Atomic uint64_t registrations;
};

static struct entry** bucket_of(struct fb_partition_manager* self, const uint8_t* id) {
  uint32_t hash = 2166136261u;
  for (int i = 0; i < ID_SIZE; i++) hash = (hash ^ id[i]) * 16777619u;
  return &self->buckets[(hash ^ hash >> 16) % BUCKETS];
}

/* The link that holds the entry of `id`, or the empty one at the end of its bucket. */
static struct entry** managed_link_of(struct fb_partition_manager* self, const uint8_t* id) {
  struct entry** link = bucket_of(self, id);
  while (*link != NULL && memcmp((*link)->id, id, ID_SIZE) != 0) link = &(*link)->next;
  return link;
}

static struct entry* unlink_entry(struct fb_partition_manager* self, struct entry** link) {
  struct entry* found = *link;
  if (found == NULL) return NULL;
  *link = found->next;
  self->count--;
  return found;
}

static void free_managed(struct entry* entry) {
  fb_result_partition_drop(entry->partition);
  free(entry);
}

int fb_partition_manager_open(struct fb_partition_manager** self) {
  struct fb_partition_manager* opened = calloc(1, sizeof(*opened));

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  if (fb_wakeup_list_open(&opened->bells) < 0 || pthread_mutex_init(&opened->lock, NULL) != 0) {
    fb_wakeup_list_close(&opened->bells);
    free(opened);
    return FB_ENOMEM;
  }
  *self = opened;
  return FB_OK;
}

static struct entry* unlink_any(struct fb_partition_manager* self) {
  struct entry* found = NULL;

  pthread_mutex_lock(&self->lock);
  for (int i = 0; i < BUCKETS && found == NULL; i++) found = unlink_entry(self, &self->buckets[i]);
  pthread_mutex_unlock(&self->lock);
  return found;
}

static void release_all(struct fb_partition_manager* self, bool is_last_word) {
  struct entry* entry;

  while ((entry = unlink_any(self)) != NULL) {
    if (is_last_word) entry->partition->on_consumed = NULL;
    fb_result_partition_release(entry->partition);
    free_managed(entry);
  }
}

void fb_partition_manager_clear(struct fb_partition_manager* self) { release_all(self, false); }

void fb_partition_manager_close(struct fb_partition_manager* self) {
  if (self == NULL) return;
  release_all(self, true);
  while (self->observers != NULL) fb_partition_manager_remove_observer(self, self->observers->task);
  pthread_mutex_destroy(&self->lock);
  fb_wakeup_list_close(&self->bells);
  free(self);
}

/* All readers and the producer are done. Whoever was the last holds a reference of its own. */
static void on_consumed(struct fb_result_partition* partition, void* context) {
  struct fb_partition_manager* self = context;
  struct entry* found = NULL;

  pthread_mutex_lock(&self->lock);
  for (int i = 0; i < BUCKETS && found == NULL; i++)
    for (struct entry** link = &self->buckets[i]; *link != NULL && found == NULL;)
      if ((*link)->partition == partition) found = unlink_entry(self, link);
      else link = &(*link)->next;
  pthread_mutex_unlock(&self->lock);
  if (found != NULL) free_managed(found);
}

int fb_partition_manager_register(struct fb_partition_manager* self, const uint8_t* id,
                                  struct fb_result_partition* partition) {
  struct entry* entry = calloc(1, sizeof(*entry));
  struct entry** link;

  if (entry == NULL) return FB_ENOMEM;
  memcpy(entry->id, id, ID_SIZE);
  entry->partition = partition;
  pthread_mutex_lock(&self->lock);
  link = managed_link_of(self, id);
  if (*link != NULL) {
    pthread_mutex_unlock(&self->lock);
    free(entry);
    return FB_ESTATE;
  }
  fb_result_partition_retain(partition);
  partition->on_consumed = on_consumed;
  partition->on_consumed_context = self;
  *link = entry;
  self->count++;
  /* Release, partner of registrations(): who sees the number finds the partition. */
  atomic_fetch_add_explicit(&self->registrations, 1, memory_order_release);
  for (struct observer* at = self->observers; at != NULL; at = at->next)
    fb_reactor_post(at->reactor, at->task); /* refused: that reactor is closed and looks for nothing */
  pthread_mutex_unlock(&self->lock);
  fb_wakeup_list_ring(&self->bells);
  return FB_OK;
}

bool fb_partition_manager_unregister(struct fb_partition_manager* self, const uint8_t* id) {
  struct entry* found;

  pthread_mutex_lock(&self->lock);
  found = unlink_entry(self, managed_link_of(self, id));
  pthread_mutex_unlock(&self->lock);
  if (found != NULL) free_managed(found);
  return found != NULL;
}

struct fb_result_partition* fb_partition_manager_find(struct fb_partition_manager* self, const uint8_t* id) {
  struct fb_result_partition* partition = NULL;
  struct entry* found;

  pthread_mutex_lock(&self->lock);
  found = *managed_link_of(self, id);
  if (found != NULL) {
    partition = found->partition;
    fb_result_partition_retain(partition);
  }
  pthread_mutex_unlock(&self->lock);
  return partition;
}

uint32_t fb_partition_manager_count(struct fb_partition_manager* self) {
  uint32_t count;

  pthread_mutex_lock(&self->lock);
  count = self->count;
  pthread_mutex_unlock(&self->lock);
  return count;
}

int fb_partition_manager_add_observer(struct fb_partition_manager* self, struct fb_reactor* reactor,
                                      struct fb_task* task) {
  struct observer* observer = calloc(1, sizeof(*observer));

  if (observer == NULL) return FB_ENOMEM;
  *observer = (struct observer){reactor, task, NULL};
  pthread_mutex_lock(&self->lock);
  observer->next = self->observers;
  self->observers = observer;
  pthread_mutex_unlock(&self->lock);
  return FB_OK;
}

void fb_partition_manager_remove_observer(struct fb_partition_manager* self, struct fb_task* task) {
  struct observer** link;
  struct observer* found;

  pthread_mutex_lock(&self->lock);
  link = &self->observers;
  while (*link != NULL && (*link)->task != task) link = &(*link)->next;
  found = *link;
  if (found != NULL) *link = found->next;
  pthread_mutex_unlock(&self->lock);
  free(found);
}

int fb_partition_manager_add_wakeup(struct fb_partition_manager* self, struct fb_wakeup* wakeup) {
  return fb_wakeup_list_add(&self->bells, wakeup);
}

void fb_partition_manager_remove_wakeup(struct fb_partition_manager* self, struct fb_wakeup* wakeup) {
  fb_wakeup_list_remove(&self->bells, wakeup);
}

uint64_t fb_partition_manager_registrations(struct fb_partition_manager* self) {
  return atomic_load_explicit(&self->registrations, memory_order_acquire);
}
