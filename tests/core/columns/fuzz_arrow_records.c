/* Any bytes as records of a ROW, and of a ROW_DATA, into columns: reading ends, stays inside each record, and leaves
 * columns that are whole; these make records again, from which come as many rows. The same with the records as the values
 * of a binary column, of which those without a byte are null.
 *
 * Input: 1 byte that chooses format (bit 0) and way (bits 1 and 2), then records, each 2 bytes of its length, modulo 1024,
 * and that many bytes. */
#include "arrow_trees.h"
#include "columns/arrow_binary.h"
#include "fuzz_replay.h"

#define MAX_RECORDS 64

/* The records one behind the other, as in a buffer, in a block of exactly their size, for the sanitizer. */
static uint8_t* cut_records(const uint8_t* data, size_t size, struct fb_arrow_records* records) {
  uint8_t* block = malloc(size > 0 ? size : 1);
  size_t used = 0, ends[MAX_RECORDS];

  CHECK(block != NULL);
  records->count = 0;
  while (size >= 2 && records->count < MAX_RECORDS) {
    size_t length = (size_t)(data[0] << 8 | data[1]) % 1024;
    if (length > size - 2) length = size - 2;
    memcpy(block + used, data + 2, length);
    ends[records->count++] = used += length;
    data += 2 + length;
    size -= 2 + length;
  }
  block = realloc(block, used > 0 ? used : 1);
  CHECK(block != NULL);
  for (uint32_t i = 0; i < records->count; i++) {
    records->heads[i] = block + (i > 0 ? ends[i - 1] : 0);
    records->ends[i] = block + ends[i];
  }
  return block;
}

/* The columns as records, and those as columns. */
static void check_again(struct fb_arrow_column* root, const struct ArrowArray* array,
                        struct fb_arrow_records* records) {
  static struct fb_arrow_rows rows;
  struct fb_arrow_builder again;
  struct fb_arrow_reading reading;
  struct fb_arrow_fault fault;
  size_t size = 0;
  uint8_t *bytes, *pos;

  CHECK(fb_arrow_column_bind(root, array, &fault) == FB_OK);
  CHECK(fb_arrow_rows_open(&rows, root) == FB_OK);
  fb_arrow_rows_measure(&rows, 0, &fault);
  CHECK(fault.column == NULL && rows.count == array->length);
  for (uint32_t i = 0; i < rows.count; i++) size += rows.sizes[i];
  bytes = malloc(size + FB_ARROW_ROWS_SLACK);
  CHECK(bytes != NULL);
  fb_arrow_rows_pack(&rows, 0, rows.count, bytes);
  pos = bytes;
  for (uint32_t i = 0; i < rows.count; i++) {
    records->heads[i] = pos + 4;
    pos += rows.sizes[i];
    records->ends[i] = pos;
  }
  CHECK(pos == bytes + size);
  records->count = rows.count;
  CHECK(fb_arrow_builder_open(&again, root) == FB_OK);
  CHECK(fb_arrow_records_read(&again, records, &reading) == rows.count && reading.code == FB_OK);
  fb_arrow_builder_close(&again);
  fb_arrow_rows_close(&rows);
  free(bytes);
}

static void read_records(struct fb_arrow_column* root, struct fb_arrow_records* records) {
  struct fb_arrow_reading reading;
  struct fb_arrow_builder builder;
  struct ArrowArray array;
  uint32_t count = records->count;
  int64_t taken;

  CHECK(fb_arrow_builder_open(&builder, root) == FB_OK);
  taken = fb_arrow_records_read(&builder, records, &reading);
  CHECK(taken >= 0 && taken <= count && (taken == count) == (reading.code == FB_OK));
  CHECK(taken == count || reading.row == taken);
  CHECK(builder.length == taken);
  CHECK(fb_arrow_builder_finish(&builder, &array) == FB_OK && array.length == taken);
  check_again(root, &array, records);
  array.release(&array);
  fb_arrow_builder_close(&builder);
}

