#include "io/io_channel.h"

#include <string.h>

#include "ground/owner.h"

static void append_operation(struct fb_io_operation_list* list, struct fb_io_operation* operation) {
  operation->next = NULL;
  *list->last_link = operation;
  list->last_link = &operation->next;
}

static struct fb_io_operation* pop_operation(struct fb_io_operation_list* list) {
  struct fb_io_operation* first = list->first;

  if (first == NULL) return NULL;
  list->first = first->next;
  if (list->first == NULL) list->last_link = &list->first;
  return first;
}

/* ---- the work; on the executor's thread, or in submit() --------------------------------------------- */

static int do_operation(struct fb_io_channel* self, struct fb_io_operation* operation,
                        struct fb_file_failure* failure) {
  struct iovec parts[2] = {operation->parts[0], operation->parts[1]};
  size_t size = parts[0].iov_len + parts[1].iov_len;
  int code;

  if (operation->offset == FB_IO_SEQUENTIAL) operation->offset = self->position;
  if (operation->kind == FB_IO_WRITE) {
    self->file.position = operation->offset;
    code = fb_file_channel_write_all(&self->file, parts, 2, failure);
    operation->done_size = code < 0 ? 0 : size;
  } else {
    code = fb_file_channel_read_parts(&self->file, operation->offset, parts, 2, &operation->done_size, failure);
    if (code == FB_OK && operation->kind == FB_IO_READ && operation->done_size < size)
      code = fb_file_failure_set(failure, FB_ETRUNCATED, 0, "cannot read", self->file.path,
                                 operation->offset + operation->done_size, "the file ends inside a block");
  }
  self->position = operation->offset + operation->done_size;
  return code;
}

static void run_operations(struct fb_io_channel* self) {
  struct fb_io_operation* operation;
  struct fb_file_failure failure;

  pthread_mutex_lock(&self->lock);
  while ((operation = pop_operation(&self->submitted)) != NULL) {
    int code = self->failure.code;

    pthread_mutex_unlock(&self->lock);
    operation->done_size = 0;
    operation->code = code == FB_OK ? do_operation(self, operation, &failure) : code;
    pthread_mutex_lock(&self->lock);
    if (code == FB_OK && operation->code < 0) self->failure = failure;
    append_operation(&self->done, operation);
    self->outstanding_count--;
    fb_wakeup_ring(&self->returned);
  }
  pthread_mutex_unlock(&self->lock);
}

static void run_request(struct fb_io_request* request) { run_operations(FB_OWNER(fb_io_channel, request, request)); }

/* ---- the user's side --------------------------------------------------------------------------------- */

int fb_io_channel_open(struct fb_io_channel* self, const char* path, enum fb_file_mode mode,
                       struct fb_io_executor* executor, struct fb_file_failure* failure) {
  int code;

  memset(self, 0, sizeof *self);
  code = fb_file_channel_open(&self->file, path, mode, failure);
  if (code < 0) return code;
  if (fb_wakeup_open(&self->returned) < 0 || pthread_mutex_init(&self->lock, NULL) != 0) {
    fb_file_channel_close(&self->file, failure);
    return fb_file_failure_set(failure, FB_ENOMEM, 0, "cannot open", path, 0, NULL);
  }
  self->submitted.last_link = &self->submitted.first;
  self->done.last_link = &self->done.first;
  self->request.run = run_request;
  self->position = self->file.position;
  self->executor = executor;
  if (executor != NULL) fb_io_executor_retain(executor);
  self->is_open = true;
  return FB_OK;
}

static int post_work(struct fb_io_channel* self) {
  if (self->executor != NULL) return fb_io_executor_post(self->executor, &self->request);
  run_operations(self);
  return FB_OK;
}

int fb_io_channel_submit(struct fb_io_channel* self, struct fb_io_operation* operation) {
  int code;

  if (!self->is_open || !fb_file_channel_is_open(&self->file)) return FB_ESTATE;
  operation->code = FB_OK;
  operation->done_size = 0;
  pthread_mutex_lock(&self->lock);
  code = self->failure.code;
  if (code == FB_OK) {
    append_operation(&self->submitted, operation);
    self->outstanding_count++;
  }
  pthread_mutex_unlock(&self->lock);
  if (code < 0) return code;
  code = post_work(self);
  if (code == FB_OK) return FB_OK;
  /* No executor takes it any more: what waits is done here, and nothing is lost. */
  run_operations(self);
  return FB_OK;
}

struct fb_io_operation* fb_io_channel_take(struct fb_io_channel* self, int64_t timeout_ms) {
  int64_t deadline_ms = fb_wakeup_deadline_ms(timeout_ms);
  struct fb_io_operation* operation;
  uint32_t outstanding;
  uint64_t seen;

  if (!self->is_open) return NULL;
  do {
    seen = fb_wakeup_seen(&self->returned);
    pthread_mutex_lock(&self->lock);
    operation = pop_operation(&self->done);
    outstanding = self->outstanding_count;
    pthread_mutex_unlock(&self->lock);
  } while (operation == NULL && outstanding > 0 && timeout_ms != 0 &&
           fb_wakeup_wait_until(&self->returned, seen, deadline_ms) == FB_OK);
  return operation;
}

uint32_t fb_io_channel_outstanding(struct fb_io_channel* self) {
  uint32_t count;

  if (!self->is_open) return 0;
  pthread_mutex_lock(&self->lock);
  count = self->outstanding_count;
  pthread_mutex_unlock(&self->lock);
  return count;
}

int fb_io_channel_close(struct fb_io_channel* self, bool deletes, struct fb_file_failure* failure) {
  int code;

  if (!self->is_open || !fb_file_channel_is_open(&self->file)) return FB_OK;
  /* A child of the process has no thread that would do what is left. */
  if (self->executor != NULL && fb_io_executor_cancel(self->executor, &self->request)) run_operations(self);
  if (self->executor != NULL) fb_io_executor_drop(self->executor);
  self->executor = NULL;
  code = self->failure.code;
  if (code < 0) *failure = self->failure;
  if (deletes) fb_file_channel_close_and_delete(&self->file);
  else {
    struct fb_file_failure closing = {0};
    int closed = fb_file_channel_close(&self->file, &closing);
    if (code == FB_OK && closed < 0) {
      code = closed;
      *failure = closing;
    }
  }
  return code;
}

void fb_io_channel_discard(struct fb_io_channel* self) {
  if (!self->is_open) return;
  fb_wakeup_close(&self->returned);
  pthread_mutex_destroy(&self->lock);
  memset(self, 0, sizeof *self);
}
