"""Files in and out. PyFlink: pyflink.datastream.connectors.file_system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from flinkbuf.common.serialization import BulkWriterFactory, Encoder
from flinkbuf.datastream.arguments import OptionsBuilder
from flinkbuf.datastream.connectors.base import StreamTransformer, SupportsPreprocessing
from flinkbuf.datastream.connectors.bucket_assigner import (
    BasePathBucketAssigner,
    BucketAssigner,
    DateTimeBucketAssigner,
)
from flinkbuf.datastream.connectors.java_only import StreamingFileSink
from flinkbuf.datastream.connectors.rolling_policy import (
    DefaultRollingPolicy,
    OnCheckpointRollingPolicy,
    RollingPolicy,
)
from flinkbuf.streaming.file_place import is_remote, located
from flinkbuf.streaming.sinks.file_sink import FileSinkOptions, PartFileSink
from flinkbuf.streaming.sources.file_format import BulkFormat, StreamFormat
from flinkbuf.streaming.sources.file_source import FileRangeSource, FileSourceOptions
from flinkbuf.streaming.sources.file_split import FileSplit
from flinkbuf.types.duration import Duration, positive_milliseconds_of
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from typing_extensions import Self

    from flinkbuf.streaming.sinks.part_file import PartWriter

__all__ = [
    "BucketAssigner",
    "BulkFormat",
    "DefaultRollingPolicy",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]


class FileEnumeratorProvider:
    """Whether files are cut into ranges. Hidden files, which begin with ``.`` or ``_``, are always left out.

    Parameters
    ----------
    split_size : int, optional
        Bytes of a range; None: a file is one.
    """

    def __init__(self, split_size: int | None) -> None:
        if split_size is not None and split_size < 1:
            raise ValueError(f"split_size must be at least 1 byte, got {split_size}")
        self.split_size = split_size

    @staticmethod
    def default_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Ranges of 32 MiB, but for compressed files."""
        return FileEnumeratorProvider(FileSourceOptions.split_size)

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """One range for each file."""
        return FileEnumeratorProvider(None)


class FileSplitAssignerProvider:
    """In which order ranges are given to readers.

    Parameters
    ----------
    order : callable, optional
        Takes the list of all and returns it in the order wanted; None: by path and offset.
    """

    def __init__(self, order: Callable[[list[FileSplit]], list[FileSplit]] | None = None) -> None:
        self.order = order

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """By path and offset: local files are equally near to all readers."""
        return FileSplitAssignerProvider()


class FileSourceBuilder(OptionsBuilder[FileSourceOptions]):
    """What a `FileSource` is to do besides; ``FileSource.for_record_stream_format`` makes one."""

    def __init__(self, options: FileSourceOptions) -> None:
        self._options = options

    def monitor_continuously(self, discovery_interval: Duration) -> FileSourceBuilder:
        """Keep running, and read files that appear in the directories.

        Parameters
        ----------
        discovery_interval : Duration
            How often the directories are listed.
        """
        return self._with(discovery_interval_ms=positive_milliseconds_of("discovery_interval", discovery_interval))

    def process_static_file_set(self) -> FileSourceBuilder:
        """Read the files that are there at the start, then end; the default."""
        return self._with(discovery_interval_ms=None)

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSourceBuilder:
        """Say whether files are cut into ranges."""
        return self._with(split_size=file_enumerator.split_size)

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSourceBuilder:
        """Say in which order ranges are given out."""
        return self._with(order=split_assigner.order)

    def build(self) -> FileSource:
        """Make the source."""
        return FileSource(self._options)


class FileSource(FileRangeSource):
    """Reads files, bounded or as they appear; those in a directory and below it, by name.

    References
    ----------
    PyFlink ``FileSource``.

    Examples
    --------
    >>> source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/data/logs").build()
    >>> source.boundedness.name
    'BOUNDED'
    """

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Read record by record; files that end in .gz, .bz2, .xz or .deflate are decompressed."""
        _check_kind(stream_format, StreamFormat)
        return _file_source(stream_format, paths)

    @staticmethod
    def for_bulk_file_format(bulk_format: BulkFormat, *paths: str) -> FileSourceBuilder:
        """Read batch by batch, such as Parquet."""
        _check_kind(bulk_format, BulkFormat)
        return _file_source(bulk_format, paths)


def _check_kind(format: object, kind: type) -> None:
    if not isinstance(format, kind):
        raise TypeError(f"the format must be a {kind.__name__}, got {type(format).__name__} {format!r}")


def _file_source(format: StreamFormat | BulkFormat, paths: tuple[str, ...]) -> FileSourceBuilder:
    if not paths:
        raise ValueError("a FileSource reads at least one path")
    return FileSourceBuilder(FileSourceOptions(format, tuple(map(located, paths))))


class OutputFileConfig:
    """How part files are called: ``prefix-<subtask's id>-<number><suffix>``.

    Examples
    --------
    >>> OutputFileConfig.builder().with_part_suffix(".csv").build().get_part_suffix()
    '.csv'
    """

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        self._part_prefix = part_prefix
        self._part_suffix = part_suffix

    def get_part_prefix(self) -> str:
        """What the name begins with."""
        return self._part_prefix

    def get_part_suffix(self) -> str:
        """What the name ends with."""
        return self._part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Begin with prefix "part" and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    class OutputFileConfigBuilder:
        """Makes an `OutputFileConfig`."""

        def __init__(self) -> None:
            self.part_prefix = "part"
            self.part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set what names begin with."""
            self.part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set what names end with."""
            self.part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Make it."""
            return OutputFileConfig(self.part_prefix, self.part_suffix)


