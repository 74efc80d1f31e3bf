#include "wire/error_cause.h"

#include <stdio.h>
#include <string.h>

#include "ground/byte_order.h"

#define MESSAGE_MAX 1000 /* bytes; longer ones are cut */

/* What Java's ObjectOutputStream writes around the message of an IllegalStateException without a stack trace.
 * Each of these arrays ends with one more byte, C's 0. */
static const char STATE_START[] =
    "\254\355\000\005sr\000\037java.lang.IllegalStateException\346WU\346\232F\362H\002\000\000xr\000\032j"
    "ava.lang.RuntimeException\236_\006G\0124\203\345\002\000\000xr\000\023java.lang.Exception\320\375"
    "\037>\032;\034\304\002\000\000xr\000\023java.lang.Throwable\325\3065'9w\270\313\003\000\004L\000\005"
    "causet\000\025Ljava/lang/Throwable;L\000\015detailMessaget\000\022Ljava/lang/String;[\000\012stackTr"
    "acet\000\036[Ljava/lang/StackTraceElement;L\000\024suppressedExceptionst\000\020Ljava/util/List;xpq"
    "\000~\000\010t";

static const char STATE_END[] =
    "ur\000\036[Ljava.lang.StackTraceElement;\002F*<<\375\0429\002\000\000xp\000\000\000\000sr\000\037jav"
    "a.util.Collections$EmptyListz\270\027\264<\247\236\336\002\000\000xpx";

/* The same for a PartitionNotFoundException, which holds the id of the partition in NOT_FOUND_END. */
static const char NOT_FOUND_START[] =
    "\254\355\000\005sr\000Horg.apache.flink.runtime.io.network.partition.PartitionNotFoundException\000"
    "\000\000\000\000\000\000\000\002\000\000xr\000@org.apache.flink.runtime.io.network.partition.Partiti"
    "onException\000\000\000\000\000\000\000\000\002\000\001L\000\013partitionIdt\000ALorg/apache/flink/r"
    "untime/io/network/partition/ResultPartitionID;xr\000\023java.io.IOExceptionl\200sde%\360\253\002\000"
    "\000xr\000\023java.lang.Exception\320\375\037>\032;\034\304\002\000\000xr\000\023java.lang.Throwable"
    "\325\3065'9w\270\313\003\000\004L\000\005causet\000\025Ljava/lang/Throwable;L\000\015detailMessaget"
    "\000\022Ljava/lang/String;[\000\012stackTracet\000\036[Ljava/lang/StackTraceElement;L\000\024suppres"
    "sedExceptionst\000\020Ljava/util/List;xppt";

static const char NOT_FOUND_END[] =
    "ur\000\036[Ljava.lang.StackTraceElement;\002F*<<\375\0429\002\000\000xp\000\000\000\000sr\000\037jav"
    "a.util.Collections$EmptyListz\270\027\264<\247\236\336\002\000\000xpxsr\000\077org.apache.flink.runt"
    "ime.io.network.partition.ResultPartitionID\363y\236 \344Z\235\316\002\000\002L\000\013partitionIdt"
    "\000ALorg/apache/flink/runtime/jobgraph/IntermediateResultPartitionID;L\000\012producerIdt\000<Lorg/"
    "apache/flink/runtime/executiongraph/ExecutionAttemptID;xpsr\000\077org.apache.flink.runtime.jobgraph"
    ".IntermediateResultPartitionID\000\000\000\000\000\000\000\001\002\000\002I\000\014partitionNumL\000"
    "\025intermediateDataSetIDt\0009Lorg/apache/flink/runtime/jobgraph/IntermediateDataSetID;xp\000\000"
    "\000\001sr\0007org.apache.flink.runtime.jobgraph.IntermediateDataSetID\000\000\000\000\000\000\000"
    "\001\002\000\000xr\000 org.apache.flink.util.AbstractID\000\000\000\000\000\000\000\001\002\000\002J"
    "\000\011lowerPartJ\000\011upperPartxp\021\0423DUfw\221\231\252\273\314\335\356\377\011sr\000:org.apa"
    "che.flink.runtime.executiongraph.ExecutionAttemptID\000\000\000\000\000\000\000\001\002\000\003I\000"
    "\015attemptNumberL\000\020executionGraphIdt\000:Lorg/apache/flink/runtime/executiongraph/ExecutionGr"
    "aphID;L\000\021executionVertexIdt\000\077Lorg/apache/flink/runtime/scheduler/strategy/ExecutionVerte"
    "xID;xp\000\000\000\003sr\0008org.apache.flink.runtime.executiongraph.ExecutionGraphID\000\000\000"
    "\000\000\000\000\001\002\000\000xq\000~\000\030\011(Gf\205\244\303\342\001 \077^}\234\273\332sr\000="
    "org.apache.flink.runtime.scheduler.strategy.ExecutionVertexID\000\000\000\000\000\000\000\001\002"
    "\000\002I\000\014subtaskIndexL\000\013jobVertexIdt\000/Lorg/apache/flink/runtime/jobgraph/JobVertexI"
    "D;xp\000\000\000\002sr\000-org.apache.flink.runtime.jobgraph.JobVertexID\000\000\000\000\000\000\000"
    "\001\002\000\000xq\000~\000\030\001\002\003\004\005\006\007\021\011\012\013\014\015\016\017\031";

