#include "columns/session_slots.h"

#include <string.h>

struct session {
  int64_t start, end;
  int64_t due; /* the time of its entry in the heap that counts */
  uint32_t key;
  uint32_t lower, higher; /* in the treap: sessions of the key that begin before this one, and behind it */
  uint32_t last_part;     /* takes rows; the slot itself, until sessions are joined */
  uint32_t next_part;     /* FB_NO_SLOT: this is the last one */
  bool is_open, is_given, is_changed, is_joined;
};

struct due_entry {
  int64_t time;
  uint32_t slot;
};

static struct session* sessions_of(const struct fb_session_slots* self) {
  return (struct session*)(void*)self->sessions.data;
}

static uint32_t* roots_of(const struct fb_session_slots* self) { return (uint32_t*)(void*)self->roots.data; }

static void put_slot(struct fb_arrow_memory* list, uint32_t slot) {
  memcpy(list->data + list->size, &slot, sizeof slot);
  list->size += sizeof slot;
}

static uint32_t slot_in(const struct fb_arrow_memory* list, size_t i) {
  uint32_t slot;

  memcpy(&slot, list->data + i * sizeof slot, sizeof slot);
  return slot;
}

/* ---- the sessions of a key -------------------------------------------------------------------------- */

/* Which of two is nearer to the root: as good as random, so that depths are those of random trees. */
static uint32_t priority_of(uint32_t slot) {
  slot = (slot ^ (slot >> 16)) * UINT32_C(0x7feb352d);
  slot = (slot ^ (slot >> 15)) * UINT32_C(0x846ca68b);
  return slot ^ (slot >> 16);
}

/* The last session that begins at `time` or before. */
static uint32_t find_session(const struct session* all, uint32_t root, int64_t time) {
  uint32_t found = FB_NO_SLOT;

  while (root != FB_NO_SLOT) {
    if (all[root].start <= time) {
      found = root;
      root = all[root].higher;
    } else {
      root = all[root].lower;
    }
  }
  return found;
}

static uint32_t* towards(struct session* all, uint32_t root, int64_t start) {
  return start < all[root].start ? &all[root].lower : &all[root].higher;
}

static void insert_session(struct session* all, uint32_t* root, uint32_t slot) {
  uint32_t *below = &all[slot].lower, *above = &all[slot].higher, rest;
  int64_t start = all[slot].start;

  while (*root != FB_NO_SLOT && priority_of(*root) > priority_of(slot)) root = towards(all, *root, start);
  rest = *root;
  *root = slot;
  while (rest != FB_NO_SLOT) { /* its place is taken: it is split into what begins before and behind */
    if (all[rest].start < start) {
      *below = rest;
      below = &all[rest].higher;
      rest = *below;
    } else {
      *above = rest;
      above = &all[rest].lower;
      rest = *above;
    }
  }
  *below = *above = FB_NO_SLOT;
}

static void remove_session(struct session* all, uint32_t* root, uint32_t slot) {
  uint32_t lower = all[slot].lower, higher = all[slot].higher;

  while (*root != slot) root = towards(all, *root, all[slot].start);
  while (lower != FB_NO_SLOT && higher != FB_NO_SLOT) {
    if (priority_of(lower) > priority_of(higher)) {
      *root = lower;
      root = &all[lower].higher;
      lower = *root;
    } else {
      *root = higher;
      root = &all[higher].lower;
      higher = *root;
    }
  }
  *root = lower != FB_NO_SLOT ? lower : higher;
}

/* ---- what is due ------------------------------------------------------------------------------------ */

static bool is_due_before(struct due_entry one, struct due_entry other) {
  return one.time < other.time || (one.time == other.time && one.slot < other.slot);
}

