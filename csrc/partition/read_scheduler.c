#include "partition/read_scheduler.h"

#include <stdlib.h>

#include "ground/owner.h"

#define RUN_BYTES        ((uint64_t)16 << 20) /* after so many other partitions have a turn */
#define LOW_BYTES        ((uint32_t)256 << 10)
#define STARVED_WAIT_MS  20
#define THREAD_IS_CLOSED "the thread that reads partition files is closed"

struct fb_read_scheduler {
  struct fb_sort_merge_source source; /* the first member */
  _Atomic uint32_t references;
  struct fb_partition_file* file;
  struct fb_read_buffer_pool* pool;
  struct fb_io_request request;
  struct fb_io_request closing; /* runs when the executor is closed */
  pthread_mutex_t lock;         /* of what follows */
  bool is_released;
  uint32_t asking_count;
  struct fb_sort_merge_reader* readers;
  struct fb_sort_merge_reader* asking;
  /* during a run, on the executor's thread */
  uint64_t position; /* in the file: where the last read ended */
  uint64_t run_bytes;
  struct fb_buffer_slice* slices;
  uint32_t slice_count, slice_capacity;
};

/* ---- life ----------------------------------------------------------------------------------------------- */

static void run_scheduler(struct fb_io_request* request);
static void tell_readers_of_end(struct fb_io_request* request);
static const struct fb_sort_merge_source_kind SCHEDULER;

static struct fb_read_scheduler* scheduler_of(struct fb_sort_merge_source* source) {
  return (struct fb_read_scheduler*)source;
}

int fb_read_scheduler_open(struct fb_partition_file* file, struct fb_read_buffer_pool* pool,
                           struct fb_io_executor* executor, struct fb_read_scheduler** self) {
  struct fb_read_scheduler* opened = calloc(1, sizeof *opened);

  *self = NULL;
  if (opened == NULL) return FB_ENOMEM;
  if (pthread_mutex_init(&opened->lock, NULL) != 0) {
    free(opened);
    return FB_ENOMEM;
  }
  atomic_init(&opened->references, 1);
  fb_partition_file_retain(file);
  fb_read_buffer_pool_retain(pool);
  fb_io_executor_retain(executor);
  opened->file = file;
  opened->pool = pool;
  opened->source = (struct fb_sort_merge_source){.kind = &SCHEDULER, .executor = executor};
  opened->request.run = run_scheduler;
  opened->closing.run = tell_readers_of_end;
  fb_io_executor_post_at_end(executor, &opened->closing); /* closed already: whoever asks is told at once */
  *self = opened;
  return FB_OK;
}

void fb_read_scheduler_retain(struct fb_read_scheduler* self) {
  atomic_fetch_add_explicit(&self->references, 1, memory_order_relaxed); /* the caller holds one already */
}

/* For a request, which has no reference of its own: whoever drops the last one waits for it to return. */
static bool retain_running(struct fb_read_scheduler* self) {
  uint32_t references = atomic_load_explicit(&self->references, memory_order_relaxed);

  while (references > 0)
    if (atomic_compare_exchange_weak_explicit(&self->references, &references, references + 1, memory_order_relaxed,
                                              memory_order_relaxed))
      return true;
  return false;
}

void fb_read_scheduler_drop(struct fb_read_scheduler* self) {
  if (self == NULL) return;
  /* Both halves: the last one sees all that the others did. */
  if (atomic_fetch_sub_explicit(&self->references, 1, memory_order_acq_rel) != 1) return;
  fb_io_executor_cancel(self->source.executor, &self->request);
  fb_io_executor_cancel(self->source.executor, &self->closing);
  fb_io_executor_drop(self->source.executor);
  fb_read_buffer_pool_drop(self->pool);
  fb_partition_file_drop(self->file);
  pthread_mutex_destroy(&self->lock);
  free(self->slices);
  free(self);
}

struct fb_partition_file* fb_read_scheduler_file(struct fb_read_scheduler* self) { return self->file; }
struct fb_sort_merge_source* fb_read_scheduler_source(struct fb_read_scheduler* self) { return &self->source; }

static void retain_scheduler(struct fb_sort_merge_source* source) { fb_read_scheduler_retain(scheduler_of(source)); }
static void drop_scheduler(struct fb_sort_merge_source* source) { fb_read_scheduler_drop(scheduler_of(source)); }

/* ---- readers -------------------------------------------------------------------------------------------- */

static int add_merge_reader(struct fb_sort_merge_source* source, struct fb_sort_merge_reader* reader) {
  struct fb_read_scheduler* self = scheduler_of(source);
  int code = FB_OK;

  pthread_mutex_lock(&self->lock);
  if (self->is_released) {
    code = FB_ERELEASED;
  } else {
    reader->next = self->readers;
    if (reader->next != NULL) reader->next->previous = reader;
    self->readers = reader;
  }
  pthread_mutex_unlock(&self->lock);
  return code;
}

