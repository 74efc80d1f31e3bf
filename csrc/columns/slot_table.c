#include "columns/slot_table.h"

#include <stdlib.h>

#include "ground/wide.h"

#define FIRST_BITS     10
#define MOVED_PER_ROW  8 /* entries of the older index, which meanwhile fills by a sixteenth more */
#define MOST_BITS      32
#define VALUE_IS_THERE 1

typedef unsigned __int128 wide_product;

/* Rows that are looked at together, column by column. */
struct key_chunk {
  int64_t first; /* row of the batch */
  uint32_t count;
  uint32_t tags[FB_SLOT_TABLE_CHUNK]; /* upper halves of hashes */
  bool has_nulls;                     /* in the column that was read last */
  uint8_t is_null[FB_SLOT_TABLE_CHUNK];
  uint64_t numbers[FB_SLOT_TABLE_CHUNK]; /* of the column that was read last */
  size_t sizes[FB_SLOT_TABLE_CHUNK];     /* of keys as bytes */
  size_t cursors[FB_SLOT_TABLE_CHUNK];   /* in the scratch; at last, the ends of the keys */
};

/* One key: a number, or bytes. */
struct slot_key {
  uint64_t number;
  const uint8_t* bytes;
  size_t size;
};

static bool is_number_type(const struct fb_arrow_type* type) {
  switch (type->kind) {
    case FB_ARROW_BOOLEAN:
    case FB_ARROW_INTEGER:
    case FB_ARROW_DATE:
    case FB_ARROW_TIME:
    case FB_ARROW_TIMESTAMP:
    case FB_ARROW_DURATION: return true;
    case FB_ARROW_FLOAT: return type->width >= 4;
    case FB_ARROW_DECIMAL: return type->width <= 8;
    default: return false;
  }
}

static bool is_text_type(const struct fb_arrow_type* type) {
  return type->kind == FB_ARROW_TEXT || type->kind == FB_ARROW_LARGE_TEXT || type->kind == FB_ARROW_BINARY ||
         type->kind == FB_ARROW_LARGE_BINARY;
}

bool fb_slot_table_takes(const struct fb_arrow_type* type) {
  return is_number_type(type) || is_text_type(type) || type->kind == FB_ARROW_DECIMAL ||
         type->kind == FB_ARROW_FIXED_BINARY;
}

void fb_slot_table_open(struct fb_slot_table* self, const struct fb_arrow_column* row, const uint64_t* seeds) {
  *self = (struct fb_slot_table){.row = row};
  memcpy(self->seeds, seeds, sizeof self->seeds);
  self->seeds[1] |= 1;
  self->seeds[3] |= 1;
  self->is_number = row->child_count == 1 && is_number_type(&row->children[0].arrow);
}

void fb_slot_table_clear(struct fb_slot_table* self) {
  free(self->index.entries);
  free(self->older.entries);
  self->index = self->older = (struct fb_slot_index){0};
  fb_arrow_memory_free(&self->numbers);
  fb_arrow_memory_free(&self->bytes);
  fb_arrow_memory_free(&self->ends);
  fb_arrow_memory_free(&self->scratch);
  self->has_null = false;
  self->count = 0;
  self->moved = 0;
}

static size_t entries_of(const struct fb_slot_index* index) {
  return index->entries == NULL ? 0 : (size_t)1 << index->bits;
}

size_t fb_slot_table_bytes(const struct fb_slot_table* self) {
  return (entries_of(&self->index) + entries_of(&self->older)) * sizeof(uint64_t) + self->numbers.capacity +
         self->bytes.capacity + self->ends.capacity + self->scratch.capacity;
}

/* ---- hashes ----------------------------------------------------------------------------------------- */

