"""Where checkpoints lie, and all that is done with their files. Flink: CheckpointStorage, FsCheckpointStorageAccess.

Tasks write state, job masters write ``_metadata`` when all state is there, and that is what makes a checkpoint.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from flinkbuf.checkpoints.damage import damaged
from flinkbuf.checkpoints.files import FileEntry, Files, StateInput, StateOutput
from flinkbuf.checkpoints.handles import CheckpointMetadata, StateHandle
from flinkbuf.checkpoints.hdfs_files import SCHEMES, HdfsFiles, is_there
from flinkbuf.checkpoints.local_files import LocalFiles
from flinkbuf.checkpoints.locations import (
    METADATA,
    SHARED,
    checkpoint_id_of,
    child,
    is_checkpoint_name,
    name_of,
    normalized,
    parent,
    place_of,
    scheme_of,
)
from flinkbuf.checkpoints.metadata import SIZE_MAX, decode_metadata, encode_metadata
from flinkbuf.checkpoints.remote_files import RemoteFiles

FILES_OF_SCHEME: dict[str, Callable[[str], Files]] = {}  # beside those of pyarrow, by scheme: called with the URI
_LOCAL = LocalFiles()
_DELETE_ATTEMPTS = 3


@dataclass(frozen=True)
class FoundCheckpoint:
    """A directory of a checkpoint or savepoint."""

    location: str
    checkpoint_id: int | None  # None: a savepoint, whose name has no number
    is_savepoint: bool
    is_complete: bool  # the directory has a `_metadata`
    modified_ms: int
    metadata_size: int


class CheckpointStorage:
    """Files of checkpoints below one directory, and of any others that handles name. From any thread.

    Parameters
    ----------
    directory : str
        A path on this machine, or a URI that ``pyarrow.fs`` knows, as ``s3://bucket/directory?region=eu-west-1``.
        Credentials come from the surroundings of the process.

    Attributes
    ----------
    directory : str
        As a location, see `flinkbuf.checkpoints.locations`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     storage = storage_of(directory)
    ...     with storage.open_output(child(storage.directory, "job", "chk-1")) as output:
    ...         offset = output.write(b"state")
    ...         handle = StateHandle(5, path=output.finish(), offset=offset)
    ...     storage.read(handle)
    b'state'
    """

    def __init__(self, directory: str) -> None:
        self.directory = normalized(directory)
        self._remote: dict[str, Files] = {}  # by place
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return CheckpointStorage, (self.directory,)

    # ---- state

    def open_output(self, location: str) -> StateOutput:
        """Make a new file in a directory, under a unique name."""
        return self._files(location).create(child(location, uuid.uuid4().hex))

    def open_input(self, path: str) -> StateInput:
        """Open a file that a handle names.

        Raises
        ------
        FileNotFoundError
            If the file is gone.
        """
        return self._files(path).open(path)

    def read(self, handle: StateHandle) -> bytes:
        """Return the bytes of a handle.

        Raises
        ------
        CorruptDataError
            If they are not those that were written.
        """
        if not handle.path:
            data = handle.data
            if len(data) != handle.size:
                raise damaged("", min(len(data), handle.size), f"it has {len(data)} bytes, not {handle.size}")
        else:
            with self.open_input(handle.path) as file:
                data = file.read_at(handle.offset, handle.size)
        if handle.checksum and zlib.crc32(data) != handle.checksum:
            what = f"the checksum of the {handle.size} bytes from here on is another"
            raise damaged(handle.path, handle.offset, what)
        return data

    def delete(self, handles: Iterable[StateHandle]) -> None:
        """Delete the files of handles; a file that is gone already is no error.

        Raises
        ------
        OSError
            If some cannot be deleted: the first one's, after all were tried.
        """
        with _all_tried() as trying:
            for path in dict.fromkeys(each.path for each in handles if each.path):
                with trying():
                    self._files(path).delete(path)

    # ---- checkpoints

    def write_metadata(self, location: str, metadata: CheckpointMetadata) -> tuple[str, int]:
        """Write ``_metadata``, which completes the checkpoint at `location`; return its path and size.

        Raises
        ------
        FileExistsError
            If there is a checkpoint already.
        """
        data = encode_metadata(metadata, location)
        path = child(location, METADATA)
        self._files(location).put(path, data)
        return path, len(data)

    def read_metadata(self, path: str) -> CheckpointMetadata:
        """Return the metadata of a checkpoint; `path` is its directory, or the ``_metadata`` in it.

        Raises
        ------
        FileNotFoundError
            If there is no checkpoint, or only the beginnings of one.
        CorruptDataError
            If the file is not as it was written.
        """
        location = location_of(path)
        file_path = child(location, METADATA)
        try:
            with self.open_input(file_path) as file:
                if file.size > SIZE_MAX:
                    raise damaged(file_path, SIZE_MAX, f"it has {file.size} bytes; no more than {SIZE_MAX} are read")
                data = file.read_at(0, file.size)
        except (FileNotFoundError, NotADirectoryError):
            message = f"there is no checkpoint or savepoint at {location}: it has no file {METADATA}"
            raise FileNotFoundError(message) from None
        return decode_metadata(data, location, file_path)

    def delete_checkpoint(self, location: str) -> None:
        """Delete a checkpoint and all that lies in its directory, ``_metadata`` first: half of one is none.

        Raises
        ------
        ValueError
            If the name is not that of a checkpoint or savepoint.
        """
        if not is_checkpoint_name(location):
            raise ValueError(f"{location} is not called as a checkpoint or savepoint is: it is not deleted")
        files = self._files(location)
        for attempt in range(_DELETE_ATTEMPTS):  # no later call deletes the directory
            try:
                files.delete(child(location, METADATA))
                files.delete_tree(location)
                return
            except OSError:
                if attempt == _DELETE_ATTEMPTS - 1:
                    raise

    delete_directory = delete_checkpoint

    def remove_job_directory(self, job_id: str) -> None:
        """Remove the directory of a job that has ended, with its shared files, unless a checkpoint is left in it.

        An aborted checkpoint may have left a file that a task had not finished when the others were deleted.
        """
        location = child(self.directory, job_id)
        files = self._files(location)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            entries = files.entries(location)
            is_known = all(name_of(each.location) == SHARED or is_checkpoint_name(each.location) for each in entries)
            if is_known and not any(each.is_complete for each in self._checkpoints_in(entries)):
                files.delete_tree(location)

    def create_directory(self, location: str) -> None:
        """Make a directory, so that a missing permission is seen at once."""
        self._files(location).make_directory(location)

    def list_checkpoints(self, path: str = "") -> tuple[FoundCheckpoint, ...]:
        """Return the checkpoints and savepoints at a path, in it, or in the directories of jobs in it; newest first.

        Raises
        ------
        FileNotFoundError
            If there is no such directory.
        """
        location = location_of(path) if path else self.directory
        entries = self._files(location).entries(location)
        if is_checkpoint_name(location) or any(name_of(each.location) == METADATA for each in entries):
            return (_found(location, entries),)
        found = list(self._checkpoints_in(entries))
        for each in entries:
            if each.is_directory and not is_checkpoint_name(each.location):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                    found += self._checkpoints_in(self._files(location).entries(each.location))
        return tuple(sorted(found, key=lambda each: (-each.modified_ms, each.location)))

    def _checkpoints_in(self, entries: Iterable[FileEntry]) -> Iterator[FoundCheckpoint]:
        for each in entries:
            if each.is_directory and is_checkpoint_name(each.location):
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    yield _found(each.location, self._files(each.location).entries(each.location))

    # ---- file systems

    def _files(self, location: str) -> Files:
        """Return the file system of a location; that of the own place knows the options of the storage's directory."""
        place = place_of(location)
        if not place:
            return _LOCAL
        with self._lock:
            files = self._remote.get(place)
            if files is None:
                uri = self.directory if place == place_of(self.directory) else location
                files = self._remote[place] = _files_at(uri)
            return files


