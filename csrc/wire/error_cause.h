/* Why a request failed: the cause of an ERROR_RESPONSE, a serialized Throwable that Flink understands.
 *
 * Two are written, from patterns that Java made: an IllegalStateException with any message, and Flink's
 * PartitionNotFoundException, after which a client may ask again. Of those that arrive, class and message are
 * picked out; nothing is loaded or made from them.
 *
 * Threads: any. */
#ifndef FB_ERROR_CAUSE_H
#define FB_ERROR_CAUSE_H

#include "memory/buffer.h"

#define FB_PARTITION_ID_TEXT_SIZE 160 /* bytes for the text of an id and its end */

/* `partition` has 60 bytes here and below: "data set#number@graph_vertex_subtask_attempt", ids in hex. */
void fb_error_cause_id_text(const uint8_t* partition, char* text);

/* A buffer of its own with the cause; the caller has its reference. FB_ENOMEM. */
int fb_error_cause_new(const char* message, struct fb_buffer_slice* cause);
int fb_error_cause_new_not_found(const uint8_t* partition, struct fb_buffer_slice* cause);

/* What could be picked out of a cause; texts lie in the cause, are not ended by 0, and NULL if not found. */
struct fb_error_cause {
  const char* class_name;
  size_t class_size;
  const char* message;
  size_t message_size;
  bool is_partition_not_found;
  bool is_plain; /* fb_error_cause_new made it: its class, which Flink asks for, says nothing */
};
void fb_error_cause_read(const uint8_t* data, size_t size, struct fb_error_cause* cause);

#endif