static inline uint64_t folded_product(uint64_t one, uint64_t other) {
  wide_product product = (wide_product)one * other;

  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t tag_of_number(const uint64_t* seeds, uint64_t number) {
  return (uint32_t)(folded_product(folded_product(number ^ seeds[0], seeds[1]) ^ seeds[2], seeds[3]) >> 32);
}

static inline uint64_t load_word(const uint8_t* from) {
  uint64_t word;

  memcpy(&word, from, sizeof word);
  return word;
}

/* Of at least one byte: keys that are not numbers begin with one that says whether there is a value. */
static uint32_t tag_of_bytes(const uint64_t* seeds, const uint8_t* data, size_t size) {
  uint64_t hash = seeds[0] ^ size, low, high = 0;

  for (; size > 16; size -= 16, data += 16)
    hash = folded_product(load_word(data) ^ seeds[1], load_word(data + 8) ^ seeds[2] ^ hash);
  if (size >= 8) {
    low = load_word(data);
    high = load_word(data + size - 8);
  } else if (size >= 4) {
    uint32_t head, tail;
    memcpy(&head, data, 4);
    memcpy(&tail, data + size - 4, 4);
    low = (uint64_t)head << 32 | tail;
  } else {
    low = (uint64_t)data[0] << 16 | (uint64_t)data[size / 2] << 8 | data[size - 1];
  }
  hash = folded_product(low ^ seeds[1], high ^ seeds[2] ^ hash);
  return (uint32_t)(folded_product(hash ^ seeds[2], seeds[3]) >> 32);
}

/* ---- the index -------------------------------------------------------------------------------------- */

/* Entries lie in the order of their hashes, but for those that were pushed on: so one index becomes a larger one from
 * front to back. */
static inline size_t home_of(const struct fb_slot_index* index, uint32_t tag) { return tag >> (32 - index->bits); }

static inline size_t room_of(const struct fb_slot_index* index) { return entries_of(index) / 8 * 5; }

/* Where it was put. */
static inline size_t put_entry(struct fb_slot_index* index, uint32_t tag, uint32_t slot) {
  size_t mask = ((size_t)1 << index->bits) - 1, at = home_of(index, tag);

  while (index->entries[at] != 0) at = (at + 1) & mask;
  index->entries[at] = (uint64_t)tag << 32 | (slot + 1);
  return at;
}

/* Which of the two indexes has a key, or is to have it: so the pages of the new one are touched for the first time as the
 * entries move, and not all at once by the first rows. */
static inline bool is_in_older(const struct fb_slot_table* self, uint32_t tag) {
  return self->older.entries != NULL && home_of(&self->older, tag) >= self->moved;
}

static inline void add_entry(struct fb_slot_table* self, uint32_t tag, uint32_t slot) {
  if (!is_in_older(self, tag) || put_entry(&self->older, tag, slot) < self->moved) put_entry(&self->index, tag, slot);
}

/* Moves entries up to a free one: nothing whose home is before it lies behind it. What has come round from the end has moved
 * with the first ones, or was put into both. */
static void move_entries(struct fb_slot_table* self, size_t count) {
  size_t end = entries_of(&self->older), stop = count < end - self->moved ? self->moved + count : end;

  for (; self->moved < end; self->moved++) {
    uint64_t entry = self->older.entries[self->moved];
    if (entry != 0) put_entry(&self->index, (uint32_t)(entry >> 32), (uint32_t)entry - 1);
    else if (self->moved >= stop) return;
  }
  free(self->older.entries);
  self->older = (struct fb_slot_index){0};
}

/* So that `count` more keys have a place. */
static int make_slot_room(struct fb_slot_table* self, uint32_t count) {
  struct fb_slot_index larger = {.bits = self->index.entries == NULL ? FIRST_BITS : self->index.bits};

  if (self->older.entries != NULL) move_entries(self, (size_t)MOVED_PER_ROW * count);
  if ((size_t)self->count + count <= room_of(&self->index)) return FB_OK;
  while (((size_t)1 << larger.bits) / 8 * 5 < (size_t)self->count + count) larger.bits++;
  if (larger.bits > MOST_BITS) return FB_ETOO_LARGE;
  larger.entries = calloc((size_t)1 << larger.bits, sizeof *larger.entries);
  if (larger.entries == NULL) return FB_ENOMEM;
  if (self->older.entries != NULL) move_entries(self, SIZE_MAX);
  self->older = self->index;
  self->index = larger;
  self->moved = 0;
  /* Before the first rows, too: the older index may be so small that they would fill it to the last entry. */
  if (self->older.entries != NULL) move_entries(self, (size_t)MOVED_PER_ROW * count);
  return FB_OK;
}

static inline size_t start_of_key(const struct fb_slot_table* self, uint32_t slot) {
  return slot == 0 ? 0 : (size_t)((const uint64_t*)(const void*)self->ends.data)[slot - 1];
}

static FB_WIDE_INLINE bool is_key_of(const struct fb_slot_table* self, uint32_t slot, struct slot_key key,
                                     bool is_number) {
  size_t start;

  if (is_number) return ((const uint64_t*)(const void*)self->numbers.data)[slot] == key.number;
  start = start_of_key(self, slot);
  return start_of_key(self, slot + 1) - start == key.size && memcmp(self->bytes.data + start, key.bytes, key.size) == 0;
}

/* The slot of a key; -1: the index has it not. */
static FB_WIDE_INLINE int64_t find_in_index(const struct fb_slot_table* self, const struct fb_slot_index* index,
                                            uint32_t tag, struct slot_key key, bool is_number) {
  size_t mask = ((size_t)1 << index->bits) - 1;

  for (size_t at = home_of(index, tag);; at = (at + 1) & mask) {
    uint64_t entry = index->entries[at];
    if (entry == 0) return -1;
    if (entry >> 32 == tag && is_key_of(self, (uint32_t)entry - 1, key, is_number)) return (int64_t)(uint32_t)entry - 1;
  }
}

/* The room was made before. */
static FB_WIDE_INLINE uint32_t add_key(struct fb_slot_table* self, struct slot_key key, bool is_number) {
  if (is_number) {
    memcpy(self->numbers.data + self->numbers.size, &key.number, 8);
    self->numbers.size += 8;
  } else {
    uint64_t end = self->bytes.size + key.size;
    memcpy(self->bytes.data + self->bytes.size, key.bytes, key.size);
    memcpy(self->ends.data + self->ends.size, &end, 8);
    self->bytes.size = (size_t)end;
    self->ends.size += 8;
  }
  return self->count++;
}

static uint32_t find_or_add_null(struct fb_slot_table* self) {
  if (self->has_null) return self->null_slot;
  self->has_null = true;
  return self->null_slot = add_key(self, (struct slot_key){0}, true);
}

/* Memory is asked for what the next loop will read: the processor brings many lines at a time. */
static FB_WIDE_INLINE void prefetch_chunk(const struct fb_slot_table* self, const struct key_chunk* chunk,
                                          bool is_number) {
  const uint8_t* keys = is_number ? self->numbers.data : self->ends.data;

  for (uint32_t i = 0; i < chunk->count; i++) {
    const struct fb_slot_index* index = is_in_older(self, chunk->tags[i]) ? &self->older : &self->index;
    __builtin_prefetch(index->entries + home_of(index, chunk->tags[i]));
  }
  for (uint32_t i = 0; i < chunk->count; i++) {
    const struct fb_slot_index* index = is_in_older(self, chunk->tags[i]) ? &self->older : &self->index;
    uint64_t entry = index->entries[home_of(index, chunk->tags[i])];
    if (entry >> 32 == chunk->tags[i] && entry != 0) __builtin_prefetch(keys + 8 * ((entry & UINT32_MAX) - 1));
  }
}

static FB_WIDE_INLINE void take_chunk(struct fb_slot_table* self, const struct key_chunk* chunk, bool is_number,
                                      uint32_t* slots, int64_t** new_rows) {
  prefetch_chunk(self, chunk, is_number);
  for (uint32_t i = 0; i < chunk->count; i++) {
    uint32_t tag = chunk->tags[i], before = self->count;
    struct slot_key key = {.number = chunk->numbers[i]};
    int64_t slot = -1;
    if (is_number && chunk->has_nulls && chunk->is_null[i]) {
      slot = find_or_add_null(self);
    } else {
      if (!is_number) {
        key.size = chunk->sizes[i];
        key.bytes = self->scratch.data + chunk->cursors[i] - key.size;
      }
      slot = find_in_index(self, is_in_older(self, tag) ? &self->older : &self->index, tag, key, is_number);
      if (slot < 0) {
        slot = add_key(self, key, is_number);
        add_entry(self, tag, (uint32_t)slot);
      }
    }
    slots[i] = (uint32_t)slot;
    if (self->count > before) *(*new_rows)++ = chunk->first + i;
  }
}

/* ---- keys ------------------------------------------------------------------------------------------- */

#define FB_DEFINE_NUMBERS(bits)                                                                 \
  static void read_key_numbers_##bits(const uint8_t* from, uint32_t count, uint64_t* numbers) { \
    for (uint32_t i = 0; i < count; i++) {                                                      \
      uint##bits##_t number;                                                                    \
      memcpy(&number, from + sizeof number * i, sizeof number);                                 \
      numbers[i] = number;                                                                      \
    }                                                                                           \
  }                                                                                             \
  static void put_key_numbers_##bits(struct key_chunk* chunk, uint8_t* keys) {                  \
    for (uint32_t i = 0; i < chunk->count; i++) {                                               \
      uint8_t* to = keys + chunk->cursors[i];                                                   \
      uint##bits##_t number = (uint##bits##_t)chunk->numbers[i];                                \
      bool is_null = chunk->has_nulls && chunk->is_null[i];                                     \
      *to = is_null ? 0 : VALUE_IS_THERE;                                                       \
      if (!is_null) memcpy(to + 1, &number, sizeof number);                                     \
      chunk->cursors[i] += is_null ? 1 : 1 + sizeof number;                                     \
    }                                                                                           \
  }
