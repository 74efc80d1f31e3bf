/* Loops that newer processors do with wider registers: a loop is written once, as FB_WIDE_INLINE, and stands in two
 * functions, a plain one and one that is FB_WIDE_TARGET, which is called where fb_wide_is_there().
 *
 * Threads: no state; any thread may call anything. */
#ifndef FB_WIDE_H
#define FB_WIDE_H

#include <stdbool.h>

#define FB_WIDE_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GNUC__)
#define FB_WIDE_TARGET __attribute__((target("avx2")))
static inline bool fb_wide_is_there(void) { return __builtin_cpu_supports("avx2") != 0; }
#else
#define FB_WIDE_TARGET
static inline bool fb_wide_is_there(void) { return false; }
#endif

#endif
