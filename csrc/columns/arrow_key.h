/* Java's hash codes of the keys in Arrow columns: what key_group.h says of the encoded values, mostly without encoding.
 *
 * Owner:   the scratch is the key's, until close(); it borrows the bound columns. Threads: one at a time. */
#ifndef FB_ARROW_KEY_H
#define FB_ARROW_KEY_H

#include "columns/arrow_rows.h"
#include "ground/data_view.h"

struct fb_arrow_key {
  const struct fb_arrow_column** columns; /* one: its value is the key; several: a tuple of them is */
  uint32_t column_count;
  struct fb_data_output scratch;
};

void fb_arrow_key_close(struct fb_arrow_key* self);

/* hashes[i] is the hash code of row i of the chunk. A key that is null, alone, is a fault: rows->count are the rows before
 * it. FB_ENOMEM. */
int fb_arrow_key_hash(struct fb_arrow_key* self, struct fb_arrow_rows* rows, int32_t* hashes,
                      struct fb_arrow_fault* fault);

#endif
