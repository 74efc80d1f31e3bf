"""Files and directories that are their owner's alone, whatever the umask of the program; and secrets out of such.

What a job keeps is records, and functions as pickles: another user of the machine must neither read it nor, where a
program has a generous umask, write into what is unpickled later.
"""

from __future__ import annotations

import os
import stat
from typing import Final

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
SECRET_MAX: Final = 4096  # bytes of one that is read


def private_opener(path: str, flags: int) -> int:
    """Open a file as ``open(path, "wb", opener=private_opener)`` does; a new one is its owner's alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with open(f"{directory}/state", "xb", opener=private_opener) as file:
    ...         oct(os.fstat(file.fileno()).st_mode & 0o777)
    '0o600'
    """
    return os.open(path, flags, FILE_MODE)


def make_private_directories(path: str | os.PathLike[str]) -> None:
    """Make a directory, and those above that are missing; each new one is its owner's alone. One that is there stays.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     make_private_directories(f"{directory}/a/b")
    ...     oct(os.stat(f"{directory}/a").st_mode & 0o777), oct(os.stat(f"{directory}/a/b").st_mode & 0o777)
    ('0o700', '0o700')
    """
    above = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(above):
        make_private_directories(above)
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def read_secret(path: str | os.PathLike[str]) -> str:
    """Return the first line of a file that nobody but this user, or root, can have read or written.

    Raises
    ------
    FileNotFoundError
        There is none.
    PermissionError
        Others may read it, or it is another user's.
    ValueError
        Its first line is empty, or no text.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with open(f"{directory}/token", "w", opener=private_opener) as file:
    ...         _ = file.write("correct horse battery staple\\n")
    ...     read_secret(f"{directory}/token")
    'correct horse battery staple'
    """
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())  # of the file that is open: its name may be another's by now
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid not in (os.geteuid(), 0) or mode & 0o077:
            raise PermissionError(
                f"{os.fspath(path)!r} is not this user's alone (user {status.st_uid}, mode {mode:o}): a secret is kept "
                "in a file of your own with mode 600"
            )
        line = file.readline(SECRET_MAX)
    try:
        secret = line.decode().strip()
    except UnicodeDecodeError:
        secret = ""
    if not secret:
        raise ValueError(f"the first line of {os.fspath(path)!r} is no secret")
    return secret