/* Under the lock. One that was never added, or was removed, is left alone. */
static void unlink_reader(struct fb_read_scheduler* self, struct fb_sort_merge_reader* reader) {
  if (reader->previous == NULL && self->readers != reader) return;
  if (reader->previous != NULL) reader->previous->next = reader->next;
  else self->readers = reader->next;
  if (reader->next != NULL) reader->next->previous = reader->previous;
  reader->previous = reader->next = NULL;
}

/* Puts it into the list, with a reference, unless it is there. */
static void list_asking(struct fb_read_scheduler* self, struct fb_sort_merge_reader* reader) {
  pthread_mutex_lock(&self->lock);
  if (!reader->is_asking) {
    fb_sort_merge_reader_retain(reader);
    reader->is_asking = true;
    reader->previous_asking = NULL;
    reader->next_asking = self->asking;
    if (reader->next_asking != NULL) reader->next_asking->previous_asking = reader;
    self->asking = reader;
    self->asking_count++;
  }
  pthread_mutex_unlock(&self->lock);
}

/* Takes it out of the list, under the lock. Returns whether it was there: its
 * reference is the caller's. */
static bool unlist_asking(struct fb_read_scheduler* self, struct fb_sort_merge_reader* reader) {
  if (!reader->is_asking) return false;
  reader->is_asking = false;
  if (reader->previous_asking != NULL) reader->previous_asking->next_asking = reader->next_asking;
  else self->asking = reader->next_asking;
  if (reader->next_asking != NULL) reader->next_asking->previous_asking = reader->previous_asking;
  self->asking_count--;
  return true;
}

static void remove_merge_reader(struct fb_sort_merge_source* source, struct fb_sort_merge_reader* reader) {
  struct fb_read_scheduler* self = scheduler_of(source);
  bool was_asking;

  pthread_mutex_lock(&self->lock);
  unlink_reader(self, reader);
  was_asking = unlist_asking(self, reader);
  pthread_mutex_unlock(&self->lock);
  if (was_asking) fb_sort_merge_reader_drop(reader);
}

static int ask_for_reader(struct fb_sort_merge_source* source, struct fb_sort_merge_reader* reader) {
  struct fb_read_scheduler* self = scheduler_of(source);
  bool was_asking;
  int code;

  list_asking(self, reader);
  code = fb_io_executor_post(self->source.executor, &self->request);
  if (code == FB_OK) return FB_OK;
  pthread_mutex_lock(&self->lock);
  was_asking = unlist_asking(self, reader);
  pthread_mutex_unlock(&self->lock);
  if (was_asking) fb_sort_merge_reader_drop(reader);
  return code;
}

static const struct fb_sort_merge_source_kind SCHEDULER = {
    .retain = retain_scheduler,
    .drop = drop_scheduler,
    .add = add_merge_reader,
    .remove = remove_merge_reader,
    .ask = ask_for_reader,
};

void fb_read_scheduler_release(struct fb_read_scheduler* self) {
  while (true) {
    struct fb_sort_merge_reader* reader;

    pthread_mutex_lock(&self->lock);
    self->is_released = true;
    reader = self->readers;
    if (reader != NULL) {
      unlink_reader(self, reader);
      fb_sort_merge_reader_retain(reader);
    }
    pthread_mutex_unlock(&self->lock);
    if (reader == NULL) return;
    fb_sort_merge_reader_fail(reader, FB_ERELEASED, NULL);
    fb_sort_merge_reader_drop(reader);
  }
}

/* ---- serving one reader --------------------------------------------------------------------------------- */

enum turn {
  SERVED,  /* it has got something, or is over */
  PARKED,  /* the pool will post its request */
  STARVED, /* it holds nothing and finds nothing: only time will tell */
};

static enum turn fail_turn(struct fb_sort_merge_reader* reader, int code, const struct fb_file_failure* failure) {
  fb_sort_merge_reader_fail(reader, code, failure->text[0] != '\0' ? failure->text : NULL);
  return SERVED;
}

static int open_reader(struct fb_read_scheduler* self, struct fb_sort_merge_reader* reader,
                       struct fb_file_failure* failure) {
  int code;

  if (reader->file_reader.file != NULL) return FB_OK;
  code = fb_partition_file_reader_open(&reader->file_reader, self->file, reader->view.index, failure);
  if (code == FB_OK && reader->consumer == NULL)
    code = fb_read_buffer_pool_open_consumer(self->pool, self->source.executor, &reader->request, &reader->consumer);
  return code;
}