static const struct {
  uint16_t place; /* in NOT_FOUND_END */
  uint8_t start;  /* in the id */
  uint8_t size;
} ID_FIELDS[] = {{517, 16, 4}, {664, 0, 16}, {937, 56, 4}, {1018, 20, 16}, {1191, 52, 4}, {1261, 36, 16}};

static const char NOT_FOUND_CLASS[] = "org.apache.flink.runtime.io.network.partition.PartitionNotFoundException";

/* ---- writing ------------------------------------------------------------------------------------------ */

/* The message as Java's modified UTF-8: what is not ASCII becomes a question mark. */
static size_t copy_message(uint8_t* to, const char* message) {
  size_t size = strlen(message);

  if (size > MESSAGE_MAX) size = MESSAGE_MAX;
  fb_store_be16(to, (uint16_t)size);
  for (size_t i = 0; i < size; i++) to[2 + i] = (uint8_t)((uint8_t)message[i] < 0x80 ? message[i] : '?');
  return 2 + size;
}

int fb_error_cause_new(const char* message, struct fb_buffer_slice* cause) {
  uint8_t bytes[sizeof STATE_START + 2 + MESSAGE_MAX + sizeof STATE_END];
  size_t size = sizeof STATE_START - 1;

  memcpy(bytes, STATE_START, size);
  size += copy_message(bytes + size, message);
  memcpy(bytes + size, STATE_END, sizeof STATE_END - 1);
  return fb_buffer_new_unpooled(bytes, size + sizeof STATE_END - 1, FB_EVENT_BUFFER, cause);
}

int fb_error_cause_new_not_found(const uint8_t* partition, struct fb_buffer_slice* cause) {
  uint8_t bytes[sizeof NOT_FOUND_START + 2 + MESSAGE_MAX + sizeof NOT_FOUND_END];
  char message[FB_PARTITION_ID_TEXT_SIZE + 32], id[FB_PARTITION_ID_TEXT_SIZE];
  size_t size = sizeof NOT_FOUND_START - 1;

  fb_error_cause_id_text(partition, id);
  snprintf(message, sizeof message, "Partition %s not found.", id);
  memcpy(bytes, NOT_FOUND_START, size);
  size += copy_message(bytes + size, message);
  memcpy(bytes + size, NOT_FOUND_END, sizeof NOT_FOUND_END - 1);
  for (size_t i = 0; i < sizeof ID_FIELDS / sizeof ID_FIELDS[0]; i++)
    memcpy(bytes + size + ID_FIELDS[i].place, partition + ID_FIELDS[i].start, ID_FIELDS[i].size);
  return fb_buffer_new_unpooled(bytes, size + sizeof NOT_FOUND_END - 1, FB_EVENT_BUFFER, cause);
}

static char* put_hex(char* to, const uint8_t* bytes, size_t size) {
  for (size_t i = 0; i < size; i++) to += sprintf(to, "%02x", bytes[i]);
  return to;
}

void fb_error_cause_id_text(const uint8_t* partition, char* text) {
  text = put_hex(text, partition, 16);
  text += sprintf(text, "#%d@", (int32_t)fb_load_be32(partition + 16));
  text = put_hex(text, partition + 20, 16);
  *text++ = '_';
  text = put_hex(text, partition + 36, 16);
  sprintf(text, "_%d_%d", (int32_t)fb_load_be32(partition + 52), (int32_t)fb_load_be32(partition + 56));
}

/* ---- reading ------------------------------------------------------------------------------------------ */

/* Cuts a string with its length in two bytes from the front of [*at, end). NULL if it does not fit. */
static const uint8_t* cut_text(const uint8_t** at, const uint8_t* end, size_t* size) {
  const uint8_t* text = *at + 2;

  if (end - *at < 2) return NULL;
  *size = fb_load_be16(*at);
  if ((size_t)(end - text) < *size) return NULL;
  *at = text + *size;
  return text;
}

static const uint8_t* find_text(const uint8_t* in, const uint8_t* end, const char* what, size_t size) {
  for (; (size_t)(end - in) >= size; in++)
    if (memcmp(in, what, size) == 0) return in;
  return NULL;
}

void fb_error_cause_read(const uint8_t* data, size_t size, struct fb_error_cause* cause) {
  static const char before_name[] = "\254\355\000\005sr";   /* a stream, an object, its class */
  static const char before_values[] = "Ljava/util/List;xp"; /* the last field that Throwable declares */
  const uint8_t *at = data, *end = data + size;

  memset(cause, 0, sizeof(*cause));
  if (size < 6 || memcmp(data, before_name, 6) != 0) return;
  at += 6;
  cause->class_name = (const char*)cut_text(&at, end, &cause->class_size);
  if (cause->class_name == NULL) return;
  cause->is_partition_not_found = cause->class_size == sizeof NOT_FOUND_CLASS - 1 &&
                                  memcmp(cause->class_name, NOT_FOUND_CLASS, cause->class_size) == 0;
  at = find_text(at, end, before_values, 18);
  if (at == NULL) return;
  at += 18;
  /* Its first value, another cause: none, or a reference to itself, which means none as well. */
  if (at < end && *at == 'p') at++;
  else if (end - at >= 5 && *at == 'q') at += 5;
  if (at == end || *at++ != 't') return;
  cause->message = (const char*)cut_text(&at, end, &cause->message_size);
  cause->is_plain = cause->message != NULL && memcmp(data, STATE_START, sizeof STATE_START - 1) == 0 &&
                    (size_t)(end - at) == sizeof STATE_END - 1 && memcmp(at, STATE_END, sizeof STATE_END - 1) == 0;
}
