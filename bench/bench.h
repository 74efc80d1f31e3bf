/* What the benchmarks in C share: a clock, the order of figures, and an end where the core refuses. */
#ifndef FLINKBUF_BENCH_H
#define FLINKBUF_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ground/errors.h"

/* Seconds since some moment in the past. */
static inline double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Ends the process if `code`, the core's answer, is an error; `what` says to what. */
static inline void check(int code, const char* what) {
  if (code >= 0) return;
  fprintf(stderr, "%s: %s\n", what, fb_strerror(code));
  exit(1);
}

static inline int by_value(const void* left, const void* right) {
  double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

/* Sorts figures: the first is the best time, the one in the middle the median. */
static inline void sort_values(double* values, size_t count) { qsort(values, count, sizeof(*values), by_value); }

#endif