/* A reader that has read all, or failed, keeps no file open and has no share in
 * the pool. */
static void close_reader(struct fb_sort_merge_reader* reader) {
  fb_read_buffer_pool_close_consumer(reader->consumer);
  reader->consumer = NULL;
  fb_partition_file_reader_close(&reader->file_reader);
}

/* What it could use: regions are about alike, so the rest of this one tells of
 * the others. */
static uint32_t wanted_bytes(const struct fb_partition_file_reader* reader) {
  uint64_t regions = reader->file->region_count - reader->region + 1;

  if (reader->left >= FB_READ_CHUNK_MAX) return FB_READ_CHUNK_MAX;
  if (regions >= FB_READ_CHUNK_MAX || reader->left * regions >= FB_READ_CHUNK_MAX) return FB_READ_CHUNK_MAX;
  return (uint32_t)(reader->left * regions);
}

/* What read() calls for each block. */
struct taking {
  struct fb_read_scheduler* self;
  struct fb_buffer* chunk;
};

static int take_slice(void* context, const struct fb_file_block* block) {
  struct taking* taking = context;
  struct fb_read_scheduler* self = taking->self;

  if (self->slice_count == self->slice_capacity) {
    uint32_t capacity = self->slice_capacity > 0 ? self->slice_capacity * 2 : 64;
    struct fb_buffer_slice* slices = realloc(self->slices, capacity * sizeof *slices);
    if (slices == NULL) return FB_ENOMEM;
    self->slices = slices;
    self->slice_capacity = capacity;
  }
  fb_buffer_retain(taking->chunk);
  self->slices[self->slice_count++] = (struct fb_buffer_slice){.buffer = taking->chunk,
                                                               .offset = block->offset,
                                                               .size = block->size,
                                                               .data_type = block->data_type,
                                                               .is_compressed = block->is_compressed};
  return FB_OK;
}

static int read_chunk(struct fb_read_scheduler* self, struct fb_sort_merge_reader* reader, struct fb_buffer* chunk,
                      struct fb_file_failure* failure) {
  struct taking taking = {.self = self, .chunk = chunk};
  uint32_t size = (uint32_t)chunk->segment.size;
  int code;

  self->run_bytes += size;
  self->slice_count = 0;
  code = fb_partition_file_reader_read(&reader->file_reader, chunk->segment.data, size, take_slice, &taking, failure);
  self->position = reader->file_reader.offset;
  fb_sort_merge_reader_fill(reader, self->slices, self->slice_count, size / 2 < LOW_BYTES ? size / 2 : LOW_BYTES);
  fb_buffer_release(chunk);
  return code;
}

static enum turn refuse_turn(struct fb_sort_merge_reader* reader) {
  return fb_read_buffer_pool_holds_nothing(reader->consumer) ? STARVED : PARKED;
}

static enum turn serve_reader(struct fb_read_scheduler* self, struct fb_sort_merge_reader* reader) {
  struct fb_file_failure failure = {0};
  struct fb_buffer* chunk = NULL;
  int code = open_reader(self, reader, &failure);

  if (code == FB_OK) code = fb_partition_file_reader_find(&reader->file_reader, &failure);
  if (code == 1)
    code = fb_read_buffer_pool_request(reader->consumer, reader->file_reader.least, wanted_bytes(&reader->file_reader),
                                       &chunk);
  else if (code == 0) fb_sort_merge_reader_complete(reader);
  if (code == FB_ETIMEOUT)
    fb_file_failure_set(&failure, code, 0, "cannot read", self->file->data_path, reader->file_reader.offset,
                        "no memory for reading came back in time; give "
                        "taskmanager.memory.framework.off-heap.batch-shuffle.size more bytes");
  if (code == FB_OK && chunk == NULL && reader->consumer != NULL && reader->file_reader.left > 0)
    return refuse_turn(reader);
  if (chunk != NULL) code = read_chunk(self, reader, chunk, &failure);
  if (code == FB_OK && chunk != NULL) fb_sort_merge_reader_complete(reader);
  if (code < 0) fail_turn(reader, code, &failure);
  if (code <= 0) close_reader(reader);
  return SERVED;
}

/* ---- a run ---------------------------------------------------------------------------------------------- */

struct place {
  uint64_t offset; /* in the file, as seen from where the last run ended */
  struct fb_sort_merge_reader* reader;
};

static int compare_places(const void* left, const void* right) {
  uint64_t a = ((const struct place*)left)->offset, b = ((const struct place*)right)->offset;
  return a < b ? -1 : a > b;
}

/* Takes all that have asked, in the order they are to be served. NULL: nobody,
 * or no memory (they stay in the list). */
static struct place* take_asking(struct fb_read_scheduler* self, uint32_t* count) {
  struct place* places;

