"""Jobs that have ended, each as one JSON file in a directory.

A file appears whole or not at all, whatever happens to the process that writes it. Flink: FsJobArchivist, option
``jobmanager.archive.fs.dir``.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

from flinkbuf.checkpoints.local_files import sync_directory
from flinkbuf.errors import CorruptDataError
from flinkbuf.private_files import make_private_directories
from flinkbuf.runtime.protocol.messages import Json

SUFFIX = ".json"


def archive_job(directory: str | os.PathLike[str], details: Json) -> Path:
    """Write what is known of a job; returns the file, which is named after the job's id.

    Parameters
    ----------
    directory : path
        Made if it is not there.
    details : dict
        As `job_details` makes it.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = archive_job(directory, {"jid": "c" * 32, "name": "numbers", "state": "FINISHED"})
    ...     archived_jobs(directory) == ["c" * 32], read_archived_job(directory, "c" * 32)["state"]
    (True, 'FINISHED')
    """
    path = _path_of(directory, details["jid"])
    make_private_directories(path.parent)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump(details, file, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    sync_directory(str(path.parent))
    return path


def read_archived_job(directory: str | os.PathLike[str], job_id: str) -> Json:
    """Return what was archived of a job.

    Raises
    ------
    FileNotFoundError
        No job of that id was archived there.
    CorruptDataError
        The file is no archive of that job.
    """
    path = _path_of(directory, job_id)
    try:
        details = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"job {job_id} is not archived in {os.fspath(directory)!r}") from None
    except ValueError as error:
        raise CorruptDataError(f"{path}: not the archive of a job: {error}") from error
    if not isinstance(details, dict) or details.get("jid") != job_id:
        raise CorruptDataError(f"{path}: not the archive of job {job_id}")
    return details


def archived_jobs(directory: str | os.PathLike[str]) -> list[str]:
    """Return the ids of all jobs that are archived in a directory, the one that ended last first."""
    found = []
    for path in Path(directory).glob("*" + SUFFIX):
        if re.fullmatch("[0-9a-f]{32}", path.stem):
            found.append((path.stat().st_mtime_ns, path.stem))
    return [job_id for _, job_id in sorted(found, reverse=True)]


def _path_of(directory: str | os.PathLike[str], job_id: str) -> Path:
    if not re.fullmatch("[0-9a-f]{32}", job_id):  # it becomes a file's name
        raise ValueError(f"a job's id has 32 hex digits, got {job_id!r:.80}")
    return Path(directory) / (job_id + SUFFIX)
