/* Any bytes as a value of any type: measuring ends, reads nothing outside, says the same of the same bytes,
 * and no value is the beginning of another. Accepted text goes through decoder and encoder unchanged.
 *
 * Input: 1 byte that chooses the type, then the value. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fuzz_replay.h"
#include "value/text.h"
#include "value/type.h"

#define SCALAR_COUNT FB_TYPE_OBJECT /* the kinds before this one have no children */
#define MAX_TYPES    64

struct types {
  struct fb_type nodes[MAX_TYPES];
  const struct fb_type* children[MAX_TYPES][16];
  uint32_t count;
};

static const struct fb_type* add(struct types* self, enum fb_type_kind kind, uint32_t child_count,
                                 const struct fb_type* const* children) {
  struct fb_type* node = &self->nodes[self->count];

  CHECK(self->count < MAX_TYPES && child_count <= 16);
  for (uint32_t i = 0; i < child_count; i++) self->children[self->count][i] = children[i];
  *node = (struct fb_type){.kind = kind, .child_count = child_count, .children = self->children[self->count]};
  if (kind == FB_TYPE_ENUM) node->symbol_count = 4;
  if (kind == FB_TYPE_NULLABLE && children[0]->kind == FB_TYPE_INT) node->padding = 4;
  fb_type_measure(node);
  self->count++;
  return node;
}

#define LIST_OF(...) \
  (const struct fb_type*[]) { __VA_ARGS__ }
#define OF(kind, ...) add(types, FB_TYPE_##kind, sizeof(LIST_OF(__VA_ARGS__)) / sizeof(void*), LIST_OF(__VA_ARGS__))

/* Every kind without children first, in the order of the kinds; then all that has some. */
static void open_types(struct types* types) {
  const struct fb_type *n = types->nodes, *row, *list, *tuple;

  types->count = 0;
  for (int kind = 0; kind < SCALAR_COUNT; kind++) add(types, (enum fb_type_kind)kind, 0, NULL);
  add(types, FB_TYPE_STRING_ARRAY, 0, NULL);
  OF(PRIMITIVE_ARRAY, &n[FB_TYPE_BOOLEAN]);
  OF(PRIMITIVE_ARRAY, &n[FB_TYPE_LONG]);
  OF(OBJECT_ARRAY, &n[FB_TYPE_STRING]);
  list = OF(LIST, &n[FB_TYPE_INT]);
  OF(LIST, &n[FB_TYPE_NULL_VALUE]);
  OF(SET, &n[FB_TYPE_STRING]);
  OF(MAP, &n[FB_TYPE_STRING], list);
  OF(MAP, &n[FB_TYPE_NULL_VALUE], &n[FB_TYPE_NULL_VALUE]);
  tuple = OF(TUPLE, &n[FB_TYPE_LONG], &n[FB_TYPE_STRING], &n[FB_TYPE_DOUBLE]);
  row = OF(ROW, &n[FB_TYPE_INT], &n[FB_TYPE_STRING], tuple, list, &n[FB_TYPE_BIG_DEC], &n[FB_TYPE_INSTANT],
           &n[FB_TYPE_LOCAL_DATE_TIME]);
  add(types, FB_TYPE_ROW, 0, NULL);
  OF(LIST, row);
  OF(LIST, OF(LIST, OF(TUPLE, &n[FB_TYPE_NULL_VALUE])));
  OF(EITHER, row, &n[FB_TYPE_NULL_VALUE]);
  OF(NULLABLE, &n[FB_TYPE_INT]);
  OF(NULLABLE, tuple);
  OF(STREAM_ELEMENT, row);
  OF(LIST, add(types, FB_TYPE_OBJECT, 0, NULL));
}

static int skip(const struct fb_type* type, const uint8_t* data, size_t size, size_t* used) {
  struct fb_data_input input = {data, data, data + size, -1, -1};
  int code = fb_type_skip(type, &input);

  CHECK(code == FB_OK || code == FB_ETRUNCATED || code == FB_ECORRUPT || code == FB_ETOO_LARGE);
  CHECK(input.start == data && input.pos >= data && input.pos <= input.end);
  *used = (size_t)(input.pos - data);
  return code;
}

/* Every shorter piece of a value ends too early, and that must be said. */
static void check_prefixes(const struct fb_type* type, const uint8_t* data, size_t size) {
  for (size_t cut = 0; cut < size && cut < 48; cut++) {
    uint8_t* copy = malloc(cut > 0 ? cut : 1); /* of exactly this size, for the sanitizer */
    size_t used;

    CHECK(copy != NULL);
    memcpy(copy, data, cut);
    CHECK(skip(type, copy, cut, &used) == FB_ETRUNCATED);
    free(copy);
  }
}

static void check_text(const uint8_t* data, size_t size) {
  struct fb_data_input input = {data, data, data + size, -1, -1};
  struct fb_text text, plan;
  uint32_t units = 0;
  uint32_t* points;
  uint8_t* again;

  CHECK(fb_text_read_varint(&input, &units) == FB_OK);
  if (units-- == 0) return;
  data = input.pos;
  CHECK(fb_text_measure(&input, units, &text) == FB_OK);
  points = malloc(4 * (size_t)text.length + 1);
  again = malloc(text.size + 1);
  CHECK(points != NULL && again != NULL);
  fb_text_decode(data, &text, 4, points);
  fb_text_plan(points, text.length, 4, &plan);
  CHECK(plan.size == text.size && plan.units == units);
  CHECK(fb_text_encode(points, text.length, 4, again) == again + text.size);
  CHECK(memcmp(again, data, text.size) == 0);
  free(points);
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct types types;
  const struct fb_type* type;
  size_t used, used_again;

  if (size == 0) return 0;
  open_types(&types);
  type = &types.nodes[data[0] % types.count];
  if (skip(type, data + 1, size - 1, &used) != FB_OK) return 0;
  CHECK(used >= type->min_size);
  CHECK(skip(type, data + 1, used, &used_again) == FB_OK && used_again == used);
  check_prefixes(type, data + 1, used);
  if (type->kind == FB_TYPE_STRING) check_text(data + 1, used);
  return 0;
}
