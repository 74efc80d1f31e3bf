/* From a part back to what it is embedded in: a task, a timer or a map's entry knows nothing of its owner. */
#ifndef FB_OWNER_H
#define FB_OWNER_H

#include <stddef.h>

/* The struct `type` whose `member` is at `pointer`. */
#define FB_OWNER(type, member, pointer) ((struct type*)((char*)(pointer) - offsetof(struct type, member)))

#endif