/* A column on the records, with the slots that a row of no byte has. */
static struct fb_arrow_column column_of(const struct fb_arrow_records* records, const uint8_t* block, int32_t* offsets,
                                        uint8_t* validity) {
  struct fb_arrow_column column = {
      .path = "", .length = records->count, .values = block, .offsets = (const uint8_t*)offsets, .validity = validity};

  CHECK(fb_arrow_type_parse("z", &column.arrow) == FB_OK && fb_arrow_binary_is(&column));
  memset(validity, 0, MAX_RECORDS / 8);
  offsets[0] = 0;
  for (uint32_t i = 0; i < records->count; i++) {
    offsets[i + 1] = (int32_t)(records->ends[i] - block);
    if (offsets[i + 1] > offsets[i]) validity[i / 8] |= (uint8_t)(1u << (i % 8));
  }
  return column;
}

/* The rows as values, and those as rows: as many of them are null. */
static void check_values_again(struct fb_arrow_column* root, const struct ArrowArray* rows_array,
                               struct fb_arrow_column values) {
  static struct fb_arrow_rows rows;
  struct fb_arrow_builder written, again;
  struct fb_arrow_reading reading;
  struct fb_arrow_fault fault;
  struct ArrowArray array;

  CHECK(fb_arrow_column_bind(root, rows_array, &fault) == FB_OK);
  CHECK(fb_arrow_rows_open(&rows, root) == FB_OK);
  CHECK(fb_arrow_builder_open(&written, &values) == FB_OK);
  CHECK(fb_arrow_binary_write(&rows, &written, &fault) == FB_OK && fault.column == NULL);
  CHECK(fb_arrow_builder_finish(&written, &array) == FB_OK);
  CHECK(array.length == rows_array->length && array.null_count == rows_array->null_count);
  CHECK(fb_arrow_column_bind(&values, &array, &fault) == FB_OK);
  CHECK(fb_arrow_builder_open(&again, root) == FB_OK);
  CHECK(fb_arrow_binary_read(&values, &again, false, &reading) == array.length && reading.code == FB_OK);
  CHECK(again.length == array.length && again.null_count == array.null_count);
  fb_arrow_builder_close(&again);
  array.release(&array);
  fb_arrow_builder_close(&written);
  fb_arrow_rows_close(&rows);
}

static void read_values(struct fb_arrow_column* root, const struct fb_arrow_records* records, const uint8_t* block,
                        bool is_permissive) {
  int32_t offsets[MAX_RECORDS + 1];
  uint8_t validity[MAX_RECORDS / 8];
  struct fb_arrow_column values = column_of(records, block, offsets, validity);
  struct fb_arrow_reading reading;
  struct fb_arrow_builder builder;
  struct ArrowArray array;
  int64_t taken;

  CHECK(fb_arrow_builder_open(&builder, root) == FB_OK);
  taken = fb_arrow_binary_read(&values, &builder, is_permissive, &reading);
  CHECK(taken >= 0 && taken <= values.length && (taken == values.length) == (reading.code == FB_OK));
  CHECK(!is_permissive || taken == values.length);
  CHECK(builder.length == taken);
  CHECK(fb_arrow_builder_finish(&builder, &array) == FB_OK && array.length == taken);
  check_values_again(root, &array, values);
  array.release(&array);
  fb_arrow_builder_close(&builder);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static struct fb_arrow_records records;
  static struct arrow_tree tree;
  struct fb_arrow_column* root;
  uint8_t* block;

  if (size == 0) return 0;
  root = arrow_tree_open(&tree, data[0] & 1);
  block = cut_records(data + 1, size - 1, &records);
  if ((data[0] >> 1 & 3) == 0) read_records(root, &records);
  else read_values(root, &records, block, (data[0] >> 2 & 1) == 1);
  free(block);
  return 0;
}