static void push_due(struct fb_session_slots* self, uint32_t slot, int64_t time) {
  struct due_entry* heap = (struct due_entry*)(void*)self->heap.data;
  struct due_entry entry = {.time = time, .slot = slot};
  size_t at = self->heap.size / sizeof entry;

  sessions_of(self)[slot].due = time;
  self->heap.size += sizeof entry;
  for (; at > 0 && is_due_before(entry, heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = entry;
}

static struct due_entry pop_due(struct fb_session_slots* self) {
  struct due_entry* heap = (struct due_entry*)(void*)self->heap.data;
  struct due_entry first = heap[0], last;
  size_t count = self->heap.size / sizeof first - 1, at = 0, child;

  self->heap.size -= sizeof first;
  last = heap[count];
  while ((child = 2 * at + 1) < count) {
    if (child + 1 < count && is_due_before(heap[child + 1], heap[child])) child++;
    if (!is_due_before(heap[child], last)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = last;
  return first;
}

/* When a session that ends takes no more rows. */
static int64_t cleanup_time(const struct fb_session_slots* self, int64_t end) {
  return end - 1 > INT64_MAX - self->lateness_ms ? INT64_MAX : end - 1 + self->lateness_ms;
}

/* ---- rows ------------------------------------------------------------------------------------------- */

void fb_session_slots_open(struct fb_session_slots* self, int64_t gap_ms, int64_t lateness_ms) {
  *self = (struct fb_session_slots){.gap_ms = gap_ms, .lateness_ms = lateness_ms, .watermark = INT64_MIN};
}

void fb_session_slots_clear(struct fb_session_slots* self) {
  fb_arrow_memory_free(&self->sessions);
  fb_arrow_memory_free(&self->roots);
  fb_arrow_memory_free(&self->heap);
  fb_arrow_memory_free(&self->joined);
  fb_arrow_memory_free(&self->changed);
  self->count = self->open_count = self->part_count = self->late_count = 0;
}

size_t fb_session_slots_bytes(const struct fb_session_slots* self) {
  return self->sessions.capacity + self->roots.capacity + self->heap.capacity + self->joined.capacity +
         self->changed.capacity;
}

/* Room for what so many rows may need, each of which opens a session, or joins two and opens a part. */
static int reserve_rows(struct fb_session_slots* self, int64_t rows, uint32_t key_count) {
  size_t count = (size_t)rows, known = self->roots.size / sizeof(uint32_t);
  int code;

  if (count >= FB_NO_SLOT - self->count) return FB_ETOO_LARGE;
  code = fb_arrow_memory_reserve(&self->sessions, count * sizeof(struct session));
  if (code == FB_OK) code = fb_arrow_memory_reserve(&self->heap, count * sizeof(struct due_entry));
  if (code == FB_OK) code = fb_arrow_memory_reserve(&self->joined, count * sizeof(uint32_t));
  if (code == FB_OK) code = fb_arrow_memory_reserve(&self->changed, count * sizeof(uint32_t));
  if (code == FB_OK && key_count > known)
    code = fb_arrow_memory_reserve(&self->roots, (key_count - known) * sizeof(uint32_t));
  if (code < 0) return code;
  for (; known < key_count; known++) put_slot(&self->roots, FB_NO_SLOT);
  return FB_OK;
}

static uint32_t next_slot(struct fb_session_slots* self, struct session session) {
  uint32_t slot = self->count++;

  session.last_part = slot;
  session.next_part = session.lower = session.higher = FB_NO_SLOT;
  sessions_of(self)[slot] = session;
  self->sessions.size += sizeof session;
  return slot;
}

static uint32_t open_session(struct fb_session_slots* self, struct session session) {
  uint32_t slot;

  session.is_open = true;
  slot = next_slot(self, session);
  insert_session(sessions_of(self), &roots_of(self)[session.key], slot);
  push_due(self, slot, session.is_given ? cleanup_time(self, session.end) : session.end - 1);
  self->open_count++;
  return slot;
}

static void close_session(struct fb_session_slots* self, uint32_t slot) {
  struct session* all = sessions_of(self);

  remove_session(all, &roots_of(self)[all[slot].key], slot);
  all[slot].is_open = false;
  self->open_count--;
}

/* Makes one of two sessions with nothing between them; what comes next gets a part of its own. Returns its slot. */
static uint32_t join_sessions(struct fb_session_slots* self, uint32_t before, uint32_t behind) {
  struct session* all = sessions_of(self);
  uint32_t kept = before < behind ? before : behind, other = before < behind ? behind : before, part;
  int64_t start = all[before].start, end = all[behind].end;

  close_session(self, other);
  part = next_slot(self, (struct session){.key = all[kept].key});
  all[all[kept].last_part].next_part = other;
  all[all[other].last_part].next_part = part;
  all[kept].last_part = part;
  all[kept].start = start;
  all[kept].end = end;
  if (!all[kept].is_joined) put_slot(&self->joined, kept);
  all[kept].is_joined = true;
  self->part_count += 2;
  return kept;
}

/* A row came: the session has to be given at its end, or again. */
static void note_row(struct fb_session_slots* self, uint32_t slot) {
  struct session* session = &sessions_of(self)[slot];

  session->is_given = session->end - 1 <= self->watermark;
  if (!session->is_given) {
    if (session->due > session->end - 1) push_due(self, slot, session->end - 1);
  } else if (!session->is_changed) {
    session->is_changed = true;
    put_slot(&self->changed, slot);
  }
}

static uint32_t take_row(struct fb_session_slots* self, uint32_t key, int64_t time) {
  struct session* all = sessions_of(self);
  int64_t end = time + self->gap_ms;
  uint32_t root = roots_of(self)[key], slot = find_session(all, root, end), before;

  if (slot == FB_NO_SLOT || all[slot].end < time) {
    if (cleanup_time(self, end) <= self->watermark) return FB_NO_SLOT;
    slot = open_session(
        self, (struct session){.start = time, .end = end, .key = key, .is_given = end - 1 <= self->watermark});
  } else if (time < all[slot].start) { /* else the one before ends before it */
    before = all[slot].start == INT64_MIN ? FB_NO_SLOT : find_session(all, root, all[slot].start - 1);
    if (before != FB_NO_SLOT && all[before].end >= time) slot = join_sessions(self, before, slot);
    else all[slot].start = time;
  }
  if (end > all[slot].end) all[slot].end = end;
  note_row(self, slot);
  return all[slot].last_part;
}

int fb_session_slots_add(struct fb_session_slots* self, const uint32_t* keys, const int64_t* times, int64_t rows,
                         uint32_t key_count, uint32_t* slots) {
  int code;

  for (int64_t i = 0; i < rows; i++)
    if (keys[i] >= key_count || times[i] > INT64_MAX - self->gap_ms) return FB_EARGUMENT;
  code = reserve_rows(self, rows, key_count);
  if (code < 0) return code;
  self->late_count = 0;
  for (int64_t i = 0; i < rows; i++) {
    slots[i] = take_row(self, keys[i], times[i]);
    self->late_count += slots[i] == FB_NO_SLOT;
  }
  return FB_OK;
}

void fb_session_slots_take_parts(struct fb_session_slots* self, int64_t* parts, uint32_t* into) {
  struct session* all = sessions_of(self);
  size_t count = 0;

  for (size_t i = 0; i < self->joined.size / sizeof(uint32_t); i++) {
    uint32_t slot = slot_in(&self->joined, i);
    if (!all[slot].is_open) continue; /* a part of another one */
    for (uint32_t part = all[slot].next_part; part != FB_NO_SLOT; part = all[part].next_part) {
      parts[count] = part;
      into[count++] = slot;
    }
    all[slot].last_part = slot;
    all[slot].next_part = FB_NO_SLOT;
    all[slot].is_joined = false;
  }
  self->joined.size = 0;
  self->part_count = 0;
}

int64_t fb_session_slots_changed_room(const struct fb_session_slots* self) {
  return (int64_t)(self->changed.size / sizeof(uint32_t));
}

int64_t fb_session_slots_take_changed(struct fb_session_slots* self, int64_t* slots) {
  struct session* all = sessions_of(self);
  int64_t room = fb_session_slots_changed_room(self), count = 0;

  for (int64_t i = 0; i < room; i++) {
    uint32_t slot = slot_in(&self->changed, (size_t)i);
    all[slot].is_changed = false;
    if (all[slot].is_open && all[slot].is_given) slots[count++] = slot; /* else it was joined, or goes on */
  }
  self->changed.size = 0;
  return count;
}

/* ---- event time ------------------------------------------------------------------------------------- */

int64_t fb_session_slots_advance(struct fb_session_slots* self, int64_t watermark, int64_t* ended) {
  struct session* all = sessions_of(self);
  int64_t count = 0, next;

  self->watermark = watermark;
  while (self->heap.size > 0 && ((struct due_entry*)(void*)self->heap.data)->time <= watermark) {
    struct due_entry entry = pop_due(self);
    struct session* session = &all[entry.slot];
    if (!session->is_open || session->due != entry.time) continue; /* of a session as it was before */
    if (!session->is_given && session->end - 1 == entry.time) {
      session->is_given = true;
      ended[count++] = entry.slot;
    }
    next = session->is_given ? cleanup_time(self, session->end) : session->end - 1;
    if (session->is_given && next <= watermark) close_session(self, entry.slot);
    else push_due(self, entry.slot, next);
  }
  return count;
}

/* ---- snapshots -------------------------------------------------------------------------------------- */

void fb_session_slots_all(const struct fb_session_slots* self, int64_t* slots) {
  const struct session* all = sessions_of(self);

  for (uint32_t slot = 0; slot < self->count; slot++)
    if (all[slot].is_open) *slots++ = slot;
}

void fb_session_slots_describe(const struct fb_session_slots* self, const int64_t* slots, int64_t rows,
                               const struct fb_session_spans* to) {
  for (int64_t i = 0; i < rows; i++) {
    const struct session* session = &sessions_of(self)[slots[i]];
    to->keys[i] = session->key;
    to->starts[i] = session->start;
    to->ends[i] = session->end;
    to->given[i] = session->is_given;
  }
}

/* Whether a session of the key begins before another one is over, or ends when it begins. */
static bool touches_any(const struct fb_session_slots* self, uint32_t key, int64_t start, int64_t end) {
  uint32_t before = find_session(sessions_of(self), roots_of(self)[key], end);

  return before != FB_NO_SLOT && sessions_of(self)[before].end >= start;
}

int fb_session_slots_restore(struct fb_session_slots* self, const struct fb_session_spans* spans, int64_t rows,
                             uint32_t key_count, uint32_t* slots) {
  int code;

  for (int64_t i = 0; i < rows; i++)
    if (spans->keys[i] < 0 || spans->keys[i] >= key_count || spans->ends[i] <= spans->starts[i]) return FB_EARGUMENT;
  code = reserve_rows(self, rows, key_count);
  if (code < 0) return code;
  for (int64_t i = 0; i < rows; i++) {
    uint32_t key = (uint32_t)spans->keys[i];
    int64_t start = spans->starts[i], end = spans->ends[i];
    if (touches_any(self, key, start, end)) return FB_EARGUMENT;
    slots[i] =
        open_session(self, (struct session){.start = start, .end = end, .key = key, .is_given = spans->given[i] != 0});
  }
  return FB_OK;
}
