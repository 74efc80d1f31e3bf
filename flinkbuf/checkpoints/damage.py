"""Errors about files that are not as they were written."""

from __future__ import annotations

from flinkbuf.errors import CorruptDataError


def damaged(path: str, offset: int, what: str) -> CorruptDataError:
    """Return an error that names a file and the byte where it is not as it was written.

    Its attributes `path`, `offset` and `what` say the same.

    Examples
    --------
    >>> error = damaged("/checkpoints/chk-7/_metadata", 40, "its checksum is another")
    >>> str(error)
    '/checkpoints/chk-7/_metadata is damaged at byte 40: its checksum is another'
    >>> error.offset
    40
    """
    error = CorruptDataError(f"{path or 'state in memory'} is damaged at byte {offset}: {what}")
    error.path = path  # type: ignore[attr-defined]
    error.offset = offset  # type: ignore[attr-defined]
    error.what = what  # type: ignore[attr-defined]
    return error
