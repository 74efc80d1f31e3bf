"""What all threads of this process are doing at one moment. Flink: ThreadDumpInfo."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import Final

from flinkbuf.runtime.protocol.messages import Json

THREADS_MAX: Final = 500
FRAMES_MAX: Final = 100  # of a stack, the innermost


def thread_dump() -> Json:
    """Return the stacks of all threads, in Flink's shape.

    Examples
    --------
    >>> dump = thread_dump()["threadInfos"]
    >>> [each["threadName"] for each in dump if "thread_dump" in each["stringifiedThreadInfo"]]
    ['MainThread']
    """
    known = {thread.ident: thread for thread in threading.enumerate()}
    frames = sys._current_frames()
    infos = []
    for ident, frame in list(frames.items())[:THREADS_MAX]:
        thread = known.get(ident)
        name = f"thread {ident}" if thread is None else thread.name
        about = "" if thread is None else f" Id={thread.native_id}{' daemon' if thread.daemon else ''}"
        lines = traceback.format_stack(frame)[-FRAMES_MAX:]
        infos.append({"threadName": name, "stringifiedThreadInfo": f'"{name}"{about}\n{"".join(reversed(lines))}'})
    del frames  # they hold what the tasks hold
    return {"threadInfos": sorted(infos, key=lambda each: each["threadName"])}
