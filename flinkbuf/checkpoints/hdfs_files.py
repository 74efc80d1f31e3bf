"""Files of checkpoints on HDFS, by hdfs-native: it speaks the protocol of NameNode and DataNodes, and needs no Java."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote

from flinkbuf.checkpoints.files import FileEntry, Files, StateInput, StateOutput
from flinkbuf.checkpoints.locations import child, name_of, parent, path_within, place_of, query_of
from flinkbuf.log import logger
from flinkbuf.private_files import DIRECTORY_MODE, FILE_MODE

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, WriteOptions

SCHEMES: Final = ("hdfs", "viewfs")
_GATHERED = 1 << 20  # bytes of one call; smaller pieces wait for each other
_WRITTEN_AGAIN = 16 << 20  # bytes of a file that are kept until it is whole
_PAUSES_S = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0)  # before a file is written again
_CONF_OF_SPARK = os.path.join("__spark_conf__", "__hadoop_conf__")  # what spark-submit gives to containers of YARN
_AS_IT_IS: Final = 2**64 - 1  # -1 to the NameNode: a time that stays
_EXISTS = ("FileAlreadyExistsException", "AlreadyExists")
_MISSING = ("FileNotFoundException", "FileNotFound", "LeaseExpiredException")


def is_there() -> bool:
    """Return whether hdfs-native is installed."""
    try:
        import hdfs_native  # noqa: F401
    except ImportError:
        return False
    return True


def hdfs_client(location: str) -> Client:
    """Return a client of the NameNode, or of the name service, that a URI names.

    Its configuration is that of ``HADOOP_CONF_DIR``; without it, in a container of YARN, what Spark brought there. It
    says who the user is as Java does: ``HADOOP_USER_NAME``, or the user of the Spark application, or the process's.
    """
    from hdfs_native import Client

    if "CONTAINER_ID" in os.environ and "SPARK_USER" in os.environ:
        os.environ.setdefault("HADOOP_USER_NAME", os.environ["SPARK_USER"])
    place = place_of(location)
    url = None if place.endswith("//") else place
    is_brought = "HADOOP_CONF_DIR" not in os.environ and os.path.isdir(_CONF_OF_SPARK)
    with errors_at(location):
        return Client(url, config_dir=_CONF_OF_SPARK if is_brought else None)


def path_of(location: str) -> str:
    """Return the path of a location within its file system."""
    return "/" + unquote(path_within(location))


@contextlib.contextmanager
def errors_at(location: str) -> Iterator[None]:
    """Raise the client's errors as Python's own, with their place: most are RuntimeErrors with the name of Java's."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise _error_at(location, error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # so the client ends where it did not expect what it found
            raise
        raise OSError(f"{location}: the client of HDFS has failed: {error}") from error


def _error_at(location: str, error: Exception) -> OSError:
    text = str(error).partition("\\n\\tat ")[0]  # of Java's stack
    message = f"{location}: {text}"
    if isinstance(error, FileExistsError) or any(name in text for name in _EXISTS):
        return FileExistsError(message)
    if isinstance(error, FileNotFoundError) or any(name in text for name in _MISSING):
        return FileNotFoundError(message)
    if "AccessControlException" in text:
        return PermissionError(message)
    return OSError(message)


