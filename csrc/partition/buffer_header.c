#include "partition/buffer_header.h"

#include "ground/byte_order.h"

/* By the kind in the file. */
static const uint8_t TYPES_IN_FILES[] = {FB_DATA_BUFFER, FB_EVENT_BUFFER,     FB_END_OF_SEGMENT,
                                         FB_END_OF_DATA, FB_END_OF_PARTITION, FB_DATA_BUFFER_WITH_CLEAR_END};

int fb_buffer_header_write(uint8_t* to, const struct fb_buffer_slice* buffer) {
  uint16_t kind = 0;

  while (kind < sizeof TYPES_IN_FILES && TYPES_IN_FILES[kind] != buffer->data_type) kind++;
  if (kind == sizeof TYPES_IN_FILES || buffer->size > INT32_MAX) return FB_EARGUMENT;
  fb_store_le16(to, kind);
  fb_store_le16(to + 2, buffer->is_compressed);
  fb_store_le32(to + 4, buffer->size);
  return FB_OK;
}

int fb_buffer_header_read(const uint8_t* from, struct fb_buffer_header* header) {
  uint16_t kind = fb_load_le16(from);
  uint16_t compressed = fb_load_le16(from + 2);
  uint32_t size = fb_load_le32(from + 4);

  if (kind >= sizeof TYPES_IN_FILES || compressed > 1 || size > INT32_MAX) return FB_ECORRUPT;
  *header =
      (struct fb_buffer_header){.size = size, .data_type = TYPES_IN_FILES[kind], .is_compressed = compressed == 1};
  if (compressed == 1 && fb_buffer_data_type_is_event(TYPES_IN_FILES[kind])) return FB_ECORRUPT;
  return FB_OK;
}
