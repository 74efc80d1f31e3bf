#include "ground/lz4.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "ground/byte_order.h"

/* A block is a row of sequences: a token (4 bits literal count, 4 bits match length - 4; 15: bytes of up to 255 are
 * added, up to the first that is less), the literals, 2 bytes of distance, the match. The last sequence ends after its
 * literals. */
enum {
  MIN_MATCH = 4,
  LAST_LITERALS = 5,                       /* no match reaches into them */
  BEHIND_LITERALS = 2 + 1 + LAST_LITERALS, /* a distance, a token, the last literals */
  MATCH_LIMIT = 12,                        /* no match begins in the last 12 bytes: restoring may then copy 8 at once */
  NEAR_SIZE = 1 << 16,
  NEAR_BITS = 13, /* 8,192 positions of 2 bytes */
  FAR_BITS = 12,  /* 4,096 positions of 4 bytes */
  SKIP_BITS = 6,  /* after 64 places without a match, every second is tried, then every third, ... */
};
#define MAX_DISTANCE 65535u

/* Where the bytes that hash to an entry were seen last. Zero is a place like any other: bytes are compared. */
union positions {
  uint16_t near[1 << NEAR_BITS];
  uint32_t far[1 << FAR_BITS];
};

static inline uint64_t load64(const uint8_t* at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static inline uint32_t load32(const uint8_t* at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static inline void copy8(uint8_t* to, const uint8_t* from) { memcpy(to, from, 8); }
static inline void copy16(uint8_t* to, const uint8_t* from) { memcpy(to, from, 16); }

/* ---- compressing ---- */

/* Bytes shorter than 64 KiB are looked up by 4 of them, longer ones by 5: there are more places to mix up. */
static inline uint32_t hash_at(const uint8_t* at, bool near) {
  if (near) return (load32(at) * 2654435761u) >> (32 - NEAR_BITS);
  return (uint32_t)(((fb_load_le64(at) << 24) * 0x9e3779b185ebca87u) >> (64 - FAR_BITS));
}
static inline uint32_t exchange(union positions* seen, uint32_t hash, uint32_t position, bool near) {
  uint32_t before;
  if (near) {
    before = seen->near[hash];
    seen->near[hash] = (uint16_t)position;
  } else {
    before = seen->far[hash];
    seen->far[hash] = position;
  }
  return before;
}

/* How many bytes agree at `a` and `b`, up to `end` of `a`. */
static inline size_t agreeing(const uint8_t* a, const uint8_t* b, const uint8_t* end) {
  const uint8_t* begin = a;
  while (end - a >= 8) {
    uint64_t difference = load64(a) ^ load64(b);
    if (difference != 0) {
      /* The lowest byte in memory is the lowest in a little-endian number. */
      return (size_t)(a - begin) + (size_t)__builtin_ctzll(FB_LE64(difference)) / 8;
    }
    a += 8;
    b += 8;
  }
  while (a < end && *a == *b) a++, b++;
  return (size_t)(a - begin);
}

static inline uint8_t* put_length(uint8_t* to, size_t length) {
  for (; length >= 255; length -= 255) *to++ = 255;
  *to++ = (uint8_t)length;
  return to;
}

struct output {
  uint8_t* at;
  uint8_t* end;
};

/* Token and literals; NULL when they and the shortest end of a block do not fit, else where the token is. `readable`
 * is how much there is to read from the first literal on. */
static inline uint8_t* put_literals(struct output* output, const uint8_t* literals, size_t count, size_t readable) {
  uint8_t* to = output->at;
  size_t room = (size_t)(output->end - to);
  if (count > room || count + count / 255 + 2 + BEHIND_LITERALS > room) return NULL;

  uint8_t* token = to++;
  if (count < 15) {
    *token = (uint8_t)(count << 4);
  } else {
    *token = 15 << 4;
    to = put_length(to, count - 15);
  }
  if (count <= 16 && readable >= 16 && output->end - to >= 16) {
    copy16(to, literals); /* what is too much is written over */
  } else {
    memcpy(to, literals, count);
  }
  output->at = to + count;
  return token;
}

static inline bool put_match(struct output* output, uint8_t* token, size_t distance, size_t length) {
  size_t more = length - MIN_MATCH;
  /* Behind a match come at least a token and the last literals. */
  if ((size_t)(output->end - output->at) < 2 + more / 255 + 1 + 1 + LAST_LITERALS) return false;
  output->at[0] = (uint8_t)distance;
  output->at[1] = (uint8_t)(distance >> 8);
  output->at += 2;
  if (more < 15) {
    *token |= (uint8_t)more;
  } else {
    *token |= 15;
    output->at = put_length(output->at, more - 15);
  }
  return true;
}

/* Sequences up to where no match can begin; gives where the literals that are left begin, or NULL: there is no room. */
static inline __attribute__((always_inline)) const uint8_t* put_sequences(const uint8_t* data, uint32_t size,
                                                                          struct output* output, bool near) {
  union positions seen;
  memset(&seen, 0, sizeof seen);
  const uint8_t* const match_end = data + size - LAST_LITERALS;
  const uint8_t* const last_begin = data + size - MATCH_LIMIT;
  const uint8_t* literals = data;
  const uint8_t* at = data + 1; /* what begins at 0 is entry 0 of the table: of all hashes */

  while (at <= last_begin) {
    const uint8_t* match;
    uint32_t tries = 1u << SKIP_BITS;
    for (;;) {
      match = data + exchange(&seen, hash_at(at, near), (uint32_t)(at - data), near);
      if (load32(match) == load32(at) && (near || (size_t)(at - match) <= MAX_DISTANCE)) break;
      at += tries++ >> SKIP_BITS;
      if (at > last_begin) return literals;
    }
    while (at > literals && match > data && at[-1] == match[-1]) at--, match--;

    uint8_t* token = put_literals(output, literals, (size_t)(at - literals), (size_t)(data + size - literals));
    if (token == NULL) return NULL;
    for (;;) {
      size_t length = MIN_MATCH + agreeing(at + MIN_MATCH, match + MIN_MATCH, match_end);
      if (!put_match(output, token, (size_t)(at - match), length)) return NULL;
      literals = at += length;
      if (at > last_begin) return literals;

      /* Matches often follow each other: then there are no literals between. */
      exchange(&seen, hash_at(at - 2, near), (uint32_t)(at - 2 - data), near);
      match = data + exchange(&seen, hash_at(at, near), (uint32_t)(at - data), near);
      if (load32(match) != load32(at) || (!near && (size_t)(at - match) > MAX_DISTANCE)) break;
      token = output->at;
      if (output->at >= output->end) return NULL;
      *output->at++ = 0;
    }
    at++;
  }
  return literals;
}

/* Of their own: each keeps its table on the stack only while it runs. */
static __attribute__((noinline)) const uint8_t* put_near_sequences(const uint8_t* data, uint32_t size,
                                                                   struct output* output) {
  return put_sequences(data, size, output, true);
}
static __attribute__((noinline)) const uint8_t* put_far_sequences(const uint8_t* data, uint32_t size,
                                                                  struct output* output) {
  return put_sequences(data, size, output, false);
}

int fb_lz4_compress(const uint8_t* data, uint32_t size, uint8_t* to, uint32_t capacity, uint32_t* written) {
  if (size > FB_LZ4_MAX_SIZE) return FB_ETOO_LARGE;

  struct output output = {to, to + capacity};
  const uint8_t* literals = data;
  if (size > MATCH_LIMIT) {
    literals = size <= NEAR_SIZE ? put_near_sequences(data, size, &output) : put_far_sequences(data, size, &output);
    if (literals == NULL) return FB_ETOO_LARGE;
  }
  if (capacity == 0) return FB_ETOO_LARGE;
  size_t left = size - (size_t)(literals - data);
  size_t length_bytes = left < 15 ? 0 : (left - 15) / 255 + 1;
  if ((size_t)(output.end - output.at) < 1 + length_bytes + left) return FB_ETOO_LARGE;
  *output.at++ = (uint8_t)(left < 15 ? left << 4 : 15 << 4);
  if (left >= 15) output.at = put_length(output.at, left - 15);
  if (left > 0) memcpy(output.at, literals, left);
  *written = (uint32_t)((size_t)(output.at - to) + left);
  return FB_OK;
}

/* ---- restoring ---- */

/* Adds the bytes of a length to `*length`. False: the block ends in them, or it is over `limit` anyway. */
static inline bool take_length(const uint8_t** from, const uint8_t* end, size_t limit, size_t* length) {
  size_t sum = *length;
  uint8_t byte;
  do {
    if (*from == end || sum > limit) return false;
    byte = *(*from)++;
    sum += byte;
  } while (byte == 255);
  *length = sum;
  return true;
}

/* Copies a match that may overlap what it makes; `end` is that of all output. */
static inline void copy_match(uint8_t* to, size_t distance, size_t length, const uint8_t* end) {
  const uint8_t* from = to - distance;
  uint8_t* const stop = to + length;

  if ((size_t)(end - stop) < 16) { /* near the end nothing may be written behind it */
    while (to < stop) *to++ = *from++;
    return;
  }
  if (distance >= 16) {
    do {
      copy16(to, from);
      to += 16, from += 16;
    } while (to < stop);
    return;
  }
  if (distance < 8) {
    /* The match repeats itself: after 8 bytes it does so at a multiple of the distance that is 8 or more. */
    static const uint8_t wider[8] = {0, 8, 8, 9, 8, 10, 12, 14};
    for (int i = 0; i < 8; i++) to[i] = from[i];
    to += 8;
    from = to - wider[distance];
  }
  while (to < stop) {
    copy8(to, from);
    to += 8, from += 8;
  }
}

int fb_lz4_decompress(const uint8_t* block, uint32_t block_size, uint8_t* to, uint32_t size) {
  const uint8_t* from = block;
  const uint8_t* const from_end = block + block_size;
  uint8_t* at = to;
  uint8_t* const end = to + size;

  while (from < from_end) {
    uint8_t token = *from++;
    size_t count = token >> 4;
    size_t length = (token & 15) + (size_t)MIN_MATCH;

    /* Most sequences are short and far from both ends: copied whole, what is too much is written over. */
    if (count < 15 && from_end - from >= 16 + 2 && end - at >= 16 + 32) {
      copy16(at, from);
      from += count;
      at += count;
    } else {
      if (count == 15 && !take_length(&from, from_end, size, &count)) return FB_ECORRUPT;
      if (count > (size_t)(from_end - from) || count > (size_t)(end - at)) return FB_ECORRUPT;
      if (count > 0) memcpy(at, from, count); /* `to` may be NULL when nothing is expected */
      from += count;
      at += count;
      if (from == from_end) break; /* the last sequence has no match */
      if (from_end - from < 2) return FB_ECORRUPT;
    }
    size_t distance = (size_t)from[0] | (size_t)from[1] << 8;
    from += 2;
    if (distance == 0 || distance > (size_t)(at - to)) return FB_ECORRUPT;
    if (length == 15 + MIN_MATCH && !take_length(&from, from_end, size, &length)) return FB_ECORRUPT;
    if (length > (size_t)(end - at)) return FB_ECORRUPT;

    if (length <= 32 && distance >= 16 && end - at >= 32) {
      copy16(at, at - distance);
      copy16(at + 16, at - distance + 16);
    } else {
      copy_match(at, distance, length, end);
    }
    at += length;
    if (from == from_end) return FB_ECORRUPT; /* a block ends with literals */
  }
  return at == end && block_size > 0 ? FB_OK : FB_ECORRUPT;
}
