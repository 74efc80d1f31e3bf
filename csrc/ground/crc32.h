/* CRC 32 as in zlib, Ethernet and PNG (polynomial 0x04c11db7, reflected), several times faster than zlib's where the
 * processor multiplies without carry: state is checked as fast as it is copied.
 *
 * Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
 *
 * Owner:   nothing is allocated.
 * Threads: any. */
#ifndef FB_CRC32_H
#define FB_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what `crc` is the checksum of (0: nothing), followed by `data`. */
uint32_t fb_crc32(uint32_t crc, const void* data, size_t size);

#endif
