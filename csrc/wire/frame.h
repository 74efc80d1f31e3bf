/* Frames: what two processes say to each other, coded without state or allocation, decoded from any split.
 *
 * A frame is a head (9 bytes: length int32 of the whole frame, magic int32, id int8; then its fixed fields),
 * for three ids a body of variable size, and for two of those a tail behind it. Heads and tails are written
 * into the caller's memory; a body is never touched here: the decoder says where it lies, piece by piece, so
 * that it is copied once, from the socket into a credit buffer. Flink: NettyMessage and its subclasses,
 * NettyMessageClientDecoderDelegate.
 *
 *   id               head  body                                      tail
 *   BUFFER_RESPONSE    47  part_count int32 sizes, body_size bytes   0
 *   ERROR_RESPONSE      9  body_size bytes: the cause                1 or 17: has_receiver, receiver
 *   TASK_EVENT         13  body_size bytes: the event                76: partition, receiver
 *   others       9 to 97   none                                      0
 *
 * Threads: none of its own; a decoder belongs to one thread.
 * Bytes:   numbers are big-endian. */
#ifndef FB_FRAME_H
#define FB_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/buffer.h"

#define FB_FRAME_MAGIC              0xBADC0FFEu
#define FB_PREFACE_MAGIC            0x66627566u /* "fbuf": stands there in what comes before frames, preface.h */
#define FB_FRAME_HEADER_SIZE        9           /* length, magic, id */
#define FB_FRAME_RESPONSE_HEAD_SIZE 47          /* the header and the 38 bytes of a BUFFER_RESPONSE before its body */
#define FB_FRAME_HEAD_MAX           97          /* bytes of the longest head: PARTITION_REQUEST */
#define FB_FRAME_TAIL_MAX           76
#define FB_CHANNEL_ID_SIZE          16
/* data set 16, partition 4, execution graph 16, job vertex 16, subtask 4, attempt 4 */
#define FB_PARTITION_ID_SIZE 60

enum fb_frame_id {
  FB_BUFFER_RESPONSE = 0,
  FB_ERROR_RESPONSE = 1,
  FB_PARTITION_REQUEST = 2,
  FB_TASK_EVENT_REQUEST = 3,
  FB_CANCEL_PARTITION_REQUEST = 4,
  FB_CLOSE_REQUEST = 5,
  FB_ADD_CREDIT = 6,
  FB_RESUME_CONSUMPTION = 7,
  FB_ACK_ALL_USER_RECORDS_PROCESSED = 8,
  FB_BACKLOG_ANNOUNCEMENT = 9,
  FB_NEW_BUFFER_SIZE = 10,
  FB_SEGMENT_ID = 11,
  FB_FRAME_ID_COUNT = 12,
};

/* Sets of ids, for fb_frame_limits.accepted. */
#define FB_FRAMES_OF_SERVERS (1u << FB_BUFFER_RESPONSE | 1u << FB_ERROR_RESPONSE | 1u << FB_BACKLOG_ANNOUNCEMENT)
#define FB_FRAMES_ALL        ((1u << FB_FRAME_ID_COUNT) - 1)
#define FB_FRAMES_OF_CLIENTS (FB_FRAMES_ALL & ~FB_FRAMES_OF_SERVERS)

/* One frame without its body. Each id uses the fields named beside it; the others are 0 after decoding. */
struct fb_frame {
  uint8_t id;                /* enum fb_frame_id */
  uint8_t data_type;         /* enum fb_buffer_data_type; BUFFER_RESPONSE */
  bool is_compressed;        /* BUFFER_RESPONSE */
  bool has_receiver;         /* false: CLOSE_REQUEST, and an ERROR_RESPONSE that ends the whole connection */
  int32_t subpartition;      /* >= 0: BUFFER_RESPONSE, SEGMENT_ID; the first of a range: PARTITION_REQUEST */
  int32_t last_subpartition; /* inclusive, >= subpartition: PARTITION_REQUEST */
  int32_t sequence_number;   /* wraps: BUFFER_RESPONSE */
  int32_t backlog;           /* >= 0: BUFFER_RESPONSE; > 0: BACKLOG_ANNOUNCEMENT */
  int32_t credit;            /* >= 0: PARTITION_REQUEST; > 0: ADD_CREDIT */
  int32_t buffer_size;       /* > 0: NEW_BUFFER_SIZE */
  int32_t segment;           /* > 0: SEGMENT_ID */
  uint32_t part_count;       /* sizes in front of the body: BUFFER_RESPONSE; at most body_size */
  uint32_t body_size;        /* bytes, without the sizes of parts */
  uint8_t receiver[FB_CHANNEL_ID_SIZE];
  uint8_t partition[FB_PARTITION_ID_SIZE]; /* PARTITION_REQUEST, TASK_EVENT_REQUEST */
};

/* Writes the head into FB_FRAME_HEAD_MAX bytes. Returns its size; FB_EARGUMENT when a field is out of the
 * range stated at struct fb_frame, or the frame would reach 2^31 bytes. */
