/* The I/O thread: one C thread that waits for all sockets and timers of a process and takes no Python lock.
 *
 * A turn: what is ready, tasks that other threads posted, timers that are due, chores left for the end. The
 * work of each is bounded, so that none starves the others. Any number of tasks costs one wake-up, and none
 * while the thread is awake. Flink: Netty's event loop.
 *
 * Owner:   counted: open() starts the thread and gives the first reference, close() ends the thread and drops it. Whoever
 *          may post, call or ring later than that holds a reference of its own, and is refused. Sources, tasks, timers
 *          and chores are embedded in what they are about and belong to that.
 * Threads: open, close, post, call and the counters from any; everything else on the I/O thread: in a
 *          source, a task, a timer, a chore, or through call(). None of these may block.
 * Fork:    a child must not use its parent's reactor. */
#ifndef FB_REACTOR_H
#define FB_REACTOR_H

#include <stdatomic.h>
#include <stddef.h>

#include "io/io_executor.h"
#include "io/poller.h"
#include "io/tcp.h"
#include "io/timer_queue.h"

struct fb_reactor; /* opaque */

/* ---- life and other threads ------------------------------------------------------------------------ */

/* Starts the thread. FB_ENOMEM, FB_EIO (no descriptors left), FB_ETHREAD. */
int fb_reactor_open(struct fb_reactor** self);
/* Runs the tasks posted before and the chores, stops every source, joins the thread, and drops the reference of open().
 * Not from the I/O thread. */
void fb_reactor_close(struct fb_reactor* self);
void fb_reactor_retain(struct fb_reactor* self);
/* The last one frees it; close() was called before. */
void fb_reactor_drop(struct fb_reactor* self);
bool fb_reactor_is_inside(struct fb_reactor* self); /* whether the caller is the I/O thread */

/* Something to do on the I/O thread; embedded in what it is about, which stays until it ran. */
struct fb_task {
  void (*run)(struct fb_task* self);
  struct fb_task* next;
  _Atomic bool is_posted; /* cleared before run() */
};

/* Runs `task` on the I/O thread, in the order of posts. One that is posted and did not start yet runs once.
 * Never blocks. FB_ESTATE: the reactor has been closed; the task will not run. */
int fb_reactor_post(struct fb_reactor* self, struct fb_task* task);
/* Runs `function` on the I/O thread and waits until it is done; at once if the caller is that thread.
 * FB_ESTATE: the reactor has been closed; the thread has ended when this returns, and calls nobody any more. */
int fb_reactor_call(struct fb_reactor* self, void (*function)(void* context), void* context);

struct fb_wakeup;
/* Rings `wakeup`, from any thread. On the I/O thread, while it serves a socket, only when it is done with that one: a
 * task is woken once for all that came. */
void fb_reactor_ring(struct fb_reactor* self, struct fb_wakeup* wakeup);

/* For all connections to come; before the first. The defaults of tcp.h until then. */
void fb_reactor_set_tcp_patience(struct fb_reactor* self, const struct fb_tcp_patience* patience);
const struct fb_tcp_patience* fb_reactor_tcp_patience(const struct fb_reactor* self);

struct fb_reactor_counters {
  uint64_t turns;
  uint64_t wakeups; /* by other threads */
  uint64_t bytes_read;
  uint64_t bytes_written;
  uint64_t writes;  /* system calls that wrote */
  uint32_t sources; /* connections and listeners */
};
void fb_reactor_get_counters(struct fb_reactor* self, struct fb_reactor_counters* counters);

/* ---- on the I/O thread ----------------------------------------------------------------------------- */

/* Why the thread ends before close(): the system refuses to wait for its sockets. NULL: it does not. All sources are
 * stopped then, and whoever posts or calls is refused. */
const char* fb_reactor_failure(const struct fb_reactor* self);

/* Runs timer->on_due in `delay_ms` from now, once. Setting again moves it. FB_ENOMEM. */
int fb_reactor_set_timer(struct fb_reactor* self, struct fb_timer* timer, int64_t delay_ms);
void fb_reactor_cancel_timer(struct fb_reactor* self, struct fb_timer* timer);

/* A descriptor and what it belongs to. */
struct fb_source {
  struct fb_watch watch;                                    /* the first member */
  void (*on_ready)(struct fb_source* self, uint8_t events); /* FB_READABLE, FB_WRITABLE, FB_HUNG_UP */
  void (*on_stop)(struct fb_source* self); /* the reactor is being closed: must end in fb_reactor_remove() */
  struct fb_source *previous, *next;       /* the reactor's */
};

/* Watches `fd`. FB_ENOMEM, FB_EIO with errno, FB_ESTATE (the reactor is being closed). */
int fb_reactor_add(struct fb_reactor* self, struct fb_source* source, int fd, uint8_t interest);
void fb_reactor_set_interest(struct fb_reactor* self, struct fb_source* source, uint8_t interest);
/* Before the descriptor is closed; idempotent. The source itself may still be named by an event of this turn:
 * it is freed by a chore, at the earliest. */
void fb_reactor_remove(struct fb_reactor* self, struct fb_source* source);

/* Something to do at the end of this turn; of the next one, if a chore leaves it. All-zero is not left. */
struct fb_chore {
  void (*run)(struct fb_chore* self); /* may free it */
  struct fb_chore* next;
  bool is_left;
};
/* One that is left already stays where it is. */
void fb_reactor_leave(struct fb_reactor* self, struct fb_chore* chore);

/* Memory that whoever receives may use until it returns: FB_RECEIVE_SIZE bytes. */
#define FB_RECEIVE_SIZE ((size_t)64 << 10)
uint8_t* fb_reactor_receive_buffer(struct fb_reactor* self);
/* The thread that waits for disks in place of this one; it begins with its first request, and ends with close(). NULL without
 * memory. */
struct fb_io_executor* fb_reactor_disk(struct fb_reactor* self);
void fb_reactor_count_read(struct fb_reactor* self, size_t size);
void fb_reactor_count_written(struct fb_reactor* self, size_t size);

#endif
