/* Counts what a process asks of malloc: loaded before everything else (LD_PRELOAD), and asked by allocation_count(). */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* block, size_t size);

static _Atomic uint64_t count;

uint64_t allocation_count(void) { return atomic_load(&count); }

void* malloc(size_t size) {
  atomic_fetch_add(&count, 1);
  return __libc_malloc(size);
}

void* calloc(size_t number, size_t size) {
  atomic_fetch_add(&count, 1);
  return __libc_calloc(number, size);
}

void* realloc(void* block, size_t size) {
  atomic_fetch_add(&count, 1);
  return __libc_realloc(block, size);
}
