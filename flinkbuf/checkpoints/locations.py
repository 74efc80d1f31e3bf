"""Names of directories and files of checkpoints. Flink: AbstractFsCheckpointStorageAccess.

A location is an absolute path on this machine, or a URI; its query (``?region=…``) stays at its end, so locations are
put together here and nowhere else.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote

METADATA: Final = "_metadata"
SHARED: Final = "shared"

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?]*)([^?]*)(\?.*)?", re.DOTALL)
_SECRET = re.compile(r"secret|password|token|account_key|access_key|sas", re.IGNORECASE)
_CHECKPOINT = re.compile(r"chk-(\d+)(?:-\d+)?")
_SAVEPOINT = re.compile(r"savepoint-.+")


def scheme_of(location: str) -> str:
    """Return what stands before ``://``, in small letters; empty for a path on this machine."""
    match = _URI.match(location)
    scheme = match[1].lower() if match else ""
    return "" if scheme == "file" else scheme


def place_of(location: str) -> str:
    """Return scheme and authority: what has one file system; empty for this machine."""
    match = _URI.match(location)
    return f"{match[1].lower()}://{match[2]}" if match and scheme_of(location) else ""


def path_within(location: str) -> str:
    """Return the path between authority and query of a URI, without a slash at its ends."""
    match = _URI.fullmatch(location)
    return match[3].strip("/") if match else location


def query_of(location: str) -> str:
    """Return the options of a URI, without their question mark; empty if it has none."""
    return _split(location)[1][1:]


def normalized(directory: str) -> str:
    """Return a directory as a location: an absolute path, or a URI.

    Raises
    ------
    ValueError
        If it is empty, or a URI with credentials: they would stand in logs and in what is written.

    Examples
    --------
    >>> normalized("file:///checkpoints/"), normalized("S3://bucket/a/?region=eu-west-1")
    ('/checkpoints', 's3://bucket/a?region=eu-west-1')
    """
    if not directory:
        raise ValueError("the directory of checkpoints must not be empty")
    if not scheme_of(directory):
        return os.path.abspath(_local_path(directory))
    match = _URI.fullmatch(directory)
    assert match
    options = (match[4] or "?")[1:].split("&")
    if ":" in match[2].rpartition("@")[0] or any(_SECRET.search(each.partition("=")[0]) for each in options):
        raise ValueError(
            f"a URI with credentials, {match[1]}://…, cannot be a directory of checkpoints: they would stand in logs "
            "and messages. Set them in the surroundings of all processes, for S3 as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )
    return f"{place_of(directory)}{match[3].rstrip('/')}{match[4] or ''}"


def _local_path(directory: str) -> str:
    if directory[:5].lower() != "file:":
        return os.path.expanduser(directory)
    match = _URI.fullmatch(directory)
    return unquote(match[3] if match else directory[5:])


def child(location: str, *names: str) -> str:
    """Return the location of a name within a directory.

    Examples
    --------
    >>> child("/checkpoints", "a", "chk-1"), child("s3://bucket/a?region=x", "_metadata")
    ('/checkpoints/a/chk-1', 's3://bucket/a/_metadata?region=x')
    """
    head, query = _split(location)
    return "/".join((head.rstrip("/"), *names)) + query


def parent(location: str) -> str:
    """Return the location of the directory that a location lies in."""
    head, query = _split(location)
    return (head.rpartition("/")[0] or "/") + query


def name_of(location: str) -> str:
    """Return the last name of a location."""
    return _split(location)[0].rpartition("/")[2]


def _split(location: str) -> tuple[str, str]:
    if not scheme_of(location):
        return location, ""
    head, mark, query = location.partition("?")
    return head, mark + query


def relative(path: str, location: str) -> str:
    """Return how a checkpoint names a file, so that it can be moved: relative to its own directory, if it lies in
    that or in the directory of its job.

    Examples
    --------
    >>> relative("/c/job/chk-1/x", "/c/job/chk-1"), relative("/c/job/shared/y", "/c/job/chk-1")
    ('./x', '../shared/y')
    """
    head, (here, _), (above, _) = _split(path)[0], _split(location), _split(parent(location))
    if head.startswith(here + "/"):
        return "./" + head[len(here) + 1 :]
    if head.startswith(above.rstrip("/") + "/"):
        return "../" + head[len(above.rstrip("/")) + 1 :]
    return path


def absolute(path: str, location: str) -> str:
    """Undo `relative`, wherever the checkpoint lies now."""
    if path.startswith("./"):
        return child(location, path[2:])
    if path.startswith("../"):
        return child(parent(location), path[3:])
    return path


# ---- directories of checkpoints


def checkpoint_location(directory: str, job_id: str, checkpoint_id: int, epoch: int = 1) -> str:
    """Return the directory of one checkpoint of one job.

    A job master that took over from another (`epoch` counts them) has directories of its own: the other one may live
    on for a while, and neither may write or delete what the other has under the same number.
    """
    name = f"chk-{checkpoint_id}" if epoch <= 1 else f"chk-{checkpoint_id}-{epoch}"
    return child(directory, job_id, name)


def savepoint_location(directory: str, job_id: str, suffix: str) -> str:
    """Return the directory of a savepoint; the suffix is drawn for it."""
    return child(directory, f"savepoint-{job_id[:6]}-{suffix}")


def checkpoint_id_of(location: str) -> int | None:
    """Return the number of a checkpoint by the name of its directory; None: it is a savepoint's, or another."""
    match = _CHECKPOINT.fullmatch(name_of(location))
    return int(match[1]) if match else None


def is_checkpoint_name(location: str) -> bool:
    """Return whether a name is that of a checkpoint's or savepoint's directory."""
    name = name_of(location)
    return bool(_CHECKPOINT.fullmatch(name) or _SAVEPOINT.fullmatch(name))
