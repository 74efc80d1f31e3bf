/* Points at which a hostile build holds threads up, as a seed says, and faults that it puts back: to find what happens only
 * when one thread is slow at the worst moment. In every other build all of it is nothing.
 *
 * A hostile build has -DFB_HOSTILE_SCHEDULE and -include ground/schedule_point.h (CMake: FB_HOSTILE; setup.py:
 * FLINKBUF_HOSTILE). Then there is a point before and behind each lock, and each store, exchange and count of an atomic, of
 * the whole core, named by file and line; FB_SCHEDULE_POINT names more. A seed chooses some of the points, where threads
 * often stay for a while, and lets them yield at all others now and then. A seed does not decide everything, as the machine's
 * own schedule stays; the same one finds the same fault again within a few rounds.
 *
 * Seed and planted faults come from the environment (FB_SCHEDULE_SEED, FB_PLANT) or from a test. gcc only. */
#ifndef FB_SCHEDULE_POINT_H
#define FB_SCHEDULE_POINT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef FB_HOSTILE_SCHEDULE

#define FB_SCHEDULE_POINT(name) ((void)0)
#define FB_PLANTED(name)        false

#else

#include <pthread.h>
#include <stdatomic.h>

struct fb_schedule_point {
  const char* name;
  uint32_t hash;  /* of the name; 0: not known yet */
  uint32_t stays; /* how often a thread was held up here */
};

/* From now on threads are held up as `seed` says; 0: nowhere. */
void fb_schedule_point_start(uint64_t seed);
void fb_schedule_point_reach(struct fb_schedule_point* self);
/* Puts an old fault back; NULL: none. The name stays the caller's. */
void fb_schedule_point_plant(const char* name);
bool fb_schedule_point_is_planted(const char* name);

#define FB_SCHEDULE_POINT(text)                               \
  __extension__({                                             \
    static struct fb_schedule_point fb_here = {.name = text}; \
    fb_schedule_point_reach(&fb_here);                        \
  })
#define FB_PLANTED(name)          fb_schedule_point_is_planted(name)

#define FB_SCHEDULE_LINE_(line)   #line
#define FB_SCHEDULE_LINE(line)    FB_SCHEDULE_LINE_(line)
#define FB_SCHEDULE_HERE          FB_SCHEDULE_POINT(__FILE__ ":" FB_SCHEDULE_LINE(__LINE__))

#define pthread_mutex_lock(mutex) (FB_SCHEDULE_HERE, pthread_mutex_lock(mutex))
#define pthread_mutex_unlock(mutex)                  \
  __extension__({                                    \
    int fb_unlocked = (pthread_mutex_unlock)(mutex); \
    FB_SCHEDULE_HERE;                                \
    fb_unlocked;                                     \
  })

/* As <stdatomic.h> of gcc has them, between two points. */
#undef atomic_store_explicit
#define atomic_store_explicit(pointer, value, order) \
  __extension__({                                    \
    __auto_type fb_at = (pointer);                   \
    __typeof__((void)0, *fb_at) fb_new = (value);    \
    FB_SCHEDULE_HERE;                                \
    __atomic_store(fb_at, &fb_new, (order));         \
    FB_SCHEDULE_HERE;                                \
  })
#undef atomic_exchange_explicit
#define atomic_exchange_explicit(pointer, value, order)   \
  __extension__({                                         \
    __auto_type fb_at = (pointer);                        \
    __typeof__((void)0, *fb_at) fb_new = (value), fb_old; \
    FB_SCHEDULE_HERE;                                     \
    __atomic_exchange(fb_at, &fb_new, &fb_old, (order));  \
    FB_SCHEDULE_HERE;                                     \
    fb_old;                                               \
  })
#undef atomic_fetch_add_explicit
#define atomic_fetch_add_explicit(pointer, value, order)                \
  __extension__({                                                       \
    FB_SCHEDULE_HERE;                                                   \
    __auto_type fb_old = __atomic_fetch_add((pointer), (value), order); \
    FB_SCHEDULE_HERE;                                                   \
    fb_old;                                                             \
  })
#undef atomic_fetch_sub_explicit
#define atomic_fetch_sub_explicit(pointer, value, order)                \
  __extension__({                                                       \
    FB_SCHEDULE_HERE;                                                   \
    __auto_type fb_old = __atomic_fetch_sub((pointer), (value), order); \
    FB_SCHEDULE_HERE;                                                   \
    fb_old;                                                             \
  })

#endif

#endif
