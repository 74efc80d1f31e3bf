/* One value of a record into the column that is being made of it.
 *
 * Owner:   the builder. Threads: one at a time. */
#ifndef FB_ARROW_CELL_H
#define FB_ARROW_CELL_H

#include "columns/arrow_builder.h"
#include "ground/data_view.h"
#include "value/binary_row.h"

#define FB_ARROW_CELL_FULL "a batch with more than 2^31 bytes or elements in one column"

/* How the reading of records ended. */
struct fb_arrow_reading {
  int code;           /* FB_OK; FB_EBOUNDS: a full batch ends before the row; else the record is not right */
  const char* reason; /* NULL: what fb_strerror says */
  const struct fb_arrow_column* column;
  uint32_t row; /* of those given */
  size_t byte;  /* of its record */
};

/* Where to say which column refuses a value, and why. */
struct fb_arrow_refusal {
  const struct fb_arrow_builder** at;
  const char** reason;
};

/* Returns `code`. */
int fb_arrow_cell_refuse(struct fb_arrow_builder* self, const struct fb_arrow_refusal* refusal, int code,
                         const char* reason);

/* ---- what is known of a value, into a column that can hold it exactly; errors as for read() --------- */

int fb_arrow_cell_put_integer(struct fb_arrow_builder* self, int64_t value, const struct fb_arrow_refusal* refusal);
int fb_arrow_cell_put_float(struct fb_arrow_builder* self, double value, const struct fb_arrow_refusal* refusal);
int fb_arrow_cell_put_decimal(struct fb_arrow_builder* self, fb_wide_int unscaled, int32_t scale,
                              const struct fb_arrow_refusal* refusal);
int fb_arrow_cell_put_days(struct fb_arrow_builder* self, int64_t days, const struct fb_arrow_refusal* refusal);
/* A second and its nanoseconds in the column's unit. */
int fb_arrow_cell_put_moment(struct fb_arrow_builder* self, int64_t second, uint32_t nano,
                             const struct fb_arrow_refusal* refusal);
/* Room for `size` bytes in `values`; and the end of a value whose bytes are there. */
int fb_arrow_cell_begin_bytes(struct fb_arrow_builder* self, size_t size, const struct fb_arrow_refusal* refusal);
int fb_arrow_cell_end_bytes(struct fb_arrow_builder* self);
/* The end of a list whose elements are there. */
int fb_arrow_cell_end_list(struct fb_arrow_builder* self, const struct fb_arrow_refusal* refusal);

/* Appends the value at input->pos and moves past it. What the type cannot be, or the column cannot hold, gives an error:
 * then *at is the column, *reason why (NULL: what the code says), and the builder has to be truncated. */
int fb_arrow_cell_read(struct fb_arrow_builder* self, struct fb_data_input* input, const struct fb_arrow_builder** at,
                       const char** reason);

#endif
