/* Arrays of any lengths, offsets and counts as rows of a ROW, and of a ROW_DATA: what bind() accepts can be measured and
 * written without a byte read outside. The interface does not tell the sizes of buffers, so these are large enough for
 * what the lengths and offsets below can ask for.
 *
 * Input: 1 byte that chooses the format, then all else in the order in which the arrays are made. */
#include "arrow_trees.h"
#include "columns/arrow_rows.h"
#include "fuzz_replay.h"

#define MAX_SLOTS 48
#define MAX_BYTES 256 /* that an offset of text may point to */

struct feed {
  const uint8_t* pos;
  const uint8_t* end;
};

static uint8_t take_byte(struct feed* self) { return self->pos < self->end ? *self->pos++ : 0; }

/* Mostly a small number, now and then what no length may be. Not one that is only too large for its buffers: their sizes
 * are in no array, so nobody could tell. */
static int64_t take_length(struct feed* self, int64_t limit) {
  uint8_t byte = take_byte(self);

  if (byte >= 0xfc) return (int64_t[]){-1, INT64_MAX, INT64_MIN, INT64_MAX / 64 + 1}[byte - 0xfc];
  return byte % (limit + 1);
}

static void* take_block(struct feed* self, size_t size) {
  uint8_t* block = malloc(size > 0 ? size : 1);

  CHECK(block != NULL);
  for (size_t i = 0; i < size; i++) block[i] = take_byte(self);
  return block;
}

/* Offsets that mostly rise, in steps of up to 3. */
static void* take_offsets(struct feed* self, size_t count) {
  int32_t *offsets = malloc(4 * count), now = 0;

  CHECK(offsets != NULL);
  for (size_t i = 0; i < count; i++) {
    uint8_t byte = take_byte(self);
    now += byte >= 0xf8 ? -1 : byte % 4;
    offsets[i] = now;
  }
  return offsets;
}

static void release_made(struct ArrowArray* array) {
  for (int64_t i = 0; i < 3; i++) free((void*)(uintptr_t)array->buffers[i]);
  for (int i = 0; array->private_data != NULL && i < TREE_FIELDS; i++)
    if (array->children[i] != NULL) {
      release_made(array->children[i]);
      free(array->children[i]);
    }
  free(array->private_data);
  free(array->buffers);
}

static void ignore_release(struct ArrowArray* array) { (void)array; }

static struct ArrowArray* make_array(struct feed* self, const struct fb_arrow_column* column);

static void fill_array(struct feed* self, const struct fb_arrow_column* column, struct ArrowArray* array) {
  enum fb_arrow_kind kind = column->arrow.kind;
  bool has_offsets = kind == FB_ARROW_TEXT || kind == FB_ARROW_BINARY || kind == FB_ARROW_LIST || kind == FB_ARROW_MAP;
  uint32_t count = column->array_child_count;
  uint8_t shape = take_byte(self);

  *array = (struct ArrowArray){.release = ignore_release};
  array->buffers = calloc(3, sizeof *array->buffers);
  array->private_data = calloc(TREE_FIELDS, sizeof(struct ArrowArray*));
  CHECK(array->buffers != NULL && array->private_data != NULL);
  array->children = array->private_data;
  array->length = take_length(self, MAX_SLOTS);
  array->offset = shape & 1 ? take_length(self, MAX_SLOTS) : 0;
  array->null_count = shape & 2 ? take_length(self, 3) : 0;
  array->n_buffers = kind == FB_ARROW_STRUCT                                         ? 1
                     : kind == FB_ARROW_LIST || kind == FB_ARROW_MAP || !has_offsets ? 2
                                                                                     : 3;
  array->n_children = count;
  if (shape & 4) array->buffers[0] = take_block(self, 2 * MAX_SLOTS / 8 + 1);
  if (has_offsets && shape < 0xf8) array->buffers[1] = take_offsets(self, 2 * MAX_SLOTS + 1);
  if (!has_offsets && kind != FB_ARROW_STRUCT && shape < 0xf8)
    array->buffers[1] = take_block(self, 2 * MAX_SLOTS * (column->arrow.width > 0 ? column->arrow.width : 1));
  if (array->n_buffers == 3 && shape < 0xf4) array->buffers[2] = take_block(self, 2 * MAX_SLOTS * 3 + MAX_BYTES);
  if (shape == 0xff) array->n_buffers++;
  if (shape == 0xfe) array->n_children--;
}

static struct ArrowArray* make_array(struct feed* self, const struct fb_arrow_column* column) {
  struct ArrowArray* array = malloc(sizeof *array);

  CHECK(array != NULL);
  fill_array(self, column, array);
  if (column->arrow.kind == FB_ARROW_MAP) { /* its entries, which have no column of their own */
    struct fb_arrow_column entries = *column;
    entries.arrow.kind = FB_ARROW_STRUCT;
    entries.array_child_count = 2;
    array->children[0] = make_array(self, &entries);
    return array;
  }
  for (uint32_t i = 0; i < column->child_count; i++) array->children[i] = make_array(self, &column->children[i]);
  return array;
}

/* All rows up to a fault, each chunk in a block of exactly its size and the slack. */
static void write_rows(struct fb_arrow_column* root) {
  static struct fb_arrow_rows rows;
  struct fb_arrow_fault fault;

  CHECK(fb_arrow_rows_open(&rows, root) == FB_OK);
  for (int64_t first = 0; first < root->length; first += rows.count) {
    size_t size = 0;
    uint8_t* bytes;
    fb_arrow_rows_measure(&rows, first, &fault);
    for (uint32_t i = 0; i < rows.count; i++) size += rows.sizes[i];
    bytes = malloc(size + FB_ARROW_ROWS_SLACK);
    CHECK(bytes != NULL);
    fb_arrow_rows_pack(&rows, 0, rows.count, bytes);
    for (size_t i = 0, at = 0; i < rows.count; at += rows.sizes[i++]) {
      struct fb_data_input input = {bytes + at, bytes + at + 4, bytes + at + rows.sizes[i], -1, -1};
      CHECK(fb_load_be32(bytes + at) == rows.sizes[i] - 4);
      CHECK(fb_type_skip(root->type, &input) == FB_OK && input.pos == input.end);
    }
    free(bytes);
    if (fault.column != NULL) {
      CHECK(fault.reason != NULL && fault.row == first + rows.count);
      break;
    }
    CHECK(rows.count > 0);
  }
  fb_arrow_rows_close(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static struct arrow_tree tree;
  struct feed feed = {data, data + size};
  struct fb_arrow_fault fault = {0};
  struct fb_arrow_column* root = arrow_tree_open(&tree, take_byte(&feed) & 1);
  struct ArrowArray* array = make_array(&feed, root);

  if (fb_arrow_column_bind(root, array, &fault) == FB_OK) write_rows(root);
  else CHECK(fault.reason != NULL && fault.column != NULL);
  release_made(array);
  free(array);
  return 0;
}
