/* One list of everything that can go wrong in the core.
 *
 * Fallible functions return 0 or more, or one of the negative codes below. Zero and up are states of
 * work (enum fb_progress), never errors: what happens in a healthy job is no exception. */
#ifndef FB_ERRORS_H
#define FB_ERRORS_H

#define FB_ERRORS(X)                                         \
  X(NOMEM, -1, "out of memory")                              \
  X(BOUNDS, -2, "access outside the memory segment")         \
  X(FREED, -3, "the memory segment has been freed")          \
  X(STATE, -4, "not allowed in the object's present state")  \
  X(ARGUMENT, -5, "argument out of range")                   \
  X(DESTROYED, -6, "the buffer pool has been destroyed")     \
  X(BUFFERS, -7, "insufficient number of network buffers")   \
  X(TIMEOUT, -8, "timed out")                                \
  X(RELEASED, -9, "the result partition has been released")  \
  X(FINISHED, -10, "the result partition is finished")       \
  X(CORRUPT, -11, "corrupt bytes")                           \
  X(TRUNCATED, -12, "the bytes end inside a record")         \
  X(TOO_LARGE, -13, "a length is over its limit")            \
  X(IO, -14, "input or output failed")                       \
  X(READ_ONLY, -15, "the buffer is read-only")               \
  X(REFERENCES, -16, "the buffer has already been recycled") \
  X(THREAD, -17, "the system refused a thread")              \
  X(NOT_FOUND, -18, "the result partition was not found")    \
  X(LOST, -19, "a reader of the result partition was lost")  \
  X(UNFINISHED, -20, "the result partition is not finished yet")

enum {
  FB_OK = 0,
#define X(name, code, text) FB_E##name = code,
  FB_ERRORS(X)
#undef X
};

/* States of work: what a step of a healthy job ends with. */
enum fb_progress {
  FB_RECORD = 0,       /* the record is complete */
  FB_NEEDS_INPUT = 1,  /* every byte given was taken; more are needed */
  FB_NEEDS_BUFFER = 2, /* memory ran out for now; call again when the pool has room */
};

/* A short English text for a code; never NULL. */
const char* fb_strerror(int code);

#endif
