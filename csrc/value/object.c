#include "value/object.h"

#include "value/text.h"

#define MICROS_PER_SECOND 1000000u
#define SECONDS_PER_DAY   86400u
#define MAX_DAYS          999999999 /* datetime.timedelta.max.days */

static int skip_value(struct fb_data_input* input, bool is_key, unsigned depth);

bool fb_object_is_date(const uint8_t* from) {
  static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  unsigned year = fb_load_le16(from), month = from[2], day = from[3];
  bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

  if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1) return false;
  return day <= days[month - 1] + (unsigned)(leap && month == 2);
}

bool fb_object_is_time(const uint8_t* from) {
  return from[0] < 24 && from[1] < 60 && from[2] < 60 && from[3] < 4 && fb_load_le32(from + 4) < MICROS_PER_SECOND;
}

bool fb_object_is_timedelta(const uint8_t* from) {
  int32_t days = (int32_t)fb_load_le32(from);

  return days >= -MAX_DAYS && days <= MAX_DAYS && fb_load_le32(from + 4) < SECONDS_PER_DAY &&
         fb_load_le32(from + 8) < MICROS_PER_SECOND;
}

bool fb_object_is_ucs4(const uint8_t* from, size_t count) {
  uint32_t most = 0;

  for (size_t i = 0; i < count; i++) {
    uint32_t point = fb_load_le32(from + 4 * i);
    most = point > most ? point : most;
  }
  return most <= 0x10ffff;
}

static int take(struct fb_data_input* input, size_t size, const uint8_t** from) {
  if (fb_data_input_left(input) < size) return FB_ETRUNCATED;
  *from = input->pos;
  input->pos += size;
  return FB_OK;
}

/* A count of things of at least `least` bytes each; an offending one is not passed over. */
static int take_le_count(struct fb_data_input* input, size_t least, uint32_t* count) {
  if (fb_data_input_left(input) < 4) return FB_ETRUNCATED;
  *count = fb_load_le32(input->pos);
  if (*count > INT32_MAX) return FB_ECORRUPT;
  if (*count > (fb_data_input_left(input) - 4) / least) return FB_ETRUNCATED;
  input->pos += 4;
  return FB_OK;
}

static int skip_values(struct fb_data_input* input, uint64_t count, bool is_key, unsigned depth) {
  int code = FB_OK;

  if (depth >= FB_OBJECT_MAX_DEPTH) return FB_ETOO_LARGE;
  for (; code == FB_OK && count > 0; count--) code = skip_value(input, is_key, depth + 1);
  return code;
}

static int skip_counted(struct fb_data_input* input, uint32_t values_each, bool is_key, unsigned depth) {
  uint32_t count;
  int code = take_le_count(input, values_each, &count);

  return code == FB_OK ? skip_values(input, (uint64_t)count * values_each, is_key, depth) : code;
}

/* Bytes, or characters of `width` bytes. */
static int skip_sized(struct fb_data_input* input, size_t width, const uint8_t** from, uint32_t* count) {
  int code = take_le_count(input, width, count);

  return code == FB_OK ? take(input, *count * width, from) : code;
}

static int skip_ascii(struct fb_data_input* input, size_t size) {
  const uint8_t* from;

  if (take(input, size, &from) < 0) return FB_ETRUNCATED;
  if (!fb_text_is_ascii(from, size)) return input->pos = from, FB_ECORRUPT;
  return FB_OK;
}

static int skip_text(struct fb_data_input* input, uint8_t tag) {
  const uint8_t* from = NULL;
  uint32_t count;
  int code = skip_sized(input, tag == FB_OBJECT_UCS4 ? 4 : tag == FB_OBJECT_UCS2 ? 2 : 1, &from, &count);

  if (code != FB_OK) return code;
  if ((tag == FB_OBJECT_ASCII && !fb_text_is_ascii(from, count)) ||
      (tag == FB_OBJECT_UCS4 && !fb_object_is_ucs4(from, count)))
    return input->pos = from, FB_ECORRUPT;
  return FB_OK;
}