FB_DEFINE_NUMBERS(8)
FB_DEFINE_NUMBERS(16)
FB_DEFINE_NUMBERS(32)
FB_DEFINE_NUMBERS(64)

/* Every NaN becomes the one that Java takes for all. */
static void unite_nans(const struct fb_arrow_type* type, uint32_t count, uint64_t* numbers) {
  uint64_t sign = type->width == 4 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
  uint64_t infinity = type->width == 4 ? 0x7f800000u : UINT64_C(0x7ff0000000000000);
  uint64_t nan = type->width == 4 ? 0x7fc00000u : UINT64_C(0x7ff8000000000000);

  for (uint32_t i = 0; i < count; i++) numbers[i] = (numbers[i] & ~sign) > infinity ? nan : numbers[i];
}

/* Values of a column as numbers, from slot `first` on. */
static void read_key_numbers(const struct fb_arrow_column* column, int64_t first, uint32_t count, uint64_t* numbers) {
  int64_t at = column->offset + first;
  const uint8_t* from = column->values + at * (int64_t)column->arrow.width;

  switch (column->arrow.width) {
    case 1: read_key_numbers_8(from, count, numbers); break;
    case 2: read_key_numbers_16(from, count, numbers); break;
    case 4: read_key_numbers_32(from, count, numbers); break;
    case 8: read_key_numbers_64(from, count, numbers); break;
    default:
      for (uint32_t i = 0; i < count; i++) numbers[i] = fb_arrow_column_bit(column->values, at + i);
  }
  if (column->arrow.kind == FB_ARROW_FLOAT) unite_nans(&column->arrow, count, numbers);
}

