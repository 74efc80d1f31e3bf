/* Sessions of keys: a session lasts as long as rows of its key come within a gap of each other.
 *
 * A row gets a slot, a number under which accumulators have what the rows of its session come to. Slots are given out one
 * after the other and never again, so that a slot that is over can still be asked for; whoever wants their memory back
 * begins anew and restores the sessions that are open. Where a row joins two sessions, the slot of the older one stays, the
 * other becomes a part of it, and rows that come after that have a part of their own until take_parts(): so partial results
 * can be put together in the order in which rows came.
 *
 * The sessions of a key are a treap by their starts, and what is due lies in a heap: a session that goes on is looked at
 * again when its former end has come, not with each row. Sessions that touch are one, as in Flink's MergingWindowSet.
 *
 * Owner:   the table owns its memory until clear(); arrays are borrowed for one call.
 * Threads: one at a time.
 * Times:   milliseconds; an end is the first one that is not of the session any more. */
#ifndef FB_SESSION_SLOTS_H
#define FB_SESSION_SLOTS_H

#include "columns/arrow_memory.h"

#define FB_NO_SLOT UINT32_MAX

struct fb_session_slots {
  int64_t gap_ms;
  int64_t lateness_ms; /* so long after its end a session takes rows */
  int64_t watermark;
  uint32_t count;                  /* slots given out */
  uint32_t open_count;             /* sessions */
  uint32_t part_count;             /* what take_parts() gives */
  uint32_t late_count;             /* rows of the last add() without a session */
  struct fb_arrow_memory sessions; /* of each slot */
  struct fb_arrow_memory roots;    /* of each key: the slot at the root of its treap, 4 bytes */
  struct fb_arrow_memory heap;     /* what is due */
  struct fb_arrow_memory joined;   /* sessions with parts, 4 bytes each */
  struct fb_arrow_memory changed;  /* sessions that had been given and have new rows, 4 bytes each */
};

/* Of some sessions, a value each. */
struct fb_session_spans {
  int64_t* keys;
  int64_t* starts;
  int64_t* ends;
  uint8_t* given; /* 1: its result was given, and no row came since */
};

/* A table without sessions; event time has not begun. */
void fb_session_slots_open(struct fb_session_slots* self, int64_t gap_ms, int64_t lateness_ms);
/* Forgets all sessions, and gives the memory back. */
void fb_session_slots_clear(struct fb_session_slots* self);
size_t fb_session_slots_bytes(const struct fb_session_slots* self);

/* Puts rows into sessions, one after the other. `keys` are below `key_count`; slots[i] becomes FB_NO_SLOT where a row is too
 * late and no session takes it. Nothing has changed after FB_EARGUMENT, for a key or a time whose session has no end in 64
 * bits, FB_ETOO_LARGE, for more than 2^32 - 2 slots, or FB_ENOMEM. */
int fb_session_slots_add(struct fb_session_slots* self, const uint32_t* keys, const int64_t* times, int64_t rows,
                         uint32_t key_count, uint32_t* slots);

/* The parts of sessions that rows have joined since the last call, in order: what lies under part i follows what lies under
 * into[i]. Both have room for `part_count`. The parts are nobody's then. */
void fb_session_slots_take_parts(struct fb_session_slots* self, int64_t* parts, uint32_t* into);

/* Sessions whose end the watermark has passed and that have new rows since the last call; returns how many. There is room for
 * fb_session_slots_changed_room(). */
int64_t fb_session_slots_take_changed(struct fb_session_slots* self, int64_t* slots);
int64_t fb_session_slots_changed_room(const struct fb_session_slots* self);

/* Lets event time go on. `ended` gets the sessions that end, in the order of their ends, and has room for `open_count`;
 * returned is how many. Those that take no more rows are open no longer. */
int64_t fb_session_slots_advance(struct fb_session_slots* self, int64_t watermark, int64_t* ended);

/* The slots of all open sessions, in their order; there is room for `open_count`. */
void fb_session_slots_all(const struct fb_session_slots* self, int64_t* slots);

/* Copies out what is known of slots below `count` that are or were sessions. */
void fb_session_slots_describe(const struct fb_session_slots* self, const int64_t* slots, int64_t rows,
                               const struct fb_session_spans* to);

/* Opens sessions again that fb_session_slots_describe() gave, with new slots. Errors as of fb_session_slots_add();
 * FB_EARGUMENT, with those before it open, at a session that touches another one of its key, which is none: the rows of
 * the two are one session. */
int fb_session_slots_restore(struct fb_session_slots* self, const struct fb_session_spans* spans, int64_t rows,
                             uint32_t key_count, uint32_t* slots);

#endif
