"""Where a task keeps its state. Flink: HashMapStateBackend, EmbeddedRocksDBStateBackend."""

from __future__ import annotations

from enum import Enum


class StateBackend:
    """Where a task keeps its state."""


class HashMapStateBackend(StateBackend):
    """In the task's process, as Python objects: the default. Flink's ``HashMapStateBackend``.

    Examples
    --------
    >>> from flinkbuf.common import Configuration
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> settings = Configuration().set_string("state.backend.type", "hashmap")  # what it is anyway
    >>> env = StreamExecutionEnvironment.get_execution_environment(settings).set_parallelism(1)
    >>> env.from_collection([1, 2, 3]).key_by(lambda n: n % 2).sum().execute_and_collect(limit=3)
    [1, 2, 4]
    """

    def __str__(self) -> str:
        return "HashMapStateBackend"


class PredefinedOptions(Enum):
    """What RocksDB is set up for.

    Examples
    --------
    >>> backend = EmbeddedRocksDBStateBackend()
    >>> backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    >>> backend.get_predefined_options().name
    'FLASH_SSD_OPTIMIZED'
    """

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """On the task's disk, by RocksDB: for state that is larger than memory. Needs the extra ``rocksdb``.

    A job has it by ``state.backend.type: rocksdb``; ``execution.checkpointing.incremental`` and
    ``state.backend.rocksdb.localdir`` are its options. The object keeps settings as PyFlink's does.

    Parameters
    ----------
    enable_incremental_checkpointing : bool, optional
        Write only what has changed since the last checkpoint.

    Examples
    --------
    >>> backend = EmbeddedRocksDBStateBackend(True)
    >>> backend.set_db_storage_paths("/tmp/a", "/tmp/b")
    >>> backend.get_db_storage_paths(), backend.is_incremental_checkpoints_enabled()
    (['/tmp/a', '/tmp/b'], True)
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        self._is_incremental = bool(enable_incremental_checkpointing)
        self._paths: list[str] | None = None
        self._predefined_options = PredefinedOptions.DEFAULT
        self._transfer_thread_count = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the directories that databases are spread over.

        Examples
        --------
        >>> backend = EmbeddedRocksDBStateBackend()
        >>> backend.get_db_storage_paths()  # None: temporary directories
        >>> backend.set_db_storage_paths("/ssd1/state", "/ssd2/state")
        >>> backend.get_db_storage_paths()
        ['/ssd1/state', '/ssd2/state']
        """
        if not paths:
            raise ValueError("at least one directory is needed")
        self._paths = list(paths)

    def get_db_storage_paths(self) -> list[str] | None:
        """Return the directories; None: the task manager's temporary ones."""
        return self._paths

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Tell whether checkpoints write only what has changed."""
        return self._is_incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Choose what RocksDB is set up for.

        Examples
        --------
        >>> backend = EmbeddedRocksDBStateBackend()
        >>> backend.set_predefined_options(PredefinedOptions.SPINNING_DISK_OPTIMIZED)
        >>> backend.get_predefined_options().name
        'SPINNING_DISK_OPTIMIZED'
        >>> backend.set_predefined_options("SPINNING_DISK_OPTIMIZED")
        Traceback (most recent call last):
            ...
        TypeError: PredefinedOptions are needed, got 'SPINNING_DISK_OPTIMIZED'
        """
        if not isinstance(options, PredefinedOptions):
            raise TypeError(f"PredefinedOptions are needed, got {options!r}")
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Return what RocksDB is set up for."""
        return self._predefined_options

    def set_options(self, options_factory_class_name: str) -> None:
        """Raise: the class would be one of Java.

        Examples
        --------
        >>> backend = EmbeddedRocksDBStateBackend()
        >>> backend.set_options("com.example.MyOptions")
        Traceback (most recent call last):
            ...
        NotImplementedError: there is no JVM that could load com.example.MyOptions: use set_predefined_options
        >>> backend.get_options()
        """
        raise NotImplementedError(
            f"there is no JVM that could load {options_factory_class_name}: use set_predefined_options"
        )

    def get_options(self) -> object:
        """Return None: there is no Java class that makes options."""
        return None

    def get_number_of_transfer_threads(self) -> int:
        """Return how many files are written at a time."""
        return self._transfer_thread_count

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Write so many files at a time.

        Examples
        --------
        >>> backend = EmbeddedRocksDBStateBackend()
        >>> backend.set_number_of_transfer_threads(8)
        >>> backend.get_number_of_transfer_threads()
        8
        """
        if number_of_transfering_threads < 1:
            raise ValueError(
                f"The number of threads used to transfer files in EmbeddedRocksDBStateBackend should be greater than "
                f"zero, got {number_of_transfering_threads}"
            )
        self._transfer_thread_count = number_of_transfering_threads

    def __str__(self) -> str:
        return "EmbeddedRocksDBStateBackend"


class CustomStateBackend(StateBackend):
    """A Java class in PyFlink; here there is nothing that it could wrap.

    Examples
    --------
    >>> CustomStateBackend("com.example.MyStateBackend")
    Traceback (most recent call last):
        ...
    NotImplementedError: there is no JVM that could load a state backend of Java
    """

    def __init__(self, *arguments: object) -> None:
        raise NotImplementedError("there is no JVM that could load a state backend of Java")
