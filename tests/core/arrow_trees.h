/* A schema of every family of columns, over a ROW and over a ROW_DATA, for tests of the Arrow stems in C. */
#ifndef ARROW_TREES_H
#define ARROW_TREES_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "columns/arrow_column.h"

#define TREE_FIELDS 12
#define TREE_NODES  40

struct arrow_tree {
  struct fb_type types[TREE_NODES];
  const struct fb_type* children[TREE_NODES][TREE_FIELDS];
  struct fb_arrow_column columns[TREE_NODES];
  uint32_t type_count, column_count;
  bool is_data;
};

static const struct fb_type* tree_type(struct arrow_tree* self, enum fb_type_kind kind, uint32_t count,
                                       const struct fb_type* const* children) {
  struct fb_type* type = &self->types[self->type_count];

  CHECK(self->type_count < TREE_NODES && count <= TREE_FIELDS);
  for (uint32_t i = 0; i < count; i++) self->children[self->type_count][i] = children[i];
  *type = (struct fb_type){.kind = kind, .child_count = count, .children = self->children[self->type_count]};
  if (kind == FB_TYPE_DECIMAL_DATA) {
    type->precision = 20;
    type->scale = 2;
  }
  if (kind == FB_TYPE_TIMESTAMP_DATA) type->precision = 6;
  fb_type_measure(type);
  self->type_count++;
  return type;
}

/* A column, whose children are the `count` columns that were made last. */
static struct fb_arrow_column* tree_column(struct arrow_tree* self, struct fb_arrow_column* column, const char* format,
                                           const struct fb_type* type, struct fb_arrow_column* children,
                                           uint32_t count) {
  *column = (struct fb_arrow_column){.type = type, .path = "", .child_count = count, .children = children};
  CHECK(fb_arrow_type_parse(format, &column->arrow) == FB_OK && fb_arrow_type_fits(&column->arrow, type));
  column->array_child_count = column->arrow.kind == FB_ARROW_MAP ? 1 : count;
  for (uint32_t i = 0; i < count; i++) children[i].place = i;
  (void)self;
  return column;
}

#define TYPES_OF(...) \
  (const struct fb_type*[]) { __VA_ARGS__ }
#define LEAF(kind) tree_type(self, FB_TYPE_##kind, 0, NULL)

/* Columns 1 to TREE_FIELDS are the fields; column 0 is the row. */
static struct fb_arrow_column* arrow_tree_open(struct arrow_tree* self, bool is_data) {
  struct fb_arrow_column *fields = &self->columns[1], *below = &self->columns[1 + TREE_FIELDS];
  const struct fb_type *text, *number, *byte, *list, *map, *row, *types[TREE_FIELDS];
  static const char* const FORMATS[TREE_FIELDS] = {"l",  "u",  "g",  "b",      "s",    "f",
                                                   "+l", "+m", "+s", "d:20,2", "tsu:", "z"};

  *self = (struct arrow_tree){.is_data = is_data};
  text = is_data ? LEAF(STRING_DATA) : LEAF(STRING);
  number = LEAF(LONG);
  byte = LEAF(BYTE);
  list = tree_type(self, is_data ? FB_TYPE_ARRAY_DATA : FB_TYPE_OBJECT_ARRAY, 1, TYPES_OF(number));
  map = tree_type(self, is_data ? FB_TYPE_MAP_DATA : FB_TYPE_MAP, 2, TYPES_OF(text, number));
  row = tree_type(self, is_data ? FB_TYPE_ROW_DATA : FB_TYPE_ROW, 2, TYPES_OF(number, text));
  memcpy(types,
         TYPES_OF(number, text, LEAF(DOUBLE), LEAF(BOOLEAN), LEAF(SHORT), LEAF(FLOAT), list, map, row,
                  is_data ? LEAF(DECIMAL_DATA) : LEAF(BIG_DEC), is_data ? LEAF(TIMESTAMP_DATA) : LEAF(LOCAL_DATE_TIME),
                  tree_type(self, FB_TYPE_PRIMITIVE_ARRAY, 1, TYPES_OF(byte))),
         sizeof types);
  tree_column(self, &below[0], "l", number, NULL, 0);
  tree_column(self, &below[1], "u", text, NULL, 0);
  tree_column(self, &below[2], "l", number, NULL, 0);
  tree_column(self, &below[3], "l", number, NULL, 0);
  tree_column(self, &below[4], "u", text, NULL, 0);
  for (uint32_t k = 0; k < TREE_FIELDS; k++) {
    uint32_t count = k == 6 ? 1 : k == 7 || k == 8 ? 2 : 0;
    struct fb_arrow_column* children = k == 6 ? &below[0] : k == 7 ? &below[1] : k == 8 ? &below[3] : NULL;
    tree_column(self, &fields[k], FORMATS[k], types[k], children, count);
  }
  return tree_column(self, &self->columns[0], "+s",
                     tree_type(self, is_data ? FB_TYPE_ROW_DATA : FB_TYPE_ROW, TREE_FIELDS, types), fields,
                     TREE_FIELDS);
}

#endif
