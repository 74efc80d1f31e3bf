"""What is in a checkpoint, for people: operators, states, types and sizes. No value of the user's is ever unpickled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from flinkbuf.checkpoints.handles import (
    CheckpointMetadata,
    OperatorInCheckpoint,
    OperatorSubtaskState,
    StateHandle,
    VertexInCheckpoint,
)
from flinkbuf.checkpoints.locations import METADATA, child
from flinkbuf.checkpoints.state_index import keyed_index, operator_index, verify_state
from flinkbuf.checkpoints.storage import CheckpointStorage, FoundCheckpoint, location_of
from flinkbuf.control.message_codec import Json
from flinkbuf.errors import CorruptDataError

SOURCE_SPLITS = "SourceReaderState"  # the list state that holds the splits of a source's readers


def list_rows(storage: CheckpointStorage, path: str = "") -> list[Json]:
    """Return one row for each checkpoint below a path, newest first; a damaged one says what is wrong with it."""
    return [_list_row(storage, found) for found in storage.list_checkpoints(path)]


def _list_row(storage: CheckpointStorage, found: FoundCheckpoint) -> Json:
    row: Json = {
        "path": found.location,
        "kind": "savepoint" if found.is_savepoint else "checkpoint",
        "checkpoint_id": found.checkpoint_id,
        "is_complete": found.is_complete,
        "written": _time(found.modified_ms),
    }
    if found.is_complete:
        try:
            metadata = storage.read_metadata(found.location)
        except FileNotFoundError:  # deleted since
            row["is_complete"] = False
        except CorruptDataError as error:
            row["damage"] = str(error)
        else:
            row.update(checkpoint_id=metadata.checkpoint_id, job_id=metadata.job_id, job_name=metadata.job_name)
            row["size"] = sum(subtask.size for subtask in metadata.subtasks())
    return row


def describe(storage: CheckpointStorage, path: str) -> Json:
    """Return what is in one checkpoint, as JSON can say it.

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint, or a file of it is gone.
    CorruptDataError
        If the description of its content is damaged; states themselves are not read.
    """
    metadata = storage.read_metadata(path)
    location = location_of(path)
    handles = [each for _, each in _all_handles(metadata)]
    files = {handle.path: 0 for handle in handles if handle.path}
    return {
        "path": location,
        "kind": "savepoint" if metadata.is_savepoint else "checkpoint",
        "checkpoint_id": metadata.checkpoint_id,
        "taken": _time(metadata.timestamp_ms),
        "job_id": metadata.job_id,
        "job_name": metadata.job_name,
        "size": sum(handle.size for handle in handles),
        "size_in_metadata": sum(handle.size for handle in handles if not handle.path),
        "files": len(files),
        "shared_size": sum(file.handle.size for subtask in metadata.subtasks() for file in subtask.shared_files()),
        "vertices": [_vertex(storage, vertex) for vertex in metadata.vertices],
    }


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(timespec="seconds")


def _vertex(storage: CheckpointStorage, vertex: VertexInCheckpoint) -> Json:
    subtasks = [each for each in vertex.subtasks if each is not None]
    channels: dict[str, Json] = {}
    for direction in ("input", "output"):
        found = [each for subtask in subtasks for each in getattr(subtask, f"{direction}_channels")]
        channels[direction] = {"channels": len(found), "size": sum(each.handle.size for each in found)}
    return {
        "name": vertex.name,
        "vertex_id": vertex.vertex_id,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "finished_subtasks": sum(each.is_finished for each in subtasks),
        "channel_state": channels,
        "operators": [_operator(storage, vertex, operator) for operator in vertex.operators],
    }


def _operator(storage: CheckpointStorage, vertex: VertexInCheckpoint, operator: OperatorInCheckpoint) -> Json:
    states = [
        state
        for subtask in vertex.subtasks
        if subtask is not None
        for state in subtask.operators
        if state.operator_id == operator.operator_id
    ]
    described: Json = {
        "name": operator.name,
        "uid": operator.uid,
        "operator_id": operator.operator_id,
        "coordinator_size": None if operator.coordinator is None else operator.coordinator.size,
        "operator_states": _operator_states(storage, states),
    }
    described["splits"] = sum(each["count"] for each in described["operator_states"] if each["name"] == SOURCE_SPLITS)
    return {**described, **_keyed_states(storage, states)}


def _operator_states(storage: CheckpointStorage, states: list[OperatorSubtaskState]) -> list[Json]:
    """Return the operator states of all subtasks; a broadcast state is the same in each."""
    counts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for state in states:
        if state.operator is not None and state.operator.size:
            for info in operator_index(state.operator, storage.open_input):
                counts[info.name, info.mode] += info.count
                sizes[info.name, info.mode] += info.size
    return [
        {"name": name, "mode": mode, "count": count, "size": sizes[name, mode]}
        for (name, mode), count in sorted(counts.items())
    ]


def _keyed_states(storage: CheckpointStorage, states: list[OperatorSubtaskState]) -> Json:
    sizes: Counter[tuple[str, str, str, bool]] = Counter()
    groups: Counter[int] = Counter()
    backends, key_types = set(), set()
    shared: dict[str, int] = {}
    for keyed in (each for state in states for each in state.keyed):
        index = keyed_index(keyed, storage.open_input)
        backends.add(keyed.backend)
        key_types.add("" if index.key_type == "None" else index.key_type)
        groups.update(index.sizes_by_key_group())
        for meta, size in index.sizes_by_state().items():
            sizes[meta.name, meta.kind, meta.type, meta.has_ttl] += size
        shared.update((file.handle.path or file.name, file.handle.size) for file in keyed.shared_files)
    return {
        "backend": ", ".join(sorted(backends)) or None,
        "key_type": ", ".join(sorted(filter(None, key_types))) or None,
        "keyed_states": [
            {"name": name, "kind": kind, "type": type_, "has_ttl": has_ttl, "size": size}
            for (name, kind, type_, has_ttl), size in sorted(sizes.items())
        ],
        "key_groups": {str(group): size for group, size in sorted(groups.items()) if size},
        "shared_files": len(shared),
        "shared_size": sum(shared.values()),
    }


# ---- every byte


@dataclass(frozen=True)
class Problem:
    """A part of a checkpoint that a job could not be restored from."""

    what: str  # the operator of the state
    message: str


@dataclass(frozen=True)
class Verification:
    """The result of reading a checkpoint to its last byte."""

    states: int
    size: int  # bytes that were read
    problems: tuple[Problem, ...]


def verify(storage: CheckpointStorage, path: str) -> Verification:
    """Read every byte of a checkpoint and check every checksum; go on where something is wrong.

    Parameters
    ----------
    storage : CheckpointStorage
    path : str

    Raises
    ------
    FileNotFoundError
        If there is no checkpoint.
    """
    try:
        metadata = storage.read_metadata(path)
    except CorruptDataError as error:
        return Verification(0, 0, (Problem(child(location_of(path), METADATA), str(error)),))
    count, size, problems = 0, 0, []
    for what, check, handle in _checks(storage, metadata):
        try:
            check()
        except (CorruptDataError, OSError) as error:
            problems.append(Problem(what, str(error)))
        count, size = count + 1, size + handle.size
    return Verification(count, size, tuple(problems))


def _checks(
    storage: CheckpointStorage, metadata: CheckpointMetadata
) -> Iterator[tuple[str, Callable[[], object], StateHandle]]:
    for what, handle in _all_handles(metadata):
        if what.is_region and handle.size:
            yield str(what), (lambda handle=handle: verify_state(handle, storage.open_input)), handle  # type: ignore
        else:
            yield str(what), (lambda handle=handle: storage.read(handle)), handle  # type: ignore


@dataclass(frozen=True)
class _Whose:
    vertex: str
    operator: str
    subtask: int | None
    what: str
    is_region: bool = False  # has checksums of its own

    def __str__(self) -> str:
        subtask = "" if self.subtask is None else f", subtask {self.subtask}"
        return f"{self.operator or self.vertex}{subtask}: {self.what}"


def _all_handles(metadata: CheckpointMetadata) -> Iterator[tuple[_Whose, StateHandle]]:
    """Yield all state of a checkpoint, with its operator; a shared file comes once."""
    shared: set[str] = set()
    for vertex in metadata.vertices:
        names = {each.operator_id: each.uid or each.name for each in vertex.operators}
        for operator in vertex.operators:
            if operator.coordinator is not None:
                yield _Whose(vertex.name, names[operator.operator_id], None, "its enumerator"), operator.coordinator
        for index, subtask in enumerate(vertex.subtasks):
            for state in subtask.operators if subtask else ():
                name = names.get(state.operator_id, state.operator_id)
                if state.operator is not None:
                    yield _Whose(vertex.name, name, index, "operator state", True), state.operator
                for keyed in state.keyed:
                    yield _Whose(vertex.name, name, index, "keyed state", True), keyed.handle
                    for file in keyed.shared_files:
                        if file.handle.path not in shared:
                            shared.add(file.handle.path)
                            yield _Whose(vertex.name, name, index, f"file {file.name}"), file.handle
            for direction in ("input", "output"):
                for channel in getattr(subtask, f"{direction}_channels", ()):
                    what = f"{direction} channel {channel.channel} of {channel.index}"
                    yield _Whose(vertex.name, "", index, what), channel.handle
