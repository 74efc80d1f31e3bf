#include "partition/bounded_view.h"

#include <stdlib.h>
#include <string.h>

#include "ground/owner.h"
#include "ground/schedule_point.h"

enum { READ_BUFFERS = 2 };

struct bounded_view;

/* One of a reader's two buffers; it lives until the view and its holder have both let go of it. */
struct read_buffer {
  struct fb_buffer root;
  struct view_core* core;
  struct read_buffer* next; /* free */
};

/* What read buffers need of their view: it outlives it. */
struct view_core {
  pthread_mutex_t lock;      /* of everything that changes in the view */
  uint32_t references;       /* the view, and each buffer that is out */
  struct bounded_view* view; /* NULL: it is gone */
  struct read_buffer* free;
};

struct ahead {
  struct fb_buffer_slice slice;
  struct fb_file_region region;
};

/* What the list of readers knows of a view; all under its lock. */
struct fb_bounded_view {
  struct fb_subpartition_view base; /* the first member */
  struct fb_bounded_readers* readers;
  struct fb_bounded_view* next;
  struct fb_bounded_view** link;
  uint32_t tellers; /* who is about to call its listener */
  bool is_told;     /* of the release */
};

struct bounded_view {
  struct fb_bounded_view known; /* the first member */
  struct fb_availability_listener listener;
  struct fb_io_executor* executor;
  struct fb_io_request request;
  struct view_core* core;
  bool takes_regions;
  bool needs_buffers;              /* it reads from a file */
  struct fb_bounded_reader reader; /* of whoever set is_reading */
  bool is_reading;
  /* Under the core's lock. */
  struct ahead ahead[READ_BUFFERS];
  uint32_t ahead_count;
  bool has_ended, is_waiting, has_given_end; /* is_waiting: the listener is to be told */
  int error;
  struct fb_file_failure failure;
  uint32_t backlog; /* data buffers not given yet */
  int32_t sequence_number;
  uint64_t given_count, given_bytes;
};

static struct bounded_view* view_of(struct fb_subpartition_view* view) { return (struct bounded_view*)view; }

/* ---- read buffers ------------------------------------------------------------------------------------------ */

static void free_read_buffers(struct read_buffer* first) {
  while (first != NULL) {
    struct read_buffer* next = first->next;
    free(first);
    first = next;
  }
}

static void free_core(struct view_core* core) {
  free_read_buffers(core->free);
  pthread_mutex_destroy(&core->lock);
  free(core);
}

static int post_reading(struct bounded_view* self);

/* Whether reading may go on, and nobody does it. The lock is held. */
static bool needs_reading(const struct bounded_view* self) {
  return self->is_waiting && !self->is_reading && self->ahead_count == 0 && !self->has_ended && self->error == 0;
}

static void return_read_buffer(struct fb_buffer* root) {
  struct read_buffer* buffer = FB_OWNER(read_buffer, root, root);
  struct view_core* core = buffer->core;
  bool is_last;

  pthread_mutex_lock(&core->lock);
  buffer->next = core->free;
  core->free = buffer;
  if (core->view != NULL && needs_reading(core->view)) post_reading(core->view);
  is_last = --core->references == 0;
  pthread_mutex_unlock(&core->lock);
  if (is_last) free_core(core);
}

static struct view_core* open_core(struct bounded_view* view, uint32_t buffer_count, size_t buffer_size) {
  struct view_core* core = calloc(1, sizeof *core);

  if (core == NULL || pthread_mutex_init(&core->lock, NULL) != 0) {
    free(core);
    return NULL;
  }
  core->references = 1;
  core->view = view;
  for (uint32_t i = 0; i < buffer_count; i++) {
    struct read_buffer* buffer = malloc(sizeof *buffer + buffer_size);
    if (buffer == NULL) {
      free_core(core);
      return NULL;
    }
    memset(buffer, 0, sizeof *buffer);
    fb_memory_segment_wrap(&buffer->root.segment, (uint8_t*)(buffer + 1), buffer_size);
    buffer->core = core;
    buffer->next = core->free;
    core->free = buffer;
  }
  return core;
}

