/* Requests run one after another on a thread that is there when it is needed, and gone after close(). */
#include "io/io_executor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ground/owner.h"
#include "ground/wakeup.h"

enum { REQUESTS = 200, THREADS = 4 };

struct numbered {
  struct fb_io_request request;
  int number;
  int runs;
};

struct gate {
  struct fb_io_request request;
  struct fb_wakeup entered, opened;
};

static int order[REQUESTS], order_count;

static void note_number(struct fb_io_request* request) {
  struct numbered* self = FB_OWNER(numbered, request, request);
  order[order_count++] = self->number;
  self->runs++;
}

static void wait_at_gate(struct fb_io_request* request) {
  struct gate* self = FB_OWNER(gate, request, request);
  fb_wakeup_ring(&self->entered);
  while (!fb_wakeup_wait(&self->opened, 0, -1)) continue;
}

static void enter_gate(struct gate* self, struct fb_io_executor* executor) {
  *self = (struct gate){.request = {.run = wait_at_gate}};
  CHECK(fb_wakeup_open(&self->entered) == FB_OK && fb_wakeup_open(&self->opened) == FB_OK);
  CHECK(fb_io_executor_post(executor, &self->request) == FB_OK);
  while (!fb_wakeup_wait(&self->entered, 0, -1)) continue;
}

static struct fb_io_executor* open_executor(void) {
  struct fb_io_executor* executor;
  CHECK(fb_io_executor_open("flinkbuf-a-long-name", &executor) == FB_OK);
  return executor;
}

static void requests_run_in_order_and_close_runs_the_rest(void) {
  static struct numbered requests[REQUESTS];
  struct fb_io_executor* executor = open_executor();
  struct gate gate;

  order_count = 0;
  enter_gate(&gate, executor);
  for (int i = 0; i < REQUESTS; i++) {
    requests[i] = (struct numbered){.request = {.run = note_number}, .number = i};
    CHECK(fb_io_executor_post(executor, &requests[i].request) == FB_OK);
    CHECK(fb_io_executor_post(executor, &requests[i].request) == FB_OK); /* queued once */
  }
  CHECK(fb_io_executor_pending_count(executor) == REQUESTS + 1); /* and the gate */
  /* From the middle, the front and the end. */
  for (int i = 0; i < REQUESTS; i += 3) CHECK(fb_io_executor_cancel(executor, &requests[i].request));
  CHECK(fb_io_executor_cancel(executor, &requests[REQUESTS - 1].request));
  CHECK(!fb_io_executor_cancel(executor, &requests[0].request));
  CHECK(fb_io_executor_post(executor, &requests[0].request) == FB_OK); /* now the last */
  fb_wakeup_ring(&gate.opened);
  fb_io_executor_close(executor);
  fb_io_executor_close(executor);
  CHECK(fb_io_executor_post(executor, &requests[0].request) == FB_ESTATE);
  CHECK(order[order_count - 1] == 0 && fb_io_executor_run_count(executor) == (uint64_t)order_count + 1);
  for (int i = 1; i + 1 < order_count; i++) CHECK(order[i - 1] < order[i]);
  for (int i = 0; i < REQUESTS; i++) CHECK(requests[i].runs == (i == 0 || (i % 3 != 0 && i != REQUESTS - 1)));
  fb_io_executor_drop(executor);
}

struct repeated {
  struct fb_io_request request;
  struct fb_io_executor* executor;
  _Atomic int runs;
};

static void post_again(struct fb_io_request* request) {
  struct repeated* self = FB_OWNER(repeated, request, request);
  if (atomic_fetch_add(&self->runs, 1) < 1000000) fb_io_executor_post(self->executor, &self->request);
}

static void cancel_waits_and_ends_one_that_posts_itself(void) {
  struct fb_io_executor* executor = open_executor();

  for (int round = 0; round < 200; round++) {
    struct repeated* repeated = calloc(1, sizeof *repeated);
    CHECK(repeated != NULL);
    repeated->request.run = post_again;
    repeated->executor = executor;
    CHECK(fb_io_executor_post(executor, &repeated->request) == FB_OK);
    if (round % 2 == 0)
      while (atomic_load(&repeated->runs) == 0) fb_wakeup_relax();
    fb_io_executor_cancel(executor, &repeated->request);
    free(repeated); /* nobody uses it any more */
  }
  fb_io_executor_drop(executor);
}

static void free_itself(struct fb_io_request* request) { free(request); }

static void* post_many(void* argument) {
  for (int i = 0; i < REQUESTS; i++) {
    struct fb_io_request* request = calloc(1, sizeof *request);
    CHECK(request != NULL);
    request->run = free_itself;
    CHECK(fb_io_executor_post(argument, request) == FB_OK);
  }
  return NULL;
}

static void many_post_at_once(void) {
  struct fb_io_executor* executor = open_executor();
  pthread_t threads[THREADS];

  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, post_many, executor) == 0);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  fb_io_executor_close(executor);
  CHECK(fb_io_executor_run_count(executor) == THREADS * REQUESTS);
  fb_io_executor_drop(executor);
}

struct last {
  struct fb_io_request request;
  struct fb_io_executor* executor;
  struct fb_wakeup done;
};

