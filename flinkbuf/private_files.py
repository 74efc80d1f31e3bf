"""Files and directories that are their owner's alone, whatever the umask of the program.

What a job keeps is records, and functions as pickles: another user of the machine must neither read it nor, where a
program has a generous umask, write into what is unpickled later.
"""

from __future__ import annotations

import os
from typing import Final

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


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