static void fail_view(struct bounded_view* self, int code, const struct fb_file_failure* failure) {
  self->error = code;
  self->failure = *failure;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* Has the executor read; one that is closed reads no more. The lock is held; the executor's own is the innermost. */
static int post_reading(struct bounded_view* self) {
  struct fb_file_failure failure;
  int code = fb_io_executor_post(self->executor, &self->request);

  if (code == FB_OK) return FB_OK;
  fb_file_failure_set(&failure, FB_EIO, 0, "cannot read", self->reader.data->path, self->reader.position,
                      "the I/O manager that reads for others is closed");
  fail_view(self, FB_EIO, &failure);
  return code;
}

static struct read_buffer* take_read_buffer(struct bounded_view* self) {
  struct read_buffer* buffer = self->core->free;

  if (buffer == NULL) return NULL;
  self->core->free = buffer->next;
  self->core->references++;
  fb_buffer_reset(&buffer->root, return_read_buffer, NULL);
  return buffer;
}

static void put_read_buffer_back(struct bounded_view* self, struct read_buffer* buffer) {
  if (buffer == NULL) return;
  buffer->next = self->core->free;
  self->core->free = buffer;
  self->core->references--;
}

/* One buffer; the lock is held, but not while it reads. Returns enum fb_bounded_step, or the error. */
static int read_one(struct bounded_view* self, bool may_wait, struct read_buffer* buffer) {
  struct ahead ahead = {0};
  struct fb_file_failure failure = {0};
  int step;

  self->is_reading = true;
  pthread_mutex_unlock(&self->core->lock);
  step = fb_bounded_reader_next(&self->reader, may_wait, buffer != NULL ? &buffer->root : NULL, &ahead.slice,
                                self->takes_regions ? &ahead.region : NULL, &failure);
  pthread_mutex_lock(&self->core->lock);
  self->is_reading = false;
  if (step == FB_BOUNDED_READ) self->ahead[self->ahead_count++] = ahead;
  else if (step == FB_BOUNDED_END) self->has_ended = true;
  else if (step < 0) fail_view(self, step, &failure);
  if (step != FB_BOUNDED_READ || ahead.slice.buffer == NULL) put_read_buffer_back(self, buffer);
  return step;
}

/* Reads until `wanted` buffers are there, as far as it goes. The lock is held. */
static void read_ahead(struct bounded_view* self, bool may_wait, uint32_t wanted) {
  if (self->is_reading) return;
  while (self->ahead_count < wanted && !self->has_ended && self->error == 0) {
    struct read_buffer* buffer = self->needs_buffers ? take_read_buffer(self) : NULL;
    int step;

    if (self->needs_buffers && buffer == NULL) return; /* the one that comes back goes on */
    step = read_one(self, may_wait, buffer);
    if (step == FB_BOUNDED_NOT_RESIDENT) post_reading(self);
    if (step != FB_BOUNDED_READ) return;
  }
}

static bool has_news(const struct bounded_view* self) {
  return self->ahead_count > 0 || self->error != 0 || self->has_ended;
}

static void run_reading(struct fb_io_request* request) {
  struct bounded_view* self = FB_OWNER(bounded_view, request, request);
  struct fb_availability_listener listener = self->listener;
  uint32_t index = self->known.base.index;
  bool is_told;

  pthread_mutex_lock(&self->core->lock);
  read_ahead(self, true, READ_BUFFERS);
  is_told = self->is_waiting && has_news(self);
  if (is_told) self->is_waiting = false;
  pthread_mutex_unlock(&self->core->lock);
  if (is_told) listener.on_data_available(listener.context, index);
}

/* ---- the list of readers ------------------------------------------------------------------------------------ */

int fb_bounded_readers_open(struct fb_bounded_readers* self, void (*on_last)(struct fb_bounded_readers* self)) {
  if (pthread_mutex_init(&self->lock, NULL) != 0) return FB_ENOMEM;
  if (pthread_cond_init(&self->told, NULL) != 0) {
    pthread_mutex_destroy(&self->lock);
    return FB_ENOMEM;
  }
  self->on_last = on_last;
  self->is_open = self->is_written = true;
  return FB_OK;
}

void fb_bounded_readers_close(struct fb_bounded_readers* self) {
  if (!self->is_open) return;
  pthread_cond_destroy(&self->told);
  pthread_mutex_destroy(&self->lock);
  self->is_open = false;
}

/* Whether the caller is the one to say that nobody uses the files any more. The lock is held. */
static bool is_last_user(struct fb_bounded_readers* self) {
  bool is_written = self->is_written && !FB_PLANTED("files go under their writer");

  if (self->views != NULL || is_written || self->has_gone || !fb_bounded_readers_is_released(self)) return false;
  self->has_gone = true;
  return true;
}

static void join_readers(struct fb_bounded_readers* self, struct fb_bounded_view* view) {
  view->readers = self;
  pthread_mutex_lock(&self->lock);
  view->next = self->views;
  view->link = &self->views;
  if (view->next != NULL) view->next->link = &view->next;
  self->views = view;
  pthread_mutex_unlock(&self->lock);
}

/* Afterwards nobody calls its listener. */
static void leave_readers(struct fb_bounded_view* view) {
  struct fb_bounded_readers* self = view->readers;
  bool is_last;

  pthread_mutex_lock(&self->lock);
  while (view->tellers > 0) pthread_cond_wait(&self->told, &self->lock);
  *view->link = view->next;
  if (view->next != NULL) view->next->link = view->link;
  is_last = is_last_user(self);
  pthread_mutex_unlock(&self->lock);
  if (is_last) self->on_last(self);
}

bool fb_bounded_readers_end_writing(struct fb_bounded_readers* self) {
  bool is_released, is_last;

  if (!self->is_open) return true;
  pthread_mutex_lock(&self->lock);
  self->is_written = false;
  is_released = fb_bounded_readers_is_released(self) && !FB_PLANTED("files go under their writer");
  is_last = is_last_user(self);
  pthread_mutex_unlock(&self->lock);
  if (is_last) self->on_last(self);
  return is_released;
}

static struct fb_bounded_view* next_to_tell(struct fb_bounded_readers* self) {
  struct fb_bounded_view* view = self->views;
  while (view != NULL && view->is_told) view = view->next;
  return view;
}

static void tell_release(struct fb_bounded_view* known) {
  struct bounded_view* self = (struct bounded_view*)known;
  self->listener.on_data_available(self->listener.context, known->base.index);
}

void fb_bounded_readers_release(struct fb_bounded_readers* self) {
  struct fb_bounded_view* view;
  bool is_last;

  if (!self->is_open) return;
  pthread_mutex_lock(&self->lock);
  /* Release, partner of fb_bounded_readers_is_released(). */
  atomic_store_explicit(&self->is_released, true, memory_order_release);
  while ((view = next_to_tell(self)) != NULL) {
    view->is_told = true;
    view->tellers++;
    pthread_mutex_unlock(&self->lock);
    tell_release(view);
    pthread_mutex_lock(&self->lock);
    view->tellers--;
    pthread_cond_broadcast(&self->told);
  }
  is_last = is_last_user(self);
  pthread_mutex_unlock(&self->lock);
  if (is_last) self->on_last(self);
}

/* ---- the reader's side ----------------------------------------------------------------------------------------- */

static bool is_partition_released(struct bounded_view* self) {
  /* Not the partition's own flag: that is set when all views have been told. */
  return !self->has_given_end && fb_bounded_readers_is_released(self->known.readers);
}

static void give_ahead(struct bounded_view* self, struct fb_polled_buffer* polled) {
  struct ahead first = self->ahead[0];

  self->ahead[0] = self->ahead[1];
  self->ahead_count--;
  if (fb_buffer_data_type_is_buffer((enum fb_buffer_data_type)first.slice.data_type)) self->backlog--;
  if (first.slice.data_type == FB_END_OF_PARTITION) self->has_given_end = true;
  self->given_count++;
  self->given_bytes += first.slice.size;
  *polled = (struct fb_polled_buffer){.slice = first.slice,
                                      .region = first.region,
                                      .backlog = self->backlog,
                                      .sequence_number = self->sequence_number++};
}

static int poll_bounded(struct fb_subpartition_view* view, struct fb_polled_buffer* polled) {
  struct bounded_view* self = view_of(view);
  int code = 1;

  pthread_mutex_lock(&self->core->lock);
  read_ahead(self, false, 1);
  if (is_partition_released(self)) code = FB_ERELEASED;
  else if (self->ahead_count > 0) give_ahead(self, polled);
  else code = self->error;
  if (code == 1) read_ahead(self, false, 1);
  self->is_waiting = self->ahead_count == 0;
  /* An error that is met while reading ahead is asked for as an event would be: that needs no credit. */
  if (code == 1)
    polled->next_data_type = (uint8_t)(self->ahead_count > 0 ? self->ahead[0].slice.data_type
                                       : self->error != 0    ? FB_EVENT_BUFFER
                                                             : FB_NONE);
  pthread_mutex_unlock(&self->core->lock);
  return code;
}

static bool is_bounded_available(struct fb_subpartition_view* view, bool has_credit, uint32_t* backlog) {
  struct bounded_view* self = view_of(view);
  bool is_available;

  pthread_mutex_lock(&self->core->lock);
  read_ahead(self, false, 1);
  self->is_waiting = self->ahead_count == 0;
  if (backlog != NULL) *backlog = self->backlog;
  is_available =
      is_partition_released(self) || (self->ahead_count == 0 && self->error != 0) ||
      (self->ahead_count > 0 &&
       (has_credit || fb_buffer_data_type_is_event((enum fb_buffer_data_type)self->ahead[0].slice.data_type)));
  pthread_mutex_unlock(&self->core->lock);
  return is_available;
}

static bool is_bounded_released(struct fb_subpartition_view* view) {
  struct bounded_view* self = view_of(view);
  bool is_released;

  pthread_mutex_lock(&self->core->lock);
  is_released = is_partition_released(self);
  pthread_mutex_unlock(&self->core->lock);
  return is_released;
}

static void get_bounded_view_usage(struct fb_subpartition_view* view, struct fb_subpartition_usage* usage) {
  struct bounded_view* self = view_of(view);

  fb_result_partition_get_usage(view->partition, view->index, usage);
  pthread_mutex_lock(&self->core->lock);
  usage->bytes = self->given_bytes;
  usage->queued = (uint32_t)(usage->buffers - self->given_count);
  usage->backlog = self->backlog;
  pthread_mutex_unlock(&self->core->lock);
}

static const char* bounded_view_failure(struct fb_subpartition_view* view) {
  struct bounded_view* self = view_of(view);
  const char* text;

  pthread_mutex_lock(&self->core->lock);
  text = self->error != 0 ? self->failure.text : NULL; /* written once */
  pthread_mutex_unlock(&self->core->lock);
  return text;
}

/* Gives the view's reference on the core back; read buffers that are out follow. */
static void leave_core(struct bounded_view* self) {
  struct view_core* core = self->core;
  bool is_last;

  pthread_mutex_lock(&core->lock);
  core->view = NULL;
  is_last = --core->references == 0;
  pthread_mutex_unlock(&core->lock);
  if (is_last) free_core(core);
}

static void release_bounded_view(struct fb_subpartition_view* view) {
  struct bounded_view* self = view_of(view);
  struct view_core* core = self->core;

  /* From here on no buffer that comes back sets the executor to work. */
  pthread_mutex_lock(&core->lock);
  core->view = NULL;
  pthread_mutex_unlock(&core->lock);
  fb_io_executor_cancel(self->executor, &self->request);
  for (uint32_t i = 0; i < self->ahead_count; i++) {
    fb_buffer_slice_release(&self->ahead[i].slice);
    fb_file_region_release(&self->ahead[i].region);
  }
  fb_bounded_reader_close(&self->reader);
  leave_readers(&self->known);
  leave_core(self);
  fb_io_executor_drop(self->executor);
  fb_result_partition_close_view(view);
  free(self);
}

static const struct fb_subpartition_view_kind BOUNDED_VIEW = {
    .poll = poll_bounded,
    .is_available = is_bounded_available,
    .is_released = is_bounded_released,
    .get_usage = get_bounded_view_usage,
    .failure = bounded_view_failure,
    .release = release_bounded_view,
};

int fb_bounded_view_open(struct fb_bounded_readers* readers, struct fb_result_partition* partition, uint32_t index,
                         struct fb_bounded_data* data, struct fb_io_executor* executor,
                         const struct fb_view_options* options, struct fb_subpartition_view** view) {
  struct bounded_view* self = calloc(1, sizeof *self);
  struct fb_file_failure failure;
  int code;

  if (self == NULL) return FB_ENOMEM;
  self->listener = options->listener;
  self->needs_buffers = data->storage == FB_BOUNDED_FILE;
  self->takes_regions = options->takes_file_regions && self->needs_buffers;
  self->request.run = run_reading;
  self->backlog = data->data_count > UINT32_MAX ? UINT32_MAX : (uint32_t)data->data_count;
  self->core = open_core(self, self->needs_buffers ? READ_BUFFERS : 0, (size_t)data->largest + FB_BOUNDED_HEADER_ROOM);
  code = self->core == NULL ? FB_ENOMEM : fb_bounded_reader_open(&self->reader, data, &failure);
  if (code < 0) {
    if (self->core != NULL) free_core(self->core);
    free(self);
    /* A release that runs just now may have removed the file. */
    return fb_bounded_readers_is_released(readers) ? FB_ERELEASED : code;
  }
  self->executor = executor;
  fb_io_executor_retain(self->executor);
  fb_result_partition_open_view(partition, &BOUNDED_VIEW, index, &self->known.base);
  join_readers(readers, &self->known);
  *view = &self->known.base;
  return FB_OK;
}
