"""The exceptions of flinkbuf; builtin ones are used wherever they fit.

What a message says about the place is on the exception, too, so that no code has to read texts.
"""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


class FlinkbufError(Exception):
    """Anything that went wrong in the data plane and that no builtin exception names.

    Attributes
    ----------
    channel_index : int or None
        The channel of the gate that it is about, from 0.
    """

    channel_index: int | None = None


def located(error: E, *, channel_index: int) -> E:
    """Say on an error which channel it is about; returns it."""
    error.channel_index = channel_index  # type: ignore[attr-defined]
    return error


def record_refused(error: E, record_number: int, refused_by: str, field: str | None = None) -> E:
    """Say on a TypeError, ValueError or OverflowError for a record that cannot be written what it is about; return it.

    Parameters
    ----------
    error : BaseException
        Builtin classes have no such attributes of their own: ask for them with ``getattr(error, name, None)``.
    record_number : int
        From 0 in what its writer was given; negative for a value that is no record.
    refused_by : {"type", "key", "partitioner"}
        What it does not fit.
    field : str, optional
        The field, as the message names it.
    """
    error.record_number = record_number if record_number >= 0 else None  # type: ignore[attr-defined]
    error.refused_by = refused_by  # type: ignore[attr-defined]
    error.field = field  # type: ignore[attr-defined]
    return error


def state_refused(error: E, what: str) -> E:
    """Make the error of the same type that says which state holds a value that cannot be written.

    Such a value is there at the next checkpoint, too: the task fails, and not only this checkpoint.

    Parameters
    ----------
    error : Exception
        What the codec says of the value.
    what : str
        The state and the key, as the message names them.
    """
    made = type(error)(f"{what} cannot be saved: {error}")
    made.refused_state = what  # type: ignore[attr-defined]
    return made


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
