#include "ground/crc32.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_FOLDING 1
#endif

#define POLYNOMIAL 0xedb88320u
#define SLICES     8 /* bytes that the tables take at a time */

static uint32_t tables[SLICES][256];
static bool can_fold;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
    tables[0][byte] = crc;
  }
  for (int slice = 1; slice < SLICES; slice++) {
    for (int byte = 0; byte < 256; byte++) {
      uint32_t crc = tables[slice - 1][byte];
      tables[slice][byte] = (crc >> 8) ^ tables[0][crc & 0xff];
    }
  }
#ifdef HAS_FOLDING
  can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
#endif
}

/* From here on `crc` is the register, not the checksum, which is its complement. */

static uint32_t add_by_tables(uint32_t crc, const uint8_t* data, size_t size) {
  for (; size >= SLICES; size -= SLICES, data += SLICES) {
    uint32_t low =
        crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);

    crc = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^ tables[4][low >> 24] ^
          tables[3][data[4]] ^ tables[2][data[5]] ^ tables[1][data[6]] ^ tables[0][data[7]];
  }
  for (; size > 0; size--, data++) crc = (crc >> 8) ^ tables[0][(crc ^ *data) & 0xff];
  return crc;
}

#ifdef HAS_FOLDING
#define FOLD_BYTES 64 /* four registers at a time, so that their products overlap */

/* `state` moved on by as many bits as `by` was made for, and what follows there. */
__attribute__((target("pclmul,sse4.1"))) static inline __m128i fold(__m128i state, __m128i by, __m128i next) {
  __m128i low = _mm_clmulepi64_si128(state, by, 0x00), high = _mm_clmulepi64_si128(state, by, 0x11);

  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1"))) static uint32_t add_by_folding(uint32_t crc, const uint8_t* data,
                                                                        size_t size) {
  const __m128i by_64_bytes = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4); /* x^(512 - 32), x^(512 + 32), reflected */
  const __m128i by_16_bytes = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0); /* x^(128 - 32), x^(128 + 32), reflected */
  __m128i states[4], last;
  uint8_t rest[16];

  for (int i = 0; i < 4; i++) states[i] = _mm_loadu_si128((const __m128i*)data + i);
  states[0] = _mm_xor_si128(states[0], _mm_cvtsi32_si128((int)crc));
  for (data += FOLD_BYTES, size -= FOLD_BYTES; size >= FOLD_BYTES; data += FOLD_BYTES, size -= FOLD_BYTES) {
    for (int i = 0; i < 4; i++) {
      states[i] = fold(states[i], by_64_bytes, _mm_loadu_si128((const __m128i*)data + i));
    }
  }
  last = states[0];
  for (int i = 1; i < 4; i++) last = fold(last, by_16_bytes, states[i]);
  /* Sixteen bytes that have the same remainder as all before them. */
  _mm_storeu_si128((__m128i*)rest, last);
  return add_by_tables(add_by_tables(0, rest, sizeof(rest)), data, size);
}
#endif

uint32_t fb_crc32(uint32_t crc, const void* data, size_t size) {
  pthread_once(&once, prepare);
#ifdef HAS_FOLDING
  if (can_fold && size >= FOLD_BYTES) return ~add_by_folding(~crc, data, size);
#endif
  return ~add_by_tables(~crc, data, size);
}
