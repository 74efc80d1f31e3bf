/* All rows of an Arrow batch as records on the streams of many channels.
 *
 * A batch passes a chunk of rows at a time, twice: measure() goes through the columns, finds what loop each of them
 * needs and adds up the sizes of the rows; then scatter() writes row after row to where its channel's builder ends, each
 * field straight from its column. Nothing is gathered by channel before, nothing is allocated, a row's cache lines are
 * touched once, and those of the rows to come are asked for ahead. Flink: RecordWriter, RowSerializer.
 *
 * Owner:   the fields are the rows', until close(); it borrows the bound columns. Threads: one at a time. */
#ifndef FB_ARROW_ROWS_H
#define FB_ARROW_ROWS_H

#include "columns/arrow_column.h"
#include "memory/buffer_builder.h"

/* Rows of a chunk: their sizes and channels, and the text that is looked through, shall stay near. */
#define FB_ARROW_CHUNK 512

/* Bytes behind a row that are written too, before what belongs there is: a short text is copied as 16 bytes. */
#define FB_ARROW_ROWS_SLACK 16

struct fb_arrow_field; /* how a column of the chunk is written */

struct fb_arrow_rows {
  const struct fb_arrow_column*
      row; /* STRUCT over ROW or TUPLE; else one column whose values are the records. NULL: closed */
  struct fb_arrow_field* fields; /* as many as the row has columns; one, where it is one column itself */
  uint32_t field_count;
  uint32_t mask_size; /* bytes of a row's mask of nulls */
  int64_t first;      /* of the chunk: which row of the batch */
  uint32_t count;
  uint32_t sizes[FB_ARROW_CHUNK];    /* of the records, their 4 length bytes included */
  uint32_t channels[FB_ARROW_CHUNK]; /* the caller fills them in between */
  uint8_t* heads[FB_ARROW_CHUNK];    /* of ROW_DATA, whose columns are passed over one by one: where a row is */
  uint8_t* ends[FB_ARROW_CHUNK];     /* and where it goes on */
};

/* For batches of `row`, a tree that lives longer. FB_ENOMEM leaves it closed. */
int fb_arrow_rows_open(struct fb_arrow_rows* self, const struct fb_arrow_column* row);
void fb_arrow_rows_close(struct fb_arrow_rows* self);

/* Takes the chunk that starts at row `first` of the bound batch. With a fault, `count` are the rows before it, and
 * fault->row is the one it is in. */
void fb_arrow_rows_measure(struct fb_arrow_rows* self, int64_t first, struct fb_arrow_fault* fault);
/* The same with a chunk of at most `limit` rows, which is at most FB_ARROW_CHUNK. */
void fb_arrow_rows_measure_some(struct fb_arrow_rows* self, int64_t first, uint32_t limit,
                                struct fb_arrow_fault* fault);

/* Appends the rows from `from` on, each to the builder of its channel, and counts them there, up to the first that has no
 * open builder with room for more than it and the slack: returns how many. Not visible before commit(). */
uint32_t fb_arrow_rows_scatter(struct fb_arrow_rows* self, uint32_t from, struct fb_buffer_builder* builders,
                               uint32_t builder_count, uint64_t* counts);

/* Writes `count` rows from `from` on, one behind the other. The caller has made room, and for the slack behind them. */
void fb_arrow_rows_pack(struct fb_arrow_rows* self, uint32_t from, uint32_t count, uint8_t* to);

/* The same with all rows of the chunk, and without their lengths: each takes 4 bytes less than its size. */
void fb_arrow_rows_pack_values(struct fb_arrow_rows* self, uint8_t* to);

#endif