int fb_frame_write_head(const struct fb_frame* self, uint8_t* to);
/* Writes what follows the body into FB_FRAME_TAIL_MAX bytes. Returns its size, 0 for most ids. */
int fb_frame_write_tail(const struct fb_frame* self, uint8_t* to);
/* Bytes of the whole frame, as its length field says. */
uint64_t fb_frame_size(const struct fb_frame* self);

/* ---- ids of channels --------------------------------------------------------------------------------
 *
 * A channel's id is its reader's own choice, which the other side only gives back. Ours end with a sum over the rest,
 * so that an id which bits were flipped in is told from that of a channel which has gone. Flink's are random. */

/* Sets the last FB_CHANNEL_SEAL_SIZE bytes of an id from those before them. */
#define FB_CHANNEL_SEAL_SIZE 4
void fb_frame_channel_id_seal(uint8_t* id);
bool fb_frame_channel_id_is_sealed(const uint8_t* id);

/* ---- decoding -------------------------------------------------------------------------------------- */

struct fb_frame_limits {
  uint32_t accepted;  /* bit i: id i may come; 0: any */
  uint32_t max_data;  /* body of a data buffer: the segment size of the receiver. Each 0: 2^31 - 1 */
  uint32_t max_event; /* body of an event, in BUFFER_RESPONSE and TASK_EVENT_REQUEST */
  uint32_t max_error; /* cause of an ERROR_RESPONSE */
  uint32_t max_parts; /* sizes of one BUFFER_RESPONSE */
};

enum fb_frame_step {
  FB_FRAME_NEEDS_INPUT = 0, /* every byte given was taken; more are needed */
  FB_FRAME_BODY_STARTS = 1, /* `frame` is known up to its body: choose where that goes */
  FB_FRAME_PART = 2,        /* `part_size`: the size of one more part; parts come before the body's bytes */
  FB_FRAME_BODY = 3,        /* `bytes` .. `bytes + size` belong to the body, at `offset` of it */
  FB_FRAME_ENDS = 4,        /* `frame` is complete */
};

struct fb_frame_decoder {
  struct fb_frame frame; /* the current one */
  /* What the last step gave. */
  const uint8_t* bytes; /* FB_FRAME_BODY: inside the input; the caller copies or drops them */
  uint32_t size;        /* bytes */
  uint32_t offset;      /* bytes of the body before `bytes` */
  uint32_t part_size;   /* FB_FRAME_PART */
  /* The decoder's own. */
  struct fb_frame_limits limits;
  uint64_t stream_offset; /* bytes of the stream consumed */
  uint64_t frame_offset;  /* where the current frame started */
  uint64_t frame_size;
  uint32_t parts_left;
  uint32_t parts_sum;
  uint32_t body_left;
  uint8_t stage;
  uint8_t wanted; /* bytes that the current stage joins before it looks at them */
  uint8_t joined; /* of those, in `side` already */
  int failure;    /* code of the first error, which stays */
  uint8_t side[FB_FRAME_HEAD_MAX];
  char error[160]; /* what was wrong, in which message, at which byte of the stream */
};

/* Starts a stream. A decoder owns nothing: there is no close. `limits` is copied. */
void fb_frame_decoder_open(struct fb_frame_decoder* self, const struct fb_frame_limits* limits);

/* Takes bytes from the front of [*data, *data + *size), moves both past them, and says what they were.
 * FB_ECORRUPT, FB_ETOO_LARGE: the stream cannot be followed any further; `error` says why, and each later
 * call says the same. Nothing is believed unchecked: a length is refused before its bytes come. */
int fb_frame_decoder_next(struct fb_frame_decoder* self, const uint8_t** data, size_t* size);

/* Bytes of the body still to come, 0 outside a body and while sizes of parts come. The caller may receive up
 * to that many straight into their place and report them with took(). */
static inline uint32_t fb_frame_decoder_body_left(const struct fb_frame_decoder* self) { return self->body_left; }
/* `size` <= body_left bytes of the body arrived without the decoder. next() goes on behind them; after the
 * last it gives FB_FRAME_ENDS or reads the tail, also without input. FB_EBOUNDS. */
int fb_frame_decoder_took(struct fb_frame_decoder* self, uint32_t size);

/* Whether two bytes begin a record of TLS, an alert or a handshake: no frame does. */
static inline bool fb_frame_is_tls(const uint8_t* bytes) {
  return (bytes[0] == 0x15 || bytes[0] == 0x16) && bytes[1] == 3;
}
/* Whether a stream that ended inside its first header was one: an alert is shorter than a header. */
static inline bool fb_frame_decoder_saw_tls(const struct fb_frame_decoder* self) {
  return self->stage == 0 && self->frame_offset == 0 && self->joined >= 2 && fb_frame_is_tls(self->side);
}

/* An ERROR_RESPONSE does not say where its cause ends: the decoder gives cause and tail together as the body.
 * This splits them once they are complete: sets has_receiver, receiver and body_size (the cause alone).
 * FB_ECORRUPT. A cause is Java's serialized Throwable, which ends with 0x78 unless the class has fields of
 * its own; that decides where both readings of the last bytes are possible. */
int fb_frame_split_error(struct fb_frame* self, const uint8_t* body, size_t size);

#endif
