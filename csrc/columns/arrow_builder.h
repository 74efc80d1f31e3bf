/* A column that is being made: growing buffers, which are handed over as an Arrow array when there are enough rows.
 *
 * Owner:   the tree owns its buffers until finish() or close(); it borrows the columns that describe it, whose arrays it
 *          does not look at. Threads: one at a time. */
#ifndef FB_ARROW_BUILDER_H
#define FB_ARROW_BUILDER_H

#include "columns/arrow_column.h"
#include "columns/arrow_memory.h"

struct fb_arrow_builder {
  const struct fb_arrow_column* column; /* NULL: closed */
  struct fb_arrow_builder* children;    /* owned; as many as the column has */
  struct fb_arrow_memory_pool* pool;    /* one for the whole tree; the root holds the reference */
  bool is_root;
  int64_t length;
  int64_t null_count;
  struct fb_arrow_memory validity; /* empty while nothing is null */
  struct fb_arrow_memory values;
  struct fb_arrow_memory offsets;
};

/* FB_EARGUMENT: a column is a dictionary, a view or run ends. FB_ENOMEM. Then it is closed. */
int fb_arrow_builder_open(struct fb_arrow_builder* self, const struct fb_arrow_column* column);
void fb_arrow_builder_close(struct fb_arrow_builder* self);

/* Bytes in all buffers. */
uint64_t fb_arrow_builder_bytes(const struct fb_arrow_builder* self);

/* Moves everything into `array`, which its holder releases, and begins anew. FB_ENOMEM: nothing was moved. */
int fb_arrow_builder_finish(struct fb_arrow_builder* self, struct ArrowArray* array);

/* ---- values; all give FB_ENOMEM ------------------------------------------------------------------- */

int fb_arrow_builder_put_null(struct fb_arrow_builder* self);
/* A value of the column's width. */
int fb_arrow_builder_put_slot(struct fb_arrow_builder* self, const void* value, size_t width);
/* The value whose buffers were filled otherwise is there. */
int fb_arrow_builder_put_valid(struct fb_arrow_builder* self);
/* The same for `count` values. */
int fb_arrow_builder_put_valid_slots(struct fb_arrow_builder* self, int64_t count);
/* The first `length` values stay, and of what was begun after them nothing. */
void fb_arrow_builder_truncate(struct fb_arrow_builder* self, int64_t length);

/* Room for validity bits up to `count`; those before the present length are set. */
int fb_arrow_builder_begin_validity(struct fb_arrow_builder* self, int64_t count);
/* Room for `more` offsets behind the first, which is 0. */
int fb_arrow_builder_begin_offsets(struct fb_arrow_builder* self, size_t more);
/* The end of the value that is appended; there is room. */
void fb_arrow_builder_put_offset(struct fb_arrow_builder* self, int64_t offset);
int64_t fb_arrow_builder_offset(const struct fb_arrow_builder* self, int64_t i);
/* Whether its offsets take 8 bytes. */
bool fb_arrow_builder_is_wide(enum fb_arrow_kind kind);

#endif