static void read_key_nulls(const struct fb_arrow_column* column, int64_t first, struct key_chunk* chunk) {
  chunk->has_nulls = column->validity != NULL;
  if (!chunk->has_nulls) return;
  for (uint32_t i = 0; i < chunk->count; i++) chunk->is_null[i] = fb_arrow_column_is_marked_null(column, first + i);
}

static size_t width_in_key(const struct fb_arrow_type* type) {
  return type->kind == FB_ARROW_BOOLEAN ? 1 : type->width;
}

/* Adds up what the values of a column need. */
static int measure_keys(const struct fb_arrow_column* column, int64_t first, struct key_chunk* chunk) {
  bool is_text = is_text_type(&column->arrow);

  read_key_nulls(column, first, chunk);
  for (uint32_t i = 0; i < chunk->count; i++) {
    size_t size = width_in_key(&column->arrow);
    chunk->sizes[i] += 1;
    if (chunk->has_nulls && chunk->is_null[i]) continue;
    if (is_text) {
      fb_arrow_column_bytes(column, first + i, &size);
      if (size > UINT32_MAX) return FB_ETOO_LARGE;
      size += 4;
    }
    chunk->sizes[i] += size;
  }
  return FB_OK;
}

static void put_key_texts(const struct fb_arrow_column* column, int64_t first, struct key_chunk* chunk, uint8_t* keys) {
  bool is_text = is_text_type(&column->arrow);

  for (uint32_t i = 0; i < chunk->count; i++) {
    uint8_t* to = keys + chunk->cursors[i];
    size_t size = column->arrow.width;
    const uint8_t* from;
    uint32_t length;
    *to = chunk->has_nulls && chunk->is_null[i] ? 0 : VALUE_IS_THERE;
    if (*to++ == VALUE_IS_THERE) {
      if (is_text) {
        from = fb_arrow_column_bytes(column, first + i, &size);
        length = (uint32_t)size;
        memcpy(to, &length, 4);
        to += 4;
      } else {
        from = column->values + (column->offset + first + i) * (int64_t)size;
      }
      if (size > 0) memcpy(to, from, size);
      to += size;
    }
    chunk->cursors[i] = (size_t)(to - keys);
  }
}

