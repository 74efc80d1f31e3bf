"""What `python -m flinkbuf inspect` tells of a data set, a manifest or a partition file, as values for JSON."""

from __future__ import annotations

import datetime
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

from flinkbuf._core.partition.partition_file import PartitionFile
from flinkbuf.errors import CorruptDataError
from flinkbuf.network.buffer import DataType
from flinkbuf.network.compression import BufferDecompressor
from flinkbuf.network.partition_file import PartitionRegion, regions_of
from flinkbuf.partition_files.data_set import DATA, DATA_SUFFIX, INDEX_SUFFIX, MANIFESTS, PartitionDataSet, local_path
from flinkbuf.partition_files.manifest import HASH, ROW_FORMAT, DataFile, Manifest, job_of
from flinkbuf.partition_files.part_reader import opened_file, restored
from flinkbuf.partition_files.schema_text import columns_of, ddl_of
from flinkbuf.records.record_buffers import read_buffers
from flinkbuf.types.schema import as_type
from flinkbuf.types.type_information import RowTypeInfo
from flinkbuf.types.values import Row

Json = dict[str, Any]
READ_SIZE = 1 << 16  # bytes; only the first records are wanted
TEXT_MAX = 200  # characters of one value


def describe(path: str, *, rows: int = 5, subpartition: int | None = None) -> Json:
    """Describe what lies at a path.

    Parameters
    ----------
    path : str
        A data set's directory; one of its manifests; or one of the two files of a partition, or what their names have
        in common.
    rows : int, default 5
        How many of the first records to decode, where a manifest says what they are.
    subpartition : int, optional
        Only of this one.

    Raises
    ------
    FileNotFoundError
        If nothing of the kind is there.
    CorruptDataError
        If it is damaged; the message names file and offset.
    ValueError
        If there is no such subpartition.
    """
    path = local_path(path)
    if os.path.isdir(path):
        data_set = PartitionDataSet(path)
        return _describe_data_set(data_set, data_set.manifest(), rows, subpartition)
    if path.endswith(".json"):
        with open(path, "rb") as file:
            manifest = Manifest.parse(file.read(), path)
        return _describe_data_set(
            PartitionDataSet(os.path.dirname(os.path.dirname(path))), manifest, rows, subpartition
        )
    return _describe_part(base_path_of(path), rows, subpartition)


# ---- data sets


def _describe_data_set(data_set: PartitionDataSet, manifest: Manifest, rows: int, subpartition: int | None) -> Json:
    layout = manifest.layout
    chosen = _chosen(subpartition, layout.subpartition_count)
    return {
        "kind": "data set",
        "path": data_set.path,
        "version": manifest.version,
        "versions": data_set.versions(),
        "created": _time_text(manifest.created_ms),
        "operation": manifest.operation,
        "job": manifest.job,
        "columns": [{"name": name.strip("`"), "type": text} for name, text in columns_of(layout.schema)],
        "record_type": layout.record_type,
        "row_format": ROW_FORMAT,
        "key": list(layout.key),
        "hash": HASH,
        "num_partitions": layout.subpartition_count,
        "max_parallelism": layout.max_parallelism,
        "records": manifest.record_count,
        "data_size": manifest.data_size,
        "index_size": sum(each.index_size for each in manifest.files),
        "files": [_describe_file(each) for each in manifest.files],
        "subpartitions": [_describe_subpartition(manifest.files, index) for index in chosen],
        "unreferenced_files": _unreferenced(data_set),
        "first_records": _first_records(data_set, manifest, manifest.files, chosen, rows),
    }


def _describe_file(file: DataFile) -> Json:
    return {
        "name": file.name,
        "records": file.record_count,
        "data_size": file.data_size,
        "index_size": file.index_size,
        "compression": file.compression,
        "key_min": file.key_min,
        "key_max": file.key_max,
    }


def _describe_subpartition(files: Sequence[DataFile], index: int) -> Json:
    holding = [each for each in files if each.records[index]]
    return {
        "index": index,
        "records": sum(each.records[index] for each in holding),
        "size": sum(each.sizes[index] for each in holding),
        "files": len(holding),
    }


def _unreferenced(data_set: PartitionDataSet) -> list[str]:
    """Files of running or killed jobs, and of versions that cannot be read."""
    directory = data_set.directory(DATA)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    kept: set[str] = set()
    for version in data_set.versions():
        try:
            kept |= {each.name for each in data_set.manifest(version).files}
        except (FileNotFoundError, CorruptDataError):
            continue
    return [name for name in names if job_of(name) and name.partition(".")[0] not in kept]


# ---- partition files


def base_path_of(path: str) -> str:
    """The path without the ending that says which of the two files it is.

    Examples
    --------
    >>> base_path_of("/data/p.shuffle.index"), base_path_of("/data/p")
    ('/data/p', '/data/p')
    """
    for suffix in (DATA_SUFFIX, INDEX_SUFFIX):
        if path.endswith(suffix):
            return path[: -len(suffix)]
    return path


