"""A temporary directory that is gone when its job is, and at the latest when the next job makes one."""

from __future__ import annotations

from flinkbuf.owned_directory import OwnedDirectory

PREFIX = "flinkbuf-job-"


class JobDirectory(OwnedDirectory):
    """A directory of one job; a context manager.

    Parameters
    ----------
    parent : str, optional
        Where to make it; the system's directory for temporary files by default.

    Examples
    --------
    >>> with JobDirectory() as directory:
    ...     directory.path.is_dir()
    True
    >>> directory.path.exists()
    False
    """

    def __init__(self, parent: str | None = None) -> None:
        super().__init__(PREFIX, parent)
