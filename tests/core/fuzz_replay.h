/* What every fuzz_*.c includes: the entry point that libFuzzer calls, and, where there is no libFuzzer
 * (FB_FUZZ_REPLAY, any compiler), a main() that gives it the files named on the command line. */
#ifndef FB_FUZZ_REPLAY_H
#define FB_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#ifdef FB_FUZZ_REPLAY

#include <stdio.h>
#include <stdlib.h>

/* Runs one file. The block has exactly the file's size, so that the sanitizer sees a read past its end. */
static void replay_file(const char* path) {
  FILE* file = fopen(path, "rb");
  uint8_t* data = NULL;
  long size = -1;

  if (file != NULL && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
  if (size >= 0) data = malloc(size > 0 ? (size_t)size : 1);
  if (data == NULL || fseek(file, 0, SEEK_SET) != 0 || fread(data, 1, (size_t)size, file) != (size_t)size) {
    perror(path);
    exit(2);
  }
  fclose(file);
  LLVMFuzzerTestOneInput(data, (size_t)size);
  free(data);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) replay_file(argv[i]);
  printf("replayed %d files\n", argc - 1);
  return 0;
}

#endif
#endif