def _describe_part(base_path: str, rows: int, subpartition: int | None) -> Json:
    data_path = base_path + DATA_SUFFIX
    if not os.path.exists(data_path):
        raise FileNotFoundError(f"{base_path} is no partition file (no {os.path.basename(data_path)}), and no data set")
    if not os.path.exists(base_path + INDEX_SUFFIX):
        raise FileNotFoundError(f"{base_path}{INDEX_SUFFIX} is not there: the partition was never finished")
    data_set, manifest, file = _owner_of(base_path)
    stored = _open(base_path, file)
    chosen = _chosen(subpartition, stored.subpartition_count)
    return {
        "kind": "partition file",
        "path": base_path,
        "data_size": stored.data_size,
        "index_size": stored.index_size,
        "compression": file.compression if file else None,
        "records": file.record_count if file else None,
        "data_set": data_set.path if data_set and file else None,
        "num_partitions": stored.subpartition_count,
        "regions": [_describe_region(each) for each in regions_of(stored)],
        "subpartitions": [_describe_blocks(stored, index, file) for index in chosen],
        "first_records": _first_records(data_set, manifest, [file], chosen, rows) if data_set and file else None,
    }


def _open(base_path: str, file: DataFile | None) -> PartitionFile:
    if file is None:
        return PartitionFile(base_path)
    return opened_file(base_path, len(file.records), file.data_size, file.index_crc32)


def _owner_of(base_path: str) -> tuple[PartitionDataSet | None, Manifest | None, DataFile | None]:
    """The data set that a file is part of, if it is."""
    directory, name = os.path.split(base_path)
    above = os.path.dirname(directory)
    if os.path.basename(directory) != DATA or not os.path.isdir(os.path.join(above, MANIFESTS)):
        return None, None, None
    data_set = PartitionDataSet(above)
    for version in reversed(data_set.versions()):
        manifest = data_set.manifest(version)
        for each in manifest.files:
            if each.name == name:
                return data_set, manifest, each
    return data_set, None, None


def _describe_region(region: PartitionRegion) -> Json:
    sizes = [size for _, size in region.entries]
    return {
        "index": region.number,
        "is_broadcast": region.is_broadcast,
        "offset": min(offset for offset, _ in region.entries),
        "size": sizes[0] if region.is_broadcast else sum(sizes),
        "subpartitions": sum(1 for each in sizes if each),
    }


def _describe_blocks(stored: PartitionFile, index: int, file: DataFile | None) -> Json:
    """Count the buffers of a subpartition; what a broadcast region has is each one's."""
    blocks = list(stored.headers(index))
    data = [(is_compressed, size) for data_type, is_compressed, size in blocks if data_type == DataType.DATA_BUFFER]
    return {
        "index": index,
        "records": file.records[index] if file else None,
        "buffers": len(data),
        "compressed_buffers": sum(is_compressed for is_compressed, _ in data),
        "events": len(blocks) - len(data),
        "size": sum(size for _, size in data),
    }


# ---- rows


def _first_records(
    data_set: PartitionDataSet,
    manifest: Manifest | None,
    files: Sequence[DataFile | None],
    chosen: Sequence[int],
    rows: int,
) -> list[Json] | None:
    if manifest is None or rows < 1:
        return None
    record_type = as_type(ddl_of(manifest.layout.schema))
    assert isinstance(record_type, RowTypeInfo)
    found: list[Json] = []
    for file, index in itertools.product(files, chosen):
        if file is None or not file.records[index]:
            continue
        for row in read_buffers(_buffers(data_set.base_path(file), file, index), record_type):
            found.append({name: _plain(value) for name, value in zip(record_type.field_names, row, strict=True)})
            if len(found) >= rows:
                return found
    return found


def _buffers(base_path: str, file: DataFile, index: int) -> Iterator[memoryview | bytes]:
    """Read what rows of a subpartition stand in, one buffer after the other."""
    codec = BufferDecompressor(file.compression, file.segment_size) if file.compression else None
    for offset, is_compressed, data in _open(base_path, file).data(index, READ_SIZE):
        yield restored(data, is_compressed, codec, f"{base_path}{DATA_SUFFIX}: at byte {offset}")


def _plain(value: object) -> object:
    """The value as JSON can tell it."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, (bytes, bytearray)):
        return _short(bytes(value).hex())
    if isinstance(value, Row):
        return {str(name): _plain(each) for name, each in value.as_dict().items()}
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return _short(str(value))


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"


def _chosen(subpartition: int | None, count: int) -> range:
    if subpartition is None:
        return range(count)
    if not 0 <= subpartition < count:
        raise ValueError(f"there is no subpartition {subpartition}; there are {count}, from 0")
    return range(subpartition, subpartition + 1)


def _time_text(milliseconds: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.timezone.utc).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