class FileSink(PartFileSink, SupportsPreprocessing):
    """Writes records into part files, in buckets below a base path.

    A part is hidden (``.part-….inprogress.…``) while it is written. With checkpoints it gets its name when it is
    complete and the checkpoint behind it counts, so each record is in one visible file, once, whatever fails; parts of
    rows may go on over checkpoints, those of a bulk format, and all on HDFS, end at each. Without checkpoints all parts
    get their names at the end of a bounded job, and a job that fails before leaves hidden files only.

    A job that goes on from a checkpoint goes on with the parts that were in progress there, and removes what was begun
    later. One that begins from an older savepoint is refused if a later checkpoint has completed such a part.

    References
    ----------
    PyFlink ``FileSink``.

    Examples
    --------
    >>> sink = FileSink.for_row_format("/data/out", Encoder.simple_string_encoder()).build()
    """

    def get_transformer(self) -> StreamTransformer | None:
        """Nothing is done to the stream before."""
        return None

    def of_records(self, type_info: TypeInformation | None) -> FileSink:
        """Return the sink whose encoder knows what the records are."""
        create = self.options.create_writer
        if not isinstance(create, _EncodedRecords.Factory):
            return self
        return FileSink(replace(self.options, create_writer=create.of_records(type_info)))

    def of_columns(self, schema: object = None) -> FileSink | None:
        """Return the sink that writes the batches of a column stream as they are; None: it takes records only.

        So does one whose format has no columns, or whose buckets or parts depend on records.

        Parameters
        ----------
        schema : pyarrow.Schema, optional
            Of the stream, if it is known.

        Raises
        ------
        ValueError, TypeError
            If the files have other columns.
        """
        options = self.options
        looks_at_records = type(options.bucket_assigner) not in (BasePathBucketAssigner, DateTimeBucketAssigner)
        rolls_by_record = type(options.rolling_policy) is not OnCheckpointRollingPolicy
        factory = getattr(options.create_writer, "__self__", None)
        if looks_at_records or rolls_by_record or not isinstance(factory, BulkWriterFactory):
            return None
        make = factory.of_columns()
        if make is None:
            return None
        if schema is not None:
            make.check(schema)
        return FileSink(replace(options, create_writer=make))

    class BaseBuilder(OptionsBuilder[FileSinkOptions]):
        """What a `FileSink` is to do besides."""

        def __init__(self, options: FileSinkOptions) -> None:
            self._options = options

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Set how often, in milliseconds, parts are looked at that are complete by their age."""
            if interval <= 0:
                raise ValueError(f"interval must be greater than zero, got {interval}")
            return self._with(bucket_check_interval_ms=interval)

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Set in which directories records go."""
            return self._with(bucket_assigner=bucket_assigner)

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Set how part files are called."""
            prefix, suffix = output_file_config.get_part_prefix(), output_file_config.get_part_suffix()
            return self._with(part_prefix=prefix, part_suffix=suffix)

        def disable_compact(self) -> Self:
            """Nothing is compacted anyway."""
            return self

        def build(self) -> FileSink:
            """Make the sink."""
            return FileSink(self._options)

    class RowFormatBuilder(BaseBuilder):
        """For files that records are appended to."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> FileSink.RowFormatBuilder:
            """Set when a part is complete."""
            return self._with(rolling_policy=rolling_policy)

    class BulkFormatBuilder(BaseBuilder):
        """For files with a beginning and an end of their own."""

        def with_rolling_policy(self, rolling_policy: OnCheckpointRollingPolicy) -> FileSink.BulkFormatBuilder:
            """Set when a part is complete: at checkpoints, or at those and more."""
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise ValueError("rolling_policy must be OnCheckpointRollingPolicy for bulk format")
            return self._with(rolling_policy=rolling_policy)

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Append each record as the encoder makes it; rolled by size and age."""
        if not callable(encoder):
            raise TypeError(f"the encoder must be an Encoder, got {type(encoder).__name__} {encoder!r}")
        policy = RollingPolicy.default_rolling_policy()
        options = _sink_options(base_path, _EncodedRecords.Factory(encoder), policy)
        return FileSink.RowFormatBuilder(replace(options, is_resumable=not is_remote(options.base_path)))

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Write each part with a writer of its own; rolled at checkpoints."""
        if not callable(getattr(writer_factory, "create", None)):
            raise TypeError(f"the factory must be a BulkWriterFactory, got {type(writer_factory).__name__}")
        policy = RollingPolicy.on_checkpoint_rolling_policy()
        return FileSink.BulkFormatBuilder(_sink_options(base_path, writer_factory.create, policy))


def _sink_options(
    base_path: str, create_writer: Callable[[IO[bytes]], PartWriter], policy: RollingPolicy
) -> FileSinkOptions:
    return FileSinkOptions(located(base_path), create_writer, BucketAssigner.date_time_bucket_assigner(), policy)


class _EncodedRecords:
    """Appends what an encoder makes of each record."""

    class Factory:
        """Makes one for each file; picklable."""

        def __init__(self, encoder: Callable[[object], bytes]) -> None:
            self._encoder = encoder

        def of_records(self, type_info: TypeInformation | None) -> _EncodedRecords.Factory:
            """Return one for records of a declared type."""
            encoder = self._encoder
            return _EncodedRecords.Factory(encoder.of_records(type_info)) if isinstance(encoder, Encoder) else self

        def __call__(self, file: IO[bytes]) -> _EncodedRecords:
            return _EncodedRecords(self._encoder, file)

    def __init__(self, encoder: Callable[[object], bytes], file: IO[bytes]) -> None:
        self._encoder = encoder
        self._write = file.write

    def add_element(self, element: object) -> int:
        """Append one record; return its size."""
        return self._write(self._encoder(element))

    def flush(self) -> None:
        """Everything is in the file."""

    def finish(self) -> None:
        """There is nothing at the end."""