static void put_keys(const struct fb_arrow_column* column, int64_t first, struct key_chunk* chunk, uint8_t* keys) {
  read_key_nulls(column, first, chunk);
  if (!is_number_type(&column->arrow)) {
    put_key_texts(column, first, chunk, keys);
    return;
  }
  read_key_numbers(column, first, chunk->count, chunk->numbers);
  switch (width_in_key(&column->arrow)) {
    case 1: put_key_numbers_8(chunk, keys); break;
    case 2: put_key_numbers_16(chunk, keys); break;
    case 4: put_key_numbers_32(chunk, keys); break;
    default: put_key_numbers_64(chunk, keys); break;
  }
}

/* ---- chunks ----------------------------------------------------------------------------------------- */

static int take_number_keys(struct fb_slot_table* self, struct key_chunk* chunk, uint32_t* slots, int64_t** new_rows) {
  const struct fb_arrow_column* column = &self->row->children[0];
  int64_t first = self->row->offset + chunk->first;
  int code = fb_arrow_memory_reserve(&self->numbers, 8 * (size_t)chunk->count);

  if (code < 0) return code;
  read_key_nulls(column, first, chunk);
  read_key_numbers(column, first, chunk->count, chunk->numbers);
  for (uint32_t i = 0; i < chunk->count; i++) chunk->tags[i] = tag_of_number(self->seeds, chunk->numbers[i]);
  take_chunk(self, chunk, true, slots, new_rows);
  return FB_OK;
}

static int take_byte_keys(struct fb_slot_table* self, struct key_chunk* chunk, uint32_t* slots, int64_t** new_rows) {
  int64_t first = self->row->offset + chunk->first;
  size_t sum = 0;
  int code = fb_arrow_memory_reserve(&self->ends, 8 * (size_t)chunk->count);

  memset(chunk->sizes, 0, chunk->count * sizeof *chunk->sizes);
  for (uint32_t k = 0; code == FB_OK && k < self->row->child_count; k++)
    code = measure_keys(&self->row->children[k], first, chunk);
  for (uint32_t i = 0; i < chunk->count; i++) {
    chunk->cursors[i] = sum;
    sum += chunk->sizes[i];
  }
  if (code == FB_OK) code = fb_arrow_memory_reserve(&self->scratch, sum);
  if (code == FB_OK) code = fb_arrow_memory_reserve(&self->bytes, sum);
  if (code < 0) return code;
  for (uint32_t k = 0; k < self->row->child_count; k++)
    put_keys(&self->row->children[k], first, chunk, self->scratch.data);
  for (uint32_t i = 0; i < chunk->count; i++) {
    size_t size = chunk->sizes[i];
    chunk->tags[i] = tag_of_bytes(self->seeds, self->scratch.data + chunk->cursors[i] - size, size);
  }
  take_chunk(self, chunk, false, slots, new_rows);
  return FB_OK;
}

int fb_slot_table_find_or_add(struct fb_slot_table* self, uint32_t* slots, int64_t* new_rows, int64_t* new_count) {
  int64_t* next = new_rows;
  struct key_chunk chunk;
  int code = FB_OK;

  for (chunk.first = 0; code == FB_OK && chunk.first < self->row->length; chunk.first += chunk.count) {
    int64_t left = self->row->length - chunk.first;
    chunk.count = left < FB_SLOT_TABLE_CHUNK ? (uint32_t)left : FB_SLOT_TABLE_CHUNK;
    code = make_slot_room(self, chunk.count);
    if (code < 0) break;
    code = self->is_number ? take_number_keys(self, &chunk, slots + chunk.first, &next)
                           : take_byte_keys(self, &chunk, slots + chunk.first, &next);
  }
  *new_count = next - new_rows;
  return code;
}