def _files_at(uri: str) -> Files:
    scheme = scheme_of(uri)
    if scheme in FILES_OF_SCHEME:
        return FILES_OF_SCHEME[scheme](uri)
    return HdfsFiles(uri) if scheme in SCHEMES and is_there() else RemoteFiles(uri)


def storage_of(directory: str) -> CheckpointStorage:
    """Return the storage of a directory; nothing is read or written yet.

    Raises
    ------
    ValueError
        If it is empty, or a URI with credentials.
    """
    return CheckpointStorage(directory)


def location_of(path: str) -> str:
    """Return the location of the checkpoint that a user names, by its directory or by the ``_metadata`` in it."""
    location = normalized(path)
    return parent(location) if name_of(location) == METADATA else location


def _found(location: str, entries: Iterable[FileEntry]) -> FoundCheckpoint:
    metadata = [each for each in entries if name_of(each.location) == METADATA]
    checkpoint_id = checkpoint_id_of(location)
    modified_ms = max((each.modified_ms for each in metadata or entries), default=0)
    size = sum(each.size for each in metadata)
    return FoundCheckpoint(location, checkpoint_id, checkpoint_id is None, bool(metadata), modified_ms, size)


@contextlib.contextmanager
def _all_tried() -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
    """Try each of several calls, and raise their first error at the end."""
    errors: list[OSError] = []

    @contextlib.contextmanager
    def trying() -> Iterator[None]:
        try:
            yield
        except OSError as error:
            errors.append(error)

    yield trying
    if errors:
        raise errors[0]