  pthread_mutex_lock(&self->lock);
  *count = self->asking_count;
  places = *count > 0 ? malloc(*count * sizeof *places) : NULL;
  if (places != NULL) {
    uint32_t at = 0;
    for (struct fb_sort_merge_reader* reader = self->asking; reader != NULL; reader = reader->next_asking) {
      reader->is_asking = false;
      places[at++] = (struct place){.reader = reader};
    }
    self->asking = NULL;
    self->asking_count = 0;
  }
  pthread_mutex_unlock(&self->lock);
  for (uint32_t i = 0; places != NULL && i < *count; i++)
    /* What lies before the position wraps around, behind everything else. */
    places[i].offset = places[i].reader->file_reader.offset - self->position;
  if (places != NULL && *count > 1) qsort(places, *count, sizeof *places, compare_places);
  return places;
}

/* Serves it as often as there is memory and it has little; the list's reference
 * goes. Returns whether it is starved. */
static bool serve_and_drop(struct fb_read_scheduler* self, struct fb_sort_merge_reader* reader) {
  enum turn turn = SERVED;

  if (fb_sort_merge_reader_is_wanted(reader)) turn = serve_reader(self, reader);
  else close_reader(reader);
  /* One that is parked has asked, until the pool posts its request. */
  if (turn == STARVED || (turn == SERVED && fb_sort_merge_reader_rest(reader))) list_asking(self, reader);
  fb_sort_merge_reader_drop(reader);
  return turn == STARVED;
}

/* The first of those who have asked, for the caller to fail and drop; NULL:
 * nobody has. */
static struct fb_sort_merge_reader* first_asking(struct fb_read_scheduler* self, bool is_taken) {
  struct fb_sort_merge_reader* reader;

  pthread_mutex_lock(&self->lock);
  reader = self->asking;
  if (is_taken && reader != NULL) unlist_asking(self, reader);
  pthread_mutex_unlock(&self->lock);
  return reader;
}

/* Runs again for those who have asked meanwhile, or have not had their turn. A
 * thread that is being closed does not. */
static void run_again(struct fb_read_scheduler* self) {
  struct fb_sort_merge_reader* reader = first_asking(self, false);

  if (reader == NULL || fb_io_executor_post(self->source.executor, &self->request) == FB_OK) return;
  while ((reader = first_asking(self, true)) != NULL) {
    fb_sort_merge_reader_fail(reader, FB_ESTATE, THREAD_IS_CLOSED);
    fb_sort_merge_reader_drop(reader);
  }
}

static void run_scheduler(struct fb_io_request* request) {
  struct fb_read_scheduler* self = FB_OWNER(fb_read_scheduler, request, request);
  uint32_t count, starved = 0, at = 0;
  struct place* places;

  if (!retain_running(self)) return;
  self->run_bytes = 0;
  places = take_asking(self, &count);
  for (; places != NULL && at < count && self->run_bytes < RUN_BYTES; at++)
    starved += serve_and_drop(self, places[at].reader);
  for (uint32_t i = at; places != NULL && i < count; i++) {
    list_asking(self, places[i].reader);
    fb_sort_merge_reader_drop(places[i].reader);
  }
  free(places);
  if (starved > 0 && starved == count) fb_read_buffer_pool_wait(self->pool, STARVED_WAIT_MS);
  run_again(self);
  fb_read_scheduler_drop(self);
}

/* ---- the end -------------------------------------------------------------------------------------------- */

/* The one behind `told`, with a reference; that of `told` goes. If it has left meanwhile the first one comes again, and is
 * told nothing twice. */
static struct fb_sort_merge_reader* next_reader(struct fb_read_scheduler* self, struct fb_sort_merge_reader* told) {
  struct fb_sort_merge_reader* next;

  pthread_mutex_lock(&self->lock);
  next = told != NULL && (told->previous != NULL || self->readers == told) ? told->next : self->readers;
  if (next != NULL) fb_sort_merge_reader_retain(next);
  pthread_mutex_unlock(&self->lock);
  if (told != NULL) fb_sort_merge_reader_drop(told);
  return next;
}

/* Nobody posts the request of one that is parked any more, whatever comes home to the pool. */
static void tell_readers_of_end(struct fb_io_request* request) {
  struct fb_read_scheduler* self = FB_OWNER(fb_read_scheduler, closing, request);
  struct fb_sort_merge_reader* reader;

  if (!retain_running(self)) return;
  for (reader = next_reader(self, NULL); reader != NULL; reader = next_reader(self, reader))
    if (fb_sort_merge_reader_is_wanted(reader)) fb_sort_merge_reader_fail(reader, FB_ESTATE, THREAD_IS_CLOSED);
  fb_read_scheduler_drop(self);
}
