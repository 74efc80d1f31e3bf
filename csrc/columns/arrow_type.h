/* What an Arrow format string means: how the values of a column lie in memory, and which types of ours they fit.
 *
 * Owner:   nothing to free. Threads: no state; any thread may call anything. */
#ifndef FB_ARROW_TYPE_H
#define FB_ARROW_TYPE_H

#include "value/type.h"

enum fb_arrow_kind {
  FB_ARROW_NULL,
  FB_ARROW_BOOLEAN,
  FB_ARROW_INTEGER, /* width, is_signed */
  FB_ARROW_FLOAT,   /* width 2, 4 or 8 */
  FB_ARROW_TEXT,    /* UTF-8 behind offsets of 4 bytes; then of 8; then 16-byte views */
  FB_ARROW_LARGE_TEXT,
  FB_ARROW_TEXT_VIEW,
  FB_ARROW_BINARY,
  FB_ARROW_LARGE_BINARY,
  FB_ARROW_BINARY_VIEW,
  FB_ARROW_FIXED_BINARY,   /* width */
  FB_ARROW_DECIMAL,        /* width, precision, scale */
  FB_ARROW_DATE,           /* width 4: days; 8: milliseconds */
  FB_ARROW_TIME,           /* width, per_second */
  FB_ARROW_TIMESTAMP,      /* per_second, has_zone */
  FB_ARROW_DURATION,       /* per_second */
  FB_ARROW_MONTHS,         /* 4 bytes */
  FB_ARROW_DAY_TIME,       /* days and milliseconds, 4 bytes each */
  FB_ARROW_MONTH_DAY_NANO, /* months and days in 4 bytes each, nanoseconds in 8 */
  FB_ARROW_LIST,
  FB_ARROW_LARGE_LIST,
  FB_ARROW_LIST_VIEW,
  FB_ARROW_LARGE_LIST_VIEW,
  FB_ARROW_FIXED_LIST, /* width: elements */
  FB_ARROW_STRUCT,
  FB_ARROW_MAP,
  FB_ARROW_DICTIONARY, /* never from a format: width and is_signed of the indices; child 0: the values */
  FB_ARROW_RUN_ENDS,   /* child 0: the values; width: of the run ends */
  FB_ARROW_KIND_COUNT
};

struct fb_arrow_type {
  enum fb_arrow_kind kind;
  uint32_t width; /* bytes of a value, elements of a FIXED_LIST, else 0 */
  bool is_signed;
  bool has_zone;
  int64_t per_second;
  int32_t precision;
  int32_t scale;
};

/* FB_EARGUMENT: a union, or no format at all. */
int fb_arrow_type_parse(const char* format, struct fb_arrow_type* type);

/* Whether every value of a column of `arrow`, itself and without its children, is a value of `type`. */
bool fb_arrow_type_fits(const struct fb_arrow_type* arrow, const struct fb_type* type);

/* Bytes of the null that a type has in itself, outside of a row; -1: it has none. */
int64_t fb_arrow_type_null_size(const struct fb_type* type);
uint8_t* fb_arrow_type_put_null(const struct fb_type* type, uint8_t* to);

#endif
