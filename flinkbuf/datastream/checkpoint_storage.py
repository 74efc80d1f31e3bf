"""Where checkpoints are written. Flink: JobManagerCheckpointStorage, FileSystemCheckpointStorage.

A program says it by the configuration key ``execution.checkpointing.dir``; these objects hold the same settings.
"""

from __future__ import annotations

from typing import ClassVar


class CheckpointStorage:
    """Where checkpoints are written."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """In the memory of the program, for tests. Flink's ``JobManagerCheckpointStorage``.

    Parameters
    ----------
    checkpoint_path : str, optional
        Where metadata is written besides.
    max_state_size : int, optional
        Bytes of one state at most; 5 MiB by default.

    Examples
    --------
    >>> storage = JobManagerCheckpointStorage("file:///checkpoints", max_state_size=1024)
    >>> storage.get_checkpoint_path(), storage.get_max_state_size(), storage.get_savepoint_path()
    ('file:///checkpoints', 1024, None)
    """

    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._checkpoint_path = checkpoint_path
        self._max_state_size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if self._max_state_size <= 0:
            raise ValueError(f"maxStateSize must be > 0, got {max_state_size}")

    def get_checkpoint_path(self) -> str | None:
        """Return where metadata is written."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Return how many bytes one state may have."""
        return self._max_state_size

    def get_savepoint_path(self) -> str | None:
        """Return None: a savepoint is told its directory."""
        return None

    def __str__(self) -> str:
        path, size = self._checkpoint_path, self._max_state_size
        return f"JobManagerCheckpointStorage (checkpoints: '{path}', maxStateSize: {size})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """In files. Flink's ``FileSystemCheckpointStorage``.

    Parameters
    ----------
    checkpoint_path : str
        A directory, or the URI of one.
    file_state_size_threshold : int, default 20480
        State of fewer bytes is written into the metadata.
    write_buffer_size : int, default 4096
        Bytes that are gathered before they are written.

    Examples
    --------
    >>> storage = FileSystemCheckpointStorage("file:///checkpoints", file_state_size_threshold=1024)
    >>> storage.get_checkpoint_path(), storage.get_min_file_size_threshold(), storage.get_savepoint_path()
    ('file:///checkpoints', 1024, None)

    A program says the same by its configuration:

    >>> from flinkbuf.common import Configuration
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> settings = Configuration().set_string("execution.checkpointing.dir", storage.get_checkpoint_path())
    >>> env = StreamExecutionEnvironment.get_execution_environment(settings).enable_checkpointing(500)
    """

    MAX_FILE_STATE_THRESHOLD: ClassVar[int] = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if not checkpoint_path:
            raise ValueError("checkpoint_path must not be empty")
        threshold = 20 * 1024 if file_state_size_threshold in (None, -1) else int(file_state_size_threshold or 0)
        if not 0 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ValueError(
                f"file_state_size_threshold must be from 0 to {self.MAX_FILE_STATE_THRESHOLD} bytes, got {threshold}"
            )
        self._checkpoint_path = checkpoint_path
        self._threshold = threshold
        self._write_buffer_size = 4096 if write_buffer_size == -1 else write_buffer_size

    def get_checkpoint_path(self) -> str:
        """Return the directory."""
        return self._checkpoint_path

    def get_savepoint_path(self) -> str | None:
        """Return None: a savepoint is told its directory."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Return below how many bytes state is written into the metadata."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Return how many bytes are gathered before they are written; at least the threshold.

        Examples
        --------
        >>> FileSystemCheckpointStorage("file:///checkpoints", 1024, 8192).get_write_buffer_size()
        8192
        >>> FileSystemCheckpointStorage("file:///checkpoints", 20_480, 8192).get_write_buffer_size()
        20480
        """
        return max(self._write_buffer_size, self._threshold)

    def __str__(self) -> str:
        path, size = self._checkpoint_path, self._threshold
        return f"FileSystemCheckpointStorage (checkpoints: {path}, fileStateSizeThreshold: {size})"


class CustomCheckpointStorage(CheckpointStorage):
    """A Java class in PyFlink; here there is nothing that it could wrap.

    Examples
    --------
    >>> CustomCheckpointStorage("com.example.MyCheckpointStorage")
    Traceback (most recent call last):
        ...
    NotImplementedError: there is no JVM that could load a checkpoint storage of Java
    """

    def __init__(self, *arguments: object) -> None:
        raise NotImplementedError("there is no JVM that could load a checkpoint storage of Java")