static void drop_executor(struct fb_io_request* request) {
  struct last* self = FB_OWNER(last, request, request);
  while (fb_wakeup_seen(&self->done) == 0) fb_wakeup_relax(); /* the other reference is gone */
  fb_io_executor_drop(self->executor);
  fb_wakeup_ring(&self->done);
}

static void last_reference_may_end_on_its_own_thread(void) {
  static struct last last; /* outlives the thread that nobody joins */

  last.executor = open_executor();
  last.request.run = drop_executor;
  CHECK(fb_wakeup_open(&last.done) == FB_OK);
  fb_io_executor_retain(last.executor);
  CHECK(fb_io_executor_post(last.executor, &last.request) == FB_OK);
  fb_io_executor_drop(last.executor);
  fb_wakeup_ring(&last.done);
  while (fb_wakeup_seen(&last.done) < 2) fb_wakeup_wait(&last.done, 1, 1000);
}

static void child_of_a_fork_is_refused_and_hurts_nobody(void) {
  struct fb_io_executor* executor = open_executor();
  struct numbered request = {.request = {.run = note_number}};
  struct gate gate;
  int status;
  pid_t child;

  order_count = 0;
  enter_gate(&gate, executor);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    bool is_refused = fb_io_executor_post(executor, &request.request) == FB_ESTATE;
    fb_io_executor_cancel(executor, &request.request);
    fb_io_executor_close(executor);
    fb_io_executor_drop(executor);
    _exit(is_refused ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(fb_io_executor_post(executor, &request.request) == FB_OK);
  fb_wakeup_ring(&gate.opened);
  fb_io_executor_drop(executor); /* closes it */
  CHECK(request.runs == 1);
}

/* As a reader does that is dropped on the thread that read for it, while somebody closes that. */
static void cancel_when_closed(struct fb_io_request* request) {
  struct repeated* self = FB_OWNER(repeated, request, request);
  struct fb_io_request other = {.run = note_number};

  atomic_store(&self->runs, 1);
  while (fb_io_executor_post(self->executor, &other) == FB_OK) {
    CHECK(fb_io_executor_cancel(self->executor, &other));
    fb_wakeup_relax();
  }
  fb_io_executor_cancel(self->executor, request); /* its own thread is being joined: it must not wait for itself */
  atomic_store(&self->runs, 2);
}

static void request_may_cancel_itself_while_it_is_closed(void) {
  for (int round = 0; round < 50; round++) {
    struct fb_io_executor* executor = open_executor();
    struct repeated request = {.request = {.run = cancel_when_closed}, .executor = executor};
    CHECK(fb_io_executor_post(executor, &request.request) == FB_OK);
    if (round % 2 == 0)
      while (atomic_load(&request.runs) == 0) fb_wakeup_relax();
    fb_io_executor_close(executor);
    CHECK(atomic_load(&request.runs) == 2);
    fb_io_executor_drop(executor);
  }
}

static void what_is_for_the_end_runs_last(void) {
  static struct numbered requests[6];
  struct fb_io_executor* executor = open_executor();
  struct gate gate;

  order_count = 0;
  for (int i = 0; i < 6; i++) requests[i] = (struct numbered){.request = {.run = note_number}, .number = i};
  for (int i = 0; i < 3; i++) CHECK(fb_io_executor_post_at_end(executor, &requests[i].request) == FB_OK);
  CHECK(fb_io_executor_post_at_end(executor, &requests[0].request) == FB_OK); /* queued once */
  CHECK(fb_io_executor_pending_count(executor) == 0);
  enter_gate(&gate, executor);
  for (int i = 3; i < 6; i++) CHECK(fb_io_executor_post(executor, &requests[i].request) == FB_OK);
  CHECK(fb_io_executor_pending_count(executor) == 4);
  CHECK(fb_io_executor_cancel(executor, &requests[1].request) &&
        !fb_io_executor_cancel(executor, &requests[1].request));
  CHECK(fb_io_executor_pending_count(executor) == 4);
  fb_wakeup_ring(&gate.opened);
  fb_io_executor_close(executor);
  CHECK(order_count == 5 && order[0] == 3 && order[1] == 4 && order[2] == 5 && order[3] + order[4] == 2);
  CHECK(fb_io_executor_post_at_end(executor, &requests[1].request) == FB_ESTATE);
  fb_io_executor_drop(executor);

  executor = open_executor(); /* without a thread nobody waits for anything */
  CHECK(fb_io_executor_post_at_end(executor, &requests[1].request) == FB_OK);
  fb_io_executor_close(executor);
  CHECK(requests[1].runs == 0 && fb_io_executor_cancel(executor, &requests[1].request));
  fb_io_executor_drop(executor);
}

static void unused_one_has_no_thread(void) {
  struct fb_io_executor* executor = open_executor();
  CHECK(fb_io_executor_run_count(executor) == 0 && fb_io_executor_pending_count(executor) == 0);
  fb_io_executor_close(executor);
  fb_io_executor_drop(executor);
}

int main(void) {
  requests_run_in_order_and_close_runs_the_rest();
  cancel_waits_and_ends_one_that_posts_itself();
  many_post_at_once();
  last_reference_may_end_on_its_own_thread();
  child_of_a_fork_is_refused_and_hurts_nobody();
  request_may_cancel_itself_while_it_is_closed();
  what_is_for_the_end_runs_last();
  unused_one_has_no_thread();
}
