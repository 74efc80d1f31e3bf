/* A number for the records on a subpartition's byte stream that is the same in whatever order they come.
 *
 * It is the sum of the hashes of their bytes, so one record lost, doubled or changed shows. The stream may be
 * cut into buffers anywhere.
 *
 * Owner:   nothing is allocated; all-zero is a digest of nothing.
 * Threads: one at a time. */
#ifndef FB_RECORD_DIGEST_H
#define FB_RECORD_DIGEST_H

#include "ground/xxh64.h"

struct fb_record_digest {
  uint64_t sum;
  struct fb_xxh64 hash; /* of a record that began in an earlier buffer */
  uint32_t missing;     /* bytes of it that are still to come */
  uint8_t length_size;  /* bytes of a length that was cut */
  uint8_t length[4];
};

/* Takes the next bytes of the stream. */
void fb_record_digest_add(struct fb_record_digest* self, const uint8_t* data, size_t size);

#endif
