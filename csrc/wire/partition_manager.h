/* The result partitions of a process by id: what local channels and the server look up.
 *
 * A consumer may ask before the producer has registered: whoever waits is told of each registration.
 * Flink: ResultPartitionManager.
 *
 * Owner:   holds a reference of each partition until all consumed it, unregister() or close(). Borrows
 *          reactors and tasks of observers until they are removed.
 * Threads: any. The lock is not held while a partition is released; observers are posted to under it, so that
 *          none is posted to after its removal, and a post calls nobody. */
#ifndef FB_PARTITION_MANAGER_H
#define FB_PARTITION_MANAGER_H

#include "io/reactor.h"
#include "partition/result_partition.h"

struct fb_partition_manager; /* opaque */

/* FB_ENOMEM. */
int fb_partition_manager_open(struct fb_partition_manager** self);
/* Forgets and releases what is registered. */
void fb_partition_manager_clear(struct fb_partition_manager* self);
/* The same, and frees the manager. Nobody may use it any more; who wrote or read a partition that was forgotten before
 * is done with it. */
void fb_partition_manager_close(struct fb_partition_manager* self);

/* `id` has 60 bytes, as in the PARTITION_REQUEST frame. The partition is forgotten as soon as all its readers
 * and its producer are done with it; before its first view. FB_ESTATE (the id is taken), FB_ENOMEM. */
int fb_partition_manager_register(struct fb_partition_manager* self, const uint8_t* id,
                                  struct fb_result_partition* partition);
/* Forgets it; what was written stays with those who hold it. Returns whether it was there. */
bool fb_partition_manager_unregister(struct fb_partition_manager* self, const uint8_t* id);
/* The partition with a reference for the caller; NULL: not there (yet). */
struct fb_result_partition* fb_partition_manager_find(struct fb_partition_manager* self, const uint8_t* id);
uint32_t fb_partition_manager_count(struct fb_partition_manager* self);

/* Posts `task` to `reactor` after each registration, until removed. Look for the partition after this.
 * FB_ENOMEM. */
int fb_partition_manager_add_observer(struct fb_partition_manager* self, struct fb_reactor* reactor,
                                      struct fb_task* task);
void fb_partition_manager_remove_observer(struct fb_partition_manager* self, struct fb_task* task);

/* Rings `wakeup` after each registration, until removed. Look for the partition after this. FB_ENOMEM. */
int fb_partition_manager_add_wakeup(struct fb_partition_manager* self, struct fb_wakeup* wakeup);
void fb_partition_manager_remove_wakeup(struct fb_partition_manager* self, struct fb_wakeup* wakeup);
/* Registrations so far: while it stays the same, what was not found is still not there. */
uint64_t fb_partition_manager_registrations(struct fb_partition_manager* self);

#endif