static int skip_fixed(struct fb_data_input* input, uint8_t tag) {
  size_t size = tag == FB_OBJECT_DATE ? 4 : tag == FB_OBJECT_TIME ? 8 : 12;
  const uint8_t* from;
  bool valid;

  if (take(input, size, &from) < 0) return FB_ETRUNCATED;
  if (tag == FB_OBJECT_TIMEDELTA) valid = fb_object_is_timedelta(from);
  else if (tag == FB_OBJECT_TIME) valid = fb_object_is_time(from);
  else valid = fb_object_is_date(from) && (tag == FB_OBJECT_DATE || fb_object_is_time(from + 4));
  return valid ? FB_OK : (input->pos = from, FB_ECORRUPT);
}

static int skip_row_names(struct fb_data_input* input, uint32_t count) {
  const uint8_t *from = NULL, *end;
  uint32_t size;
  int code = skip_sized(input, 1, &from, &size);
  struct fb_data_input names;

  if (code != FB_OK) return code;
  end = from + size;
  names = (struct fb_data_input){from, from, end, -1, -1};
  for (; code == FB_OK && count > 0; count--) code = skip_sized(&names, 1, &from, &size);
  return code == FB_OK && names.pos == end ? FB_OK : (input->pos = names.pos, FB_ECORRUPT);
}

static int skip_any_row(struct fb_data_input* input, bool is_key, unsigned depth) {
  const uint8_t* head;
  uint32_t count;
  int code = take(input, 2, &head);

  if (code == FB_OK && (head[0] > 3 || head[1] > 1)) return input->pos = head, FB_ECORRUPT;
  if (code == FB_OK) code = take_le_count(input, 1, &count);
  if (code == FB_OK && head[1] == 1) code = skip_row_names(input, count);
  return code == FB_OK ? skip_values(input, count, is_key, depth) : code;
}

static int skip_value(struct fb_data_input* input, bool is_key, unsigned depth) {
  const uint8_t* start = input->pos;
  const uint8_t* from;
  uint32_t count;
  uint8_t tag;

  if (take(input, 1, &from) < 0) return FB_ETRUNCATED;
  tag = *from;
  if (tag <= FB_OBJECT_MAX_SHORT_TEXT) return skip_ascii(input, tag);
  if (tag < FB_OBJECT_NONE) return skip_values(input, tag & FB_OBJECT_MAX_SHORT, is_key, depth);
  if (tag > FB_OBJECT_INT && tag < FB_OBJECT_BIG_INT) return take(input, tag - FB_OBJECT_INT, &from);
  switch (tag) {
    case FB_OBJECT_NONE:
    case FB_OBJECT_FALSE:
    case FB_OBJECT_TRUE: return FB_OK;
    case FB_OBJECT_FLOAT: return take(input, 8, &from);
    case FB_OBJECT_ASCII:
    case FB_OBJECT_LATIN1:
    case FB_OBJECT_UCS2:
    case FB_OBJECT_UCS4: return skip_text(input, tag);
    case FB_OBJECT_BIG_INT:
    case FB_OBJECT_BYTES:
    case FB_OBJECT_BYTEARRAY:
    case FB_OBJECT_DECIMAL: return skip_sized(input, 1, &from, &count);
    case FB_OBJECT_TUPLE:
    case FB_OBJECT_LIST:
    case FB_OBJECT_SET:
    case FB_OBJECT_FROZENSET: return skip_counted(input, 1, is_key, depth);
    case FB_OBJECT_DICT: return skip_counted(input, 2, is_key, depth);
    case FB_OBJECT_DATE:
    case FB_OBJECT_TIME:
    case FB_OBJECT_DATETIME:
    case FB_OBJECT_TIMEDELTA: return skip_fixed(input, tag);
    case FB_OBJECT_ROW: return skip_any_row(input, is_key, depth);
    case FB_OBJECT_PICKLED:
      if (is_key || depth > 0) break;
      return skip_sized(input, 1, &from, &count);
    case FB_OBJECT_GLOBAL:
    case FB_OBJECT_REDUCED:
      if (!is_key) break;
      return skip_values(input, 1, is_key, depth);
    default: break;
  }
  return input->pos = start, FB_ECORRUPT;
}

int fb_object_skip(struct fb_data_input* input, bool is_key) { return skip_value(input, is_key, 0); }
