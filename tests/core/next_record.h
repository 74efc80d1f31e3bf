/* Both halves of a deserializer's work, one after the other, as the bindings do them. */
#ifndef FB_NEXT_RECORD_H
#define FB_NEXT_RECORD_H

#include "record/record_deserializer.h"

static inline int next_record(struct fb_record_deserializer* self, const uint8_t** record, size_t* size) {
  if (fb_record_deserializer_take(self, record, size)) return FB_RECORD;
  return fb_record_deserializer_next_spanning(self, record, size);
}

#endif