class HdfsFiles(Files):
    """The file system of one URI, and of all that have the same scheme and authority. From any thread.

    Parameters
    ----------
    uri : str
        ``hdfs://namenode:port/directory``, ``hdfs://name-service/directory``, or ``hdfs:///directory`` where
        ``fs.defaultFS`` says the rest; ``?replication=2`` sets how many copies each file has.
    file_mode, directory_mode : int
        Who may read what is made here; its owner alone by default.

    Raises
    ------
    ValueError
        If it has other options.
    OSError
        If there is no such name service.
    """

    def __init__(self, uri: str, file_mode: int = FILE_MODE, directory_mode: int = DIRECTORY_MODE) -> None:
        from hdfs_native import WriteOptions

        options = dict(parse_qsl(query_of(uri), keep_blank_values=True))
        replication = options.pop("replication", None)
        if options or not (replication is None or replication.isdigit()):
            raise ValueError(f"a URI of HDFS has the option replication=<number> and no other, got {uri!r}")
        self._client = hdfs_client(uri)
        self._options: WriteOptions = WriteOptions(
            replication=None if replication is None else int(replication), permission=file_mode, overwrite=False
        )
        self._directory_mode = directory_mode

    def create(self, path: str) -> StateOutput:
        """Make a new file, and the directories it lies in."""
        self.make_directory(parent(path))
        return _HdfsOutput(path, self._client, self._options)

    def open(self, path: str) -> StateInput:
        """Open a file; FileNotFoundError if it does not exist."""
        with errors_at(path):
            return _HdfsInput(path, self._client.read(path_of(path)))

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file under another name, and rename it: HDFS does so at once, and never onto another file."""
        temporary = child(parent(path), f".{name_of(path)}-{uuid.uuid4().hex}")
        output = self.create(temporary)
        with output:
            output.write(data)
            output.finish()
        try:
            self.rename(temporary, path)
        except BaseException as error:
            output.discard()
            if isinstance(error, FileExistsError):
                raise FileExistsError(f"{path} is there already: it is never written again") from None
            raise

    def rename(self, path: str, to: str, overwrites: bool = False) -> None:
        """Give a file another name; FileNotFoundError if it does not exist.

        Where there is a file of the other name, it is replaced, or FileExistsError is raised.
        """
        with errors_at(path):
            self._client.rename(path_of(path), path_of(to), overwrites)

    def touch(self, path: str, modified_ms: int) -> None:
        """Set when a file was modified; FileNotFoundError if it does not exist."""
        with errors_at(path):
            self._client.set_times(path_of(path), modified_ms, _AS_IT_IS)

    def delete(self, path: str) -> None:
        """Delete a file; if it does not exist: nothing."""
        with contextlib.suppress(FileNotFoundError), errors_at(path):
            self._client.delete(path_of(path), False)

    def delete_tree(self, location: str) -> None:
        """Delete a directory and all that is in it; if it does not exist: nothing."""
        if not path_within(location):
            raise ValueError(f"{location} is no directory of checkpoints: it is not deleted")
        with contextlib.suppress(FileNotFoundError), errors_at(location):
            self._client.delete(path_of(location), True)

    def make_directory(self, location: str) -> None:
        """Make a directory, and those it lies in."""
        with errors_at(location):
            self._client.mkdirs(path_of(location), self._directory_mode, True)

    def entry(self, location: str) -> FileEntry:
        """Return what a file or directory is; FileNotFoundError if it does not exist."""
        with errors_at(location):
            found = self._client.get_file_info(path_of(location))
        return FileEntry(location, found.isdir, found.length, found.modification_time)

    def entries(self, location: str) -> Sequence[FileEntry]:
        """Return the entries of a directory, by name."""
        with errors_at(location):
            found = list(self._client.list_status(path_of(location), False))
        entries = []
        for each in found:
            name = each.path.rstrip("/").rpartition("/")[2]
            entries.append(FileEntry(child(location, name), each.isdir, each.length, each.modification_time))
        return sorted(entries, key=lambda each: each.location)


class _HdfsOutput(StateOutput):
    """A file that is written; what was finished is on as many DataNodes as HDFS asks for at least.

    They write it to their disks in their own time, unless ``dfs.datanode.synconclose`` is set.
    """

    def __init__(self, path: str, client: Client, options: WriteOptions) -> None:
        super().__init__(path)
        self._client, self._options = client, options
        self._gathered = bytearray()
        self._pieces: list[bytes] | None = []  # all that was handed over, while it is little enough to be written again
        with errors_at(path):
            self._file = client.create(path_of(path), options)

    def _write(self, data: memoryview) -> None:
        self._gathered += data
        if len(self._gathered) >= _GATHERED:
            self._hand_over()

    def _hand_over(self) -> None:
        data, self._gathered = bytes(self._gathered), bytearray()
        if not data:
            return
        if self._pieces is not None:
            self._pieces.append(data)
        if self.size > _WRITTEN_AGAIN:
            self._pieces = None
        self._or_anew(lambda: self._file.write(data), is_last=False)

    def _finish(self) -> None:
        self._hand_over()
        self._or_anew(self._file.close, is_last=True)
        self._pieces = None

    def _or_anew(self, step: Callable[[], object], is_last: bool) -> None:
        """Do a step; where it fails, write the file anew, on other DataNodes.

        The NameNode names one that is gone for minutes, and the client, unlike Java's, asks for no other one. A file
        whose writing has failed is not closed: the client would wait without end.
        """
        for pause_s in _PAUSES_S:
            try:
                with errors_at(self.path):
                    step()
                return
            except (PermissionError, FileExistsError, FileNotFoundError):
                raise
            except OSError as error:
                if self._pieces is None or self._is_aborted:
                    raise
                logger.debug("%s is written anew in %s s: %s", self.path, pause_s, error)
            time.sleep(pause_s)
            step = partial(self._write_anew, is_last)
        with errors_at(self.path):
            step()

    def _write_anew(self, is_last: bool) -> None:
        self._client.delete(path_of(self.path), False)
        self._file = self._client.create(path_of(self.path), self._options)
        for piece in self._pieces or ():
            self._file.write(piece)
        if is_last:
            self._file.close()

    def _remove(self) -> None:
        self._gathered.clear()
        with contextlib.suppress(OSError), errors_at(self.path):  # closed or not: nobody can write to it any more
            self._client.delete(path_of(self.path), False)


class _HdfsInput(StateInput):
    def __init__(self, path: str, file: FileReader) -> None:
        super().__init__(path, len(file))
        self._file = file

    def _read(self, offset: int, size: int) -> bytes:
        if size == 0:
            return b""
        with errors_at(self.path):
            return bytes(self._file.read_range(offset, size))

    def close(self) -> None:
        """Nothing is held open."""
