"""The exceptions of flinkbuf; builtin ones are used wherever they fit."""


class FlinkbufError(Exception):
    """Anything that went wrong in the data plane and that no builtin exception names."""


class CorruptDataError(FlinkbufError, ValueError):
    """Bytes that no writer of the declared type produces: damaged, cut off, or of another type."""


class InsufficientBuffersError(FlinkbufError):
    """The buffer pool cannot guarantee the segments that were asked for; the message says how many."""


class CancelTaskError(FlinkbufError):
    """The other side, or the pool, went away: this task has to stop, but is not the one that failed."""


class PeerFailedError(CancelTaskError):
    """Another task of the same exchange failed, or is gone; the message names it and says why."""


class PartitionNotFoundError(FlinkbufError, LookupError):
    """A result partition was not there in time: its producer never registered it, or has released it."""


class RemoteTransportError(FlinkbufError, ConnectionError):
    """A connection between two processes could not be made, or broke; the message names the other side."""


class AsyncCallError(FlinkbufError):
    """An asynchronous call failed for good; the cause is the error of its last attempt.

    Attributes
    ----------
    record : object
        The record that the call was made for.
    attempts : int
        Calls made for it.
    """

    record: object = None
    attempts: int = 0


class AsyncTimeoutError(AsyncCallError, TimeoutError):
    """An asynchronous call, with its retries, took longer than the timeout."""
