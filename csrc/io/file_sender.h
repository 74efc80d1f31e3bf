/* Parts of files that go to a socket without passing through this process, and without a wait for the disk.
 *
 * What lies in the system's memory is sent from there (sendfile). What does not is read elsewhere, on the reactor's thread for
 * disks, into a buffer that is sent instead; the pages behind it come along. Flink: FileRegionBuffer, which has Netty's event
 * loop wait.
 *
 * Owner:   regions are borrowed during a call; a read holds a reference of its file.
 * Threads: the I/O thread, which is also where a read reports. */
#ifndef FB_FILE_SENDER_H
#define FB_FILE_SENDER_H

#include "io/file_region.h"
#include "io/reactor.h"
#include "memory/buffer.h"

struct fb_file_sender_read; /* opaque */

/* Whether what is left of the region after `skipped` bytes lies in memory, as far as the system tells. */
bool fb_file_sender_is_ready(const struct fb_file_region* region, uint32_t skipped);
/* Writes of that what fits now. Bytes; 0 if nothing fits; FB_EIO with errno; FB_ETRUNCATED: the file ends before. */
int64_t fb_file_sender_send(int socket, const struct fb_file_region* region, uint32_t skipped);
/* Has the rest of the region read; `on_read` is told once, later: `code` FB_OK with the bytes in *slice, whose reference it
 * takes; FB_EIO with `error`; FB_ETRUNCATED. FB_ENOMEM, FB_ETHREAD, FB_ESTATE (the reactor is closed). */
int fb_file_sender_start_read(struct fb_reactor* reactor, const struct fb_file_region* region, uint32_t skipped,
                              void (*on_read)(void* context, int code, int error, struct fb_buffer_slice* slice),
                              void* context, struct fb_file_sender_read** read);
/* on_read is not called any more. Once for each read that has not reported. */
void fb_file_sender_forget(struct fb_file_sender_read* read);

#endif
