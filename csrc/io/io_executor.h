/* A thread that waits for the disk so that others do not, and the queue of what it is to do.
 *
 * The thread starts with the first request; it blocks all signals. Requests run one after another, in the order they were
 * posted. There is one executor for reading and one for writing for each temporary directory. Flink: IOManagerAsync's reader
 * and writer threads.
 *
 * Owner:   counted. open() gives a reference; close() ends the thread, the last drop() frees. Requests belong to who posts
 *          them, are embedded in something larger, and stay where they are while they are queued or run.
 * Threads: any. run() is called on the executor's thread, without any lock; it may post (its own request, too), and free
 *          its request.
 * Fork:    a child has no such thread: post() gives FB_ESTATE there, close() and drop() touch nothing of the parent's. */
#ifndef FB_IO_EXECUTOR_H
#define FB_IO_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "ground/errors.h"

struct fb_io_executor;

/* All-zero but for run() is one that is not queued. */
struct fb_io_request {
  void (*run)(struct fb_io_request* self);
  struct fb_io_request* next; /* the executor's, as all that follow */
  struct fb_io_request** link;
  bool is_queued;
  bool is_cancelled; /* somebody waits for it to end: it is not queued again */
  bool is_for_end;   /* it is queued for when the executor is closed */
};

/* `name` (copied, its first 15 bytes) is the thread's, for those who look at the process. FB_ENOMEM. */
int fb_io_executor_open(const char* name, struct fb_io_executor** self);
void fb_io_executor_retain(struct fb_io_executor* self);
void fb_io_executor_drop(struct fb_io_executor* self);

/* Queues the request; one that is queued already stays where it is, one that runs just now will run once more. FB_ESTATE:
 * closed, or a child of the process. FB_ETHREAD: the system refused the thread. Neither queues it. */
int fb_io_executor_post(struct fb_io_executor* self, struct fb_io_request* request);
/* Queues it to run when the executor is closed, behind all else, for those who would wait for what does not come any more.
 * It does not run if the thread never started: then nobody had a request. FB_ESTATE as above. */
int fb_io_executor_post_at_end(struct fb_io_executor* self, struct fb_io_request* request);
/* Takes the request from the queue; waits while it runs, except on the executor's own thread. Afterwards nobody uses it
 * (unless it is posted again). Returns whether it was queued and now will not run. */
bool fb_io_executor_cancel(struct fb_io_executor* self, struct fb_io_request* request);
/* Refuses what comes from now on, runs what is queued, ends the thread. Idempotent; not on the executor's thread. */
void fb_io_executor_close(struct fb_io_executor* self);

/* Requests that have run. */
uint64_t fb_io_executor_run_count(struct fb_io_executor* self);
/* Those that have not returned: the queued ones, and the one that runs. */
uint32_t fb_io_executor_pending_count(struct fb_io_executor* self);

#endif
