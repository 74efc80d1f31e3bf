/* The golden files of tests/golden, line by line: JSON as it is written there, with no line break inside a value. */
#ifndef FB_GOLDEN_H
#define FB_GOLDEN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* They lie beside the folder of this file. */
static inline FILE* open_golden(const char* name) {
  const char* slash = strrchr(__FILE__, '/');
  char path[512];
  FILE* file;

  snprintf(path, sizeof path, "%.*s/../golden/%s", slash != NULL ? (int)(slash - __FILE__) : 1,
           slash != NULL ? __FILE__ : ".", name);
  file = fopen(path, "r");
  CHECK(file != NULL);
  return file;
}

/* What a line has behind a name, without its quotation mark; NULL: the name is not there. */
static inline const char* golden_value(const char* line, const char* name) {
  char wanted[64];
  const char* found;

  snprintf(wanted, sizeof wanted, "\"%s\": ", name);
  found = strstr(line, wanted);
  return found == NULL ? NULL : found + strlen(wanted) + (found[strlen(wanted)] == '"');
}

/* A number, or a flag as 0 or 1; what is not there is 0. */
static inline int32_t golden_number(const char* line, const char* name) {
  const char* value = golden_value(line, name);

  return value == NULL ? 0 : *value == 't' ? 1 : (int32_t)strtol(value, NULL, 10);
}

/* Bytes in hexadecimal digits up to what is none; returns how many. */
static inline size_t golden_bytes(const char* hex, uint8_t* bytes, size_t room) {
  size_t size = 0;

  for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
    CHECK(size < room);
    bytes[size++] = (uint8_t)byte;
  }
  return size;
}

#endif
